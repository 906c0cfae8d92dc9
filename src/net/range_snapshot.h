/* SPDX-License-Identifier: MIT */
#ifndef DIBS_NET_RANGE_SNAPSHOT_H
#define DIBS_NET_RANGE_SNAPSHOT_H
/* Kubernetes' range snapshot: a range and minimal big-endian bytes, in which bit i is port first + i. */
#include <stddef.h>

#include "net/portbits.h"

#define RANGE_SNAPSHOT_BYTES_MAX 8192

/* Write the members of `taken` inside `range` as bytes, at most RANGE_SNAPSHOT_BYTES_MAX. */
void range_snapshot_export(dibs_range range, const struct portbits *taken, uint8_t *bytes, size_t *n);
/* INVALID when a bit lies outside the range (W9) or the text is not one single range;
 * leading zero bytes are accepted. `taken` is replaced only on success. */
dibs_status range_snapshot_import(const char *range_text, const uint8_t *bytes, size_t n, dibs_range *range,
                                  struct portbits *taken, dibs_err *err);
#endif
