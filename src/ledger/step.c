/* SPDX-License-Identifier: MIT */
/* Changes to a claim. Each writes the record, its slots, its name and its event, so that they agree. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "ledger/step.h"

#include "base/banned.h"

/* Trim once per this many events, so that a ledger used only by short-lived processes stays bounded, too. */
enum { TRIM_EVERY_EVENTS = 4096 };

void ledger_tell_writes(struct ledger *ledger, ledger_wrote_fn fn, void *ctx)
{
    ledger->wrote = fn;
    ledger->wrote_ctx = ctx;
}

dibs_status step_trim(struct step *step, dibs_err *err)
{
    bool is_shared = step->store->ops->cluster != NULL;
    uint64_t kept = is_shared ? DIBS_EVENTS_KEPT_SHARED : DIBS_EVENTS_KEPT;
    const struct store_bounds bounds = {
        .oldest_seq = step->seq > kept ? step->seq - kept : 0,
        .names_kept = is_shared ? DIBS_NAMES_REMEMBERED_SHARED : DIBS_NAMES_REMEMBERED,
        .cooled_ms = step->call->now.boot_ms - DIBS_COOLDOWN_MAX_MS,
        .until_ms = step->call->now.boot_ms,
    };

    return step->store->ops->trim(step->store, &bounds, err);
}

dibs_status step_event(struct step *step, dibs_event_kind kind, const dibs_claim *claim, dibs_err *err)
{
    step->cursor += kind == DIBS_EV_CLAIMED;
    struct event_record row = {
        .event.seq = ++step->seq,
        .event.time_ms = step->call->now.wall_ms,
        .event.kind = kind,
        .event.claim_id = claim->id,
        .event.generation = claim->generation,
        .event.port = claim->port,
        .event.is_dynamic = claim->kind == DIBS_DYNAMIC,
        .event.actor_uid = step->call->uid,
        .event.actor_pid = step->call->pid,
        .cursor = step->cursor,
    };

    for (size_t i = 0; i < claim->n_bindings; i++)
        row.event.protos |= (uint8_t) (1u << claim->bindings[i].proto);
    memcpy(row.event.principal, claim->principal, sizeof row.event.principal);
    memcpy(row.event.name, claim->name, sizeof row.event.name);
    dibs_status s = step->store->ops->put(step->store, EVENTS, &row, err);
    if (s == DIBS_OK && step->ledger->wrote)
        step->ledger->wrote(step->ledger->wrote_ctx, &row.event, claim);
    if (s == DIBS_OK && step->seq % TRIM_EVERY_EVENTS == 0)
        s = step_trim(step, err);
    return s;
}

dibs_status step_pool_event(struct step *step, const char *name, dibs_err *err)
{
    dibs_claim about = { 0 };

    memcpy(about.principal, step->call->principal, strnlen(step->call->principal, DIBS_PRINCIPAL_MAX));
    memcpy(about.name, name, strnlen(name, DIBS_POOL_NAME_MAX));
    return step_event(step, DIBS_EV_POOL, &about, err);
}

dibs_status step_pool_put(struct step *step, const dibs_pool *pool, dibs_err *err)
{
    dibs_status s = step->store->ops->put(step->store, POOLS, pool, err);

    return s == DIBS_OK ? step_pool_event(step, pool->name, err) : s;
}

void step_lease(const struct step *step, dibs_claim *claim)
{
    if (claim->holder == DIBS_HELD_BY_LEASE)
        claim->lease_until_ms = step->call->now.boot_ms + claim->lease_ttl_ms;
}

void step_hold(const struct step *step, dibs_claim *claim, const dibs_claim *by)
{
    claim->holder = by->holder;
    claim->process = by->process;
    claim->lease_ttl_ms = by->lease_ttl_ms;
    claim->lease_until_ms = 0;
    step_lease(step, claim);
    claim->uid = by->uid;
    claim->netns = by->netns;
    memcpy(claim->command, by->command, sizeof claim->command);
    memcpy(claim->env, by->env, sizeof claim->env);
}

dibs_status ledger_check_right(const struct call *call, const dibs_claim *claim, dibs_err *err)
{
    if (call->is_admin || strcmp(call->principal, claim->principal) == 0)
        return DIBS_OK;
    return err_set(err, DIBS_DENIED, "the claim on port %u belongs to %s; you are %s", claim->port,
                   claim->principal, call->principal);
}

dibs_status step_put_name(struct step *step, const dibs_claim *claim, uint64_t claim_id, dibs_err *err)
{
    struct name_record name = { .claim_id = claim_id,
                                .port = claim->port,
                                .used_ms = step->call->now.wall_ms };

    memcpy(name.principal, claim->principal, sizeof name.principal);
    memcpy(name.name, claim->name, sizeof name.name);
    memcpy(name.project, claim->project, sizeof name.project);
    return step->store->ops->put(step->store, NAMES, &name, err);
}

