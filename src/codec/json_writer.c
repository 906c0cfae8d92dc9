/* SPDX-License-Identifier: MIT */
/* Write JSON without a library. The first error stays in the stream (ferror) or in the bytes (is_lost). A
 * daemon writes tens of thousands of answers a second: plain text is copied in runs, no number needs
 * printf. */
#include <assert.h>

#include "base/text.h"
#include "codec/json.h"

#include "base/banned.h"

void jsonw_begin(struct jsonw *w, FILE *to)
{
    *w = (struct jsonw){ .to = to };
}

void jsonw_begin_bytes(struct jsonw *w, struct bytes *into)
{
    *w = (struct jsonw){ .into = into };
}

static void put(struct jsonw *w, const char *text, size_t n)
{
    if (w->into)
        bytes_add(w->into, text, n);
    else
        (void) fwrite(text, 1, n, w->to);
}

static void put_char(struct jsonw *w, char c)
{
    put(w, &c, 1);
}

/* Write the comma in front of a value or key, and update the state. */
static void next(struct jsonw *w)
{
    if (w->needs_comma && !w->after_key)
        put_char(w, ',');
    w->needs_comma = true;
    w->after_key = false;
}

static void open_nest(struct jsonw *w, char bracket)
{
    next(w);
    assert(w->depth < JSON_DEPTH_MAX);
    w->depth++;
    w->needs_comma = false;
    put_char(w, bracket);
}

static void close_nest(struct jsonw *w, char bracket)
{
    assert(w->depth > 0);
    w->depth--;
    w->needs_comma = true;
    put_char(w, bracket);
}

void jsonw_object(struct jsonw *w)
{
    open_nest(w, '{');
}

void jsonw_array(struct jsonw *w)
{
    open_nest(w, '[');
}

void jsonw_end_object(struct jsonw *w)
{
    close_nest(w, '}');
}

void jsonw_end_array(struct jsonw *w)
{
    close_nest(w, ']');
}

static void put_escaped(struct jsonw *w, unsigned char code)
{
    static const char hex[] = "0123456789abcdef";
    char text[6] = { '\\', 'u', '0', '0', hex[code >> 4], hex[code & 15] };

    switch (code) {
    case '"':
    case '\\': text[1] = (char) code; break;
    case '\n': text[1] = 'n'; break;
    case '\r': text[1] = 'r'; break;
    case '\t': text[1] = 't'; break;
    default: put(w, text, sizeof text); return;
    }
    put(w, text, 2);
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/* Write one character that is not plain. Return its length. */
static size_t put_odd(struct jsonw *w, const unsigned char *s)
{
    const char *text = (const char *) s;
    size_t n = text_utf8_length(text, strnlen(text, 4));

    if (n == 0) {
        put(w, "\xef\xbf\xbd", 3); /* U+FFFD */
        return 1;
    }
    /* 0x7f-0x9f need no escape in JSON, but they control terminals. */
    if (n == 1)
        put_escaped(w, s[0]);
    else if (n == 2 && s[0] == 0xc2 && s[1] < 0xa0)
        put_escaped(w, s[1]);
    else
        put(w, text, n);
    return n;
}

static void put_quoted(struct jsonw *w, const char *text)
{
    const unsigned char *s = (const unsigned char *) text;

    put_char(w, '"');
    while (*s) {
        size_t n = 0;

        while (is_plain(s[n]))
            n++;
        put(w, (const char *) s, n);
        s += n;
        if (*s)
            s += put_odd(w, s);
    }
    put_char(w, '"');
}

static void put_digits(struct jsonw *w, uint64_t value, bool is_negative)
{
    char text[21]; /* a sign and 20 digits */
    size_t at = sizeof text;

    do {
        text[--at] = (char) ('0' + value % 10);
        value /= 10;
    } while (value > 0);
    if (is_negative)
        text[--at] = '-';
    put(w, text + at, sizeof text - at);
}

void jsonw_key(struct jsonw *w, const char *key)
{
    assert(!w->after_key);
    next(w);
    put_quoted(w, key);
    put_char(w, ':');
    w->after_key = true;
}

void jsonw_string(struct jsonw *w, const char *text)
{
    next(w);
    put_quoted(w, text);
}

void jsonw_int(struct jsonw *w, int64_t value)
{
    next(w);
    put_digits(w, value < 0 ? 0 - (uint64_t) value : (uint64_t) value, value < 0);
}

void jsonw_uint(struct jsonw *w, uint64_t value)
{
    next(w);
    put_digits(w, value, false);
}

void jsonw_bool(struct jsonw *w, bool value)
{
    next(w);
    put(w, value ? "true" : "false", value ? 4 : 5);
}

void jsonw_null(struct jsonw *w)
{
    next(w);
    put(w, "null", 4);
}

void jsonw_base64(struct jsonw *w, const void *bytes, size_t n)
{
    assert(w->into);
    next(w);
    put_char(w, '"');
    char *to = n < DIBS_INPUT_MAX_BYTES ? bytes_reserve(w->into, 4 * ((n + 2) / 3) + 1) : NULL;
    if (to) {
        base64_encode(bytes, n, to);
        w->into->n += 4 * ((n + 2) / 3);
    } else {
        w->into->is_lost = true;
    }
    put_char(w, '"');
}

void jsonw_key_object(struct jsonw *w, const char *key)
{
    jsonw_key(w, key);
    jsonw_object(w);
}

void jsonw_key_array(struct jsonw *w, const char *key)
{
    jsonw_key(w, key);
    jsonw_array(w);
}

void jsonw_key_string(struct jsonw *w, const char *key, const char *text)
{
    jsonw_key(w, key);
    jsonw_string(w, text);
}

void jsonw_key_int(struct jsonw *w, const char *key, int64_t value)
{
    jsonw_key(w, key);
    jsonw_int(w, value);
}

void jsonw_key_uint(struct jsonw *w, const char *key, uint64_t value)
{
    jsonw_key(w, key);
    jsonw_uint(w, value);
}

void jsonw_key_bool(struct jsonw *w, const char *key, bool value)
{
    jsonw_key(w, key);
    jsonw_bool(w, value);
}

void jsonw_finish(struct jsonw *w)
{
    assert(w->depth == 0);
    put_char(w, '\n');
}
