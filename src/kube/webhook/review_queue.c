/* SPDX-License-Identifier: MIT */
#include "kube/webhook/review_queue.h"

#include "base/clock.h"
#include "core/cooldown.h"
#include "kube/identity.h"
#include "server/runtime.h"

#include "base/banned.h"

enum {
    GROUP_MAX = 64, /* reviews per commit */
    /* ports per commit, unless one review has more: each name is a condition of the transaction */
    GROUP_WEIGHT = 64,
    /* Twice this is less than the 10 s that the API server waits: a review may wait for a call that has
     * just begun and then for its own. */
    CALL_MS = 3000,
    REST_US = 4000,     /* longest rest after a commit */
    EARLY_MS = 2000,    /* how long a review waits for another pod to arrive */
    EARLY_LOOK_MS = 50, /* how often such a review is decided again */
};

static void work(struct job *job, dibs *handle)
{
    struct review_job *review = (struct review_job *) job;
    const struct review_queue *q = review->queue;
    dibs_err err = { 0 };

    /* In the transaction: a ledger that has lost its data may get its pool, and then its claims, meanwhile.
     */
    if (kube_check_pool(handle, q->ledger.pool.name, q->needs_rebuilt, &err) == DIBS_OK) {
        admission_work(&review->admission, &q->admission, handle);
        return;
    }
    review->admission.is_early = false;
    admission_fail(&review->admission, &err);
}

/* Return whether to wait: another pod's arrival may change the verdict. */
static bool wait_for_others(struct review_job *job)
{
    job->again_ms = clock_monotonic_ms() + EARLY_LOOK_MS;
    if (!job->admission.is_early || job->again_ms > job->wait_until_ms ||
        job->again_ms > job->job.deadline_ms)
        return false;
    job->next = job->queue->early;
    job->queue->early = job;
    return true;
}

static void done(struct job *job, const dibs_err *err)
{
    struct review_job *review = (struct review_job *) job;

    if (!err && wait_for_others(review))
        return;
    if (err)
        admission_fail(&review->admission, err);
    review->decided(review);
}

void review_queue_add(struct review_queue *queue, struct review_job *job)
{
    const struct port_request *request = &job->admission.request;

    job->queue = queue;
    job->wait_until_ms = clock_monotonic_ms() + EARLY_MS;
    job->job.work = work;
    job->job.done = done;
    job->job.is_kept = true;
    job->job.weight =
        (uint32_t) (port_request_count(request) +
                    (request->config ? request->config->n_references : job->admission.assignment.n));
    /* Another replica may just have claimed ports for this pod; stale data would claim them twice. */
    job->job.needs_fresh = port_request_annotation(job->admission.review.object, IDENTITY_KEY_CLAIM) != NULL;
    group_commit_queue(queue->group, &job->job);
}

/* Queue the waiting reviews that are due, or all of them. */
static void queue_early(struct review_queue *q, bool is_all)
{
    int64_t now_ms = clock_monotonic_ms();
    struct review_job *job = q->early;

    q->early = NULL;
    for (struct review_job *next = NULL; job; job = next) {
        next = job->next;
        if (is_all || job->again_ms <= now_ms) {
            group_commit_queue(q->group, &job->job);
            continue;
        }
        job->next = q->early;
        q->early = job;
    }
}

void review_queue_turn(struct review_queue *queue)
{
    queue_early(queue, false);
    group_commit_turn(queue->group);
}

int64_t review_queue_next_ms(const struct review_queue *queue)
{
    int64_t wait_ms = group_commit_next_ms(queue->group);

    for (const struct review_job *job = queue->early; job; job = job->next)
        wait_ms = runtime_sooner(wait_ms, clock_until_ms(job->again_ms));
    return wait_ms;
}

bool review_queue_is_idle(const struct review_queue *queue)
{
    return !queue->early && group_commit_is_idle(queue->group);
}

dibs_status review_queue_check(struct review_queue *queue, dibs_err *err)
{
    dibs_status s = group_commit_check(queue->group, err);

    return s == DIBS_OK ? kube_check_pool(queue->ledger.server.handle, queue->ledger.pool.name,
                                          queue->needs_rebuilt, err)
                        : s;
}

static dibs_status open_group(struct review_queue *q, dibs_err *err)
{
    const struct group_commit_options options = {
        .handle = q->ledger.server.handle,
        .max_jobs = GROUP_MAX,
        .max_weight = GROUP_WEIGHT,
        .begins_at_once = true, /* references read their targets */
        .rest_max_us = REST_US,
        .is_closed = "this replica is stopping; ask again",
    };

    return group_commit_open(&options, &q->group, err);
}

dibs_status review_queue_open(struct review_queue *queue, const struct kube_ledger_options *ledger,
                              dibs_err *err)
{
    struct kube_ledger_options own = *ledger;

    own.kind = "webhook";
    own.principal = "ns:default";
    own.call_max_ms = CALL_MS;
    queue->admission.pool = queue->ledger.pool.name;
    dibs_status s = kube_ledger_open(&queue->ledger, &own, err);
    if (s == DIBS_OK)
        s = open_group(queue, err);
    if (s != DIBS_OK)
        return s;
    cooldown_remember(queue->ledger.server.core, queue->ledger.pool.cooldown_ms);
    const struct call call = handle_call(queue->ledger.server.handle);
    return core_index_refresh(queue->ledger.server.core, &call, err);
}

void review_queue_close(struct review_queue *queue)
{
    if (queue->group)
        queue_early(queue, true);
    group_commit_close(queue->group);
    kube_ledger_close(&queue->ledger);
}
