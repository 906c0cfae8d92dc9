/* SPDX-License-Identifier: MIT */
/* Decides about a requested name that already has a claim. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/name_part.h"
#include "ledger/step.h"

#include "base/banned.h"

static int by_seen_id(const void *a, const void *b)
{
    uint64_t x = ((const struct ledger_seen *) a)->id;
    uint64_t y = ((const struct ledger_seen *) b)->id;

    return x < y ? -1 : x > y;
}

bool claiming_is_dead(const struct ledger_batch *batch, const dibs_claim *claim)
{
    const struct ledger_seen key = { .id = claim->id };
    const struct ledger_seen *seen =
        batch->n_dead ? bsearch(&key, batch->dead, batch->n_dead, sizeof key, by_seen_id) : NULL;

    /* Only the cluster knows whether a holder on another host is dead. */
    return seen && seen->generation == claim->generation && seen->lease_until_ms == claim->lease_until_ms &&
           (!claim->node[0] || claim->node_life == DIBS_DEAD);
}

dibs_status claiming_probe(struct claiming *k, const struct ledger_want *want, uint16_t port, bool *is_free)
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
    r->has_blocker = false;
    if (r->n_busy < DIBS_CANDIDATES_MAX)
        r->busy[r->n_busy++] = port;
    return DIBS_OK;
}

void claiming_answer(const struct claim_record *row, bool was_there, dibs_claim *out)
{
    *out = row->claim;
    out->was_there = was_there;
    record_token_format(row, out->token);
}

static bool same_process(const dibs_claim *a, const dibs_claim *b)
{
    return a->holder == DIBS_HELD_BY_PROCESS && b->holder == DIBS_HELD_BY_PROCESS &&
           a->process.pid == b->process.pid && a->process.pidns == b->process.pidns &&
           a->process.start_ticks == b->process.start_ticks &&
           strcmp(a->process.boot_id, b->process.boot_id) == 0;
}

/* Make the caller the holder of a claim that is kept, leased to its principal, or whose holder is dead. */
static dibs_status take_over(struct claiming *k, const struct ledger_want *want, struct claim_record *row)
{
    const dibs_claim *w = &want->claim;
    dibs_claim *c = &row->claim;
    /* A process borrows the claim from a running lease, which holds it again when the process ends. */
    bool is_borrowed = w->holder == DIBS_HELD_BY_PROCESS && step_lease_runs(c, k->step->call->now.boot_ms) &&
                       strcmp(c->process.boot_id, w->process.boot_id) == 0;

    const int64_t lease[] = { c->lease_ttl_ms, c->lease_until_ms };

    step_hold(k->step, c, w);
    if (is_borrowed) {
        c->lease_ttl_ms = lease[0];
        c->lease_until_ms = lease[1];
    }
    c->is_kept = c->is_kept || w->is_kept;
    if (w->hold != DIBS_HOLD_AUTO)
        c->hold = w->hold;
    c->as_port = w->as_port; /* of the new holder's `dibs run` */
    if (w->keeper[0])
        memcpy(c->keeper, w->keeper, sizeof c->keeper);
    return step_rehold(k->step, row, DIBS_EV_TRANSFERRED, k->err);
}

static dibs_status refuse_name(struct claiming *k, const struct claim_record *row, bool differs)
{
    struct ledger_refusal *r = k->refusal;

    r->by_name = true;
    r->differs = differs;
    r->port = row->claim.port;
    r->is_busy = false;
    r->has_blocker = true;
    r->blocker = row->claim;
    return err_set(k->err, DIBS_TAKEN, "name '%s' is taken", row->claim.name);
}

static bool is_of_namespace(const dibs_claim *claim)
{
    return strncmp(claim->principal, "uid:", 4) != 0;
}

/* Return whether another Kubernetes object keeps the claim. */
static bool has_other_keeper(const dibs_claim *claim, const dibs_claim *want)
{
    return claim->keeper[0] && want->keeper[0] && strcmp(claim->keeper, want->keeper) != 0;
}

