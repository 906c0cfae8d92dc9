/* SPDX-License-Identifier: MIT */
/* Answers, whole and streamed. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/server_internal.h"

#include "base/banned.h"

enum {
    STREAM_BLOCK_BYTES = 4 << 10,
    REFUSAL_MAX_BYTES = 512,
};

/* Queue a response; NULL: out of memory. The handler is done with r. */
static void send_response(struct http_request *r, int status, struct MHD_Response *response)
{
    r->state = HTTP_ANSWERED;
    connection_begin_step(r);
    if (!response || MHD_queue_response(r->connection, (unsigned) status, response) != MHD_YES) {
        r->state = HTTP_GONE;
        connection_cut(r);
    }
    if (response)
        MHD_destroy_response(response); /* the connection has its own reference */
    connection_resume(r);
}

static void add_fields(const struct http_request *r, struct MHD_Response *response, const char *type,
                       const struct http_field *extra, size_t n)
{
    if (!response)
        return;
    if (type)
        (void) MHD_add_response_header(response, "Content-Type", type);
    for (size_t i = 0; i < n; i++)
        (void) MHD_add_response_header(response, extra[i].name, extra[i].value);
    if (r->server->is_stopping)
        (void) MHD_add_response_header(response, "Connection", "close");
}

/* Answer with bytes, which libmicrohttpd owns from here on. */
static void send_bytes(struct http_request *r, int status, const char *type, struct bytes *body,
                       const struct http_field *extra, size_t n_extra)
{
    struct MHD_Response *response =
        body->is_lost ? NULL : MHD_create_response_from_buffer_with_free_callback(body->n, body->at, free);

    if (!response)
        bytes_done(body);
    *body = (struct bytes){ 0 };
    add_fields(r, response, type, extra, n_extra);
    send_response(r, status, response);
}

void http_answer(struct http_request *r, int status, const char *type, struct bytes *body,
                 const struct http_field *extra, size_t n_extra)
{
    static const char lost[] =
        "{\"type\":\"about:blank\",\"title\":\"out of memory\",\"status\":500,\"code\":1}";

    assert(r->state == HTTP_PENDING);
    if (body->is_lost) {
        bytes_done(body);
        bytes_add_text(body, lost);
        status = 500;
        type = HTTP_PROBLEM_TYPE;
    }
    if (body->n > HTTP_LARGE_BYTES)
        connection_count_large(r);
    send_bytes(r, status, type, body, extra, n_extra);
}

enum MHD_Result answer_refuse(struct http_request *r, int status, const char *title, const char *detail)
{
    static const struct http_field later = { "Retry-After", "1" };
    bool is_later = status == 429;
    struct bytes body = { 0 };
    char text[REFUSAL_MAX_BYTES];

    (void) snprintf(
        text, sizeof text,
        "{\"type\":\"about:blank\",\"title\":\"%s\",\"status\":%d,\"detail\":\"%s\",\"code\":%d}\n", title,
        status, detail, is_later ? DIBS_UNAVAILABLE : DIBS_INVALID);
    bytes_add_text(&body, text);
    send_bytes(r, status, HTTP_PROBLEM_TYPE, &body, &later, is_later);
    return r->state == HTTP_GONE ? MHD_NO : MHD_YES;
}

static ssize_t read_stream(void *cls, uint64_t at, char *out, size_t max)
{
    struct http_request *r = cls;
    size_t left = r->stream.n - r->stream_at;
    size_t n = left < max ? left : max;

    (void) at;
    if (r->state == HTTP_GONE)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (n > 0) {
        memcpy(out, r->stream.at + r->stream_at, n);
        r->stream_at += n;
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
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES, read_stream, r, NULL);

    assert(r->state == HTTP_PENDING);
    add_fields(r, response, type, extra, n_extra);
    send_response(r, status, response);
    if (r->state != HTTP_ANSWERED) /* also when it was closed meanwhile, for lack of connections */
        return false;
    r->state = HTTP_STREAMING;
    connection_end_step(r);
    return true;
}

/* Move the bytes that the reader has not taken yet to the front. */
static void drop_taken(struct http_request *r)
{
    r->stream.n -= r->stream_at;
    if (r->stream.n > 0 && r->stream_at > 0)
        memmove(r->stream.at, r->stream.at + r->stream_at, r->stream.n);
    r->stream_at = 0;
}

bool http_stream_write(struct http_request *r, const void *bytes, size_t n)
{
    size_t max = r->server->limits.max_stream_bytes;

    assert(r->state == HTTP_STREAMING);
    drop_taken(r);
    bool fits = n <= max && r->stream.n <= max - n;
    if (fits)
        bytes_add(&r->stream, bytes, n);
    fits = fits && !r->stream.is_lost;
    if (!fits) {
        r->state = HTTP_GONE;
        connection_cut(r);
    }
    connection_resume(r);
    return fits;
}

void http_stream_end(struct http_request *r)
{
    assert(r->state == HTTP_STREAMING);
    r->is_stream_ended = true;
    r->state = HTTP_ANSWERED;
    connection_begin_step(r);
    connection_resume(r);
}
