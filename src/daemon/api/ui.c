/* SPDX-License-Identifier: MIT */
/* The dashboard: its pages, their sessions, and the address for a new one. */
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "daemon/api/internal.h"
#include "host/kernel.h"
#include "host/user_names.h"

#include "base/banned.h"

/* ---- pages ---- */

/* A page gets everything from its own server, runs no script but its own files, and cannot be framed. */
#define CONTENT_POLICY                                                              \
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " \
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

size_t api_page_fields(const struct api_request *request, struct http_field out[API_PAGE_FIELDS])
{
    static const struct http_field fields[API_PAGE_FIELDS] = {
        { "Cache-Control", "no-store" },
        { "Content-Security-Policy", CONTENT_POLICY },
        { "X-Content-Type-Options", "nosniff" },
        { "Referrer-Policy", "no-referrer" },
        { "Cross-Origin-Opener-Policy", "same-origin" },
        { "Cross-Origin-Resource-Policy", "same-origin" },
        { "X-Frame-Options", "DENY" },
    };

    if (request->peer->listener != CALLER_PAGE)
        return 0;
    memcpy(out, fields, sizeof fields);
    return API_PAGE_FIELDS;
}

#define X(name, path, mime)                                                   \
    static dibs_status get_##name(struct api_request *request, dibs_err *err) \
    {                                                                         \
        (void) err;                                                           \
        request->type = mime;                                                 \
        bytes_add(&request->out, page_##name, page_##name##_size);            \
        return DIBS_OK;                                                       \
    }
API_PAGE_FILES(X)
#undef X

/* ---- sessions ---- */

/* Describe a session; `secret` only to the page that has just begun it. */
static void write_session(struct api_request *request, const char *secret, const struct caller *caller)
{
    struct user_names names = { 0 };
    char host[256] = "";
    char id[SESSIONS_ID_TEXT + 1];
    struct jsonw *w = &request->w;

    user_names_load(&names);
    const char *user = user_names_find(&names, caller->peer.uid);
    (void) gethostname(host, sizeof host - 1);
    jsonw_begin_bytes(w, &request->out);
    jsonw_object(w);
    if (secret) {
        sessions_id(secret, id);
        jsonw_key_string(w, "session", secret);
        jsonw_key_string(w, "id", id);
    }
    jsonw_key_string(w, "principal", caller->principal);
    jsonw_key(w, "user");
    if (user)
        jsonw_string(w, user);
    else
        jsonw_null(w);
    jsonw_key_string(w, "version", dibs_version());
    jsonw_key_string(w, "host", host);
    jsonw_key_string(w, "kind", ui_is_short_lived(request->api->options.ui) ? "short-lived" : "daemon");
    jsonw_end_object(w);
    user_names_done(&names);
}

static dibs_status begin_session(struct api_request *request, dibs_err *err)
{
    char session[SESSIONS_SECRET_TEXT + 1];
    const char *token = NULL;
    uint32_t uid = 0;
    struct caller caller;
    dibs_status s = api_read_json(request, err);

    if (s == DIBS_OK && !jsonr_get_string(jsonr_root(request->body.doc), "token", &token))
        s = err_set(err, DIBS_INVALID, "expected {\"token\": \"...\"}, as the address has it");
    if (s != DIBS_OK)
        return s;
    s = ui_begin(request->api->options.ui, token, request->peer->peer.uid, session, &uid, err);
    request->is_wrong_secret = s == DIBS_DENIED;
    if (s != DIBS_OK)
        return s;
    caller_load_page(&request->api->view, uid, &caller);
    write_session(request, session, &caller);
    explicit_bzero(session, sizeof session);
    request->status = 201;
    return DIBS_OK;
}

enum { NONCE_MIN = 22, NONCE_MAX = 128 }; /* characters of base64url: from 128 bits on */

static bool is_nonce(const char *text)
{
    size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_");

    return !text[n] && n >= NONCE_MIN && n <= NONCE_MAX;
}

/* Answer a page that has a session, before it sends that: while no daemon ran, another program may have had
 * the port, and may have it still. */
static dibs_status prove_session(struct api_request *request, dibs_err *err)
{
    const char *id = NULL;
    const char *nonce = NULL;
    char proof[SESSIONS_PROOF_TEXT + 1];
    dibs_status s = api_read_json(request, err);

    if (s == DIBS_OK &&
        (!jsonr_get_string(jsonr_root(request->body.doc), "id", &id) ||
         !jsonr_get_string(jsonr_root(request->body.doc), "nonce", &nonce) || !is_nonce(nonce)))
        s = err_set(
            err, DIBS_INVALID,
            "expected {\"id\": \"...\", \"nonce\": \"...\"}, the nonce with %d to %d characters of base64url",
            NONCE_MIN, NONCE_MAX);
    if (s != DIBS_OK)
        return s;
    s = ui_prove(request->api->options.ui, id, nonce, request->peer->peer.uid, proof, err);
    request->is_wrong_secret = s == DIBS_NOT_FOUND;
    if (s != DIBS_OK)
        return s;
    jsonw_begin_bytes(&request->w, &request->out);
    jsonw_object(&request->w);
    jsonw_key_string(&request->w, "proof", proof);
    jsonw_end_object(&request->w);
    return DIBS_OK;
}

static dibs_status show_session(struct api_request *request, dibs_err *err)
{
    (void) err;
    write_session(request, NULL, request->caller);
    return DIBS_OK;
}

static dibs_status end_session(struct api_request *request, dibs_err *err)
{
    (void) err;
    ui_end_session(request->api->options.ui, api_bearer(request));
    request->status = 204;
    return DIBS_OK;
}

static const struct api_route page_routes[] = {
    { { "POST", "/v1/session", "", API_PUBLIC | API_PAGE }, NULL, begin_session },
    { { "POST", "/v1/session/proof", "", API_PUBLIC | API_PAGE }, NULL, prove_session },
    { { "GET", "/v1/session", "", API_PAGE }, NULL, show_session },
    { { "DELETE", "/v1/session", "", API_PAGE }, NULL, end_session },
#define X(name, path, mime) { { "GET", path, "", API_PUBLIC | API_PAGE }, NULL, get_##name },
    API_PAGE_FILES(X)
#undef X
};
const struct router api_page_router = ROUTER_OF(page_routes);

/* ---- the address for a page ---- */

dibs_status api_listen_for_pages(struct api *api, dibs_err *err)
{
    int sockets[UI_SOCKETS_MAX];
    size_t n = 0;
    dibs_status s = ui_listen(api->options.ui, sockets, &n, err);

    for (size_t i = 0; i < n; i++) {
        if (s == DIBS_OK)
            s = api_listen(api, sockets[i], CALLER_PAGE, err);
        if (s != DIBS_OK)
            (void) close(sockets[i]);
    }
    return s;
}

/* A page is reached over loopback, so its browser must be on this host, in our network namespace. */
static dibs_status check_reach(const struct caller *caller, dibs_err *err)
{
    struct call call = caller_call(caller);

    if (caller->listener == CALLER_TCP)
        return err_set(
            err, DIBS_DENIED,
            "the dashboard is for users of this host: run 'dibs ui' on it, and forward its port with "
            "'ssh -L' to look from elsewhere");
    if (!caller->peer.is_here)
        return err_set(err, DIBS_DENIED,
                       "a container has no dashboard: run 'dibs ui' on its host, which shows all claims");
    if (call.netns > KERNEL_NETNS_UNKNOWN && call.netns != kernel_netns())
        return err_set(err, DIBS_DENIED,
                       "the dashboard listens on the daemon's loopback address, which your network namespace "
                       "does not reach: run 'dibs ui' on the host");
    return DIBS_OK;
}

dibs_status api_ui(struct api_request *request, dibs_err *err)
{
    struct api *api = request->api;
    char url[UI_URL_BYTES];
    int64_t expires_ms = 0;
    dibs_status s = check_reach(request->caller, err);

    if (s == DIBS_OK)
        s = api_listen_for_pages(api, err);
    if (s == DIBS_OK)
        s = ui_offer(api->options.ui, request->caller->peer.uid, url, &expires_ms, err);
    if (s != DIBS_OK)
        return s;
    jsonw_begin_bytes(&request->w, &request->out);
    jsonw_object(&request->w);
    jsonw_key_string(&request->w, "url", url);
    jsonw_key_int(&request->w, "expires_ms", expires_ms);
    jsonw_end_object(&request->w);
    explicit_bzero(url, sizeof url);
    return DIBS_OK;
}
