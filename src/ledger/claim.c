/* SPDX-License-Identifier: MIT */
/* The claim decision, all of a batch or nothing, under the write lock: the name's own claim, or the first
 * candidate without living blockers that passes the probe. Holders were judged before (INV-5). */
#include <assert.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "ledger/step.h"

#include "base/banned.h"

/* The conflicts of one want on one port. */
struct conflicts {
    const struct ledger_want *want;
    const dibs_binding *binding;
    int64_t now_boot_ms;
    struct id_list ids; /* exclusive claims */
    bool is_cooling;
    bool is_declared;
};

static void conflicts_auto(struct conflicts *c)
{
    id_list_auto(&c->ids);
}

static bool collect(void *ctx, const struct ledger_slot *slot)
{
    struct conflicts *c = ctx;
    const struct ledger_want *want = c->want;

    if (!dibs_address_conflict(&slot->address, &c->binding->address))
        return true;
    if (slot->claim_id == 0) {
        int64_t age = c->now_boot_ms - slot->released_ms;

        /* The release time may be in the future if another host's clock is ahead. */
        if (age > -want->cooldown_ms && age < want->cooldown_ms)
            c->is_cooling = true;
        return true;
    }
    if (!slot->is_exclusive) {
        c->is_declared = true;
        return true;
    }
    return id_list_add(&c->ids, slot->claim_id);
}

static void refuse_port(struct claiming *k, uint16_t port, const dibs_claim *blocker)
{
    struct ledger_refusal *r = k->refusal;

    if (r->port != port || r->is_busy) {
        r->port = port;
        r->is_busy = false;
        r->has_blocker = false;
    }
    if (!r->has_blocker || blocker->is_damaged)
        r->blocker = *blocker;
    r->has_blocker = true;
}

/* Add dead blockers to `dead` (the caller ends them), and report the others. *is_free when none is left. */
static dibs_status sort_out(struct claiming *k, struct conflicts *c, uint16_t port, struct id_list *dead,
                            bool *is_free)
{
    id_list_sort(&c->ids);
    *is_free = true;
    for (size_t i = 0; i < c->ids.n; i++) {
        uint64_t id = c->ids.id[i];
        struct claim_record row;
        dibs_status s = store_get_claim(k->step->store, id, &row, k->err);

        if (s == DIBS_NOT_FOUND) {
            /* A slot without its record is damage: keep the port blocked rather than give it twice. */
            record_make_lost(&row, id, port);
        } else if (s != DIBS_OK) {
            return s;
        }
        if (!row.claim.is_damaged && !row.claim.is_kept && claiming_is_dead(k->batch, &row.claim)) {
            (void) id_list_add(dead, id);
            continue;
        }
        *is_free = false;
        refuse_port(k, port, &row.claim);
    }
    return dead->is_failed ? err_set(k->err, DIBS_FAILURE, "claiming: out of memory") : DIBS_OK;
}

/* Check whether `want` may have `port`. Adds to `dead` the claims to end first. */
static dibs_status check_port(struct claiming *k, const struct ledger_want *want, uint16_t port,
                              struct id_list *dead, bool *is_free)
{
    AUTO(conflicts_auto)
    struct conflicts c = { .want = want, .now_boot_ms = k->step->call->now.boot_ms };

    *is_free = false;
    for (size_t i = 0; i < want->claim.n_bindings; i++) {
        c.binding = &want->claim.bindings[i];
        dibs_status s =
            k->step->store->ops->slots(k->step->store, c.binding->proto, port, collect, &c, k->err);

        if (s != DIBS_OK)
            return s;
    }
    if (c.ids.is_failed)
        return err_set(k->err, DIBS_FAILURE, "claiming: out of memory");
    if (!want->claim.is_exclusive) { /* declared: never an error, even with conflicts (D8) */
        *is_free = true;
        return DIBS_OK;
    }
    if (want->is_choice && c.is_declared)
        return DIBS_OK;
    if (want->is_choice && c.is_cooling && !want->accepts_cooling && port != want->remembered) {
        k->refusal->n_cooling++;
        return DIBS_OK;
    }
    return sort_out(k, &c, port, dead, is_free);
}

