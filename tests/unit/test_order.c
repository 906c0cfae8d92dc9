/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "core/order.h"
#include "dibs/net.h"
#include "support/t.h"

struct golden {
    const char *proto;
    const char *address;
    const char *range;
    uint64_t hash;
    uint32_t offset;
    uint32_t step;
    uint16_t first[5];
};

static const struct golden goldens[] = {
    { "TCP",
      "127.0.0.1",
      "20000-32767",
      0xa7b8e7b86a5cc175,
      6197,
      859,
      { 26197, 27056, 27915, 28774, 29633 } },
    { "TCP", "127.0.0.1", "26010-26020", 0xa7b8e7b86a5cc175, 5, 5, { 26015, 26020, 26014, 26019, 26013 } },
    { "TCP", "[::1]", "20000-32767", 0x0b5df268edf25757, 695, 989, { 20695, 21684, 22673, 23662, 24651 } },
    { "TCP",
      "0.0.0.0",
      "20000-32767",
      0x957b58208bf5e12e,
      750,
      10931,
      { 20750, 31681, 29844, 28007, 26170 } },
    { "UDP",
      "127.0.0.1",
      "20000-32767",
      0xb2806e1289782731,
      209,
      9445,
      { 20209, 29654, 26331, 23008, 32453 } },
    { "UDP", "[::1]", "26010-26020", 0x562dfa195356292b, 7, 3, { 26017, 26020, 26012, 26015, 26018 } },
};

static void dcp_stride_reproduces_every_golden_vector(void **state)
{
    const struct order *order = order_find("dcp-stride");

    (void) state;
    assert_non_null(order);
    assert_non_null(order->walk);
    for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
        const struct golden *want = &goldens[i];
        struct order_key key = { .instance = "abcdefghijkl", .proto = want->proto, .address = want->address };
        dibs_ranges ranges = { .n = 0 };
        dibs_err err = { 0 };
        char joined[64] = "";

        (void) snprintf(joined, sizeof joined, "%s%s%s", key.instance, key.proto, key.address);
        assert_true(hash_fnv1a(HASH_FNV_BASIS, joined, strlen(joined)) == want->hash);
        ASSERT_OK(dibs_ranges_parse(want->range, &ranges, &err), &err);
        uint32_t total = dibs_ranges_count(&ranges);
        struct order_walk walk = order->walk(&key, total);
        assert_int_equal(walk.offset, want->offset);
        assert_int_equal(walk.step, want->step);
        for (uint32_t k = 0; k < 5; k++)
            assert_int_equal(dibs_ranges_at(&ranges, order_position(walk, k, total)), want->first[k]);
    }
}

static void fnv1a_gives_the_published_values(void **state)
{
    (void) state;
    assert_true(hash_fnv1a(HASH_FNV_BASIS, "", 0) == 0xcbf29ce484222325u);
    assert_true(hash_fnv1a(HASH_FNV_BASIS, "a", 1) == 0xaf63dc4c8601ec8cu);
    assert_true(hash_fnv1a(HASH_FNV_BASIS, "foobar", 6) == 0x85944171f73967e8u);
    assert_true(hash_fnv1a(hash_fnv1a(HASH_FNV_BASIS, "foo", 3), "bar", 3) == 0x85944171f73967e8u);
}

static void dcp_step_gives_every_stated_value(void **state)
{
    static const struct {
        uint64_t x;
        uint32_t total;
        uint32_t step;
    } rows[] = { { 0, 2, 1 },     { 1, 2, 1 },     { UINT64_MAX, 2, 1 }, { 0, 3, 1 },  { 1, 3, 2 },
                 { 1, 4, 3 },     { 1, 6, 5 },     { 0, 11, 1 },         { 1, 11, 2 }, { 187, 11, 8 },
                 { 0, 12768, 1 }, { 1, 12768, 5 }, { 77, 1, 1 },         { 77, 0, 1 } };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(order_dcp_step(rows[i].total, rows[i].x), rows[i].step);
}

/* Fails unless k = 0..total-1 visits every position exactly once. */
static void check_full_cycle(struct order_walk walk, uint32_t total)
{
    static uint8_t seen[65536];

    memset(seen, 0, sizeof seen);
    for (uint32_t k = 0; k < total; k++) {
        uint32_t at = order_position(walk, k, total);

        if (at >= total || seen[at])
            fail_msg("total %u, offset %u, step %u: position %u at k=%u", total, walk.offset, walk.step, at,
                     k);
        seen[at] = 1;
    }
    assert_int_equal(order_position(walk, total, total), order_position(walk, 0, total));
}

