/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOST_NAT_NAT_H
#define DIBS_HOST_NAT_NAT_H
/* Ports that NAT rules of our network namespace send elsewhere: no socket is bound to them, and a server that
 * binds one gets no packet. Container engines, CNI plugins and kube-proxy publish ports in this way. */
#include "dibs/dibs.h"

enum { NAT_TEXT_MAX = DIBS_NAT_TEXT_MAX };

struct nat_rule {
    dibs_proto proto;
    dibs_address address; /* the destination that the rule matches, or a wildcard */
    dibs_range ports;
    char text[NAT_TEXT_MAX + 1]; /* "table ip nat, chain DOCKER: dnat to 172.17.0.2:80" */
};

/* The rules as they were read last. */
struct nat;

/* `cache`: the path of files that keep the ports for other processes, "": none; `boot_id` is that of the
 * host. Both are borrowed. NULL: out of memory. */
struct nat *nat_open(const char *cache, const char *boot_id);
void nat_close(struct nat *nat); /* NULL is fine */

/* Read the rules again if they have changed; look at most once in a millisecond. `now_ms`: CLOCK_BOOTTIME. */
void nat_refresh(struct nat *nat, int64_t now_ms);
/* What is looked for: a port on one of the bindings. */
struct nat_question {
    const dibs_binding *bindings;
    size_t n;
    uint16_t port;
};
/* Find up to `max` rules that take packets to the port; returns how many. They are valid until the next
 * nat_refresh(). */
size_t nat_find(struct nat *nat, const struct nat_question *question, const struct nat_rule **out,
                size_t max);

/* Call fn for each rule for an address of this host, until it returns false. */
void nat_each(struct nat *nat, bool (*fn)(void *ctx, const struct nat_rule *rule), void *ctx);

/* What nat_refresh() has seen. */
struct nat_view {
    size_t n;        /* published ports and ranges */
    bool is_cut;     /* there are more rules than dibs reads */
    const char *why; /* why the rules cannot be read; NULL: they can */
};
struct nat_view nat_view(struct nat *nat);
#endif
