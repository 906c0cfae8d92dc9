/* SPDX-License-Identifier: MIT */
/* Claiming: plan candidates, let the ledger decide, and learn from its refusal.
 *
 * A choice escalates only as far as it must: first blind along the order (a cold process does not load the
 * whole index), then by the index, then by the index anew, then over the claims of dead holders. A number
 * that somebody named is tried once, and once more when those in its way turn out to be dead. Holders are
 * judged here, between two transactions, never inside one (P9). */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "core/request.h"
#include "kernel/kernel.h"

#include "base/banned.h"

enum {
    ROUNDS_MAX = 2048,     /* transactions of one call; the deadline is usually sooner */
    DEAD_MAX = 1024,       /* dead claims that one call may take over */
    PLANS_MAX = 16,        /* different pools (and protocols) in one batch */
    SPARE_MAX = 64,        /* candidates beyond one for each claim */
    EXACT_MAX = 16,        /* candidates for a single claim once the index is loaded */
    FOREIGN_LAST_MS = 5000 /* how long a port that the probe found busy is passed over */
};

enum stage { STAGE_BLIND, STAGE_INDEX, STAGE_CAUGHT_UP, STAGE_RELOADED, STAGE_DEAD, STAGE_END };

struct attempt {
    struct core *core;
    const dibs_batch *batch;
    struct ask *asks;
    struct ledger_want *wants;
    struct plan_pool *plans;
    size_t n_plans;
    uint16_t *candidates; /* of all wants */
    enum stage stage;
    bool is_fresh;         /* the index was loaded for this call */
    int n_stale;           /* rounds of a batch that others were faster in */
    int n_searches;        /* for the claims of dead holders */
    struct portbits tried; /* refused by the ledger in this call: not proposed again */
    struct ledger_seen dead[DEAD_MAX];
    size_t n_dead;
    uint16_t dead_ports[DEAD_MAX];
    size_t n_dead_ports;
    int64_t deadline_ms;
    struct ledger_refusal refusal;
};

static void attempt_free(struct attempt *a)
{
    if (!a)
        return;
    free(a->asks);
    free(a->wants);
    free(a->plans);
    free(a->candidates);
    free(a);
}
DEFINE_AUTO(struct attempt, attempt_free)

enum ledger_probe core_probe(void *ctx, const dibs_claim *claim, uint16_t port, dibs_err *err)
{
    (void) ctx;
    switch (kernel_probe(claim->bindings, claim->n_bindings, port, NULL, err)) {
    case KERNEL_FREE: return LEDGER_PROBE_FREE;
    case KERNEL_BUSY: return LEDGER_PROBE_BUSY;
    case KERNEL_ABORT: break;
    }
    return LEDGER_PROBE_ABORT;
}

/* ---- preparing ---- */

static bool same_plan(const struct plan_pool *plan, const dibs_pool *pool, const struct plan_pool *fresh)
{
    return strcmp(plan->pool.name, pool->name) == 0 && plan->protos == fresh->protos &&
           plan->is_specific == fresh->is_specific;
}

static dibs_status find_plan(struct attempt *a, size_t i, dibs_err *err)
{
    const dibs_request *r = a->asks[i].request;
    struct plan_pool *fresh = &a->plans[a->n_plans];
    dibs_pool pool;
    dibs_status s = core_pool(a->core, r->pool, r->ranges, &pool, err);

    if (s != DIBS_OK)
        return s;
    plan_pool_init(a->core, &pool, &a->wants[i].claim, fresh);
    a->asks[i].plan = NULL;
    for (size_t n = 0; n < a->n_plans && !a->asks[i].plan; n++)
        if (same_plan(&a->plans[n], &pool, fresh))
            a->asks[i].plan = &a->plans[n];
    if (!a->asks[i].plan) {
        if (a->n_plans == PLANS_MAX)
            return err_set(err, DIBS_INVALID, "a batch may use at most %d different pools", PLANS_MAX);
        a->asks[i].plan = fresh;
        a->n_plans++;
    }
    a->wants[i].cooldown_ms = pool.cooldown_ms;
    core_index_remember(a->core, pool.cooldown_ms);
    bool is_member = r->mode == DIBS_RANDOM || dibs_ranges_contain(&pool.ranges, r->port);
    /* A pool that was named binds its user; the default one does not (K9). */
    if (!is_member && (r->ranges || r->pool) && r->mode != DIBS_DECLARED) {
        char text[DIBS_RANGES_TEXT_MAX + 1];

        dibs_ranges_format(&pool.ranges, text);
        return err_set(err, DIBS_INVALID,
                       "port %u is not in the valid range of pool '%s'; valid ports are %.200s", r->port,
                       pool.name, text);
    }
    if (is_member)
        (void) text_copy(a->wants[i].claim.pool, sizeof a->wants[i].claim.pool, pool.name);
    return DIBS_OK;
}

