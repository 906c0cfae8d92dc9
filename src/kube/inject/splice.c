/* SPDX-License-Identifier: MIT */
#include "kube/inject/splice.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/grow.h"

#include "base/banned.h"

struct splice_edit {
    size_t at, remove;
    size_t order;        /* of edits at the same position */
    bool is_key;         /* a new map key: comes after insertions into the preceding value */
    size_t insert, size; /* inserted bytes of splice.inserted */
};

void splice_done(struct splice *s)
{
    arena_free(s->pieces);
    bytes_done(&s->inserted);
    free(s->edits);
    free(s->shared);
    *s = (struct splice){ 0 };
}

/* ---- anchors ---- */

static void collect_shared(struct splice *s, const yaml_node *node)
{
    if (node && node->is_alias) {
        if (grow((void **) &s->shared, s->n_shared, &s->max_shared, sizeof(const yaml_node *)))
            s->shared[s->n_shared++] = yaml_follow(node);
        else
            s->inserted.is_lost = true;
        return;
    }
    for (const yaml_node *child = node ? node->first : NULL; child; child = child->next)
        collect_shared(s, node->kind == YAML_MAP ? child->value : child);
}

static int by_place(const void *a, const void *b)
{
    const yaml_node *const *x = a;
    const yaml_node *const *y = b;

    return (*x)->start < (*y)->start ? -1 : (*x)->start > (*y)->start;
}

static size_t line_end(const struct splice *s, size_t at)
{
    while (at < s->len && s->text[at] != '\n' && s->text[at] != '\r')
        at++;
    return at;
}

static const char *newline_of(const struct splice *s)
{
    size_t at = line_end(s, 0);

    if (at + 1 < s->len && s->text[at] == '\r')
        return s->text[at + 1] == '\n' ? "\r\n" : "\r";
    return "\n";
}

void splice_begin(struct splice *s, const yaml_text *yaml, const char *text, size_t len, dibs_err *err)
{
    size_t n = 0;

    *s = (struct splice){ .faults = { yaml, err, DIBS_OK }, .text = text, .len = len };
    s->newline = newline_of(s);
    for (size_t i = 0; i < yaml_count(yaml); i++)
        collect_shared(s, yaml_root(yaml, i));
    if (s->n_shared > 0) /* sort to remove duplicates: an alias may be used a million times */
        qsort(s->shared, s->n_shared, sizeof(const yaml_node *), by_place);
    for (size_t i = 0; i < s->n_shared; i++)
        if (n == 0 || s->shared[n - 1] != s->shared[i])
            s->shared[n++] = s->shared[i];
    s->n_shared = n;
}

bool splice_look(struct splice *s, const yaml_node *at, size_t n)
{
    s->looks += n;
    if (s->looks > SPLICE_LOOKS_MAX)
        yaml_fault(&s->faults, at, "too many nodes to search");
    return s->faults.status == DIBS_OK;
}

/* Check that no alias shares the node's text. `is_replaced`: nor any text inside it. */
static bool is_alone(struct splice *s, const yaml_node *node, bool is_replaced)
{
    if (!splice_look(s, node, s->n_shared))
        return false;
    for (size_t i = 0; i < s->n_shared && s->faults.status == DIBS_OK; i++) {
        const yaml_node *other = s->shared[i];
        bool is_inside = other->kind == YAML_SCALAR ? other == node
                                                    : other->start <= node->start && node->end <= other->end;
        bool is_around =
            is_replaced && node->start <= other->start && other->end <= node->end && other->end > node->start;

        if (is_inside || is_around)
            yaml_fault(&s->faults, node,
                       "an alias names this text, so that a change here would change another place, "
                       "too; write it out where the alias stands");
    }
    return s->faults.status == DIBS_OK;
}

/* ---- positions ---- */

/* Return the last written leaf of a node: a scalar, an alias or a flow collection. */
static const yaml_node *last_of(const yaml_node *node)
{
    while (!node->is_alias && node->kind != YAML_SCALAR && node->style == YAML_BLOCK && node->first) {
        const yaml_node *child = node->first;

        while (child->next)
            child = child->next;
        node = node->kind != YAML_MAP ? child : child->value->end > child->end ? child->value : child;
    }
    return node;
}

static bool is_block_text(const yaml_node *node)
{
    return node->style == YAML_BLOCK_TEXT && node->kind == YAML_SCALAR && !node->is_alias;
}

/* Return the end of the node's text. For block text exclude trailing line breaks and the following
 * indentation, which libfyaml includes. */
static size_t end_of(const struct splice *s, const yaml_node *node)
{
    size_t end = node->end;
    size_t blanks = 0;

    if (!is_block_text(last_of(node)))
        return end;
    while (end - blanks > node->start && s->text[end - blanks - 1] == ' ')
        blanks++;
    if (end - blanks > node->start && strchr("\r\n", s->text[end - blanks - 1]))
        end -= blanks;
    while (end > node->start && strchr("\r\n", s->text[end - 1]))
        end--;
    return end;
}

