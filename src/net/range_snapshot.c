/* SPDX-License-Identifier: MIT */
#include "net/range_snapshot.h"

#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "dibs/limits.h"

#include "base/banned.h"

_Static_assert(RANGE_SNAPSHOT_BYTES_MAX * 8 > DIBS_PORT_MAX, "every port has its bit");

void range_snapshot_export(dibs_range range, const struct portbits *taken, uint8_t *bytes, size_t *n)
{
    uint8_t little[RANGE_SNAPSHOT_BYTES_MAX] = { 0 };
    size_t used = 0;

    for (uint32_t port = portbits_next(taken, range.first); port <= range.last;
         port = portbits_next(taken, port + 1)) {
        uint32_t offset = port - range.first;

        little[offset / 8] = (uint8_t) (little[offset / 8] | 1u << offset % 8);
        used = offset / 8 + 1;
    }
    /* Big-endian and minimal: the byte of the highest port comes first. */
    for (size_t i = 0; i < used; i++)
        bytes[i] = little[used - 1 - i];
    *n = used;
}

/* Parse one range, as Kubernetes writes it; refuse a list, even if it would merge into one. */
static dibs_status single_range(const char *text, dibs_range *out, dibs_err *err)
{
    char shown[52];
    dibs_ranges ranges = { .n = 0 };
    dibs_status status = dibs_ranges_parse(text, &ranges, err);

    if (status != DIBS_OK)
        return err_wrap(err, status, "snapshot");
    if (strchr(text, ','))
        return err_set(err, DIBS_INVALID, "snapshot: '%s' is a list, not one range",
                       text_safe(text, shown, sizeof shown));
    *out = ranges.item[0];
    return DIBS_OK;
}

dibs_status range_snapshot_import(const char *range_text, const uint8_t *bytes, size_t n, dibs_range *range,
                                  struct portbits *taken, dibs_err *err)
{
    struct portbits found = { 0 };
    dibs_range bounds = { 0 };
    dibs_status status = single_range(range_text, &bounds, err);

    if (status != DIBS_OK)
        return status;
    if (n > DIBS_INPUT_MAX_BYTES)
        return err_set(err, DIBS_INVALID, "snapshot: %zu bytes are more than one host's ports", n);
    for (size_t i = 0; i < n; i++) {
        uint64_t base = 8 * (uint64_t) (n - 1 - i); /* of the lowest bit of this byte */

        for (unsigned rest = bytes[i]; rest; rest &= rest - 1) {
            uint64_t port = bounds.first + base + (uint64_t) __builtin_ctz(rest);

            if (port > bounds.last) /* W9: such a bit once made the free count negative */
                return err_set(err, DIBS_INVALID, "snapshot: bit %llu lies outside the range %u-%u",
                               (unsigned long long) (port - bounds.first), (unsigned) bounds.first,
                               (unsigned) bounds.last);
            portbits_add(&found, (uint16_t) port);
        }
    }
    *range = bounds;
    *taken = found;
    return DIBS_OK;
}
