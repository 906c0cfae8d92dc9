/* SPDX-License-Identifier: MIT */
/* Prometheus' text format 0.0.4. Nothing in a label needs an escape: pools have letters, digits, '.', '_' and
 * '-' in their names, and all other values are ours. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/metric.h"
#include "daemon/api_parts.h"
#include "daemon/metrics_parts.h"
#include "lib/handle.h"
#include "wire/wire.h"

#include "base/banned.h"

static const char *const kinds[METRICS_KINDS] = { [DIBS_DYNAMIC] = "dynamic", [DIBS_STATIC] = "static" };

/* ---- pools ---- */

static void write_rooms(const struct metrics *m, const struct core_room *rooms, struct bytes *out)
{
    metric_head(out, "dibs_allocator_allocated_ports", "gauge",
                "Ports of the pool that a claim has, by its kind.");
    for (size_t i = 0; i <= m->n_pools; i++) {
        const char *pool = i < m->n_pools ? m->pools[i].pool.name : m->other.pool.name;

        metric_add(out, "dibs_allocator_allocated_ports{pool=\"%s\",kind=\"static\"} %u\n", pool,
                   rooms[i].usage.n_static);
        metric_add(out, "dibs_allocator_allocated_ports{pool=\"%s\",kind=\"dynamic\"} %u\n", pool,
                   rooms[i].usage.n_dynamic);
    }
    metric_head(out, "dibs_allocator_available_ports", "gauge",
                "Ports of the pool that a dynamic claim may still get, by band.");
    for (size_t i = 0; i < m->n_pools; i++) {
        const char *pool = m->pools[i].pool.name;

        metric_add(out, "dibs_allocator_available_ports{pool=\"%s\",band=\"static\"} %u\n", pool,
                   rooms[i].n_available_low);
        metric_add(out, "dibs_allocator_available_ports{pool=\"%s\",band=\"dynamic\"} %u\n", pool,
                   rooms[i].usage.n_available - rooms[i].n_available_low);
    }
}

static void write_allocations(const struct metrics *m, struct bytes *out)
{
    metric_head(out, "dibs_allocator_allocation_total", "counter", "Claims that were made, by whomever.");
    for (size_t i = 0; i <= m->n_pools; i++) {
        const struct metrics_pool *pool = i < m->n_pools ? &m->pools[i] : &m->other;

        for (size_t kind = 0; kind < METRICS_KINDS; kind++)
            metric_add(out, "dibs_allocator_allocation_total{pool=\"%s\",scope=\"%s\"} %" PRIu64 "\n",
                       pool->pool.name, kinds[kind], pool->allocated[kind]);
    }
    metric_head(out, "dibs_allocator_allocation_errors_total", "counter",
                "Requests for claims that the daemon refused.");
    for (size_t i = 0; i <= m->n_pools; i++) {
        const struct metrics_pool *pool = i < m->n_pools ? &m->pools[i] : &m->other;

        for (size_t kind = 0; kind < METRICS_KINDS; kind++)
            for (size_t status = DIBS_FAILURE; status < METRICS_STATUSES; status++)
                metric_add(
                    out,
                    "dibs_allocator_allocation_errors_total{pool=\"%s\",scope=\"%s\",reason=\"%s\"} %" PRIu64
                    "\n",
                    pool->pool.name, kinds[kind], wire_code_text((dibs_status) status),
                    pool->refused[kind][status]);
    }
}

/* A counter of each pool, at this offset. */
static void write_pool_counter(const struct metrics *m, const char *name, size_t offset, const char *help,
                               struct bytes *out)
{
    metric_head(out, name, "counter", help);
    for (size_t i = 0; i <= m->n_pools; i++) {
        const struct metrics_pool *pool = i < m->n_pools ? &m->pools[i] : &m->other;
        uint64_t value = 0;

        memcpy(&value, (const char *) pool + offset, sizeof value);
        metric_add(out, "%s{pool=\"%s\"} %" PRIu64 "\n", name, pool->pool.name, value);
    }
}

