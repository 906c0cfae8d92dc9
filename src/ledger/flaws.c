/* SPDX-License-Identifier: MIT */
/* Claims beside their slots: which records are damaged, lost, or keep their port from nobody; and beside each
 * other and their names: which of them should not both be there. */
#include <stdlib.h>

#include "base/auto.h"
#include "base/err.h"
#include "ledger/rows.h"

#include "base/banned.h"

enum { SLOTS_MAX = 1 << 21 };

struct slot_list {
    struct ledger_slot *slot;
    size_t n, max;
    bool is_full;
};

struct walk {
    struct slot_list slots; /* of claims, by claim; claim_id 0 once it is known to have one */
    size_t at;
    bool is_stopped;
    row_flaw_fn fn;
    void *ctx;
};

static void slot_list_auto(struct slot_list *list)
{
    free(list->slot);
}

static void walk_auto(struct walk *w)
{
    slot_list_auto(&w->slots);
}

static bool keep_slot(void *ctx, const struct ledger_slot *slot)
{
    struct slot_list *list = ctx;

    if (slot->claim_id == 0)
        return true;
    if (list->n == list->max) {
        size_t max = list->max ? list->max * 2 : 64;
        struct ledger_slot *more = max > SLOTS_MAX ? NULL : reallocarray(list->slot, max, sizeof *more);

        list->is_full = !more;
        if (!more)
            return false;
        list->slot = more;
        list->max = max;
    }
    list->slot[list->n++] = *slot;
    return true;
}

static dibs_status no_room(dibs_err *err)
{
    return err_set(err, DIBS_FAILURE, "looking for damaged records: out of memory");
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

    for (; w->at < w->slots.n && w->slots.slot[w->at].claim_id <= row->claim.id; w->at++) {
        struct ledger_slot *slot = &w->slots.slot[w->at];

        if (slot->claim_id < row->claim.id)
            continue;
        n += slot->port == row->claim.port && slot->is_exclusive == row->claim.is_exclusive;
        slot->claim_id = 0;
    }
    if (row->claim.is_damaged)
        w->is_stopped = !w->fn(w->ctx, LEDGER_DAMAGED, row, 0);
    if (n < row->claim.n_bindings && !w->is_stopped)
        w->is_stopped = !w->fn(w->ctx, LEDGER_UNGUARDED, row, 0);
    return !w->is_stopped;
}

dibs_status rows_flaws(struct rows *rows, row_flaw_fn fn, void *ctx, dibs_err *err)
{
    AUTO(walk_auto) struct walk w = { .fn = fn, .ctx = ctx };
    struct slot_list *list = &w.slots;
    struct ledger_filter all = { 0 };
    dibs_status s = rows->ops->slots(rows, DIBS_TCP, 0, keep_slot, list, err);

    if (s == DIBS_OK && list->is_full)
        s = no_room(err);
    if (s == DIBS_OK && list->n > 1)
        qsort(list->slot, list->n, sizeof list->slot[0], by_claim);
    if (s == DIBS_OK)
        s = rows->ops->claims(rows, &all, match, &w, err);
    for (size_t i = 0, next = 0; i < list->n && s == DIBS_OK && !w.is_stopped; i = next) {
        struct row_claim lost;

        codec_make_lost(&lost, list->slot[i].claim_id, list->slot[i].port);
        for (next = i; next < list->n && by_claim(&list->slot[next], &list->slot[i]) == 0; next++)
            codec_add_binding(&lost.claim, &list->slot[next]);
        if (lost.claim.id != 0)
            w.is_stopped = !fn(ctx, LEDGER_LOST, &lost, 0);
    }
    return s;
}

/* ---- claims that should not both be there ---- */

struct look {
    struct rows *rows;
    struct slot_list own; /* what exclusive claims say that they have, whatever the slots say */
    ledger_flaw_fn fn;
    void *ctx;
    dibs_status status;
    bool is_stopped;
    dibs_err *err;
};

static void look_auto(struct look *l)
{
    slot_list_auto(&l->own);
}

