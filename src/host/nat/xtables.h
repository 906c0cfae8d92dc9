/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOST_NAT_XTABLES_H
#define DIBS_HOST_NAT_XTABLES_H
/* Matches and targets of iptables: the same bytes in nf_tables' compatibility and in its own tables. */
#include "host/nat/published.h"

struct xtables_part {
    const char *name; /* "multiport"; borrowed */
    uint8_t revision;
    const uint8_t *info;
    size_t len;
    bool is_v6;
};

/* The destination ports that a match allows. */
enum { XTABLES_RANGES_MAX = 15 };
struct xtables_ports {
    unsigned ip_proto; /* 0: any */
    dibs_range ranges[XTABLES_RANGES_MAX];
    size_t n;
};
/* False: the match says nothing about destination ports. */
bool xtables_match(const struct xtables_part *match, struct xtables_ports *out);
/* Return whether the target sends packets elsewhere, and write its action unless that is NULL. */
bool xtables_target(const struct xtables_part *target, char *action);
#endif
