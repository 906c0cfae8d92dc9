/* SPDX-License-Identifier: MIT */
#include "kube/webhook/namespace_quota.h"

#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "kube/identity.h"
#include "ledger/ledger.h"

#include "base/banned.h"

enum { SHARE = 4 }; /* a namespace that fails in a loop leaves three quarters of the pool to the others */

/* Let the handle make claims up to the quota of its namespace. */
static dibs_status limit(dibs *handle, const char *pool, struct ledger_allowance *allowance, dibs_err *err)
{
    struct fact_record fact = { 0 };
    dibs_pool found = { 0 };

    (void) text_copy(fact.subject, sizeof fact.subject, handle_call(handle).principal);
    dibs_status s = handle_fact(handle, &fact, err);
    if (s == DIBS_NOT_FOUND) {
        s = dibs_pool_get(handle, pool, &found, err);
        fact.quota = (dibs_ranges_count(&found.ranges) + SHARE - 1) / SHARE;
    }
    return s == DIBS_OK ? handle_allow(handle, fact.quota, allowance, err) : s;
}

/* Replace the ledger's message by the numbers if the quota is exhausted, not the pool. */
static void explain(dibs *handle, const struct ledger_allowance *allowance, const dibs_batch *batch,
                    dibs_err *err)
{
    uint32_t n_more = 0;

    for (size_t i = 0; i < batch->n; i++) {
        dibs_claim claim = { 0 };

        n_more += dibs_claim_find(handle, &(dibs_which){ .name = batch->requests[i].name }, &claim, NULL) !=
                  DIBS_OK;
    }
    for (size_t i = 0; i < batch->n_drops; i++) /* its name gets another claim */
        n_more += batch->drops[i].stays;
    if (allowance->n + n_more <= allowance->max)
        return;
    (void) err_set(
        err, DIBS_EXHAUSTED,
        "the quota of namespace '%s' is %u ports: it has %u, pods that are still being created "
        "included, and this pod needs %u more; delete pods, or raise the annotation " IDENTITY_KEY_QUOTA
        " of the Namespace",
        handle_call(handle).principal + strlen("ns:"), allowance->max, allowance->n, n_more);
}

dibs_status namespace_quota_claim(const dibs *handle, const char *pool, const dibs_batch *batch,
                                  dibs_claim *out, dibs_err *err)
{
    struct ledger_allowance allowance = { 0 };
    dibs limited = *handle;
    dibs_status s = limit(&limited, pool, &allowance, err);

    if (s == DIBS_OK)
        s = dibs_claim_ports(&limited, batch, out, err);
    if (s == DIBS_EXHAUSTED)
        explain(&limited, &allowance, batch, err);
    return s;
}
