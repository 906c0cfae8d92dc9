/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOST_NAT_CACHE_H
#define DIBS_HOST_NAT_CACHE_H
/* What nf_tables publishes, in a file: a command would need some milliseconds to read a thousand rules
 * itself. Only root reads rules, so the file is root's alone. */
#include "host/nat/published.h"

/* Which rules a file has. The cookie of a network namespace is never used again before the next boot. */
struct nat_cache_key {
    const char *path, *boot_id;
    uint64_t netns_cookie;
    uint32_t generation;
};
/* Read the file. False, and `list` is empty: there is none, or it has other rules, or is not what we wrote.
 */
bool nat_cache_read(const struct nat_cache_key *key, struct nat_list *list);
/* Replace the file. A failure costs time alone. */
void nat_cache_write(const struct nat_cache_key *key, const struct nat_list *list);
#endif
