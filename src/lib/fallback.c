/* SPDX-License-Identifier: MIT */
#include "lib/fallback.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "core/request.h"
#include "ledger/mru.h"

#include "base/banned.h"

enum { MRU_LIFETIME_MS = 120000 }; /* DCP's: long enough for a slow server to bind */

bool fallback_may(const dibs_settings *settings, const dibs_err *why)
{
    return settings->ledger_mode == DIBS_LEDGER_FALLBACK && why->code == DIBS_UNAVAILABLE &&
           (why->trouble == DIBS_TROUBLE_MISSING || why->trouble == DIBS_TROUBLE_UNWRITABLE ||
            why->trouble == DIBS_TROUBLE_FULL);
}

static bool withhold_claimed(void *ctx, const dibs_claim *claim)
{
    portbits_remove_range(ctx, (dibs_range){ claim->port, claim->port });
    return true;
}

dibs_status fallback_claim(dibs *handle, const dibs_batch *batch, dibs_claim *out, dibs_err *err)
{
    const dibs_request *first = &batch->requests[0];
    AUTO(free_auto) uint16_t *ports = calloc(batch->n, sizeof *ports);
    struct portbits choosable = { 0 };
    struct portbits withheld;
    struct ledger_want wanted = { 0 };
    struct ask ask = { 0 };
    dibs_claim claim = { .kind = DIBS_DYNAMIC, .is_exclusive = true, .is_degraded = true };
    char instance[24];

    if (!ports)
        return err_set(err, DIBS_FAILURE, "claiming: out of memory");
    dibs_status s = request_prepare(handle->core, first, &ask, &wanted, err);
    if (s != DIBS_OK)
        return s;
    claim.n_bindings = wanted.claim.n_bindings;
    claim.is_narrowed = ask.is_narrowed;
    memcpy(claim.bindings, wanted.claim.bindings, sizeof claim.bindings);
    (void) text_copy(claim.principal, sizeof claim.principal, handle->principal);
    core_withheld(handle->core, true, &withheld);
    portbits_add_ranges(&choosable, first->ranges ? first->ranges : &handle->settings.range);
    portbits_subtract(&choosable, &withheld);
    /* A ledger that cannot be written may be readable still: what it has is not given again. */
    if (handle->core->ledger)
        s = ledger_list(handle->core->ledger, &(struct ledger_filter){ 0 }, withhold_claimed, &choosable,
                        err);
    if (s != DIBS_OK && !fallback_may(&handle->settings, err)) /* it is there, and what it has is not known */
        return s;
    (void) snprintf(instance, sizeof instance, "%d", (int) getpid());
    struct mru_want want = {
        .claim = &claim,
        .choosable = &choosable,
        .n = batch->n,
        .lifetime_ms = MRU_LIFETIME_MS,
        .timeout_ms = handle->settings.timeout_ms,
        .now = core_now(handle->core),
        .boot_id = handle->core->view.boot_id,
        .instance = instance,
        .entropy = core_random(handle->core),
        .probe = core_probe,
        .probe_ctx = handle->core,
    };
    s = mru_claim(handle->settings.mru_file, &want, ports, err);
    for (size_t i = 0; i < batch->n && s == DIBS_OK; i++) {
        out[i] = claim;
        out[i].port = ports[i];
    }
    return s;
}

static bool is_simple(const dibs_request *r, const dibs_request *first)
{
    bool is_same = r->n_bindings == first->n_bindings;

    for (size_t i = 0; i < r->n_bindings && is_same; i++)
        is_same = r->bindings[i].proto == first->bindings[i].proto &&
                  dibs_address_equal(&r->bindings[i].address, &first->bindings[i].address);
    return is_same && r->mode == DIBS_RANDOM && !r->name && !r->pool && !r->keep &&
           r->ranges == first->ranges;
}

bool fallback_serves(const dibs_batch *batch)
{
    bool is_simple_batch = batch->n > 0 && batch->n_drops == 0 && !batch->is_contiguous && !batch->is_dry_run;

    for (size_t i = 0; i < batch->n && is_simple_batch; i++)
        is_simple_batch = is_simple(&batch->requests[i], &batch->requests[0]);
    return is_simple_batch;
}
