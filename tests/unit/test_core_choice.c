/* SPDX-License-Identifier: MIT */
/* The port that dibs chooses: bands, cooldown, cursor, orders, other handles, dead holders (INV-8), dry runs.
 */
#include "core/attempt.h"
#include "core/candidate.h"
#include "core/cooldown.h"
#include "support/core.h"

/* ---- bands ---- */

static void K1_K10_choice_takes_the_upper_band_until_it_is_full(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request(NULL, NULL);
    bool seen[129] = { false };

    need_network();
    e_pool(e, "small", "30000-30128", DIBS_BAND_AUTO, 0);
    r.pool = "small";
    for (int i = 0; i < 129; i++) { /* seeds §3.9 case 17, through the engine and the ledger */
        uint16_t port = e_must(e, e->core, &r).port;

        assert_in_range(port, i < 113 ? 30016 : 30000, i < 113 ? 30128 : 30015);
        assert_false(seen[port - 30000]);
        seen[port - 30000] = true;
    }
    assert_int_equal(e_try(e, e->core, &r, &(dibs_claim){ 0 }), DIBS_EXHAUSTED); /* K3 */
}

static void K2_W10_a_band_can_be_set_off_or_given_by_number(void **state)
{
    struct engine *e = *state;
    static const struct {
        int32_t band;
        uint16_t first;
    } bands[] = { { DIBS_BAND_AUTO, 30016 }, { 0, 30000 }, { 100, 30100 }, { 5, 30005 } };
    dibs_request r = e_request(NULL, NULL);

    need_network();
    (void) snprintf(e->settings.order, sizeof e->settings.order, "lowest");
    for (size_t i = 0; i < sizeof bands / sizeof bands[0]; i++) {
        dibs_pool pool = { .name = "p",
                           .ranges = e_ranges("30000-30128"),
                           .band = bands[i].band,
                           .cooldown_ms = 0,
                           .order = "lowest" };

        ASSERT_OK(core_pool_put(e->core, E_CALL(e, e->core), &pool, &e->err), &e->err);
        r.pool = "p";
        dibs_claim out = e_must(e, e->core, &r);
        assert_int_equal(out.port, bands[i].first);
        assert_int_equal(e_release(e, e->core, &out), 1);
    }
}

static void K1_a_number_may_be_of_either_band(void **state)
{
    struct engine *e = *state;

    need_network();
    e_pool(e, "small", "30000-30128", DIBS_BAND_AUTO, 0);
    dibs_request r = e_required(NULL, NULL, 30000);
    r.pool = "small";
    assert_int_equal(e_must(e, e->core, &r).port, 30000);
    r.port = 30128;
    assert_int_equal(e_must(e, e->core, &r).port, 30128);
}

static void K5_bands_on_off_and_on_again_change_nothing_that_is_stored(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request(NULL, NULL);
    uint16_t ports[129];
    bool seen[129] = { false };

    need_network();
    e_pool(e, "small", "30000-30128", DIBS_BAND_AUTO, 0);
    e->settings2 = e->settings;
    e->settings2.band = 0;
    e->settings2.source[DIBS_SET_BAND] = DIBS_FROM_FLAG;
    struct core *off = e->more[0] = e_open(e, "uid:3000", 3000, false, &e->settings2);
    r.pool = "small";
    for (int i = 0; i < 129; i++) { /* both at once, in turns: full capacity, no number twice */
        ports[i] = e_must(e, i % 2 ? off : e->core, &r).port;
        assert_false(seen[ports[i] - 30000]);
        seen[ports[i] - 30000] = true;
    }
    assert_int_equal(e_try(e, off, &r, &(dibs_claim){ 0 }), DIBS_EXHAUSTED);
    assert_int_equal(e_try(e, e->core, &r, &(dibs_claim){ 0 }), DIBS_EXHAUSTED);
    assert_int_equal(e_count(e, &(dibs_filter){ .pool = "small" }), 129);
}

