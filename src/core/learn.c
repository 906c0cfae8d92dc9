/* SPDX-License-Identifier: MIT */
/* Learning from a refusal: those in the way are judged, the plan is widened, or nothing is left to try.
 * Holders are judged here, between two transactions, never inside one (P9). */
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "core/attempt.h"

#include "base/banned.h"

bool attempt_is_late(const struct attempt *a)
{
    return core_now(a->core).boot_ms >= a->deadline_ms;
}

void attempt_forget_foreign(struct core *core, int64_t now_ms)
{
    struct core_foreign *foreign = &core->foreign;

    if (now_ms - foreign->since_ms <= FOREIGN_LAST_MS && now_ms >= foreign->since_ms)
        return;
    memset(&foreign->ports, 0, sizeof foreign->ports);
    foreign->since_ms = now_ms;
}

static void note_foreign(struct attempt *a)
{
    for (size_t i = 0; i < a->refusal.n_busy; i++)
        portbits_add(&a->core->foreign.ports, a->refusal.busy[i]);
}

/* Are all who stand in the way dead, some of them newly so? */
static bool all_dead(struct attempt *a)
{
    bool is_new = false;
    bool is_all = a->refusal.n_blockers > 0;

    for (size_t i = 0; i < a->refusal.n_blockers && is_all; i++) {
        dibs_claim *b = &a->refusal.blockers[i];

        is_all = b->n_bindings > 0 && !b->is_kept && core_judge(a->core, b, NULL, 0) == DIBS_DEAD;
        is_new = is_all && (attempt_add_dead(a, b) || is_new);
    }
    return is_all && is_new;
}

struct grave_search {
    struct attempt *a;
    uint64_t until_id; /* 0: to the end */
    size_t wanted;     /* of new ones */
    size_t n_new, n_old;
    uint16_t old[SPARE_MAX]; /* dead in an earlier round too */
};

static bool search_graves(void *ctx, const dibs_claim *claim)
{
    struct grave_search *g = ctx;
    dibs_claim judged = *claim;
    bool is_member = false;

    if (g->until_id && claim->id > g->until_id)
        return false;
    for (size_t p = 0; p < g->a->n_plans; p++)
        is_member = is_member || portbits_has(&g->a->plans[p].choosable, claim->port);
    if (!is_member || claim->is_kept || core_judge(g->a->core, &judged, NULL, 0) != DIBS_DEAD)
        return !attempt_is_late(g->a);
    if (attempt_add_dead(g->a, claim))
        g->a->dead_ports[g->n_new++] = claim->port;
    else if (g->n_old < SPARE_MAX)
        g->old[g->n_old++] = claim->port;
    return g->n_new < g->wanted && g->n_new < DEAD_MAX && !attempt_is_late(g->a);
}

static bool note_id(void *ctx, const dibs_claim *claim)
{
    *(uint64_t *) ctx = claim->id;
    return false;
}

/* Claims of dead holders, from a random place on: where a crowd needs them, all would else reach for the same
 * few and most would come too late. New ones go first; those of earlier rounds may still serve a batch. */
static dibs_status find_graves(struct attempt *a, bool *is_any, dibs_err *err)
{
    enum { SEARCHES_MAX = 32 }; /* where holders die all the time, even a full pool always has new ones */
    struct grave_search g = { .a = a, .wanted = a->batch->n + 8 };
    struct ledger_filter held = { .held_only = true };
    uint64_t seq = 0;
    uint64_t cursor = 0;
    uint64_t first = 0;

    *is_any = false;
    if (a->n_searches++ == SEARCHES_MAX)
        return DIBS_OK;
    dibs_status s = ledger_tail(a->core->ledger, &seq, &cursor, err);
    if (s != DIBS_OK)
        return s;
    s = ledger_list(a->core->ledger, &held, note_id, &first, err);
    if (s != DIBS_OK)
        return s;
    /* Ids are numbers of events: those in use begin far from 1. */
    held.after_id = first + core_random(a->core) % (seq >= first ? seq - first + 1 : 1);
    s = ledger_list(a->core->ledger, &held, search_graves, &g, err);
    if (s == DIBS_OK && held.after_id > 0 && g.n_new < g.wanted && !attempt_is_late(a)) {
        g.until_id = held.after_id;
        held.after_id = 0;
        s = ledger_list(a->core->ledger, &held, search_graves, &g, err);
    }
    *is_any = g.n_new > 0 ||
              attempt_is_late(a); /* too late to know: that is the deadline, not the end of the pool */
    a->n_dead_ports = g.n_new;
    for (size_t i = 0; i < g.n_old && a->n_dead_ports < DEAD_MAX; i++)
        a->dead_ports[a->n_dead_ports++] = g.old[i];
    return s;
}