/* Return whether lines can be inserted behind the node. Not if line breaks behind it are or would become
 * part of it: block text with '+' in its header, without lines, or without a final line break. */
static bool takes_lines(const struct splice *s, const yaml_node *node)
{
    const yaml_node *last = last_of(node);
    size_t at = last->start;

    if (!is_block_text(last))
        return true;
    while (at > 0 && strchr("\r\n", s->text[at - 1]))
        at--;
    for (; at > 0 && !strchr("\r\n", s->text[at - 1]); at--)
        if (s->text[at - 1] == '+')
            return false;
    return end_of(s, last) > last->start && end_of(s, last) < s->len;
}

/* Return whether only blanks and list dashes precede the position on its line. */
static bool is_first_on_line(const struct splice *s, size_t at)
{
    while (at > 0 && strchr(" -", s->text[at - 1]))
        at--;
    return at == 0 || strchr("\r\n", s->text[at - 1]);
}

/* ---- edits ---- */

/* Replace edit.remove bytes by everything written since edit.insert. */
static void add_edit(struct splice *s, struct splice_edit edit)
{
    edit.order = s->n_edits;
    edit.size = s->inserted.n - edit.insert;
    if (grow((void **) &s->edits, s->n_edits, &s->max_edits, sizeof *s->edits))
        s->edits[s->n_edits++] = edit;
    else
        s->inserted.is_lost = true; /* splice_apply() reports it */
}

/* Insert the children of `piece` into a flow list or map, with the spacing of its first item. */
static void add_flow(struct splice *s, const yaml_node *node, const struct splice_piece *piece, bool is_front)
{
    const char *gap = s->text + node->start + 1;
    const yaml_node *last = node->first;
    size_t insert = s->inserted.n;
    size_t n_gap = 0;
    bool has_break = false;

    while (node->first && node->start + 1 + n_gap < node->first->start && strchr(" \t\r\n", gap[n_gap])) {
        has_break = has_break || strchr("\r\n", gap[n_gap]);
        n_gap++;
    }
    while (last && last->next)
        last = last->next;
    /* Insert at the front when the last key has no value: only its colon follows. */
    bool is_behind = !is_front && last && (!last->value || last->value->end > last->end);
    if (is_behind)
        bytes_add_text(&s->inserted, has_break ? "," : ", ");
    if (!is_behind || has_break)
        bytes_add(&s->inserted, gap, n_gap);
    piece_write_flow_children(&s->inserted, piece, has_break ? gap : " ", has_break ? n_gap : 1);
    if (!is_behind && last)
        bytes_add_text(&s->inserted, n_gap > 0 ? "," : ", ");
    size_t end = is_behind && last->value ? last->value->end : is_behind ? last->end : node->start + 1;
    add_edit(s, (struct splice_edit){ .at = end, .insert = insert });
}

/* Insert lines behind the line of `at`. */
static void add_lines(struct splice *s, size_t at, const struct splice_piece *piece, uint32_t indent)
{
    size_t insert = s->inserted.n;

    piece_write_break(s, indent);
    piece_write_block(s, piece, indent);
    add_edit(s, (struct splice_edit){
                    .at = line_end(s, at), .insert = insert, .is_key = piece->kind == SPLICE_MAP });
}

/* Insert in front of a map whose values all forbid lines behind them. */
static void add_before(struct splice *s, const yaml_node *map, const struct splice_piece *piece)
{
    size_t insert = s->inserted.n;

    if (!map->first || !is_first_on_line(s, map->first->start)) {
        yaml_fault(&s->faults, map, "there is no place for another key here");
        return;
    }
    piece_write_block(s, piece, map->first->column - 1);
    piece_write_break(s, map->first->column - 1);
    add_edit(s, (struct splice_edit){ .at = map->first->start, .insert = insert });
}

void splice_add_pairs(struct splice *s, const yaml_node *map, const struct splice_piece *pairs)
{
    const yaml_node *after = NULL;

    if (!pairs || !pairs->first || !is_alone(s, map, false))
        return;
    for (const yaml_node *key = map->first; key; key = key->next)
        if (takes_lines(s, key->value))
            after = key;
    if (map->style == YAML_FLOW)
        add_flow(s, map, pairs, false);
    else if (!after)
        add_before(s, map, pairs);
    else
        add_lines(s, after->value->end > after->end ? end_of(s, after->value) : after->end, pairs,
                  map->first->column - 1);
}

