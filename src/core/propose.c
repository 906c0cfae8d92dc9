/* SPDX-License-Identifier: MIT */
/* Planning a round: which ports each want of the batch tries, in which order. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "core/attempt.h"

#include "base/banned.h"

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
        is_found = is_found || ((plan->kind.protos & 1u << proto) &&
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

static bool is_single_choice(const struct ask *ask, const struct plan_pool *plan)
{
    return ask->plan == plan && ask->is_choice && !ask->is_noop && !ask->is_in_run;
}

/* What the choices of one pool share. */
struct sharing {
    struct attempt *a;
    struct plan_pool *plan;
    struct portbits planned; /* some want of the batch tries it before the spare ones */
    const uint16_t *list;    /* in the pool's order */
    size_t n, next;
};

static void try_first(struct sharing *s, struct ledger_want *want, uint16_t *candidates, uint16_t port)
{
    portbits_add(&s->planned, port);
    candidates[want->n_candidates++] = port;
}

/* Its last port, and the one that its hash prefers (INV-7). What another want of the batch tries already is
 * left to it: else members of one batch would take each other's only port where hardly more are free. */
static void try_names_ports(struct sharing *s, struct ledger_want *want, uint16_t *candidates)
{
    uint16_t preferred = want->claim.name[0] ? plan_name_port(s->a->core, s->plan, want->claim.name) : 0;

    if (may_choose(s->a, s->plan, want->remembered) && !portbits_has(&s->planned, want->remembered))
        try_first(s, want, candidates, want->remembered);
    if (may_choose(s->a, s->plan, preferred) && !is_cooling(s->a, s->plan, preferred) &&
        !portbits_has(&s->planned, preferred))
        try_first(s, want, candidates, preferred);
}

/* The next of the list that nobody tries yet. */
static void try_own(struct sharing *s, struct ledger_want *want, uint16_t *candidates)
{
    while (s->next < s->n && portbits_has(&s->planned, s->list[s->next]))
        s->next++;
    if (s->next < s->n)
        try_first(s, want, candidates, s->list[s->next++]);
}

/* What is left of the list, for all. */
static void try_spare(const struct sharing *s, struct ledger_want *want, uint16_t *candidates)
{
    for (size_t k = s->next; k < s->n && want->n_candidates < CHOICES_MAX; k++)
        if (!portbits_has(&s->planned, s->list[k]))
            candidates[want->n_candidates++] = s->list[k];
}

/* Every want that dibs chooses for: its name's ports, one of its own (those without a port by name draw
 * first), and the spare ones that all share. */
static void share_out(struct sharing *s, uint16_t **buffer)
{
    enum { NAMES, OWN_OF_UNNAMED, OWN_OF_NAMED, SPARE, PASSES };
    struct attempt *a = s->a;
    uint16_t *candidates = *buffer;

    for (int pass = NAMES; pass < PASSES; pass++) {
        candidates = *buffer;
        for (size_t i = 0; i < a->batch->n; i++) {
            struct ledger_want *want = &a->wants[i];

            if (!is_single_choice(&a->asks[i], s->plan))
                continue;
            if (pass == NAMES) {
                want->candidates = candidates;
                want->n_candidates = 0;
                want->accepts_cooling = a->stage != STAGE_BLIND;
                try_names_ports(s, want, candidates);
            } else if (pass == SPARE) {
                try_spare(s, want, candidates);
            } else if ((want->n_candidates > 0) == (pass == OWN_OF_NAMED)) {
                try_own(s, want, candidates);
            }
            candidates += CHOICES_MAX;
        }
    }
    *buffer = candidates;
}

