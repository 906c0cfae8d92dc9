/* SPDX-License-Identifier: MIT */
/* The tree of a YAML text: what stands where, and what is refused. */
#include <string.h>

#include "codec/yaml.h"
#include "support/t.h"

static yaml_text *parse(const char *text)
{
    yaml_text *yaml = NULL;
    dibs_err err = { 0 };

    if (yaml_parse("file", text, strlen(text), &yaml, &err) != DIBS_OK)
        fail_msg("%s", err.msg);
    return yaml;
}

static void assert_written(const char *text, const yaml_node *node, const char *written)
{
    assert_non_null(node);
    assert_int_equal(node->end - node->start, strlen(written));
    assert_memory_equal(text + node->start, written, strlen(written));
}

static void every_value_knows_its_place(void **state)
{
    static const char text[] = "a: 1 # one\nb:\n  - x: \"y\"\n    z: [1,\n       2]  # two\n  - 'q'\n";
    AUTO(yaml_free_auto) yaml_text *yaml = parse(text);
    const yaml_node *root = yaml_root(yaml, 0);
    const yaml_node *b = yaml_get(root, "b");

    (void) state;
    assert_int_equal(yaml_count(yaml), 1);
    assert_written(text, yaml_get(root, "a"), "1");
    assert_int_equal(b->kind, YAML_LIST);
    assert_int_equal(b->n, 2);
    assert_written(text, b->first, "x: \"y\"\n    z: [1,\n       2]");
    assert_written(text, yaml_get(b->first, "x"), "\"y\"");
    assert_string_equal(yaml_string(yaml_get(b->first, "x")), "y");
    assert_written(text, yaml_get(b->first, "z"), "[1,\n       2]");
    assert_written(text, b->first->next, "'q'");
    assert_int_equal(yaml_key(b->first, "z")->line, 4);
    assert_int_equal(yaml_key(b->first, "z")->column, 5);
}

static void a_map_without_braces_stands_where_its_key_stands(void **state)
{
    static const char text[] = "[a, \"b\" : c]";
    AUTO(yaml_free_auto) yaml_text *yaml = parse(text);
    const yaml_node *map = yaml_root(yaml, 0)->first->next;

    (void) state;
    assert_int_equal(map->kind, YAML_MAP);
    assert_written(text, map, "\"b\" : c");
    assert_int_equal(map->column, 5);
}

static void a_missing_value_comes_after_the_one_before_it(void **state)
{
    AUTO(yaml_free_auto) yaml_text *yaml = parse("- \n- ab\n-\n- x:\n- ? \n  : d\n");
    const yaml_node *item = yaml_root(yaml, 0)->first;
    static const size_t starts[] = { 0, 5, 7, 12, 17 };

    (void) state;
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++, item = item->next) {
        assert_int_equal(item->start, starts[i]);
        assert_true(item->line > 0);
    }
    assert_null(item);
}

static void several_documents_and_empty_ones_are_read(void **state)
{
    AUTO(yaml_free_auto) yaml_text *yaml = parse("---\n---\na: 1\n...\n---\nb: 2\n");
    AUTO(yaml_free_auto) yaml_text *empty = parse("# only words\n\n");

    (void) state;
    assert_int_equal(yaml_count(empty), 0);
    assert_null(yaml_root(empty, 0));
    assert_int_equal(yaml_count(yaml), 3);
    assert_null(yaml_root(yaml, 0));
    assert_string_equal(yaml_string(yaml_get(yaml_root(yaml, 1), "a")), "1");
    assert_string_equal(yaml_string(yaml_get(yaml_root(yaml, 2), "b")), "2");
}

static void an_alias_is_what_it_names(void **state)
{
    AUTO(yaml_free_auto) yaml_text *yaml = parse("a: &x {k: v}\nb: *x\nc: &x 2\nd: *x\n");
    const yaml_node *root = yaml_root(yaml, 0);

    (void) state;
    assert_string_equal(yaml_string(yaml_get(yaml_get(root, "b"), "k")), "v");
    assert_string_equal(yaml_string(yaml_get(root, "d")), "2");
    assert_true(yaml_key(root, "b")->value->is_alias);
}