static void dcp_case_11_the_step_covers_every_total_to_100(void **state)
{
    (void) state;
    for (uint32_t total = 2; total <= 100; total++)
        check_full_cycle((struct order_walk){ 0, order_dcp_step(total, (uint64_t) total * 17) }, total);
}

static void every_order_visits_every_position_exactly_once(void **state)
{
    static const uint32_t totals[] = { 1,  2,   3,    4,    5,    6,     7,     8,     16,    17,   60,
                                       97, 128, 1000, 2768, 4096, 12768, 30030, 32768, 65521, 65535 };
    size_t n = 0;

    (void) state;
    for (const struct order *order = order_at(0); order; order = order_at(++n)) {
        for (size_t i = 0; order->walk && i < sizeof totals / sizeof *totals; i++) {
            for (uint64_t salt = 0; salt < 5; salt++) {
                struct order_key key = { .salt = salt, .entropy = salt * 77, .pool = "default" };

                check_full_cycle(order->walk(&key, totals[i]), totals[i]);
            }
        }
    }
    assert_int_equal(n, 4);
}

static void dcp_cases_9_and_10_a_walk_yields_each_port_of_its_ranges_once(void **state)
{
    static const struct {
        const char *range;
        uint32_t total;
    } rows[] = { { "26010-26011,26020-26022", 5 }, { "26010-26015,26013-26017,26020-26021", 10 } };
    dibs_err err = { 0 };

    (void) state;
    for (size_t r = 0; r < 2; r++) {
        for (size_t i = 1; order_at(i); i++) {
            struct order_key key = { .pool = rows[r].range, .instance = "abcdefghijkl", .proto = "TCP" };
            dibs_ranges ranges = { .n = 0 };
            uint8_t seen[65536] = { 0 };

            ASSERT_OK(dibs_ranges_parse(rows[r].range, &ranges, &err), &err);
            assert_int_equal(dibs_ranges_count(&ranges), rows[r].total);
            struct order_walk walk = order_at(i)->walk(&key, rows[r].total);
            for (uint32_t k = 0; k < rows[r].total; k++) {
                uint16_t port = dibs_ranges_at(&ranges, order_position(walk, k, rows[r].total));

                assert_true(dibs_ranges_contain(&ranges, port));
                assert_int_equal(seen[port]++, 0);
            }
        }
    }
}

static void positions_do_not_overflow_for_any_running_number(void **state)
{
    struct order_walk walk = { .offset = 65534, .step = 65534 };
    struct order_walk widest = { .offset = UINT32_MAX - 1, .step = UINT32_MAX - 1 };

    (void) state;
    for (uint64_t k = 0; k < 10; k++)
        assert_int_equal(order_position(walk, k * 65535 + 3, 65535), order_position(walk, 3, 65535));
    /* offset + k * step = -1 - k (mod total): the last position is 0, the largest k of all wraps to 0. */
    assert_int_equal(order_position(widest, UINT32_MAX - 1, UINT32_MAX), 0);
    assert_int_equal(order_position(walk, UINT64_MAX, 65535), 65534);
}

static void orders_are_found_by_name_and_stride_is_the_default(void **state)
{
    (void) state;
    assert_string_equal(order_at(0)->name, "stride");
    assert_null(order_at(0)->walk); /* it goes by pieces */
    for (size_t i = 0; order_at(i); i++) {
        assert_ptr_equal(order_find(order_at(i)->name), order_at(i));
        assert_true(i == 0 || order_at(i)->walk);
        assert_true(strlen(order_at(i)->summary) > 0);
    }
    assert_null(order_at(SIZE_MAX));
    assert_null(order_find("Stride"));
    assert_null(order_find(""));
    assert_null(order_find(NULL));
}

static void lowest_counts_upward_from_the_first(void **state)
{
    struct order_walk walk = order_find("lowest")->walk(&(struct order_key){ .salt = 9 }, 100);

    (void) state;
    for (uint32_t k = 0; k < 100; k++)
        assert_int_equal(order_position(walk, k, 100), k);
}

static bool same_walk(struct order_walk a, struct order_walk b)
{
    return a.offset == b.offset && a.step == b.step;
}

static struct order_walk piece_walk(const struct order_key *key)
{
    struct order_pieces pieces = order_pieces(key, 12768, 0);

    return (struct order_walk){ pieces.start, pieces.step };
}

static void stride_depends_on_salt_and_pool_alone(void **state)
{
    struct order_key key = { .salt = 1, .pool = "default", .entropy = 5 };
    struct order_walk first = piece_walk(&key);

    (void) state;
    key.entropy = 6;
    key.instance = "other";
    assert_true(same_walk(first, piece_walk(&key)));
    key.salt = 2;
    assert_false(same_walk(first, piece_walk(&key)));
    key.salt = 1;
    key.pool = "defaulu";
    assert_false(same_walk(first, piece_walk(&key)));
}

