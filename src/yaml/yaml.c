/* SPDX-License-Identifier: MIT */
/* The tree of a YAML text, built from its events. */
#include "yaml/yaml.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "yaml/events.h"

#include "base/banned.h"

enum { CHUNK_BYTES = 64 << 10, NAME_BYTES = 400, ANCHORS_MAX = 4096 };

struct chunk {
    struct chunk *next;
    size_t used, size;
    _Alignas(16) char bytes[];
};

struct anchor {
    const char *name;
    yaml_node *node;
    bool is_open; /* we are still inside of it */
};

struct yaml_text {
    char name[NAME_BYTES];
    struct chunk *chunks;
    yaml_node **roots;
    size_t n_roots, max_roots;
};

/* A list or map that is not at its end yet. */
struct open {
    yaml_node *node;
    yaml_node *last; /* item or key */
    bool has_key;    /* of a map: `last` waits for its value */
};

struct building {
    yaml_text *yaml;
    size_t n_nodes;
    struct open stack[YAML_DEPTH_MAX + 1];
    size_t depth;
    struct anchor *anchors; /* of this document */
    size_t n_anchors;
};

static void *take_bytes(yaml_text *yaml, size_t size)
{
    size_t rounded = (size + 15) & ~(size_t) 15;

    if (!yaml->chunks || yaml->chunks->size - yaml->chunks->used < rounded) {
        size_t bytes = rounded > CHUNK_BYTES ? rounded : CHUNK_BYTES;
        struct chunk *chunk = calloc(1, sizeof *chunk + bytes);

        if (!chunk)
            return NULL;
        chunk->size = bytes;
        chunk->next = yaml->chunks;
        yaml->chunks = chunk;
    }
    void *out = yaml->chunks->bytes + yaml->chunks->used;
    yaml->chunks->used += rounded;
    return out;
}

static char *take_text(yaml_text *yaml, const char *text, size_t len)
{
    char *out = take_bytes(yaml, len + 1);

    if (out) {
        memcpy(out, text, len);
        out[len] = '\0';
    }
    return out;
}

static dibs_status refuse(const struct building *b, const struct yaml_event *event, const char *why,
                          dibs_err *err)
{
    return err_set(err, DIBS_INVALID, "%s:%u:%u: %s", b->yaml->name, event->line, event->column, why);
}

static dibs_status no_memory(const struct building *b, dibs_err *err)
{
    return err_set(err, DIBS_FAILURE, "%s: out of memory", b->yaml->name);
}

static dibs_status find_anchor(struct building *b, const struct yaml_event *event, yaml_node **out,
                               dibs_err *err)
{
    for (size_t i = b->n_anchors; i-- > 0;) { /* the last one of a name counts */
        const struct anchor *a = &b->anchors[i];

        if (strlen(a->name) != event->len || memcmp(a->name, event->text, event->len) != 0)
            continue;
        if (a->is_open)
            return refuse(b, event, "an alias stands inside of what it names", err);
        *out = a->node;
        return DIBS_OK;
    }
    return refuse(b, event, "an alias names nothing", err);
}

static dibs_status add_anchor(struct building *b, const struct yaml_event *event, yaml_node *node,
                              dibs_err *err)
{
    if (b->n_anchors == ANCHORS_MAX)
        return refuse(b, event, "too many anchors", err);
    if (!b->anchors)
        b->anchors = calloc(ANCHORS_MAX, sizeof *b->anchors);
    char *name = take_text(b->yaml, event->anchor, event->anchor_len);
    if (!b->anchors || !name)
        return no_memory(b, err);
    b->anchors[b->n_anchors++] = (struct anchor){ name, node, event->kind != YAML_EVENT_SCALAR };
    return DIBS_OK;
}

