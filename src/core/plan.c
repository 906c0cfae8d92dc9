/* SPDX-License-Identifier: MIT */
#include "core/plan.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"

#include "base/banned.h"

/* Steps along a walk in vain before the rest is taken in numeric order: keeps the price of a nearly full pool
 * bounded. */
enum { WALK_STEPS_MAX = 512 };

struct plan_kind plan_kind_of(const dibs_claim *claim)
{
    struct plan_kind kind = { .is_specific = true };

    for (size_t i = 0; i < claim->n_bindings; i++) {
        kind.protos |= (uint8_t) (1u << claim->bindings[i].proto);
        /* 0.0.0.0 leaves the IPv6 side of a port to others. */
        kind.is_specific = kind.is_specific && !(claim->bindings[i].address.len == 16 &&
                                                 dibs_address_is_wildcard(&claim->bindings[i].address));
    }
    return kind;
}

void plan_pool_init(struct core *core, const dibs_pool *pool, struct plan_kind kind, struct plan_pool *out)
{
    struct portbits withheld;

    out->pool = *pool;
    out->size = dibs_ranges_count(&pool->ranges);
    out->band = core_band(pool);
    out->split = dibs_ranges_at(&pool->ranges, out->band);
    out->kind = kind;
    portbits_add_ranges(&out->members, &pool->ranges);
    out->choosable = out->members;
    core_withheld(core, (out->kind.protos & 1u << DIBS_TCP) != 0, &withheld);
    portbits_subtract(&out->choosable, &withheld);
}

void plan_pool_align(struct plan_pool *plan, uint32_t align)
{
    struct portbits multiples = { 0 };
    struct portbits others = plan->members;

    for (uint32_t port = align; port <= DIBS_PORT_MAX; port += align)
        portbits_add(&multiples, (uint16_t) port);
    portbits_subtract(&others, &multiples);
    portbits_subtract(&plan->members, &others);
    portbits_subtract(&plan->choosable, &others);
}

struct walker {
    const struct plan_pool *plan;
    struct order_walk walk;
    struct order_pieces pieces; /* n 0: it does not go by them */
    uint32_t total;             /* steps of the walk over the upper band */
    uint32_t size;              /* ports of it */
    bool is_sorted;             /* the order is the numeric one */
    /* Claims that follow each other are neighbours: what is committed together is then written to few blocks
     * of a shared ledger, or to few pages of a file (10 instead of 52 for a group of 64). */
    bool is_near;
};

/* Several hosts choose from it, and each that writes to the same 64 ports makes the others decide anew. */
static bool is_shared(const struct core *core, const struct plan_pool *plan)
{
    return plan->pool.scope == DIBS_SCOPE_CLUSTER && ledger_is_shared(core->ledger) &&
           order_find(plan->pool.order)->uses_cursor;
}

/* Two hosts that look for what is left meet, and would go on together: who was beaten goes elsewhere. */
static uint32_t detour(struct core *core)
{
    const struct ledger_traffic *traffic = ledger_traffic(core->ledger);

    if (traffic && traffic->n_beaten != core->n_beaten) {
        core->n_beaten = traffic->n_beaten;
        core->detour = (uint32_t) core_random(core);
    }
    return core->detour;
}

/* How many hosts there are, and which of them this is. */
static struct order_place place_of(const struct core *core)
{
    struct order_place place = { 0 };

    (void) ledger_place(core->ledger, &place.rank, &place.n);
    return place;
}

/* Orders that go by the ledger's cursor. */
static void walk_near(struct core *core, struct walker *w)
{
    const struct plan_pool *plan = w->plan;
    const struct order_key key = { .salt = ledger_salt(core->ledger), .pool = plan->pool.name };

    w->is_near = true;
    if (!ledger_is_shared(core->ledger)) {
        w->walk = order_near(&key, w->total);
        return;
    }
    /* A piece is a block, to be filled from its beginning. */
    struct order_place place = is_shared(core, plan) ? place_of(core) : (struct order_place){ 0 };
    w->pieces = order_pieces(&key, w->size, plan->split % ORDER_PIECE, place);
    w->pieces.detour = detour(core);
    w->total = w->pieces.n * ORDER_PIECE;
}

/* The others: chance, or what is claimed. */
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
        .pool = w->plan->pool.name,
        .entropy = core_random(core),
        .instance = instance,
        .proto = first->proto == DIBS_UDP ? "UDP" : "TCP",
        .address = address,
    };
    w->walk = order->walk(&key, w->total);
    w->is_sorted = w->walk.step == 1 && w->walk.offset == 0;
}

