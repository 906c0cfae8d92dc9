/* SPDX-License-Identifier: MIT */
/* Messages of a watch, and texts of objects. */
#include "support/t.h"

#include <stdlib.h>
#include <string.h>

#include "kube/client/informer.h"

static const char *read_text(const char *line, struct informer_message *out)
{
    return informer_message_read(line, strlen(line), out);
}

static void messages_are_read(void **state)
{
    struct informer_message m = { 0 };

    (void) state;
    assert_null(read_text(
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"7\"}}}", &m));
    assert_int_equal(m.kind, INFORMER_ADDED);
    assert_string_equal(m.version, "7");
    assert_string_equal(jsonr_text_at(m.object, "metadata.name"), "a");
    informer_message_done(&m);
    assert_null(read_text(
        "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"metadata\":{\"resourceVersion\":\"9\"}}}",
        &m));
    assert_int_equal(m.kind, INFORMER_BOOKMARK);
    informer_message_done(&m);
    assert_null(read_text(
        "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"message\":\"too old\"}}", &m));
    assert_int_equal(m.kind, INFORMER_ERROR);
    assert_int_equal(m.code, 410);
    informer_message_done(&m);
}

static void a_malformed_message_is_refused(void **state)
{
    static const char *const lines[] = {
        "{",
        "[]",
        "{\"type\":\"ADDED\"}",
        "{\"type\":\"NEW\",\"object\":{\"metadata\":{\"resourceVersion\":\"1\"}}}",
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{}}}",
        "{\"type\":\"ADDED\",\"object\":[]}",
        "null",
    };
    struct informer_message m = { 0 };

    (void) state;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_non_null(read_text(lines[i], &m));
    assert_null(m.doc);
}

static void a_nul_in_an_annotation_harms_nobody(void **state)
{
    struct informer_message m = { 0 };

    (void) state;
    assert_null(
        read_text("{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"1\",\"annotations\":"
                  "{\"a\":\"x\\u0000y\",\"b\":\"x\\\\u0000\"}}}}",
                  &m));
    assert_string_equal(jsonr_text_at(m.object, "metadata.annotations.a"), "x\xef\xbf\xbdy");
    assert_string_equal(jsonr_text_at(m.object, "metadata.annotations.b"), "x\\u0000");
    assert_string_equal(jsonr_text_at(m.object, "metadata.annotations.c"), "");
    informer_message_done(&m);
}

static void values_of_a_query_are_escaped(void **state)
{
    char out[16] = "";

    (void) state;
    assert_true(kubeapi_escape("a+/=~", out, sizeof out));
    assert_string_equal(out, "a%2B%2F%3D~");
    assert_false(kubeapi_escape("//////", out, sizeof out));
}

static void times_have_microseconds(void **state)
{
    char out[40] = "";

    (void) state;
    kubeapi_time(INT64_C(1769860800042), out);
    assert_string_equal(out, "2026-01-31T12:00:00.042000Z");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_read),
        cmocka_unit_test(a_malformed_message_is_refused),
        cmocka_unit_test(a_nul_in_an_annotation_harms_nobody),
        cmocka_unit_test(values_of_a_query_are_escaped),
        cmocka_unit_test(times_have_microseconds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
