/* SPDX-License-Identifier: MIT */
#include "operator/webhook.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "daemon/log.h"
#include "daemon/sockets.h"
#include "http/http.h"
#include "lib/handle.h"
#include "operator/certificate.h"
#include "operator/figures.h"
#include "operator/office.h"

#include "base/banned.h"

enum {
    DRAIN_MS = 5000,     /* reviews under way are answered; who holds a connection longer is cut off */
    REVIEW_MS = 8000,    /* a review, unless the API server says how long it waits */
    REVIEW_MIN_MS = 500, /* ... which is believed from here on */
    TELL_MS = 100,       /* between two lines of the log about refusals: a user can bring about any number */
    CONNECTIONS = 1024,
    /* A connection that waits: longer than the API server's clients, 90 s, keep one. Who closes first while
     * the other begins to ask makes a review fail. */
    STEP_MS = 100000,
    KEPT_FREE_BYTES = 1 << 20,
    LARGE = 32, /* reviews above 64 KiB under way */
    PENDING_MIN_MS = 60000,
    TEMPLATE_PATH_MAX = 128,
};

struct webhook {
    const struct webhook_options *options;
    struct loop *loop;
    struct http_server *http;
    struct office *office;
    struct figures figures;
    loop_source signals;
    struct certificate certificate;
    int64_t tell_ms;
    uint64_t n_untold;
    bool is_stopping;
};

/* One review. */
struct asked {
    struct office_job job; /* first: a job is its review */
    struct webhook *webhook;
    struct http_request *r; /* NULL: who asked is gone */
    int64_t began_us;
};

/* ---- answers ---- */

static void answer_text(struct http_request *r, int status, const char *text)
{
    char *copy = strdup(text);

    http_answer(r, status, "text/plain; charset=utf-8",
                (struct http_body){ copy ? copy : "", copy ? strlen(copy) : 0, copy ? free : NULL }, NULL, 0);
}

static void tell_refusal(struct webhook *w, const struct admission *a)
{
    int64_t now_ms = clock_monotonic_ms();
    const json_value *metadata = json_get(a->review.object, "metadata");
    const char *name = "";
    char left_out[24];

    if (now_ms < w->tell_ms) {
        w->n_untold++;
        return;
    }
    if (!json_get_string(metadata, "name", &name) || !*name)
        (void) json_get_string(metadata, "generateName", &name);
    (void) snprintf(left_out, sizeof left_out, "%llu", (unsigned long long) w->n_untold);
    LOG(LOG_INFO, "refused", "kind", a->review.kind, "namespace", a->review.ns, "name", name, "why",
        a->verdict.message, "left_out", left_out);
    w->n_untold = 0;
    w->tell_ms = now_ms + TELL_MS;
}

static enum figures_outcome outcome_of(const struct admission *a)
{
    if (a->verdict.is_allowed)
        return a->needs_ledger ? FIGURES_CLAIMED : FIGURES_PASSED;
    return a->status == DIBS_UNAVAILABLE || a->status == DIBS_FAILURE ? FIGURES_UNAVAILABLE : FIGURES_REFUSED;
}

/* The verdict is known: it is sent, and the review ends. */
static void answer(struct asked *asked)
{
    struct admission *a = &asked->job.admission;
    struct webhook *w = asked->webhook;
    struct bytes out = { 0 };

    if (!a->verdict.is_allowed)
        tell_refusal(w, a);
    figures_note(&w->figures, outcome_of(a), &a->asking, clock_monotonic_us() - asked->began_us);
    if (asked->r) {
        http_set_user(asked->r, NULL);
        review_write(a->review.uid, &a->verdict, &out);
        if (out.is_lost)
            answer_text(asked->r, 500, "out of memory\n");
        else
            http_answer(asked->r, 200, "application/json", (struct http_body){ out.at, out.n, free }, NULL,
                        0);
        if (out.is_lost)
            bytes_done(&out);
    }
    admission_done(a);
    free(asked);
}

static void decided(struct office_job *job)
{
    answer((struct asked *) job);
}

/* ---- routes ---- */

/* The API server says how long it waits. */
static int64_t patience_ms(const struct http_request *r)
{
    const char *text = http_query(r, "timeout", 0);
    int64_t said_ms = text ? clock_duration_parse(text, 2 * (int64_t) REVIEW_MS) : -1;
    int64_t ours_ms = said_ms * 8 / 10; /* the way back takes time, too */

    return said_ms < 0 || ours_ms > REVIEW_MS ? REVIEW_MS : ours_ms < REVIEW_MIN_MS ? REVIEW_MIN_MS : ours_ms;
}

