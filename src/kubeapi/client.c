/* SPDX-License-Identifier: MIT */
#include "kubeapi/kubeapi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "kubeapi/token.h"
#include "web/web.h"

#include "base/banned.h"

enum {
    URL_MAX = 8192,         /* a "continue" of the API server has some hundred bytes */
    CONNECT_MOST_MS = 5000, /* a server that is gone is noticed before the deadline of a long call */
};

enum pem { PEM_CA, PEM_CERT, PEM_KEY, PEMS };

struct kubeapi {
    struct kubeapi_config config;
    struct token token;
    struct stat seen[PEMS]; /* the files of certificates, when they were looked at last */
    struct web *web;
    struct kubeapi_call *calls;
};

struct kubeapi_call {
    struct kubeapi *api;
    struct kubeapi_call *next;
    struct kubeapi_request request; /* its strings are not */
    struct web_call *call;
    char url[URL_MAX];
    char *body;
    char *authorization; /* as it was then */
    const char *headers[4];
    char what[96]; /* "GET /api/v1/pods", for messages */
};

DEFINE_AUTO(struct kubeapi, kubeapi_close)
DEFINE_AUTO(json_doc, json_free)

/* ---- certificates that somebody else renews ---- */

static const char *pem_file(const struct kubeapi *api, enum pem which)
{
    const struct kubeapi_config *c = &api->config;

    return which == PEM_CA ? c->ca_file : which == PEM_CERT ? c->cert_file : c->key_file;
}

static bool note_files(struct kubeapi *api)
{
    bool is_changed = false;

    for (enum pem i = PEM_CA; i < PEMS; i++) {
        struct stat now = { 0 };

        if (!*pem_file(api, i) || stat(pem_file(api, i), &now) != 0 ||
            kubeapi_is_same_file(&now, &api->seen[i]))
            continue;
        api->seen[i] = now; /* before it is read: what comes later is read again */
        is_changed = true;
    }
    return is_changed;
}

