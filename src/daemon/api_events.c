/* SPDX-License-Identifier: MIT */
/* The feed of changes: as a list, as a list that is waited for, and as a live stream. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "daemon/api_parts.h"
#include "lib/handle.h"

#include "base/banned.h"

enum {
    PAGE_MAX = 1000,   /* events of one answer */
    BACKLOG_MAX = 500, /* of a stream's beginning: it must fit into what a reader may be behind; with more the
                          stream ends there, and the reader comes back with the number it has reached */
    WAIT_MAX_MS = 60000, /* below what proxies and clients give up after */
    BEAT_MS = 15000      /* a stream without news still says that it lives */
};

/* ---- waiting ---- */

static dibs_status read_wait(struct ask *ask, dibs_err *err)
{
    const char *text = http_query(ask->r, "wait", 0);
    int64_t ms = 0;

    if (!text)
        return DIBS_OK;
    dibs_status s = dibs_duration_parse(text, &ms, err);
    if (s == DIBS_OK && ms > WAIT_MAX_MS)
        s = err_set(err, DIBS_INVALID, "a request waits for at most %d s; ask again then",
                    WAIT_MAX_MS / 1000);
    if (s == DIBS_OK)
        ask->wait_until_ms = clock_monotonic_ms() + ms;
    return s;
}

/* What the asker has seen: the number in `text`, quoted or not; false: nothing. */
static bool read_seen(const char *text, uint64_t *out)
{
    if (!text)
        return false;
    text += strncmp(text, "W/", 2) == 0 ? 2 : 0;
    text += *text == '"';
    size_t n = strcspn(text, "\"");
    return text[n + (text[n] == '"')] == '\0' && text_number(text, n, INT64_MAX, out);
}

bool api_is_known(const struct ask *ask)
{
    uint64_t seen = 0;

    return read_seen(http_header(ask->r, "If-None-Match"), &seen) && seen == ask->seq;
}

dibs_status api_read_wait(struct ask *ask, dibs_err *err)
{
    uint64_t seen = 0;
    dibs_status s = read_wait(ask, err);

    /* Without a word about what is known there is nothing to compare with. */
    if (!read_seen(http_header(ask->r, "If-None-Match"), &seen) ||
        seen != engine_seq(ask->api->options.engine))
        ask->wait_until_ms = 0;
    return s;
}

bool api_waits(struct ask *ask)
{
    if (ask->wait_until_ms == 0 || ask->api->is_draining)
        return false;
    ask->next = ask->api->waiting;
    ask->api->waiting = ask;
    return true;
}

static void unlink_ask(struct ask **list, const struct ask *ask)
{
    while (*list && *list != ask)
        list = &(*list)->next;
    if (*list)
        *list = ask->next;
}

void api_forget(struct ask *ask)
{
    if (ask->job.work)
        return; /* it is the engine's until its job is done */
    unlink_ask(&ask->api->waiting, ask);
    unlink_ask(&ask->api->streams, ask);
    api_free(ask);
}

/* ---- streams ---- */

/* "id: 7\nevent: claimed\ndata: {...}\n\n" */
static void write_event(struct bytes *out, const dibs_event *event)
{
    struct json_writer w;
    char head[96];

    (void) snprintf(head, sizeof head, "id: %llu\nevent: %s\ndata: ", (unsigned long long) event->seq,
                    dibs_event_kind_text(event->kind));
    bytes_add_text(out, head);
    json_begin_bytes(&w, out);
    wire_event(&w, event);
    bytes_add_text(out, "\n\n");
}

struct backlog {
    struct ask *ask;
    size_t n;
};

static bool add_to_stream(void *ctx, const dibs_event *event)
{
    struct backlog *backlog = ctx;

    write_event(&backlog->ask->out, event);
    backlog->ask->seq = event->seq;
    return ++backlog->n < BACKLOG_MAX;
}

/* The ledger has told everything up to the engine's number, and nothing newer can be told before we return:
 * no change is missed between the backlog and what follows live. */
void api_start_stream(struct ask *ask)
{
    static const struct http_field fields[] = { { "Cache-Control", "no-store" } };
    struct api *api = ask->api;
    struct backlog backlog = { .ask = ask };

    ask->out.n = 0;
    bytes_add_text(&ask->out, "retry: 1000\n\n");
    dibs_status s = dibs_event_list(engine_handle(api->options.engine),
                                    &(dibs_event_query){ .since = ask->seq, .limit = BACKLOG_MAX },
                                    add_to_stream, &backlog, &ask->err);
    if (s != DIBS_OK || ask->out.is_lost) {
        ask->outcome = s != DIBS_OK ? s : DIBS_FAILURE;
        api_answer(ask);
        return;
    }
    ask->next = api->streams;
    api->streams = ask;
    metrics_request(api->options.metrics, ask->route, 200, clock_monotonic_us() - ask->began_us);
    bool is_open = http_stream_begin(ask->r, 200, "text/event-stream", fields, 1) &&
                   http_stream_write(ask->r, ask->out.at, ask->out.n);
    ask->out.n = 0;
    if (is_open && (backlog.n == BACKLOG_MAX || api->is_draining)) {
        http_stream_end(ask->r);
        is_open = false;
    }
    if (!is_open)
        api_forget(ask);
}

