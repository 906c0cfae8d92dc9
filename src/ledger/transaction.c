/* SPDX-License-Identifier: MIT */
/* Transactions: of one decision, or shared by several calls, each of which still succeeds or fails alone. */
#include <assert.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/err.h"
#include "ledger/step.h"

#include "base/banned.h"

/* ---- shared transactions ---- */

struct ledger_tx *ledger_begin(struct ledger *ledger, bool is_synced)
{
    assert(!ledger->tx.ledger);
    ledger->tx = (struct ledger_tx){ .ledger = ledger,
                                     .is_write = true,
                                     .is_full = is_synced || ledger->options.is_sync_full };
    return &ledger->tx;
}

bool ledger_lacked_sync(const struct ledger *ledger)
{
    return ledger->tx.lacks_sync;
}

struct ledger_tx *ledger_begin_read(struct ledger *ledger, const struct call *call, dibs_err *err)
{
    assert(!ledger->tx.ledger);
    if (ledger->store->ops->begin(ledger->store, false, false, call->deadline_ms, err) != DIBS_OK)
        return NULL;
    ledger->tx = (struct ledger_tx){ .ledger = ledger, .is_open = true };
    return &ledger->tx;
}

void ledger_tx_open(struct ledger_tx *tx, const struct call *call)
{
    struct store *store = tx->ledger->store;

    /* After one call has waited in vain, the next one fails at once (INV-9). */
    if (tx->is_open || tx->span.why.code != DIBS_OK)
        return;
    dibs_status s = store->ops->begin(store, true, tx->is_full, call->deadline_ms, &tx->span.why);
    if (s == DIBS_OK) {
        s = store->ops->tail(store, &tx->span.before, &tx->cursor, &tx->span.why);
        if (s != DIBS_OK)
            store->ops->rollback(store);
    }
    tx->span.why.code = s;
    tx->is_open = s == DIBS_OK;
    tx->span.after = tx->span.before;
}

static dibs_status refuse_spoilt(dibs_err *err)
{
    return err_trouble(err, DIBS_TROUBLE_NONE, "a request that shares its commit with this one failed");
}

dibs_status ledger_commit(struct ledger_tx *tx, struct ledger_span *out, dibs_err *err)
{
    struct ledger *ledger = tx->ledger;
    bool is_open = tx->is_open;
    dibs_status s = DIBS_OK;

    tx->ledger = NULL;
    if (tx->is_spoilt)
        return refuse_spoilt(err);
    if (is_open && ledger_lost_race(ledger)) /* a call of it has already met the conflict */
        s = err_trouble(err, DIBS_TROUBLE_LOCKED, "too many conflicts with other hosts; try again");
    else if (is_open && tx->lacks_sync)
        s = err_trouble(err, DIBS_TROUBLE_NONE, "a request of the group must survive power loss");
    else if (is_open)
        s = ledger->store->ops->commit(ledger->store, err);
    if (s != DIBS_OK)
        ledger->store->ops->rollback(ledger->store);
    if (s == DIBS_OK && out)
        *out = tx->span;
    return s;
}

void ledger_rollback(struct ledger_tx *tx)
{
    if (!tx)
        return;
    if (tx->is_open)
        tx->ledger->store->ops->rollback(tx->ledger->store);
    tx->ledger = NULL;
}

dibs_status ledger_commit_all(struct ledger_tx *const *txs, size_t n, dibs_err *err)
{
    AUTO(free_auto) struct store **store = calloc(n, sizeof(struct store *));
    dibs_status s = store ? DIBS_OK : err_set(err, DIBS_FAILURE, "changing the ledger: out of memory");
    size_t n_open = 0;

    for (size_t i = 0; i < n && store; i++) {
        if (txs[i]->is_spoilt)
            s = err_trouble(err, DIBS_TROUBLE_NONE, "one of several hosts' claims could not be decided");
        if (txs[i]->is_open)
            store[n_open++] = txs[i]->ledger->store;
        txs[i]->ledger = NULL;
    }
    if (s == DIBS_OK && n_open > 0)
        s = store[0]->ops->cluster->commit_all(store, n_open, err);
    for (size_t i = 0; i < n_open && s != DIBS_OK; i++)
        store[i]->ops->rollback(store[i]);
    return s;
}

/* ---- the transaction of one decision ---- */

/* Mark the transaction: it must roll back. */
static void spoil(struct ledger_tx *tx)
{
    tx->ledger->store->ops->rollback(tx->ledger->store);
    tx->is_open = false;
    tx->is_spoilt = true;
}

static dibs_status join(struct step *step, struct ledger_tx *tx, const struct call *call, bool is_full,
                        dibs_err *err)
{
    struct store *store = tx->ledger->store;

    assert(tx->is_write);
    if (is_full && tx->is_open && !tx->is_full) { /* too late for SQLite: the caller repeats with a sync */
        tx->lacks_sync = true;
        spoil(tx);
    }
    if (tx->is_spoilt)
        return refuse_spoilt(err);
    tx->is_full = tx->is_full || is_full;
    ledger_tx_open(tx, call);
    if (!tx->is_open) {
        if (err)
            *err = tx->span.why;
        return tx->span.why.code;
    }
    *step = (struct step){ .store = store,
                           .call = call,
                           .seq = tx->span.after,
                           .cursor = tx->cursor,
                           .ledger = tx->ledger,
                           .tx = tx,
                           .changes = store->ops->changes(store) };
    return DIBS_OK;
}