static void random_depends_on_its_entropy(void **state)
{
    const struct order *random = order_find("random");
    struct order_key key = { .entropy = 5, .pool = "default" };
    struct order_walk first = random->walk(&key, 12768);

    (void) state;
    assert_true(same_walk(first, random->walk(&key, 12768)));
    key.entropy = 6;
    assert_false(same_walk(first, random->walk(&key, 12768)));
}

/* With one hash for both, equal offsets would come with few different steps. 4096 keys
 * over 61 positions: each offset about 67 times, with as many different steps as chance gives. */
static void check_independence(bool is_stride)
{
    enum { KEYS = 4096, TOTAL = 61 };
    uint32_t pairs[TOTAL][TOTAL] = { 0 };
    uint32_t offsets[TOTAL] = { 0 };
    uint32_t different = 0;

    for (uint64_t salt = 0; salt < KEYS; salt++) {
        struct order_key key = { .salt = salt, .entropy = salt, .pool = "default" };
        struct order_pieces pieces = order_pieces(&key, TOTAL * ORDER_PIECE, 0);
        struct order_walk walk = is_stride ? (struct order_walk){ pieces.start / ORDER_PIECE, pieces.step }
                                           : order_find("random")->walk(&key, TOTAL);

        offsets[walk.offset]++;
        different += pairs[walk.offset][walk.step]++ == 0;
    }
    for (uint32_t i = 0; i < TOTAL; i++)
        assert_in_range(offsets[i], 30, 110); /* 67 expected, deviation 8 */
    /* 3660 pairs exist; 4096 independent draws meet 1 - e^-1.12 of them: about 2465. */
    assert_in_range(different, 2350, 2580);
}

static void offset_and_step_are_independent(void **state)
{
    (void) state;
    check_independence(true); /* the default */
    check_independence(false);
}

/* The step of 61 positions is a hash mod 60, the offset of 60 positions too: from one and the
 * same hash they would always agree, from two only by chance. */
static void offset_and_step_do_not_share_their_hash(void **state)
{
    const struct order *random = order_find("random");
    uint32_t agreed = 0;

    (void) state;
    for (uint64_t salt = 0; salt < 4096; salt++) {
        struct order_key key = { .entropy = salt, .pool = "default" };

        agreed += random->walk(&key, 61).step - 1 == random->walk(&key, 60).offset;
    }
    assert_in_range(agreed, 30, 110); /* 68 expected, deviation 8 */
}

static void a_name_prefers_one_position_and_names_spread(void **state)
{
    enum { NAMES = 4096, TOTAL = 64 };
    uint32_t hits[TOTAL] = { 0 };

    (void) state;
    for (unsigned i = 0; i < NAMES; i++) {
        char name[32] = "";

        (void) snprintf(name, sizeof name, "shop/web/%u/-/http", i);
        uint32_t at = order_name_position(name, 7, TOTAL);
        assert_int_equal(at, order_name_position(name, 7, TOTAL));
        assert_true(at < TOTAL);
        hits[at]++;
    }
    for (uint32_t i = 0; i < TOTAL; i++)
        assert_in_range(hits[i], 25, 105); /* 64 expected, deviation 8 */
    assert_int_equal(order_name_position("any", 7, 1), 0);
    assert_int_not_equal(order_name_position("any", 7, 65535), order_name_position("any", 8, 65535));
}

static void pieces_visit_every_position_exactly_once_from_anywhere(void **state)
{
    static const uint32_t totals[] = { 1, 2, 63, 64, 65, 968, 2682, 65408 };
    static const struct order_place places[] = { { 0, 0 }, { 0, 1 },     { 0, 3 },
                                                 { 2, 3 }, { 7, 10000 }, { 9999, 10000 } };
    static const uint64_t starts[] = { 0, 1, 63, 64, 1000003 };
    const struct order_key key = { .salt = 5, .pool = "default" };
    static uint8_t seen[65536];

    (void) state;
    for (size_t t = 0; t < sizeof totals / sizeof *totals; t++)
        for (size_t p = 0; p < sizeof places / sizeof *places; p++)
            for (size_t k = 0; k < sizeof starts / sizeof *starts; k++) {
                uint32_t skew = (uint32_t) (t * 13 + p) % ORDER_PIECE;
                struct order_pieces pieces = order_pieces(&key, totals[t], skew);
                uint32_t before = 0;
                uint32_t n_more = 0; /* steps that must lead to the next neighbour */

                order_pieces_set_home(&pieces, places[p]);
                pieces.detour = (uint32_t) (k * 77);
                memset(seen, 0, sizeof seen);
                for (uint32_t step = 0; step < totals[t]; step++) {
                    uint32_t n = 0;
                    uint32_t at = order_pieces_position(&pieces, starts[k], step, &n);

                    assert_true(at < totals[t]);
                    assert_int_equal(seen[at]++, 0);
                    if (n_more > 0)
                        assert_int_equal(at, before + 1);
                    assert_true(n >= 1 && (n_more == 0 || n == n_more));
                    n_more = n - 1;
                    before = at;
                }
                assert_int_equal(n_more, 0);
            }
}

