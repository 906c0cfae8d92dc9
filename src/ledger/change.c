/* SPDX-License-Identifier: MIT */
/* The decisions about an existing claim: end, renew, transfer, restore. Each compares the generation it was
 * asked about with the stored one, so that no caller ends another's claim by accident (INV-3). */
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "ledger/step.h"

#include "base/banned.h"

/* Get the record of this generation; NOT_FOUND when the claim is gone or has another generation. */
static dibs_status get_seen(struct step *step, struct ledger_seen seen, struct claim_record *row,
                            dibs_err *err)
{
    dibs_status s = store_get_claim(step->store, seen.id, row, err);

    if (s == DIBS_OK && row->claim.generation != seen.generation)
        s = DIBS_NOT_FOUND;
    return s == DIBS_NOT_FOUND ? err_set(err, s, "no such claim any more") : s;
}

/* Return whether the process that releases the claim, or has died, had borrowed it from a running lease. */
static bool is_borrowed(const dibs_claim *claim, enum ledger_end_how how, int64_t boot_ms)
{
    /* Another host's clock differs from ours; a claim that was attached to an expired lease is lost. */
    if (claim->node[0] || claim->node_life == DIBS_DEAD)
        return false;
    return (how == LEDGER_END_UNHOLD || how == LEDGER_END_UNKEEP || how == LEDGER_END_REAP) &&
           claim->holder == DIBS_HELD_BY_PROCESS && step_lease_runs(claim, boot_ms);
}

bool ledger_stays(const dibs_claim *claim, enum ledger_end_how how, int64_t boot_ms)
{
    bool leaves_kept = how == LEDGER_END_UNHOLD || how == LEDGER_END_REAP || how == LEDGER_END_VACATE;

    return (leaves_kept && claim->is_kept) || is_borrowed(claim, how, boot_ms);
}

static dibs_status unhold(struct step *step, struct claim_record *row, enum ledger_end_how how, dibs_err *err)
{
    dibs_claim *c = &row->claim;
    dibs_process none = { 0 };
    bool is_lease = is_borrowed(c, how, step->call->now.boot_ms);

    if (is_lease)
        memcpy(none.boot_id, c->process.boot_id, sizeof none.boot_id);
    else
        c->lease_ttl_ms = c->lease_until_ms = 0;
    if (c->holder == DIBS_HELD_BY_PROCESS) /* they describe that process */
        c->command[0] = c->env[0] = '\0';
    c->holder = is_lease ? DIBS_HELD_BY_LEASE : DIBS_HELD_BY_NOBODY;
    c->process = none;
    if (how == LEDGER_END_UNKEEP)
        step_unkeeps(step, c);
    c->is_kept = c->is_kept && how != LEDGER_END_UNKEEP;
    return step_rehold(step, row, is_lease ? DIBS_EV_TRANSFERRED : DIBS_EV_UNHELD, err);
}

static dibs_status end_one(struct step *step, struct claim_record *row, enum ledger_end_how how,
                           dibs_err *err)
{
    dibs_event_kind kind = DIBS_EV_RELEASED;

    if (how == LEDGER_END_VACATE)
        row->claim.keeper[0] = '\0';
    if (ledger_stays(&row->claim, how, step->call->now.boot_ms))
        return unhold(step, row, how, err);
    switch (how) {
    case LEDGER_END_RELEASE:
    case LEDGER_END_UNHOLD:
    case LEDGER_END_UNKEEP:
    case LEDGER_END_VACATE: break;
    case LEDGER_END_GONE:
    case LEDGER_END_REAP:
    case LEDGER_END_STALE: kind = DIBS_EV_REAPED; break;
    case LEDGER_END_LEAK: kind = DIBS_EV_LEAKED; break;
    }
    return step_end(step, row, kind, err);
}