/* Others were faster than we with what the index had promised, or it had promised too much (it does not know
 * addresses): that does not mean that nothing is left. */
static bool is_outrun(struct attempt *a)
{
    enum { STALE_MAX = 64 };
    const struct ledger_want *want = &a->wants[0];

    if (a->stage == STAGE_BLIND || a->stage >= STAGE_DEAD)
        return false;
    /* Of a batch it cannot be said which ones the ledger refused and which ones its own members had. */
    if (a->batch->is_contiguous)
        return want->n_candidates > 0 && a->n_stale++ < STALE_MAX;
    if (a->batch->n > 1)
        return a->wants[a->refusal.want].n_candidates > 0 && a->n_stale++ < STALE_MAX;
    for (size_t i = 0; i < want->n_candidates; i++)
        portbits_add(&a->tried, want->candidates[i]);
    return want->n_candidates > 0;
}

static dibs_status escalate(struct attempt *a, bool *again, dibs_err *err)
{
    struct core *core = a->core;

    *again = true;
    core->has_cursor = false;
    if (a->refusal.n_busy > 0 && a->stage != STAGE_BLIND)
        return DIBS_OK; /* the busy ones are passed over now: there is something new to try */
    if (is_outrun(a))
        return core_index_refresh(core, err);
    a->is_fresh = a->is_fresh || !core->index.is_loaded;
    if (a->stage < STAGE_DEAD)
        a->stage++;
    if (a->stage == STAGE_RELOADED && a->is_fresh)
        a->stage = STAGE_DEAD;
    if (a->stage == STAGE_RELOADED)
        core->index.is_loaded = false;
    if (a->stage < STAGE_DEAD)
        return core_index_refresh(core, err);
    dibs_status s = find_graves(a, again, err);
    /* In a run the dead are not candidates: the index forgets them instead. */
    for (size_t i = 0; a->batch->is_contiguous && i < a->n_dead_ports; i++)
        for (dibs_proto proto = DIBS_TCP; proto <= DIBS_SCTP; proto++)
            portbits_remove(&core->index.taken[proto], a->dead_ports[i]);
    return s;
}

/* After TAKEN or EXHAUSTED: *again when another round makes sense. */
dibs_status attempt_react(struct attempt *a, dibs_status status, bool *again, dibs_err *err)
{
    struct ledger_refusal *r = &a->refusal;
    struct ledger_want *want = &a->wants[r->want];
    struct ask *ask = &a->asks[r->want];

    *again = false;
    note_foreign(a);
    if (r->by_name) {
        const dibs_claim *b = &r->blockers[0];

        if (r->n_blockers > 0 && want->claim.project[0] && strcmp(b->project, want->claim.project) != 0) {
            dibs_status s = attempt_look_up_name(a, r->want, err);

            /* Somebody took the plain name between our look and the transaction. */
            *again = strcmp(b->name, want->claim.name) != 0;
            return s;
        }
        if (r->n_blockers > 0 && core_judge(a->core, &r->blockers[0], NULL, 0) == DIBS_DEAD)
            *again = attempt_add_dead(a, &r->blockers[0]);
        return DIBS_OK;
    }
    if (status == DIBS_EXHAUSTED)
        return escalate(a, again, err);
    *again = !r->is_busy && all_dead(a);
    if (!*again && ask->request->mode == DIBS_PREFERRED) {
        request_set_choice(ask, want, true);
        (void) text_copy(want->claim.pool, sizeof want->claim.pool, ask->plan->pool.name);
        *again = true;
    }
    return DIBS_OK;
}
