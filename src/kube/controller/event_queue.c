/* SPDX-License-Identifier: MIT */
#include "kube/controller/event_queue.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/hash_table.h"

#include "base/banned.h"

#define COMPONENT "dibs-controller"

enum { SEND_MS = 10000, BUDGET_MS = EVENT_QUEUE_AT_ONCE * EVENT_QUEUE_EVERY_MS };

/* Return whether the Event was queued within the last hour, and remember it as queued now. */
static bool is_known(struct event_queue *all, uint64_t hash, int64_t now_ms)
{
    struct event_memory *m = NULL;

    for (size_t i = 0; i < all->n_queued && !m; i++)
        if (all->queued[i].hash == hash)
            m = &all->queued[i];
    if (m && now_ms < m->until_ms)
        return true;
    if (!m) {
        if (all->n_queued == EVENT_QUEUE_REMEMBERED)
            all->n_queued = 0;
        m = &all->queued[all->n_queued++];
    }
    *m = (struct event_memory){ hash, now_ms + EVENT_QUEUE_AGAIN_MS };
    return false;
}

void event_queue_add(struct event_queue *all, const struct object_event *one, unsigned number, int64_t now_ms)
{
    uint64_t hash = hash_fnv1a(hash_table_hash(one->uid, one->reason), &number, sizeof number);

    size_t space = one->is_normal ? EVENT_QUEUE_WAITING_MAX / 2 : EVENT_QUEUE_WAITING_MAX;

    if (all->n >= space || is_known(all, hash, now_ms))
        return;
    all->waiting[(all->head + all->n++) % EVENT_QUEUE_WAITING_MAX] = *one;
}

static void write_event(struct jsonw *w, const struct object_event *e)
{
    char when[40] = "";

    clock_wall_format(clock_now(0).wall_ms, when);
    jsonw_object(w);
    jsonw_key_string(w, "apiVersion", "v1");
    jsonw_key_string(w, "kind", "Event");
    jsonw_key_object(w, "metadata");
    jsonw_key_string(w, "namespace", e->ns);
    jsonw_key_string(w, "generateName", "dibs-");
    jsonw_end_object(w);
    jsonw_key_object(w, "involvedObject");
    jsonw_key_string(w, "apiVersion", "v1");
    jsonw_key_string(w, "kind", e->kind);
    jsonw_key_string(w, "namespace", e->ns);
    jsonw_key_string(w, "name", e->name);
    jsonw_key_string(w, "uid", e->uid);
    jsonw_end_object(w);
    jsonw_key_string(w, "reason", e->reason);
    jsonw_key_string(w, "message", e->message);
    jsonw_key_string(w, "type", e->is_normal ? "Normal" : "Warning");
    jsonw_key_string(w, "firstTimestamp", when);
    jsonw_key_string(w, "lastTimestamp", when);
    jsonw_key_int(w, "count", 1);
    jsonw_key_object(w, "source");
    jsonw_key_string(w, "component", COMPONENT);
    jsonw_end_object(w);
    jsonw_key_string(w, "reportingComponent", COMPONENT);
    jsonw_key_string(w, "reportingInstance", "");
    jsonw_end_object(w);
}

/* Send an Event and ignore the answer: a lost Event does no harm. */
static void send(struct kubeapi *api, const struct object_event *event)
{
    struct bytes body = { 0 };
    struct jsonw w;
    char path[160] = "";

    jsonw_begin_bytes(&w, &body);
    write_event(&w, event);
    (void) snprintf(path, sizeof path, "/api/v1/namespaces/%s/events", event->ns);
    if (!body.is_lost)
        (void) !kubeapi_ask(
            api,
            &(struct kubeapi_request){
                .method = "POST", .path = path, .body = body.at, .n_body = body.n, .timeout_ms = SEND_MS },
            NULL, NULL);
    bytes_done(&body);
}

void event_queue_turn(struct event_queue *all, struct kubeapi *api, int64_t now_ms)
{
    all->spent_ms -= now_ms - all->filled_ms;
    if (all->spent_ms < 0)
        all->spent_ms = 0;
    all->filled_ms = now_ms;
    while (all->n > 0 && all->spent_ms + EVENT_QUEUE_EVERY_MS <= BUDGET_MS) {
        const struct object_event *one = &all->waiting[all->head];

        send(api, one);
        all->head = (all->head + 1) % EVENT_QUEUE_WAITING_MAX;
        all->n--;
        all->spent_ms += EVENT_QUEUE_EVERY_MS;
    }
}

int64_t event_queue_next_ms(const struct event_queue *all, int64_t now_ms)
{
    if (all->n == 0)
        return -1;
    int64_t ms = all->spent_ms + EVENT_QUEUE_EVERY_MS - BUDGET_MS - (now_ms - all->filled_ms);
    return ms > 0 ? ms : 0;
}
