/* SPDX-License-Identifier: MIT */
/* A snapshot from elsewhere: the range text up to the first newline, then the bytes.
 * An imported snapshot exports to the same bytes without their leading zeros. */
#include <stdlib.h>
#include <string.h>

#include "net/range_snapshot.h"
#include "support/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t count_bits(const uint8_t *bytes, size_t n)
{
    uint32_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += (uint32_t) __builtin_popcount(bytes[i]);
    return count;
}

static void check_import(const char *text, const uint8_t *bytes, size_t n)
{
    static const struct portbits none;
    uint8_t again[RANGE_SNAPSHOT_BYTES_MAX] = { 0 };
    struct portbits taken = none;
    dibs_range range = { 0 };
    dibs_err err = { .code = DIBS_OK };
    size_t n_again = 0;

    if (range_snapshot_import(text, bytes, n, &range, &taken, &err) != DIBS_OK) {
        CHECK(err.code == DIBS_INVALID && err.msg[0] != '\0');
        CHECK(range.first == 0 && memcmp(&taken, &none, sizeof taken) == 0);
        return;
    }
    CHECK(range.first >= 1 && range.first <= range.last);
    CHECK(portbits_count(&taken) == count_bits(bytes, n));
    range_snapshot_export(range, &taken, again, &n_again);
    while (n > 0 && bytes[0] == 0) {
        bytes++;
        n--;
    }
    CHECK(n == n_again);
    CHECK(n == 0 || memcmp(bytes, again, n) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *newline = size ? memchr(data, '\n', size) : NULL;
    size_t n_text = newline ? (size_t) (newline - data) : size;
    char *text = malloc(n_text + 1);

    if (!text)
        return 0;
    if (n_text)
        memcpy(text, data, n_text);
    text[n_text] = '\0';
    if (newline)
        check_import(text, newline + 1, size - n_text - 1);
    else
        check_import(text, NULL, 0);
    free(text);
    return 0;
}
