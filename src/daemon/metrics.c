/* SPDX-License-Identifier: MIT */
/* Count events and write them as Prometheus metrics. No label needs an escape: pool names consist of
 * letters, digits, '.', '_' and '-', and all other values are ours. */
#include "daemon/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "codec/wire.h"
#include "daemon/api/internal.h"
#include "hold/holds.h"
#include "server/metric_registry.h"

#include "base/banned.h"

#define DEFAULT_POOL "default"

enum {
    KINDS = DIBS_STATIC + 1,
    STATUSES = DIBS_DENIED + 1,
    REPAIRS = DIBS_REPAIR_REAPED + 1,
    EVENTS = DIBS_EV_POOL + 1,
    CLASSES = 4, /* classes of HTTP status: 2xx to 5xx */
};

/* Requests without a row in the table of routes: no route, a port server's, a page's. */
enum beside { OTHER, PORTSERVER, PAGES, N_BESIDE };

struct metrics_pool {
    dibs_pool pool; /* with the daemon's settings applied */
    bool is_there;
    uint64_t allocated[KINDS];
    uint64_t refused[KINDS][STATUSES];
    uint64_t spilled;
    uint64_t events[EVENTS];
};

struct metrics {
    struct engine *engine;
    const char *kube_pool; /* NULL: none */
    struct metrics_pool pools[METRICS_POOLS_MAX];
    size_t n_pools;
    bool is_stale; /* a pool has changed since `pools` was read */
    struct metrics_pool other;
    struct portbits others[KINDS]; /* cluster pools' ports that other hosts have claimed */
    uint64_t others_at;            /* count of other hosts' changes when `others` was read */
    uint64_t repaired[REPAIRS];
    uint64_t events[EVENTS];
    int64_t started_ms; /* wall time */
    bool is_degraded; /* claims failed because the ledger was unavailable, and no write has succeeded since */
    size_t n_routes;
    /* One row per route, then those of `enum beside`. */
    struct metric_latency latency[][CLASSES];
};

/* From a read out of memory to a commit on a slow disk. */
static metric_bounds latency_us = { 250, 1000, 4000, 16000, 64000, 256000, 1000000 };

static struct metrics_pool *find_pool(struct metrics *m, const char *name)
{
    for (size_t i = 0; i < m->n_pools; i++)
        if (strcmp(m->pools[i].pool.name, name) == 0)
            return &m->pools[i];
    return NULL;
}

/* Add a pool. Invalid names are refused: every damaged record would make another label. */
static bool note_pool(void *ctx, const dibs_pool *pool)
{
    struct metrics *m = ctx;
    struct metrics_pool *known = find_pool(m, pool->name);

    if (!known && m->n_pools < METRICS_POOLS_MAX && core_pool_check(pool, NULL) == DIBS_OK) {
        known = &m->pools[m->n_pools++];
        *known = (struct metrics_pool){ .pool = *pool };
    }
    if (known)
        known->is_there = true;
    return true;
}

/* Read the current pools; on failure the known ones stay. */
static dibs_status load_pools(struct metrics *m, dibs_err *err)
{
    const struct call call = handle_call(m->engine->handle);
    struct core *core = m->engine->core;
    size_t n = 0;

    for (size_t i = 0; i < m->n_pools; i++)
        m->pools[i].is_there = false;
    core->last_pool.is_loaded = false; /* do not use the cached pool */
    dibs_status s = core_pool_list(core, &call, note_pool, m, err);
    for (size_t i = 0; i < m->n_pools && s == DIBS_OK; i++) {
        struct metrics_pool *pool = &m->pools[i];

        if (pool->is_there)
            s = core_pool(core, &call, pool->pool.name, NULL, &pool->pool, err);
    }
    if (s != DIBS_OK)
        return s;
    m->is_stale = false;
    for (size_t i = 0; i < m->n_pools; i++) {
        const char *name = m->pools[i].pool.name;

        if (m->pools[i].is_there || strcmp(name, DEFAULT_POOL) == 0 ||
            (m->kube_pool && strcmp(name, m->kube_pool) == 0))
            m->pools[n++] = m->pools[i];
    }
    m->n_pools = n;
    return DIBS_OK;
}

static bool note_other(void *ctx, const dibs_claim *claim)
{
    struct portbits *others = ctx;

    if (claim->node[0])
        portbits_add(&others[claim->kind == DIBS_STATIC ? DIBS_STATIC : DIBS_DYNAMIC], claim->port);
    return true;
}

