/* SPDX-License-Identifier: MIT */
/* Kubernetes' bitmap and allocator cases (seeds 3.9) on our index; each test names the
 * case it covers. Their bitmaps begin at bit 0; ours at port BASE. Cases 7,
 * 19 and 20 are in test_snapshot.c, 21 in test_band.c; 12 to 15 are the ledger's. */
#include <string.h>

#include "index/index.h"
#include "support/t.h"

#define SEED 20260820u
#define CONFIGS 5
static const struct config {
    uint32_t max;
    uint32_t band;
    uint16_t base;
} configs[CONFIGS] = {
    { 32, 0, 1000 }, { 8, 0, 1000 }, { 128, 16, 1000 }, { 1024, 64, 1000 }, { 65535, 256, 1 }
};
static const struct config *const banded = &configs[2]; /* cases 8 to 10 */

static struct index idx;
static uint64_t seed;

static uint16_t random_start(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint16_t) (seed >> 40);
}

static int fresh_seed(void **state)
{
    (void) state;
    seed = SEED;
    return 0;
}

static void set_up(const struct config *config)
{
    dibs_range range = { config->base, (uint16_t) (config->base + config->max - 1) };
    dibs_ranges ranges = { .item = { range }, .n = 1 };

    index_init(&idx, &ranges, config->band, NULL);
}

static void set_up_pool(const char *text)
{
    dibs_ranges ranges = { .n = 0 };
    dibs_err err = { 0 };

    ASSERT_OK(dibs_ranges_parse(text, &ranges, &err), &err);
    index_init(&idx, &ranges, dibs_band_size(dibs_ranges_count(&ranges)), NULL);
}

static uint16_t take_next(void)
{
    dibs_err err = { 0 };
    uint16_t port = 0;

    ASSERT_OK(index_take_next(&idx, random_start(), &port, &err), &err);
    assert_true(index_has(&idx, port));
    return port;
}

static void take(uint32_t port)
{
    dibs_err err = { 0 };

    ASSERT_OK(index_take(&idx, (uint16_t) port, &err), &err);
}

static void expect_full(void)
{
    dibs_err err = { 0 };
    uint16_t port = 7;

    assert_int_equal(index_take_next(&idx, random_start(), &port, &err), DIBS_EXHAUSTED);
    assert_non_null(strstr(err.msg, "range is full"));
    assert_int_equal(port, 7);
    assert_int_equal(index_pick(&idx, random_start()), 0);
}

static void expect_refused(uint16_t port, dibs_status status, const char *message)
{
    dibs_err err = { 0 };
    uint32_t available = index_available(&idx);

    assert_int_equal(index_take(&idx, port, &err), status);
    assert_string_equal(err.msg, message);
    assert_int_equal(index_available(&idx), available);
}

static void case_1_one_dynamic_take_leaves_one_less(void **state)
{
    (void) state;
    for (size_t c = 0; c < CONFIGS; c++) {
        set_up(&configs[c]);
        (void) take_next();
        assert_int_equal(idx.n_taken, 1);
        assert_int_equal(index_available(&idx), configs[c].max - 1);
    }
}

static void case_2_every_port_can_be_taken_by_number_then_it_is_full(void **state)
{
    (void) state;
    for (size_t c = 0; c < CONFIGS; c++) {
        set_up(&configs[c]);
        for (uint32_t i = 0; i < configs[c].max; i++)
            take(configs[c].base + i);
        expect_full();
        uint16_t beyond = (uint16_t) (configs[c].base + configs[c].max); /* 0 after 65535 */
        assert_int_equal(index_take(&idx, beyond, NULL), DIBS_INVALID);
        assert_int_equal(index_available(&idx), 0);
    }
}

static void case_3_dynamic_takes_reach_the_full_capacity(void **state)
{
    (void) state;
    for (size_t c = 0; c < CONFIGS; c++) {
        set_up(&configs[c]);
        for (uint32_t i = 0; i < configs[c].max; i++)
            (void) take_next();
        expect_full();
        assert_int_equal(index_available(&idx), 0);
    }
}

static void case_4_a_taken_port_is_refused(void **state)
{
    (void) state;
    for (size_t c = 0; c < CONFIGS; c++) {
        set_up(&configs[c]);
        take(configs[c].base + 3u);
        assert_int_equal(index_take(&idx, (uint16_t) (configs[c].base + 3), NULL), DIBS_TAKEN);
        assert_int_equal(idx.n_taken, 1);
    }
}

