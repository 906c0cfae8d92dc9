/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CORE_PLAN_H
#define DIBS_CORE_PLAN_H
/* Which ports to try, and in which order (INV-8). */
#include "core/core.h"
#include "core/order.h"

/* The part of a request's bindings that decides which ports are worth a try. */
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
    const struct order *order;
    struct order_pieces pieces; /* the order, if it continues from the cursor */
    struct portbits choosable;  /* its ports that dynamic choice may take */
};

struct plan_kind plan_kind_of(const dibs_claim *claim);
/* Return the plan of a pool from the cache, or make it. The core owns it; it stays while fewer than PLANS_MAX
 * others are asked for. NULL: out of memory. */
const struct plan_pool *plan_pool_get(struct core *core, const struct call *call, const dibs_pool *pool,
                                      struct plan_kind kind);
/* Return a copy in which only multiples of `align` may be chosen; the caller frees it. NULL: out of memory.
 */
struct plan_pool *plan_pool_aligned(const struct plan_pool *plan, uint32_t align);

/* One choice among the ports of a pool. */
struct plan_choice {
    const struct plan_pool *plan;
    const dibs_claim *claim;       /* some orders go by its bindings */
    const struct portbits *beside; /* ports that are not proposed */
    uint64_t cursor;               /* where the pool's order continues */
    int64_t now_ms;                /* CLOCK_BOOTTIME */
    size_t enough;                 /* so many rested ports of the upper band are as good as `max` */
};

/* Up to `max` ports that the index believes free: free upper, cooling upper (oldest first), free lower,
 * cooling lower, then those that other addresses have. While the index is not loaded: ports of the upper band
 * in the pool's order. */
size_t plan_ports(struct core *core, const struct plan_choice *choice, uint16_t *out, size_t max);

/* The same among ports of which the caller knows what they are; several hosts choose from them. */
struct plan_sets {
    struct portbits free;   /* they have no claim */
    struct portbits rested; /* ... and do not cool */
};
size_t plan_by_sets(struct core *core, const struct plan_choice *choice, const struct plan_sets *sets,
                    uint16_t *out, size_t max);

struct plan_run {
    uint32_t n, align;
    uint16_t start; /* where to look first; 0: anywhere */
    bool is_free;   /* what may be chosen has no claim, whatever the index says */
};
/* Up to `max` bases of runs that the index believes free, upper band first. */
size_t plan_runs(struct core *core, const struct plan_choice *choice, struct plan_run run, uint16_t *out,
                 size_t max);

/* The error when nothing is left for a run (or for one port), and what would help (refuse.c). */
dibs_status core_refuse_exhausted(struct core *core, const struct call *call, const struct plan_pool *plan,
                                  struct plan_run run, dibs_err *err);

/* The port that the claim's name prefers, whether or not it may be chosen (INV-7). */
uint16_t plan_name_port(const struct call *call, const struct plan_pool *plan, const dibs_claim *claim);
#endif
