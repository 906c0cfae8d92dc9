/* SPDX-License-Identifier: MIT */
#include "kube/webhook/webhook.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "kube/webhook/review_queue.h"
#include "server/certificate.h"
#include "server/endpoint.h"
#include "server/log.h"
#include "server/metric_registry.h"
#include "server/runtime.h"

#include "base/banned.h"

enum {
    DRAIN_MS = 5000,     /* for reviews under way; then connections are closed */
    REVIEW_MS = 8000,    /* deadline of a review unless the API server sends its timeout */
    REVIEW_MIN_MS = 500, /* least timeout that is accepted */
    LOG_MS = 100,        /* between two log lines about refusals: users can cause any number */
    CONNECTIONS = 1024,
    /* Idle timeout of a connection: longer than the 90 s of the API server's client. If the server closed
     * first, a review sent at that moment would fail. */
    STEP_MS = 100000,
    LARGE = 32, /* concurrent reviews above 64 KiB */
    PENDING_MIN_MS = 60000,
    TEMPLATE_PATH_MAX = 128,
};

enum review_outcome {
    REVIEW_PASSED,  /* no request for ports */
    REVIEW_CLAIMED, /* ports claimed */
    REVIEW_REFUSED,
    REVIEW_UNAVAILABLE, /* refused: ledger unavailable */
    REVIEW_BAD,         /* not an AdmissionReview */
};
enum { REVIEW_OUTCOMES = REVIEW_BAD + 1 };

struct webhook {
    const struct webhook_options *options;
    struct runtime runtime;
    struct endpoint *endpoint;
    struct review_queue queue;
    struct metric_latency reviews[REVIEW_OUTCOMES];
    uint64_t ports[DIBS_STATIC + 1], errors[DIBS_STATIC + 1]; /* claimed and refused, by kind */
    struct certificate certificate;
    struct installation installation;
    int64_t log_ms;
    uint64_t n_unlogged;
};

struct review_request {
    struct review_job job; /* first: a job is cast to its review */
    struct webhook *webhook;
    struct http_request *r; /* NULL: the client has disconnected */
    int64_t began_us;
};

/* ---- metrics ---- */

/* The goals are 1 ms for a review without ports and 10 ms for one that claims. */
static metric_bounds bounds_us = { 500, 1000, 2500, 5000, 10000, 100000, 1000000 };

static void count(struct webhook *w, enum review_outcome outcome, const struct port_request *request,
                  int64_t began_us)
{
    uint64_t *by_kind = outcome == REVIEW_CLAIMED ? w->ports : w->errors;

    metric_observe(&w->reviews[outcome], &bounds_us, clock_monotonic_us() - began_us);
    if (outcome == REVIEW_PASSED || outcome == REVIEW_BAD || !request->config)
        return;
    for (size_t i = 0; i < request->config->n_ports; i++) {
        const struct workload_port *port = &request->config->ports[i];

        by_kind[port->mode == DIBS_REQUIRED ? DIBS_STATIC : DIBS_DYNAMIC] += port->count;
    }
}

/* Write the metrics; those of the pool have the names of KEP-3668. */
static void write_metrics(void *ctx, struct bytes *out)
{
    static const char *const outcomes[REVIEW_OUTCOMES] = { "passed", "claimed", "refused", "unavailable",
                                                           "bad" };
    const struct webhook *w = ctx;
    const struct group_commit_counts *counts = group_commit_count(w->queue.group);
    struct metric_writer writer = metric_begin(out);
    dibs_pool_usage usage = { 0 };

    for (size_t i = 0; i < REVIEW_OUTCOMES; i++) {
        char labels[32];

        (void) snprintf(labels, sizeof labels, "outcome=\"%s\"", outcomes[i]);
        metric_add_latency(&writer, METRIC_REVIEW_DURATION, &bounds_us, &w->reviews[i], labels);
    }
    metric_add(&writer, METRIC_WEBHOOK_COMMITS, counts->commits, NULL);
    metric_add(&writer, METRIC_WEBHOOK_CONFLICTS, counts->conflicts, NULL);
    if (dibs_pool_usage_of(w->queue.ledger.server.handle, w->queue.ledger.pool.name, &usage, NULL) != DIBS_OK)
        usage.size = 0;
    metric_add_nodeports(&writer, &(struct metric_nodeports){ .size = usage.size,
                                                              .allocated = usage.n_static + usage.n_dynamic,
                                                              .allocations = w->ports,
                                                              .errors = w->errors });
}

/* ---- answers ---- */

