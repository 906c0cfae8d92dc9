/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "net/portbits.h"
#include "support/t.h"

static void a_port_is_in_from_add_to_remove(void **state)
{
    static const uint16_t edges[] = { 1, 63, 64, 65, 4095, 4096, 65534, 65535 };
    struct portbits bits = { 0 };

    (void) state;
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        assert_false(portbits_has(&bits, edges[i]));
        portbits_add(&bits, edges[i]);
        portbits_add(&bits, edges[i]);
        assert_true(portbits_has(&bits, edges[i]));
        assert_int_equal(portbits_count(&bits), i + 1);
    }
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        portbits_remove(&bits, edges[i]);
        assert_false(portbits_has(&bits, edges[i]));
    }
    assert_int_equal(portbits_count(&bits), 0);
}

static void port_0_is_never_a_member(void **state)
{
    struct portbits bits = { 0 };

    (void) state;
    portbits_add(&bits, 0);
    portbits_add_range(&bits, (dibs_range){ 0, 3 });
    assert_false(portbits_has(&bits, 0));
    assert_int_equal(portbits_count(&bits), 3);
}

static void ranges_equal_their_ports_one_by_one(void **state)
{
    static const dibs_range ranges[] = { { 1, 1 },         { 1, 65535 },     { 63, 64 },
                                         { 64, 127 },      { 60, 200 },      { 65, 126 },
                                         { 65535, 65535 }, { 65472, 65535 }, { 5, 4 } };

    (void) state;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        struct portbits whole = { 0 };
        struct portbits single = { 0 };
        struct portbits cut = { 0 };
        struct portbits rest = { 0 };

        portbits_add_range(&whole, ranges[i]);
        portbits_add_range(&cut, (dibs_range){ 1, 65535 });
        portbits_remove_range(&cut, ranges[i]);
        for (uint32_t port = 1; port <= DIBS_PORT_MAX; port++) {
            bool inside = port >= ranges[i].first && port <= ranges[i].last;

            portbits_add(inside ? &single : &rest, (uint16_t) port);
        }
        assert_memory_equal(&whole, &single, sizeof whole);
        assert_memory_equal(&cut, &rest, sizeof cut);
    }
}

static void subtracting_removes_exactly_the_others(void **state)
{
    dibs_ranges ranges = { .item = { { 10, 20 }, { 100, 300 } }, .n = 2 };
    struct portbits bits = { 0 };
    struct portbits other = { 0 };

    (void) state;
    portbits_add_ranges(&bits, &ranges);
    assert_int_equal(portbits_count(&bits), 11 + 201);
    portbits_add_range(&other, (dibs_range){ 15, 150 });
    portbits_subtract(&bits, &other);
    assert_int_equal(portbits_count(&bits), 5 + 150);
    assert_true(portbits_has(&bits, 14) && portbits_has(&bits, 151));
    assert_false(portbits_has(&bits, 15) || portbits_has(&bits, 150));
}

static void browsers_block_exactly_the_listed_ports(void **state)
{
    /* Written as the standard writes it, so that a slip in the code's table shows. */
    static const char listed[] =
        "1,7,9,11,13,15,17,19,20,21,22,23,25,37,42,43,53,69,77,79,87,95,101,102,103,104,109,110,111,113,115,"
        "117,119,123,135,137,139,143,161,179,389,427,465,512,513,514,515,526,530,531,532,540,548,554,556,563,"
        "587,601,636,989,990,993,995,1719,1720,1723,2049,3659,4045,4190,5060,5061,6000,6566,6665-6669,6679,"
        "6697,10080";
    struct portbits blocked = { 0 };
    struct portbits want = { 0 };
    dibs_ranges ranges = { .n = 0 };
    dibs_err err = { 0 };

    (void) state;
    /* In two halves: together they are more pieces than one list may have. */
    char half[sizeof listed] = "";
    const char *middle = strstr(listed, ",526,");
    assert_non_null(middle);
    memcpy(half, listed, (size_t) (middle - listed));
    ASSERT_OK(dibs_ranges_parse(half, &ranges, &err), &err);
    portbits_add_ranges(&want, &ranges);
    ASSERT_OK(dibs_ranges_parse(middle, &ranges, &err), &err);
    portbits_add_ranges(&want, &ranges);
    portbits_add_browser_blocked(&blocked);
    assert_memory_equal(&blocked, &want, sizeof want);
    assert_int_equal(portbits_count(&blocked), 82);
}

static void scanning_finds_set_and_clear_ports(void **state)
{
    struct portbits bits = { 0 };

    (void) state;
    assert_int_equal(portbits_next(&bits, 0), PORTBITS_END);
    assert_int_equal(portbits_next_hole(&bits, 65535), 65535);
    portbits_add_range(&bits, (dibs_range){ 100, 300 });
    portbits_add(&bits, 65535);
    assert_int_equal(portbits_next(&bits, 0), 100);
    assert_int_equal(portbits_next(&bits, 150), 150);
    assert_int_equal(portbits_next_hole(&bits, 100), 301);
    assert_int_equal(portbits_next(&bits, 301), 65535);
    assert_int_equal(portbits_next_hole(&bits, 65535), PORTBITS_END);
    assert_int_equal(portbits_next(&bits, 65536), PORTBITS_END);
    assert_int_equal(portbits_next(&bits, UINT32_MAX), PORTBITS_END);
}

static void scanned_ranges_are_what_was_added(void **state)
{
    dibs_ranges want = { .item = { { 1, 1 }, { 3, 64 }, { 128, 191 }, { 65535, 65535 } }, .n = 4 };
    struct portbits bits = { 0 };
    dibs_ranges got = { .n = 0 };

    (void) state;
    portbits_add_ranges(&bits, &want);
    assert_true(portbits_ranges(&bits, &got));
    assert_memory_equal(&got, &want, sizeof got);
    for (uint32_t i = 0; i <= DIBS_RANGES_MAX; i++)
        portbits_add(&bits, (uint16_t) (1000 + 2 * i));
    assert_false(portbits_ranges(&bits, &got));
    assert_memory_equal(&got, &want, sizeof got);
}

static void a_set_is_written_as_the_kernel_writes_it(void **state)
{
    struct portbits bits = { 0 };
    struct bytes text = { 0 };

    (void) state;
    portbits_format(&bits, &text);
    assert_int_equal(text.n, 0);
    bytes_add_text(&text, "it is ");
    portbits_add(&bits, 1);
    portbits_add_range(&bits, (dibs_range){ 7, 8 });
    portbits_add_range(&bits, (dibs_range){ 63, 200 });
    portbits_add(&bits, 65535);
    portbits_format(&bits, &text);
    bytes_add(&text, "", 1);
    assert_string_equal(text.at, "it is 1,7-8,63-200,65535");
    bytes_done(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_port_is_in_from_add_to_remove),
        cmocka_unit_test(port_0_is_never_a_member),
        cmocka_unit_test(ranges_equal_their_ports_one_by_one),
        cmocka_unit_test(subtracting_removes_exactly_the_others),
        cmocka_unit_test(browsers_block_exactly_the_listed_ports),
        cmocka_unit_test(scanning_finds_set_and_clear_ports),
        cmocka_unit_test(scanned_ranges_are_what_was_added),
        cmocka_unit_test(a_set_is_written_as_the_kernel_writes_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
