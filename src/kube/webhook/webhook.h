/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_WEBHOOK_WEBHOOK_H
#define DIBS_KUBE_WEBHOOK_WEBHOOK_H
/* The admission webhook as a process: HTTPS, one loop until SIGTERM or SIGINT.
 *
 * POST /mutate, GET /healthz, /readyz, /metrics. */
#include "kube/pool.h"
#include "kube/webhook/admission.h"

#define WEBHOOK_LISTEN "*:8443"
/* More than a request to the API server can take, with all its webhooks. */
#define WEBHOOK_PENDING_MS 300000

struct webhook_options {
    const dibs_settings *settings;
    const char *listen;             /* "ADDRESS:PORT", ":PORT"; NULL: WEBHOOK_LISTEN */
    const char *tls_cert, *tls_key; /* files; read again when they change, and at SIGHUP */
    struct kube_pool_flags pool;
    int64_t pending_ms; /* 0: WEBHOOK_PENDING_MS */
    const struct admission_template *templates;
    size_t n_templates;
    bool needs_rebuilt; /* as of a review queue */
    bool is_check;      /* only see whether it could start */
};

/* Until SIGTERM or SIGINT. */
dibs_status webhook_run(const struct webhook_options *options, dibs_err *err);
/* "KIND=PATH", cut up in place. INVALID: it is none. */
dibs_status webhook_template_parse(char *text, struct admission_template *out, dibs_err *err);
#endif
