/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "codec/json.h"
#include "support/t.h"

struct sink {
    char *text;
    size_t len;
    FILE *to;
    struct jsonw w;
};

static void sink_open(struct sink *sink)
{
    sink->to = open_memstream(&sink->text, &sink->len);
    assert_non_null(sink->to);
    jsonw_begin(&sink->w, sink->to);
}

static void sink_holds(struct sink *sink, const char *expected)
{
    assert_int_equal(fclose(sink->to), 0);
    assert_string_equal(sink->text, expected);
    free(sink->text);
}

static void the_writer_places_every_comma(void **state)
{
    struct sink sink = { 0 };

    (void) state;
    sink_open(&sink);
    jsonw_array(&sink.w);
    jsonw_object(&sink.w);
    jsonw_end_object(&sink.w);
    jsonw_array(&sink.w);
    jsonw_end_array(&sink.w);
    jsonw_object(&sink.w);
    jsonw_key_int(&sink.w, "a", INT64_MIN);
    jsonw_key_uint(&sink.w, "b", UINT64_MAX);
    jsonw_key(&sink.w, "c");
    jsonw_array(&sink.w);
    jsonw_null(&sink.w);
    jsonw_bool(&sink.w, true);
    jsonw_string(&sink.w, "x");
    jsonw_end_array(&sink.w);
    jsonw_key_bool(&sink.w, "d", false);
    jsonw_end_object(&sink.w);
    jsonw_int(&sink.w, -1);
    jsonw_end_array(&sink.w);
    jsonw_finish(&sink.w);
    sink_holds(&sink, "[{},[],{\"a\":-9223372036854775808,\"b\":18446744073709551615,"
                      "\"c\":[null,true,\"x\"],\"d\":false},-1]\n");
}

