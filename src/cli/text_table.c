/* SPDX-License-Identifier: MIT */
#include "cli/text_table.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/grow.h"
#include "cli/cli.h"

#include "base/banned.h"

#define COLUMNS_MAX 16
#define CELL_MAX_BYTES 2048 /* the longest cell is a list of ranges: 800 bytes */

void cli_table_begin(struct cli_table *table, const char *const *header, size_t n_columns)
{
    assert(n_columns <= COLUMNS_MAX);
    *table = (struct cli_table){ .n_columns = n_columns };
    for (size_t i = 0; i < n_columns; i++)
        cli_table_cell(table, header[i]);
}

void cli_table_cell(struct cli_table *table, const char *text)
{
    char safe[CELL_MAX_BYTES] = "";

    if (table->is_failed)
        return;
    char *copy = strdup(text[0] ? text_safe(text, safe, sizeof safe) : "-");

    if (!copy || !grow((void **) &table->cells, table->n, &table->max, sizeof *table->cells)) {
        free(copy);
        table->is_failed = true;
        return;
    }
    table->cells[table->n++] = copy;
}

void cli_table_number(struct cli_table *table, uint64_t value)
{
    char text[24] = "";

    (void) snprintf(text, sizeof text, "%" PRIu64, value);
    cli_table_cell(table, text);
}

/* Count characters: continuation bytes of UTF-8 take no column. */
static size_t width(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += ((unsigned char) *text & 0xc0) != 0x80;
    return n;
}

dibs_status cli_table_print(const struct cli_table *table, FILE *to, dibs_err *err)
{
    size_t widths[COLUMNS_MAX] = { 0 };

    if (table->is_failed)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (size_t i = 0; i < table->n; i++) {
        size_t w = width(table->cells[i]);

        if (w > widths[i % table->n_columns])
            widths[i % table->n_columns] = w;
    }
    for (size_t i = 0; i < table->n; i++) {
        size_t column = i % table->n_columns;

        (void) fputs(table->cells[i], to);
        if (column + 1 == table->n_columns)
            (void) fputc('\n', to);
        else
            (void) fprintf(to, "%*s", (int) (widths[column] - width(table->cells[i]) + 2), "");
    }
    return DIBS_OK;
}

void cli_table_done(struct cli_table *table)
{
    for (size_t i = 0; i < table->n; i++)
        free(table->cells[i]);
    free(table->cells);
    *table = (struct cli_table){ 0 };
}