/* Read the ports of other hosts again if these have changed something since the last scrape. */
static void load_others(struct metrics *m)
{
    const struct call call = handle_call(m->engine->handle);
    struct ledger *ledger = m->engine->ledger;
    struct portbits others[KINDS] = { 0 };

    if (ledger_notices(ledger) < 0)
        return; /* no other host shares the ledger */
    uint64_t notices = ledger_take_notices(ledger);
    if (notices == m->others_at)
        return;
    if (ledger_list(ledger, &call, &(struct ledger_filter){ 0 }, note_other, others, NULL) != DIBS_OK)
        return; /* keep the last known state; the next scrape tries again */
    memcpy(m->others, others, sizeof m->others);
    m->others_at = notices;
}

/* Return the pool in which a claim was made; when that is unknown, a pool that contains its port. */
static struct metrics_pool *pool_of(struct metrics *m, const dibs_event *event, const char *pool)
{
    struct metrics_pool *found = pool ? find_pool(m, pool) : NULL;

    for (size_t i = 0; i < m->n_pools && !pool && !found; i++)
        if (dibs_ranges_contain(&m->pools[i].pool.ranges, event->port))
            found = &m->pools[i];
    return found ? found : &m->other;
}

/* ---- counting ---- */

static void note_claim(struct metrics_pool *pool, const dibs_event *event)
{
    const dibs_ranges *ranges = &pool->pool.ranges;

    pool->allocated[event->is_dynamic ? DIBS_DYNAMIC : DIBS_STATIC]++;
    if (event->is_dynamic && dibs_ranges_contain(ranges, event->port) &&
        event->port < dibs_ranges_at(ranges, core_band(&pool->pool)))
        pool->spilled++;
}

void metrics_changed(struct metrics *metrics, const dibs_event *event, const char *pool)
{
    metrics->is_degraded = false;
    if (metrics->is_stale)
        (void) load_pools(metrics, NULL); /* the next change or scrape tries again */
    struct metrics_pool *of = pool_of(metrics, event, pool);
    if ((unsigned) event->kind < EVENTS) {
        metrics->events[event->kind]++;
        of->events[event->kind]++;
    }
    if (event->kind == DIBS_EV_CLAIMED)
        note_claim(of, event);
    if (event->kind == DIBS_EV_POOL)
        metrics->is_stale = true;
}

void metrics_reset(struct metrics *metrics)
{
    metrics->is_stale = true;
}

void metrics_refused(struct metrics *metrics, const dibs_batch *batch, const dibs_settings *settings,
                     dibs_status status)
{
    const dibs_request *first = batch->n > 0 ? batch->requests : &(dibs_request){ 0 };
    const char *name = first->ranges ? "" : first->pool ? first->pool : settings->pool;
    struct metrics_pool *pool = find_pool(metrics, name);
    /* A request with a preferred port accepts any other, so it is dynamic. */
    bool is_static = first->mode == DIBS_REQUIRED || first->mode == DIBS_DECLARED;

    (pool ? pool : &metrics->other)->refused[is_static][status]++;
    metrics->is_degraded = metrics->is_degraded || status == DIBS_UNAVAILABLE;
}

void metrics_repaired(struct metrics *metrics, dibs_repair_kind kind)
{
    if ((unsigned) kind < REPAIRS)
        metrics->repaired[kind]++;
}

const struct api_route metrics_portserver = { .route = { .method = "", .path = "(portserver)" } };

void metrics_request(struct metrics *metrics, const struct api_route *route, int status, int64_t us)
{
    size_t place = metrics->n_routes + (!route ? OTHER : route->route.flags & API_PAGE ? PAGES : PORTSERVER);
    int class = status / 100 - 2;

    if (class < 0 || class >= CLASSES)
        return;
    if (route >= api_routes && route < api_routes + metrics->n_routes)
        place = (size_t) (route - api_routes);
    metric_observe(&metrics->latency[place][class], &latency_us, us);
}

static const char *const kinds[KINDS] = { [DIBS_DYNAMIC] = "dynamic", [DIBS_STATIC] = "static" };

/* ---- text: pools ---- */

/* Return the i-th pool; the last one stands for all others. */
static const struct metrics_pool *pool_at(const struct metrics *m, size_t i)
{
    return i < m->n_pools ? &m->pools[i] : &m->other;
}

