/* SPDX-License-Identifier: MIT */
/* Writing needs no library: light commands answer with --json at no cost. The first error stays in the
 * stream (ferror) or in the bytes (is_lost), where the door looks for it at the end.
 *
 * A daemon writes tens of thousands of answers a second: what is plain is copied in runs, and numbers are
 * written without printf. */
#include <assert.h>

#include "base/text.h"
#include "json/json.h"

#include "base/banned.h"

void json_begin(struct json_writer *w, FILE *to)
{
    *w = (struct json_writer){ .to = to };
}

void json_begin_bytes(struct json_writer *w, struct bytes *into)
{
    *w = (struct json_writer){ .into = into };
}

static void put(struct json_writer *w, const char *text, size_t n)
{
    if (w->into)
        bytes_add(w->into, text, n);
    else
        (void) fwrite(text, 1, n, w->to);
}

static void put_char(struct json_writer *w, char c)
{
    put(w, &c, 1);
}

/* The comma in front of a value or key, and the state after it. */
static void next(struct json_writer *w)
{
    if (w->needs_comma && !w->after_key)
        put_char(w, ',');
    w->needs_comma = true;
    w->after_key = false;
}

static void open_nest(struct json_writer *w, char bracket)
{
    next(w);
    assert(w->depth < JSON_DEPTH_MAX);
    w->depth++;
    w->needs_comma = false;
    put_char(w, bracket);
}

static void close_nest(struct json_writer *w, char bracket)
{
    assert(w->depth > 0);
    w->depth--;
    w->needs_comma = true;
    put_char(w, bracket);
}

void json_object(struct json_writer *w)
{
    open_nest(w, '{');
}

void json_array(struct json_writer *w)
{
    open_nest(w, '[');
}

void json_end_object(struct json_writer *w)
{
    close_nest(w, '}');
}

void json_end_array(struct json_writer *w)
{
    close_nest(w, ']');
}

static void put_escaped(struct json_writer *w, unsigned char code)
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

/* One character that is not plain. Returns its bytes. */
static size_t put_odd(struct json_writer *w, const unsigned char *s)
{
    const char *text = (const char *) s;
    size_t n = text_utf8_length(text, strnlen(text, 4));

    if (n == 0) {
        put(w, "\xef\xbf\xbd", 3); /* U+FFFD */
        return 1;
    }
    /* 0x7f-0x9f need no escape in JSON, but they steer terminals. */
    if (n == 1)
        put_escaped(w, s[0]);
    else if (n == 2 && s[0] == 0xc2 && s[1] < 0xa0)
        put_escaped(w, s[1]);
    else
        put(w, text, n);
    return n;
}

static void put_quoted(struct json_writer *w, const char *text)
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

static void put_digits(struct json_writer *w, uint64_t value, bool is_negative)
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

void json_key(struct json_writer *w, const char *key)
{
    assert(!w->after_key);
    next(w);
    put_quoted(w, key);
    put_char(w, ':');
    w->after_key = true;
}

void json_string(struct json_writer *w, const char *text)
{
    next(w);
    put_quoted(w, text);
}

void json_int(struct json_writer *w, int64_t value)
{
    next(w);
    put_digits(w, value < 0 ? 0 - (uint64_t) value : (uint64_t) value, value < 0);
}

void json_uint(struct json_writer *w, uint64_t value)
{
    next(w);
    put_digits(w, value, false);
}

void json_bool(struct json_writer *w, bool value)
{
    next(w);
    put(w, value ? "true" : "false", value ? 4 : 5);
}

void json_null(struct json_writer *w)
{
    next(w);
    put(w, "null", 4);
}

void json_base64(struct json_writer *w, const void *bytes, size_t n)
{
    assert(w->into);
    next(w);
    put_char(w, '"');
    char *to = n < DIBS_INPUT_MAX_BYTES ? bytes_reserve(w->into, 4 * ((n + 2) / 3) + 1) : NULL;
    if (to) {
        json_base64_encode(bytes, n, to);
        w->into->n += 4 * ((n + 2) / 3);
    } else {
        w->into->is_lost = true;
    }
    put_char(w, '"');
}

void json_key_string(struct json_writer *w, const char *key, const char *text)
{
    json_key(w, key);
    json_string(w, text);
}

void json_key_int(struct json_writer *w, const char *key, int64_t value)
{
    json_key(w, key);
    json_int(w, value);
}

void json_key_uint(struct json_writer *w, const char *key, uint64_t value)
{
    json_key(w, key);
    json_uint(w, value);
}

void json_key_bool(struct json_writer *w, const char *key, bool value)
{
    json_key(w, key);
    json_bool(w, value);
}

void json_finish(struct json_writer *w)
{
    assert(w->depth == 0);
    put_char(w, '\n');
}
