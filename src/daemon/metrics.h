/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_METRICS_H
#define DIBS_DAEMON_METRICS_H
/* The metrics of a daemon. Names and labels: docs/SERVE.md. Counters begin with 0 when the daemon starts, and
 * every series is there from then on. Allocated ports are the engine's: a scrape reads no claims. */
#include "base/bytes.h"
#include "daemon/engine.h"

/* Pools with series of their own; all other ports are counted as the pool "(other)". */
#define METRICS_POOLS_MAX 64

struct metrics;
struct api_route;

/* `kube_pool` (may be NULL) is exported by the names of KEP-3668, too. NOT_FOUND: no such pool. */
dibs_status metrics_open(struct engine *engine, const char *kube_pool, struct metrics **out, dibs_err *err);
void metrics_close(struct metrics *metrics); /* NULL is fine */

/* A request was answered; `route` NULL: there was none for it. Those that are none of api_routes (other port
 * servers' clients) are counted as one. */
extern const struct api_route metrics_portserver;
void metrics_request(struct metrics *metrics, const struct api_route *route, int status, int64_t us);
/* Count refused claims. A batch counts once, by its first request. */
void metrics_refused(struct metrics *metrics, const dibs_batch *batch, const dibs_settings *settings,
                     dibs_status status);
/* Count an action of a repair. */
void metrics_repaired(struct metrics *metrics, dibs_repair_kind kind);
/* A change, as of engine_options. */
void metrics_changed(struct metrics *metrics, const dibs_event *event, const char *pool);

/* As of engine_options: changes of pools may have been missed. */
void metrics_reset(struct metrics *metrics);

/* Write all metrics with their current values. */
void metrics_write(struct metrics *metrics, size_t connections, struct bytes *out);
#endif
