/* SPDX-License-Identifier: MIT */
#include "codec/wire_fields.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/suggest.h"
#include "base/text.h"

#include "base/banned.h"

#define TWIN_KEY_MAX 32 /* our own keys are short */
#define RAW_MAX DIBS_PROJECT_MAX

void fields_begin(struct fields *f, const jsonr_value *object, const char *const *known,
                  enum wire_source from, dibs_err *err)
{
    *f = (struct fields){ .object = object, .from = from, .err = err, .ctx = f->ctx };
    if (!jsonr_is_object(object)) {
        f->status = err_set(err, DIBS_INVALID, "not an object");
        return;
    }
    const char *unknown = from == WIRE_ASKED ? jsonr_unknown_key(object, known) : NULL;
    struct suggest best = { .wanted = unknown };

    if (!unknown)
        return;
    for (size_t i = 0; known[i]; i++)
        suggest_offer(&best, known[i]);
    f->status = err_set(err, DIBS_INVALID, "unknown member \"%.76s\"%s%s%s", unknown, best.name ? "; \"" : "",
                        best.name ? best.name : "", best.name ? "\" is known" : "");
}

void fields_bad(struct fields *f, const char *key, const char *expected)
{
    if (f->status == DIBS_OK)
        f->status = err_set(f->err, DIBS_INVALID, "\"%s\" must be %s", key, expected);
}

/* Return a member; NULL when it is absent or null, or after an error. */
static const jsonr_value *member(const struct fields *f, const char *key)
{
    const jsonr_value *value = f->status == DIBS_OK ? jsonr_get(f->object, key) : NULL;

    return jsonr_is_null(value) ? NULL : value;
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
    const jsonr_value *value = member(f, key);

    if (value && !jsonr_as_string(value, out))
        fields_bad(f, key, "a text");
}

void fields_shown(struct fields *f, const char *key, const char **out)
{
    fields_borrow(f, key, out);
    for (const char *c = *out; c && *c && f->status == DIBS_OK; c++)
        if ((unsigned char) *c < 0x20 || *c == 0x7f)
            fields_bad(f, key, "a text without control characters");
}

const jsonr_value *fields_list(struct fields *f, const char *key, size_t most, size_t *n)
{
    const jsonr_value *list = member(f, key);
    char expected[64] = "a list";

    *n = jsonr_array_size(list);
    if (most < SIZE_MAX)
        (void) snprintf(expected, sizeof expected, "a list of at most %zu", most);
    if (list && (!jsonr_is_array(list) || *n > most))
        fields_bad(f, key, expected);
    return list;
}

/* Cut between characters, to keep the text valid. */
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
    fields_shown(f, key, &text);
    if (!text)
        return;
    if (!text[0])
        fields_bad(f, key, "a text that is not empty");
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

        if (!base64_decode(coded, bytes, sizeof bytes, &n) || n >= size || memchr(bytes, '\0', n)) {
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
    const jsonr_value *value = member(f, key);
    int64_t number = 0;
    char expected[80] = "";

    if (!value)
        return;
    if (jsonr_as_int(value, &number) && number >= least && number <= most) {
        *out = number;
        return;
    }
    (void) snprintf(expected, sizeof expected, "a whole number from %lld to %lld", (long long) least,
                    (long long) most);
    fields_bad(f, key, expected);
}

void fields_bool(struct fields *f, const char *key, bool *out)
{
    const jsonr_value *value = member(f, key);

    if (value && !jsonr_as_bool(value, out))
        fields_bad(f, key, "true or false");
}

void fields_ttl(struct fields *f, const char *key, int64_t *ms)
{
    const char *text = NULL;

    fields_borrow(f, key, &text);
    if (text && dibs_duration_parse(text, ms, f->err) != DIBS_OK)
        f->status = err_wrap(f->err, DIBS_INVALID, "\"%s\"", key);
}

void fields_word(struct fields *f, const char *key, const struct words *words, unsigned *out)
{
    const char *text = NULL;
    char expected[256] = "one of";

    fields_borrow(f, key, &text);
    if (!text)
        return;
    for (unsigned i = 0; i < sizeof words->at / sizeof *words->at; i++) {
        size_t used = strlen(expected);

        if (words->at[i] && strcmp(words->at[i], text) == 0) {
            *out = i;
            return;
        }
        if (words->at[i])
            (void) snprintf(expected + used, sizeof expected - used, " %s", words->at[i]);
    }
    fields_bad(f, key, expected);
}

