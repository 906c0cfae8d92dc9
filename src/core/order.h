/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CORE_ORDER_H
#define DIBS_CORE_ORDER_H
/* The orders in which candidates are tried: pure functions from a key and a number to a position. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct order_key {
    uint64_t salt;        /* of the ledger: the same for all processes that share it */
    const char *pool;     /* "default", or the range text of an unnamed pool */
    uint64_t entropy;     /* fresh for each request; only `random` uses it */
    const char *instance; /* dcp-stride: DCP's instance id */
    const char *proto;    /* dcp-stride: "TCP" or "UDP" */
    const char *address;  /* dcp-stride: canonical, IPv6 in brackets */
};

/* A walk that visits every position once: position k is (offset + k * step) mod total. */
struct order_walk {
    uint32_t offset;
    uint32_t step; /* coprime to total, or 1 */
};

struct order {
    const char *name;
    const char *summary;
    /* Start a request's walk at 0. NULL: the order is order_pieces(), continued from the ledger's cursor. */
    struct order_walk (*walk)(const struct order_key *key, uint32_t total);
};

/* NULL when unknown. */
const struct order *order_find(const char *name);
/* Return whether the order promises the lowest free port. */
bool order_is_lowest(const struct order *order);
/* Return the i-th registered order, NULL at the end. */
const struct order *order_at(size_t i);
/* Return position k of the walk; total >= 1, any k. */
uint32_t order_position(struct order_walk walk, uint64_t k, uint32_t total);
/* DCP's step function (seeds 1.4): `x` is hash div total. */
uint32_t order_dcp_step(uint32_t total, uint64_t x);
/* A walk from the ledger's cursor in pieces of ORDER_PIECE neighbours, so that a commit writes few blocks or
 * pages (10 instead of 52 for a group of 64). Each host that shares a pool walks its home pieces first. */
enum { ORDER_PIECE = 64 };
struct order_place { /* host number `rank` of `n`; n 0: the ledger is not shared */
    uint32_t rank, n;
};
struct order_pieces {
    uint32_t total;  /* number of positions */
    uint32_t head;   /* positions before the first whole piece */
    uint32_t n;      /* whole pieces; the positions around them come last */
    uint32_t step;   /* from piece to piece; coprime to n */
    uint32_t start;  /* position along the walk of number 0 */
    uint32_t home;   /* first home piece along the walk */
    uint32_t n_home; /* positions from `home` on that come first */
    uint32_t detour; /* random start outside the home pieces; any number */
};
/* Make the walk. `skew` (below ORDER_PIECE) is the offset of position 0 in its piece. */
struct order_pieces order_pieces(const struct order_key *key, uint32_t total, uint32_t skew);
/* Start the walk in the home pieces of that host. */
void order_pieces_set_home(struct order_pieces *pieces, struct order_place place);
/* Return the position at a step of the walk that begins at number `k`; `total` steps visit every position
 * once. *n is the number of steps from here that visit consecutive positions. */
uint32_t order_pieces_position(const struct order_pieces *pieces, uint64_t k, uint32_t step, uint32_t *n);
/* Return the position 0..total-1 that a name prefers (INV-7); it depends on the name and the salt only. */
uint32_t order_name_position(const char *name, uint64_t salt, uint32_t total);
#endif
