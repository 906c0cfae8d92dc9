/* SPDX-License-Identifier: MIT */
#ifndef DIBS_STORE_ETCD_COMPOSE_H
#define DIBS_STORE_ETCD_COMPOSE_H
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
struct txn_plan {
    struct change *changes;
    size_t n_changes, max_changes;
    struct etcd_compare *compares;
    size_t n_compares, max_compares;
    struct arena *memory; /* memory of the keys of changes and compares */
    bool is_lost;         /* out of memory */
    struct bytes spare;   /* receives the written values when is_lost */
};
void txn_plan_done(struct txn_plan *plan);

/* One store's part of the Txn. */
struct composing {
    struct etcd_store *self;
    struct txn_plan *plan;
    struct node_tail tail;
    bool is_touched[SPACES][BLOCKS];
    bool attaches;              /* it writes holders of ours, attached to the lease of this host */
    uint32_t other[OTHERS_MAX]; /* hosts with expired leases whose claims end */
    size_t n_other;
};

/* Compose the part of `self`. FAILURE: out of memory; UNAVAILABLE: too many claims for a block. */
dibs_status compose(struct composing *c, struct txn_plan *plan, struct etcd_store *self, dibs_err *err);

/* Add a delete. `end` NULL: only that key. */
void compose_delete(struct composing *c, const struct etcdstore_key *key, const struct etcdstore_key *end);
/* Add a compare: etcdstore_same() and the like. */
void compose_compare(struct composing *c, struct etcd_compare compare);

/* scope.c: add the blocks of ports that change their scope, and the removal of the fence around them. */
void compose_touch_rescoped(struct composing *c);
void compose_fence(struct composing *c);
#endif
