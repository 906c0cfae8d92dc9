/* SPDX-License-Identifier: MIT */
/* Send requests to etcd, and retry them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/jitter.h"
#include "base/secret.h"
#include "base/text.h"
#include "store/etcd/client/internal.h"

#include "base/banned.h"

enum {
    HTTP_OK = 200,
    TRIES_MAX = 64,     /* tries of one call; usually the deadline ends it first */
    TRY_MOST_MS = 3000, /* timeout of one try when other endpoints can be asked */
    TRY_LEAST_MS = 50,  /* a later try with less time would only hide the error of the earlier ones */
    CONNECT_MOST_MS = 1500,
    PAUSE_FIRST_MS = 20, /* pause after all endpoints have failed; doubled up to: */
    PAUSE_MOST_MS = 500,
    HEADER_MAX = ETCD_TOKEN_MAX + 32,
    LOGINS_MAX = 2, /* logins of one call: the token had expired, and the next one was another member's */
};

/* ---- refusals: retry, log in or give up ---- */

enum { /* gRPC's codes */
       GRPC_INVALID = 3,
       GRPC_NOT_FOUND = 5,
       GRPC_DENIED = 7,
       GRPC_PRECONDITION = 9,
       GRPC_OUT_OF_RANGE = 11,
       GRPC_UNAUTHENTICATED = 16,
       HTTP_NOT_FOUND = 404,
       HTTP_TOO_MANY = 429,
};

/* Read an error in one of two forms: {"error": TEXT, "message": TEXT, "code": N}, and in a stream {"error":
 * {"grpc_code": N, "message": TEXT}}. False: neither. */
static bool read_text(const jsonr_value *root, struct refusal *out)
{
    const jsonr_value *error = jsonr_get(root, "error");
    const char *text = "";
    int64_t code = -1;

    if (jsonr_is_object(error)) {
        (void) jsonr_get_string(error, "message", &text);
        (void) jsonr_get_int(error, "grpc_code", &code);
    } else {
        (void) jsonr_as_string(error, &text);
        (void) jsonr_get_int(root, "code", &code);
    }
    if (!*text && code < 0)
        return false;
    (void) text_safe(text, out->text, sizeof out->text);
    out->code = code >= 0 && code <= GRPC_UNAUTHENTICATED ? (int) code : -1;
    return true;
}

/* Errors that etcd distinguishes only by their text, because they share a code; then errors with a code of
 * their own. A request with a listed error was certainly not done. */
static const struct {
    const char *text;
    int code;
    enum etcd_fault fault;
    dibs_status status;
    bool is_final, wants_login;
} known[] = {
    { "required revision has been compacted", 0, ETCD_FAULT_COMPACTED, DIBS_NOT_FOUND, true, false },
    { "is a future revision", 0, ETCD_FAULT_FUTURE, DIBS_NOT_FOUND, true, false },
    { "requested lease not found", 0, ETCD_FAULT_NO_LEASE, DIBS_NOT_FOUND, true, false },
    { "database space exceeded", 0, ETCD_FAULT_NO_SPACE, DIBS_UNAVAILABLE, true, false },
    { "too many operations", 0, ETCD_FAULT_TOO_MANY, DIBS_INVALID, true, false },
    { "request is too large", 0, ETCD_FAULT_TOO_MANY, DIBS_INVALID, true, false },
    { "received message larger than max", 0, ETCD_FAULT_TOO_MANY, DIBS_INVALID, true, false },
    { "too many requests", 0, ETCD_FAULT_BUSY, DIBS_UNAVAILABLE, false, false },
    { "etcdserver: no leader", 0, ETCD_FAULT_UNREACHABLE, DIBS_UNAVAILABLE, false, false },
    { "invalid user ID or password", 0, ETCD_FAULT_DENIED, DIBS_DENIED, true, false },
    { "invalid auth token", 0, ETCD_FAULT_DENIED, DIBS_DENIED, true, true },
    { "user name is empty", 0, ETCD_FAULT_DENIED, DIBS_DENIED, true, true },
    { "revision of auth store is old", 0, ETCD_FAULT_DENIED, DIBS_DENIED, true, true },
    { "auth: revision in header is old", 0, ETCD_FAULT_DENIED, DIBS_DENIED, true, true },
    { NULL, GRPC_INVALID, ETCD_FAULT_OTHER, DIBS_INVALID, true, false },
    { NULL, GRPC_OUT_OF_RANGE, ETCD_FAULT_OTHER, DIBS_INVALID, true, false },
    { NULL, GRPC_PRECONDITION, ETCD_FAULT_OTHER, DIBS_INVALID, true, false },
    { NULL, GRPC_NOT_FOUND, ETCD_FAULT_OTHER, DIBS_NOT_FOUND, true, false },
    { NULL, GRPC_DENIED, ETCD_FAULT_DENIED, DIBS_DENIED, true, false },
    { NULL, GRPC_UNAUTHENTICATED, ETCD_FAULT_DENIED, DIBS_DENIED, true, false },
};

