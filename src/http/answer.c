/* SPDX-License-Identifier: MIT */
/* Answers, whole and in pieces. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/inside.h"

#include "base/banned.h"

enum {
    STREAM_BLOCK_BYTES = 4 << 10,
    KEPT_BYTES = 1 << 10, /* of a connection that is idle: a claim's answer fits */
};

/* Hands it over; NULL for lack of memory. The handler has nothing more to do with r. */
static void send_response(struct http_request *r, int status, struct MHD_Response *response)
{
    const struct late_mhd *mhd = r->server->mhd;

    r->state = HTTP_ANSWERED;
    connection_begin_step(r);
    if (!response || mhd->MHD_queue_response(r->connection, (unsigned) status, response) != MHD_YES) {
        r->state = HTTP_GONE;
        connection_cut(r);
    }
    if (response)
        mhd->MHD_destroy_response(response); /* the connection has a reference of its own */
    connection_resume(r);
}

static void add_fields(const struct http_request *r, struct MHD_Response *response, const char *type,
                       const struct http_field *extra, size_t n)
{
    const struct late_mhd *mhd = r->server->mhd;

    if (!response)
        return;
    if (type)
        (void) mhd->MHD_add_response_header(response, "Content-Type", type);
    for (size_t i = 0; i < n; i++)
        (void) mhd->MHD_add_response_header(response, extra[i].name, extra[i].value);
    if (r->server->is_stopping)
        (void) mhd->MHD_add_response_header(response, "Connection", "close");
}

static struct MHD_Response *from_body(const struct http_request *r, struct http_body body)
{
    union {
        const void *given;
        void *bytes; /* which libmicrohttpd only reads */
    } same = { .given = body.bytes };
    struct MHD_Response *response = r->server->mhd->MHD_create_response_from_buffer_with_free_callback_cls(
        body.n, same.bytes, body.free_fn, same.bytes);

    if (!response && body.free_fn)
        body.free_fn(same.bytes);
    return response;
}

/* Libmicrohttpd has no more use for the body: once for each answer, and before the connection ends. */
static void keep_room(void *cls)
{
    struct http_request *r = cls;

    if (r->kept.at || r->sent.room > KEPT_BYTES)
        bytes_done(&r->sent);
    else
        r->kept = r->sent;
    r->sent = (struct bytes){ 0 };
    r->kept.n = 0;
}

struct bytes http_buffer(struct http_request *r)
{
    struct bytes out = r->kept;

    r->kept = (struct bytes){ 0 };
    return out;
}

void http_answer_bytes(struct http_request *r, int status, const char *type, struct bytes *body,
                       const struct http_field *extra, size_t n_extra)
{
    assert(r->state == HTTP_ASKED && !r->sent.at);
    r->sent = *body;
    *body = (struct bytes){ 0 };
    if (r->sent.n > HTTP_LARGE_BYTES)
        connection_count_large(r);
    struct MHD_Response *response = r->server->mhd->MHD_create_response_from_buffer_with_free_callback_cls(
        r->sent.n, r->sent.at, keep_room, r);

    if (!response)
        keep_room(r);
    add_fields(r, response, type, extra, n_extra);
    send_response(r, status, response);
}

void http_answer(struct http_request *r, int status, const char *type, struct http_body body,
                 const struct http_field *extra, size_t n_extra)
{
    assert(r->state == HTTP_ASKED);
    if (body.n > HTTP_LARGE_BYTES)
        connection_count_large(r);
    struct MHD_Response *response = from_body(r, body);

    add_fields(r, response, type, extra, n_extra);
    send_response(r, status, response);
}

enum MHD_Result answer_refuse(struct http_request *r, int status, const char *title, const char *detail)
{
    static const struct http_field later = { "Retry-After", "1" };
    struct http_body body = { .free_fn = free };
    bool is_later = status == 429;
    char *text = NULL;
    int n = asprintf(
        &text, "{\"type\":\"about:blank\",\"title\":\"%s\",\"status\":%d,\"detail\":\"%s\",\"code\":%d}\n",
        title, status, detail, is_later ? DIBS_UNAVAILABLE : DIBS_INVALID);

    if (n < 0)
        return MHD_NO;
    body.bytes = text;
    body.n = (size_t) n;
    struct MHD_Response *response = from_body(r, body);

    add_fields(r, response, HTTP_PROBLEM_TYPE, &later, is_later);
    send_response(r, status, response);
    return r->state == HTTP_GONE ? MHD_NO : MHD_YES;
}

/* ---- streams ---- */

static ssize_t read_stream(void *cls, uint64_t at, char *out, size_t max)
{
    struct http_request *r = cls;
    size_t n = r->stream_n < max ? r->stream_n : max;

    (void) at;
    if (r->state == HTTP_GONE)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (n > 0) {
        memcpy(out, r->stream + r->stream_at, n);
        r->stream_n -= n;
        r->stream_at = r->stream_n > 0 ? r->stream_at + n : 0;
        return (ssize_t) n;
    }
    if (r->is_stream_ended)
        return MHD_CONTENT_READER_END_OF_STREAM;
    connection_suspend(r);
    return 0;
}

bool http_stream_begin(struct http_request *r, int status, const char *type, const struct http_field *extra,
                       size_t n_extra)
{
    struct MHD_Response *response = r->server->mhd->MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES, read_stream, r, NULL);

    assert(r->state == HTTP_ASKED);
    add_fields(r, response, type, extra, n_extra);
    send_response(r, status, response);
    if (r->state != HTTP_ANSWERED) /* also when it was closed meanwhile, for want of room */
        return false;
    r->state = HTTP_STREAMING;
    connection_end_step(r);
    return true;
}

/* Room for n more bytes at the end; false when they are too many. */
static bool make_room(struct http_request *r, size_t n)
{
    size_t max = r->server->limits.max_stream_bytes;

    if (n > max || r->stream_n > max - n)
        return false;
    if (n > r->stream_size - r->stream_at - r->stream_n) {
        if (r->stream_n > 0)
            memmove(r->stream, r->stream + r->stream_at, r->stream_n);
        r->stream_at = 0;
    }
    return connection_grow(&r->stream, &r->stream_size, r->stream_at + r->stream_n + n);
}

bool http_stream_write(struct http_request *r, const void *bytes, size_t n)
{
    bool has_room = make_room(r, n);

    assert(r->state == HTTP_STREAMING);
    if (has_room && n > 0) {
        memcpy(r->stream + r->stream_at + r->stream_n, bytes, n);
        r->stream_n += n;
    } else if (!has_room) {
        r->state = HTTP_GONE;
        connection_cut(r);
    }
    connection_resume(r);
    return has_room;
}

void http_stream_end(struct http_request *r)
{
    assert(r->state == HTTP_STREAMING);
    r->is_stream_ended = true;
    r->state = HTTP_ANSWERED;
    connection_begin_step(r);
    connection_resume(r);
}
