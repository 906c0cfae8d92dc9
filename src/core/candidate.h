/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CORE_CANDIDATE_H
#define DIBS_CORE_CANDIDATE_H
/* The ports to try, in their order (INV-8). */
#include "core/core.h"
#include "core/order.h"

/* The part of a request's bindings that decides which ports are possible. */
struct candidate_kind {
    uint8_t protos;   /* bit (1 << proto) */
    bool is_specific; /* no binding covers every address: ports claimed on other addresses are possible */
};

/* One pool as one request sees it: the source of candidates. */
struct candidate_source {
    dibs_pool pool;
    uint32_t size, band;
    uint16_t split; /* first port of the upper band */
    struct candidate_kind kind;
    const struct order *order;
    struct order_pieces pieces; /* the order, if it continues from the cursor */
    struct portbits choosable;  /* ports that dynamic choice may take */
};

/* Return whether the bindings leave addresses of their port to other claims: dynamic choice then takes ports
 * that have claims on other addresses, last of all. */
bool candidate_is_specific(const dibs_binding *bindings, size_t n);
struct candidate_kind candidate_kind_of(const dibs_claim *claim);
/* Return how a request sees a pool, from the cache if possible. The core owns it. NULL: out of memory. */
const struct candidate_source *candidate_source(struct core *core, const struct call *call,
                                                const dibs_pool *pool, struct candidate_kind kind);
/* Return a copy in which only multiples of `align` are choosable; the caller frees it. NULL: no memory. */
struct candidate_source *candidate_source_aligned(const struct candidate_source *source, uint32_t align);

/* One choice among the ports of a pool. */
struct candidate_choice {
    const struct candidate_source *source;
    const dibs_claim *claim;        /* its bindings matter for some orders */
    const struct portbits *skipped; /* ports to skip */
    uint64_t cursor;                /* where the pool's order continues */
    int64_t now_ms;                 /* CLOCK_BOOTTIME */
    size_t enough;                  /* stop at this many rested ports of the upper band; at most `max` */
};

/* Return up to `max` ports that the index believes free: free upper, cooling upper (oldest first), free
 * lower, cooling lower, ports claimed on other addresses. Without an index: upper ports in order. */
size_t candidate_ports(struct core *core, const struct candidate_choice *choice, uint16_t *out, size_t max);

/* The same, from sets of ports that the caller has computed for several hosts. */
struct candidate_sets {
    struct portbits free;   /* ports without a claim */
    struct portbits rested; /* of `free`: ports that do not cool */
};
size_t candidate_ports_in(struct core *core, const struct candidate_choice *choice,
                          const struct candidate_sets *sets, uint16_t *out, size_t max);

struct candidate_run {
    uint32_t n, align;
    uint16_t start; /* port at which the search starts; 0: any */
    bool is_free;   /* the caller knows that the choosable ports have no claim; ignore the index */
};
/* Return up to `max` bases of runs that the index believes free, upper band first. */
size_t candidate_runs(struct core *core, const struct candidate_choice *choice, struct candidate_run run,
                      uint16_t *out, size_t max);

/* Write the error for a run (or one port) that no port is left for, with advice (refuse.c). */
dibs_status core_refuse_exhausted(struct core *core, const struct call *call,
                                  const struct candidate_source *source, struct candidate_run run,
                                  dibs_err *err);

/* Return the port that the claim's name prefers, whether or not it may be chosen (INV-7). */
uint16_t candidate_of_name(const struct call *call, const struct candidate_source *source,
                           const dibs_claim *claim);
#endif