static dibs_status make_node(struct building *b, const struct yaml_event *event, yaml_node **out,
                             dibs_err *err)
{
    yaml_node *node = take_bytes(b->yaml, sizeof *node);
    yaml_node *target = NULL;
    dibs_status s = DIBS_OK;

    if (!node)
        return no_memory(b, err);
    if (++b->n_nodes > YAML_NODES_MAX)
        return refuse(b, event, "too many values", err);
    *node = (yaml_node){
        .kind = event->kind == YAML_EVENT_LIST  ? YAML_LIST
                : event->kind == YAML_EVENT_MAP ? YAML_MAP
                                                : YAML_SCALAR,
        .style = event->style,
        .line = event->line,
        .column = event->column,
        .start = event->start,
        .end = event->end,
        .text = "",
    };
    if (event->kind == YAML_EVENT_ALIAS) {
        s = find_anchor(b, event, &target, err);
        node->is_alias = true;
        node->target = target;
    } else if (event->kind == YAML_EVENT_SCALAR) {
        if (memchr(event->text, '\0', event->len))
            return refuse(b, event, "a text has a NUL byte", err);
        node->text = take_text(b->yaml, event->text, event->len);
        node->n = event->len;
        if (!node->text)
            return no_memory(b, err);
    }
    if (s == DIBS_OK && event->anchor)
        s = add_anchor(b, event, node, err);
    *out = node;
    return s;
}

/* A value that is not written stands where what is before it ends. */
static void place_unwritten(const struct open *open, yaml_node *node)
{
    const yaml_node *before = open->last ? open->last : open->node;

    if (open->last && open->last->value)
        before = open->last->value;
    node->line = before->line;
    node->column = before->column;
    node->start = node->end = open->last ? before->end : before->start;
}

/* The node's place in its parent. */
static dibs_status attach(struct building *b, const struct yaml_event *event, yaml_node *node, dibs_err *err)
{
    yaml_text *yaml = b->yaml;

    if (b->depth == 0) {
        yaml->roots[yaml->n_roots - 1] = node;
        return DIBS_OK;
    }
    struct open *open = &b->stack[b->depth - 1];
    if (!event->has_place)
        place_unwritten(open, node);
    if (open->has_key) {
        open->last->value = node;
        open->has_key = false;
        return DIBS_OK;
    }
    if (open->node->kind == YAML_MAP && (node->kind != YAML_SCALAR || node->is_alias))
        return refuse(b, event, "a key is not plain text", err);
    if (open->last)
        open->last->next = node;
    else
        open->node->first = node;
    open->last = node;
    open->has_key = open->node->kind == YAML_MAP;
    open->node->n++;
    return DIBS_OK;
}

static int compare_keys(const void *a, const void *b)
{
    const yaml_node *const *x = a;
    const yaml_node *const *y = b;
    int order = strcmp((*x)->text, (*y)->text);

    return order ? order : (*x)->start < (*y)->start ? -1 : 1;
}

/* The second of two equal keys. */
static dibs_status check_keys(const struct building *b, const yaml_node *map, dibs_err *err)
{
    AUTO(free_auto) const yaml_node **keys = calloc(map->n + 1, sizeof(yaml_node *));
    size_t n = 0;
    char shown[64];

    if (!keys)
        return no_memory(b, err);
    for (const yaml_node *key = map->first; key; key = key->next)
        keys[n++] = key;
    qsort(keys, n, sizeof(yaml_node *), compare_keys);
    for (size_t i = 1; i < n; i++)
        if (strcmp(keys[i - 1]->text, keys[i]->text) == 0)
            return yaml_error(b->yaml, keys[i], err, "key '%s' is there twice",
                              text_safe(keys[i]->text, shown, sizeof shown));
    return DIBS_OK;
}

static dibs_status close_top(struct building *b, const struct yaml_event *event, dibs_err *err)
{
    struct open *open = &b->stack[--b->depth];
    yaml_node *node = open->node;

    for (size_t i = b->n_anchors; i-- > 0;)
        if (b->anchors[i].node == node)
            b->anchors[i].is_open = false;
    /* "[a: b]": libfyaml begins the map that has no braces at its colon. */
    if (node->first && node->first->start < node->start) {
        node->start = node->first->start;
        node->line = node->first->line;
        node->column = node->first->column;
    }
    if (node->style == YAML_FLOW)
        node->end = event->end;
    else if (open->last) {
        const yaml_node *last = open->last->value ? open->last->value : open->last;

        node->end = last->end > open->last->end ? last->end : open->last->end;
    }
    return node->kind == YAML_MAP ? check_keys(b, node, err) : DIBS_OK;
}

