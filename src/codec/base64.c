/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "codec/json.h"

#include "base/banned.h"

/* The 64 digits, and the padding. */
static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
#define PAD 64

void base64_encode(const uint8_t *bytes, size_t n, char *out)
{
    for (size_t i = 0; i < n; i += 3) {
        uint32_t group = (uint32_t) bytes[i] << 16;

        if (i + 1 < n)
            group |= (uint32_t) bytes[i + 1] << 8;
        if (i + 2 < n)
            group |= bytes[i + 2];
        *out++ = alphabet[group >> 18];
        *out++ = alphabet[group >> 12 & 63];
        *out++ = alphabet[i + 1 < n ? group >> 6 & 63 : PAD];
        *out++ = alphabet[i + 2 < n ? group & 63 : PAD];
    }
    *out = '\0';
}

/* Value of each digit plus one; 0: not a digit. A table, because etcd's answers are full of base64. */
static const uint8_t values[256] = {
    ['A'] = 1,  ['B'] = 2,  ['C'] = 3,  ['D'] = 4,  ['E'] = 5,  ['F'] = 6,  ['G'] = 7,  ['H'] = 8,
    ['I'] = 9,  ['J'] = 10, ['K'] = 11, ['L'] = 12, ['M'] = 13, ['N'] = 14, ['O'] = 15, ['P'] = 16,
    ['Q'] = 17, ['R'] = 18, ['S'] = 19, ['T'] = 20, ['U'] = 21, ['V'] = 22, ['W'] = 23, ['X'] = 24,
    ['Y'] = 25, ['Z'] = 26, ['a'] = 27, ['b'] = 28, ['c'] = 29, ['d'] = 30, ['e'] = 31, ['f'] = 32,
    ['g'] = 33, ['h'] = 34, ['i'] = 35, ['j'] = 36, ['k'] = 37, ['l'] = 38, ['m'] = 39, ['n'] = 40,
    ['o'] = 41, ['p'] = 42, ['q'] = 43, ['r'] = 44, ['s'] = 45, ['t'] = 46, ['u'] = 47, ['v'] = 48,
    ['w'] = 49, ['x'] = 50, ['y'] = 51, ['z'] = 52, ['0'] = 53, ['1'] = 54, ['2'] = 55, ['3'] = 56,
    ['4'] = 57, ['5'] = 58, ['6'] = 59, ['7'] = 60, ['8'] = 61, ['9'] = 62, ['+'] = 63, ['/'] = 64,
};

bool base64_decode(const char *text, uint8_t *out, size_t out_max, size_t *n)
{
    size_t len = strlen(text);
    size_t digits = len;
    uint32_t group = 0;
    unsigned bits = 0; /* bits of the group not written yet */
    size_t used = 0;

    if (len % 4 != 0)
        return false;
    while (len - digits < 2 && digits > 0 && text[digits - 1] == '=')
        digits--;
    for (size_t i = 0; i < digits; i++) {
        uint8_t value = values[(unsigned char) text[i]];

        if (value == 0)
            return false;
        group = group << 6 | (value - 1u);
        bits += 6;
        if (bits < 8)
            continue;
        if (used == out_max)
            return false;
        bits -= 8;
        out[used++] = (uint8_t) (group >> bits);
    }
    if (group & ((1u << bits) - 1))
        return false; /* so that each byte string has exactly one text */
    *n = used;
    return true;
}

char *base64_decode_text(const char *text)
{
    size_t size = strlen(text) / 4 * 3;
    char *out = malloc(size + 1);
    size_t n = 0;

    if (out && base64_decode(text, (uint8_t *) out, size, &n) && !memchr(out, '\0', n)) {
        out[n] = '\0';
        return out;
    }
    free(out);
    return NULL;
}