static void words_are_what_they_look_like_only_without_quotes(void **state)
{
    AUTO(yaml_free_auto)
    yaml_text *yaml = parse(
        "n: ~\ne:\nq: \"null\"\nt: true\ns: 'true'\ni: 80\nz: 080\nh: 0x50\nm: -1\nb: 65536\ni2: '80'\n");
    const yaml_node *root = yaml_root(yaml, 0);
    bool flag = false;
    uint32_t number = 7;

    (void) state;
    assert_true(yaml_is_null(yaml_get(root, "n")));
    assert_true(yaml_is_null(yaml_get(root, "e")));
    assert_false(yaml_is_null(yaml_get(root, "q")));
    assert_false(yaml_is_null(yaml_get(root, "absent")));
    assert_true(yaml_bool(yaml_get(root, "t"), &flag) && flag);
    assert_false(yaml_bool(yaml_get(root, "s"), &flag));
    assert_true(yaml_number(yaml_get(root, "i"), 65535, &number));
    assert_int_equal(number, 80);
    static const char *const no_numbers[] = { "z", "h", "m", "b", "i2", "e", "absent" };
    for (size_t i = 0; i < sizeof no_numbers / sizeof no_numbers[0]; i++)
        assert_false(yaml_number(yaml_get(root, no_numbers[i]), 65535, &number));
}

static void text_is_what_json_would_quote(void **state)
{
    static const char *const texts[] = { "a",   "yes", "1.2.3", "-x",  "+",    ".",    "e5",
                                         "1e",  "1e+", "0x",    "0xg", "0o8",  "12ab", "..1",
                                         "inf", "-x1", "1_0",   "''",  "'12'", "'~'",  "\"no\"" };
    static const char *const others[] = { "12",   "-1.5e3", "+.5",  "5.", "0x1F", "0o17",  ".inf", "-.Inf",
                                          ".nan", "~",      "null", "",   "true", "False", "[]",   "{}" };
    char text[64];

    (void) state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0] + sizeof others / sizeof others[0]; i++) {
        bool is_text = i < sizeof texts / sizeof texts[0];
        const char *value = is_text ? texts[i] : others[i - sizeof texts / sizeof texts[0]];

        (void) snprintf(text, sizeof text, "a: %s\n", value);
        AUTO(yaml_free_auto) yaml_text *yaml = parse(text);
        if (yaml_is_text(yaml_get(yaml_root(yaml, 0), "a")) != is_text)
            fail_msg("%s: expected %s", value, is_text ? "text" : "something else");
    }
    assert_false(yaml_is_text(NULL));
}

static void json_is_read_with_tabs_and_all(void **state)
{
    AUTO(yaml_free_auto)
    yaml_text *yaml = parse("{\n\t\"a\": [1,\n\t{\"b\": null, \"c\": \"\\u00e4\"}]\n}\n");
    const yaml_node *item = yaml_get(yaml_root(yaml, 0), "a")->first->next;

    (void) state;
    assert_true(yaml_is_null(yaml_get(item, "b")));
    assert_string_equal(yaml_string(yaml_get(item, "c")), "ä");
}

static void unreadable_input_is_refused_with_its_place(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        { "a: 1\nb: [", "file:3:1: " },
        { "a: 1\nb: 2\na: 3\n", "file:3:1: key 'a' is there twice" },
        { "a: &x [*x]\n", "file:1:8: an alias stands inside of what it names" },
        { "a: *x\n", "file:1:4: an alias names nothing" },
        { "? [a]\n: b\n", "file:1:3: a key is not plain text" },
        { "%YAML 1.2\n---\na: 1\n", "file:1: directives are not read here" },
        { "a: \"\x01\"\n", "file:1: not plain UTF-8 text" },
        { "a: \xff\n", "file:1: not plain UTF-8 text" },
        { "a: \"\\0\"\n", "file:1:4: a text has a NUL byte" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        yaml_text *yaml = NULL;
        dibs_err err = { 0 };

        assert_int_equal(yaml_parse("file", cases[i].text, strlen(cases[i].text), &yaml, &err), DIBS_INVALID);
        assert_null(yaml);
        if (!strstr(err.msg, cases[i].says))
            fail_msg("'%s' does not say '%s'", err.msg, cases[i].says);
    }
}

static void depth_is_bounded(void **state)
{
    char text[4096] = "";
    yaml_text *yaml = NULL;
    dibs_err err = { 0 };

    (void) state;
    memset(text, '[', 200);
    memset(text + 200, ']', 200);
    assert_int_equal(yaml_parse("file", text, 400, &yaml, &err), DIBS_INVALID);
    assert_null(yaml);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_knows_its_place),
        cmocka_unit_test(a_map_without_braces_stands_where_its_key_stands),
        cmocka_unit_test(a_missing_value_comes_after_the_one_before_it),
        cmocka_unit_test(several_documents_and_empty_ones_are_read),
        cmocka_unit_test(an_alias_is_what_it_names),
        cmocka_unit_test(words_are_what_they_look_like_only_without_quotes),
        cmocka_unit_test(text_is_what_json_would_quote),
        cmocka_unit_test(json_is_read_with_tabs_and_all),
        cmocka_unit_test(unreadable_input_is_refused_with_its_place),
        cmocka_unit_test(depth_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
