/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_API_H
#define DIBS_DAEMON_API_H
/* The HTTP door: requests become jobs of the engine, their outcomes become answers. It decides nothing. */
#include "daemon/caller.h"
#include "daemon/engine.h"
#include "daemon/metrics.h"
#include "daemon/quota.h"
#include "http/http.h"

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
dibs_status api_listen(struct api *api, int fd, enum caller_door door, dibs_err *err);
/* For TCP; may be called again. The tokens are the api's from then on. */
dibs_status api_set_tls(struct api *api, const char *cert_pem, const char *key_pem, struct tokens *tokens,
                        dibs_err *err);

/* Once a turn, after the engine's. */
void api_run(struct api *api);
int64_t api_next_ms(const struct api *api);
/* A change that is durable: streams and those who wait are told. */
void api_changed(struct api *api, const dibs_event *event);
/* As of engine_options: streams end, so that their readers list everything anew. */
void api_reset(struct api *api);
/* No new connections; answers that are due are still given. False: nothing is open any more. */
bool api_drain(struct api *api);
size_t api_connections(const struct api *api);
#endif
