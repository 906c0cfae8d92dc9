/* SPDX-License-Identifier: MIT */
/* Repair from observation (K7): what is used but not claimed is claimed; what is claimed but not used is
 * dropped only when it was seen so three times in the same generation (W4), has no holder, and is the
 * caller's to end. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "core/core.h"
#include "kernel/kernel.h"

#include "base/banned.h"

enum { SIGHTINGS_TO_DROP = 3, SOCKETS_MAX = 65536, CLAIMS_STEP = 256 };

struct repairing {
    struct core *core;
    const dibs_repair_plan *plan;
    dibs_pool pool;
    dibs_repair_fn fn;
    void *ctx;
    bool is_stopped;
    dibs_observed *seen; /* what was observed, in order */
    size_t n_seen;
    struct kernel_socket *sockets; /* of seen[i], when sockets are observed */
    pid_t *pids;                   /* their owners */
    bool *is_missing;              /* in use, but not claimed */
};

static void report(struct repairing *r, const dibs_repair_item *about, const char *fmt, ...)
    DIBS_PRINTF(3, 4);

static void report(struct repairing *r, const dibs_repair_item *about, const char *fmt, ...)
{
    dibs_repair_item item = *about;
    va_list ap;

    va_start(ap, fmt);
    (void) vsnprintf(item.text, sizeof item.text, fmt, ap);
    va_end(ap);
    if (!r->is_stopped)
        r->is_stopped = !r->fn(r->ctx, &item);
}

static dibs_repair_item item_of(dibs_repair_kind kind, const dibs_observed *o)
{
    dibs_repair_item item = { .kind = kind, .binding = o->binding, .port = o->port };

    (void) text_copy(item.name, sizeof item.name, o->name);
    return item;
}

/* ---- observed, but not claimed ---- */

struct cover {
    const dibs_observed *observed;
    dibs_claim claim;
    bool with_declared; /* a socket on a declared port is what was declared */
    bool is_found;
};

static bool find_cover(void *ctx, const dibs_claim *claim)
{
    struct cover *c = ctx;

    for (size_t i = 0; i < claim->n_bindings && !c->is_found; i++)
        c->is_found = (claim->is_exclusive || c->with_declared) &&
                      claim->bindings[i].proto == c->observed->binding.proto &&
                      dibs_address_conflict(&claim->bindings[i].address, &c->observed->binding.address);
    if (c->is_found)
        c->claim = *claim;
    return !c->is_found;
}

static bool was_seen_before(const struct repairing *r, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (r->seen[k].port == r->seen[i].port && r->seen[k].binding.proto == r->seen[i].binding.proto &&
            dibs_address_conflict(&r->seen[k].binding.address, &r->seen[i].binding.address))
            return true;
    return false;
}

/* Who uses a socket becomes the holder of its claim; who is on a list is kept until the list drops him. */
static dibs_status claim_for(struct repairing *r, size_t i, dibs_claim *out, dibs_err *err)
{
    const dibs_observed *o = &r->seen[i];
    struct core *core = r->core;

    *out = (dibs_claim){
        .port = o->port, .kind = DIBS_STATIC, .is_exclusive = true, .n_bindings = 1, .is_kept = !r->sockets
    };
    out->bindings[0] = o->binding;
    out->bindings[0].address.v6only =
        false; /* "::" alone is claimed as "*": rather too much than too little */
    (void) text_copy(out->principal, sizeof out->principal, core->options.principal);
    (void) text_copy(out->pool, sizeof out->pool, r->pool.name);
    (void) text_copy(out->name, sizeof out->name, o->name);
    if (!r->sockets)
        return core_holder(core, DIBS_HELD_BY_NOBODY, 0, 0, out, err);
    if (r->pids[i] == 0)
        return err_set(err, DIBS_NOT_FOUND, "its process cannot be told");
    return core_holder(core, DIBS_HELD_BY_PROCESS, r->pids[i], 0, out, err);
}

static void restore(struct repairing *r, size_t i)
{
    const dibs_observed *o = &r->seen[i];
    struct ledger_actor actor = core_actor(r->core, core_now(r->core));
    dibs_repair_item item = item_of(DIBS_REPAIR_RESTORED, o);
    dibs_claim claim;
    dibs_err why = { 0 };
    dibs_status s = claim_for(r, i, &claim, &why);

    if (s != DIBS_OK && r->sockets) {
        item.kind = DIBS_REPAIR_UNCLAIMED;
        report(r, &item, "in use without a claim by somebody else (uid %u)",
               owner_seen_uid(&r->core->view.users, r->sockets[i].uid));
        return;
    }
    if (s == DIBS_OK && !r->plan->is_dry_run)
        s = ledger_restore(r->core->ledger, &(dibs_snapshot){ &claim, 1, NULL, 0 }, &actor, NULL, &why);
    const char *outcome = r->plan->is_dry_run ? "would be claimed" : "claimed now";
    if (s == DIBS_OK && r->sockets) {
        report(r, &item, "in use by pid %d (%s), was not claimed: %s", claim.process.pid, claim.command,
               outcome);
    } else if (s == DIBS_OK) {
        report(r, &item, "in use, was not claimed: %s", outcome);
    } else {
        item.kind = DIBS_REPAIR_FULL;
        report(r, &item, "in use, could not be claimed: %.180s", why.msg);
    }
}

