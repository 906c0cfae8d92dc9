/* SPDX-License-Identifier: MIT */
/* Claims one number that is free on several hosts, on all of them or on none. Each host gets a kept claim
 * with the same name and user, outside of cluster pools; a process there holds it by its name. Only this host
 * can probe, if it is one of them. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "core/request.h"

#include "base/banned.h"

enum { CANDIDATES = 16 }; /* all were free a moment ago */

struct on_hosts {
    struct core *core;
    const struct call *call;
    const char *const *hosts;
    size_t n;
    struct ledger *ledger[DIBS_HOSTS_MAX];
    struct ledger_tx *tx[DIBS_HOSTS_MAX];
    struct ask ask;
    struct ledger_want want;
    const struct candidate_source *source;
    uint16_t named; /* the port that the name already has on a host; 0: none */
    uint16_t port;  /* the port that is tried */
    dibs_claim *out;
    size_t n_ended;
    struct portbits taken, cooling;
    struct portbits shared; /* ports that have claims of the scope cluster */
};

static void on_hosts_free(struct on_hosts *o)
{
    for (size_t i = 0; o && i < o->n; i++)
        ledger_close(o->ledger[i]);
    free(o);
}
DEFINE_AUTO(struct on_hosts, on_hosts_free)

static dibs_status check(const dibs_request *r, dibs_err *err)
{
    if (r->holder != DIBS_HELD_BY_NOBODY || !r->keep)
        return err_set(
            err, DIBS_INVALID,
            "a claim on several hosts is kept: no process and no clock is the same on all of them");
    if (r->mode == DIBS_DECLARED || core_is_noop(r))
        return err_set(err, DIBS_INVALID, "a claim on several hosts needs a port, or dibs chooses it");
    return DIBS_OK;
}

/* ---- look up ---- */

static dibs_status look_up_name(struct on_hosts *o, size_t i, dibs_err *err)
{
    const dibs_claim *want = &o->want.claim;
    dibs_claim found;

    if (!want->name[0])
        return DIBS_OK;
    dibs_status s = ledger_find_name(o->ledger[i], o->call, want->name, &found, NULL, err);
    if (s == DIBS_NOT_FOUND)
        return DIBS_OK;
    if (s == DIBS_OK && o->named != 0 && o->named != found.port)
        return err_set(err, DIBS_TAKEN,
                       "'%s' is port %u on host %s, and %u on another one of them; release it there",
                       want->name, found.port, o->hosts[i], o->named);
    if (s == DIBS_OK)
        o->named = found.port;
    return s;
}

static bool note_slot(void *ctx, const struct ledger_slot *slot)
{
    struct on_hosts *o = ctx;
    int64_t age_ms = o->call->now.boot_ms - slot->released_ms;

    if (!(o->source->kind.protos & 1u << slot->proto))
        return true;
    if (slot->claim_id != 0)
        portbits_add(&o->taken, slot->port);
    else if (age_ms < o->source->pool.cooldown_ms)
        portbits_add(&o->cooling, slot->port);
    return true;
}

static bool withhold_shared(void *ctx, const dibs_pool *pool)
{
    struct on_hosts *o = ctx;

    if (pool->scope == DIBS_SCOPE_CLUSTER)
        portbits_add_ranges(&o->shared, &pool->ranges);
    return true;
}

static dibs_status look_around(struct on_hosts *o, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    o->named = 0;
    memset(&o->taken, 0, sizeof o->taken);
    memset(&o->cooling, 0, sizeof o->cooling);
    memset(&o->shared, 0, sizeof o->shared);
    for (size_t i = 0; i < o->n && s == DIBS_OK; i++) {
        s = look_up_name(o, i, err);
        if (s == DIBS_OK)
            s = ledger_slots(o->ledger[i], o->call, NULL, note_slot, o, err);
    }
    return s == DIBS_OK ? ledger_pools(o->core->ledger, o->call, withhold_shared, o, err) : s;
}

/* ---- choose ---- */

static size_t candidates(struct on_hosts *o, uint16_t out[CANDIDATES])
{
    const dibs_request *r = o->ask.request;
    /* Start at a random port: other hosts may choose at the same time. */
    const struct candidate_choice choice = {
        .source = o->source, .claim = &o->want.claim, .skipped = &o->shared, .cursor = core_random(o->core)
    };
    struct candidate_sets sets = { .free = o->source->choosable };

    out[0] = o->named ? o->named : r->port;
    if (o->named || r->mode == DIBS_REQUIRED)
        return 1;
    if (r->mode == DIBS_PREFERRED && !portbits_has(&o->taken, r->port) && !portbits_has(&o->shared, r->port))
        return 1;
    portbits_subtract(&sets.free, &o->taken);
    portbits_subtract(&sets.free, &o->shared);
    sets.rested = sets.free;
    portbits_subtract(&sets.rested, &o->cooling);
    return candidate_ports_in(o->core, &choice, &sets, out, CANDIDATES);
}

