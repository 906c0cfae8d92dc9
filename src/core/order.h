/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CORE_ORDER_H
#define DIBS_CORE_ORDER_H
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
    /* NULL: it is order_pieces(), continued from the ledger's cursor. Each request starts a walk at 0. */
    struct order_walk (*walk)(const struct order_key *key, uint32_t total);
};

/* NULL when unknown. */
const struct order *order_find(const char *name);
/* Does it promise the lowest free port? */
bool order_is_lowest(const struct order *order);
/* The i-th registered order, NULL at the end. */
const struct order *order_at(size_t i);
/* total >= 1; any k. */
uint32_t order_position(struct order_walk walk, uint64_t k, uint32_t total);
/* DCP's step function (seeds 1.4): `x` is hash div total. */
uint32_t order_dcp_step(uint32_t total, uint64_t x);
/* A walk of the ledger's cursor in pieces of ORDER_PIECE neighbours, so that claims that follow each other
 * are neighbours: what is committed together is then written to few blocks of a shared ledger, or to few
 * pages of a file (10 instead of 52 for a group of 64). Hosts that share a pool have pieces of their own as
 * their home, where they walk first. */
enum { ORDER_PIECE = 64 };
struct order_place { /* host number `rank` of `n`; n 0: there is no other */
    uint32_t rank, n;
};
struct order_pieces {
    uint32_t total;  /* positions */
    uint32_t head;   /* of them before the first whole piece */
    uint32_t n;      /* whole pieces; the positions around them come last */
    uint32_t step;   /* from piece to piece, coprime to n */
    uint32_t start;  /* along the walk, of number 0 */
    uint32_t home;   /* our first piece along the walk */
    uint32_t n_home; /* positions from there on that come first */
    uint32_t detour; /* where to begin with the others; any number */
};
/* `skew` (below ORDER_PIECE): position 0 is so far into a piece. */
struct order_pieces order_pieces(const struct order_key *key, uint32_t total, uint32_t skew);
/* Begin in the home of that host. */
void order_pieces_settle(struct order_pieces *pieces, struct order_place place);
/* The position at a step of the walk that begins at number `k`; `total` steps visit every position once.
 * *n is how many steps from this one on go to neighbours, one position after the other. */
uint32_t order_pieces_position(const struct order_pieces *pieces, uint64_t k, uint32_t step, uint32_t *n);
/* A position 0..total-1 that a name prefers (INV-7); depends on the name and salt alone. */
uint32_t order_name_position(const char *name, uint64_t salt, uint32_t total);
#endif
