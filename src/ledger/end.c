/* SPDX-License-Identifier: MIT */
/* The decisions about a claim that is there: end, renew, hand over, restore. Each compares the generation
 * it was asked about with the one that is stored, so that nobody ends another's claim by accident (INV-3). */
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "ledger/rows.h"

#include "base/banned.h"

static bool may_change(const struct ledger_actor *actor, const dibs_claim *claim)
{
    return actor->is_admin || strcmp(actor->principal, claim->principal) == 0;
}

static dibs_status deny(const struct ledger_actor *actor, const dibs_claim *claim, dibs_err *err)
{
    return err_set(err, DIBS_DENIED, "the claim on port %u belongs to %s; you are %s", claim->port,
                   claim->principal, actor->principal);
}

/* The record of this very generation; NOT_FOUND when it is gone or has moved on. */
static dibs_status get_seen(struct ledger_tx *tx, struct ledger_seen seen, struct row_claim *row,
                            dibs_err *err)
{
    dibs_status s = tx->rows->ops->claim_get(tx->rows, seen.id, row, err);

    if (s == DIBS_OK && row->claim.generation != seen.generation)
        s = DIBS_NOT_FOUND;
    return s == DIBS_NOT_FOUND ? err_set(err, s, "no such claim any more") : s;
}

/* The process that lets go, or has died, had only borrowed the claim from a lease. */
static bool is_borrowed(const dibs_claim *claim, enum ledger_end_how how, int64_t boot_ms)
{
    /* The clock of another host says nothing, and what hung on a lease that has ended is over as a whole. */
    if (claim->node[0] || claim->node_life == DIBS_DEAD)
        return false;
    return (how == LEDGER_END_UNHOLD || how == LEDGER_END_UNKEEP || how == LEDGER_END_REAP) &&
           claim->holder == DIBS_HELD_BY_PROCESS && tx_lease_runs(claim, boot_ms);
}

bool ledger_stays(const dibs_claim *claim, enum ledger_end_how how, int64_t boot_ms)
{
    bool leaves_kept = how == LEDGER_END_UNHOLD || how == LEDGER_END_REAP;

    return (leaves_kept && claim->is_kept) || is_borrowed(claim, how, boot_ms);
}

static dibs_status unhold(struct ledger_tx *tx, struct row_claim *row, enum ledger_end_how how, dibs_err *err)
{
    dibs_claim *c = &row->claim;
    dibs_process nobody = { 0 };
    bool is_lease = is_borrowed(c, how, tx->actor->now.boot_ms);

    if (is_lease)
        memcpy(nobody.boot_id, c->process.boot_id, sizeof nobody.boot_id);
    else
        c->lease_ttl_ms = c->lease_until_ms = 0;
    if (c->holder == DIBS_HELD_BY_PROCESS) /* it was that process' */
        c->command[0] = '\0';
    c->holder = is_lease ? DIBS_HELD_BY_LEASE : DIBS_HELD_BY_NOBODY;
    c->process = nobody;
    if (how == LEDGER_END_UNKEEP)
        tx_unkeeps(tx, c);
    c->is_kept = c->is_kept && how != LEDGER_END_UNKEEP;
    return tx_rehold(tx, row, is_lease ? DIBS_EV_TRANSFERRED : DIBS_EV_UNHELD, err);
}

static dibs_status end_one(struct ledger_tx *tx, struct row_claim *row, enum ledger_end_how how,
                           dibs_err *err)
{
    dibs_event_kind kind = DIBS_EV_RELEASED;

    if (ledger_stays(&row->claim, how, tx->actor->now.boot_ms))
        return unhold(tx, row, how, err);
    switch (how) {
    case LEDGER_END_RELEASE:
    case LEDGER_END_UNHOLD:
    case LEDGER_END_UNKEEP: break;
    case LEDGER_END_GONE:
    case LEDGER_END_REAP:
    case LEDGER_END_STALE: kind = DIBS_EV_REAPED; break;
    case LEDGER_END_LEAK: kind = DIBS_EV_LEAKED; break;
    }
    return tx_end(tx, row, kind, err);
}

