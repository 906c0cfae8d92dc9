/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_WEBHOOK_ALLOCATION_H
#define DIBS_KUBE_WEBHOOK_ALLOCATION_H
/* Claim the ports that a pod requests, for its namespace, all or nothing.
 *
 * A new claim is kept and held by a lease: it is *pending* until the controller has seen the pod. No claim
 * that another pod may use ends here; only the controller knows which pods are gone. */
#include "kube/install/installation.h"
#include "kube/pod_edit.h"
#include "kube/webhook/port_request.h"
#include "kube/webhook/review.h"

struct pod_assignment;

/* A pod and the ports that it requests. */
struct allocation {
    const struct installation *installation;
    const char *pool;
    int64_t pending_ms; /* TTL of the lease; longer than a request to the API server can take */
    bool is_dry_run;    /* decide without claiming */
    bool has_quota;     /* the namespace may have no more ports than its quota */
    const jsonr_value *pod;
    const struct port_request *request;
    const struct pod_assignment *assignment; /* the assignment that the pod brings */
    struct identity *who;                    /* gets its id and, if unnamed, its instance */
    /* The pod of each port, for pods that do not exist yet; NULL: all ports belong to `who`. */
    const struct identity *whos;
    struct review_warnings *warnings;
    bool is_early; /* TAKEN only until the target of a reference arrives */
};

/* Claim the ports and add them to the edit `out`. INVALID and TAKEN name the field. */
dibs_status allocation_make(dibs *handle, struct allocation *allocation, struct pod_edit *out, dibs_err *err);
#endif
