/* SPDX-License-Identifier: MIT */
/* A transaction, and the changes of a claim's life that every decision is made of. Each change writes
 * the record, its slots, its name and its event together, so that they cannot disagree. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "ledger/rows.h"

#include "base/banned.h"

enum {
    /* Upkeep rides along with every so many events, so that a ledger that only ever sees short-lived
     * processes stays bounded too. */
    TRIM_EVERY_EVENTS = 4096,
    BEATEN_MAX = 1024, /* attempts to decide; the deadline is sooner: each asks etcd twice at least */
};

/* Whoever comes after one that has waited in vain does not wait as long again (INV-9). */
static void open_group(struct ledger *ledger)
{
    struct rows *rows = ledger->rows;
    struct ledger_group *group = &ledger->group;

    ledger_read_end(ledger);
    dibs_status s = rows->ops->begin(rows, true, true, &group->span.why);
    if (s == DIBS_OK) {
        s = rows->ops->tail(rows, &group->span.before, &group->cursor, &group->span.why);
        if (s != DIBS_OK)
            rows->ops->rollback(rows);
    }
    group->span.why.code = s;
    group->is_open = s == DIBS_OK;
    group->span.after = group->span.before;
}

static dibs_status join_group(struct ledger_tx *tx, struct ledger *ledger, bool is_full,
                              const struct ledger_actor *actor, dibs_err *err)
{
    struct rows *rows = ledger->rows;
    struct ledger_group *group = &ledger->group;

    if (group->is_spoilt)
        return err_trouble(err, DIBS_TROUBLE_NONE, "a request that shares its commit with this one failed");
    if (!group->is_open && group->span.why.code == DIBS_OK)
        open_group(ledger);
    if (!group->is_open) {
        if (err)
            *err = group->span.why;
        return group->span.why.code;
    }
    group->is_full = group->is_full || is_full;
    *tx = (struct ledger_tx){ .rows = rows,
                              .actor = actor,
                              .seq = group->span.after,
                              .cursor = group->cursor,
                              .ledger = ledger,
                              .is_inner = true,
                              .group = group,
                              .changes = rows->ops->changes(rows) };
    return DIBS_OK;
}

dibs_status tx_begin(struct ledger_tx *tx, struct ledger *ledger, bool is_write, bool is_full,
                     const struct ledger_actor *actor, dibs_err *err)
{
    struct rows *rows = ledger->rows;

    if (ledger->group.is_on && is_write)
        return join_group(tx, ledger, is_full || ledger->options.is_sync_full, actor, err);
    if ((ledger->is_reading || ledger->group.is_open) && !is_write) {
        *tx = (struct ledger_tx){ .rows = rows, .actor = actor, .is_inner = true };
        return DIBS_OK;
    }
    ledger_read_end(ledger);
    dibs_status s = rows->ops->begin(rows, is_write, is_full || ledger->options.is_sync_full, err);

    if (s != DIBS_OK)
        return s;
    *tx = (struct ledger_tx){ .rows = rows, .actor = actor, .ledger = ledger };
    if (!is_write)
        return DIBS_OK;
    return rows->ops->tail(rows, &tx->seq, &tx->cursor, err);
}

/* Known only now: a name may have had its claim already, and others may have ended. Whoever has too many by
 * other ways may still do what makes them no more. */
static dibs_status check_allowance(const struct ledger_tx *tx, dibs_err *err)
{
    const struct ledger_allowance *a = tx->actor ? tx->actor->allowance : NULL;

    if (!a || tx->n_more <= 0 || a->n + tx->n_more <= a->max)
        return DIBS_OK;
    return err_set(err, DIBS_EXHAUSTED, "%s has %u claims here, and may have %u: release some first",
                   tx->actor->principal, a->n, a->max);
}

static void use_allowance(const struct ledger_tx *tx)
{
    struct ledger_allowance *a = tx->actor ? tx->actor->allowance : NULL;

    if (a)
        a->n = a->n + tx->n_more > 0 ? (uint32_t) (a->n + tx->n_more) : 0;
}