/* What cannot be read, or is none, may be written just now: it stays as it was. */
static void renew(struct kubeapi *api, enum pem which, char **at)
{
    char *text = NULL;

    if (!*pem_file(api, which) ||
        kubeapi_read_file("certificate", pem_file(api, which), KUBEAPI_PEM_MAX_BYTES, &text, NULL) != DIBS_OK)
        return;
    if (strstr(text, "-----BEGIN")) {
        char *old = *at;

        *at = text;
        text = old;
    }
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

/* Whom we trust, and what we show, from the next call on. */
static void look_at_files(struct kubeapi *api)
{
    if (!note_files(api))
        return;
    renew(api, PEM_CA, &api->config.ca_pem);
    renew(api, PEM_CERT, &api->config.cert_pem);
    renew(api, PEM_KEY, &api->config.key_pem);
    if (!web_set_pem(api->web, api->config.ca_pem, api->config.cert_pem, api->config.key_pem))
        memset(api->seen, 0, sizeof api->seen); /* no memory: the next call tries again */
}

dibs_status kubeapi_open(struct kubeapi_config *config, struct kubeapi **out, dibs_err *err)
{
    AUTO(kubeapi_close_auto) struct kubeapi *api = calloc(1, sizeof *api);

    if (!api) {
        kubeapi_config_done(config);
        return err_set(err, DIBS_FAILURE, "asking the API server: out of memory");
    }
    api->config = *config;
    *config = (struct kubeapi_config){ 0 };
    dibs_status s = token_look(&api->token, &api->config, err);
    if (s == DIBS_OK)
        s = web_open(&(struct web_options){ .ca_pem = api->config.ca_pem,
                                            .cert_pem = api->config.cert_pem,
                                            .key_pem = api->config.key_pem },
                     &api->web, err);
    if (s == DIBS_OK)
        *out = TAKE(api);
    return s;
}

static void call_free(struct kubeapi_call *call)
{
    if (call->authorization)
        explicit_bzero(call->authorization, strlen(call->authorization));
    free(call->authorization);
    free(call->body);
    free(call);
}

static void unlink_call(const struct kubeapi_call *call)
{
    for (struct kubeapi_call **at = &call->api->calls; *at; at = &(*at)->next) {
        if (*at == call) {
            *at = call->next;
            return;
        }
    }
}

void kubeapi_cancel(struct kubeapi_call *call)
{
    if (!call)
        return;
    web_cancel(call->call);
    unlink_call(call);
    call_free(call);
}

void kubeapi_close(struct kubeapi *api)
{
    if (!api)
        return;
    while (api->calls)
        kubeapi_cancel(api->calls);
    web_close(api->web);
    token_done(&api->token);
    kubeapi_config_done(&api->config);
    free(api);
}

int kubeapi_fd(const struct kubeapi *api)
{
    return web_fd(api->web);
}

void kubeapi_turn(struct kubeapi *api)
{
    web_turn(api->web);
}

const char *kubeapi_server(const struct kubeapi *api)
{
    return api->config.server;
}

const char *kubeapi_namespace(const struct kubeapi *api)
{
    return api->config.ns;
}

/* ---- answers ---- */

static void read_answer(const struct kubeapi_call *call, struct web_answer *from, json_doc **doc,
                        struct kubeapi_answer *out)
{
    bool is_done = from->http_status == HTTP_OK || from->http_status == HTTP_CREATED;

    out->code = from->http_status;
    out->retry_after_ms = from->retry_after_ms;
    if (from->status != DIBS_OK) {
        out->err = from->err;
        out->status = err_wrap(&out->err, DIBS_UNAVAILABLE, "%s", call->what);
        return;
    }
    if (call->request.chunk && is_done)
        return; /* all of it was told */
    kubeapi_defuse(from->body.at, from->body.n);
    dibs_status s = json_parse(from->body.n > 0 ? from->body.at : "", from->body.n, doc, &out->err);
    if (!is_done) {
        out->status =
            kubeapi_refusal(out->code, s == DIBS_OK ? json_root(*doc) : NULL, call->what, &out->err);
        return;
    }
    out->status =
        s == DIBS_OK ? DIBS_OK : err_wrap(&out->err, DIBS_UNAVAILABLE, "%s: the answer", call->what);
    out->root = s == DIBS_OK ? json_root(*doc) : NULL;
}

static void on_done(void *ctx, struct web_answer *from)
{
    struct kubeapi_call *call = ctx;
    AUTO(json_free_auto) json_doc *doc = NULL;
    struct kubeapi_answer answer = { 0 };

    unlink_call(call);
    read_answer(call, from, &doc, &answer);
    if (answer.code == HTTP_UNAUTHORIZED)
        call->api->token.seen = (struct stat){ 0 }; /* the file is read again, whatever it looks like */
    if (call->request.done)
        call->request.done(call->request.ctx, &answer);
    call_free(call);
}

static bool on_chunk(void *ctx, const char *bytes, size_t n)
{
    const struct kubeapi_call *call = ctx;

    return call->request.chunk(call->request.ctx, bytes, n);
}

/* ---- asking ---- */

static bool copy_parts(struct kubeapi_call *call, const struct kubeapi_request *request)
{
    const struct kubeapi *api = call->api;
    int n = snprintf(call->url, sizeof call->url, "%s%s", api->config.server, request->path);
    size_t headers = 0;

    (void) snprintf(call->what, sizeof call->what, "%s %.*s", request->method,
                    (int) strcspn(request->path, "?"), request->path);
    if (request->body) {
        call->body = malloc(request->n_body + 1);
        if (!call->body)
            return false;
        memcpy(call->body, request->body, request->n_body);
        call->headers[headers++] = "Content-Type: application/json";
    }
    call->headers[headers++] = "Accept: application/json";
    if (api->token.header[0]) {
        call->authorization = strdup(api->token.header);
        call->headers[headers++] = call->authorization;
    }
    return n > 0 && (size_t) n < sizeof call->url && (call->authorization || !api->token.header[0]);
}

static size_t header_count(const struct kubeapi_call *call)
{
    size_t n = 0;

    while (n < sizeof call->headers / sizeof *call->headers && call->headers[n])
        n++;
    return n;
}

dibs_status kubeapi_ask(struct kubeapi *api, const struct kubeapi_request *request, struct kubeapi_call **out,
                        dibs_err *err)
{
    struct kubeapi_call *call = calloc(1, sizeof *call);

    if (!call)
        return err_set(err, DIBS_FAILURE, "asking the API server: out of memory");
    call->api = api;
    call->request = *request;
    call->request.path = call->request.body = NULL;
    (void) token_look(&api->token, &api->config, NULL); /* one that has ended is told by the server */
    look_at_files(api);
    dibs_status s =
        copy_parts(call, request)
            ? DIBS_OK
            : err_set(err, DIBS_FAILURE, "asking the API server: out of memory, or out of bounds");
    if (s == DIBS_OK)
        s = web_start(api->web,
                      &(struct web_request){ .method = request->method,
                                             .url = call->url,
                                             .headers = call->headers,
                                             .n_headers = header_count(call),
                                             .body = call->body,
                                             .n_body = request->n_body,
                                             .deadline_ms = clock_monotonic_ms() + request->timeout_ms,
                                             .connect_max_ms = CONNECT_MOST_MS,
                                             .chunk = request->chunk ? on_chunk : NULL,
                                             .silence_max_ms = request->silence_max_ms,
                                             .done = on_done,
                                             .ctx = call },
                      &call->call, err);
    if (s != DIBS_OK) {
        call_free(call);
        return s;
    }
    call->next = api->calls;
    api->calls = call;
    if (out)
        *out = call;
    return DIBS_OK;
}
