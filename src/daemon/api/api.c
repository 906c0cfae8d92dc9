/* SPDX-License-Identifier: MIT */
/* Accept requests, queue their jobs, and answer them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "daemon/api/internal.h"
#include "daemon/observer.h"
#include "server/runtime.h"

#include "base/banned.h"

enum {
    TOGETHER_MAX = 256, /* claims of a batch in a shared commit: about 10 ms of work */
    /* Connections over TCP that have not sent a token yet, and their time to do so: enough for a TLS
     * handshake over a slow network, and for all clients of a host that start together. */
    UNKNOWN_MAX = 256,
    UNKNOWN_MS = 10000,
};

static void drop_caller(struct caller *peer)
{
    if (--peer->n_users > 0)
        return;
    peer_done(&peer->peer);
    free(peer);
}

void api_free(struct api_request *request)
{
    wire_asked_done(&request->body);
    bytes_done(&request->out);
    free(request->settings);
    drop_caller(request->peer);
    free(request);
}

static void write_problem(struct api_request *request)
{
    request->out.n = 0;
    jsonw_begin_bytes(&request->w, &request->out);
    request->err.code = request->outcome;
    if (request->status < 400)
        request->status = wire_http_status(&request->err);
    wire_problem(&request->w, &request->err, request->status);
    request->type = HTTP_PROBLEM_TYPE;
}

enum { FIELDS_MAX = 4 + API_PAGE_FIELDS };

static size_t fields_of(struct api_request *request, struct http_field fields[FIELDS_MAX], char etag[32],
                        char retry[16])
{
    size_t n = api_page_fields(request, fields);

    if (request->is_marked) {
        (void) snprintf(etag, 32, "\"%llu\"", (unsigned long long) request->seq);
        fields[n++] = (struct http_field){ "ETag", etag };
    }
    if (request->retry_s > 0) {
        (void) snprintf(retry, 16, "%d", request->retry_s);
        fields[n++] = (struct http_field){ "Retry-After", retry };
    }
    if (request->status == 401)
        fields[n++] = (struct http_field){ "WWW-Authenticate", "Bearer" };
    if (request->status == 405)
        fields[n++] = (struct http_field){ "Allow", request->match.allow };
    return n;
}

void api_answer(struct api_request *request)
{
    struct http_field fields[FIELDS_MAX];
    char etag[32];
    char retry[16];

    if (request->outcome != DIBS_OK)
        write_problem(request);
    if (request->status == 0)
        request->status = 200;
    metrics_request(request->api->options.metrics, request->route, request->status,
                    clock_monotonic_us() - request->began_us);
    if (request->r) {
        size_t n = fields_of(request, fields, etag, retry);

        http_set_user(request->r, NULL);
        http_answer(request->r, request->status, request->type ? request->type : API_JSON, &request->out,
                    fields, n);
    }
    api_free(request);
}

dibs_status api_write_count(struct api_request *request, dibs_status s, const char *key, uint64_t n)
{
    if (s != DIBS_OK)
        return s;
    jsonw_object(&request->w);
    jsonw_key_uint(&request->w, key, n);
    jsonw_end_object(&request->w);
    return DIBS_OK;
}

void api_begin_list(struct api_request *request, const char *key)
{
    jsonw_object(&request->w);
    jsonw_key_array(&request->w, key);
}

void api_end_list(struct api_request *request)
{
    jsonw_end_array(&request->w);
    jsonw_end_object(&request->w);
}

void api_refuse(struct api_request *request, int status)
{
    request->status = status;
    request->outcome = request->err.code;
    api_answer(request);
}

/* ---- jobs ---- */

static void work(struct job *job, dibs *handle)
{
    struct api_request *request = (struct api_request *) job;
    struct quota *quota = request->api->options.quota;

    quota_begin(quota, request->caller->principal, &request->use);
    request->out.n = 0;
    jsonw_begin_bytes(&request->w, &request->out);
    request->status = 0;
    request->type = NULL;
    /* Skip the work when the client has disconnected. */
    request->outcome = request->r ? request->route->work(request, handle, &request->err)
                                  : err_set(&request->err, DIBS_FAILURE, "the client has gone");
    quota_made(quota, request->caller->principal, &request->use);
}

