/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_PIECE_H
#define DIBS_KUBE_PIECE_H
/* What shall be written into a text, and how it looks there. */
#include <stdio.h>

#include "kube/splice.h"

struct splice_piece {
    struct splice_piece *made; /* the one that was made before */
    enum splice_kind kind;
    const char *key;
    struct splice_piece *first, *last, *next;
    char text[];
};

/* How a block is written. */
struct piece_layout {
    FILE *to;
    const char *newline;
    uint32_t map_step, list_step; /* how far maps and lists stand to the right of their keys */
};

/* As JSON, which is YAML in brackets, too. */
void piece_write_flow(FILE *to, const struct splice_piece *piece);
/* The pairs of a map or the items of a list, in brackets' style, with `between` between them. */
void piece_write_flow_children(FILE *to, const struct splice_piece *piece, const char *between);
/* The children of a map or list as a block that stands `indent` to the right. The first begins where we are.
 */
void piece_write_block(const struct piece_layout *l, const struct splice_piece *piece, uint32_t indent);
/* What stands behind "key:" in a map that stands `indent` to the right. */
void piece_write_value(const struct piece_layout *l, const struct splice_piece *piece, uint32_t indent);
void piece_write_break(const struct piece_layout *l, uint32_t indent);
#endif
