/* SPDX-License-Identifier: MIT */
/* Check claims against their slots, their names and each other. */
#include <string.h>

#include "store/store.h"

#include "base/banned.h"

struct check {
    struct store *store;
    store_flaw_fn fn;
    void *ctx;
    bool is_stopped;
    dibs_status status;
    dibs_err *err;
    /* The claim being checked: */
    const dibs_claim *claim;
    const dibs_binding *binding;
    bool has_slot;      /* the current binding has its slot */
    uint64_t conflicts; /* id of a claim in conflict with this one; 0: none */
    /* The slot being checked: */
    uint64_t claim_id;
    bool is_known; /* already reported for another protocol */
};

static void report(struct check *c, enum ledger_flaw flaw, const dibs_claim *claim, uint64_t other)
{
    if (!c->is_stopped)
        c->is_stopped = !c->fn(c->ctx, flaw, claim, other);
}

static bool compare_slot(void *ctx, const struct ledger_slot *slot)
{
    struct check *c = ctx;
    const dibs_address *address = &c->binding->address;
    bool is_own = slot->claim_id == c->claim->id;

    if (is_own && slot->is_exclusive == c->claim->is_exclusive && slot->address.len == address->len &&
        memcmp(slot->address.bytes, address->bytes, address->len) == 0)
        c->has_slot = true;
    if (!is_own && slot->claim_id != 0 && slot->is_exclusive && c->claim->is_exclusive &&
        dibs_address_conflict(&slot->address, address))
        c->conflicts = slot->claim_id;
    return true;
}

/* Check a claim's slots. Of two claims in conflict, report the newer, or the one that a slot reveals. */
static dibs_status check_slots(struct check *c, const dibs_claim *claim)
{
    struct claim_record other = { 0 };
    bool is_guarded = true;
    dibs_status s = DIBS_OK;

    c->claim = claim;
    c->conflicts = 0;
    for (size_t i = 0; i < claim->n_bindings && s == DIBS_OK; i++) {
        c->binding = &claim->bindings[i];
        c->has_slot = false;
        s = c->store->ops->slots(c->store, c->binding->proto, claim->port, compare_slot, c, c->err);
        is_guarded = is_guarded && c->has_slot;
    }
    if (s != DIBS_OK)
        return s;
    if (!is_guarded)
        report(c, LEDGER_UNGUARDED, claim, 0);
    if (c->conflicts == 0 || (is_guarded && c->conflicts > claim->id))
        return DIBS_OK;
    s = store_get_claim(c->store, c->conflicts, &other, c->err);
    if (s == DIBS_OK && !other.claim.is_damaged && other.claim.port == claim->port)
        report(c, LEDGER_CONFLICT, claim, c->conflicts);
    return s == DIBS_NOT_FOUND ? DIBS_OK : s;
}

static dibs_status check_name(struct check *c, const dibs_claim *claim)
{
    struct name_record name = { 0 };
    struct claim_record other = { 0 };
    dibs_status s = store_get_name(c->store, claim->principal, claim->name, &name, c->err);

    if (s == DIBS_OK && name.claim_id == claim->id)
        return DIBS_OK;
    if (s == DIBS_OK && name.claim_id != 0)
        s = store_get_claim(c->store, name.claim_id, &other, c->err);
    if (s != DIBS_OK && s != DIBS_NOT_FOUND)
        return s;
    bool is_namesake = other.claim.id != 0 && record_is_named(&other.claim, claim->principal, claim->name);
    report(c, is_namesake ? LEDGER_NAMESAKE : LEDGER_MISNAMED, claim, name.claim_id);
    return DIBS_OK;
}

static bool check_claim(void *ctx, const struct claim_record *row)
{
    struct check *c = ctx;

    if (row->claim.is_damaged) {
        report(c, LEDGER_DAMAGED, &row->claim, 0);
        return !c->is_stopped;
    }
    c->status = check_slots(c, &row->claim);
    if (c->status == DIBS_OK && row->claim.name[0])
        c->status = check_name(c, &row->claim);
    return c->status == DIBS_OK && !c->is_stopped;
}

static bool is_same_claim(void *ctx, const struct ledger_slot *slot)
{
    struct check *c = ctx;

    c->is_known = c->is_known || slot->claim_id == c->claim_id;
    return !c->is_known;
}

/* Report a slot whose claim is gone, once for all protocols of a port. */
static bool check_slot(void *ctx, const struct ledger_slot *slot)
{
    struct check *c = ctx;
    struct claim_record row;

    if (slot->claim_id == 0 || (c->is_known && slot->claim_id == c->claim_id))
        return true;
    dibs_status s = store_get_claim(c->store, slot->claim_id, &row, c->err);
    if (s == DIBS_OK)
        return true;
    c->status = s == DIBS_NOT_FOUND ? DIBS_OK : s;
    c->claim_id = slot->claim_id;
    c->is_known = false;
    for (dibs_proto proto = DIBS_TCP; proto < slot->proto && c->status == DIBS_OK && !c->is_known; proto++)
        c->status = c->store->ops->slots(c->store, proto, slot->port, is_same_claim, c, c->err);
    if (c->status == DIBS_OK && !c->is_known) {
        record_make_lost(&row, slot->claim_id, slot->port);
        record_add_binding(&row.claim, slot);
        report(c, LEDGER_LOST, &row.claim, 0);
        c->is_known = true;
    }
    return c->status == DIBS_OK && !c->is_stopped;
}

dibs_status store_flaws(struct store *store, store_flaw_fn fn, void *ctx, dibs_err *err)
{
    struct check c = { .store = store, .fn = fn, .ctx = ctx, .err = err };
    struct ledger_filter all = { 0 };
    dibs_status s = store->ops->claims(store, &all, check_claim, &c, err);

    if (s == DIBS_OK)
        s = c.status;
    if (s == DIBS_OK && !c.is_stopped)
        s = store->ops->slots(store, DIBS_TCP, 0, check_slot, &c, err);
    return s == DIBS_OK ? c.status : s;
}