/* The first port that a pool gives out of its lower band, whose 40 ports begin at `first`. */
static uint16_t first_of_the_lower_band(struct engine *e, const char *name, uint16_t first)
{
    dibs_request r = e_request(NULL, "127.0.0.1");
    char ranges[16];

    (void) snprintf(ranges, sizeof ranges, "%u-%u", first, first + 49);
    e_pool(e, name, ranges, 40, 0);
    r.pool = name;
    for (size_t i = 0; i < 10; i++)
        assert_true(e_must(e, e->core, &r).port >= first + 40);
    return e_must(e, e->core, &r).port;
}

static void a_spill_into_the_lower_band_begins_at_a_random_port(void **state)
{
    static const char *const names[] = { "a", "b", "c", "d", "e", "f", "g", "h" };
    struct engine *e = *state;
    size_t n_lowest = 0;

    need_network();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        uint16_t first = (uint16_t) (30000 + 100 * i);
        uint16_t port = first_of_the_lower_band(e, names[i], first);

        assert_in_range(port, first, first + 39);
        n_lowest += port < first + 5;
    }
    assert_true(n_lowest < 8); /* by chance: one run of 2^24 */
}

/* ---- cooldown ---- */

static void INV_8_W15_free_upper_cooling_upper_free_lower_cooling_lower(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request(NULL, NULL);
    dibs_claim claims[24];

    need_network();
    e_pool(e, "bands", "30000-30023", 8, 60000); /* lower 30000-30007, upper 30008-30023 */
    r.pool = "bands";
    for (size_t i = 0; i < 24; i++)
        claims[i] = e_must(e, e->core, &r);
    /* The first 16 were of the upper band. Five are released, a second apart, and cool. */
    static const size_t released[] = { 20, 2, 17, 0, 1 };
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(e_release(e, e->core, &claims[released[i]]), 1);
        e_pass(e, 1000);
    }
    /* One of each band is free without cooling: what was named by number does not rest. */
    static const size_t rested[] = { 18, 5 };
    for (size_t i = 0; i < 2; i++) {
        dibs_request number = e_required(NULL, NULL, claims[rested[i]].port);

        assert_int_equal(e_release(e, e->core, &claims[rested[i]]), 1);
        dibs_claim c = e_must(e, e->core, &number);
        assert_int_equal(e_release(e, e->core, &c), 1);
    }
    static const size_t expected[] = { 5, 2, 0, 1, 18, 20, 17 };
    struct core *twin = e_twin(e); /* a cold process decides alike */
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(e_must(e, i % 2 ? twin : e->core, &r).port, claims[expected[i]].port);
    assert_int_equal(e_try(e, twin, &r, &(dibs_claim){ 0 }), DIBS_EXHAUSTED); /* no capacity is lost */
}

static void INV_8_cooling_ports_come_back_oldest_first_after_all_free_ones(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request(NULL, NULL);
    dibs_claim claims[10];
    bool is_cooling[10] = { false };

    need_network();
    e_pool(e, "ten", "30000-30009", 0, 60000);
    r.pool = "ten";
    for (size_t i = 0; i < 6; i++)
        claims[i] = e_must(e, e->core, &r);
    static const size_t order[] = { 3, 0, 4 };
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(e_release(e, e->core, &claims[order[i]]), 1);
        is_cooling[claims[order[i]].port - 30000] = true;
        e_pass(e, 1000);
    }
    struct core *twin = e_twin(e);
    for (size_t i = 0; i < 4; i++)
        assert_false(is_cooling[e_must(e, i % 2 ? twin : e->core, &r).port - 30000]);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(e_must(e, i % 2 ? twin : e->core, &r).port, claims[order[i]].port);
}

/* As a daemon does: it chooses by the index from its first claim on. */
static void use_index(struct engine *e, int64_t cooldown_ms)
{
    cooldown_remember(e->core, cooldown_ms);
    ASSERT_OK(core_index_refresh(e->core, E_CALL(e, e->core), &e->err), &e->err);
}

