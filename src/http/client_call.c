/* SPDX-License-Identifier: MIT */
/* One HTTP call: its options for libcurl, the incoming answer, and its outcome. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "http/client_internal.h"

#include "base/banned.h"

enum {
    HTTP_OK = 200,
    HEADERS_MAX_BYTES = 65536, /* of an answer; libcurl has no limit for all of them together */
    KEEPALIVE_IDLE_S = 15,     /* a host that vanished is noticed after this */
    KEEPALIVE_EVERY_S = 5,     /* and nine of these */
    RETRY_AFTER_MAX_S = 3600,  /* a longer wait is ignored */
};

static bool is_stream_piece(struct web_call *call)
{
    long code = 0;

    if (!call->request.chunk)
        return false;
    (void) curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &code);
    return code == HTTP_OK;
}

static size_t on_body(char *bytes, size_t one, size_t n, void *ctx)
{
    struct web_call *call = ctx;
    struct bytes *body = &call->answer.body;
    size_t max = call->request.answer_max_bytes ? call->request.answer_max_bytes : DIBS_INPUT_MAX_BYTES;

    (void) one; /* always 1 */
    if (is_stream_piece(call)) {
        call->silent_ms = clock_monotonic_ms();
        call->is_refused = !call->request.chunk(call->request.ctx, bytes, n);
        return call->is_refused ? 0 : n;
    }
    call->is_too_large = n > max - body->n;
    if (call->is_too_large)
        return 0;
    bytes_add(body, bytes, n);
    return body->is_lost ? 0 : n;
}

/* Read "Retry-After: SECONDS". The form with a date is ignored: it would compare clocks. */
static void note_retry(struct web_call *call, const char *line, size_t n)
{
    static const char name[] = "retry-after:";
    uint64_t seconds = 0;

    if (n < sizeof name || strncasecmp(line, name, sizeof name - 1) != 0)
        return;
    line += sizeof name - 1;
    n -= sizeof name - 1;
    while (n > 0 && (*line == ' ' || *line == '\t'))
        line++, n--;
    while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r' || line[n - 1] == ' '))
        n--;
    if (text_number(line, n, RETRY_AFTER_MAX_S, &seconds))
        call->answer.retry_after_ms = (int64_t) seconds * 1000;
}

static size_t on_header(char *bytes, size_t one, size_t n, void *ctx)
{
    struct web_call *call = ctx;

    (void) one;
    note_retry(call, bytes, n);
    call->n_header_bytes += n;
    if (call->request.chunk)
        call->silent_ms = clock_monotonic_ms();
    call->is_too_large = call->n_header_bytes > HEADERS_MAX_BYTES;
    return call->is_too_large ? 0 : n;
}

static bool has_left(struct web_call *call)
{
    long n = 0;

    (void) curl_easy_getinfo(call->easy, CURLINFO_REQUEST_SIZE, &n);
    return n > 0;
}

/* Refuse a second sending: libcurl resends a request when a kept connection ends before the first byte of the
 * answer. But the server may have executed the request, and would do so twice. */
