/* SPDX-License-Identifier: MIT */
/* Prometheus' text format 0.0.4. Nothing in a label needs an escape: all values are ours. */
#include <inttypes.h>

#include "base/clock.h"
#include "base/metric.h"
#include "operator/controller_parts.h"

#include "base/banned.h"

/* The names, types and labels of KEP-3668, and those of the repair loop beside it. */
static void write_kube(const struct tend_counts *t, struct bytes *out)
{
    static const char total[] = "kube_apiserver_nodeport_allocator_allocation_total";
    static const char errors[] = "apiserver_nodeport_repair_port_errors_total";
    static const char *const scopes[] = { [DIBS_DYNAMIC] = "dynamic", [DIBS_STATIC] = "static" };
    static const char *const types[TEND_COMPLAINTS] = {
        [TEND_DUPLICATE] = "duplicate", [TEND_REPAIRED] = "repair", [TEND_OUTSIDE] = "outOfRange"
    };

    metric_single(out, "kube_apiserver_nodeport_allocator_allocated_ports", "gauge",
                  "Ports of the pool that have a claim.", t->n_ports);
    metric_single(out, "kube_apiserver_nodeport_allocator_available_ports", "gauge",
                  "Ports of the pool that have none.", t->n_size - t->n_ports);
    metric_head(out, total, "counter", "Claims that were seen for the first time, by kind.");
    for (size_t kind = 0; kind < 2; kind++)
        metric_add(out, "%s{scope=\"%s\"} %" PRIu64 "\n", total, scopes[kind], t->n_allocated[kind]);
    metric_head(out, errors, "counter", "What was wrong with the ports of objects, by type.");
    for (size_t type = 0; type < TEND_COMPLAINTS; type++)
        metric_add(out, "%s{type=\"%s\"} %" PRIu64 "\n", errors, types[type], t->n_complaints[type]);
    metric_single(out, "apiserver_nodeport_repair_reconcile_errors_total", "counter",
                  "Looks at the ledger that failed.", t->n_errors);
}

static void write_claims(const struct controller *c, const struct tend_counts *t, struct bytes *out)
{
    metric_single(out, "dibs_kube_pods", "gauge", "Pods of the cluster.", census_pods(c->census));
    metric_single(out, "dibs_kube_claims", "gauge", "Claims of the cluster's namespaces.", t->n_claims);
    metric_single(out, "dibs_kube_pending_claims", "gauge", "Those whose pod has not been seen.",
                  t->n_pending);
    metric_single(out, "dibs_kube_unneeded_claims", "gauge",
                  "Those that end when it is proven that nobody needs them.", t->n_unneeded);
    metric_single(out, "dibs_kube_confirmed_total", "counter", "Claims whose pod was seen.", t->n_confirmed);
    metric_single(out, "dibs_kube_restored_total", "counter", "Claims that pods had and the ledger had not.",
                  t->n_restored);
    metric_single(out, "dibs_kube_ended_total", "counter", "Claims that nobody needed any more.", t->n_ended);
    metric_single(out, "dibs_kube_unreadable_total", "counter", "Objects that could not be understood.",
                  census_damaged(c->census));
}

static void write_sources(const struct controller *c, struct bytes *out)
{
    static const char *const states[] = { "beginning", "known", "absent", "denied" };

    metric_head(out, "dibs_kube_resource", "gauge", "What is known of a resource, as a label.");
    for (size_t i = 0; i < SOURCES; i++)
        if (c->sources[i].follow)
            metric_add(out, "dibs_kube_resource{kind=\"%s\",state=\"%s\"} 1\n", c->sources[i].kind,
                       states[follow_state(c->sources[i].follow)]);
    metric_head(out, "dibs_kube_lists_total", "counter", "Complete lists.");
    for (size_t i = 0; i < SOURCES; i++)
        if (c->sources[i].follow)
            metric_add(out, "dibs_kube_lists_total{kind=\"%s\"} %" PRIu64 "\n", c->sources[i].kind,
                       follow_lists(c->sources[i].follow));
    metric_head(out, "dibs_kube_watch_events_total", "counter", "Changes that watches have told.");
    for (size_t i = 0; i < SOURCES; i++)
        if (c->sources[i].follow)
            metric_add(out, "dibs_kube_watch_events_total{kind=\"%s\"} %" PRIu64 "\n", c->sources[i].kind,
                       follow_events(c->sources[i].follow));
}

void controller_metrics(struct controller *c, struct bytes *out)
{
    int64_t margin_ms = election_margin_ms(c->election, clock_monotonic_ms());

    metric_head(out, "dibs_build_info", "gauge", "The controller's version.");
    metric_add(out, "dibs_build_info{version=\"%s\"} 1\n", dibs_version());
    metric_single(out, "dibs_kube_leader", "gauge", "1: this controller leads.", margin_ms > 0);
    if (!c->tend)
        return;
    write_kube(tend_count(c->tend), out);
    write_claims(c, tend_count(c->tend), out);
    write_sources(c, out);
}
