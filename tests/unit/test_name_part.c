/* SPDX-License-Identifier: MIT */
/* Any text as one part of a name. Names are stored: what a text becomes must be the same in every version. */
#include <string.h>

#include "base/name_part.h"
#include "dibs/settings.h"
#include "support/t.h"

static void texts_become_what_they_became_before(void **state)
{
    static const struct {
        const char *raw, *avoid, *part;
        size_t max;
    } cases[] = {
        { "web", "", "web", DIBS_NAME_PART_MAX },
        { "", "", "%", DIBS_NAME_PART_MAX },
        { "..", "", "%2E%2E", DIBS_NAME_PART_MAX },
        { "a.b", ".", "a%2Eb", DIBS_NAME_PART_MAX },
        { "a/b c~%", "", "a%2Fb%20c%7E%25", DIBS_NAME_PART_MAX },
        { "\xc3\xa9\xc2\x85\xff", "", "\xc3\xa9%C2%85%FF", DIBS_NAME_PART_MAX },
        { "exactly-twenty-bytes", "", "exactly-twenty-bytes", 20 },
        { "one-and-twenty--bytes", "", "one-and~48b42f97ff4e", 20 },
        { "six-by\xc3\xa9-and-some-more", "", "six-by~cbce041055e3",
          20 }, /* no half character before the hash */
    };

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char part[DIBS_NAME_PART_MAX + 1];

        name_part_encode(cases[i].raw, cases[i].avoid, cases[i].max, part);
        assert_string_equal(part, cases[i].part);
    }
}

static void long_texts_that_differ_anywhere_become_different_parts(void **state)
{
    char raw[3 * NAME_PART_RAW_MAX];
    char first[DIBS_NAME_PART_MAX + 1];
    char other[DIBS_NAME_PART_MAX + 1];
    dibs_err err = { 0 };

    (void) state;
    memset(raw, 'x', sizeof raw);
    raw[sizeof raw - 1] = '\0';
    name_part_encode(raw, "", DIBS_NAME_PART_MAX, first);
    assert_int_equal(strlen(first), DIBS_NAME_PART_MAX);
    ASSERT_OK(dibs_name_check(first, &err), &err);
    for (size_t at = 0; at < sizeof raw - 1; at += 7) {
        raw[at] = 'y';
        name_part_encode(raw, "", DIBS_NAME_PART_MAX, other);
        assert_string_not_equal(first, other);
        raw[at] = 'x';
    }
}

static void parts_are_counted(void **state)
{
    (void) state;
    assert_int_equal(name_part_count("web"), 1);
    assert_int_equal(name_part_count("shop/web/0/-/http"), 5);
    assert_int_equal(name_part_count("shop/web/0/-/http/8080"), 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_become_what_they_became_before),
        cmocka_unit_test(long_texts_that_differ_anywhere_become_different_parts),
        cmocka_unit_test(parts_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
