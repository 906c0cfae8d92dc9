/* SPDX-License-Identifier: MIT */
#include "store/etcd/client/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/jitter.h"
#include "base/lines.h"
#include "base/secret.h"
#include "store/etcd/client/internal.h"

#include "base/banned.h"

enum {
    HTTP_OK = 200,
    BEGIN_MS = 3000, /* timeout for the start of a stream, and for a login */
    CONNECT_MOST_MS = 1500,
    SILENCE_MS = 12 * 60000, /* etcd sends a notice every ten to eleven minutes */
    BEHIND_MS = 2000,    /* limit for an expected change; longer than an election delays a leader's watch */
    PAUSE_FIRST_MS = 50, /* pause after an interruption; doubled up to: */
    PAUSE_MOST_MS = 5000,
    REFUSAL_MAX_BYTES = 65536,
};

enum state {
    PAUSING,   /* until resume_ms */
    ENTERING,  /* waits for a token */
    BEGINNING, /* the request was sent */
    WATCHING,  /* etcd has confirmed the watch */
    STANDING,  /* paused until etcd_watch_from() */
};

struct etcd_watch {
    struct etcd_config config;
    struct etcd_watch_options options;
    struct web *web;
    size_t which; /* endpoint of the call */
    enum state state;
    int64_t resume_ms, pause_ms;
    int64_t next_revision;            /* 0: from now on */
    uint64_t cluster;                 /* id of the cluster that has these revisions; 0: not known yet */
    int64_t expected, expected_by_ms; /* 0: none expected */
    bool is_moved;                    /* etcd_watch_from() was called */
    bool is_open;                     /* the cluster has no users */
    unsigned n_logins;                /* logins since it last watched */
    char token[ETCD_TOKEN_MAX + 1];
    struct bytes range; /* storage of key and end in the options */
    /* The current call: */
    struct web_call *call;
    struct bytes body, rest;
    char url[ETCD_URL_MAX + 1];
    char token_header[ETCD_TOKEN_MAX + 32];
    const char *headers[3];
    bool is_wrong; /* we ended it: a message was unreadable, or announced the end */
};

/* ---- interruptions ---- */

/* Reconnect after the connection ended: after a pause, or at once if the endpoint is not at fault. */
static void interrupted(struct etcd_watch *w, bool is_endpoints_fault)
{
    int64_t now_ms = clock_monotonic_ms();

    w->call = NULL;
    w->rest.n = 0;
    secret_done(&w->body);
    w->is_wrong = false;
    if (w->state != STANDING) {
        w->state = PAUSING;
        w->resume_ms = now_ms;
    }
    if (is_endpoints_fault) {
        w->resume_ms = now_ms + jitter_ms(w->pause_ms);
        w->pause_ms = w->pause_ms * 2 < PAUSE_MOST_MS ? w->pause_ms * 2 : PAUSE_MOST_MS;
        if (w->options.connected)
            w->options.connected(w->options.ctx, w->config.origin[w->which], false);
        w->which = (w->which + 1) % w->config.n_origins;
    }
}

static void report(struct etcd_watch *w, const struct message *m)
{
    size_t n_known = 0;

    if (m->n_events > 0) {
        int64_t last = m->events[m->n_events - 1].kv.mod_revision;

        while (n_known < m->n_events && m->events[n_known].kv.mod_revision < w->next_revision)
            n_known++;
        if (n_known == m->n_events)
            return; /* everything was reported before */
        w->next_revision = m->is_part ? last : last + 1;
    } else if (m->revision >= w->next_revision) {
        w->next_revision = m->revision + 1;
    }
    if (w->next_revision > w->expected)
        w->expected = 0;
    w->options.changed(w->options.ctx, m->n_events > 0 ? m->events + n_known : NULL, m->n_events - n_known,
                       w->next_revision - 1);
}

/* Pause until the caller has read everything. */
static const char *stand(struct etcd_watch *w, int64_t revision, const char *why)
{
    w->state = STANDING;
    w->expected = 0;
    w->options.cut(w->options.ctx, revision);
    return why;
}

