/* SPDX-License-Identifier: MIT */
/* Any bytes as a value of a ledger in etcd: the first byte says which. What is taken is valid, and packed
 * again it is accepted again and packs to the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "store/etcd/block.h"
#include "support/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct found {
    struct bytes claims, cooling;
    struct block_writer to_claims, to_cooling;
    uint32_t n_claims, n_cooling;
};

static bool take_claim(void *ctx, struct claim_record *row)
{
    struct found *found = ctx;

    CHECK(record_claim_valid(&row->claim, NULL) && !row->claim.is_damaged);
    pack_claim(&found->to_claims, row);
    found->n_claims++;
    return true;
}

static bool take_damaged(void *ctx, uint16_t port)
{
    struct found *found = ctx;
    struct claim_record row;

    record_make_lost(&row, 1, port);
    pack_claim(&found->to_claims, &row);
    found->n_claims++;
    return true;
}

static bool take_cooling(void *ctx, const struct ledger_slot *slot)
{
    struct found *found = ctx;

    CHECK(slot->port > 0 && slot->claim_id == 0);
    pack_cooling(&found->to_cooling, slot);
    found->n_cooling++;
    return true;
}

static bool again_block(struct etcd_bytes from, struct bytes *out)
{
    struct found found = { 0 };
    struct block_reader reader = { &found, take_claim, take_damaged, take_cooling };

    found.to_claims.out = &found.claims;
    found.to_cooling.out = &found.cooling;
    bool is_whole = unpack_block(from, &reader);

    if (is_whole) {
        (void) pack_block(out, found.n_claims, found.n_cooling);
        bytes_add(out, found.claims.n ? found.claims.at : "", found.claims.n);
        bytes_add(out, found.cooling.n ? found.cooling.at : "", found.cooling.n);
    }
    bytes_done(&found.claims);
    bytes_done(&found.cooling);
    return is_whole;
}

struct history {
    struct event_record *events[64];
    size_t n;
};

static bool take_event(void *ctx, const struct event_record *event)
{
    struct history *history = ctx;
    struct event_record *copy = history->n < 64 ? malloc(sizeof *copy) : NULL;

    if (!copy)
        return false;
    *copy = *event;
    history->events[history->n++] = copy;
    return true;
}

static bool again_events(struct etcd_bytes from, struct bytes *out)
{
    struct history history = { 0 };
    bool is_whole = unpack_events(from, take_event, &history);

    if (is_whole)
        pack_events(out, (const struct event_record *const *) history.events, history.n);
    for (size_t i = 0; i < history.n; i++)
        free(history.events[i]);
    return is_whole;
}

#define AGAIN(kind, type)                                               \
    static bool again_##kind(struct etcd_bytes from, struct bytes *out) \
    {                                                                   \
        type value;                                                     \
                                                                        \
        memset(&value, 0xa5, sizeof value);                             \
        if (!unpack_##kind(from, &value))                               \
            return false;                                               \
        pack_##kind(out, &value);                                       \
        return true;                                                    \
    }
AGAIN(tail, struct node_tail)
AGAIN(name, struct name_record)
AGAIN(pool, dibs_pool)
AGAIN(answer, struct answer_record)
AGAIN(sighting, struct sighting_record)
AGAIN(fact, struct fact_record)
AGAIN(header, struct ledger_header)
AGAIN(number, uint64_t)
AGAIN(boot, struct node_boot)

static bool again_ports(struct etcd_bytes from, struct bytes *out)
{
    struct portbits ports = { 0 };

    if (!unpack_ports(from, &ports))
        return false;
    pack_ports(out, &ports);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool (*const again[])(struct etcd_bytes, struct bytes *) = {
        again_block,    again_tail,   again_events, again_name,  again_pool, again_answer,
        again_sighting, again_header, again_number, again_ports, again_boot, again_fact,
    };
    struct bytes once = { 0 };
    struct bytes twice = { 0 };

    if (size == 0)
        return 0;
    size_t kind = data[0] % (sizeof again / sizeof again[0]);
    if (again[kind]((struct etcd_bytes){ data + 1, size - 1 }, &once)) {
        CHECK(!once.is_lost);
        CHECK(again[kind]((struct etcd_bytes){ (const uint8_t *) once.at, once.n }, &twice));
        CHECK(twice.n == once.n && memcmp(twice.at, once.at, once.n) == 0);
    }
    bytes_done(&once);
    bytes_done(&twice);
    return 0;
}
