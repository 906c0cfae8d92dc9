/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_WEBHOOK_ADMISSION_H
#define DIBS_KUBE_WEBHOOK_ADMISSION_H
/* Decide one AdmissionReview. Objects without requests for ports pass without the ledger. */
#include "kube/identity.h"
#include "kube/install/installation.h"
#include "kube/webhook/allocation.h"
#include "kube/webhook/pod_assignment.h"
#include "kube/webhook/port_request.h"
#include "kube/webhook/review.h"
#include "kube/webhook/role_instance.h"

/* Where objects of a kind contain pod templates: "spec.template", "spec.components[].template". The webhook
 * checks these annotations when the object is written, before its first pod exists. */
struct admission_template {
    const char *kind, *path;
};
enum { ADMISSION_TEMPLATES_MAX = 64 };

struct admission_options {
    const struct installation *installation; /* signs what pods are assigned */
    const char *pool;
    int64_t pending_ms;
    bool has_quota; /* namespaces have quotas */
    const struct admission_template *templates;
    size_t n_templates;
};

struct admission {
    struct review review;
    struct port_request request;
    struct pod_assignment assignment; /* of a pod */
    struct role_instance instance;    /* of RBG; zero for any other object */
    struct review_verdict verdict;
    bool needs_ledger;  /* admission_work() must come first */
    bool is_early;      /* refused; another pod's arrival may change that */
    dibs_status status; /* result of admission_work() */
};

/* Decide all that needs no ledger. INVALID: not a review; else the caller calls admission_done(). */
dibs_status admission_begin(const struct admission_options *options, const char *text, size_t len,
                            struct admission *out, dibs_err *err);
/* Decide with the ledger. The caller may repeat it when the transaction was not committed. */
void admission_work(struct admission *admission, const struct admission_options *options, dibs *handle);
/* Refuse because the ledger is unavailable or the commit failed. */
void admission_fail(struct admission *admission, const dibs_err *why);
void admission_done(struct admission *admission);
#endif
