/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_API_INTERNAL_H
#define DIBS_DAEMON_API_INTERNAL_H
/* Shared by the files of the API: api.c accepts and answers requests, the other files are the routes. */
#include "base/bytes.h"
#include "codec/wire.h"
#include "daemon/api/api.h"
#include "server/router.h"

struct api_request;

enum { API_ALONE = 1, API_PUBLIC = 2, API_PAGE = 4 };

/* Do the request's work in the engine's transaction: write the answer to request->w, or return an error. */
typedef dibs_status api_work_fn(struct api_request *request, dibs *handle, dibs_err *err);
/* Read and check the request before that. In a route without `work` it writes the answer itself. */
typedef dibs_status api_read_fn(struct api_request *request, dibs_err *err);

struct api_route {
    struct route route; /* flags: API_ALONE sets job.is_alone; API_PUBLIC needs no token and has no rate
                           limit; API_PAGE is also for pages of the dashboard */
    api_work_fn *work;
    api_read_fn *read; /* NULL: nothing to read */
};

#define API_JSON "application/json"

struct api_request {
    struct job job;
    struct api *api;
    struct http_request *r;        /* NULL: the client has disconnected */
    const struct api_route *route; /* NULL: no route matches */
    struct route_match match;
    struct caller *peer;         /* caller of the connection */
    const struct caller *caller; /* `peer` or `token_caller` */
    struct caller token_caller;  /* caller of a request over TCP, or of a page */
    int64_t session_ends_ms;     /* of a page (ui_now_ms()) */
    struct wire_asked body;      /* parsed claims; other requests use only its document */
    dibs_which which;            /* from a path with {which} */
    dibs_event_query query;      /* for the event feed */
    dibs_settings *settings;     /* settings with the request's overrides; NULL: the daemon's */
    struct quota_use use;
    char key[DIBS_KEY_MAX + 2];
    struct bytes out;
    struct jsonw w;            /* writes to `out` */
    struct wire_params params; /* query parameters */
    const char *type;          /* content type of the answer; NULL: JSON */
    int status;                /* HTTP status; 0: 200 */
    int retry_s;               /* value of Retry-After in seconds; 0: none */
    bool is_marked;            /* the answer has an ETag, the newest event number: */
    uint64_t seq;
    int64_t
        wait_until_ms;    /* end of the long poll or of a refusal's delay (CLOCK_MONOTONIC); 0: not waiting */
    bool is_wrong_secret; /* of the body: the answer is delayed */
    bool is_stream;
    size_t n_backlog;         /* events at the start of a stream */
    dibs_proto look_proto;    /* needs a look at all sockets of it; 0: none */
    struct api_request *next; /* in api->waiting, api->looking or api->streams */
    dibs_status outcome;
    dibs_err err;
    int64_t began_us; /* excludes the time of a long poll */
};

struct api {
    struct api_options options;
    struct caller_view view;
    struct http_server *server;
    struct http_handler handler;
    struct tokens *tokens;
    struct api_request *waiting; /* long polls, and refusals of wrong tokens */
    struct api_request *looking; /* for the observer */
    struct api_request *streams;
    struct observer *observer;
    int64_t beat_ms; /* when streams get their next keep-alive */
    bool is_draining;
    uint64_t n_refused_tokens;
    int64_t log_refused_ms; /* when the next one may be logged */
};

extern const struct api_route api_routes[];
extern const struct router api_router; /* routes of the HTTP API */
extern const struct router
    api_grpc_router; /* routes for clients of gRPC's port server, the only ones over loopback */
extern const struct router api_page_router; /* routes for pages of the dashboard alone */
/* share/openapi.json, embedded by the build */
extern const char openapi_json[];
extern const size_t openapi_json_size;
/* share/ui, likewise: X(name, path, type). src/daemon/meson.build has the list of files. */
#define API_PAGE_FILES(X)                                          \
    X(index_html, "/", "text/html; charset=utf-8")                 \
    X(ui_css, "/ui.css", "text/css; charset=utf-8")                \
    X(ui_js, "/ui.js", "text/javascript; charset=utf-8")           \
    X(cells_js, "/cells.js", "text/javascript; charset=utf-8")     \
    X(detail_js, "/detail.js", "text/javascript; charset=utf-8")   \
    X(list_js, "/list.js", "text/javascript; charset=utf-8")       \
    X(map_js, "/map.js", "text/javascript; charset=utf-8")         \
    X(model_js, "/model.js", "text/javascript; charset=utf-8")     \
    X(plots_js, "/plots.js", "text/javascript; charset=utf-8")     \
    X(session_js, "/session.js", "text/javascript; charset=utf-8") \
    X(text_js, "/text.js", "text/javascript; charset=utf-8")
