/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_WEBHOOK_ADMISSION_H
#define DIBS_KUBE_WEBHOOK_ADMISSION_H
/* One review from question to answer. What asks for nothing passes without the ledger. */
#include "kube/identity.h"
#include "kube/webhook/allocation.h"
#include "kube/webhook/port_request.h"
#include "kube/webhook/review.h"

/* Where objects of a kind describe pods: "spec.template", "spec.components[].template". Their annotations are
 * checked when the object is written, not only when its first pod comes. */
struct admission_template {
    const char *kind, *path;
};
enum { ADMISSION_TEMPLATES_MAX = 64 };

struct admission_options {
    const char *pool;
    int64_t pending_ms;
    const struct admission_template *templates;
    size_t n_templates;
};

struct admission {
    struct review review;
    struct port_request request;
    struct review_verdict verdict;
    bool needs_ledger;  /* admission_work() has to come first */
    bool is_early;      /* refused, and may be allowed as soon as another pod has come */
    dibs_status status; /* of the ledger's part */
};

/* Everything that can be said without the ledger. INVALID: it is no review; else the caller ends it with
 * admission_done(). */
dibs_status admission_begin(const struct admission_options *options, const char *text, size_t len,
                            struct admission *out, dibs_err *err);
/* The ledger's part; may be done again from the start when what it did has not come about. */
void admission_work(struct admission *admission, const struct admission_options *options, dibs *handle);
/* The ledger could not be asked, or what it said did not come about. */
void admission_fail(struct admission *admission, const dibs_err *why);
void admission_done(struct admission *admission);
#endif