/* Classify an error. An unlisted one may have been done, and another endpoint may succeed. */
static void judge_known(struct refusal *out)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0] && !out->is_not_done; i++) {
        if (known[i].text ? !strstr(out->text, known[i].text) : out->code != known[i].code)
            continue;
        out->fault = known[i].fault;
        out->status = known[i].status;
        out->is_final = known[i].is_final;
        out->wants_login = known[i].wants_login;
        out->is_not_done = true;
    }
}

/* etcd's plain-text refusal of a client certificate whose CN could be mistaken for the user of a login. */
static const struct refusal refused_name = {
    .code = GRPC_UNAUTHENTICATED,
    .text = "where it has users its gateway takes client certificates without a common name (CN) only",
    .fault = ETCD_FAULT_DENIED,
    .status = DIBS_DENIED,
    .is_final = true,
    .is_not_done = true,
};

void refusal_read(int http_status, const char *body, size_t n, struct refusal *out)
{
    AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;

    *out = (struct refusal){ .code = -1, .status = DIBS_UNAVAILABLE, .fault = ETCD_FAULT_OTHER };
    if (n > 0 && jsonr_parse(body, n, &doc, NULL) == DIBS_OK && read_text(jsonr_root(doc), out)) {
        out->is_open = strstr(out->text, "authentication is not enabled") != NULL;
        judge_known(out);
        return;
    }
    char start[100] = "";
    if (n > 0)
        memcpy(start, body, n < sizeof start - 1 ? n : sizeof start - 1);
    if (strstr(start, "CommonName of client")) {
        *out = refused_name;
        return;
    }
    (void) text_safe(start, out->text, sizeof out->text);
    /* This answer is not from etcd's gateway, so etcd did not get the request. */
    out->is_not_done = http_status == HTTP_NOT_FOUND || http_status == HTTP_TOO_MANY;
}

/* The result of one try. */
enum verdict {
    ANSWERED,
    FINAL,    /* refused, and other endpoints would refuse as well */
    RETRY,    /* certainly not done */
    UNCERTAIN /* may have been done */
};

struct etcd_try {
    struct etcd *etcd;
    struct etcd_call *call;
    const struct post *post;
    dibs_err *err;
    unsigned n_logins;
    bool wants_login;
};

/* Return whether another endpoint may answer instead. */
static bool has_others(const struct etcd_try *a)
{
    return a->etcd->config.n_origins > 1 && a->post->endpoint < 0;
}

/* Use half of the time left, so that one silent member leaves time for the others. */
static int64_t try_deadline_ms(const struct etcd_try *a, int64_t now_ms)
{
    int64_t left_ms = a->call->deadline_ms - now_ms;

    if (!has_others(a))
        return a->call->deadline_ms;
    return now_ms + (left_ms / 2 < TRY_MOST_MS ? left_ms / 2 + 1 : TRY_MOST_MS);
}