static dibs_status end_seen(struct ledger *ledger, const struct ledger_ending *what,
                            const struct ledger_actor *actor, size_t *n, dibs_err *err)
{
    AUTO(tx_auto) struct ledger_tx tx = { 0 };
    bool by_right = what->how == LEDGER_END_RELEASE || what->how == LEDGER_END_UNHOLD ||
                    what->how == LEDGER_END_UNKEEP || what->how == LEDGER_END_GONE;
    size_t ended = 0;
    dibs_status s = tx_begin(&tx, ledger, true, false, actor, err);

    if (s == DIBS_OK && what->n > 1)
        s = tx_save(&tx, err);
    for (size_t i = 0; i < what->n && s == DIBS_OK; i++) {
        struct row_claim row;

        s = get_seen(&tx, what->seen[i], &row, err);
        if (s == DIBS_NOT_FOUND) { /* ended already: that is what was wanted */
            s = DIBS_OK;
            continue;
        }
        if (s != DIBS_OK)
            return s;
        if ((what->how == LEDGER_END_REAP || what->how == LEDGER_END_STALE) &&
            (row.claim.lease_until_ms != what->seen[i].lease_until_ms ||
             (row.claim.node[0] && row.claim.node_life != DIBS_DEAD)))
            continue; /* renewed since it was judged (INV-5), or not ours to judge */
        /* Somebody asked for it again since. Of a lease of another host only its length is known here, which
         * who ends it has waited for. */
        if (what->how == LEDGER_END_GONE && row.claim.lease_until_ms != what->seen[i].lease_until_ms)
            continue;
        if (by_right && !may_change(actor, &row.claim))
            return deny(actor, &row.claim, err);
        if (what->how == LEDGER_END_UNHOLD && row.claim.holder == DIBS_HELD_BY_NOBODY)
            continue;
        s = end_one(&tx, &row, what->how, err);
        ended++;
    }
    if (s == DIBS_OK && ended > 0)
        s = tx_commit(&tx, err);
    if (s == DIBS_OK && n)
        *n = ended;
    return s;
}

dibs_status ledger_end(struct ledger *ledger, const struct ledger_ending *what,
                       const struct ledger_actor *actor, size_t *n, dibs_err *err)
{
    return DECIDE(ledger, end_seen(ledger, what, actor, n, err));
}

static dibs_status end_token(struct ledger *ledger, const char *token, enum ledger_end_how how,
                             const struct ledger_actor *actor, struct ledger_ended *out, dibs_err *err)
{
    AUTO(tx_auto) struct ledger_tx tx = { 0 };
    struct codec_token parsed = { 0 };
    struct row_claim row = { 0 };

    out->n = 0;
    if (!codec_token_parse(token, &parsed))
        return DIBS_OK;
    dibs_status s = tx_begin(&tx, ledger, true, false, actor, err);
    if (s == DIBS_OK)
        s = tx.rows->ops->claim_get(tx.rows, parsed.id, &row, err);
    if (s == DIBS_NOT_FOUND)
        return DIBS_OK; /* ended already: that is what was wanted */
    if (s != DIBS_OK)
        return s;
    if (row.claim.generation != parsed.generation || !codec_secret_equal(row.secret, parsed.secret))
        return DIBS_OK;
    if (!may_change(actor, &row.claim))
        return deny(actor, &row.claim, err);
    if (how == LEDGER_END_UNHOLD && row.claim.holder == DIBS_HELD_BY_NOBODY)
        return DIBS_OK;
    out->claim = row.claim;
    s = end_one(&tx, &row, how, err);
    if (s == DIBS_OK)
        s = tx_commit(&tx, err);
    out->n = s == DIBS_OK;
    return s;
}

dibs_status ledger_end_token(struct ledger *ledger, const char *token, enum ledger_end_how how,
                             const struct ledger_actor *actor, struct ledger_ended *out, dibs_err *err)
{
    return DECIDE(ledger, end_token(ledger, token, how, actor, out, err));
}

