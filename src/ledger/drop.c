/* SPDX-License-Identifier: MIT */
/* Claims that end in the same transaction in which others are made, so that a changed workload is never half
 * changed (INV-4). A claim whose holder lives is not taken away (INV-5): it is no longer kept, and ends with
 * its holder. */
#include <string.h>

#include "base/err.h"
#include "ledger/claiming.h"

#include "base/banned.h"

/* The name goes to another claim; the holder keeps the port. */
static dibs_status free_name(struct ledger_tx *tx, dibs_claim *claim, dibs_err *err)
{
    dibs_status s = tx_put_name(tx, claim, 0, err);

    claim->name[0] = '\0';
    return s;
}

static dibs_status leave_to_holder(struct ledger_tx *tx, struct row_claim *row, bool frees_name,
                                   dibs_err *err)
{
    dibs_status s = DIBS_OK;

    row->claim.is_kept = false;
    row->claim.changed_ms = tx->actor->now.wall_ms;
    if (frees_name && row->claim.name[0])
        s = free_name(tx, &row->claim, err);
    /* The generation stays: its holder's token must still end it. */
    if (s == DIBS_OK)
        s = tx->rows->ops->claim_put(tx->rows, row, err);
    return s == DIBS_OK ? tx_event(tx, DIBS_EV_TRANSFERRED, &row->claim, err) : s;
}

dibs_status tx_drop(struct ledger_tx *tx, const struct ledger_batch *batch, dibs_err *err)
{
    for (size_t i = 0; i < batch->n_drops; i++) {
        const struct ledger_drop *drop = &batch->drops[i];
        struct row_claim row;
        dibs_status s = tx->rows->ops->claim_get(tx->rows, drop->seen.id, &row, err);

        if (s == DIBS_NOT_FOUND || (s == DIBS_OK && row.claim.generation != drop->seen.generation))
            continue; /* it has ended or moved on: not the one that was meant (INV-3) */
        if (s != DIBS_OK)
            return s;
        if (!tx->actor->is_admin && strcmp(tx->actor->principal, row.claim.principal) != 0)
            return err_set(err, DIBS_DENIED, "the claim on port %u belongs to %s; you are %s", row.claim.port,
                           row.claim.principal, tx->actor->principal);
        bool is_held = row.claim.holder != DIBS_HELD_BY_NOBODY && !claiming_is_dead(batch, &row.claim);
        s = is_held ? leave_to_holder(tx, &row, drop->frees_name, err)
                    : tx_end(tx, &row, DIBS_EV_RELEASED, err);
        if (s != DIBS_OK)
            return s;
    }
    return DIBS_OK;
}
