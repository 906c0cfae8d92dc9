/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOST_NAT_LEGACY_H
#define DIBS_HOST_NAT_LEGACY_H
/* The NAT tables of iptables-legacy and ip6tables-legacy, which the kernel keeps beside nf_tables. */
#include "host/nat/cache.h"

enum { LEGACY_HOOKS = 5 };

/* A table as the kernel gives it. */
struct legacy_table {
    bool is_v6;
    uint32_t first[LEGACY_HOOKS];  /* where the chain of a hook begins */
    uint32_t policy[LEGACY_HOOKS]; /* its last entry */
    uint32_t hooks;                /* bit 1 << hook: it has a chain */
    const uint8_t *entries;
    size_t n; /* bytes */
};
/* Add to the list what the table publishes. */
void legacy_publish(const struct legacy_table *table, struct nat_list *list);

struct ipt_getinfo;

/* One family's table, as it was read last; start with zeros and the descriptors at -1. */
struct legacy {
    bool is_v6;
    int names; /* the kernel's list of tables: asking for a table itself would make it */
    int fd;
    struct ipt_getinfo *info; /* of the entries in `list` */
    int64_t read_ms, looked_ms;
    struct nat_list list;
};
/* Read the ports of the table again if its size has changed, or after a second: unlike nf_tables it has no
 * number that every change increases. */
void legacy_refresh(struct legacy *legacy, struct nat_cache *cache, int64_t now_ms);
/* Read its rules, too. */
void legacy_load(struct legacy *legacy);
void legacy_done(struct legacy *legacy);
#endif
