/* SPDX-License-Identifier: MIT */
#include "daemon/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "daemon/api_parts.h"
#include "daemon/metrics_parts.h"
#include "lib/handle.h"

#include "base/banned.h"

#define DEFAULT_POOL "default"
#define METRICS_OTHER "(other)"

/* From a read out of memory to a commit that waits for a slow disk. */
const int64_t metrics_latency_us[METRICS_LATENCIES - 1] = { 250, 1000, 4000, 16000, 64000, 256000, 1000000 };

/* ---- pools ---- */

struct metrics_pool *metrics_find_pool(struct metrics *m, const char *name)
{
    for (size_t i = 0; i < m->n_pools; i++)
        if (strcmp(m->pools[i].pool.name, name) == 0)
            return &m->pools[i];
    return NULL;
}

/* A name that a damaged record made up would be a label of its own for each damage. */
static bool note_pool(void *ctx, const dibs_pool *pool)
{
    struct metrics *m = ctx;
    struct metrics_pool *known = metrics_find_pool(m, pool->name);

    if (!known && m->n_pools < METRICS_POOLS_MAX && core_pool_check(pool, NULL) == DIBS_OK) {
        known = &m->pools[m->n_pools++];
        *known = (struct metrics_pool){ .pool = *pool };
    }
    if (known)
        known->is_there = true;
    return true;
}

static bool is_pinned(const struct metrics *m, const dibs_pool *pool)
{
    return strcmp(pool->name, DEFAULT_POOL) == 0 || (m->kube_pool && strcmp(pool->name, m->kube_pool) == 0);
}