void splice_add_items(struct splice *s, const yaml_node *key, const struct splice_piece *items, bool is_front)
{
    const yaml_node *list = key->value;

    /* Refuse the target of an alias: other places share it. */
    if (!items || !items->first || !is_alone(s, yaml_follow(list), false))
        return;
    bool is_behind = !is_front && takes_lines(s, list);
    if (list->style == YAML_FLOW)
        add_flow(s, list, items, is_front);
    else
        add_lines(s, is_behind ? end_of(s, list) : key->end, items, list->column - 1);
}

/* Check that the key's value can be replaced. *behind is the end of its colon. */
static bool may_go(struct splice *s, const yaml_node *map, const yaml_node *key, size_t *behind)
{
    size_t at = key->end;

    if (!is_alone(s, map, false) || !is_alone(s, key->value, true))
        return false;
    while (at < s->len && strchr(" \t", s->text[at]))
        at++;
    if (at == s->len || s->text[at] != ':')
        yaml_fault(&s->faults, key, "this key is not written as KEY: VALUE");
    *behind = at + 1;
    return s->faults.status == DIBS_OK;
}

void splice_set(struct splice *s, const yaml_node *map, const yaml_node *key,
                const struct splice_piece *piece)
{
    const yaml_node *value = key->value;
    size_t at = 0;
    size_t end = end_of(s, value);
    size_t insert = s->inserted.n;

    if (!may_go(s, map, key, &at) || !piece)
        return;
    bool is_scalar = piece->kind == SPLICE_TEXT || piece->kind == SPLICE_WORD;
    bool is_inline = is_scalar && !value->is_alias && value->kind == YAML_SCALAR &&
                     value->style != YAML_BLOCK_TEXT && value->end > value->start;
    at = is_inline ? value->start : at; /* keep the blanks between colon and value */
    if (map->style == YAML_FLOW || is_scalar) {
        if (!is_inline)
            bytes_add_text(&s->inserted, " ");
        piece_write_flow(&s->inserted, piece);
    } else {
        piece_write_value(s, piece, map->first->column - 1);
    }
    add_edit(s, (struct splice_edit){ .at = at, .remove = end > at ? end - at : 0, .insert = insert });
}

void splice_swap(struct splice *s, const yaml_node *map, const yaml_node *key,
                 const struct splice_piece *pairs)
{
    size_t end = 0;
    size_t insert = s->inserted.n;

    if (!may_go(s, map, key, &end) || !is_alone(s, key, true) || !pairs)
        return;
    if (map->style == YAML_FLOW)
        piece_write_flow_children(&s->inserted, pairs, " ", 1);
    else
        piece_write_block(s, pairs, key->column - 1);
    if (end_of(s, key->value) > end)
        end = end_of(s, key->value);
    add_edit(s, (struct splice_edit){ .at = key->start, .remove = end - key->start, .insert = insert });
}

void splice_replace(struct splice *s, const yaml_node *list, const yaml_node *item,
                    const struct splice_piece *piece)
{
    size_t insert = s->inserted.n;

    if (!is_alone(s, list, false) || !is_alone(s, item, true) || !piece)
        return;
    if (list->style == YAML_FLOW || (item->style == YAML_FLOW && !item->is_alias))
        piece_write_flow(&s->inserted, piece);
    else
        piece_write_block(s, piece, item->column - 1);
    add_edit(s, (struct splice_edit){
                    .at = item->start, .remove = end_of(s, item) - item->start, .insert = insert });
}

/* ---- applying ---- */

static int by_order(const void *a, const void *b)
{
    const struct splice_edit *x = a;
    const struct splice_edit *y = b;

    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    if (!x->remove != !y->remove) /* insertions in front of a value, then its replacement */
        return x->remove ? 1 : -1;
    if (x->is_key != y->is_key)
        return x->is_key ? 1 : -1;
    return x->order < y->order ? -1 : 1;
}

dibs_status splice_apply(const struct splice *s, struct bytes *out)
{
    size_t at = 0;

    if (s->faults.status != DIBS_OK)
        return s->faults.status;
    if (s->n_edits > 0)
        qsort(s->edits, s->n_edits, sizeof *s->edits, by_order);
    for (size_t i = 0; i < s->n_edits && !s->inserted.is_lost; i++) {
        const struct splice_edit *edit = &s->edits[i];

        if (edit->at < at) /* never expected: edits do not overlap */
            return yaml_error(s->faults.yaml, NULL, s->faults.err, "two edits of this text overlap");
        bytes_add(out, s->text + at, edit->at - at);
        bytes_add(out, s->inserted.at + edit->insert, edit->size);
        at = edit->at + edit->remove;
    }
    bytes_add(out, s->text + at, s->len - at);
    bytes_add(out, "", 1);
    if (s->inserted.is_lost || out->is_lost)
        return err_set(s->faults.err, DIBS_FAILURE, "out of memory");
    out->n--;
    return DIBS_OK;
}