/* The names, types and labels of KEP-3668; unlike there, right from the start. */
static void write_kube(const struct metrics_pool *pool, const struct core_room *room, struct bytes *out)
{
    static const char total[] = "kube_apiserver_nodeport_allocator_allocation_total";
    static const char errors[] = "kube_apiserver_nodeport_allocator_allocation_errors_total";
    uint32_t taken = room->usage.n_static + room->usage.n_dynamic;

    metric_single(out, "kube_apiserver_nodeport_allocator_allocated_ports", "gauge",
                  "Gauge measuring the number of allocated NodePorts for Services", taken);
    metric_single(out, "kube_apiserver_nodeport_allocator_available_ports", "gauge",
                  "Gauge measuring the number of available NodePorts for Services", room->usage.size - taken);
    metric_head(out, total, "counter", "Counter measuring total number of NodePort allocations for Services");
    for (size_t kind = 0; kind < METRICS_KINDS; kind++)
        metric_add(out, "%s{scope=\"%s\"} %" PRIu64 "\n", total, kinds[kind], pool->allocated[kind]);
    metric_head(out, errors, "counter",
                "Counter measuring total number of errors on NodePort allocation for Services");
    for (size_t kind = 0; kind < METRICS_KINDS; kind++) {
        uint64_t n = 0;

        for (size_t status = DIBS_FAILURE; status < METRICS_STATUSES; status++)
            n += pool->refused[kind][status];
        metric_add(out, "%s{scope=\"%s\"} %" PRIu64 "\n", errors, kinds[kind], n);
    }
}

static void write_pools(struct metrics *m, struct bytes *out)
{
    struct core *core = engine_handle(m->engine)->core;
    const struct held_table *held = engine_held(m->engine);
    struct portbits all[METRICS_KINDS] = {
        [DIBS_DYNAMIC] = *held_ports(held, DIBS_DYNAMIC), [DIBS_STATIC] = *held_ports(held, DIBS_STATIC)
    };
    const struct portbits *const used[METRICS_KINDS] = { &all[0], &all[1] };
    struct core_room rooms[METRICS_POOLS_MAX + 1];

    metrics_load_others(m);
    for (size_t kind = 0; kind < METRICS_KINDS; kind++)
        portbits_add_all(&all[kind], &m->others[kind]);
    struct portbits outside[METRICS_KINDS] = { all[0], all[1] };

    for (size_t i = 0; i < m->n_pools; i++) {
        const dibs_ranges *ranges = &m->pools[i].pool.ranges;

        core_pool_room(core, &m->pools[i].pool, used, &rooms[i]);
        for (size_t k = 0; k < METRICS_KINDS * ranges->n; k++)
            portbits_remove_range(&outside[k % METRICS_KINDS], ranges->item[k / METRICS_KINDS]);
    }
    portbits_subtract(&outside[DIBS_DYNAMIC], &outside[DIBS_STATIC]);
    rooms[m->n_pools] = (struct core_room){ .usage.n_static = portbits_count(&outside[DIBS_STATIC]),
                                            .usage.n_dynamic = portbits_count(&outside[DIBS_DYNAMIC]) };
    write_rooms(m, rooms, out);
    write_allocations(m, out);
    write_pool_counter(m, "dibs_allocator_spilled_total", offsetof(struct metrics_pool, spilled),
                       "Dynamic claims that got a port of the static band.", out);
    write_pool_counter(m, "dibs_allocator_reaped_total", offsetof(struct metrics_pool, reaped),
                       "Claims that ended because their holder was dead.", out);
    write_pool_counter(m, "dibs_allocator_leaked_total", offsetof(struct metrics_pool, leaked),
                       "Claims that a repair dropped because nobody used them.", out);
    const struct metrics_pool *kube = m->kube_pool ? metrics_find_pool(m, m->kube_pool) : NULL;
    if (kube)
        write_kube(kube, &rooms[kube - m->pools], out);
}

/* ---- the daemon ---- */