/* Count refused claims. Refusals before the work (token, rate) are not about ports. */
static void note_refusal(const struct api_request *request)
{
    const struct api_options *options = &request->api->options;
    bool is_claiming = request->route->work == api_claim || request->route->work == api_batch;

    if (request->outcome != DIBS_OK && request->status != 429 && is_claiming && request->r &&
        !request->body.batch.is_dry_run)
        metrics_refused(options->metrics, &request->body.batch,
                        request->settings ? request->settings : options->settings, request->outcome);
}

static void done(struct job *job, const dibs_err *err)
{
    struct api_request *request = (struct api_request *) job;

    job->work = NULL; /* the engine does not use the job any more */
    if (err) {
        request->outcome = err->code;
        request->err = *err;
    }
    quota_end(request->api->options.quota, request->caller->principal, &request->use);
    note_refusal(request);
    if (request->outcome == DIBS_OK && request->is_stream && request->r)
        api_start_stream(request);
    else
        api_answer(request);
}

void api_queue(struct api_request *request)
{
    request->job.work = work;
    request->job.done = done;
    request->job.is_alone = (request->route->route.flags & API_ALONE) || request->body.batch.n > TOGETHER_MAX;
    for (size_t i = 0; i < request->body.batch.n; i++)
        request->job.is_kept = request->job.is_kept || request->body.requests[i].keep;
    request->job.weight = (uint32_t) request->body.batch.n;
    /* Only claims and transfers record the network namespace. */
    request->job.call = strcmp(request->route->route.method, "POST") == 0 ? caller_call(request->caller)
                                                                          : request->caller->call;
    request->job.call.allowance = request->caller->listener == CALLER_ADMIN ? NULL : &request->use.allowance;
    if (request->settings)
        request->job.call.settings = request->settings;
    group_commit_queue(request->api->options.engine->group, &request->job);
}

/* ---- requests ---- */

static const char *param(void *ctx, const char *key, size_t i)
{
    return http_query(ctx, key, i);
}

const char *api_body(const struct api_request *request, size_t *n)
{
    const char *text = http_body(request->r, n);

    if (*n > 0)
        return text;
    *n = strlen("{}");
    return "{}";
}

dibs_status api_read_json(struct api_request *request, dibs_err *err)
{
    size_t n = 0;
    const char *text = api_body(request, &n);

    return jsonr_parse(text, n, &request->body.doc, err);
}

static bool find_route(struct api_request *request)
{
    enum caller_listener from = request->caller->listener;
    bool is_local = from == CALLER_PUBLIC || from == CALLER_ADMIN;
    bool is_found =
        (from == CALLER_PAGE && router_find(&api_page_router, request->r, &request->match)) ||
        (from != CALLER_LOOPBACK && router_find(&api_router, request->r, &request->match)) ||
        ((from == CALLER_LOOPBACK || is_local) && router_find(&api_grpc_router, request->r, &request->match));

    if (is_found)
        request->route = (const struct api_route *) request->match.route;
    return is_found;
}

static void take(struct api_request *request)
{
    if (!find_route(request)) {
        api_refuse(request, router_explain(request->r, &request->match, "see /openapi.json", &request->err));
        return;
    }
    if (!api_admit(request))
        return;
    int status = router_check(request->r, request->match.route, &request->err);
    if (status != 0) {
        api_refuse(request, status);
        return;
    }
    if (request->route->read)
        request->outcome = request->route->read(request, &request->err);
    note_refusal(request);
    if (request->is_wrong_secret)
        api_refuse_secret(request);
    else if (request->outcome != DIBS_OK || !request->route->work)
        api_answer(request);
    else if (!api_waits(request) && !api_looks(request))
        api_queue(request);
}