dibs_status ledger_certain(const dibs_claim *claim, dibs_err *err)
{
    if (claim->holder == DIBS_HELD_BY_NOBODY || claim->is_kept || claim->node_life == DIBS_ALIVE ||
        claim->node[0])
        return DIBS_OK;
    if (claim->node_life == DIBS_UNKNOWN)
        return err_trouble(
            err, DIBS_TROUBLE_NONE,
            "port %u is everybody's in the cluster, and this host cannot renew its lease there: "
            "the claim may be lost",
            claim->port);
    return err_set(err, DIBS_NOT_FOUND,
                   "the claim on port %u is lost: the lease of this host in the cluster has ended",
                   claim->port);
}

static dibs_status get_changeable(struct ledger_tx *tx, struct ledger_seen seen, struct row_claim *row,
                                  dibs_err *err)
{
    dibs_status s = get_seen(tx, seen, row, err);

    if (s == DIBS_OK && !may_change(tx->actor, &row->claim))
        s = deny(tx->actor, &row->claim, err);
    if (s != DIBS_OK)
        return s;
    const dibs_claim *c = &row->claim;
    if (c->node[0] && (c->holder != DIBS_HELD_BY_NOBODY || strncmp(c->principal, "uid:", 4) == 0))
        return err_set(err, DIBS_INVALID, "the claim on port %u is one of host '%s': change it there",
                       c->port, c->node);
    return ledger_certain(c, err);
}

static void answer(const struct row_claim *row, dibs_claim *out)
{
    *out = row->claim;
    codec_token_format(row, out->token);
}

static dibs_status renew(struct ledger *ledger, struct ledger_seen seen, int64_t ttl_ms,
                         const struct ledger_actor *actor, dibs_claim *out, dibs_err *err)
{
    AUTO(tx_auto) struct ledger_tx tx = { 0 };
    struct row_claim row;
    dibs_status s = tx_begin(&tx, ledger, true, false, actor, err);

    if (s == DIBS_OK)
        s = get_changeable(&tx, seen, &row, err);
    if (s != DIBS_OK)
        return s;
    if (row.claim.holder != DIBS_HELD_BY_LEASE)
        return err_set(err, DIBS_INVALID, "the claim on port %u has no lease to renew: it %s", row.claim.port,
                       row.claim.holder == DIBS_HELD_BY_PROCESS ? "lasts as long as its process"
                                                                : "is kept until it is released");
    row.claim.lease_ttl_ms = ttl_ms;
    row.claim.changed_ms = actor->now.wall_ms;
    tx_lease(&tx, &row.claim);
    s = tx.rows->ops->claim_put(tx.rows, &row, err);
    if (s == DIBS_OK)
        s = tx_event(&tx, DIBS_EV_RENEWED, &row.claim, err);
    if (s == DIBS_OK)
        s = tx_commit(&tx, err);
    if (s == DIBS_OK)
        answer(&row, out);
    return s;
}

dibs_status ledger_renew(struct ledger *ledger, struct ledger_seen seen, int64_t ttl_ms,
                         const struct ledger_actor *actor, dibs_claim *out, dibs_err *err)
{
    return DECIDE(ledger, renew(ledger, seen, ttl_ms, actor, out, err));
}

static dibs_status transfer(struct ledger *ledger, struct ledger_seen seen, const dibs_claim *heir,
                            const struct ledger_actor *actor, dibs_claim *out, dibs_err *err)
{
    AUTO(tx_auto) struct ledger_tx tx = { 0 };
    struct row_claim row;
    dibs_status s = tx_begin(&tx, ledger, true, heir->is_kept, actor, err);

    if (s == DIBS_OK)
        s = get_changeable(&tx, seen, &row, err);
    if (s != DIBS_OK)
        return s;
    dibs_claim *c = &row.claim;
    tx_unkeeps(&tx, c);
    c->holder = heir->holder;
    c->process = heir->process;
    c->lease_ttl_ms = heir->lease_ttl_ms;
    c->lease_until_ms = 0;
    c->is_kept = heir->is_kept;
    c->uid = heir->uid;
    c->netns = heir->netns;
    memcpy(c->command, heir->command, sizeof c->command);
    tx_lease(&tx, c);
    s = tx_rehold(&tx, &row, DIBS_EV_TRANSFERRED, err);
    if (s == DIBS_OK)
        s = tx_commit(&tx, err);
    if (s == DIBS_OK)
        answer(&row, out);
    return s;
}

