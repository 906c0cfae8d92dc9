/* SPDX-License-Identifier: MIT */
/* Reacts to a refusal of the ledger: judges the blockers, widens the choice, or gives up. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "core/attempt.h"

#include "base/banned.h"

bool attempt_is_late(const struct attempt *a)
{
    return clock_monotonic_ms() >= a->call.deadline_ms;
}

static void forget_foreign(struct core_foreign *foreign)
{
    memset(&foreign->ports, 0, sizeof foreign->ports);
    foreign->is_any = false;
}

void attempt_begin_foreign(struct attempt *a)
{
    struct core_foreign *foreign = &a->core->foreign;
    int64_t now_ms = a->call.now.boot_ms;

    if (now_ms - foreign->since_ms > FOREIGN_LAST_MS || now_ms < foreign->since_ms) {
        forget_foreign(foreign);
        foreign->since_ms = now_ms;
    }
    a->has_old_busy = foreign->is_any;
}

/* Remember a tried port. False: out of memory. */
static bool note_tried(struct attempt *a, uint16_t port)
{
    if (!a->tried)
        a->tried = calloc(1, sizeof *a->tried);
    if (a->tried)
        portbits_add(a->tried, port);
    return a->tried;
}

void attempt_note_foreign(struct attempt *a)
{
    for (size_t i = 0; i < a->refusal.n_busy; i++) {
        portbits_add(&a->core->foreign.ports, a->refusal.busy[i]);
        a->core->foreign.is_any = true;
        (void) note_tried(a, a->refusal.busy[i]); /* on failure it is still skipped as foreign */
    }
}

/* Return whether other processes or a stale index (it has no addresses) cost all candidates. */
static bool is_lost_race(struct attempt *a)
{
    enum { STALE_MAX = 64 };
    const struct ask *ask = &a->asks[a->refusal.want];
    const struct ledger_want *want = &a->wants[ask->is_in_run ? ask->run_first : a->refusal.want];

    if (a->stage == STAGE_BLIND || a->stage >= STAGE_DEAD)
        return false;
    /* In a batch, other requests of the batch may also have used the candidates. */
    if (a->batch->n > 1)
        return want->n_candidates > 0 && a->n_stale++ < STALE_MAX;
    for (size_t i = 0; i < want->n_candidates; i++)
        if (!note_tried(a, want->candidates[i]))
            return false;
    return want->n_candidates > 0;
}

static dibs_status escalate(struct attempt *a, bool *again, dibs_err *err)
{
    struct core *core = a->core;

    *again = true;
    core->has_cursor = false;
    if (a->refusal.n_busy > 0 && a->stage != STAGE_BLIND)
        return DIBS_OK; /* the next round skips the busy ports */
    if (is_lost_race(a))
        return core_index_refresh(core, &a->call, err);
    a->is_fresh = a->is_fresh || !core->index.is_loaded;
    if (a->stage < STAGE_DEAD)
        a->stage++;
    if (a->stage == STAGE_RELOADED && a->is_fresh)
        a->stage = STAGE_DEAD;
    if (a->stage == STAGE_RELOADED)
        core->index.is_loaded = false;
    if (a->stage < STAGE_DEAD)
        return core_index_refresh(core, &a->call, err);
    dibs_status s = attempt_find_dead(a, again, err);
    if (s != DIBS_OK || *again || !a->has_old_busy)
        return s;
    /* Ports that were busy for other calls, on another address or protocol, may be free for this one. */
    a->has_old_busy = false;
    a->n_dead_ports = 0;
    free(a->tried);
    a->tried = NULL;
    forget_foreign(&core->foreign);
    a->stage = STAGE_INDEX;
    *again = true;
    return core_index_refresh(core, &a->call, err);
}

/* Give up the preferred port of want i and let dibs choose. */
static void choose_instead(struct attempt *a, size_t i)
{
    dibs_claim *claim = &a->wants[i].claim;

    request_set_choice(&a->asks[i], &a->wants[i], true);
    (void) text_copy(claim->pool, sizeof claim->pool, a->asks[i].source->pool.name);
}

bool attempt_gives_up(struct attempt *a, dibs_status status, const dibs_err *err)
{
    const struct ask *ask = &a->asks[a->refusal.want];
    /* Only that record is at fault (INV-6): the next round skips its port, as it skips busy ones. */
    bool is_stuck = status == DIBS_UNAVAILABLE && a->refusal.is_stuck && err && !attempt_is_late(a) &&
                    (err->trouble == DIBS_TROUBLE_NONE || err->trouble == DIBS_TROUBLE_DAMAGED);

    if (a->batch->n == 0 || (status != DIBS_DENIED && !is_stuck))
        return false;
    if (ask->is_choice || ask->request->mode != DIBS_PREFERRED)
        return ask->is_choice && is_stuck;
    choose_instead(a, a->refusal.want);
    return true;
}

dibs_status attempt_react(struct attempt *a, dibs_status status, bool *again, dibs_err *err)
{
    struct ledger_refusal *r = &a->refusal;
    struct ledger_want *want = &a->wants[r->want];

    *again = false;
    if (r->by_name && r->has_blocker && want->claim.project[0] &&
        strcmp(r->blocker.project, want->claim.project) != 0) {
        /* Another process claimed the group after our lookup: look up all of its names again. */
        dibs_status s = attempt_look_up_names(a, err);

        *again = strcmp(r->blocker.name, want->claim.name) != 0;
        return s;
    }
    if (r->is_shared || r->by_name) {
        *again = r->has_blocker && core_judge(a->core, &a->call, NULL, &r->blocker, NULL) == DIBS_DEAD &&
                 attempt_add_dead(a, &r->blocker);
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