static bool add_dead(struct attempt *a, const dibs_claim *claim)
{
    for (size_t i = 0; i < a->n_dead; i++)
        if (a->dead[i].id == claim->id) {
            bool is_new = a->dead[i].generation != claim->generation ||
                          a->dead[i].lease_until_ms != claim->lease_until_ms;

            a->dead[i].generation = claim->generation;
            a->dead[i].lease_until_ms = claim->lease_until_ms;
            return is_new;
        }
    if (a->n_dead == DEAD_MAX)
        return false;
    a->dead[a->n_dead++] = (struct ledger_seen){ claim->id, claim->generation, claim->lease_until_ms };
    return true;
}

/* The name's own story before anything is probed: which name, its last port, and whether its holder lives. */
static dibs_status look_up_name(struct attempt *a, size_t i, dibs_err *err)
{
    struct ledger_want *want = &a->wants[i];
    char name[DIBS_NAME_MAX + 1];
    dibs_claim claim;
    dibs_status s = core_name(a->core, a->asks[i].request->name, want->claim.project, name, err);

    if (s != DIBS_OK)
        return s;
    (void) text_copy(want->claim.name, sizeof want->claim.name, name);
    s = ledger_find_name(a->core->ledger, want->claim.principal, name, &claim, &want->remembered, err);
    if (s == DIBS_NOT_FOUND)
        return DIBS_OK;
    if (s == DIBS_OK && core_judge(a->core, &claim, NULL, 0) == DIBS_DEAD)
        (void) add_dead(a, &claim);
    return s;
}

static dibs_status check_contiguous(const struct attempt *a, dibs_err *err)
{
    const dibs_request *first = &a->batch->requests[0];

    if (!a->batch->is_contiguous)
        return a->batch->align > 1 ? err_set(err, DIBS_INVALID, "an alignment needs a contiguous batch")
                                   : DIBS_OK;
    if (a->batch->align > DIBS_PORT_MAX)
        return err_set(err, DIBS_INVALID, "an alignment is at most %d", DIBS_PORT_MAX);
    for (size_t i = 0; i < a->batch->n; i++) {
        const dibs_request *r = &a->batch->requests[i];

        if (r->mode != DIBS_RANDOM || a->asks[i].plan != a->asks[0].plan ||
            r->n_bindings != first->n_bindings)
            return err_set(err, DIBS_INVALID,
                           "a contiguous batch has random requests of one pool and kind only");
    }
    return DIBS_OK;
}

static dibs_status prepare(struct attempt *a, dibs_err *err)
{
    size_t n = a->batch->n;
    dibs_status s = DIBS_OK;

    a->asks = calloc(n, sizeof *a->asks);
    a->wants = calloc(n, sizeof *a->wants);
    a->plans = calloc((n < PLANS_MAX ? n : PLANS_MAX) + 1, sizeof *a->plans); /* 17 KiB each */
    a->candidates = calloc(n == 1 ? SPARE_MAX + 2 : n * (SPARE_MAX + 3), sizeof *a->candidates);
    if (!a->asks || !a->wants || !a->plans || !a->candidates)
        return err_set(err, DIBS_FAILURE, "claiming: out of memory");
    for (size_t i = 0; i < n && s == DIBS_OK; i++) {
        s = request_prepare(a->core, &a->batch->requests[i], &a->asks[i], &a->wants[i], err);
        if (s == DIBS_OK && !a->asks[i].is_noop)
            s = find_plan(a, i, err);
    }
    if (s == DIBS_OK)
        s = check_contiguous(a, err);
    if (s == DIBS_OK && n > 1)
        s = request_names_differ(a->wants, n, err);
    for (size_t i = 0; i < n && s == DIBS_OK; i++)
        if (a->wants[i].claim.name[0] && !a->asks[i].is_noop)
            s = look_up_name(a, i, err);
    return s;
}