static void log_refusal(struct webhook *w, const struct admission *a)
{
    int64_t now_ms = clock_monotonic_ms();
    const char *name = jsonr_text_at(a->review.object, "metadata.name");
    char left_out[24];

    if (now_ms < w->log_ms) {
        w->n_unlogged++;
        return;
    }
    if (!*name)
        name = jsonr_text_at(a->review.object, "metadata.generateName");
    (void) snprintf(left_out, sizeof left_out, "%llu", (unsigned long long) w->n_unlogged);
    LOG(LOG_INFO, "refused", "kind", a->review.kind, "namespace", a->review.ns, "name", name, "why",
        a->verdict.message, "left_out", left_out);
    w->n_unlogged = 0;
    w->log_ms = now_ms + LOG_MS;
}

static enum review_outcome outcome_of(const struct admission *a)
{
    if (a->verdict.is_allowed)
        return a->needs_ledger ? REVIEW_CLAIMED : REVIEW_PASSED;
    return a->status == DIBS_UNAVAILABLE || a->status == DIBS_FAILURE ? REVIEW_UNAVAILABLE : REVIEW_REFUSED;
}

/* Send the verdict and end the review. */
static void answer(struct review_request *review)
{
    struct admission *a = &review->job.admission;
    struct webhook *w = review->webhook;
    struct bytes out = { 0 };

    if (!a->verdict.is_allowed)
        log_refusal(w, a);
    count(w, outcome_of(a), &a->request, review->began_us);
    if (review->r) {
        http_set_user(review->r, NULL);
        review_write(a->review.uid, &a->verdict, &out);
        http_answer(review->r, 200, "application/json", &out, NULL, 0);
    }
    admission_done(a);
    free(review);
}

static void decided(struct review_job *job)
{
    answer((struct review_request *) job);
}

/* ---- routes ---- */

/* Return our deadline, derived from the API server's timeout. */
static int64_t patience_ms(const struct http_request *r)
{
    const char *text = http_query(r, "timeout", 0);
    int64_t said_ms = text ? clock_duration_parse(text, 2 * (int64_t) REVIEW_MS) : -1;
    int64_t ours_ms = said_ms * 8 / 10; /* leaves time for the response */

    return said_ms < 0 || ours_ms > REVIEW_MS ? REVIEW_MS : ours_ms < REVIEW_MIN_MS ? REVIEW_MIN_MS : ours_ms;
}

static void mutate(void *ctx, struct http_request *r)
{
    struct webhook *w = ctx;
    struct review_request *review = calloc(1, sizeof *review);
    size_t n = 0;
    const char *body = http_body(r, &n);
    dibs_err err = { 0 };

    if (!review) {
        endpoint_answer_text(r, 500, "out of memory");
        return;
    }
    review->began_us = clock_monotonic_us();
    dibs_status s = admission_begin(&w->queue.admission, body, n, &review->job.admission, &err);
    if (s != DIBS_OK) {
        count(w, REVIEW_BAD, NULL, review->began_us);
        endpoint_answer_text(r, s == DIBS_INVALID ? 400 : 500, err.msg);
        free(review);
        return;
    }
    review->webhook = w;
    review->r = r;
    review->job.decided = decided;
    review->job.job.deadline_ms = clock_monotonic_ms() + patience_ms(r);
    http_set_user(r, review);
    if (review->job.admission.needs_ledger)
        review_queue_add(&w->queue, &review->job);
    else
        answer(review);
}

static const struct page pages[] = {
    { { "POST", "/mutate", NULL, 0 }, mutate },
};

static dibs_status check_ready(void *ctx, dibs_err *err)
{
    struct webhook *w = ctx;

    if (w->runtime.is_stopping)
        return err_set(err, DIBS_UNAVAILABLE, "stopping");
    return review_queue_check(&w->queue, err);
}

/* Keep the claim of an abandoned review pending until its lease expires. */
static void abandoned(void *ctx, void *user)
{
    (void) ctx;
    ((struct review_request *) user)->r = NULL;
}

/* ---- start ---- */

dibs_status webhook_template_parse(char *text, struct admission_template *out, dibs_err *err)
{
    char *equals = strchr(text, '=');

    if (!equals || equals == text || !equals[1] || strlen(equals + 1) > TEMPLATE_PATH_MAX)
        return err_set(err, DIBS_INVALID,
                       "--template '%.80s' is not KIND=PATH, such as RoleInstance=spec.components[].template",
                       text);
    *equals = '\0';
    *out = (struct admission_template){ text, equals + 1 };
    return DIBS_OK;
}

static dibs_status check_options(const struct webhook_options *o, dibs_pool *pool, dibs_err *err)
{
    if (!o->tls_cert || !o->tls_key)
        return err_set(err, DIBS_INVALID,
                       "--tls-cert and --tls-key are needed: the API server asks by HTTPS only");
    if (o->pending_ms && o->pending_ms < PENDING_MIN_MS)
        return err_set(err, DIBS_INVALID,
                       "--pending must be at least 1m: a request to the API server can take as long");
    return kube_pool_parse(&o->pool, pool, err);
}

