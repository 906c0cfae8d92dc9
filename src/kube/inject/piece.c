/* SPDX-License-Identifier: MIT */
/* Format the pieces that splice.c inserts into a text. */
#include <string.h>
#include <strings.h>

#include "kube/inject/splice.h"

#include "base/banned.h"

struct splice_piece *splice_piece(struct splice *s, struct splice_piece *parent, enum splice_kind kind,
                                  const char *key, const char *text)
{
    size_t len = text ? strlen(text) : 0;
    struct splice_piece *piece = arena_take(&s->pieces, sizeof *piece + len + 1);

    if (!piece) {
        s->inserted.is_lost = true;
        return NULL;
    }
    *piece = (struct splice_piece){ .kind = kind, .key = key };
    memcpy(piece->text, text ? text : "", len + 1);
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

void piece_write_break(struct splice *s, uint32_t indent)
{
    bytes_add_text(&s->inserted, s->newline);
    for (uint32_t i = 0; i < indent; i++)
        bytes_add_text(&s->inserted, " ");
}

/* Return whether YAML reads this word of letters, digits and "_./-" as a string. */
static bool is_plain_text(const char *word)
{
    static const char *const others[] = { "true", "false", "yes", "no", "on", "off", "y", "n", "null" };
    bool is_letter = (*word >= 'a' && *word <= 'z') || (*word >= 'A' && *word <= 'Z');

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcasecmp(word, others[i]) == 0)
            return false;
    return is_letter || *word == '_';
}

static void write_word(struct bytes *to, const char *text, bool is_quoted)
{
    bytes_add_text(to, is_quoted ? "\"" : "");
    bytes_add_text(to, text);
    bytes_add_text(to, is_quoted ? "\"" : "");
}

void piece_write_flow_children(struct bytes *to, const struct splice_piece *piece, const char *between,
                               size_t n)
{
    for (const struct splice_piece *child = piece->first; child; child = child->next) {
        if (child->key) {
            write_word(to, child->key, true);
            bytes_add_text(to, ": ");
        }
        piece_write_flow(to, child);
        if (child->next) {
            bytes_add_text(to, ",");
            bytes_add(to, between, n);
        }
    }
}

void piece_write_flow(struct bytes *to, const struct splice_piece *piece)
{
    if (piece->kind == SPLICE_WORD || piece->kind == SPLICE_TEXT) {
        bool is_number = piece->text[strspn(piece->text, "0123456789")] == '\0';

        write_word(to, piece->text, piece->kind == SPLICE_TEXT || !is_number);
        return;
    }
    bytes_add_text(to, piece->kind == SPLICE_MAP ? "{" : "[");
    piece_write_flow_children(to, piece, " ", 1);
    bytes_add_text(to, piece->kind == SPLICE_MAP ? "}" : "]");
}

void piece_write_value(struct splice *s, const struct splice_piece *piece, uint32_t indent)
{
    uint32_t step = piece->kind == SPLICE_MAP ? s->map_step : s->list_step;

    if (piece->kind == SPLICE_MAP || piece->kind == SPLICE_LIST) {
        piece_write_break(s, indent + step);
        piece_write_block(s, piece, indent + step);
        return;
    }
    bytes_add_text(&s->inserted, " ");
    write_word(&s->inserted, piece->text, piece->kind == SPLICE_TEXT && !is_plain_text(piece->text));
}

void piece_write_block(struct splice *s, const struct splice_piece *piece, uint32_t indent)
{
    for (const struct splice_piece *child = piece->first; child; child = child->next) {
        if (child->key) {
            write_word(&s->inserted, child->key, !is_plain_text(child->key));
            bytes_add_text(&s->inserted, ":");
            piece_write_value(s, child, indent);
        } else {
            bytes_add_text(&s->inserted, "- ");
            piece_write_block(s, child, indent + 2);
        }
        if (child->next)
            piece_write_break(s, indent);
    }
}