static int on_issue(void *ctx, char *ip, char *local_ip, int port, int local_port)
{
    struct web_call *call = ctx;

    (void) ip;
    (void) local_ip;
    (void) port;
    (void) local_port;
    bool is_doubled = call->is_issued && has_left(call);

    call->is_issued = true;
    return is_doubled ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

/* Set an option, unless an earlier one failed. A macro, because each option has its own type. */
#define SET(call, option, value)                                                  \
    do {                                                                          \
        if ((call)->set_code == CURLE_OK)                                         \
            (call)->set_code = curl_easy_setopt((call)->easy, (option), (value)); \
    } while (0)

/* Set the options that all calls share. */
static void set_common_options(struct web_call *call)
{
    SET(call, CURLOPT_PROTOCOLS_STR, "http,https");
    SET(call, CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
    SET(call, CURLOPT_NOSIGNAL, 1L);
    SET(call, CURLOPT_PROXY, ""); /* ignore the environment's proxy */
    SET(call, CURLOPT_FOLLOWLOCATION, 0L);
    SET(call, CURLOPT_PATH_AS_IS, 1L);
    SET(call, CURLOPT_TCP_KEEPALIVE, 1L);
    SET(call, CURLOPT_TCP_KEEPIDLE, (long) KEEPALIVE_IDLE_S);
    SET(call, CURLOPT_TCP_KEEPINTVL, (long) KEEPALIVE_EVERY_S);
    /* A name server that does not answer must not delay a cancelled call. */
    SET(call, CURLOPT_QUICK_EXIT, 1L);
    SET(call, CURLOPT_WRITEFUNCTION, on_body);
    SET(call, CURLOPT_HEADERFUNCTION, on_header);
    SET(call, CURLOPT_PREREQFUNCTION, on_issue);
    SET(call, CURLOPT_WRITEDATA, call);
    SET(call, CURLOPT_HEADERDATA, call);
    SET(call, CURLOPT_PREREQDATA, call);
    SET(call, CURLOPT_ERRORBUFFER, call->detail);
}

static void set_pem(struct web_call *call, CURLoption option, const char *pem)
{
    /* Copied: the client may get another one before the call ends. */
    struct curl_blob blob = { (void *) (uintptr_t) pem, pem ? strlen(pem) : 0, CURL_BLOB_COPY };

    if (pem)
        SET(call, option, &blob);
}

static void set_tls(struct web_call *call)
{
    const struct web *web = call->web;

    SET(call, CURLOPT_SSLVERSION, (long) CURL_SSLVERSION_TLSv1_2);
    /* A reused handle would resume its last session, with the certificates of that session. */
    SET(call, CURLOPT_SSL_SESSIONID_CACHE, 0L);
    set_pem(call, CURLOPT_CAINFO_BLOB, web->pem[WEB_CA]);
    set_pem(call, CURLOPT_SSLCERT_BLOB, web->pem[WEB_CERT]);
    set_pem(call, CURLOPT_SSLKEY_BLOB, web->pem[WEB_KEY]);
    if (web->pem[WEB_CA] || web->file[WEB_CA]) {
        SET(call, CURLOPT_CAINFO, web->file[WEB_CA]);
        SET(call, CURLOPT_CAPATH, NULL); /* else the system's authorities would be trusted as well */
    }
    if (web->file[WEB_CERT]) {
        SET(call, CURLOPT_SSLCERT, web->file[WEB_CERT]);
        SET(call, CURLOPT_SSLKEY, web->file[WEB_KEY]);
    }
}

static void set_request(struct web_call *call)
{
    const struct web_request *request = &call->request;
    int64_t left_ms = request->deadline_ms - call->begun_ms;

    if (left_ms < 1)
        left_ms = 1; /* 0 means no limit */
    if (left_ms > DIBS_TIMEOUT_MAX_MS)
        left_ms = DIBS_TIMEOUT_MAX_MS;
    if (!request->chunk)
        SET(call, CURLOPT_TIMEOUT_MS, (long) left_ms);
    if (request->connect_max_ms > 0 && request->connect_max_ms < left_ms)
        left_ms = request->connect_max_ms;
    SET(call, CURLOPT_CONNECTTIMEOUT_MS, (long) left_ms);
    SET(call, CURLOPT_URL, request->url);
    if (request->body) {
        SET(call, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) request->n_body);
        SET(call, CURLOPT_POSTFIELDS, request->body);
    }
    SET(call, CURLOPT_CUSTOMREQUEST, request->method);
    SET(call, CURLOPT_HTTPHEADER, call->headers);
}

static bool add_header(struct web_call *call, const char *text)
{
    struct curl_slist *longer = curl_slist_append(call->headers, text);

    if (longer)
        call->headers = longer;
    return longer != NULL;
}

static bool add_headers(struct web_call *call)
{
    bool is_whole =
        add_header(call, "Expect:"); /* else libcurl waits for "100 Continue" before large bodies */

    for (size_t i = 0; is_whole && i < call->request.n_headers; i++)
        is_whole = add_header(call, call->request.headers[i]);
    return is_whole;
}

/* Store "https://host:port" of the URL. */
static void note_origin(struct web_call *call)
{
    const char *host = strstr(call->request.url, "://");
    size_t n = host ? (size_t) (host + 3 - call->request.url) + strcspn(host + 3, "/?#") : 0;
    char text[sizeof call->origin] = "";

    if (n >= sizeof text)
        n = sizeof text - 1;
    memcpy(text, call->request.url, n);
    (void) text_safe(text, call->origin, sizeof call->origin);
}

void call_put_back(struct web *web, CURL *easy)
{
    if (web->spare) {
        curl_easy_cleanup(easy);
        return;
    }
    curl_easy_reset(easy);
    web->spare = easy;
}

dibs_status call_prepare(struct web_call *call, dibs_err *err)
{
    note_origin(call);
    call->easy = call->web->spare ? TAKE(call->web->spare) : curl_easy_init();
    if (!call->easy || !add_headers(call))
        return err_set(err, DIBS_FAILURE, "request to %s: out of memory", call->origin);
    set_common_options(call);
    set_tls(call);
    set_request(call);
    if (call->set_code != CURLE_OK)
        return err_set(err, DIBS_FAILURE, "request to %s: libcurl: %s", call->origin,
                       curl_easy_strerror(call->set_code));
    return DIBS_OK;
}

static void fail(struct web_call *call, dibs_status status, const char *what)
{
    call->answer.status = status;
    if (call->detail[0])
        (void) err_set(&call->answer.err, status, "%s: %s (%s)", call->origin, what, call->detail);
    else
        (void) err_set(&call->answer.err, status, "%s: %s", call->origin, what);
}

static void fail_by_time(struct web_call *call)
{
    char took[24] = "";
    char what[128] = "";

    clock_duration_format(clock_monotonic_ms() - call->begun_ms, took);
    (void) snprintf(what, sizeof what,
                    call->answer.reach == WEB_NOT_SENT
                        ? "cannot be reached within %s; is the server running there?"
                        : "gave no whole answer within %s; is the server overloaded or cut off?",
                    took);
    call->detail[0] = '\0'; /* it repeats the message */
    fail(call, DIBS_UNAVAILABLE, what);
}

static void fail_by_us(struct web_call *call)
{
    call->detail[0] = '\0';
    if (call->is_refused)
        fail(call, DIBS_FAILURE, "the answer was not wanted any more");
    else if (call->is_too_large)
        fail(call, DIBS_UNAVAILABLE, "the answer is larger than what is read");
    else
        fail(call, DIBS_FAILURE, "out of memory");
}

/* Return whether the server refused our certificate, which TLS 1.3 does after the first bytes were sent. */
static bool is_turned_away(struct web_call *call, CURLcode code)
{
    long n_new = 0;

    if (strncmp(call->origin, "https:", 6) != 0)
        return false;
    (void) curl_easy_getinfo(call->easy, CURLINFO_NUM_CONNECTS, &n_new);
    return code == CURLE_GOT_NOTHING ||
           ((code == CURLE_SEND_ERROR || code == CURLE_RECV_ERROR) && n_new > 0 && call->n_header_bytes == 0);
}

static const struct {
    CURLcode code;
    dibs_status status;
    const char *what;
} failures[] = {
    { CURLE_OUT_OF_MEMORY, DIBS_FAILURE, "out of memory" },
    { CURLE_URL_MALFORMAT, DIBS_INVALID, "no address that can be asked" },
    { CURLE_UNSUPPORTED_PROTOCOL, DIBS_INVALID, "no address that can be asked" },
    { CURLE_COULDNT_RESOLVE_HOST, DIBS_UNAVAILABLE, "no such host; check the name, and the name server" },
    { CURLE_COULDNT_CONNECT, DIBS_UNAVAILABLE, "cannot be reached; is the server running there?" },
    { CURLE_PEER_FAILED_VERIFICATION, DIBS_UNAVAILABLE,
      "its certificate is not trusted; is it valid, for that host, and signed by the authority given?" },
    { CURLE_SSL_CACERT_BADFILE, DIBS_INVALID, "the file of trusted authorities cannot be used" },
    { CURLE_SSL_CERTPROBLEM, DIBS_INVALID, "our own certificate or its key cannot be used" },
    { CURLE_SSL_CONNECT_ERROR, DIBS_UNAVAILABLE,
      "no TLS connection; does the server speak TLS, and accept our certificate?" },
};

/* Explain why a connection ended too early. */
static const char *explain_loss(struct web_call *call, CURLcode code)
{
    if (is_turned_away(call, code))
        return "the connection was lost before the answer; does the server accept our certificate, or want "
               "one?";
    if (code == CURLE_GOT_NOTHING)
        return "the connection was lost before the answer; does the server want TLS?";
    return call->answer.reach == WEB_NOT_SENT ? "cannot be asked"
                                              : "the connection was lost before the whole answer";
}

static void fail_by_code(struct web_call *call, CURLcode code)
{
    if (code == CURLE_OPERATION_TIMEDOUT) {
        fail_by_time(call);
        return;
    }
    if (code == CURLE_WRITE_ERROR) {
        fail_by_us(call);
        return;
    }
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++)
        if (failures[i].code == code) {
            fail(call, failures[i].status, failures[i].what);
            return;
        }
    fail(call, DIBS_UNAVAILABLE, explain_loss(call, code));
}

void call_conclude(struct web_call *call, CURLcode code)
{
    struct web_answer *answer = &call->answer;
    long http_status = 0;

    (void) curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &http_status);
    answer->http_status = (int) http_status;
    if (code == CURLE_OK) {
        answer->status = DIBS_OK;
        answer->reach = WEB_ANSWERED;
        return;
    }
    answer->reach = has_left(call) ? WEB_SENT : WEB_NOT_SENT;
    fail_by_code(call, code);
}
