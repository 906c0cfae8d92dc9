/* SPDX-License-Identifier: MIT */
#ifndef DIBS_NET_H
#define DIBS_NET_H
/* Protocols, addresses, ports, port ranges, bands, and when two of them conflict: plain values, no I/O. Each
 * parser accepts the whole text or refuses it. NULL is INVALID, or treated as an empty value. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dibs/limits.h"
#include "dibs/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "tcp", "udp", "sctp"; any letter case. */
DIBS_API DIBS_MUST_USE dibs_status dibs_proto_parse(const char *text, dibs_proto *out, dibs_err *err);
DIBS_API const char *dibs_proto_text(dibs_proto proto);

/* Parse "127.0.0.1", "::1", "[::1]", "*" and "::" (both the dual-stack wildcard), "0.0.0.0", "localhost" (two
 * addresses). A v4-mapped address becomes IPv4. Any other host name is refused, never looked up. */
DIBS_API DIBS_MUST_USE dibs_status dibs_address_parse(const char *text, dibs_address out[2], size_t *n,
                                                      dibs_err *err);

#define DIBS_ADDRESS_TEXT_MAX 63
/* Write the canonical text, always NUL-terminated; the dual-stack wildcard is "*". */
DIBS_API void dibs_address_format(const dibs_address *address, char out[DIBS_ADDRESS_TEXT_MAX + 1]);
DIBS_API bool dibs_address_is_wildcard(const dibs_address *address);
DIBS_API bool dibs_address_equal(const dibs_address *a, const dibs_address *b);

/* Return whether the kernel would refuse both (INV-1): equal, or one a wildcard that covers the other. */
DIBS_API bool dibs_address_conflict(const dibs_address *a, const dibs_address *b);

/* 1 to 65535, decimal digits only. */
DIBS_API DIBS_MUST_USE dibs_status dibs_port_parse(const char *text, uint16_t *out, dibs_err *err);

/* Both ends inclusive, first <= last, never 0. */
typedef struct dibs_range {
    uint16_t first;
    uint16_t last;
} dibs_range;

/* Ascending, neither overlapping nor adjacent. */
typedef struct dibs_ranges {
    dibs_range item[DIBS_RANGES_MAX];
    size_t n;
} dibs_ranges;

/* Parse "N", "A-B", "A+N" (A to A+N), and comma lists of these; ranges are merged. */
DIBS_API DIBS_MUST_USE dibs_status dibs_ranges_parse(const char *text, dibs_ranges *out, dibs_err *err);
/* Write "A-B,C-D", which dibs_ranges_parse() reads back. */
DIBS_API void dibs_ranges_format(const dibs_ranges *ranges, char out[DIBS_RANGES_TEXT_MAX + 1]);
DIBS_API uint32_t dibs_ranges_count(const dibs_ranges *ranges);
DIBS_API bool dibs_ranges_contain(const dibs_ranges *ranges, uint16_t port);
/* Return the i-th port in ascending order; 0 when i is not below the count. */
DIBS_API uint16_t dibs_ranges_at(const dibs_ranges *ranges, uint32_t i);
/* Subtract first..last from `ranges`: nothing if last is below first; the result may be empty. INVALID: the
 * result has more than DIBS_RANGES_MAX pieces, or `ranges` are no ranges. */
DIBS_API DIBS_MUST_USE dibs_status dibs_ranges_subtract(const dibs_ranges *ranges, dibs_range without,
                                                        dibs_ranges *out, dibs_err *err);

/* Return how many ports at the low end of a pool of `size` are preferred for static use. */
DIBS_API uint32_t dibs_band_size(uint32_t size);

#ifdef __cplusplus
}
#endif
#endif