static dibs_status plan_choices(struct attempt *a, struct plan_pool *plan, uint16_t **buffer, dibs_err *err)
{
    size_t n_choices = 0;
    const struct ledger_want *any = NULL;

    for (size_t i = 0; i < a->batch->n; i++)
        if (is_single_choice(&a->asks[i], plan)) {
            any = &a->wants[i];
            n_choices++;
        }
    if (n_choices == 0)
        return DIBS_OK;
    /* Of a batch, each may try a port by its name that the list has too. */
    size_t max = n_choices > 1 ? 2 * n_choices + SPARE_MAX : a->stage == STAGE_BLIND ? SPARE_MAX : EXACT_MAX;
    AUTO(free_auto) uint16_t *list = calloc(max, sizeof *list);
    if (!list)
        return err_set(err, DIBS_FAILURE, "claiming: out of memory");
    struct sharing sharing = { .a = a, .plan = plan, .list = list };
    sharing.n = plan_list(a, plan, &any->claim, list, max);
    share_out(&sharing, buffer);
    return DIBS_OK;
}

struct blocked {
    const struct attempt *a;
    struct portbits ports;
};

static bool block(void *ctx, const struct ledger_slot *slot)
{
    struct blocked *b = ctx;

    if (slot->claim_id == 0 || attempt_is_dead(b->a, slot->claim_id))
        return true;
    for (size_t i = 0; i < b->a->batch->n; i++) {
        const dibs_claim *claim = &b->a->wants[i].claim;

        for (size_t k = 0; k < claim->n_bindings; k++)
            if (claim->bindings[k].proto == slot->proto &&
                dibs_address_conflict(&claim->bindings[k].address, &slot->address)) {
                portbits_add(&b->ports, slot->port);
                return true;
            }
    }
    return true;
}

/* May the run stand there, as far as is known without the ledger? */
static bool may_run_at(const struct attempt *a, const struct plan_pool *plan, size_t base, size_t n)
{
    if (base == 0 || base + n - 1 > DIBS_PORT_MAX || (a->batch->align > 1 && base % a->batch->align != 0))
        return false;
    for (size_t port = base; port < base + n; port++)
        if (!portbits_has(&plan->choosable, (uint16_t) port) ||
            portbits_has(&a->core->foreign.ports, (uint16_t) port))
            return false;
    return true;
}

/* The run that the names had goes first, then the one where the first name's hash wants it (INV-7), then
 * those that the index believes free; the index does not know addresses, so before giving up the ledger
 * itself is read. `planned`: what other runs of the batch are to get. */
static dibs_status plan_run(struct attempt *a, size_t first, struct portbits *planned, uint16_t **buffer,
                            dibs_err *err)
{
    struct ledger_want *want = &a->wants[first];
    struct plan_run run = { .n = want->run, .align = a->batch->align };
    struct plan_pool plan = *a->asks[first].plan;
    uint16_t *to = *buffer;
    dibs_status s = DIBS_OK;

    portbits_subtract(&plan.choosable, planned);
    uint16_t hashed = want->claim.name[0] ? plan_name_port(a->core, &plan, want->claim.name) : 0;
    if (may_run_at(a, &plan, want->run_base, run.n))
        *to++ = want->run_base;
    if (hashed != want->run_base && a->stage != STAGE_DEAD && may_run_at(a, &plan, hashed, run.n))
        *to++ = hashed;
    size_t n = plan_runs(a->core, &plan, run, to, SPARE_MAX);
    if (n == 0) {
        struct blocked b = { .a = a };

        s = ledger_slots(a->core->ledger, 0, 0, block, &b, err);
        n = plan_runs_beside(a->core, &plan, &b.ports, run, to, SPARE_MAX);
    }
    want->candidates = *buffer;
    want->n_candidates = n + (size_t) (to - *buffer);
    for (size_t i = 0; i < run.n; i++) {
        a->wants[first + i].accepts_cooling = true;
        if (want->n_candidates > 0)
            portbits_add(planned, (uint16_t) (want->candidates[0] + i));
    }
    *buffer = to + n;
    return s;
}

dibs_status attempt_plan(struct attempt *a, dibs_err *err)
{
    uint16_t *buffer = a->candidates;
    struct portbits planned = { 0 };
    dibs_status s = read_cursor(a->core, err);

    for (size_t i = 0; i < a->batch->n && s == DIBS_OK && a->has_run; i++)
        if (a->wants[i].run > 1)
            s = plan_run(a, i, &planned, &buffer, err);
    for (size_t p = 0; p < a->n_plans && s == DIBS_OK; p++)
        s = plan_choices(a, &a->plans[p], &buffer, err);
    return s;
}
