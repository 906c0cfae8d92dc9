/* SPDX-License-Identifier: MIT */
#ifndef DIBS_SERVER_METRIC_REGISTRY_H
#define DIBS_SERVER_METRIC_REGISTRY_H
/* All metrics of our processes, and a writer of Prometheus' text format 0.0.4. Samples of one metric must be
 * written one after the other; HELP and TYPE lines precede the first. */
#include <stdint.h>

#include "base/bytes.h"
#include "dibs/status.h"

/* Identifier, name, type, help. Names and labels are stable: docs/SERVE.md, CLUSTER.md, KUBERNETES.md. */
#define METRIC_LIST(X)                                                                                      \
    X(BUILD_INFO, "dibs_build_info", "gauge", "The version of this program.")                               \
    /* the daemon: pools */                                                                                 \
    X(ALLOCATED_PORTS, "dibs_allocator_allocated_ports", "gauge",                                           \
      "Ports of the pool that have a claim, by its kind.")                                                  \
    X(AVAILABLE_PORTS, "dibs_allocator_available_ports", "gauge",                                           \
      "Ports of the pool that a dynamic claim may still get, by band.")                                     \
    X(ALLOCATIONS, "dibs_allocator_allocation_total", "counter", "Claims made by any process.")             \
    X(ALLOCATION_ERRORS, "dibs_allocator_allocation_errors_total", "counter",                               \
      "Requests for claims that the daemon refused.")                                                       \
    X(SPILLED, "dibs_allocator_spilled_total", "counter",                                                   \
      "Dynamic claims that got a port of the static band.")                                                 \
    X(REAPED, "dibs_allocator_reaped_total", "counter", "Claims that ended because their holder was dead.") \
    X(LEAKED, "dibs_allocator_leaked_total", "counter",                                                     \
      "Claims that a repair dropped because no process used them.")                                         \
    /* the daemon: itself */                                                                                \
    X(DEGRADED, "dibs_degraded", "gauge",                                                                   \
      "1: claims failed because the ledger was unavailable, and no write has succeeded since.")             \
    X(READY, "dibs_ready", "gauge", "1: the ledger can be read and written, as /readyz says.")              \
    X(START_TIME, "process_start_time_seconds", "gauge", "When this process started, in Unix time.")        \
    X(CLAIMS, "dibs_claims", "gauge", "Claims in the ledger.")                                              \
    X(WATCHED_PROCESSES, "dibs_watched_processes", "gauge",                                                 \
      "Holders that are watched: by pidfd, in turn, or not at all.")                                        \
    X(GUARDS, "dibs_guards", "gauge",                                                                       \
      "Claims of the hold level guard: bound, or waiting until the port can be bound.")                     \
    X(ENFORCES, "dibs_enforces", "gauge", "1: the kernel refuses claimed ports to others (--enforce).")     \
    X(UNENFORCED_CLAIMS, "dibs_unenforced_claims_total", "counter",                                         \
      "Claims that the kernel could not enforce.")                                                          \
    X(LINGERING_CLAIMS, "dibs_lingering_claims", "gauge",                                                   \
      "Claims of dead holders that stay: the socket is still bound, or cannot be judged.")                  \
    X(EVENTS, "dibs_events_total", "counter", "Changes of the ledger by any process.")                      \
    X(REPAIR_FINDINGS, "dibs_repair_findings_total", "counter", "Findings of repairs through the daemon.")  \
    X(PROBE_REFUSALS, "dibs_probe_refusals_total", "counter",                                               \
      "Ports that were free in the ledger, but in use by a foreign process.")                               \
    X(DAMAGED_RECORDS, "dibs_damaged_records_total", "counter", "Damaged records that upkeep has found.")   \
    X(CONNECTIONS, "dibs_connections", "gauge", "Open connections of HTTP clients.")                        \
    X(REQUEST_DURATION, "dibs_request_duration_seconds", "histogram",                                       \
      "From a whole request to its answer, without the time that it chose to wait.")                        \
    X(COMMIT_JOBS, "dibs_commit_jobs", "histogram", "Requests that shared one commit of the ledger.")       \
    X(COMMIT_DURATION, "dibs_commit_seconds", "histogram",                                                  \
      "How long groups of requests took in the ledger, with all retries of their commit.")                  \
    X(COMMITS_FAILED, "dibs_commits_failed_total", "counter",                                               \
      "Commits that failed; their requests were refused.")                                                  \
    /* the daemon: a cluster */                                                                             \
    X(LEASE_MARGIN, "dibs_cluster_lease_margin_seconds", "gauge",                                           \
      "How long this host's lease certainly lives; 0: its holders of cluster ports cannot count on them.")  \
    X(LEASES_LOST, "dibs_cluster_leases_lost_total", "counter",                                             \
      "Leases of this host that have ended, and holders of cluster ports with them.")                       \
    X(ETCD_COMMIT, "dibs_etcd_commit_seconds", "histogram", "How long commits to etcd took, done or not.")  \
    X(ETCD_CONFLICTS, "dibs_etcd_conflicts_total", "counter",                                               \
      "Decisions that were retried because another host or process committed first.")                       \
    X(ETCD_COMPACTIONS, "dibs_etcd_compactions_total", "counter",                                           \
      "Compactions of old versions that this host asked etcd for.")                                         \
    X(ETCD_RETRIES, "dibs_etcd_retries_total", "counter", "Commits that were retried at another member.")   \
    X(ETCD_LOADS, "dibs_etcd_loads_total", "counter", "Times that everything was read again.")              \
    X(ETCD_WATCH_LAG, "dibs_etcd_watch_lag_seconds", "gauge",                                               \
      "How long the last change of this daemon took to come back by its watch.")                            \
    /* a pool by the names, types and labels of KEP-3668 */                                                 \
    X(NODEPORT_ALLOCATED, "kube_apiserver_nodeport_allocator_allocated_ports", "gauge",                     \
      "Ports of the pool that have a claim.")                                                               \
    X(NODEPORT_AVAILABLE, "kube_apiserver_nodeport_allocator_available_ports", "gauge",                     \
      "Ports of the pool that have none.")                                                                  \
    X(NODEPORT_ALLOCATIONS, "kube_apiserver_nodeport_allocator_allocation_total", "counter",                \
      "Claims of ports of the pool, by kind.")                                                              \
    X(NODEPORT_ERRORS, "kube_apiserver_nodeport_allocator_allocation_errors_total", "counter",              \
      "Claims of ports of the pool that were refused, by kind.")                                            \
    X(REPAIR_PORT_ERRORS, "apiserver_nodeport_repair_port_errors_total", "counter",                         \
      "Errors in the ports of objects, by type.")                                                           \
    X(REPAIR_RECONCILE_ERRORS, "apiserver_nodeport_repair_reconcile_errors_total", "counter",               \
      "Passes that failed.")                                                                                \
    /* the webhook */                                                                                       \
    X(REVIEW_DURATION, "dibs_webhook_review_duration_seconds", "histogram",                                 \
      "How long reviews took, by outcome.")                                                                 \
    X(WEBHOOK_COMMITS, "dibs_webhook_commits_total", "counter", "Commits to the ledger.")                   \
    X(WEBHOOK_CONFLICTS, "dibs_webhook_commits_beaten_total", "counter",                                    \
      "Commits that were retried because another replica committed first.")                                 \
    /* the controller */                                                                                    \
    X(KUBE_LEADER, "dibs_kube_leader", "gauge", "1: this controller leads.")                                \
    X(KUBE_PODS, "dibs_kube_pods", "gauge", "Pods of the cluster.")                                         \
    X(KUBE_CLAIMS, "dibs_kube_claims", "gauge", "Claims of the cluster's namespaces.")                      \
    X(KUBE_PENDING, "dibs_kube_pending_claims", "gauge", "Claims whose pod has not been seen.")             \
    X(KUBE_UNNEEDED, "dibs_kube_unneeded_claims", "gauge",                                                  \
      "Claims that end when it is proven that no object needs them.")                                       \
    X(KUBE_CONFIRMED, "dibs_kube_confirmed_total", "counter", "Claims whose pod was seen.")                 \
    X(KUBE_RESTORED, "dibs_kube_restored_total", "counter", "Claims that pods had and the ledger had not.") \
    X(KUBE_ENDED, "dibs_kube_ended_total", "counter", "Claims that no object needed any more.")             \
    X(KUBE_MISSED, "dibs_kube_missed_pods", "gauge", "Pods that ask for ports and bypassed the webhook.")   \
    X(KUBE_UNREADABLE, "dibs_kube_unreadable_total", "counter", "Objects that could not be understood.")    \
    X(KUBE_RESOURCE, "dibs_kube_resource", "gauge", "The state of a resource, as a label.")                 \
    X(KUBE_LISTS, "dibs_kube_lists_total", "counter", "Complete lists.")                                    \
    X(KUBE_WATCH_EVENTS, "dibs_kube_watch_events_total", "counter", "Changes that watches have reported.")

