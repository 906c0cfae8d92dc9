/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CORE_PLAN_H
#define DIBS_CORE_PLAN_H
/* Which ports to try, and in which order (INV-8). */
#include "core/core.h"

/* What of a request's bindings decides which ports are worth a try. */
struct plan_kind {
    uint8_t protos;   /* bit (1 << proto) */
    bool is_specific; /* no binding covers every address: ports of other addresses count as free */
};

/* One pool as one request sees it. */
struct plan_pool {
    dibs_pool pool;
    uint32_t size, band;
    uint16_t split; /* first port of the upper band */
    struct plan_kind kind;
    struct portbits members;
    struct portbits choosable; /* members that dynamic choice may take */
};

struct plan_kind plan_kind_of(const dibs_claim *claim);
/* `out` is zeroed. */
void plan_pool_init(struct core *core, const dibs_pool *pool, struct plan_kind kind, struct plan_pool *out);

/* Only multiples of `align` may be chosen. */
void plan_pool_align(struct plan_pool *plan, uint32_t align);

/* Up to `max` ports of the upper band in the pool's order from number `k`, without looking at any occupancy.
 */
size_t plan_blind(struct core *core, const struct plan_pool *plan, const dibs_claim *claim, uint64_t k,
                  uint16_t *out, size_t max);

/* May it be chosen, and does no claim have it, as far as the index knows? */
bool plan_is_free(const struct core *core, const struct plan_pool *plan, uint16_t port);

/* Up to `max` ports that the index believes free: free upper, cooling upper (oldest first), free lower,
 * cooling lower, then those that other addresses have. */
size_t plan_exact(struct core *core, const struct plan_pool *plan, const dibs_claim *claim, uint64_t k,
                  uint16_t *out, size_t max);

struct plan_run {
    uint32_t n, align;
    uint16_t start; /* where to look first; 0: anywhere */
};
/* Up to `max` bases of runs that the index believes free, upper band first. */
size_t plan_runs(struct core *core, const struct plan_pool *plan, struct plan_run run, uint16_t *out,
                 size_t max);
/* The same over all ports but the `blocked` ones. */
size_t plan_runs_beside(struct core *core, const struct plan_pool *plan, const struct portbits *blocked,
                        struct plan_run run, uint16_t *out, size_t max);

/* The error when nothing is left for a run (or for one port), and what would help (refuse.c). */
dibs_status core_refuse_exhausted(struct core *core, const struct plan_pool *plan, struct plan_run run,
                                  dibs_err *err);

/* The port that the claim's name prefers, whether or not it may be chosen (INV-7). */
uint16_t plan_name_port(struct core *core, const struct plan_pool *plan, const dibs_claim *claim);
#endif