/* Return whether the etcd that answers lacks the revisions reported before: its data was lost, or restored
 * from an older copy. A member that lags behind looks the same: the watch continues at the next one. */
static bool is_replaced(const struct etcd_watch *w, const struct message *m)
{
    return m->revision + 1 < w->next_revision || (w->cluster != 0 && m->cluster != w->cluster);
}

/* Handle the end of the stream. etcd also reports an expired token in this way, in varying words. */
static const char *take_end(struct etcd_watch *w, const struct message *m)
{
    if (m->is_cancelled || m->refusal.wants_login)
        w->token[0] = '\0';
    return m->compact_revision > 0 ? stand(w, m->compact_revision, "it was compacted") : "it is over";
}

static const char *take_message(void *ctx, const char *line, size_t n)
{
    struct etcd_watch *w = ctx;
    AUTO(message_done) struct message m = { 0 };

    const char *wrong = message_read(line, n, &m);
    if (wrong || m.is_others)
        return wrong;
    if (m.is_refused || m.is_cancelled)
        return take_end(w, &m);
    if (m.is_created && is_replaced(w, &m)) {
        w->which = (w->which + 1) % w->config.n_origins;
        return stand(w, 0, "it is another etcd");
    }
    if (m.is_created) {
        w->cluster = m.cluster;
        w->state = WATCHING;
        w->pause_ms = PAUSE_FIRST_MS;
        w->n_logins = 0;
        if (w->next_revision == 0)
            w->next_revision = m.revision + 1;
        if (w->options.connected)
            w->options.connected(w->options.ctx, w->config.origin[w->which], true);
    }
    if (m.n_events > 0 || !m.is_created)
        report(w, &m);
    return w->is_moved ? "it continues elsewhere" : NULL;
}

static bool on_chunk(void *ctx, const char *bytes, size_t n)
{
    struct etcd_watch *w = ctx;

    w->is_wrong = lines_take(&w->rest, bytes, n, take_message, w) != NULL;
    return !w->is_wrong;
}

/* Handle a failed or refused request. False: it is neither. */
static bool has_failed(struct etcd_watch *w, const struct web_answer *answer)
{
    struct refusal refusal = { 0 };

    if (answer->status == DIBS_OK && answer->http_status == HTTP_OK)
        return false;
    if (answer->status == DIBS_OK)
        refusal_read(answer->http_status, answer->body.at, answer->body.n, &refusal);
    bool is_again = refusal.wants_login && *w->config.user && w->n_logins < 2;

    if (is_again)
        w->token[0] = '\0';
    w->is_open = refusal.is_open || (w->is_open && !is_again);
    interrupted(w, !is_again && !refusal.is_open);
    return true;
}

static void on_end(void *ctx, struct web_answer *answer)
{
    struct etcd_watch *w = ctx;

    if (w->is_moved || w->state == STANDING)
        interrupted(w, false);
    else if (w->is_wrong || !has_failed(w, answer))
        interrupted(w, true);
}

/* ---- starting ---- */

static void on_token(void *ctx, struct web_answer *answer)
{
    struct etcd_watch *w = ctx;

    if (!has_failed(w, answer))
        interrupted(w, login_read(answer->body.at, answer->body.n, w->token, NULL) != DIBS_OK);
    secret_done(&answer->body);
}

static void write_request(struct etcd_watch *w)
{
    struct jsonw out;

    jsonw_begin_bytes(&out, &w->body);
    jsonw_object(&out);
    jsonw_key_object(&out, "create_request");
    jsonw_key(&out, "key");
    jsonw_base64(&out, w->options.key.at, w->options.key.n);
    if (w->options.end.n > 0) {
        jsonw_key(&out, "range_end");
        jsonw_base64(&out, w->options.end.at, w->options.end.n);
    }
    if (w->next_revision > 0)
        jsonw_key_int(&out, "start_revision", w->next_revision);
    jsonw_key_bool(&out, "progress_notify", true);
    jsonw_key_bool(&out, "fragment", true);
    jsonw_end_object(&out);
    jsonw_end_object(&out);
}