/* ---- planning ---- */

static dibs_status read_cursor(struct core *core, dibs_err *err)
{
    uint64_t seq = 0;

    if (core->has_cursor)
        return DIBS_OK;
    dibs_status s = ledger_tail(core->ledger, &seq, &core->cursor, err);
    core->has_cursor = s == DIBS_OK;
    return s;
}

/* Not when the probe found it busy a moment ago, or the ledger refused it: every round must have something
 * new to try. */
static bool may_choose(const struct attempt *a, const struct plan_pool *plan, uint16_t port)
{
    return port != 0 && portbits_has(&plan->choosable, port) && !portbits_has(&a->tried, port) &&
           !portbits_has(&a->core->foreign.ports, port);
}

/* As far as the index knows; without it the ledger passes over what cools. */
static bool is_cooling(const struct attempt *a, const struct plan_pool *plan, uint16_t port)
{
    bool is_found = false;

    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_SCTP && a->stage != STAGE_BLIND; proto++)
        is_found = is_found || ((plan->protos & 1u << proto) &&
                                core_index_is_cooling(a->core, proto, port, plan->pool.cooldown_ms));
    return is_found;
}

static size_t plan_list(struct attempt *a, struct plan_pool *plan, const dibs_claim *claim, uint16_t *out,
                        size_t max)
{
    if (a->stage == STAGE_BLIND)
        return plan_blind(a->core, plan, claim, a->core->cursor, out, max);
    size_t n = 0;

    if (a->stage != STAGE_DEAD) {
        struct plan_pool untried = *plan;

        portbits_subtract(&untried.choosable, &a->tried);
        return plan_exact(a->core, &untried, claim, a->core->cursor, out, max);
    }
    for (size_t i = 0; i < a->n_dead_ports && n < max; i++)
        if (portbits_has(&plan->choosable, a->dead_ports[i]) &&
            !portbits_has(&a->core->foreign.ports, a->dead_ports[i]))
            out[n++] = a->dead_ports[i];
    return n;
}

/* Every want that dibs chooses for: its name's ports, one of its own, and the spare ones that all share. */
static dibs_status plan_choices(struct attempt *a, struct plan_pool *plan, uint16_t **buffer, dibs_err *err)
{
    size_t n_choices = 0;
    const struct ledger_want *any = NULL;

    for (size_t i = 0; i < a->batch->n; i++)
        if (a->asks[i].plan == plan && a->asks[i].is_choice && !a->asks[i].is_noop) {
            any = &a->wants[i];
            n_choices++;
        }
    if (n_choices == 0)
        return DIBS_OK;
    size_t max = n_choices > 1 ? n_choices + SPARE_MAX : a->stage == STAGE_BLIND ? SPARE_MAX : EXACT_MAX;
    AUTO(free_auto) uint16_t *list = calloc(max, sizeof *list);
    if (!list)
        return err_set(err, DIBS_FAILURE, "claiming: out of memory");
    size_t n = plan_list(a, plan, &any->claim, list, max);
    size_t next = 0;

    for (size_t i = 0; i < a->batch->n; i++) {
        struct ledger_want *want = &a->wants[i];
        uint16_t *to = *buffer;
        uint16_t preferred = 0;

        if (a->asks[i].plan != plan || !a->asks[i].is_choice || a->asks[i].is_noop)
            continue;
        if (want->claim.name[0])
            preferred = plan_name_port(a->core, plan, want->claim.name);
        if (may_choose(a, plan, want->remembered))
            *to++ = want->remembered;
        if (preferred != want->remembered && may_choose(a, plan, preferred) &&
            !is_cooling(a, plan, preferred))
            *to++ = preferred;
        if (next < n && next < n_choices)
            *to++ = list[next++];
        for (size_t k = n_choices; k < n; k++)
            *to++ = list[k];
        want->candidates = *buffer;
        want->n_candidates = (size_t) (to - *buffer);
        want->accepts_cooling = a->stage != STAGE_BLIND;
        *buffer = to;
    }
    return DIBS_OK;
}

