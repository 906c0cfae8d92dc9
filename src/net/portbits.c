/* SPDX-License-Identifier: MIT */
#include "net/portbits.h"

#include <stdio.h>

#include "base/banned.h"

/* Return the bits of word `w` that belong to the range, which includes a part of the word. */
static uint64_t mask_of(dibs_range range, uint32_t w)
{
    uint64_t mask = UINT64_MAX;

    if (w == range.first / 64u)
        mask &= UINT64_MAX << (range.first % 64u);
    if (w == range.last / 64u)
        mask &= UINT64_MAX >> (63 - range.last % 64u);
    return mask;
}

void portbits_add(struct portbits *bits, uint16_t port)
{
    if (port)
        bits->word[port / 64] |= UINT64_C(1) << (port % 64);
}

bool portbits_remove(struct portbits *bits, uint16_t port)
{
    bool was_member = portbits_has(bits, port);

    bits->word[port / 64] &= ~(UINT64_C(1) << (port % 64));
    return was_member;
}

void portbits_add_range(struct portbits *bits, dibs_range range)
{
    for (uint32_t w = range.first / 64u; range.first <= range.last && w <= range.last / 64u; w++)
        bits->word[w] |= mask_of(range, w);
    bits->word[0] &= ~UINT64_C(1); /* port 0 is never a member */
}

void portbits_remove_range(struct portbits *bits, dibs_range range)
{
    for (uint32_t w = range.first / 64u; range.first <= range.last && w <= range.last / 64u; w++)
        bits->word[w] &= ~mask_of(range, w);
}

void portbits_add_ranges(struct portbits *bits, const dibs_ranges *ranges)
{
    for (size_t i = 0; i < ranges->n; i++)
        portbits_add_range(bits, ranges->item[i]);
}

void portbits_add_all(struct portbits *restrict bits, const struct portbits *restrict other)
{
    for (uint32_t w = 0; w < PORTBITS_WORDS; w++)
        bits->word[w] |= other->word[w];
}

void portbits_subtract(struct portbits *restrict bits, const struct portbits *restrict other)
{
    for (uint32_t w = 0; w < PORTBITS_WORDS; w++)
        bits->word[w] &= ~other->word[w];
}

bool portbits_has(const struct portbits *bits, uint16_t port)
{
    return bits->word[port / 64] >> (port % 64) & 1;
}

uint32_t portbits_count(const struct portbits *bits)
{
    uint32_t count = 0;

    for (uint32_t w = 0; w < PORTBITS_WORDS; w++)
        count += (uint32_t) __builtin_popcountll(bits->word[w]);
    return count;
}

void portbits_format(const struct portbits *bits, struct bytes *out)
{
    size_t before = out->n;
    char text[24];

    for (uint32_t first = portbits_next(bits, 1); first != PORTBITS_END;) {
        uint32_t end = portbits_next_hole(bits, first);
        int n = end - first > 1 ? snprintf(text, sizeof text, "%u-%u", first, end - 1)
                                : snprintf(text, sizeof text, "%u", first);

        bytes_add(out, ",", out->n > before);
        bytes_add(out, text, (size_t) n);
        first = portbits_next(bits, end);
    }
}

void portbits_add_browser_blocked(struct portbits *bits)
{
    static const uint16_t blocked[] = {
        1,    7,    9,    11,   13,   15,   17,   19,   20,   21,   22,   23,   25,   37,    42,   43,   53,
        69,   77,   79,   87,   95,   101,  102,  103,  104,  109,  110,  111,  113,  115,   117,  119,  123,
        135,  137,  139,  143,  161,  179,  389,  427,  465,  512,  513,  514,  515,  526,   530,  531,  532,
        540,  548,  554,  556,  563,  587,  601,  636,  989,  990,  993,  995,  1719, 1720,  1723, 2049, 3659,
        4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
    };

    for (size_t i = 0; i < sizeof blocked / sizeof *blocked; i++)
        portbits_add(bits, blocked[i]);
}

/* ---- search word by word: at most 1024, and 16 for a pool of a thousand ports ---- */

/* `flip` is 0 to find set bits, all ones to find clear ones. */
static uint32_t next_bit(const struct portbits *bits, uint32_t from, uint64_t flip)
{
    uint32_t w = from / 64;

    if (from >= PORTBITS_END)
        return PORTBITS_END;
    uint64_t rest = (bits->word[w] ^ flip) & (UINT64_MAX << (from % 64));
    while (!rest) {
        if (++w == PORTBITS_WORDS)
            return PORTBITS_END;
        rest = bits->word[w] ^ flip;
    }
    return 64 * w + (uint32_t) __builtin_ctzll(rest);
}

uint32_t portbits_next(const struct portbits *bits, uint32_t from)
{
    return next_bit(bits, from, 0);
}

uint32_t portbits_next_hole(const struct portbits *bits, uint32_t from)
{
    return next_bit(bits, from, UINT64_MAX);
}

/* Return the lowest b in low..high that begins a run of `n`; `high + n - 1` is at most 65535. */
static uint16_t run_between(const struct portbits *bits, uint32_t n, uint32_t align, uint32_t low,
                            uint32_t high)
{
    while (low <= high) {
        uint64_t begin = portbits_next(bits, low);

        begin = (begin + align - 1) / align * align;
        if (begin > high)
            return 0;
        low = portbits_next_hole(bits, (uint32_t) begin);
        if (low >= begin + n)
            return (uint16_t) begin;
        low++;
    }
    return 0;
}

uint16_t portbits_run(const struct portbits *bits, dibs_range window, uint32_t n, uint32_t align,
                      uint16_t start)
{
    uint32_t first = window.first ? window.first : 1;

    if (n == 0 || window.last < first || n > window.last - first + 1)
        return 0;
    uint32_t high = window.last - n + 1;
    if (start < first || start > window.last)
        start = (uint16_t) first;
    if (align == 0)
        align = 1;
    uint16_t found = run_between(bits, n, align, start, high);
    return found ? found : run_between(bits, n, align, first, high);
}

bool portbits_ranges(const struct portbits *bits, dibs_ranges *out)
{
    dibs_ranges found = { .n = 0 };
    uint32_t end = 0;

    for (uint32_t first = portbits_next(bits, 1); first != PORTBITS_END; first = portbits_next(bits, end)) {
        if (found.n == DIBS_RANGES_MAX)
            return false;
        end = portbits_next_hole(bits, first);
        found.item[found.n++] = (dibs_range){ .first = (uint16_t) first, .last = (uint16_t) (end - 1) };
    }
    *out = found;
    return true;
}