static dibs_status check_observed(struct repairing *r, size_t i, dibs_err *err)
{
    const dibs_observed *o = &r->seen[i];
    ledger_start_call(r->core->ledger);
    struct ledger_filter filter = { .port = o->port, .proto = o->binding.proto };
    struct cover cover = { .observed = o, .with_declared = r->sockets != NULL };
    dibs_repair_item item = item_of(DIBS_REPAIR_DUPLICATE, o);

    if (!dibs_ranges_contain(&r->pool.ranges, o->port)) {
        item.kind = DIBS_REPAIR_OUTSIDE;
        if (!r->sockets) /* every socket of the host outside of the pool is nobody's business */
            report(r, &item, "outside of pool '%s'", r->pool.name);
        return DIBS_OK;
    }
    if (was_seen_before(r, i)) {
        if (!r->sockets) /* several sockets of one server are usual */
            report(r, &item, "observed more than once; one of its users must change");
        return DIBS_OK;
    }
    dibs_status s = ledger_list(r->core->ledger, &filter, find_cover, &cover, err);
    if (s != DIBS_OK)
        return s;
    if (!cover.is_found && r->sockets)
        r->is_missing[i] = true; /* their owners are looked for together */
    else if (!cover.is_found)
        restore(r, i);
    if (!cover.is_found)
        return DIBS_OK;
    if (o->name[0] && cover.claim.name[0] && strcmp(o->name, cover.claim.name) != 0)
        report(r, &item, "used by '%.80s', but claimed as '%.80s'", o->name, cover.claim.name);
    return r->sockets || r->plan->is_dry_run ? DIBS_OK
                                             : ledger_not_leaked(r->core->ledger, cover.claim.id, err);
}

/* ---- claimed, but not observed ---- */

static bool is_observed(const struct repairing *r, const dibs_claim *claim)
{
    for (size_t i = 0; i < r->n_seen; i++)
        for (size_t k = 0; k < claim->n_bindings; k++)
            if (r->seen[i].port == claim->port && r->seen[i].binding.proto == claim->bindings[k].proto &&
                dibs_address_conflict(&r->seen[i].binding.address, &claim->bindings[k].address))
                return true;
    return false;
}

struct claims_step {
    dibs_claim claims[CLAIMS_STEP];
    size_t n;
};

static bool gather(void *ctx, const dibs_claim *claim)
{
    struct claims_step *step = ctx;

    step->claims[step->n++] = *claim;
    return step->n < CLAIMS_STEP;
}

static dibs_status check_leak(struct repairing *r, dibs_claim *claim, dibs_err *err)
{
    struct core *core = r->core;
    struct ledger_actor actor = core_actor(core, core_now(core));
    struct ledger_seen seen = { claim->id, claim->generation, claim->lease_until_ms };
    dibs_repair_item item = { .kind = DIBS_REPAIR_SUSPECT,
                              .binding = claim->bindings[0],
                              .port = claim->port };
    bool is_mine = core->options.is_admin || strcmp(claim->principal, core->options.principal) == 0;

    if (!claim->is_exclusive || !is_mine || !dibs_ranges_contain(&r->pool.ranges, claim->port) ||
        is_observed(r, claim))
        return DIBS_OK;
    /* A holder that lives, or of whom nothing certain is known, is no leak (INV-5). */
    if (claim->holder != DIBS_HELD_BY_NOBODY && core_judge(core, claim, NULL, 0) != DIBS_DEAD)
        return DIBS_OK;
    (void) text_copy(item.name, sizeof item.name, claim->name);
    if (r->plan->is_dry_run) {
        report(r, &item, "claimed, but not in use");
        return DIBS_OK;
    }
    dibs_status s = ledger_sighted(core->ledger, seen, &item.sightings, err);
    if (s == DIBS_OK && item.sightings >= SIGHTINGS_TO_DROP) {
        item.kind = DIBS_REPAIR_LEAK;
        s = ledger_end(core->ledger, &(struct ledger_ending){ &seen, 1, LEDGER_END_LEAK }, &actor, NULL, err);
    }
    if (s == DIBS_OK)
        report(r, &item,
               item.kind == DIBS_REPAIR_LEAK ? "claimed, but not in use for the %u. time: dropped"
                                             : "claimed, but not in use (sighting %u of 3)",
               item.sightings);
    return s;
}

