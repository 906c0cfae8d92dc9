/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOST_UID_MAP_H
#define DIBS_HOST_UID_MAP_H
/* Map uids of our user namespace to its parent namespace.
 *
 * dibs records and compares the uid in the parent: a user who is root by `unshare -r` stays the same user.
 * Of nested namespaces the kernel shows one level. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dibs/status.h"

#define UID_MAP_EXTENTS_MAX 340
#define UID_MAP_UNKNOWN UINT32_MAX /* (uid_t) -1: no user */

struct uid_map_extent {
    uint32_t inside, above, n;
};
struct uid_map {
    bool is_initial;   /* our uids are the host's */
    uint32_t overflow; /* stands for every user without a number here */
    size_t n;
    struct uid_map_extent extent[UID_MAP_EXTENTS_MAX];
};

dibs_status uid_map_load(struct uid_map *out, dibs_err *err);
/* Return the uid in the parent namespace, or UID_MAP_UNKNOWN. */
uint32_t uid_map_above(const struct uid_map *map, uint32_t uid);
/* The same for a uid that the kernel reports for a process or socket; it may be the overflow uid. */
uint32_t uid_map_above_seen(const struct uid_map *map, uint32_t uid);
#endif
