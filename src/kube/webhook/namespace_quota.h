/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_WEBHOOK_NAMESPACE_QUOTA_H
#define DIBS_KUBE_WEBHOOK_NAMESPACE_QUOTA_H
/* The number of ports that a namespace may have, pending ones included. The controller brings the annotation
 * of the Namespace into the ledger; without one it is a quarter of the pool. */
#include "lib/handle.h"

/* Limit the claims of the namespace for which the handle acts. A namespace above its quota keeps its claims.
 * `allowance` is borrowed by the handle. */
dibs_status namespace_quota_limit(dibs *handle, const char *pool, struct ledger_allowance *allowance,
                                  dibs_err *err);
/* Replace the ledger's message about a batch by the figures if the quota is exhausted, not the pool. */
void namespace_quota_explain(dibs *handle, const struct ledger_allowance *allowance, const dibs_batch *batch,
                             dibs_err *err);
#endif
