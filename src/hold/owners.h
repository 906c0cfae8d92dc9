/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOLD_OWNERS_H
#define DIBS_HOLD_OWNERS_H
/* The kernel's maps of claimed ports (hold/bpf/ports_map.h): the owners of each port. Several steps change a
 * port, while the kernel's programs read it: at no moment does an owner miss that was there before and stays.
 */
#include <linux/bpf.h>
#include <stdbool.h>
#include <stdint.h>

#include "hold/bpf/ports_map.h"

/* Debian's C library has no function for the system call bpf, and libbpf is not linked into the daemon. */
int owners_bpf(enum bpf_cmd command, union bpf_attr *attr);
/* A call about one element of a map; `value` of BPF_MAP_GET_NEXT_KEY is the next key. */
int owners_map_call(enum bpf_cmd command, int fd, const void *key, const void *value);

struct owners_maps {
    int claimed;             /* the hash table; borrowed */
    uint64_t netns;          /* cookie of our network namespace */
    struct ports_owner *own; /* the array, in our memory too */
};
/* `own`: the array. -1 with errno. */
int owners_open(int claimed, int own, struct owners_maps *maps);
void owners_close(struct owners_maps *maps); /* nothing is open: fine */

/* Replace the claim's owners of the port by these `n` (0: remove them). -1 with errno; ENOSPC: the port has
 * PORTS_OWNERS_MAX already. key->index is ignored. */
int owners_replace(const struct owners_maps *maps, struct ports_key key, uint64_t claim_id,
                   const struct ports_owner *with, uint32_t n);
/* Remove the owners of claims that are not known. */
void owners_sweep(const struct owners_maps *maps, bool (*is_known)(const void *ctx, uint64_t claim_id),
                  const void *ctx);
#endif