enum metric {
#define X(id, name, type, help) METRIC_##id,
    METRIC_LIST(X)
#undef X
};

struct metric_writer {
    struct bytes *out;
    int last; /* metric of the last sample; -1: none yet */
};
/* Start with METRIC_BUILD_INFO, which every process has. */
struct metric_writer metric_begin(struct bytes *out);

/* Write one sample. `labels`, without braces, is NULL or a format whose values the caller has escaped. A
 * sample above 511 bytes is left out. */
#define metric_add(w, metric, value, ...) metric_add_part((w), (metric), "", (value), __VA_ARGS__)
/* Write a sample of a histogram; `part` is "_bucket", "_sum" or "_count". */
void metric_add_part(struct metric_writer *w, enum metric metric, const char *part, uint64_t value,
                     const char *labels, ...) DIBS_PRINTF(5, 6);
/* Write a duration in seconds. `part` may be "". */
void metric_add_us(struct metric_writer *w, enum metric metric, const char *part, uint64_t us,
                   const char *labels, ...) DIBS_PRINTF(5, 6);

/* A histogram of durations. */
enum { METRIC_BUCKETS = 8 };
struct metric_latency {
    uint64_t bucket[METRIC_BUCKETS]; /* the last one has no upper bound */
    uint64_t us;
};
typedef const int64_t metric_bounds[METRIC_BUCKETS - 1]; /* upper bounds in microseconds */
void metric_observe(struct metric_latency *latency, metric_bounds *bounds, int64_t us);
/* `labels` may be "". */
void metric_add_latency(struct metric_writer *w, enum metric metric, metric_bounds *bounds,
                        const struct metric_latency *latency, const char *labels);

/* A pool under the names of KEP-3668; counts are indexed by dibs_kind. */
struct metric_nodeports {
    uint32_t size, allocated;    /* ports; size 0: unknown */
    const uint64_t *allocations; /* claims */
    const uint64_t *errors;      /* refused claims; NULL: not counted */
};
void metric_add_nodeports(struct metric_writer *w, const struct metric_nodeports *pool);
#endif
