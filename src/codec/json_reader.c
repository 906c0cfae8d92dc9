/* SPDX-License-Identifier: MIT */
#include <string.h>
#include <strings.h>

#include <jansson.h>

#include "base/err.h"
#include "base/text.h"
#include "codec/json.h"

#include "base/banned.h"

/* Check the depth first: jansson recurses once a level, up to 2048 levels, so a document of brackets would
 * use much stack. Brackets inside strings do not count. */
static dibs_status depth_check(const char *text, size_t len, dibs_err *err)
{
    unsigned depth = 0;
    unsigned line = 1;
    bool in_string = false;

    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if (c == '\n')
            line++;
        if (in_string) {
            if (c == '\\')
                i++; /* the escaped character is never the closing quote */
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > JSON_DEPTH_MAX)
                return err_set(err, DIBS_INVALID, "bad JSON at line %u: nested deeper than %d levels", line,
                               JSON_DEPTH_MAX);
        } else if ((c == ']' || c == '}') && depth > 0) {
            depth--;
        }
    }
    return DIBS_OK;
}

dibs_status jsonr_parse(const char *text, size_t len, jsonr_doc **out, dibs_err *err)
{
    if (len > DIBS_INPUT_MAX_BYTES)
        return err_set(err, DIBS_INVALID, "the JSON text has %zu bytes; at most %u are read", len,
                       DIBS_INPUT_MAX_BYTES);
    if (memchr(text, '\0', len)) /* jansson ignores one behind a number */
        return err_set(err, DIBS_INVALID, "bad JSON: a NUL byte");
    dibs_status status = depth_check(text, len, err);

    if (status != DIBS_OK)
        return status;
    json_error_t at = { 0 };
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &at);

    if (!root)
        return err_set(err, DIBS_INVALID, "bad JSON at line %d, column %d: %s", at.line, at.column, at.text);
    *out = root;
    return DIBS_OK;
}

void jsonr_free(jsonr_doc *doc)
{
    json_decref(doc);
}

const jsonr_value *jsonr_root(const jsonr_doc *doc)
{
    return doc;
}

bool jsonr_is_object(const jsonr_value *v)
{
    return json_is_object(v);
}

bool jsonr_is_array(const jsonr_value *v)
{
    return json_is_array(v);
}

bool jsonr_is_null(const jsonr_value *v)
{
    return json_is_null(v);
}

const jsonr_value *jsonr_get(const jsonr_value *object, const char *key)
{
    return json_object_get(object, key);
}

size_t jsonr_array_size(const jsonr_value *array)
{
    return json_array_size(array);
}

const jsonr_value *jsonr_array_at(const jsonr_value *array, size_t i)
{
    return json_array_get(array, i);
}

bool jsonr_as_string(const jsonr_value *v, const char **out)
{
    if (!json_is_string(v))
        return false;
    *out = json_string_value(v);
    return true;
}

bool jsonr_as_int(const jsonr_value *v, int64_t *out)
{
    if (!json_is_integer(v))
        return false;
    *out = json_integer_value(v);
    return true;
}

bool jsonr_as_whole(const jsonr_value *v, int64_t *out)
{
    static const double max = 9007199254740992.0; /* 2^53: above, doubles skip numbers */
    double number = json_real_value(v);           /* 0 for another type */

    if (!json_is_real(v))
        return jsonr_as_int(v, out);
    if (number < -max || number > max || number != (double) (int64_t) number)
        return false;
    *out = (int64_t) number;
    return true;
}

bool jsonr_as_bool(const jsonr_value *v, bool *out)
{
    if (!json_is_boolean(v))
        return false;
    *out = json_is_true(v);
    return true;
}

bool jsonr_get_string(const jsonr_value *object, const char *key, const char **out)
{
    return jsonr_as_string(jsonr_get(object, key), out);
}

bool jsonr_get_int(const jsonr_value *object, const char *key, int64_t *out)
{
    return jsonr_as_int(jsonr_get(object, key), out);
}

bool jsonr_get_uint(const jsonr_value *object, const char *key, uint64_t *out)
{
    int64_t value = 0;

    if (!jsonr_get_int(object, key, &value) || value < 0)
        return false;
    *out = (uint64_t) value;
    return true;
}

bool jsonr_get_bool(const jsonr_value *object, const char *key, bool *out)
{
    return jsonr_as_bool(jsonr_get(object, key), out);
}

const jsonr_value *jsonr_at(const jsonr_value *object, const char *path)
{
    enum { KEY_MAX = 64 };
    char key[KEY_MAX] = "";

    for (;; path++) {
        size_t n = strcspn(path, ".");

        (void) text_copy(key, n + 1 < sizeof key ? n + 1 : sizeof key, path);
        object = jsonr_get(object, key);
        path += n;
        if (!object || !*path)
            return object;
    }
}

const char *jsonr_text_at(const jsonr_value *object, const char *path)
{
    const char *text = "";

    (void) jsonr_as_string(jsonr_at(object, path), &text);
    return text;
}

typedef int (*compare_fn)(const char *, const char *);

/* jansson's iterators take a pointer that is not const, though they only read. */
static json_t *mutable(const jsonr_value *object)
{
    return (json_t *) (uintptr_t) object;
}

const jsonr_value *jsonr_get_folded(const jsonr_value *object, const char *key)
{
    json_t *node = mutable(object);
    const jsonr_value *found = NULL;

    for (void *at = json_object_iter(node); at; at = json_object_iter_next(node, at))
        if (strcasecmp(json_object_iter_key(at), key) == 0)
            found = json_object_iter_value(at);
    return found;
}

void jsonr_each(const jsonr_value *object, void (*fn)(void *ctx, const char *key, const jsonr_value *value),
                void *ctx)
{
    json_t *node = mutable(object);

    for (void *at = json_object_iter(node); at; at = json_object_iter_next(node, at))
        fn(ctx, json_object_iter_key(at), json_object_iter_value(at));
}

static bool is_listed(const char *const *known, const char *key, compare_fn compare)
{
    for (; *known; known++)
        if (compare(*known, key) == 0)
            return true;
    return false;
}

static const char *unknown_key(const jsonr_value *object, const char *const *known, compare_fn compare)
{
    json_t *node = mutable(object);

    for (void *at = json_object_iter(node); at; at = json_object_iter_next(node, at)) {
        const char *key = json_object_iter_key(at);

        if (!is_listed(known, key, compare))
            return key;
    }
    return NULL;
}

const char *jsonr_unknown_key(const jsonr_value *object, const char *const *known)
{
    return unknown_key(object, known, strcmp);
}

const char *jsonr_unknown_key_folded(const jsonr_value *object, const char *const *known)
{
    return unknown_key(object, known, strcasecmp);
}
