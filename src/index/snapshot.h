/* SPDX-License-Identifier: MIT */
#ifndef DIBS_INDEX_SNAPSHOT_H
#define DIBS_INDEX_SNAPSHOT_H
/* Kubernetes' range snapshot: a range string and minimal big-endian bytes, in which
 * bit i (bit 0 is the lowest of the last byte) is port first + i. */
#include <stddef.h>

#include "index/port_set.h"

#define SNAPSHOT_BYTES_MAX 8192

/* Members of `taken` inside `range` as bytes; writes at most SNAPSHOT_BYTES_MAX. */
void snapshot_export(dibs_range range, const struct portbits *taken, uint8_t *bytes, size_t *n);
/* INVALID when a bit lies outside the range (W9) or the text is not one single range;
 * leading zero bytes are accepted. `taken` is replaced only on success. */
dibs_status snapshot_import(const char *range_text, const uint8_t *bytes, size_t n, dibs_range *range,
                            struct portbits *taken, dibs_err *err);
#endif