dibs_status tx_commit(struct ledger_tx *tx, dibs_err *err)
{
    struct rows *rows = tx->rows;
    struct ledger_group *group = tx->group;
    dibs_status s = check_allowance(tx, err);

    if (s != DIBS_OK)
        return s;
    if (!group)
        s = rows->ops->commit(rows, err);
    else if (tx->is_saved)
        s = rows->ops->forget(rows, err);
    if (s != DIBS_OK)
        return s;
    if (group) {
        group->span.after = tx->seq;
        group->cursor = tx->cursor;
    }
    use_allowance(tx);
    tx->rows = NULL;
    return DIBS_OK;
}

bool ledger_is_shared(const struct ledger *ledger)
{
    return ledger->rows->ops->is_shared;
}

bool ledger_place(const struct ledger *ledger, uint32_t *rank, uint32_t *n)
{
    *rank = *n = 0;
    return ledger->rows->ops->place && ledger->rows->ops->place(ledger->rows, rank, n);
}

const struct ledger_traffic *ledger_traffic(const struct ledger *ledger)
{
    return ledger->rows->ops->traffic ? ledger->rows->ops->traffic(ledger->rows) : NULL;
}

bool ledger_was_beaten(const struct ledger *ledger)
{
    return ledger->rows->ops->was_beaten && ledger->rows->ops->was_beaten(ledger->rows);
}

bool ledger_was_cut(const struct ledger *ledger)
{
    return ledger->rows->ops->was_cut && ledger->rows->ops->was_cut(ledger->rows);
}

bool tx_again(const struct ledger *ledger, dibs_status s, unsigned *n)
{
    return s == DIBS_UNAVAILABLE && !ledger->group.is_on && ledger_was_beaten(ledger) && ++*n < BEATEN_MAX;
}

dibs_status tx_save(struct ledger_tx *tx, dibs_err *err)
{
    dibs_status s = tx->group ? tx->rows->ops->save(tx->rows, err) : DIBS_OK;

    tx->is_saved = tx->group && s == DIBS_OK;
    return s;
}

/* Nothing of a group stays when a part of it cannot be undone alone. */
static void leave_group(struct ledger_tx *tx)
{
    struct rows *rows = tx->rows;

    if (tx->is_saved && rows->ops->undo(rows, NULL) == DIBS_OK)
        return;
    if (!tx->is_saved && rows->ops->changes(rows) == tx->changes)
        return;
    rows->ops->rollback(rows);
    tx->group->is_open = false;
    tx->group->is_spoilt = true;
}

void tx_auto(struct ledger_tx *tx)
{
    if (tx->rows && tx->group)
        leave_group(tx);
    else if (tx->rows && !tx->is_inner)
        tx->rows->ops->rollback(tx->rows);
    tx->rows = NULL;
}

void ledger_tell_writes(struct ledger *ledger, ledger_wrote_fn fn, void *ctx)
{
    ledger->wrote = fn;
    ledger->wrote_ctx = ctx;
}

void ledger_group_begin(struct ledger *ledger)
{
    ledger->group = (struct ledger_group){ .is_on = true };
    ledger->clear.protos = 0;
}

static unsigned protos_of(const dibs_binding *bindings, size_t n)
{
    unsigned protos = 0;

    for (size_t i = 0; i < n; i++)
        protos |= 1u << bindings[i].proto;
    return protos;
}

static bool is_of_nobody(void *ctx, const struct ledger_slot *slot)
{
    bool *has_claim = ctx;

    *has_claim = slot->claim_id != 0;
    return !*has_claim;
}

size_t ledger_group_clear(struct ledger *ledger, const dibs_binding *bindings, size_t n_bindings,
                          uint16_t *ports, size_t n)
{
    struct rows *rows = ledger->rows;
    struct ledger_clear *clear = &ledger->clear;
    unsigned protos = protos_of(bindings, n_bindings);
    size_t n_clear = 0;

    if (!ledger->group.is_open)
        return 0;
    if (clear->protos != protos)
        *clear = (struct ledger_clear){ .protos = protos };
    for (size_t i = 0; i < n; i++) {
        bool has_claim = false;

        for (dibs_proto proto = DIBS_TCP; proto <= DIBS_SCTP && !has_claim; proto++)
            if ((protos & 1u << proto) &&
                rows->ops->slots(rows, proto, ports[i], is_of_nobody, &has_claim, NULL) != DIBS_OK)
                return n_clear;
        if (has_claim)
            continue;
        portbits_add(&clear->ports, ports[i]);
        ports[n_clear++] = ports[i];
    }
    return n_clear;
}

