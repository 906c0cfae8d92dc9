/* SPDX-License-Identifier: MIT */
#ifndef DIBS_NET_PORTBITS_H
#define DIBS_NET_PORTBITS_H
/* A set of port numbers, one bit each: 8 KiB. Bit 0 (port 0) is never set. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "dibs/net.h"

#define PORTBITS_WORDS 1024
/* Returned when nothing is found: one above the highest port. */
#define PORTBITS_END 65536u

struct portbits {
    uint64_t word[PORTBITS_WORDS];
};

void portbits_add(struct portbits *bits, uint16_t port);
/* Return whether the port was a member. */
bool portbits_remove(struct portbits *bits, uint16_t port);
void portbits_add_range(struct portbits *bits, dibs_range range);
void portbits_remove_range(struct portbits *bits, dibs_range range);
void portbits_add_ranges(struct portbits *bits, const dibs_ranges *ranges);
void portbits_add_all(struct portbits *restrict bits, const struct portbits *restrict other);
/* Remove the members of `other` from `bits`. */
void portbits_subtract(struct portbits *restrict bits, const struct portbits *restrict other);
bool portbits_has(const struct portbits *bits, uint16_t port);
uint32_t portbits_count(const struct portbits *bits);
/* Return the first port from `from` upward that is in the set (or is not), or PORTBITS_END. */
uint32_t portbits_next(const struct portbits *bits, uint32_t from);
uint32_t portbits_next_hole(const struct portbits *bits, uint32_t from);
/* Return the first port b, from `start` upward with wrap inside `window`, such that b..b+n-1 are
 * all members inside `window` and b is a multiple of `align` (0 and 1: any); 0 when there is none. */
uint16_t portbits_run(const struct portbits *bits, dibs_range window, uint32_t n, uint32_t align,
                      uint16_t start);
/* Write the set as merged ranges. False, `out` untouched: it has more than DIBS_RANGES_MAX pieces. */
bool portbits_ranges(const struct portbits *bits, dibs_ranges *out);
/* Append "1000,2000-2005", the format of the kernel and of ranges; nothing for an empty set. */
void portbits_format(const struct portbits *bits, struct bytes *out);
/* Add the ports that browsers refuse to open (the Fetch standard's "bad ports"). */
void portbits_add_browser_blocked(struct portbits *bits);
#endif
