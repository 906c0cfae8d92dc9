/* SPDX-License-Identifier: MIT */
/* The claim decision: names first, then candidates, all of a batch or nothing.
 *
 * Order of the steps inside the one transaction (DESIGN "A claim, step by step"): the name's own claim;
 * else for each candidate the conflicts by an indexed lookup, dead blockers aside; then the probe, while the
 * write lock makes us alone; the first candidate that passes is written. Nobody is judged alive or dead
 * here: that was done before, and holds only for the generation that was judged (INV-5). */
#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "ledger/rows.h"

#include "base/banned.h"

/* Claims that may stand on one port at once and still be taken over together. */
enum { CONFLICTS_MAX = 64 };

struct claiming {
    struct ledger_tx *tx;
    const struct ledger_batch *batch;
    struct ledger_refusal *refusal;
    dibs_err *err;
};

/* Dead claims that give way to the port being tried. */
struct conflicts {
    const struct ledger_want *want;
    const dibs_binding *binding;
    int64_t now_boot_ms;
    size_t n;
    uint64_t id[CONFLICTS_MAX];
    bool is_too_many;
    bool is_cooling;
    bool is_declared;
};

bool batch_says_dead(const struct ledger_batch *batch, const dibs_claim *claim)
{
    for (size_t i = 0; i < batch->n_dead; i++)
        if (batch->dead[i].id == claim->id)
            return batch->dead[i].generation == claim->generation &&
                   batch->dead[i].lease_until_ms == claim->lease_until_ms;
    return false;
}

static bool collect(void *ctx, const struct ledger_slot *slot)
{
    struct conflicts *c = ctx;
    const struct ledger_want *want = c->want;

    if (!dibs_address_conflict(&slot->address, &c->binding->address))
        return true;
    if (slot->claim_id == 0) {
        int64_t age = c->now_boot_ms - slot->released_ms;

        if (age >= 0 && age < want->cooldown_ms)
            c->is_cooling = true;
        return true;
    }
    if (!slot->is_exclusive) {
        c->is_declared = true;
        return true;
    }
    for (size_t i = 0; i < c->n; i++)
        if (c->id[i] == slot->claim_id)
            return true;
    if (c->n == CONFLICTS_MAX)
        c->is_too_many = true;
    else
        c->id[c->n++] = slot->claim_id;
    return !c->is_too_many;
}

static void refuse_port(struct claiming *k, uint16_t port, const dibs_claim *blocker)
{
    struct ledger_refusal *r = k->refusal;

    if (r->port != port || r->is_busy) {
        r->port = port;
        r->is_busy = false;
        r->n_blockers = 0;
    }
    if (r->n_blockers < LEDGER_BLOCKERS_MAX)
        r->blockers[r->n_blockers++] = *blocker;
}

/* Of the conflicts, keep the dead in c->id (they give way) and report the others. *is_free when none is left.
 */
static dibs_status sort_out(struct claiming *k, struct conflicts *c, uint16_t port, bool *is_free)
{
    size_t dead = 0;

    *is_free = !c->is_too_many;
    for (size_t i = 0; i < c->n; i++) {
        struct row_claim row;
        dibs_status s = k->tx->rows->ops->claim_get(k->tx->rows, c->id[i], &row, k->err);

        if (s == DIBS_NOT_FOUND) {
            /* A slot without its record: damage. It blocks nobody knows whom; leak rather than give twice. */
            memset(&row, 0, sizeof row);
            row.claim.id = c->id[i];
            row.claim.port = port;
            row.is_damaged = true;
        } else if (s != DIBS_OK) {
            return s;
        }
        if (!row.is_damaged && !row.claim.is_kept && batch_says_dead(k->batch, &row.claim)) {
            c->id[dead++] = c->id[i];
            continue;
        }
        *is_free = false;
        refuse_port(k, port, &row.claim);
    }
    c->n = dead;
    return DIBS_OK;
}