static void requested(void *ctx, struct http_request *r)
{
    struct api_request *request = calloc(1, sizeof *request);

    if (!request) {
        http_answer(r, 503, NULL, &(struct bytes){ 0 }, NULL, 0);
        return;
    }
    request->api = ctx;
    request->r = r;
    request->params = (struct wire_params){ param, r };
    request->caller = request->peer = http_peer(r);
    request->peer->n_users++; /* the client may disconnect while the engine has the job */
    request->began_us = clock_monotonic_us();
    http_set_user(r, request);
    take(request);
}

static void abandoned(void *ctx, struct http_request *r)
{
    struct api_request *request = http_user(r);

    (void) ctx;
    if (!request)
        return;
    request->r = NULL;
    api_forget(request);
}

/* ---- connections ---- */

static void *connected(void *ctx, int fd, void *listener)
{
    struct api *api = ctx;
    enum caller_listener kind = (enum caller_listener)(uintptr_t) listener;
    struct caller *caller = calloc(1, sizeof *caller);

    if (!caller)
        return NULL;
    if (kind == CALLER_TCP) {
        caller->listener = kind;
        caller->peer.pidfd = -1;
    } else if (kind == CALLER_LOOPBACK || kind == CALLER_PAGE) {
        caller_load_loopback(&api->view, fd, kind, caller); /* requests without a user are refused */
    } else if (caller_load(&api->view, fd, kind, caller) != DIBS_OK) {
        free(caller);
        return NULL;
    }
    caller->n_users = 1;
    return caller;
}

static uint32_t account(void *ctx, uint32_t uid)
{
    const struct api *api = ctx;

    return quota_user(api->options.quota, uid);
}

static void disconnected(void *ctx, void *peer)
{
    (void) ctx;
    drop_caller(peer);
}

dibs_status api_listen(struct api *api, int fd, enum caller_listener listener, dibs_err *err)
{
    unsigned flags = listener == CALLER_TCP ? HTTP_TLS : listener == CALLER_ADMIN ? HTTP_RESERVED : 0;

    return http_listen(api->server, fd, (void *) (uintptr_t) listener, flags, err);
}

struct http_server *api_http(const struct api *api)
{
    return api->server;
}

/* ---- open and close ---- */

dibs_status api_open(const struct api_options *options, struct api **out, dibs_err *err)
{
    struct api *self = calloc(1, sizeof *self);

    if (!self)
        return err_set(err, DIBS_FAILURE, "starting the daemon: out of memory");
    self->options = *options;
    self->view = (struct caller_view){ &options->engine->core->view, options->settings, options->uid };
    self->handler = (struct http_handler){ .ctx = self,
                                           .connected = connected,
                                           .disconnected = disconnected,
                                           .account = account,
                                           .arriving = api_arriving,
                                           .requested = requested,
                                           .abandoned = abandoned };
    const struct http_limits limits = { .max_unknown = UNKNOWN_MAX, .max_unknown_ms = UNKNOWN_MS };
    dibs_status s = observer_open(
        &(struct observer_options){
            .loop = options->loop, .engine = options->engine, .done = api_looked, .ctx = self },
        &self->observer, err);
    if (s == DIBS_OK)
        s = http_open(options->loop, &limits, &self->handler, &self->server, err);
    if (s != DIBS_OK) {
        observer_close(self->observer);
        free(self);
        return s;
    }
    *out = self;
    return DIBS_OK;
}

void api_stop(struct api *api)
{
    if (!api)
        return;
    api_stop_looking(api);
    observer_close(api->observer);
    api->observer = NULL;
}

void api_close(struct api *api)
{
    if (!api)
        return;
    api_stop(api);
    http_close(api->server);
    tokens_free(api->tokens);
    free(api);
}

void api_run(struct api *api)
{
    api_wake(api, false);
    observer_run(api->observer);
    http_run(api->server);
}

size_t api_connections(const struct api *api)
{
    return http_connections(api->server);
}

int64_t api_next_ms(const struct api *api)
{
    return runtime_sooner(http_next_ms(api->server), api_wake_ms(api));
}

bool api_drain(struct api *api)
{
    if (!api->is_draining) {
        api->is_draining = true;
        http_stop_accepting(api->server);
        api_wake(api, true);
        api_stop_looking(api);
    }
    return http_connections(api->server) > 0;
}
