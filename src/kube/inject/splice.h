/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_INJECT_SPLICE_H
#define DIBS_KUBE_INJECT_SPLICE_H
/* Insert values into a YAML or JSON text without changing any other byte, so comments, order and quotes
 * stay. Edits are collected first and applied at once.
 *
 * Text shared through an alias is refused, because an edit there would also change other places. */
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
    struct yaml_faults faults; /* after the first fault nothing changes */
    const char *text;
    size_t len;
    const char *newline;          /* line break of the text */
    uint32_t map_step, list_step; /* indentation of maps and lists */
    const yaml_node **shared;     /* targets of aliases */
    size_t n_shared, max_shared;
    struct splice_edit *edits;
    size_t n_edits, max_edits;
    struct arena *pieces;
    struct bytes inserted; /* by all edits; is_lost: memory was short */
    size_t looks;          /* nodes visited so far */
};

enum { SPLICE_LOOKS_MAX = 1 << 23 }; /* one to two seconds; aliases can expand a short text */

/* Begin. `yaml` is the tree of `text`; both must outlive `s`. */
void splice_begin(struct splice *s, const yaml_text *yaml, const char *text, size_t len, dibs_err *err);
void splice_done(struct splice *s); /* a zeroed one is fine */
/* Count `n` visited nodes. Return false after a fault, also when there are too many. */
bool splice_look(struct splice *s, const yaml_node *at, size_t n);

/* Append a piece to its parent (NULL: none). `key` (borrowed) is set when the parent is a map; `text`
 * (copied) is written verbatim for words and quoted for texts. Return NULL without memory, which is
 * accepted as a parent and reported by splice_apply(). */
struct splice_piece *splice_piece(struct splice *s, struct splice_piece *parent, enum splice_kind kind,
                                  const char *key, const char *text);
/* Append a piece without a parent to one. Either may be NULL. */
void splice_adopt(struct splice_piece *parent, struct splice_piece *piece);

/* Append all pairs to a map that has none of their keys. */
void splice_add_pairs(struct splice *s, const yaml_node *map, const struct splice_piece *pairs);
/* Insert all items at the front or the end of the list that is the value of `key`. */
void splice_add_items(struct splice *s, const yaml_node *key, const struct splice_piece *items,
                      bool is_front);
/* Replace the value of `key`. */
void splice_set(struct splice *s, const yaml_node *map, const yaml_node *key,
                const struct splice_piece *piece);
/* Replace the pair of `key` by the only pair of `pairs`. */
void splice_swap(struct splice *s, const yaml_node *map, const yaml_node *key,
                 const struct splice_piece *pairs);
/* Replace an item of a list. */
void splice_replace(struct splice *s, const yaml_node *list, const yaml_node *item,
                    const struct splice_piece *piece);

/* Append the new text and an uncounted NUL to *out, which the caller frees, also on failure. */
dibs_status splice_apply(const struct splice *s, struct bytes *out);

/* ---- formatting (piece.c) ---- */
/* Write a piece as JSON, which is also YAML's flow style. */
void piece_write_flow(struct bytes *to, const struct splice_piece *piece);
/* Write the children in flow style, separated by the `n` bytes of `between`. */
void piece_write_flow_children(struct bytes *to, const struct splice_piece *piece, const char *between,
                               size_t n);
/* Write the children as a block with this indentation. The first starts at the current position. */
void piece_write_block(struct splice *s, const struct splice_piece *piece, uint32_t indent);
/* Write what follows "key:" in a map with this indentation. */
void piece_write_value(struct splice *s, const struct splice_piece *piece, uint32_t indent);
void piece_write_break(struct splice *s, uint32_t indent);
#endif
