/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_METRICS_H
#define DIBS_DAEMON_METRICS_H
/* What a daemon counts, as Prometheus reads it. Names and labels: docs/SERVE.md.
 *
 * Counters begin with 0 when the daemon starts, and every series that can be told is there from then on.
 * What is allocated is not counted here but taken from the engine, which follows the ledger: it holds for
 * claims that others make beside the daemon, too, and a scrape costs the same however many claims there are.
 */
#include "base/bytes.h"
#include "daemon/engine.h"

/* Pools with figures of their own; those of further ones, of --range and of ports outside of every pool are
 * told as the pool "(other)", which is no pool's name. */
#define METRICS_POOLS_MAX 64

struct metrics;
struct route;

/* `kube_pool` (may be NULL): its figures are told by the names of KEP-3668 as well. NOT_FOUND: there is no
 * such pool. */
dibs_status metrics_open(struct engine *engine, const char *kube_pool, struct metrics **out, dibs_err *err);
void metrics_close(struct metrics *metrics); /* NULL is fine */

/* A request was answered; `route` NULL: there was none for it. Those that are none of api_routes (other port
 * servers' clients) are told as one. */
extern const struct route metrics_portserver;
void metrics_request(struct metrics *metrics, const struct route *route, int status, int64_t us);
/* Claims were asked for in vain, under these settings. A batch counts once, by its first request. */
void metrics_refused(struct metrics *metrics, const dibs_batch *batch, const dibs_settings *settings,
                     dibs_status status);
/* A repair found this, and did something about it. */
void metrics_repaired(struct metrics *metrics, dibs_repair_kind kind);
/* A change, as of engine_options. */
void metrics_changed(struct metrics *metrics, const dibs_event *event, const struct held *held);

/* As of engine_options: changes of pools may have been missed. */
void metrics_reset(struct metrics *metrics);

/* Everything, as it is now. */
void metrics_write(struct metrics *metrics, size_t connections, struct bytes *out);
#endif
