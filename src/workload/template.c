/* SPDX-License-Identifier: MIT */
#include "workload/template.h"

#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "base/grow.h"

#include "base/banned.h"

struct reading {
    const char *name;
    const char *at, *end;
    uint32_t line, column; /* of `at` */
    struct template *t;
};

static dibs_status refuse(const struct reading *r, const char *why, dibs_err *err)
{
    return err_set(err, DIBS_INVALID, "%.200s:%u:%u: %s", r->name, r->line, r->column, why);
}

static void step(struct reading *r, size_t n)
{
    for (const char *to = r->at + n; r->at < to; r->at++) {
        bool is_end = *r->at == '\n';

        r->line += is_end;
        r->column = is_end ? 1 : r->column + 1;
    }
}

static dibs_status add(const struct reading *r, struct template_piece piece, dibs_err *err)
{
    struct template *t = r->t;

    if (!grow((void **) &t->pieces, t->n, &t->max, sizeof *t->pieces))
        return err_set(err, DIBS_FAILURE, "%s: out of memory", r->name);
    t->pieces[t->n++] = piece;
    return DIBS_OK;
}

static void skip_blanks(struct reading *r)
{
    while (r->at < r->end && strchr(" \t\r\n", *r->at) && *r->at)
        step(r, 1);
}

/* Read a quoted word with the escapes \" and \\. */
static dibs_status read_word(struct reading *r, struct template_piece *out, dibs_err *err)
{
    struct template *t = r->t;

    if (r->at == r->end || *r->at != '"')
        return refuse(r, "expected a name in double quotes", err);
    step(r, 1);
    out->text = t->words + t->n_words;
    out->n = 0;
    for (; r->at < r->end && *r->at != '"'; step(r, 1)) {
        if (*r->at == '\n' || *r->at == '\0')
            return refuse(r, "a quote is not closed on its line", err);
        if (*r->at == '\\' && r->at + 1 < r->end && strchr("\"\\", r->at[1]) && r->at[1])
            step(r, 1);
        if (out->n == TEMPLATE_WORD_MAX)
            return refuse(r, "the text in quotes is too long", err);
        t->words[t->n_words++] = *r->at;
        out->n++;
    }
    if (r->at == r->end)
        return refuse(r, "a quote is not closed", err);
    t->words[t->n_words++] = '\0';
    step(r, 1);
    return DIBS_OK;
}

static const struct {
    const char *word;
    enum template_kind kind;
} verbs[] = { { "port", TEMPLATE_PORT }, { "address", TEMPLATE_ADDRESS }, { "env", TEMPLATE_ENV } };

static dibs_status read_verb(struct reading *r, enum template_kind *out, dibs_err *err)
{
    size_t len = 0;

    *out = TEMPLATE_TEXT;
    while (r->at + len < r->end && r->at[len] >= 'a' && r->at[len] <= 'z')
        len++;
    if (len == 0)
        return DIBS_OK; /* a quoted text only */
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        if (strlen(verbs[i].word) == len && memcmp(verbs[i].word, r->at, len) == 0) {
            *out = verbs[i].kind;
            step(r, len);
            return DIBS_OK;
        }
    return refuse(r, "expected 'port', 'address', 'env' or a text in double quotes after '{{'", err);
}

/* Read from "{{" to "}}". */
static dibs_status read_hole(struct reading *r, dibs_err *err)
{
    struct template_piece piece = { .line = r->line, .column = r->column };
    struct reading open = *r;

    step(r, 2);
    skip_blanks(r);
    dibs_status s = read_verb(r, &piece.kind, err);
    if (s != DIBS_OK)
        return s;
    skip_blanks(r);
    s = read_word(r, &piece, err);
    if (s != DIBS_OK)
        return s;
    skip_blanks(r);
    if (r->end - r->at < 2)
        return refuse(&open, "'{{' has no '}}'", err);
    if (memcmp(r->at, "}}", 2) != 0)
        return refuse(r, "expected '}}'", err);
    step(r, 2);
    if (piece.kind != TEMPLATE_TEXT && piece.n == 0)
        return refuse(&open, "a name cannot be empty", err);
    return add(r, piece, err);
}

dibs_status template_parse(const char *name, const char *text, size_t len, struct template *out,
                           dibs_err *err)
{
    struct template t = { 0 };
    struct reading r = { .name = name, .at = text, .end = text + len, .line = 1, .column = 1, .t = &t };
    dibs_status s = DIBS_OK;

    if (len > TEMPLATE_BYTES_MAX)
        return err_set(err, DIBS_INVALID, "%s: larger than %d bytes", name, TEMPLATE_BYTES_MAX);
    t.words = malloc(len + 1); /* quoted words are shorter than the template */
    if (!t.words)
        return err_set(err, DIBS_FAILURE, "%s: out of memory", name);
    while (r.at < r.end && s == DIBS_OK) {
        const char *hole = memmem(r.at, (size_t) (r.end - r.at), "{{", 2);
        size_t n = (size_t) ((hole ? hole : r.end) - r.at);

        if (n > 0)
            s = add(&r, (struct template_piece){ .text = r.at, .n = n, .line = r.line }, err);
        step(&r, n);
        if (s == DIBS_OK && hole)
            s = read_hole(&r, err);
    }
    if (s == DIBS_OK)
        *out = t;
    else
        template_free(&t);
    return s;
}

void template_free(struct template *t)
{
    free(t->pieces);
    free(t->words);
    *t = (struct template){ 0 };
}
