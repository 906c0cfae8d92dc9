/* SPDX-License-Identifier: MIT */
#include "wire/fields.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/near.h"
#include "base/text.h"

#include "base/banned.h"

#define TWIN_KEY_MAX 32 /* our own keys are short */
#define RAW_MAX DIBS_PROJECT_MAX

void fields_begin(struct fields *f, const json_value *object, const char *const *known, enum wire_source from,
                  dibs_err *err)
{
    char safe[80] = "";

    *f = (struct fields){ .object = object, .from = from, .err = err };
    if (!json_is_object(object)) {
        f->status = err_set(err, DIBS_INVALID, "not an object");
        return;
    }
    const char *unknown = from == WIRE_ASKED ? json_unknown_key(object, known) : NULL;
    struct near best = { .wanted = unknown };

    if (!unknown)
        return;
    for (size_t i = 0; known[i]; i++)
        near_offer(&best, known[i]);
    f->status =
        err_set(err, DIBS_INVALID, "unknown member \"%s\"%s%s%s", text_safe(unknown, safe, sizeof safe),
                best.name ? "; \"" : "", best.name ? best.name : "", best.name ? "\" is known" : "");
}

void fields_bad(struct fields *f, const char *key, const char *expected)
{
    if (f->status == DIBS_OK)
        f->status = err_set(f->err, DIBS_INVALID, "\"%s\" must be %s", key, expected);
}

/* NULL when it is absent or null, or after a fault. */
static const json_value *member(const struct fields *f, const char *key)
{
    const json_value *value = f->status == DIBS_OK ? json_get(f->object, key) : NULL;

    return json_is_null(value) ? NULL : value;
}

bool fields_has(const struct fields *f, const char *key)
{
    return member(f, key) != NULL;
}

void fields_need(struct fields *f, const char *key)
{
    if (!member(f, key))
        fields_bad(f, key, "there");
}

void fields_borrow(struct fields *f, const char *key, const char **out)
{
    const json_value *value = member(f, key);

    if (value && !json_as_string(value, out))
        fields_bad(f, key, "a text");
}

/* Cut between characters, so that it is shorter, not broken. */
static void copy_cut(char *out, size_t size, const char *text)
{
    size_t n = 0;

    for (size_t step = 0; text[n] && n + (step = text_utf8_length(text + n, 4)) < size && step > 0;)
        n += step;
    memcpy(out, text, n);
    out[n] = '\0';
}

void fields_message(struct fields *f, const char *key, char *out, size_t size)
{
    const char *text = NULL;

    fields_borrow(f, key, &text);
    if (text)
        copy_cut(out, size, text);
}

void fields_text(struct fields *f, const char *key, char *out, size_t size)
{
    const char *text = NULL;

    if (f->from == WIRE_ANSWERED) {
        fields_message(f, key, out, size);
        return;
    }
    fields_borrow(f, key, &text);
    if (!text)
        return;
    if (!text[0])
        fields_bad(f, key, "a text that is not empty");
    for (const char *c = text; *c && f->status == DIBS_OK; c++)
        if ((unsigned char) *c < 0x20 || *c == 0x7f)
            fields_bad(f, key, "a text without control characters");
    if (f->status == DIBS_OK && !text_copy(out, size, text))
        f->status = err_set(f->err, DIBS_INVALID, "\"%s\" has more than %zu bytes", key, size - 1);
}

static void twin_key(const char *key, char out[TWIN_KEY_MAX])
{
    (void) snprintf(out, TWIN_KEY_MAX, "%s_base64", key);
}

void fields_raw(struct fields *f, const char *key, char *out, size_t size)
{
    char twin[TWIN_KEY_MAX] = "";
    const char *text = NULL;
    const char *coded = NULL;

    twin_key(key, twin);
    fields_borrow(f, key, &text);
    fields_borrow(f, twin, &coded);
    if (coded) {
        uint8_t bytes[RAW_MAX] = { 0 };
        size_t n = 0;

        if (!json_base64_decode(coded, bytes, sizeof bytes, &n) || n >= size || memchr(bytes, '\0', n)) {
            fields_bad(f, twin, "base64 of a text that is short enough");
            return;
        }
        memcpy(out, bytes, n);
        out[n] = '\0';
    } else if (text && !text_copy(out, size, text)) {
        f->status = err_set(f->err, DIBS_INVALID, "\"%s\" has more than %zu bytes", key, size - 1);
    }
}

void fields_int(struct fields *f, const char *key, int64_t least, int64_t most, int64_t *out)
{
    const json_value *value = member(f, key);
    int64_t number = 0;
    char expected[80] = "";

    if (!value)
        return;
    if (json_as_int(value, &number) && number >= least && number <= most) {
        *out = number;
        return;
    }
    (void) snprintf(expected, sizeof expected, "a whole number from %lld to %lld", (long long) least,
                    (long long) most);
    fields_bad(f, key, expected);
}

