/* SPDX-License-Identifier: MIT */
/* Publish the claims of this network namespace that lie in the ephemeral range (dibs serve --reserve). */
#include <stdlib.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "daemon/engine_internal.h"
#include "hold/reserve.h"
#include "server/log.h"

#include "base/banned.h"

enum {
    REPEAT_MS = 10000, /* interval at which entries that another program has removed are restored */
    RETRY_MS = 100,    /* another process has the lock, for milliseconds */
};

static void add_port(void *ctx, struct hash_table_item *item)
{
    const struct held *held = (const struct held *) item;

    if (held->is_here)
        portbits_add(ctx, held->port);
}

/* Keep of the ports those of the ephemeral range. */
static void cut(struct portbits *ports, dibs_range range)
{
    if (range.first > 1)
        portbits_remove_range(ports, (dibs_range){ 1, (uint16_t) (range.first - 1) });
    if (range.last < DIBS_PORT_MAX)
        portbits_remove_range(ports, (dibs_range){ (uint16_t) (range.last + 1), DIBS_PORT_MAX });
}

void engine_reserve(struct engine *engine, struct reserve *reserve)
{
    engine->reserve = reserve;
    engine_publish(engine); /* also removes what a daemon before has left behind */
}

void engine_note_reserved(struct engine *e, uint16_t port)
{
    if (port >= e->ephemeral.first && port <= e->ephemeral.last)
        e->reserve_ms = 0;
}

void engine_publish(struct engine *e)
{
    int64_t now_ms = clock_monotonic_ms();
    dibs_err err = { 0 };

    if (!e->reserve || e->needs_reload || now_ms < e->reserve_ms)
        return;
    AUTO(free_auto) struct portbits *ports = calloc(1, sizeof *ports);
    if (!ports)
        return;
    (void) kernel_ephemeral(&e->ephemeral);
    hash_table_each(&e->claims, add_port, ports);
    cut(ports, e->ephemeral);
    bool is_done = reserve_set(e->reserve, ports, &err) == DIBS_OK;
    if (!is_done && !e->has_unreserved)
        LOG(LOG_WARNING, "claimed ports could not be reserved; this is tried again", "why", err.msg);
    e->has_unreserved = !is_done;
    e->reserve_ms = now_ms + (is_done ? REPEAT_MS : RETRY_MS);
}
