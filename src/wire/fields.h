/* SPDX-License-Identifier: MIT */
#ifndef DIBS_WIRE_FIELDS_H
#define DIBS_WIRE_FIELDS_H
/* The members of one object that is being read. The first fault stays: after it every call does nothing, so
 * that a reader lists its members and looks at `status` once. A member that is absent or null leaves *out as
 * it is; fields_need() refuses that. */
#include "wire/wire.h"

struct fields {
    const json_value *object;
    enum wire_source from;
    dibs_status status;
    dibs_err *err; /* may be NULL */
};

/* `known` ends with NULL. */
void fields_begin(struct fields *f, const json_value *object, const char *const *known, enum wire_source from,
                  dibs_err *err);
/* "KEY" must be EXPECTED. */
void fields_bad(struct fields *f, const char *key, const char *expected);
bool fields_has(const struct fields *f, const char *key);
void fields_need(struct fields *f, const char *key);

/* Not empty, when asked; cut to what fits, when answered. */
void fields_text(struct fields *f, const char *key, char *out, size_t size);
/* Any characters, cut to what fits. */
void fields_message(struct fields *f, const char *key, char *out, size_t size);
/* Any bytes: the member, or its twin KEY_base64. */
void fields_raw(struct fields *f, const char *key, char *out, size_t size);
/* Borrowed from the document. */
void fields_borrow(struct fields *f, const char *key, const char **out);
void fields_int(struct fields *f, const char *key, int64_t least, int64_t most, int64_t *out);
void fields_uint(struct fields *f, const char *key, uint64_t most, uint64_t *out);
void fields_u32(struct fields *f, const char *key, uint32_t *out);
void fields_i32(struct fields *f, const char *key, int32_t *out);
void fields_port(struct fields *f, const char *key, uint16_t *out); /* 0 is one here */
void fields_bool(struct fields *f, const char *key, bool *out);
void fields_ttl(struct fields *f, const char *key, int64_t *ms); /* "10m" */
/* *out is the index of the word; `words` may have holes (NULL). */
void fields_word(struct fields *f, const char *key, const char *const *words, size_t n, unsigned *out);
/* "proto" and "address", "v6only": those of a socket or of a claim that is there. */
void fields_binding(struct fields *f, dibs_proto *proto, dibs_address *address);

/* ---- writing what is read by the above ---- */
void field_text_or_null(struct json_writer *w, const char *key, const char *text);
void field_raw_or_null(struct json_writer *w, const char *key, const char *text);
/* Numbers that JSON readers cannot hold (above 2^63-1: only damaged records have them) are cut. */
void field_count(struct json_writer *w, const char *key, uint64_t value);
void field_binding(struct json_writer *w, dibs_proto proto, const dibs_address *address);
void field_ttl(struct json_writer *w, const char *key, int64_t ms);
#endif
