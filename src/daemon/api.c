/* SPDX-License-Identifier: MIT */
/* Requests in, answers out: which route, who asks, may he ask now; then the engine's turn. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/near.h"
#include "base/text.h"
#include "daemon/api_parts.h"

#include "base/banned.h"

enum {
    TOGETHER_MAX = 256, /* claims of a batch that others may have to wait for: some 10 ms */
    SPARE_MAX = 128, /* requests that come together, as a rule: 0.3 MB, which the allocator has not at hand */
};

/* ---- answers ---- */

static void let_go(struct caller *peer)
{
    if (--peer->n_users > 0)
        return;
    caller_done(peer);
    free(peer);
}

void api_free(struct ask *ask)
{
    wire_asked_done(&ask->asked);
    bytes_done(&ask->out);
    free(ask->settings);
    let_go(ask->peer);
    struct api *api = ask->api;
    if (api->n_spare == SPARE_MAX) {
        free(ask);
        return;
    }
    ask->next = api->spare;
    api->spare = ask;
    api->n_spare++;
}

static struct ask *new_ask(struct api *api)
{
    struct ask *ask = api->spare;

    if (!ask)
        return calloc(1, sizeof *ask);
    api->spare = ask->next;
    api->n_spare--;
    memset(ask, 0, sizeof *ask);
    return ask;
}

static void write_problem(struct ask *ask)
{
    struct json_writer w;

    ask->out.n = 0;
    json_begin_bytes(&w, &ask->out);
    ask->err.code = ask->outcome;
    if (ask->status < 400)
        ask->status = wire_http_status(ask->outcome);
    wire_problem(&w, &ask->err, ask->status);
    ask->type = "application/problem+json";
}

static size_t fields_of(struct ask *ask, struct http_field fields[4], char etag[32], char retry[16])
{
    size_t n = 0;

    if (ask->is_marked) {
        (void) snprintf(etag, 32, "\"%llu\"", (unsigned long long) ask->seq);
        fields[n++] = (struct http_field){ "ETag", etag };
    }
    if (ask->retry_s > 0) {
        (void) snprintf(retry, 16, "%d", ask->retry_s);
        fields[n++] = (struct http_field){ "Retry-After", retry };
    }
    if (ask->status == 401)
        fields[n++] = (struct http_field){ "WWW-Authenticate", "Bearer" };
    if (ask->status == 405)
        fields[n++] = (struct http_field){ "Allow", ask->part[0] };
    return n;
}

void api_answer(struct ask *ask)
{
    static const char lost[] =
        "{\"type\":\"about:blank\",\"title\":\"out of memory\",\"status\":500,\"code\":1}";
    struct http_field fields[4];
    char etag[32];
    char retry[16];

    if (ask->outcome != DIBS_OK)
        write_problem(ask);
    if (ask->status == 0)
        ask->status = 200;
    metrics_request(ask->api->options.metrics, ask->route, ask->status, clock_monotonic_us() - ask->began_us);
    if (ask->r) {
        const char *type = ask->type ? ask->type : ASK_JSON;
        size_t n = fields_of(ask, fields, etag, retry);

        http_set_user(ask->r, NULL);
        if (ask->out.is_lost)
            http_answer(ask->r, 500, type, (struct http_body){ lost, sizeof lost - 1, NULL }, fields, n);
        else
            http_answer_bytes(ask->r, ask->status, type, &ask->out, fields, n);
    }
    api_free(ask);
}

static void refuse(struct ask *ask, int status, dibs_status code)
{
    ask->status = status;
    ask->outcome = code;
    api_answer(ask);
}

/* ---- the engine's side ---- */

static void give_back(struct ask *ask)
{
    quota_give(ask->api->options.quota, ask->caller->principal, ask->taken);
    ask->taken = 0;
}

/* What it makes of claims counts at once for the jobs after it; its changes are told only when all are
 * durable. */
static void take_quota(struct ask *ask, uint32_t before)
{
    uint32_t more = ask->allowance.n > before ? ask->allowance.n - before : 0;

    if (quota_note(ask->api->options.quota, ask->caller->principal, more, NULL) == DIBS_OK)
        ask->taken = more;
}

