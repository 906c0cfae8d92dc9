/* SPDX-License-Identifier: MIT */
/* Text put into Kubernetes objects, with made-up ports: 1, 2, 3, ... */
#include <stdlib.h>
#include <string.h>

#include "kube/inject/inject.h"
#include "support/t.h"

#define HEAD                                                                                               \
    "kind: Pod\nmetadata:\n  name: a\n  annotations:\n    dibs.dev/ports: '{\"allocations\": [{\"name\": " \
    "\"h\", \"env\": \"PORT\"}]}'\nspec:\n"

/* `wanted`: without the annotation that says that the variables are set. */
static void assert_injected(const char *text, const char *wanted)
{
    static const char injected[] = "    dibs.dev/injected: \"true\"\n";
    const char *spec = strstr(wanted, "\nspec:") + 1;
    char whole[2048];
    AUTO(kube_injection_free_auto) kube_injection *injection = NULL;
    AUTO(free_auto) char *got = NULL;
    size_t len = 0;
    dibs_err err = { 0 };

    ASSERT_OK(kube_injection_read("file", text, strlen(text), false, &injection, &err), &err);
    ASSERT_OK(kube_injection_text(injection, &got, &len, &err), &err);
    (void) snprintf(whole, sizeof whole, "%.*s%s%s", (int) (spec - wanted), wanted, injected, spec);
    assert_string_equal(got, whole);
    assert_int_equal(len, strlen(whole));
}

static void new_lines_go_behind_the_last_value_with_its_comment(void **state)
{
    (void) state;
    assert_injected(HEAD "  containers:\n  - name: c # last\n  # behind\n\n  volumes: []\n",
                    HEAD "  containers:\n  - name: c # last\n    env:\n    - name: PORT\n"
                         "      value: \"1\"\n  # behind\n\n  volumes: []\n");
}

static void a_text_may_end_without_a_line_break(void **state)
{
    (void) state;
    assert_injected(HEAD "    containers:\n        -   name: c",
                    HEAD "    containers:\n        -   name: c\n            env:\n"
                         "                - name: PORT\n                  value: \"1\"");
}

static void block_text_keeps_its_own_line_breaks(void **state)
{
    (void) state;
    /* '|' drops the blank lines behind it, '|+' does not. */
    assert_injected(HEAD "  containers:\n  - name: |\n      c\n\n\n  x: y\n",
                    HEAD "  containers:\n  - name: |\n      c\n    env:\n    - name: PORT\n"
                         "      value: \"1\"\n\n\n  x: y\n");
    assert_injected(HEAD "  containers:\n  - image: d\n    name: |+\n      c\n\n  x: y\n",
                    HEAD "  containers:\n  - image: d\n    env:\n    - name: PORT\n"
                         "      value: \"1\"\n    name: |+\n      c\n\n  x: y\n");
    assert_injected(HEAD "  containers:\n  - name: |+\n      c\n\n  x: y\n",
                    HEAD "  containers:\n  - env:\n    - name: PORT\n"
                         "      value: \"1\"\n    name: |+\n      c\n\n  x: y\n");
    /* A line break behind it would be one more. */
    assert_injected(HEAD "  containers:\n  - image: d\n    name: |\n      c",
                    HEAD "  containers:\n  - image: d\n    env:\n    - name: PORT\n"
                         "      value: \"1\"\n    name: |\n      c");
}

static void brackets_are_filled_as_they_are_laid_out(void **state)
{
    (void) state;
    assert_injected(HEAD "  containers: [{name: c, env: [{name: A, value: b}]}, {}]\n",
                    HEAD "  containers: [{name: c, env: [{\"name\": \"PORT\", \"value\": \"1\"}, "
                         "{name: A, value: b}]}, {\"env\": [{\"name\": \"PORT\", \"value\": \"1\"}]}]\n");
    assert_injected(HEAD "  containers: [\n    { name: c, # why\n      image: d, },\n  ]\n",
                    HEAD "  containers: [\n    { name: c, # why\n      image: d, \"env\": "
                         "[{\"name\": \"PORT\", \"value\": \"1\"}], },\n  ]\n");
}

static void a_new_variable_goes_in_front_of_one_that_is_replaced(void **state)
{
    static const char from[] =
        "kind: Pod\nmetadata:\n  name: a\n  annotations:\n    dibs.dev/ports: '{\"allocations\": ["
        "{\"name\": \"a\", \"env\": \"A_\"}, {\"name\": \"b\", \"env\": \"B_\"}]}'\nspec: ";
    char text[1024] = "";
    char wanted[1024] = "";

    (void) state;
    (void) snprintf(text, sizeof text,
                    "%s{containers: [{env: [{name: B_, value: '', valueFrom: {x: y}}]}]}\n", from);
    (void) snprintf(wanted, sizeof wanted,
                    "%s{containers: [{env: [{\"name\": \"A_\", \"value\": \"1\"}, {\"name\": \"B_\", "
                    "\"value\": \"2\"}]}]}\n",
                    from);
    assert_injected(text, wanted);
}

