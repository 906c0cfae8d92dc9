/* SPDX-License-Identifier: MIT */
/* What a process says that it was told: its memory is its own, so it may say anything. */
#include "workload/told.h"

#include "support/workload.h"

#define NOW "7 web/0/- PORT=20001 API=20002,20003"

/* "PORT:20001>20005 OLD:1>" for what is different; "": nothing. */
static void compare(const char *was, const char *now, char *out, size_t size)
{
    struct workload_restart r = { .was = strdup(was), .now = strdup(now) };
    size_t used = 0;

    assert_true(r.was && r.now);
    out[0] = '\0';
    if (told_compare(&r)) {
        assert_true(r.n > 0);
        for (size_t i = 0; i < r.n; i++)
            used += (size_t) snprintf(out + used, size - used, "%s%s:%s>%s", i ? " " : "", r.all[i].variable,
                                      r.all[i].was ? r.all[i].was : "", r.all[i].now ? r.all[i].now : "");
    }
    told_free(&r);
}

static void differences_are_found_by_variable_whatever_their_order(void **state)
{
    static const struct {
        const char *was, *now, *differs;
    } rows[] = {
        { NOW, NOW, "" },
        { "7 web/0/- API=20002,20003 PORT=20001", NOW, "" },
        { "7 web/0/- PORT=20005 API=20002,20003", NOW, "PORT:20005>20001" },
        { "7 web/0/- PORT=20001 API=20002", NOW, "API:20002>20002,20003" },
        { "7 web/0/- PORT=20001 BACK=20002", NOW, "API:>20002,20003 BACK:20002>" },
        { "7 web/0/-", NOW, "PORT:>20001 API:>20002,20003" },
        { NOW, "7 web/0/-", "PORT:20001> API:20002,20003>" },
        { "7 web/0/-", "7 web/0/-", "" },
    };
    char text[256];

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        compare(rows[i].was, rows[i].now, text, sizeof text);
        assert_string_equal(text, rows[i].differs);
    }
}

static void what_is_another_s_or_no_such_text_is_not_compared(void **state)
{
    static const char *const rows[] = {
        "",
        " ",
        "7",
        "7 ",
        "8 web/0/- PORT=1", /* inherited from a parent */
        "77 web/0/- PORT=1",
        "7 web/1/- PORT=1",
        "7 web/0/-x PORT=1",
        "7 web/0/-PORT=1",
        "7 web/0/- PORT",
        "7 web/0/- PORT=",
        "7 web/0/- =1",
        "7 web/0/- PORT=1x",
        "7 web/0/- PORT=\x1b[31m",
        "7 web/0/- PO-RT=1",
        "7 web/0/- 9=1",
        "nginx: master process",
    };
    char text[256];

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        compare(rows[i], NOW, text, sizeof text);
        assert_string_equal(text, "");
    }
}

static void a_text_that_is_too_long_for_a_variable_is_none(void **state)
{
    struct world *w = *state;
    struct workload_component *component = add_role(w->group, "web", 1, WORKLOAD_PORTS_MAX)->components;
    struct workload_pod pod = { .role = w->group->roles, .component = component };
    AUTO(free_auto) struct workload_value *values = calloc(WORKLOAD_PORTS_MAX, sizeof *values);

    assert_non_null(values);
    for (size_t i = 0; i < WORKLOAD_PORTS_MAX; i++) {
        values[i].env = "A";
        values[i].first = 1;
        (void) snprintf(values[i].text, sizeof values[i].text, "%0500d", 1);
    }
    AUTO(free_auto) char *fits = workload_told_text(w->group, &pod, values, 7);
    assert_non_null(fits);
    for (size_t i = 0; i < WORKLOAD_PORTS_MAX; i++)
        values[i].env = "A_NAME_THAT_IS_LONGER";
    assert_null(workload_told_text(w->group, &pod, values, 7));
}

static void the_first_port_is_port_unless_another_is_and_pods_of_many_have_numbers(void **state)
{
    struct world *w = *state;
    struct workload_component *component = add_role(w->group, "web", 1, 2)->components;
    struct workload_pod pod = { .role = w->group->roles, .component = component };
    struct workload_value values[] = { { .env = "FIRST", .first = 20001, .text = "20001" },
                                       { .env = "SECOND", .first = 20002, .text = "20002" } };

    AUTO(free_auto) char *text = workload_told_text(w->group, &pod, values, 7);
    assert_string_equal(text, "7 web/0/- PORT=20001 FIRST=20001 SECOND=20002");
    values[1].env = "PORT";
    component->name = "a b";
    component->size = 2;
    pod.id = 1;
    AUTO(free_auto) char *other = workload_told_text(w->group, &pod, values, 7);
    assert_string_equal(other, "7 web/0/a%20b.1 DIBS_POD=1 FIRST=20001 PORT=20002");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(differences_are_found_by_variable_whatever_their_order),
        T(what_is_another_s_or_no_such_text_is_not_compared),
        T(a_text_that_is_too_long_for_a_variable_is_none),
        T(the_first_port_is_port_unless_another_is_and_pods_of_many_have_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