static void begin(struct etcd_watch *w)
{
    bool wants_token = *w->config.user && !*w->token && !w->is_open;
    int64_t now_ms = clock_monotonic_ms();

    (void) snprintf(w->url, sizeof w->url, "%s%s", w->config.origin[w->which],
                    wants_token ? "/v3/auth/authenticate" : "/v3/watch");
    (void) snprintf(w->token_header, sizeof w->token_header, "Authorization: %s", w->token);
    w->headers[0] = "Content-Type: application/json";
    w->headers[1] = "Grpc-Metadata-hasleader: true"; /* a member that loses its leader ends the stream */
    w->headers[2] = w->token_header;
    w->body.n = 0;
    if (wants_token)
        login_write(&w->config, &w->body);
    else
        write_request(w);
    const struct web_request request = { .method = "POST",
                                         .url = w->url,
                                         .headers = w->headers,
                                         .n_headers = *w->token ? 3 : 2,
                                         .body = w->body.at,
                                         .n_body = w->body.n,
                                         .deadline_ms = now_ms + BEGIN_MS,
                                         .connect_max_ms = CONNECT_MOST_MS,
                                         .answer_max_bytes = REFUSAL_MAX_BYTES,
                                         .chunk = wants_token ? NULL : on_chunk,
                                         .silence_max_ms = SILENCE_MS,
                                         .done = wants_token ? on_token : on_end,
                                         .ctx = w };
    w->state = wants_token ? ENTERING : BEGINNING;
    w->n_logins += wants_token ? 1 : 0;
    if (w->body.is_lost || web_start(w->web, &request, &w->call, NULL) != DIBS_OK)
        interrupted(w, true);
}

static void give_up(struct etcd_watch *w)
{
    web_cancel(TAKE(w->call));
    interrupted(w, !w->is_moved);
}

static void set_alarm(const struct etcd_watch *w)
{
    int64_t at_ms = w->state == PAUSING ? w->resume_ms : 0;

    if (w->is_moved)
        at_ms = 1; /* now */
    else if (w->state == WATCHING && w->expected > 0)
        at_ms = w->expected_by_ms;
    web_set_alarm(w->web, at_ms);
}

static void move(struct etcd_watch *w)
{
    if (w->call)
        give_up(w);
    w->is_moved = false;
    w->state = PAUSING;
    w->resume_ms = 0;
}

void etcd_watch_turn(struct etcd_watch *w)
{
    web_turn(w->web);
    if (w->is_moved)
        move(w);
    int64_t now_ms = clock_monotonic_ms();
    if (w->state == WATCHING && w->expected > 0 && w->expected_by_ms <= now_ms) {
        w->expected_by_ms = now_ms + BEHIND_MS;
        give_up(w);
    }
    if (w->state == PAUSING && w->resume_ms <= now_ms)
        begin(w);
    set_alarm(w);
}

void etcd_watch_from(struct etcd_watch *w, int64_t revision)
{
    w->next_revision = revision;
    w->cluster = 0;
    w->expected = 0;
    w->is_moved = true;
    web_set_alarm(w->web, 1);
}

void etcd_watch_expect(struct etcd_watch *w, int64_t revision)
{
    if (revision < w->next_revision || w->state == STANDING || w->expected > 0)
        return; /* keep waiting for the oldest one */
    w->expected = revision;
    w->expected_by_ms = clock_monotonic_ms() + BEHIND_MS;
    set_alarm(w);
}

int etcd_watch_fd(const struct etcd_watch *w)
{
    return web_fd(w->web);
}

static void copy_range(struct etcd_watch *w, const struct etcd_watch_options *options)
{
    bytes_add(&w->range, options->key.at, options->key.n);
    bytes_add(&w->range, options->end.n > 0 ? options->end.at : "", options->end.n);
    w->options = *options;
    w->options.key.at = w->range.at;
    w->options.end.at = w->range.at ? w->range.at + options->key.n : NULL;
}

DEFINE_AUTO(struct etcd_watch, etcd_watch_close)

dibs_status etcd_watch_open(const struct etcd_config *config, const struct etcd_watch_options *options,
                            struct etcd_watch **out, dibs_err *err)
{
    AUTO(etcd_watch_close_auto) struct etcd_watch *w = calloc(1, sizeof *w);