bool tx_is_clear(const struct ledger_tx *tx, const dibs_claim *claim, uint16_t port)
{
    if (!tx->group) /* who only looks has no ledger, either */
        return false;
    const struct ledger_clear *clear = &tx->ledger->clear;
    return clear->protos != 0 && clear->protos == protos_of(claim->bindings, claim->n_bindings) &&
           portbits_has(&clear->ports, port);
}

void ledger_group_open(struct ledger *ledger)
{
    ledger_start_call(ledger); /* or it would have what time the last one has left */
    if (!ledger->group.is_open)
        open_group(ledger);
}

/* Whether it must be synced is known only now. */
static dibs_status commit_group(struct rows *rows, bool is_full, dibs_err *err)
{
    if (!is_full && rows->ops->spare_sync)
        rows->ops->spare_sync(rows);
    return rows->ops->commit(rows, err);
}

dibs_status ledger_group_commit(struct ledger *ledger, struct ledger_span *out, dibs_err *err)
{
    struct ledger_group group = ledger->group;
    dibs_status s = DIBS_OK;

    ledger->group = (struct ledger_group){ 0 };
    if (group.is_spoilt)
        return err_trouble(err, DIBS_TROUBLE_NONE, "a request that shares its commit with this one failed");
    if (group.is_open && ledger_was_beaten(ledger)) /* one of them saw that already: all decide anew */
        s = err_trouble(err, DIBS_TROUBLE_LOCKED, "others change the ledger all the time; try again");
    else if (group.is_open)
        s = commit_group(ledger->rows, group.is_full, err);
    if (s != DIBS_OK)
        ledger->rows->ops->rollback(ledger->rows);
    if (s == DIBS_OK && out)
        *out = group.span;
    return s;
}

dibs_status ledger_read_begin(struct ledger *ledger, dibs_err *err)
{
    if (ledger->group.is_open) /* which sees one state as it is */
        return DIBS_OK;
    dibs_status s = ledger->rows->ops->begin(ledger->rows, false, false, err);

    ledger->is_reading = s == DIBS_OK;
    return s;
}

void ledger_read_end(struct ledger *ledger)
{
    if (ledger->is_reading)
        ledger->rows->ops->rollback(ledger->rows);
    ledger->is_reading = false;
}

dibs_status tx_trim(struct ledger_tx *tx, dibs_err *err)
{
    bool is_shared = tx->rows->ops->is_shared;
    uint64_t kept = is_shared ? DIBS_EVENTS_KEPT_SHARED : DIBS_EVENTS_KEPT;
    uint64_t oldest = tx->seq > kept ? tx->seq - kept : 0;

    return tx->rows->ops->trim(tx->rows, oldest,
                               is_shared ? DIBS_NAMES_REMEMBERED_SHARED : DIBS_NAMES_REMEMBERED,
                               tx->actor->now.boot_ms - DIBS_COOLDOWN_MAX_MS, &tx->actor->now, err);
}

dibs_status tx_event(struct ledger_tx *tx, dibs_event_kind kind, const dibs_claim *claim, dibs_err *err)
{
    dibs_event event = {
        .seq = ++tx->seq,
        .time_ms = tx->actor->now.wall_ms,
        .kind = kind,
        .claim_id = claim->id,
        .generation = claim->generation,
        .port = claim->port,
        .is_dynamic = claim->kind == DIBS_DYNAMIC,
        .actor_uid = tx->actor->uid,
        .actor_pid = tx->actor->pid,
    };

    for (size_t i = 0; i < claim->n_bindings; i++)
        event.protos |= (uint8_t) (1u << claim->bindings[i].proto);
    memcpy(event.principal, claim->principal, sizeof event.principal);
    memcpy(event.name, claim->name, sizeof event.name);
    if (kind == DIBS_EV_CLAIMED)
        tx->cursor++;
    dibs_status s = tx->rows->ops->event_put(tx->rows, &event, tx->cursor, err);
    if (s == DIBS_OK && tx->ledger->wrote)
        tx->ledger->wrote(tx->ledger->wrote_ctx, &event, claim);
    if (s == DIBS_OK && tx->seq % TRIM_EVERY_EVENTS == 0)
        s = tx_trim(tx, err);
    return s;
}

