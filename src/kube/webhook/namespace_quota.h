/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_WEBHOOK_NAMESPACE_QUOTA_H
#define DIBS_KUBE_WEBHOOK_NAMESPACE_QUOTA_H
/* The number of ports that a namespace may have, pending ones included. The controller brings the annotation
 * of the Namespace into the ledger; without one it is a quarter of the pool. */
#include "lib/handle.h"

/* As dibs_claim_ports(), for the namespace for which the handle acts. EXHAUSTED also beyond its quota. A
 * namespace above its quota keeps its claims. */
dibs_status namespace_quota_claim(const dibs *handle, const char *pool, const dibs_batch *batch,
                                  dibs_claim *out, dibs_err *err);
#endif
