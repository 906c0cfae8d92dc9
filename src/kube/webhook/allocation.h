/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_WEBHOOK_ALLOCATION_H
#define DIBS_KUBE_WEBHOOK_ALLOCATION_H
/* Claim the ports that a pod requests for its namespace, all or nothing.
 *
 * A claim is kept, and held by a lease at first: it is *pending* until the controller has seen the pod.
 * Nothing that another pod may use is ever ended here; only the controller knows which pods are gone. */
#include "kube/pod_edit.h"
#include "kube/webhook/port_request.h"
#include "kube/webhook/review.h"

/* A pod and the ports that it requests. */
struct allocation {
    const char *pool;
    int64_t pending_ms; /* longer than a request to the API server can take */
    bool is_dry_run;    /* decide, and claim nothing */
    const jsonr_value *pod;
    const struct port_request *request;
    struct identity *who; /* gets its id, and with it, when it has no name, its instance */
    char *warning;        /* gets REVIEW_WARNING_MAX bytes for the client that creates the pod */
    bool is_early;        /* TAKEN for a reference whose target will say more */
};

/* Claim the ports, and add to `out` what tells the pod of them. INVALID and TAKEN name the field. */
dibs_status allocation_make(dibs *handle, struct allocation *allocation, struct pod_edit *out, dibs_err *err);
#endif
