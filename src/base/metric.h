/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_METRIC_H
#define DIBS_BASE_METRIC_H
/* Prometheus' text format 0.0.4. Values of labels are written as they are: who writes one that may need an
 * escape escapes it. */
#include <stdint.h>

#include "base/bytes.h"
#include "dibs/status.h"

/* A line or a few; what is longer than 511 bytes is left out whole. */
void metric_add(struct bytes *out, const char *format, ...) DIBS_PRINTF(2, 3);
/* What comes before the values: `type` is "gauge", "counter" or "histogram". */
void metric_head(struct bytes *out, const char *name, const char *type, const char *help);
/* One that has a single value and no label. */
void metric_single(struct bytes *out, const char *name, const char *type, const char *help, uint64_t value);
#endif
