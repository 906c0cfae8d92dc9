/* SPDX-License-Identifier: MIT */
#include "base/name_part.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/text.h"

#include "base/banned.h"

static bool is_plain(const char *at, size_t step, const char *avoid)
{
    unsigned char c = (unsigned char) *at;

    if (step > 1) /* U+0080 to U+00A0 are control characters and a blank */
        return c != 0xc2 || (unsigned char) at[1] >= 0xa1;
    return step == 1 && c > 0x20 && c < 0x7f && !strchr("/%~", c) && !strchr(avoid, c);
}

const char *name_part_at(const char *name, size_t i)
{
    for (; name && i > 0; i--) {
        name = strchr(name, '/');
        if (name)
            name++;
    }
    return name;
}

size_t name_part_count(const char *name)
{
    size_t n = 1;

    for (const char *c = name; *c; c++)
        n += *c == '/';
    return n;
}

void name_part_encode(const char *raw, const char *avoid, size_t max, char out[DIBS_NAME_PART_MAX + 1])
{
    static const char hex[] = "0123456789ABCDEF";
    char full[3 * NAME_PART_RAW_MAX + 1] = { 0 };
    size_t n = 0;
    size_t len = strnlen(raw, NAME_PART_RAW_MAX);
    bool is_dots = strcmp(raw, ".") == 0 || strcmp(raw, "..") == 0;

    for (size_t i = 0; i < len;) {
        size_t step = text_utf8_length(raw + i, len - i);
        unsigned char c = (unsigned char) raw[i];

        if (!is_dots && is_plain(raw + i, step, avoid)) {
            memcpy(full + n, raw + i, step);
            n += step;
            i += step;
            continue;
        }
        full[n++] = '%';
        full[n++] = hex[c >> 4];
        full[n++] = hex[c & 15];
        i++;
    }
    if (n == 0)
        full[n++] = '%';
    full[n] = '\0';
    if (n <= max) {
        memcpy(out, full, n + 1);
        return;
    }
    size_t keep = max - NAME_PART_HASH_MIN;
    while (keep > 0 && ((unsigned char) full[keep] & 0xc0) == 0x80) /* keep whole characters only */
        keep--;
    uint64_t hash = hash_fnv1a(HASH_FNV_BASIS, raw, strlen(raw));
    memcpy(out, full, keep);
    (void) snprintf(out + keep, NAME_PART_HASH_MIN + 1, "~%012llx",
                    (unsigned long long) ((hash ^ (hash >> 48)) & 0xffffffffffffu));
}
