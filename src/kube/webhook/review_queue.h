/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_WEBHOOK_REVIEW_QUEUE_H
#define DIBS_KUBE_WEBHOOK_REVIEW_QUEUE_H
/* Reviews that need the ledger. Those that arrive together are decided in one commit
 * (server/group_commit.h). The pods of an object arrive in any order: a review whose reference has no
 * target yet is retried for a moment. Any number of replicas may share a ledger. */
#include "kube/pool.h"
#include "kube/webhook/admission.h"
#include "server/group_commit.h"

struct review_queue;
struct review_job {
    struct job job; /* first; deadline_ms: when the API server gives up */
    struct admission admission;
    void (*decided)(struct review_job *self); /* called with the verdict */
    /* Used by the queue only: */
    struct review_queue *queue;
    struct review_job *next;
    int64_t wait_until_ms; /* end of waiting for other pods */
    int64_t again_ms;      /* next decision while waiting */
};

struct review_queue { /* zero: closed */
    struct admission_options admission;
    bool needs_rebuilt; /* claim nothing before a controller has rebuilt the ledger */
    struct kube_ledger ledger;
    struct group_commit *group;
    struct review_job *early; /* reviews that wait for other pods, unordered: they are few */
};

/* Open the queue. The caller has set its options except the pool, does not move it while it is open, and
 * leaves `call_max_ms`, `kind` and `principal` of `ledger` unset. The caller closes it with
 * review_queue_close(), also on failure. */
dibs_status review_queue_open(struct review_queue *queue, const struct kube_ledger_options *ledger,
                              dibs_err *err);
void review_queue_close(struct review_queue *queue); /* refuses queued reviews */
/* Queue a review. The caller sets job.job.deadline_ms, admission and decided. */
void review_queue_add(struct review_queue *queue, struct review_job *job);
/* Call once per turn of the loop. */
void review_queue_turn(struct review_queue *queue);
/* Return how long the loop may wait; below 0: without limit. */
int64_t review_queue_next_ms(const struct review_queue *queue);
bool review_queue_is_idle(const struct review_queue *queue); /* no review is queued or under way */
/* Return UNAVAILABLE, with the reason, when nothing can be claimed now. */
dibs_status review_queue_check(struct review_queue *queue, dibs_err *err);
#endif
