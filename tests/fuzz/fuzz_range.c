/* SPDX-License-Identifier: MIT */
/* Any text as a port range list and as a port: what is accepted reads back as itself,
 * what is refused has a reason that is safe to print. */
#include <stdlib.h>
#include <string.h>

#include "dibs/net.h"
#include "support/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_refusal(const dibs_err *err)
{
    CHECK(err->code == DIBS_INVALID);
    CHECK(err->msg[0] != '\0');
    for (const char *at = err->msg; *at; at++)
        CHECK(*at >= 0x20 && *at < 0x7f);
}

static void check_shape(const dibs_ranges *ranges)
{
    uint32_t count = 0;

    CHECK(ranges->n >= 1 && ranges->n <= DIBS_RANGES_MAX);
    for (size_t i = 0; i < ranges->n; i++) {
        dibs_range range = ranges->item[i];

        CHECK(range.first >= 1 && range.first <= range.last);
        CHECK(i == 0 || range.first > ranges->item[i - 1].last + 1);
        CHECK(dibs_ranges_contain(ranges, range.first) && dibs_ranges_contain(ranges, range.last));
        CHECK(dibs_ranges_at(ranges, count) == range.first);
        count += (uint32_t) range.last - range.first + 1;
        CHECK(dibs_ranges_at(ranges, count - 1) == range.last);
    }
    CHECK(dibs_ranges_count(ranges) == count);
    CHECK(dibs_ranges_at(ranges, count) == 0);
}

static void check_ranges(const char *text)
{
    char formatted[DIBS_RANGES_TEXT_MAX + 1] = "";
    dibs_ranges ranges = { .n = 0 };
    dibs_ranges back = { .n = 0 };
    dibs_ranges left = { .n = 0 };
    dibs_err err = { .code = DIBS_OK };

    if (dibs_ranges_parse(text, &ranges, &err) != DIBS_OK) {
        check_refusal(&err);
        CHECK(ranges.n == 0);
        return;
    }
    check_shape(&ranges);
    dibs_ranges_format(&ranges, formatted);
    CHECK(strlen(formatted) <= DIBS_RANGES_TEXT_MAX);
    CHECK(dibs_ranges_parse(formatted, &back, &err) == DIBS_OK);
    CHECK(memcmp(&ranges, &back, sizeof back) == 0);
    CHECK(dibs_ranges_subtract(&ranges, ranges.item[0], &left, &err) == DIBS_OK);
    CHECK(left.n == ranges.n - 1);
    CHECK(!dibs_ranges_contain(&left, ranges.item[0].first));
}

static void check_port(const char *text)
{
    dibs_ranges ranges = { .n = 0 };
    dibs_err err = { .code = DIBS_OK };
    uint16_t port = 0;

    if (dibs_port_parse(text, &port, &err) != DIBS_OK) {
        check_refusal(&err);
        CHECK(port == 0);
        return;
    }
    /* Every port is a range of that one port. */
    CHECK(port >= 1);
    CHECK(dibs_ranges_parse(text, &ranges, &err) == DIBS_OK);
    CHECK(ranges.n == 1 && ranges.item[0].first == port && ranges.item[0].last == port);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    check_ranges(text);
    check_port(text);
    free(text);
    return 0;
}
