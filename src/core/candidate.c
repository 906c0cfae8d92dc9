/* SPDX-License-Identifier: MIT */
#include "core/candidate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "core/cooldown.h"

#include "base/banned.h"

enum {
    WALK_VAIN_MAX = 512, /* steps (or 64 pieces) without a port before the rest is taken in numeric order */
    QUICK_STRETCHES = 8, /* length of the walk for `enough` ports before all ports are searched */
};

bool candidate_is_specific(const dibs_binding *bindings, size_t n)
{
    bool is_specific = true;

    for (size_t i = 0; i < n; i++) /* 0.0.0.0 leaves the IPv6 addresses of the port free */
        is_specific =
            is_specific && !(bindings[i].address.len == 16 && dibs_address_is_wildcard(&bindings[i].address));
    return is_specific;
}

struct candidate_kind candidate_kind_of(const dibs_claim *claim)
{
    struct candidate_kind kind = { .is_specific = candidate_is_specific(claim->bindings, claim->n_bindings) };

    for (size_t i = 0; i < claim->n_bindings; i++)
        kind.protos |= (uint8_t) (1u << claim->bindings[i].proto);
    return kind;
}

/* The inputs of a source besides its pool and kind. */
struct source_basis {
    int64_t host_ms;
    bool allow_ephemeral, allow_blocked, is_root, is_elsewhere;
};

struct candidate_cached {
    struct source_basis basis;
    struct candidate_source source;
};

static bool is_like(const struct candidate_cached *entry, const struct source_basis *basis,
                    const dibs_pool *pool, struct candidate_kind kind)
{
    return entry->basis.allow_ephemeral == basis->allow_ephemeral &&
           entry->basis.allow_blocked == basis->allow_blocked && entry->basis.is_root == basis->is_root &&
           entry->basis.is_elsewhere == basis->is_elsewhere && entry->source.kind.protos == kind.protos &&
           entry->source.kind.is_specific == kind.is_specific &&
           strcmp(entry->source.pool.name, pool->name) == 0 && core_pool_is_same(&entry->source.pool, pool);
}

static void make(struct core *core, const struct call *call, const dibs_pool *pool,
                 struct candidate_kind kind, struct candidate_source *out)
{
    const struct order_key key = { .salt = ledger_salt(core->ledger), .pool = pool->name };

    out->pool = *pool;
    out->size = dibs_ranges_count(&pool->ranges);
    out->band = core_band(pool);
    out->split = dibs_ranges_at(&pool->ranges, out->band);
    out->kind = kind;
    out->order = order_find(pool->order);
    out->pieces = order_pieces(&key, out->size - out->band, out->split % ORDER_PIECE);
    memset(&out->choosable, 0, sizeof out->choosable);
    portbits_add_ranges(&out->choosable, &pool->ranges);
    core_withhold(core, call, (out->kind.protos & 1u << DIBS_TCP) != 0, &out->choosable);
}

/* Keep the cache in the order of last use, so that the last entry is the one to replace. */
const struct candidate_source *candidate_source(struct core *core, const struct call *call,
                                                const dibs_pool *pool, struct candidate_kind kind)
{
    const struct source_basis basis = { .host_ms = core_host(core, call)->loaded_ms,
                                        .allow_ephemeral = call->settings->allow_ephemeral,
                                        .allow_blocked = call->settings->allow_blocked,
                                        .is_root = call->uid == 0,
                                        .is_elsewhere = call->is_elsewhere };
    struct candidate_cached **cache = core->sources;
    size_t i = 0;

    while (i < SOURCES_MAX && cache[i] && !is_like(cache[i], &basis, pool, kind))
        i++;
    bool is_found = i < SOURCES_MAX && cache[i];
    if (i == SOURCES_MAX)
        i--;
    struct candidate_cached *entry = cache[i] ? cache[i] : malloc(sizeof *entry);
    if (!entry)
        return NULL;
    memmove(cache + 1, cache, i * sizeof(struct candidate_cached *));
    cache[0] = entry;
    if (!is_found || entry->basis.host_ms != basis.host_ms) {
        entry->basis = basis;
        make(core, call, pool, kind, &entry->source);
    }
    return &entry->source;
}