dibs_status metrics_load_pools(struct metrics *m, dibs_err *err)
{
    struct core *core = engine_handle(m->engine)->core;
    size_t n = 0;

    for (size_t i = 0; i < m->n_pools; i++)
        m->pools[i].is_there = false;
    core->last_pool.is_loaded = false; /* not one of a second ago */
    ledger_start_call(core->ledger);
    dibs_status s = core_pool_list(core, note_pool, m, err);
    for (size_t i = 0; i < m->n_pools && s == DIBS_OK; i++) {
        struct metrics_pool *pool = &m->pools[i];

        if (pool->is_there)
            s = core_pool(core, pool->pool.name, NULL, &pool->pool, err);
    }
    if (s != DIBS_OK)
        return s;
    m->is_stale = false;
    for (size_t i = 0; i < m->n_pools; i++) {
        struct metrics_pool *pool = &m->pools[i];

        if (pool->is_there || is_pinned(m, &pool->pool))
            m->pools[n++] = *pool;
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

void metrics_load_others(struct metrics *m)
{
    struct ledger *ledger = engine_handle(m->engine)->core->ledger;
    struct portbits others[METRICS_KINDS] = { 0 };

    if (ledger_notices(ledger) < 0)
        return; /* nobody shares it */
    uint64_t told = ledger_heed(ledger);
    if (m->are_others_known && told == m->others_at)
        return;
    ledger_start_call(ledger);
    if (ledger_list(ledger, &(struct ledger_filter){ 0 }, note_other, others, NULL) != DIBS_OK)
        return; /* what was known last is told; the next scrape tries again */
    memcpy(m->others, others, sizeof m->others);
    m->others_at = told;
    m->are_others_known = true;
}

/* Of a claim: the pool that it was made in; when that is not known any more, one that has its port. */
static struct metrics_pool *pool_of(struct metrics *m, const dibs_event *event, const struct held *held)
{
    struct metrics_pool *found = held ? metrics_find_pool(m, held->pool) : NULL;

    for (size_t i = 0; i < m->n_pools && !held && !found; i++)
        if (dibs_ranges_contain(&m->pools[i].pool.ranges, event->port))
            found = &m->pools[i];
    return found ? found : &m->other;
}

/* ---- what happens ---- */

static void note_claim(struct metrics_pool *pool, const dibs_event *event)
{
    const dibs_ranges *ranges = &pool->pool.ranges;

    pool->allocated[event->is_dynamic ? DIBS_DYNAMIC : DIBS_STATIC]++;
    if (event->is_dynamic && dibs_ranges_contain(ranges, event->port) &&
        event->port < dibs_ranges_at(ranges, core_band(&pool->pool)))
        pool->spilled++;
}

void metrics_changed(struct metrics *metrics, const dibs_event *event, const struct held *held)
{
    if ((unsigned) event->kind < METRICS_EVENTS)
        metrics->events[event->kind]++;
    metrics->is_degraded = false;
    if (metrics->is_stale)
        (void) metrics_load_pools(metrics, NULL); /* the next change or scrape tries again */
    switch (event->kind) {
    case DIBS_EV_CLAIMED: note_claim(pool_of(metrics, event, held), event); break;
    case DIBS_EV_REAPED: pool_of(metrics, event, held)->reaped++; break;
    case DIBS_EV_LEAKED: pool_of(metrics, event, held)->leaked++; break;
    case DIBS_EV_POOL: metrics->is_stale = true; break;
    case DIBS_EV_RELEASED:
    case DIBS_EV_RENEWED:
    case DIBS_EV_TRANSFERRED:
    case DIBS_EV_UNHELD:
    case DIBS_EV_REPAIRED:
    case DIBS_EV_QUARANTINED: break;
    }
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
    struct metrics_pool *pool = metrics_find_pool(metrics, name);
    /* Who prefers a port would have been content with any. */
    bool is_static = first->mode == DIBS_REQUIRED || first->mode == DIBS_DECLARED;

    (pool ? pool : &metrics->other)->refused[is_static][status]++;
    metrics->is_degraded = metrics->is_degraded || status == DIBS_UNAVAILABLE;
}

void metrics_repaired(struct metrics *metrics, dibs_repair_kind kind)
{
    if ((unsigned) kind < METRICS_REPAIRS)
        metrics->repaired[kind]++;
}

const struct route metrics_portserver = { .method = "", .path = "(portserver)" };

void metrics_request(struct metrics *metrics, const struct route *route, int status, int64_t us)
{
    size_t place = metrics->n_routes + (route != NULL);
    int class = status / 100 - 2;
    size_t i = 0;

    if (class < 0 || class >= METRICS_CLASSES)
        return;
    if (route >= api_routes && route < api_routes + metrics->n_routes)
        place = (size_t) (route - api_routes);
    struct metrics_latency *latency = &metrics->latency[place][class];
    while (i < METRICS_LATENCIES - 1 && us > metrics_latency_us[i])
        i++;
    latency->bucket[i]++;
    latency->us += us > 0 ? (uint64_t) us : 0;
}

/* ---- life ---- */

dibs_status metrics_open(struct engine *engine, const char *kube_pool, struct metrics **out, dibs_err *err)
{
    struct metrics *self = NULL;
    dibs_pool pool;
    dibs_status s =
        kube_pool ? core_pool_stored(engine_handle(engine)->core, kube_pool, &pool, err) : DIBS_OK;

    if (s != DIBS_OK)
        return err_wrap(err, s, "--kube-metrics");
    self = calloc(1, sizeof *self);
    if (!self)
        return err_set(err, DIBS_FAILURE, "counting: out of memory");
    while (api_routes[self->n_routes].method)
        self->n_routes++;
    self->latency = calloc(self->n_routes + 2, sizeof *self->latency);
    if (!self->latency) {
        free(self);
        return err_set(err, DIBS_FAILURE, "counting: out of memory");
    }
    self->engine = engine;
    self->kube_pool = kube_pool;
    (void) text_copy(self->other.pool.name, sizeof self->other.pool.name, METRICS_OTHER);
    /* First, so that none of the others can be in their place. */
    (void) text_copy(self->pools[self->n_pools++].pool.name, sizeof pool.name, DEFAULT_POOL);
    if (kube_pool && strcmp(kube_pool, DEFAULT_POOL) != 0)
        self->pools[self->n_pools++].pool = pool;
    s = metrics_load_pools(self, err);
    if (s != DIBS_OK) {
        metrics_close(self);
        return s;
    }
    *out = self;
    return DIBS_OK;
}

void metrics_close(struct metrics *metrics)
{
    if (!metrics)
        return;
    free(metrics->latency);
    free(metrics);
}
