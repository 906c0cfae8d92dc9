/* SPDX-License-Identifier: MIT */
/* This host's lease in a cluster. A thread of the store renews it (ledger_join()); this file logs when the
 * claims attached to the lease are uncertain, and ends them when they are lost. */
#include <limits.h>
#include <stdio.h>

#include "base/clock.h"
#include "daemon/engine_internal.h"
#include "server/log.h"

#include "base/banned.h"

int64_t engine_certain_lease(const struct engine *e)
{
    struct ledger_lease lease;

    ledger_lease(e->ledger, &lease);
    return lease.is_member && lease.margin_ms > 0 ? lease.incarnation : 0;
}

static void log_lease(struct engine *e, const struct ledger_lease *lease)
{
    bool is_uncertain = lease->margin_ms == 0;
    const char *why = lease->trouble[0] ? lease->trouble : "no answer";

    if (lease->n_ended != e->n_ended)
        LOG(LOG_ERROR, "the lease of this host in the cluster has expired: holders of ports of its pools "
                       "have lost them");
    else if (is_uncertain && !e->is_uncertain)
        LOG(LOG_ERROR,
            "the lease of this host in the cluster cannot be renewed: holders of ports of its pools are no "
            "longer certain",
            "why", why);
    else if (!is_uncertain && e->is_uncertain && e->incarnation == lease->incarnation)
        LOG(LOG_INFO, "the lease of this host in the cluster is renewed again");
    if (lease->incarnation != e->incarnation && lease->incarnation != 0)
        LOG(LOG_INFO, "this host has a lease in the cluster");
    e->is_uncertain = is_uncertain;
}

typedef dibs_status step_fn(struct ledger *ledger, const struct call *call, size_t *n, dibs_err *err);

/* Do a step for some claims and log their number. Return false when it failed less than RELOAD_MS ago. */
static bool run_step(struct engine *e, step_fn *fn, enum log_level level, const char *what)
{
    const struct call call = handle_call(e->handle);
    char text[24] = "";
    size_t n = 0;

    if (clock_monotonic_ms() < e->node_ms)
        return false;
    if (fn(e->ledger, &call, &n, NULL) != DIBS_OK) {
        e->node_ms = clock_monotonic_ms() + RELOAD_MS;
        return false;
    }
    (void) snprintf(text, sizeof text, "%zu", n);
    if (n > 0)
        LOG(level, what, "claims", text);
    return true;
}

struct dead_elsewhere {
    struct ledger_seen seen[DUE_MAX];
    size_t n;
};

static bool note_dead(void *ctx, const dibs_claim *claim)
{
    struct dead_elsewhere *d = ctx;

    if (claim->node[0] && claim->node_life == DIBS_DEAD)
        d->seen[d->n++] = (struct ledger_seen){ claim->id, claim->generation, claim->lease_until_ms };
    return d->n < DUE_MAX;
}

/* End claims of hosts whose lease has expired: choosing from a pool full of dead holders is slow. */
static void reap_gone(struct engine *e)
{
    const struct call call = handle_call(e->handle);
    struct dead_elsewhere dead = { .n = 0 };
    size_t ended = 0;

    e->reap_gone_ms = 0;
    dibs_status s =
        ledger_list(e->ledger, &call, &(struct ledger_filter){ .held_only = true }, note_dead, &dead, NULL);
    e->n_written = 0;
    if (s == DIBS_OK && dead.n > 0)
        s = ledger_end(e->ledger, &call, &(struct ledger_ending){ dead.seen, dead.n, LEDGER_END_REAP },
                       &ended, NULL);
    e->counts.reaped += ended;
    if (ended > 0)
        engine_follow(e);
    if (s == DIBS_OK && dead.n == DUE_MAX)
        e->reap_gone_ms = clock_monotonic_ms() + REAP_GONE_FIRST_MS;
}

static void follow_others(struct engine *e, const struct ledger_lease *lease)
{
    int64_t now_ms = clock_monotonic_ms();

    /* Also reap at the start: a host may have died while no other host was running. */
    if ((lease->n_gone != e->n_gone || e->incarnation == 0) && e->reap_gone_ms == 0)
        e->reap_gone_ms =
            now_ms + REAP_GONE_FIRST_MS + (int64_t) (core_random(e->core) % REAP_GONE_SPREAD_MS);
    e->n_gone = lease->n_gone;
    if (e->reap_gone_ms != 0 && now_ms >= e->reap_gone_ms)
        reap_gone(e);
}

void engine_follow_node(struct engine *e)
{
    struct ledger_lease lease;

    ledger_lease(e->ledger, &lease);
    if (!lease.is_member)
        return;
    log_lease(e, &lease);
    /* Record the lost claims in this host's own events. */
    if (lease.n_lost > 0 &&
        run_step(e, ledger_note_lost, LOG_WARNING, "other hosts have ended claims of this one"))
        engine_follow(e);
    /* Attach claims made before the lease, or before their pool had the scope `cluster`. */
    if (lease.is_unattached && lease.margin_ms > 0)
        (void) run_step(e, ledger_attach, LOG_INFO, "claims are attached to the lease of this host");
    if (clock_monotonic_ms() >= e->compact_ms) {
        e->compact_ms = clock_monotonic_ms() + LEDGER_COMPACT_MS;
        ledger_compact(e->ledger);
    }
    follow_others(e, &lease);
    if (lease.incarnation != e->incarnation && e->n_ended != lease.n_ended)
        engine_reload_held(e); /* holders attached to the previous lease are dead */
    e->incarnation = lease.incarnation;
    e->n_ended = lease.n_ended;
}

int64_t engine_node_ms(const struct engine *e)
{
    struct ledger_lease lease;
    int64_t at_ms = e->reap_gone_ms != 0 ? e->reap_gone_ms : INT64_MAX;

    ledger_lease(e->ledger, &lease);
    if (!lease.is_member || lease.margin_ms == 0)
        return at_ms;
    if (lease.is_unattached && e->node_ms < at_ms)
        at_ms = e->node_ms;
    if (e->compact_ms < at_ms)
        at_ms = e->compact_ms;
    int64_t end_ms = clock_monotonic_ms() + lease.margin_ms + 1;
    return end_ms < at_ms ? end_ms : at_ms;
}
