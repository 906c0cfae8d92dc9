/* SPDX-License-Identifier: MIT */
/* Pools: their ports, band, order and scope, and their usage. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/text.h"
#include "core/core.h"
#include "net/range_snapshot.h"
#include "net/ranges.h"

#include "base/banned.h"

#define DEFAULT_POOL "default"

/* Name an anonymous pool after its ranges; a long list by its beginning and a hash of the whole. */
static void anonymous_name(const dibs_ranges *ranges, char out[DIBS_POOL_NAME_MAX + 1])
{
    char text[DIBS_RANGES_TEXT_MAX + 1];

    dibs_ranges_format(ranges, text);
    if (text_copy(out, DIBS_POOL_NAME_MAX + 1, text))
        return;
    (void) snprintf(out + DIBS_POOL_NAME_MAX - 17, 18, "~%016" PRIx64,
                    hash_fnv1a(HASH_FNV_BASIS, text, strlen(text)));
}

void core_pool_overrule(const struct call *call, dibs_pool *pool)
{
    const dibs_settings *s = call->settings;

    if (s->source[DIBS_SET_BAND] != DIBS_FROM_DEFAULT)
        pool->band = s->band;
    if (s->source[DIBS_SET_ORDER] != DIBS_FROM_DEFAULT)
        (void) text_copy(pool->order, sizeof pool->order, s->order);
    if (s->source[DIBS_SET_COOLDOWN] != DIBS_FROM_DEFAULT)
        pool->cooldown_ms = s->cooldown_ms;
}

static void default_pool(const dibs_settings *s, dibs_pool *out)
{
    *out = (dibs_pool){
        .ranges = s->range, .scope = DIBS_SCOPE_HOST, .band = DIBS_BAND_AUTO, .cooldown_ms = s->cooldown_ms
    };
    (void) text_copy(out->name, sizeof out->name, DEFAULT_POOL);
    (void) text_copy(out->order, sizeof out->order, s->order);
}

/* Get the pool from the cache. A change is seen within a second, one by another host at once. */
static dibs_status recent_pool(struct core *core, const struct call *call, const char *name, dibs_pool *out,
                               dibs_err *err)
{
    enum { POOL_LASTS_MS = 1000 };
    struct core_last_pool *last = &core->last_pool;
    int64_t age_ms = call->now.boot_ms - last->loaded_ms;
    uint64_t notices = ledger_take_notices(core->ledger);

    if (!last->is_loaded || age_ms < 0 || age_ms >= POOL_LASTS_MS || last->notices != notices ||
        strcmp(last->pool.name, name) != 0) {
        dibs_status s = ledger_pool_get(core->ledger, call, name, &last->pool, err);

        last->is_stored = s == DIBS_OK;
        last->is_loaded = s == DIBS_OK || (s == DIBS_NOT_FOUND && strcmp(name, DEFAULT_POOL) == 0);
        if (!last->is_loaded)
            return s == DIBS_NOT_FOUND
                       ? err_set(err, s, "there is no pool '%s'; 'dibs pool' lists them", name)
                       : s;
        (void) text_copy(last->pool.name, sizeof last->pool.name, name);
        last->loaded_ms = call->now.boot_ms;
        last->notices = notices;
    }
    if (last->is_stored)
        *out = last->pool;
    else
        default_pool(call->settings, out);
    return DIBS_OK;
}

dibs_status core_pool_stored(struct core *core, const struct call *call, const char *name, dibs_pool *out,
                             dibs_err *err)
{
    core->last_pool.is_loaded = false;
    return recent_pool(core, call, name, out, err);
}

dibs_status core_pool(struct core *core, const struct call *call, const char *name, const dibs_ranges *ranges,
                      dibs_pool *out, dibs_err *err)
{
    const dibs_settings *s = call->settings;

    if (!name)
        name = s->pool;
    if (ranges) {
        default_pool(s, out);
        out->ranges = *ranges;
        anonymous_name(ranges, out->name);
    } else {
        dibs_status found = recent_pool(core, call, name, out, err);

        if (found != DIBS_OK)
            return found;
        if (strcmp(name, DEFAULT_POOL) == 0 && s->source[DIBS_SET_RANGE] != DIBS_FROM_DEFAULT)
            out->ranges = s->range;
    }
    core_pool_overrule(call, out);
    if (!order_find(out->order)) /* written by a newer dibs, or damaged: use the settings' order */
        (void) text_copy(out->order, sizeof out->order, s->order);
    return DIBS_OK;
}

