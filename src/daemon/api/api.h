/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_API_API_H
#define DIBS_DAEMON_API_API_H
/* The HTTP API: requests become jobs of the engine, their outcomes become answers. It decides nothing. */
#include "daemon/caller.h"
#include "daemon/engine.h"
#include "daemon/metrics.h"
#include "daemon/quota.h"
#include "http/server.h"

struct api;

struct api_options {
    struct loop *loop;
    const dibs_settings *settings; /* borrowed */
    struct engine *engine;
    struct quota *quota;
    struct metrics *metrics;
    uint32_t uid; /* whose the ledger is */
};

dibs_status api_open(const struct api_options *options, struct api **out, dibs_err *err);
void api_close(struct api *api); /* NULL is fine */

/* Takes over a listening socket. */
dibs_status api_listen(struct api *api, int fd, enum caller_listener listener, dibs_err *err);
/* Replace the tokens for TCP. The api owns them. */
void api_set_tokens(struct api *api, struct tokens *tokens);
/* For http_set_tls(). */
struct http_server *api_http(const struct api *api);

/* Once a turn, after the engine's. */
void api_run(struct api *api);
int64_t api_next_ms(const struct api *api);
size_t api_connections(const struct api *api);
/* Report a durable change to streams and waiting requests. */
void api_changed(struct api *api, const dibs_event *event);
/* As of engine_options: streams end, so that their readers list everything again. */
void api_reset(struct api *api);
/* No new connections; answers that are due are still given. False: nothing is open any more. */
bool api_drain(struct api *api);
#endif
