/* SPDX-License-Identifier: MIT */
#include "kube/piece.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/banned.h"

struct splice_piece *splice_piece(struct splice *s, struct splice_piece *parent, enum splice_kind kind,
                                  const char *key, const char *text)
{
    size_t len = text ? strlen(text) : 0;
    struct splice_piece *piece = calloc(1, sizeof *piece + len + 1);

    if (!piece) {
        s->is_out_of_memory = true;
        return NULL;
    }
    piece->kind = kind;
    piece->key = key;
    memcpy(piece->text, text ? text : "", len);
    piece->made = s->pieces;
    s->pieces = piece;
    splice_adopt(parent, piece);
    return piece;
}

void splice_adopt(struct splice_piece *parent, struct splice_piece *piece)
{
    if (!parent || !piece)
        return;
    if (parent->last)
        parent->last->next = piece;
    else
        parent->first = piece;
    parent->last = piece;
}

void piece_write_break(const struct piece_layout *l, uint32_t indent)
{
    (void) fprintf(l->to, "%s%*s", l->newline, (int) indent, "");
}

/* Would YAML take the word, which has letters, digits and "_./-", for a text? */
static bool is_plain_text(const char *word)
{
    static const char *const others[] = { "true", "false", "yes", "no", "on", "off", "y", "n", "null" };
    bool is_letter = (*word >= 'a' && *word <= 'z') || (*word >= 'A' && *word <= 'Z');

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcasecmp(word, others[i]) == 0)
            return false;
    return is_letter || *word == '_';
}

static void write_word(FILE *to, const char *text, bool is_quoted)
{
    (void) fprintf(to, is_quoted ? "\"%s\"" : "%s", text);
}

void piece_write_flow_children(FILE *to, const struct splice_piece *piece, const char *between)
{
    for (const struct splice_piece *child = piece->first; child; child = child->next) {
        if (child->key)
            (void) fprintf(to, "\"%s\": ", child->key);
        piece_write_flow(to, child);
        if (child->next)
            (void) fprintf(to, ",%s", between);
    }
}

void piece_write_flow(FILE *to, const struct splice_piece *piece)
{
    if (piece->kind == SPLICE_WORD || piece->kind == SPLICE_TEXT) {
        bool is_number = piece->text[strspn(piece->text, "0123456789")] == '\0';

        write_word(to, piece->text, piece->kind == SPLICE_TEXT || !is_number);
        return;
    }
    (void) fputc(piece->kind == SPLICE_MAP ? '{' : '[', to);
    piece_write_flow_children(to, piece, " ");
    (void) fputc(piece->kind == SPLICE_MAP ? '}' : ']', to);
}

void piece_write_value(const struct piece_layout *l, const struct splice_piece *piece, uint32_t indent)
{
    uint32_t step = piece->kind == SPLICE_MAP ? l->map_step : l->list_step;

    if (piece->kind == SPLICE_MAP || piece->kind == SPLICE_LIST) {
        piece_write_break(l, indent + step);
        piece_write_block(l, piece, indent + step);
        return;
    }
    (void) fputc(' ', l->to);
    write_word(l->to, piece->text, piece->kind == SPLICE_TEXT && !is_plain_text(piece->text));
}

void piece_write_block(const struct piece_layout *l, const struct splice_piece *piece, uint32_t indent)
{
    for (const struct splice_piece *child = piece->first; child; child = child->next) {
        if (child->key) {
            write_word(l->to, child->key, !is_plain_text(child->key));
            (void) fputc(':', l->to);
            piece_write_value(l, child, indent);
        } else {
            (void) fputs("- ", l->to);
            piece_write_block(l, child, indent + 2);
        }
        if (child->next)
            piece_write_break(l, indent);
    }
}