/* End one claim, unless it has changed since it was judged; with a token, only the claim of that token. */
static dibs_status end_seen(struct step *step, struct ledger_seen seen, enum ledger_end_how how,
                            const struct record_token *token, struct ledger_ended *out, dibs_err *err)
{
    struct claim_record row;
    const dibs_claim *c = &row.claim;
    bool is_reaped = how == LEDGER_END_REAP || how == LEDGER_END_STALE;
    dibs_status s = get_seen(step, seen, &row, err);

    if (s != DIBS_OK)
        return s == DIBS_NOT_FOUND ? DIBS_OK : s; /* idempotent: already ended */
    if (token && !record_secret_equal(row.secret, token->secret))
        return DIBS_OK;
    if (is_reaped && c->node[0] && c->node_life != DIBS_DEAD)
        return DIBS_OK; /* only its own host can judge it */
    /* The lease was renewed since (INV-5). For another host's lease only its length is known here. */
    bool is_gone = how == LEDGER_END_GONE || how == LEDGER_END_VACATE;
    if ((is_reaped || is_gone) && c->lease_until_ms != seen.lease_until_ms)
        return DIBS_OK;
    if (!is_reaped && how != LEDGER_END_LEAK)
        s = ledger_check_right(step->call, c, err);
    if (s != DIBS_OK || (how == LEDGER_END_UNHOLD && c->holder == DIBS_HELD_BY_NOBODY))
        return s;
    out->claim = *c;
    out->n++;
    return end_one(step, &row, how, err);
}

static dibs_status end_all(struct ledger *ledger, const struct call *call, const struct ledger_ending *what,
                           const struct record_token *token, struct ledger_ended *out, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    for (AUTO(step_auto) struct step step = { 0 }; step_next(&step, ledger, call, false, &s, err);) {
        out->n = 0;
        if (what->n > 1)
            s = step_save(&step, err);
        for (size_t i = 0; i < what->n && s == DIBS_OK; i++)
            s = end_seen(&step, what->seen[i], what->how, token, out, err);
    }
    return s;
}

dibs_status ledger_end(struct ledger *ledger, const struct call *call, const struct ledger_ending *what,
                       size_t *n, dibs_err *err)
{
    struct ledger_ended ended;
    dibs_status s = end_all(ledger, call, what, NULL, &ended, err);

    if (s == DIBS_OK && n)
        *n = ended.n;
    return s;
}

dibs_status ledger_end_token(struct ledger *ledger, const struct call *call, const char *token,
                             enum ledger_end_how how, struct ledger_ended *out, dibs_err *err)
{
    struct record_token parsed = { 0 };

    out->n = 0;
    if (!record_token_parse(token, &parsed))
        return DIBS_OK;
    const struct ledger_seen seen = { .id = parsed.id, .generation = parsed.generation };
    const struct ledger_ending ending = { .seen = &seen, .n = 1, .how = how };
    return end_all(ledger, call, &ending, &parsed, out, err);
}

dibs_status ledger_certain(const dibs_claim *claim, dibs_err *err)
{
    if (claim->holder == DIBS_HELD_BY_NOBODY || claim->is_kept || claim->node_life == DIBS_ALIVE ||
        claim->node[0])
        return DIBS_OK;
    if (claim->node_life == DIBS_UNKNOWN)
        return err_trouble(err, DIBS_TROUBLE_NONE,
                           "port %u is unique in the cluster, and this host cannot renew its lease there: "
                           "the claim may be lost",
                           claim->port);
    return err_set(err, DIBS_NOT_FOUND,
                   "the claim on port %u is lost: the lease of this host in the cluster has ended",
                   claim->port);
}

static dibs_status get_changeable(struct step *step, struct ledger_seen seen, struct claim_record *row,
                                  dibs_err *err)
{
    dibs_status s = get_seen(step, seen, row, err);

    if (s == DIBS_OK)
        s = ledger_check_right(step->call, &row->claim, err);
    if (s != DIBS_OK)
        return s;
    const dibs_claim *c = &row->claim;
    if (c->node[0] && (c->holder != DIBS_HELD_BY_NOBODY || strncmp(c->principal, "uid:", 4) == 0))
        return err_set(err, DIBS_INVALID, "the claim on port %u is one of host '%s': change it there",
                       c->port, c->node);
    return ledger_certain(c, err);
}