/* Enough of them for a whole list of candidates, each released under two protocols. */
static void INV_8_where_everything_cools_the_oldest_comes_first(void **state)
{
    enum { N = 40, AGAIN = 20 };
    struct engine *e = *state;
    dibs_request r = e_request(NULL, "127.0.0.1");
    dibs_claim claims[N];

    need_network();
    e_bind_to(&r, DIBS_UDP, "127.0.0.1");
    e_pool(e, "forty", "30000-30039", 0, 60000);
    use_index(e, 60000);
    r.pool = "forty";
    for (size_t i = 0; i < N; i++)
        claims[i] = e_must(e, e->core, &r);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(e_release(e, e->core, &claims[i * 7 % N]), 1);
        e_pass(e, 10);
    }
    struct core *twin = e_twin(e);
    for (size_t i = 0; i < AGAIN; i++)
        assert_int_equal(e_must(e, i % 2 ? twin : e->core, &r).port, claims[i * 7 % N].port);
}

/* More than half of the pool cools, and more than a list of candidates has: what has rested still comes
 * first. */
static void INV_8_a_rested_port_comes_before_many_that_cool(void **state)
{
    enum { N = 60, COOLING = 40 };
    struct engine *e = *state;
    dibs_request r = e_request(NULL, NULL);
    dibs_claim claims[COOLING];
    bool is_cooling[N] = { false };

    need_network();
    e_pool(e, "sixty", "30000-30059", 0, 60000);
    use_index(e, 60000);
    r.pool = "sixty";
    for (size_t i = 0; i < COOLING; i++)
        claims[i] = e_must(e, e->core, &r);
    for (size_t i = 0; i < COOLING; i++) {
        assert_int_equal(e_release(e, e->core, &claims[i]), 1);
        is_cooling[claims[i].port - 30000] = true;
        e_pass(e, 10);
    }
    struct core *twin = e_twin(e);
    for (size_t i = 0; i < N - COOLING; i++)
        assert_false(is_cooling[e_must(e, i % 2 ? twin : e->core, &r).port - 30000]);
    assert_int_equal(e_must(e, e->core, &r).port, claims[0].port);
}

static void W15_a_port_is_fresh_again_when_it_has_rested(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request(NULL, NULL);

    need_network();
    e_pool(e, "two", "30000-30001", 0, 5000);
    r.pool = "two";
    dibs_claim first = e_must(e, e->core, &r);
    assert_int_equal(e_release(e, e->core, &first), 1);
    dibs_claim second = e_must(e, e->core, &r);
    assert_int_not_equal(second.port, first.port);             /* the other one: the first cools */
    assert_int_equal(e_must(e, e->core, &r).port, first.port); /* but nothing is lost */
}

static void INV_8_a_name_is_not_led_to_a_port_that_cools_from_somebody_else(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request("web", NULL);

    need_network();
    dibs_claim theirs = e_must(e, e_other(e), &r);
    assert_int_equal(e_release(e, e->other, &theirs), 1);
    ASSERT_OK(core_index_refresh(e->core, E_CALL(e, e->core), &e->err), &e->err);
    /* Same name, so the same preferred port; but it was another user's a moment ago. */
    assert_int_not_equal(e_must(e, e->core, &r).port, theirs.port);
}

static void INV_8_a_pool_without_cooldown_does_not_make_anothers_ports_rested(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request(NULL, NULL);
    dibs_request fast = e_request(NULL, NULL);
    dibs_claim claims[2];

    need_network();
    e_pool(e, "slow", "30000-30002", 0, 60000);
    e_pool(e, "fast", "31000-31002", 0, 0);
    r.pool = "slow";
    fast.pool = "fast";
    ASSERT_OK(core_index_refresh(e->core, E_CALL(e, e->core), &e->err), &e->err);
    for (int i = 0; i < 2; i++)
        claims[i] = e_must(e, e->core, &r);
    for (int i = 0; i < 2; i++)
        assert_int_equal(e_release(e, e->core, &claims[i]), 1);
    (void) e_must(e, e->core, &fast);
    uint16_t port = e_must(e, e->core, &r).port;
    assert_int_not_equal(port, claims[0].port);
    assert_int_not_equal(port, claims[1].port);
}

