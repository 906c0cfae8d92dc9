/* SPDX-License-Identifier: MIT */
/* The orders in which candidates are tried. Every walk is position k = (offset + k * step) mod total with a
 * step coprime to total, so k = 0..total-1 visits each position exactly once, and only k must be stored.
 *
 * Our own orders take offset and step from two independent hashes. DCP cuts both out of one hash of fields
 * without separators, so that equal offsets come with related steps and ("ab","c") equals ("a","bc"). Here
 * each hash has its own tag, each field its length in front, and a final mixer, because FNV-1a alone hardly
 * changes the high bits for keys that differ in their last byte. */
#include "core/order.h"

#include <assert.h>
#include <string.h>

#include "base/hash.h"

#include "base/banned.h"

static uint64_t add_text(uint64_t hash, const char *text)
{
    return text ? hash_fnv1a(hash, text, strlen(text)) : hash;
}

/* Hash the lowest byte first on every machine, so that a ledger's order is portable. */
static uint64_t add_number(uint64_t hash, uint64_t number)
{
    uint8_t bytes[8] = { 0 };

    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t) (number >> (8 * i));
    return hash_fnv1a(hash, bytes, sizeof bytes);
}

/* Hash the length first, so that no two lists of fields are the same bytes. */
static uint64_t add_field(uint64_t hash, const char *text)
{
    return add_text(add_number(hash, text ? strlen(text) : 0), text);
}

/* The finaliser of splitmix64: every input bit reaches every output bit. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Hash (number, text) under `tag`; different tags are independent hashes. */
static uint64_t keyed_hash(const char *tag, uint64_t number, const char *text)
{
    uint64_t hash = add_field(HASH_FNV_BASIS, tag);

    return mix(add_field(add_number(hash, number), text));
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* The search ends at 1 at the latest, which is coprime to everything. */
uint32_t order_dcp_step(uint32_t total, uint64_t x)
{
    if (total <= 1)
        return 1;
    uint64_t step = x % (total - 1) + 1;
    while (gcd(step, total) != 1) {
        step++;
        if (step >= total)
            step = 1;
    }
    return (uint32_t) step;
}

static struct order_walk random_walk(const struct order_key *key, uint32_t total)
{
    assert(total >= 1);
    return (struct order_walk){
        .offset = (uint32_t) (keyed_hash("random-offset", key->entropy, key->pool) % total),
        .step = order_dcp_step(total, keyed_hash("random-step", key->entropy, key->pool)),
    };
}

static struct order_walk lowest_walk(const struct order_key *key, uint32_t total)
{
    (void) key;
    (void) total;
    return (struct order_walk){ .offset = 0, .step = 1 };
}

/* Do exactly what DCP does, weaknesses included: one hash, no separators. */
static struct order_walk dcp_walk(const struct order_key *key, uint32_t total)
{
    uint64_t hash = add_text(add_text(add_text(HASH_FNV_BASIS, key->instance), key->proto), key->address);

    assert(total >= 1);
    return (struct order_walk){
        .offset = (uint32_t) (hash % total),
        .step = order_dcp_step(total, hash / total),
    };
}

bool order_is_lowest(const struct order *order)
{
    return order->walk == lowest_walk;
}

static const struct order orders[] = {
    { .name = "stride",
      .summary = "Spread over the pool by a stride, in pieces of 64 neighbours, going on where the last "
                 "claim stopped" },
    { .name = "dcp-stride", .summary = "The candidates that DCP would try, in its order", .walk = dcp_walk },
    { .name = "random", .summary = "A new random walk for each request", .walk = random_walk },
    { .name = "lowest", .summary = "The lowest free port first", .walk = lowest_walk },
};

const struct order *order_at(size_t i)
{
    return i < sizeof orders / sizeof *orders ? &orders[i] : NULL;
}

const struct order *order_find(const char *name)
{
    for (size_t i = 0; name && i < sizeof orders / sizeof *orders; i++) {
        if (strcmp(orders[i].name, name) == 0)
            return &orders[i];
    }
    return NULL;
}

uint32_t order_position(struct order_walk walk, uint64_t k, uint32_t total)
{
    assert(total >= 1);
    /* k below total < 2^32 and step < 2^32: product and sum fit 64 bits. */
    return (uint32_t) ((walk.offset + k % total * walk.step) % total);
}

struct order_pieces order_pieces(const struct order_key *key, uint32_t total, uint32_t skew)
{
    uint32_t head = (ORDER_PIECE - skew) % ORDER_PIECE;
    struct order_pieces p = { .total = total, .head = head < total ? head : total, .n_home = total };

    assert(total >= 1 && skew < ORDER_PIECE);
    p.n = (total - p.head) / ORDER_PIECE;
    p.start = (uint32_t) (keyed_hash("stride-offset", key->salt, key->pool) % total);
    if (p.n == 0)
        return p;
    p.start -= p.start % ORDER_PIECE; /* fill a piece from its beginning */
    p.step = order_dcp_step(p.n, keyed_hash("stride-step", key->salt, key->pool));
    return p;
}

void order_pieces_set_home(struct order_pieces *p, struct order_place place)
{
    if (p->n == 0 || place.n <= 1)
        return;
    uint64_t end = ((uint64_t) place.rank + 1) * p->n / place.n;

    p->home = (uint32_t) ((uint64_t) place.rank * p->n / place.n);
    p->n_home = end > p->home ? (uint32_t) (end - p->home) : 1; /* many hosts share a piece */
    p->n_home *= ORDER_PIECE;
    p->start = 0; /* start at the home, so that hosts that do not know all others yet still differ */
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

uint32_t order_pieces_position(const struct order_pieces *p, uint64_t k, uint32_t step, uint32_t *n)
{
    bool is_home = step < p->n_home;
    uint32_t first = is_home ? 0 : p->n_home; /* this part of the walk wraps from `end` to `first` */
    uint32_t end = is_home ? p->n_home : p->total;
    uint64_t turn = is_home ? k % p->n_home + p->start + step : (uint64_t) p->detour + step - p->n_home;
    uint32_t along = first + (uint32_t) (turn % (end - first));
    uint32_t n_whole = p->n * ORDER_PIECE;

    *n = least(end - along, end - step);
    if (along >= n_whole) { /* the positions around the whole pieces */
        uint32_t at = along - n_whole;

        if (at >= p->head)
            return along;
        *n = least(*n, p->head - at);
        return at;
    }
    uint32_t piece =
        order_position((struct order_walk){ .step = p->step }, p->home + along / ORDER_PIECE, p->n);
    *n = least(*n, ORDER_PIECE - along % ORDER_PIECE);
    return p->head + piece * ORDER_PIECE + along % ORDER_PIECE;
}

uint32_t order_name_position(const char *name, uint64_t salt, uint32_t total)
{
    assert(total >= 1);
    return (uint32_t) (keyed_hash("name", salt, name) % total);
}
