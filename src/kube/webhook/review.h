/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_WEBHOOK_REVIEW_H
#define DIBS_KUBE_WEBHOOK_REVIEW_H
/* AdmissionReview of admission.k8s.io/v1: the API server's question, and the form of the answer. */
#include <stdbool.h>

#include "base/bytes.h"
#include "codec/json.h"

enum {
    REVIEW_UID_MAX = 128, /* a UUID; it is echoed, so it has a bound */
    /* An object of 3 MiB, which is what the API server takes, and the one it replaces, written as JSON. */
    REVIEW_BODY_MAX_BYTES = 8 << 20,
    REVIEW_WARNING_MAX = 256, /* the API server may cut off longer ones */
};

enum review_operation { REVIEW_CREATE, REVIEW_UPDATE, REVIEW_OTHER };

struct review {
    jsonr_doc *doc; /* what the others point into */
    const char *uid;
    const char *group, *kind; /* of the object; "" is the core group */
    const char *subresource;  /* "": none */
    const char *ns;           /* "": none */
    enum review_operation operation;
    bool is_dry_run;
    const jsonr_value *object, *old; /* NULL where there is none */
};

/* INVALID: no such review; nothing can be answered but a 400. The caller ends it with review_done(). */
dibs_status review_parse(const char *text, size_t len, struct review *out, dibs_err *err);
void review_done(struct review *review);

struct review_verdict {
    bool is_allowed;
    int code;                         /* of a refusal: an HTTP status */
    char message[DIBS_ERR_MSG_MAX];   /* of a refusal */
    char warning[REVIEW_WARNING_MAX]; /* for the client; "": none */
    struct bytes patch;               /* a JSONPatch; empty: none */
};
/* The whole AdmissionReview; `out` remembers when memory was lacking. */
void review_write(const char *uid, const struct review_verdict *verdict, struct bytes *out);
#endif