static struct walker walker(struct core *core, const struct plan_pool *plan, const dibs_claim *claim)
{
    const struct order *order = order_find(plan->pool.order);
    struct walker w = { .plan = plan, .size = plan->size - plan->band };

    w.total = w.size;
    if (order->uses_cursor)
        walk_near(core, &w);
    else
        walk_by(core, order, &claim->bindings[0], &w);
    return w;
}

/* 0: there is none at that step. */
static uint16_t walk_port(const struct walker *w, uint64_t k, uint32_t step)
{
    uint32_t at = w->pieces.n > 0 ? order_pieces_position(&w->pieces, k, step, w->size)
                  : w->is_near    ? order_near_position(w->walk, k + step, w->total)
                                  : order_position(w->walk, k + step, w->total);

    return at < w->size ? dibs_ranges_at(&w->plan->pool.ranges, w->plan->band + at) : 0;
}

size_t plan_blind(struct core *core, const struct plan_pool *plan, const dibs_claim *claim, uint64_t k,
                  uint16_t *out, size_t max)
{
    struct walker w = walker(core, plan, claim);
    size_t n = 0;

    if (!order_find(plan->pool.order)->uses_cursor)
        k = 0;
    for (uint32_t step = 0; step < w.total && step < WALK_STEPS_MAX && n < max; step++) {
        uint16_t port = walk_port(&w, k, step);

        if (portbits_has(&plan->choosable, port) && !portbits_has(&core->foreign.ports, port))
            out[n++] = port;
    }
    return n;
}

/* What may be chosen and no claim has, as far as the index knows. */
static void free_ports(const struct core *core, const struct plan_pool *plan, struct portbits *out)
{
    *out = plan->choosable;
    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_SCTP; proto++)
        if (plan->kind.protos & 1u << proto)
            portbits_subtract(out, &core->index.taken[proto]);
    portbits_subtract(out, &core->foreign.ports);
}

/* The same without those that still cool. */
static void rested_ports(struct core *core, const struct plan_pool *plan, const struct portbits *free,
                         struct portbits *out)
{
    int64_t now_ms = core_now(core).boot_ms;
    bool is_longest = plan->pool.cooldown_ms == core->index.longest_ms;
    struct core_cooling c;

    core_index_expire(core, now_ms);
    *out = *free;
    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_SCTP && is_longest; proto++)
        if (plan->kind.protos & 1u << proto)
            portbits_subtract(out, &core->index.cooling[proto]);
    /* Another pool's ports rest longer than ours: only the younger end of the ring counts. */
    for (size_t i = core->index.n; i-- > 0 && !is_longest;) {
        bool counts = core_index_cooling(core, i, &c) && (plan->kind.protos & 1u << c.proto) != 0;

        if (now_ms - c.released_ms >= plan->pool.cooldown_ms)
            return;
        if (counts)
            portbits_remove(out, c.port);
    }
}

struct pick {
    uint16_t *out;
    size_t n, max;
};

static void pick_free(const struct walker *w, struct port_set *set, dibs_range window, uint64_t k,
                      struct pick *pick)
{
    uint16_t port = window.first;
    bool is_upper = window.first >= w->plan->split;

    if (port_set_pick(set, window, port) == 0)
        return;          /* all of them cool: the walk would look at each in vain */
    uint32_t n_vain = 0; /* not all steps: who takes many must go along the walk, too, for who comes next */
    for (uint32_t step = 0; is_upper && step < w->total && pick->n < pick->max; step++) {
        port = walk_port(w, k, step);
        if (port_set_remove(set, port))
            pick->out[pick->n++] = port;
        else if (++n_vain == WALK_STEPS_MAX && !w->is_sorted)
            break;
    }
    while (pick->n < pick->max && (port = port_set_pick(set, window, port)) != 0) {
        (void) port_set_remove(set, port);
        pick->out[pick->n++] = port;
    }
}

bool plan_is_free(const struct core *core, const struct plan_pool *plan, uint16_t port)
{
    bool is_free = portbits_has(&plan->choosable, port) && !portbits_has(&core->foreign.ports, port);

    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_SCTP && is_free; proto++)
        if (plan->kind.protos & 1u << proto)
            is_free = !portbits_has(&core->index.taken[proto], port);
    return is_free;
}

static bool is_rested(const struct core *core, const struct plan_pool *plan, uint16_t port)
{
    bool is_rested = plan_is_free(core, plan, port);

    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_SCTP && is_rested; proto++)
        if (plan->kind.protos & 1u << proto)
            is_rested = !portbits_has(&core->index.cooling[proto], port);
    return is_rested;
}

