/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_WEBHOOK_REVIEW_QUEUE_H
#define DIBS_KUBE_WEBHOOK_REVIEW_QUEUE_H
/* Reviews that need the ledger: those that have come together are decided in one commit
 * (server/group_commit.h). Pods of one object are created at once, in any order: a pod that refers to one
 * that has not come yet is decided again, for a moment. Any number of replicas may share a ledger. */
#include "kube/pool.h"
#include "kube/webhook/admission.h"
#include "server/group_commit.h"

struct review_queue;
struct review_job {
    struct job job; /* first; deadline_ms: the API server has given up by then */
    struct admission admission;
    void (*decided)(struct review_job *self); /* the verdict is there */
    /* The queue's own: */
    struct review_queue *queue;
    struct review_job *next;
    int64_t wait_until_ms; /* how long a pod that came too early may wait for others, */
    int64_t again_ms;      /* ... and when it is decided again */
};

struct review_queue { /* zero: closed */
    struct admission_options admission;
    bool needs_rebuilt; /* nothing is claimed before a controller has rebuilt the ledger, */
    bool is_rebuilt;    /* ... which it has */
    struct kube_ledger ledger;
    struct group_commit *group;
    struct review_job *early; /* pods that wait for others; in no order: they are few */
};

/* `queue` has its options, but for the pool, and does not move while it is open; `ledger` has none of
 * `call_max_ms`, `kind` and `principal`. The caller ends it with review_queue_close(), also on failure. */
dibs_status review_queue_open(struct review_queue *queue, const struct kube_ledger_options *ledger,
                              dibs_err *err);
void review_queue_close(struct review_queue *queue); /* queued reviews are refused */
/* job.job.deadline_ms, admission and decided are the caller's to set. */
void review_queue_add(struct review_queue *queue, struct review_job *job);
/* Once a turn of the loop. */
void review_queue_turn(struct review_queue *queue);
/* How long the loop may wait; below 0: without limit. */
int64_t review_queue_next_ms(const struct review_queue *queue);
bool review_queue_is_idle(const struct review_queue *queue); /* no review is under way */
/* UNAVAILABLE: why nothing can be claimed now. */
dibs_status review_queue_check(struct review_queue *queue, dibs_err *err);
#endif
