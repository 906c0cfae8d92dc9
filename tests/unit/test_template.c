/* SPDX-License-Identifier: MIT */
/* Templates: text, holes, and what is refused with its place. */
#include <string.h>

#include "support/t.h"
#include "workload/template.h"

static void text_and_holes_come_in_order(void **state)
{
    static const char text[] =
        "a {{ port \"web/0/http\" }}{{address\t\"x\"}}\n{{ env \"HOME\"}}{{ \"{{\" }} }} {";
    static const struct {
        enum template_kind kind;
        const char *text;
        uint32_t line, column;
    } want[] = {
        { TEMPLATE_TEXT, "a ", 1, 0 },    { TEMPLATE_PORT, "web/0/http", 1, 3 },
        { TEMPLATE_ADDRESS, "x", 1, 26 }, { TEMPLATE_TEXT, "\n", 1, 0 },
        { TEMPLATE_ENV, "HOME", 2, 1 },   { TEMPLATE_TEXT, "{{", 2, 16 },
        { TEMPLATE_TEXT, " }} {", 2, 0 },
    };
    struct template t = { 0 };
    dibs_err err = { 0 };

    (void) state;
    ASSERT_OK(template_parse("file", text, sizeof text - 1, &t, &err), &err);
    assert_int_equal(t.n, sizeof want / sizeof want[0]);
    for (size_t i = 0; i < t.n; i++) {
        assert_int_equal(t.pieces[i].kind, want[i].kind);
        assert_int_equal(t.pieces[i].n, strlen(want[i].text));
        assert_memory_equal(t.pieces[i].text, want[i].text, t.pieces[i].n);
        if (want[i].column) {
            assert_int_equal(t.pieces[i].line, want[i].line);
            assert_int_equal(t.pieces[i].column, want[i].column);
        }
    }
    template_free(&t);
}

static void quotes_can_be_quoted(void **state)
{
    struct template t = { 0 };
    dibs_err err = { 0 };
    static const char text[] = "{{ \"a\\\"b\\\\c\\d\" }}";

    (void) state;
    ASSERT_OK(template_parse("file", text, sizeof text - 1, &t, &err), &err);
    assert_int_equal(t.n, 1);
    assert_int_equal(t.pieces[0].n, 7);
    assert_memory_equal(t.pieces[0].text, "a\"b\\c\\d", 7);
    template_free(&t);
}

static void nothing_is_a_template_too(void **state)
{
    struct template t = { 0 };
    dibs_err err = { 0 };

    (void) state;
    ASSERT_OK(template_parse("file", "", 0, &t, &err), &err);
    assert_int_equal(t.n, 0);
    template_free(&t);
}

static void an_error_is_reported_with_its_place(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        { "a\n {{ prt \"x\" }}", "file:2:5: expected 'port'" },
        { "{{ port x }}", "file:1:9: expected a name in double quotes" },
        { "{{ port \"x\" y }}", "file:1:13: expected '}}'" },
        { "{{ port \"x\"", "file:1:1: '{{' has no '}}'" },
        { "{{ port \"x", "a quote is not closed" },
        { "{{ port \"x\n\" }}", "a quote is not closed on its line" },
        { "{{ port \"\" }}", "a name cannot be empty" },
        { "{{", "file:1:3: expected a name" },
        { "{{ Port \"x\" }}", "file:1:4: expected a name" },
        { "{{ ports \"x\" }}", "file:1:4: expected 'port'" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct template t = { 0 };
        dibs_err err = { 0 };

        assert_int_equal(template_parse("file", cases[i].text, strlen(cases[i].text), &t, &err),
                         DIBS_INVALID);
        if (!strstr(err.msg, cases[i].says))
            fail_msg("'%s' does not say '%s'", err.msg, cases[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_and_holes_come_in_order),
        cmocka_unit_test(quotes_can_be_quoted),
        cmocka_unit_test(nothing_is_a_template_too),
        cmocka_unit_test(an_error_is_reported_with_its_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