dibs_status tx_pool_event(struct ledger_tx *tx, const char *name, dibs_err *err)
{
    dibs_claim about = { 0 };

    memcpy(about.principal, tx->actor->principal, strnlen(tx->actor->principal, DIBS_PRINCIPAL_MAX));
    memcpy(about.name, name, strnlen(name, DIBS_POOL_NAME_MAX));
    return tx_event(tx, DIBS_EV_POOL, &about, err);
}

dibs_status tx_pool_put(struct ledger_tx *tx, const dibs_pool *pool, dibs_err *err)
{
    dibs_status s = tx->rows->ops->pool_put(tx->rows, pool, err);

    return s == DIBS_OK ? tx_pool_event(tx, pool->name, err) : s;
}

void tx_lease(const struct ledger_tx *tx, dibs_claim *claim)
{
    if (claim->holder == DIBS_HELD_BY_LEASE)
        claim->lease_until_ms = tx->actor->now.boot_ms + claim->lease_ttl_ms;
}

dibs_status tx_put_name(struct ledger_tx *tx, const dibs_claim *claim, uint64_t claim_id, dibs_err *err)
{
    struct row_name name = { .claim_id = claim_id, .port = claim->port, .used_ms = tx->actor->now.wall_ms };

    memcpy(name.project, claim->project, sizeof name.project);
    return tx->rows->ops->name_put(tx->rows, claim->principal, claim->name, &name, err);
}

bool tx_lease_runs(const dibs_claim *claim, int64_t boot_ms)
{
    return claim->lease_ttl_ms > 0 && claim->lease_until_ms > boot_ms;
}

static bool is_own(const struct ledger_tx *tx, const dibs_claim *claim)
{
    return tx->actor->allowance && strcmp(claim->principal, tx->actor->principal) == 0;
}

static dibs_status put_slots(struct ledger_tx *tx, const dibs_claim *claim, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    if (tx->group)
        portbits_remove(&tx->ledger->clear.ports, claim->port);
    for (size_t i = 0; i < claim->n_bindings && s == DIBS_OK; i++) {
        struct ledger_slot slot = {
            .proto = claim->bindings[i].proto,
            .port = claim->port,
            .address = claim->bindings[i].address,
            .claim_id = claim->id,
            .is_exclusive = claim->is_exclusive,
        };
        s = tx->rows->ops->slot_put(tx->rows, &slot, err);
    }
    return s;
}

static dibs_status new_secret(struct ledger_tx *tx, struct row_claim *row, dibs_err *err)
{
    struct ledger_group *group = tx->group;

    if (!group)
        return codec_secret(row->secret, err);
    if (group->n_secrets == 0) {
        dibs_status s = codec_secrets(group->secrets, LEDGER_SECRETS, err);

        if (s != DIBS_OK)
            return s;
        group->n_secrets = LEDGER_SECRETS;
    }
    memcpy(row->secret, group->secrets[--group->n_secrets], ROWS_SECRET_BYTES);
    return DIBS_OK;
}

dibs_status tx_insert(struct ledger_tx *tx, const dibs_claim *template, uint16_t port, dibs_event_kind kind,
                      struct row_claim *row, dibs_err *err)
{
    row->claim = *template;
    row->claim.is_damaged = false;
    dibs_claim *c = &row->claim;
    /* The number of its first event is a claim's id: never used twice, and needs no counter of its own. */
    c->id = tx->rows->id_base + tx->seq + 1;
    c->generation = 1;
    c->port = port;
    c->created_ms = c->changed_ms = tx->actor->now.wall_ms;
    c->token[0] = '\0';
    if (kind == DIBS_EV_CLAIMED) /* what is restored goes on where it was */
        tx_lease(tx, c);
    assert(codec_claim_valid(c, NULL));
    tx->n_more += is_own(tx, c);

