/* SPDX-License-Identifier: MIT */
/* Writing needs no library: light commands answer with --json at no cost. The first error
 * stays in the stream (ferror), where the door looks for it at the end. */
#include <assert.h>
#include <inttypes.h>

#include "json/json.h"

#include "base/banned.h"

void json_begin(struct json_writer *w, FILE *to)
{
    *w = (struct json_writer){ .to = to };
}

static void put(struct json_writer *w, const char *text)
{
    (void) fputs(text, w->to);
}

/* The comma in front of a value or key, and the state after it. */
static void next(struct json_writer *w)
{
    if (w->needs_comma && !w->after_key)
        put(w, ",");
    w->needs_comma = true;
    w->after_key = false;
}

static void open_nest(struct json_writer *w, const char *bracket)
{
    next(w);
    assert(w->depth < JSON_DEPTH_MAX);
    w->depth++;
    w->needs_comma = false;
    put(w, bracket);
}

static void close_nest(struct json_writer *w, const char *bracket)
{
    assert(w->depth > 0);
    w->depth--;
    w->needs_comma = true;
    put(w, bracket);
}

void json_object(struct json_writer *w)
{
    open_nest(w, "{");
}

void json_array(struct json_writer *w)
{
    open_nest(w, "[");
}

void json_end_object(struct json_writer *w)
{
    close_nest(w, "}");
}

void json_end_array(struct json_writer *w)
{
    close_nest(w, "]");
}

/* Bytes of the well-formed UTF-8 character at `s` (NUL-terminated), and its number; 0 when it is
 * broken: overlong, cut off, a surrogate, or beyond U+10FFFF. */
static size_t character(const unsigned char *s, uint32_t *code)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t n = 1;
    uint32_t c = s[0];

    if (c >= 0x80) {
        n = c >= 0xf0 && c <= 0xf4 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 0;
        if (n == 0 || c > 0xf4)
            return 0;
        c &= 0x7fu >> n;
        for (size_t i = 1; i < n; i++) {
            if ((s[i] & 0xc0) != 0x80)
                return 0;
            c = c << 6 | (s[i] & 0x3fu);
        }
        if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
            return 0;
    }
    *code = c;
    return n;
}

static void put_escaped(struct json_writer *w, uint32_t code)
{
    switch (code) {
    case '"': put(w, "\\\""); return;
    case '\\': put(w, "\\\\"); return;
    case '\n': put(w, "\\n"); return;
    case '\r': put(w, "\\r"); return;
    case '\t': put(w, "\\t"); return;
    default: (void) fprintf(w->to, "\\u%04" PRIx32, code); return;
    }
}

static void put_quoted(struct json_writer *w, const char *text)
{
    const unsigned char *s = (const unsigned char *) text;

    put(w, "\"");
    while (*s) {
        uint32_t code = 0;
        size_t n = character(s, &code);

        if (n == 0) {
            put(w, "\xef\xbf\xbd"); /* U+FFFD */
            s++;
            continue;
        }
        /* 0x7f-0x9f need no escape in JSON, but they steer terminals. */
        if (code < 0x20 || code == '"' || code == '\\' || (code >= 0x7f && code <= 0x9f))
            put_escaped(w, code);
        else
            (void) fwrite(s, 1, n, w->to);
        s += n;
    }
    put(w, "\"");
}

void json_key(struct json_writer *w, const char *key)
{
    assert(!w->after_key);
    next(w);
    put_quoted(w, key);
    put(w, ":");
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
    (void) fprintf(w->to, "%" PRId64, value);
}

void json_uint(struct json_writer *w, uint64_t value)
{
    next(w);
    (void) fprintf(w->to, "%" PRIu64, value);
}

void json_bool(struct json_writer *w, bool value)
{
    next(w);
    put(w, value ? "true" : "false");
}

void json_null(struct json_writer *w)
{
    next(w);
    put(w, "null");
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
    put(w, "\n");
}
