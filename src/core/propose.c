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

dibs_status attempt_plan(struct attempt *a, dibs_err *err)
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