static dibs_status open_listener(struct webhook *w, dibs_err *err)
{
    const char *listen = w->options->listen ? w->options->listen : WEBHOOK_LISTEN;
    dibs_status s = endpoint_listen(w->endpoint, listen, true, err);

    if (s == DIBS_OK)
        LOG(LOG_INFO, "serving", "version", dibs_version(), "listen", listen, "ledger",
            w->options->settings->ledger, "pool", w->queue.ledger.pool.name);
    return s;
}

static dibs_status start(struct webhook *w, dibs_err *err)
{
    const struct webhook_options *o = w->options;
    const struct endpoint_options endpoint = {
        .limits = { .max_connections = CONNECTIONS,
                    .max_per_user = CONNECTIONS,
                    .max_large = LARGE,
                    .max_step_ms = STEP_MS,
                    .max_body_bytes = REVIEW_BODY_MAX_BYTES },
        .pages = pages,
        .n_pages = sizeof pages / sizeof *pages,
        .hint = "there are /mutate, /healthz, /readyz and /metrics",
        .check_ready = check_ready,
        .write_metrics = write_metrics,
        .abandoned = abandoned,
        .ctx = w,
    };
    struct kube_ledger_options ledger = { .settings = o->settings,
                                          .flags = &o->pool,
                                          .installation = &w->installation,
                                          .listen = o->listen ? o->listen : WEBHOOK_LISTEN };
    dibs_status s = check_options(o, &ledger.pool, err);

    if (s == DIBS_OK)
        s = installation_read(o->installation, &w->installation, err);
    w->queue.needs_rebuilt = o->needs_rebuilt;
    w->queue.admission =
        (struct admission_options){ .installation = &w->installation,
                                    .pending_ms = o->pending_ms ? o->pending_ms : WEBHOOK_PENDING_MS,
                                    .has_quota = !o->has_no_quota,
                                    .templates = o->templates,
                                    .n_templates = o->n_templates };
    if (s == DIBS_OK)
        s = runtime_open(&w->runtime, err);
    ledger.loop = w->runtime.loop;
    if (s == DIBS_OK)
        s = endpoint_open(w->runtime.loop, &endpoint, &w->endpoint, err);
    if (s == DIBS_OK)
        s = certificate_load(&w->certificate, endpoint_http(w->endpoint), err);
    if (s != DIBS_OK ||
        o->is_check) /* a check writes nothing: to open a ledger makes it, a node and the pool */
        return s == DIBS_OK ? certificate_check(&w->certificate, err) : s;
    s = review_queue_open(&w->queue, &ledger, err);
    return s == DIBS_OK ? open_listener(w, err) : s;
}

/* ---- run ---- */

static int64_t next_ms(void *ctx)
{
    const struct webhook *w = ctx;
    int64_t wait_ms =
        runtime_sooner(http_next_ms(endpoint_http(w->endpoint)), review_queue_next_ms(&w->queue));

    return runtime_sooner(wait_ms, CERTIFICATE_LOOK_MS);
}

static void turn(void *ctx)
{
    struct webhook *w = ctx;

    review_queue_turn(&w->queue);
    http_run(endpoint_http(w->endpoint));
    certificate_turn(&w->certificate, endpoint_http(w->endpoint), clock_monotonic_ms());
}

static void reload(void *ctx)
{
    ((struct webhook *) ctx)->certificate.is_due = true;
}

static bool drain(void *ctx)
{
    const struct webhook *w = ctx;

    http_stop_accepting(endpoint_http(w->endpoint));
    return !review_queue_is_idle(&w->queue) || http_connections(endpoint_http(w->endpoint)) > 0;
}

dibs_status webhook_run(const struct webhook_options *options, dibs_err *err)
{
    struct webhook w = { .options = options,
                         .certificate = { .cert = options->tls_cert, .key = options->tls_key } };
    const struct runtime_hooks hooks = {
        .ctx = &w, .turn = turn, .next_ms = next_ms, .reload = reload, .drain = drain, .drain_ms = DRAIN_MS
    };

    ledger_have_process();
    dibs_status s = start(&w, err);
    if (s == DIBS_OK && !options->is_check)
        s = runtime_run(&w.runtime, &hooks, err);
    review_queue_close(&w.queue); /* first: the endpoint answers its queued reviews */
    endpoint_close(w.endpoint);
    runtime_close(&w.runtime);
    installation_done(&w.installation);
    return s;
}
