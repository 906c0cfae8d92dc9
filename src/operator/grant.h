/* SPDX-License-Identifier: MIT */
#ifndef DIBS_OPERATOR_GRANT_H
#define DIBS_OPERATOR_GRANT_H
/* The ports of a pod: what it asks for becomes claims of its namespace, all or nothing.
 *
 * A claim is kept, and held by a lease at first: it is *pending* until the controller has seen the pod.
 * Nothing that another pod may use is ever ended here; the controller alone knows who is gone. */
#include "operator/asking.h"
#include "operator/identity.h"

struct grant_options {
    const char *pool;
    int64_t pending_ms; /* longer than a request to the API server can take */
    bool is_dry_run;    /* decide, and claim nothing */
};

enum { GRANT_WARNING_MAX = 200 };
/* What a reference means, and how its target is told of it. */
struct grant_numbers {
    uint16_t ports[WORKLOAD_COUNT_MAX];
    struct workload_port shape; /* only what workload_value_text() looks at */
};
struct grant {
    char id[IDENTITY_ID_MAX + 1];
    char warning[GRANT_WARNING_MAX]; /* for who creates the pod; "": none */
    uint16_t *own;                   /* of every allocation, number by number */
    size_t n_own;
    struct grant_numbers *referred; /* of every reference */
    size_t n_referred;
};

/* Whose ports, and which. */
struct grant_question {
    const json_value *pod;
    const struct asking *asking;
    struct identity *who; /* gets its id, and with it, when it has no name, its instance */
    bool *is_early;       /* set: TAKEN for a reference whose target will say more */
};
/* INVALID and TAKEN name the field. */
dibs_status grant_make(dibs *handle, const struct grant_options *options,
                       const struct grant_question *question, struct grant *out, dibs_err *err);
void grant_done(struct grant *grant);
#endif
