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
    if (!is_kept)
        tx_unkeeps(tx, claim);
    claim->is_kept = is_kept;
    if (leaves_name)
        s = leave_name(tx, claim, err);
    return s == DIBS_OK ? tx_change(tx, row, err) : s;
}

static bool is_held(const struct ledger_batch *batch, const dibs_claim *claim)
{
    return claim->holder != DIBS_HELD_BY_NOBODY && !claiming_is_dead(batch, claim);
}

/* The least name behind this one. No byte of a name is below 2. */
static void step_behind(const char *name, char out[DIBS_NAME_MAX + 1])
{
    size_t len = strlen(name);

    memcpy(out, name, len + 1);
    if (len < DIBS_NAME_MAX)
        memcpy(out + len, "\1", 2);
    else
        out[len - 1]++;
}

/* Nobody may hold a claim whose name begins with these bytes of the claim's. Each name is looked at once. */
static dibs_status check_unused(struct claiming *k, const dibs_claim *claim, size_t n_bytes)
{
    struct rows *rows = k->tx->rows;
    char from[DIBS_NAME_MAX + 1] = "";
    char to[DIBS_NAME_MAX + 1] = "";
    const struct ledger_names below = { .principal = claim->principal, .from = from, .to = to };
    dibs_status s = DIBS_OK;

    memcpy(from, claim->name, n_bytes);
    memcpy(to, claim->name, n_bytes);
    to[n_bytes - 1]++;
    while (s == DIBS_OK || s == DIBS_NOT_FOUND) {
        char name[DIBS_NAME_MAX + 1];
        struct row_name known = { 0 };
        struct row_claim row;

        s = rows->ops->name_first(rows, &below, name, k->err);
        if (s == DIBS_NOT_FOUND)
            return DIBS_OK;
        if (s == DIBS_OK)
            s = rows_find_named(rows, claim->principal, name, &known, &row, k->err);
        if (s == DIBS_OK && is_held(k->batch, &row.claim)) {
            k->refusal->is_shared = true;
            k->refusal->n_blockers = 1;
            k->refusal->blockers[0] = row.claim;
            return err_set(k->err, DIBS_TAKEN, "'%s' is used by '%s'", claim->name, name);
        }
        step_behind(name, from);
    }
    return s;
}

static dibs_status drop_one(struct claiming *k, const struct ledger_drop *drop)
{
    struct ledger_tx *tx = k->tx;
    struct row_claim row;
    dibs_status s = tx->rows->ops->claim_get(tx->rows, drop->seen.id, &row, k->err);

    if (s == DIBS_NOT_FOUND || (s == DIBS_OK && row.claim.generation != drop->seen.generation))
        return DIBS_OK; /* it has ended or moved on: not the one that was meant (INV-3) */
    if (s != DIBS_OK)
        return s;
    if (!tx->actor->is_admin && strcmp(tx->actor->principal, row.claim.principal) != 0)
        return err_set(k->err, DIBS_DENIED, "the claim on port %u belongs to %s; you are %s", row.claim.port,
                       row.claim.principal, tx->actor->principal);
    if (is_held(k->batch, &row.claim) || drop->stays)
        return leave(tx, &row, drop, k->err);
    if (drop->shared_bytes > 0 && drop->shared_bytes <= strlen(row.claim.name))
        s = check_unused(k, &row.claim, drop->shared_bytes);
    return s == DIBS_OK ? tx_end(tx, &row, DIBS_EV_RELEASED, k->err) : s;
}

dibs_status claiming_drop(struct claiming *k)
{
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < k->batch->n_drops && s == DIBS_OK; i++)
        s = drop_one(k, &k->batch->drops[i]);
    return s;
}