dibs_status ledger_renew(struct ledger *ledger, const struct call *call, struct ledger_seen seen,
                         int64_t ttl_ms, dibs_claim *out, dibs_err *err)
{
    struct claim_record row = { 0 };
    dibs_status s = DIBS_OK;

    for (AUTO(step_auto) struct step step = { 0 }; step_next(&step, ledger, call, false, &s, err);) {
        s = get_changeable(&step, seen, &row, err);
        if (s != DIBS_OK)
            return s;
        if (row.claim.holder != DIBS_HELD_BY_LEASE)
            return err_set(err, DIBS_INVALID, "the claim on port %u has no lease to renew: it %s",
                           row.claim.port,
                           row.claim.holder == DIBS_HELD_BY_PROCESS ? "lasts as long as its process"
                                                                    : "is kept until it is released");
        row.claim.lease_ttl_ms = ttl_ms;
        step_lease(&step, &row.claim);
        s = step_change(&step, &row, DIBS_EV_RENEWED, err);
    }
    if (s == DIBS_OK)
        claiming_answer(&row, false, out);
    return s;
}

dibs_status ledger_transfer(struct ledger *ledger, const struct call *call, struct ledger_seen seen,
                            const dibs_claim *heir, dibs_claim *out, dibs_err *err)
{
    struct claim_record row = { 0 };
    dibs_status s = DIBS_OK;

    for (AUTO(step_auto) struct step step = { 0 }; step_next(&step, ledger, call, heir->is_kept, &s, err);) {
        s = get_changeable(&step, seen, &row, err);
        if (s != DIBS_OK)
            return s;
        step_unkeeps(&step, &row.claim);
        step_hold(&step, &row.claim, heir);
        row.claim.is_kept = heir->is_kept;
        s = step_rehold(&step, &row, DIBS_EV_TRANSFERRED, err);
    }
    if (s == DIBS_OK)
        claiming_answer(&row, false, out);
    return s;
}

/* ---- claims that other hosts ended ---- */

struct loss {
    struct step *step;
    size_t n;
    dibs_status s;
    dibs_err *err;
};

static bool write_loss(void *ctx, const dibs_claim *claim)
{
    struct loss *l = ctx;

    l->s = step_event(l->step, DIBS_EV_REAPED, claim, l->err);
    l->n++;
    return l->s == DIBS_OK;
}

dibs_status ledger_note_lost(struct ledger *ledger, const struct call *call, size_t *n, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    *n = 0;
    if (!ledger->store->ops->cluster)
        return DIBS_OK;
    for (AUTO(step_auto) struct step step = { 0 }; step_next(&step, ledger, call, false, &s, err);) {
        struct loss loss = { .step = &step, .err = err };

        step.store->ops->cluster->lost(step.store, write_loss, &loss);
        *n = loss.n;
        s = loss.s;
    }
    return s;
}

/* ---- restoring a snapshot ---- */

struct clash {
    const dibs_binding *binding;
    struct id_list *ids; /* claims on the same port and a conflicting address */
};

static bool find_clash(void *ctx, const struct ledger_slot *slot)
{
    struct clash *c = ctx;

    return !dibs_address_conflict(&slot->address, &c->binding->address) ||
           id_list_add(c->ids, slot->claim_id);
}

static bool is_same(const dibs_claim *a, const dibs_claim *b)
{
    return a->port == b->port && a->is_exclusive == b->is_exclusive &&
           strcmp(a->principal, b->principal) == 0 && strcmp(a->name, b->name) == 0 &&
           record_same_bindings(a, b);
}

static dibs_status check_restorable(const dibs_claim *claim, dibs_err *err)
{
    dibs_claim copy = *claim;
    const char *why = NULL;

    copy.id = copy.generation = 1; /* placeholders: the claim gets new ones */
    if (record_claim_valid(&copy, &why))
        return DIBS_OK;
    return err_set(err, DIBS_INVALID, "a claim on port %u cannot be restored: %s", claim->port, why);
}

