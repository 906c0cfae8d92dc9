/* SPDX-License-Identifier: MIT */
/* Claims of holders that have died. Death is told by the watch, the end of a lease by the timer; both only
 * say whom to look at, and the engine's own judgement decides (INV-5): a socket that is still bound keeps its
 * claim. First all are judged, then those that are dead end in one short transaction (P9). */
#include <stdlib.h>
#include <sys/timerfd.h>

#include "base/clock.h"
#include "base/err.h"
#include "daemon/engine_parts.h"
#include "lib/handle.h"

#include "base/banned.h"

static bool add_id(struct ids *ids, uint64_t id)
{
    if (ids->n == ids->max) {
        size_t max = ids->max ? 2 * ids->max : 64;
        uint64_t *larger = realloc(ids->id, max * sizeof *larger);

        if (!larger)
            return false;
        ids->id = larger;
        ids->max = max;
    }
    ids->id[ids->n++] = id;
    return true;
}

void engine_add_due(struct engine *e, struct held *held)
{
    if (!held->is_due)
        held->is_due = add_id(&e->due, held->id);
}

void engine_died(void *ctx, const dibs_process *who)
{
    struct engine *e = ctx;

    for (struct held *held = held_of(e->held, who); held; held = held->more) {
        held->has_died = true;
        engine_add_due(e, held);
    }
}

static void find_ended_leases(struct engine *e, int64_t now_ms)
{
    struct held *first = held_first_lease(e->held);

    while (first && first->until_ms <= now_ms) {
        held_stop_waiting(e->held, first);
        engine_add_due(e, first);
        first = held_first_lease(e->held);
    }
    int64_t next_ms = first ? first->until_ms : 0;
    if (e->lingering.n > 0 && (next_ms == 0 || e->linger_ms < next_ms))
        next_ms = e->linger_ms;
    if (next_ms == e->timer_ms)
        return;
    /* Our clock is the host's; the timer's is that of our time namespace. */
    int64_t at_ns = next_ms * 1000000 + e->handle->core->view.boot_offset_ns;
    struct itimerspec at = { .it_value = { at_ns / 1000000000, at_ns % 1000000000 } };
    if (next_ms == 0)
        at = (struct itimerspec){ 0 };
    if (timerfd_settime(e->timer.fd, TFD_TIMER_ABSTIME, &at, NULL) == 0)
        e->timer_ms = next_ms;
}

static void look_again(struct engine *e, int64_t now_ms)
{
    size_t n = e->lingering.n;

    if (n == 0 || now_ms < e->linger_ms)
        return;
    e->lingering.n = 0;
    for (size_t i = 0; i < n; i++) {
        struct held *held = held_find(e->held, e->lingering.id[i]);

        if (held) {
            held->is_due = false;
            engine_add_due(e, held);
        }
    }
}

static void linger(struct engine *e, struct held *held, int64_t now_ms)
{
    if (e->lingering.n == 0)
        e->linger_ms = now_ms + LINGER_MS;
    held->is_due = add_id(&e->lingering, held->id);
}

/* Fills `seen` with those of a step that are dead. */
static size_t judge_due(struct engine *e, struct ledger_seen *seen, int64_t now_ms)
{
    struct core *core = e->handle->core;
    size_t n = 0;

    if (e->due.n > 1) {
        core_judge_begin(core);
        (void) ledger_read_begin(core->ledger, NULL); /* without, each look is one by itself */
    }
    for (size_t i = 0; i < DUE_MAX && e->due.n > 0; i++) {
        struct held *held = held_find(e->held, e->due.id[--e->due.n]);
        dibs_claim claim;

        if (!held || !held->is_due)
            continue; /* it has changed hands or ended meanwhile */
        held->is_due = false;
        if (ledger_find_id(core->ledger, held->id, &claim, NULL) != DIBS_OK ||
            claim.generation != held->generation)
            continue; /* its event is still to come */
        dibs_life life =
            held->has_died ? core_judge_bereft(core, &claim, NULL, 0) : core_judge(core, &claim, NULL, 0);
        if (life == DIBS_DEAD)
            seen[n++] = (struct ledger_seen){ claim.id, claim.generation, claim.lease_until_ms };
        else if (claim.holder == DIBS_HELD_BY_PROCESS || claim.lease_until_ms <= now_ms)
            linger(e, held, now_ms);
    }
    ledger_read_end(core->ledger);
    core_judge_end(core);
    return n;
}

/* What was just reaped: the index must know at once that those ports cool, or it would take the lower band
 * for all that is left (INV-8). Each has written one change; more are of an attempt that came to nothing. */
static void follow_reaped(struct engine *e, size_t n, int64_t now_ms)
{
    if (e->n_written != n || n > WRITTEN_MAX) {
        engine_follow(e);
        return;
    }
    for (size_t i = 0; i < n; i++)
        if (e->written[i].event.kind == DIBS_EV_REAPED)
            core_index_note_end(e->handle->core, &e->written[i].claim, now_ms);
    engine_follow_group(e, &(struct ledger_span){ .before = e->written[0].event.seq - 1,
                                                  .after = e->written[n - 1].event.seq });
}

static void upkeep(struct engine *e, const struct ledger_actor *actor)
{
    size_t damaged = 0;

    if (clock_monotonic_ms() < e->upkeep_ms)
        return;
    e->upkeep_ms = clock_monotonic_ms() + UPKEEP_EVERY_MS;
    if (ledger_upkeep(e->handle->core->ledger, actor, &damaged, NULL) == DIBS_OK)
        e->counts.damaged += damaged;
    engine_follow(e);
}

void engine_reap(struct engine *e)
{
    struct core *core = e->handle->core;
    struct ledger_seen seen[DUE_MAX];
    struct ledger_actor actor = core_actor(core, core_now(core));
    size_t ended = 0;
    dibs_err err = { 0 };

    look_again(e, actor.now.boot_ms);
    find_ended_leases(e, actor.now.boot_ms);
    ledger_start_call(core->ledger);
    size_t n = e->due.n > 0 ? judge_due(e, seen, actor.now.boot_ms) : 0;
    e->n_written = 0;
    if (n > 0 && ledger_end(core->ledger, &(struct ledger_ending){ seen, n, LEDGER_END_REAP }, &actor, &ended,
                            &err) != DIBS_OK) {
        engine_note_trouble(e, &err);
        for (size_t i = 0; i < n; i++) { /* a locked or full ledger: later */
            struct held *held = held_find(e->held, seen[i].id);

            if (held)
                linger(e, held, actor.now.boot_ms);
        }
    }
    e->counts.reaped += ended;
    if (ended > 0)
        follow_reaped(e, ended, actor.now.boot_ms);
    find_ended_leases(e, actor.now.boot_ms);
    upkeep(e, &actor);
}
