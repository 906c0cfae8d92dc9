/* SPDX-License-Identifier: MIT */
/* The bitmap and allocator cases of Kubernetes' NodePort allocator (its numbers 1-10, 16-20 and 22-24) on the
 * engine: each claim goes through the choice, the ledger and the probe that the programs run.
 *
 * Kubernetes' bitmaps begin at bit 0, our pools at port BASE. Case 11 is in test_portbits_search.c, 21 in
 * test_band.c; 12 to 15 and 25 to 31 are in test_core_cluster.c, test_core_choice.c and e2e/bands.bats. */
#include "net/range_snapshot.h"
#include "support/core.h"

enum { BASE = 21000, CONFIGS = 4, MANY_MAX = 1024 };
static const struct config {
    uint16_t max;
    int32_t band;
} configs[CONFIGS] = { { 32, 0 }, { 8, 0 }, { 128, 16 }, { 1024, 64 } };
static const struct config *const banded = &configs[2]; /* cases 8 to 10 */

/* ---- the pool of a case ---- */

static void release_all(struct engine *e)
{
    size_t n = 0;

    ASSERT_OK(core_release(e->core, E_CALL(e, e->core), &(dibs_which){ .all_mine = true }, 0, &n, &e->err),
              &e->err);
}

/* The pool "ports" with no claim in it. */
static void set_up_ranges(struct engine *e, const char *ranges, int32_t band)
{
    release_all(e);
    e_pool(e, "ports", ranges, band, 0);
}

static void set_up(struct engine *e, const struct config *config)
{
    char ranges[32];

    (void) snprintf(ranges, sizeof ranges, "%d-%d", BASE, BASE + config->max - 1);
    set_up_ranges(e, ranges, config->band);
}

static dibs_pool_usage usage(struct engine *e)
{
    dibs_pool_usage out = { 0 };

    ASSERT_OK(core_pool_usage(e->core, E_CALL(e, e->core), "ports", &out, &e->err), &e->err);
    return out;
}

static void expect_usage(struct engine *e, uint32_t available, uint32_t n_static, uint32_t n_dynamic)
{
    dibs_pool_usage u = usage(e);

    assert_int_equal(u.n_available, available);
    assert_int_equal(u.n_static, n_static);
    assert_int_equal(u.n_dynamic, n_dynamic);
}

/* ---- taking and releasing ---- */

static dibs_status try_take(struct engine *e, uint16_t port, dibs_claim *out)
{
    dibs_request r = e_required(NULL, NULL, port);

    r.pool = "ports";
    return e_try(e, e->core, &r, out);
}

static dibs_claim take(struct engine *e, uint16_t port)
{
    dibs_claim out = { 0 };

    ASSERT_OK(try_take(e, port, &out), &e->err);
    assert_int_equal(out.port, port);
    return out;
}

static dibs_claim take_next(struct engine *e)
{
    dibs_request r = e_request(NULL, NULL);

    r.pool = "ports";
    return e_must(e, e->core, &r);
}

/* `n` ports at once, chosen by dibs or from `first` upward. None of them is in `seen` already. */
static void take_many(struct engine *e, size_t n, uint16_t first, struct portbits *seen)
{
    static dibs_request requests[MANY_MAX];
    static dibs_claim out[MANY_MAX];
    const dibs_batch batch = { .requests = requests, .n = n };

    assert_true(n <= MANY_MAX);
    for (size_t i = 0; i < n; i++) {
        requests[i] = first ? e_required(NULL, NULL, (uint16_t) (first + i)) : e_request(NULL, NULL);
        requests[i].pool = "ports";
    }
    ASSERT_OK(core_claim(e->core, E_CALL(e, e->core), &batch, out, &e->err), &e->err);
    for (size_t i = 0; i < n; i++) {
        assert_false(portbits_has(seen, out[i].port));
        portbits_add(seen, out[i].port);
    }
}

static size_t release_port(struct engine *e, uint16_t port)
{
    size_t n = 99;

    ASSERT_OK(core_release(e->core, E_CALL(e, e->core), &(dibs_which){ .port = port }, 0, &n, &e->err),
              &e->err);
    return n;
}