static dibs_status refuse_restoring(const dibs_claim *claim, const dibs_claim *blocker, dibs_err *err)
{
    return err_set(err, DIBS_TAKEN, "port %u%s%s cannot be restored: claim %llu of %s%s%s stands in the way",
                   claim->port, claim->name[0] ? " of " : "", claim->name, (unsigned long long) blocker->id,
                   blocker->is_damaged ? "a damaged record" : blocker->principal,
                   blocker->name[0] ? ", " : "", blocker->name);
}

static dibs_status restore_one(struct step *step, const dibs_claim *claim, size_t *n, dibs_err *err)
{
    AUTO(id_list_auto) struct id_list ids = { 0 };
    struct clash clash = { .ids = &ids };
    struct claim_record blocker = { 0 };
    struct claim_record row;
    struct name_record name = { 0 };
    dibs_status s = check_restorable(claim, err);

    for (size_t i = 0; i < claim->n_bindings && s == DIBS_OK; i++) {
        clash.binding = &claim->bindings[i];
        s = step->store->ops->slots(step->store, clash.binding->proto, claim->port, find_clash, &clash, err);
    }
    if (s == DIBS_OK && claim->name[0])
        s = store_get_name(step->store, claim->principal, claim->name, &name, err);
    if (s != DIBS_OK && s != DIBS_NOT_FOUND)
        return s;
    if (!id_list_add(&ids, name.claim_id) || ids.is_failed)
        return err_set(err, DIBS_FAILURE, "restoring a claim: out of memory");
    for (size_t i = 0; i < ids.n; i++) {
        s = store_get_claim(step->store, ids.id[i], &row, err);
        if (s == DIBS_NOT_FOUND)
            record_make_lost(&row, ids.id[i], claim->port);
        else if (s != DIBS_OK)
            return s;
        if (is_same(&row.claim, claim))
            return DIBS_OK;
        /* INV-1 is about two exclusive claims. */
        bool is_blocking = row.claim.id == name.claim_id || (row.claim.is_exclusive && claim->is_exclusive);
        if (is_blocking && blocker.claim.id == 0)
            blocker = row;
    }
    if (blocker.claim.id != 0)
        return refuse_restoring(claim, &blocker.claim, err);
    s = step_insert(step, claim, claim->port, DIBS_EV_REPAIRED, &row, err);
    *n += s == DIBS_OK;
    return s;
}

dibs_status ledger_restore(struct ledger *ledger, const struct call *call, const dibs_snapshot *snapshot,
                           size_t *n_restored, struct ledger_restored *each, dibs_err *err)
{
    size_t restored = 0;
    dibs_status s = DIBS_OK;

    for (AUTO(step_auto) struct step step = { 0 }; step_next(&step, ledger, call, true, &s, err);) {
        restored = 0;
        s = step_save(&step, err);
        for (size_t i = 0; i < snapshot->n_pools && s == DIBS_OK; i++)
            s = step_pool_put(&step, &snapshot->pools[i], err);
        for (size_t i = 0; i < snapshot->n && s == DIBS_OK; i++) {
            dibs_err why = { 0 };
            size_t n_before = restored;

            s = restore_one(&step, &snapshot->claims[i], &restored, &why);
            if (each)
                each[i] = (struct ledger_restored){ restored > n_before, why };
            if (each && (s == DIBS_TAKEN || s == DIBS_INVALID)) { /* nothing was written for it */
                s = DIBS_OK;
            } else if (s != DIBS_OK && err) {
                *err = why;
            }
        }
    }
    if (s == DIBS_OK && n_restored)
        *n_restored = restored;
    return s;
}

/* ---- drops ---- */

/* End claims in the transaction that makes others (INV-4). A live holder only loses `kept` (INV-5). */