struct candidate_source *candidate_source_aligned(const struct candidate_source *source, uint32_t align)
{
    struct candidate_source *out = malloc(sizeof *out);

    if (!out)
        return NULL;
    *out = *source;
    for (uint32_t port = portbits_next(&out->choosable, 1); port < PORTBITS_END;
         port = portbits_next(&out->choosable, port + 1))
        if (port % align != 0)
            (void) portbits_remove(&out->choosable, (uint16_t) port);
    return out;
}

/* A walk along the upper band of a pool. */
struct walker {
    struct core *core;
    const struct candidate_source *source;
    uint32_t total;             /* ports of the upper band */
    bool is_near;               /* by pieces; otherwise by the order's own walk */
    struct order_pieces pieces; /* start at `cursor` */
    uint64_t cursor;
    struct order_walk walk;
};

/* Return whether several hosts choose from the pool: their writes to the same 64 ports conflict. */
static bool is_shared(const struct core *core, const struct candidate_source *source)
{
    return source->pool.scope == DIBS_SCOPE_CLUSTER && ledger_is_shared(core->ledger) && !source->order->walk;
}

/* Return the random start outside our home blocks after a lost race: two hosts do not collide again. */
static uint32_t detour(struct core *core)
{
    const struct ledger_traffic *traffic = ledger_traffic(core->ledger);

    if (traffic && traffic->n_conflicts != core->n_conflicts) {
        core->n_conflicts = traffic->n_conflicts;
        core->detour = (uint32_t) core_random(core);
    }
    return core->detour;
}

/* Walk by pieces; a piece is a block of a shared ledger. */
static void walk_near(struct core *core, struct walker *w)
{
    struct order_place place = { 0 };

    if (is_shared(core, w->source))
        (void) ledger_place(core->ledger, &place.rank, &place.n);
    w->is_near = true;
    w->pieces = w->source->pieces;
    order_pieces_set_home(&w->pieces, place);
    w->pieces.detour = detour(core);
}

/* Walk by an order that depends on chance or on the claim. */
static void walk_by(struct core *core, const struct order *order, const dibs_binding *first, struct walker *w)
{
    char instance[24];
    char address[DIBS_ADDRESS_TEXT_MAX + 3];
    char text[DIBS_ADDRESS_TEXT_MAX + 1];

    (void) snprintf(instance, sizeof instance, "%016llx", (unsigned long long) ledger_salt(core->ledger));
    dibs_address_format(&first->address, text);
    (void) snprintf(address, sizeof address, first->address.len == 16 ? "[%s]" : "%s", text);
    const struct order_key key = {
        .salt = ledger_salt(core->ledger),
        .pool = w->source->pool.name,
        .entropy = core_random(core),
        .instance = instance,
        .proto = first->proto == DIBS_UDP ? "UDP" : "TCP",
        .address = address,
    };
    w->walk = order->walk(&key, w->total);
}

static struct walker walker(struct core *core, const struct candidate_choice *choice)
{
    const struct candidate_source *source = choice->source;
    struct walker w = {
        .core = core, .source = source, .total = source->size - source->band, .cursor = choice->cursor
    };

    if (source->order->walk)
        walk_by(core, source->order, &choice->claim->bindings[0], &w);
    else
        walk_near(core, &w);
    return w;
}

/* Neighbouring ports that the walk visits in sequence. */
struct stretch {
    uint16_t first, last;
};

static struct stretch stretch_at(const struct walker *w, uint32_t step)
{
    const dibs_ranges *ranges = &w->source->pool.ranges;
    uint32_t n = 1;
    uint32_t at = w->is_near ? order_pieces_position(&w->pieces, w->cursor, step, &n)
                             : order_position(w->walk, step, w->total);
    uint16_t first = dibs_ranges_at(ranges, w->source->band + at);
    size_t i = 0;

    while (ranges->item[i].last < first)
        i++;
    uint32_t last = first + n - 1;
    return (struct stretch){ first, last < ranges->item[i].last ? (uint16_t) last : ranges->item[i].last };
}

