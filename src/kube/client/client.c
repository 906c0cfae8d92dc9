/* SPDX-License-Identifier: MIT */
#include "kube/client/kubeapi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "http/client.h"

#include "base/banned.h"

enum {
    URL_MAX = 8192,         /* a "continue" token of the API server has a few hundred bytes */
    CONNECT_MOST_MS = 5000, /* detects a dead server before the deadline of a long call */
};

struct kubeapi {
    struct kubeapi_config config;
    struct web *web;
    bool is_pem_new; /* a certificate changed and `web` does not use it yet */
    LIST_HEAD(kubeapi_call_list, kubeapi_call) calls;
};

struct kubeapi_call {
    struct kubeapi *api;
    LIST_ENTRY(kubeapi_call) link;
    struct kubeapi_request request; /* its strings are not valid after kubeapi_ask() */
    struct web_call *call;
    char what[96]; /* "GET /api/v1/pods", for messages */
    char body[];
};

DEFINE_AUTO(struct kubeapi, kubeapi_close)

static const char *text_of(const struct kubeapi *api, enum kubeapi_which which)
{
    return api->config.credentials[which].text;
}

/* Reload certificates and token for the next call. On failure the old ones stay. */
static void reload_credentials(struct kubeapi *api)
{
    bool is_new = false;

    for (enum kubeapi_which i = KUBEAPI_CA; i < KUBEAPI_TOKEN; i++)
        (void) !kubeapi_renew(&api->config, i, &api->is_pem_new, NULL);
    (void) !kubeapi_renew(&api->config, KUBEAPI_TOKEN, &is_new, NULL);
    if (api->is_pem_new && web_set_pem(api->web, text_of(api, KUBEAPI_CA), text_of(api, KUBEAPI_CERT),
                                       text_of(api, KUBEAPI_KEY)))
        api->is_pem_new = false; /* otherwise the next call retries */
}

dibs_status kubeapi_open(struct kubeapi_config *config, struct kubeapi **out, dibs_err *err)
{
    AUTO(kubeapi_close_auto) struct kubeapi *api = calloc(1, sizeof *api);
    bool is_new = false;

    if (!api) {
        kubeapi_config_done(config);
        return err_set(err, DIBS_FAILURE, "calling the API server: out of memory");
    }
    api->config = *config;
    *config = (struct kubeapi_config){ 0 };
    dibs_status s = kubeapi_renew(&api->config, KUBEAPI_TOKEN, &is_new, err);
    if (s == DIBS_OK)
        s = web_open(&(struct web_options){ .ca_pem = text_of(api, KUBEAPI_CA),
                                            .cert_pem = text_of(api, KUBEAPI_CERT),
                                            .key_pem = text_of(api, KUBEAPI_KEY) },
                     &api->web, err);
    if (s == DIBS_OK)
        *out = TAKE(api);
    return s;
}

void kubeapi_cancel(struct kubeapi_call *call)
{
    if (!call)
        return;
    web_cancel(call->call);
    LIST_REMOVE(call, link);
    free(call);
}

void kubeapi_close(struct kubeapi *api)
{
    if (!api)
        return;
    while (!LIST_EMPTY(&api->calls))
        kubeapi_cancel(LIST_FIRST(&api->calls));
    web_close(api->web);
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

static void read_answer(const struct kubeapi_call *call, struct web_answer *from, jsonr_doc **doc,
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
        return; /* chunk() has received the whole body */
    kubeapi_defuse(from->body.at, from->body.n);
    dibs_status s = jsonr_parse(from->body.n > 0 ? from->body.at : "", from->body.n, doc, &out->err);
    if (!is_done) {
        out->status =
            kubeapi_refusal(out->code, s == DIBS_OK ? jsonr_root(*doc) : NULL, call->what, &out->err);
        return;
    }
    out->status =
        s == DIBS_OK ? DIBS_OK : err_wrap(&out->err, DIBS_UNAVAILABLE, "%s: the answer", call->what);
    out->root = s == DIBS_OK ? jsonr_root(*doc) : NULL;
}

static void on_done(void *ctx, struct web_answer *from)
{
    struct kubeapi_call *call = ctx;
    AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;
    struct kubeapi_answer answer = { 0 };

    LIST_REMOVE(call, link);
    read_answer(call, from, &doc, &answer);
    if (call->request.done)
        call->request.done(call->request.ctx, &answer);
    free(call);
}

static bool on_chunk(void *ctx, const char *bytes, size_t n)
{
    const struct kubeapi_call *call = ctx;

    return call->request.chunk(call->request.ctx, bytes, n);
}

/* The web client copies addresses and headers, but not the body. */
static dibs_status start(struct kubeapi_call *call, const struct kubeapi_request *request, dibs_err *err)
{
    struct kubeapi *api = call->api;
    const char *token = text_of(api, KUBEAPI_TOKEN);
    char url[URL_MAX];
    char authorization[KUBEAPI_TOKEN_MAX + 32] = "";
    const char *headers[3] = { "Accept: application/json" };
    size_t n_headers = 1;
    int n = snprintf(url, sizeof url, "%s%s", api->config.server, request->path);

    if (n < 0 || (size_t) n >= sizeof url)
        return err_set(err, DIBS_FAILURE, "calling the API server: the path is too long");
    if (request->body)
        headers[n_headers++] = "Content-Type: application/json";
    if (token) {
        (void) snprintf(authorization, sizeof authorization, "Authorization: Bearer %.*s",
                        (int) strcspn(token, "\r\n"), token);
        headers[n_headers++] = authorization;
    }
    dibs_status s =
        web_start(api->web,
                  &(struct web_request){ .method = request->method,
                                         .url = url,
                                         .headers = headers,
                                         .n_headers = n_headers,
                                         .body = request->body ? call->body : NULL,
                                         .n_body = request->n_body,
                                         .deadline_ms = clock_monotonic_ms() + request->timeout_ms,
                                         .connect_max_ms = CONNECT_MOST_MS,
                                         .chunk = request->chunk ? on_chunk : NULL,
                                         .silence_max_ms = request->silence_max_ms,
                                         .done = on_done,
                                         .ctx = call },
                  &call->call, err);
    explicit_bzero(authorization, sizeof authorization);
    return s;
}

dibs_status kubeapi_ask(struct kubeapi *api, const struct kubeapi_request *request, struct kubeapi_call **out,
                        dibs_err *err)
{
    struct kubeapi_call *call = calloc(1, sizeof *call + request->n_body);

    if (!call)
        return err_set(err, DIBS_FAILURE, "calling the API server: out of memory");
    call->api = api;
    call->request = *request;
    call->request.path = call->request.body = NULL;
    (void) snprintf(call->what, sizeof call->what, "%s %.*s", request->method,
                    (int) strcspn(request->path, "?"), request->path);
    if (request->body)
        memcpy(call->body, request->body, request->n_body);
    reload_credentials(api);
    dibs_status s = start(call, request, err);
    if (s != DIBS_OK) {
        free(call);
        return s;
    }
    LIST_INSERT_HEAD(&api->calls, call, link);
    if (out)
        *out = call;
    return DIBS_OK;
}
