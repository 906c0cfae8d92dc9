/* SPDX-License-Identifier: MIT */
#include "net/portbits.h"

#include "base/banned.h"

/* The bits of word `w` that belong to the range; `w` is one of the range's words. */
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

void portbits_remove(struct portbits *bits, uint16_t port)
{
    bits->word[port / 64] &= ~(UINT64_C(1) << (port % 64));
}

void portbits_add_range(struct portbits *bits, dibs_range range)
{
    if (range.first > range.last)
        return;
    for (uint32_t w = range.first / 64u; w <= range.last / 64u; w++)
        bits->word[w] |= mask_of(range, w);
    bits->word[0] &= ~UINT64_C(1); /* port 0 is never a member, whatever was asked for */
}

void portbits_remove_range(struct portbits *bits, dibs_range range)
{
    if (range.first > range.last)
        return;
    for (uint32_t w = range.first / 64u; w <= range.last / 64u; w++)
        bits->word[w] &= ~mask_of(range, w);
}

void portbits_add_ranges(struct portbits *bits, const dibs_ranges *ranges)
{
    for (size_t i = 0; i < ranges->n; i++)
        portbits_add_range(bits, ranges->item[i]);
}

void portbits_add_all(struct portbits *bits, const struct portbits *other)
{
    for (uint32_t w = 0; w < PORTBITS_WORDS; w++)
        bits->word[w] |= other->word[w];
}

void portbits_subtract(struct portbits *bits, const struct portbits *other)
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

bool portbits_any_beside(const struct portbits *bits, dibs_range range, const struct portbits *const *others,
                         size_t n)
{
    for (uint32_t w = range.first / 64u; w <= range.last / 64u && range.first <= range.last; w++) {
        uint64_t left = bits->word[w] & mask_of(range, w);

        for (size_t i = 0; i < n; i++)
            left &= ~others[i]->word[w];
        if (left)
            return true;
    }
    return false;
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
