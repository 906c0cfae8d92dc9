/* SPDX-License-Identifier: MIT */
/* The in-memory index: which ports some claim has, and which cool. Derived from the ledger, caught up through
 * its events, and only advice: being wrong costs a retry, never a wrong answer. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "core/attempt.h"

#include "base/banned.h"

enum {
    CATCH_UP_MAX = 4096, /* more events than this: reading everything is cheaper */
    RING_MAX = 1 << 18,  /* releases that can be cooling at once, at 50,000 a second */
};

/* Out of memory or room: the port is taken for rested. The ledger still knows better. */
static void add_cooling(struct core_index *index, dibs_proto proto, uint16_t port, int64_t released_ms)
{
    if (!index->released_ms[proto])
        index->released_ms[proto] = calloc(DIBS_PORT_MAX + 1, sizeof(int64_t));
    if (index->n == index->max && index->max < RING_MAX) {
        size_t max = index->max ? index->max * 2 : 256;
        struct core_cooling *ring = calloc(max, sizeof *ring);

        for (size_t i = 0; ring && i < index->n; i++)
            ring[i] = index->ring[(index->head + i) & (index->max - 1)];
        if (ring) {
            free(index->ring);
            index->ring = ring;
            index->head = 0;
            index->max = max;
        }
    }
    if (!index->released_ms[proto] || index->n == index->max)
        return;
    index->ring[(index->head + index->n++) & (index->max - 1)] =
        (struct core_cooling){ proto, port, released_ms };
    index->released_ms[proto][port] = released_ms;
    portbits_add(&index->cooling[proto], port);
}

bool core_index_cooling(const struct core *core, size_t i, struct core_cooling *out)
{
    const struct core_index *index = &core->index;

    *out = index->ring[(index->head + i) & (index->max - 1)];
    return portbits_has(&index->cooling[out->proto], out->port) &&
           index->released_ms[out->proto][out->port] == out->released_ms;
}

bool core_index_is_cooling(const struct core *core, dibs_proto proto, uint16_t port, int64_t cooldown_ms)
{
    const struct core_index *index = &core->index;

    return portbits_has(&index->cooling[proto], port) &&
           core_now(core).boot_ms - index->released_ms[proto][port] < cooldown_ms;
}

void core_index_remember(struct core *core, int64_t cooldown_ms)
{
    if (cooldown_ms <= core->index.longest_ms)
        return;
    core->index.longest_ms = cooldown_ms;
    core->index.is_loaded = false;
}

void core_index_expire(struct core *core, int64_t now_ms)
{
    struct core_index *index = &core->index;
    struct core_cooling oldest;

    while (index->n > 0) {
        bool counts = core_index_cooling(core, 0, &oldest);

        if (counts && now_ms - oldest.released_ms < index->longest_ms)
            return;
        if (counts)
            portbits_remove(&index->cooling[oldest.proto], oldest.port);
        index->head = (index->head + 1) & (index->max - 1);
        index->n--;
    }
}

void core_index_free(struct core_index *index)
{
    free(index->ring);
    for (size_t i = 0; i < 4; i++)
        free(index->released_ms[i]);
}

struct loading {
    struct core_index *index;
    int64_t now_ms;
    bool is_ring_kept;
};

static int older_first(const void *a, const void *b)
{
    int64_t x = ((const struct core_cooling *) a)->released_ms;
    int64_t y = ((const struct core_cooling *) b)->released_ms;

    return x < y ? -1 : x > y;
}

static bool load_slot(void *ctx, const struct ledger_slot *slot)
{
    struct loading *l = ctx;
    struct core_index *index = l->index;
    /* Another's clock. */
    int64_t released_ms = slot->released_ms < l->now_ms ? slot->released_ms : l->now_ms;

    if (slot->claim_id != 0)
        portbits_add(&index->taken[slot->proto], slot->port);
    else if (slot->released_ms >= l->now_ms + index->longest_ms ||
             slot->released_ms <= l->now_ms - index->longest_ms)
        return true; /* rested */
    else if (l->is_ring_kept && index->released_ms[slot->proto] &&
             index->released_ms[slot->proto][slot->port] == released_ms)
        portbits_add(&index->cooling[slot->proto], slot->port); /* it stands in the ring already */
    else
        add_cooling(index, slot->proto, slot->port, released_ms);
    return true;
}

/* They came by port; the ring is by time. */
static void sort_ring(struct core_index *index)
{
    AUTO(free_auto) struct core_cooling *sorted = NULL;
    bool is_sorted = true;

    for (size_t i = 1; i < index->n && is_sorted; i++)
        is_sorted = index->ring[(index->head + i - 1) & (index->max - 1)].released_ms <=
                    index->ring[(index->head + i) & (index->max - 1)].released_ms;
    if (is_sorted)
        return;
    sorted = calloc(index->max, sizeof *sorted);
    if (!sorted)
        return; /* some rest a little longer than they need to */
    for (size_t i = 0; i < index->n; i++)
        sorted[i] = index->ring[(index->head + i) & (index->max - 1)];
    qsort(sorted, index->n, sizeof *sorted, older_first);
    free(index->ring);
    index->ring = TAKE(sorted);
    index->head = 0;
}

