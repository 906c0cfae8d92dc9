/* SPDX-License-Identifier: MIT */
/* The reaper: ends the claims of dead holders in small steps. Off the request path and never at start (D17):
 * holders are judged between transactions, and each step's transaction ends only generations that were
 * judged. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/err.h"
#include "core/core.h"

#include "base/banned.h"

enum { STEP_CLAIMS = 128 };

struct step {
    dibs_claim claims[STEP_CLAIMS];
    size_t n;
};

static bool gather(void *ctx, const dibs_claim *claim)
{
    struct step *step = ctx;

    step->claims[step->n++] = *claim;
    return step->n < STEP_CLAIMS;
}

/* Who is of another pid namespace ("uid:N@NAMESPACE") has directories of its own, too: what is not here may
 * be there. */
static bool project_is_gone(const dibs_claim *claim)
{
    struct stat st;

    return claim->project[0] && !strchr(claim->principal, '@') && stat(claim->project, &st) != 0 &&
           (errno == ENOENT || errno == ENOTDIR);
}

static bool is_due(struct core *core, dibs_claim *claim, unsigned flags, bool *is_stale)
{
    bool is_held = claim->holder != DIBS_HELD_BY_NOBODY;
    bool is_dead = is_held && core_judge(core, claim, NULL, 0) == DIBS_DEAD;
    const char *why = "";
    bool is_own = core->caller.is_admin || strcmp(claim->principal, core->caller.principal) == 0;

    *is_stale = (flags & DIBS_REAP_STALE) && claim->is_kept && is_own && (!is_held || is_dead) &&
                project_is_gone(claim) && core_socket_life(core, claim, &why) == DIBS_DEAD;
    return is_dead || *is_stale;
}

struct reaping {
    unsigned flags;
    dibs_claim_fn fn;
    void *ctx;
    size_t n;
};

static dibs_status reap_step(struct core *core, struct step *step, struct reaping *r, bool *goes_on,
                             dibs_err *err)
{
    struct ledger_actor actor = core_actor(core, core_now(core));

    *goes_on = true;
    for (size_t i = 0; i < step->n && *goes_on; i++) {
        dibs_claim *claim = &step->claims[i];
        bool is_stale = false;
        size_t ended = 1;
        dibs_status s = DIBS_OK;

        if (!is_due(core, claim, r->flags, &is_stale))
            continue;
        if (!(r->flags & DIBS_REAP_DRY_RUN)) {
            struct ledger_seen seen = { claim->id, claim->generation, claim->lease_until_ms };

            s = ledger_end(core->ledger,
                           &(struct ledger_ending){ &seen, 1, is_stale ? LEDGER_END_STALE : LEDGER_END_REAP },
                           &actor, &ended, err);
        }
        if (s != DIBS_OK)
            return s;
        if (ended == 0)
            continue; /* it changed hands meanwhile */
        r->n++;
        claim->life = DIBS_DEAD;
        *goes_on = !r->fn || r->fn(r->ctx, claim);
    }
    return DIBS_OK;
}

dibs_status core_reap(struct core *core, unsigned flags, dibs_claim_fn fn, void *ctx, size_t *n,
                      dibs_err *err)
{
    AUTO(free_auto) struct step *step = calloc(1, sizeof *step);
    struct reaping r = { .flags = flags, .fn = fn, .ctx = ctx };
    struct ledger_filter filter = { .held_only = !(flags & DIBS_REAP_STALE), .limit = STEP_CLAIMS };
    struct ledger_actor actor = core_actor(core, core_now(core));
    bool goes_on = true;
    dibs_status s = DIBS_OK;

    if (!step)
        return err_set(err, DIBS_FAILURE, "reaping: out of memory");
    while (goes_on && s == DIBS_OK) {
        step->n = 0;
        ledger_start_call(core->ledger); /* each step is short, all together need not be */
        s = ledger_list(core->ledger, &filter, gather, step, err);
        if (s != DIBS_OK || step->n == 0)
            break;
        filter.after_id = step->claims[step->n - 1].id;
        core_judge_begin(core);
        s = reap_step(core, step, &r, &goes_on, err);
        core_judge_end(core);
    }
    if (s == DIBS_OK && !(flags & DIBS_REAP_DRY_RUN))
        s = ledger_upkeep(core->ledger, &actor, NULL, err);
    core->index.is_loaded = false;
    if (s == DIBS_OK && n)
        *n = r.n;
    return s;
}

/* ---- hosts ---- */

dibs_status core_node_list(struct core *core, dibs_node_fn fn, void *ctx, dibs_err *err)
{
    return ledger_nodes(core->ledger, fn, ctx, err);
}

dibs_status core_node_remove(struct core *core, const char *name, unsigned flags, size_t *n, dibs_err *err)
{
    struct ledger_actor actor = core_actor(core, core_now(core));
    size_t ended = 0;

    if (!core->caller.is_admin)
        return err_set(err, DIBS_DENIED,
                       "only an administrator removes a host, with all that it has claimed");
    dibs_status s =
        ledger_node_remove(core->ledger, name, (flags & DIBS_NODE_FORCE) != 0, &actor, &ended, err);
    core->index.is_loaded = false;
    if (s == DIBS_OK && n)
        *n = ended;
    return s;
}
