/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_METRICS_PARTS_H
#define DIBS_DAEMON_METRICS_PARTS_H
/* What the files of the metrics share: metrics.c counts, metrics_text.c writes. */
#include "daemon/metrics.h"

enum {
    METRICS_KINDS = DIBS_STATIC + 1,
    METRICS_STATUSES = DIBS_DENIED + 1,
    METRICS_REPAIRS = DIBS_REPAIR_REAPED + 1,
    METRICS_EVENTS = DIBS_EV_POOL + 1,
    METRICS_CLASSES = 4, /* of HTTP statuses: 2xx to 5xx */
    METRICS_LATENCIES = 8
};
/* Upper ends of the latency buckets; what is slower is in the last one. */
extern const int64_t metrics_latency_us[METRICS_LATENCIES - 1];

struct metrics_pool {
    dibs_pool pool; /* with the daemon's settings applied */
    bool is_there;
    uint64_t allocated[METRICS_KINDS];
    uint64_t refused[METRICS_KINDS][METRICS_STATUSES];
    uint64_t spilled, reaped, leaked;
};

struct metrics_latency {
    uint64_t bucket[METRICS_LATENCIES];
    uint64_t us;
};

struct metrics {
    struct engine *engine;
    const char *kube_pool; /* NULL: none */
    struct metrics_pool pools[METRICS_POOLS_MAX];
    size_t n_pools;
    bool is_stale; /* a pool has changed since they were read */
    struct metrics_pool other;
    struct portbits others[METRICS_KINDS]; /* ports of cluster pools that other hosts have, */
    uint64_t others_at;                    /* ... when so many of their changes had been told; */
    bool are_others_known;
    uint64_t repaired[METRICS_REPAIRS];
    uint64_t events[METRICS_EVENTS];
    bool is_degraded; /* claims failed for want of the ledger, and nothing has been written since */
    size_t n_routes;
    struct metrics_latency (
        *latency)[METRICS_CLASSES]; /* by route; then that of no route, then of port servers */
};

/* The pools as they are now; on failure they stay as they were. */
dibs_status metrics_load_pools(struct metrics *m, dibs_err *err);
/* What other hosts have is read anew when they have changed something since the last scrape, not more often.
 */
void metrics_load_others(struct metrics *m);
struct metrics_pool *metrics_find_pool(struct metrics *m, const char *name); /* NULL: none of its own */
#endif
