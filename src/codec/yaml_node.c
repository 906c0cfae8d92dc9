/* SPDX-License-Identifier: MIT */
/* Lookups in the tree of a YAML text, and the meaning of scalars. */
#include <string.h>

#include "base/text.h"
#include "codec/yaml.h"

#include "base/banned.h"

const yaml_node *yaml_follow(const yaml_node *node)
{
    return node && node->is_alias ? yaml_follow(node->target) : node;
}

const yaml_node *yaml_key(const yaml_node *map, const char *key)
{
    const yaml_node *at = yaml_follow(map);

    at = at && at->kind == YAML_MAP ? at->first : NULL;
    while (at && strcmp(at->text, key) != 0)
        at = at->next;
    return at;
}

const yaml_node *yaml_get(const yaml_node *map, const char *key)
{
    const yaml_node *at = yaml_key(map, key);

    return at ? yaml_follow(at->value) : NULL;
}

const char *yaml_string(const yaml_node *node)
{
    const yaml_node *at = yaml_follow(node);

    return at && at->kind == YAML_SCALAR ? at->text : NULL;
}

static bool is_plain(const yaml_node *node, const char *const *words)
{
    const yaml_node *at = yaml_follow(node);

    if (!at || at->kind != YAML_SCALAR || at->style != YAML_PLAIN)
        return false;
    for (size_t i = 0; words[i]; i++)
        if (strcmp(at->text, words[i]) == 0)
            return true;
    return false;
}

bool yaml_is_null(const yaml_node *node)
{
    static const char *const nothing[] = { "", "~", "null", "Null", "NULL", NULL };

    return is_plain(node, nothing);
}

bool yaml_bool(const yaml_node *node, bool *out)
{
    static const char *const yes[] = { "true", "True", "TRUE", NULL };
    static const char *const no[] = { "false", "False", "FALSE", NULL };
    bool is_yes = is_plain(node, yes);

    if (!is_yes && !is_plain(node, no))
        return false;
    *out = is_yes;
    return true;
}

bool yaml_number(const yaml_node *node, uint32_t max, uint32_t *out)
{
    const yaml_node *at = yaml_follow(node);
    uint64_t value = 0;

    if (!at || at->kind != YAML_SCALAR || at->style != YAML_PLAIN || (at->n > 1 && at->text[0] == '0') ||
        !text_number(at->text, at->n, max, &value))
        return false;
    *out = (uint32_t) value;
    return true;
}

/* Return whether YAML's core schema reads it as a number: 12, -1.5e3, 0x1f, 0o17, .inf, .nan. */
static bool is_number(const char *text)
{
    static const char digits[] = "0123456789";
    static const char *const words[] = { ".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN" };

    if (strncmp(text, "0x", 2) == 0 || strncmp(text, "0o", 2) == 0)
        return text[2] && !text[2 + strspn(text + 2, text[1] == 'x' ? "0123456789abcdefABCDEF" : "01234567")];
    text += *text == '-' || *text == '+';
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(text, words[i]) == 0)
            return true;
    size_t whole = strspn(text, digits);
    text += whole;
    size_t rest = *text == '.' ? strspn(text + 1, digits) : 0;
    text += *text == '.' ? rest + 1 : 0;
    if (whole + rest == 0)
        return false;
    if (*text == 'e' || *text == 'E') {
        text += text[1] == '-' || text[1] == '+' ? 2 : 1;
        return *text && !text[strspn(text, digits)];
    }
    return !*text;
}

bool yaml_is_text(const yaml_node *node)
{
    const yaml_node *at = yaml_follow(node);
    bool is_true = false;

    if (!at || at->kind != YAML_SCALAR)
        return false;
    return at->style != YAML_PLAIN || !(yaml_is_null(at) || yaml_bool(at, &is_true) || is_number(at->text));
}
