/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CODEC_JSON_H
#define DIBS_CODEC_JSON_H
/* Read and write JSON; the only code that uses jansson. Reading is bounded and refuses duplicate keys. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/auto.h"
#include "base/bytes.h"
#include "dibs/status.h"

/* ---- writing: directly to a stream or into memory, without a tree ---- */
struct jsonw {
    FILE *to;
    struct bytes *into; /* NULL: to a stream */
    unsigned depth;
    bool needs_comma;
    bool after_key;
};
#define JSON_DEPTH_MAX 64 /* nothing that we read or write nests deeper than ten */

void jsonw_begin(struct jsonw *w, FILE *to);
/* Append to `into`, which records a lack of memory (is_lost). */
void jsonw_begin_bytes(struct jsonw *w, struct bytes *into);
void jsonw_object(struct jsonw *w);
void jsonw_array(struct jsonw *w);
void jsonw_end_object(struct jsonw *w);
void jsonw_end_array(struct jsonw *w);
void jsonw_key(struct jsonw *w, const char *key);
void jsonw_string(struct jsonw *w, const char *text); /* invalid UTF-8 becomes U+FFFD */
void jsonw_int(struct jsonw *w, int64_t value);
void jsonw_uint(struct jsonw *w, uint64_t value);
void jsonw_bool(struct jsonw *w, bool value);
void jsonw_null(struct jsonw *w);
void jsonw_base64(struct jsonw *w, const void *bytes, size_t n); /* a string; into memory only */
/* Write a key and its value, or a key and the beginning of its value. */
void jsonw_key_object(struct jsonw *w, const char *key);
void jsonw_key_array(struct jsonw *w, const char *key);
void jsonw_key_string(struct jsonw *w, const char *key, const char *text);
void jsonw_key_int(struct jsonw *w, const char *key, int64_t value);
void jsonw_key_uint(struct jsonw *w, const char *key, uint64_t value);
void jsonw_key_bool(struct jsonw *w, const char *key, bool value);
void jsonw_finish(struct jsonw *w); /* writes the newline at the end */

/* ---- reading: an opaque tree ---- */
typedef struct json_t jsonr_doc;   /* owns the tree; jansson's, opaque here */
typedef struct json_t jsonr_value; /* borrowed from its document */

dibs_status jsonr_parse(const char *text, size_t len, jsonr_doc **out, dibs_err *err);
void jsonr_free(jsonr_doc *doc); /* NULL is fine */
DEFINE_AUTO(jsonr_doc, jsonr_free)
const jsonr_value *jsonr_root(const jsonr_doc *doc);
bool jsonr_is_object(const jsonr_value *v);
bool jsonr_is_array(const jsonr_value *v);
bool jsonr_is_null(const jsonr_value *v); /* false when absent */
/* Return a member of an object, or NULL. */
const jsonr_value *jsonr_get(const jsonr_value *object, const char *key);
/* Return the value at a path such as "metadata.name", or NULL; or the text there, or "". */
const jsonr_value *jsonr_at(const jsonr_value *object, const char *path);
const char *jsonr_text_at(const jsonr_value *object, const char *path);
/* Return the last member whose key differs at most in case, as Go reads JSON; or NULL. */
const jsonr_value *jsonr_get_folded(const jsonr_value *object, const char *key);
size_t jsonr_array_size(const jsonr_value *array); /* 0 when it is not an array */
const jsonr_value *jsonr_array_at(const jsonr_value *array, size_t i);
/* Return false, and leave *out alone, when the value is absent or of another type. */
bool jsonr_as_string(const jsonr_value *v, const char **out);
bool jsonr_as_int(const jsonr_value *v, int64_t *out);
/* The same, and for 8080.0, which is an integer for JSON Schema. */
bool jsonr_as_whole(const jsonr_value *v, int64_t *out);
bool jsonr_as_bool(const jsonr_value *v, bool *out);
/* The same for a member of an object. */
bool jsonr_get_string(const jsonr_value *object, const char *key, const char **out);
bool jsonr_get_int(const jsonr_value *object, const char *key, int64_t *out);
bool jsonr_get_uint(const jsonr_value *object, const char *key,
                    uint64_t *out); /* also for numbers up to 2^63-1 only */
bool jsonr_get_bool(const jsonr_value *object, const char *key, bool *out);
/* Call `fn` for each member of an object, in their order. */
void jsonr_each(const jsonr_value *object, void (*fn)(void *ctx, const char *key, const jsonr_value *value),
                void *ctx);
/* Return the first key of an object that is not in the NULL-terminated list, or NULL; or ignoring case. */
const char *jsonr_unknown_key(const jsonr_value *object, const char *const *known);
const char *jsonr_unknown_key_folded(const jsonr_value *object, const char *const *known);

/* ---- base64 (RFC 4648, padded) ---- */
void base64_encode(const uint8_t *bytes, size_t n, char *out); /* 4 * ((n + 2) / 3) + 1 bytes */
bool base64_decode(const char *text, uint8_t *out, size_t out_max, size_t *n);
/* Decode to a text, which the caller frees; NULL: invalid, has a NUL, or out of memory. */
char *base64_decode_text(const char *text);
#endif