static void mutate(struct webhook *w, struct http_request *r)
{
    struct asked *asked = calloc(1, sizeof *asked);
    size_t n = 0;
    const char *body = http_body(r, &n);
    char text[DIBS_ERR_MSG_MAX + 1];
    dibs_err err = { 0 };

    if (!asked) {
        answer_text(r, 500, "out of memory\n");
        return;
    }
    asked->began_us = clock_monotonic_us();
    const struct admission_options options = { .templates = w->options->templates,
                                               .n_templates = w->options->n_templates };
    dibs_status s = admission_begin(&options, body, n, &asked->job.admission, &err);
    if (s != DIBS_OK) {
        figures_note(&w->figures, FIGURES_BAD, NULL, clock_monotonic_us() - asked->began_us);
        (void) snprintf(text, sizeof text, "%s\n", err.msg);
        answer_text(r, s == DIBS_INVALID ? 400 : 500, text);
        free(asked);
        return;
    }
    asked->webhook = w;
    asked->r = r;
    asked->job.done = decided;
    asked->job.deadline_ms = clock_monotonic_ms() + patience_ms(r);
    http_set_user(r, asked);
    if (asked->job.admission.needs_ledger)
        office_queue(w->office, &asked->job);
    else
        answer(asked);
}

static void healthz(struct webhook *w, struct http_request *r)
{
    (void) w;
    answer_text(r, 200, "ok\n");
}

static void readyz(struct webhook *w, struct http_request *r)
{
    dibs_err err = { 0 };
    char text[DIBS_ERR_MSG_MAX + 1];

    if (!w->is_stopping && office_check(w->office, &err) == DIBS_OK) {
        answer_text(r, 200, "ok\n");
        return;
    }
    (void) snprintf(text, sizeof text, "%s\n", w->is_stopping ? "stopping" : err.msg);
    answer_text(r, 503, text);
}

static void metrics(struct webhook *w, struct http_request *r)
{
    struct bytes out = { 0 };

    figures_write(&w->figures, w->office, &out);
    if (!out.is_lost) {
        http_answer(r, 200, "text/plain; version=0.0.4; charset=utf-8",
                    (struct http_body){ out.at, out.n, free }, NULL, 0);
        return;
    }
    bytes_done(&out);
    answer_text(r, 500, "out of memory\n");
}

static const struct route {
    const char *method, *path;
    void (*serve)(struct webhook *w, struct http_request *r);
} routes[] = {
    { "POST", "/mutate", mutate },
    { "GET", "/healthz", healthz },
    { "GET", "/readyz", readyz },
    { "GET", "/metrics", metrics },
};

static void requested(void *ctx, struct http_request *r)
{
    static const char wrong[] = "method not allowed\n";

    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        if (strcmp(routes[i].path, http_path(r)) != 0)
            continue;
        if (strcmp(routes[i].method, http_method(r)) == 0)
            routes[i].serve(ctx, r);
        else
            http_answer(r, 405, "text/plain; charset=utf-8",
                        (struct http_body){ wrong, sizeof wrong - 1, NULL },
                        &(struct http_field){ "Allow", routes[i].method }, 1);
        return;
    }
    answer_text(r, 404, "there is /mutate, /healthz, /readyz and /metrics\n");
}

static void abandoned(void *ctx, struct http_request *r)
{
    struct asked *asked = http_user(r);

    (void) ctx;
    if (asked)
        asked->r = NULL; /* what it claims stays pending, and ends by itself */
}

static void *connected(void *ctx, int fd, const struct http_door *door)
{
    (void) fd;
    (void) door;
    return ctx;
}

static void disconnected(void *ctx, void *peer)
{
    (void) ctx;
    (void) peer;
}

/* ---- start ---- */

static void on_signal(loop_source *source, uint32_t events)
{
    struct webhook *w = (struct webhook *) ((char *) source - offsetof(struct webhook, signals));
    struct signalfd_siginfo info;

    (void) events;
    while (read(source->fd, &info, sizeof info) == (ssize_t) sizeof info) {
        if (info.ssi_signo == SIGHUP)
            w->certificate.is_due = true;
        else
            w->is_stopping = true;
    }
}

dibs_status webhook_template_parse(char *text, struct admission_template *out, dibs_err *err)
{
    char *equals = strchr(text, '=');
    char shown[80];

    if (!equals || equals == text || !equals[1] || strlen(equals + 1) > TEMPLATE_PATH_MAX)
        return err_set(err, DIBS_INVALID,
                       "--template '%s' is not KIND=PATH, such as RoleInstance=spec.components[].template",
                       text_safe(text, shown, sizeof shown));
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
    return operator_pool_parse(&o->pool, pool, err);
}