void fields_uint(struct fields *f, const char *key, uint64_t most, uint64_t *out)
{
    int64_t number = (int64_t) *out;

    fields_int(f, key, 0, (int64_t) most, &number);
    *out = (uint64_t) number;
}

void fields_u32(struct fields *f, const char *key, uint32_t *out)
{
    int64_t number = *out;

    fields_int(f, key, 0, UINT32_MAX, &number);
    *out = (uint32_t) number;
}

void fields_i32(struct fields *f, const char *key, int32_t *out)
{
    int64_t number = *out;

    fields_int(f, key, INT32_MIN, INT32_MAX, &number);
    *out = (int32_t) number;
}

void fields_port(struct fields *f, const char *key, uint16_t *out)
{
    int64_t number = *out;

    fields_int(f, key, 0, DIBS_PORT_MAX, &number);
    *out = (uint16_t) number;
}

void fields_bool(struct fields *f, const char *key, bool *out)
{
    const json_value *value = member(f, key);

    if (value && !json_as_bool(value, out))
        fields_bad(f, key, "true or false");
}

void fields_ttl(struct fields *f, const char *key, int64_t *ms)
{
    const char *text = NULL;

    fields_borrow(f, key, &text);
    if (text && dibs_duration_parse(text, ms, f->err) != DIBS_OK)
        f->status = err_wrap(f->err, DIBS_INVALID, "\"%s\"", key);
}

void fields_word(struct fields *f, const char *key, const char *const *words, size_t n, unsigned *out)
{
    const char *text = NULL;
    char expected[256] = "one of";

    fields_borrow(f, key, &text);
    if (!text)
        return;
    for (unsigned i = 0; i < n; i++) {
        size_t used = strlen(expected);

        if (words[i] && strcmp(words[i], text) == 0) {
            *out = i;
            return;
        }
        if (words[i])
            (void) snprintf(expected + used, sizeof expected - used, " %s", words[i]);
    }
    fields_bad(f, key, expected);
}

/* As dibs_address_format() writes it: also addresses that nobody may claim, but a socket can have. */
static bool address_read(const char *text, dibs_address *out)
{
    *out = (dibs_address){ .len = strchr(text, '.') && !strchr(text, ':') ? 4 : 16 };
    return strcmp(text, "*") == 0 || inet_pton(out->len == 4 ? AF_INET : AF_INET6, text, out->bytes) == 1;
}

void fields_binding(struct fields *f, dibs_proto *proto, dibs_address *address)
{
    const char *proto_text = NULL;
    const char *address_text = NULL;

    fields_borrow(f, "proto", &proto_text);
    if (proto_text && dibs_proto_parse(proto_text, proto, f->err) != DIBS_OK)
        f->status = DIBS_INVALID;
    fields_borrow(f, "address", &address_text);
    if (address_text && !address_read(address_text, address))
        fields_bad(f, "address", "one address");
    fields_bool(f, "v6only", &address->v6only);
}

void field_text_or_null(struct json_writer *w, const char *key, const char *text)
{
    json_key(w, key);
    if (text[0])
        json_string(w, text);
    else
        json_null(w);
}

static bool is_utf8(const char *text)
{
    size_t left = strlen(text);

    for (size_t step = 0; left > 0; text += step, left -= step) {
        step = text_utf8_length(text, left);
        if (step == 0)
            return false;
    }
    return true;
}

void field_raw_or_null(struct json_writer *w, const char *key, const char *text)
{
    field_text_or_null(w, key, text);
    /* What is too long is refused where it arrives. */
    if (is_utf8(text) || strlen(text) > RAW_MAX)
        return;
    char twin[TWIN_KEY_MAX] = "";
    char coded[4 * ((RAW_MAX + 2) / 3) + 1] = "";

    twin_key(key, twin);
    json_base64_encode((const uint8_t *) text, strlen(text), coded);
    json_key_string(w, twin, coded);
}

void field_count(struct json_writer *w, const char *key, uint64_t value)
{
    json_key_uint(w, key, value > INT64_MAX ? INT64_MAX : value);
}

void field_binding(struct json_writer *w, dibs_proto proto, const dibs_address *address)
{
    char text[DIBS_ADDRESS_TEXT_MAX + 1] = "";

    dibs_address_format(address, text);
    json_key_string(w, "proto", dibs_proto_text(proto));
    json_key_string(w, "address", text);
    if (address->v6only)
        json_key_bool(w, "v6only", true);
}

void field_ttl(struct json_writer *w, const char *key, int64_t ms)
{
    char text[24] = "";

    clock_duration_format(ms, text);
    json_key_string(w, key, text);
}