static void pick_cooling(const struct core *core, const struct plan_pool *plan, dibs_range window,
                         struct pick *pick)
{
    int64_t cooling_since_ms = core_now(core).boot_ms - plan->pool.cooldown_ms;
    bool has_several_protos = (plan->kind.protos & (plan->kind.protos - 1)) != 0;
    struct portbits done; /* a port may cool for each of its protocols */
    struct core_cooling c;

    if (has_several_protos)
        memset(&done, 0, sizeof done);

    for (size_t i = 0; i < core->index.n && pick->n < pick->max; i++) {
        bool counts = core_index_cooling(core, i, &c) && (plan->kind.protos & 1u << c.proto) != 0;

        if (!counts || c.port < window.first || c.port > window.last || c.released_ms <= cooling_since_ms ||
            !plan_is_free(core, plan, c.port) || (has_several_protos && portbits_has(&done, c.port)))
            continue;
        if (has_several_protos)
            portbits_add(&done, c.port);
        pick->out[pick->n++] = c.port;
    }
}

/* Hosts that share a pool would all take the oldest, and so the same ones. Each takes what its own walk
 * meets, which it has not been at for longest. */
static void walk_cooling(struct core *core, const struct walker *w, uint64_t k, struct pick *pick)
{
    for (uint32_t step = 0; step < WALK_STEPS_MAX && step < w->total && pick->n < pick->max; step++) {
        uint16_t port = walk_port(w, k, step);

        if (plan_is_free(core, w->plan, port) && !is_rested(core, w->plan, port))
            pick->out[pick->n++] = port;
    }
}

/* In a pool with much room the walk meets enough free ports soon: the same ones that the sets would give,
 * which take longer to make. So it does when most ports cool, because they were claimed one behind the other
 * along the same walk. False: it did not. */
static bool walk_free(const struct core *core, const struct walker *w, uint64_t k, struct pick *pick)
{
    enum { STEPS_EACH = 4 };

    for (uint32_t step = 0; step < STEPS_EACH * pick->max && step < w->total && pick->n < pick->max; step++) {
        uint16_t port = walk_port(w, k, step);

        if (is_rested(core, w->plan, port))
            pick->out[pick->n++] = port;
    }
    if (pick->n < pick->max)
        pick->n = 0;
    return pick->n > 0;
}

/* Under a steady load every port of the upper band cools: then the oldest come first (`w`: those that this
 * walk meets), and no sets are needed to find them. False: some have rested, or too few cool. */
static bool pick_oldest(struct core *core, const struct plan_pool *plan, const struct walker *w,
                        dibs_range upper, uint64_t k, struct pick *pick)
{
    const struct portbits *busy[1 + 2 * (DIBS_SCTP + 1)] = { &core->foreign.ports };
    size_t n = 1;

    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_SCTP; proto++) {
        if (!(plan->kind.protos & 1u << proto))
            continue;
        busy[n++] = &core->index.taken[proto];
        busy[n++] = &core->index.cooling[proto];
    }
    if (portbits_any_beside(&plan->choosable, upper, busy, n))
        return false;
    if (w)
        walk_cooling(core, w, k, pick);
    else
        pick_cooling(core, plan, upper, pick);
    if (pick->n < pick->max)
        pick->n = 0;
    return pick->n > 0;
}

/* The same of all that cool. */
static void pick_shared_cooling(const struct walker *w, const struct portbits *free,
                                const struct portbits *rested, dibs_range upper, uint64_t k,
                                struct pick *pick)
{
    struct portbits cooling = *free;
    struct port_set set;

    portbits_subtract(&cooling, rested);
    port_set_load(&set, &cooling);
    pick_free(w, &set, upper, k, pick);
}

