/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_TEXT_TABLE_H
#define DIBS_CLI_TEXT_TABLE_H
/* An aligned table of text. Cells are copied and made safe for a terminal; the last column is not padded. A
 * lack of memory is reported when the table is printed.
 *
 * On a terminal a line fits its width: columns are left out by rank, then long cells are cut in their middle.
 * Elsewhere everything is printed. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "dibs/status.h"

struct cli_column {
    const char *title;
    uint8_t
        asks; /* longer cells are cut to this many columns before another column is left out; 0: never cut */
    uint8_t rank;  /* the highest is left out first; 0: never left out */
    bool is_state; /* its words have colours */
    bool is_rare;  /* left out when none of its cells has a text */
};

struct cli_table {
    const struct cli_column *columns;
    size_t n_columns;
    char **cells;
    size_t n, max;
    bool is_failed;
};

/* Borrow the columns until done, which accepts a table without cells. */
void cli_table_begin(struct cli_table *table, const struct cli_column *columns, size_t n_columns);
void cli_table_cell(struct cli_table *table, const char *text); /* empty becomes "-" */
void cli_table_number(struct cli_table *table, uint64_t value);
dibs_status cli_table_print(const struct cli_table *table, FILE *to, dibs_err *err);
void cli_table_done(struct cli_table *table);
#endif