/* The mark of an earlier release stays beside a claim of the same port, which does not cool meanwhile. */
static void settle(struct core_index *index)
{
    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_SCTP; proto++)
        portbits_subtract(&index->cooling[proto], &index->taken[proto]);
    sort_ring(index);
}

static dibs_status load(struct core *core, dibs_err *err)
{
    struct core_index *index = &core->index;
    struct loading loading = { .index = index, .now_ms = core_now(core).boot_ms };
    uint64_t cursor = 0;
    struct portbits changed;

    /* The numbers first: what is committed between the two reads is seen again by the next catch-up. */
    index->elsewhere = ledger_heed(core->ledger);
    (void) ledger_changed_elsewhere(core->ledger, &changed); /* that is read now */
    dibs_status s = ledger_tail(core->ledger, &index->seq, &cursor, err);
    memset(index->taken, 0, sizeof index->taken);
    memset(index->cooling, 0, sizeof index->cooling);
    index->head = index->n = 0;
    if (s == DIBS_OK)
        s = ledger_slots(core->ledger, 0, 0, load_slot, &loading, err);
    settle(index);
    index->is_loaded = s == DIBS_OK;
    return s;
}

struct catching_up {
    struct core *core;
    struct instant now;
    uint64_t since, oldest;
    size_t n;
};

static bool apply_event(void *ctx, const dibs_event *event)
{
    struct catching_up *c = ctx;
    struct core_index *index = &c->core->index;
    int64_t released_ms = c->now.boot_ms - (c->now.wall_ms - event->time_ms);

    index->seq = event->seq;
    c->n++;
    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_SCTP; proto++) {
        if (!(event->protos & 1u << proto))
            continue;
        switch (event->kind) {
        case DIBS_EV_CLAIMED:
        case DIBS_EV_REPAIRED:
            portbits_add(&index->taken[proto], event->port);
            portbits_remove(&index->cooling[proto], event->port);
            break;
        case DIBS_EV_RELEASED:
        case DIBS_EV_REAPED:
        case DIBS_EV_LEAKED:
            portbits_remove(&index->taken[proto], event->port);
            if (event->is_dynamic)
                add_cooling(index, proto, event->port, released_ms);
            break;
        case DIBS_EV_RENEWED:
        case DIBS_EV_TRANSFERRED:
        case DIBS_EV_UNHELD:
        case DIBS_EV_QUARANTINED:
        case DIBS_EV_POOL: break;
        }
    }
    return true;
}

dibs_status core_index_refresh(struct core *core, dibs_err *err)
{
    struct core_index *index = &core->index;
    struct catching_up c = { .core = core, .now = core_now(core), .since = index->seq };

    attempt_forget_rest(core);
    if (!index->is_loaded)
        return load(core, err);
    dibs_status s = ledger_events(core->ledger, &(dibs_event_query){ c.since, CATCH_UP_MAX, false },
                                  &c.oldest, apply_event, &c, err);
    core_index_expire(core, c.now.boot_ms);
    if (s == DIBS_OK && (c.n == CATCH_UP_MAX || c.oldest > c.since + 1))
        s = load(core, err);
    return s;
}

dibs_status core_index_follow(struct core *core, dibs_err *err)
{
    struct core_index *index = &core->index;
    struct loading loading = { .index = index, .now_ms = core_now(core).boot_ms, .is_ring_kept = true };
    uint64_t elsewhere = ledger_heed(core->ledger);
    struct portbits changed;

    if (!index->is_loaded || index->elsewhere == elsewhere)
        return DIBS_OK;
    index->is_loaded = ledger_changed_elsewhere(core->ledger, &changed);
    if (!index->is_loaded)
        return load(core, err);
    index->elsewhere = elsewhere;
    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_SCTP; proto++) {
        portbits_subtract(&index->taken[proto], &changed);
        portbits_subtract(&index->cooling[proto], &changed);
    }
    dibs_status s = ledger_slots_among(core->ledger, &changed, load_slot, &loading, err);
    settle(index);
    index->is_loaded = s == DIBS_OK;
    return s;
}

void core_index_note_claim(struct core *core, const dibs_claim *claim)
{
    if (!core->index.is_loaded)
        return;
    for (size_t i = 0; i < claim->n_bindings; i++) {
        portbits_add(&core->index.taken[claim->bindings[i].proto], claim->port);
        portbits_remove(&core->index.cooling[claim->bindings[i].proto], claim->port);
    }
}

void core_index_note_end(struct core *core, const dibs_claim *claim, int64_t boot_ms)
{
    if (claim->kind != DIBS_DYNAMIC) /* it does not cool, and comes before what does */
        attempt_forget_rest(core);
    if (!core->index.is_loaded)
        return;
    for (size_t i = 0; i < claim->n_bindings; i++) {
        portbits_remove(&core->index.taken[claim->bindings[i].proto], claim->port);
        if (claim->kind == DIBS_DYNAMIC)
            add_cooling(&core->index, claim->bindings[i].proto, claim->port, boot_ms);
    }
}