static dibs_status ask(struct etcd_try *a, size_t which, const char *path, const char *body, size_t n_body,
                       struct web_answer *answer)
{
    const struct etcd *etcd = a->etcd;
    char url[ETCD_URL_MAX + 1] = "";
    char token[HEADER_MAX] = "";
    /* A member without a leader must report that at once, not wait for one. */
    const char *headers[] = { "Content-Type: application/json", "Grpc-Metadata-hasleader: true", token };
    int64_t now_ms = clock_monotonic_ms();
    struct web_request request = {
        .method = "POST",
        .url = url,
        .headers = headers,
        .n_headers = *etcd->token ? 3 : 2,
        .body = body,
        .n_body = n_body,
        .deadline_ms = try_deadline_ms(a, now_ms),
        .connect_max_ms = has_others(a) ? CONNECT_MOST_MS : 0,
        .answer_max_bytes = ETCD_ANSWER_MAX_BYTES,
    };

    (void) snprintf(url, sizeof url, "%s%s", etcd->config.origin[which], path);
    (void) snprintf(token, sizeof token, "Authorization: %s", etcd->token);
    a->call->n_tries++;
    a->call->asked_boot_ms = clock_now(0).boot_ms;
    dibs_status status = web_ask(etcd->web, &request, answer);
    explicit_bzero(token, sizeof token);
    return status;
}

static enum verdict unsure(struct etcd_try *a, bool is_not_done)
{
    if (is_not_done)
        return RETRY;
    a->call->fate = ETCD_UNKNOWN;
    return UNCERTAIN;
}

/* Judge a request that did not reach the server, or whose answer was lost. */
static enum verdict judge_failure(struct etcd_try *a, const struct web_answer *answer)
{
    a->call->fault = ETCD_FAULT_UNREACHABLE;
    if (a->err)
        *a->err = answer->err;
    (void) err_wrap(a->err, answer->status, "etcd");
    if (answer->status != DIBS_UNAVAILABLE && answer->reach == WEB_NOT_SENT)
        return FINAL; /* our own error: an unreadable file, no memory */
    return unsure(a, answer->reach == WEB_NOT_SENT);
}

static enum verdict judge_refusal(struct etcd_try *a, size_t which, const struct web_answer *answer)
{
    const char *origin = a->etcd->config.origin[which];
    struct refusal refusal;

    refusal_read(answer->http_status, answer->body.at, answer->body.n, &refusal);
    a->call->fault = refusal.fault;
    if (refusal.wants_login && !*a->etcd->config.user)
        (void) err_set(
            a->err, refusal.status,
            "etcd: %s wants a user: set DIBS_ETCD_USER and DIBS_ETCD_PASSWORD, or ?passfile= in the URL",
            origin);
    else if (refusal.code < 0)
        (void) err_set(a->err, refusal.status, "etcd: %s answers HTTP %d, not as etcd 3.4 or newer: %s",
                       origin, answer->http_status, refusal.text);
    else
        (void) err_set(a->err, refusal.status, "etcd: %s: %s", origin, refusal.text);
    if (refusal.wants_login && *a->etcd->config.user && a->n_logins < LOGINS_MAX) {
        a->etcd->token[0] = '\0';
        a->etcd->is_open = false;
        a->wants_login = true;
        return RETRY;
    }
    if (refusal.is_final)
        return FINAL;
    return unsure(a, refusal.is_not_done);
}

static enum verdict judge(struct etcd_try *a, size_t which, const struct web_answer *answer)
{
    AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;
    dibs_err why = { 0 };
    const char *wrong = NULL;

