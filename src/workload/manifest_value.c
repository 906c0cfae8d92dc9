/* SPDX-License-Identifier: MIT */
#include "workload/manifest_value.h"

#include <string.h>

#include "base/err.h"
#include "base/near.h"
#include "base/text.h"

#include "base/banned.h"

enum { SHOWN = 80 };

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

dibs_status manifest_wrong(const struct manifest *m, const yaml_node *node, const char *what,
                           const char *expected, dibs_err *err)
{
    char shown[SHOWN];

    return yaml_error(m->yaml, node, err, "'%s' must be %s, not %s", text_safe(what, shown, sizeof shown),
                      expected, kind_of(node));
}

dibs_status manifest_no_memory(const struct manifest *m, dibs_err *err)
{
    return err_set(err, DIBS_FAILURE, "%s: out of memory", yaml_name(m->yaml));
}

struct workload_place manifest_place(const yaml_node *node)
{
    return (struct workload_place){ .line = node->line, .column = node->column };
}

static dibs_status unknown_key(const struct manifest *m, const yaml_node *key, const char *what,
                               const char *const *keys, dibs_err *err)
{
    char shown[SHOWN];
    char hint[NEAR_HINT_MAX];
    struct near best = { .wanted = key->text };

    for (size_t i = 0; keys[i]; i++)
        near_offer(&best, keys[i]);
    return yaml_error(m->yaml, key, err, "%s has no key '%s'%s", what,
                      text_safe(key->text, shown, sizeof shown), near_say(&best, hint, sizeof hint));
}

dibs_status manifest_map(const struct manifest *m, const yaml_node *node, const char *what,
                         const char *const *keys, dibs_err *err)
{
    if (node->kind != YAML_MAP)
        return yaml_error(m->yaml, node, err, "%s must be a map, not %s", what, kind_of(node));
    for (const yaml_node *key = node->first; key; key = key->next) {
        size_t i = 0;

        while (keys[i] && strcmp(keys[i], key->text) != 0)
            i++;
        if (!keys[i])
            return unknown_key(m, key, what, keys, err);
    }
    return DIBS_OK;
}

dibs_status manifest_need(const struct manifest *m, const yaml_node *map, const char *what, const char *key,
                          dibs_err *err)
{
    return yaml_get(map, key) ? DIBS_OK : yaml_error(m->yaml, map, err, "%s needs '%s'", what, key);
}

dibs_status manifest_text(const struct manifest *m, const yaml_node *map, const char *key, const char **out,
                          dibs_err *err)
{
    const yaml_node *value = yaml_get(map, key);

    if (!value)
        return DIBS_OK;
    if (!yaml_is_text(value)) {
        bool is_near = value->kind == YAML_SCALAR && value->n > 0;

        return manifest_wrong(m, value, key, is_near ? "text (in quotes, here)" : "text", err);
    }
    const char *copy = workload_text(m->group, value->text);
    if (!copy)
        return manifest_no_memory(m, err);
    *out = copy;
    return DIBS_OK;
}

dibs_status manifest_number(const struct manifest *m, const yaml_node *map, const char *key,
                            struct manifest_limits limits, uint32_t *out, dibs_err *err)
{
    const yaml_node *value = yaml_get(map, key);
    uint32_t number = 0;

    if (!value)
        return DIBS_OK;
    if (!yaml_number(value, limits.max, &number) || number < limits.min)
        return yaml_error(m->yaml, value, err, "'%s' must be a number from %u to %u", key, limits.min,
                          limits.max);
    *out = number;
    return DIBS_OK;
}

dibs_status manifest_bool(const struct manifest *m, const yaml_node *map, const char *key, bool *out,
                          dibs_err *err)
{
    const yaml_node *value = yaml_get(map, key);

    if (!value || yaml_bool(value, out))
        return DIBS_OK;
    return manifest_wrong(m, value, key, "true or false", err);
}

dibs_status manifest_list(const struct manifest *m, const yaml_node *map, const char *key,
                          struct manifest_limits limits, const yaml_node **out, dibs_err *err)
{
    const yaml_node *value = yaml_get(map, key);

    if (!value)
        return DIBS_OK;
    if (value->kind != YAML_LIST)
        return manifest_wrong(m, value, key, "a list", err);
    if (value->n < limits.min || value->n > limits.max)
        return yaml_error(m->yaml, value, err, "'%s' must have %u to %u items, not %zu", key, limits.min,
                          limits.max, value->n);
    *out = value;
    return DIBS_OK;
}
