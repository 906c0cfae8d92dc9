/* SPDX-License-Identifier: MIT */
/* Finds claims of dead holders that block a request, between two transactions of the call (P9). */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/grow.h"
#include "core/attempt.h"
#include "net/bindings.h"

#include "base/banned.h"

enum { DEAD_MAX = 1 << 20 }; /* 24 MiB; the deadline comes sooner */

/* Return the index of the claim in the list, or where to insert it. */
static size_t place_of(const struct attempt *a, uint64_t id)
{
    size_t low = 0;
    size_t high = a->n_dead;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (a->dead[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool attempt_is_dead(const struct attempt *a, uint64_t id)
{
    size_t at = place_of(a, id);

    return at < a->n_dead && a->dead[at].id == id;
}

/* Return whether this claim was already judged dead. Dead is final, so no claim is judged twice. */
static bool is_known(const struct attempt *a, const dibs_claim *claim)
{
    size_t at = place_of(a, claim->id);

    return at < a->n_dead && a->dead[at].id == claim->id && a->dead[at].generation == claim->generation &&
           a->dead[at].lease_until_ms == claim->lease_until_ms;
}

bool attempt_add_dead(struct attempt *a, const dibs_claim *claim)
{
    size_t at = place_of(a, claim->id);

    if (is_known(a, claim))
        return false;
    if (!attempt_is_dead(a, claim->id)) {
        if (a->n_dead == DEAD_MAX || !grow((void **) &a->dead, a->n_dead, &a->max_dead, sizeof *a->dead))
            return false;
        memmove(&a->dead[at + 1], &a->dead[at], (a->n_dead - at) * sizeof a->dead[0]);
        a->n_dead++;
    }
    a->dead[at] = (struct ledger_seen){ claim->id, claim->generation, claim->lease_until_ms };
    return true;
}

/* ---- one port ---- */

struct port_look {
    struct attempt *a;
    const dibs_claim *wanted; /* NULL: all claims on the port count */
    dibs_claim *living;       /* gets a claim whose holder is alive; may be NULL */
    bool is_clear, is_new;
};

static bool judge_one(void *ctx, const dibs_claim *claim)
{
    struct port_look *look = ctx;
    dibs_claim judged = *claim;

    if (!claim->is_exclusive ||
        (look->wanted && !bindings_conflict(look->wanted->bindings, look->wanted->n_bindings, claim->bindings,
                                            claim->n_bindings)) ||
        is_known(look->a, claim))
        return true;
    if (!claim->is_kept && core_judge(look->a->core, &look->a->call, NULL, &judged, NULL) == DIBS_DEAD) {
        look->is_new = attempt_add_dead(look->a, claim) || look->is_new;
        return !attempt_is_late(look->a);
    }
    look->is_clear = false;
    if (look->living)
        *look->living = judged;
    return !look->wanted; /* one live blocker is enough to refuse */
}

/* Judge all claims on `port` that block look->wanted. */
static dibs_status judge_port(struct port_look *look, uint16_t port, dibs_err *err)
{
    const struct ledger_filter on_port = { .port = port };

    look->is_clear = true;
    return ledger_list(look->a->core->ledger, &look->a->call, &on_port, judge_one, look, err);
}

dibs_status attempt_judge_blockers(struct attempt *a, bool *again, dibs_err *err)
{
    struct ledger_refusal *r = &a->refusal;
    struct port_look look = { .a = a, .wanted = &a->wants[r->want].claim, .living = &r->blocker };

    *again = false;
    if (!r->has_blocker || r->blocker.is_damaged) /* a damaged record has no holder to judge */
        return DIBS_OK;
    dibs_status s = judge_port(&look, r->port, err);
    if (s != DIBS_OK)
        return s;
    if (!look.is_clear)
        return DIBS_OK;
    /* Judge the other numbers of the batch now, not one in each round. */
    for (size_t i = r->want + 1; i < a->batch->n && s == DIBS_OK && !attempt_is_late(a); i++) {
        struct port_look other = { .a = a, .wanted = &a->wants[i].claim };

        if (a->asks[i].is_in_run) {
            size_t first = a->asks[i].run_first;

            if (a->wants[first].run_base)
                s = judge_port(&other, (uint16_t) (a->wants[first].run_base + (i - first)), err);
        } else if (!a->asks[i].is_choice)
            s = judge_port(&other, a->wants[i].candidates[0], err);
    }
    *again = look.is_new || attempt_is_late(a);
    return s;
}

/* ---- search a full pool ---- */

struct dead_search {
    struct attempt *a;
    uint64_t until_id; /* 0: to the end */
    size_t wanted;     /* ports that were not proposed yet */
    size_t n_new, n_old;
    uint16_t old[SPARE_MAX]; /* proposed in an earlier round: they may still serve a batch */
    struct portbits found;
    bool is_new; /* found a holder that was not known to be dead */
};

static bool note_dead_port(void *ctx, const dibs_claim *claim)
{
    struct dead_search *g = ctx;
    struct attempt *a = g->a;
    dibs_claim judged = *claim;
    bool is_member = false;

    if (g->until_id && claim->id > g->until_id)
        return false;
    for (size_t p = 0; p < a->n_sources; p++)
        is_member = is_member || portbits_has(&a->sources[p]->choosable, claim->port);
    if (!is_member || claim->is_kept ||
        (!is_known(a, claim) && core_judge(a->core, &a->call, NULL, &judged, NULL) != DIBS_DEAD))
        return !attempt_is_late(a);
    g->is_new = attempt_add_dead(a, claim) || g->is_new;
    if (!portbits_has(&g->found, claim->port)) {
        portbits_add(&g->found, claim->port);
        if (!attempt_has(a->proposed_dead, claim->port))
            a->dead_ports[g->n_new++] = claim->port;
        else if (g->n_old < SPARE_MAX)
            g->old[g->n_old++] = claim->port;
    }
    return g->n_new < g->wanted && !attempt_is_late(a);
}

static bool note_id(void *ctx, const dibs_claim *claim)
{
    *(uint64_t *) ctx = claim->id;
    return false;
}

/* Search from a random id, so that concurrent requests do not compete for the same few ports. */
static dibs_status search(struct dead_search *g, dibs_err *err)
{
    struct core *core = g->a->core;
    struct ledger_filter held = { .held_only = true };
    uint64_t seq = 0;
    uint64_t cursor = 0;
    uint64_t first = 0;
    dibs_status s = ledger_tail(core->ledger, &g->a->call, &seq, &cursor, err);

    if (s == DIBS_OK)
        s = ledger_list(core->ledger, &g->a->call, &held, note_id, &first, err);
    if (s != DIBS_OK)
        return s;
    /* Ids are event numbers: the oldest in use may be far from 1. */
    held.after_id = first + core_random(core) % (seq >= first ? seq - first + 1 : 1);
    s = ledger_list(core->ledger, &g->a->call, &held, note_dead_port, g, err);
    if (s == DIBS_OK && held.after_id > 0 && g->n_new < g->wanted && !attempt_is_late(g->a)) {
        g->until_id = held.after_id;
        held.after_id = 0;
        s = ledger_list(core->ledger, &g->a->call, &held, note_dead_port, g, err);
    }
    return s;
}

/* Judge all claims on each port found. For a single claim, skip ports that a live holder blocks. */
static dibs_status inspect(struct attempt *a, size_t n_found, dibs_err *err)
{
    dibs_status s = DIBS_OK;
    bool is_uniform = a->batch->n == 1;

    a->n_dead_ports = 0;
    for (size_t i = 0; i < n_found && s == DIBS_OK && !attempt_is_late(a); i++) {
        struct port_look look = { .a = a, .wanted = is_uniform ? &a->wants[0].claim : NULL };
        uint16_t port = a->dead_ports[i];

        s = judge_port(&look, port, err);
        portbits_add(a->proposed_dead, port);
        if (look.is_clear || !is_uniform)
            a->dead_ports[a->n_dead_ports++] = port;
    }
    return s;
}

dibs_status attempt_find_dead(struct attempt *a, bool *is_any, dibs_err *err)
{
    enum { SEARCHES_MAX = 32 }; /* where holders die all the time, even a full pool always has new ones */
    size_t wanted = a->has_run ? DIBS_PORT_MAX : a->batch->n + 8;
    dibs_status s = DIBS_OK;
    bool goes_on = a->n_searches++ < SEARCHES_MAX;

    *is_any = false;
    if (!a->dead_ports)
        a->dead_ports = calloc(DIBS_PORT_MAX + 1 + SPARE_MAX, sizeof *a->dead_ports);
    if (!a->proposed_dead)
        a->proposed_dead = calloc(1, sizeof *a->proposed_dead);
    if (!a->dead_ports || !a->proposed_dead)
        return err_set(err, DIBS_FAILURE, "claiming: out of memory");
    while (goes_on && s == DIBS_OK) {
        struct dead_search g = { .a = a, .wanted = wanted };

        s = search(&g, err);
        if (s == DIBS_OK)
            s = inspect(a, g.n_new, err);
        /* After the deadline the result is unknown: report the timeout, not an exhausted pool. */
        *is_any = a->n_dead_ports > 0 || g.is_new || attempt_is_late(a);
        goes_on = a->n_dead_ports == 0 && g.n_new > 0 && !attempt_is_late(a);
        for (size_t i = 0; i < g.n_old; i++)
            a->dead_ports[a->n_dead_ports++] = g.old[i];
        wanted = wanted < DIBS_PORT_MAX / 2 ? wanted * 2 : DIBS_PORT_MAX;
    }
    return s;
}