static void case_5_a_released_port_is_free_and_releasing_twice_does_nothing(void **state)
{
    (void) state;
    for (size_t c = 0; c < CONFIGS; c++) {
        uint16_t port = (uint16_t) (configs[c].base + 3);

        set_up(&configs[c]);
        take(port);
        assert_true(index_has(&idx, port));
        assert_true(index_release(&idx, port));
        assert_false(index_has(&idx, port));
        assert_false(index_release(&idx, port));
        assert_false(index_release(&idx, 0));
        assert_false(index_release(&idx, (uint16_t) (configs[c].base + configs[c].max)));
        assert_int_equal(index_available(&idx), configs[c].max);
    }
}

/* The taken ports are exactly these, in ascending order. */
static void expect_taken(const uint16_t *ports, size_t n)
{
    size_t seen = 0;

    for (uint16_t port = 0; (port = index_next_taken(&idx, port + 1u)) != 0; seen++) {
        assert_true(seen < n);
        assert_int_equal(port, ports[seen]);
    }
    assert_int_equal(seen, n);
}

static void case_6_walking_visits_exactly_the_taken(void **state)
{
    static const uint16_t all[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    static const uint16_t some[] = { 0, 2, 5 };
    static const struct {
        const uint16_t *offset;
        size_t n;
    } sets[] = { { all, 0 }, { all, 1 }, { some, 3 }, { all, 8 } };

    (void) state;
    for (size_t c = 0; c < CONFIGS; c++) {
        for (size_t s = 0; s < sizeof sets / sizeof *sets; s++) {
            uint16_t ports[8] = { 0 };

            set_up(&configs[c]);
            for (size_t i = 0; i < sets[s].n; i++) {
                ports[i] = (uint16_t) (configs[c].base + sets[s].offset[i]);
                take(ports[i]);
            }
            expect_taken(ports, sets[s].n);
        }
    }
}

static void case_8_dynamic_takes_leave_the_lower_band_alone_until_the_upper_is_full(void **state)
{
    (void) state;
    set_up(banded);
    for (int i = 0; i < 112; i++)
        assert_true(take_next() >= 1016);
    assert_int_equal(index_available(&idx), 16);
    assert_int_equal(index_next_taken(&idx, 1), 1016);
    assert_int_equal(idx.stats.spilled, 0);
    assert_true(take_next() < 1016);
    assert_int_equal(idx.n_taken, 113);
    assert_int_equal(index_available(&idx), 15);
    assert_int_equal(idx.stats.spilled, 1); /* W10: visible */
}

static void case_9_the_last_free_port_of_the_lower_band_is_found(void **state)
{
    (void) state;
    set_up(banded);
    for (uint32_t i = 16; i < 128; i++)
        take(1000 + i);
    for (uint32_t i = 0; i < 15; i++)
        take(1000 + i);
    assert_int_equal(index_available(&idx), 1);
    assert_int_equal(take_next(), 1015);
    assert_int_equal(index_available(&idx), 0);
    expect_full();
    assert_int_equal(idx.n_taken, 128);
}

static void case_10_all_dynamic_takes_are_distinct(void **state)
{
    uint8_t seen[128] = { 0 };

    (void) state;
    set_up(banded);
    for (int i = 0; i < 128; i++)
        assert_int_equal(seen[take_next() - 1000]++, 0);
}

static void case_11_bits_are_counted_in_every_word(void **state)
{
    struct portbits bits = { 0 };

    (void) state;
    assert_int_equal(portbits_count(&bits), 0);
    portbits_add_range(&bits, (dibs_range){ 64, 103 }); /* 0xffffffffff of a word */
    assert_int_equal(portbits_count(&bits), 40);
    memset(&bits, 0, sizeof bits);
    portbits_add(&bits, 256);
    assert_int_equal(portbits_count(&bits), 1);
}

static void case_16_drain_release_and_refusals_of_10000_to_10200(void **state)
{
    uint8_t seen[201] = { 0 };

    (void) state;
    set_up_pool("10000-10200");
    assert_int_equal(index_available(&idx), 201);
    assert_int_equal(idx.n_taken, 0);
    for (int i = 0; i < 201; i++) {
        uint16_t port = take_next();

        assert_in_range(port, 10000, 10200);
        assert_int_equal(seen[port - 10000]++, 0);
    }
    expect_full();
    assert_true(index_release(&idx, 10005));
    assert_int_equal(index_available(&idx), 1);
    assert_int_equal(idx.n_taken, 200);
    assert_int_equal(take_next(), 10005);
    assert_true(index_release(&idx, 10005));
    expect_refused(1, DIBS_INVALID, "port 1 is not in the valid range 10000-10200");
    expect_refused(10001, DIBS_TAKEN, "port 10001 is already allocated");
    expect_refused(20000, DIBS_INVALID, "port 20000 is not in the valid range 10000-10200");
    expect_refused(10201, DIBS_INVALID, "port 10201 is not in the valid range 10000-10200");
    assert_int_equal(index_available(&idx), 1);
    assert_int_equal(idx.n_taken, 200);
    take(10005);
    assert_int_equal(index_available(&idx), 0);
    assert_int_equal(idx.n_taken, 201);
}

static void case_17_the_upper_band_of_30000_to_30128_fills_first(void **state)
{
    (void) state;
    set_up_pool("30000-30128");
    assert_int_equal(idx.dynamic_from, 30016);
    for (int i = 0; i < 113; i++)
        (void) take_next();
    for (uint32_t port = 30000; port <= 30128; port++)
        assert_int_equal(index_has(&idx, (uint16_t) port), port >= 30016);
    assert_int_equal(index_available(&idx), 16);
    for (uint32_t port = 30000; port <= 30015; port++)
        take(port);
    assert_int_equal(index_available(&idx), 0);
    assert_true(index_release(&idx, 30053));
    assert_int_equal(take_next(), 30053);
    assert_int_equal(index_available(&idx), 0);
}

static void case_18_walking_10000_to_10200_visits_exactly_the_taken(void **state)
{
    static const uint16_t ports[3][3] = { { 10000 }, { 10000, 10200 }, { 10000, 10099, 10200 } };

    (void) state;
    set_up_pool("10000-10200");
    expect_taken(ports[0], 0);
    for (size_t s = 0; s < 3; s++) {
        set_up_pool("10000-10200");
        for (size_t i = 0; i <= s; i++)
            take(ports[s][i]);
        expect_taken(ports[s], s + 1);
    }
}

static void expect_stats(uint32_t available, uint32_t taken, uint64_t takes, uint64_t refusals)
{
    assert_int_equal(index_available(&idx), available);
    assert_int_equal(idx.n_taken, taken);
    assert_int_equal(idx.stats.taken_static + idx.stats.taken_dynamic, takes);
    assert_int_equal(idx.stats.refused_static + idx.stats.refused_dynamic, refusals);
}

static void case_22_the_numbers_are_right_from_the_start_and_after_every_step(void **state)
{
    (void) state;
    set_up_pool("30000-32767");
    expect_stats(2768, 0, 0, 0); /* W13: Kubernetes says 0 free here */
    uint16_t a = take_next();
    uint16_t b = take_next();
    expect_stats(2766, 2, 2, 0);
    assert_int_equal(index_take(&idx, a, NULL), DIBS_TAKEN);
    assert_int_equal(index_take(&idx, b, NULL), DIBS_TAKEN);
    expect_stats(2766, 2, 2, 2);
    assert_true(index_release(&idx, a));
    assert_true(index_release(&idx, b));
    expect_stats(2768, 0, 2, 2);
    for (int i = 0; i < 3000; i++) {
        uint16_t port = 0;

        (void) index_take_next(&idx, random_start(), &port, NULL);
    }
    expect_stats(0, 2768, 2770, 234);
    assert_int_equal(idx.stats.spilled, 86);
}

static void case_23_static_and_dynamic_are_counted_apart(void **state)
{
    (void) state;
    set_up_pool("30000-32767");
    uint16_t a = take_next();
    uint16_t b = take_next();
    assert_int_equal(idx.stats.taken_dynamic, 2);
    assert_int_equal(index_take(&idx, a, NULL), DIBS_TAKEN);
    assert_int_equal(index_take(&idx, b, NULL), DIBS_TAKEN);
    assert_int_equal(idx.stats.refused_static, 2);
    assert_int_equal(idx.stats.refused_dynamic, 0);
    assert_int_equal(idx.stats.taken_static, 0);
    take(30000);
    assert_int_equal(idx.stats.taken_static, 1);
}

static void case_24_two_indexes_count_for_themselves(void **state)
{
    static struct index first;

    (void) state;
    set_up_pool("30000-32766");
    for (int i = 0; i < 100; i++)
        (void) take_next();
    first = idx;
    set_up_pool("30000-32766");
    for (int i = 0; i < 200; i++)
        (void) take_next();
    expect_stats(2567, 200, 200, 0);
    idx = first;
    expect_stats(2667, 100, 100, 0);
}

/* W3: what a dry run shows is what the take then gives. */
static void picking_takes_nothing_and_tells_what_taking_gives(void **state)
{
    (void) state;
    set_up_pool("10000-10200");
    for (int i = 0; i < 201; i++) {
        uint16_t start = random_start();
        uint16_t shown = index_pick(&idx, start);
        uint16_t got = 0;
        dibs_err err = { 0 };

        assert_int_equal(index_available(&idx), 201 - i);
        ASSERT_OK(index_take_next(&idx, start, &got, &err), &err);
        assert_int_equal(got, shown);
    }
}

static void choice_goes_upward_from_the_start_and_wraps_in_its_band(void **state)
{
    (void) state;
    set_up_pool("30000-30128");
    assert_int_equal(index_pick(&idx, 30100), 30100);
    assert_int_equal(index_pick(&idx, 1), 30016);     /* outside the upper band: its first */
    assert_int_equal(index_pick(&idx, 30005), 30016); /* the lower band is not preferred */
    for (uint32_t port = 30100; port <= 30128; port++)
        take(port);
    assert_int_equal(index_pick(&idx, 30100), 30016);
}

static void a_band_may_straddle_ranges(void **state)
{
    dibs_ranges ranges = { .item = { { 100, 109 }, { 200, 209 } }, .n = 2 };

    (void) state;
    index_init(&idx, &ranges, 15, NULL);
    assert_int_equal(idx.first, 100);
    assert_int_equal(idx.last, 209);
    assert_int_equal(idx.dynamic_from, 205);
    for (int i = 0; i < 5; i++)
        assert_in_range(take_next(), 205, 209);
    for (int i = 0; i < 15; i++)
        assert_true(take_next() < 205);
    assert_int_equal(idx.stats.spilled, 15);
    expect_full();
    expect_refused(150, DIBS_INVALID, "port 150 is not in the valid range 100-109,200-209");
    index_init(&idx, &ranges, 20, NULL); /* clamped: one port stays in the upper band */
    assert_int_equal(idx.dynamic_from, 209);
    index_init(&idx, &ranges, 0, NULL);
    assert_int_equal(idx.dynamic_from, 100);
}

static void withheld_ports_are_taken_by_number_only(void **state)
{
    dibs_ranges ranges = { .item = { { 100, 109 } }, .n = 1 };
    struct portbits withheld = { 0 };

    (void) state;
    portbits_add_range(&withheld, (dibs_range){ 102, 200 });
    index_init(&idx, &ranges, 0, &withheld);
    assert_int_equal(index_available(&idx), 10);
    (void) take_next();
    (void) take_next();
    expect_full();
    assert_int_equal(index_available(&idx), 8);
    take(105);
    assert_int_equal(index_available(&idx), 7);
    assert_true(index_release(&idx, 105));
    expect_full(); /* released, yet still not choosable */
    assert_true(index_release(&idx, 101));
    assert_int_equal(take_next(), 101);
}

static void an_index_without_ports_refuses_everything(void **state)
{
    dibs_ranges none = { .n = 0 };

    (void) state;
    index_init(&idx, &none, 16, NULL);
    expect_full();
    expect_refused(80, DIBS_INVALID, "port 80 is not in the valid range: the pool has no ports");
    assert_int_equal(index_available(&idx), 0);
    assert_int_equal(index_next_taken(&idx, 0), 0);
}

#define CASE(test) cmocka_unit_test_setup(test, fresh_seed)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(case_1_one_dynamic_take_leaves_one_less),
        CASE(case_2_every_port_can_be_taken_by_number_then_it_is_full),
        CASE(case_3_dynamic_takes_reach_the_full_capacity),
        CASE(case_4_a_taken_port_is_refused),
        CASE(case_5_a_released_port_is_free_and_releasing_twice_does_nothing),
        CASE(case_6_walking_visits_exactly_the_taken),
        CASE(case_8_dynamic_takes_leave_the_lower_band_alone_until_the_upper_is_full),
        CASE(case_9_the_last_free_port_of_the_lower_band_is_found),
        CASE(case_10_all_dynamic_takes_are_distinct),
        CASE(case_11_bits_are_counted_in_every_word),
        CASE(case_16_drain_release_and_refusals_of_10000_to_10200),
        CASE(case_17_the_upper_band_of_30000_to_30128_fills_first),
        CASE(case_18_walking_10000_to_10200_visits_exactly_the_taken),
        CASE(case_22_the_numbers_are_right_from_the_start_and_after_every_step),
        CASE(case_23_static_and_dynamic_are_counted_apart),
        CASE(case_24_two_indexes_count_for_themselves),
        CASE(picking_takes_nothing_and_tells_what_taking_gives),
        CASE(choice_goes_upward_from_the_start_and_wraps_in_its_band),
        CASE(a_band_may_straddle_ranges),
        CASE(withheld_ports_are_taken_by_number_only),
        CASE(an_index_without_ports_refuses_everything),
    };

    print_message("# seed %u\n", SEED);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
