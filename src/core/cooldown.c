/* SPDX-License-Identifier: MIT */
/* The ports that cool: released dynamic ports, which dynamic choice takes last, in a list by release time. */
#include "core/cooldown.h"

#include <stdlib.h>

#include "base/banned.h"

static uint32_t number_of(dibs_proto proto, uint16_t port)
{
    return (uint32_t) proto << 16 | port;
}

void cooldown_end(struct core_index *index, dibs_proto proto, uint16_t port)
{
    if (!portbits_has(&index->cooling[proto], port))
        return;
    const struct core_cooling *at = &index->list[number_of(proto, port)];
    index->list[at->older].newer = at->newer;
    index->list[at->newer].older = at->older;
    portbits_remove(&index->cooling[proto], port);
}

void cooldown_add(struct core_index *index, dibs_proto proto, uint16_t port, int64_t released_ms)
{
    uint32_t number = number_of(proto, port);

    if (!index->list)
        index->list = calloc((DIBS_PROTO_MAX + 1u) << 16, sizeof *index->list);
    if (!index->list)
        return;
    cooldown_end(index, proto, port);
    uint32_t older = index->list[0].older; /* releases arrive nearly in order */
    while (older != 0 && index->list[older].released_ms > released_ms)
        older = index->list[older].older;
    uint32_t newer = index->list[older].newer;
    index->list[number] = (struct core_cooling){ released_ms, older, newer };
    index->list[older].newer = index->list[newer].older = number;
    portbits_add(&index->cooling[proto], port);
}

bool cooldown_is_on(const struct core *core, dibs_proto proto, uint16_t port, int64_t since_ms)
{
    const struct core_index *index = &core->index;

    return portbits_has(&index->cooling[proto], port) &&
           index->list[number_of(proto, port)].released_ms > since_ms;
}

void cooldown_each(const struct core *core, dibs_proto proto,
                   void (*fn)(void *ctx, uint16_t port, int64_t released_ms), void *ctx)
{
    const struct core_index *index = &core->index;
    const struct portbits *cooling = &index->cooling[proto];

    for (uint32_t port = portbits_next(cooling, 1); port != PORTBITS_END;
         port = portbits_next(cooling, port + 1))
        fn(ctx, (uint16_t) port, index->list[number_of(proto, (uint16_t) port)].released_ms);
}

void cooldown_remember(struct core *core, int64_t cooldown_ms)
{
    if (cooldown_ms <= core->index.longest_ms)
        return;
    core->index.longest_ms = cooldown_ms;
    core->index.is_loaded = false;
}

void cooldown_expire(struct core *core, int64_t now_ms)
{
    struct core_index *index = &core->index;
    uint32_t oldest = 0;

    while (index->list && (oldest = index->list[0].newer) != 0 &&
           now_ms - index->list[oldest].released_ms >= index->longest_ms)
        cooldown_end(index, oldest >> 16, (uint16_t) oldest);
}