/* May `want` have `port`? Fills c->id with the dead claims to end first. */
static dibs_status check_port(struct claiming *k, const struct ledger_want *want, uint16_t port,
                              struct conflicts *c, bool *is_free)
{
    *is_free = false;
    *c = (struct conflicts){ .want = want, .now_boot_ms = k->tx->actor->now.boot_ms };
    for (size_t i = 0; i < want->claim.n_bindings; i++) {
        c->binding = &want->claim.bindings[i];
        dibs_status s = k->tx->rows->ops->slots(k->tx->rows, c->binding->proto, port, collect, c, k->err);

        if (s != DIBS_OK)
            return s;
    }
    if (!want->claim.is_exclusive) { /* declared: never an error, conflicts or not (D8) */
        c->n = 0;
        *is_free = true;
        return DIBS_OK;
    }
    if (want->is_choice && c->is_declared)
        return DIBS_OK;
    if (want->is_choice && c->is_cooling && !want->accepts_cooling && port != want->remembered) {
        k->refusal->n_cooling++;
        return DIBS_OK;
    }
    return sort_out(k, c, port, is_free);
}

static dibs_status probe_port(struct claiming *k, const struct ledger_want *want, uint16_t port,
                              bool *is_free)
{
    struct ledger_refusal *r = k->refusal;

    *is_free = true;
    if (want->skips_probe || !k->batch->probe)
        return DIBS_OK;
    switch (k->batch->probe(k->batch->probe_ctx, &want->claim, port, k->err)) {
    case LEDGER_PROBE_FREE: return DIBS_OK;
    case LEDGER_PROBE_ABORT: return k->err->code != DIBS_OK ? k->err->code : DIBS_FAILURE;
    case LEDGER_PROBE_BUSY: break;
    }
    *is_free = false;
    r->port = port;
    r->is_busy = true;
    r->n_blockers = 0;
    if (r->n_busy < DIBS_CANDIDATES_MAX)
        r->busy[r->n_busy++] = port;
    return DIBS_OK;
}

static dibs_status end_dead(struct claiming *k, const struct conflicts *c)
{
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < c->n && s == DIBS_OK; i++) {
        struct row_claim row;

        s = k->tx->rows->ops->claim_get(k->tx->rows, c->id[i], &row, k->err);
        if (s == DIBS_OK)
            s = tx_end(k->tx, &row, DIBS_EV_REAPED, k->err);
    }
    return s;
}

static void answer(const struct row_claim *row, bool was_there, dibs_claim *out)
{
    *out = row->claim;
    out->was_there = was_there;
    codec_token_format(row, out->token);
}

static dibs_status try_port(struct claiming *k, const struct ledger_want *want, uint16_t port,
                            dibs_claim *out, bool *is_done)
{
    struct conflicts c;
    struct row_claim row;
    bool is_free = false;
    dibs_status s = check_port(k, want, port, &c, &is_free);

    *is_done = false;
    if (s == DIBS_OK && is_free)
        s = probe_port(k, want, port, &is_free);
    if (s != DIBS_OK || !is_free)
        return s;
    s = end_dead(k, &c);
    if (s == DIBS_OK)
        s = tx_insert(k->tx, &want->claim, port, DIBS_EV_CLAIMED, &row, k->err);
    if (s != DIBS_OK)
        return s;
    answer(&row, false, out);
    *is_done = true;
    return DIBS_OK;
}

static bool same_process(const dibs_claim *a, const dibs_claim *b)
{
    return a->holder == DIBS_HELD_BY_PROCESS && b->holder == DIBS_HELD_BY_PROCESS &&
           a->process.pid == b->process.pid && a->process.pidns == b->process.pidns &&
           a->process.start_ticks == b->process.start_ticks &&
           strcmp(a->process.boot_id, b->process.boot_id) == 0;
}

/* The caller becomes the holder of a claim that is kept, leased to its own principal, or whose holder is
 * dead. */
