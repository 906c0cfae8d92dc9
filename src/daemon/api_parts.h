/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_API_PARTS_H
#define DIBS_DAEMON_API_PARTS_H
/* What the files of the API share: api.c takes requests and gives answers, api_*.c are the routes. */
#include "base/bytes.h"
#include "daemon/api.h"
#include "wire/wire.h"

struct ask;

/* A route: method and path, where {name} stands for one part of it. */
struct route {
    const char *method, *path;
    const char *params; /* of the query, a blank between them */
    /* Does it, in the engine's transaction: writes ask->out, or says why not. */
    dibs_status (*work)(struct ask *ask, dibs *handle, dibs_err *err);
    /* Optional: what can be refused before that. Without `work` it writes the answer itself, at once. */
    dibs_status (*read)(struct ask *ask, dibs_err *err);
    bool is_alone;  /* as of a job */
    bool is_public; /* also for callers that nobody knows, as often as they like */
};

enum { ASK_PARTS_MAX = 2, ASK_PART_BYTES = 128 };
#define ASK_JSON "application/json"

struct ask {
    struct job job;
    struct api *api;
    struct http_request *r; /* NULL: the client has gone */
    const struct route *route;
    struct caller *peer;         /* of its connection */
    const struct caller *caller; /* that one, or this: */
    struct caller token_caller;  /* of a request over TCP */
    char part[ASK_PARTS_MAX][ASK_PART_BYTES];
    struct wire_asked asked;           /* of claims */
    dibs_settings *settings;           /* with what the request overrides; NULL: the daemon's */
    struct ledger_allowance allowance; /* what is left of the quota */
    uint32_t taken;                    /* of it, until the changes themselves are counted */
    char key[LEDGER_KEY_MAX + 2];
    struct bytes out;
    const char *type; /* of the answer; NULL: JSON */
    int status;       /* 0: 200 */
    int retry_s;      /* 0: nothing is said of it */
    bool is_marked;   /* by the newest event that it knows: */
    uint64_t seq;
    int64_t wait_until_ms; /* CLOCK_MONOTONIC; 0: it does not wait (any more) for a change */
    bool is_stream;
    struct ask *next; /* of those that wait, or of streams */
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
    struct ask *waiting; /* for a change */
    struct ask *streams;
    struct ask *spare; /* for requests to come, */
    size_t n_spare;    /* ... SPARE_MAX at most */
    int64_t beat_ms;   /* when streams get their next sign of life */
    bool is_draining;
};

/* Each ends with a NULL method. */
extern const struct route api_routes[];
extern const struct route
    api_grpc_routes[]; /* for clients of gRPC's port server; nothing else over loopback */
/* share/openapi.json, made into a .c file by the build */
extern const char openapi_json[];
extern const size_t openapi_json_size;

struct wire_params api_params(struct ask *ask);
/* The body as JSON; an empty one is an empty object. The document is the caller's. */
dibs_status api_json(struct ask *ask, json_doc **out, dibs_err *err);
/* Answers with what was written, or with the problem, and frees it. */
void api_answer(struct ask *ask);
void api_free(struct ask *ask);
void api_queue(struct ask *ask);

/* api_claims.c */
/* The parameter `settings`: what the asker's own say goes before the daemon's. */
dibs_status api_read_settings(struct ask *ask, dibs_err *err);
/* It is so many requests in one, for the user's rate. */
void api_charge(const struct ask *ask, size_t n);
dibs_status api_read_claim(struct ask *ask, dibs_err *err);
dibs_status api_read_batch(struct ask *ask, dibs_err *err);
dibs_status api_claim(struct ask *ask, dibs *handle, dibs_err *err);
dibs_status api_batch(struct ask *ask, dibs *handle, dibs_err *err);
dibs_status api_list(struct ask *ask, dibs *handle, dibs_err *err);
dibs_status api_find(struct ask *ask, dibs *handle, dibs_err *err);
dibs_status api_release(struct ask *ask, dibs *handle, dibs_err *err);
dibs_status api_renew(struct ask *ask, dibs *handle, dibs_err *err);
dibs_status api_transfer(struct ask *ask, dibs *handle, dibs_err *err);
dibs_status api_assert(struct ask *ask, dibs *handle, dibs_err *err);
dibs_status api_locate(struct ask *ask, dibs *handle, dibs_err *err);
/* {"claims": [...]} */
void api_write_claims(struct ask *ask, const dibs_claim *claims, size_t n);

/* api_nodes.c */
dibs_status api_nodes(struct ask *ask, dibs *handle, dibs_err *err);
dibs_status api_node_remove(struct ask *ask, dibs *handle, dibs_err *err);
dibs_status api_claim_on_nodes(struct ask *ask, dibs *handle, dibs_err *err);
dibs_status api_release_on_nodes(struct ask *ask, dibs *handle, dibs_err *err);

/* api_pools.c */
dibs_status api_pools(struct ask *ask, dibs *handle, dibs_err *err);
dibs_status api_pool(struct ask *ask, dibs *handle, dibs_err *err);
dibs_status api_pool_put(struct ask *ask, dibs *handle, dibs_err *err);
dibs_status api_pool_remove(struct ask *ask, dibs *handle, dibs_err *err);
dibs_status api_pool_usage(struct ask *ask, dibs *handle, dibs_err *err);
dibs_status api_pool_export(struct ask *ask, dibs *handle, dibs_err *err);
dibs_status api_pool_import(struct ask *ask, dibs *handle, dibs_err *err);

/* api_care.c */
dibs_status api_explain(struct ask *ask, dibs *handle, dibs_err *err);
dibs_status api_reap(struct ask *ask, dibs *handle, dibs_err *err);
dibs_status api_repair(struct ask *ask, dibs *handle, dibs_err *err);
dibs_status api_restore(struct ask *ask, dibs *handle, dibs_err *err);
dibs_status api_daemon(struct ask *ask, dibs *handle, dibs_err *err);
dibs_status api_doctor(struct ask *ask, dibs *handle, dibs_err *err);
dibs_status api_doctor_fix(struct ask *ask, dibs *handle, dibs_err *err);

/* api_events.c */
dibs_status api_events(struct ask *ask, dibs *handle, dibs_err *err);
/* What is known to the asker is said by If-None-Match or `since`; with `wait` nothing newer is waited for. */
dibs_status api_read_wait(struct ask *ask, dibs_err *err);
dibs_status api_read_events(struct ask *ask, dibs_err *err);
/* Parks it when there is nothing newer; true: done with for now. */
bool api_waits(struct ask *ask);
/* The answer is a stream from here on. */
void api_start_stream(struct ask *ask);
/* Time has passed, or there is news. */
void api_wake(struct api *api, bool is_news);
void api_forget(struct ask *ask);
int64_t api_wake_ms(const struct api *api);
/* The answer of a change that nobody waits for: the same as what the asker has (304)? */
bool api_is_known(const struct ask *ask);

/* routes.c */
dibs_status api_health(struct ask *ask, dibs_err *err);
dibs_status api_ready(struct ask *ask, dibs_err *err);
dibs_status api_metrics(struct ask *ask, dibs_err *err);
dibs_status api_openapi(struct ask *ask, dibs_err *err);
#endif
