/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "index/index.h"
#include "index/snapshot.h"
#include "net/scan.h"
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
        static uint8_t bytes[SNAPSHOT_BYTES_MAX];
        struct portbits taken = { 0 };
        struct portbits back = { 0 };
        dibs_range back_range = { 0 };
        size_t n = 999;

        for (size_t k = 0; k < rows[i].n_offsets; k++)
            portbits_add(&taken, (uint16_t) (range.first + rows[i].offset[k]));
        snapshot_export(range, &taken, bytes, &n);
        assert_int_equal(n, rows[i].n);
        assert_memory_equal(bytes, rows[i].bytes, n);
        ASSERT_OK(snapshot_import("30000-32767", bytes, n, &back_range, &back, &err), &err);
        assert_memory_equal(&back, &taken, sizeof taken);
        assert_int_equal(back_range.first, 30000);
        assert_int_equal(back_range.last, 32767);
    }
}

static void only_ports_inside_the_range_are_exported(void **state)
{
    struct portbits taken = { 0 };
    uint8_t bytes[SNAPSHOT_BYTES_MAX] = { 0 };
    size_t n = 0;

    (void) state;
    portbits_add(&taken, 99);
    portbits_add(&taken, 100);
    portbits_add(&taken, 200);
    portbits_add(&taken, 201);
    snapshot_export((dibs_range){ 100, 200 }, &taken, bytes, &n);
    assert_int_equal(n, 13);
    assert_int_equal(bytes[0], 0x10); /* offset 100 is bit 4 of byte 12 */
    assert_int_equal(bytes[12], 0x01);
}

static void the_whole_port_space_goes_there_and_back(void **state)
{
    static struct portbits all;
    static struct portbits back;
    static uint8_t bytes[SNAPSHOT_BYTES_MAX];
    dibs_range range = { 0 };
    dibs_err err = { 0 };
    size_t n = 0;

    (void) state;
    portbits_add_range(&all, (dibs_range){ 1, 65535 });
    snapshot_export((dibs_range){ 1, 65535 }, &all, bytes, &n);
    assert_int_equal(n, SNAPSHOT_BYTES_MAX);
    assert_int_equal(bytes[0], 0x7f);
    ASSERT_OK(snapshot_import("1-65535", bytes, n, &range, &back, &err), &err);
    assert_memory_equal(&back, &all, sizeof all);
    bytes[0] = 0xff; /* port 65536 */
    assert_int_equal(snapshot_import("1-65535", bytes, n, &range, &back, &err), DIBS_INVALID);
}

static void leading_zero_bytes_are_accepted(void **state)
{
    static uint8_t bytes[2 * SNAPSHOT_BYTES_MAX];
    struct portbits taken = { 0 };
    dibs_range range = { 0 };
    dibs_err err = { 0 };

    (void) state;
    bytes[sizeof bytes - 1] = 0x08;
    ASSERT_OK(snapshot_import("10-20", bytes, sizeof bytes, &range, &taken, &err), &err);
    assert_int_equal(portbits_count(&taken), 1);
    assert_true(portbits_has(&taken, 13));
    ASSERT_OK(snapshot_import("10-20", NULL, 0, &range, &taken, &err), &err);
    assert_int_equal(portbits_count(&taken), 0);
}

static void a_bit_outside_the_range_is_refused(void **state)
{
    static const uint8_t last[] = { 0x04, 0x00 };       /* offset 10: port 20 */
    static const uint8_t beyond[] = { 0x08, 0x00 };     /* offset 11: port 21 */
    static uint8_t far[3 * SNAPSHOT_BYTES_MAX] = { 1 }; /* would wrap in 16 bits */
    struct portbits taken = { 0 };
    struct portbits before = { 0 };
    dibs_range range = { 0 };
    dibs_err err = { 0 };

    (void) state;
    ASSERT_OK(snapshot_import("10-20", last, sizeof last, &range, &taken, &err), &err);
    assert_true(portbits_has(&taken, 20));
    before = taken;
    assert_int_equal(snapshot_import("10-20", beyond, sizeof beyond, &range, &taken, &err), DIBS_INVALID);
    assert_string_equal(err.msg, "snapshot: bit 11 lies outside the range 10-20");
    assert_int_equal(snapshot_import("10-21", far, sizeof far, &range, &taken, &err), DIBS_INVALID);
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

        if (snapshot_import(texts[i], bytes, 1, &range, &taken, &err) != DIBS_INVALID)
            fail_msg("'%s' was taken for a range", texts[i]);
        assert_non_null(strstr(err.msg, "snapshot"));
        assert_int_equal(range.first, 7);
        assert_int_equal(portbits_count(&taken), 0);
    }
    assert_int_equal(snapshot_import(NULL, bytes, 1, &range, &taken, NULL), DIBS_INVALID);
}