/* The ports of one set that are in none of the others, computed one word at a time. */
struct view {
    const struct portbits *in;
    const struct portbits *without[2 * (DIBS_PROTO_MAX + 1) + 2];
    size_t n;
};

/* The state of the ports that a choice is made from. */
struct candidate_views {
    struct view free;        /* choosable ports without a claim */
    struct view rested;      /* of `free`: ports that do not cool */
    bool is_shared;          /* several hosts choose from them */
    struct portbits cooling; /* buffer of `rested` when the pool's cooldown is shorter than another's */
};

static void view_without(struct view *view, const struct portbits *set)
{
    view->without[view->n++] = set;
}

static uint64_t view_word(const struct view *view, uint32_t i)
{
    uint64_t bits = view->in->word[i];

    for (size_t k = 0; k < view->n; k++)
        bits &= ~view->without[k]->word[i];
    return bits;
}

static bool view_has(const struct view *view, uint16_t port)
{
    return view_word(view, port / 64u) >> port % 64u & 1;
}

/* Set *out, within the words of the pool's ports, to the ports in `view` that are not in `other` (NULL: all
 * of `view`). The rest of *out stays as it is. */
static void view_fill(const struct view *view, const struct view *other, const dibs_ranges *ranges,
                      struct portbits *out)
{
    for (uint32_t i = ranges->item[0].first / 64u; i <= ranges->item[ranges->n - 1].last / 64u; i++)
        out->word[i] = view_word(view, i) & ~(other ? view_word(other, i) : 0);
}

struct pick {
    uint16_t *out;
    size_t n, max;
};

static void take(const struct view *view, uint32_t first, uint32_t last, struct pick *pick)
{
    for (uint32_t at = first; at <= last && pick->n < pick->max; at = (at | 63u) + 1) {
        uint64_t bits = view_word(view, at / 64) >> at % 64 << at % 64;

        if (at / 64 == last / 64)
            bits &= (UINT64_C(2) << last % 64) - 1;
        for (; bits && pick->n < pick->max; bits &= bits - 1)
            pick->out[pick->n++] = (uint16_t) (at / 64 * 64 + (uint32_t) __builtin_ctzll(bits));
    }
}

static bool is_any(const struct view *view, dibs_range window)
{
    uint16_t port = 0;
    struct pick one = { .out = &port, .max = 1 };

    take(view, window.first, window.last, &one);
    return one.n > 0;
}

/* Return where a spill into the lower band starts: at random, because its lowest numbers are those that
 * people write into their files. */
static uint16_t low_start(const struct walker *w)
{
    uint32_t at = order_is_lowest(w->source->order) ? 0 : (uint32_t) (core_random(w->core) % w->source->band);

    return dibs_ranges_at(&w->source->pool.ranges, at);
}

/* Pick ports: along the walk in the upper band, then by number; in the lower band from `low_start` on. */
static void pick_along(const struct walker *w, const struct view *view, dibs_range window, struct pick *pick)
{
    struct stretch s = { window.first, window.first };
    uint32_t step = 0;
    uint32_t n_vain = 0; /* steps that gave no port; other steps are not limited */

    if (window.first < w->source->split) {
        uint16_t start = low_start(w);

        take(view, start, window.last, pick);
        take(view, window.first, start - 1u, pick);
        return;
    }
    if (!is_any(view, window))
        return; /* nothing to find on the walk */
    for (; step < w->total && pick->n < pick->max && n_vain < WALK_VAIN_MAX;
         step += (uint32_t) (s.last - s.first) + 1) {
        size_t n = pick->n;

        s = stretch_at(w, step);
        take(view, s.first, s.last, pick);
        n_vain += pick->n > n ? 0 : w->is_near ? WALK_VAIN_MAX / 64 : 1;
    }
    if (step >= w->total || pick->n == pick->max)
        return;
    struct portbits picked = { 0 };
    struct view rest = *view;
    for (size_t i = 0; i < pick->n; i++)
        portbits_add(&picked, pick->out[i]);
    view_without(&rest, &picked);
    take(&rest, s.first, window.last, pick);
    take(&rest, window.first, s.first - 1u, pick);
}

