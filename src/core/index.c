/* SPDX-License-Identifier: MIT */
/* The in-memory index of claimed and cooling ports: only advice, an error costs a retry. */
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "core/cooldown.h"

#include "base/banned.h"

enum { CATCH_UP_MAX = 4096 }; /* beyond this many events, loading everything is cheaper */

void core_index_free(struct core_index *index)
{
    free(index->list);
}

/* A cooling port that was loaded. */
struct released {
    int64_t ms;
    uint32_t number;
};

struct loading {
    struct core_index *index;
    int64_t now_ms;
    struct released *released; /* in the order of ports */
    size_t n, max;
};

static int older_first(const void *a, const void *b)
{
    int64_t x = ((const struct released *) a)->ms;
    int64_t y = ((const struct released *) b)->ms;

    return x < y ? -1 : x > y;
}

static bool load_slot(void *ctx, const struct ledger_slot *slot)
{
    struct loading *l = ctx;
    /* A time in the future comes from another host's clock. */
    int64_t ms = slot->released_ms < l->now_ms ? slot->released_ms : l->now_ms;
    int64_t longest_ms = l->index->longest_ms;

    if (slot->claim_id != 0)
        portbits_add(&l->index->taken[slot->proto], slot->port);
    else if (slot->released_ms < l->now_ms + longest_ms && slot->released_ms > l->now_ms - longest_ms &&
             grow((void **) &l->released, l->n, &l->max, sizeof *l->released))
        l->released[l->n++] = (struct released){ ms, (uint32_t) slot->proto << 16 | slot->port };
    return true;
}

/* Load `ports` (NULL: all), which are not in the index yet. */
static dibs_status load_ports(struct core *core, const struct call *call, const struct portbits *ports,
                              dibs_err *err)
{
    struct core_index *index = &core->index;
    struct loading l = { .index = index, .now_ms = call->now.boot_ms };
    dibs_status s = ledger_slots(core->ledger, call, ports, load_slot, &l, err);

    if (l.n > 1)
        qsort(l.released, l.n, sizeof *l.released, older_first);
    for (size_t i = 0; i < l.n; i++) {
        dibs_proto proto = l.released[i].number >> 16;
        uint16_t port = (uint16_t) l.released[i].number;

        /* A port with both a claim and a cooling slot is taken, not cooling. */
        if (!portbits_has(&index->taken[proto], port))
            cooldown_add(index, proto, port, l.released[i].ms);
    }
    free(l.released);
    index->is_loaded = s == DIBS_OK;
    return s;
}

static dibs_status load(struct core *core, const struct call *call, dibs_err *err)
{
    struct core_index *index = &core->index;
    uint64_t cursor = 0;
    struct portbits changed;

    /* Read the numbers first: the next catch-up then repeats commits between the two reads. */
    index->notices = ledger_take_notices(core->ledger);
    (void) ledger_changed_elsewhere(core->ledger, &changed); /* the load covers these changes */
    dibs_status s = ledger_tail(core->ledger, call, &index->seq, &cursor, err);
    memset(index->taken, 0, sizeof index->taken);
    memset(index->cooling, 0, sizeof index->cooling);
    if (index->list)
        index->list[0] = (struct core_cooling){ 0 };
    index->is_loaded = false;
    return s == DIBS_OK ? load_ports(core, call, NULL, err) : s;
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
    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_PROTO_MAX; proto++) {
        if (!(event->protos & 1u << proto))
            continue;
        switch (event->kind) {
        case DIBS_EV_CLAIMED:
        case DIBS_EV_REPAIRED:
            portbits_add(&index->taken[proto], event->port);
            cooldown_end(index, proto, event->port);
            break;
        case DIBS_EV_RELEASED:
        case DIBS_EV_REAPED:
        case DIBS_EV_LEAKED:
            portbits_remove(&index->taken[proto], event->port);
            if (event->is_dynamic)
                cooldown_add(index, proto, event->port, released_ms);
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

dibs_status core_index_refresh(struct core *core, const struct call *call, dibs_err *err)
{
    struct core_index *index = &core->index;
    struct catching_up c = { .core = core, .now = call->now, .since = index->seq };

    if (!index->is_loaded)
        return load(core, call, err);
    dibs_status s = ledger_events(core->ledger, call,
                                  &(struct ledger_feed){ { c.since, CATCH_UP_MAX, false }, &c.oldest },
                                  apply_event, &c, err);
    cooldown_expire(core, c.now.boot_ms);
    if (s == DIBS_OK && (c.n == CATCH_UP_MAX || c.oldest > c.since + 1))
        s = load(core, call, err);
    return s;
}

dibs_status core_index_follow(struct core *core, const struct call *call, dibs_err *err)
{
    struct core_index *index = &core->index;
    uint64_t notices = ledger_take_notices(core->ledger);
    struct portbits changed;

    if (!index->is_loaded || index->notices == notices)
        return DIBS_OK;
    index->is_loaded = ledger_changed_elsewhere(core->ledger, &changed);
    if (!index->is_loaded)
        return load(core, call, err);
    index->notices = notices;
    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_PROTO_MAX; proto++) {
        portbits_subtract(&index->taken[proto], &changed);
        for (uint32_t port = portbits_next(&changed, 1); port < PORTBITS_END;
             port = portbits_next(&changed, port + 1))
            cooldown_end(index, proto, (uint16_t) port);
    }
    return load_ports(core, call, &changed, err);
}

void core_index_forget(struct core *core)
{
    core->index.is_loaded = false;
}

void core_index_note_claim(struct core *core, const dibs_claim *claim)
{
    if (!core->index.is_loaded)
        return;
    for (size_t i = 0; i < claim->n_bindings; i++) {
        portbits_add(&core->index.taken[claim->bindings[i].proto], claim->port);
        cooldown_end(&core->index, claim->bindings[i].proto, claim->port);
    }
}

void core_index_note_end(struct core *core, const dibs_claim *claim, int64_t boot_ms)
{
    if (!core->index.is_loaded)
        return;
    for (size_t i = 0; i < claim->n_bindings; i++) {
        portbits_remove(&core->index.taken[claim->bindings[i].proto], claim->port);
        if (claim->kind == DIBS_DYNAMIC)
            cooldown_add(&core->index, claim->bindings[i].proto, claim->port, boot_ms);
    }
}
