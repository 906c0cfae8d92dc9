/* SPDX-License-Identifier: MIT */
/* Build the tree of a YAML text from the events of libfyaml's parser, after our own checks. */
#include "codec/yaml.h"

#include <libfyaml.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/text.h"

#include "base/banned.h"

enum { NAME_BYTES = 400, ANCHORS_MAX = 4096 };

struct anchor {
    const char *name;
    yaml_node *node;
    bool is_open; /* its end was not read yet */
};

struct yaml_text {
    char name[NAME_BYTES];
    struct arena *arena; /* nodes and their texts */
    yaml_node **roots;
    size_t n_roots, max_roots;
};

/* A list or map whose end was not read yet. */
struct open {
    yaml_node *node;
    yaml_node *last; /* last item or key */
    bool has_key;    /* in a map: `last` waits for its value */
};

struct building {
    yaml_text *yaml;
    size_t n_nodes;
    struct open stack[YAML_DEPTH_MAX + 1];
    size_t depth;
    struct anchor *anchors; /* of the current document */
    size_t n_anchors, max_anchors;
};

static dibs_status no_memory(const struct building *b, dibs_err *err)
{
    return err_set(err, DIBS_FAILURE, "%s: out of memory", b->yaml->name);
}

/* ---- anchors and aliases ---- */

static dibs_status find_anchor(const struct building *b, struct fy_event *event, yaml_node *alias,
                               dibs_err *err)
{
    size_t len = 0;
    const char *name = fy_token_get_text(fy_event_get_token(event), &len);

    for (size_t i = b->n_anchors; name && i-- > 0;) { /* the last one of a name counts */
        const struct anchor *a = &b->anchors[i];

        if (strlen(a->name) != len || memcmp(a->name, name, len) != 0)
            continue;
        if (a->is_open)
            return yaml_error(b->yaml, alias, err, "an alias stands inside of what it names");
        alias->target = a->node;
        return DIBS_OK;
    }
    return yaml_error(b->yaml, alias, err, "an alias names nothing");
}

static dibs_status add_anchor(struct building *b, struct fy_token *token, yaml_node *node, dibs_err *err)
{
    size_t len = 0;
    const char *text = fy_token_get_text(token, &len);

    if (b->n_anchors == ANCHORS_MAX)
        return yaml_error(b->yaml, node, err, "too many anchors");
    const char *name = text ? arena_text(&b->yaml->arena, text, len) : NULL;
    if (!name || !grow((void **) &b->anchors, b->n_anchors, &b->max_anchors, sizeof *b->anchors))
        return no_memory(b, err);
    b->anchors[b->n_anchors++] = (struct anchor){ name, node, node->kind != YAML_SCALAR };
    return DIBS_OK;
}

static enum yaml_style style_of(struct fy_event *event)
{
    switch (fy_event_get_node_style(event)) {
    case FYNS_FLOW: return YAML_FLOW;
    case FYNS_BLOCK: return YAML_BLOCK;
    case FYNS_SINGLE_QUOTED:
    case FYNS_DOUBLE_QUOTED: return YAML_QUOTED;
    case FYNS_LITERAL:
    case FYNS_FOLDED: return YAML_BLOCK_TEXT;
    default: return YAML_PLAIN;
    }
}

/* Set the place of a value that is not written: the end of the text before it. */
static void place_unwritten(const struct open *open, yaml_node *node)
{
    const yaml_node *before = open->last ? open->last : open->node;

    if (open->last && open->last->value)
        before = open->last->value;
    node->line = before->line;
    node->column = before->column;
    node->start = node->end = open->last ? before->end : before->start;
}

static void place(const struct building *b, struct fy_event *event, yaml_node *node)
{
    const struct fy_mark *from = fy_event_start_mark(event);
    const struct fy_mark *to = fy_event_end_mark(event);

    if (!from || !to) {
        if (b->depth > 0)
            place_unwritten(&b->stack[b->depth - 1], node);
        return;
    }
    node->line = (uint32_t) from->line + 1;
    node->column = (uint32_t) from->column + 1;
    node->start = from->input_pos;
    node->end = to->input_pos;
    /* The marks are those of the content: include the quotes and the asterisk. */
    if ((node->style == YAML_QUOTED || node->is_alias) && node->start > 0) {
        node->start--;
        node->column--;
        node->end += node->style == YAML_QUOTED;
    }
}

static dibs_status set_text(const struct building *b, struct fy_event *event, yaml_node *node, dibs_err *err)
{
    struct fy_token *token = fy_event_get_token(event);
    const char *text = token ? fy_token_get_text(token, &node->n) : NULL;

    if (!text)
        node->n = 0;
    if (memchr(text ? text : "", '\0', node->n))
        return yaml_error(b->yaml, node, err, "a text has a NUL byte");
    node->text = arena_text(&b->yaml->arena, text ? text : "", node->n);
    return node->text ? DIBS_OK : no_memory(b, err);
}