/* Rename a claim whose name goes to another one to NAME/PORT, or NAME/PORT.ID if that is taken. */
static dibs_status leave_name(struct step *step, dibs_claim *claim, dibs_err *err)
{
    char name[DIBS_NAME_MAX + 1];
    struct name_record known = { 0 };

    step_left_name(claim->name, claim->port, name);
    dibs_status s = store_get_name(step->store, claim->principal, name, &known, err);
    if (s == DIBS_OK && known.claim_id != 0)
        (void) snprintf(name + strlen(name), sizeof name - strlen(name), ".%llu",
                        (unsigned long long) claim->id);
    return s == DIBS_OK || s == DIBS_NOT_FOUND ? step_rename(step, claim, name, err) : s;
}

/* Leave the claim to its holder. Its generation stays, because the holder's token must still end it. */
static dibs_status leave(struct step *step, struct claim_record *row, const struct ledger_drop *drop,
                         dibs_err *err)
{
    dibs_claim *claim = &row->claim;
    bool is_kept = claim->is_kept && drop->stays;
    bool leaves_name = drop->frees && strcmp(drop->frees, claim->name) == 0;
    dibs_status s = DIBS_OK;

    if (!leaves_name && is_kept == claim->is_kept)
        return DIBS_OK;
    if (!is_kept)
        step_unkeeps(step, claim);
    claim->is_kept = is_kept;
    if (leaves_name)
        s = leave_name(step, claim, err);
    return s == DIBS_OK ? step_change(step, row, DIBS_EV_TRANSFERRED, err) : s;
}

static bool is_held(const struct ledger_batch *batch, const dibs_claim *claim)
{
    return claim->holder != DIBS_HELD_BY_NOBODY && !claiming_is_dead(batch, claim);
}

struct use {
    struct claiming *k;
    const dibs_claim *claim;
    size_t n_bytes; /* a claim whose name begins with this many bytes of its name uses it */
};

static bool is_unused(void *ctx, const struct claim_record *row)
{
    const struct use *u = ctx;

    if (strncmp(row->claim.name, u->claim->name, u->n_bytes) != 0 || !is_held(u->k->batch, &row->claim))
        return true;
    u->k->refusal->is_shared = true;
    u->k->refusal->has_blocker = true;
    u->k->refusal->blocker = row->claim;
    return false;
}

/* Check that no held claim has a name that begins with these bytes of the claim's name. */
static dibs_status check_unused(struct claiming *k, const dibs_claim *claim, size_t n_bytes)
{
    const struct ledger_filter theirs = { .principal = claim->principal };
    struct use use = { .k = k, .claim = claim, .n_bytes = n_bytes };
    dibs_status s = k->step->store->ops->claims(k->step->store, &theirs, is_unused, &use, k->err);

    if (s != DIBS_OK || !k->refusal->is_shared)
        return s;
    return err_set(k->err, DIBS_TAKEN, "'%s' is used by '%s'", claim->name, k->refusal->blocker.name);
}

static dibs_status drop_one(struct claiming *k, const struct ledger_drop *drop)
{
    struct step *step = k->step;
    struct claim_record row;
    dibs_status s = get_seen(step, drop->seen, &row, k->err);

    if (s == DIBS_NOT_FOUND)
        return DIBS_OK; /* it has ended or has a new generation (INV-3) */
    if (s == DIBS_OK)
        s = ledger_check_right(step->call, &row.claim, k->err);
    if (s != DIBS_OK)
        return s;
    if (is_held(k->batch, &row.claim) || drop->stays)
        return leave(step, &row, drop, k->err);
    if (drop->shared_bytes > 0 && drop->shared_bytes <= strlen(row.claim.name))
        s = check_unused(k, &row.claim, drop->shared_bytes);
    return s == DIBS_OK ? step_end(step, &row, DIBS_EV_RELEASED, k->err) : s;
}

dibs_status claiming_drop(struct claiming *k)
{
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < k->batch->n_drops && s == DIBS_OK; i++)
        s = drop_one(k, &k->batch->drops[i]);
    return s;
}
