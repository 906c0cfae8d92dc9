/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LEDGER_ETCD_COMPOSE_H
#define DIBS_LEDGER_ETCD_COMPOSE_H
/* A Txn in the making: what a transaction has changed in the copy, and what it is built on. */
#include "ledger/etcd_store.h"

enum {
    OPS_MAX = 120,     /* of one Txn over all its levels; etcd's default limit is 128 */
    COMPARES_MAX = 80, /* of one Txn, so that there may be levels below */
};

struct kept_value {
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
    struct kept_value **kept; /* keys and values that ops point to */
    size_t n_kept, kept_cap;
    struct etcd_op *ops;
    size_t n_ops, ops_cap;
    struct level *levels;
    struct etcd_compare *compares;
    size_t n_compares, compares_cap;
    bool is_lost; /* out of memory */
};

/* FAILURE: out of memory; UNAVAILABLE: more than fits. To be ended with composing_done(), whatever comes
 * back. */
dibs_status compose(struct composing *c, struct etcd_rows *self, dibs_err *err);
void composing_done(struct composing *c);
#endif