static void work(struct job *job, dibs *handle)
{
    struct ask *ask = (struct ask *) job;
    const struct quota *quota = ask->api->options.quota;

    give_back(ask); /* of a first attempt */
    uint32_t before = quota_count(quota, ask->caller->principal);
    ask->allowance = (struct ledger_allowance){ before, quota_limit(quota) };
    ask->out.n = 0;
    ask->status = 0;
    ask->type = NULL;
    /* Nobody would learn of it: not doing it is as good. */
    ask->outcome = ask->r ? ask->route->work(ask, handle, &ask->err)
                          : err_set(&ask->err, DIBS_FAILURE, "the client has gone");
    take_quota(ask, before);
}

/* Claims that were asked for in vain. What is refused before (a token, the rate) says nothing of ports. */
static void note_refusal(const struct ask *ask)
{
    const struct api_options *options = &ask->api->options;
    bool is_claiming = ask->route->work == api_claim || ask->route->work == api_batch;

    if (ask->outcome != DIBS_OK && ask->status != 429 && is_claiming && ask->r &&
        !ask->asked.batch.is_dry_run)
        metrics_refused(options->metrics, &ask->asked.batch,
                        ask->settings ? ask->settings : options->settings, ask->outcome);
}

static void done(struct job *job, const dibs_err *err)
{
    struct ask *ask = (struct ask *) job;

    job->work = NULL; /* it is no longer the engine's */
    if (err) {
        ask->outcome = err->code;
        ask->err = *err;
    }
    give_back(ask);
    note_refusal(ask);
    if (ask->outcome == DIBS_OK && ask->is_stream && ask->r)
        api_start_stream(ask);
    else
        api_answer(ask);
}

void api_queue(struct ask *ask)
{
    ask->job.work = work;
    ask->job.done = done;
    ask->job.is_alone = ask->route->is_alone || ask->asked.batch.n > TOGETHER_MAX;
    ask->job.weight = (uint32_t) ask->asked.batch.n;
    ask->job.caller = ask->caller->who;
    ask->job.caller.allowance = ask->caller->door == CALLER_ADMIN ? NULL : &ask->allowance;
    if (ask->settings)
        ask->job.caller.settings = ask->settings;
    engine_queue(ask->api->options.engine, &ask->job);
}

/* ---- what arrives ---- */

static const char *param(void *ctx, const char *key, size_t i)
{
    return http_query(((const struct ask *) ctx)->r, key, i);
}

struct wire_params api_params(struct ask *ask)
{
    return (struct wire_params){ param, ask };
}

dibs_status api_json(struct ask *ask, json_doc **out, dibs_err *err)
{
    size_t n = 0;
    const char *text = http_body(ask->r, &n);

    return n > 0 ? json_parse(text, n, out, err) : json_parse("{}", 2, out, err);
}

/* Does the path fit the pattern? Its parts are kept. */
static bool fits(const char *pattern, const char *path, char part[ASK_PARTS_MAX][ASK_PART_BYTES])
{
    size_t n = 0;

    while (*pattern) {
        if (*pattern != '{') {
            if (*pattern++ != *path++)
                return false;
            continue;
        }
        size_t len = strcspn(path, "/");
        if (len == 0 || len >= ASK_PART_BYTES || n == ASK_PARTS_MAX)
            return false;
        memcpy(part[n], path, len);
        part[n++][len] = '\0';
        pattern += strcspn(pattern, "}") + 1;
        path += len;
    }
    return *path == '\0';
}

static void find_in(const struct route *routes, struct ask *ask, char allowed[ASK_PART_BYTES])
{
    const char *method = http_method(ask->r);
    size_t used = strlen(allowed);

    for (const struct route *route = routes; route->method && !ask->route; route++) {
        if (!fits(route->path, http_path(ask->r), ask->part))
            continue;
        if (strcmp(route->method, method) == 0) {
            ask->route = route;
            continue;
        }
        int n = snprintf(allowed + used, ASK_PART_BYTES - used, "%s%s", used ? ", " : "", route->method);
        used += n > 0 && (size_t) n < ASK_PART_BYTES - used ? (size_t) n : 0;
    }
}

static void find_route(struct ask *ask, char allowed[ASK_PART_BYTES])
{
    allowed[0] = '\0';
    if (ask->caller->door != CALLER_LOOPBACK)
        find_in(api_routes, ask, allowed);
    if (ask->caller->door != CALLER_TCP)
        find_in(api_grpc_routes, ask, allowed);
}

