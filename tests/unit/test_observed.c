/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/observed.h"
#include "codec/wire.h"
#include "support/t.h"

static void entry_is(const dibs_observed *entry, const char *expected)
{
    char address[DIBS_ADDRESS_TEXT_MAX + 1] = "";
    char text[512] = "";

    dibs_address_format(&entry->binding.address, address);
    (void) snprintf(text, sizeof text, "%s %s %u %s", dibs_proto_text(entry->binding.proto), address,
                    entry->port, entry->name);
    assert_string_equal(text, expected);
}

static void both_forms_of_a_line_are_understood(void **state)
{
    static const char text[] = "# seen at noon\n"
                               "8080 shop/web\n"
                               "\n"
                               "  \t\n"
                               "tcp 127.0.0.1 5432 /db # a comment\r\n"
                               "UDP localhost 53 #another\n"
                               "65535";
    dibs_observed *list = NULL;
    size_t n = 0;
    dibs_err err = { 0 };

    (void) state;
    ASSERT_OK(cli_observed_parse(text, sizeof text - 1, &list, &n, &err), &err);
    assert_int_equal(n, 5);
    entry_is(&list[0], "tcp * 8080 shop/web");
    entry_is(&list[1], "tcp 127.0.0.1 5432 db");
    entry_is(&list[2], "udp 127.0.0.1 53 ");
    entry_is(&list[3], "udp ::1 53 ");
    entry_is(&list[4], "tcp * 65535 ");
    free(list);
}

static void json_says_the_same(void **state)
{
    static const char text[] = " \n[{\"port\":8080,\"name\":\"shop/web\"},"
                               "{\"proto\":\"udp\",\"address\":\"::1\",\"port\":53,\"name\":null},"
                               "{\"port\":1,\"name\":\"\"}]";
    dibs_observed *list = NULL;
    size_t n = 0;
    dibs_err err = { 0 };

    (void) state;
    ASSERT_OK(cli_observed_parse(text, sizeof text - 1, &list, &n, &err), &err);
    assert_int_equal(n, 3);
    entry_is(&list[0], "tcp * 8080 shop/web");
    entry_is(&list[1], "udp ::1 53 ");
    entry_is(&list[2], "tcp * 1 ");
    free(list);
}

static void nothing_seen_is_an_empty_list(void **state)
{
    static const char *const rows[] = { "", "\n\n", "# all quiet\n", "[]", " [ ] \n" };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        dibs_observed *list = NULL;
        size_t n = 99;
        dibs_err err = { 0 };

        ASSERT_OK(cli_observed_parse(rows[i], strlen(rows[i]), &list, &n, &err), &err);
        assert_int_equal(n, 0);
        assert_null(list);
    }
}

static void a_bad_line_is_named_and_nothing_is_given(void **state)
{
    static const struct {
        const char *text;
        const char *says;
    } rows[] = {
        { "80\n\n#\n65536", "line 4" },
        { "-1", "line 1" },
        { "1e3", "line 1" },
        { "80 a b", "line 1" },
        { "tcp *", "line 1" },
        { "tcp * 80 a b", "line 1" },
        { "icmp * 80", "line 1" },
        { "tcp example.org 80", "line 1" },
        { "80 42", "line 1" }, /* a name that is only a number */
        { "80 a//b", "line 1" },
        { "80 a\x01", "line 1" },
        { "[1]", "item 1" },
        { "[{\"port\":80},{\"port\":-1}]", "item 2" },
        { "[{\"port\":65536}]", "item 1" },
        { "[{\"port\":80.0}]", "item 1" },
        { "[{\"port\":\"80\"}]", "item 1" },
        { "[{\"name\":\"a\"}]", "item 1" },
        { "[{\"port\":80,\"proto\":1}]", "item 1" },
        { "[{\"port\":80,\"prot\":\"tcp\"}]", "prot" },
        { "[{\"port\":80}", "line 1" },
        { "{\"port\":80}", "line 1" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        dibs_observed *list = NULL;
        size_t n = 99;
        dibs_err err = { 0 };

        if (cli_observed_parse(rows[i].text, strlen(rows[i].text), &list, &n, &err) != DIBS_INVALID)
            fail_msg("'%s' was taken", rows[i].text);
        assert_null(list);
        assert_int_equal(n, 99);
        if (!strstr(err.msg, rows[i].says))
            fail_msg("'%s' -> '%s', without '%s'", rows[i].text, err.msg, rows[i].says);
    }
    dibs_observed *list = NULL;
    size_t n = 0;

    assert_int_equal(cli_observed_parse("80\0 x", 5, &list, &n, NULL), DIBS_INVALID);
    assert_null(list);
}

static void a_list_without_end_is_refused(void **state)
{
    size_t lines = (size_t) WIRE_OBSERVED_MAX + 1;
    char *text = malloc(2 * lines);
    dibs_observed *list = NULL;
    size_t n = 0;
    dibs_err err = { 0 };

    (void) state;
    assert_non_null(text);
    for (size_t i = 0; i < lines; i++) {
        text[2 * i] = '9';
        text[2 * i + 1] = '\n';
    }
    dibs_status whole = cli_observed_parse(text, 2 * lines, &list, &n, &err);

    assert_null(list);
    dibs_status all_but_one = cli_observed_parse(text, 2 * lines - 2, &list, &n, NULL);

    free(text);
    free(list);
    assert_int_equal(whole, DIBS_INVALID);
    assert_non_null(strstr(err.msg, "more than"));
    assert_int_equal(all_but_one, DIBS_OK);
    assert_int_equal(n, WIRE_OBSERVED_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_forms_of_a_line_are_understood),
        cmocka_unit_test(json_says_the_same),
        cmocka_unit_test(nothing_seen_is_an_empty_list),
        cmocka_unit_test(a_bad_line_is_named_and_nothing_is_given),
        cmocka_unit_test(a_list_without_end_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
