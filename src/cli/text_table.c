/* SPDX-License-Identifier: MIT */
#include "cli/text_table.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/grow.h"
#include "base/text.h"
#include "cli/terminal.h"

#include "base/banned.h"

#define COLUMNS_MAX 16
#define GAP 2               /* blanks between columns */
#define CELL_MAX_BYTES 2048 /* the longest cell is a list of ranges: 800 bytes */

#define CUT_MIN 8 /* a cell is never cut to fewer columns */

void cli_table_begin(struct cli_table *table, const struct cli_column *columns, size_t n_columns)
{
    assert(n_columns <= COLUMNS_MAX);
    *table = (struct cli_table){ .columns = columns, .n_columns = n_columns };
    for (size_t i = 0; i < n_columns; i++)
        cli_table_cell(table, columns[i].title);
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

/* ---- layout; a width of 0 is a column that is left out ---- */

static size_t line_width(const struct cli_table *table, const size_t *widths)
{
    size_t sum = 0;

    for (size_t i = 0; i < table->n_columns; i++)
        if (widths[i])
            sum += widths[i] + (sum ? GAP : 0);
    return sum;
}

static bool leave_one_out(const struct cli_table *table, size_t *widths)
{
    size_t worst = table->n_columns;
    uint8_t rank = 0;

    for (size_t i = 0; i < table->n_columns; i++)
        if (widths[i] && table->columns[i].rank > rank) {
            rank = table->columns[i].rank;
            worst = i;
        }
    if (worst < table->n_columns)
        widths[worst] = 0;
    return worst < table->n_columns;
}

static bool cut_one(const struct cli_table *table, size_t *widths)
{
    size_t longest = table->n_columns;

    for (size_t i = 0; i < table->n_columns; i++)
        if (table->columns[i].asks && widths[i] > CUT_MIN &&
            (longest == table->n_columns || widths[i] > widths[longest]))
            longest = i;
    if (longest < table->n_columns)
        widths[longest]--;
    return longest < table->n_columns;
}

static bool has_text(const struct cli_table *table, size_t column)
{
    for (size_t i = table->n_columns + column; i < table->n; i += table->n_columns)
        if (strcmp(table->cells[i], "-") != 0)
            return true;
    return false;
}

/* Fit the line into so many columns, as far as it can be. */
static void fit(const struct cli_table *table, size_t *widths, size_t columns)
{
    size_t fitted[COLUMNS_MAX];

    for (size_t i = 0; i < table->n_columns; i++) {
        size_t asks = table->columns[i].asks;

        fitted[i] = asks && widths[i] > asks ? asks : widths[i];
    }
    while (line_width(table, fitted) > columns && leave_one_out(table, fitted))
        ;
    while (line_width(table, fitted) > columns && cut_one(table, fitted))
        ;
    for (size_t i = 0; i < table->n_columns; i++) {
        size_t line = line_width(table, fitted);
        size_t spare = columns > line ? columns - line : 0;
        size_t more = fitted[i] ? widths[i] - fitted[i] : 0;

        fitted[i] += more < spare ? more : spare;
    }
    memcpy(widths, fitted, table->n_columns * sizeof *widths);
}

/* Print a cell, and return its width; a longer one keeps its beginning and its end. */
static size_t print_cut(FILE *to, const char *text, size_t columns)
{
    static const char dots[] = "...";
    size_t total = terminal_text_width(text);
    size_t kept = columns - (sizeof dots - 1);
    size_t head = kept / 2;
    size_t tail_at = total - (kept - head);
    size_t printed = 0;
    bool is_cut = false;

    if (total <= columns) {
        (void) fputs(text, to);
        return total;
    }
    for (size_t at = 0, bytes = 0; *text; text += bytes) {
        size_t w = terminal_char_width(text, &bytes);
        bool is_head = at + w <= head;

        if (!is_head && !is_cut) {
            is_cut = true;
            (void) fputs(dots, to);
            printed += sizeof dots - 1;
        }
        if (is_head || at >= tail_at) {
            (void) fwrite(text, 1, bytes, to);
            printed += w;
        }
        at += w;
    }
    return printed;
}

dibs_status cli_table_print(const struct cli_table *table, FILE *to, dibs_err *err)
{
    size_t widths[COLUMNS_MAX] = { 0 };
    size_t columns = terminal_columns(to);
    size_t last = table->n_columns;

    if (table->is_failed)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (size_t i = 0; i < table->n; i++) {
        size_t w = terminal_text_width(table->cells[i]);

        if (w > widths[i % table->n_columns])
            widths[i % table->n_columns] = w;
    }
    for (size_t i = 0; i < table->n_columns; i++)
        if (table->columns[i].is_rare && !has_text(table, i))
            widths[i] = 0;
    if (columns)
        fit(table, widths, columns);
    while (last > 0 && widths[last - 1] == 0)
        last--;
    for (size_t i = 0; i < table->n; i++) {
        size_t column = i % table->n_columns;
        bool is_last = column + 1 == last;
        size_t used = 0;

        if (widths[column] == 0)
            continue;
        if (table->columns[column].is_state && i >= table->n_columns)
            used = terminal_print_word(to, table->cells[i]);
        else
            used = print_cut(to, table->cells[i], widths[column]);
        if (is_last)
            (void) fputc('\n', to);
        else
            (void) fprintf(to, "%*s", (int) (widths[column] - used + GAP), "");
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
