/* SPDX-License-Identifier: MIT */
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/err.h"
#include "json/json.h"
#include "json/late_jansson.h"

#include "base/banned.h"

DEFINE_AUTO(struct block, blocks_free)

struct json_doc { /* itself in its blocks */
    struct late_node *root;
    struct block *blocks;
};

void json_own(void)
{
    late_own();
}

/* jansson recurses once a level and allows 2048 of them: a document of brackets would cost
 * that much stack before anything is known of it. Brackets inside strings do not count. */
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

dibs_status json_parse(const char *text, size_t len, json_doc **out, dibs_err *err)
{
    if (len > DIBS_INPUT_MAX_BYTES)
        return err_set(err, DIBS_INVALID, "the JSON text has %zu bytes; at most %u are read", len,
                       DIBS_INPUT_MAX_BYTES);
    if (memchr(text, '\0', len)) /* jansson overlooks one behind a number */
        return err_set(err, DIBS_INVALID, "bad JSON: a NUL byte");
    dibs_status status = depth_check(text, len, err);

    if (status != DIBS_OK)
        return status;
    AUTO(blocks_free_auto) struct block *blocks = NULL;
    json_doc *doc = blocks_take(&blocks, sizeof *doc);

    if (!doc)
        return err_set(err, DIBS_FAILURE, "out of memory");
    status = late_parse(text, len, &blocks, &doc->root, err);
    if (status != DIBS_OK)
        return status;
    doc->blocks = TAKE(blocks);
    *out = doc;
    return DIBS_OK;
}

void json_free(json_doc *doc)
{
    if (!doc)
        return;
    late_free(doc->root);
    blocks_free(doc->blocks);
}

/* A json_value is a jansson value under another name, so that callers see neither. */
static const struct late_node *node_of(const json_value *v)
{
    return (const struct late_node *) v;
}

static const json_value *value_of(const struct late_node *node)
{
    return (const json_value *) node;
}

static bool is_type(const json_value *v, enum late_type type)
{
    return v && late_type(node_of(v)) == type;
}

const json_value *json_root(const json_doc *doc)
{
    return value_of(doc->root);
}

bool json_is_object(const json_value *v)
{
    return is_type(v, LATE_OBJECT);
}

bool json_is_array(const json_value *v)
{
    return is_type(v, LATE_ARRAY);
}

bool json_is_null(const json_value *v)
{
    return is_type(v, LATE_NULL);
}

const json_value *json_get(const json_value *object, const char *key)
{
    return json_is_object(object) ? value_of(late_member(node_of(object), key)) : NULL;
}

const json_value *json_get_folded(const json_value *object, const char *key)
{
    return json_is_object(object) ? value_of(late_member_folded(node_of(object), key)) : NULL;
}

size_t json_array_size(const json_value *array)
{
    return json_is_array(array) ? late_size(node_of(array)) : 0;
}

const json_value *json_array_at(const json_value *array, size_t i)
{
    return i < json_array_size(array) ? value_of(late_at(node_of(array), i)) : NULL;
}

bool json_as_string(const json_value *v, const char **out)
{
    if (!is_type(v, LATE_STRING))
        return false;
    *out = late_string(node_of(v));
    return true;
}

bool json_as_int(const json_value *v, int64_t *out)
{
    if (!is_type(v, LATE_INTEGER))
        return false;
    *out = late_integer(node_of(v));
    return true;
}

bool json_as_bool(const json_value *v, bool *out)
{
    if (!is_type(v, LATE_BOOLEAN))
        return false;
    *out = late_boolean(node_of(v));
    return true;
}

bool json_get_string(const json_value *object, const char *key, const char **out)
{
    return json_as_string(json_get(object, key), out);
}

bool json_get_int(const json_value *object, const char *key, int64_t *out)
{
    return json_as_int(json_get(object, key), out);
}

bool json_get_uint(const json_value *object, const char *key, uint64_t *out)
{
    int64_t value = 0;

    if (!json_get_int(object, key, &value) || value < 0)
        return false;
    *out = (uint64_t) value;
    return true;
}

bool json_get_bool(const json_value *object, const char *key, bool *out)
{
    return json_as_bool(json_get(object, key), out);
}

static bool is_listed(const char *const *known, const char *key)
{
    for (; *known; known++)
        if (strcmp(*known, key) == 0)
            return true;
    return false;
}

const char *json_unknown_key(const json_value *object, const char *const *known)
{
    return json_is_object(object) ? late_key_without(node_of(object), is_listed, known) : NULL;
}

static bool is_listed_folded(const char *const *known, const char *key)
{
    for (; *known; known++)
        if (strcasecmp(*known, key) == 0)
            return true;
    return false;
}

const char *json_unknown_key_folded(const json_value *object, const char *const *known)
{
    return json_is_object(object) ? late_key_without(node_of(object), is_listed_folded, known) : NULL;
}
