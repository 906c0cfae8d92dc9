/* SPDX-License-Identifier: MIT */
/* Admit requests: who asks, with which token, how often. */
#include <stdio.h>

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

    if (peer->listener == CALLER_LOOPBACK && peer->principal[0])
        (void) count_connection(api, r, peer->peer.uid);
    else if (peer->listener == CALLER_TCP &&
             caller_load_token(&api->view, api->tokens, http_header(r, "Authorization"), &caller, NULL) ==
                 DIBS_OK)
        (void) count_connection(api, r, caller.peer.uid);
}

/* Log a wrong token, at most once per interval, and delay its refusal: nobody may try many. */
static void refuse_token(struct api_request *request)
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
    request->status = 401;
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
        refuse_token(request);
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

/* Count a connection over TCP for its user, if that is known by now. */
static bool admit_connection(struct api_request *request)
{
    const struct caller *caller = request->caller;
    bool is_tcp = caller->listener == CALLER_TCP || caller->listener == CALLER_LOOPBACK;

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
