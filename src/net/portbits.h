/* SPDX-License-Identifier: MIT */
#ifndef DIBS_NET_PORTBITS_H
#define DIBS_NET_PORTBITS_H
/* A flat set of port numbers, one bit each: 8 KiB, no summary. For building and
 * subtracting sets; searching is index/port_set.h. Bit 0 (port 0) is never set. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dibs/net.h"

#define PORTBITS_WORDS 1024

struct portbits {
    uint64_t word[PORTBITS_WORDS];
};

void portbits_add(struct portbits *bits, uint16_t port);
void portbits_remove(struct portbits *bits, uint16_t port);
void portbits_add_range(struct portbits *bits, dibs_range range);
void portbits_remove_range(struct portbits *bits, dibs_range range);
void portbits_add_ranges(struct portbits *bits, const dibs_ranges *ranges);
void portbits_add_all(struct portbits *bits, const struct portbits *other);
/* bits = bits without `other` */
void portbits_subtract(struct portbits *bits, const struct portbits *other);
bool portbits_has(const struct portbits *bits, uint16_t port);
uint32_t portbits_count(const struct portbits *bits);
/* Is there a port of the range that is in `bits` and in none of the `n` others? */
bool portbits_any_beside(const struct portbits *bits, dibs_range range, const struct portbits *const *others,
                         size_t n);
/* The ports that browsers refuse to open (the Fetch standard's "bad ports"). */
void portbits_add_browser_blocked(struct portbits *bits);
#endif