/* Pick the ports that were released first, of those that are free but not rested. */
static void pick_oldest(const struct core_index *index, const struct candidate_views *views, uint8_t protos,
                        dibs_range window, struct pick *pick)
{
    for (uint32_t at = index->list ? index->list[0].newer : 0; at != 0 && pick->n < pick->max;
         at = index->list[at].newer) {
        uint16_t port = (uint16_t) at;
        bool is_again = false; /* the port cools for several protocols: pick it once */

        for (dibs_proto proto = DIBS_TCP; proto < at >> 16; proto++)
            is_again =
                is_again || ((protos & 1u << proto) != 0 && portbits_has(&index->cooling[proto], port));
        if ((protos & 1u << (at >> 16)) != 0 && !is_again && port >= window.first && port <= window.last &&
            view_has(&views->free, port) && !view_has(&views->rested, port))
            pick->out[pick->n++] = port;
    }
}

static void pick_all(const struct core *core, const struct candidate_choice *choice, const struct walker *w,
                     const struct candidate_views *views, struct pick *pick)
{
    const struct candidate_source *source = choice->source;
    const dibs_range windows[] = { { source->split,
                                     source->pool.ranges.item[source->pool.ranges.n - 1].last },
                                   { source->pool.ranges.item[0].first, (uint16_t) (source->split - 1) } };
    const size_t n_windows = source->band > 0 ? 2 : 1;
    struct portbits set;
    const struct view in_set = { .in = &set };

    for (size_t i = 0; i < n_windows && pick->n < pick->max; i++) {
        pick_along(w, &views->rested, windows[i], pick);
        if (pick->n == pick->max)
            return;
        /* The oldest ports are the same for all hosts that share the pool: each host follows its own walk. */
        if (views->is_shared) {
            view_fill(&views->free, &views->rested, &source->pool.ranges, &set);
            pick_along(w, &in_set, windows[i], pick);
        } else {
            pick_oldest(&core->index, views, source->kind.protos, windows[i], pick);
        }
    }
    if (!source->kind.is_specific || pick->n == pick->max)
        return;
    const struct view all = { .in = &source->choosable, .without = { choice->skipped }, .n = 1 };
    view_fill(&all, &views->free, &source->pool.ranges, &set);
    for (size_t i = 0; i < n_windows && pick->n < pick->max; i++)
        pick_along(w, &in_set, windows[i], pick);
}

size_t candidate_ports_in(struct core *core, const struct candidate_choice *choice,
                          const struct candidate_sets *sets, uint16_t *out, size_t max)
{
    const struct walker w = walker(core, choice);
    const struct candidate_views views = { .free = { .in = &sets->free },
                                           .rested = { .in = &sets->rested },
                                           .is_shared = true };
    struct pick pick = { .out = out, .max = max };

    pick_all(core, choice, &w, &views, &pick);
    return pick.n;
}

/* Compute the views from the index. */
static void views_from_index(struct core *core, const struct candidate_choice *choice,
                             struct candidate_views *out)
{
    const struct candidate_source *source = choice->source;
    const struct core_index *index = &core->index;
    bool is_longest = source->pool.cooldown_ms == index->longest_ms;

    cooldown_expire(core, choice->now_ms);
    out->is_shared = is_shared(core, source);
    out->free = (struct view){ .in = &source->choosable, .without = { choice->skipped }, .n = 1 };
    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_PROTO_MAX && index->is_loaded; proto++)
        if (source->kind.protos & 1u << proto)
            view_without(&out->free, &index->taken[proto]);
    out->rested = out->free;
    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_PROTO_MAX && index->is_loaded && is_longest; proto++)
        if (source->kind.protos & 1u << proto)
            view_without(&out->rested, &index->cooling[proto]);
    if (is_longest || !index->is_loaded)
        return;
    /* Other pools have a longer cooldown: only the newer end of the list counts. */
    memset(&out->cooling, 0, sizeof out->cooling);
    for (uint32_t at = index->list ? index->list[0].older : 0;
         at != 0 && choice->now_ms - index->list[at].released_ms < source->pool.cooldown_ms;
         at = index->list[at].older)
        if (source->kind.protos & 1u << (at >> 16))
            portbits_add(&out->cooling, (uint16_t) at);
    view_without(&out->rested, &out->cooling);
}

