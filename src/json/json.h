/* SPDX-License-Identifier: MIT */
#ifndef DIBS_JSON_JSON_H
#define DIBS_JSON_JSON_H
/* JSON in and out; the only room that sees jansson.
 *
 * Writing is streaming and cannot half-fail: a writer remembers the first error. Reading checks size
 * and depth first, refuses duplicate keys, and reports line and column. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/bytes.h"
#include "dibs/status.h"

/* ---- writing: straight to a stream or into memory, no tree ---- */
struct json_writer {
    FILE *to;
    struct bytes *into; /* instead of a stream */
    unsigned depth;
    bool needs_comma;
    bool after_key;
};
#define JSON_DEPTH_MAX 64 /* nothing we read or write nests deeper than ten */

void json_begin(struct json_writer *w, FILE *to);
/* Behind what is there; the bytes remember when memory was lacking. */
void json_begin_bytes(struct json_writer *w, struct bytes *into);
void json_object(struct json_writer *w);
void json_array(struct json_writer *w);
void json_end_object(struct json_writer *w);
void json_end_array(struct json_writer *w);
void json_key(struct json_writer *w, const char *key);
void json_string(struct json_writer *w, const char *text); /* broken UTF-8 becomes U+FFFD */
void json_int(struct json_writer *w, int64_t value);
void json_uint(struct json_writer *w, uint64_t value);
void json_bool(struct json_writer *w, bool value);
void json_null(struct json_writer *w);
void json_base64(struct json_writer *w, const void *bytes, size_t n); /* a string; into memory only */
/* key and value at once */
void json_key_string(struct json_writer *w, const char *key, const char *text);
void json_key_int(struct json_writer *w, const char *key, int64_t value);
void json_key_uint(struct json_writer *w, const char *key, uint64_t value);
void json_key_bool(struct json_writer *w, const char *key, bool value);
void json_finish(struct json_writer *w); /* newline at the end of a document */

/* ---- reading: an opaque tree ---- */
typedef struct json_doc json_doc;     /* owns the tree */
typedef struct json_value json_value; /* borrowed from its document */

/* By a program of its own, before the first document: nobody else in the process uses jansson, whose memory
 * is then managed for speed. A library must not: its process may have documents of its own. */
void json_own(void);
dibs_status json_parse(const char *text, size_t len, json_doc **out, dibs_err *err);
void json_free(json_doc *doc); /* NULL is fine */
const json_value *json_root(const json_doc *doc);
bool json_is_object(const json_value *v);
bool json_is_array(const json_value *v);
bool json_is_null(const json_value *v); /* false when absent */
/* Member of an object, or NULL. */
const json_value *json_get(const json_value *object, const char *key);
/* The last member whose key is the same but for the case of its letters, as Go reads JSON; or NULL. */
const json_value *json_get_folded(const json_value *object, const char *key);
size_t json_array_size(const json_value *array); /* 0 when it is none */
const json_value *json_array_at(const json_value *array, size_t i);
/* False when absent or of another type; *out untouched then. */
bool json_as_string(const json_value *v, const char **out);
bool json_as_int(const json_value *v, int64_t *out);
bool json_as_bool(const json_value *v, bool *out);
/* The same of an object's member. */
bool json_get_string(const json_value *object, const char *key, const char **out);
bool json_get_int(const json_value *object, const char *key, int64_t *out);
bool json_get_uint(const json_value *object, const char *key,
                   uint64_t *out); /* also for numbers up to 2^63-1 only */
bool json_get_bool(const json_value *object, const char *key, bool *out);
/* Keys of an object that are not in the NULL-terminated list: the first such key, or NULL. Folded: upper and
 * lower case are the same, as for json_get_folded(). */
const char *json_unknown_key(const json_value *object, const char *const *known);
const char *json_unknown_key_folded(const json_value *object, const char *const *known);

/* ---- base64 (RFC 4648, padded), for Kubernetes' bytes ---- */
void json_base64_encode(const uint8_t *bytes, size_t n, char *out); /* 4 * ((n + 2) / 3) + 1 bytes */
bool json_base64_decode(const char *text, uint8_t *out, size_t out_max, size_t *n);
#endif
