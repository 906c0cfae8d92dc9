/* SPDX-License-Identifier: MIT */
/* The orders in which candidates are tried. Every walk is position k = (offset +
 * k * step) mod total with a step coprime to total, so k = 0..total-1 visits each position
 * exactly once, and "the next one" needs no memory but k.
 *
 * Our own orders take offset and step from two hashes that share nothing but the key:
 * DCP cuts both out of one hash of fields without separators, so that equal offsets come with
 * related steps and ("ab","c") equals ("a","bc"). Here each hash has its own tag, each
 * field its length in front, and a mixer at the end, because FNV-1a alone hardly moves
 * the high bits for keys that differ in their last byte. */
#include "index/order.h"

#include <assert.h>
#include <string.h>

#include "base/hash.h"

#include "base/banned.h"

static uint64_t add_text(uint64_t hash, const char *text)
{
    return text ? hash_fnv1a(hash, text, strlen(text)) : hash;
}

/* Lowest byte first, whatever the machine: a ledger's order does not change with it. */
static uint64_t add_number(uint64_t hash, uint64_t number)
{
    uint8_t bytes[8] = { 0 };

    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t) (number >> (8 * i));
    return hash_fnv1a(hash, bytes, sizeof bytes);
}

/* The length goes first, so that no two lists of fields are the same bytes. */
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

/* A hash of (number, text) under `tag`; different tags are independent hashes. */
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

/* Ends at the latest at 1, which is coprime to everything. */
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

static struct order_walk stride_walk(const struct order_key *key, uint32_t total)
{
    assert(total >= 1);
    return (struct order_walk){
        .offset = (uint32_t) (keyed_hash("stride-offset", key->salt, key->pool) % total),
        .step = order_dcp_step(total, keyed_hash("stride-step", key->salt, key->pool)),
    };
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

/* To the bit what DCP does, weaknesses included: one hash, no separators. */
static struct order_walk dcp_walk(const struct order_key *key, uint32_t total)
{
    uint64_t hash = add_text(add_text(add_text(HASH_FNV_BASIS, key->instance), key->proto), key->address);

    assert(total >= 1);
    return (struct order_walk){
        .offset = (uint32_t) (hash % total),
        .step = order_dcp_step(total, hash / total),
    };
}

static const struct order orders[] = {
    { .name = "stride",
      .summary = "Spread over the pool by a stride, in pieces of 64 neighbours, going on where the last "
                 "claim stopped",
      .uses_cursor = true,
      .walk = stride_walk },
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

struct order_pieces order_pieces(const struct order_key *key, uint32_t total, uint32_t skew,
                                 struct order_place place)
{
    struct order_pieces p = { .n = (total + skew + ORDER_PIECE - 1) / ORDER_PIECE, .skew = skew };

    assert(total >= 1 && skew < ORDER_PIECE);
    p.walk = stride_walk(key, p.n);
    p.n_home = p.n;
    if (place.n > 1) {
        uint64_t end = ((uint64_t) place.rank + 1) * p.n / place.n;

        p.home = (uint32_t) ((uint64_t) place.rank * p.n / place.n) % p.n;
        p.n_home = end > p.home ? (uint32_t) end - p.home : 1; /* of many hosts several share one */
    }
    return p;
}

/* Its offset counts ports, its step pieces. */
struct order_walk order_near(const struct order_key *key, uint32_t total)
{
    uint32_t n = total / ORDER_PIECE;
    struct order_walk walk = stride_walk(key, n > 0 ? n : 1);

    walk.offset = (uint32_t) (keyed_hash("stride-offset", key->salt, key->pool) % total);
    return walk;
}

/* What does not fill a piece comes at the end: no step is in vain, so that the k-th claim begins behind those
 * before it. */
uint32_t order_near_position(struct order_walk walk, uint64_t k, uint32_t total)
{
    uint32_t n = total / ORDER_PIECE;
    uint32_t at = (uint32_t) ((walk.offset + k % total) % total);

    if (at >= n * ORDER_PIECE)
        return at;
    return order_position((struct order_walk){ .step = walk.step }, at / ORDER_PIECE, n) * ORDER_PIECE +
           at % ORDER_PIECE;
}

uint32_t order_pieces_position(const struct order_pieces *p, uint64_t k, uint32_t step, uint32_t total)
{
    /* A walk that begins within a piece ends with the rest of it. */
    uint32_t i = (uint32_t) (k % ORDER_PIECE + step) / ORDER_PIECE % p->n;
    uint64_t along = i < p->n_home ? (k / ORDER_PIECE + i) % p->n_home
                                   : p->n_home + ((uint64_t) p->detour + i - p->n_home) % (p->n - p->n_home);
    uint32_t at =
        order_position(p->walk, p->home + along, p->n) * ORDER_PIECE + (uint32_t) (k + step) % ORDER_PIECE;

    return at < p->skew || at - p->skew >= total ? total : at - p->skew;
}

uint32_t order_name_position(const char *name, uint64_t salt, uint32_t total)
{
    assert(total >= 1);
    return (uint32_t) (keyed_hash("name", salt, name) % total);
}