static dibs_status end_dead(struct claiming *k, const struct id_list *dead)
{
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < dead->n && s == DIBS_OK; i++) {
        struct claim_record row;

        s = store_get_claim(k->step->store, dead->id[i], &row, k->err);
        if (s == DIBS_OK)
            s = step_end(k->step, &row, DIBS_EV_REAPED, k->err);
    }
    return s;
}

/* `n` wants, from wants[first] on, with adjacent ports; n 1: a single want. `out` belongs to the first. */
struct run {
    size_t first, n;
    const struct ledger_want *wants;
    dibs_claim *out;
};

/* Claim every port of the run from `base` that its names do not have, or none: check all before writing. */
static dibs_status claim_run_at(struct claiming *k, const struct run *run, uint16_t base, bool *is_done)
{
    AUTO(id_list_auto) struct id_list dead = { 0 };
    bool is_free = run->n - 1 <= (size_t) (DIBS_PORT_MAX - base); /* no port is above 65535 */
    dibs_status s = DIBS_OK;

    *is_done = false;
    for (size_t i = 0; i < run->n && is_free && s == DIBS_OK; i++) {
        uint16_t port = (uint16_t) (base + i);

        if (run->out[i].id != 0)
            continue;
        k->refusal->want = run->first + i;
        s = check_port(k, &run->wants[i], port, &dead, &is_free);
        if (s == DIBS_OK && is_free)
            s = claiming_probe(k, &run->wants[i], port, &is_free);
    }
    if (s != DIBS_OK || !is_free)
        return s;
    s = end_dead(k, &dead);
    if (s != DIBS_OK && run->n == 1 && k->refusal->n_busy < DIBS_CANDIDATES_MAX) {
        k->refusal->busy[k->refusal->n_busy++] = base;
        k->refusal->is_stuck = true;
    }
    for (size_t i = 0; i < run->n && s == DIBS_OK; i++) {
        struct claim_record row;

        if (run->out[i].id != 0)
            continue;
        s = step_insert(k->step, &run->wants[i].claim, (uint16_t) (base + i), DIBS_EV_CLAIMED, &row, k->err);
        if (s == DIBS_OK)
            claiming_answer(&row, false, &run->out[i]);
    }
    *is_done = s == DIBS_OK;
    return s;
}

static dibs_status refuse_run(struct claiming *k, const struct run *run, size_t i)
{
    struct ledger_refusal *r = k->refusal;
    const dibs_claim *held = &run->out[i];

    r->want = run->first + i;
    r->by_name = r->breaks_run = true;
    r->has_blocker = true;
    r->blocker = *held;
    return err_set(k->err, DIBS_TAKEN, "name '%s' is taken", held->name);
}

/* Complete a run of which some names have claims (the first is `held`): the others beside them, or none. */
static dibs_status complete_run(struct claiming *k, const struct run *run, size_t held)
{
    const dibs_claim *out = run->out;
    size_t base = out[held].port - held;
    bool is_whole = true;
    bool is_done = false;

    for (size_t i = 0; i < run->n; i++) {
        if (out[i].id != 0 && out[i].port != base + i)
            return refuse_run(k, run, i);
        is_whole = is_whole && out[i].id != 0;
    }
    if (is_whole)
        return DIBS_OK;
    if (out[held].port <= held || base != run->wants[0].run_base)
        return refuse_run(k, run, held);
    dibs_status s = claim_run_at(k, run, (uint16_t) base, &is_done);
    if (s != DIBS_OK || is_done)
        return s;
    if (!k->refusal->has_blocker && !k->refusal->is_busy) /* the blocker is a declared port */
        return refuse_run(k, run, held);
    return err_set(k->err, DIBS_TAKEN, "port %u is taken", k->refusal->port);
}

