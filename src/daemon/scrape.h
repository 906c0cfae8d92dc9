/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_SCRAPE_H
#define DIBS_DAEMON_SCRAPE_H
/* Plain HTTP on a loopback address for a Prometheus on this host: /metrics and /healthz, nothing else. */
#include "daemon/api/api.h"

struct scrape;

/* Listen on "127.0.0.1:9464". `metrics` and `api` are borrowed. INVALID: no loopback address; TAKEN: another
 * program has the port. */
dibs_status scrape_open(struct loop *loop, const char *address, struct metrics *metrics,
                        const struct api *api, struct scrape **out, dibs_err *err);
void scrape_close(struct scrape *scrape); /* NULL is fine, here and below */
/* Run once per loop turn. */
void scrape_run(struct scrape *scrape);
int64_t scrape_next_ms(const struct scrape *scrape); /* below 0: no limit */
/* Accept no new connections. Return false when none is open any more. */
bool scrape_drain(struct scrape *scrape);
#endif