static bool is_word(const char *words, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = words; n > 0 && (at = strstr(at, word)) != NULL; at += n)
        if ((at == words || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
            return true;
    return false;
}

/* A filter that is misspelt would list everything, or worse, end something else. */
static dibs_status check_params(const struct ask *ask, dibs_err *err)
{
    const char *known = ask->route->params ? ask->route->params : "";
    const char *key = NULL;
    const char *value = NULL;
    char safe[64];

    for (size_t i = 0; http_query_at(ask->r, i, &key, &value); i++)
        if (!is_word(known, key))
            return err_set(err, DIBS_INVALID, "there is no parameter '%s' here; known are: %s",
                           text_safe(key, safe, sizeof safe), known[0] ? known : "none");
    return DIBS_OK;
}

static bool is_json(const struct ask *ask)
{
    const char *type = http_header(ask->r, "Content-Type");
    size_t n = 0;

    (void) http_body(ask->r, &n);
    return n == 0 || !type || strncasecmp(type, ASK_JSON, sizeof ASK_JSON - 1) == 0;
}

/* Over loopback: the user whose connection it is, and no web page that his browser shows. */
static bool admit_loopback(struct ask *ask)
{
    if (ask->caller->principal[0] && !http_header(ask->r, "Origin") && !http_header(ask->r, "Sec-Fetch-Site"))
        return true;
    (void) err_set(&ask->err, DIBS_DENIED,
                   ask->caller->principal[0] ? "a web page may not ask for ports"
                                             : "whose connection this is cannot be told");
    refuse(ask, 403, DIBS_DENIED);
    return false;
}

/* Who asks, and may he ask now? False: it was refused. */
static bool admit(struct ask *ask)
{
    struct api *api = ask->api;

    if (ask->caller->door == CALLER_LOOPBACK && !admit_loopback(ask))
        return false;
    if (ask->caller->door == CALLER_TCP && !ask->route->is_public) {
        if (caller_load_token(&api->view, api->tokens, http_header(ask->r, "Authorization"),
                              &ask->token_caller, &ask->err) != DIBS_OK) {
            refuse(ask, 401, DIBS_DENIED);
            return false;
        }
        ask->token_caller.who.principal = ask->token_caller.principal;
        ask->caller = &ask->token_caller;
    }
    if (ask->caller->door == CALLER_ADMIN || ask->route->is_public)
        return true;
    int64_t wait_ms = quota_request(api->options.quota, ask->caller->who.uid, clock_monotonic_ms());
    if (wait_ms == 0)
        return true;
    ask->retry_s = (int) (wait_ms / 1000 + 1);
    (void) err_set(&ask->err, DIBS_UNAVAILABLE,
                   "too many requests of uid %u; the next is taken in %lld ms (see 'dibs serve --rate')",
                   ask->caller->who.uid, (long long) wait_ms);
    refuse(ask, 429, DIBS_UNAVAILABLE);
    return false;
}

static void take(struct ask *ask)
{
    char allowed[ASK_PART_BYTES];

    find_route(ask, allowed);
    if (!ask->route) {
        (void) err_set(&ask->err, allowed[0] ? DIBS_INVALID : DIBS_NOT_FOUND,
                       allowed[0] ? "%s cannot be done here; see /openapi.json"
                                  : "%s: there is nothing of that name; see /openapi.json",
                       allowed[0] ? http_method(ask->r) : "this path");
        (void) text_copy(ask->part[0], ASK_PART_BYTES, allowed);
        refuse(ask, allowed[0] ? 405 : 404, allowed[0] ? DIBS_INVALID : DIBS_NOT_FOUND);
        return;
    }
    if (!admit(ask))
        return;
    if (!is_json(ask)) {
        (void) err_set(&ask->err, DIBS_INVALID,
                       "bodies are JSON: send 'Content-Type: " ASK_JSON "' (curl: --json)");
        refuse(ask, 415, DIBS_INVALID);
        return;
    }
    ask->outcome = check_params(ask, &ask->err);
    if (ask->outcome == DIBS_OK && ask->route->read)
        ask->outcome = ask->route->read(ask, &ask->err);
    note_refusal(ask);
    if (ask->outcome != DIBS_OK || !ask->route->work)
        api_answer(ask);
    else if (!api_waits(ask))
        api_queue(ask);
}

static void requested(void *ctx, struct http_request *r)
{
    static const char lost[] = "out of memory\n";
    struct ask *ask = new_ask(ctx);

    if (!ask) {
        http_answer(r, 503, "text/plain", (struct http_body){ lost, sizeof lost - 1, NULL }, NULL, 0);
        return;
    }
    ask->api = ctx;
    ask->r = r;
    ask->caller = ask->peer = http_peer(r);
    ask->peer->n_users++; /* the client may go away while the engine has its job */
    ask->began_us = clock_monotonic_us();
    ask->out = http_buffer(r);
    http_set_user(r, ask);
    take(ask);
}

static void abandoned(void *ctx, struct http_request *r)
{
    struct ask *ask = http_user(r);

    (void) ctx;
    if (!ask)
        return;
    ask->r = NULL;
    api_forget(ask);
}

/* ---- connections ---- */

static void *connected(void *ctx, int fd, const struct http_door *door)
{
    struct api *api = ctx;
    enum caller_door kind = (enum caller_door)(uintptr_t) door->user;
    struct caller *caller = calloc(1, sizeof *caller);

    if (!caller)
        return NULL;
    if (kind == CALLER_TCP) {
        caller->door = kind;
        caller->peer.pidfd = -1;
    } else if (kind == CALLER_LOOPBACK) {
        (void) caller_load_loopback(&api->view, fd, caller, NULL); /* nobody's: refused when he asks */
    } else if (caller_load(&api->view, fd, kind, caller, NULL) != DIBS_OK) {
        free(caller);
        return NULL;
    }
    caller->n_users = 1;
    return caller;
}

static void disconnected(void *ctx, void *peer)
{
    (void) ctx;
    let_go(peer);
}

dibs_status api_listen(struct api *api, int fd, enum caller_door door, dibs_err *err)
{
    return http_listen(api->server, fd, (void *) (uintptr_t) door, door == CALLER_TCP, err);
}

dibs_status api_set_tls(struct api *api, const char *cert_pem, const char *key_pem, struct tokens *tokens,
                        dibs_err *err)
{
    dibs_status s = http_set_tls(api->server, cert_pem, key_pem, err);

    if (s != DIBS_OK) {
        tokens_free(tokens);
        return s;
    }
    tokens_free(api->tokens);
    api->tokens = tokens;
    return DIBS_OK;
}

/* ---- life ---- */

dibs_status api_open(const struct api_options *options, struct api **out, dibs_err *err)
{
    struct api *self = calloc(1, sizeof *self);

    if (!self)
        return err_set(err, DIBS_FAILURE, "starting the daemon: out of memory");
    self->options = *options;
    self->view = (struct caller_view){ engine_view(options->engine), options->settings, options->uid };
    self->handler = (struct http_handler){ .ctx = self,
                                           .connected = connected,
                                           .disconnected = disconnected,
                                           .requested = requested,
                                           .abandoned = abandoned };
    dibs_status s = http_open(options->loop, &(struct http_limits){ 0 }, &self->handler, &self->server, err);
    if (s != DIBS_OK) {
        free(self);
        return s;
    }
    *out = self;
    return DIBS_OK;
}

void api_close(struct api *api)
{
    if (!api)
        return;
    http_close(api->server);
    tokens_free(api->tokens);
    for (struct ask *ask = api->spare, *next = NULL; ask; ask = next) {
        next = ask->next;
        free(ask);
    }
    free(api);
}

void api_run(struct api *api)
{
    api_wake(api, false);
    http_run(api->server);
}

int64_t api_next_ms(const struct api *api)
{
    int64_t http_ms = http_next_ms(api->server);
    int64_t wake_ms = api_wake_ms(api);

    if (http_ms < 0 || (wake_ms >= 0 && wake_ms < http_ms))
        return wake_ms;
    return http_ms;
}

bool api_drain(struct api *api)
{
    if (!api->is_draining) {
        api->is_draining = true;
        http_stop_accepting(api->server);
        api_wake(api, true);
    }
    return http_connections(api->server) > 0;
}

size_t api_connections(const struct api *api)
{
    return http_connections(api->server);
}
