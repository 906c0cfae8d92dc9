/* SPDX-License-Identifier: MIT */
#include "dibs/net.h"
#include "support/t.h"

struct row {
    uint32_t size;
    uint32_t band;
};

static void check_rows(const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t band = dibs_band_size(rows[i].size);

        if (band != rows[i].band)
            fail_msg("size %u: band %u, not %u", rows[i].size, band, rows[i].band);
    }
}

static void every_row_of_the_band_table_holds(void **state)
{
    static const struct row rows[] = {
        { 2768, 86 }, { 12768, 128 }, { 201, 16 },   { 16, 0 },     { 17, 16 },     { 129, 16 },
        { 543, 16 },  { 544, 17 },    { 4095, 127 }, { 4096, 128 }, { 65536, 128 },
    };

    (void) state;
    check_rows(rows, sizeof rows / sizeof *rows);
}

static void kubernetes_case_21_band_sizes(void **state)
{
    static const struct row rows[] = {
        { 2768, 86 }, { 10, 0 }, { 16, 0 }, { 128, 16 }, { 2048, 64 }, { 4096, 128 }, { 8192, 128 },
    };

    (void) state;
    check_rows(rows, sizeof rows / sizeof *rows);
}

static void edges_have_a_band_that_leaves_ports(void **state)
{
    static const struct row rows[] = { { 0, 0 }, { 1, 0 }, { 65535, 128 }, { UINT32_MAX, 128 } };

    (void) state;
    check_rows(rows, sizeof rows / sizeof *rows);
    for (uint32_t size = 1; size <= 65536; size++)
        assert_true(dibs_band_size(size) < size);
}

static void the_first_dynamic_port_of_each_table_range_is_the_stated_one(void **state)
{
    static const struct {
        const char *range;
        uint16_t first_dynamic;
    } rows[] = { { "30000-32767", 30086 }, { "20000-32767", 20128 }, { "32567-32767", 32583 },
                 { "30000-30015", 30000 }, { "30000-30016", 30016 }, { "30000-30128", 30016 } };
    dibs_err err = { 0 };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dibs_ranges ranges = { .n = 0 };

        ASSERT_OK(dibs_ranges_parse(rows[i].range, &ranges, &err), &err);
        assert_int_equal(dibs_ranges_at(&ranges, dibs_band_size(dibs_ranges_count(&ranges))),
                         rows[i].first_dynamic);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_of_the_band_table_holds),
        cmocka_unit_test(kubernetes_case_21_band_sizes),
        cmocka_unit_test(edges_have_a_band_that_leaves_ports),
        cmocka_unit_test(the_first_dynamic_port_of_each_table_range_is_the_stated_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
