/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_CONTROLLER_EVENT_QUEUE_H
#define DIBS_KUBE_CONTROLLER_EVENT_QUEUE_H
/* Report what is wrong with objects as Events of theirs: few at a time, and each not again for an hour. */
#include <stdbool.h>
#include <stdint.h>

#include "kube/client/kubeapi.h"

enum {
    EVENT_QUEUE_WAITING_MAX = 64, /* more are only counted */
    EVENT_QUEUE_EVERY_MS = 500,   /* one Event, after a first handful */
    EVENT_QUEUE_AT_ONCE = 10,
    EVENT_QUEUE_REMEMBERED = 4096, /* by a hash each; when it is full all are forgotten */
    EVENT_QUEUE_AGAIN_MS = 3600000,
};

/* `kind` is one of the core group. */
struct object_event {
    char kind[16], ns[64], name[254], uid[64];
    char reason[32];
    char message[256];
};

/* An Event that was queued. */
struct event_memory {
    uint64_t hash;
    int64_t until_ms;
};

struct event_queue { /* zero: empty */
    struct object_event waiting[EVENT_QUEUE_WAITING_MAX];
    size_t head, n;
    struct event_memory queued[EVENT_QUEUE_REMEMBERED];
    size_t n_queued;
    int64_t spent_ms; /* of the budget, EVENT_QUEUE_AT_ONCE * EVENT_QUEUE_EVERY_MS: each Event the latter */
    int64_t filled_ms;
};
/* `number` and the reason make it another one of the same object. */
void event_queue_add(struct event_queue *all, const struct object_event *one, unsigned number,
                     int64_t now_ms);
/* Sends what is due. */
void event_queue_turn(struct event_queue *all, struct kubeapi *api, int64_t now_ms);
/* When to be called again; below 0: not by itself. */
int64_t event_queue_next_ms(const struct event_queue *all, int64_t now_ms);
#endif