static dibs_status claim_run(struct claiming *k, const struct run *run)
{
    size_t held = run->n;

    for (size_t i = 0; i < run->n; i++) {
        bool is_done = false;
        dibs_status s = DIBS_OK;

        run->out[i].id = 0;
        k->refusal->want = run->first + i;
        if (run->wants[i].claim.name[0])
            s = claiming_by_name(k, &run->wants[i], &run->out[i], &is_done);
        if (s != DIBS_OK)
            return s;
        if (is_done && held == run->n)
            held = i;
    }
    if (held < run->n)
        return complete_run(k, run, held);
    for (size_t n = 0; n < run->wants[0].n_candidates; n++) {
        bool is_done = false;
        dibs_status s = claim_run_at(k, run, run->wants[0].candidates[n], &is_done);

        if (s != DIBS_OK || is_done)
            return s;
    }
    const struct ledger_want *want = run->wants;
    k->refusal->want = run->first;
    if (run->n == 1 && want->n_candidates == 1 && !want->is_choice)
        return err_set(k->err, DIBS_TAKEN, "port %u is taken", want->candidates[0]);
    return err_set(k->err, DIBS_EXHAUSTED, "none of %zu %s is free", want->n_candidates,
                   run->n == 1 ? "candidates" : "runs");
}

/* ---- batches with a key ---- A batch with a key is decided once: a caller that repeats it because the
 * answer was lost gets the same claims (INV-4). */

static struct answer_record record_of(const struct claiming *k, uint32_t part)
{
    struct answer_record row = { .part = part };

    (void) text_copy(row.principal, sizeof row.principal, k->step->call->principal);
    (void) text_copy(row.key, sizeof row.key, k->batch->key->text);
    return row;
}

static dibs_status answer_again(struct claiming *k, const struct answer_record *known, dibs_claim *out)
{
    struct claim_record row;
    dibs_status s = store_get_claim(k->step->store, known->claim_id, &row, k->err);

    if (s == DIBS_NOT_FOUND || (s == DIBS_OK && row.claim.generation != known->generation))
        return err_set(k->err, DIBS_NOT_FOUND, "a claim made with key '%s' has ended since",
                       k->batch->key->text);
    if (s == DIBS_OK)
        s = ledger_certain(&row.claim, k->err);
    if (s == DIBS_OK)
        claiming_answer(&row, false, out);
    return s;
}

/* Find the stored answer of a batch with this key. NOT_FOUND: a claim of it has ended. */
static dibs_status answer_known(struct claiming *k, dibs_claim *out, bool *is_known)
{
    struct store *store = k->step->store;
    dibs_status s = DIBS_OK;

    if (strlen(k->batch->key->text) > DIBS_KEY_MAX)
        return err_set(k->err, DIBS_INVALID, "a key has at most %d bytes", DIBS_KEY_MAX);
    for (uint32_t i = 0; i < k->batch->n && s == DIBS_OK; i++) {
        struct answer_record known = record_of(k, i);

        s = store->ops->get(store, ANSWERS, &known, k->err);
        if (i == 0 && s == DIBS_NOT_FOUND)
            return DIBS_OK;
        *is_known = true;
        if (s == DIBS_OK && (known.digest != k->batch->key->digest || known.n != k->batch->n))
            return err_set(k->err, DIBS_INVALID, "key '%s' was used before, for another request",
                           k->batch->key->text);
        if (s == DIBS_OK)
            s = answer_again(k, &known, &out[i]);
    }
    return s;
}

static dibs_status remember_answer(struct claiming *k, const dibs_claim *out)
{
    dibs_status s = DIBS_OK;

    for (uint32_t i = 0; i < k->batch->n && s == DIBS_OK; i++) {
        struct answer_record answer = record_of(k, i);

        answer.n = (uint32_t) k->batch->n;
        answer.seq = k->step->seq;
        answer.digest = k->batch->key->digest;
        answer.claim_id = out[i].id;
        answer.generation = out[i].generation;
        s = k->step->store->ops->put(k->step->store, ANSWERS, &answer, k->err);
    }
    return s;
}