/* ---- the cursor, orders, and several handles ---- */

static void the_cursor_continues_across_handles_and_restarts(void **state)
{
    struct engine *e = *state;
    const dibs_request r = e_request(NULL, "127.0.0.1");
    uint16_t one_by_one[8];

    need_network();
    for (size_t i = 0; i < 8; i++) {
        struct core *fresh = e_open(e, "uid:1000", (uint32_t) geteuid(), false, &e->settings);

        one_by_one[i] = e_must(e, fresh, &r).port;
        core_close(fresh);
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(one_by_one[k], one_by_one[i]);
    }
    /* Released and rested, they are still not next: the walk goes on where it was. */
    ASSERT_OK(core_release(e->core, E_CALL(e, e->core), &(dibs_which){ .all_mine = true }, 0, NULL, &e->err),
              &e->err);
    e_pass(e, 60000);
    uint16_t next = e_must(e, e_twin(e), &r).port;
    for (size_t k = 0; k < 8; k++)
        assert_int_not_equal(one_by_one[k], next);
}

static void claims_that_follow_each_other_are_neighbours(void **state)
{
    enum { CLAIMS = 64, PIECES = 40 };
    struct engine *e = *state;
    dibs_request r = e_request(NULL, "127.0.0.1");
    unsigned n_of[PIECES] = { 0 };
    size_t n_pieces = 0;

    need_network();
    e_pool(e, "wide", "28000-30559", 0, 0);
    r.pool = "wide";
    for (int i = 0; i < CLAIMS; i++)
        n_pieces += n_of[(e_must(e, e->core, &r).port - 28000) / 64]++ == 0;
    assert_in_range(n_pieces, 1, 2); /* by the plain stride they would lie in about 32 */
}

static void D32_every_registered_order_fills_the_whole_pool(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request(NULL, NULL);

    need_network();
    for (size_t i = 0; dibs_order_name(i); i++) {
        dibs_pool pool = { .name = "p", .ranges = e_ranges("30000-30039,30050"), .band = DIBS_BAND_AUTO };

        (void) snprintf(pool.order, sizeof pool.order, "%s", dibs_order_name(i));
        ASSERT_OK(core_pool_put(e->core, E_CALL(e, e->core), &pool, &e->err), &e->err);
        r.pool = "p";
        for (int k = 0; k < 41; k++)
            (void) e_must(e, e->core, &r); /* two alike would be refused by the ledger */
        assert_int_equal(e_try(e, e->core, &r, &(dibs_claim){ 0 }), DIBS_EXHAUSTED);
        ASSERT_OK(
            core_release(e->core, E_CALL(e, e->core), &(dibs_which){ .all_mine = true }, 0, NULL, &e->err),
            &e->err);
    }
    assert_null(order_find("no such order"));
}

static void K6_a_stale_index_costs_a_retry_never_a_port(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request(NULL, NULL);
    dibs_claim claims[40];
    dibs_claim out = { 0 };

    need_network();
    e_pool(e, "p", "30000-30039", 0, 0);
    r.pool = "p";
    ASSERT_OK(core_index_refresh(e->core, E_CALL(e, e->core), &e->err),
              &e->err); /* believes that everything is free */
    for (size_t i = 0; i < 39; i++)
        claims[i] = e_must(e, e_other(e), &r);
    (void) e_must(e, e->core, &r); /* finds the one that is left */
    assert_int_equal(e_try(e, e->core, &r, &out), DIBS_EXHAUSTED);
    assert_int_equal(e_release(e, e->other, &claims[17]), 1); /* believes that nothing is */
    assert_int_equal(e_must(e, e->core, &r).port, claims[17].port);
}