static void write_usage(const struct metrics *m, const struct core_room *usage, struct metric_writer *w)
{
    for (size_t i = 0; i <= m->n_pools; i++) {
        const char *pool = pool_at(m, i)->pool.name;

        metric_add(w, METRIC_ALLOCATED_PORTS, usage[i].usage.n_static, "pool=\"%s\",kind=\"static\"", pool);
        metric_add(w, METRIC_ALLOCATED_PORTS, usage[i].usage.n_dynamic, "pool=\"%s\",kind=\"dynamic\"", pool);
    }
    for (size_t i = 0; i < m->n_pools; i++) {
        const char *pool = m->pools[i].pool.name;
        uint32_t low = usage[i].n_available_low;

        metric_add(w, METRIC_AVAILABLE_PORTS, low, "pool=\"%s\",band=\"static\"", pool);
        metric_add(w, METRIC_AVAILABLE_PORTS, usage[i].usage.n_available - low,
                   "pool=\"%s\",band=\"dynamic\"", pool);
    }
}

static void write_errors(const struct metrics_pool *pool, struct metric_writer *w)
{
    for (size_t kind = 0; kind < KINDS; kind++)
        for (size_t status = DIBS_FAILURE; status < STATUSES; status++)
            metric_add(w, METRIC_ALLOCATION_ERRORS, pool->refused[kind][status],
                       "pool=\"%s\",scope=\"%s\",reason=\"%s\"", pool->pool.name, kinds[kind],
                       wire_code_text((dibs_status) status));
}

static void write_counters(const struct metrics *m, struct metric_writer *w)
{
    for (size_t i = 0; i <= m->n_pools; i++)
        for (size_t kind = 0; kind < KINDS; kind++)
            metric_add(w, METRIC_ALLOCATIONS, pool_at(m, i)->allocated[kind], "pool=\"%s\",scope=\"%s\"",
                       pool_at(m, i)->pool.name, kinds[kind]);
    for (size_t i = 0; i <= m->n_pools; i++)
        write_errors(pool_at(m, i), w);
    for (size_t i = 0; i <= m->n_pools; i++)
        metric_add(w, METRIC_SPILLED, pool_at(m, i)->spilled, "pool=\"%s\"", pool_at(m, i)->pool.name);
    for (size_t i = 0; i <= m->n_pools; i++)
        metric_add(w, METRIC_REAPED, pool_at(m, i)->events[DIBS_EV_REAPED], "pool=\"%s\"",
                   pool_at(m, i)->pool.name);
    for (size_t i = 0; i <= m->n_pools; i++)
        metric_add(w, METRIC_LEAKED, pool_at(m, i)->events[DIBS_EV_LEAKED], "pool=\"%s\"",
                   pool_at(m, i)->pool.name);
}

/* Write the metrics of KEP-3668. Unlike Kubernetes' own, their series exist from the start. */
static void write_nodeports(const struct metrics_pool *pool, const dibs_pool_usage *usage,
                            struct metric_writer *w)
{
    uint64_t errors[KINDS] = { 0 };

    for (size_t kind = 0; kind < KINDS; kind++)
        for (size_t status = DIBS_FAILURE; status < STATUSES; status++)
            errors[kind] += pool->refused[kind][status];
    metric_add_nodeports(w, &(struct metric_nodeports){ .size = usage->size,
                                                        .allocated = usage->n_static + usage->n_dynamic,
                                                        .allocations = pool->allocated,
                                                        .errors = errors });
}

static void write_pools(struct metrics *m, struct metric_writer *w)
{
    const struct call call = handle_call(m->engine->handle); /* the same for every caller */
    struct core *core = m->engine->core;
    struct portbits all[KINDS];
    const struct portbits *const used[KINDS] = { &all[0], &all[1] };
    struct core_room usage[METRICS_POOLS_MAX + 1];

    engine_ports(m->engine, all);
    load_others(m);
    for (size_t kind = 0; kind < KINDS; kind++)
        portbits_add_all(&all[kind], &m->others[kind]);
    struct portbits outside[KINDS] = { all[0], all[1] };

    for (size_t i = 0; i < m->n_pools; i++) {
        const dibs_ranges *ranges = &m->pools[i].pool.ranges;

        core_pool_room(core, &call, &m->pools[i].pool, used, &usage[i]);
        for (size_t k = 0; k < KINDS * ranges->n; k++)
            portbits_remove_range(&outside[k % KINDS], ranges->item[k / KINDS]);
    }
    portbits_subtract(&outside[DIBS_DYNAMIC], &outside[DIBS_STATIC]);
    usage[m->n_pools] = (struct core_room){ .usage.n_static = portbits_count(&outside[DIBS_STATIC]),
                                            .usage.n_dynamic = portbits_count(&outside[DIBS_DYNAMIC]) };
    write_usage(m, usage, w);
    write_counters(m, w);
    const struct metrics_pool *kube = m->kube_pool ? find_pool(m, m->kube_pool) : NULL;
    if (kube)
        write_nodeports(kube, &usage[kube - m->pools].usage, w);
}