/* Extend the caller's own lease on the name's claim, or change it into the requested holder. */
static dibs_status own_lease(struct claiming *k, const struct ledger_want *want, struct claim_record *row)
{
    bool is_other_host = row->claim.node[0]; /* its clock differs from ours */

    if (want->claim.holder != DIBS_HELD_BY_LEASE || (want->claim.is_kept && !row->claim.is_kept) ||
        is_other_host || strcmp(row->claim.command, want->claim.command) != 0 ||
        (want->claim.keeper[0] && !row->claim.keeper[0]))
        return take_over(k, want, row);
    int64_t until = k->step->call->now.boot_ms + want->claim.lease_ttl_ms;

    if (until <= row->claim.lease_until_ms &&
        strcmp(row->claim.process.boot_id, want->claim.process.boot_id) == 0)
        return DIBS_OK;
    row->claim.process = want->claim.process;
    row->claim.lease_ttl_ms = want->claim.lease_ttl_ms;
    row->claim.lease_until_ms = until;
    return step_change(k->step, row, DIBS_EV_RENEWED, k->err);
}

/* Return whether the claim's port satisfies the request; a claim from the same pool always does. */
static bool is_asked_for(const dibs_claim *c, const struct ledger_want *want)
{
    return (!want->required || want->required == c->port) &&
           (want->align < 2 || c->port % want->align == 0) &&
           (!want->within || dibs_ranges_contain(want->within, c->port) ||
            strcmp(c->pool, want->claim.pool) == 0);
}

/* Return whether the claim has the requested bindings; one with IPv6 serves a host without IPv6. */
static bool has_bindings(const dibs_claim *c, const struct ledger_want *want)
{
    dibs_claim wide = { .n_bindings = want->n_wide };

    memcpy(wide.bindings, want->wide, sizeof wide.bindings);
    return record_same_bindings(c, &want->claim) || (want->n_wide && record_same_bindings(c, &wide));
}

/* Return whether the name's claim differs from the request. */
static bool is_different(const dibs_claim *c, const struct ledger_want *want)
{
    return !is_asked_for(c, want) || !has_bindings(c, want) || c->is_exclusive != want->claim.is_exclusive ||
           has_other_keeper(c, &want->claim);
}

/* Return the claim unchanged; if adopted, keep it, whatever its holder. */
static dibs_status look_up(struct claiming *k, const struct ledger_want *want, struct claim_record *row)
{
    if (!want->is_adopted || row->claim.is_kept)
        return DIBS_OK;
    row->claim.is_kept = true;
    return step_change(k->step, row, DIBS_EV_TRANSFERRED, k->err);
}

/* Update the environment of a claim that the calling process already holds. */
static dibs_status update_holder(struct claiming *k, const struct ledger_want *want, struct claim_record *row)
{
    if (!want->claim.env[0] || strcmp(row->claim.env, want->claim.env) == 0)
        return DIBS_OK;
    memcpy(row->claim.env, want->claim.env, sizeof row->claim.env);
    return k->step->store->ops->put(k->step->store, CLAIMS, row, k->err);
}

/* Change the level of holding and the number inside, if the request names others. */
static dibs_status update_use(struct claiming *k, const struct ledger_want *want, struct claim_record *row)
{
    const dibs_claim *w = &want->claim;
    dibs_hold hold = w->hold == DIBS_HOLD_AUTO ? row->claim.hold : w->hold;
    uint16_t as_port = w->as_port ? w->as_port : row->claim.as_port;

    if (hold == row->claim.hold && as_port == row->claim.as_port)
        return DIBS_OK;
    row->claim.hold = hold;
    row->claim.as_port = as_port;
    return step_change(k->step, row, DIBS_EV_TRANSFERRED, k->err);
}

/* Decide by the name's claim. *is_done false: the name is free now, try the candidates. */
static dibs_status decide_by_name(struct claiming *k, const struct ledger_want *want,
                                  struct claim_record *row, bool *is_done)
{
    const dibs_claim *c = &row->claim;
    bool is_over = c->holder != DIBS_HELD_BY_NOBODY && claiming_is_dead(k->batch, c);
    bool differs = is_different(c, want);

