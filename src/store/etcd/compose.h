/* SPDX-License-Identifier: MIT */
#ifndef DIBS_STORE_ETCD_COMPOSE_H
#define DIBS_STORE_ETCD_COMPOSE_H
/* Builds a Txn: the changes of a transaction, and the compares of what it was based on. */
#include "base/arena.h"
#include "store/etcd/etcd_store.h"

enum {
    OPS_MAX = 120,     /* of one Txn over all its levels; etcd's default limit is 128 */
    COMPARES_MAX = 80, /* of one Txn, so that there may be levels below */
    /* Hosts whose leases it compares. More are not needed: that one has ended is final anyway. */
    OTHERS_MAX = 32,
};

/* A key, or a range of them, is put or deleted. */
struct change {
    struct etcd_op op;
    struct bytes value; /* of a put */
};

/* Of all stores that one Txn commits. */
struct txn_plan {
    struct change *changes;
    size_t n_changes, max_changes;
    struct etcd_compare *compares;
    size_t n_compares, max_compares;
    struct arena *memory; /* of the keys of both */
    bool is_lost;         /* out of memory */
    struct bytes spare;   /* is filled in then */
};
void txn_plan_done(struct txn_plan *plan);

/* The part of one store in the Txn. */
struct composing {
    struct etcd_store *self;
    struct txn_plan *plan;
    struct node_tail tail;
    bool is_touched[SPACES][BLOCKS];
    bool attaches;              /* holders of ours are written, attached to the lease of this host */
    uint32_t other[OTHERS_MAX]; /* hosts whose claims end, because their lease has */
    size_t n_other;
};

/* FAILURE: out of memory; UNAVAILABLE: more than fits. */
dibs_status compose(struct composing *c, struct txn_plan *plan, struct etcd_store *self, dibs_err *err);

/* `end` NULL: that key alone. */
void compose_delete(struct composing *c, const struct etcdstore_key *key, const struct etcdstore_key *end);
/* Add a compare: etcdstore_same() and the like. */
void compose_compare(struct composing *c, struct etcd_compare compare);

/* scope.c: the blocks of ports that change their scope, and the end of the fence around these. */
void compose_touch_rescoped(struct composing *c);
void compose_fence(struct composing *c);
#endif
