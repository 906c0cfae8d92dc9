/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOST_NAT_NFT_H
#define DIBS_HOST_NAT_NFT_H
/* The rules of nf_tables, as the kernel sends them: chains, rules, sets and their elements. iptables-nft
 * makes such rules, too; libnftables does not show the ports of its matches and targets. */
#include "host/nat/netlink.h"
#include "host/nat/published.h"

/* What names a chain or a set. */
struct nft_key {
    uint8_t family; /* NFPROTO_... */
    const char *table, *name;
};

struct nft_rule {
    struct nft_key chain;
    struct nat_attrs expressions;
    const struct nft_rule *next; /* of the same chain */
};

struct nft_chain {
    struct nft_key key;
    bool is_entry; /* packets that arrive, or that this host sends, begin here */
    struct nft_rule *first, *last;
};

/* What an element of a set matches, and what a map has for it. */
struct nft_element {
    const uint8_t *low, *high; /* inclusive; both NULL: anything */
    size_t len;
    bool is_end; /* of a set of intervals: no element, but the end of the one before */
    struct nat_attrs data;
};
struct nft_set {
    struct nft_key key;
    uint32_t flags;
    bool is_loaded; /* with its elements */
    bool is_ordered;
    struct nft_element *elements;
    size_t n, max;
};

struct nft_rules {
    struct arena *arena;
    struct nft_chain *chains;
    size_t n_chains, max_chains;
    struct nft_rule *rules;
    size_t n_rules, max_rules;
    struct nft_set *sets;
    size_t n_sets, max_sets;
    bool is_cut; /* out of memory, or more than the limits allow */
    bool is_linked;
    /* Load the elements of a set; NULL: all are loaded. */
    void (*load)(void *ctx, struct nft_rules *rules, struct nft_set *set);
    void *load_ctx;
};
/* Take an object, a `nat_object_fn`; `ctx` is a struct nft_rules. */
void nft_take(void *ctx, const struct nat_object *object);
/* Order what was taken, for the functions below. Chains and sets come before rules and elements. */
void nft_link(struct nft_rules *rules);
void nft_done(struct nft_rules *rules);
struct nft_chain *nft_find_chain(const struct nft_rules *rules, const struct nft_key *key);
/* Return the set with its elements, or NULL. */
const struct nft_set *nft_find_set(struct nft_rules *rules, const struct nft_key *key);

/* Add to the list what the rules publish. */
void nft_publish(struct nft_rules *rules, struct nat_list *list);

/* Read the ruleset of the kernel. 0, or an errno as nat_netlink_list(). */
int nft_read(struct nat_netlink *nl, struct nat_list *list);
#endif