static void words_that_yaml_takes_for_something_else_are_quoted(void **state)
{
    static const char from[] =
        "kind: Pod\nmetadata:\n  name: a\n  annotations:\n    dibs.dev/ports: '{\"allocations\": ["
        "{\"name\": \"a\", \"env\": \"ON\", \"annotationKey\": \"No\"},"
        "{\"name\": \"b\", \"env\": \"_\", \"annotationKey\": \"1e3\"},"
        "{\"name\": \"c\", \"env\": \"off_\", \"annotationKey\": \"no/no\"}]}'\n";

    (void) state;
    char text[1024] = "";
    char wanted[1024] = "";
    (void) snprintf(text, sizeof text, "%sspec:\n  containers:\n  - name: c\n", from);
    (void) snprintf(wanted, sizeof wanted,
                    "%s    \"No\": \"1\"\n    \"1e3\": \"2\"\n    no/no: \"3\"\nspec:\n  containers:\n"
                    "  - name: c\n    env:\n    - name: \"ON\"\n      value: \"1\"\n    - name: _\n"
                    "      value: \"2\"\n    - name: off_\n      value: \"3\"\n",
                    from);
    assert_injected(text, wanted);
}

static void an_anchor_that_nobody_uses_and_a_tag_are_no_hindrance(void **state)
{
    (void) state;
    assert_injected(HEAD "  containers: &a\n  - !!map\n    name: &b c\n    env: &d [ !!map {name: PORT}]\n",
                    HEAD "  containers: &a\n  - !!map\n    name: &b c\n    env: &d [ !!map {name: "
                         "PORT, \"value\": \"1\"}]\n");
}

static void an_item_that_is_an_alias_is_written_out(void **state)
{
    (void) state;
    assert_injected(HEAD "  x: &p {name: PORT, value: '7'}\n  containers:\n  - name: c\n    env:\n"
                         "    - *p\n    - name: A\n",
                    HEAD "  x: &p {name: PORT, value: '7'}\n  containers:\n  - name: c\n    env:\n"
                         "    - name: PORT\n      value: \"1\"\n    - name: A\n");
}

static void a_replaced_variable_keeps_its_comments_and_order(void **state)
{
    (void) state;
    assert_injected(HEAD "  containers:\n  - env:\n    - name: PORT # runbook\n      # from the map\n"
                         "      valueFrom:\n        configMapKeyRef:\n          key: k # which\n"
                         "    # the next\n    - name: B\n",
                    HEAD "  containers:\n  - env:\n    - name: PORT # runbook\n      # from the map\n"
                         "      value: \"1\" # which\n    # the next\n    - name: B\n");
    assert_injected(HEAD "  containers:\n  - env:\n    - valueFrom: {x: y} # why\n      name: PORT\n",
                    HEAD "  containers:\n  - env:\n    - value: \"1\" # why\n      name: PORT\n");
    assert_injected(HEAD "  containers:\n  - env:\n    - valueFrom: # why\n      name: PORT\n",
                    HEAD "  containers:\n  - env:\n    - value: \"1\" # why\n      name: PORT\n");
    assert_injected(HEAD "  containers:\n  - env:\n    - name: PORT # why\n    - name: B\n", HEAD
                    "  containers:\n  - env:\n    - name: PORT # why\n      value: \"1\"\n    - name: B\n");
    assert_injected(HEAD "  containers:\n  - env: [{valueFrom: {x: y}, # why\n      name: PORT}]\n",
                    HEAD "  containers:\n  - env: [{\"value\": \"1\", # why\n      name: PORT}]\n");
    assert_injected(
        HEAD "  containers:\n  - env:\n    - name: PORT\n      value: '7' # old\n      valueFrom: ~\n",
        HEAD "  containers:\n  - env:\n    - name: PORT\n      value: \"1\" # old\n      valueFrom: ~\n");
}

static void shared_text_that_needs_no_change_is_fine(void **state)
{
    static const char text[] =
        HEAD "  x: &c {name: c, env: [{name: PORT, value: \"1\"}]}\n  containers:\n  - *c\n  - *c\n";

    (void) state;
    assert_injected(text, text);
}

static void a_patch_that_cannot_be_written_is_refused(void **state)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        { HEAD "  containers:\n  - ? name\n    : c\n", "file:5:21: the ports cannot be written" },
        { HEAD "  containers:\n  - name: c\n    ? env\n    :\n    - name: A\n", "cannot be written" },
        { HEAD "  containers:\n  - name: c\n    ? env\n    :\n", "file:9:7: this key is not written" },
        { HEAD "  x: &e []\n  containers:\n  - name: c\n    env: *e\n", "file:7:9: an alias names this" },
        { HEAD "  containers:\n  - name: c\n    env:\n    - {name: PORT, valueFrom: &v {}}\n  x: *v\n",
          "file:10:34: an alias names this" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kube_injection *injection = NULL;
        dibs_err err = { 0 };

        assert_int_equal(
            kube_injection_read("file", rows[i].text, strlen(rows[i].text), false, &injection, &err),
            DIBS_INVALID);
        assert_null(injection);
        if (!strstr(err.msg, rows[i].says))
            fail_msg("'%s' does not say '%s'", err.msg, rows[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_lines_go_behind_the_last_value_with_its_comment),
        cmocka_unit_test(a_text_may_end_without_a_line_break),
        cmocka_unit_test(block_text_keeps_its_own_line_breaks),
        cmocka_unit_test(brackets_are_filled_as_they_are_laid_out),
        cmocka_unit_test(a_new_variable_goes_in_front_of_one_that_is_replaced),
        cmocka_unit_test(words_that_yaml_takes_for_something_else_are_quoted),
        cmocka_unit_test(an_anchor_that_nobody_uses_and_a_tag_are_no_hindrance),
        cmocka_unit_test(an_item_that_is_an_alias_is_written_out),
        cmocka_unit_test(a_replaced_variable_keeps_its_comments_and_order),
        cmocka_unit_test(shared_text_that_needs_no_change_is_fine),
        cmocka_unit_test(a_patch_that_cannot_be_written_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