/* ---- text: the daemon ---- */

static void write_latency(const struct metrics *m, const struct route *route, size_t place,
                          struct metric_writer *w)
{
    for (int class = 0; class < CLASSES; class ++) {
        char labels[128];

        (void) snprintf(labels, sizeof labels, "route=\"%s%s%s\",code=\"%dxx\"", route->method,
                        route->method[0] ? " " : "", route->path, class + 2);
        metric_add_latency(w, METRIC_REQUEST_DURATION, &latency_us, &m->latency[place][class], labels);
    }
}

static void write_requests(const struct metrics *m, size_t connections, struct metric_writer *w)
{
    static const struct route other = { .method = "", .path = "(other)" };
    static const struct route pages = { .method = "", .path = "(pages)" };

    metric_add(w, METRIC_CONNECTIONS, connections, NULL);
    for (size_t i = 0; i < m->n_routes; i++)
        write_latency(m, &api_routes[i].route, i, w);
    write_latency(m, &other, m->n_routes + OTHER, w);
    write_latency(m, &metrics_portserver.route, m->n_routes + PORTSERVER, w);
    write_latency(m, &pages, m->n_routes + PAGES, w);
}

static void write_commits(const struct group_commit_counts *counts, struct metric_writer *w)
{
    uint64_t n = 0;

    for (size_t i = 0; i < GROUP_COMMIT_SIZES; i++) {
        n += counts->by_jobs[i];
        metric_add_part(w, METRIC_COMMIT_JOBS, "_bucket", n, "le=\"%u\"", 1u << i);
    }
    metric_add_part(w, METRIC_COMMIT_JOBS, "_bucket", counts->commits, "le=\"+Inf\"");
    metric_add_part(w, METRIC_COMMIT_JOBS, "_sum", counts->jobs, NULL);
    metric_add_part(w, METRIC_COMMIT_JOBS, "_count", counts->commits, NULL);
    metric_add_latency(w, METRIC_COMMIT_DURATION, &group_commit_us, &counts->duration, "");
    metric_add(w, METRIC_COMMITS_FAILED, counts->failed, NULL);
}

static void write_cluster(const struct metrics *m, struct metric_writer *w)
{
    struct ledger_lease lease;

    ledger_lease(m->engine->ledger, &lease);
    if (!lease.is_cluster)
        return;
    metric_add_us(w, METRIC_LEASE_MARGIN, "", (uint64_t) lease.margin_ms * 1000, NULL);
    metric_add(w, METRIC_LEASES_LOST, lease.n_ended, NULL);
}

/* Write the metrics of a ledger that hosts share. */
static void write_traffic(const struct ledger_traffic *t, struct metric_writer *w)
{
    for (size_t i = 0; i < LEDGER_TXN_BUCKETS; i++)
        metric_add_part(w, METRIC_ETCD_COMMIT, "_bucket", t->n_within[i], "le=\"%.4f\"",
                        (double) LEDGER_TXN_US_MAX(i) / 1e6);
    metric_add_part(w, METRIC_ETCD_COMMIT, "_bucket", t->n_commits, "le=\"+Inf\"");
    metric_add_us(w, METRIC_ETCD_COMMIT, "_sum", (uint64_t) t->total_us, NULL);
    metric_add_part(w, METRIC_ETCD_COMMIT, "_count", t->n_commits, NULL);
    metric_add(w, METRIC_ETCD_CONFLICTS, t->n_conflicts, NULL);
    metric_add(w, METRIC_ETCD_COMPACTIONS, t->n_compactions, NULL);
    metric_add(w, METRIC_ETCD_RETRIES, t->n_retries, NULL);
    metric_add(w, METRIC_ETCD_LOADS, t->n_loads, NULL);
    if (t->lag_ms >= 0)
        metric_add_us(w, METRIC_ETCD_WATCH_LAG, "", (uint64_t) t->lag_ms * 1000, NULL);
}

