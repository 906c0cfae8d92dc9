/* SPDX-License-Identifier: MIT */
/* Lines of commands on a terminal of their own, as dibs writes them behind a prefix. */
#include <string.h>

#include "cli/run/relay.h"
#include "support/t.h"

static void colours_stay_and_what_moves_the_cursor_goes(void **state)
{
    static const struct {
        const char *line, *clean;
    } rows[] = {
        { "", "" },
        { "plain", "plain" },
        { "\033[1;31mred\033[0m", "\033[1;31mred\033[0m" },
        { "\033[2J\033[Htext", "text" },
        { "\033[?25l\033[38;5;9mx\033[K", "\033[38;5;9mx" },
        { "\033]0;title\atext", "text" },
        { "\033]8;;http://x\033\\link\033]8;;\033\\", "link" },
        { "10%\r20%\r30%\r", "30%" },
        { "text\r", "text" },
        { "\r\r", "" },
        { "ab\b\b\bc", "abc" },
        { "\033[3\rm", "m" },
        { "\033(Btext\0337", "text" },
        { "cut \033[3", "cut " },
        { "cut \033", "cut " },
        { "tab\tstays \303\274", "tab\tstays \303\274" },
    };
    char line[64];

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t n = strlen(rows[i].line);

        memcpy(line, rows[i].line, n);
        n = relay_clean_line(line, n);
        line[n] = '\0';
        assert_string_equal(line, rows[i].clean);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(colours_stay_and_what_moves_the_cursor_goes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
