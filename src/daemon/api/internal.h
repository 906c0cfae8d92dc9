/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_API_INTERNAL_H
#define DIBS_DAEMON_API_INTERNAL_H
/* Shared by the files of the API: api.c takes requests and answers them, the others are the routes. */
#include "base/bytes.h"
#include "codec/wire.h"
#include "daemon/api/api.h"
#include "server/router.h"

struct api_request;

enum { API_ALONE = 1, API_PUBLIC = 2 };

/* Do the request's work in the engine's transaction: write by request->w, or return an error. */
typedef dibs_status api_work_fn(struct api_request *request, dibs *handle, dibs_err *err);
/* Reads and checks the request before that. In a row without `work` it writes the answer itself, at once. */
typedef dibs_status api_read_fn(struct api_request *request, dibs_err *err);

/* A row of the API. */
struct api_route {
    struct route route; /* flags: API_ALONE as of a job; API_PUBLIC: no token and no rate limit */
    api_work_fn *work;
    api_read_fn *read; /* NULL: there is nothing to read */
};

#define API_JSON "application/json"

struct api_request {
    struct job job;
    struct api *api;
    struct http_request *r;        /* NULL: the client has gone */
    const struct api_route *route; /* NULL: none */
    struct route_match match;
    struct caller *peer;         /* of its connection */
    const struct caller *caller; /* that one, or this: */
    struct caller token_caller;  /* of a request over TCP */
    struct wire_asked body;      /* of claims; of other requests its document alone */
    dibs_which which;            /* of a path with {which} */
    dibs_event_query query;      /* of the feed of events */
    dibs_settings *settings;     /* with the overrides of the request; NULL: the daemon's */
    struct quota_use use;
    char key[LEDGER_KEY_MAX + 2];
    struct bytes out;
    struct jsonw w;            /* into `out` */
    struct wire_params params; /* of the query */
    const char *type;          /* of the answer; NULL: JSON */
    int status;                /* 0: 200 */
    int retry_s;               /* 0: nothing is said of it */
    bool is_marked;            /* by the newest event that it knows: */
    uint64_t seq;
    int64_t wait_until_ms; /* CLOCK_MONOTONIC; 0: it does not wait (any more) for a change */
    bool is_stream;
    size_t n_backlog;         /* events at its beginning */
    struct api_request *next; /* of those that wait, or of streams */
    dibs_status outcome;
    dibs_err err;
    int64_t began_us; /* without the time that it waits for a change */
};

struct api {
    struct api_options options;
    struct caller_view view;
    struct http_server *server;
    struct http_handler handler;
    struct tokens *tokens;
    struct api_request *waiting; /* for a change */
    struct api_request *streams;
    int64_t beat_ms; /* when streams get their next sign of life */
    bool is_draining;
};

extern const struct api_route api_routes[];
extern const struct router api_router; /* of these */
extern const struct router
    api_grpc_router; /* for clients of gRPC's port server; nothing else over loopback */
/* share/openapi.json, made into a .c file by the build */
extern const char openapi_json[];
extern const size_t openapi_json_size;

/* The body; an empty one is an empty object of JSON. */
const char *api_body(const struct api_request *request, size_t *n);
/* Answer with `out`, or with the problem, and free the request. */
void api_answer(struct api_request *request);
void api_free(struct api_request *request);
void api_queue(struct api_request *request);

/* {"KEY": n}, unless s is not OK, which is returned. */
dibs_status api_write_count(struct api_request *request, dibs_status s, const char *key, uint64_t n);
/* {"KEY": [...]}: the items are written in between. */
void api_begin_list(struct api_request *request, const char *key);
void api_end_list(struct api_request *request);

/* Parse the body into request->body.doc. */
api_read_fn api_read_json;

/* claims.c */
api_work_fn api_claim, api_batch, api_list, api_find, api_release, api_renew, api_transfer, api_assert,
    api_locate;
api_read_fn api_read_claim, api_read_batch;
/* {which} and its parameters; with the body, too. */
api_read_fn api_read_which, api_read_change;
/* The parameter `settings`: the caller's own settings override the daemon's. */
api_read_fn api_read_settings;
/* Count the request as `n` requests of the user's rate. */
void api_charge(const struct api_request *request, size_t n);
/* {"claims": [...]} */
void api_write_claims(struct api_request *request, const dibs_claim *claims, size_t n);

/* nodes.c */
api_work_fn api_nodes, api_node_remove, api_claim_on_nodes, api_release_on_nodes;

/* pools.c */
api_work_fn api_pools, api_pool, api_pool_put, api_pool_remove, api_pool_usage, api_pool_export,
    api_pool_import;

/* upkeep.c */
api_work_fn api_explain, api_reap, api_repair, api_restore, api_daemon, api_doctor, api_doctor_fix;

/* events.c */
api_work_fn api_events;
api_read_fn api_read_events;
/* Wait for a newer event than the client has (If-None-Match or `since`), as long as `wait` says. */
api_read_fn api_read_wait;
/* Park the request if there is nothing newer; true: it waits. */
bool api_waits(struct api_request *request);
/* The answer is a stream from here on. */
void api_start_stream(struct api_request *request);
/* Answer waiting requests whose time is over, or all of them after a change. */
void api_wake(struct api *api, bool is_news);
void api_forget(struct api_request *request);
int64_t api_wake_ms(const struct api *api);
/* Does the client already have this answer (304)? */
bool api_is_known(const struct api_request *request);
#endif
