/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_NEAR_H
#define DIBS_BASE_NEAR_H
/* The known name that somebody probably meant. */

enum { NEAR_MAX = 64 }; /* bytes; what is longer is near to nothing, and costs nothing */

struct near {
    const char *wanted;
    const char *name; /* the nearest so far; NULL: none is near */
    unsigned distance;
};

/* Is `name` nearer than what was offered before? Borrowed. */
void near_offer(struct near *best, const char *name);
#endif