static void neighbours_follow_each_other_and_no_step_is_in_vain(void **state)
{
    static const uint32_t totals[] = { 1, 2, 63, 64, 65, 127, 968, 2682, 12768, 65408 };
    static uint8_t seen[65536];

    (void) state;
    for (size_t t = 0; t < sizeof totals / sizeof *totals; t++)
        for (uint64_t salt = 0; salt < 20; salt++) {
            const struct order_key key = { .salt = salt, .pool = "default" };
            struct order_pieces pieces = order_pieces(&key, totals[t], (uint32_t) salt * 3);
            uint32_t n_jumps = 0;
            uint32_t before = 0;

            memset(seen, 0, sizeof seen);
            for (uint64_t k = 1000003; k < 1000003 + (uint64_t) totals[t]; k++) {
                uint32_t at = order_pieces_position(&pieces, k, 0, &(uint32_t){ 0 });

                assert_true(at < totals[t]);
                assert_int_equal(seen[at]++, 0);
                n_jumps += at != before + 1;
                before = at;
            }
            assert_in_range(n_jumps, 1, totals[t] / ORDER_PIECE + 3);
        }
}

static void ledgers_begin_at_different_ports_also_of_a_small_pool(void **state)
{
    enum { LEDGERS = 640, TOTAL = 10 };
    uint32_t hits[TOTAL] = { 0 };

    (void) state;
    for (uint64_t salt = 0; salt < LEDGERS; salt++) {
        const struct order_key key = { .salt = salt, .pool = "default" };
        struct order_pieces pieces = order_pieces(&key, TOTAL, 0);

        hits[order_pieces_position(&pieces, 0, 0, &(uint32_t){ 0 })]++;
    }
    for (uint32_t at = 0; at < TOTAL; at++)
        assert_in_range(hits[at], 24, 104); /* 64 expected, deviation 8 */
}

static void hosts_have_different_pieces_as_their_home(void **state)
{
    enum { TOTAL = 2682, N = 4 };
    const struct order_key key = { .salt = 9, .pool = "nodeports" };
    uint8_t whose[TOTAL] = { 0 };

    (void) state;
    for (uint32_t rank = 0; rank < N; rank++) {
        struct order_pieces pieces = order_pieces(&key, TOTAL, 6);

        order_pieces_set_home(&pieces, (struct order_place){ rank, N });
        /* However far it has come, the first ports that it looks at are none of the others' first ones. */
        for (uint64_t k = 0; k < 10000; k += 37) {
            uint32_t at = order_pieces_position(&pieces, k, 0, &(uint32_t){ 0 });

            assert_true(at < TOTAL);
            assert_true(whose[at] == 0 || whose[at] == rank + 1);
            whose[at] = (uint8_t) (rank + 1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dcp_stride_reproduces_every_golden_vector),
        cmocka_unit_test(fnv1a_gives_the_published_values),
        cmocka_unit_test(dcp_step_gives_every_stated_value),
        cmocka_unit_test(dcp_case_11_the_step_covers_every_total_to_100),
        cmocka_unit_test(every_order_visits_every_position_exactly_once),
        cmocka_unit_test(pieces_visit_every_position_exactly_once_from_anywhere),
        cmocka_unit_test(neighbours_follow_each_other_and_no_step_is_in_vain),
        cmocka_unit_test(ledgers_begin_at_different_ports_also_of_a_small_pool),
        cmocka_unit_test(hosts_have_different_pieces_as_their_home),
        cmocka_unit_test(dcp_cases_9_and_10_a_walk_yields_each_port_of_its_ranges_once),
        cmocka_unit_test(positions_do_not_overflow_for_any_running_number),
        cmocka_unit_test(orders_are_found_by_name_and_stride_is_the_default),
        cmocka_unit_test(lowest_counts_upward_from_the_first),
        cmocka_unit_test(stride_depends_on_salt_and_pool_alone),
        cmocka_unit_test(random_depends_on_its_entropy),
        cmocka_unit_test(offset_and_step_are_independent),
        cmocka_unit_test(offset_and_step_do_not_share_their_hash),
        cmocka_unit_test(a_name_prefers_one_position_and_names_spread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
