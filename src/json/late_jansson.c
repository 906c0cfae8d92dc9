/* SPDX-License-Identifier: MIT */
#include "json/late_jansson.h"

#include <stdlib.h>
#include <strings.h>

#include <jansson.h>

#include "base/err.h"
#include "base/late.h"
#include "base/text.h"

#include "base/banned.h"

/* One row is a function that we call; the types are the header's own. */
#define JANSSON_MAP(X)        \
    X(json_loadb)             \
    X(json_delete)            \
    X(json_set_alloc_funcs)   \
    X(json_object_get)        \
    X(json_object_iter)       \
    X(json_object_iter_next)  \
    X(json_object_iter_key)   \
    X(json_object_iter_value) \
    X(json_array_size)        \
    X(json_array_get)         \
    X(json_string_value)      \
    X(json_integer_value)

static struct {
#define X(name) __typeof__(&(name)) name;
    JANSSON_MAP(X)
#undef X
} jansson;
static bool is_ours; /* its memory; set before there are threads */

/* A small document is two dozen pieces, and to free them one by one costs as much as to parse it. So this is
 * where the one under way goes; found without a call into the dynamic linker, which nothing else needs. */
static _Thread_local struct block **parsing __attribute__((tls_model("initial-exec")));

static void *piece(size_t n)
{
    return parsing ? blocks_take(parsing, n) : malloc(n);
}

static void piece_free(void *at)
{
    if (!parsing)
        free(at);
}

void late_own(void)
{
    is_ours = true;
}

static const char *begin(void)
{
    if (is_ours)
        jansson.json_set_alloc_funcs(piece, piece_free);
    return NULL;
}

static dibs_status need(dibs_err *err)
{
    static const struct late_symbol symbols[] = {
#define X(name) LATE_SYMBOL(jansson, name)
        JANSSON_MAP(X)
#undef X
    };
    static struct late_library library = {
        .name = "libjansson.so.4", .what = "reads JSON", LATE_SYMBOLS(symbols), .begin = begin
    };

    return late_need(&library, err);
}

/* Constness is ours: jansson takes plain pointers even where it only looks. */
static json_t *plain(const struct late_node *node)
{
    union {
        const struct late_node *node;
        json_t *value;
    } same = { .node = node };

    return same.value;
}

static const struct late_node *neutral(const json_t *value)
{
    return (const struct late_node *) value;
}

dibs_status late_parse(const char *text, size_t len, struct block **blocks, struct late_node **out,
                       dibs_err *err)
{
    json_error_t at = { 0 };

    dibs_status s = need(err);

    if (s != DIBS_OK)
        return s;
    parsing = is_ours ? blocks : NULL;
    json_t *root = jansson.json_loadb(text, len, JSON_REJECT_DUPLICATES, &at);
    parsing = NULL;

    char shown[sizeof at.text] = ""; /* it quotes the document */

    if (!root)
        return err_set(err, DIBS_INVALID, "bad JSON at line %d, column %d: %s", at.line, at.column,
                       text_safe(at.text, shown, sizeof shown));
    *out = (struct late_node *) root;
    return DIBS_OK;
}

void late_free(struct late_node *root)
{
    if (root && !is_ours)
        jansson.json_delete(plain(root)); /* the root has one reference, ours */
}

enum late_type late_type(const struct late_node *node)
{
    switch (json_typeof(plain(node))) {
    case JSON_OBJECT: return LATE_OBJECT;
    case JSON_ARRAY: return LATE_ARRAY;
    case JSON_STRING: return LATE_STRING;
    case JSON_INTEGER: return LATE_INTEGER;
    case JSON_TRUE:
    case JSON_FALSE: return LATE_BOOLEAN;
    case JSON_REAL: return LATE_REAL;
    case JSON_NULL: return LATE_NULL;
    }
    return LATE_NULL;
}

const struct late_node *late_member(const struct late_node *object, const char *key)
{
    return neutral(jansson.json_object_get(plain(object), key));
}

const struct late_node *late_member_folded(const struct late_node *object, const char *key)
{
    json_t *value = plain(object);
    const struct late_node *found = NULL;

    for (void *at = jansson.json_object_iter(value); at; at = jansson.json_object_iter_next(value, at))
        if (strcasecmp(jansson.json_object_iter_key(at), key) == 0)
            found = neutral(jansson.json_object_iter_value(at));
    return found;
}

size_t late_size(const struct late_node *array)
{
    return jansson.json_array_size(plain(array));
}

const struct late_node *late_at(const struct late_node *array, size_t i)
{
    return neutral(jansson.json_array_get(plain(array), i));
}

const char *late_string(const struct late_node *string)
{
    return jansson.json_string_value(plain(string));
}

int64_t late_integer(const struct late_node *integer)
{
    return jansson.json_integer_value(plain(integer));
}

bool late_boolean(const struct late_node *boolean)
{
    return json_is_true(plain(boolean));
}

const char *late_key_without(const struct late_node *object,
                             bool (*is_known)(const char *const *known, const char *key),
                             const char *const *known)
{
    json_t *value = plain(object);

    for (void *at = jansson.json_object_iter(value); at; at = jansson.json_object_iter_next(value, at)) {
        const char *key = jansson.json_object_iter_key(at);

        if (!is_known(known, key))
            return key;
    }
    return NULL;
}
