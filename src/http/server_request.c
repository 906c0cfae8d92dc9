/* SPDX-License-Identifier: MIT */
/* Receive a request, and return its parts. */
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "http/server_internal.h"

#include "base/banned.h"

/* Turns that a request waits before its connection is suspended: some 0.1 ms. */
enum { PATIENCE_TURNS = 16 };

void *request_head_begins(void *cls, const char *target, struct MHD_Connection *connection)
{
    (void) cls;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct http_request *r = info->socket_context;
    size_t size = target ? strlen(target) + 1 : 0;

    r->raw_target = target;
    r->raw_n = size;
    r->target_text.n = 0;
    bytes_add(&r->target_text, target ? target : "", size);
    if (!target)
        r->target_trouble = "there is no target";
    else if (r->target_text.is_lost)
        r->target_trouble = "out of memory";
    else
        r->target_trouble = request_target_parse(r->target_text.at, &r->target);
    return r;
}

/* Detect a NUL in the target: then it ends before the version, which follows in the same line. */
static bool has_nul(const struct http_request *r, const char *version)
{
    uintptr_t target = (uintptr_t) r->raw_target;
    uintptr_t after = (uintptr_t) version;

    return after > target && after - target <= HTTP_HEAD_MAX_BYTES && after - target > r->raw_n;
}

static size_t head_bytes(const struct http_request *r)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);

    return info ? info->header_size : 0;
}

static enum MHD_Result refuse_body(struct http_request *r)
{
    return answer_refuse(r, 413, "Content Too Large", "the body is too large");
}

static enum MHD_Result head_arrived(struct http_request *r, const char *method, const char *version)
{
    r->method = method;
    if (head_bytes(r) > HTTP_HEAD_MAX_BYTES)
        return answer_refuse(r, 431, "Request Header Fields Too Large", "the head is too large");
    if (r->target_trouble)
        return answer_refuse(r, 400, "Bad Request", r->target_trouble);
    if (has_nul(r, version))
        return answer_refuse(r, 400, "Bad Request", "the target has a NUL in it");
    const char *coding = http_header(r, "Transfer-Encoding");
    const char *length = http_header(r, "Content-Length");
    uint64_t n = 0;

    if (coding && strcasecmp(coding, "chunked") != 0)
        return answer_refuse(r, 501, "Not Implemented", "no transfer coding is known but chunked");
    /* libmicrohttpd has already refused a length that is not a number. */
    if (length && !text_number(length, strlen(length), r->server->limits.max_body_bytes, &n))
        return refuse_body(r);
    connection_begin_step(r);
    if (r->server->handler->arriving)
        r->server->handler->arriving(r->server->handler->ctx, r);
    return MHD_YES;
}

bool http_take_large(struct http_request *r)
{
    if (!r->is_large && r->account->n_large >= r->server->limits.max_large)
        return false;
    connection_count_large(r);
    return true;
}

/* Store a piece of the body; drop a body that is too large: no answer is possible before its end. */
static enum MHD_Result body_arrives(struct http_request *r, const char *bytes, size_t n)
{
    if (r->is_body_too_large || n > r->server->limits.max_body_bytes - r->body.n) {
        r->is_body_too_large = true;
        return MHD_YES;
    }
    r->is_crowded = r->is_crowded || (r->body.n + n > HTTP_LARGE_BYTES && !http_take_large(r));
    if (r->is_crowded)
        return MHD_YES;
    char *to = bytes_reserve(&r->body, n + 1);
    if (!to)
        return MHD_NO;
    memcpy(to, bytes, n);
    to[n] = '\0';
    r->body.n += n;
    return MHD_YES;
}

static enum MHD_Result complete(struct http_request *r)
{
    if (r->is_body_too_large)
        return refuse_body(r);
    if (r->is_crowded)
        return answer_refuse(r, 429, "Too Many Requests", "this user has too many large requests under way");
    connection_end_step(r);
    r->state = HTTP_PENDING;
    r->turn = r->server->turn;
    r->server->handler->requested(r->server->handler->ctx, r);
    return r->state == HTTP_GONE ? MHD_NO : MHD_YES;
}

/* NOLINTNEXTLINE(readability-function-size): the library's signature */
enum MHD_Result request_arrives(void *cls, struct MHD_Connection *connection, const char *url,
                                const char *method, const char *version, const char *upload, size_t *upload_n,
                                void **context)
{
    struct http_request *r = *context;
    size_t n = *upload_n;

    (void) cls;
    (void) connection;
    (void) url;
    *upload_n = 0; /* all of it is taken */
    switch (r->state) {
    case HTTP_ARRIVING:
        if (!r->method)
            return head_arrived(r, method, version);
        return n > 0 ? body_arrives(r, upload, n) : complete(r);
    case HTTP_PENDING:
        /* Most requests are answered in this turn or a few turns later. Until then libmicrohttpd asks in each
         * run, and the loop does not wait: cheaper than to suspend, watch and resume the connection. */
        if (r->server->turn - r->turn > PATIENCE_TURNS)
            connection_suspend(r);
        return MHD_YES;
    case HTTP_ANSWERED:
    case HTTP_STREAMING: return MHD_YES;
    case HTTP_GONE: return MHD_NO;
    }
    return MHD_NO;
}

void request_completed(void *cls, struct MHD_Connection *connection, void **context,
                       enum MHD_RequestTerminationCode how)
{
    (void) cls;
    (void) connection;
    (void) how;
    if (*context)
        connection_reset(*context);
}

const char *http_method(const struct http_request *r)
{
    return r->method;
}

const char *http_path(const struct http_request *r)
{
    return r->target.path;
}

const char *http_query(const struct http_request *r, const char *key, size_t i)
{
    for (size_t k = 0; k < r->target.n_query; k++)
        if (strcmp(r->target.query[k].key, key) == 0 && i-- == 0)
            return r->target.query[k].value;
    return NULL;
}

bool http_query_at(const struct http_request *r, size_t i, const char **key, const char **value)
{
    if (i >= r->target.n_query)
        return false;
    *key = r->target.query[i].key;
    *value = r->target.query[i].value;
    return true;
}

const char *http_header(const struct http_request *r, const char *name)
{
    return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

const char *http_body(const struct http_request *r, size_t *n)
{
    *n = r->body.n;
    return r->body.n > 0 ? r->body.at : "";
}

void *http_peer(const struct http_request *r)
{
    return r->peer;
}

void http_set_user(struct http_request *r, void *user)
{
    r->user = user;
}

void *http_user(const struct http_request *r)
{
    return r->user;
}
