/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CODEC_WIRE_FIELDS_H
#define DIBS_CODEC_WIRE_FIELDS_H
/* Read the members of one object. After the first error every call does nothing, so a reader checks `status`
 * once, at the end. An absent or null member leaves *out unchanged; fields_need() refuses that. */
#include <stddef.h>

#include "codec/wire.h"

struct fields {
    const jsonr_value *object;
    enum wire_source from;
    dibs_status status;
    dibs_err *err; /* may be NULL */
    void *ctx;     /* for the readers of single members */
};

/* Begin; keeps f->ctx. `known` ends with NULL and is ignored for answers. */
void fields_begin(struct fields *f, const jsonr_value *object, const char *const *known,
                  enum wire_source from, dibs_err *err);
/* Report: "KEY" must be EXPECTED. */
void fields_bad(struct fields *f, const char *key, const char *expected);
bool fields_has(const struct fields *f, const char *key);
void fields_need(struct fields *f, const char *key);

/* Read a text: not empty, when asked; cut to fit, when answered. */
void fields_text(struct fields *f, const char *key, char *out, size_t size);
/* Read any characters, cut to fit. */
void fields_message(struct fields *f, const char *key, char *out, size_t size);
/* Read any bytes: the member, or its twin KEY_base64. */
void fields_raw(struct fields *f, const char *key, char *out, size_t size);
/* Set *out to a text of the document (borrowed). */
void fields_borrow(struct fields *f, const char *key, const char **out);
void fields_int(struct fields *f, const char *key, int64_t least, int64_t most, int64_t *out);
/* Read into an integer of any type. */
#define FIELDS_NUMBER(f, key, least, most, out)            \
    do {                                                   \
        int64_t number_ = (int64_t) * (out);               \
        fields_int((f), (key), (least), (most), &number_); \
        *(out) = (__typeof__(*(out))) number_;             \
    } while (0)
void fields_bool(struct fields *f, const char *key, bool *out);
void fields_ttl(struct fields *f, const char *key, int64_t *ms); /* "10m" */
void fields_word(struct fields *f, const char *key, const struct words *words, unsigned *out);
/* The same; refuse control characters, which would control a terminal. */
void fields_shown(struct fields *f, const char *key, const char **out);
/* Return the list and its length; absent: NULL and 0. `most` SIZE_MAX: any length. */
const jsonr_value *fields_list(struct fields *f, const char *key, size_t most, size_t *n);

/* ---- tables: list the members of a value once, for writing and for reading ---- */

enum field_type {
    FIELD_BOOL,
    FIELD_PORT,   /* uint16_t */
    FIELD_U32,    /* uint32_t */
    FIELD_I32,    /* int32_t */
    FIELD_PID,    /* int32_t, null when it is 0 */
    FIELD_MS,     /* int64_t: not below 0 when asked */
    FIELD_WALL,   /* FIELD_MS as a date for people, written but not read */
    FIELD_COUNT,  /* uint64_t */
    FIELD_STRING, /* char[]: fields_text() */
    FIELD_TEXT,   /* the same, null when it is empty */
    FIELD_RAW,    /* char[]: fields_raw(), null when it is empty */
    FIELD_SHOWN,  /* const char *: fields_shown() */
    FIELD_WORD,   /* an enum (an unsigned) with a table of words */
    FIELD_PROTO,
    FIELD_ADDRESS, /* with "v6only": of a socket or of an existing claim */
    FIELD_RANGES,
    FIELD_BAND,  /* int32_t: "auto", "off" or a number */
    FIELD_KNOWN, /* read and written together with another member */
    FIELD_OWN,   /* read and written by its own functions */
};
enum { FIELD_NEEDED = 1, FIELD_BRIEF = 2 /* not written when it is empty or 0 */ };
struct field {
    const char *key; /* NULL: end of the table */
    enum field_type type;
    unsigned flags;
    size_t offset, size; /* of the member */
    const struct words *words;
    void (*write)(struct jsonw *w, const void *object); /* writes key and value */
    void (*read)(struct fields *f, void *object);
};
#define FIELD_AT(struct_, member_) \
    .offset = offsetof(struct_, member_), .size = sizeof(((struct_ *) 0)->member_)
#define FIELD(type_, struct_, member_, key_, flags_)                                        \
    {                                                                                       \
        .key = (key_), .type = FIELD_##type_, .flags = (flags_), FIELD_AT(struct_, member_) \
    }
#define FIELD_WORDS(struct_, member_, key_, flags_, words_)                                                  \
    {                                                                                                        \
        .key = (key_), .type = FIELD_WORD, .flags = (flags_), FIELD_AT(struct_, member_), .words = &(words_) \
    }
/* A member with its own write_WHAT() and read_WHAT(). */
#define FIELD_OWNED(key_, flags_, what_)                                                                  \
    {                                                                                                     \
        .key = (key_), .type = FIELD_OWN, .flags = (flags_), .write = write_##what_, .read = read_##what_ \
    }
/* Write the object with its braces, or only its members. */
void fields_object(struct jsonw *w, const struct field *table, const void *object);
void fields_write(struct jsonw *w, const struct field *table, const void *object);
/* Begin with the keys of the table as the known ones, and read every member in order. */
void fields_read(struct fields *f, const jsonr_value *v, const struct field *table, void *object);
/* Read a daemon's answer into an object that is zeroed first. */
dibs_status fields_read_answer(const jsonr_value *v, const struct field *table, void *object, size_t size,
                               dibs_err *err);
/* Read every item of a list that fields_list() has checked; an error names KEY[i]. */
void fields_items(struct fields *f, const char *key, const struct field *table, void *items, size_t size);
extern const struct field binding_fields[];

/* Define wire_NAME() and wire_NAME_read() for a value in answers whose table is NAME_fields. */
#define WIRE_VALUE(name, type)                                                     \
    void wire_##name(struct jsonw *w, const type *value)                           \
    {                                                                              \
        fields_object(w, name##_fields, value);                                    \
    }                                                                              \
    dibs_status wire_##name##_read(const jsonr_value *v, type *out, dibs_err *err) \
    {                                                                              \
        return fields_read_answer(v, name##_fields, out, sizeof *out, err);        \
    }

/* ---- writing single members ---- */
void field_raw_or_null(struct jsonw *w, const char *key, const char *text);
/* Numbers above 2^63-1, which JSON readers cannot hold and only damaged records have, are cut. */
void field_count(struct jsonw *w, const char *key, uint64_t value);
/* Write a key and a list of objects of `size` bytes. */
void field_list(struct jsonw *w, const char *key, const struct field *table, const void *items, size_t size,
                size_t n);
void field_ttl(struct jsonw *w, const char *key, int64_t ms);
#endif