    *is_done = true;
    /* Two directories of the same name are two projects: the caller retries with another name. */
    if (c->is_damaged || (want->claim.project[0] && strcmp(c->project, want->claim.project) != 0))
        return refuse_name(k, row, false);
    if (!is_over && ledger_certain(c, k->err) != DIBS_OK) /* expired since it was judged */
        return err_trouble(k->err, DIBS_TROUBLE_NONE,
                           "port %u of '%s' is unique in the cluster, and this host could not renew its "
                           "lease there",
                           c->port, c->name);
    if (is_over && !c->is_kept) {
        bool is_free = false;

        /* Reuse the same port, unless the request differs or a foreign socket uses it. */
        dibs_status s = differs ? DIBS_OK : claiming_probe(k, want, c->port, &is_free);
        if (s != DIBS_OK)
            return s;
        if (is_free)
            return take_over(k, want, row);
        *is_done = false;
        return step_end(k->step, row, DIBS_EV_REAPED, k->err);
    }
    if (want->is_lookup) {
        if (!is_asked_for(c, want) || (want->is_same && !has_bindings(c, want)))
            return refuse_name(k, row, true);
        return look_up(k, want, row);
    }
    if (differs)
        return refuse_name(k, row, true);
    /* Only its own host can judge the holder; but a namespace's lease can be extended on every host. */
    bool is_ours = c->holder == DIBS_HELD_BY_LEASE && is_of_namespace(c);
    if (c->node[0] && c->holder != DIBS_HELD_BY_NOBODY && !is_over && !is_ours)
        return refuse_name(k, row, false);
    if (c->holder == DIBS_HELD_BY_PROCESS && !is_over) {
        if (!same_process(c, &want->claim))
            return refuse_name(k, row, false);
        return update_holder(k, want, row);
    }
    if (c->holder == DIBS_HELD_BY_LEASE && !is_over)
        return own_lease(k, want, row);
    bool is_unheld = want->claim.holder == DIBS_HELD_BY_NOBODY && c->holder == DIBS_HELD_BY_NOBODY;
    return is_unheld ? DIBS_OK : take_over(k, want, row);
}

struct bearer {
    const char *principal, *name;
    struct claim_record *out;
    bool is_found;
};

static bool is_bearer(void *ctx, const struct claim_record *row)
{
    struct bearer *b = ctx;

    if (!record_is_named(&row->claim, b->principal, b->name))
        return true;
    *b->out = *row;
    b->is_found = true;
    return false;
}

dibs_status store_find_named(struct store *store, const char *principal, const char *name,
                             struct name_record *known, struct claim_record *out, dibs_err *err)
{
    const struct ledger_filter theirs = { .principal = principal };
    struct bearer bearer = { .principal = principal, .name = name, .out = out };
    dibs_status s = store_get_name(store, principal, name, known, err);

    if (s == DIBS_OK && known->claim_id == 0)
        return DIBS_NOT_FOUND;
    if (s != DIBS_OK)
        return s;
    s = store_get_claim(store, known->claim_id, out, err);
    if (s == DIBS_OK && (out->claim.is_damaged || record_is_named(&out->claim, principal, name)))
        return DIBS_OK;
    if (s != DIBS_OK && s != DIBS_NOT_FOUND)
        return s;
    /* The record is lost, or belongs to another name: search all claims before the name gets a second one. */
    s = store->ops->claims(store, &theirs, is_bearer, &bearer, err);
    return s == DIBS_OK && !bearer.is_found ? DIBS_NOT_FOUND : s;
}

/* Give the name back to a claim that left it and still has the requested port. */
static dibs_status reclaim_name(struct claiming *k, const struct ledger_want *want, struct claim_record *row)
{
    struct name_record known = { 0 };
    char left[DIBS_NAME_MAX + 1];

    step_left_name(want->claim.name, want->required, left);
    dibs_status s = store_find_named(k->step->store, want->claim.principal, left, &known, row, k->err);
    if (s == DIBS_OK && is_different(&row->claim, want))
        return DIBS_NOT_FOUND;
    if (s == DIBS_OK)
        s = step_rename(k->step, &row->claim, want->claim.name, k->err);
    return s == DIBS_OK ? step_change(k->step, row, DIBS_EV_TRANSFERRED, k->err) : s;
}

dibs_status claiming_by_name(struct claiming *k, const struct ledger_want *want, dibs_claim *out,
                             bool *is_done)
{
    struct name_record name = { 0 };
    struct claim_record row;
    dibs_status s =
        store_find_named(k->step->store, want->claim.principal, want->claim.name, &name, &row, k->err);

    *is_done = false;
    /* Only a claim that left its name has a name of six parts. */
    if (s == DIBS_NOT_FOUND && want->required && name_part_count(want->claim.name) == DIBS_NAME_PARTS_MAX)
        s = reclaim_name(k, want, &row);
    if (s == DIBS_NOT_FOUND)
        return DIBS_OK;
    if (s != DIBS_OK)
        return s;
    bool was_kept = row.claim.is_kept;
    s = decide_by_name(k, want, &row, is_done);
    if (s == DIBS_OK && *is_done)
        s = update_use(k, want, &row);
    if (s == DIBS_OK && *is_done) {
        claiming_answer(&row, true, out);
        out->was_kept = was_kept;
    }
    return s;
}