static void tell(struct look *l, enum ledger_flaw flaw, const dibs_claim *claim, uint64_t other)
{
    if (!l->is_stopped)
        l->is_stopped = !l->fn(l->ctx, flaw, claim, other);
}

static bool pass_on(void *ctx, enum ledger_flaw flaw, const struct row_claim *row, uint64_t other)
{
    struct look *l = ctx;

    tell(l, flaw, &row->claim, other);
    return !l->is_stopped;
}

static dibs_status check_name(struct look *l, const dibs_claim *claim)
{
    struct row_name name = { 0 };
    struct row_claim other = { 0 };
    dibs_status s = l->rows->ops->name_get(l->rows, claim->principal, claim->name, &name, l->err);

    if (s == DIBS_OK && name.claim_id == claim->id)
        return DIBS_OK;
    if (s == DIBS_OK && name.claim_id != 0)
        s = l->rows->ops->claim_get(l->rows, name.claim_id, &other, l->err);
    if (s != DIBS_OK && s != DIBS_NOT_FOUND)
        return s;
    bool is_namesake = other.claim.id != 0 && codec_is_named(&other.claim, claim->principal, claim->name);
    tell(l, is_namesake ? LEDGER_NAMESAKE : LEDGER_MISNAMED, claim, name.claim_id);
    return DIBS_OK;
}

static bool look_at(void *ctx, const struct row_claim *row)
{
    struct look *l = ctx;
    const dibs_claim *c = &row->claim;

    if (c->is_damaged)
        return true;
    for (size_t i = 0; i < c->n_bindings && c->is_exclusive; i++)
        (void) keep_slot(&l->own, &(struct ledger_slot){ .proto = c->bindings[i].proto,
                                                         .port = c->port,
                                                         .address = c->bindings[i].address,
                                                         .claim_id = c->id });
    if (c->name[0])
        l->status = check_name(l, c);
    if (l->own.is_full)
        l->status = no_room(l->err);
    return l->status == DIBS_OK && !l->is_stopped;
}

static int by_port(const void *a, const void *b)
{
    const struct ledger_slot *x = a;
    const struct ledger_slot *y = b;

    if (x->port != y->port)
        return (int) x->port - (int) y->port;
    if (x->proto != y->proto)
        return (int) x->proto - (int) y->proto;
    return x->claim_id < y->claim_id ? -1 : x->claim_id > y->claim_id;
}

/* The newer one conflicts with the older. */
static void find_conflicts(struct look *l)
{
    const struct ledger_slot *own = l->own.slot;
    uint64_t told = 0;

    if (l->own.n > 1)
        qsort(l->own.slot, l->own.n, sizeof own[0], by_port);
    for (size_t i = 0, first = 0; i < l->own.n && !l->is_stopped; i++) {
        if (own[i].port != own[first].port || own[i].proto != own[first].proto)
            first = i;
        for (size_t k = first; k < i && own[k].claim_id != own[i].claim_id && told != own[i].claim_id; k++) {
            if (!dibs_address_conflict(&own[k].address, &own[i].address))
                continue;
            told = own[i].claim_id;
            tell(l, LEDGER_CONFLICT, &(dibs_claim){ .id = told, .port = own[i].port }, own[k].claim_id);
        }
    }
}

dibs_status ledger_flaws(struct ledger *ledger, ledger_flaw_fn fn, void *ctx, dibs_err *err)
{
    AUTO(tx_auto) struct ledger_tx tx = { 0 };
    AUTO(look_auto) struct look l = { .fn = fn, .ctx = ctx, .err = err };
    struct ledger_filter all = { 0 };
    dibs_status s = tx_begin(&tx, ledger, false, false, NULL, err);

    l.rows = tx.rows;
    if (s == DIBS_OK)
        s = rows_flaws(tx.rows, pass_on, &l, err);
    if (s == DIBS_OK && !l.is_stopped)
        s = tx.rows->ops->claims(tx.rows, &all, look_at, &l, err);
    if (s == DIBS_OK)
        s = l.status;
    if (s == DIBS_OK)
        find_conflicts(&l);
    return s;
}
