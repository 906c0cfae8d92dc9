/* SPDX-License-Identifier: MIT */
#include "base/clock.h"

#include <string.h>
#include <time.h>

#include "support/t.h"

static void a_duration_is_digits_and_a_unit(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } rows[] = {
        { "0s", 0 },
        { "0ms", 0 },
        { "1ms", 1 },
        { "500ms", 500 },
        { "10s", 10000 },
        { "5m", 300000 },
        { "2h", 7200000 },
        { "7d", 604800000 },
        { "007s", 7000 },
        { "9223372036854775807ms", INT64_MAX },
        { "106751991167d", 9223372036828800000 },
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_true(clock_duration_parse(rows[i].text, INT64_MAX) == rows[i].ms);
}

static void anything_else_is_no_duration(void **state)
{
    static const char *const bad[] = {
        "",
        "s",
        "ms",
        "10",
        "0",
        " 1s",
        "1s ",
        "1 s",
        "+1s",
        "-1s",
        "1S",
        "1sec",
        "1.5s",
        "1h30m",
        "1w",
        "1us",
        "0x1s",
        "9223372036854775808ms",
        "99999999999999999999s",
        "9223372036854775807s",
        "106751991168d",
        "1s\n",
    };

    (void) state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_true(clock_duration_parse(bad[i], INT64_MAX) == -1);
    assert_true(clock_duration_parse(NULL, INT64_MAX) == -1);
}

static void a_duration_over_the_limit_is_refused_and_the_limit_itself_is_not(void **state)
{
    (void) state;
    assert_true(clock_duration_parse("10s", 10000) == 10000);
    assert_true(clock_duration_parse("10001ms", 10000) == -1);
    assert_true(clock_duration_parse("11s", 10000) == -1);
}

static void durations_are_written_in_the_largest_exact_unit_and_read_back(void **state)
{
    static const struct {
        int64_t ms;
        const char *text;
    } rows[] = {
        { 0, "0s" },         { 1, "1ms" },
        { 999, "999ms" },    { 1000, "1s" },
        { 1500, "1500ms" },  { 60000, "1m" },
        { 90000, "90s" },    { 600000, "10m" },
        { 3600000, "1h" },   { 5400000, "90m" },
        { 86400000, "1d" },  { 90000000, "25h" },
        { 604800000, "7d" }, { INT64_MAX, "9223372036854775807ms" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[24];

        clock_duration_format(rows[i].ms, text);
        assert_string_equal(text, rows[i].text);
        assert_true(clock_duration_parse(text, INT64_MAX) == rows[i].ms);
    }
}

static void now_is_now_and_the_offset_of_a_time_namespace_is_taken_off(void **state)
{
    struct instant plain = clock_now(0);
    struct instant shifted = clock_now(5000000000);
    struct instant back = clock_now(-5000000000);

    (void) state;
    assert_in_range(plain.wall_ms / 1000 - time(NULL) + 2, 0, 4);
    assert_in_range(plain.boot_ms - shifted.boot_ms, 4000, 5000);
    assert_in_range(back.boot_ms - plain.boot_ms, 5000, 6000);
}

static int64_t kernel_ns(void)
{
    struct timespec now = { 0 };

    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    return (int64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}

static void the_clocks_do_not_run_backwards(void **state)
{
    int64_t monotonic = clock_monotonic_ms();
    int64_t boot = clock_now(0).boot_ms;
    int64_t end_ns = kernel_ns() + 20000000;

    (void) state;
    while (kernel_ns() < end_ns)
        ;
    assert_in_range(clock_monotonic_ms() - monotonic, 20, 5000);
    assert_in_range(clock_now(0).boot_ms - boot, 19, 5000);
}

static void a_wall_time_is_written_in_utc(void **state)
{
    static const struct {
        int64_t ms;
        const char *text;
    } rows[] = {
        { 1, "1970-01-01T00:00:00Z" },
        { 951827696789, "2000-02-29T12:34:56Z" },
        { 1767225600000, "2026-01-01T00:00:00Z" },
        { 253402300799999, "9999-12-31T23:59:59Z" },
        { 253402300800000, "-" },
        { INT64_MAX, "-" },
        { 0, "-" },
        { -1, "-" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[32];

        clock_wall_format(rows[i].ms, text);
        assert_string_equal(text, rows[i].text);
        assert_true(clock_wall_parse(text) == (strcmp(text, "-") == 0 ? 0 : rows[i].ms / 1000 * 1000));
    }
    assert_true(clock_wall_parse("") == 0 && clock_wall_parse("2026-01-31T12:00:00Zx") == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_duration_is_digits_and_a_unit),
        cmocka_unit_test(anything_else_is_no_duration),
        cmocka_unit_test(a_duration_over_the_limit_is_refused_and_the_limit_itself_is_not),
        cmocka_unit_test(durations_are_written_in_the_largest_exact_unit_and_read_back),
        cmocka_unit_test(now_is_now_and_the_offset_of_a_time_namespace_is_taken_off),
        cmocka_unit_test(the_clocks_do_not_run_backwards),
        cmocka_unit_test(a_wall_time_is_written_in_utc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
