/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_METRICS_H
#define DIBS_DAEMON_METRICS_H
/* The daemon's metrics. Names and labels: docs/SERVE.md. Counters start at 0 with the daemon, and every
 * series exists from then on. A scrape reads no claims: the engine counts allocated ports. */
#include "base/bytes.h"
#include "daemon/engine.h"

/* Pools with their own series; all other ports are counted for the pool "(other)". */
#define METRICS_POOLS_MAX 64

struct metrics;
struct api_route;

/* `kube_pool` (may be NULL) is exported under the names of KEP-3668, too. NOT_FOUND: no such pool. */
dibs_status metrics_open(struct engine *engine, const char *kube_pool, struct metrics **out, dibs_err *err);
void metrics_close(struct metrics *metrics); /* NULL is fine */

/* Count an answered request; `route` NULL: none matched; metrics_portserver: a port server client's. */
extern const struct api_route metrics_portserver;
void metrics_request(struct metrics *metrics, const struct api_route *route, int status, int64_t us);
/* Count refused claims. A batch counts once, by its first request. */
void metrics_refused(struct metrics *metrics, const dibs_batch *batch, const dibs_settings *settings,
                     dibs_status status);
/* Count an action of a repair. */
void metrics_repaired(struct metrics *metrics, dibs_repair_kind kind);
/* Count a change; see engine_options.changed. */
void metrics_changed(struct metrics *metrics, const dibs_event *event, const char *pool);

/* Read the pools again: changes may have been missed. See engine_options.reset. */
void metrics_reset(struct metrics *metrics);

/* Write all metrics with their current values. */
void metrics_write(struct metrics *metrics, size_t connections, struct bytes *out);
#endif