dibs_status ledger_transfer(struct ledger *ledger, struct ledger_seen seen, const dibs_claim *heir,
                            const struct ledger_actor *actor, dibs_claim *out, dibs_err *err)
{
    return DECIDE(ledger, transfer(ledger, seen, heir, actor, out, err));
}

/* ---- what others have ended ---- */

struct loss {
    struct ledger_tx *tx;
    size_t n;
    dibs_status s;
    dibs_err *err;
};

static bool write_loss(void *ctx, const dibs_claim *claim)
{
    struct loss *l = ctx;

    l->s = tx_event(l->tx, DIBS_EV_REAPED, claim, l->err);
    l->n++;
    return l->s == DIBS_OK;
}

static dibs_status note_lost(struct ledger *ledger, const struct ledger_actor *actor, size_t *n,
                             dibs_err *err)
{
    AUTO(tx_auto) struct ledger_tx tx = { 0 };
    struct loss loss = { .tx = &tx, .err = err };
    dibs_status s = tx_begin(&tx, ledger, true, false, actor, err);

    if (s != DIBS_OK)
        return s;
    tx.rows->ops->lost(tx.rows, write_loss, &loss);
    if (loss.s == DIBS_OK && loss.n > 0)
        loss.s = tx_commit(&tx, err);
    if (loss.s == DIBS_OK)
        *n = loss.n;
    return loss.s;
}

dibs_status ledger_note_lost(struct ledger *ledger, const struct ledger_actor *actor, size_t *n,
                             dibs_err *err)
{
    *n = 0;
    return ledger->rows->ops->lost ? DECIDE(ledger, note_lost(ledger, actor, n, err)) : DIBS_OK;
}

/* ---- restoring a snapshot ---- */

enum { BESIDE_MAX = 64 }; /* declared claims of one port that are looked through for an identical one */

struct clash {
    const dibs_claim *wanted;
    const dibs_binding *binding;
    uint64_t id; /* the first conflicting claim, 0: none */
    size_t n_beside;
    uint64_t beside[BESIDE_MAX]; /* on the same port, but one of the two is declared: they bear each other */
};

static bool find_clash(void *ctx, const struct ledger_slot *slot)
{
    struct clash *c = ctx;

    if (slot->claim_id == 0 || !dibs_address_conflict(&slot->address, &c->binding->address))
        return true;
    if (!slot->is_exclusive || !c->wanted->is_exclusive) { /* INV-1 is about two exclusive ones */
        if (c->n_beside < BESIDE_MAX)
            c->beside[c->n_beside++] = slot->claim_id;
        return true;
    }
    c->id = slot->claim_id;
    return false;
}

static bool is_same(const dibs_claim *a, const dibs_claim *b)
{
    return a->port == b->port && a->is_exclusive == b->is_exclusive &&
           strcmp(a->principal, b->principal) == 0 && strcmp(a->name, b->name) == 0 &&
           codec_same_bindings(a, b);
}

static dibs_status check_restorable(const dibs_claim *claim, dibs_err *err)
{
    dibs_claim copy = *claim;
    const char *why = NULL;

    copy.id = copy.generation = 1; /* they will be new */
    if (codec_claim_valid(&copy, &why))
        return DIBS_OK;
    return err_set(err, DIBS_INVALID, "a claim on port %u cannot be restored: %s", claim->port, why);
}

