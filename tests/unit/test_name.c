/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "dibs/settings.h"
#include "support/t.h"

static void names_that_are_names(void **state)
{
    static const char *const good[] = {
        "web",
        "shop@main/web/0/-/http",
        "a/b/c/d/e",
        "shop@main/web/0/-/http/8080",
        "a/b/c/d/e/8080.17",
        "1a",
        "0/web",
        "-",
        "...",
        ".hidden",
        "a..b",
        "Caf\xc3\xa9",
        "\xe6\xb8\xaf\xe5\x8f\xa3",
        "emoji-\xf0\x9f\x9a\xa2",
        "\xc2\xa1hola",
        "a:b=c,d{e}",
    };

    (void) state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        dibs_err err = { 0 };

        if (dibs_name_check(good[i], &err) != DIBS_OK)
            fail_msg("'%s': %s", good[i], err.msg);
    }
}

static void names_that_are_not(void **state)
{
    static const struct {
        const char *name, *because;
    } bad[] = {
        { "", "empty" },
        { NULL, "empty" },
        { "8080", "number" },
        { "0", "number" },
        { "/web", "part is empty" },
        { "web/", "part is empty" },
        { "a//b", "part is empty" },
        { "/", "part is empty" },
        { ".", "'.' or '..'" },
        { "a/..", "'.' or '..'" },
        { "../b", "'.' or '..'" },
        { "a/b/c/d/e/f", "five parts" },
        { "a/b/c/d/e/8080/1", "five parts" },
        { "a/b/c/d/e/8080.", "five parts" },
        { "a/b/c/d/e/8080.1.2", "five parts" },
        { "a/b/c/d/e/.17", "five parts" },
        { "a/b/c/d/e/-8080", "five parts" },
        { "a b", "blank" },
        { "a\tb", "blank" },
        { "a\nb", "blank" },
        { "\x7f", "blank" },
        { "a\xc2\xa0z", "blank" }, /* no-break space */
        { "a\xc2\x85z", "blank" }, /* next line, a control */
        { "\xff", "UTF-8" },
        { "a\xc3", "UTF-8" },
        { "\xc0\xaf", "UTF-8" },     /* an overlong slash */
        { "\xed\xa0\x80", "UTF-8" }, /* half a surrogate pair */
        { "\xf4\x90\x80\x80", "UTF-8" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        dibs_err err = { 0 };
        dibs_status s = dibs_name_check(bad[i].name, &err);

        if (s != DIBS_INVALID || !strstr(err.msg, bad[i].because))
            fail_msg("case %zu: %s: '%s' lacks '%s'", i, dibs_status_text(s), err.msg, bad[i].because);
        for (const char *p = err.msg; *p; p++)
            assert_true((unsigned char) *p >= 0x20); /* safe to print */
    }
    assert_int_equal(dibs_name_check("8080", NULL), DIBS_INVALID);
}

static void lengths_end_where_they_say(void **state)
{
    char name[DIBS_NAME_MAX + 3];

    (void) state;
    memset(name, 'a', sizeof name);
    name[DIBS_NAME_PART_MAX] = '\0';
    assert_int_equal(dibs_name_check(name, NULL), DIBS_OK);
    name[DIBS_NAME_PART_MAX] = 'a';
    name[DIBS_NAME_PART_MAX + 1] = '\0';
    assert_int_equal(dibs_name_check(name, NULL), DIBS_INVALID);
    memset(name, 'a', sizeof name);
    for (size_t i = 1; i <= DIBS_NAME_PARTS_MAX; i++)
        name[i * (DIBS_NAME_PART_MAX + 1) - 1] = '/';
    memset(name + DIBS_NAME_PARTS_MAX * (DIBS_NAME_PART_MAX + 1), '1', DIBS_NAME_PART_MAX);
    name[DIBS_NAME_MAX] = '\0';
    assert_int_equal(dibs_name_check(name, NULL), DIBS_OK); /* five full parts and a number are the longest */
    name[DIBS_NAME_MAX] = '1';
    name[DIBS_NAME_MAX + 1] = '\0';
    assert_int_equal(dibs_name_check(name, NULL), DIBS_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_are_names),
        cmocka_unit_test(names_that_are_not),
        cmocka_unit_test(lengths_end_where_they_say),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