static void an_oversized_snapshot_is_refused_unread(void **state)
{
    static uint8_t bytes[DIBS_INPUT_MAX_BYTES + 1]; /* untouched, so it costs no memory */
    struct portbits taken = { 0 };
    dibs_range range = { 0 };

    (void) state;
    assert_int_equal(snapshot_import("10-20", bytes, sizeof bytes, &range, &taken, NULL), DIBS_INVALID);
}

/* A pool with its usual band. */
static void set_up(struct index *index, const char *text)
{
    dibs_ranges ranges = { .n = 0 };
    dibs_err err = { 0 };

    ASSERT_OK(dibs_ranges_parse(text, &ranges, &err), &err);
    index_init(index, &ranges, dibs_band_size(dibs_ranges_count(&ranges)), NULL);
}

static void take_dynamic(struct index *index, int n)
{
    dibs_err err = { 0 };

    for (int i = 0; i < n; i++) {
        uint16_t port = 0;

        /* A stride, so that the bits are scattered. */
        ASSERT_OK(index_take_next(index, (uint16_t) (index->first + 37 * i), &port, &err), &err);
    }
}

/* Take over what a snapshot holds. */
static void take_all(struct index *index, const struct portbits *taken)
{
    dibs_err err = { 0 };

    for (uint32_t port = scan_next_set(taken, 1); port != SCAN_END; port = scan_next_set(taken, port + 1))
        ASSERT_OK(index_take(index, (uint16_t) port, &err), &err);
}

static void kubernetes_case_7_a_snapshot_restores_into_a_smaller_map_of_the_same_start(void **state)
{
    static const char *const wholes[] = { "1000-1031", "1000-1007", "1000-1127", "1000-2023", "1-65535" };
    static struct index index;

    (void) state;
    for (size_t i = 0; i < sizeof wholes / sizeof *wholes; i++) {
        uint8_t bytes[SNAPSHOT_BYTES_MAX] = { 0 };
        const char *small = i == 4 ? "1-10" : "1000-1009";
        struct portbits taken = { 0 };
        dibs_range range = { 0 };
        dibs_err err = { 0 };
        size_t n = 0;

        set_up(&index, wholes[i]);
        uint16_t third = (uint16_t) (index.first + 3);
        ASSERT_OK(index_take(&index, third, &err), &err);
        snapshot_export((dibs_range){ index.first, index.last }, &index.taken, bytes, &n);
        ASSERT_OK(snapshot_import(small, bytes, n, &range, &taken, &err), &err);
        set_up(&index, small);
        take_all(&index, &taken);
        assert_int_equal(index.n_taken, 1);
        assert_true(index_has(&index, third));
        take_dynamic(&index, 9);
        assert_int_equal(index_available(&index), 0);
    }
}

static void kubernetes_case_19_a_snapshot_restores_in_its_own_range_and_not_in_another(void **state)
{
    static struct index index;
    uint8_t bytes[SNAPSHOT_BYTES_MAX] = { 0 };
    struct portbits taken = { 0 };
    dibs_range range = { 0 };
    dibs_err err = { 0 };
    size_t n = 0;

    (void) state;
    set_up(&index, "10000-10200");
    take_dynamic(&index, 10);
    struct portbits before = index.taken;
    snapshot_export((dibs_range){ index.first, index.last }, &index.taken, bytes, &n);
    /* W9: bits that do not fit are refused, not counted. */
    assert_int_equal(snapshot_import("200-300", bytes, n, &range, &taken, &err), DIBS_INVALID);
    assert_int_equal(portbits_count(&taken), 0);
    ASSERT_OK(snapshot_import("10000-10200", bytes, n, &range, &taken, &err), &err);
    assert_int_equal(range.first, 10000);
    assert_int_equal(range.last, 10200);
    set_up(&index, "10000-10200");
    take_all(&index, &taken);
    assert_memory_equal(&index.taken, &before, sizeof before);
    assert_int_equal(index_available(&index), 191);
}

static void kubernetes_case_20_a_new_index_from_a_snapshot_has_its_ports(void **state)
{
    static struct index index;
    uint8_t bytes[SNAPSHOT_BYTES_MAX] = { 0 };
    struct portbits taken = { 0 };
    dibs_range range = { 0 };
    dibs_err err = { 0 };
    size_t n = 0;

    (void) state;
    set_up(&index, "200-300");
    take_dynamic(&index, 50);
    struct portbits before = index.taken;
    snapshot_export((dibs_range){ 200, 300 }, &index.taken, bytes, &n);
    ASSERT_OK(snapshot_import("200-300", bytes, n, &range, &taken, &err), &err);
    set_up(&index, "200-300");
    take_all(&index, &taken);
    assert_int_equal(index_available(&index), 51);
    assert_int_equal(index.n_taken, 50);
    assert_memory_equal(&index.taken, &before, sizeof before);
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
        cmocka_unit_test(kubernetes_case_7_a_snapshot_restores_into_a_smaller_map_of_the_same_start),
        cmocka_unit_test(kubernetes_case_19_a_snapshot_restores_in_its_own_range_and_not_in_another),
        cmocka_unit_test(kubernetes_case_20_a_new_index_from_a_snapshot_has_its_ports),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