static dibs_status is_there_already(struct ledger_tx *tx, const struct clash *clash, bool *out, dibs_err *err)
{
    struct row_claim row;
    dibs_status s = DIBS_OK;

    *out = false;
    for (size_t i = 0; i < clash->n_beside && s == DIBS_OK && !*out; i++) {
        s = tx->rows->ops->claim_get(tx->rows, clash->beside[i], &row, err);
        *out = s == DIBS_OK && is_same(&row.claim, clash->wanted);
        if (s == DIBS_NOT_FOUND)
            s = DIBS_OK;
    }
    return s;
}

static dibs_status restore_one(struct ledger_tx *tx, const dibs_claim *claim, size_t *n, dibs_err *err)
{
    struct row_claim row;
    struct row_name name = { 0 };
    struct clash clash = { .wanted = claim };
    bool is_known = false;
    dibs_status s = check_restorable(claim, err);

    for (size_t i = 0; i < claim->n_bindings && clash.id == 0 && s == DIBS_OK; i++) {
        clash.binding = &claim->bindings[i];
        s = tx->rows->ops->slots(tx->rows, clash.binding->proto, claim->port, find_clash, &clash, err);
    }
    if (s == DIBS_OK)
        s = is_there_already(tx, &clash, &is_known, err);
    if (s != DIBS_OK || is_known)
        return s;
    if (clash.id == 0 && claim->name[0]) {
        s = tx->rows->ops->name_get(tx->rows, claim->principal, claim->name, &name, err);
        clash.id = s == DIBS_OK ? name.claim_id : 0;
        if (s == DIBS_NOT_FOUND)
            s = DIBS_OK;
    }
    if (s == DIBS_OK && clash.id != 0) {
        s = tx->rows->ops->claim_get(tx->rows, clash.id, &row, err);
        if (s == DIBS_OK && is_same(&row.claim, claim))
            return DIBS_OK;
        return err_set(err, DIBS_TAKEN,
                       "port %u%s%s cannot be restored: claim %llu of %s%s%s stands in the way", claim->port,
                       claim->name[0] ? " of " : "", claim->name, (unsigned long long) clash.id,
                       s == DIBS_OK ? row.claim.principal : "a damaged record",
                       s == DIBS_OK && row.claim.name[0] ? ", " : "", s == DIBS_OK ? row.claim.name : "");
    }
    if (s == DIBS_OK)
        s = tx_insert(tx, claim, claim->port, DIBS_EV_REPAIRED, &row, err);
    if (s == DIBS_OK)
        ++*n;
    return s;
}

static dibs_status restore(struct ledger *ledger, const dibs_snapshot *snapshot,
                           const struct ledger_actor *actor, size_t *n_restored, dibs_err *refused,
                           dibs_err *err)
{
    AUTO(tx_auto) struct ledger_tx tx = { 0 };
    size_t restored = 0;
    dibs_status s = tx_begin(&tx, ledger, true, true, actor, err);

    if (s == DIBS_OK)
        s = tx_save(&tx, err);
    for (size_t i = 0; i < snapshot->n_pools && s == DIBS_OK; i++)
        s = tx_pool_put(&tx, &snapshot->pools[i], err);
    for (size_t i = 0; i < snapshot->n && s == DIBS_OK; i++) {
        dibs_err why = { 0 };

        s = restore_one(&tx, &snapshot->claims[i], &restored, &why);
        if (refused && (s == DIBS_TAKEN || s == DIBS_INVALID)) { /* it has written nothing */
            refused[i] = why;
            s = DIBS_OK;
        } else if (s != DIBS_OK && err) {
            *err = why;
        }
    }
    if (s == DIBS_OK)
        s = tx_commit(&tx, err);
    if (s == DIBS_OK && n_restored)
        *n_restored = restored;
    return s;
}

dibs_status ledger_restore(struct ledger *ledger, const dibs_snapshot *snapshot,
                           const struct ledger_actor *actor, size_t *n_restored, dibs_err *refused,
                           dibs_err *err)
{
    return DECIDE(ledger, restore(ledger, snapshot, actor, n_restored, refused, err));
}