bool step_lease_runs(const dibs_claim *claim, int64_t boot_ms)
{
    return claim->lease_ttl_ms > 0 && claim->lease_until_ms > boot_ms;
}

static bool is_own(const struct step *step, const dibs_claim *claim)
{
    return step->call->allowance && strcmp(claim->principal, step->call->principal) == 0;
}

dibs_status step_insert(struct step *step, const dibs_claim *template, uint16_t port, dibs_event_kind kind,
                        struct claim_record *row, dibs_err *err)
{
    row->claim = *template;
    dibs_claim *c = &row->claim;
    /* These members are only for answers. */
    c->was_there = c->was_kept = c->is_degraded = c->is_narrowed = c->is_orphan = c->is_damaged = false;
    c->life = DIBS_ALIVE;
    /* A claim's id is the number of its first event: unique, without a counter of its own. */
    c->id = step->store->id_base + step->seq + 1;
    c->generation = 1;
    c->port = port;
    c->created_ms = c->changed_ms = step->call->now.wall_ms;
    c->token[0] = '\0';
    if (kind == DIBS_EV_CLAIMED) /* a restored claim keeps its lease */
        step_lease(step, c);
    assert(record_claim_valid(c, NULL));
    step->n_more += is_own(step, c);

    dibs_status s = record_secret(row->secret, err);
    if (s == DIBS_OK)
        s = store_put_claim(step->store, row, err);
    if (s == DIBS_OK && c->name[0])
        s = step_put_name(step, c, c->id, err);
    return s == DIBS_OK ? step_event(step, kind, c, err) : s;
}

void step_left_name(const char *name, uint16_t port, char out[DIBS_NAME_MAX + 1])
{
    (void) snprintf(out, DIBS_NAME_MAX + 1, "%s/%u", name, port);
}

dibs_status step_rename(struct step *step, dibs_claim *claim, const char *name, dibs_err *err)
{
    dibs_status s = step_put_name(step, claim, 0, err);

    (void) text_copy(claim->name, sizeof claim->name, name);
    return s == DIBS_OK ? step_put_name(step, claim, claim->id, err) : s;
}

void step_unkeeps(struct step *step, const dibs_claim *was)
{
    if (step->tx && was->is_kept && !step->tx->is_full)
        step->tx->lacks_sync = true;
}

dibs_status step_change(struct step *step, struct claim_record *row, dibs_event_kind kind, dibs_err *err)
{
    row->claim.changed_ms = step->call->now.wall_ms;
    dibs_status s = step->store->ops->put(step->store, CLAIMS, row, err);

    return s == DIBS_OK ? step_event(step, kind, &row->claim, err) : s;
}

dibs_status step_rehold(struct step *step, struct claim_record *row, dibs_event_kind kind, dibs_err *err)
{
    dibs_status s = record_secret(row->secret, err);

    row->claim.generation++;
    return s == DIBS_OK ? step_change(step, row, kind, err) : s;
}

/* Remove the claim's slots. A dynamic port keeps one with claim 0 while it cools. */
static dibs_status free_slots(struct step *step, const dibs_claim *claim, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < claim->n_bindings && s == DIBS_OK; i++) {
        struct ledger_slot slot = record_slot(claim, i);

        s = step->store->ops->erase(step->store, SLOTS, &slot, err);
        if (s != DIBS_OK || claim->kind != DIBS_DYNAMIC)
            continue;
        slot.claim_id = 0;
        slot.is_exclusive = false;
        slot.released_ms = step->call->now.boot_ms;
        s = step->store->ops->put(step->store, SLOTS, &slot, err);
    }
    return s;
}

static dibs_status remember_name(struct step *step, const dibs_claim *claim, dibs_err *err)
{
    struct name_record name = { 0 };
    dibs_status s = store_get_name(step->store, claim->principal, claim->name, &name, err);

    if (s == DIBS_NOT_FOUND || (s == DIBS_OK && name.claim_id != claim->id))
        return DIBS_OK; /* the name belongs to another claim now */
    return s == DIBS_OK ? step_put_name(step, claim, 0, err) : s;
}

dibs_status step_end(struct step *step, const struct claim_record *row, dibs_event_kind kind, dibs_err *err)
{
    const dibs_claim *c = &row->claim;
    dibs_status s = step->store->ops->erase(step->store, CLAIMS, row, err);

    step->n_more -= is_own(step, c);
    step_unkeeps(step, c);
    if (s == DIBS_OK)
        s = free_slots(step, c, err);
    if (s == DIBS_OK && c->name[0])
        s = remember_name(step, c, err);
    return s == DIBS_OK ? step_event(step, kind, c, err) : s;
}
