/* SPDX-License-Identifier: MIT */
/* The event feed: as a list, as a long poll, and as a live stream. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "daemon/api/internal.h"
#include "lib/handle.h"

#include "base/banned.h"

enum {
    PAGE_MAX = 1000,     /* events in one answer */
    BACKLOG_MAX = 500,   /* events at the start of a stream, bounded by the stream's buffer; with more the
                            stream ends, and the reader reconnects with the last number */
    WAIT_MAX_MS = 60000, /* below the timeouts of proxies and clients */
    BEAT_MS = 15000      /* interval of keep-alive comments on an idle stream */
};

/* ---- long poll ---- */

static dibs_status read_wait(struct api_request *request, dibs_err *err)
{
    const char *text = http_query(request->r, "wait", 0);
    int64_t ms = 0;

    if (!text)
        return DIBS_OK;
    dibs_status s = dibs_duration_parse(text, &ms, err);
    if (s == DIBS_OK && ms > WAIT_MAX_MS)
        s = err_set(err, DIBS_INVALID, "a request waits for at most %d s; ask again then",
                    WAIT_MAX_MS / 1000);
    if (s == DIBS_OK)
        request->wait_until_ms = clock_monotonic_ms() + ms;
    return s;
}

/* Read the event number that a client has seen, quoted or not. Return false when there is none. */
static bool read_seen(const char *text, uint64_t *out)
{
    if (!text)
        return false;
    text += strncmp(text, "W/", 2) == 0 ? 2 : 0;
    text += *text == '"';
    size_t n = strcspn(text, "\"");
    return text[n + (text[n] == '"')] == '\0' && text_number(text, n, INT64_MAX, out);
}

bool api_is_known(const struct api_request *request)
{
    uint64_t seen = 0;

    return read_seen(http_header(request->r, "If-None-Match"), &seen) && seen == request->seq;
}

dibs_status api_read_wait(struct api_request *request, dibs_err *err)
{
    uint64_t seen = 0;
    dibs_status s = read_wait(request, err);

    /* A client that names no event number has nothing to compare with. */
    if (!read_seen(http_header(request->r, "If-None-Match"), &seen) ||
        seen != request->api->options.engine->seq)
        request->wait_until_ms = 0;
    return s;
}

bool api_waits(struct api_request *request)
{
    if (request->wait_until_ms == 0 || request->api->is_draining)
        return false;
    request->next = request->api->waiting;
    request->api->waiting = request;
    return true;
}

static void unlink_request(struct api_request **list, const struct api_request *request)
{
    while (*list && *list != request)
        list = &(*list)->next;
    if (*list)
        *list = request->next;
}

void api_forget(struct api_request *request)
{
    if (request->job.work)
        return; /* the engine owns it until its job is done */
    unlink_request(&request->api->waiting, request);
    unlink_request(&request->api->looking, request);
    unlink_request(&request->api->streams, request);
    api_free(request);
}

/* ---- streams ---- */

/* Write "id: 7\nevent: claimed\ndata: {...}\n\n". */
static void write_event(struct bytes *out, const dibs_event *event)
{
    struct jsonw w;
    char head[96];

    (void) snprintf(head, sizeof head, "id: %llu\nevent: %s\ndata: ", (unsigned long long) event->seq,
                    dibs_event_kind_text(event->kind));
    bytes_add_text(out, head);
    jsonw_begin_bytes(&w, out);
    wire_event(&w, event);
    bytes_add_text(out, "\n\n");
}

static bool add_to_stream(void *ctx, const dibs_event *event)
{
    struct api_request *request = ctx;

    write_event(&request->out, event);
    request->seq = event->seq;
    request->n_backlog++;
    return true;
}

/* Turn the answer into a stream. The ledger has all events up to the engine's number, and no newer one is
 * followed before this returns, so no change is missed between the backlog and the live events. */
void api_start_stream(struct api_request *request)
{
    struct http_field fields[API_PAGE_FIELDS + 1] = { { "Cache-Control", "no-store" } };
    struct api *api = request->api;
    size_t n_fields = api_page_fields(request, fields);

    request->out.n = 0;
    bytes_add_text(&request->out, "retry: 1000\n\n");
    dibs_status s = dibs_event_list(api->options.engine->handle,
                                    &(dibs_event_query){ .since = request->seq, .limit = BACKLOG_MAX },
                                    add_to_stream, request, &request->err);
    if (s != DIBS_OK || request->out.is_lost) {
        request->outcome = s != DIBS_OK ? s : DIBS_FAILURE;
        api_answer(request);
        return;
    }
    request->next = api->streams;
    api->streams = request;
    metrics_request(api->options.metrics, request->route, 200, clock_monotonic_us() - request->began_us);
    bool is_open = http_stream_begin(request->r, 200, "text/event-stream", fields, n_fields ? n_fields : 1) &&
                   http_stream_write(request->r, request->out.at, request->out.n);
    request->out.n = 0;
    if (is_open && (request->n_backlog == BACKLOG_MAX || api->is_draining)) {
        http_stream_end(request->r);
        is_open = false;
    }
    if (!is_open)
        api_forget(request);
}

static void tell_streams(struct api *api, const char *text, size_t n, uint64_t seq)
{
    for (struct api_request *request = api->streams, *next = NULL; request; request = next) {
        next = request->next;
        if (seq != 0 && seq <= request->seq)
            continue;
        if (seq != 0)
            request->seq = seq;
        if (!http_stream_write(request->r, text, n))
            api_forget(request);
    }
}

