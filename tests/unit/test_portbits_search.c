/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "net/portbits.h"
#include "support/t.h"

#define SEED 20260820u
static const dibs_range everything = { 1, 65535 };

static uint64_t next_random(uint64_t *seed)
{
    *seed += 0x9e3779b97f4a7c15u;
    uint64_t x = (*seed ^ (*seed >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint16_t random_port(uint64_t *seed)
{
    return (uint16_t) (1 + next_random(seed) % 65535);
}

/* The naive model: one byte a port, and every question a loop. */
static uint8_t model[65536];
static struct portbits set;

static uint16_t model_next(uint32_t from, uint32_t last)
{
    for (uint32_t port = from; port <= last; port++) {
        if (model[port])
            return (uint16_t) port;
    }
    return 0;
}

static uint16_t model_pick(dibs_range window, uint16_t start)
{
    if (start < window.first || start > window.last)
        start = window.first;
    uint16_t port = model_next(start, window.last);
    return port ? port : model_next(window.first, start - 1u);
}

static bool model_run_at(dibs_range window, uint32_t b, uint32_t n, uint32_t align)
{
    if (align > 1 && b % align)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        if (b + i > window.last || !model[b + i])
            return false;
    }
    return true;
}

static uint16_t model_run(dibs_range window, uint32_t n, uint32_t align, uint16_t start)
{
    uint32_t size = (uint32_t) window.last - window.first + 1;

    if (start < window.first || start > window.last)
        start = window.first;
    for (uint32_t i = 0; n && i < size; i++) {
        uint32_t b = window.first + (start - window.first + i) % size;

        if (model_run_at(window, b, n, align))
            return (uint16_t) b;
    }
    return 0;
}

/* Islands and holes of random length, with `percent` of the ports in the set. */
static void fill(uint64_t *seed, unsigned percent, uint32_t longest)
{
    struct portbits bits = { 0 };

    memset(model, 0, sizeof model);
    for (uint32_t port = 1; port <= 65535;) {
        uint32_t length = 1 + (uint32_t) (next_random(seed) % longest);
        bool in = next_random(seed) % 100 < percent;

        for (; length > 0 && port <= 65535; length--, port++) {
            model[port] = in;
            if (in)
                portbits_add(&bits, (uint16_t) port);
        }
    }
    set = bits;
}

static dibs_range random_window(uint64_t *seed)
{
    uint16_t a = random_port(seed);
    uint16_t b = next_random(seed) % 2 ? random_port(seed) : (uint16_t) (a + next_random(seed) % 300);

    if (b == 0)
        b = 1;
    return a < b ? (dibs_range){ a, b } : (dibs_range){ b, a };
}

static void ask_both(uint64_t *seed)
{
    dibs_range window = random_window(seed);
    uint16_t start = random_port(seed);
    uint32_t n = (uint32_t) (next_random(seed) % (next_random(seed) % 4 ? 12 : 400));
    uint32_t align = next_random(seed) % 2 ? 0 : (uint32_t) (next_random(seed) % 130);

    assert_int_equal(portbits_run(&set, window, 1, 0, start), model_pick(window, start));
    uint16_t got = portbits_run(&set, window, n, align, start);
    uint16_t want = model_run(window, n, align, start);
    if (got != want)
        fail_msg("run of %u, align %u, in %u-%u from %u: %u, not %u", n, align, (unsigned) window.first,
                 (unsigned) window.last, (unsigned) start, (unsigned) got, (unsigned) want);
}

static void every_answer_equals_the_naive_models(void **state)
{
    static const struct {
        unsigned percent;
        uint32_t longest;
    } fills[] = { { 0, 1 }, { 1, 1 }, { 1, 500 }, { 50, 1 }, { 50, 40 }, { 90, 1 }, { 99, 300 }, { 100, 1 } };
    uint64_t seed = SEED;

    (void) state;
    print_message("# seed %u\n", SEED);
    for (size_t f = 0; f < sizeof fills / sizeof *fills; f++) {
        fill(&seed, fills[f].percent, fills[f].longest);
        for (int i = 0; i < 60; i++)
            ask_both(&seed);
    }
}

static void a_removed_port_is_not_found_again(void **state)
{
    uint64_t seed = SEED;

    (void) state;
    print_message("# seed %u\n", SEED);
    for (int round = 0; round < 16; round++) {
        struct portbits bits = { 0 };
        uint32_t n_left = 0;

        /* Few words, so that they become empty soon. */
        memset(model, 0, sizeof model);
        for (int i = 0; i < 400; i++) {
            uint16_t port = (uint16_t) (next_random(&seed) % 16 * 4096 + next_random(&seed) % 8);

            n_left += port != 0 && !model[port];
            model[port] = port != 0;
            if (port != 0)
                portbits_add(&bits, port);
        }
        set = bits;
        while (n_left > 0) {
            uint16_t start = random_port(&seed);
            uint16_t port = portbits_run(&set, everything, 1, 0, start);

            assert_int_equal(port, model_pick(everything, start));
            assert_true(portbits_remove(&set, port));
            assert_false(portbits_remove(&set, port));
            model[port] = 0;
            n_left--;
        }
        static const struct portbits none;
        assert_memory_equal(&set, &none, sizeof set);
    }
}

static void port_0_is_never_a_member(void **state)
{
    (void) state;
    set = (struct portbits){ 0 };
    portbits_add_range(&set, (dibs_range){ 0, 63 });
    portbits_add(&set, 0);
    assert_false(portbits_remove(&set, 0));
    assert_int_equal(portbits_run(&set, (dibs_range){ 0, 65535 }, 1, 0, 0), 1);
    assert_int_equal(portbits_run(&set, (dibs_range){ 0, 100 }, 4, 0, 0), 1);
    assert_int_equal(portbits_run(&set, (dibs_range){ 0, 100 }, 1, 64, 0), 0);
}

static void an_empty_set_has_nothing_to_pick(void **state)
{
    static const struct portbits none;

    (void) state;
    set = none;
    assert_int_equal(portbits_run(&set, everything, 1, 0, 30000), 0);
    assert_int_equal(portbits_run(&set, everything, 1, 0, 1), 0);
}

static void the_last_free_port_is_found_from_everywhere(void **state)
{
    static const uint16_t last_free[] = { 1, 63, 64, 4095, 4096, 30000, 65535 };
    static const uint16_t starts[] = { 0, 1, 2, 63, 64, 65, 4095, 4096, 29999, 30000, 30001, 65534, 65535 };

    (void) state;
    for (size_t i = 0; i < sizeof last_free / sizeof *last_free; i++) {
        struct portbits bits = { 0 };

        portbits_add(&bits, last_free[i]);
        set = bits;
        for (size_t s = 0; s < sizeof starts / sizeof *starts; s++)
            assert_int_equal(portbits_run(&set, everything, 1, 0, starts[s]), last_free[i]);
    }
}

static void picking_stays_inside_the_window_and_wraps_once(void **state)
{
    static const dibs_range window = { 100, 200 };
    struct portbits bits = { 0 };

    (void) state;
    portbits_add(&bits, 99);
    portbits_add(&bits, 201);
    set = bits;
    assert_int_equal(portbits_run(&set, window, 1, 0, 150), 0);
    portbits_add(&bits, 100);
    set = bits;
    assert_int_equal(portbits_run(&set, window, 1, 0, 150), 100);
    portbits_add(&bits, 200);
    set = bits;
    assert_int_equal(portbits_run(&set, window, 1, 0, 150), 200);
    assert_int_equal(portbits_run(&set, window, 1, 0, 200), 200);
    assert_int_equal(portbits_run(&set, window, 1, 0, 201), 100); /* outside counts as the first */
    assert_int_equal(portbits_run(&set, window, 1, 0, 99), 100);
    assert_int_equal(portbits_run(&set, (dibs_range){ 200, 100 }, 1, 0, 150), 0);
}

/* Kubernetes' case 11. */
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

static void a_run_is_whole_aligned_and_inside(void **state)
{
    struct portbits bits = { 0 };

    (void) state;
    portbits_add_range(&bits, (dibs_range){ 1001, 1063 });
    portbits_add_range(&bits, (dibs_range){ 1065, 1300 });
    set = bits;
    assert_int_equal(portbits_run(&set, everything, 63, 0, 1), 1001);
    assert_int_equal(portbits_run(&set, everything, 64, 0, 1), 1065);
    assert_int_equal(portbits_run(&set, everything, 236, 0, 1), 1065);
    assert_int_equal(portbits_run(&set, everything, 237, 0, 1), 0);
    assert_int_equal(portbits_run(&set, everything, 16, 16, 1), 1008);
    assert_int_equal(portbits_run(&set, everything, 16, 100, 1), 1100);
    assert_int_equal(portbits_run(&set, everything, 4, 0, 1297), 1297);
    assert_int_equal(portbits_run(&set, everything, 4, 0, 1298), 1001); /* wraps */
    assert_int_equal(portbits_run(&set, (dibs_range){ 1060, 1066 }, 4, 0, 1060), 1060);
    assert_int_equal(portbits_run(&set, (dibs_range){ 1061, 1067 }, 4, 0, 1061), 0);
    assert_int_equal(portbits_run(&set, everything, 0, 0, 1), 0);
    assert_int_equal(portbits_run(&set, everything, 65536, 0, 1), 0);
    assert_int_equal(portbits_run(&set, everything, UINT32_MAX, UINT32_MAX, 1), 0);
    assert_int_equal(portbits_run(&set, everything, 1, UINT32_MAX, 1), 0);
}

static void the_whole_space_is_one_run(void **state)
{
    struct portbits bits = { 0 };

    (void) state;
    portbits_add_range(&bits, everything);
    set = bits;
    assert_int_equal(portbits_run(&set, everything, 65535, 0, 40000), 1);
    assert_int_equal(portbits_run(&set, everything, 1, 0, 65535), 65535);
    (void) portbits_remove(&set, 65535);
    assert_int_equal(portbits_run(&set, everything, 65535, 0, 1), 0);
    assert_int_equal(portbits_run(&set, everything, 65534, 0, 65535), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_answer_equals_the_naive_models),
        cmocka_unit_test(a_removed_port_is_not_found_again),
        cmocka_unit_test(port_0_is_never_a_member),
        cmocka_unit_test(an_empty_set_has_nothing_to_pick),
        cmocka_unit_test(the_last_free_port_is_found_from_everywhere),
        cmocka_unit_test(picking_stays_inside_the_window_and_wraps_once),
        cmocka_unit_test(case_11_bits_are_counted_in_every_word),
        cmocka_unit_test(a_run_is_whole_aligned_and_inside),
        cmocka_unit_test(the_whole_space_is_one_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
