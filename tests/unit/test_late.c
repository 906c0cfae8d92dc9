/* SPDX-License-Identifier: MIT */
#include <jansson.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/late.h"
#include "support/t.h"

static struct {
    json_t *(*json_object)(void);
    int (*no_such_function)(void);
} table;

static void a_library_that_could_not_be_opened_is_tried_again(void **state)
{
    static const struct late_symbol symbols[] = { LATE_SYMBOL(table, json_object) };
    static struct late_library library = { .name = "libjansson.so.4",
                                           .what = "reads JSON",
                                           LATE_SYMBOLS(symbols) };
    struct rlimit was;
    dibs_err err = { 0 };

    (void) state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    int next = dup(STDERR_FILENO);
    assert_true(next >= 0);
    (void) close(next);
    struct rlimit low = { .rlim_cur = (rlim_t) next, .rlim_max = was.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    dibs_status s = late_need(&library, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    assert_int_equal(s, DIBS_FAILURE);
    assert_non_null(strstr(err.msg, "cannot load libjansson.so.4, which reads JSON: "));
    ASSERT_OK(late_need(&library, &err), &err);
    assert_non_null(table.json_object);
}

static void a_function_that_is_not_there_is_named(void **state)
{
    static const struct late_symbol symbols[] = { LATE_SYMBOL(table, no_such_function) };
    static struct late_library library = { .name = "libjansson.so.4",
                                           .what = "reads JSON",
                                           LATE_SYMBOLS(symbols) };
    dibs_err err = { 0 };

    (void) state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(late_need(&library, &err), DIBS_FAILURE);
        assert_non_null(strstr(err.msg, "it has no function no_such_function"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_library_that_could_not_be_opened_is_tried_again),
        cmocka_unit_test(a_function_that_is_not_there_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
