/* SPDX-License-Identifier: MIT */
/* The variables that a claim records of its process. Any program may have written the record. */
#include "workload/restarts.h"

#include "support/workload.h"

#define NOW "PORT=20001 API=20002,20003"

/* "PORT:20001>20005 OLD:1>" for what is different; "": nothing. */
static void compare(const char *was, const char *now, char *out, size_t size)
{
    struct workload_restart r = { .was = strdup(was), .now = strdup(now) };
    size_t used = 0;

    assert_true(r.was && r.now);
    out[0] = '\0';
    restart_compare(&r);
    for (size_t i = 0; i < r.n; i++)
        used += (size_t) snprintf(out + used, size - used, "%s%s:%s>%s", i ? " " : "", r.all[i].variable,
                                  r.all[i].was ? r.all[i].was : "", r.all[i].now ? r.all[i].now : "");
    restart_free(&r);
}

static void differences_are_found_by_variable_whatever_their_order(void **state)
{
    static const struct {
        const char *was, *now, *differs;
    } rows[] = {
        { NOW, NOW, "" },
        { "API=20002,20003 PORT=20001", NOW, "" },
        { "PORT=20005 API=20002,20003", NOW, "PORT:20005>20001" },
        { "PORT=20001 API=20002", NOW, "API:20002>20002,20003" },
        { "PORT=20001 BACK=20002", NOW, "API:>20002,20003 BACK:20002>" },
        { "", NOW, "PORT:>20001 API:>20002,20003" },
        { NOW, "", "PORT:20001> API:20002,20003>" },
        { "", "", "" },
        { "URL=~0123abcd PORT=1", "PORT=1 URL=~0123abcd", "" },
        { "URL=~0123abcd", "URL=~0123abce", "URL:another text>~0123abce" },
        { "URL=20001", "URL=~0123abce", "URL:20001>~0123abce" },
    };
    char text[256];

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        compare(rows[i].was, rows[i].now, text, sizeof text);
        assert_string_equal(text, rows[i].differs);
    }
}

static void a_text_of_another_form_is_not_compared(void **state)
{
    static const char *const rows[] = {
        "PORT",          "PORT=",       "=1",           "PORT=1x",
        "PORT=\x1b[31m", "PO-RT=1",     "9=1",          "nginx: master process",
        "A=~0123abc",    "A=~0123abcg", "A=~0123abcde",
    };
    char text[256];

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        compare(rows[i], NOW, text, sizeof text);
        assert_string_equal(text, "");
    }
}

static void the_first_port_is_port_unless_another_is_and_pods_of_many_have_numbers(void **state)
{
    struct world *w = *state;
    struct workload_component *component = add_role(w->group, "web", 1, 2)->components;
    struct workload_pod pod = { .role = w->group->roles, .component = component };
    struct workload_value values[] = { { .env = "FIRST", .first = 20001, .text = "20001" },
                                       { .env = "SECOND", .first = 20002, .text = "20002" } };

    AUTO(free_auto) char *text = workload_env_text(w->group, &pod, values);
    assert_string_equal(text, "PORT=20001 FIRST=20001 SECOND=20002");
    values[1].env = "PORT";
    component->name = "a b";
    component->size = 2;
    pod.id = 1;
    AUTO(free_auto) char *other = workload_env_text(w->group, &pod, values);
    assert_string_equal(other, "DIBS_POD=1 FIRST=20001 PORT=20002");
}

static void a_record_has_numbers_and_no_other_text(void **state)
{
    struct world *w = *state;
    struct workload_component *component = add_role(w->group, "web", 1, 1)->components;
    struct workload_pod pod = { .role = w->group->roles, .component = component };
    struct workload_value values[] = { { .env = "PORT", .first = 20001, .text = "20001" },
                                       { .env = "URL", .text = "http://me:secret@localhost" },
                                       { .env = "N", .text = "5" },
                                       { .env = "EMPTY", .text = "" } };
    struct workload_variable texts[3] = { { .env = "URL" }, { .env = "N" }, { .env = "EMPTY" } };

    component->variables = texts;
    component->n_variables = 3;
    AUTO(free_auto) char *text = workload_env_text(w->group, &pod, values);
    assert_non_null(text);
    assert_null(strstr(text, "secret"));
    assert_memory_equal(text, "PORT=20001 URL=~", 16);
    assert_non_null(strstr(text, " N=5 EMPTY=~84222325"));
    AUTO(restart_free) struct workload_restart r = { .was = strdup("URL=~00000000"), .now = strdup(text) };
    restart_compare(&r);
    restart_set_texts(&r, w->group, &pod, values);
    assert_int_equal(r.n, 4);
    assert_string_equal(r.all[1].was, "another text");
    assert_string_equal(r.all[1].now, "http://me:secret@localhost");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(differences_are_found_by_variable_whatever_their_order),
        T(a_text_of_another_form_is_not_compared),
        T(a_record_has_numbers_and_no_other_text),
        T(the_first_port_is_port_unless_another_is_and_pods_of_many_have_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