static dibs_status check_leaks(struct repairing *r, dibs_err *err)
{
    AUTO(free_auto) struct claims_step *step = calloc(1, sizeof *step);
    struct ledger_filter filter = { .limit = CLAIMS_STEP };
    dibs_status s = DIBS_OK;

    if (!step)
        return err_set(err, DIBS_FAILURE, "repair: out of memory");
    do {
        step->n = 0;
        ledger_start_call(r->core->ledger); /* each step is short, all together need not be */
        s = ledger_list(r->core->ledger, &filter, gather, step, err);
        for (size_t i = 0; i < step->n && s == DIBS_OK && !r->is_stopped; i++)
            s = check_leak(r, &step->claims[i], err);
        if (step->n > 0)
            filter.after_id = step->claims[step->n - 1].id;
    } while (s == DIBS_OK && step->n == CLAIMS_STEP && !r->is_stopped);
    return s;
}

/* ---- sockets as observation ---- */

struct socket_list {
    struct kernel_socket *sockets;
    size_t n, max;
};

static bool add_socket(void *ctx, const struct kernel_socket *socket)
{
    struct socket_list *list = ctx;

    if (list->n == list->max) {
        size_t max = list->max ? list->max * 2 : 256;
        struct kernel_socket *more = reallocarray(list->sockets, max, sizeof *more);

        if (!more)
            return false;
        list->sockets = more;
        list->max = max;
    }
    list->sockets[list->n++] = *socket;
    return list->n < SOCKETS_MAX;
}

static bool reaped(void *ctx, const dibs_claim *claim)
{
    struct repairing *r = ctx;
    dibs_repair_item item = { .kind = DIBS_REPAIR_REAPED,
                              .binding = claim->bindings[0],
                              .port = claim->port };
    char who[200];

    core_describe(claim, who, sizeof who);
    (void) text_copy(item.name, sizeof item.name, claim->name);
    report(r, &item, "its holder is dead: %s", who);
    return !r->is_stopped;
}

/* Owners are looked for only where a claim is missing, in one walk. */
static void restore_missing(struct repairing *r)
{
    for (size_t i = 0; i < r->n_seen; i++)
        if (!r->is_missing[i])
            r->sockets[i].inode = 0;
    core_socket_owners(r->core, r->sockets, r->pids, r->n_seen);
    for (size_t i = 0; i < r->n_seen && !r->is_stopped; i++)
        if (r->is_missing[i])
            restore(r, i);
}

static dibs_status repair_by_sockets(struct repairing *r, dibs_err *err)
{
    struct socket_list list = { 0 };
    dibs_status s = core_reap(r->core, r->plan->is_dry_run ? DIBS_REAP_DRY_RUN : 0, reaped, r, NULL, err);

    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_SCTP && s == DIBS_OK; proto++)
        if (kernel_has_proto(proto))
            s = kernel_sockets(0, proto, 0, add_socket, &list, err);
    r->seen = calloc(list.n + 1, sizeof *r->seen);
    r->pids = calloc(list.n + 1, sizeof *r->pids);
    r->is_missing = calloc(list.n + 1, sizeof *r->is_missing);
    if (s == DIBS_OK && (!r->seen || !r->pids || !r->is_missing))
        s = err_set(err, DIBS_FAILURE, "repair: out of memory");
    r->n_seen = s == DIBS_OK && r->seen ? list.n : 0;
    for (size_t i = 0; i < r->n_seen; i++)
        r->seen[i] = (dibs_observed){ .binding = { list.sockets[i].proto, list.sockets[i].address },
                                      .port = list.sockets[i].port };
    r->sockets = list.sockets;
    for (size_t i = 0; i < r->n_seen && s == DIBS_OK && !r->is_stopped; i++)
        s = check_observed(r, i, err);
    if (s == DIBS_OK && r->n_seen > 0)
        restore_missing(r);
    free(r->seen);
    free(r->pids);
    free(r->is_missing);
    free(list.sockets);
    return s;
}

static dibs_status repair_by_list(struct repairing *r, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    r->seen = calloc(r->plan->n + 1, sizeof *r->seen);
    if (!r->seen)
        return err_set(err, DIBS_FAILURE, "repair: out of memory");
    memcpy(r->seen, r->plan->observed, r->plan->n * sizeof *r->seen);
    r->n_seen = r->plan->n;
    for (size_t i = 0; i < r->n_seen && s == DIBS_OK && !r->is_stopped; i++)
        s = check_observed(r, i, err);
    if (s == DIBS_OK && !r->is_stopped)
        s = check_leaks(r, err);
    free(r->seen);
    return s;
}

dibs_status core_repair(struct core *core, const dibs_repair_plan *plan, dibs_repair_fn fn, void *ctx,
                        dibs_err *err)
{
    struct repairing r = { .core = core, .plan = plan, .fn = fn, .ctx = ctx };
    dibs_status s = core_pool(core, plan->pool, NULL, &r.pool, err);

    if (s != DIBS_OK)
        return s;
    for (size_t i = 0; i < plan->n && plan->observed && s == DIBS_OK; i++)
        if (plan->observed[i].name[0])
            s = dibs_name_check(plan->observed[i].name, err);
    if (s == DIBS_OK)
        s = plan->observed ? repair_by_list(&r, err) : repair_by_sockets(&r, err);
    core->index.is_loaded = false;
    return s;
}
