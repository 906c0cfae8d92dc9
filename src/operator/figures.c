/* SPDX-License-Identifier: MIT */
#include "operator/figures.h"

#include <inttypes.h>

#include "base/metric.h"

#include "base/banned.h"

/* Upper ends; what is slower is in the last one. The goals are 1 ms for what passes and 10 ms for a claim. */
static const int64_t bucket_us[FIGURES_BUCKETS - 1] = { 500, 1000, 2500, 5000, 10000, 100000, 1000000 };
static const char *const outcomes[FIGURES_OUTCOMES] = { "passed", "claimed", "refused", "unavailable",
                                                        "bad" };
static const char *const kinds[DIBS_STATIC + 1] = { "dynamic", "static" };

static void note_ports(struct figures *f, bool is_claimed, const struct asking *asking)
{
    for (size_t i = 0; asking && asking->config && i < asking->config->n_ports; i++) {
        dibs_kind kind = asking->config->ports[i].mode == DIBS_REQUIRED ? DIBS_STATIC : DIBS_DYNAMIC;

        *(is_claimed ? &f->ports[kind] : &f->errors[kind]) += asking->config->ports[i].count;
    }
}

void figures_note(struct figures *figures, enum figures_outcome outcome, const struct asking *asking,
                  int64_t us)
{
    size_t i = 0;

    while (i + 1 < FIGURES_BUCKETS && us > bucket_us[i])
        i++;
    figures->bucket[outcome][i]++;
    figures->us[outcome] += (uint64_t) us;
    if (outcome != FIGURES_PASSED && outcome != FIGURES_BAD)
        note_ports(figures, outcome == FIGURES_CLAIMED, asking);
}

static void write_reviews(const struct figures *f, struct bytes *out)
{
    static const char name[] = "dibs_webhook_review_duration_seconds";

    metric_head(out, name, "histogram", "How long reviews took, by what came of them.");
    for (size_t o = 0; o < FIGURES_OUTCOMES; o++) {
        uint64_t n = 0;

        for (size_t i = 0; i + 1 < FIGURES_BUCKETS; i++) {
            n += f->bucket[o][i];
            metric_add(out, "%s_bucket{outcome=\"%s\",le=\"%g\"} %" PRIu64 "\n", name, outcomes[o],
                       (double) bucket_us[i] / 1e6, n);
        }
        n += f->bucket[o][FIGURES_BUCKETS - 1];
        metric_add(out, "%s_bucket{outcome=\"%s\",le=\"+Inf\"} %" PRIu64 "\n", name, outcomes[o], n);
        metric_add(out, "%s_sum{outcome=\"%s\"} %.6f\n", name, outcomes[o], (double) f->us[o] / 1e6);
        metric_add(out, "%s_count{outcome=\"%s\"} %" PRIu64 "\n", name, outcomes[o], n);
    }
}

static void write_kinds(const char *name, const char *help, const uint64_t values[DIBS_STATIC + 1],
                        struct bytes *out)
{
    metric_head(out, name, "counter", help);
    for (size_t kind = 0; kind <= DIBS_STATIC; kind++)
        metric_add(out, "%s{scope=\"%s\"} %" PRIu64 "\n", name, kinds[kind], values[kind]);
}

/* The names, types and labels of KEP-3668; the ports are those of pods. */
static void write_pool(const struct figures *f, struct office *office, struct bytes *out)
{
    dibs_pool_usage usage = { 0 };

    if (dibs_pool_usage_of(office_handle(office), office_pool(office)->name, &usage, NULL) == DIBS_OK) {
        uint32_t taken = usage.n_static + usage.n_dynamic;

        metric_single(out, "kube_apiserver_nodeport_allocator_allocated_ports", "gauge",
                      "Ports of the pool that are claimed.", taken);
        metric_single(out, "kube_apiserver_nodeport_allocator_available_ports", "gauge",
                      "Ports of the pool that are free.", usage.size - taken);
    }
    write_kinds("kube_apiserver_nodeport_allocator_allocation_total", "Ports that this replica has claimed.",
                f->ports, out);
    write_kinds("kube_apiserver_nodeport_allocator_allocation_errors_total",
                "Ports that were asked for in vain here.", f->errors, out);
}

void figures_write(const struct figures *figures, struct office *office, struct bytes *out)
{
    const struct office_counts *counts = office_count(office);

    write_reviews(figures, out);
    metric_single(out, "dibs_webhook_commits_total", "counter", "Commits to the ledger.", counts->commits);
    metric_single(out, "dibs_webhook_commits_beaten_total", "counter",
                  "Commits that another replica's came before.", counts->beaten);
    write_pool(figures, office, out);
}