static void expect_full(struct engine *e)
{
    dibs_request r = e_request(NULL, NULL);
    dibs_claim out = { .port = 7 };

    r.pool = "ports";
    assert_int_equal(e_try(e, e->core, &r, &out), DIBS_EXHAUSTED);
    assert_int_equal(out.port, 7);
    assert_int_equal(usage(e).n_available, 0);
}

static void expect_refused(struct engine *e, uint16_t port, dibs_status status, const char *says)
{
    dibs_claim out = { .port = 7 };

    assert_int_equal(try_take(e, port, &out), status);
    assert_non_null(strstr(e->err.msg, says));
    assert_int_equal(out.port, 7);
}

static bool add_port(void *ctx, const dibs_claim *claim)
{
    assert_false(portbits_has(ctx, claim->port));
    portbits_add(ctx, claim->port);
    return true;
}

/* The list has exactly these ports. */
static void expect_listed(struct engine *e, const uint16_t *ports, size_t n)
{
    struct portbits found = { 0 };

    ASSERT_OK(
        core_list(e->core, E_CALL(e, e->core), &(dibs_filter){ .pool = "ports" }, add_port, &found, &e->err),
        &e->err);
    assert_int_equal(portbits_count(&found), n);
    for (size_t i = 0; i < n; i++)
        assert_true(portbits_has(&found, ports[i]));
}

/* ---- the bitmap's cases ---- */

static void case_1_one_dynamic_claim_leaves_one_port_less(void **state)
{
    struct engine *e = *state;

    need_network();
    for (size_t c = 0; c < CONFIGS; c++) {
        set_up(e, &configs[c]);
        (void) take_next(e);
        expect_usage(e, configs[c].max - 1u, 0, 1);
    }
}

static void case_2_every_port_can_be_taken_by_number_then_the_pool_is_full(void **state)
{
    struct engine *e = *state;

    need_network();
    for (size_t c = 0; c < CONFIGS; c++) {
        struct portbits seen = { 0 };

        set_up(e, &configs[c]);
        take_many(e, configs[c].max, BASE, &seen);
        expect_full(e);
        expect_refused(e, (uint16_t) (BASE + configs[c].max), DIBS_INVALID, "21000-");
        expect_usage(e, 0, configs[c].max, 0);
    }
}

static void case_3_dynamic_claims_reach_the_full_capacity(void **state)
{
    struct engine *e = *state;

    need_network();
    for (size_t c = 0; c < CONFIGS; c++) {
        struct portbits seen = { 0 };

        set_up(e, &configs[c]);
        take_many(e, configs[c].max, 0, &seen);
        expect_full(e);
        expect_usage(e, 0, 0, configs[c].max);
    }
}

static void case_4_a_taken_port_is_refused(void **state)
{
    struct engine *e = *state;

    need_network();
    for (size_t c = 0; c < CONFIGS; c++) {
        set_up(e, &configs[c]);
        (void) take(e, BASE + 3);
        expect_refused(e, BASE + 3, DIBS_TAKEN, "21003");
        expect_usage(e, configs[c].max - 1u, 1, 0);
    }
}

static void case_5_a_released_port_is_free_and_a_second_release_does_nothing(void **state)
{
    struct engine *e = *state;

    need_network();
    for (size_t c = 0; c < CONFIGS; c++) {
        set_up(e, &configs[c]);
        dibs_claim claim = take(e, BASE + 3);
        assert_int_equal(e_release(e, e->core, &claim), 1);
        assert_int_equal(e_release(e, e->core, &claim), 0);
        assert_int_equal(release_port(e, (uint16_t) (BASE + configs[c].max)), 0);
        expect_usage(e, configs[c].max, 0, 0);
        (void) take(e, BASE + 3);
    }
}

