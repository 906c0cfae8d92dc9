/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_WEBHOOK_REVIEW_H
#define DIBS_KUBE_WEBHOOK_REVIEW_H
/* AdmissionReview of admission.k8s.io/v1: parse the API server's request and write the response. */
#include <stdbool.h>

#include "base/bytes.h"
#include "codec/json.h"

enum {
    REVIEW_UID_MAX = 128, /* a UUID; bounded because the response repeats it */
    /* The object and the one it replaces, as JSON; the API server accepts 3 MiB each. */
    REVIEW_BODY_MAX_BYTES = 8 << 20,
    REVIEW_WARNING_MAX = 256, /* the API server may truncate longer ones */
    REVIEW_WARNINGS_MAX = 4,  /* of one response; clients print each */
};

enum review_operation { REVIEW_CREATE, REVIEW_UPDATE, REVIEW_OTHER };

struct review {
    jsonr_doc *doc; /* owns the values below */
    const char *uid;
    const char *group, *kind; /* of the object; "" is the core group */
    const char *subresource;  /* "": none */
    const char *ns;           /* "": none */
    enum review_operation operation;
    bool is_dry_run;
    const jsonr_value *object, *old; /* NULL: none */
};

/* Parse a review. INVALID: not a review, answer 400. The caller ends it with review_done(). */
dibs_status review_parse(const char *text, size_t len, struct review *out, dibs_err *err);
void review_done(struct review *review);

struct review_warnings {
    char text[REVIEW_WARNINGS_MAX][REVIEW_WARNING_MAX];
    size_t n;
};
/* Add "dibs: ..." for the client; what exceeds the maximum is left out. */
void review_warn(struct review_warnings *warnings, const char *fmt, ...) DIBS_PRINTF(2, 3);

struct review_verdict {
    bool is_allowed;
    int code;                       /* of a refusal: an HTTP status */
    char message[DIBS_ERR_MSG_MAX]; /* of a refusal */
    struct review_warnings warnings;
    struct bytes patch; /* a JSONPatch; empty: none */
};
/* Write the AdmissionReview; `out` records lack of memory. */
void review_write(const char *uid, const struct review_verdict *verdict, struct bytes *out);
#endif
