/* SPDX-License-Identifier: MIT */
#include "daemon/metrics.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"

#include "base/banned.h"

struct metrics {
    uint64_t requests;
};

dibs_status metrics_open(const char *kube_pool, struct metrics **out, dibs_err *err)
{
    struct metrics *self = calloc(1, sizeof *self);

    (void) kube_pool;
    if (!self)
        return err_set(err, DIBS_FAILURE, "counting: out of memory");
    *out = self;
    return DIBS_OK;
}

void metrics_close(struct metrics *metrics)
{
    free(metrics);
}

void metrics_request(struct metrics *metrics, const char *route, int status, int64_t us)
{
    (void) route;
    (void) status;
    (void) us;
    metrics->requests++;
}

void metrics_claimed(struct metrics *metrics, const dibs_batch *batch, const dibs_claim *claims,
                     dibs_status status)
{
    (void) metrics;
    (void) batch;
    (void) claims;
    (void) status;
}

void metrics_changed(struct metrics *metrics, const dibs_event *event, const struct held *held)
{
    (void) metrics;
    (void) event;
    (void) held;
}

dibs_status metrics_write(struct metrics *metrics, dibs *handle, struct engine *engine, size_t connections,
                          struct bytes *out, dibs_err *err)
{
    char text[64];

    (void) handle;
    (void) engine;
    (void) connections;
    (void) err;
    (void) snprintf(text, sizeof text, "dibs_requests_total %llu\n", (unsigned long long) metrics->requests);
    bytes_add_text(out, text);
    return DIBS_OK;
}
