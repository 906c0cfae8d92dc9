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

/* The run that the names had goes first (INV-7), then those that the index believes free; the index does not
 * know addresses, so before giving up the ledger itself is read. */
static dibs_status plan_run(struct attempt *a, dibs_err *err)
{
    struct plan_run run = { .n = (uint32_t) a->batch->n, .align = a->batch->align };
    struct plan_pool *plan = a->asks[0].plan;
    struct ledger_want *first = &a->wants[0];
    uint16_t *buffer = a->candidates;
    size_t max = SPARE_MAX;
    dibs_status s = DIBS_OK;
    bool is_free = a->run_base != 0;

    for (size_t i = 0; i < a->batch->n && is_free; i++)
        is_free = !portbits_has(&a->core->foreign.ports, (uint16_t) (a->run_base + i));
    if (is_free) {
        *buffer++ = a->run_base;
        max--;
    }
    size_t n = plan_runs(a->core, plan, run, buffer, max);
    if (n == 0) {
        struct blocked b = { .a = a };

        s = ledger_slots(a->core->ledger, 0, 0, block, &b, err);
        n = plan_runs_beside(a->core, plan, &b.ports, run, buffer, max);
    }
    first->candidates = a->candidates;
    first->n_candidates = n + (SPARE_MAX - max);
    for (size_t i = 0; i < a->batch->n; i++)
        a->wants[i].accepts_cooling = true;
    return s;
}

dibs_status attempt_plan(struct attempt *a, dibs_err *err)
{
    uint16_t *buffer = a->candidates;
    dibs_status s = read_cursor(a->core, err);

    if (s == DIBS_OK && a->batch->is_contiguous)
        return plan_run(a, err);
    for (size_t p = 0; p < a->n_plans && s == DIBS_OK; p++)
        s = plan_choices(a, &a->plans[p], &buffer, err);
    return s;
}