static void case_6_a_list_has_exactly_the_taken_ports(void **state)
{
    static const uint16_t ports[] = { BASE,     BASE + 2, BASE + 5, BASE + 1,
                                      BASE + 3, BASE + 4, BASE + 6, BASE + 7 };
    static const size_t sizes[] = { 0, 1, 3, 8 };
    struct engine *e = *state;

    need_network();
    for (size_t c = 0; c < CONFIGS; c++) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            set_up(e, &configs[c]);
            for (size_t i = 0; i < sizes[s]; i++)
                (void) take(e, ports[i]);
            expect_listed(e, ports, sizes[s]);
        }
    }
}

static void case_8_dynamic_claims_leave_the_lower_band_alone_until_the_upper_is_full(void **state)
{
    struct engine *e = *state;

    need_network();
    set_up(e, banded);
    for (int i = 0; i < 112; i++)
        assert_in_range(take_next(e).port, BASE + 16, BASE + 127);
    expect_usage(e, 16, 0, 112);
    assert_in_range(take_next(e).port, BASE, BASE + 15);
    expect_usage(e, 15, 0, 113);
}

static void case_9_the_last_free_port_of_the_lower_band_is_found(void **state)
{
    struct engine *e = *state;
    struct portbits seen = { 0 };

    need_network();
    set_up(e, banded);
    take_many(e, 112, BASE + 16, &seen);
    take_many(e, 15, BASE, &seen);
    expect_usage(e, 1, 127, 0);
    assert_int_equal(take_next(e).port, BASE + 15);
    expect_full(e);
    expect_usage(e, 0, 127, 1);
}

static void case_10_all_dynamic_claims_have_different_ports(void **state)
{
    struct engine *e = *state;
    uint8_t seen[128] = { 0 };

    need_network();
    set_up(e, banded);
    for (int i = 0; i < 128; i++)
        assert_int_equal(seen[take_next(e).port - BASE]++, 0);
}

/* ---- the allocator's cases ---- */

/* 10080 is a port that browsers refuse: choice withholds it, a number may be claimed. */
static void case_16_drain_release_and_refusals_of_10000_to_10200(void **state)
{
    struct engine *e = *state;
    struct portbits seen = { 0 };

    need_network();
    set_up_ranges(e, "10000-10200", DIBS_BAND_AUTO);
    expect_usage(e, 200, 0, 0);
    take_many(e, 200, 0, &seen);
    expect_full(e);
    (void) take(e, 10080);
    assert_int_equal(release_port(e, 10005), 1);
    expect_usage(e, 1, 1, 199);
    assert_int_equal(take_next(e).port, 10005);
    assert_int_equal(release_port(e, 10005), 1);
    expect_refused(e, 1, DIBS_INVALID, "10000-10200");
    expect_refused(e, 10001, DIBS_TAKEN, "10001");
    expect_refused(e, 20000, DIBS_INVALID, "10000-10200");
    expect_refused(e, 10201, DIBS_INVALID, "10000-10200");
    expect_usage(e, 1, 1, 199);
    (void) take(e, 10005);
    expect_usage(e, 0, 2, 199);
}

static void case_17_the_upper_band_of_30000_to_30128_fills_first(void **state)
{
    struct engine *e = *state;
    struct portbits seen = { 0 };

    need_network();
    set_up_ranges(e, "30000-30128", DIBS_BAND_AUTO);
    assert_int_equal(usage(e).band, 16);
    take_many(e, 113, 0, &seen);
    for (uint32_t port = 30000; port <= 30128; port++)
        assert_int_equal(portbits_has(&seen, (uint16_t) port), port >= 30016);
    expect_usage(e, 16, 0, 113);
    take_many(e, 16, 30000, &seen);
    expect_full(e);
    assert_int_equal(release_port(e, 30053), 1);
    assert_int_equal(take_next(e).port, 30053);
    expect_full(e);
}

static void case_18_a_list_of_10000_to_10200_has_exactly_the_taken_ports(void **state)
{
    static const uint16_t ports[] = { 10000, 10200, 10099 };
    struct engine *e = *state;

    need_network();
    set_up_ranges(e, "10000-10200", DIBS_BAND_AUTO);
    expect_listed(e, ports, 0);
    for (size_t i = 0; i < 3; i++) {
        (void) take(e, ports[i]);
        expect_listed(e, ports, i + 1);
    }
}

