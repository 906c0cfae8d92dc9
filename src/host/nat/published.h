/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOST_NAT_PUBLISHED_H
#define DIBS_HOST_NAT_PUBLISHED_H
/* The list of published ports, and the packets that reach a point in the rules. */
#include "host/nat/nat.h"
#include "net/portbits.h"

/* More rules make the list incomplete; their ports are still known (see nat_list.ports). */
#define NAT_RULES_MAX 16384

struct nat_list {
    struct nat_rule *rules; /* the caller frees them with nat_list_done() */
    size_t n, max;
    size_t n_read; /* rules that were read for it */
    bool is_cut;
    bool is_brief; /* `ports` are known alone: nobody has asked for a rule of them */
    struct portbits ports[DIBS_PROTO_MAX + 1]; /* by protocol: every port of a rule */
};

/* The packets that reach a point. Each match narrows them; a match that dibs does not know does not, so that
 * rather too many ports count as published than too few (INV-10). */
struct nat_packets {
    unsigned protos; /* bit 1 << dibs_proto */
    bool is_v4, is_v6;
    bool has_address;
    dibs_address address;
    dibs_range ports;  /* of their destination; first 0: any */
    const char *chain; /* of the rule that matched the ports; borrowed */
};

/* All packets of a family: AF_INET, AF_INET6; 0: both. */
struct nat_packets nat_packets_of(int family);
/* Narrow the packets; false: none is left. Numbers in host order; `len` of an address: 4 or 16. */
bool nat_packets_proto(struct nat_packets *packets, unsigned ip_proto);
bool nat_packets_family(struct nat_packets *packets, int family);
bool nat_packets_ports(struct nat_packets *packets, uint16_t first, uint16_t last, const char *chain);
bool nat_packets_address(struct nat_packets *packets, const uint8_t *bytes, size_t len);

/* A place in the rules, for a text. */
struct nat_place {
    const char *table; /* "table ip nat" */
    const char *action;
};
/* Add the ports of the packets; nothing if they may have any port. A brief list needs no `place`. */
void nat_list_add(struct nat_list *list, const struct nat_packets *packets, const struct nat_place *place);
void nat_list_clear(struct nat_list *list);
void nat_list_done(struct nat_list *list);

/* Write "dnat to 10.0.0.1:80". `address` may be NULL; port 0: none. */
enum { NAT_ACTION_MAX = 79 };
void nat_action(const char *word, const uint8_t *address, size_t len, uint16_t port,
                char out[NAT_ACTION_MAX + 1]);
#endif
