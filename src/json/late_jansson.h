/* SPDX-License-Identifier: MIT */
#ifndef DIBS_JSON_LATE_JANSSON_H
#define DIBS_JSON_LATE_JANSSON_H
/* libjansson, loaded when the first document is read and not before: a command that reads no
 * JSON must not pay for it at start-up.
 *
 * Our own functions and jansson's share the prefix "json_", so no file includes both headers;
 * this one speaks for jansson in neutral words. Our symbols are hidden, hence jansson's own
 * calls inside the library cannot land here. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/blocks.h"
#include "dibs/status.h"

struct late_node; /* a jansson value */

enum late_type { LATE_OBJECT, LATE_ARRAY, LATE_STRING, LATE_INTEGER, LATE_BOOLEAN, LATE_NULL, LATE_REAL };

/* Nobody else in this process uses libjansson: from the first document on its memory may be ours. */
void late_own(void);
/* Parses one array or object; INVALID with line and column, FAILURE when libjansson is missing. After
 * late_own() everything is in *blocks and ends with them; without, it ends with late_free(). */
dibs_status late_parse(const char *text, size_t len, struct block **blocks, struct late_node **out,
                       dibs_err *err);
void late_free(struct late_node *root); /* NULL is fine */

enum late_type late_type(const struct late_node *node);
/* Each of these needs the matching type, else NULL, 0 or false. */
const struct late_node *late_member(const struct late_node *object, const char *key);
const struct late_node *late_member_folded(const struct late_node *object, const char *key);
size_t late_size(const struct late_node *array);
const struct late_node *late_at(const struct late_node *array, size_t i);
const char *late_string(const struct late_node *string);
int64_t late_integer(const struct late_node *integer);
bool late_boolean(const struct late_node *boolean);
/* The first key that `is_known` says false to, or NULL. */
const char *late_key_without(const struct late_node *object,
                             bool (*is_known)(const char *const *known, const char *key),
                             const char *const *known);
#endif
