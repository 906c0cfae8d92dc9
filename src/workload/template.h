/* SPDX-License-Identifier: MIT */
#ifndef DIBS_WORKLOAD_TEMPLATE_H
#define DIBS_WORKLOAD_TEMPLATE_H
/* Templates: text with {{ port "web/0/http" }}, {{ address "web/0/http" }}, {{ env "HOME" }}, {{ "{{" }}. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/auto.h"
#include "dibs/status.h"

enum {
    TEMPLATE_BYTES_MAX = 16 << 20, /* for configuration files, not data */
    TEMPLATE_WORD_MAX = 1024,      /* of a quoted name or text */
};

enum template_kind { TEMPLATE_TEXT, TEMPLATE_PORT, TEMPLATE_ADDRESS, TEMPLATE_ENV };

struct template_piece {
    enum template_kind kind;
    /* TEXT: `n` bytes borrowed from the template; otherwise the quoted word, NUL-terminated */
    const char *text;
    size_t n;
    uint32_t line, column;
};

struct template
{
    struct template_piece *pieces;
    size_t n, max;
    char *words; /* the quoted words */
    size_t n_words;
};

/* Parse a template. Messages begin with "NAME:LINE:COLUMN: ". `text` must outlive *out. */
dibs_status template_parse(const char *name, const char *text, size_t len, struct template *out,
                           dibs_err *err);
void template_free(struct template *t);
#endif