/* Read the form of dibs_address_format(), including addresses that a socket can have, but no claim. */
static bool address_read(const char *text, dibs_address *out)
{
    *out = (dibs_address){ .len = strchr(text, '.') && !strchr(text, ':') ? 4 : 16 };
    return strcmp(text, "*") == 0 || inet_pton(out->len == 4 ? AF_INET : AF_INET6, text, out->bytes) == 1;
}

static void text_or_null(struct jsonw *w, const char *key, const char *text)
{
    jsonw_key(w, key);
    if (text[0])
        jsonw_string(w, text);
    else
        jsonw_null(w);
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

void field_raw_or_null(struct jsonw *w, const char *key, const char *text)
{
    text_or_null(w, key, text);
    /* The reader refuses longer texts. */
    if (is_utf8(text) || strlen(text) > RAW_MAX)
        return;
    char twin[TWIN_KEY_MAX] = "";
    char coded[4 * ((RAW_MAX + 2) / 3) + 1] = "";

    twin_key(key, twin);
    base64_encode((const uint8_t *) text, strlen(text), coded);
    jsonw_key_string(w, twin, coded);
}

void field_count(struct jsonw *w, const char *key, uint64_t value)
{
    jsonw_key_uint(w, key, value > INT64_MAX ? INT64_MAX : value);
}

void field_ttl(struct jsonw *w, const char *key, int64_t ms)
{
    char text[24] = "";

    clock_duration_format(ms, text);
    jsonw_key_string(w, key, text);
}

enum { KEYS_MAX = 40 }; /* of one table */

/* Read a text with its own grammar. */
static void read_parsed(struct fields *f, const struct field *field, void *to)
{
    const char *text = NULL;

    fields_borrow(f, field->key, &text);
    if (!text)
        return;
    if (field->type == FIELD_PROTO && dibs_proto_parse(text, to, f->err) != DIBS_OK)
        f->status = DIBS_INVALID;
    if (field->type == FIELD_RANGES && dibs_ranges_parse(text, to, f->err) != DIBS_OK)
        f->status = err_wrap(f->err, DIBS_INVALID, "\"%s\"", field->key);
    if (field->type == FIELD_BAND && !wire_band_read(text, to))
        fields_bad(f, field->key, "auto, off or a number of ports");
    if (field->type == FIELD_ADDRESS && !address_read(text, to))
        fields_bad(f, field->key, "one address");
    if (field->type == FIELD_ADDRESS)
        fields_bool(f, "v6only", &((dibs_address *) to)->v6only);
}

static void read_field(struct fields *f, const struct field *field, void *object)
{
    void *to = (char *) object + field->offset;
    const char *ignored = NULL;

    switch (field->type) {
    case FIELD_BOOL: fields_bool(f, field->key, to); break;
    case FIELD_PORT: FIELDS_NUMBER(f, field->key, 0, DIBS_PORT_MAX, (uint16_t *) to); break;
    case FIELD_U32: FIELDS_NUMBER(f, field->key, 0, UINT32_MAX, (uint32_t *) to); break;
    case FIELD_I32:
    case FIELD_PID: FIELDS_NUMBER(f, field->key, INT32_MIN, INT32_MAX, (int32_t *) to); break;
    case FIELD_MS: fields_int(f, field->key, f->from == WIRE_ASKED ? 0 : INT64_MIN, INT64_MAX, to); break;
    case FIELD_COUNT: FIELDS_NUMBER(f, field->key, 0, INT64_MAX, (uint64_t *) to); break;
    case FIELD_STRING:
    case FIELD_TEXT: fields_text(f, field->key, to, field->size); break;
    case FIELD_RAW: fields_raw(f, field->key, to, field->size); break;
    case FIELD_WORD: fields_word(f, field->key, field->words, to); break;
    case FIELD_SHOWN: fields_shown(f, field->key, to); break;
    case FIELD_PROTO:
    case FIELD_ADDRESS:
    case FIELD_RANGES:
    case FIELD_BAND: read_parsed(f, field, to); break;
    case FIELD_WALL: fields_borrow(f, field->key, &ignored); break;
    case FIELD_KNOWN: break;
    case FIELD_OWN: field->read(f, object); break;
    }
}

void fields_read(struct fields *f, const jsonr_value *v, const struct field *table, void *object)
{
    const char *keys[KEYS_MAX + 1] = { NULL };

    for (size_t i = 0; table[i].key; i++) {
        assert(i < KEYS_MAX);
        keys[i] = table[i].key;
    }
    fields_begin(f, v, keys, f->from, f->err);
    for (size_t i = 0; table[i].key; i++)
        if (table[i].flags & FIELD_NEEDED)
            fields_need(f, table[i].key);
    for (size_t i = 0; table[i].key && f->status == DIBS_OK; i++)
        read_field(f, &table[i], object);
}

dibs_status fields_read_answer(const jsonr_value *v, const struct field *table, void *object, size_t size,
                               dibs_err *err)
{
    struct fields f = { .from = WIRE_ANSWERED, .err = err };

    memset(object, 0, size);
    fields_read(&f, v, table, object);
    return f.status;
}

void fields_items(struct fields *f, const char *key, const struct field *table, void *items, size_t size)
{
    const jsonr_value *list = member(f, key);

    for (size_t i = 0; i < jsonr_array_size(list) && f->status == DIBS_OK; i++) {
        struct fields item = { .from = f->from, .err = f->err, .ctx = f->ctx };

        fields_read(&item, jsonr_array_at(list, i), table, (char *) items + i * size);
        if (item.status != DIBS_OK)
            f->status = err_wrap(f->err, item.status, "%s[%zu]", key, i);
    }
}

static void write_formatted(struct jsonw *w, const struct field *field, const void *from)
{
    char text[DIBS_RANGES_TEXT_MAX + 1];
    bool is_address = field->type == FIELD_ADDRESS;

    if (is_address)
        dibs_address_format(from, text);
    else if (field->type == FIELD_RANGES)
        dibs_ranges_format(from, text);
    else if (field->type == FIELD_BAND)
        wire_band_text(*(const int32_t *) from, text);
    else
        clock_wall_format(*(const int64_t *) from, text);
    jsonw_key_string(w, field->key, text);
    if (is_address && ((const dibs_address *) from)->v6only)
        jsonw_key_bool(w, "v6only", true);
}

static void write_pid(struct jsonw *w, const char *key, int32_t pid)
{
    jsonw_key(w, key);
    if (pid)
        jsonw_int(w, pid);
    else
        jsonw_null(w);
}

static void write_field(struct jsonw *w, const struct field *field, const void *object)
{
    const void *from = (const char *) object + field->offset;

    switch (field->type) {
    case FIELD_BOOL: jsonw_key_bool(w, field->key, *(const bool *) from); break;
    case FIELD_PORT: jsonw_key_uint(w, field->key, *(const uint16_t *) from); break;
    case FIELD_U32: jsonw_key_uint(w, field->key, *(const uint32_t *) from); break;
    case FIELD_I32: jsonw_key_int(w, field->key, *(const int32_t *) from); break;
    case FIELD_PID: write_pid(w, field->key, *(const int32_t *) from); break;
    case FIELD_MS: jsonw_key_int(w, field->key, *(const int64_t *) from); break;
    case FIELD_COUNT: field_count(w, field->key, *(const uint64_t *) from); break;
    case FIELD_STRING: jsonw_key_string(w, field->key, from); break;
    case FIELD_TEXT: text_or_null(w, field->key, from); break;
    case FIELD_RAW: field_raw_or_null(w, field->key, from); break;
    case FIELD_SHOWN: jsonw_key_string(w, field->key, *(const char *const *) from); break;
    case FIELD_PROTO: jsonw_key_string(w, field->key, dibs_proto_text(*(const dibs_proto *) from)); break;
    case FIELD_WALL:
    case FIELD_ADDRESS:
    case FIELD_RANGES:
    case FIELD_BAND: write_formatted(w, field, from); break;
    case FIELD_KNOWN: break;
    case FIELD_WORD: jsonw_key_string(w, field->key, words_at(field->words, *(const unsigned *) from)); break;
    case FIELD_OWN: field->write(w, object); break;
    }
}

/* Return whether a member is empty: a text is longer than any number, and empty when its first byte is 0. */
static bool is_empty(const struct field *field, const void *object)
{
    static const char zero[sizeof(uint64_t)] = { 0 };

    return memcmp((const char *) object + field->offset, zero,
                  field->size <= sizeof zero ? field->size : 1) == 0;
}

void fields_write(struct jsonw *w, const struct field *table, const void *object)
{
    for (size_t i = 0; table[i].key; i++)
        if (!(table[i].flags & FIELD_BRIEF) || !is_empty(&table[i], object))
            write_field(w, &table[i], object);
}

void fields_object(struct jsonw *w, const struct field *table, const void *object)
{
    jsonw_object(w);
    fields_write(w, table, object);
    jsonw_end_object(w);
}

void field_list(struct jsonw *w, const char *key, const struct field *table, const void *items, size_t size,
                size_t n)
{
    jsonw_key_array(w, key);
    for (size_t i = 0; i < n; i++)
        fields_object(w, table, (const char *) items + i * size);
    jsonw_end_array(w);
}