/* ":8443" is every address, as Kubernetes' own programs write it. */
static dibs_status open_door(struct webhook *w, dibs_err *err)
{
    const char *listen = w->options->listen ? w->options->listen : WEBHOOK_LISTEN;
    char any[64];
    int fd = -1;

    if (listen[0] == ':') {
        (void) snprintf(any, sizeof any, "*%s", listen);
        listen = any;
    }
    dibs_status s = socket_open_tcp(listen, false, &fd, err);
    if (s == DIBS_OK)
        s = http_listen(w->http, fd, NULL, true, err);
    if (s != DIBS_OK && fd >= 0)
        (void) close(fd);
    else if (s == DIBS_OK)
        LOG(LOG_INFO, "serving", "version", dibs_version(), "listen", listen, "ledger",
            w->options->settings->ledger, "pool", office_pool(w->office)->name);
    return s;
}

static dibs_status start(struct webhook *w, const struct http_handler *handler, dibs_err *err)
{
    const struct webhook_options *o = w->options;
    const struct http_limits limits = { .max_connections = CONNECTIONS,
                                        .max_per_user = CONNECTIONS,
                                        .max_large = LARGE,
                                        .max_step_ms = STEP_MS,
                                        .max_body_bytes = REVIEW_BODY_MAX_BYTES };
    struct office_options office = {
        .settings = o->settings,
        .needs_rebuilt = o->needs_rebuilt,
        .admission = { .pending_ms = o->pending_ms ? o->pending_ms : WEBHOOK_PENDING_MS },
    };
    dibs_status s = check_options(o, &office.pool, err);

    if (s == DIBS_OK)
        s = loop_open(&w->loop, err);
    if (s == DIBS_OK)
        s = loop_add_signals(w->loop, &w->signals, on_signal, err);
    office.loop = w->loop;
    if (s == DIBS_OK)
        s = http_open(w->loop, &limits, handler, &w->http, err);
    if (s == DIBS_OK)
        s = certificate_load(&w->certificate, w->http, err);
    if (s == DIBS_OK)
        s = office_open(&office, &w->office, err);
    return s == DIBS_OK && !o->is_check ? open_door(w, err) : s;
}

/* ---- run ---- */

static int64_t next_ms(const struct webhook *w)
{
    int64_t wait_ms = http_next_ms(w->http);
    int64_t office_ms = office_next_ms(w->office);

    if (wait_ms < 0 || wait_ms > CERTIFICATE_LOOK_MS)
        wait_ms = CERTIFICATE_LOOK_MS;
    return office_ms >= 0 && office_ms < wait_ms ? office_ms : wait_ms;
}

static dibs_status turn(struct webhook *w, dibs_err *err)
{
    dibs_status s = loop_turn(w->loop, next_ms(w), err);

    office_turn(w->office);
    http_run(w->http);
    certificate_mind(&w->certificate, w->http, clock_monotonic_ms());
    return s;
}

static dibs_status run(struct webhook *w, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    while (!w->is_stopping && s == DIBS_OK)
        s = turn(w, err);
    LOG(LOG_INFO, "stopping");
    http_stop_accepting(w->http);
    int64_t until_ms = clock_monotonic_ms() + DRAIN_MS;
    while (s == DIBS_OK && (office_next_ms(w->office) >= 0 || http_connections(w->http) > 0) &&
           clock_monotonic_ms() < until_ms)
        s = turn(w, err);
    return s;
}

dibs_status webhook_run(const struct webhook_options *options, dibs_err *err)
{
    struct webhook w = { .options = options,
                         .certificate = { .cert = options->tls_cert, .key = options->tls_key },
                         .signals = { .fd = -1 } };
    const struct http_handler handler = { .ctx = &w,
                                          .connected = connected,
                                          .disconnected = disconnected,
                                          .requested = requested,
                                          .abandoned = abandoned };

    /* Every review needs some 100 KiB for a moment: giving them back to the kernel each time costs more. */
    (void) mallopt(M_TRIM_THRESHOLD, KEPT_FREE_BYTES);
    ledger_have_process();
    dibs_status s = start(&w, &handler, err);
    if (s == DIBS_OK && !options->is_check)
        s = run(&w, err);
    office_close(w.office); /* first: what is still queued is answered by the door */
    http_close(w.http);
    if (w.signals.fd >= 0)
        (void) close(w.signals.fd);
    loop_close(w.loop);
    return s;
}