static void dead_holders_give_way_when_nothing_else_is_left(void **state)
{
    struct engine *e = *state;
    dibs_ranges ten = e_ranges("30000-30009");
    pid_t pid = child_fork(child_idle, NULL);
    dibs_request r = e_held(NULL, "127.0.0.1", pid);
    dibs_request mine = e_request(NULL, "127.0.0.1");
    dibs_request kept = e_held(NULL, "127.0.0.1", pid);

    need_network();
    r.ranges = mine.ranges = kept.ranges = &ten;
    for (int i = 0; i < 9; i++)
        (void) e_must(e, e->core, &r);
    kept.keep = true;
    uint16_t kept_port = e_must(e, e->core, &kept).port;
    assert_int_equal(e_try(e, e_other(e), &mine, &(dibs_claim){ 0 }), DIBS_EXHAUSTED); /* it is alive */
    child_end(pid);
    for (int i = 0; i < 9; i++)
        assert_int_not_equal(e_must(e, e_other(e), &mine).port, kept_port); /* kept stays kept */
    assert_int_equal(e_try(e, e->other, &mine, &(dibs_claim){ 0 }), DIBS_EXHAUSTED);
}

static void a_port_that_a_stranger_had_is_tried_again_after_a_while(void **state)
{
    struct engine *e = *state;
    dibs_ranges one = e_ranges("30000");
    dibs_request r = e_request(NULL, "127.0.0.1");

    need_network();
    r.ranges = &one;
    int fd = e_serve(DIBS_TCP, "127.0.0.1", 30000);
    assert_int_equal(e_try(e, e->core, &r, &(dibs_claim){ 0 }), DIBS_EXHAUSTED);
    e_pass(e, 60000);
    assert_int_equal(e_try(e, e->core, &r, &(dibs_claim){ 0 }), DIBS_EXHAUSTED); /* it still has the port */
    (void) close(fd);
    e_pass(e, 60000);
    assert_int_equal(e_must(e, e->core, &r).port, 30000);
}

static void W3_D32_a_dry_run_returns_what_the_real_one_gives_and_keeps_nothing(void **state)
{
    struct engine *e = *state;
    dibs_request r[3] = { e_request(NULL, "127.0.0.1"), e_request("web", "127.0.0.1"),
                          e_required(NULL, "127.0.0.1", 26001) };
    dibs_batch batch = { .requests = r, .n = 3, .is_dry_run = true };
    dibs_claim dry[3] = { 0 };
    dibs_claim real[3] = { 0 };

    need_network();
    for (int again = 0; again < 2; again++) {
        ASSERT_OK(core_claim(e->core, E_CALL(e, e->core), &batch, dry, &e->err), &e->err);
        assert_int_equal(e_count(e, NULL), 0);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(dry[i].token[0], '\0');
    }
    batch.is_dry_run = false;
    ASSERT_OK(core_claim(e->core, E_CALL(e, e->core), &batch, real, &e->err), &e->err);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(dry[i].port, real[i].port);
    /* It refuses what the real one would refuse: taken, outside, full. */
    dibs_ranges one = e_ranges("26001");
    dibs_request no = e_request(NULL, "127.0.0.1");
    no.ranges = &one;
    batch = (dibs_batch){ .requests = &no, .n = 1, .is_dry_run = true };
    assert_int_equal(core_claim(e->core, E_CALL(e, e->core), &batch, dry, &e->err), DIBS_EXHAUSTED);
    no.mode = DIBS_REQUIRED;
    no.port = 26001;
    assert_int_equal(core_claim(e->core, E_CALL(e, e->core), &batch, dry, &e->err), DIBS_TAKEN);
    no.port = 12345;
    assert_int_equal(core_claim(e->core, E_CALL(e, e->core), &batch, dry, &e->err), DIBS_INVALID);
}

