/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_NEAR_H
#define DIBS_BASE_NEAR_H
/* The known name that somebody probably meant. */
#include <stdbool.h>
#include <stddef.h>

enum {
    NEAR_MAX = 64,       /* bytes; what is longer is near to nothing, and costs nothing */
    NEAR_HINT_MAX = 300, /* what near_say() writes */
};

/* "web, api, ..." */
struct near_list {
    char text[256];
    size_t used;
    bool is_cut;
};
void near_list_add(struct near_list *list, const char *name);

struct near {
    const char *wanted;
    const char *name; /* the nearest so far; NULL: none is near */
    unsigned distance;
    struct near_list all; /* whatever was offered */
};

/* Is `name` nearer than what was offered before? Borrowed. */
void near_offer(struct near *best, const char *name);
/* "; did you mean 'web'?", or "; there are: web, api" when nothing is near; safe to print. */
const char *near_say(const struct near *best, char *out, size_t size);
#endif
