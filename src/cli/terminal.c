/* SPDX-License-Identifier: MIT */
#include "cli/terminal.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"

#include "base/banned.h"

#define COLUMNS_UNKNOWN 80 /* of a terminal that does not say, such as a serial line */
#define COLUMNS_LIMIT 9999

size_t terminal_columns(FILE *to)
{
    const char *variable = getenv("COLUMNS");
    struct winsize size = { 0 };
    uint64_t n = 0;

    if (!isatty(fileno(to)))
        return 0;
    if (ioctl(fileno(to), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return variable && text_number(variable, strlen(variable), COLUMNS_LIMIT, &n) && n > 0 ? n
                                                                                           : COLUMNS_UNKNOWN;
}

bool terminal_has_cursor(FILE *to)
{
    const char *term = getenv("TERM");

    return term && *term && strcmp(term, "dumb") != 0 && isatty(fileno(to));
}

bool terminal_has_colour(FILE *to)
{
    const char *no_color = getenv("NO_COLOR"); /* https://no-color.org: set and not empty */

    return !(no_color && *no_color) && terminal_has_cursor(to);
}

/* ---- widths ---- */

struct span {
    uint32_t first, last;
};

/* A table of our own: wcwidth() knows only the characters of the locale, which is often C. */
static const struct span wide[] = {
    { 0x1100, 0x115f },   { 0x2e80, 0x303e },   { 0x3041, 0x4dbf },   { 0x4e00, 0xa4cf },
    { 0xa960, 0xa97c },   { 0xac00, 0xd7a3 },   { 0xf900, 0xfaff },   { 0xfe30, 0xfe6f },
    { 0xff00, 0xff60 },   { 0xffe0, 0xffe6 },   { 0x1f300, 0x1f64f }, { 0x1f680, 0x1f6ff },
    { 0x1f900, 0x1f9ff }, { 0x20000, 0x3fffd },
};
static const struct span without_width[] = {
    { 0x0300, 0x036f }, { 0x0483, 0x0489 }, { 0x0591, 0x05bd }, { 0x0610, 0x061a }, { 0x064b, 0x065f },
    { 0x0900, 0x0902 }, { 0x093c, 0x093c }, { 0x0941, 0x0948 }, { 0x094d, 0x094d }, { 0x0e31, 0x0e31 },
    { 0x0e34, 0x0e3a }, { 0x0e47, 0x0e4e }, { 0x1ab0, 0x1aff }, { 0x1dc0, 0x1dff }, { 0x200b, 0x200f },
    { 0x20d0, 0x20f0 }, { 0xfe00, 0xfe0f }, { 0xfe20, 0xfe2f }, { 0xfeff, 0xfeff }, { 0xe0100, 0xe01ef },
};

static bool is_within(const struct span *spans, size_t n, uint32_t c)
{
    for (size_t i = 0; i < n; i++)
        if (c >= spans[i].first && c <= spans[i].last)
            return true;
    return false;
}

size_t terminal_char_width(const char *p, size_t *bytes)
{
    size_t n = text_utf8_length(p, strnlen(p, 4));
    uint32_t c = (unsigned char) *p;

    *bytes = n ? n : 1;
    if (n <= 1)
        return 1;
    c &= 0xffu >> (n + 1);
    for (size_t i = 1; i < n; i++)
        c = c << 6 | ((unsigned char) p[i] & 0x3fu);
    if (is_within(without_width, sizeof without_width / sizeof *without_width, c))
        return 0;
    return is_within(wide, sizeof wide / sizeof *wide, c) ? 2 : 1;
}

size_t terminal_text_width(const char *text)
{
    size_t columns = 0;

    for (size_t bytes = 0; *text; text += bytes)
        columns += terminal_char_width(text, &bytes);
    return columns;
}

/* ---- colours ---- */

#define RED "31"
#define GREEN "32"
#define YELLOW "33"
#define CYAN "36"

static const char *colour_of(const char *word)
{
    static const struct {
        const char *word, *colour;
    } colours[] = {
        { "alive", GREEN },
        { "kept", CYAN },
        { "pending", CYAN },
        { "unknown", YELLOW },
        { "orphan", YELLOW },
        { "dead", RED },
        { "gone", RED },
        { "unclaimed", YELLOW },
        { "holder", GREEN },
        { "descendant", GREEN },
        { "project", GREEN },
        { "foreign", RED },
        { "same-user", YELLOW },
        { "ok", GREEN },
        { "note", CYAN },
        { "warn", YELLOW },
        { "FAIL", RED },
        { "claimed", GREEN },
        { "assigned", GREEN },
        { "lost", RED },
        { "missed", YELLOW },
        { "can be claimed", GREEN },
        { "cannot be claimed", RED },
    };

    for (size_t i = 0; i < sizeof colours / sizeof *colours; i++)
        if (strcmp(colours[i].word, word) == 0)
            return colours[i].colour;
    return NULL;
}

size_t terminal_print_word(FILE *to, const char *word)
{
    const char *colour = terminal_has_colour(to) ? colour_of(word) : NULL;

    if (colour)
        (void) fprintf(to, "\033[%sm%s\033[0m", colour, word);
    else
        (void) fputs(word, to);
    return terminal_text_width(word);
}
