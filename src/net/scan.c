/* SPDX-License-Identifier: MIT */
#include "net/scan.h"

#include "base/banned.h"

/* `flip` is 0 to look for set bits, all ones to look for clear ones. */
static uint32_t next_bit(const struct portbits *bits, uint32_t from, uint64_t flip)
{
    uint32_t w = from / 64;

    if (from >= SCAN_END)
        return SCAN_END;
    uint64_t rest = (bits->word[w] ^ flip) & (UINT64_MAX << (from % 64));
    while (!rest) {
        if (++w == PORTBITS_WORDS)
            return SCAN_END;
        rest = bits->word[w] ^ flip;
    }
    return 64 * w + (uint32_t) __builtin_ctzll(rest);
}

uint32_t scan_next_set(const struct portbits *bits, uint32_t from)
{
    return next_bit(bits, from, 0);
}

uint32_t scan_next_clear(const struct portbits *bits, uint32_t from)
{
    return next_bit(bits, from, UINT64_MAX);
}

bool scan_ranges(const struct portbits *bits, dibs_ranges *out)
{
    dibs_ranges found = { .n = 0 };
    uint32_t end = 0;

    for (uint32_t first = scan_next_set(bits, 1); first != SCAN_END; first = scan_next_set(bits, end)) {
        if (found.n == DIBS_RANGES_MAX)
            return false;
        end = scan_next_clear(bits, first);
        found.item[found.n++] = (dibs_range){ .first = (uint16_t) first, .last = (uint16_t) (end - 1) };
    }
    *out = found;
    return true;
}
