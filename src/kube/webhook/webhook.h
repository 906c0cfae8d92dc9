/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_WEBHOOK_WEBHOOK_H
#define DIBS_KUBE_WEBHOOK_WEBHOOK_H
/* The admission webhook's HTTPS server: POST /mutate, GET /healthz, /readyz, /metrics. */
#include "kube/pool.h"
#include "kube/webhook/admission.h"

#define WEBHOOK_LISTEN "*:8443"
/* The API server stores a pod within its --request-timeout (60 s by default, all webhooks included), counted
 * from before it asks us. Half of that again covers clocks and a controller that lists late. */
#define WEBHOOK_PENDING_MS 90000

struct webhook_options {
    const dibs_settings *settings;
    const char *listen;             /* "ADDRESS:PORT", ":PORT"; NULL: WEBHOOK_LISTEN */
    const char *tls_cert, *tls_key; /* files; reloaded when they change, and at SIGHUP */
    const char *installation;       /* a file, as in kube/install/installation.h */
    struct kube_pool_flags pool;
    int64_t pending_ms; /* 0: WEBHOOK_PENDING_MS */
    const struct admission_template *templates;
    size_t n_templates;
    bool has_no_quota;  /* namespaces may use up the pool */
    bool needs_rebuilt; /* as in struct review_queue */
    bool is_check;      /* only check whether it could start */
};

/* Run until SIGTERM or SIGINT. */
dibs_status webhook_run(const struct webhook_options *options, dibs_err *err);
/* Parse "KIND=PATH", splitting it in place. INVALID: wrong form. */
dibs_status webhook_template_parse(char *text, struct admission_template *out, dibs_err *err);
#endif