static dibs_status take_over(struct claiming *k, const struct ledger_want *want, struct row_claim *row,
                             dibs_event_kind kind, dibs_claim *out)
{
    const dibs_claim *w = &want->claim;
    dibs_claim *c = &row->claim;

    c->holder = w->holder;
    c->process = w->process;
    c->lease_ttl_ms = w->lease_ttl_ms;
    c->is_kept = c->is_kept || w->is_kept;
    c->uid = w->uid;
    c->netns = w->netns;
    memcpy(c->command, w->command, sizeof c->command);
    dibs_status s = tx_rehold(k->tx, row, kind, k->err);
    if (s == DIBS_OK)
        answer(row, true, out);
    return s;
}

static dibs_status refuse_name(struct claiming *k, const struct row_claim *row, bool differs)
{
    struct ledger_refusal *r = k->refusal;

    r->by_name = true;
    r->differs = differs;
    r->port = row->claim.port;
    r->is_busy = false;
    r->n_blockers = 1;
    r->blockers[0] = row->claim;
    return err_set(k->err, DIBS_TAKEN, "name '%s' is taken", row->claim.name);
}

/* The name's claim is held by a lease of the same principal, which is the caller's own: extend it, or turn it
 * into what is asked for now. */
static dibs_status own_lease(struct claiming *k, const struct ledger_want *want, struct row_claim *row,
                             dibs_claim *out)
{
    if (want->claim.holder != DIBS_HELD_BY_LEASE || (want->claim.is_kept && !row->claim.is_kept))
        return take_over(k, want, row, DIBS_EV_TRANSFERRED, out);
    int64_t until = k->tx->actor->now.boot_ms + want->claim.lease_ttl_ms;

    if (until > row->claim.lease_until_ms ||
        strcmp(row->claim.process.boot_id, want->claim.process.boot_id) != 0) {
        row->claim.process = want->claim.process;
        row->claim.lease_ttl_ms = want->claim.lease_ttl_ms;
        row->claim.lease_until_ms = until;
        row->claim.changed_ms = k->tx->actor->now.wall_ms;
        dibs_status s = k->tx->rows->ops->claim_put(k->tx->rows, row, k->err);
        if (s == DIBS_OK)
            s = tx_event(k->tx, DIBS_EV_RENEWED, &row->claim, k->err);
        if (s != DIBS_OK)
            return s;
    }
    answer(row, true, out);
    return DIBS_OK;
}

/* The claim as it is; adopted, it is kept as well, whoever holds it. */
static dibs_status look_up(struct claiming *k, const struct ledger_want *want, struct row_claim *row,
                           dibs_claim *out)
{
    dibs_status s = DIBS_OK;

    if (want->is_adopted && !row->claim.is_kept) {
        row->claim.is_kept = true;
        row->claim.changed_ms = k->tx->actor->now.wall_ms;
        s = k->tx->rows->ops->claim_put(k->tx->rows, row, k->err);
        if (s == DIBS_OK)
            s = tx_event(k->tx, DIBS_EV_TRANSFERRED, &row->claim, k->err);
    }
    if (s == DIBS_OK)
        answer(row, true, out);
    return s;
}