/* ---- decide ---- */

static dibs_status claim_on(struct on_hosts *o, size_t i, dibs_err *err)
{
    struct core_probing here = { o->core, o->call };
    struct call there = *o->call;
    struct ledger_refusal refusal = { 0 };
    struct ledger_want want = o->want;
    struct ledger_batch batch = { .wants = &want, .n = 1 };
    char who[512] = "another holder";

    want.candidates = &o->port;
    want.n_candidates = 1;
    want.accepts_cooling = true;
    want.is_choice = o->ask.request->port != o->port;
    want.claim.kind = want.is_choice ? DIBS_DYNAMIC : DIBS_STATIC;
    if (ledger_is_of_this_host(o->core->ledger, o->ledger[i])) {
        batch.probe = core_probe;
        batch.probe_ctx = &here;
    }
    there.tx = o->tx[i];
    dibs_status s = ledger_claim(o->ledger[i], &there, &batch, &o->out[i], &refusal, err);
    if (s != DIBS_TAKEN && s != DIBS_EXHAUSTED)
        return s;
    if (refusal.differs)
        return err_set(err, DIBS_TAKEN,
                       "'%s' is port %u on host %s, which is not what is asked for now; release it there, or "
                       "use another name",
                       want.claim.name, refusal.blocker.port, o->hosts[i]);
    if (refusal.has_blocker)
        core_describe(&refusal.blocker, who, sizeof who);
    return err_set(err, DIBS_TAKEN, "port %u is taken on host %s by %s", o->port, o->hosts[i],
                   refusal.is_busy ? "a process that dibs does not know" : who);
}

/* Act on each host; commit all or none. */
static dibs_status on_all(struct on_hosts *o, dibs_status (*act)(struct on_hosts *o, size_t i, dibs_err *err),
                          dibs_err *err)
{
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < o->n; i++)
        o->tx[i] = ledger_begin(o->ledger[i], true);
    for (size_t i = 0; i < o->n && s == DIBS_OK; i++)
        s = act(o, i, err);
    if (s == DIBS_OK)
        return ledger_commit_all(o->tx, o->n, err);
    for (size_t i = 0; i < o->n; i++)
        ledger_rollback(o->tx[i]);
    return s;
}

static dibs_status decide(struct on_hosts *o, dibs_err *err)
{
    uint16_t ports[CANDIDATES];
    char ranges[DIBS_RANGES_TEXT_MAX + 1];
    dibs_status s = look_around(o, err);

    if (s != DIBS_OK)
        return s;
    size_t n = candidates(o, ports);
    dibs_ranges_format(&o->source->pool.ranges, ranges);
    if (n == 0)
        return err_set(err, DIBS_EXHAUSTED, "no port of %.200s is free on all %zu hosts", ranges, o->n);
    if (portbits_has(&o->shared, ports[0]))
        return err_set(err, DIBS_INVALID, "port %u is in a pool of the cluster: only one host can have it",
                       ports[0]);
    s = DIBS_TAKEN;
    for (size_t i = 0; i < n && s == DIBS_TAKEN; i++) {
        o->port = ports[i];
        s = on_all(o, claim_on, err);
    }
    return s;
}

static dibs_status prepare(struct on_hosts *o, const dibs_request *r, dibs_err *err)
{
    dibs_pool pool;
    dibs_status s = request_prepare(o->core, o->call, r, &o->ask, &o->want, err);

    if (s == DIBS_OK)
        s = core_pool(o->core, o->call, r->pool, r->ranges, &pool, err);
    if (s != DIBS_OK)
        return s;
    if (pool.scope == DIBS_SCOPE_CLUSTER)
        return err_set(err, DIBS_INVALID,
                       "pool '%s' has the scope cluster: only one host can have a port of it", pool.name);
    if (r->port != 0 && r->pool && !dibs_ranges_contain(&pool.ranges, r->port))
        return err_set(err, DIBS_INVALID, "port %u is not in pool '%s'", r->port, pool.name);
    (void) text_copy(o->want.claim.pool, sizeof o->want.claim.pool, pool.name);
    o->want.cooldown_ms = pool.cooldown_ms;
    o->want.is_lookup = true; /* a repeated request returns the same claim on each host */
    o->source = candidate_source(o->core, o->call, &pool, candidate_kind_of(&o->want.claim));
    if (!o->source)
        return err_set(err, DIBS_FAILURE, "claiming: out of memory");
    return DIBS_OK;
}

