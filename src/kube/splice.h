/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_SPLICE_H
#define DIBS_KUBE_SPLICE_H
/* New values put into a YAML or JSON text: every byte that is not replaced stays, with its comments, its
 * order and its quotes. Changes are collected first and applied at once.
 *
 * Neither function follows an alias: a text that stands in several places of the tree is refused, because a
 * change there would be a change elsewhere, too. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/auto.h"
#include "yaml/yaml.h"

/* What shall be written. */
enum splice_kind { SPLICE_WORD, SPLICE_TEXT, SPLICE_MAP, SPLICE_LIST };
struct splice_piece;
struct splice_edit;

struct splice {
    const yaml_text *yaml;
    const char *text;
    size_t len;
    uint32_t map_step, list_step; /* how far maps and lists stand to the right of their keys */
    const yaml_node **shared;     /* what aliases name */
    size_t n_shared, max_shared;
    struct splice_edit *edits;
    size_t n_edits, max_edits;
    struct splice_piece *pieces;
    size_t looks; /* things looked at so far */
    bool is_out_of_memory;
};

enum { SPLICE_LOOKS_MAX = 1 << 23 }; /* a second or two: aliases make many things of a short text */

/* So many things more will be looked at. INVALID at `at` when that is too much. */
dibs_status splice_look(struct splice *s, const yaml_node *at, size_t n, dibs_err *err);

/* `yaml` is the tree of `text`; both must outlive it. */
dibs_status splice_begin(struct splice *s, const yaml_text *yaml, const char *text, size_t len,
                         dibs_err *err);
void splice_done(struct splice *s); /* a zeroed one is fine */

/* A piece, at the end of its parent (NULL: none). `key` (borrowed) when the parent is a map; `text` (copied)
 * of words, which are written as they are, and texts, which are quoted. Without memory NULL, which is a fine
 * parent: splice_apply() will say so. */
struct splice_piece *splice_piece(struct splice *s, struct splice_piece *parent, enum splice_kind kind,
                                  const char *key, const char *text);
/* A piece that was made without a parent gets one. Either may be NULL. */
void splice_adopt(struct splice_piece *parent, struct splice_piece *piece);

/* All pairs of `pairs` at the end of a map that has none of their keys. */
dibs_status splice_add_pairs(struct splice *s, const yaml_node *map, const struct splice_piece *pairs,
                             dibs_err *err);
/* All of `items` in front of, or behind, the list that is the value of `key`. */
dibs_status splice_add_items(struct splice *s, const yaml_node *key, const struct splice_piece *items,
                             bool is_front, dibs_err *err);
/* Whatever `key` of `map` has becomes the piece. */
dibs_status splice_set(struct splice *s, const yaml_node *map, const yaml_node *key,
                       const struct splice_piece *piece, dibs_err *err);
/* The pair of `key` becomes the only one of `pairs`. */
dibs_status splice_swap(struct splice *s, const yaml_node *map, const yaml_node *key,
                        const struct splice_piece *pairs, dibs_err *err);
/* An item of a list becomes the piece. */
dibs_status splice_replace(struct splice *s, const yaml_node *list, const yaml_node *item,
                           const struct splice_piece *piece, dibs_err *err);

/* The new text, with a NUL behind it; the caller frees *out. */
dibs_status splice_apply(const struct splice *s, char **out, size_t *len, dibs_err *err);
#endif
