/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOST_NAT_CACHE_H
#define DIBS_HOST_NAT_CACHE_H
/* The ports that rules publish, in files: a command would need some milliseconds to read a thousand rules
 * itself. Only root reads rules, so the files are root's alone. */
#include "host/nat/published.h"

enum { NAT_CACHE_MANY = 32 }; /* rules that take longer to read than a file */

struct nat_cache {
    const char *path, *boot_id; /* "": there are no files; borrowed */
    uint64_t netns_cookie;      /* never used again before the next boot; 0: not known yet */
};

/* Which rules a file has. */
enum { NAT_CACHE_STATE_MAX = 96 };
struct nat_cache_key {
    const char *part;  /* the end of the file's name */
    const void *state; /* of the rules: changes with them */
    size_t n_state;
};
/* Read the ports alone: the list is brief. False, and nothing is changed: there is no file, or it has other
 * rules, or is not what we wrote. `read_ms`: when the rules were read. */
bool nat_cache_read(struct nat_cache *cache, const struct nat_cache_key *key, struct nat_list *list,
                    int64_t *read_ms);
/* Replace the file. A failure costs time alone. */
void nat_cache_write(struct nat_cache *cache, const struct nat_cache_key *key, const struct nat_list *list,
                     int64_t read_ms);
#endif
