/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_API_API_H
#define DIBS_DAEMON_API_API_H
/* The HTTP API: it turns requests into jobs of the engine, and their outcomes into answers. */
#include "daemon/caller.h"
#include "daemon/engine.h"
#include "daemon/metrics.h"
#include "daemon/quota.h"
#include "daemon/ui/ui.h"
#include "http/server.h"

struct api;

struct api_options {
    struct loop *loop;
    const dibs_settings *settings; /* borrowed */
    struct engine *engine;
    struct quota *quota;
    struct metrics *metrics;
    struct ui *ui;
    uint32_t uid; /* owner of the ledger */
};

dibs_status api_open(const struct api_options *options, struct api **out, dibs_err *err);
/* Stop using the engine, except for the answers of jobs that engine_close() fails. NULL is fine. */
void api_stop(struct api *api);
void api_close(struct api *api); /* NULL is fine */

/* Serve a listening socket, which the api then owns. */
dibs_status api_listen(struct api *api, int fd, enum caller_listener listener, dibs_err *err);
/* Listen for pages of the dashboard, unless it does already. */
dibs_status api_listen_for_pages(struct api *api, dibs_err *err);
/* Does a page of the dashboard follow the events? */
bool api_has_pages(const struct api *api);
/* Replace the tokens for TCP; the api owns them. */
void api_set_tokens(struct api *api, struct tokens *tokens);
/* Return the HTTP server, for http_set_tls(); borrowed. */
struct http_server *api_http(const struct api *api);

/* Run once per loop turn, after the engine. */
void api_run(struct api *api);
int64_t api_next_ms(const struct api *api);
size_t api_connections(const struct api *api);
/* Report a durable change to streams and waiting requests. */
void api_changed(struct api *api, const dibs_event *event);
/* End all streams, so that their readers list everything again; see engine_options.reset. */
void api_reset(struct api *api);
/* Accept no new connections and send the pending answers. Return false when nothing is open any more. */
bool api_drain(struct api *api);
#endif