    if (answer->status != DIBS_OK)
        return judge_failure(a, answer);
    if (answer->http_status != HTTP_OK)
        return judge_refusal(a, which, answer);
    if (answer->body.n == 0)
        wrong = "it is empty";
    else if (jsonr_parse(answer->body.at, answer->body.n, &doc, &why) != DIBS_OK)
        wrong = why.msg;
    else if (jsonr_get(jsonr_root(doc), "error")) /* an error later in a stream */
        return judge_refusal(a, which, answer);
    else
        wrong = a->post->understand(a->post->ctx, jsonr_root(doc));
    if (!wrong) {
        a->call->fate = ETCD_DONE;
        a->call->fault = ETCD_FAULT_NONE;
        return ANSWERED;
    }
    web_drop_connections(a->etcd->web); /* this may be the answer to another request */
    a->call->fault = ETCD_FAULT_OTHER;
    (void) err_set(a->err, DIBS_UNAVAILABLE, "etcd: %s gave an answer that cannot be read: %s",
                   a->etcd->config.origin[which], wrong);
    return unsure(a, false);
}

/* ---- login ---- */

dibs_status login_open_web(const struct etcd_config *config, struct web **out, dibs_err *err)
{
    const struct web_options options = { .ca = *config->cacert ? config->cacert : NULL,
                                         .cert = *config->cert ? config->cert : NULL,
                                         .key = *config->key ? config->key : NULL };

    return web_open(&options, out, err);
}

void login_write(const struct etcd_config *config, struct bytes *out)
{
    struct jsonw w;

    jsonw_begin_bytes(&w, out);
    jsonw_object(&w);
    jsonw_key_string(&w, "name", config->user);
    jsonw_key_string(&w, "password", config->password);
    jsonw_end_object(&w);
}

/* Check the token: it is sent in a header line, so it must be printable ASCII without spaces. */
static bool is_token(const char *text)
{
    for (const char *p = text; *p; p++)
        if ((unsigned char) *p <= ' ' || (unsigned char) *p >= 0x7f)
            return false;
    return *text != '\0';
}

dibs_status login_read(const char *body, size_t n, char token[ETCD_TOKEN_MAX + 1], dibs_err *err)
{
    AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;
    const char *text = "";
    char copy[ETCD_TOKEN_MAX + 1] = "";

    if (n == 0 || jsonr_parse(body, n, &doc, NULL) != DIBS_OK ||
        !jsonr_get_string(jsonr_root(doc), "token", &text) || !is_token(text) ||
        !text_copy(copy, sizeof copy, text))
        return err_set(err, DIBS_UNAVAILABLE, "etcd took user and password, but gave no token");
    memcpy(token, copy, sizeof copy);
    return DIBS_OK;
}

/* Get a token from that endpoint. A failure does not change the fate of the request itself. */
static enum verdict log_in(struct etcd_try *a, size_t which)
{
    AUTO(secret_done) struct bytes body = { 0 };
    AUTO(web_answer_done) struct web_answer answer = { 0 };
    struct etcd *etcd = a->etcd;
    enum etcd_fate fate = a->call->fate;
    enum verdict verdict = RETRY;

    a->n_logins++;
    a->wants_login = false;
    login_write(&etcd->config, &body);
    dibs_status status = ask(a, which, "/v3/auth/authenticate", body.at, body.n, &answer);
    if (status == DIBS_OK && answer.http_status == HTTP_OK) {
        status = login_read(answer.body.at, answer.body.n, etcd->token, a->err);
        verdict = status == DIBS_OK ? ANSWERED : RETRY;
    } else if (status == DIBS_OK) {
        struct refusal refusal;

        refusal_read(answer.http_status, answer.body.at, answer.body.n, &refusal);
        etcd->is_open = refusal.is_open;
        verdict = refusal.is_open ? ANSWERED : judge_refusal(a, which, &answer);
    } else {
        verdict = judge_failure(a, &answer);
    }
    secret_done(&answer.body); /* the body has the token */
    a->call->fate = fate;
    return verdict == UNCERTAIN ? RETRY : verdict;
}

static enum verdict try_once(struct etcd_try *a, size_t which)
{
    AUTO(web_answer_done) struct web_answer answer = { 0 };
    const struct etcd *etcd = a->etcd;

