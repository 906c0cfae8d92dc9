/* SPDX-License-Identifier: MIT */
#include "index/index.h"

#include <string.h>

#include "base/err.h"
#include "net/scan.h"

#include "base/banned.h"

void index_init(struct index *index, const dibs_ranges *ranges, uint32_t band,
                const struct portbits *withheld)
{
    memset(index, 0, sizeof *index);
    portbits_add_ranges(&index->members, ranges);
    index->choosable = index->members;
    if (withheld)
        portbits_subtract(&index->choosable, withheld);
    port_set_load(&index->free, &index->choosable);
    index->n_members = dibs_ranges_count(ranges);
    if (index->n_members == 0)
        return;
    /* A band that covers everything would leave no upper band to prefer. */
    if (band >= index->n_members)
        band = index->n_members - 1;
    index->first = ranges->item[0].first;
    index->last = ranges->item[ranges->n - 1].last;
    index->dynamic_from = dibs_ranges_at(ranges, band);
}

static dibs_status refuse_stranger(const struct index *index, uint16_t port, dibs_err *err)
{
    char text[DIBS_RANGES_TEXT_MAX + 1] = "";
    dibs_ranges ranges = { .n = 0 };

    /* The members came from ranges, so they are that many pieces again. */
    if (!scan_ranges(&index->members, &ranges) || ranges.n == 0)
        return err_set(err, DIBS_INVALID, "port %u is not in the valid range: the pool has no ports",
                       (unsigned) port);
    dibs_ranges_format(&ranges, text);
    return err_set(err, DIBS_INVALID, "port %u is not in the valid range %s", (unsigned) port, text);
}

static void mark_taken(struct index *index, uint16_t port)
{
    portbits_add(&index->taken, port);
    (void) port_set_remove(&index->free, port); /* a withheld port was never there */
    index->n_taken++;
}

dibs_status index_take(struct index *index, uint16_t port, dibs_err *err)
{
    if (!portbits_has(&index->members, port)) {
        index->stats.refused_static++;
        return refuse_stranger(index, port, err);
    }
    if (portbits_has(&index->taken, port)) {
        index->stats.refused_static++;
        return err_set(err, DIBS_TAKEN, "port %u is already allocated", (unsigned) port);
    }
    mark_taken(index, port);
    index->stats.taken_static++;
    return DIBS_OK;
}

uint16_t index_pick(const struct index *index, uint16_t start)
{
    /* INV-8: the lower band is the last resort, and no capacity is lost to it. */
    dibs_range upper = { .first = index->dynamic_from, .last = index->last };
    uint16_t port = port_set_pick(&index->free, upper, start);

    if (port || index->dynamic_from == index->first)
        return port;
    dibs_range lower = { .first = index->first, .last = (uint16_t) (index->dynamic_from - 1) };
    return port_set_pick(&index->free, lower, start);
}

dibs_status index_take_next(struct index *index, uint16_t start, uint16_t *out, dibs_err *err)
{
    uint16_t port = index_pick(index, start);

    if (port == 0) {
        index->stats.refused_dynamic++;
        return err_set(err, DIBS_EXHAUSTED, "range is full: no free port to choose (%u of %u are taken)",
                       (unsigned) index->n_taken, (unsigned) index->n_members);
    }
    mark_taken(index, port);
    index->stats.taken_dynamic++;
    if (port < index->dynamic_from)
        index->stats.spilled++;
    *out = port;
    return DIBS_OK;
}

bool index_release(struct index *index, uint16_t port)
{
    if (!portbits_has(&index->taken, port))
        return false;
    portbits_remove(&index->taken, port);
    index->n_taken--;
    if (portbits_has(&index->choosable, port))
        (void) port_set_add(&index->free, port);
    return true;
}

bool index_has(const struct index *index, uint16_t port)
{
    return portbits_has(&index->taken, port);
}

uint32_t index_available(const struct index *index)
{
    return index->n_members - index->n_taken;
}

uint16_t index_next_taken(const struct index *index, uint32_t from)
{
    uint32_t port = scan_next_set(&index->taken, from);

    return port == SCAN_END ? 0 : (uint16_t) port;
}
