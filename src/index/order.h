/* SPDX-License-Identifier: MIT */
#ifndef DIBS_INDEX_ORDER_H
#define DIBS_INDEX_ORDER_H
/* In which order candidates are tried. Orders are registered by name; each is a pure
 * function from a key and a running number to a position 0..total-1. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct order_key {
    uint64_t salt;        /* of the ledger: the same for all who share it */
    const char *pool;     /* "default", or the range text of an unnamed pool */
    uint64_t entropy;     /* fresh for each request; only `random` uses it */
    const char *instance; /* dcp-stride: DCP's instance id */
    const char *proto;    /* dcp-stride: "TCP" or "UDP" */
    const char *address;  /* dcp-stride: canonical, IPv6 in brackets */
};

/* Two numbers that fix a full-cycle walk: position k is (offset + k * step) mod total. */
struct order_walk {
    uint32_t offset;
    uint32_t step; /* coprime to total, or 1 */
};

struct order {
    const char *name;
    const char *summary;
    bool uses_cursor; /* k continues from the ledger's cursor; else each request starts at 0 */
    struct order_walk (*walk)(const struct order_key *key, uint32_t total);
};

/* NULL when unknown. */
const struct order *order_find(const char *name);
/* The i-th registered order, NULL at the end. */
const struct order *order_at(size_t i);
/* total >= 1; any k. */
uint32_t order_position(struct order_walk walk, uint64_t k, uint32_t total);
/* DCP's step function (seeds 1.4): `x` is hash div total. */
uint32_t order_dcp_step(uint32_t total, uint64_t x);
/* The same in pieces of ORDER_PIECE neighbours: what is taken one after another are neighbours. `walk` is
 * that of order_near(); ledgers that know nothing of each other begin at different ports. */
enum { ORDER_PIECE = 64 };
struct order_walk order_near(const struct order_key *key, uint32_t total);
uint32_t order_near_position(struct order_walk walk, uint64_t k, uint32_t total);
/* Likewise for a pool that several hosts share: each has some pieces as its home, where it goes round
 * first. */
struct order_place { /* host number `rank` of `n`; n 0: there is no other */
    uint32_t rank, n;
};
struct order_pieces {
    struct order_walk walk; /* from piece to piece */
    uint32_t n;             /* pieces; the first and the last may have less than the others */
    uint32_t skew;          /* positions that the first one lacks in front */
    uint32_t home, n_home;  /* the first of ours along the walk, and how many */
    uint32_t detour;        /* where to begin with those of others; any number */
};
/* `skew` below ORDER_PIECE. */
struct order_pieces order_pieces(const struct order_key *key, uint32_t total, uint32_t skew,
                                 struct order_place place);
/* The position at a step of the walk that begins at number `k`; `total`: there is none. Of n * ORDER_PIECE
 * steps every position comes once. */
uint32_t order_pieces_position(const struct order_pieces *pieces, uint64_t k, uint32_t step, uint32_t total);
/* A position 0..total-1 that a name prefers (INV-7); depends on the name and salt alone. */
uint32_t order_name_position(const char *name, uint64_t salt, uint32_t total);
#endif
