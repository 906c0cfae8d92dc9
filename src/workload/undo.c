/* SPDX-License-Identifier: MIT */
/* Back to what was there before a sync. */
#include <string.h>

#include "base/err.h"
#include "workload/workload.h"

#include "base/banned.h"

/* Request the claim as it was before: the same number for the same name, kept. */
static dibs_request again(const dibs_claim *was)
{
    dibs_request request = { .name = was->name,
                             .project = was->project[0] ? was->project : NULL,
                             .mode = DIBS_REQUIRED,
                             .port = was->port,
                             .keep = true,
                             .is_lookup = true,
                             .is_adopted = true,
                             .n_bindings = was->n_bindings };

    memcpy(request.bindings, was->bindings, sizeof request.bindings);
    return request;
}

dibs_status workload_undo(dibs *handle, const struct workload_plan *plans, size_t n, dibs_err *err)
{
    size_t n_changes = 0;

    for (size_t i = 0; i < n; i++)
        n_changes += plans[i].n;
    AUTO(free_auto) dibs_request *requests = calloc(n_changes + 1, sizeof *requests);
    AUTO(free_auto) dibs_claim *answers = calloc(n_changes + 1, sizeof *answers);
    AUTO(free_auto) dibs_drop *drops = calloc(n_changes + 1, sizeof *drops);
    dibs_batch batch = { .requests = requests, .drops = drops };

    if (!requests || !answers || !drops)
        return err_set(err, DIBS_FAILURE, "workload: out of memory");
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < plans[i].n; k++) {
            const struct workload_change *change = &plans[i].changes[k];
            bool is_back = change->before && change->before->is_kept;

            if (change->kind == WORKLOAD_ADD || change->kind == WORKLOAD_MOVE)
                drops[batch.n_drops++] = (dibs_drop){ .claim = &change->claim, .frees_name = is_back };
            if (is_back)
                requests[batch.n++] = again(change->before);
        }
    return dibs_claim_ports(handle, &batch, answers, err);
}
