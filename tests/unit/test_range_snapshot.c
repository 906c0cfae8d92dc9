/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "net/range_snapshot.h"
#include "support/t.h"

struct row {
    uint16_t offset[2];
    size_t n_offsets;
    uint8_t bytes[16];
    size_t n;
};

static void every_stated_set_has_its_stated_bytes(void **state)
{
    static const struct row rows[] = {
        { { 0 }, 0, { 0 }, 0 },
        { { 3 }, 1, { 0x08 }, 1 },
        { { 0, 8 }, 2, { 0x01, 0x01 }, 2 },
        { { 3, 9 }, 2, { 0x02, 0x08 }, 2 },
        { { 127 }, 1, { 0x80 }, 16 },
    };
    static const dibs_range range = { 30000, 32767 };
    dibs_err err = { 0 };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static uint8_t bytes[RANGE_SNAPSHOT_BYTES_MAX];
        struct portbits taken = { 0 };
        struct portbits back = { 0 };
        dibs_range back_range = { 0 };
        size_t n = 999;

        for (size_t k = 0; k < rows[i].n_offsets; k++)
            portbits_add(&taken, (uint16_t) (range.first + rows[i].offset[k]));
        range_snapshot_export(range, &taken, bytes, &n);
        assert_int_equal(n, rows[i].n);
        assert_memory_equal(bytes, rows[i].bytes, n);
        ASSERT_OK(range_snapshot_import("30000-32767", bytes, n, &back_range, &back, &err), &err);
        assert_memory_equal(&back, &taken, sizeof taken);
        assert_int_equal(back_range.first, 30000);
        assert_int_equal(back_range.last, 32767);
    }
}

static void only_ports_inside_the_range_are_exported(void **state)
{
    struct portbits taken = { 0 };
    uint8_t bytes[RANGE_SNAPSHOT_BYTES_MAX] = { 0 };
    size_t n = 0;

    (void) state;
    portbits_add(&taken, 99);
    portbits_add(&taken, 100);
    portbits_add(&taken, 200);
    portbits_add(&taken, 201);
    range_snapshot_export((dibs_range){ 100, 200 }, &taken, bytes, &n);
    assert_int_equal(n, 13);
    assert_int_equal(bytes[0], 0x10); /* offset 100 is bit 4 of byte 12 */
    assert_int_equal(bytes[12], 0x01);
}

static void the_whole_port_space_goes_there_and_back(void **state)
{
    static struct portbits all;
    static struct portbits back;
    static uint8_t bytes[RANGE_SNAPSHOT_BYTES_MAX];
    dibs_range range = { 0 };
    dibs_err err = { 0 };
    size_t n = 0;

    (void) state;
    portbits_add_range(&all, (dibs_range){ 1, 65535 });
    range_snapshot_export((dibs_range){ 1, 65535 }, &all, bytes, &n);
    assert_int_equal(n, RANGE_SNAPSHOT_BYTES_MAX);
    assert_int_equal(bytes[0], 0x7f);
    ASSERT_OK(range_snapshot_import("1-65535", bytes, n, &range, &back, &err), &err);
    assert_memory_equal(&back, &all, sizeof all);
    bytes[0] = 0xff; /* port 65536 */
    assert_int_equal(range_snapshot_import("1-65535", bytes, n, &range, &back, &err), DIBS_INVALID);
}

static void leading_zero_bytes_are_accepted(void **state)
{
    static uint8_t bytes[2 * RANGE_SNAPSHOT_BYTES_MAX];
    struct portbits taken = { 0 };
    dibs_range range = { 0 };
    dibs_err err = { 0 };

    (void) state;
    bytes[sizeof bytes - 1] = 0x08;
    ASSERT_OK(range_snapshot_import("10-20", bytes, sizeof bytes, &range, &taken, &err), &err);
    assert_int_equal(portbits_count(&taken), 1);
    assert_true(portbits_has(&taken, 13));
    ASSERT_OK(range_snapshot_import("10-20", NULL, 0, &range, &taken, &err), &err);
    assert_int_equal(portbits_count(&taken), 0);
}

static void a_bit_outside_the_range_is_refused(void **state)
{
    static const uint8_t last[] = { 0x04, 0x00 };             /* offset 10: port 20 */
    static const uint8_t beyond[] = { 0x08, 0x00 };           /* offset 11: port 21 */
    static uint8_t far[3 * RANGE_SNAPSHOT_BYTES_MAX] = { 1 }; /* would wrap in 16 bits */
    struct portbits taken = { 0 };
    struct portbits before = { 0 };
    dibs_range range = { 0 };
    dibs_err err = { 0 };

    (void) state;
    ASSERT_OK(range_snapshot_import("10-20", last, sizeof last, &range, &taken, &err), &err);
    assert_true(portbits_has(&taken, 20));
    before = taken;
    assert_int_equal(range_snapshot_import("10-20", beyond, sizeof beyond, &range, &taken, &err),
                     DIBS_INVALID);
    assert_string_equal(err.msg, "snapshot: bit 11 lies outside the range 10-20");
    assert_int_equal(range_snapshot_import("10-21", far, sizeof far, &range, &taken, &err), DIBS_INVALID);
    assert_memory_equal(&taken, &before, sizeof taken); /* replaced only on success */
    assert_int_equal(range.last, 20);
}

static void a_text_that_is_not_one_range_is_refused(void **state)
{
    static const char *const texts[] = { "", "10-20,30-40", "10-20,21-30", "0-10", "20-10", "a", "10-20," };
    static const uint8_t bytes[] = { 0x01 };
    struct portbits taken = { 0 };
    dibs_range range = { 7, 8 };

    (void) state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        dibs_err err = { 0 };

        if (range_snapshot_import(texts[i], bytes, 1, &range, &taken, &err) != DIBS_INVALID)
            fail_msg("'%s' was taken for a range", texts[i]);
        assert_non_null(strstr(err.msg, "snapshot"));
        assert_int_equal(range.first, 7);
        assert_int_equal(portbits_count(&taken), 0);
    }
    assert_int_equal(range_snapshot_import(NULL, bytes, 1, &range, &taken, NULL), DIBS_INVALID);
}

static void an_oversized_snapshot_is_refused_unread(void **state)
{
    static uint8_t bytes[DIBS_INPUT_MAX_BYTES + 1]; /* untouched, so it costs no memory */
    struct portbits taken = { 0 };
    dibs_range range = { 0 };

    (void) state;
    assert_int_equal(range_snapshot_import("10-20", bytes, sizeof bytes, &range, &taken, NULL), DIBS_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stated_set_has_its_stated_bytes),
        cmocka_unit_test(only_ports_inside_the_range_are_exported),
        cmocka_unit_test(the_whole_port_space_goes_there_and_back),
        cmocka_unit_test(leading_zero_bytes_are_accepted),
        cmocka_unit_test(a_bit_outside_the_range_is_refused),
        cmocka_unit_test(a_text_that_is_not_one_range_is_refused),
        cmocka_unit_test(an_oversized_snapshot_is_refused_unread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
