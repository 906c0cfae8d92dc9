/* SPDX-License-Identifier: MIT */
/* Claims beside their slots: which records are damaged, lost, or keep their port from nobody. */
#include <stdlib.h>

#include "base/auto.h"
#include "base/err.h"
#include "ledger/rows.h"

#include "base/banned.h"

enum { SLOTS_MAX = 1 << 21 };

struct walk {
    struct ledger_slot *slot; /* of claims, by claim; claim_id 0 once it is known to have one */
    size_t n, max, at;
    bool is_full;
    bool is_stopped;
    row_flaw_fn fn;
    void *ctx;
};

static void walk_auto(struct walk *w)
{
    free(w->slot);
}

static bool keep_slot(void *ctx, const struct ledger_slot *slot)
{
    struct walk *w = ctx;

    if (slot->claim_id == 0)
        return true;
    if (w->n == w->max) {
        size_t max = w->max ? w->max * 2 : 64;
        struct ledger_slot *more = max > SLOTS_MAX ? NULL : reallocarray(w->slot, max, sizeof *more);

        w->is_full = !more;
        if (!more)
            return false;
        w->slot = more;
        w->max = max;
    }
    w->slot[w->n++] = *slot;
    return true;
}

static int by_claim(const void *a, const void *b)
{
    const struct ledger_slot *x = a;
    const struct ledger_slot *y = b;

    if (x->claim_id != y->claim_id)
        return x->claim_id < y->claim_id ? -1 : 1;
    return (int) x->port - (int) y->port;
}

static bool match(void *ctx, const struct row_claim *row)
{
    struct walk *w = ctx;
    size_t n = 0;

    for (; w->at < w->n && w->slot[w->at].claim_id <= row->claim.id; w->at++) {
        struct ledger_slot *slot = &w->slot[w->at];

        if (slot->claim_id < row->claim.id)
            continue;
        n += slot->port == row->claim.port && slot->is_exclusive == row->claim.is_exclusive;
        slot->claim_id = 0;
    }
    if (row->claim.is_damaged)
        w->is_stopped = !w->fn(w->ctx, LEDGER_DAMAGED, row);
    if (n < row->claim.n_bindings && !w->is_stopped)
        w->is_stopped = !w->fn(w->ctx, LEDGER_UNGUARDED, row);
    return !w->is_stopped;
}

dibs_status rows_flaws(struct rows *rows, row_flaw_fn fn, void *ctx, dibs_err *err)
{
    AUTO(walk_auto) struct walk w = { .fn = fn, .ctx = ctx };
    struct ledger_filter all = { 0 };
    dibs_status s = rows->ops->slots(rows, DIBS_TCP, 0, keep_slot, &w, err);

    if (s == DIBS_OK && w.is_full)
        s = err_set(err, DIBS_FAILURE, "looking for damaged records: out of memory");
    if (s == DIBS_OK && w.n > 1)
        qsort(w.slot, w.n, sizeof w.slot[0], by_claim);
    if (s == DIBS_OK)
        s = rows->ops->claims(rows, &all, match, &w, err);
    for (size_t i = 0, next = 0; i < w.n && s == DIBS_OK && !w.is_stopped; i = next) {
        struct row_claim lost;

        codec_make_lost(&lost, w.slot[i].claim_id, w.slot[i].port);
        for (next = i; next < w.n && by_claim(&w.slot[next], &w.slot[i]) == 0; next++)
            codec_add_binding(&lost.claim, &w.slot[next]);
        if (lost.claim.id != 0)
            w.is_stopped = !fn(ctx, LEDGER_LOST, &lost);
    }
    return s;
}

struct passing {
    ledger_flaw_fn fn;
    void *ctx;
};

static bool pass_on(void *ctx, enum ledger_flaw flaw, const struct row_claim *row)
{
    const struct passing *p = ctx;

    return p->fn(p->ctx, flaw, &row->claim);
}

dibs_status ledger_flaws(struct ledger *ledger, ledger_flaw_fn fn, void *ctx, dibs_err *err)
{
    AUTO(tx_auto) struct ledger_tx tx = { 0 };
    struct passing p = { .fn = fn, .ctx = ctx };
    dibs_status s = tx_begin(&tx, ledger, false, false, NULL, err);

    return s == DIBS_OK ? rows_flaws(tx.rows, pass_on, &p, err) : s;
}
