/* SPDX-License-Identifier: MIT */
#include "base/text.h"

#include <string.h>

#include "dibs/limits.h"

#include "base/banned.h"

size_t text_utf8_length(const char *p, size_t left)
{
    const unsigned char *b = (const unsigned char *) p;
    size_t need = 0;

    if (left == 0)
        return 0;
    if (b[0] < 0x80)
        return 1;
    if (b[0] >= 0xc2 && b[0] <= 0xdf)
        need = 2;
    else if (b[0] >= 0xe0 && b[0] <= 0xef)
        need = 3;
    else if (b[0] >= 0xf0 && b[0] <= 0xf4)
        need = 4;
    if (need == 0 || left < need)
        return 0;
    for (size_t i = 1; i < need; i++)
        if ((b[i] & 0xc0) != 0x80)
            return 0;
    /* Refuse overlong forms, surrogates and values above U+10FFFF. */
    if ((b[0] == 0xe0 && b[1] < 0xa0) || (b[0] == 0xed && b[1] > 0x9f) || (b[0] == 0xf0 && b[1] < 0x90) ||
        (b[0] == 0xf4 && b[1] > 0x8f))
        return 0;
    return need;
}

/* Return whether a terminal may get the character: no controls (C0, DEL, C1), and no marks that change the
 * direction of writing (U+202A to U+202E, U+2066 to U+2069). */
static bool is_visible(const char *p, size_t n)
{
    const unsigned char *b = (const unsigned char *) p;

    if (n == 3 && b[0] == 0xe2)
        return !(b[1] == 0x80 && b[2] >= 0xaa && b[2] <= 0xae) &&
               !(b[1] == 0x81 && b[2] >= 0xa6 && b[2] <= 0xa9);
    return n > 0 && b[0] >= 0x20 && b[0] != 0x7f && (b[0] != 0xc2 || b[1] >= 0xa0);
}

const char *text_safe(const char *text, char *out, size_t size)
{
    static const char dots[] = "...";
    size_t used = 0;
    size_t keep = 0; /* position of "..." if the text is too long */

    if (size == 0)
        return out;
    while (*text) {
        size_t len = text_utf8_length(text, strnlen(text, 4));
        bool is_shown = is_visible(text, len);
        size_t wide = is_shown ? len : 1;

        if (used + wide + 1 > size) {
            if (size >= sizeof dots)
                memcpy(out + keep, dots, sizeof dots - 1);
            used = size >= sizeof dots ? keep + sizeof dots - 1 : used;
            break;
        }
        memcpy(out + used, is_shown ? text : "?", wide);
        used += wide;
        text += len ? len : 1;
        if (used + sizeof dots <= size)
            keep = used;
    }
    out[used] = '\0';
    return out;
}

bool text_copy(char *out, size_t size, const char *text)
{
    size_t len = strnlen(text, size);
    bool fits = len < size;

    if (!fits)
        len = size - 1;
    memcpy(out, text, len);
    out[len] = '\0';
    return fits;
}

bool text_number(const char *text, size_t n, uint64_t max, uint64_t *out)
{
    uint64_t value = 0;

    for (size_t i = 0; i < n; i++) {
        unsigned digit = (unsigned char) text[i] - (unsigned) '0';

        if (digit > 9 || value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
        if (value > max)
            return false;
    }
    if (n > 0)
        *out = value;
    return n > 0;
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char) (c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool text_is_boot_id(const char *text)
{
    return strlen(text) == DIBS_BOOT_ID_MAX && strspn(text, "0123456789abcdef-") == DIBS_BOOT_ID_MAX;
}

bool text_percent_decode(char *text, bool plus_is_blank)
{
    char *to = text;

    for (const char *from = text; *from; from++) {
        char c = *from;

        if (c == '%') {
            int high = hex(from[1]);
            int low = high < 0 ? -1 : hex(from[2]);

            if (low < 0 || high + low == 0)
                return false;
            c = (char) (high << 4 | low);
            from += 2;
        } else if (c == '+' && plus_is_blank) {
            c = ' ';
        }
        *to++ = c;
    }
    *to = '\0';
    return true;
}
