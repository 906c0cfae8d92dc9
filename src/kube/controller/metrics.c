/* SPDX-License-Identifier: MIT */
/* Write the controller's metrics. All label values are constants, so none needs escaping. */
#include "base/clock.h"
#include "kube/controller/internal.h"
#include "server/metric_registry.h"

#include "base/banned.h"

static void write_ports(const struct reconcile_counts *t, struct metric_writer *w)
{
    static const char *const types[RECONCILE_FINDINGS] = { [RECONCILE_DUPLICATE] = "duplicate",
                                                           [RECONCILE_REPAIRED] = "repair",
                                                           [RECONCILE_OUTSIDE] = "outOfRange",
                                                           [RECONCILE_UNRESOLVED] = "unresolved",
                                                           [RECONCILE_UNSIGNED] = "unsigned" };

    metric_add_nodeports(w, &(struct metric_nodeports){
                                .size = t->n_size, .allocated = t->n_ports, .allocations = t->n_allocated });
    for (size_t type = 0; type < RECONCILE_FINDINGS; type++)
        metric_add(w, METRIC_REPAIR_PORT_ERRORS, t->n_findings[type], "type=\"%s\"", types[type]);
    metric_add(w, METRIC_REPAIR_RECONCILE_ERRORS, t->n_errors, NULL);
}

static void write_claims(const struct controller *c, const struct reconcile_counts *t,
                         struct metric_writer *w)
{
    metric_add(w, METRIC_KUBE_PODS, c->inventory.n_pods, NULL);
    metric_add(w, METRIC_KUBE_CLAIMS, t->n_claims, NULL);
    metric_add(w, METRIC_KUBE_PENDING, t->n_pending, NULL);
    metric_add(w, METRIC_KUBE_UNNEEDED, t->n_unneeded, NULL);
    metric_add(w, METRIC_KUBE_CONFIRMED, t->n_confirmed, NULL);
    metric_add(w, METRIC_KUBE_RESTORED, t->n_restored, NULL);
    metric_add(w, METRIC_KUBE_ENDED, t->n_ended, NULL);
    metric_add(w, METRIC_KUBE_MISSED, c->inventory.n_missed, NULL);
    metric_add(w, METRIC_KUBE_UNREADABLE, c->inventory.n_damaged, NULL);
}

static void write_sources(const struct controller *c, struct metric_writer *w)
{
    static const char *const states[] = { "beginning", "known", "absent", "denied" };

    for (size_t i = 0; i < SOURCES; i++)
        if (c->sources[i].informer)
            metric_add(w, METRIC_KUBE_RESOURCE, 1, "kind=\"%s\",state=\"%s\"", c->sources[i].kind,
                       states[informer_status(c->sources[i].informer)->state]);
    for (size_t i = 0; i < SOURCES; i++)
        if (c->sources[i].informer)
            metric_add(w, METRIC_KUBE_LISTS, informer_status(c->sources[i].informer)->n_lists, "kind=\"%s\"",
                       c->sources[i].kind);
    for (size_t i = 0; i < SOURCES; i++)
        if (c->sources[i].informer)
            metric_add(w, METRIC_KUBE_WATCH_EVENTS, informer_status(c->sources[i].informer)->n_events,
                       "kind=\"%s\"", c->sources[i].kind);
}

void controller_metrics(void *ctx, struct bytes *out)
{
    const struct controller *c = ctx;
    int64_t margin_ms = election_margin_ms(c->election, clock_monotonic_ms());
    struct metric_writer w = metric_begin(out);

    metric_add(&w, METRIC_KUBE_LEADER, margin_ms > 0, NULL);
    if (!c->reconciler)
        return;
    write_ports(reconcile_count(c->reconciler), &w);
    write_claims(c, reconcile_count(c->reconciler), &w);
    write_sources(c, &w);
}