static dibs_status make_node(struct building *b, struct fy_event *event, yaml_node **out, dibs_err *err)
{
    yaml_node *node = arena_take(&b->yaml->arena, sizeof *node);
    struct fy_token *anchor = NULL;
    dibs_status s = DIBS_OK;

    if (!node)
        return no_memory(b, err);
    node->kind = event->type == FYET_SEQUENCE_START  ? YAML_LIST
                 : event->type == FYET_MAPPING_START ? YAML_MAP
                                                     : YAML_SCALAR;
    node->style = style_of(event);
    node->is_alias = event->type == FYET_ALIAS;
    node->text = "";
    place(b, event, node);
    if (++b->n_nodes > YAML_NODES_MAX)
        return yaml_error(b->yaml, node, err, "too many values");
    if (node->is_alias)
        s = find_anchor(b, event, node, err);
    else
        anchor = fy_event_get_anchor_token(event);
    if (event->type == FYET_SCALAR)
        s = set_text(b, event, node, err);
    if (s == DIBS_OK && anchor)
        s = add_anchor(b, anchor, node, err);
    *out = node;
    return s;
}

/* Insert the node into its parent. */
static dibs_status attach(struct building *b, yaml_node *node, dibs_err *err)
{
    yaml_text *yaml = b->yaml;

    if (b->depth == 0) {
        yaml->roots[yaml->n_roots - 1] = node;
        return DIBS_OK;
    }
    struct open *open = &b->stack[b->depth - 1];
    if (open->has_key) {
        open->last->value = node;
        open->has_key = false;
        return DIBS_OK;
    }
    if (open->node->kind == YAML_MAP && (node->kind != YAML_SCALAR || node->is_alias))
        return yaml_error(yaml, node, err, "a key is not plain text");
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

/* Report the second of two equal keys. */
static dibs_status check_keys(const struct building *b, const yaml_node *map, dibs_err *err)
{
    AUTO(free_auto) const yaml_node **keys = calloc(map->n + 1, sizeof(yaml_node *));
    size_t n = 0;

    if (!keys)
        return no_memory(b, err);
    for (const yaml_node *key = map->first; key; key = key->next)
        keys[n++] = key;
    qsort(keys, n, sizeof(yaml_node *), compare_keys);
    for (size_t i = 1; i < n; i++)
        if (strcmp(keys[i - 1]->text, keys[i]->text) == 0)
            return yaml_error(b->yaml, keys[i], err, "key '%.60s' is there twice", keys[i]->text);
    return DIBS_OK;
}

static dibs_status close_top(struct building *b, struct fy_event *event, dibs_err *err)
{
    const struct fy_mark *end = fy_event_end_mark(event);

    if (b->depth == 0) /* libfyaml ends only open nodes */
        return DIBS_OK;
    struct open *open = &b->stack[--b->depth];
    yaml_node *node = open->node;
    for (size_t i = b->n_anchors; i-- > 0;)
        if (b->anchors[i].node == node)
            b->anchors[i].is_open = false;
    /* "[a: b]": libfyaml begins the map without braces at its colon. */
    if (node->first && node->first->start < node->start) {
        node->start = node->first->start;
        node->line = node->first->line;
        node->column = node->first->column;
    }
    if (node->style == YAML_FLOW)
        node->end = end ? end->input_pos : 0;
    else if (open->last) {
        const yaml_node *last = open->last->value ? open->last->value : open->last;

        node->end = last->end > open->last->end ? last->end : open->last->end;
    }
    return node->kind == YAML_MAP ? check_keys(b, node, err) : DIBS_OK;
}

static dibs_status add_document(struct building *b, dibs_err *err)
{
    yaml_text *yaml = b->yaml;

    if (!grow((void **) &yaml->roots, yaml->n_roots, &yaml->max_roots, sizeof(yaml_node *)))
        return no_memory(b, err);
    yaml->roots[yaml->n_roots++] = NULL;
    b->n_anchors = 0;
    return DIBS_OK;
}

static dibs_status add_node(struct building *b, struct fy_event *event, dibs_err *err)
{
    yaml_node *node = NULL;
    dibs_status s = make_node(b, event, &node, err);

    if (s != DIBS_OK || !node)
        return s;
    s = attach(b, node, err);
    if (s != DIBS_OK || node->kind == YAML_SCALAR)
        return s;
    if (b->depth > YAML_DEPTH_MAX)
        return yaml_error(b->yaml, node, err, "nested too deeply");
    b->stack[b->depth++] = (struct open){ .node = node };
    return DIBS_OK;
}

static dibs_status take_event(struct building *b, struct fy_event *event, dibs_err *err)
{
    switch (event->type) {
    case FYET_DOCUMENT_START: return add_document(b, err);
    case FYET_SCALAR:
    case FYET_ALIAS:
    case FYET_SEQUENCE_START:
    case FYET_MAPPING_START: return add_node(b, event, err);
    case FYET_SEQUENCE_END:
    case FYET_MAPPING_END: return close_top(b, event, err);
    default: return DIBS_OK;
    }
}

/* ---- libfyaml's parser ---- */

/* Discard messages: without a callback libfyaml writes to stderr, even with FYPCF_QUIET. */
static void drop_output(struct fy_diag *diag, void *user, const char *buf, size_t len)
{
    (void) diag;
    (void) user;
    (void) buf;
    (void) len;
}

static dibs_status syntax_error(const char *name, struct fy_diag *diag, dibs_err *err)
{
    void *walk = NULL;
    const struct fy_diag_error *e = fy_diag_errors_iterate(diag, &walk);

    if (!e)
        return err_set(err, DIBS_INVALID, "%s: not valid YAML", name);
    return err_set(err, DIBS_INVALID, "%s:%d:%d: %.156s", name, e->line, e->column,
                   e->msg ? e->msg : "not valid YAML");
}

/* Return whether the text has more than blank lines and comments: libfyaml would complain on stderr. */
static bool has_content(const char *text, size_t len)
{
    bool is_comment = false;

    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\n')
            is_comment = false;
        else if (text[i] == '#')
            is_comment = true;
        else if (!is_comment && text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
            return true;
    }
    return false;
}

/* Check that the text is plain lines of UTF-8. libfyaml 0.7.12 hangs on a directive with an invalid
 * character, and treats a NUL as the end. No input of ours needs directives or control characters. */
static dibs_status check_text(const char *name, const char *text, size_t len, dibs_err *err)
{
    int line = 1;

    if (len > YAML_BYTES_MAX)
        return err_set(err, DIBS_INVALID, "%s: larger than %d bytes", name, YAML_BYTES_MAX);
    for (size_t i = 0, step = 0; i < len; i += step) {
        unsigned char c = (unsigned char) text[i];

        step = text_utf8_length(text + i, len - i);
        if (step == 0 || (c < 0x20 && !strchr("\t\r\n", c)) || c == '\0' || c == 0x7f)
            return err_set(err, DIBS_INVALID, "%s:%d: not plain UTF-8 text", name, line);
        if (c == '%' && (i == 0 || text[i - 1] == '\n' || text[i - 1] == '\r'))
            return err_set(err, DIBS_INVALID, "%s:%d: directives are not read here", name, line);
        line += c == '\n';
    }
    return DIBS_OK;
}

static dibs_status take_events(struct building *b, struct fy_parser *parser, struct fy_diag *diag,
                               dibs_err *err)
{
    bool is_end = false;
    dibs_status s = DIBS_OK;

    while (s == DIBS_OK && !is_end) {
        struct fy_event *event = fy_parser_parse(parser);

        if (!event)
            return syntax_error(b->yaml->name, diag, err); /* the end is an event as well */
        is_end = event->type == FYET_STREAM_END;
        s = take_event(b, event, err);
        fy_parser_event_free(parser, event);
    }
    return s;
}

static dibs_status build(struct building *b, const char *text, size_t len, dibs_err *err)
{
    dibs_status s = check_text(b->yaml->name, text, len, err);

    if (s != DIBS_OK || !has_content(text, len))
        return s;
    const struct fy_diag_cfg quiet = { .output_fn = drop_output, .level = FYET_ERROR, .module_mask = ~0u };
    struct fy_diag *diag = fy_diag_create(&quiet);
    if (!diag)
        return no_memory(b, err);
    fy_diag_set_collect_errors(diag, true);
    struct fy_parse_cfg config = { .flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG | FYPCF_SLOPPY_FLOW_INDENTATION,
                                   .diag = diag };
    struct fy_parser *parser = fy_parser_create(&config);

    if (parser && fy_parser_set_string(parser, text, len) == 0)
        s = take_events(b, parser, diag, err);
    else
        s = no_memory(b, err);
    if (parser)
        fy_parser_destroy(parser);
    fy_diag_destroy(diag);
    return s;
}

dibs_status yaml_parse(const char *name, const char *text, size_t len, yaml_text **out, dibs_err *err)
{
    yaml_text *yaml = calloc(1, sizeof *yaml);
    struct building b = { .yaml = yaml };

    if (!yaml)
        return err_set(err, DIBS_FAILURE, "out of memory");
    (void) text_safe(name, yaml->name, sizeof yaml->name);
    dibs_status s = build(&b, text, len, err);
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
    arena_free(yaml->arena);
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

    return root && root->line == 0 ? NULL : root; /* an empty document */
}

const char *yaml_name(const yaml_text *yaml)
{
    return yaml->name;
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

void yaml_fault(struct yaml_faults *faults, const yaml_node *at, const char *fmt, ...)
{
    char text[DIBS_ERR_MSG_MAX] = "";
    va_list args;

    if (faults->status != DIBS_OK)
        return;
    va_start(args, fmt);
    (void) vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    faults->status = yaml_error(faults->yaml, at, faults->err, "%s", text);
}
