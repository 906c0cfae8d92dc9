/* SPDX-License-Identifier: MIT */
/* Claims that end in the same transaction in which others are made, so that a changed workload is never half
 * changed (INV-4). A claim whose holder lives is not taken away (INV-5): it is no longer kept, and ends with
 * its holder. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "ledger/claiming.h"

#include "base/banned.h"

/* The name goes to another claim; this one is called after it and its number. A second one of that name and
 * number (another protocol or address) has its id behind it, which nobody else ever has. */
static dibs_status leave_name(struct ledger_tx *tx, dibs_claim *claim, dibs_err *err)
{
    char name[DIBS_NAME_MAX + 1];
    struct row_name known = { 0 };

    tx_left_name(claim->name, claim->port, name);
    dibs_status s = tx->rows->ops->name_get(tx->rows, claim->principal, name, &known, err);
    if (s == DIBS_OK && known.claim_id != 0)
        (void) snprintf(name + strlen(name), sizeof name - strlen(name), ".%llu",
                        (unsigned long long) claim->id);
    return s == DIBS_OK || s == DIBS_NOT_FOUND ? tx_rename(tx, claim, name, err) : s;
}

/* The generation stays: its holder's token must still end it. */
static dibs_status leave(struct ledger_tx *tx, struct row_claim *row, const struct ledger_drop *drop,
                         dibs_err *err)
{
    dibs_claim *claim = &row->claim;
    bool is_kept = claim->is_kept && drop->stays;
    bool leaves_name = drop->frees && strcmp(drop->frees, claim->name) == 0;
    dibs_status s = DIBS_OK;

    if (!leaves_name && is_kept == claim->is_kept)
        return DIBS_OK;
    claim->is_kept = is_kept;
    if (leaves_name)
        s = leave_name(tx, claim, err);
    return s == DIBS_OK ? tx_change(tx, row, err) : s;
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
        s = is_held || drop->stays ? leave(tx, &row, drop, err) : tx_end(tx, &row, DIBS_EV_RELEASED, err);
        if (s != DIBS_OK)
            return s;
    }
    return DIBS_OK;
}