static void the_IPv4_wildcard_leaves_IPv6_its_ports_and_the_other_way(void **state)
{
    struct engine *e = *state;
    dibs_ranges range = e_ranges("28000-28019");
    dibs_request six = e_request(NULL, "::1");
    dibs_request four = e_request(NULL, "0.0.0.0");
    dibs_claim out = { 0 };

    need_network();
    six.ranges = four.ranges = &range;
    for (int i = 0; i < 20; i++)
        (void) e_must(e, e->core, &six);
    for (int i = 0; i < 20; i++)
        (void) e_must(e, e->core, &four);
    assert_int_equal(e_try(e, e->core, &four, &out), DIBS_EXHAUSTED);
    assert_int_equal(e_try(e, e->core, &six, &out), DIBS_EXHAUSTED);
}

/* ---- in one commit ---- */

/* The index of a group's claims does not know what another process has claimed between two groups. */
static void INV_1_no_claim_of_a_group_gets_a_port_that_is_claimed_or_bound(void **state)
{
    struct engine *e = *state;
    struct core *twin = e_twin(e);
    dibs_request r = e_request(NULL, NULL);

    need_network();
    (void) e_must(e, e->core, &r);
    ASSERT_OK(core_index_refresh(e->core, E_CALL(e, e->core), &e->err), &e->err);
    for (int round = 0; round < 2; round++) {
        dibs_claim next = { 0 }; /* what the next claim would get */
        dibs_batch dry_run = { .requests = &r, .n = 1, .is_dry_run = true };

        ASSERT_OK(core_claim(e->core, E_CALL(e, e->core), &dry_run, &next, &e->err), &e->err);
        dibs_request number = e_required(NULL, NULL, next.port);
        if (round == 0)
            (void) e_must(e, twin, &number);
        e_begin(e, e->core);
        if (round == 1)
            (void) e_must(e, e->core, &number);
        dibs_claim out = e_must(e, e->core, &r);
        assert_int_not_equal(out.port, next.port);
        ASSERT_OK(core_claim(e->core, E_CALL(e, e->core), &dry_run, &next, &e->err), &e->err);
        int fd = e_serve(DIBS_TCP, "*", next.port);
        out = e_must(e, e->core, &r);
        assert_int_not_equal(out.port, next.port);
        ASSERT_OK(e_commit(e, e->core), &e->err);
        (void) close(fd);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(K1_K10_choice_takes_the_upper_band_until_it_is_full),
        E_TEST(K2_W10_a_band_can_be_set_off_or_given_by_number),
        E_TEST(K1_a_number_may_be_of_either_band),
        E_TEST(K5_bands_on_off_and_on_again_change_nothing_that_is_stored),
        E_TEST(a_spill_into_the_lower_band_begins_at_a_random_port),
        E_TEST(INV_8_W15_free_upper_cooling_upper_free_lower_cooling_lower),
        E_TEST(INV_8_cooling_ports_come_back_oldest_first_after_all_free_ones),
        E_TEST(INV_8_where_everything_cools_the_oldest_comes_first),
        E_TEST(INV_8_a_rested_port_comes_before_many_that_cool),
        E_TEST(W15_a_port_is_fresh_again_when_it_has_rested),
        E_TEST(INV_8_a_name_is_not_led_to_a_port_that_cools_from_somebody_else),
        E_TEST(INV_8_a_pool_without_cooldown_does_not_make_anothers_ports_rested),
        E_TEST(the_cursor_continues_across_handles_and_restarts),
        E_TEST(claims_that_follow_each_other_are_neighbours),
        E_TEST(D32_every_registered_order_fills_the_whole_pool),
        E_TEST(K6_a_stale_index_costs_a_retry_never_a_port),
        E_TEST(dead_holders_give_way_when_nothing_else_is_left),
        E_TEST(a_port_that_a_stranger_had_is_tried_again_after_a_while),
        E_TEST(W3_D32_a_dry_run_returns_what_the_real_one_gives_and_keeps_nothing),
        E_TEST(INV_1_no_claim_of_a_group_gets_a_port_that_is_claimed_or_bound),
        E_TEST(the_IPv4_wildcard_leaves_IPv6_its_ports_and_the_other_way),
    };

    e_own_network();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