static void case_22_the_counts_are_right_from_the_start_and_after_every_step(void **state)
{
    struct engine *e = *state;
    struct portbits seen = { 0 };

    need_network();
    set_up_ranges(e, "30000-32767", DIBS_BAND_AUTO);
    expect_usage(e, 2768, 0, 0); /* W13: Kubernetes says 0 free here */
    dibs_claim a = take_next(e);
    dibs_claim b = take_next(e);
    expect_usage(e, 2766, 0, 2);
    expect_refused(e, a.port, DIBS_TAKEN, "already");
    expect_refused(e, b.port, DIBS_TAKEN, "already");
    expect_usage(e, 2766, 0, 2);
    assert_int_equal(e_release(e, e->core, &a), 1);
    assert_int_equal(e_release(e, e->core, &b), 1);
    expect_usage(e, 2768, 0, 0);
    take_many(e, 1024, 0, &seen);
    take_many(e, 1024, 0, &seen);
    take_many(e, 720, 0, &seen);
    expect_usage(e, 0, 0, 2768);
}

static void case_23_static_and_dynamic_claims_are_counted_apart(void **state)
{
    struct engine *e = *state;

    need_network();
    set_up_ranges(e, "30000-32767", DIBS_BAND_AUTO);
    dibs_claim a = take_next(e);
    (void) take_next(e);
    expect_usage(e, 2766, 0, 2);
    expect_refused(e, a.port, DIBS_TAKEN, "already");
    expect_usage(e, 2766, 0, 2);
    (void) take(e, 30000);
    expect_usage(e, 2765, 1, 2);
}

static void case_24_two_pools_are_counted_apart(void **state)
{
    struct engine *e = *state;
    struct portbits seen = { 0 };
    dibs_pool_usage other = { 0 };

    need_network();
    set_up_ranges(e, "30000-31999", DIBS_BAND_AUTO);
    take_many(e, 100, 0, &seen);
    e_pool(e, "other", "20000-21999", DIBS_BAND_AUTO, 0);
    for (uint16_t port = 20000; port < 20020; port++)
        (void) e_port(e, e->core, NULL, port);
    expect_usage(e, 1900, 0, 100);
    ASSERT_OK(core_pool_usage(e->core, E_CALL(e, e->core), "other", &other, &e->err), &e->err);
    assert_int_equal(other.n_static + other.n_dynamic, 20);
}

/* ---- snapshots ---- */

struct copy {
    char range[DIBS_RANGES_TEXT_MAX + 1];
    uint8_t bytes[RANGE_SNAPSHOT_BYTES_MAX];
    size_t n;
};

static void export_pool(struct engine *e, struct copy *out)
{
    ASSERT_OK(core_snapshot_export(e->core, E_CALL(e, e->core), "ports",
                                   &(struct core_range_export){ out->range, out->bytes, &out->n }, &e->err),
              &e->err);
}

static dibs_status import_as(struct engine *e, const struct copy *copy, const char *range, size_t *n)
{
    const dibs_range_snapshot snapshot = { range, copy->bytes, copy->n };

    return core_snapshot_import(e->core, E_CALL(e, e->core), "ports", &snapshot, n, &e->err);
}

static void case_7_a_snapshot_restores_into_a_smaller_pool_of_the_same_start(void **state)
{
    struct engine *e = *state;
    static struct copy copy;
    struct portbits seen = { 0 };

    need_network();
    for (size_t c = 0; c < CONFIGS; c++) {
        size_t n = 0;

        set_up(e, &configs[c]);
        (void) take(e, BASE + 3);
        export_pool(e, &copy);
        set_up_ranges(e, "21000-21009", 0);
        ASSERT_OK(import_as(e, &copy, "21000-21009", &n), &e->err);
        assert_int_equal(n, 1);
        expect_listed(e, (const uint16_t[]){ BASE + 3 }, 1);
        memset(&seen, 0, sizeof seen);
        take_many(e, 9, 0, &seen);
        expect_full(e);
    }
}