static void write_claims(const struct metrics *m, const struct engine_counts *counts, struct metric_writer *w)
{
    const struct holds_counts guards = holds_count(m->engine->holds);

    metric_add(w, METRIC_CLAIMS, counts->claims, NULL);
    metric_add(w, METRIC_WATCHED_PROCESSES, counts->by_pidfd, "by=\"pidfd\"");
    metric_add(w, METRIC_WATCHED_PROCESSES, counts->in_turn, "by=\"turn\"");
    metric_add(w, METRIC_WATCHED_PROCESSES, counts->far, "by=\"far\"");
    metric_add(w, METRIC_LINGERING_CLAIMS, counts->lingering, NULL);
    metric_add(w, METRIC_GUARDS, guards.bound, "state=\"bound\"");
    metric_add(w, METRIC_GUARDS, guards.waiting, "state=\"waiting\"");
    metric_add(w, METRIC_ENFORCES, m->engine->enforce != NULL, NULL);
    metric_add(w, METRIC_UNENFORCED_CLAIMS, counts->unenforced, NULL);
    for (int kind = DIBS_EV_CLAIMED; kind < EVENTS; kind++)
        metric_add(w, METRIC_EVENTS, m->events[kind], "kind=\"%s\"",
                   dibs_event_kind_text((dibs_event_kind) kind));
    for (int kind = DIBS_REPAIR_RESTORED; kind < REPAIRS; kind++)
        metric_add(w, METRIC_REPAIR_FINDINGS, m->repaired[kind], "type=\"%s\"",
                   dibs_repair_kind_text((dibs_repair_kind) kind));
    metric_add(w, METRIC_PROBE_REFUSALS, m->engine->core->n_busy, NULL);
    metric_add(w, METRIC_DAMAGED_RECORDS, counts->damaged, NULL);
}

void metrics_write(struct metrics *metrics, size_t connections, struct bytes *out)
{
    const struct engine_counts *counts = engine_count(metrics->engine);
    struct metric_writer w = metric_begin(out);
    dibs_err unused = { 0 };

    (void) load_pools(metrics, NULL); /* on failure the known pools stay: a scrape must not fail */
    metric_add(&w, METRIC_DEGRADED, metrics->is_degraded, NULL);
    metric_add(&w, METRIC_READY, group_commit_check(metrics->engine->group, &unused) == DIBS_OK, NULL);
    metric_add(&w, METRIC_START_TIME, (uint64_t) (metrics->started_ms / 1000), NULL);
    write_pools(metrics, &w);
    write_claims(metrics, counts, &w);
    write_cluster(metrics, &w);
    write_commits(group_commit_count(metrics->engine->group), &w);
    const struct ledger_traffic *traffic = ledger_traffic(metrics->engine->ledger);
    if (traffic)
        write_traffic(traffic, &w);
    write_requests(metrics, connections, &w);
}

/* ---- open and close ---- */

dibs_status metrics_open(struct engine *engine, const char *kube_pool, struct metrics **out, dibs_err *err)
{
    dibs_pool pool;
    dibs_status s = kube_pool ? dibs_pool_get(engine->handle, kube_pool, &pool, err) : DIBS_OK;

    if (s != DIBS_OK)
        return err_wrap(err, s, "--kube-metrics");
    struct metrics *self = calloc(1, sizeof *self + (api_router.n + N_BESIDE) * sizeof self->latency[0]);
    if (!self)
        return err_set(err, DIBS_FAILURE, "counting: out of memory");
    self->n_routes = api_router.n;
    self->engine = engine;
    self->started_ms = core_now(engine->core).wall_ms;
    self->kube_pool = kube_pool;
    self->others_at = UINT64_MAX; /* not read yet */
    (void) text_copy(self->other.pool.name, sizeof self->other.pool.name, "(other)");
    /* Add the default pool first, so that it always has its own series. */
    (void) text_copy(self->pools[self->n_pools++].pool.name, sizeof pool.name, DEFAULT_POOL);
    if (kube_pool && strcmp(kube_pool, DEFAULT_POOL) != 0)
        self->pools[self->n_pools++].pool = pool;
    s = load_pools(self, err);
    if (s != DIBS_OK) {
        metrics_close(self);
        return s;
    }
    *out = self;
    return DIBS_OK;
}

void metrics_close(struct metrics *metrics)
{
    free(metrics);
}