static dibs_status open_hosts(struct core *core, const struct call *call, const struct core_hosts *hosts,
                              struct on_hosts **out, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    if (hosts->n == 0 || hosts->n > DIBS_HOSTS_MAX)
        return err_set(err, DIBS_INVALID, "1 to %d hosts can be named at once", DIBS_HOSTS_MAX);
    for (size_t i = 0; i < hosts->n; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(hosts->names[i], hosts->names[k]) == 0)
                return err_set(err, DIBS_INVALID, "host '%.80s' is named twice", hosts->names[i]);
    struct on_hosts *o = *out = calloc(1, sizeof *o);
    if (!o)
        return err_set(err, DIBS_FAILURE, "claiming: out of memory");
    o->core = core;
    o->call = call;
    o->hosts = hosts->names;
    o->n = hosts->n;
    for (size_t i = 0; i < o->n && s == DIBS_OK; i++)
        s = ledger_beside(core->ledger, o->hosts[i], &o->ledger[i], err);
    return s;
}

/* Repeat while the commit conflicts with another host's. */
static dibs_status repeat(struct on_hosts *o, dibs_status (*act)(struct on_hosts *o, dibs_err *err),
                          dibs_err *err)
{
    unsigned n_tries = 0;
    dibs_status s = DIBS_OK;

    do {
        s = act(o, err);
    } while (s == DIBS_UNAVAILABLE && ledger_try_again(o->ledger[0], o->call, 1, &n_tries));
    return s;
}

dibs_status core_claim_on_hosts(struct core *core, const struct call *call, const dibs_request *request,
                                const struct core_hosts *hosts, dibs_claim *out, dibs_err *err)
{
    AUTO(on_hosts_free_auto) struct on_hosts *o = NULL;
    dibs_status s = check(request, err);

    if (s == DIBS_OK)
        s = open_hosts(core, call, hosts, &o, err);
    if (s != DIBS_OK || !o)
        return s;
    o->out = out;
    s = prepare(o, request, err);
    if (s == DIBS_OK)
        s = repeat(o, decide, err);
    for (size_t i = 0; i < o->n && s == DIBS_OK; i++) /* name the host of each claim */
        if (!ledger_is_of_this_host(core->ledger, o->ledger[i]))
            (void) text_copy(out[i].node, sizeof out[i].node, o->hosts[i]);
    return s;
}

/* ---- end ---- */

static dibs_status end_on(struct on_hosts *o, size_t i, dibs_err *err)
{
    const dibs_claim *want = &o->want.claim;
    struct call there = *o->call;
    dibs_claim found;
    size_t ended = 0;

    there.tx = o->tx[i];
    dibs_status s = ledger_find_name(o->ledger[i], &there, want->name, &found, NULL, err);

    if (s != DIBS_OK)
        return s == DIBS_NOT_FOUND ? DIBS_OK : s;
    if (found.holder != DIBS_HELD_BY_NOBODY && !ledger_is_of_this_host(o->core->ledger, o->ledger[i]))
        return err_set(err, DIBS_TAKEN, "host %s has a holder of '%s' (port %u); release it there",
                       o->hosts[i], want->name, found.port);
    const struct ledger_seen seen = { found.id, found.generation, found.lease_until_ms };
    s = ledger_end(o->ledger[i], &there, &(struct ledger_ending){ &seen, 1, LEDGER_END_RELEASE }, &ended,
                   err);
    o->n_ended += ended;
    return s;
}

static dibs_status end_all(struct on_hosts *o, dibs_err *err)
{
    o->n_ended = 0;
    return on_all(o, end_on, err);
}

dibs_status core_release_on_hosts(struct core *core, const struct call *call, const dibs_which *which,
                                  const struct core_hosts *hosts, size_t *n, dibs_err *err)
{
    AUTO(on_hosts_free_auto) struct on_hosts *o = NULL;
    dibs_status s = dibs_name_check(which->name, err);

    if (s == DIBS_OK)
        s = open_hosts(core, call, hosts, &o, err);
    if (s != DIBS_OK || !o)
        return s;
    s = core_name(&(struct core_names){ .core = core, .call = call }, which->name, which->project,
                  o->want.claim.name, err);
    if (s == DIBS_OK)
        s = repeat(o, end_all, err);
    if (s == DIBS_OK && n)
        *n = o->n_ended;
    return s;
}