static dibs_status add_document(struct building *b, dibs_err *err)
{
    yaml_text *yaml = b->yaml;

    if (yaml->n_roots == yaml->max_roots) {
        size_t max = yaml->max_roots ? 2 * yaml->max_roots : 4;
        yaml_node **roots = realloc(yaml->roots, max * sizeof(yaml_node *));

        if (!roots)
            return no_memory(b, err);
        yaml->roots = roots;
        yaml->max_roots = max;
    }
    yaml->roots[yaml->n_roots++] = NULL;
    b->n_anchors = 0;
    return DIBS_OK;
}

static dibs_status take_event(void *ctx, const struct yaml_event *event, dibs_err *err)
{
    struct building *b = ctx;
    yaml_node *node = NULL;

    if (event->kind == YAML_EVENT_DOCUMENT)
        return add_document(b, err);
    if (event->kind == YAML_EVENT_END)
        return close_top(b, event, err);
    dibs_status s = make_node(b, event, &node, err);
    if (s != DIBS_OK || !node)
        return s;
    s = attach(b, event, node, err);
    if (s != DIBS_OK || node->kind == YAML_SCALAR)
        return s;
    if (b->depth > YAML_DEPTH_MAX)
        return refuse(b, event, "nested too deeply", err);
    b->stack[b->depth++] = (struct open){ .node = node };
    return DIBS_OK;
}

dibs_status yaml_parse(const char *name, const char *text, size_t len, yaml_text **out, dibs_err *err)
{
    yaml_text *yaml = calloc(1, sizeof *yaml);
    struct building b = { .yaml = yaml };

    if (!yaml)
        return err_set(err, DIBS_FAILURE, "out of memory");
    (void) text_safe(name, yaml->name, sizeof yaml->name);
    dibs_status s = yaml_events(yaml->name, text, len, take_event, &b, err);
    free(b.anchors);
    if (s == DIBS_OK)
        *out = yaml;
    else
        yaml_free(yaml);
    return s;
}

void yaml_free(yaml_text *yaml)
{
    if (!yaml)
        return;
    for (struct chunk *chunk = yaml->chunks; chunk;) {
        struct chunk *next = chunk->next;

        free(chunk);
        chunk = next;
    }
    free(yaml->roots);
    free(yaml);
}

size_t yaml_count(const yaml_text *yaml)
{
    return yaml->n_roots;
}

const yaml_node *yaml_root(const yaml_text *yaml, size_t i)
{
    const yaml_node *root = i < yaml->n_roots ? yaml_follow(yaml->roots[i]) : NULL;

    return root && root->line == 0 ? NULL : root; /* nothing written */
}

const char *yaml_name(const yaml_text *yaml)
{
    return yaml->name;
}

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

    if (!at || at->kind != YAML_SCALAR || at->style != YAML_PLAIN || at->n == 0 || at->n > 10)
        return false;
    for (const char *c = at->text; *c; c++) {
        if (*c < '0' || *c > '9')
            return false;
        value = value * 10 + (uint64_t) (*c - '0');
    }
    if (value > max || (at->n > 1 && at->text[0] == '0'))
        return false;
    *out = (uint32_t) value;
    return true;
}

/* What YAML's core schema takes for a number: 12, -1.5e3, 0x1f, 0o17, .inf, .nan. */
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

dibs_status yaml_error(const yaml_text *yaml, const yaml_node *at, dibs_err *err, const char *fmt, ...)
{
    char text[DIBS_ERR_MSG_MAX] = "";
    va_list args;

    va_start(args, fmt);
    (void) vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (!at)
        return err_set(err, DIBS_INVALID, "%s: %s", yaml->name, text);
    return err_set(err, DIBS_INVALID, "%s:%u:%u: %s", yaml->name, at->line, at->column, text);
}