uint32_t core_band(const dibs_pool *pool)
{
    uint32_t size = dibs_ranges_count(&pool->ranges);

    if (pool->band == DIBS_BAND_AUTO)
        return dibs_band_size(size);
    /* Leave at least one port above the band for dynamic choice. */
    return (uint32_t) pool->band < size ? (uint32_t) pool->band : size - 1;
}

bool core_pool_is_same(const dibs_pool *a, const dibs_pool *b)
{
    bool is_same = a->ranges.n == b->ranges.n && a->scope == b->scope && a->band == b->band &&
                   a->cooldown_ms == b->cooldown_ms && a->is_rebuilt == b->is_rebuilt &&
                   strcmp(a->order, b->order) == 0;

    for (size_t i = 0; i < a->ranges.n && is_same; i++)
        is_same = a->ranges.item[i].first == b->ranges.item[i].first &&
                  a->ranges.item[i].last == b->ranges.item[i].last;
    return is_same;
}

void core_withhold(struct core *core, const struct call *call, bool for_tcp, struct portbits *ports)
{
    const struct core_host *host = core_host(core, call);
    struct portbits blocked = { 0 };

    if (for_tcp && !call->settings->allow_blocked) {
        portbits_add_browser_blocked(&blocked);
        portbits_subtract(ports, &blocked);
    }
    if (core->options.withheld)
        portbits_subtract(ports, core->options.withheld);
    if (call->is_elsewhere)
        return;
    portbits_subtract(ports, &host->reserved);
    if (!call->settings->allow_ephemeral)
        portbits_remove_range(ports, host->ephemeral);
    if (call->uid != 0 && host->unprivileged_from > 1)
        portbits_remove_range(ports, (dibs_range){ 1, (uint16_t) (host->unprivileged_from - 1) });
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

/* Return the text of an array that may lack its final NUL, safe to show. */
static const char *show(const char *array, size_t size, char shown[80])
{
    char text[80];

    (void) snprintf(text, sizeof text, "%.*s", (int) size, array);
    return text_safe(text, shown, 80);
}

dibs_status core_pool_check(const dibs_pool *pool, dibs_err *err)
{
    char shown[80];
    size_t n = strnlen(pool->name, sizeof pool->name);
    bool is_word = n > 0 && n <= DIBS_POOL_NAME_MAX && (pool->name[0] < '0' || pool->name[0] > '9');

    for (size_t i = 0; i < n && is_word; i++)
        is_word = is_name_char(pool->name[i]);
    if (!is_word)
        return err_set(err, DIBS_INVALID,
                       "pool name '%s': 1 to %d letters, digits, '.', '_' or '-', not starting with a digit",
                       show(pool->name, sizeof pool->name, shown), DIBS_POOL_NAME_MAX);
    if (pool->ranges.n == 0)
        return err_set(err, DIBS_INVALID, "pool '%s' needs ports: give it ranges", pool->name);
    if (!ranges_are_valid(&pool->ranges))
        return err_set(err, DIBS_INVALID, "pool '%s': its ranges are not ascending ports from 1 on",
                       pool->name);
    if (pool->scope != DIBS_SCOPE_HOST && pool->scope != DIBS_SCOPE_CLUSTER)
        return err_set(err, DIBS_INVALID, "pool '%s': an unknown scope", pool->name);
    if (!memchr(pool->order, '\0', sizeof pool->order) || !order_find(pool->order))
        return err_set(err, DIBS_INVALID, "pool '%s': order '%s' is not known", pool->name,
                       show(pool->order, sizeof pool->order, shown));
    if (pool->band != DIBS_BAND_AUTO &&
        (pool->band < 0 || (uint32_t) pool->band >= dibs_ranges_count(&pool->ranges)))
        return err_set(err, DIBS_INVALID,
                       "pool '%s': a band of %d ports leaves none of its %u for dynamic use", pool->name,
                       pool->band, dibs_ranges_count(&pool->ranges));
    if (pool->cooldown_ms < 0 || pool->cooldown_ms > DIBS_COOLDOWN_MAX_MS)
        return err_set(err, DIBS_INVALID, "pool '%s': a cooldown is at most an hour", pool->name);
    return DIBS_OK;
}

dibs_status core_may_change_pools(const struct call *call, dibs_err *err)
{
    return call->is_guest ? err_set(err, DIBS_DENIED,
                                    "the ledger is another user's: that user and root may change its pools")
                          : DIBS_OK;
}

/* Refuse the scope cluster in a ledger of one host, unless the stored pool has it (from a snapshot). */
static dibs_status check_scope(struct core *core, const struct call *call, const dibs_pool *pool,
                               dibs_err *err)
{
    dibs_pool before;

    if (pool->scope != DIBS_SCOPE_CLUSTER || ledger_is_shared(core->ledger) ||
        (ledger_pool_get(core->ledger, call, pool->name, &before, NULL) == DIBS_OK &&
         before.scope == DIBS_SCOPE_CLUSTER))
        return DIBS_OK;
    return err_set(err, DIBS_INVALID,
                   "pool '%s': the scope cluster needs a ledger that hosts share (etcd://...); this one is "
                   "one host's own",
                   pool->name);
}

dibs_status core_pool_put(struct core *core, const struct call *call, const dibs_pool *pool, dibs_err *err)
{
    dibs_status s = core_pool_check(pool, err);

    if (s == DIBS_OK)
        s = core_may_change_pools(call, err);
    if (s == DIBS_OK)
        s = check_scope(core, call, pool, err);
    core->last_pool.is_loaded = false;
    return s == DIBS_OK ? ledger_pool_put(core->ledger, call, pool, err) : s;
}

dibs_status core_pool_remove(struct core *core, const struct call *call, const char *name, dibs_err *err)
{
    core->last_pool.is_loaded = false;
    dibs_status s = core_may_change_pools(call, err);
    if (s == DIBS_OK)
        s = ledger_pool_remove(core->ledger, call, name, err);
    /* Removing the default pool resets it; if it is not stored, it is already reset. */
    return s == DIBS_NOT_FOUND && strcmp(name, DEFAULT_POOL) == 0 ? DIBS_OK : s;
}

struct pool_walk {
    dibs_pool_fn fn;
    void *ctx;
    bool has_default;
    bool is_stopped;
};

static bool pass_pool(void *ctx, const dibs_pool *pool)
{
    struct pool_walk *w = ctx;

    w->has_default = w->has_default || strcmp(pool->name, DEFAULT_POOL) == 0;
    w->is_stopped = !w->fn(w->ctx, pool);
    return !w->is_stopped;
}

dibs_status core_pool_list(struct core *core, const struct call *call, dibs_pool_fn fn, void *ctx,
                           dibs_err *err)
{
    struct pool_walk walk = { .fn = fn, .ctx = ctx };
    dibs_pool pool;
    dibs_status s = ledger_pools(core->ledger, call, pass_pool, &walk, err);

    if (s == DIBS_OK && !walk.has_default && !walk.is_stopped) {
        default_pool(call->settings, &pool);
        (void) fn(ctx, &pool);
    }
    return s;
}

void core_pool_room(struct core *core, const struct call *call, const dibs_pool *pool,
                    const struct portbits *const used[2], struct core_room *out)
{
    const dibs_range upper = { dibs_ranges_at(&pool->ranges, core_band(pool)), DIBS_PORT_MAX };
    struct portbits members = { 0 };

    portbits_add_ranges(&members, &pool->ranges);
    *out = (struct core_room){ .usage.size = portbits_count(&members), .usage.band = core_band(pool) };
    struct portbits rest = members;
    portbits_subtract(&rest, used[DIBS_STATIC]);
    out->usage.n_static = out->usage.size - portbits_count(&rest);
    portbits_subtract(&rest, used[DIBS_DYNAMIC]);
    out->usage.n_dynamic = out->usage.size - out->usage.n_static - portbits_count(&rest);
    core_withhold(core, call, true, &rest);
    out->usage.n_available = portbits_count(&rest);
    portbits_remove_range(&rest, upper);
    out->n_available_low = portbits_count(&rest);
    core_withhold(core, call, true, &members);
    out->usage.n_withheld = out->usage.size - portbits_count(&members);
}

static bool note_port(void *ctx, const dibs_claim *claim)
{
    portbits_add(&((struct portbits *) ctx)[claim->kind == DIBS_STATIC], claim->port);
    return true;
}

dibs_status core_pool_usage(struct core *core, const struct call *call, const char *name,
                            dibs_pool_usage *out, dibs_err *err)
{
    struct portbits used[2] = { 0 };
    struct core_room room;
    dibs_pool pool = { 0 };
    dibs_status s = core_pool(core, call, name, NULL, &pool, err);

    if (s == DIBS_OK)
        s = ledger_list(core->ledger, call, &(struct ledger_filter){ 0 }, note_port, used, err);
    if (s != DIBS_OK)
        return s;
    core_pool_room(core, call, &pool, (const struct portbits *const[2]){ &used[0], &used[1] }, &room);
    *out = room.usage;
    return DIBS_OK;
}

/* ---- Kubernetes' snapshots ---- */

bool core_add_port(void *ports, const dibs_claim *claim)
{
    portbits_add(ports, claim->port);
    return true;
}

static dibs_status pool_of_one_range(struct core *core, const struct call *call, const char *name,
                                     dibs_pool *out, dibs_err *err)
{
    dibs_status s = core_pool(core, call, name, NULL, out, err);

    if (s != DIBS_OK || out->ranges.n == 1)
        return s;
    return err_set(err, DIBS_INVALID, "pool '%s' has %zu ranges; Kubernetes' format knows one", out->name,
                   out->ranges.n);
}

dibs_status core_snapshot_export(struct core *core, const struct call *call, const char *pool_name,
                                 const struct core_range_export *out, dibs_err *err)
{
    struct portbits taken = { 0 };
    dibs_pool pool = { 0 };
    dibs_status s = pool_of_one_range(core, call, pool_name, &pool, err);

    if (s == DIBS_OK)
        s = ledger_list(core->ledger, call, &(struct ledger_filter){ 0 }, core_add_port, &taken, err);
    if (s != DIBS_OK)
        return s;
    dibs_ranges_format(&pool.ranges, out->range);
    range_snapshot_export(pool.ranges.item[0], &taken, out->bytes, out->n);
    return DIBS_OK;
}

dibs_status core_snapshot_import(struct core *core, const struct call *call, const char *pool_name,
                                 const dibs_range_snapshot *snapshot, size_t *n_claimed, dibs_err *err)
{
    struct portbits taken = { 0 };
    dibs_range range = { 0 };
    dibs_pool pool = { 0 };
    size_t count = 0;
    dibs_status s = pool_of_one_range(core, call, pool_name, &pool, err);

    if (s == DIBS_OK)
        s = range_snapshot_import(snapshot->range, snapshot->bytes, snapshot->n, &range, &taken, err);
    if (s != DIBS_OK)
        return s;
    if (range.first != pool.ranges.item[0].first || range.last != pool.ranges.item[0].last)
        return err_set(err, DIBS_INVALID, "the snapshot's range %u-%u does not match pool '%s' (%u-%u)",
                       range.first, range.last, pool.name, pool.ranges.item[0].first,
                       pool.ranges.item[0].last);
    AUTO(free_auto) dibs_claim *claims = calloc(portbits_count(&taken) + 1, sizeof *claims);
    if (!claims)
        return err_set(err, DIBS_FAILURE, "snapshot: out of memory");
    for (uint32_t port = range.first; port <= range.last && s == DIBS_OK; port++) {
        if (!portbits_has(&taken, (uint16_t) port))
            continue;
        dibs_claim *c = &claims[count++];
        *c = (dibs_claim){ .port = (uint16_t) port,
                           .kind = DIBS_STATIC,
                           .is_exclusive = true,
                           .is_kept = true,
                           .uid = call->uid };
        /* A bit of Kubernetes' range stands for the port in every protocol. */
        for (dibs_proto proto = DIBS_TCP; proto <= DIBS_PROTO_MAX; proto++)
            c->bindings[c->n_bindings++] = (dibs_binding){ proto, { .len = 16 } };
        (void) text_copy(c->pool, sizeof c->pool, pool.name);
        (void) text_copy(c->principal, sizeof c->principal, call->principal);
        s = core_may_bind(core, call, &c->bindings[0], c->port, err);
    }
    return s == DIBS_OK ? ledger_restore(core->ledger, call, &(dibs_snapshot){ claims, count, NULL, 0 },
                                         n_claimed, NULL, err)
                        : s;
}