static void write_latency(const struct metrics *m, const char *method, const char *path, size_t place,
                          struct bytes *out)
{
    for (int class = 0; class < METRICS_CLASSES; class ++) {
        const struct metrics_latency *latency = &m->latency[place][class];
        char labels[128];
        uint64_t n = 0;

        (void) snprintf(labels, sizeof labels, "route=\"%s%s%s\",code=\"%dxx\"", method, method[0] ? " " : "",
                        path, class + 2);
        for (size_t i = 0; i < METRICS_LATENCIES; i++) {
            char le[24] = "+Inf";

            n += latency->bucket[i];
            if (i < METRICS_LATENCIES - 1)
                (void) snprintf(le, sizeof le, "%g", (double) metrics_latency_us[i] / 1e6);
            metric_add(out, "dibs_request_duration_seconds_bucket{%s,le=\"%s\"} %" PRIu64 "\n", labels, le,
                       n);
        }
        metric_add(out, "dibs_request_duration_seconds_sum{%s} %" PRIu64 ".%06" PRIu64 "\n", labels,
                   latency->us / 1000000, latency->us % 1000000);
        metric_add(out, "dibs_request_duration_seconds_count{%s} %" PRIu64 "\n", labels, n);
    }
}

static void write_requests(const struct metrics *m, size_t connections, struct bytes *out)
{
    metric_single(out, "dibs_connections", "gauge", "Open connections of HTTP clients.", connections);
    metric_head(out, "dibs_request_duration_seconds", "histogram",
                "From a whole request to its answer, without what it chose to wait.");
    for (size_t i = 0; i < m->n_routes; i++)
        write_latency(m, api_routes[i].method, api_routes[i].path, i, out);
    write_latency(m, "", "(other)", m->n_routes, out);
    write_latency(m, metrics_portserver.method, metrics_portserver.path, m->n_routes + 1, out);
}

static void write_commits(const struct engine_counts *counts, struct bytes *out)
{
    uint64_t n = 0;

    metric_head(out, "dibs_commit_jobs", "histogram", "Requests that shared one commit of the ledger.");
    for (size_t i = 0; i < ENGINE_BATCHES; i++) {
        n += counts->batch[i];
        metric_add(out, "dibs_commit_jobs_bucket{le=\"%u\"} %" PRIu64 "\n", 1u << i, n);
    }
    metric_add(out, "dibs_commit_jobs_bucket{le=\"+Inf\"} %" PRIu64 "\n", counts->groups);
    metric_add(out, "dibs_commit_jobs_sum %" PRIu64 "\ndibs_commit_jobs_count %" PRIu64 "\n", counts->jobs,
               counts->groups);
    metric_single(out, "dibs_commits_failed_total", "counter",
                  "Commits that failed; their requests were refused.", counts->failed);
}

static void write_cluster(const struct metrics *m, struct bytes *out)
{
    struct ledger_lease lease;

    ledger_lease(engine_handle(m->engine)->core->ledger, &lease);
    if (!lease.is_cluster)
        return;
    metric_head(
        out, "dibs_cluster_lease_margin_seconds", "gauge",
        "How long this host's lease certainly lives; 0: its holders of cluster ports cannot count on them.");
    metric_add(out, "dibs_cluster_lease_margin_seconds %" PRId64 ".%03" PRId64 "\n", lease.margin_ms / 1000,
               lease.margin_ms % 1000);
    metric_single(out, "dibs_cluster_leases_lost_total", "counter",
                  "Leases of this host that have ended, and holders of cluster ports with them.",
                  lease.n_ended);
}