#define X(name, path, type)          \
    extern const char page_##name[]; \
    extern const size_t page_##name##_size;
API_PAGE_FILES(X)
#undef X

/* Return the body; an empty body is returned as an empty JSON object. */
const char *api_body(const struct api_request *request, size_t *n);
/* Answer with `out` or with the error, and free the request. */
void api_answer(struct api_request *request);
void api_free(struct api_request *request);
/* Write the fields of an answer for a page: they keep other pages and programs away from it. */
enum { API_PAGE_FIELDS = 7 };
size_t api_page_fields(const struct api_request *request, struct http_field out[API_PAGE_FIELDS]);
/* Return the secret of "Authorization: Bearer SECRET", or NULL. */
const char *api_bearer(const struct api_request *request);
/* Answer with the error in request->err. */
void api_refuse(struct api_request *request, int status);
void api_queue(struct api_request *request);

/* Write {"KEY": n} and return OK, or return `s` if that is an error. */
dibs_status api_write_count(struct api_request *request, dibs_status s, const char *key, uint64_t n);
/* Begin {"KEY": [...]}; the caller writes the items. */
void api_begin_list(struct api_request *request, const char *key);
void api_end_list(struct api_request *request);

/* Parse the body into request->body.doc. */
api_read_fn api_read_json;

/* admit.c */
/* Identify the caller of a connection over TCP before the body of its request counts for anybody. */
void api_arriving(void *ctx, struct http_request *r);
/* Identify the caller and check its limits. Return false when the request was refused. */
bool api_admit(struct api_request *request);
/* Log a wrong token or session, and answer with request->err after a delay: nobody may try many. */
void api_refuse_secret(struct api_request *request);

/* claims.c */
api_work_fn api_claim, api_batch, api_list, api_find, api_release, api_renew, api_transfer, api_assert,
    api_locate;
api_read_fn api_read_claim, api_read_batch;
/* Read {which} and its parameters; api_read_change also reads the body. */
api_read_fn api_read_which, api_read_change;
/* Read the parameter `settings`: the caller's own settings override the daemon's. */
api_read_fn api_read_settings;
/* Charge the request as `n` requests to the user's rate. */
void api_charge(const struct api_request *request, size_t n);
/* Write {"claims": [...]}. */
void api_write_claims(struct api_request *request, const dibs_claim *claims, size_t n);

/* nodes.c */
api_work_fn api_nodes, api_node_remove, api_claim_on_nodes, api_release_on_nodes;

/* pools.c */
api_work_fn api_pools, api_pool, api_pool_put, api_pool_remove, api_pool_usage, api_pool_export,
    api_pool_import;

/* numbers.c */
api_work_fn api_numbers;

/* upkeep.c */
api_work_fn api_explain, api_reap, api_repair, api_restore, api_daemon, api_doctor, api_doctor_fix;

/* map.c */
api_work_fn api_map;
api_read_fn api_read_map;
/* Park the request until the observer has looked. Return true when it waits, or was refused. */
bool api_looks(struct api_request *request);
/* Queue the requests of the protocol, or answer them with the error; 0: all. */
void api_looked(void *ctx, dibs_proto proto, const dibs_err *err);
void api_stop_looking(struct api *api);

/* ui.c */
api_read_fn api_ui;

/* events.c */
api_work_fn api_events;
api_read_fn api_read_events;
/* Read the event number that the client has (If-None-Match or `since`) and the longest wait (`wait`). */
api_read_fn api_read_wait;
/* Park the request until its time, or until there is a newer event. Return true when it waits. */
bool api_waits(struct api_request *request);
/* Turn the answer into a stream. */
void api_start_stream(struct api_request *request);
/* Answer long polls whose deadline has passed, or after a change all of them. */
void api_wake(struct api *api, bool is_news);
void api_forget(struct api_request *request);
int64_t api_wake_ms(const struct api *api);
/* Does the client already have this answer (304)? */
bool api_is_known(const struct api_request *request);
#endif