dibs_status step_read(struct step *step, struct ledger *ledger, const struct call *call, dibs_err *err)
{
    bool is_inner = call->tx && call->tx->is_open;

    assert(!call->tx || call->tx->ledger == ledger);
    dibs_status s =
        is_inner ? DIBS_OK : ledger->store->ops->begin(ledger->store, false, false, call->deadline_ms, err);

    if (s == DIBS_OK)
        *step = (struct step){ .store = ledger->store, .call = call, .is_inner = is_inner };
    return s;
}

dibs_status step_write(struct step *step, struct ledger *ledger, const struct call *call, bool is_full,
                       dibs_err *err)
{
    struct store *store = ledger->store;

    is_full = is_full || ledger->options.is_sync_full;
    assert(!call->tx || call->tx->ledger == ledger);
    if (call->tx)
        return join(step, call->tx, call, is_full, err);
    dibs_status s = store->ops->begin(store, true, is_full, call->deadline_ms, err);
    if (s != DIBS_OK)
        return s;
    *step = (struct step){ .store = store, .call = call, .ledger = ledger };
    return store->ops->tail(store, &step->seq, &step->cursor, err);
}

/* Check before the commit, because a name may have had its claim already, and other claims may have ended.
 * A user above the limit may still make decisions that add no claim. */
dibs_status step_check_allowance(const struct step *step, dibs_err *err)
{
    const struct ledger_allowance *a = step->call->allowance;

    if (!a || step->n_more <= 0 || a->n + step->n_more <= a->max)
        return DIBS_OK;
    return err_set(err, DIBS_EXHAUSTED, "%s has %u claims here, and may have %u: release some first",
                   step->call->principal, a->n, a->max);
}

static void use_allowance(const struct step *step)
{
    struct ledger_allowance *a = step->call->allowance;

    if (a)
        a->n = a->n + step->n_more > 0 ? (uint32_t) (a->n + step->n_more) : 0;
}

static dibs_status commit_step(struct step *step, dibs_err *err)
{
    struct store *store = step->store;
    struct ledger_tx *tx = step->tx;
    dibs_status s = step_check_allowance(step, err);

    if (s != DIBS_OK)
        return s;
    if (!tx)
        s = store->ops->commit(store, err);
    else if (step->is_saved)
        s = store->ops->forget(store, err);
    if (s != DIBS_OK)
        return s;
    if (tx) {
        tx->span.after = step->seq;
        tx->cursor = step->cursor;
    }
    use_allowance(step);
    step->store = NULL;
    return DIBS_OK;
}

dibs_status step_save(struct step *step, dibs_err *err)
{
    dibs_status s = step->tx ? step->store->ops->save(step->store, err) : DIBS_OK;

    step->is_saved = step->tx && s == DIBS_OK;
    return s;
}

/* Roll back. A shared transaction is lost as a whole when this part cannot be undone alone. */
static void leave(struct step *step)
{
    struct store *store = step->store;

    if (step->is_saved && store->ops->undo(store, NULL) == DIBS_OK)
        return;
    if (!step->is_saved && store->ops->changes(store) == step->changes)
        return;
    spoil(step->tx);
}

void step_auto(struct step *step)
{
    if (step->store && step->tx)
        leave(step);
    else if (step->store && !step->is_inner)
        step->store->ops->rollback(step->store);
    step->store = NULL;
}

/* ---- retries ---- */

bool ledger_try_again(const struct ledger *ledger, const struct call *call, size_t n_calls, unsigned *n_tries)
{
    bool has_time = call->deadline_ms == 0 || clock_monotonic_ms() < call->deadline_ms;

    return ledger_lost_race(ledger) && has_time && ++*n_tries < LEDGER_TRIES_MAX / n_calls;
}

static bool try_again(const struct ledger *ledger, const struct call *call, dibs_status s, unsigned *n_tries)
{
    return s == DIBS_UNAVAILABLE && !call->tx && ledger_try_again(ledger, call, 1, n_tries);
}

bool step_next(struct step *step, struct ledger *ledger, const struct call *call, bool is_full,
               dibs_status *s, dibs_err *err)
{
    bool is_first = !step->is_begun;
    unsigned n_tries = step->n_tries;

    if (!is_first && *s == DIBS_OK)
        *s = commit_step(step, err);
    step_auto(step);
    while (is_first || try_again(ledger, call, *s, &n_tries)) {
        is_first = false;
        *s = step_write(step, ledger, call, is_full, err);
        step->is_begun = true;
        step->n_tries = n_tries;
        if (*s == DIBS_OK)
            return true;
        step_auto(step);
    }
    return false;
}
