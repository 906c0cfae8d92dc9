/* SPDX-License-Identifier: MIT */
#ifndef DIBS_NET_SCAN_H
#define DIBS_NET_SCAN_H
/* Walking a flat port set word by word. */
#include <stdbool.h>
#include <stdint.h>

#include "net/portbits.h"

/* "Nothing found": one beyond the highest port. */
#define SCAN_END 65536u

/* The first port from `from` upward that is in the set (or is not), or SCAN_END. */
uint32_t scan_next_set(const struct portbits *bits, uint32_t from);
uint32_t scan_next_clear(const struct portbits *bits, uint32_t from);
/* The set as ascending, merged ranges. False, with `out` untouched, when it has more than
 * DIBS_RANGES_MAX pieces. */
bool scan_ranges(const struct portbits *bits, dibs_ranges *out);
#endif
