/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_INJECT_SPLICE_H
#define DIBS_KUBE_INJECT_SPLICE_H
/* New values put into a YAML or JSON text: every byte that is not replaced stays, with its comments, its
 * order and its quotes. Changes are collected first and applied at once.
 *
 * Neither function follows an alias: a text that stands in several places of the tree is refused, because a
 * change there would be a change elsewhere, too. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "codec/yaml.h"

enum splice_kind { SPLICE_WORD, SPLICE_TEXT, SPLICE_MAP, SPLICE_LIST };
struct splice_piece {
    enum splice_kind kind;
    const char *key;
    struct splice_piece *first, *last, *next;
    char text[];
};
struct splice_edit;

struct splice {
    struct yaml_faults faults; /* after the first one nothing is changed */
    const char *text;
    size_t len;
    const char *newline;          /* as the text has it */
    uint32_t map_step, list_step; /* how far maps and lists stand to the right of their keys */
    const yaml_node **shared;     /* what aliases name */
    size_t n_shared, max_shared;
    struct splice_edit *edits;
    size_t n_edits, max_edits;
    struct arena *pieces;
    struct bytes inserted; /* by the edits, one after another; lost: memory was short for something */
    size_t looks;          /* things looked at so far */
};

enum { SPLICE_LOOKS_MAX = 1 << 23 }; /* a second or two: aliases make many things of a short text */

/* `yaml` is the tree of `text`; both must outlive it. */
void splice_begin(struct splice *s, const yaml_text *yaml, const char *text, size_t len, dibs_err *err);
void splice_done(struct splice *s); /* a zeroed one is fine */
/* So many things more will be looked at. False: it has failed, perhaps because that is too much. */
bool splice_look(struct splice *s, const yaml_node *at, size_t n);

/* A piece, at the end of its parent (NULL: none). `key` (borrowed) when the parent is a map; `text` (copied)
 * of words, which are written as they are, and texts, which are quoted. Without memory NULL, which is a fine
 * parent: splice_apply() will say so. */
struct splice_piece *splice_piece(struct splice *s, struct splice_piece *parent, enum splice_kind kind,
                                  const char *key, const char *text);
/* A piece that was made without a parent gets one. Either may be NULL. */
void splice_adopt(struct splice_piece *parent, struct splice_piece *piece);

/* All pairs of `pairs` at the end of a map that has none of their keys. */
void splice_add_pairs(struct splice *s, const yaml_node *map, const struct splice_piece *pairs);
/* All of `items` in front of, or behind, the list that is the value of `key`. */
void splice_add_items(struct splice *s, const yaml_node *key, const struct splice_piece *items,
                      bool is_front);
/* Replace the value of `key` by the piece. */
void splice_set(struct splice *s, const yaml_node *map, const yaml_node *key,
                const struct splice_piece *piece);
/* The pair of `key` becomes the only one of `pairs`. */
void splice_swap(struct splice *s, const yaml_node *map, const yaml_node *key,
                 const struct splice_piece *pairs);
/* An item of a list becomes the piece. */
void splice_replace(struct splice *s, const yaml_node *list, const yaml_node *item,
                    const struct splice_piece *piece);

/* Add the new text to *out, with a NUL behind it that is not counted. The caller ends *out, also on failure.
 */
dibs_status splice_apply(const struct splice *s, struct bytes *out);

/* ---- how pieces are written (piece.c) ---- */
/* As JSON, which is YAML in brackets, too. */
void piece_write_flow(struct bytes *to, const struct splice_piece *piece);
/* The pairs of a map or the items of a list, in brackets' style, with `n` bytes of `between` between them. */
void piece_write_flow_children(struct bytes *to, const struct splice_piece *piece, const char *between,
                               size_t n);
/* The children of a map or list as a block that stands `indent` to the right. The first begins where we are.
 */
void piece_write_block(struct splice *s, const struct splice_piece *piece, uint32_t indent);
/* Write what stands behind "key:" in a map that stands `indent` to the right. */
void piece_write_value(struct splice *s, const struct splice_piece *piece, uint32_t indent);
void piece_write_break(struct splice *s, uint32_t indent);
#endif