/* Of a ledger that hosts share. */
static void write_traffic(const struct ledger_traffic *t, struct bytes *out)
{
    metric_head(out, "dibs_etcd_commit_seconds", "histogram", "How long commits to etcd took, done or not.");
    for (size_t i = 0; i < LEDGER_TXN_BUCKETS; i++)
        metric_add(out, "dibs_etcd_commit_seconds_bucket{le=\"%.4f\"} %" PRIu64 "\n",
                   (double) LEDGER_TXN_US_MAX(i) / 1e6, t->n_within[i]);
    metric_add(out, "dibs_etcd_commit_seconds_bucket{le=\"+Inf\"} %" PRIu64 "\n", t->n_commits);
    metric_add(out, "dibs_etcd_commit_seconds_sum %.6f\ndibs_etcd_commit_seconds_count %" PRIu64 "\n",
               (double) t->total_us / 1e6, t->n_commits);
    metric_single(out, "dibs_etcd_conflicts_total", "counter",
                  "Decisions that were made anew, because another host or process was first.", t->n_beaten);
    metric_single(out, "dibs_etcd_compactions_total", "counter",
                  "Times that this host had etcd forget old versions, because they began to fill it.",
                  t->n_compactions);
    metric_single(out, "dibs_etcd_retries_total", "counter",
                  "Commits that another member had to be asked for.", t->n_retries);
    metric_single(out, "dibs_etcd_loads_total", "counter", "Times that everything was read anew.",
                  t->n_loads);
    metric_head(out, "dibs_etcd_watch_lag_seconds", "gauge",
                "How long a change of this daemon took to come back by its watch, the last time.");
    if (t->lag_ms >= 0)
        metric_add(out, "dibs_etcd_watch_lag_seconds %.3f\n", (double) t->lag_ms / 1000);
}

static void write_life(const struct metrics *m, const struct engine_counts *counts, struct bytes *out)
{
    metric_single(out, "dibs_claims", "gauge", "Claims in the ledger.", held_count(engine_held(m->engine)));
    metric_head(out, "dibs_watched_processes", "gauge",
                "Holders that are watched: by pidfd, in turn, or not at all.");
    metric_add(out, "dibs_watched_processes{by=\"pidfd\"} %zu\n", counts->by_pidfd);
    metric_add(out, "dibs_watched_processes{by=\"turn\"} %zu\n", counts->in_turn);
    metric_add(out, "dibs_watched_processes{by=\"far\"} %zu\n", counts->far);
    metric_single(out, "dibs_lingering_claims", "gauge",
                  "Claims of dead holders that stay: the socket is still bound, or cannot be judged.",
                  counts->lingering);
    metric_head(out, "dibs_events_total", "counter", "Changes of the ledger, by whomever.");
    for (int kind = DIBS_EV_CLAIMED; kind < METRICS_EVENTS; kind++)
        metric_add(out, "dibs_events_total{kind=\"%s\"} %" PRIu64 "\n",
                   dibs_event_kind_text((dibs_event_kind) kind), m->events[kind]);
    metric_head(out, "dibs_repair_findings_total", "counter",
                "What repairs through the daemon found, by type.");
    for (int kind = DIBS_REPAIR_RESTORED; kind < METRICS_REPAIRS; kind++)
        metric_add(out, "dibs_repair_findings_total{type=\"%s\"} %" PRIu64 "\n",
                   dibs_repair_kind_text((dibs_repair_kind) kind), m->repaired[kind]);
    metric_single(out, "dibs_probe_refusals_total", "counter",
                  "Ports that were free in the ledger, but in use by a stranger.",
                  engine_handle(m->engine)->core->n_busy);
    metric_single(out, "dibs_damaged_records_total", "counter", "Damaged records that upkeep has set aside.",
                  counts->damaged);
}

void metrics_write(struct metrics *metrics, size_t connections, struct bytes *out)
{
    const struct engine_counts *counts = engine_count(metrics->engine);

    core_act_for(engine_handle(metrics->engine)->core, NULL); /* the same figures for everybody */
    (void) metrics_load_pools(metrics, NULL);                 /* else as they were: a scrape must not fail */
    metric_head(out, "dibs_build_info", "gauge", "The daemon's version.");
    metric_add(out, "dibs_build_info{version=\"%s\"} 1\n", dibs_version());
    metric_single(out, "dibs_degraded", "gauge",
                  "1: claims failed for want of the ledger, and nothing has been written since.",
                  metrics->is_degraded);
    write_pools(metrics, out);
    write_life(metrics, counts, out);
    write_cluster(metrics, out);
    write_commits(counts, out);
    const struct ledger_traffic *traffic = ledger_traffic(engine_handle(metrics->engine)->core->ledger);
    if (traffic)
        write_traffic(traffic, out);
    write_requests(metrics, connections, out);
}
