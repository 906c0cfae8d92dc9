/* SPDX-License-Identifier: MIT */
#ifndef DIBS_STORE_ETCD_TXN_H
#define DIBS_STORE_ETCD_TXN_H
/* Build a Txn: the changes of a transaction, and compares of the records that it is based on. */
#include "base/arena.h"
#include "store/etcd/etcd_store.h"

enum {
    OPS_MAX = 120,     /* operations of one Txn over all levels; etcd's default limit is 128 */
    COMPARES_MAX = 80, /* compares of one Txn, which leaves room for nested levels */
    /* Hosts whose leases one Txn compares. The rest need no compare: the end of a lease is final. */
    OTHERS_MAX = 32,
};

/* A put or delete of a key or a range. */
struct change {
    struct etcd_op op;
    struct bytes value; /* value of a put */
};

/* The Txn of all stores that it commits. */
struct txn_draft {
    struct change *changes;
    size_t n_changes, max_changes;
    struct etcd_compare *compares;
    size_t n_compares, max_compares;
    struct arena *memory; /* memory of the keys of changes and compares */
    bool is_lost;         /* out of memory */
    struct bytes spare;   /* receives the written values when is_lost */
};
void txn_draft_done(struct txn_draft *draft);

/* One store's part of the Txn. */
struct txn_part {
    struct etcd_store *self;
    struct txn_draft *draft;
    struct node_tail tail;
    bool is_touched[SPACES][BLOCKS];
    bool attaches;              /* it writes holders of ours, attached to the lease of this host */
    uint32_t other[OTHERS_MAX]; /* hosts with expired leases whose claims end */
    size_t n_other;
};

/* Compose the part of `self`. FAILURE: out of memory; UNAVAILABLE: too many claims for a block. */
dibs_status txn_compose(struct txn_part *c, struct txn_draft *draft, struct etcd_store *self, dibs_err *err);

/* Add a delete. `end` NULL: only that key. */
void txn_delete(struct txn_part *c, const struct etcdstore_key *key, const struct etcdstore_key *end);
/* Add a compare: etcdstore_same() and the like. */
void txn_compare(struct txn_part *c, struct etcd_compare compare);

/* scope.c: add the blocks of ports that change their scope, and the removal of the fence around them. */
void txn_touch_rescoped(struct txn_part *c);
void txn_fence(struct txn_part *c);
#endif
