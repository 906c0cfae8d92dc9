/* SPDX-License-Identifier: MIT */
#include "ledger/memory_records.h"

#include <string.h>

#include "base/banned.h"

static int order(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int by_claim_id(const void *a, const void *b)
{
    return order(((const struct row_claim *) a)->claim.id, ((const struct row_claim *) b)->claim.id);
}

static int by_slot(const void *a, const void *b)
{
    const struct ledger_slot *x = a;
    const struct ledger_slot *y = b;
    size_t shared = x->address.len < y->address.len ? x->address.len : y->address.len;
    int d = order(x->proto, y->proto);

    if (d == 0)
        d = order(x->port, y->port);
    if (d == 0)
        d = memcmp(x->address.bytes, y->address.bytes, shared);
    if (d == 0)
        d = order(x->address.len, y->address.len);
    return d == 0 ? order(x->claim_id, y->claim_id) : d;
}

static int by_name(const void *a, const void *b)
{
    const struct name_record *x = a;
    const struct name_record *y = b;
    int d = strcmp(x->principal, y->principal);

    return d == 0 ? strcmp(x->name, y->name) : d;
}

static int by_seq(const void *a, const void *b)
{
    return order(((const struct event_record *) a)->event.seq, ((const struct event_record *) b)->event.seq);
}

static int by_pool(const void *a, const void *b)
{
    return strcmp(((const dibs_pool *) a)->name, ((const dibs_pool *) b)->name);
}

static int by_sighted(const void *a, const void *b)
{
    return order(((const struct sighting_record *) a)->seen.id,
                 ((const struct sighting_record *) b)->seen.id);
}

static int by_key(const void *a, const void *b)
{
    const struct row_answer *x = a;
    const struct row_answer *y = b;
    int d = strcmp(x->principal, y->principal);

    if (d == 0)
        d = strcmp(x->key, y->key);
    return d == 0 ? order(x->part, y->part) : d;
}

/* Every port of every protocol once. */
#define PER_HOST ((size_t) 3 * DIBS_PORT_MAX)

/* The bounds are far above what one host's ports can need, and keep a runaway caller from eating the machine.
 */
const struct memory_kind memory_kinds[TABLE_COUNT] = {
    [CLAIMS] = { sizeof(struct row_claim), PER_HOST, by_claim_id },
    [SLOTS] = { sizeof(struct ledger_slot), PER_HOST * 8, by_slot },
    [NAMES] = { sizeof(struct name_record), (size_t) 16 * DIBS_NAMES_REMEMBERED, by_name },
    [EVENTS] = { sizeof(struct event_record), (size_t) 4 * DIBS_EVENTS_KEPT, by_seq },
    [POOLS] = { sizeof(dibs_pool), 4096, by_pool },
    [SIGHTINGS] = { sizeof(struct sighting_record), PER_HOST, by_sighted },
    [ANSWERS] = { sizeof(struct row_answer), (size_t) 4 * DIBS_EVENTS_KEPT, by_key },
};
