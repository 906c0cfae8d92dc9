/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LEDGER_ETCD_HANDS_H
#define DIBS_LEDGER_ETCD_HANDS_H
/* Ports that change hands: from their hosts to everybody, when a pool of the scope `cluster` gets them, or
 * back. Their claims go along in the Txn that changes the pool.
 *
 * What other hosts have on ports that become everybody's must be known whole. So first a fence is put around
 * these ports: a record among the pools, which every commit compares, so that from then on nobody claims
 * one. Then all hosts' blocks there are read. The fence ends with the Txn; when who put it dies, with its
 * lease. */
#include "ledger/etcd_store.h"

/* Of another host, as it was read; claims that leave it are in the copy, too. */
struct hand_block {
    size_t node; /* place in the store's list */
    uint16_t block;
    struct row_claim *claims;
    size_t n_claims;
    struct ledger_slot *cooling;
    size_t n_cooling;
};

struct store_hands {
    struct portbits changed; /* all that have, or had for a while */
    struct portbits fenced;
    int64_t lease, fence_revision; /* 0: there is none */
    int64_t revision;              /* when the first of the others were read; 0: none was */
    struct hand_block *blocks;
    size_t n_blocks, cap;
};

/* etcd_others.c. NULL: there is none yet, or no memory for it. */
struct hand_block *hands_block(struct store_hands *hands, size_t node, uint16_t block);
struct hand_block *hands_make_block(struct store_hands *hands, size_t node, uint16_t block);
/* All that other hosts have on blocks with such ports. UNAVAILABLE and beaten: there is a host that we do not
 * know. */
dibs_status hands_read(struct etcd_rows *self, const struct portbits *ports, dibs_err *err);
#endif
