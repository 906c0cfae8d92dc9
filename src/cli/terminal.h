/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_TERMINAL_H
#define DIBS_CLI_TERMINAL_H
/* What the terminal behind a stream can show: its width, colours, and how wide a text is on it. */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Return the number of columns; 0: the stream is no terminal. */
size_t terminal_columns(FILE *to);
/* False when it is no terminal, or NO_COLOR is set, or TERM says that it knows no escapes. */
bool terminal_has_colour(FILE *to);
/* The same for moving the cursor, which NO_COLOR does not forbid. */
bool terminal_has_cursor(FILE *to);

/* Return the columns of the first character of a safe text, and its bytes: 0 for marks that combine with the
 * character before, 2 for wide ones (East Asian, emoji). */
size_t terminal_char_width(const char *p, size_t *bytes);
size_t terminal_text_width(const char *text);

/* Print a word such as "alive", "foreign" or "FAIL", where the stream shows colours in its own, and return
 * its width. */
size_t terminal_print_word(FILE *to, const char *word);
#endif
