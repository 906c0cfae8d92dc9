/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_METRICS_H
#define DIBS_DAEMON_METRICS_H
/* What a daemon counts, as Prometheus reads it. Names and labels: docs/METRICS.md. */
#include "base/bytes.h"
#include "daemon/engine.h"

struct metrics;

/* `kube_pool` (may be NULL): its figures are told by the names of KEP-3668 as well. */
dibs_status metrics_open(const char *kube_pool, struct metrics **out, dibs_err *err);
void metrics_close(struct metrics *metrics); /* NULL is fine */

/* A request was answered; `route` is a text that stays. */
void metrics_request(struct metrics *metrics, const char *route, int status, int64_t us);
/* A batch was decided: its claims, or NULL and why not. */
void metrics_claimed(struct metrics *metrics, const dibs_batch *batch, const dibs_claim *claims,
                     dibs_status status);
/* A change, as of engine_options. */
void metrics_changed(struct metrics *metrics, const dibs_event *event, const struct held *held);

/* Everything, as it is now. */
dibs_status metrics_write(struct metrics *metrics, dibs *handle, struct engine *engine, size_t connections,
                          struct bytes *out, dibs_err *err);
#endif