    dibs_status s = new_secret(tx, row, err);
    if (s == DIBS_OK)
        s = tx->rows->ops->claim_put(tx->rows, row, err);
    if (s == DIBS_OK)
        s = put_slots(tx, c, err);
    if (s == DIBS_OK && c->name[0])
        s = tx_put_name(tx, c, c->id, err);
    return s == DIBS_OK ? tx_event(tx, kind, c, err) : s;
}

void tx_left_name(const char *name, uint16_t port, char out[DIBS_NAME_MAX + 1])
{
    (void) snprintf(out, DIBS_NAME_MAX + 1, "%s/%u", name, port);
}

dibs_status tx_rename(struct ledger_tx *tx, dibs_claim *claim, const char *name, dibs_err *err)
{
    dibs_status s = tx_put_name(tx, claim, 0, err);

    (void) text_copy(claim->name, sizeof claim->name, name);
    return s == DIBS_OK ? tx_put_name(tx, claim, claim->id, err) : s;
}

void tx_unkeeps(struct ledger_tx *tx, const dibs_claim *was)
{
    if (tx->group && was->is_kept)
        tx->group->is_full = true;
}

dibs_status tx_change(struct ledger_tx *tx, struct row_claim *row, dibs_err *err)
{
    row->claim.changed_ms = tx->actor->now.wall_ms;
    dibs_status s = tx->rows->ops->claim_put(tx->rows, row, err);

    return s == DIBS_OK ? tx_event(tx, DIBS_EV_TRANSFERRED, &row->claim, err) : s;
}

dibs_status tx_rehold(struct ledger_tx *tx, struct row_claim *row, dibs_event_kind kind, dibs_err *err)
{
    row->claim.generation++;
    row->claim.changed_ms = tx->actor->now.wall_ms;
    dibs_status s = new_secret(tx, row, err);
    if (s == DIBS_OK)
        s = tx->rows->ops->claim_put(tx->rows, row, err);
    return s == DIBS_OK ? tx_event(tx, kind, &row->claim, err) : s;
}

/* The slot goes; a dynamic port leaves a mark that it cools (chosen last for a while). */
static dibs_status free_slots(struct ledger_tx *tx, const dibs_claim *claim, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < claim->n_bindings && s == DIBS_OK; i++) {
        struct ledger_slot slot = {
            .proto = claim->bindings[i].proto,
            .port = claim->port,
            .address = claim->bindings[i].address,
            .claim_id = claim->id,
        };
        s = tx->rows->ops->slot_delete(tx->rows, &slot, err);
        if (s != DIBS_OK || claim->kind != DIBS_DYNAMIC)
            continue;
        slot.claim_id = 0;
        slot.released_ms = tx->actor->now.boot_ms;
        s = tx->rows->ops->slot_put(tx->rows, &slot, err);
    }
    return s;
}

static dibs_status remember_name(struct ledger_tx *tx, const dibs_claim *claim, dibs_err *err)
{
    struct row_name name = { 0 };
    dibs_status s = tx->rows->ops->name_get(tx->rows, claim->principal, claim->name, &name, err);

    if (s == DIBS_NOT_FOUND || (s == DIBS_OK && name.claim_id != claim->id))
        return DIBS_OK; /* the name has moved on: not ours to touch */
    return s == DIBS_OK ? tx_put_name(tx, claim, 0, err) : s;
}

dibs_status tx_end(struct ledger_tx *tx, const struct row_claim *row, dibs_event_kind kind, dibs_err *err)
{
    const dibs_claim *c = &row->claim;
    dibs_status s = tx->rows->ops->claim_delete(tx->rows, c->id, err);

    tx->n_more -= is_own(tx, c);
    tx_unkeeps(tx, c);
    if (s == DIBS_OK)
        s = free_slots(tx, c, err);
    if (s == DIBS_OK && c->name[0])
        s = remember_name(tx, c, err);
    return s == DIBS_OK ? tx_event(tx, kind, c, err) : s;
}