/* DESIGN "A name asked for again". *is_done false: the name is free now, go on to the candidates. */
static dibs_status settle_name(struct claiming *k, const struct ledger_want *want, struct row_claim *row,
                               dibs_claim *out, bool *is_done)
{
    const dibs_claim *c = &row->claim;
    bool is_over = c->holder != DIBS_HELD_BY_NOBODY && batch_says_dead(k->batch, c);
    bool differs = (want->required && want->required != c->port) || !codec_same_bindings(c, &want->claim) ||
                   c->is_exclusive != want->claim.is_exclusive;

    *is_done = true;
    /* Two directories of one name are two projects: the caller comes back with another name. Who names a
     * group himself has no project, and means the name as it is. */
    if (row->is_damaged || (want->claim.project[0] && strcmp(c->project, want->claim.project) != 0))
        return refuse_name(k, row, false);
    if (is_over && !c->is_kept) {
        bool is_free = false;

        /* Same port again, in place, unless it was asked for differently or a stranger sits on it. */
        dibs_status s = differs ? DIBS_OK : probe_port(k, want, c->port, &is_free);
        if (s != DIBS_OK)
            return s;
        if (is_free)
            return take_over(k, want, row, DIBS_EV_TRANSFERRED, out);
        *is_done = false;
        return tx_end(k->tx, row, DIBS_EV_REAPED, k->err);
    }
    if (want->is_lookup) {
        if ((want->required && want->required != c->port) ||
            (want->is_same && !codec_same_bindings(c, &want->claim)))
            return refuse_name(k, row, true);
        return look_up(k, want, row, out);
    }
    if (differs)
        return refuse_name(k, row, true);
    if (c->holder == DIBS_HELD_BY_PROCESS && !is_over) {
        if (!same_process(c, &want->claim))
            return refuse_name(k, row, false);
        answer(row, true, out);
        return DIBS_OK;
    }
    if (c->holder == DIBS_HELD_BY_LEASE && !is_over)
        return own_lease(k, want, row, out);
    if (want->claim.holder == DIBS_HELD_BY_NOBODY && c->holder == DIBS_HELD_BY_NOBODY) {
        answer(row, true, out);
        return DIBS_OK;
    }
    return take_over(k, want, row, DIBS_EV_TRANSFERRED, out);
}

static dibs_status by_name(struct claiming *k, const struct ledger_want *want, dibs_claim *out, bool *is_done)
{
    struct rows *rows = k->tx->rows;
    struct row_name name = { 0 };
    struct row_claim row;
    dibs_status s = rows->ops->name_get(rows, want->claim.principal, want->claim.name, &name, k->err);

    *is_done = false;
    if (s == DIBS_NOT_FOUND || (s == DIBS_OK && name.claim_id == 0))
        return DIBS_OK;
    if (s == DIBS_OK)
        s = rows->ops->claim_get(rows, name.claim_id, &row, k->err);
    if (s == DIBS_OK && !row.is_damaged &&
        !codec_is_named(&row.claim, want->claim.principal, want->claim.name))
        s = DIBS_NOT_FOUND;
    if (s == DIBS_NOT_FOUND)
        return DIBS_OK; /* the record is lost, or another's; the name is free */
    return s == DIBS_OK ? settle_name(k, want, &row, out, is_done) : s;
}

static dibs_status claim_one(struct claiming *k, size_t i, dibs_claim *out)
{
    const struct ledger_want *want = &k->batch->wants[i];
    bool is_done = false;
    dibs_status s = want->claim.name[0] ? by_name(k, want, out, &is_done) : DIBS_OK;

    k->refusal->want = i;
    for (size_t n = 0; n < want->n_candidates && s == DIBS_OK && !is_done; n++)
        s = try_port(k, want, want->candidates[n], out, &is_done);
    if (s != DIBS_OK || is_done)
        return s;
    if (want->n_candidates == 1 && !want->is_choice)
        return err_set(k->err, DIBS_TAKEN, "port %u is taken", want->candidates[0]);
    return err_set(k->err, DIBS_EXHAUSTED, "none of %zu candidates is free", want->n_candidates);
}

/* Every port of the run from `base`, or none: what an attempt wrote is undone by checking all before writing.
 */