static void case_19_a_snapshot_restores_in_its_own_range_and_not_in_another(void **state)
{
    struct engine *e = *state;
    static struct copy copy, again;
    struct portbits seen = { 0 };
    size_t n = 0;

    need_network();
    set_up_ranges(e, "10000-10200", DIBS_BAND_AUTO);
    (void) take(e, 10200); /* beyond the 101 ports of the other range */
    take_many(e, 9, 0, &seen);
    export_pool(e, &copy);
    set_up_ranges(e, "2200-2300", DIBS_BAND_AUTO);
    /* W9: bits that do not fit are refused, not counted. */
    assert_int_equal(import_as(e, &copy, "2200-2300", &n), DIBS_INVALID);
    expect_listed(e, NULL, 0);
    set_up_ranges(e, "10000-10200", DIBS_BAND_AUTO);
    ASSERT_OK(import_as(e, &copy, "10000-10200", &n), &e->err);
    assert_int_equal(n, 10);
    export_pool(e, &again);
    assert_memory_equal(&again, &copy, sizeof copy);
    assert_int_equal(usage(e).n_available, 190);
}

static void case_20_a_new_pool_from_a_snapshot_has_its_ports(void **state)
{
    struct engine *e = *state;
    static struct copy copy, again;
    struct portbits seen = { 0 };
    size_t n = 0;

    need_network();
    set_up_ranges(e, "2200-2300", DIBS_BAND_AUTO);
    take_many(e, 50, 0, &seen);
    export_pool(e, &copy);
    set_up_ranges(e, "2200-2300", DIBS_BAND_AUTO);
    ASSERT_OK(import_as(e, &copy, copy.range, &n), &e->err);
    assert_int_equal(n, 50);
    assert_int_equal(usage(e).n_available, 51);
    export_pool(e, &again);
    assert_memory_equal(&again, &copy, sizeof copy);
}

/* ---- beyond Kubernetes ---- */

static void a_band_may_reach_over_several_ranges(void **state)
{
    struct engine *e = *state;

    need_network();
    set_up_ranges(e, "2100-2109,2200-2209", 15);
    for (int i = 0; i < 5; i++)
        assert_in_range(take_next(e).port, 2205, 2209);
    for (int i = 0; i < 15; i++)
        assert_true(take_next(e).port < 2205);
    expect_full(e);
    expect_refused(e, 2150, DIBS_INVALID, "2100-2109,2200-2209");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(case_1_one_dynamic_claim_leaves_one_port_less),
        E_TEST(case_2_every_port_can_be_taken_by_number_then_the_pool_is_full),
        E_TEST(case_3_dynamic_claims_reach_the_full_capacity),
        E_TEST(case_4_a_taken_port_is_refused),
        E_TEST(case_5_a_released_port_is_free_and_a_second_release_does_nothing),
        E_TEST(case_6_a_list_has_exactly_the_taken_ports),
        E_TEST(case_7_a_snapshot_restores_into_a_smaller_pool_of_the_same_start),
        E_TEST(case_8_dynamic_claims_leave_the_lower_band_alone_until_the_upper_is_full),
        E_TEST(case_9_the_last_free_port_of_the_lower_band_is_found),
        E_TEST(case_10_all_dynamic_claims_have_different_ports),
        E_TEST(case_16_drain_release_and_refusals_of_10000_to_10200),
        E_TEST(case_17_the_upper_band_of_30000_to_30128_fills_first),
        E_TEST(case_18_a_list_of_10000_to_10200_has_exactly_the_taken_ports),
        E_TEST(case_19_a_snapshot_restores_in_its_own_range_and_not_in_another),
        E_TEST(case_20_a_new_pool_from_a_snapshot_has_its_ports),
        E_TEST(case_22_the_counts_are_right_from_the_start_and_after_every_step),
        E_TEST(case_23_static_and_dynamic_claims_are_counted_apart),
        E_TEST(case_24_two_pools_are_counted_apart),
        E_TEST(a_band_may_reach_over_several_ranges),
    };

    e_own_network();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
