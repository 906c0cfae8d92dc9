/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_CONTROLLER_CONTROLLER_H
#define DIBS_KUBE_CONTROLLER_CONTROLLER_H
/* `dibs kube controller`: watch the cluster's objects and reconcile the ledger with them. One of several
 * processes leads, the others stand by. */
#include "dibs/dibs.h"
#include "kube/pool.h"

struct controller_options {
    const dibs_settings *settings;
    const char *kubeconfig;   /* NULL: from the environment */
    const char *ns;           /* of the Lease; NULL: our own namespace */
    const char *listen;       /* "ADDRESS:PORT" for metrics; NULL: the default */
    const char *installation; /* a file, as in kube/install/installation.h */
    struct kube_pool_flags pool;
};

/* Run until SIGTERM or SIGINT. */
dibs_status controller_run(const struct controller_options *options, dibs_err *err);
#endif