    if (*etcd->config.user && !*etcd->token && !etcd->is_open) {
        enum verdict verdict = log_in(a, which);

        if (verdict != ANSWERED)
            return verdict;
    }
    (void) ask(a, which, a->post->path, a->post->body, a->post->n_body, &answer);
    return judge(a, which, &answer);
}

static void pause_ms(const struct etcd_try *a, int64_t ms)
{
    int64_t left_ms = a->call->deadline_ms - clock_monotonic_ms();

    ms = jitter_ms(ms);
    if (ms > left_ms)
        ms = left_ms;
    if (ms > 0)
        (void) nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
}

static bool has_time(const struct etcd_call *call)
{
    return call->deadline_ms - clock_monotonic_ms() > (call->n_tries ? TRY_LEAST_MS : 0);
}

static dibs_status give_up(const struct etcd_try *a)
{
    if (a->call->n_tries == 0) {
        a->call->fault = ETCD_FAULT_UNREACHABLE;
        return err_set(a->err, DIBS_UNAVAILABLE, "etcd: no time was left to ask");
    }
    /* The message of the last failure stays; the code says that no endpoint answered in time. */
    return a->err ? a->err->code = DIBS_UNAVAILABLE : DIBS_UNAVAILABLE;
}

dibs_status client_post(struct etcd *etcd, struct etcd_call *call, const struct post *post, dibs_err *err)
{
    dibs_err why = { .code = DIBS_UNAVAILABLE };
    struct etcd_try a = { .etcd = etcd, .call = call, .post = post, .err = err ? err : &why };
    int64_t wait_ms = PAUSE_FIRST_MS;

    call->fate = ETCD_NOT_DONE;
    call->fault = ETCD_FAULT_NONE;
    call->n_tries = 0;
    for (unsigned i = 0; i < TRIES_MAX && has_time(call); i++) {
        size_t which = post->endpoint >= 0 ? (size_t) post->endpoint : etcd->current;
        enum verdict verdict = try_once(&a, which);

        if (verdict == ANSWERED)
            return DIBS_OK;
        if (verdict == FINAL)
            return a.err->code;
        if (a.wants_login)
            continue; /* the endpoint is healthy */
        if (post->endpoint < 0)
            etcd->current = (which + 1) % etcd->config.n_origins;
        if (verdict == UNCERTAIN && !post->is_read && !call->may_repeat)
            break;
        if (!has_others(&a) || (i + 1) % etcd->config.n_origins == 0) {
            pause_ms(&a, wait_ms);
            wait_ms = wait_ms * 2 < PAUSE_MOST_MS ? wait_ms * 2 : PAUSE_MOST_MS;
        }
    }
    return give_up(&a);
}

DEFINE_AUTO(struct etcd, etcd_close)

dibs_status etcd_open(const struct etcd_config *config, struct etcd **out, dibs_err *err)
{
    AUTO(etcd_close_auto) struct etcd *etcd = calloc(1, sizeof *etcd);

    if (!etcd)
        return err_set(err, DIBS_FAILURE, "etcd: out of memory");
    etcd->config = *config;
    etcd->current = jitter_random() % config->n_origins; /* spread the clients over the members */
    dibs_status s = login_open_web(config, &etcd->web, err);
    if (s != DIBS_OK)
        return s;
    *out = TAKE(etcd);
    return DIBS_OK;
}

void etcd_close(struct etcd *etcd)
{
    if (!etcd)
        return;
    web_close(etcd->web);
    etcd_config_wipe(&etcd->config);
    explicit_bzero(etcd->token, sizeof etcd->token);
    free(etcd);
}

uint64_t etcd_cluster_id(const struct etcd *etcd)
{
    return etcd->cluster;
}

const char *etcd_endpoint(const struct etcd *etcd)
{
    return etcd->config.origin[etcd->current];
}
