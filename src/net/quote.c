/* SPDX-License-Identifier: MIT */
#include "net/quote.h"

#include <string.h>

#include "base/banned.h"

const char *quote_bytes(char out[QUOTE_SIZE], const char *text, size_t n)
{
    static const char hex[] = "0123456789abcdef";
    size_t shown = n < QUOTE_BYTES ? n : QUOTE_BYTES;
    size_t used = 0;

    for (size_t i = 0; i < shown; i++) {
        unsigned char c = (unsigned char) text[i];

        if (c >= 0x20 && c < 0x7f) {
            out[used++] = (char) c;
            continue;
        }
        out[used++] = '\\';
        out[used++] = 'x';
        out[used++] = hex[c >> 4];
        out[used++] = hex[c & 15];
    }
    for (int i = 0; i < 3 && shown < n; i++)
        out[used++] = '.';
    out[used] = '\0';
    return out;
}

const char *quote_text(char out[QUOTE_SIZE], const char *text)
{
    /* One byte over the limit is enough to know that there is more. */
    return quote_bytes(out, text ? text : "", text ? strnlen(text, QUOTE_BYTES + 1) : 0);
}
