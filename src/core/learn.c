/* SPDX-License-Identifier: MIT */
/* Learning from a refusal: those in the way are judged, the plan is widened, or nothing is left to try. */
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "core/attempt.h"

#include "base/banned.h"

bool attempt_is_late(const struct attempt *a)
{
    return core_clock(a->core).boot_ms >= a->deadline_ms;
}

static void forget_foreign(struct core_foreign *foreign)
{
    memset(&foreign->ports, 0, sizeof foreign->ports);
    foreign->is_any = false;
}

void attempt_begin_foreign(struct attempt *a, int64_t now_ms)
{
    struct core_foreign *foreign = &a->core->foreign;

    if (now_ms - foreign->since_ms > FOREIGN_LAST_MS || now_ms < foreign->since_ms) {
        forget_foreign(foreign);
        foreign->since_ms = now_ms;
    }
    a->has_hearsay = foreign->is_any;
}

void attempt_note_foreign(struct attempt *a)
{
    for (size_t i = 0; i < a->refusal.n_busy; i++) {
        portbits_add(&a->core->foreign.ports, a->refusal.busy[i]);
        a->core->foreign.is_any = true;
        attempt_note(&a->has_tried, &a->tried, a->refusal.busy[i]);
    }
}

/* Others were faster than we with what the index had promised, or it had promised too much (it does not know
 * addresses): that does not mean that nothing is left. */
static bool is_outrun(struct attempt *a)
{
    enum { STALE_MAX = 64 };
    const struct ask *ask = &a->asks[a->refusal.want];
    const struct ledger_want *want = &a->wants[ask->is_in_run ? ask->run_first : a->refusal.want];

    if (a->stage == STAGE_BLIND || a->stage >= STAGE_DEAD)
        return false;
    /* Of a batch it cannot be said which ones the ledger refused and which ones its own members had. */
    if (a->batch->n > 1)
        return want->n_candidates > 0 && a->n_stale++ < STALE_MAX;
    for (size_t i = 0; i < want->n_candidates; i++)
        attempt_note(&a->has_tried, &a->tried, want->candidates[i]);
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
    dibs_status s = attempt_find_graves(a, again, err);
    if (s != DIBS_OK || *again || !a->has_hearsay)
        return s;
    /* What was busy for others, on another address or protocol, may be free for us. */
    a->has_hearsay = a->has_tried = false;
    forget_foreign(&core->foreign);
    a->stage = STAGE_INDEX;
    *again = true;
    return core_index_refresh(core, err);
}

/* The port that want number i preferred is not to be had: dibs chooses. */
static void choose_instead(struct attempt *a, size_t i)
{
    dibs_claim *claim = &a->wants[i].claim;

    request_set_choice(&a->asks[i], &a->wants[i], true);
    (void) text_copy(claim->pool, sizeof claim->pool, a->asks[i].plan->pool.name);
}

bool attempt_gives_up(struct attempt *a, dibs_status status)
{
    const struct ask *ask = &a->asks[a->refusal.want];

    if (status != DIBS_DENIED || a->batch->n == 0 || ask->request->mode != DIBS_PREFERRED || ask->is_choice)
        return false;
    choose_instead(a, a->refusal.want);
    return true;
}

/* After TAKEN or EXHAUSTED: *again when another round makes sense. */
dibs_status attempt_react(struct attempt *a, dibs_status status, bool *again, dibs_err *err)
{
    struct ledger_refusal *r = &a->refusal;
    struct ledger_want *want = &a->wants[r->want];

    *again = false;
    if (r->is_shared) {
        if (core_judge(a->core, &r->blockers[0], NULL, 0) == DIBS_DEAD)
            *again = attempt_add_dead(a, &r->blockers[0]);
        return DIBS_OK;
    }
    if (r->by_name) {
        const dibs_claim *b = &r->blockers[0];

        if (r->n_blockers > 0 && want->claim.project[0] && strcmp(b->project, want->claim.project) != 0) {
            /* Somebody took the plain group between our look and the transaction: all of its names. */
            dibs_status s = attempt_look_up_names(a, err);

            *again = strcmp(b->name, want->claim.name) != 0;
            return s;
        }
        if (r->n_blockers > 0 && core_judge(a->core, &r->blockers[0], NULL, 0) == DIBS_DEAD)
            *again = attempt_add_dead(a, &r->blockers[0]);
        return DIBS_OK;
    }
    if (status == DIBS_EXHAUSTED)
        return escalate(a, again, err);
    dibs_status s = r->is_busy ? DIBS_OK : attempt_judge_blockers(a, again, err);
    if (s == DIBS_OK && !*again && a->asks[r->want].request->mode == DIBS_PREFERRED) {
        choose_instead(a, r->want);
        *again = true;
    }
    return s;
}
