/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOST_SUBUID_H
#define DIBS_HOST_SUBUID_H
/* Subordinate uids (subuid(5)): the ranges that users may use in user namespaces of their own, as rootless
 * containers do. Limits for each user count them for the owner of their range. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define SUBUID_FILE "/etc/subuid"
#define SUBUID_FILE_MAX_BYTES (4u << 20) /* some 100,000 users */

struct subuids {                /* all zero: no ranges */
    struct subuid_range *range; /* by their first uid */
    size_t n, max;
    struct stat file; /* as it was read */
};

/* Read the file again if it has changed. Return whether it has. Without a readable file there are no ranges;
 * malformed lines are skipped, as by newuidmap(1). */
bool subuids_refresh(struct subuids *map, const char *path);
/* Replace the ranges by those of a text. */
void subuids_parse(struct subuids *map, const char *text);
void subuids_done(struct subuids *map);

/* Return the owner of the range that has this uid, or the uid itself. */
uint32_t subuids_owner(const struct subuids *map, uint32_t uid);
/* Return the user whose limits count for this uid: the owner, or for a range of root's its first uid. Root
 * gives away ranges for containers, and even uids of users ("root:1000:1"): they must not use up its own. */
uint32_t subuids_account(const struct subuids *map, uint32_t uid);
#endif