size_t candidate_ports(struct core *core, const struct candidate_choice *choice, uint16_t *out, size_t max)
{
    const struct walker w = walker(core, choice);
    struct pick pick = { .out = out, .max = max };
    struct candidate_views views;
    struct stretch s;

    views_from_index(core, choice, &views);
    /* In a pool with many free ports the walk finds some soon, without a search of all ports. */
    for (uint32_t step = 0, k = 0;
         step < w.total && pick.n < max && (step < max || (k < QUICK_STRETCHES && pick.n < choice->enough));
         step += (uint32_t) (s.last - s.first) + 1, k++) {
        s = stretch_at(&w, step);
        take(&views.rested, s.first, s.last, &pick);
    }
    if (!core->index.is_loaded || (pick.n > 0 && pick.n >= choice->enough))
        return pick.n;
    pick.n = 0;
    pick_all(core, choice, &w, &views, &pick);
    return pick.n;
}

static void pick_runs(const struct portbits *set, dibs_range window, struct candidate_run run, uint16_t start,
                      struct pick *pick)
{
    uint16_t base = start;

    for (uint16_t first = 0; pick->n < pick->max;) {
        base = portbits_run(set, window, run.n, run.align, base);
        if (base == 0 || base == first)
            return;
        if (first == 0)
            first = base;
        pick->out[pick->n++] = base;
        base = base == window.last ? window.first : (uint16_t) (base + 1);
    }
}

/* Pick runs from the view, unless a better view already gave some. */
static void pick_runs_of(struct core *core, const struct candidate_source *source,
                         const struct portbits *ports, uint16_t from, struct candidate_run run,
                         struct pick *pick)
{
    dibs_range window = { from, source->pool.ranges.item[source->pool.ranges.n - 1].last };
    uint64_t width = (uint64_t) (window.last - window.first) + 1;

    if (pick->n > 0)
        return;
    if (run.start >= window.first)
        from = run.start;
    else if (from == source->split && !order_is_lowest(source->order))
        from = (uint16_t) (from + core_random(core) % width);
    pick_runs(ports, window, run, from, pick);
}

size_t candidate_runs(struct core *core, const struct candidate_choice *choice, struct candidate_run run,
                      uint16_t *out, size_t max)
{
    const struct candidate_source *source = choice->source;
    struct pick pick = { .out = out, .max = max };
    struct candidate_views views;
    struct candidate_sets sets = { 0 };

    views_from_index(core, choice, &views);
    if (run.is_free)
        views.free = views.rested =
            (struct view){ .in = &source->choosable, .without = { choice->skipped }, .n = 1 };
    view_fill(&views.free, NULL, &source->pool.ranges, &sets.free);
    view_fill(&views.rested, NULL, &source->pool.ranges, &sets.rested);
    pick_runs_of(core, source, &sets.rested, source->split, run, &pick);
    pick_runs_of(core, source, &sets.free, source->split, run, &pick);
    pick_runs_of(core, source, &sets.free, source->pool.ranges.item[0].first, run, &pick);
    return pick.n;
}

uint16_t candidate_of_name(const struct call *call, const struct candidate_source *source,
                           const dibs_claim *claim)
{
    uint32_t total = source->size - source->band;
    /* Hash the ledger's place, not its salt: a name finds its port again after the ledger was lost. */
    const char *place = call->settings->ledger;
    uint64_t salt = hash_fnv1a(HASH_FNV_BASIS, place, strlen(place));
    const char *name = claim->name;

    /* Hash the directory: the group depends on the branch and on which clone came first ('~'). */
    if (claim->project[0]) {
        salt = hash_fnv1a(salt, claim->project, strlen(claim->project));
        salt = hash_fnv1a(salt, name, strcspn(name, "@~/"));
        name += strcspn(name, "/");
    }
    uint32_t i = order_name_position(name, salt, total);

    return dibs_ranges_at(&source->pool.ranges, source->band + i);
}