static void strings_come_out_as_valid_and_harmless_json(void **state)
{
    static const struct {
        const char *text;
        const char *written;
    } rows[] = {
        { "", "\"\"" },
        { "a\"b\\c", "\"a\\\"b\\\\c\"" },
        { "\n\r\t\x01\x1b[31m", "\"\\n\\r\\t\\u0001\\u001b[31m\"" },
        { "\x7f", "\"\\u007f\"" },
        { "\xc2\x9b", "\"\\u009b\"" }, /* one-byte CSI of terminals */
        { "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"" },
        { "\xff", "\"\xef\xbf\xbd\"" },
        { "a\xc3", "\"a\xef\xbf\xbd\"" },                               /* cut off */
        { "\xc0\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\"" },                 /* overlong */
        { "\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" }, /* surrogate */
        { "\xf4\x90\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
        { "\xf4\x8f\xbf\xbf", "\"\xf4\x8f\xbf\xbf\"" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sink sink = { 0 };

        sink_open(&sink);
        jsonw_string(&sink.w, rows[i].text);
        sink_holds(&sink, rows[i].written);
    }
}

static void memory_gets_what_a_stream_gets(void **state)
{
    static const char odd[] = "a\"\\\n\x1b\x7f\xc2\x9b\xc3\xa9\xff\xf0\x9f\x98\x80";
    struct bytes bytes = { 0 };
    struct jsonw w;
    struct sink sink = { 0 };

    (void) state;
    sink_open(&sink);
    jsonw_begin_bytes(&w, &bytes);
    for (int i = 0; i < 2; i++) {
        struct jsonw *to = i == 0 ? &sink.w : &w;

        jsonw_array(to);
        for (int j = 0; j < 1000; j++) { /* it grows several times */
            jsonw_string(to, odd);
            jsonw_int(to, INT64_MIN + j);
            jsonw_uint(to, UINT64_MAX - (uint64_t) j);
            jsonw_int(to, j - 500);
        }
        jsonw_end_array(to);
        jsonw_finish(to);
    }
    assert_false(bytes.is_lost);
    bytes_add(&bytes, "", 1);
    sink_holds(&sink, bytes.at);
    bytes_done(&bytes);
}

static void bytes_have_a_bound_and_remember_it(void **state)
{
    struct bytes bytes = { 0 };

    (void) state;
    bytes_add_text(&bytes, "abc");
    assert_null(bytes_reserve(&bytes, DIBS_INPUT_MAX_BYTES - 2));
    assert_true(bytes.is_lost);
    assert_int_equal(bytes.n, 3);
    bytes_done(&bytes);
}

static void a_full_stream_is_remembered(void **state)
{
    struct jsonw w;
    FILE *full = fopen("/dev/full", "w");

    (void) state;
    if (!full) {
        print_message("no /dev/full here\n");
        skip();
    }
    jsonw_begin(&w, full);
    jsonw_array(&w);
    jsonw_end_array(&w);
    jsonw_finish(&w);
    assert_int_not_equal(fflush(full), 0);
    assert_int_not_equal(ferror(full), 0);
    (void) fclose(full);
}

static void the_reader_gives_back_what_stands_there(void **state)
{
    static const char text[] = "{\"s\":\"a\\u00e9\",\"n\":9223372036854775807,\"m\":-5,\"t\":true,\"r\":1.5,"
                               "\"z\":null,\"a\":[1,{\"k\":\"v\"}]}";
    AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;
    dibs_err err = { 0 };
    const char *s = "kept";
    int64_t n = 7;
    uint64_t u = 7;
    bool t = false;

    (void) state;
    ASSERT_OK(jsonr_parse(text, sizeof text - 1, &doc, &err), &err);
    const jsonr_value *root = jsonr_root(doc);

    assert_true(jsonr_is_object(root));
    assert_false(jsonr_is_array(root));
    assert_true(jsonr_get_string(root, "s", &s));
    assert_string_equal(s, "a\xc3\xa9");
    assert_true(jsonr_get_int(root, "n", &n));
    assert_true(n == INT64_MAX);
    assert_true(jsonr_get_uint(root, "n", &u));
    assert_true(u == INT64_MAX);
    assert_true(jsonr_get_bool(root, "t", &t));
    assert_true(t);
    assert_int_equal(jsonr_array_size(jsonr_get(root, "a")), 2);
    assert_true(jsonr_get_string(jsonr_array_at(jsonr_get(root, "a"), 1), "k", &s));
    assert_string_equal(s, "v");
    assert_null(jsonr_array_at(jsonr_get(root, "a"), 2));
}

static void another_type_leaves_the_output_alone(void **state)
{
    static const char text[] = "{\"s\":\"1\",\"m\":-5,\"t\":1,\"r\":1.0,\"z\":null}";
    AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;
    dibs_err err = { 0 };
    const char *s = "kept";
    int64_t n = 7;
    uint64_t u = 7;
    bool t = false;

    (void) state;
    ASSERT_OK(jsonr_parse(text, sizeof text - 1, &doc, &err), &err);
    const jsonr_value *root = jsonr_root(doc);

    assert_false(jsonr_get_int(root, "s", &n));
    assert_false(jsonr_get_int(root, "r", &n));
    assert_false(jsonr_get_int(root, "z", &n));
    assert_false(jsonr_get_int(root, "absent", &n));
    assert_false(jsonr_get_uint(root, "m", &u));
    assert_false(jsonr_get_bool(root, "t", &t));
    assert_false(jsonr_get_string(root, "m", &s));
    assert_string_equal(s, "kept");
    assert_int_equal(n, 7);
    assert_int_equal(u, 7);
    assert_false(t);
    assert_true(jsonr_is_null(jsonr_get(root, "z")));
    assert_false(jsonr_is_null(jsonr_get(root, "r")));
    assert_false(jsonr_is_null(jsonr_get(root, "absent")));
    assert_null(jsonr_get(NULL, "x"));
    assert_null(jsonr_get(jsonr_get(root, "s"), "x"));
    assert_int_equal(jsonr_array_size(root), 0);
}

static void an_unknown_key_is_named(void **state)
{
    static const char text[] = "{\"port\":1,\"prot\":2}";
    static const char *const most[] = { "port", "proto", NULL };
    static const char *const all[] = { "port", "prot", NULL };
    AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;
    dibs_err err = { 0 };

    (void) state;
    ASSERT_OK(jsonr_parse(text, sizeof text - 1, &doc, &err), &err);
    assert_string_equal(jsonr_unknown_key(jsonr_root(doc), most), "prot");
    assert_null(jsonr_unknown_key(jsonr_root(doc), all));
}

static void a_member_is_found_whatever_the_case_of_its_letters(void **state)
{
    static const char text[] = "{\"Name\": 1, \"NAME\": 2, \"other\": 3}";
    AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;
    dibs_err err = { 0 };
    int64_t number = 0;

    (void) state;
    ASSERT_OK(jsonr_parse(text, strlen(text), &doc, &err), &err);
    assert_true(jsonr_as_int(jsonr_get_folded(jsonr_root(doc), "name"), &number));
    assert_int_equal(number, 2); /* the last one */
    assert_null(jsonr_get_folded(jsonr_root(doc), "nam"));
    assert_null(jsonr_get_folded(jsonr_get(jsonr_root(doc), "other"), "name"));
}

static void bad_documents_are_refused_with_line_and_column(void **state)
{
    static const struct {
        const char *text;
        const char *says;
    } rows[] = {
        { "", "line 1" },
        { "1", "line 1, column 1" },
        { "\"x\"", "line 1" },
        { "{\"a\":1,\n\"a\":2}", "line 2, column 3: duplicate object key" },
        { "[1,\n2,,3]", "line 2, column 3" },
        { "[1] x", "end of file expected" },
        { "{\"a\\u0000b\":1}", "\\u0000" },
        { "[\"\\u0000\"]", "\\u0000" },
        { "[\"\xff\"]", "unable to decode byte 0xff" },
        { "[99999999999999999999]", "too big integer" },
        { "[1", "line 1" },
        { "[\"abc", "line 1" },
        { "[\"\\", "line 1" },
        { "[NaN]", "line 1" },
        { "[\x1b[31m", "near '?'" }, /* nothing that a terminal would obey */
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        jsonr_doc *doc = NULL;
        dibs_err err = { 0 };

        assert_int_equal(jsonr_parse(rows[i].text, strlen(rows[i].text), &doc, &err), DIBS_INVALID);
        assert_null(doc);
        if (!strstr(err.msg, rows[i].says))
            fail_msg("'%s' -> '%s', without '%s'", rows[i].text, err.msg, rows[i].says);
    }
    jsonr_doc *doc = NULL;

    assert_int_equal(jsonr_parse("[1\0]", 4, &doc, NULL), DIBS_INVALID); /* a NUL byte is no blank */
    assert_null(doc);
}

static dibs_status parse_nested(size_t depth, dibs_err *err)
{
    AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;
    char *text = malloc(2 * depth);

    assert_non_null(text);
    memset(text, '[', depth);
    memset(text + depth, ']', depth);
    dibs_status status = jsonr_parse(text, 2 * depth, &doc, err);

    free(text);
    return status;
}

static void depth_is_bounded_before_anything_recurses(void **state)
{
    static const char brackets[] =
        "[\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
        "\\\"[[[[[[[[[[[[[[[[[[[[[[[[\"]";
    AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;
    dibs_err err = { 0 };

    (void) state;
    ASSERT_OK(parse_nested(JSON_DEPTH_MAX, &err), &err);
    assert_int_equal(parse_nested(JSON_DEPTH_MAX + 1, &err), DIBS_INVALID);
    assert_non_null(strstr(err.msg, "deeper than 64"));
    assert_int_equal(parse_nested(1000000, &err), DIBS_INVALID);
    ASSERT_OK(jsonr_parse(brackets, sizeof brackets - 1, &doc, &err), &err); /* in a string they are text */
}

static void size_is_bounded(void **state)
{
    size_t len = (size_t) DIBS_INPUT_MAX_BYTES + 1;
    char *text = malloc(len);
    jsonr_doc *doc = NULL;
    dibs_err err = { 0 };

    (void) state;
    assert_non_null(text);
    memset(text, ' ', len);
    text[0] = '[';
    text[1] = ']';
    dibs_status status = jsonr_parse(text, len, &doc, &err);

    free(text);
    assert_int_equal(status, DIBS_INVALID);
    assert_null(doc);
    assert_non_null(strstr(err.msg, "at most"));
}

static void base64_follows_the_rfc(void **state)
{
    static const struct {
        const char *bytes;
        const char *text;
    } rows[] = {
        { "", "" },
        { "f", "Zg==" },
        { "fo", "Zm8=" },
        { "foo", "Zm9v" },
        { "foob", "Zm9vYg==" },
        { "fooba", "Zm9vYmE=" },
        { "foobar", "Zm9vYmFy" },
        { "\xff\xfe\xff", "//7/" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[16] = "";
        uint8_t bytes[8] = { 0 };
        size_t n = 99;
        size_t len = strlen(rows[i].bytes);

        base64_encode((const uint8_t *) rows[i].bytes, len, text);
        assert_string_equal(text, rows[i].text);
        assert_true(base64_decode(text, bytes, len, &n)); /* exactly as large as it must be */
        assert_int_equal(n, len);
        assert_memory_equal(bytes, rows[i].bytes, len);
    }
}

static void broken_base64_is_refused(void **state)
{
    static const char *const rows[] = { "Z",    "Zg",   "Zg=",   "=Zg=",  "Z===", "====",   "Zg==Zg==",
                                        "Zh==", "Zm9=", "Zg\n=", "Zm9v ", "Z-9v", "Zm\xff=" };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t bytes[8] = { 0 };
        size_t n = 99;

        if (base64_decode(rows[i], bytes, sizeof bytes, &n))
            fail_msg("'%s' was taken", rows[i]);
        assert_int_equal(n, 99);
    }
    uint8_t two[2] = { 0 };
    size_t n = 99;

    assert_false(base64_decode("Zm9v", two, sizeof two, &n)); /* does not fit */
    assert_int_equal(n, 99);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_writer_places_every_comma),
        cmocka_unit_test(strings_come_out_as_valid_and_harmless_json),
        cmocka_unit_test(memory_gets_what_a_stream_gets),
        cmocka_unit_test(bytes_have_a_bound_and_remember_it),
        cmocka_unit_test(a_full_stream_is_remembered),
        cmocka_unit_test(the_reader_gives_back_what_stands_there),
        cmocka_unit_test(another_type_leaves_the_output_alone),
        cmocka_unit_test(an_unknown_key_is_named),
        cmocka_unit_test(a_member_is_found_whatever_the_case_of_its_letters),
        cmocka_unit_test(bad_documents_are_refused_with_line_and_column),
        cmocka_unit_test(depth_is_bounded_before_anything_recurses),
        cmocka_unit_test(size_is_bounded),
        cmocka_unit_test(base64_follows_the_rfc),
        cmocka_unit_test(broken_base64_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