    if (!w)
        return err_set(err, DIBS_FAILURE, "etcd: watching: out of memory");
    w->config = *config;
    w->pause_ms = PAUSE_FIRST_MS;
    w->next_revision = options->revision;
    copy_range(w, options);
    if (w->range.is_lost)
        return err_set(err, DIBS_FAILURE, "etcd: watching: out of memory");
    w->which = jitter_random() % config->n_origins;
    dibs_status s = login_open_web(config, &w->web, err);
    if (s != DIBS_OK)
        return s;
    w->resume_ms = 1; /* the first turn starts the stream */
    set_alarm(w);
    *out = TAKE(w);
    return DIBS_OK;
}

void etcd_watch_close(struct etcd_watch *w)
{
    if (!w)
        return;
    web_close(w->web);
    secret_done(&w->body);
    bytes_done(&w->rest);
    bytes_done(&w->range);
    etcd_config_wipe(&w->config);
    explicit_bzero(w->token, sizeof w->token);
    explicit_bzero(w->token_header, sizeof w->token_header);
    free(w);
}

/* ---- reading messages ---- */

static void read_event(struct reading *r, const jsonr_value *event, struct etcd_event *out)
{
    const char *type = read_string(r, event, "type");

    out->is_delete = strcmp(type, "DELETE") == 0;
    if (*type && !out->is_delete && strcmp(type, "PUT") != 0 && !r->wrong)
        r->wrong = "an event is of no known kind";
    out->kv = read_kv(r, jsonr_get(event, "kv"));
    if (!r->wrong && (out->kv.mod_revision <= 0 || out->kv.key.n == 0))
        r->wrong = "an event has no revision or no key";
}

static void read_events(struct reading *r, const jsonr_value *result, struct message *out)
{
    const jsonr_value *list = NULL;
    int64_t before = 0;

    out->n_events = read_size(r, result, "events", &list);
    out->events = out->n_events > 0 ? read_room(r, out->n_events, sizeof *out->events) : NULL;
    for (size_t i = 0; i < out->n_events && !r->wrong; i++) {
        read_event(r, jsonr_array_at(list, i), &out->events[i]);
        if (!r->wrong && out->events[i].kv.mod_revision < before)
            r->wrong = "events are not in their order";
        before = out->events[i].kv.mod_revision;
    }
}

const char *message_read(const char *line, size_t n, struct message *out)
{
    AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;
    struct reading r = { 0 };
    struct message m = { 0 };

    if (jsonr_parse(line, n, &doc, NULL) != DIBS_OK)
        return "it is no JSON";
    const jsonr_value *root = jsonr_root(doc);
    const jsonr_value *result = jsonr_get(root, "result");
    if (jsonr_get(root, "error")) {
        m.is_refused = true;
        refusal_read(0, line, n, &m.refusal);
        *out = m;
        return NULL;
    }
    if (!jsonr_is_object(result) || !jsonr_is_object(jsonr_get(result, "header")))
        return "it has no result";
    m.revision = read_int(&r, jsonr_get(result, "header"), "revision");
    m.cluster = read_uint(&r, jsonr_get(result, "header"), "cluster_id");
    m.is_created = read_bool(&r, result, "created");
    m.is_cancelled = read_bool(&r, result, "canceled");
    m.is_part = read_bool(&r, result, "fragment");
    /* Our watch has id 0. A refused watch gets none, and a notice without one comes too early. */
    m.is_others = read_int(&r, result, "watch_id") != 0 && !m.is_created && !m.is_cancelled;
    m.compact_revision = read_int(&r, result, "compact_revision");
    read_events(&r, result, &m);
    m.memory = r.memory;
    if (!r.wrong && (m.revision < 0 || m.compact_revision < 0))
        r.wrong = "a revision is below zero";
    if (r.wrong)
        arena_free(r.memory);
    else
        *out = m;
    return r.wrong;
}

void message_done(struct message *message)
{
    arena_free(message->memory);
    *message = (struct message){ 0 };
}
