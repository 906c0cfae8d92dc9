/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_POD_LIST_H
#define DIBS_KUBE_POD_LIST_H
/* List pods with their ports, as the API server has them, and compare them with the ledger's claims, which
 * a controller shows (controller/claims_page.c). */
#include "kube/assigned.h"

#define POD_LIST_NAMESPACE "dibs" /* of the controller's Service, by default */

struct pod_list_options {
    const char *kubeconfig;    /* as for kubeapi_config_load() */
    const char *ns;            /* NULL: the context's */
    bool is_all;               /* of all namespaces */
    const char *controller;    /* its URL; NULL: its Service, through the API server */
    const char *controller_ns; /* NULL: POD_LIST_NAMESPACE */
};

struct pod_list_row {
    const char *ns;
    const char *pod; /* "": a claim without a pod */
    /* "assigned" (the ledger is not known), "claimed", "pending", "lost", "missed", "finished"; without a
     * pod: "pending", "reserved", "kept", "ending", "declared" */
    const char *state;
    const struct assigned_claim *claims;
    size_t n;
    int64_t created_ms; /* 0: unknown */
};
typedef void (*pod_list_fn)(void *ctx, const struct pod_list_row *row);

/* Call `fn` for each pod that has ports or bypassed the webhook, and for each claim without a pod, sorted.
 * *unknown says why the ledger is not known; OK: it is. UNAVAILABLE, DENIED: the API server does not answer.
 */
dibs_status pod_list(const struct pod_list_options *options, pod_list_fn fn, void *ctx, dibs_err *unknown,
                     dibs_err *err);
#endif