static dibs_status plan(struct attempt *a, dibs_err *err)
{
    uint16_t *buffer = a->candidates;
    dibs_status s = read_cursor(a->core, err);

    if (s == DIBS_OK && a->batch->is_contiguous) {
        struct ledger_want *first = &a->wants[0];

        first->candidates = buffer;
        first->n_candidates =
            plan_runs(a->core, a->asks[0].plan, (uint32_t) a->batch->n, a->batch->align, buffer, SPARE_MAX);
        for (size_t i = 0; i < a->batch->n; i++)
            a->wants[i].accepts_cooling = true;
        return DIBS_OK;
    }
    for (size_t p = 0; p < a->n_plans && s == DIBS_OK; p++)
        s = plan_choices(a, &a->plans[p], &buffer, err);
    return s;
}

/* ---- learning from a refusal ---- */

static bool is_late(const struct attempt *a)
{
    return core_now(a->core).boot_ms >= a->deadline_ms;
}

static void forget_foreign(struct core *core, int64_t now_ms)
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
        is_new = is_all && (add_dead(a, b) || is_new);
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
        return !is_late(g->a);
    if (add_dead(g->a, claim))
        g->a->dead_ports[g->n_new++] = claim->port;
    else if (g->n_old < SPARE_MAX)
        g->old[g->n_old++] = claim->port;
    return g->n_new < g->wanted && g->n_new < DEAD_MAX && !is_late(g->a);
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
    if (s == DIBS_OK && held.after_id > 0 && g.n_new < g.wanted && !is_late(a)) {
        g.until_id = held.after_id;
        held.after_id = 0;
        s = ledger_list(a->core->ledger, &held, search_graves, &g, err);
    }
    *is_any = g.n_new > 0 || is_late(a); /* too late to know: that is the deadline, not the end of the pool */
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

    if (a->stage == STAGE_BLIND || a->stage >= STAGE_DEAD || a->batch->is_contiguous)
        return false;
    /* Of a batch it cannot be said which ones the ledger refused and which ones its own members had. */
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
static dibs_status react(struct attempt *a, dibs_status status, bool *again, dibs_err *err)
{
    struct ledger_refusal *r = &a->refusal;
    struct ledger_want *want = &a->wants[r->want];
    struct ask *ask = &a->asks[r->want];

    *again = false;
    note_foreign(a);
    if (r->by_name) {
        const dibs_claim *b = &r->blockers[0];

        if (r->n_blockers > 0 && b->project[0] && want->claim.project[0] &&
            strcmp(b->project, want->claim.project) != 0) {
            *again = true; /* somebody took the plain name between our look and the transaction */
            return look_up_name(a, r->want, err);
        }
        if (r->n_blockers > 0 && core_judge(a->core, &r->blockers[0], NULL, 0) == DIBS_DEAD)
            *again = add_dead(a, &r->blockers[0]);
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

/* ---- the call ---- */

static dibs_status exhausted(const struct attempt *a, dibs_err *err)
{
    const struct plan_pool *plan = a->asks[a->refusal.want].plan;
    char ranges[DIBS_RANGES_TEXT_MAX + 1];
    uint32_t withheld = portbits_count(&plan->members) - portbits_count(&plan->choosable);

    dibs_ranges_format(&plan->pool.ranges, ranges);
    return err_set(err, DIBS_EXHAUSTED,
                   "no %s left in pool '%s' (%.200s): %u of its %u ports are withheld (ephemeral, reserved "
                   "or blocked by "
                   "browsers), too few of the others are free; see 'dibs ls' and 'dibs pool'",
                   a->batch->is_contiguous ? "contiguous run of that length" : "free port", plan->pool.name,
                   ranges, withheld, plan->size);
}

/* One claim of the kind that dibs chooses for, without a name to look up, and no candidate: the ledger would
 * have nothing to decide, and in a crowd asking it means to queue. */
static bool is_hopeless(struct attempt *a)
{
    if (a->batch->n != 1 || a->batch->is_contiguous || !a->asks[0].is_choice || a->wants[0].claim.name[0] ||
        a->wants[0].n_candidates > 0)
        return false;
    memset(&a->refusal, 0, sizeof a->refusal);
    return true;
}

static dibs_status rounds(struct attempt *a, dibs_claim *out, dibs_err *err)
{
    struct ledger_batch batch = {
        .wants = a->wants,
        .n = a->batch->n,
        .is_contiguous = a->batch->is_contiguous,
        .is_dry_run = a->batch->is_dry_run,
        .dead = a->dead,
        .probe = core_probe,
        .probe_ctx = a->core,
    };
    dibs_status s = DIBS_OK;

    for (int round = 0; round < ROUNDS_MAX; round++) {
        struct ledger_actor actor = core_actor(a->core, core_now(a->core));
        bool again = false;

        batch.n_dead = a->n_dead;
        s = plan(a, err);
        if (s == DIBS_OK)
            s = is_hopeless(a) ? DIBS_EXHAUSTED
                               : ledger_claim(a->core->ledger, &batch, &actor, out, &a->refusal, err);
        if (s != DIBS_TAKEN && s != DIBS_EXHAUSTED)
            return s;
        dibs_status learned = react(a, s, &again, err);
        if (learned != DIBS_OK)
            return learned;
        if (!again)
            break;
        if (is_late(a))
            return err_trouble(err, DIBS_TROUBLE_NONE, "no port could be claimed within the timeout");
    }
    if (s == DIBS_EXHAUSTED)
        return exhausted(a, err);
    return core_refuse(a->core, &a->wants[a->refusal.want].claim, &a->refusal, s, err);
}

/* Requests that create nothing are taken out; the others move up. `out` is spread again afterwards. */
static size_t drop_noops(struct attempt *a, size_t *where)
{
    size_t kept = 0;

    for (size_t i = 0; i < a->batch->n; i++) {
        if (a->asks[i].is_noop)
            continue;
        where[kept] = i;
        if (kept != i) {
            a->asks[kept] = a->asks[i];
            a->wants[kept] = a->wants[i];
        }
        kept++;
    }
    return kept;
}

static void answer(struct attempt *a, const size_t *where, size_t kept, size_t n, dibs_claim *out)
{
    for (size_t i = kept; i-- > 0;) {
        dibs_claim *claim = &out[i];

        claim->is_narrowed = a->asks[i].is_narrowed;
        claim->life = DIBS_ALIVE;
        if (a->batch->is_dry_run) {
            claim->token[0] = '\0';
            claim->id = claim->was_there ? claim->id : 0;
        } else if (!claim->was_there) {
            core_index_note_claim(a->core, claim);
            a->core->cursor++;
        }
        if (where[i] != i)
            out[where[i]] = *claim;
    }
    for (size_t i = 0, k = 0; i < n; i++) {
        if (k < kept && where[k] == i)
            k++;
        else
            memset(&out[i], 0, sizeof out[i]);
    }
}

dibs_status core_claim(struct core *core, const dibs_batch *batch, dibs_claim *out, dibs_err *err)
{
    AUTO(attempt_free_auto) struct attempt *a = calloc(1, sizeof *a);
    AUTO(free_auto) size_t *where = calloc(batch->n + 1, sizeof *where);
    dibs_batch used = *batch;

    if (batch->n == 0)
        return DIBS_OK;
    if (batch->n > DIBS_BATCH_MAX)
        return err_set(err, DIBS_INVALID, "a batch has at most %d claims", DIBS_BATCH_MAX);
    if (!a || !where)
        return err_set(err, DIBS_FAILURE, "claiming: out of memory");
    a->core = core;
    a->batch = batch;
    a->deadline_ms = core_now(core).boot_ms + core->options.settings->timeout_ms;
    forget_foreign(core, a->deadline_ms - core->options.settings->timeout_ms);
    dibs_status s = prepare(a, err);
    if (s != DIBS_OK)
        return s;
    a->stage = core->index.is_loaded ? STAGE_INDEX : STAGE_BLIND;
    if (batch->is_contiguous && !core->index.is_loaded) {
        a->stage = STAGE_RELOADED; /* a run is found in the index or not at all */
        s = core_index_refresh(core, err);
        if (s != DIBS_OK)
            return s;
    }
    used.n = drop_noops(a, where);
    a->batch = &used;
    if (used.n > 0)
        s = rounds(a, out, err);
    if (s == DIBS_OK)
        answer(a, where, used.n, batch->n, out);
    return s;
}
