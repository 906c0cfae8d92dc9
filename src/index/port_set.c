/* SPDX-License-Identifier: MIT */
/* Three levels of 64-bit words: a leaf word knows 64 ports, a mid word knows which of
 * 64 leaves are not empty, the top word which mid words are not. "Next member" is at
 * most three count-trailing-zeros and never depends on how full the set is. */
#include "index/port_set.h"

#include <string.h>

#include "base/banned.h"

_Static_assert(sizeof((struct port_set *) 0)->leaf == sizeof(struct portbits),
               "a flat set loads word by word");

static inline uint64_t bit(uint32_t i)
{
    return UINT64_C(1) << (i % 64);
}

static inline uint32_t lowest(uint64_t word)
{
    return (uint32_t) __builtin_ctzll(word);
}

void port_set_init(struct port_set *set)
{
    memset(set, 0, sizeof *set);
}

void port_set_load(struct port_set *set, const struct portbits *bits)
{
    port_set_init(set);
    memcpy(set->leaf, bits->word, sizeof set->leaf);
    set->leaf[0] &= ~UINT64_C(1);
    for (uint32_t w = 0; w < PORTBITS_WORDS; w++) {
        if (!set->leaf[w])
            continue;
        set->mid[w / 64] |= bit(w);
        set->top |= bit(w / 64);
        set->count += (uint32_t) __builtin_popcountll(set->leaf[w]);
    }
}

bool port_set_has(const struct port_set *set, uint16_t port)
{
    return set->leaf[port / 64] & bit(port);
}

bool port_set_add(struct port_set *set, uint16_t port)
{
    uint32_t w = port / 64;

    if (port == 0 || port_set_has(set, port))
        return false;
    set->leaf[w] |= bit(port);
    set->mid[w / 64] |= bit(w);
    set->top |= bit(w / 64);
    set->count++;
    return true;
}

bool port_set_remove(struct port_set *set, uint16_t port)
{
    uint32_t w = port / 64;

    if (!port_set_has(set, port))
        return false;
    set->count--;
    set->leaf[w] &= ~bit(port);
    if (set->leaf[w])
        return true;
    set->mid[w / 64] &= ~bit(w);
    if (!set->mid[w / 64])
        set->top &= ~bit(w / 64);
    return true;
}

/* The hot path: inlined into both halves of a pick. */
static inline uint16_t next_member(const struct port_set *set, uint32_t from, uint32_t last)
{
    uint32_t w = from / 64;
    uint64_t ports = set->leaf[w] & (UINT64_MAX << (from % 64));

    if (!ports) {
        uint32_t m = w / 64;
        /* ~1 << n is every bit above n, and 0 for n = 63: no shift by 64. */
        uint64_t leaves = set->mid[m] & (~UINT64_C(1) << (w % 64));

        if (!leaves) {
            uint64_t mids = set->top & (~UINT64_C(1) << m);

            if (!mids)
                return 0;
            m = lowest(mids);
            leaves = set->mid[m];
        }
        w = 64 * m + lowest(leaves);
        ports = set->leaf[w];
    }
    uint32_t port = 64 * w + lowest(ports);
    return port <= last ? (uint16_t) port : 0;
}

uint16_t port_set_next(const struct port_set *set, uint16_t from, uint16_t last)
{
    return next_member(set, from, last);
}

uint16_t port_set_pick(const struct port_set *set, dibs_range window, uint16_t start)
{
    if (start < window.first || start > window.last)
        start = window.first;
    uint16_t port = next_member(set, start, window.last);
    if (port || start == window.first)
        return port;
    return next_member(set, window.first, start - 1u);
}

/* The highest port of from..to that is not a member, or 0; `from` is at least 1. */
static uint32_t last_hole(const struct port_set *set, uint32_t from, uint32_t to)
{
    uint32_t w = to / 64;
    uint64_t holes = ~set->leaf[w] & (UINT64_MAX >> (63 - to % 64));

    for (; w > from / 64; w--, holes = ~set->leaf[w]) {
        if (holes)
            return 64 * w + 63 - (uint32_t) __builtin_clzll(holes);
    }
    holes &= UINT64_MAX << (from % 64);
    return holes ? 64 * w + 63 - (uint32_t) __builtin_clzll(holes) : 0;
}

struct run {
    uint32_t n;
    uint32_t align;
};

/* The lowest b in low..high that begins a run. From a candidate we look for the *last*
 * hole in its n ports: no run can begin at or below it, so each step jumps as far as
 * is certain. `high + run.n - 1` is at most 65535. */
static uint16_t run_between(const struct port_set *set, struct run run, uint32_t low, uint32_t high)
{
    while (low <= high) {
        uint64_t begin = next_member(set, low, high);

        if (!begin)
            return 0;
        begin = (begin + run.align - 1) / run.align * run.align;
        if (begin > high)
            return 0;
        uint32_t hole = last_hole(set, (uint32_t) begin, (uint32_t) begin + run.n - 1);
        if (!hole)
            return (uint16_t) begin;
        low = hole + 1;
    }
    return 0;
}

uint16_t port_set_run(const struct port_set *set, dibs_range window, uint32_t n, uint32_t align,
                      uint16_t start)
{
    struct run run = { .n = n, .align = align ? align : 1 };
    uint32_t first = window.first ? window.first : 1;

    if (n == 0 || window.last < first || n > window.last - first + 1)
        return 0;
    uint32_t high = window.last - n + 1;
    if (start < first || start > window.last)
        start = (uint16_t) first;
    uint16_t found = run_between(set, run, start, high);
    if (found || start == first)
        return found;
    return run_between(set, run, first, start - 1u < high ? start - 1u : high);
}

uint32_t port_set_count(const struct port_set *set, dibs_range window)
{
    uint32_t count = 0;

    if (window.first > window.last)
        return 0;
    for (uint32_t w = window.first / 64u; w <= window.last / 64u; w++) {
        uint64_t ports = set->leaf[w];

        if (w == window.first / 64u)
            ports &= UINT64_MAX << (window.first % 64u);
        if (w == window.last / 64u)
            ports &= UINT64_MAX >> (63 - window.last % 64u);
        count += (uint32_t) __builtin_popcountll(ports);
    }
    return count;
}
