/* SPDX-License-Identifier: MIT */
/* Parts of a workload as a person types them. */
#include <string.h>

#include "support/t.h"
#include "workload/manifest.h"
#include "workload/workload.h"

static const char text[] =
    "roles:\n"
    "  web:\n"
    "    instances: 2\n"
    "    ports: [ http, { name: gossip, scope: RoleScoped }, { name: data, count: 2 } ]\n"
    "  a:\n"
    "    instances: 2\n"
    "    components:\n"
    "      - { name: l, ports: [ h, { name: s, scope: RoleScoped } ] }\n"
    "      - { name: w, size: 2, ports: [ h ] }\n"
    "  pre fill: { ports: [ http ] }\n";

static int make(void **state)
{
    struct workload_group *group = NULL;

    if (workload_manifest_parse("dibs.yaml", text, strlen(text), &group, NULL) != DIBS_OK)
        return -1;
    (void) strncpy(group->group, "shop", sizeof group->group - 1);
    *state = group;
    return 0;
}

static int unmake(void **state)
{
    workload_free(*state);
    return 0;
}

static void every_form_of_a_port_is_understood(void **state)
{
    static const char *const cases[][2] = {
        { "web/http", "shop/web/0/-/http" },
        { "web/1/http", "shop/web/1/-/http" },
        { "web/1/-/http", "shop/web/1/-/http" },
        { "web/gossip", "shop/web/-/-/gossip" },
        { "web/-/gossip", "shop/web/-/-/gossip" },
        { "web/-/-/gossip", "shop/web/-/-/gossip" },
        { "web/1/data.1", "shop/web/1/-/data.1" },
        { "a/l/h", "shop/a/0/l/h" },
        { "a/l/s", "shop/a/-/l/s" },
        { "a/-/l/s", "shop/a/-/l/s" },
        { "a/1/l/h", "shop/a/1/l/h" },
        { "a/1/l/0/h", "shop/a/1/l/h" },
        { "a/1/w/h", "shop/a/1/w/h" },
        { "a/1/w/0/h", "shop/a/1/w/h" },
        { "a/1/w/1/h", "shop/a/1/w.1/h" },
        { "a/1/w.1/h", "shop/a/1/w.1/h" },
        { "a/w/h", "shop/a/0/w/h" },
        { "a/w.1/h", "shop/a/0/w.1/h" },
        { "pre fill/http", "shop/pre%20fill/0/-/http" },
        { "pre%20fill/0/http", "shop/pre%20fill/0/-/http" },
        { "web.http", "shop/web/0/-/http" },
        { "web[1].http", "shop/web/1/-/http" },
        { "web.gossip", "shop/web/-/-/gossip" },
        { "web[1].gossip", "shop/web/-/-/gossip" },
        { "a.l.h", "shop/a/0/l/h" },
        { "a[1].w[1].h", "shop/a/1/w.1/h" },
        { "a.w[1].h", "shop/a/0/w.1/h" },
        { "pre fill.http", "shop/pre%20fill/0/-/http" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct workload_need need = { 0 };
        dibs_err err = { 0 };

        ASSERT_OK(workload_need_parse(*state, cases[i][0], &need, NULL, &err), &err);
        assert_string_equal(need.name, cases[i][1]);
    }
}

static void a_misspelt_port_is_reported_with_the_nearest_name(void **state)
{
    static const char *const cases[][2] = {
        { "web/htp", "did you mean 'web/http'?" },
        { "wbe/http", "did you mean 'web/http'?" },
        { "web/2/http", "did you mean 'web/0/http'?" },
        { "web/1/gossip", "did you mean 'web/-/gossip'?" },
        { "a/1/w/2/h", "did you mean 'a/1/w/0/h'?" },
        { "a/1/w/1/x", "did you mean 'a/1/w/1/h'?" },
        { "a/1/l/0/s", "did you mean 'a/1/l/0/h'?" },
        { "a/x/h", "did you mean 'a/l/h'?" },
        { "web", "; there are: web/-/gossip, web/0/http, web/0/data, web/0/data.1, web/1/http, web/1/data, "
                 "web/1/data.1" },
        { "web/", "web/1/data.1" },
        { "h", "; there are: a/0/l/h, a/1/l/h, a/0/w/h, a/0/w.1/h, a/1/w/h, a/1/w.1/h" },
        { "web[2].http", "did you mean 'web/0/http'?" },
        { "web[2].gossip", "did you mean 'web/-/gossip'?" },
        { "wbe.http", "did you mean 'web/http'?" },
        { "a.w[2].h", "did you mean 'a/0/w/0/h'?" },
        { "nothing/of/the/kind", "dibs.yaml has no port 'nothing/of/the/kind'" },
        { "a/1/w/1/h/h", "did you mean 'a/1/w/1/h'?" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct workload_need need = { .number = 7 };
        dibs_err err = { 0 };
        size_t len = strlen(cases[i][1]);

        assert_int_equal(workload_need_parse(*state, cases[i][0], &need, NULL, &err), DIBS_NOT_FOUND);
        if (strlen(err.msg) < len || strcmp(err.msg + strlen(err.msg) - len, cases[i][1]) != 0)
            fail_msg("%s: got '%s', expected at its end: %s", cases[i][0], err.msg, cases[i][1]);
        assert_int_equal(need.number, 7);
        assert_int_equal(workload_need_parse(*state, cases[i][0], &need, NULL, NULL), DIBS_NOT_FOUND);
    }
}

static void only_what_looks_like_a_port_of_the_group_is_said_to(void **state)
{
    static const struct {
        const char *text;
        bool is_like;
    } cases[] = {
        { "web", true },       { "http", true },         { "pre%20fill", true }, { "web/x", true },
        { "web.x", true },     { "web[7]", false },      { "wbe/http", true },   { "wb/0/http", true },
        { "webb/http", true }, { "wbe.http", true },     { "wx/http", false },   { "wbe", false },
        { "web2", false },     { "cache", false },       { "htp", false },       { "x/y/z/t", false },
        { "db/http2", false }, { "example.com", false }, { "1.2.3", false },     { "nothing/http", false },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct workload_need need = { 0 };
        bool is_like = !cases[i].is_like;
        dibs_err err = { 0 };

        assert_int_equal(workload_need_parse(*state, cases[i].text, &need, &is_like, &err), DIBS_NOT_FOUND);
        if (is_like != cases[i].is_like)
            fail_msg("%s: %d, %s", cases[i].text, is_like, err.msg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_a_port_is_understood),
        cmocka_unit_test(a_misspelt_port_is_reported_with_the_nearest_name),
        cmocka_unit_test(only_what_looks_like_a_port_of_the_group_is_said_to),
    };

    return cmocka_run_group_tests(tests, make, unmake);
}
