/* SPDX-License-Identifier: MIT */
#include "server/metric_registry.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "dibs/dibs.h"

#include "base/banned.h"

static const struct {
    const char *name, *type, *help;
} metrics[] = {
#define X(id, name, type, help) [METRIC_##id] = { name, type, help },
    METRIC_LIST(X)
#undef X
};

static void add_text(struct bytes *out, const char *format, ...) DIBS_PRINTF(2, 3);
static void add_text(struct bytes *out, const char *format, ...)
{
    enum { TEXT_MAX_BYTES = 512 };
    char *text = bytes_reserve(out, TEXT_MAX_BYTES);
    va_list args;

    if (!text)
        return;
    va_start(args, format);
    int n = vsnprintf(text, TEXT_MAX_BYTES, format, args);
    va_end(args);
    out->n += n > 0 && n < TEXT_MAX_BYTES ? (size_t) n : 0;
}

enum { LABELS_MAX_BYTES = 384, VALUE_MAX_BYTES = 48 };

static void add_sample(struct metric_writer *w, enum metric metric, const char *part, const char *value,
                       const char *labels, va_list args) DIBS_PRINTF(5, 0);
static void add_sample(struct metric_writer *w, enum metric metric, const char *part, const char *value,
                       const char *labels, va_list args)
{
    const char *name = metrics[metric].name;
    char text[LABELS_MAX_BYTES] = "";

    if (w->last != (int) metric)
        add_text(w->out, "# HELP %s %s\n# TYPE %s %s\n", name, metrics[metric].help, name,
                 metrics[metric].type);
    w->last = (int) metric;
    if (labels)
        (void) vsnprintf(text, sizeof text, labels, args);
    add_text(w->out, text[0] ? "%s%s{%s} %s\n" : "%s%s%s %s\n", name, part, text, value);
}

void metric_add_part(struct metric_writer *w, enum metric metric, const char *part, uint64_t value,
                     const char *labels, ...)
{
    char number[VALUE_MAX_BYTES];
    va_list args;

    (void) snprintf(number, sizeof number, "%" PRIu64, value);
    va_start(args, labels);
    add_sample(w, metric, part, number, labels, args);
    va_end(args);
}

void metric_add_us(struct metric_writer *w, enum metric metric, const char *part, uint64_t us,
                   const char *labels, ...)
{
    char number[VALUE_MAX_BYTES];
    va_list args;

    (void) snprintf(number, sizeof number, "%" PRIu64 ".%06" PRIu64, us / 1000000, us % 1000000);
    va_start(args, labels);
    add_sample(w, metric, part, number, labels, args);
    va_end(args);
}

struct metric_writer metric_begin(struct bytes *out)
{
    struct metric_writer w = { out, -1 };

    metric_add(&w, METRIC_BUILD_INFO, 1, "version=\"%s\"", dibs_version());
    return w;
}

void metric_observe(struct metric_latency *latency, metric_bounds *bounds, int64_t us)
{
    size_t i = 0;

    while (i < METRIC_BUCKETS - 1 && us > (*bounds)[i])
        i++;
    latency->bucket[i]++;
    latency->us += us > 0 ? (uint64_t) us : 0;
}

void metric_add_latency(struct metric_writer *w, enum metric metric, metric_bounds *bounds,
                        const struct metric_latency *latency, const char *labels)
{
    uint64_t n = 0;

    for (size_t i = 0; i < METRIC_BUCKETS; i++) {
        char le[24] = "+Inf";

        n += latency->bucket[i];
        if (i < METRIC_BUCKETS - 1)
            (void) snprintf(le, sizeof le, "%g", (double) (*bounds)[i] / 1e6);
        metric_add_part(w, metric, "_bucket", n, "%s%sle=\"%s\"", labels, labels[0] ? "," : "", le);
    }
    metric_add_us(w, metric, "_sum", latency->us, "%s", labels);
    metric_add_part(w, metric, "_count", n, "%s", labels);
}

static void add_by_kind(struct metric_writer *w, enum metric metric, const uint64_t *values)
{
    metric_add(w, metric, values[DIBS_DYNAMIC], "scope=\"dynamic\"");
    metric_add(w, metric, values[DIBS_STATIC], "scope=\"static\"");
}

void metric_add_nodeports(struct metric_writer *w, const struct metric_nodeports *pool)
{
    if (pool->size > 0) {
        metric_add(w, METRIC_NODEPORT_ALLOCATED, pool->allocated, NULL);
        metric_add(w, METRIC_NODEPORT_AVAILABLE, pool->size - pool->allocated, NULL);
    }
    add_by_kind(w, METRIC_NODEPORT_ALLOCATIONS, pool->allocations);
    if (pool->errors)
        add_by_kind(w, METRIC_NODEPORT_ERRORS, pool->errors);
}
