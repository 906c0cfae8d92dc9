/* SPDX-License-Identifier: MIT */
#include "daemon/scrape.h"

#include <stdlib.h>

#include "base/auto.h"
#include "base/err.h"
#include "server/endpoint.h"
#include "server/listeners.h"

#include "base/banned.h"

enum {
    CONNECTIONS_MAX = 32, /* a few Prometheus servers and people; they take no place of the API's clients */
    BODY_MAX_BYTES = 1024 /* no page has one */
};

struct scrape {
    struct metrics *metrics;
    const struct api *api;
    struct endpoint *endpoint;
};

static void write_metrics(void *ctx, struct bytes *out)
{
    const struct scrape *scrape = ctx;

    metrics_write(scrape->metrics, api_connections(scrape->api), out);
}

void scrape_close(struct scrape *scrape)
{
    if (!scrape)
        return;
    endpoint_close(scrape->endpoint);
    free(scrape);
}

DEFINE_AUTO(struct scrape, scrape_close)

dibs_status scrape_open(struct loop *loop, const char *address, struct metrics *metrics,
                        const struct api *api, struct scrape **out, dibs_err *err)
{
    AUTO(scrape_close_auto) struct scrape *self = calloc(1, sizeof *self);

    if (!self)
        return err_set(err, DIBS_FAILURE, "starting an HTTP server: out of memory");
    self->metrics = metrics;
    self->api = api;
    const struct endpoint_options options = { .limits = { .max_connections = CONNECTIONS_MAX,
                                                          .max_per_user = CONNECTIONS_MAX,
                                                          .max_body_bytes = BODY_MAX_BYTES },
                                              .hint = "there are /metrics and /healthz",
                                              .write_metrics = write_metrics,
                                              .ctx = self };
    dibs_status s = socket_check_tcp(address, true, err);
    if (s == DIBS_OK)
        s = endpoint_open(loop, &options, &self->endpoint, err);
    if (s == DIBS_OK)
        s = endpoint_listen(self->endpoint, address, false, err);
    if (s == DIBS_OK)
        *out = TAKE(self);
    return s;
}

void scrape_run(struct scrape *scrape)
{
    if (scrape)
        http_run(endpoint_http(scrape->endpoint));
}

int64_t scrape_next_ms(const struct scrape *scrape)
{
    return scrape ? http_next_ms(endpoint_http(scrape->endpoint)) : -1;
}

bool scrape_drain(struct scrape *scrape)
{
    if (!scrape)
        return false;
    http_stop_accepting(endpoint_http(scrape->endpoint));
    return http_connections(endpoint_http(scrape->endpoint)) > 0;
}
