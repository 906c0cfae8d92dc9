/* SPDX-License-Identifier: MIT */
#include "workload/manifest_value.h"

#include <string.h>

#include "base/err.h"
#include "base/suggest.h"

#include "base/banned.h"

static const char *kind_of(const yaml_node *node)
{
    bool is_true = false;

    if (node->kind != YAML_SCALAR)
        return node->kind == YAML_LIST ? "a list" : "a map";
    if (yaml_is_null(node))
        return "nothing";
    if (yaml_bool(node, &is_true))
        return "true or false";
    return yaml_is_text(node) ? "text" : "a number";
}

void manifest_wrong(struct manifest *m, const yaml_node *node, const char *what, const char *expected)
{
    manifest_fault(m, node, "'%.80s' must be %s, not %s", what, expected, kind_of(node));
}

void manifest_failed(struct manifest *m, const yaml_node *node, dibs_status status)
{
    m->faults.status = status;
    if (status == DIBS_INVALID)
        (void) err_wrap(m->faults.err, status, "%s:%u:%u", yaml_name(m->yaml), node->line, node->column);
}

void *manifest_take(struct manifest *m, size_t size)
{
    void *taken = m->faults.status == DIBS_OK ? workload_take(m->group, size) : NULL;

    if (!taken && m->faults.status == DIBS_OK)
        m->faults.status = err_set(m->faults.err, DIBS_FAILURE, "%s: out of memory", yaml_name(m->yaml));
    return taken;
}

const char *manifest_copy(struct manifest *m, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = manifest_take(m, size);

    return copy ? memcpy(copy, text, size) : NULL;
}

struct workload_place manifest_place(const yaml_node *node)
{
    return (struct workload_place){ .line = node->line, .column = node->column };
}

static void unknown_key(struct manifest *m, const yaml_node *key, const char *what, const char *const *keys)
{
    char hint[SUGGEST_HINT_MAX];
    struct suggest best = { .wanted = key->text };

    for (size_t i = 0; keys[i]; i++)
        suggest_offer(&best, keys[i]);
    manifest_fault(m, key, "%s has no key '%.80s'%s", what, key->text,
                   suggest_format(&best, hint, sizeof hint));
}

void manifest_map(struct manifest *m, const yaml_node *node, const char *what, const char *const *keys)
{
    if (node->kind != YAML_MAP) {
        manifest_fault(m, node, "%s must be a map, not %s", what, kind_of(node));
        return;
    }
    for (const yaml_node *key = node->first; key && m->faults.status == DIBS_OK; key = key->next) {
        size_t i = 0;

        while (keys[i] && strcmp(keys[i], key->text) != 0)
            i++;
        if (!keys[i])
            unknown_key(m, key, what, keys);
    }
}

void manifest_need(struct manifest *m, const yaml_node *map, const char *what, const char *key)
{
    if (!yaml_get(map, key))
        manifest_fault(m, map, "%s needs '%s'", what, key);
}

void manifest_text(struct manifest *m, const yaml_node *map, const char *key, const char **out)
{
    const yaml_node *value = yaml_get(map, key);

    if (value && yaml_is_text(value)) {
        *out = manifest_copy(m, value->text);
    } else if (value) {
        bool is_near = value->kind == YAML_SCALAR && value->n > 0;

        manifest_wrong(m, value, key, is_near ? "text (in quotes, here)" : "text");
    }
}

void manifest_number(struct manifest *m, const yaml_node *map, const char *key, uint32_t min, uint32_t max,
                     uint32_t *out)
{
    const yaml_node *value = yaml_get(map, key);
    uint32_t number = 0;

    if (!value)
        return;
    if (yaml_number(value, max, &number) && number >= min)
        *out = number;
    else
        manifest_fault(m, value, "'%s' must be a number from %u to %u", key, min, max);
}

void manifest_bool(struct manifest *m, const yaml_node *map, const char *key, bool *out)
{
    const yaml_node *value = yaml_get(map, key);

    if (value && !yaml_bool(value, out))
        manifest_wrong(m, value, key, "true or false");
}

const yaml_node *manifest_list(struct manifest *m, const yaml_node *map, const char *key, uint32_t min,
                               uint32_t max)
{
    const yaml_node *value = yaml_get(map, key);

    if (!value)
        return NULL;
    if (value->kind != YAML_LIST)
        manifest_wrong(m, value, key, "a list");
    else if (value->n < min || value->n > max)
        manifest_fault(m, value, "'%s' must have %u to %u items, not %zu", key, min, max, value->n);
    return value;
}