/* ---- a batch ---- */

static bool keeps_any(const struct ledger_batch *batch)
{
    for (size_t i = 0; i < batch->n; i++)
        if (batch->wants[i].claim.is_kept)
            return true;
    return false;
}

static bool only_looks(const struct ledger_batch *batch)
{
    bool is_look = batch->n_drops == 0;

    for (size_t i = 0; i < batch->n && is_look; i++)
        is_look = batch->wants[i].is_lookup && batch->wants[i].claim.name[0];
    return is_look;
}

/* Return whether a refusal can leave changes behind. A single claim is refused before any write, unless it
 * first ends the claim of a dead holder, or exceeds the allowance. */
static bool may_stop_halfway(const struct ledger_batch *batch, const struct ledger_allowance *allowance)
{
    return batch->n != 1 || batch->n_drops > 0 || batch->is_dry_run ||
           (allowance && allowance->n >= allowance->max) || batch->n_dead > 0;
}

/* Decide the batch. *is_answered: `out` is the stored answer of an earlier batch with this key. */
static dibs_status claim_batch(struct claiming *k, dibs_claim *out, bool *is_answered)
{
    const struct ledger_batch *batch = k->batch;
    dibs_status s = DIBS_OK;

    memset(k->refusal, 0, sizeof *k->refusal);
    *is_answered = false;
    if (batch->key)
        s = answer_known(k, out, is_answered);
    if (s != DIBS_OK || *is_answered)
        return s;
    if (may_stop_halfway(batch, k->step->call->allowance))
        s = step_save(k->step, k->err);
    if (s == DIBS_OK)
        s = claiming_drop(k);
    for (size_t i = 0; i < batch->n && s == DIBS_OK;) {
        struct run run = { i, batch->wants[i].run > 1 ? batch->wants[i].run : 1, &batch->wants[i], &out[i] };

        assert(i + run.n <= batch->n);
        s = claim_run(k, &run);
        i += run.n;
    }
    return s == DIBS_OK && batch->key && !batch->is_dry_run ? remember_answer(k, out) : s;
}

dibs_status ledger_claim(struct ledger *ledger, const struct call *call, const struct ledger_batch *batch,
                         dibs_claim *out, struct ledger_refusal *refusal, dibs_err *err)
{
    dibs_err local = { 0 };
    struct claiming k = { .batch = batch, .refusal = refusal, .err = err ? err : &local };
    /* INV-2: kept claims survive power loss. */
    bool is_full = keeps_any(batch) && !batch->is_dry_run;
    bool is_decided = false;
    bool is_answered = false;
    dibs_status s = DIBS_OK;

    assert(batch->n + batch->n_drops > 0 && batch->n <= DIBS_BATCH_MAX);
    memset(refusal, 0, sizeof *refusal);
    for (AUTO(step_auto) struct step step = { 0 }; step_next(&step, ledger, call, is_full, &s, k.err);) {
        k.step = &step;
        s = claim_batch(&k, out, &is_answered);
        is_decided = s == DIBS_OK;
        if (is_decided && batch->is_dry_run && !is_answered) {
            s = step_check_allowance(&step, k.err);
            refusal->is_beyond = s != DIBS_OK;
        }
        if (is_decided && (is_answered || batch->is_dry_run))
            return s; /* step_auto rolls back: INV-4 */
    }
    refusal->is_beyond = is_decided && s == DIBS_EXHAUSTED;
    if (s != DIBS_UNAVAILABLE || k.err->trouble != DIBS_TROUBLE_UNWRITABLE || !only_looks(batch))
        return s;
    /* A name that already has its claim needs no write. */
    AUTO(step_auto) struct step step = { 0 };
    k.step = &step;
    s = step_read(&step, ledger, call, k.err);
    return s == DIBS_OK ? claim_batch(&k, out, &is_answered) : s;
}
