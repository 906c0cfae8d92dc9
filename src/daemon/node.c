/* SPDX-License-Identifier: MIT */
/* This host among the others of a cluster. Its lease is renewed beside the loop (ledger_join()); here follows
 * what that means for the claims that hang on it: told when they are not certain, ended when they are lost.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/err.h"
#include "daemon/engine_parts.h"
#include "daemon/log.h"
#include "lib/handle.h"

#include "base/banned.h"

bool engine_is_certain(const struct engine *e)
{
    struct ledger_lease lease;

    ledger_lease(e->handle->core->ledger, &lease);
    return !lease.is_member || lease.margin_ms > 0;
}

static void tell(struct engine *e, const struct ledger_lease *lease)
{
    bool is_doubtful = lease->margin_ms == 0;
    const char *why = lease->trouble[0] ? lease->trouble : "no answer";

    if (lease->n_ended != e->n_ended)
        LOG(LOG_ERROR,
            "the lease of this host in the cluster has ended: who held ports of its pools has lost them");
    else if (is_doubtful && !e->is_doubtful)
        LOG(LOG_ERROR,
            "the lease of this host in the cluster cannot be renewed: nobody is told any more that he holds "
            "ports of its pools",
            "why", why);
    else if (!is_doubtful && e->is_doubtful && e->incarnation == lease->incarnation)
        LOG(LOG_INFO, "the lease of this host in the cluster is renewed again");
    if (lease->incarnation != e->incarnation && lease->incarnation != 0)
        LOG(LOG_INFO, "this host has a lease in the cluster");
    e->is_doubtful = is_doubtful;
}

/* Other hosts have ended claims of ours, which is told in our own history. */
static void note_lost(struct engine *e)
{
    struct core *core = e->handle->core;
    struct ledger_actor actor = core_actor(core, core_now(core));
    char text[24] = "";
    size_t n = 0;

    if (clock_monotonic_ms() < e->lost_ms)
        return;
    ledger_start_call(core->ledger);
    if (ledger_note_lost(core->ledger, &actor, &n, NULL) != DIBS_OK) {
        e->lost_ms = clock_monotonic_ms() + RELOAD_MS;
        return;
    }
    (void) snprintf(text, sizeof text, "%zu", n);
    if (n > 0)
        LOG(LOG_WARNING, "other hosts have ended claims of this one", "claims", text);
    engine_follow(e);
}

/* What was claimed beside us, or became everybody's, hangs on our lease from now on. */
static void hang(struct engine *e, const struct ledger_lease *lease)
{
    struct core *core = e->handle->core;
    struct ledger_actor actor = core_actor(core, core_now(core));
    char text[24] = "";
    size_t n = 0;

    if (!lease->is_loose || lease->margin_ms == 0 || clock_monotonic_ms() < e->hang_ms)
        return;
    ledger_start_call(core->ledger);
    if (ledger_hang(core->ledger, &actor, &n, NULL) != DIBS_OK)
        e->hang_ms = clock_monotonic_ms() + RELOAD_MS;
    else if (n > 0)
        (void) snprintf(text, sizeof text, "%zu", n);
    if (text[0])
        LOG(LOG_INFO, "claims hang on the lease of this host from now on", "claims", text);
}

static void tend(struct engine *e)
{
    int64_t now_ms = clock_monotonic_ms();

    if (now_ms < e->tend_ms)
        return;
    e->tend_ms = now_ms + LEDGER_TEND_MS;
    ledger_tend(e->handle->core->ledger);
}

/* ---- other hosts ---- */

struct dead_abroad {
    struct ledger_seen seen[DUE_MAX];
    size_t n;
};

static bool note_dead(void *ctx, const dibs_claim *claim)
{
    struct dead_abroad *d = ctx;

    if (claim->node[0] && claim->node_life == DIBS_DEAD)
        d->seen[d->n++] = (struct ledger_seen){ claim->id, claim->generation, claim->lease_until_ms };
    return d->n < DUE_MAX;
}

/* Nobody has to: who needs such a port finds it. But what is full of the dead is slow to choose from. */
static void bury(struct engine *e)
{
    struct core *core = e->handle->core;
    struct ledger_actor actor = core_actor(core, core_now(core));
    struct dead_abroad dead = { .n = 0 };
    size_t ended = 0;

    e->bury_ms = 0;
    ledger_start_call(core->ledger);
    dibs_status s =
        ledger_list(core->ledger, &(struct ledger_filter){ .held_only = true }, note_dead, &dead, NULL);
    e->n_written = 0;
    if (s == DIBS_OK && dead.n > 0)
        s = ledger_end(core->ledger, &(struct ledger_ending){ dead.seen, dead.n, LEDGER_END_REAP }, &actor,
                       &ended, NULL);
    e->counts.reaped += ended;
    if (ended > 0)
        engine_follow(e);
    if (s == DIBS_OK && dead.n == DUE_MAX)
        e->bury_ms = clock_monotonic_ms() + BURY_FIRST_MS;
}

static void mind_others(struct engine *e, const struct ledger_lease *lease)
{
    int64_t now_ms = clock_monotonic_ms();

    /* Also at the start: nobody may have been there. */
    if ((lease->n_gone != e->n_gone || e->incarnation == 0) && e->bury_ms == 0)
        e->bury_ms = now_ms + BURY_FIRST_MS + (int64_t) (core_random(e->handle->core) % BURY_SPREAD_MS);
    e->n_gone = lease->n_gone;
    if (e->bury_ms != 0 && now_ms >= e->bury_ms)
        bury(e);
}

void engine_mind_node(struct engine *e)
{
    struct ledger_lease lease;

    ledger_lease(e->handle->core->ledger, &lease);
    if (!lease.is_member)
        return;
    tell(e, &lease);
    if (lease.n_lost > 0)
        note_lost(e);
    hang(e, &lease);
    tend(e);
    mind_others(e, &lease);
    if (lease.incarnation != e->incarnation && e->n_ended != lease.n_ended)
        engine_know_again(e); /* whoever hung on the one before is dead */
    e->incarnation = lease.incarnation;
    e->n_ended = lease.n_ended;
}

int64_t engine_node_ms(const struct engine *e)
{
    struct ledger_lease lease;
    int64_t at_ms = e->bury_ms != 0 ? e->bury_ms : INT64_MAX;

    ledger_lease(e->handle->core->ledger, &lease);
    if (!lease.is_member || lease.margin_ms == 0)
        return at_ms;
    if (lease.is_loose && e->hang_ms < at_ms)
        at_ms = e->hang_ms;
    if (e->tend_ms < at_ms)
        at_ms = e->tend_ms;
    int64_t end_ms = clock_monotonic_ms() + lease.margin_ms + 1;
    return end_ms < at_ms ? end_ms : at_ms;
}
