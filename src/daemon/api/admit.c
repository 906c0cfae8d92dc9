/* SPDX-License-Identifier: MIT */
/* Admit requests: who asks, with which token, how often. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/err.h"
#include "daemon/api/internal.h"
#include "server/log.h"

#include "base/banned.h"

/* Delay of the answer to a wrong token, and interval of the log lines about them. */
enum { REFUSAL_MS = 1000 };

/* Count the connection for the user of its requests. */
static bool count_connection(const struct api *api, struct http_request *r, uint32_t uid)
{
    return http_identify(r, quota_user(api->options.quota, uid));
}

void api_arriving(void *ctx, struct http_request *r)
{
    struct api *api = ctx;
    const struct caller *peer = http_peer(r);
    struct caller caller;

    if ((peer->listener == CALLER_LOOPBACK || peer->listener == CALLER_PAGE) && peer->principal[0])
        (void) count_connection(api, r, peer->peer.uid);
    else if (peer->listener == CALLER_TCP &&
             caller_load_token(&api->view, api->tokens, http_header(r, "Authorization"), &caller, NULL) ==
                 DIBS_OK)
        (void) count_connection(api, r, caller.peer.uid);
}

/* The log has a line at most once per interval. */
void api_refuse_secret(struct api_request *request)
{
    struct api *api = request->api;
    int64_t now_ms = clock_monotonic_ms();
    char from[DIBS_ADDRESS_TEXT_MAX + 1];
    char n[24];

    api->n_refused_tokens++;
    if (now_ms >= api->log_refused_ms) {
        api->log_refused_ms = now_ms + REFUSAL_MS;
        http_client_address(request->r, from);
        (void) snprintf(n, sizeof n, "%llu", (unsigned long long) api->n_refused_tokens);
        LOG(LOG_WARNING, "an unknown token was refused", "from", from, "since_start", n);
    }
    request->status = request->err.code == DIBS_NOT_FOUND ? 404 : 401;
    request->outcome = request->err.code;
    request->wait_until_ms = now_ms + REFUSAL_MS;
    if (!api_waits(request))
        api_answer(request);
}

/* Admit a request over TCP: it has a token of a user. */
static bool admit_token(struct api_request *request)
{
    struct api *api = request->api;
    const char *field = http_header(request->r, "Authorization");

    if (caller_load_token(&api->view, api->tokens, field, &request->token_caller, &request->err) == DIBS_OK) {
        request->caller = &request->token_caller;
        return true;
    }
    if (field)
        api_refuse_secret(request);
    else
        api_refuse(request, 401);
    return false;
}

/* Admit a request over loopback: the connection must have a known user, and no web page may send it. */
static bool admit_loopback(struct api_request *request)
{
    if (request->caller->principal[0] && !http_header(request->r, "Origin") &&
        !http_header(request->r, "Sec-Fetch-Site") && router_host_is_local(request->r))
        return true;
    (void) err_set(&request->err, DIBS_DENIED,
                   request->caller->principal[0] ? "a web page may not ask for ports"
                                                 : "the user of this connection cannot be found");
    api_refuse(request, 403);
    return false;
}

/* Do the request's fields say that a page of our own has sent it? Under DNS rebinding the host has another
 * name, and a page of another site has another origin. */
static bool is_own_page(const struct api_request *request)
{
    const char *host = http_header(request->r, "Host");
    const char *origin = http_header(request->r, "Origin");
    const char *site = http_header(request->r, "Sec-Fetch-Site");
    static const char scheme[] = "http://";
    static const char *const names[] = { "127.0.0.1", "localhost", "[::1]" };
    bool is_ours = false;
    char name[32];

    for (size_t i = 0; i < sizeof names / sizeof *names && host; i++) {
        (void) snprintf(name, sizeof name, "%s:%u", names[i], ui_port(request->api->options.ui));
        is_ours = is_ours || strcasecmp(host, name) == 0;
    }
    return is_ours &&
           (!origin || (strncasecmp(origin, scheme, sizeof scheme - 1) == 0 &&
                        strcasecmp(origin + sizeof scheme - 1, host) == 0)) &&
           (!site || strcmp(site, "same-origin") == 0 || strcmp(site, "none") == 0);
}

const char *api_bearer(const struct api_request *request)
{
    static const char scheme[] = "Bearer ";
    const char *field = http_header(request->r, "Authorization");

    return field && strncasecmp(field, scheme, sizeof scheme - 1) == 0 ? field + sizeof scheme - 1 : NULL;
}

/* Admit a request to the dashboard's port: from a page of ours in a known user's browser, and with a session
 * of that user unless the route is public. */
static bool admit_page(struct api_request *request)
{
    const struct caller *peer = request->peer;
    const char *session = api_bearer(request);
    unsigned flags = request->route->route.flags;
    uint32_t uid = 0;

    if (!peer->principal[0] || !is_own_page(request) || !(flags & API_PAGE)) {
        (void) err_set(&request->err, DIBS_DENIED,
                       !peer->principal[0]    ? "the user of this connection cannot be found"
                       : is_own_page(request) ? "a page may not do this: use the command"
                                              : "only the dashboard's own page may ask here");
        api_refuse(request, 403);
        return false;
    }
    if (flags & API_PUBLIC)
        return true;
    if (!session) {
        (void) err_set(&request->err, DIBS_DENIED, "a page needs a session: run 'dibs ui' again");
        api_refuse(request, 401);
        return false;
    }
    if (ui_find(request->api->options.ui, session, peer->peer.uid, &uid, &request->session_ends_ms,
                &request->err) != DIBS_OK) {
        api_refuse_secret(request);
        return false;
    }
    caller_load_page(&request->api->view, uid, &request->token_caller);
    request->caller = &request->token_caller;
    return true;
}

/* Count a connection over TCP for its user, if that is known by now. */
static bool admit_connection(struct api_request *request)
{
    enum caller_listener from = request->caller->listener;
    const struct caller *caller = from == CALLER_PAGE ? request->peer : request->caller;
    bool is_tcp = from == CALLER_TCP || from == CALLER_LOOPBACK || from == CALLER_PAGE;

    if (!is_tcp || !caller->principal[0] || count_connection(request->api, request->r, caller->peer.uid))
        return true;
    (void) err_set(&request->err, DIBS_UNAVAILABLE, "too many connections of uid %u are open",
                   caller->peer.uid);
    request->retry_s = 1;
    api_refuse(request, 429);
    return false;
}

bool api_admit(struct api_request *request)
{
    struct api *api = request->api;

    if (request->caller->listener == CALLER_LOOPBACK && !admit_loopback(request))
        return false;
    if (request->caller->listener == CALLER_TCP && !(request->route->route.flags & API_PUBLIC) &&
        !admit_token(request))
        return false;
    if (request->caller->listener == CALLER_PAGE && !admit_page(request))
        return false;
    if (!admit_connection(request))
        return false;
    if (request->caller->listener == CALLER_ADMIN || (request->route->route.flags & API_PUBLIC))
        return true;
    int64_t wait_ms = quota_request(api->options.quota, request->caller->call.uid, clock_monotonic_ms());
    if (wait_ms == 0)
        return true;
    request->retry_s = (int) (wait_ms / 1000 + 1);
    (void) err_set(&request->err, DIBS_UNAVAILABLE,
                   "too many requests of uid %u; the next is accepted in %lld ms (see 'dibs serve --rate')",
                   request->caller->call.uid, (long long) wait_ms);
    api_refuse(request, 429);
    return false;
}
