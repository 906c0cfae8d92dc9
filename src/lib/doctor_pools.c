/* SPDX-License-Identifier: MIT */
/* The doctor's checks of pools: free ports, faults, and hosts whose settings disagree about them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/wire.h"
#include "lib/doctor.h"

#include "base/banned.h"

enum { POOLS_MAX = 256 };

struct pool_list {
    dibs_pool *pools;
    size_t n;
};

/* Collect the pools first: the ledger accepts no other call during a list. */
static bool collect_pool(void *ctx, const dibs_pool *pool)
{
    struct pool_list *list = ctx;

    list->pools[list->n++] = *pool;
    return list->n < POOLS_MAX;
}

static void rules_text(const dibs_pool *pool, char *out, size_t size)
{
    char band[24];
    char rest[24];

    wire_band_text(pool->band, band);
    clock_duration_format(pool->cooldown_ms, rest);
    (void) snprintf(out, size, "band %s, order %s, cooldown %s", band, pool->order, rest);
}

bool pool_is_overruled(const struct core *core, const struct call *call, const dibs_pool *stored, char *out,
                       size_t size)
{
    dibs_pool ours = *stored;
    char mine[120];
    char theirs[120];

    core_pool_overrule(call, &ours);
    rules_text(&ours, mine, sizeof mine);
    rules_text(stored, theirs, sizeof theirs);
    (void) snprintf(out, size, "%s instead of %s", mine, theirs);
    return stored->scope == DIBS_SCOPE_CLUSTER && ledger_is_shared(core->ledger) && strcmp(mine, theirs) != 0;
}

/* Report hosts that share a pool but disagree about it; claims stay unique even then. */
static void check_agreement(struct doctor *d, const dibs_pool *pool)
{
    char how[256];

    if (pool_is_overruled(d->core, &d->call, pool, how, sizeof how))
        doctor_say(d, DIBS_WARNING, "pool",
                   "remove these settings on this host, or change the pool with 'dibs pool set'",
                   "pool '%s' is the cluster's, and settings of this host overrule it: %s", pool->name, how);
}

struct strays {
    const dibs_pool *pool;
    size_t n;
    uint16_t first;
};

static bool count_stray(void *ctx, const dibs_claim *claim)
{
    struct strays *strays = ctx;

    if (dibs_ranges_contain(&strays->pool->ranges, claim->port))
        return true;
    if (strays->n++ == 0)
        strays->first = claim->port;
    return true;
}

static void check_strays(struct doctor *d, const dibs_pool *pool)
{
    const struct ledger_filter filter = { .pool = pool->name };
    struct strays strays = { .pool = pool };

    if (ledger_list(d->core->ledger, &d->call, &filter, count_stray, &strays, NULL) == DIBS_OK &&
        strays.n > 0)
        doctor_say(d, DIBS_NOTE, "pool",
                   "nothing, if that is meant: 'dibs ls --all' shows them, and they stay",
                   "pool '%s': %zu of its claims are outside of its ranges, port %u first", pool->name,
                   strays.n, strays.first);
}

static void check_pool(struct doctor *d, const dibs_pool *pool)
{
    const struct core_host *host = core_host(d->core, &d->call);
    struct portbits members = { 0 };
    dibs_pool_usage usage;
    char ranges[DIBS_RANGES_TEXT_MAX + 1];
    dibs_err err = { 0 };

    portbits_add_ranges(&members, &pool->ranges);
    dibs_ranges_format(&pool->ranges, ranges);
    uint32_t all = portbits_count(&members);
    portbits_remove_range(&members, host->ephemeral);
    uint32_t overlap = all - portbits_count(&members);
    if (overlap > 0)
        doctor_say(
            d, DIBS_WARNING, "pool",
            "narrow the pool, or move the range with the sysctl net.ipv4.ip_local_port_range",
            "pool '%s' (%.200s): %u of its %u ports are in the ephemeral range %u-%u and are not handed out",
            pool->name, ranges, overlap, all, host->ephemeral.first, host->ephemeral.last);
    if (core_pool_usage(d->core, &d->call, pool->name, &usage, &err) != DIBS_OK) {
        doctor_say(d, DIBS_WARNING, "pool", "set it again with 'dibs pool set'", "pool '%s': %s", pool->name,
                   err.msg);
        return;
    }
    doctor_say(d, usage.n_available == 0 ? DIBS_WARNING : DIBS_FINE, "pool",
               "release what is not needed ('dibs ls --all', 'dibs reap'), or widen the pool",
               "pool '%s' (%.200s): %u static, %u dynamic, %u available, band %u", pool->name, ranges,
               usage.n_static, usage.n_dynamic, usage.n_available, usage.band);
}

void doctor_tell_choice(struct doctor *d, dibs_status s, const dibs_err *err)
{
    if (s != DIBS_OK)
        doctor_say(d, DIBS_PROBLEM, "pool", "make it with 'dibs pool set', or change the setting 'pool'",
                   "no claim can be made: %s (setting pool, %s)", err->msg,
                   dibs_source_text(d->settings->source[DIBS_SET_POOL]));
}

static struct pool_list list_pools(struct doctor *d)
{
    struct pool_list list = { .pools = calloc(POOLS_MAX, sizeof *list.pools) };
    dibs_err err = { 0 };

    if (!list.pools || core_pool_list(d->core, &d->call, collect_pool, &list, &err) != DIBS_OK)
        doctor_say(d, DIBS_PROBLEM, "pool", "see the message", "%s", list.pools ? err.msg : "out of memory");
    return list;
}

static bool note_socket(void *ctx, const dibs_repair_item *item)
{
    struct doctor *d = ctx;

    if (item->kind == DIBS_REPAIR_RESTORED)
        doctor_say(d, DIBS_NOTE, "ledger", "nothing: it is recorded again", "port %u: %s", item->port,
                   item->text);
    else if (item->kind == DIBS_REPAIR_FULL || item->kind == DIBS_REPAIR_UNCLAIMED)
        doctor_say(d, DIBS_WARNING, "ledger",
                   "claim it, or let its owner do that: when its socket closes it is free", "port %u: %s",
                   item->port, item->text);
    return !d->is_stopped;
}

void doctor_claim_sockets(struct doctor *d)
{
    struct pool_list list = list_pools(d);
    dibs_err err = { 0 };

    for (size_t i = 0; i < list.n && !d->is_stopped; i++) {
        const dibs_repair_plan plan = { .pool = list.pools[i].name };

        if (core_repair(d->core, &d->call, &plan, note_socket, d, &err) != DIBS_OK)
            doctor_say(d, DIBS_PROBLEM, "ledger", "run 'dibs repair'",
                       "live sockets could not be recorded: %s", err.msg);
    }
    free(list.pools);
}

void doctor_check_pools(struct doctor *d)
{
    struct pool_list list = list_pools(d);
    dibs_pool chosen;
    dibs_err err = { 0 };

    for (size_t i = 0; i < list.n && !d->is_stopped; i++)
        check_pool(d, &list.pools[i]);
    for (size_t i = 0; list.pools && i < list.n && !d->is_stopped; i++) {
        check_agreement(d, &list.pools[i]);
        check_strays(d, &list.pools[i]);
    }
    free(list.pools);
    doctor_tell_choice(d, core_pool(d->core, &d->call, NULL, NULL, &chosen, &err), &err);
}
