/* SPDX-License-Identifier: MIT */
#include "etcd/message.h"

#include <string.h>

#include "base/auto.h"
#include "base/text.h"

#include "base/banned.h"

DEFINE_AUTO(json_doc, json_free)

static void read_event(struct reading *r, const json_value *event, struct etcd_event *out)
{
    const json_value *previous = json_get(event, "prev_kv");
    const char *type = read_string(r, event, "type");

    out->is_delete = strcmp(type, "DELETE") == 0;
    if (*type && !out->is_delete && strcmp(type, "PUT") != 0 && !r->wrong)
        r->wrong = "an event is of no known kind";
    out->kv = read_kv(r, json_get(event, "kv"));
    out->has_previous = json_is_object(previous);
    if (out->has_previous)
        out->previous = read_kv(r, previous);
    if (!r->wrong && (out->kv.mod_revision <= 0 || out->kv.key.n == 0))
        r->wrong = "an event has no revision or no key";
}

static void read_events(struct reading *r, const json_value *result, struct message *out)
{
    const json_value *list = NULL;
    int64_t before = 0;

    out->n_events = read_size(r, result, "events", &list);
    out->events = out->n_events > 0 ? read_room(r, out->n_events, sizeof *out->events) : NULL;
    for (size_t i = 0; i < out->n_events && !r->wrong; i++) {
        read_event(r, json_array_at(list, i), &out->events[i]);
        if (!r->wrong && out->events[i].kv.mod_revision < before)
            r->wrong = "events are not in their order";
        before = out->events[i].kv.mod_revision;
    }
}

const char *message_read(const char *line, size_t n, struct message *out)
{
    AUTO(json_free_auto) json_doc *doc = NULL;
    struct reading r = { 0 };
    struct message m = { 0 };

    if (json_parse(line, n, &doc, NULL) != DIBS_OK)
        return "it is no JSON";
    const json_value *root = json_root(doc);
    const json_value *result = json_get(root, "result");
    if (json_get(root, "error")) {
        m.is_refused = true;
        refusal_read(0, line, n, &m.refusal);
        *out = m;
        return NULL;
    }
    if (!json_is_object(result) || !json_is_object(json_get(result, "header")))
        return "it has no result";
    m.revision = read_int(&r, json_get(result, "header"), "revision");
    m.is_created = read_bool(&r, result, "created");
    m.is_cancelled = read_bool(&r, result, "canceled");
    m.is_part = read_bool(&r, result, "fragment");
    /* Ours is the stream's first. One that is refused never gets a number, and a notice that has none is too
     * early to be believed. */
    m.is_others = read_int(&r, result, "watch_id") != 0 && !m.is_created && !m.is_cancelled;
    m.compact_revision = read_int(&r, result, "compact_revision");
    (void) text_safe(read_string(&r, result, "cancel_reason"), m.refusal.text, sizeof m.refusal.text);
    read_events(&r, result, &m);
    m.memory = r.memory;
    if (!r.wrong && (m.revision < 0 || m.compact_revision < 0))
        r.wrong = "a revision is below zero";
    if (r.wrong)
        blocks_free(r.memory);
    else
        *out = m;
    return r.wrong;
}

/* ---- what need not be read ---- */

static const char *find(const char *from, const char *end, const char *what)
{
    return memmem(from, (size_t) (end - from), what, strlen(what));
}

/* Of texts only what etcd wrote is looked at, not what users did: values and keys are base64, in which no
 * quotation mark occurs, and in other texts one would have a backslash before it. */
bool message_is_known(const char *line, size_t n, const int64_t *known, size_t n_known, int64_t *last)
{
    static const char revision[] = "\"mod_revision\":\"";
    static const char tail[] = "}}]}}";
    const char *end = line + n;
    size_t n_kvs = 0;
    size_t n_found = 0;

    if (n < sizeof tail - 1 || memcmp(end - (sizeof tail - 1), tail, sizeof tail - 1) != 0 ||
        find(line, end, ":true") || find(line, end, "\"watch_id\"") || find(line, end, "\"error\""))
        return false;
    for (const char *at = line; (at = find(at, end, "\"kv\":")); at++)
        n_kvs++;
    for (const char *at = line; (at = find(at, end, revision)); n_found++) {
        uint64_t number = 0;
        size_t i = 0;

        at += sizeof revision - 1;
        const char *quote = memchr(at, '"', (size_t) (end - at));
        if (!quote || !text_number(at, (size_t) (quote - at), INT64_MAX, &number) || number == 0)
            return false;
        *last = (int64_t) number;
        while (i < n_known && known[i] != *last)
            i++;
        if (i == n_known)
            return false;
    }
    return n_found > 0 && n_found == n_kvs;
}

void message_done(struct message *message)
{
    blocks_free(message->memory);
    *message = (struct message){ 0 };
}