static void tell_streams(struct api *api, const char *text, size_t n, uint64_t seq)
{
    for (struct ask *ask = api->streams, *next = NULL; ask; ask = next) {
        next = ask->next;
        if (seq != 0 && seq <= ask->seq)
            continue;
        if (seq != 0)
            ask->seq = seq;
        if (!http_stream_write(ask->r, text, n))
            api_forget(ask);
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

static void end_streams(struct api *api)
{
    for (struct ask *stream = api->streams, *next = NULL; stream; stream = next) {
        next = stream->next;
        http_stream_end(stream->r);
        api_forget(stream);
    }
}

void api_reset(struct api *api)
{
    end_streams(api); /* who comes back has to list everything anew */
    api_wake(api, true);
}

/* ---- time ---- */

void api_wake(struct api *api, bool is_news)
{
    int64_t now_ms = clock_monotonic_ms();
    struct ask *ask = api->waiting;

    api->waiting = NULL;
    while (ask) {
        struct ask *next = ask->next;

        if (is_news || ask->wait_until_ms <= now_ms) {
            ask->wait_until_ms = 0;
            ask->began_us = clock_monotonic_us();
            api_queue(ask);
        } else {
            ask->next = api->waiting;
            api->waiting = ask;
        }
        ask = next;
    }
    if (api->is_draining)
        end_streams(api);
    if (api->streams && now_ms >= api->beat_ms) {
        tell_streams(api, ":\n\n", 3, 0);
        api->beat_ms = now_ms + BEAT_MS;
    }
}

int64_t api_wake_ms(const struct api *api)
{
    int64_t first_ms = api->streams ? api->beat_ms : INT64_MAX;
    int64_t now_ms = clock_monotonic_ms();

    for (const struct ask *ask = api->waiting; ask; ask = ask->next)
        first_ms = ask->wait_until_ms < first_ms ? ask->wait_until_ms : first_ms;
    return first_ms == INT64_MAX ? -1 : first_ms > now_ms ? first_ms - now_ms : 0;
}

/* ---- the route ---- */

dibs_status api_read_events(struct ask *ask, dibs_err *err)
{
    struct wire_params params = api_params(ask);
    const char *accept = http_header(ask->r, "Accept");
    dibs_event_query query = { 0 };
    dibs_status s = wire_event_query_read(&params, &query, err);

    if (s == DIBS_OK)
        s = read_wait(ask, err);
    if (s != DIBS_OK)
        return s;
    ask->is_stream = accept && strstr(accept, "text/event-stream");
    if (query.since < engine_seq(ask->api->options.engine) || ask->is_stream)
        ask->wait_until_ms = 0;
    if (!ask->is_stream)
        return DIBS_OK;
    /* A reader that comes back says where it was; one that says nothing begins with what is new, and so does
     * one who was further than the ledger is now. */
    uint64_t newest = engine_seq(ask->api->options.engine);
    ask->seq = http_query(ask->r, "since", 0) ? query.since : newest;
    (void) read_seen(http_header(ask->r, "Last-Event-ID"), &ask->seq);
    ask->seq = ask->seq < newest ? ask->seq : newest;
    return DIBS_OK;
}

static bool add_event(void *ctx, const dibs_event *event)
{
    wire_event(ctx, event);
    return true;
}

dibs_status api_events(struct ask *ask, dibs *handle, dibs_err *err)
{
    struct wire_params params = api_params(ask);
    dibs_event_query query = { 0 };
    struct json_writer w;
    uint64_t oldest = 0;

    if (ask->is_stream)
        return DIBS_OK;
    dibs_status s = wire_event_query_read(&params, &query, err);
    if (s == DIBS_OK && query.limit > PAGE_MAX)
        s = err_set(err, DIBS_INVALID, "a page has at most %d events", PAGE_MAX);
    if (s != DIBS_OK)
        return s;
    query.limit = query.limit ? query.limit : PAGE_MAX;
    json_begin_bytes(&w, &ask->out);
    json_object(&w);
    json_key(&w, "events");
    json_array(&w);
    ledger_start_call(handle->core->ledger);
    s = ledger_events(handle->core->ledger, &query, &oldest, add_event, &w, err);
    json_end_array(&w);
    json_key_uint(&w, "seq", engine_seq(ask->api->options.engine));
    json_key_uint(&w, "oldest", oldest);
    json_end_object(&w);
    return s;
}
