/* SPDX-License-Identifier: MIT */
#include "base/metric.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/banned.h"

void metric_add(struct bytes *out, const char *format, ...)
{
    enum { TEXT_MAX_BYTES = 512 };
    char *text = bytes_reserve(out, TEXT_MAX_BYTES);
    va_list args;

    if (!text)
        return;
    va_start(args, format);
    int n = vsnprintf(text, TEXT_MAX_BYTES, format, args);
    va_end(args);
    out->n += n > 0 && n < TEXT_MAX_BYTES ? (size_t) n : 0;
}

void metric_head(struct bytes *out, const char *name, const char *type, const char *help)
{
    metric_add(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void metric_single(struct bytes *out, const char *name, const char *type, const char *help, uint64_t value)
{
    metric_head(out, name, type, help);
    metric_add(out, "%s %" PRIu64 "\n", name, value);
}
