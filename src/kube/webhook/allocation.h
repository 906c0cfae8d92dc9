/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_WEBHOOK_ALLOCATION_H
#define DIBS_KUBE_WEBHOOK_ALLOCATION_H
/* Claim the ports that a pod requests for its namespace, all or nothing.
 *
 * A claim is kept, and held by a lease at first: it is *pending* until the controller has seen the pod.
 * Nothing that another pod may use is ever ended here; only the controller knows which pods are gone. */
#include "kube/identity.h"
#include "kube/webhook/port_request.h"

enum { ALLOCATION_WARNING_MAX = 200 };
/* The numbers of a reference, and the form in which a variable says them. */
struct allocation_numbers {
    uint16_t ports[WORKLOAD_COUNT_MAX];
    struct workload_port shape; /* only what workload_value_text() looks at */
};
struct allocation {
    char id[IDENTITY_ID_MAX + 1];
    char warning[ALLOCATION_WARNING_MAX]; /* for the client that creates the pod; "": none */
    uint16_t *own;                        /* of every allocation, number by number */
    struct allocation_numbers *referred;  /* of every reference */
};

/* A pod and the ports that it requests. */
struct allocation_input {
    const char *pool;
    int64_t pending_ms; /* longer than a request to the API server can take */
    bool is_dry_run;    /* decide, and claim nothing */
    const jsonr_value *pod;
    const struct port_request *request;
    struct identity *who; /* gets its id, and with it, when it has no name, its instance */
    bool *is_early;       /* set: TAKEN for a reference whose target will say more */
};
/* INVALID and TAKEN name the field. */
dibs_status allocation_make(dibs *handle, const struct allocation_input *input, struct allocation *out,
                            dibs_err *err);
void allocation_done(struct allocation *allocation);
#endif
