/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LEDGER_ETCD_COMPOSE_H
#define DIBS_LEDGER_ETCD_COMPOSE_H
/* A Txn in the making: what a transaction has changed in the copy, and what it is built on. */
#include "ledger/etcd_store.h"

enum {
    OPS_MAX = 120,     /* of one Txn over all its levels; etcd's default limit is 128 */
    COMPARES_MAX = 80, /* of one Txn, so that there may be levels below */
    /* Hosts whose leases it compares. More are not needed: that one has ended is final anyway. */
    OTHERS_MAX = 32,
};

struct kept_value {
    struct kept_value *next;
    struct store_key key;
    struct bytes value;
};

/* Operations that stand below others. */
struct level {
    struct level *below;
    struct etcd_op *ops;
    struct etcd_txn parts[];
};

struct composing {
    struct etcd_rows *self;
    struct node_tail tail;
    bool is_touched[SPACES][BLOCKS];
    struct kept_value *kept; /* keys and values that ops point to */
    struct etcd_op *ops;
    size_t n_ops, ops_cap;
    struct level *levels;
    struct etcd_compare *compares;
    size_t n_compares, compares_cap;
    bool is_lost;               /* out of memory */
    bool hangs;                 /* holders of ours are written, who hang on the lease of this host */
    uint32_t other[OTHERS_MAX]; /* hosts whose claims end, because their lease has */
    size_t n_other;
};

/* FAILURE: out of memory; UNAVAILABLE: more than fits. To be ended with composing_done(), whatever comes
 * back. */
dibs_status compose(struct composing *c, struct etcd_rows *self, dibs_err *err);
void composing_done(struct composing *c);

/* What it is made of. A key that lives as long as the Txn; NULL: no memory, which is remembered, and may be
 * given to the others. */
struct kept_value *compose_keep(struct composing *c, const struct store_key *key);
struct etcd_op *compose_op(struct composing *c, enum etcd_kind kind, const struct kept_value *at);
/* The value is filled in before this is called. */
void compose_put(struct composing *c, const struct kept_value *at);
/* It is as we know it; 0: not there. */
void compose_compare(struct composing *c, const struct kept_value *at, int64_t revision);
/* None of those that begin so is newer than that. */
void compose_compare_range(struct composing *c, const struct store_key *first, int64_t revision);

/* Whose block: everybody's, or that of the host with this number. */
struct block_of {
    enum store_space space;
    uint32_t node;
    uint16_t block;
};
enum { CONTENT_MAX = 8 * BLOCK_PORTS }; /* of each: a port may be several addresses' and protocols' */
struct content {
    const struct row_claim *claims[CONTENT_MAX];
    const struct ledger_slot *cooling[CONTENT_MAX];
    size_t n_claims, n_cooling;
};
/* What of it is in the copy. UNAVAILABLE: more than fits. */
dibs_status compose_collect(const struct etcd_rows *self, struct block_of of, struct content *out,
                            dibs_err *err);

/* etcd_hands.c: the blocks of other hosts whose ports change hands. */
dibs_status compose_hand_over(struct composing *c, dibs_err *err);
static inline const void *compose_record(const struct memory_change *change)
{
    return change->after ? change->after : change->before;
}

/* etcd_compose_holders.c: of a change of a claim, by its number in the journal. */
void compose_holder(struct composing *c, size_t change);
/* Who holds lives, and whose holders end does not: both as we know it. */
void compose_lease_compares(struct composing *c);
/* What others had ended is noted by this commit. */
void compose_mourned(struct composing *c);
#endif
