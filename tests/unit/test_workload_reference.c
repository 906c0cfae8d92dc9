/* SPDX-License-Identifier: MIT */
/* References and variables as text. */
#include <string.h>

#include "support/t.h"
#include "workload/workload.h"

struct good {
    const char *text, *role, *component, *port;
    int instance, pod;
};

static void each_form_is_read(void **state)
{
    static const struct good cases[] = {
        { "api.http", "api", NULL, "http", -1, -1 },
        { "api[0].http", "api", NULL, "http", 0, -1 },
        { "api[4095].http", "api", NULL, "http", 4095, -1 },
        { "prefill.leader.grpc", "prefill", "leader", "grpc", -1, -1 },
        { "prefill[1].leader[2].grpc", "prefill", "leader", "grpc", 1, 2 },
        { "prefill.leader[10].grpc", "prefill", "leader", "grpc", -1, 10 },
        { "prefill[7].worker-0.grpc-port", "prefill", "worker-0", "grpc-port", 7, -1 },
    };
    AUTO(workload_free_auto) struct workload_group *group = workload_new();

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct good *c = &cases[i];
        struct workload_reference got = { .env = "KEPT", .place = { 3, 4 } };
        dibs_err err = { 0 };

        ASSERT_OK(workload_reference_parse(group, c->text, &got, &err), &err);
        assert_string_equal(got.role, c->role);
        assert_string_equal(got.port, c->port);
        assert_int_equal(got.component != NULL, c->component != NULL);
        if (c->component)
            assert_string_equal(got.component, c->component);
        assert_int_equal(got.instance, c->instance);
        assert_int_equal(got.pod, c->pod);
        assert_string_equal(got.env, "KEPT");
        assert_int_equal(got.place.column, 4);
    }
}

static void a_wrong_reference_says_what_is_wrong_and_the_form(void **state)
{
    static const char *const cases[][2] = {
        { "", "it is empty" },
        { "api", "only one part" },
        { "api.", "a part is empty" },
        { ".http", "a part is empty" },
        { "a..b", "a part is empty" },
        { "a.b.c.", "more than three parts" },
        { "a.b.c.d", "more than three parts" },
        { "[0].http", "a part is empty" },
        { "api[].http", "without leading zeros" },
        { "api[01].http", "without leading zeros" },
        { "api[-1].http", "a number in brackets" },
        { "api[x].http", "a number in brackets" },
        { "api[1.http", "a number in brackets" },
        { "api[1]x.http", "behind an index" },
        { "api[1][2].http", "behind an index" },
        { "api]1[.http", "']' has no '['" },
        { "api[4096].http", "too large" },
        { "api[99999999999999999999].http", "too large" },
        { "api.http[0]", "a port has no index" },
    };
    AUTO(workload_free_auto) struct workload_group *group = workload_new();

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct workload_reference got = { .role = "untouched" };
        dibs_err err = { 0 };

        assert_int_equal(workload_reference_parse(group, cases[i][0], &got, &err), DIBS_INVALID);
        if (!strstr(err.msg, cases[i][1]) || !strstr(err.msg, "ROLE.COMPONENT.PORT"))
            fail_msg("'%s': %s", cases[i][0], err.msg);
        assert_string_equal(got.role, "untouched");
    }
}

static void an_endless_reference_is_refused(void **state)
{
    AUTO(workload_free_auto) struct workload_group *group = workload_new();
    char text[5000] = "";
    struct workload_reference got = { 0 };
    dibs_err err = { 0 };

    (void) state;
    memset(text, 'a', sizeof text - 1);
    text[2] = '.';
    assert_int_equal(workload_reference_parse(group, text, &got, &err), DIBS_INVALID);
    assert_non_null(strstr(err.msg, "too long"));
}

static void a_variable_has_letters_digits_and_underscores(void **state)
{
    static const char *const good[] = { "A", "_", "PORT", "a9", "_9", "HTTP_PORT" };
    static const char *const bad[] = { "", "9", "9A", "A-B", "A.B", "A B", "A=", "\xc3\xa9", "A\n" };

    (void) state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(workload_is_env_name(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(workload_is_env_name(bad[i]));
}

static void a_port_without_a_variable_gets_one_that_fits(void **state)
{
    static const char *const cases[][2] = {
        { "http", "HTTP_PORT" },         { "web/http", "WEB_HTTP_PORT" }, { "9p", "_9P_PORT" },
        { "grpc-web", "GRPC_WEB_PORT" }, { "a b", "A_B_PORT" },           { "A9", "A9_PORT" },
    };
    char out[12];
    char name[300] = "";

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char env[64];

        workload_port_env(cases[i][0], env, sizeof env);
        assert_string_equal(env, cases[i][1]);
    }
    memset(name, 'x', sizeof name - 1);
    workload_port_env(name, out, sizeof out);
    assert_string_equal(out, "XXXXXX_PORT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_form_is_read),
        cmocka_unit_test(a_wrong_reference_says_what_is_wrong_and_the_form),
        cmocka_unit_test(an_endless_reference_is_refused),
        cmocka_unit_test(a_variable_has_letters_digits_and_underscores),
        cmocka_unit_test(a_port_without_a_variable_gets_one_that_fits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
