/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_CONTROLLER_EVENT_QUEUE_H
#define DIBS_KUBE_CONTROLLER_EVENT_QUEUE_H
/* Report problems of objects, and ports of pods, as Kubernetes Events: rate-limited, and each at most once
 * an hour. */
#include <stdbool.h>
#include <stdint.h>

#include "kube/client/kubeapi.h"

enum {
    EVENT_QUEUE_WAITING_MAX = 512, /* further Events are dropped; normal ones use half of it */
    EVENT_QUEUE_EVERY_MS = 100,    /* interval between Events after an initial burst */
    EVENT_QUEUE_AT_ONCE = 50,
    EVENT_QUEUE_REMEMBERED = 4096, /* hashes of queued Events; when full, all are forgotten */
    EVENT_QUEUE_AGAIN_MS = 3600000,
};

/* `kind` must be of the core group. */
struct object_event {
    char kind[16], ns[64], name[254], uid[64];
    char reason[32];
    char message[256];
    bool is_normal; /* else a warning */
};

/* When an Event was last queued. */
struct event_memory {
    uint64_t hash;
    int64_t until_ms;
};

struct event_queue { /* zero: empty */
    struct object_event waiting[EVENT_QUEUE_WAITING_MAX];
    size_t head, n;
    struct event_memory queued[EVENT_QUEUE_REMEMBERED];
    size_t n_queued;
    /* used part of the rate limit's budget; an Event costs EVENT_QUEUE_EVERY_MS */
    int64_t spent_ms;
    int64_t filled_ms;
};
/* Queue an Event. `number` and the reason distinguish Events of one object. */
void event_queue_add(struct event_queue *all, const struct object_event *one, unsigned number,
                     int64_t now_ms);
/* Send the Events that are due. */
void event_queue_turn(struct event_queue *all, struct kubeapi *api, int64_t now_ms);
/* Return the time until the next turn; below 0: none is needed. */
int64_t event_queue_next_ms(const struct event_queue *all, int64_t now_ms);
#endif