static dibs_status claim_run_at(struct claiming *k, uint16_t base, dibs_claim *out, bool *is_done)
{
    const struct ledger_batch *batch = k->batch;
    bool is_free = batch->n - 1 <= (size_t) (DIBS_PORT_MAX - base); /* a run does not go over the end */

    *is_done = false;
    for (size_t i = 0; i < batch->n && is_free; i++) {
        struct conflicts c;
        uint16_t port = (uint16_t) (base + i);
        dibs_status s = check_port(k, &batch->wants[i], port, &c, &is_free);

        if (s == DIBS_OK && is_free)
            s = probe_port(k, &batch->wants[i], port, &is_free);
        if (s != DIBS_OK)
            return s;
    }
    for (size_t i = 0; i < batch->n && is_free; i++) {
        bool one_done = false;
        dibs_status s = try_port(k, &batch->wants[i], (uint16_t) (base + i), &out[i], &one_done);

        if (s != DIBS_OK)
            return s;
        if (!one_done) /* a stranger came between the two probes: fail rather than leave half a run */
            return err_set(k->err, DIBS_EXHAUSTED, "a port of the run was taken meanwhile");
        *is_done = i + 1 == batch->n;
    }
    return DIBS_OK;
}

static dibs_status claim_run(struct claiming *k, dibs_claim *out)
{
    const struct ledger_want *first = &k->batch->wants[0];
    size_t n_found = 0;
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < k->batch->n && s == DIBS_OK; i++) {
        bool is_done = false;

        k->refusal->want = i;
        if (k->batch->wants[i].claim.name[0])
            s = by_name(k, &k->batch->wants[i], &out[i], &is_done);
        n_found += is_done;
    }
    if (s != DIBS_OK)
        return s;
    if (n_found == k->batch->n) { /* the same run as last time? */
        for (size_t i = 1; i < k->batch->n; i++)
            if (out[i].port != out[0].port + i) {
                k->refusal->by_name = k->refusal->differs = true;
                k->refusal->n_blockers = 1;
                k->refusal->blockers[0] = out[i];
                return err_set(k->err, DIBS_TAKEN, "the names hold ports that are not contiguous");
            }
        return DIBS_OK;
    }
    if (n_found > 0) {
        k->refusal->by_name = k->refusal->differs = true;
        return err_set(k->err, DIBS_TAKEN, "%zu of the %zu names are claimed already", n_found, k->batch->n);
    }
    for (size_t n = 0; n < first->n_candidates; n++) {
        bool is_done = false;

        s = claim_run_at(k, first->candidates[n], out, &is_done);
        if (s != DIBS_OK || is_done)
            return s;
    }
    return err_set(k->err, DIBS_EXHAUSTED, "none of %zu runs is free", first->n_candidates);
}

static bool keeps_any(const struct ledger_batch *batch)
{
    for (size_t i = 0; i < batch->n; i++)
        if (batch->wants[i].claim.is_kept)
            return true;
    return false;
}

dibs_status ledger_claim(struct ledger *ledger, const struct ledger_batch *batch,
                         const struct ledger_actor *actor, dibs_claim *out, struct ledger_refusal *refusal,
                         dibs_err *err)
{
    AUTO(tx_auto) struct ledger_tx tx = { 0 };
    dibs_err local = { 0 };
    struct claiming k = { .tx = &tx, .batch = batch, .refusal = refusal, .err = err ? err : &local };

    assert(batch->n + batch->n_drops > 0 && batch->n <= DIBS_BATCH_MAX);
    memset(refusal, 0, offsetof(struct ledger_refusal, blockers));
    refusal->n_busy = refusal->n_cooling = 0;
    /* INV-2: what is kept survives power loss. */
    dibs_status s = tx_begin(&tx, ledger, true, keeps_any(batch) && !batch->is_dry_run, actor, k.err);
    if (s == DIBS_OK)
        s = tx_drop(&tx, batch, k.err);
    if (s == DIBS_OK && batch->is_contiguous)
        s = claim_run(&k, out);
    for (size_t i = 0; i < batch->n && s == DIBS_OK && !batch->is_contiguous; i++)
        s = claim_one(&k, i, &out[i]);
    if (s != DIBS_OK || batch->is_dry_run)
        return s; /* tx_auto rolls back: INV-4 */
    return tx_commit(&tx, k.err);
}
