/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "http/request_target.h"
#include "support/t.h"

static const struct {
    const char *text;
    const char *path; /* NULL: refused */
    const char *query;
} cases[] = {
    { "/", "/", "" },
    { "/v1/claims?name=web&port=1", "/v1/claims", "name=web;port=1;" },
    { "/a%20b%2Fc%c3%a9", "/a b/c\xc3\xa9", "" },
    { "/a+b?c+d=e+f%2B", "/a+b", "c d=e f+;" },
    { "/?", "/", "" },
    { "/?&&a&=b&c==d&", "/", "a=;=b;c==d;" },
    { "/?a=1&a=2", "/", "a=1;a=2;" },
    { "/?a=b?c/d", "/", "a=b?c/d;" },
    { "/?line=%0a", "/", "line=\n;" },
    { "http://host/v1?x=1", "/v1", "x=1;" },
    { "HTTPS://user@[::1]:443/v1", "/v1", "" },
    { "http://host", "/", "" },
    { "http://host?x=1", "/", "x=1;" },
    { "http://", "/", "" },
    { "http://?", "/", "" },
    { "//two", "//two", "" },
    { "", NULL, NULL },
    { "*", NULL, NULL },
    { "v1", NULL, NULL },
    { "host:80", NULL, NULL },
    { "ftp://host/", NULL, NULL },
    { "/%", NULL, NULL },
    { "/%4", NULL, NULL },
    { "/%4g", NULL, NULL },
    { "/%g4", NULL, NULL },
    { "/%00", NULL, NULL },
    { "/%0a", NULL, NULL },
    { "/%7f", NULL, NULL },
    { "/a\tb", NULL, NULL },
    { "/a b", NULL, NULL },
    { "/\x7f", NULL, NULL },
    { "/a#b", NULL, NULL },
    { "/?a=%", NULL, NULL },
    { "/?%zz", NULL, NULL },
    { "/?a=%00", NULL, NULL },
};

static void every_target_is_taken_apart_or_refused(void **state)
{
    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct request_target target = { 0 };
        char text[200] = "";
        char query[200] = "";

        (void) snprintf(text, sizeof text, "%s", cases[i].text);
        const char *trouble = request_target_parse(text, &target);
        if (!cases[i].path) {
            if (!trouble)
                fail_msg("'%s' was taken", cases[i].text);
            continue;
        }
        if (trouble)
            fail_msg("'%s': %s", cases[i].text, trouble);
        assert_string_equal(target.path, cases[i].path);
        for (size_t k = 0; k < target.n_query; k++)
            (void) snprintf(query + strlen(query), sizeof query - strlen(query), "%s=%s;",
                            target.query[k].key, target.query[k].value);
        assert_string_equal(query, cases[i].query);
    }
}

static void parameters_have_a_bound(void **state)
{
    struct request_target target = { 0 };
    char text[2 + 2 * (HTTP_QUERY_MAX + 1) + 1] = "/?";

    (void) state;
    for (int i = 0; i < HTTP_QUERY_MAX; i++)
        memcpy(text + 2 + 2 * i, "a&", 3);
    assert_null(request_target_parse(text, &target));
    assert_int_equal(target.n_query, HTTP_QUERY_MAX);
    memcpy(text, "/?", 2);
    for (int i = 0; i <= HTTP_QUERY_MAX; i++)
        memcpy(text + 2 + 2 * i, "a&", 3);
    assert_non_null(request_target_parse(text, &target));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_target_is_taken_apart_or_refused),
        cmocka_unit_test(parameters_have_a_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