size_t plan_exact(struct core *core, const struct plan_pool *plan, const dibs_claim *claim, uint64_t k,
                  uint16_t *out, size_t max)
{
    struct pick pick = { .out = out, .max = max };
    struct portbits free;
    struct portbits rested;
    struct port_set set;
    uint16_t first = plan->pool.ranges.item[0].first;
    uint16_t last = plan->pool.ranges.item[plan->pool.ranges.n - 1].last;
    dibs_range upper = { plan->split, last };
    dibs_range lower = { first, (uint16_t) (plan->split - 1) };

    /* Otherwise which of the cooling ones have rested enough is a longer story. */
    bool is_simple = plan->pool.cooldown_ms == core->index.longest_ms;

    core_index_expire(core, core_now(core).boot_ms);
    bool is_cooling = core->index.n > (plan->size - plan->band) / 2;
    bool is_for_all = is_shared(core, plan);
    if (is_simple && is_cooling && !is_for_all && pick_oldest(core, plan, NULL, upper, k, &pick))
        return pick.n;
    struct walker w = walker(core, plan, claim);
    if (!order_find(plan->pool.order)->uses_cursor)
        k = 0;
    if (is_simple && is_cooling && is_for_all && pick_oldest(core, plan, &w, upper, k, &pick))
        return pick.n;
    if (is_simple && walk_free(core, &w, k, &pick))
        return pick.n;
    free_ports(core, plan, &free);
    rested_ports(core, plan, &free, &rested);
    port_set_load(&set, &rested);
    pick_free(&w, &set, upper, k, &pick);
    if (is_for_all)
        pick_shared_cooling(&w, &free, &rested, upper, k, &pick);
    else
        pick_cooling(core, plan, upper, &pick);
    if (plan->band > 0) {
        pick_free(&w, &set, lower, k, &pick);
        pick_cooling(core, plan, lower, &pick);
    }
    if (plan->kind.is_specific && pick.n < pick.max) {
        struct portbits shared = plan->choosable;

        portbits_subtract(&shared, &free);
        portbits_subtract(&shared, &core->foreign.ports);
        port_set_load(&set, &shared);
        pick_free(&w, &set, upper, k, &pick);
        if (plan->band > 0)
            pick_free(&w, &set, lower, k, &pick);
    }
    return pick.n;
}

static void pick_runs(const struct port_set *set, dibs_range window, struct plan_run run, uint16_t start,
                      struct pick *pick)
{
    uint16_t base = start;

    for (uint16_t first = 0; pick->n < pick->max;) {
        base = port_set_run(set, window, run.n, run.align, base);
        if (base == 0 || base == first)
            return;
        if (first == 0)
            first = base;
        pick->out[pick->n++] = base;
        base = base == window.last ? window.first : (uint16_t) (base + 1);
    }
}

/* Nothing when there are some already: what comes later is worse. */
static void pick_runs_of(struct core *core, const struct plan_pool *plan, const struct portbits *ports,
                         uint16_t from, struct plan_run run, struct pick *pick)
{
    dibs_range window = { from, plan->pool.ranges.item[plan->pool.ranges.n - 1].last };
    uint64_t width = (uint64_t) (window.last - window.first) + 1;
    struct port_set set;

    if (pick->n > 0)
        return;
    port_set_load(&set, ports);
    if (run.start >= window.first)
        from = run.start;
    else if (from == plan->split && strcmp(plan->pool.order, "lowest") != 0)
        from = (uint16_t) (from + core_random(core) % width);
    pick_runs(&set, window, run, from, pick);
}

size_t plan_runs(struct core *core, const struct plan_pool *plan, struct plan_run run, uint16_t *out,
                 size_t max)
{
    struct portbits free;
    struct portbits rested;
    struct pick pick = { .out = out, .max = max };

    free_ports(core, plan, &free);
    rested_ports(core, plan, &free, &rested);
    pick_runs_of(core, plan, &rested, plan->split, run, &pick);
    pick_runs_of(core, plan, &free, plan->split, run, &pick);
    pick_runs_of(core, plan, &free, plan->pool.ranges.item[0].first, run, &pick);
    return pick.n;
}

size_t plan_runs_beside(struct core *core, const struct plan_pool *plan, const struct portbits *blocked,
                        struct plan_run run, uint16_t *out, size_t max)
{
    struct portbits ports = plan->choosable;
    struct pick pick = { .out = out, .max = max };

    portbits_subtract(&ports, blocked);
    portbits_subtract(&ports, &core->foreign.ports);
    pick_runs_of(core, plan, &ports, plan->split, run, &pick);
    pick_runs_of(core, plan, &ports, plan->pool.ranges.item[0].first, run, &pick);
    return pick.n;
}

uint16_t plan_name_port(struct core *core, const struct plan_pool *plan, const dibs_claim *claim)
{
    uint32_t total = plan->size - plan->band;
    /* Not the ledger's own salt: a name is to find its port again when the ledger was lost. By its place
     * users with ledgers of their own still differ. */
    const char *place = core->caller.settings->ledger;
    uint64_t salt = hash_fnv1a(HASH_FNV_BASIS, place, strlen(place));
    const char *name = claim->name;

    /* Which clone gets '~' into its group, and which branch it is called after, is a matter of who came first
     * and when: without the ledger that is decided anew. The directory stays what it is. */
    if (claim->project[0]) {
        salt = hash_fnv1a(salt, claim->project, strlen(claim->project));
        salt = hash_fnv1a(salt, name, strcspn(name, "@~/"));
        name += strcspn(name, "/");
    }
    uint32_t i = order_name_position(name, salt, total);

    return dibs_ranges_at(&plan->pool.ranges, plan->band + i);
}