void api_changed(struct api *api, const dibs_event *event)
{
    struct bytes out = { 0 };

    if (api->streams) {
        write_event(&out, event);
        if (!out.is_lost)
            tell_streams(api, out.at, out.n, event->seq);
        bytes_done(&out);
    }
    if (api->waiting)
        api_wake(api, true);
}

static bool is_any(const struct api_request *stream)
{
    (void) stream;
    return true;
}

static bool is_over_tcp(const struct api_request *stream)
{
    return stream->caller->listener == CALLER_TCP;
}

/* Has the session of its page ended? */
static bool is_ended(const struct api_request *stream)
{
    return stream->session_ends_ms != 0 && stream->session_ends_ms <= ui_now_ms(stream->api->options.ui);
}

bool api_has_pages(const struct api *api)
{
    const struct api_request *stream = api->streams;

    while (stream && stream->caller->listener != CALLER_PAGE)
        stream = stream->next;
    return stream != NULL;
}

static void end_streams(struct api *api, bool (*is_meant)(const struct api_request *stream))
{
    for (struct api_request *stream = api->streams, *next = NULL; stream; stream = next) {
        next = stream->next;
        if (!is_meant(stream))
            continue;
        http_stream_end(stream->r);
        api_forget(stream);
    }
}

void api_reset(struct api *api)
{
    end_streams(api, is_any); /* a reader that reconnects has to list everything again */
    api_wake(api, true);
}

void api_set_tokens(struct api *api, struct tokens *tokens)
{
    tokens_free(api->tokens);
    api->tokens = tokens;
    end_streams(api,
                is_over_tcp); /* their readers reconnect, if their tokens are still valid, and miss nothing */
}

/* ---- timers ---- */

void api_wake(struct api *api, bool is_news)
{
    int64_t now_ms = clock_monotonic_ms();
    struct api_request *request = api->waiting;

    api->waiting = NULL;
    while (request) {
        struct api_request *next = request->next;

        bool is_refused = request->outcome != DIBS_OK; /* news does not end the delay of a refusal */

        if (request->wait_until_ms <= now_ms || api->is_draining || (is_news && !is_refused)) {
            request->wait_until_ms = 0;
            request->began_us = clock_monotonic_us();
            if (is_refused)
                api_answer(request);
            else
                api_queue(request);
        } else {
            request->next = api->waiting;
            api->waiting = request;
        }
        request = next;
    }
    if (api->is_draining)
        end_streams(api, is_any);
    if (api->streams && now_ms >= api->beat_ms) {
        end_streams(api, is_ended);
        tell_streams(api, ":\n\n", 3, 0);
        api->beat_ms = now_ms + BEAT_MS;
    }
}

int64_t api_wake_ms(const struct api *api)
{
    int64_t first_ms = api->streams ? api->beat_ms : INT64_MAX;

    for (const struct api_request *request = api->waiting; request; request = request->next)
        first_ms = request->wait_until_ms < first_ms ? request->wait_until_ms : first_ms;
    return clock_until_ms(first_ms);
}

dibs_status api_read_events(struct api_request *request, dibs_err *err)
{
    const char *accept = http_header(request->r, "Accept");
    const dibs_event_query *query = &request->query;
    dibs_status s = wire_event_query_read(&request->params, &request->query, err);

    if (s == DIBS_OK)
        s = read_wait(request, err);
    if (s != DIBS_OK)
        return s;
    request->is_stream = accept && strstr(accept, "text/event-stream");
    if (query->since < request->api->options.engine->seq || request->is_stream)
        request->wait_until_ms = 0;
    if (!request->is_stream)
        return DIBS_OK;
    if (query->limit || query->newest || http_query(request->r, "wait", 0))
        return err_set(err, DIBS_INVALID, "a stream has neither limit= nor newest= nor wait=");
    /* Continue after the event that the reader names; with none, or an unknown one, start with new events. */
    uint64_t newest = request->api->options.engine->seq;
    request->seq = http_query(request->r, "since", 0) ? query->since : newest;
    (void) read_seen(http_header(request->r, "Last-Event-ID"), &request->seq);
    request->seq = request->seq < newest ? request->seq : newest;
    return DIBS_OK;
}

static bool add_event(void *ctx, const dibs_event *event)
{
    wire_event(ctx, event);
    return true;
}

dibs_status api_events(struct api_request *request, dibs *handle, dibs_err *err)
{
    struct jsonw *w = &request->w;
    dibs_event_query query = request->query;
    uint64_t oldest = 0;

    if (request->is_stream)
        return DIBS_OK;
    if (query.limit > PAGE_MAX)
        return err_set(err, DIBS_INVALID, "a page has at most %d events", PAGE_MAX);
    query.limit = query.limit ? query.limit : PAGE_MAX;
    api_begin_list(request, "events");
    const struct call call = handle_call(handle);
    dibs_status s = ledger_events(request->api->options.engine->ledger, &call,
                                  &(struct ledger_feed){ query, &oldest }, add_event, w, err);
    jsonw_end_array(w);
    jsonw_key_uint(w, "seq", request->api->options.engine->seq);
    jsonw_key_uint(w, "oldest", oldest);
    jsonw_end_object(w);
    return s;
}
