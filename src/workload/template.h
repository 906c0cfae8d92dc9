/* SPDX-License-Identifier: MIT */
#ifndef DIBS_WORKLOAD_TEMPLATE_H
#define DIBS_WORKLOAD_TEMPLATE_H
/* Text with holes: {{ port "web/0/http" }}, {{ address "web/0/http" }}, {{ env "HOME" }}, and {{ "{{" }} for
 * braces themselves. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/auto.h"
#include "dibs/status.h"

enum {
    TEMPLATE_BYTES_MAX = 16 << 20, /* a configuration file, not a data file */
    TEMPLATE_WORD_MAX = 1024,      /* of a name or text in quotes */
};

enum template_kind { TEMPLATE_TEXT, TEMPLATE_PORT, TEMPLATE_ADDRESS, TEMPLATE_ENV };

struct template_piece {
    enum template_kind kind;
    const char *text; /* TEXT: borrowed from the template, `n` bytes; else what stood in quotes, with a NUL */
    size_t n;
    uint32_t line, column;
};

struct template
{
    struct template_piece *pieces;
    size_t n, max;
    char *words; /* what stood in quotes */
    size_t n_words;
};

/* `name` stands for the file in messages, which begin "NAME:LINE:COLUMN: ". `text` must outlive *out. */
dibs_status template_parse(const char *name, const char *text, size_t len, struct template *out,
                           dibs_err *err);
void template_free(struct template *t);
#endif
