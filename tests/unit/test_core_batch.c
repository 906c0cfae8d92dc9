/* SPDX-License-Identifier: MIT */
/* Batches: all or nothing (INV-4), mixed modes, runs of ports. */
#include "support/core.h"

static dibs_status claim(struct engine *e, const dibs_batch *batch, dibs_claim *out)
{
    memset(&e->err, 0, sizeof e->err);
    return core_claim(e->core, E_CALL(e, e->core), batch, out, &e->err);
}

static void W7_a_batch_is_one_decision_of_distinct_ports(void **state)
{
    struct engine *e = *state;
    dibs_request r[100];
    static dibs_claim out[100];
    bool seen[65536] = { false };
    const dibs_batch batch = { .requests = r, .n = 100 };

    need_network();
    for (size_t i = 0; i < 100; i++)
        r[i] = e_request(NULL, NULL);
    ASSERT_OK(claim(e, &batch, out), &e->err);
    for (size_t i = 0; i < 100; i++) {
        assert_false(seen[out[i].port]);
        seen[out[i].port] = true;
    }
}

static void D19_INV_4_one_that_fails_leaves_nothing_of_the_others(void **state)
{
    struct engine *e = *state;
    dibs_request r[4] = { e_request("a", NULL), e_required("b", NULL, 26001), e_kept("c", NULL),
                          e_required("d", NULL, 26002) };
    dibs_claim out[4] = { 0 };
    const dibs_batch batch = { .requests = r, .n = 4 };

    need_network();
    dibs_claim blocker = e_port(e, e_other(e), NULL, 26002);
    assert_int_equal(claim(e, &batch, out), DIBS_TAKEN);
    assert_int_equal(e->err.blocker.port, 26002);
    assert_int_equal(e_count(e, NULL), 1);
    assert_int_equal(e_release(e, e->other, &blocker), 1);
    ASSERT_OK(claim(e, &batch, out), &e->err);
    assert_int_equal(e_count(e, NULL), 4);
}

static void a_batch_may_mix_modes_kinds_pools_and_no_ops(void **state)
{
    struct engine *e = *state;
    dibs_ranges own = e_ranges("28000-28015");
    dibs_request r[6] = { e_request("dyn", "127.0.0.1"), e_required("num", "127.0.0.1", 26001),
                          e_required("none", NULL, 0),   e_kept("ranged", "127.0.0.1"),
                          e_kept("decl", "127.0.0.1"),   e_kept("udp", NULL) };
    dibs_claim out[6] = { 0 };
    const dibs_batch batch = { .requests = r, .n = 6 };

    need_network();
    r[3].ranges = &own;
    r[4].mode = DIBS_DECLARED;
    r[4].port = 26001; /* declared beside the exclusive one: never an error */
    e_bind_to(&r[5], DIBS_UDP, "127.0.0.1");
    ASSERT_OK(claim(e, &batch, out), &e->err);
    assert_int_equal(out[0].kind, DIBS_DYNAMIC);
    assert_int_equal(out[1].port, 26001);
    assert_int_equal(out[2].port, 0); /* the no-op keeps its place */
    assert_in_range(out[3].port, 28000, 28015);
    assert_false(out[4].is_exclusive);
    assert_string_equal(out[5].name, "udp");
    assert_int_equal(e_count(e, NULL), 5);
    /* Again: the same claims, in the same places. */
    dibs_claim again[6] = { 0 };
    ASSERT_OK(claim(e, &batch, again), &e->err);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(again[i].port, out[i].port);
        assert_int_equal(again[i].id, out[i].id);
    }
}

static void claims_of_one_batch_do_not_conflict_with_each_other(void **state)
{
    struct engine *e = *state;
    dibs_request r[2] = { e_required(NULL, "127.0.0.1", 26001), e_required(NULL, "0.0.0.0", 26001) };
    dibs_claim out[2] = { 0 };
    const dibs_batch batch = { .requests = r, .n = 2 };

    need_network();
    assert_int_equal(claim(e, &batch, out), DIBS_TAKEN);
    r[0] = e_request("twice", NULL);
    r[1] = e_request("twice", NULL);
    assert_int_equal(claim(e, &batch, out), DIBS_INVALID);
    assert_non_null(strstr(e->err.msg, "twice"));
    assert_int_equal(e_count(e, NULL), 0);
}

/* Names of which many prefer the same ports, in a range that has hardly more than they need. */
static void names_fill_a_pool_to_its_last_port(void **state)
{
    enum { N = 1000 };
    struct engine *e = *state;
    dibs_ranges own = e_ranges("28000-28999");
    char(*names)[16] = calloc(N, sizeof *names);
    dibs_request *r = calloc(N, sizeof *r);
    dibs_claim *out = calloc(N, sizeof *out);
    struct portbits seen = { 0 };

    need_network();
    assert_true(names && r && out);
    for (int i = 0; i < N; i++) {
        (void) snprintf(names[i], sizeof names[i], "n/%d", i);
        r[i] = e_kept(names[i], NULL);
        r[i].ranges = &own;
    }
    ASSERT_OK(claim(e, &(dibs_batch){ .requests = r, .n = 400 }, out), &e->err);
    /* More of them, when those that are there leave no port to spare. */
    ASSERT_OK(claim(e, &(dibs_batch){ .requests = r, .n = N }, out), &e->err);
    for (int i = 0; i < N; i++) {
        assert_false(portbits_has(&seen, out[i].port));
        portbits_add(&seen, out[i].port);
    }
    free(names);
    free(r);
    free(out);
}

static void a_number_that_is_asked_for_is_chosen_for_nobody_else_of_the_batch(void **state)
{
    struct engine *e = *state;
    dibs_request r[2] = { e_kept("chosen", NULL), e_required("named", NULL, 0) };
    dibs_claim out[2] = { 0 };

    need_network();
    ASSERT_OK(claim(e, &(dibs_batch){ .requests = r, .n = 1, .is_dry_run = true }, out), &e->err);
    r[1].port = out[0].port; /* what the first one would get */
    ASSERT_OK(claim(e, &(dibs_batch){ .requests = r, .n = 2 }, out), &e->err);
    assert_int_equal(out[1].port, r[1].port);
    assert_int_not_equal(out[0].port, r[1].port);
}

static void a_batch_takes_what_is_free_and_what_the_dead_had(void **state)
{
    enum { DEAD = 20, N = 30 };
    struct engine *e = *state;
    dibs_ranges own = e_ranges("28000-28039");
    pid_t pid = child_fork(child_idle, NULL);
    dibs_request r[N];
    dibs_claim out[N] = { 0 };

    need_network();
    for (int i = 0; i < DEAD; i++) {
        r[i] = e_held(NULL, NULL, pid);
        r[i].ranges = &own;
    }
    ASSERT_OK(claim(e, &(dibs_batch){ .requests = r, .n = DEAD }, out), &e->err);
    child_end(pid);
    for (int i = 0; i < N; i++) {
        r[i] = e_request(NULL, NULL);
        r[i].ranges = &own;
    }
    ASSERT_OK(claim(e, &(dibs_batch){ .requests = r, .n = N }, out), &e->err);
}

static void a_name_that_has_its_claim_keeps_no_port_from_the_others(void **state)
{
    struct engine *e = *state;
    dibs_request r[2] = { e_kept("there", NULL), e_kept("new", "127.0.0.1") };
    dibs_request before = r[0];
    dibs_claim out[2] = { 0 };

    need_network();
    before.mode = DIBS_REQUIRED;
    before.port = 26001;
    (void) e_must(e, e->core, &before);
    r[0].is_lookup = true;
    e->settings.range = e_ranges("28000-28000"); /* both would prefer its only port */
    e->settings.source[DIBS_SET_RANGE] = DIBS_FROM_ENVIRONMENT;
    ASSERT_OK(claim(e, &(dibs_batch){ .requests = r, .n = 2 }, out), &e->err);
    assert_int_equal(out[0].port, 26001);
    assert_int_equal(out[1].port, 28000);
}

static void an_empty_batch_is_a_no_op_and_an_enormous_one_refused(void **state)
{
    struct engine *e = *state;
    const dibs_batch none = { .n = 0 };
    dibs_request *r = calloc(DIBS_BATCH_MAX, sizeof *r);
    dibs_claim *out = calloc(DIBS_BATCH_MAX, sizeof *out);
    const dibs_batch many = { .requests = r, .n = DIBS_BATCH_MAX };

    need_network();
    assert_non_null(r);
    assert_non_null(out);
    ASSERT_OK(claim(e, &none, NULL), &e->err);
    for (size_t i = 0; i < DIBS_BATCH_MAX; i++)
        r[i] = e_request(NULL, "127.0.0.1");
    ASSERT_OK(claim(e, &many, out), &e->err);
    assert_int_equal(e_count(e, NULL), DIBS_BATCH_MAX);
    free(r);
    free(out);
}

static void a_batch_larger_than_what_is_left_takes_nothing(void **state)
{
    struct engine *e = *state;
    dibs_ranges ten = e_ranges("28000-28009");
    dibs_request r[11];
    dibs_claim out[11] = { 0 };
    dibs_batch batch = { .requests = r, .n = 11 };

    need_network();
    for (size_t i = 0; i < 11; i++) {
        r[i] = e_request(NULL, NULL);
        r[i].ranges = &ten;
    }
    assert_int_equal(claim(e, &batch, out), DIBS_EXHAUSTED);
    assert_int_equal(e_count(e, NULL), 0);
    batch.n = 10;
    ASSERT_OK(claim(e, &batch, out), &e->err);
}

static void ending_anothers_claim_in_a_batch_is_denied_whatever_else_is_asked_for(void **state)
{
    struct engine *e = *state;
    dibs_request kept = e_kept("theirs", "127.0.0.1");
    dibs_request preferred = e_required("mine", "127.0.0.1", 26001);

    need_network();
    preferred.mode = DIBS_PREFERRED;
    dibs_claim theirs = e_must(e, e_other(e), &kept);
    const dibs_drop drop = { .claim = &theirs };
    dibs_batch batch = { .requests = &preferred, .drops = &drop, .n_drops = 1 };
    for (batch.n = 0; batch.n < 2; batch.n++) {
        dibs_claim out = { 0 };

        assert_int_equal(claim(e, &batch, &out), DIBS_DENIED);
        assert_int_equal(e_count(e, NULL), 1);
    }
}

/* ---- runs ---- */

static void run_of(dibs_request *r, size_t n, const dibs_ranges *ranges)
{
    for (size_t i = 0; i < n; i++) {
        r[i] = e_request(NULL, "127.0.0.1");
        r[i].ranges = ranges;
    }
}

static void a_run_is_contiguous_aligned_and_passes_over_what_is_in_its_way(void **state)
{
    struct engine *e = *state;
    dibs_ranges range = e_ranges("28000-28031");
    dibs_request r[8];
    dibs_claim out[8] = { 0 };
    dibs_batch batch = { .requests = r, .n = 8, .is_contiguous = true, .align = 8 };

    need_network();
    e->settings.source[DIBS_SET_BAND] = DIBS_FROM_FLAG;
    e->settings.band = 0;
    run_of(r, 8, &range);
    (void) e_port(e, e_other(e), "127.0.0.1", 28003); /* a claim in 28000-28007 */
    int fd = e_serve(DIBS_TCP, "127.0.0.1", 28012);   /* a stranger in 28008-28015 */
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(claim(e, &batch, out), &e->err);
        assert_int_equal(out[0].port % 8, 0);
        assert_true(out[0].port >= 28016);
        for (uint16_t k = 0; k < 8; k++)
            assert_int_equal(out[k].port, out[0].port + k);
    }
    assert_int_equal(claim(e, &batch, out), DIBS_EXHAUSTED);
    assert_non_null(strstr(e->err.msg, "contiguous run"));
    (void) close(fd);
    assert_int_equal(e_count(e, NULL), 17);
}

static const char *const run_names[] = { "web/0", "web/1", "web/2", "web/3" };

static void named_run_of(dibs_request r[4], const dibs_ranges *ranges)
{
    run_of(r, 4, ranges);
    for (size_t i = 0; i < 4; i++)
        r[i].name = run_names[i];
}

static void a_named_run_is_found_again_and_completed_where_it_is(void **state)
{
    struct engine *e = *state;
    dibs_ranges range = e_ranges("28000-28008");
    dibs_request r[4];
    dibs_claim out[4] = { 0 };
    dibs_claim again[4] = { 0 };
    dibs_batch batch = { .requests = r, .n = 3, .is_contiguous = true };

    need_network();
    e->settings.source[DIBS_SET_ORDER] = DIBS_FROM_FLAG;
    (void) snprintf(e->settings.order, sizeof e->settings.order, "lowest");
    named_run_of(r, &range);
    ASSERT_OK(claim(e, &batch, out), &e->err);
    ASSERT_OK(claim(e, &batch, again), &e->err);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(again[i].id, out[i].id);
    for (size_t gone = 0; gone < 3; gone++) { /* the first, one between, the last */
        assert_int_equal(e_release(e, e->core, &again[gone]), 1);
        ASSERT_OK(claim(e, &batch, again), &e->err);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(again[i].port, out[0].port + i);
    }
    range = e_ranges("28000-28009"); /* wherever it is, free ports follow */
    batch.n = 4;                     /* one more */
    ASSERT_OK(claim(e, &batch, again), &e->err);
    assert_int_equal(again[3].port, out[0].port + 3);
}

static void names_of_a_batch_do_not_take_each_others_last_port(void **state)
{
    struct engine *e = *state;
    dibs_ranges range = e_ranges("28000-28009");
    dibs_request r[10];
    dibs_claim out[10] = { 0 };
    dibs_batch batch = { .requests = r, .n = 10 };
    char names[10][32];

    need_network();
    for (int round = 0; round < 40; round++) { /* each with other hashes */
        for (size_t i = 0; i < 10; i++) {
            (void) snprintf(names[i], sizeof names[i], "round%d/%zu", round, i);
            r[i] = (dibs_request){ .name = names[i], .ranges = &range, .keep = true };
        }
        ASSERT_OK(claim(e, &batch, out), &e->err);
        for (size_t i = 0; i < 10; i++)
            assert_int_equal(e_release(e, e->core, &out[i]), 1);
    }
}

static void a_run_that_cannot_be_completed_names_its_blocker(void **state)
{
    struct engine *e = *state;
    dibs_ranges range = e_ranges("28000-28003");
    dibs_request r[4];
    dibs_claim out[4] = { 0 };
    dibs_request theirs = e_required("theirs", "127.0.0.1", 28001);
    dibs_batch batch = { .requests = r, .n = 4, .is_contiguous = true };

    need_network();
    named_run_of(r, &range);
    ASSERT_OK(claim(e, &batch, out), &e->err);
    assert_int_equal(e_release(e, e->core, &out[1]), 1);
    dibs_claim blocker = e_must(e, e_other(e), &theirs);
    assert_int_equal(claim(e, &batch, out), DIBS_TAKEN);
    assert_string_equal(e->err.blocker.name, "theirs");
    assert_int_equal(e_count(e, NULL), 4);
    assert_int_equal(e_release(e, e->other, &blocker), 1);

    int fd = e_serve(DIBS_TCP, "127.0.0.1", 28001);
    for (int i = 0; i < 2; i++) { /* the second time it is known already that a stranger is there */
        assert_int_equal(claim(e, &batch, out), DIBS_TAKEN);
        assert_int_equal(e->err.blocker.relation, DIBS_REL_FOREIGN);
        assert_int_equal(e->err.blocker.port, 28001);
    }
    (void) close(fd);

    /* Beyond the pool, with nobody there: the name that would have to give way is named. */
    e->settings.range = e_ranges("28000-28002");
    e->settings.source[DIBS_SET_RANGE] = DIBS_FROM_ENVIRONMENT;
    named_run_of(r, NULL);
    assert_int_equal(claim(e, &batch, out), DIBS_TAKEN);
    assert_string_equal(e->err.blocker.name, "web/0");
    assert_non_null(strstr(e->err.msg, "run"));
}

static void names_whose_ports_do_not_follow_each_other_are_no_run(void **state)
{
    struct engine *e = *state;
    dibs_request r[4];
    dibs_claim out[4] = { 0 };
    const dibs_batch batch = { .requests = r, .n = 4, .is_contiguous = true };
    dibs_request apart = e_required("web/2", "127.0.0.1", 29000);
    dibs_request first = e_required("web/0", "127.0.0.1", 28000);

    need_network();
    named_run_of(r, NULL);
    (void) e_must(e, e->core, &first);
    (void) e_must(e, e->core, &apart);
    assert_int_equal(claim(e, &batch, out), DIBS_TAKEN);
    assert_string_equal(e->err.blocker.name, "web/2");
    assert_int_equal(e->err.blocker.port, 29000);
    assert_int_equal(e_count(e, NULL), 2);
}

static void INV_7_a_run_that_ended_is_had_again(void **state)
{
    struct engine *e = *state;
    dibs_request r[4];
    dibs_claim out[4] = { 0 };
    dibs_claim again[4] = { 0 };
    const dibs_batch batch = { .requests = r, .n = 4, .is_contiguous = true };

    need_network();
    named_run_of(r, NULL);
    ASSERT_OK(claim(e, &batch, out), &e->err);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(e_release(e, e->core, &out[i]), 1);
    ASSERT_OK(claim(e, &batch, again), &e->err);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(again[i].port, out[i].port);
        assert_int_equal(e_release(e, e->core, &again[i]), 1);
    }
    /* Somebody has a part of it now: another run, and no refusal. */
    (void) e_port(e, e_other(e), "127.0.0.1", out[2].port);
    ASSERT_OK(claim(e, &batch, again), &e->err);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(again[i].port, again[0].port + i);
    assert_true(again[0].port != out[0].port);
}

static void a_run_of_which_some_holders_are_dead_stays_where_it_is(void **state)
{
    struct engine *e = *state;
    pid_t pid = child_fork(child_idle, NULL);
    dibs_request r[4];
    dibs_claim out[4] = { 0 };
    dibs_claim again[4] = { 0 };
    const dibs_batch batch = { .requests = r, .n = 4, .is_contiguous = true };

    need_network();
    named_run_of(r, NULL);
    r[1].holder = r[3].holder = DIBS_HELD_BY_PROCESS;
    r[1].pid = r[3].pid = (int32_t) pid;
    ASSERT_OK(claim(e, &batch, out), &e->err);
    child_end(pid);
    assert_int_equal(e_release(e, e->core, &out[2]), 1);
    named_run_of(r, NULL);
    ASSERT_OK(claim(e, &batch, again), &e->err);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(again[i].port, out[i].port);
}

static void a_run_stands_beside_the_claims_of_other_addresses(void **state)
{
    struct engine *e = *state;
    dibs_ranges four = e_ranges("28000-28003");
    dibs_request r[4];
    dibs_claim out[4] = { 0 };
    const dibs_batch batch = { .requests = r, .n = 4, .is_contiguous = true };

    need_network();
    run_of(r, 4, &four);
    for (uint16_t port = 28000; port < 28004; port++)
        (void) e_port(e, e_other(e), "127.0.0.2", port);
    ASSERT_OK(claim(e, &batch, out), &e->err);
    assert_int_equal(out[0].port, 28000);
    assert_int_equal(claim(e, &batch, out), DIBS_EXHAUSTED);
}

static void a_run_takes_over_the_dead_when_nothing_else_is_left(void **state)
{
    struct engine *e = *state;
    dibs_ranges four = e_ranges("28000-28003");
    pid_t pid = child_fork(child_idle, NULL);
    dibs_request dead = e_held(NULL, "127.0.0.1", pid);
    dibs_request r[4];
    dibs_claim out[4] = { 0 };
    const dibs_batch batch = { .requests = r, .n = 4, .is_contiguous = true };

    need_network();
    run_of(r, 4, &four);
    dead.mode = DIBS_REQUIRED;
    dead.port = 28002;
    (void) e_must(e, e->core, &dead);
    assert_int_equal(claim(e, &batch, out), DIBS_EXHAUSTED);
    child_end(pid);
    ASSERT_OK(claim(e, &batch, out), &e->err);
    assert_int_equal(out[0].port, 28000);
    assert_int_equal(e_count(e, NULL), 4);
}

/* Where the hashes of several names are too close to each other for all of them. */
static void a_dry_run_shows_where_named_runs_will_be(void **state)
{
    enum { RUNS = 6, LENGTH = 10 };
    struct engine *e = *state;
    dibs_ranges own = e_ranges("28000-28099");
    dibs_request r[RUNS * LENGTH];
    char names[RUNS * LENGTH][16];
    dibs_claim planned[RUNS * LENGTH] = { 0 };
    dibs_claim out[RUNS * LENGTH] = { 0 };
    dibs_batch batch = { .requests = r, .n = RUNS * LENGTH, .is_dry_run = true };

    need_network();
    for (int i = 0; i < RUNS * LENGTH; i++) {
        (void) snprintf(names[i], sizeof names[i], "%d/%d", i / LENGTH, i % LENGTH);
        r[i] = e_kept(names[i], NULL);
        r[i].ranges = &own;
        r[i].run = i % LENGTH ? 0 : LENGTH;
    }
    ASSERT_OK(claim(e, &batch, planned), &e->err);
    batch.is_dry_run = false;
    ASSERT_OK(core_claim(e_twin(e), E_CALL(e, e_twin(e)), &batch, out, &e->err), &e->err);
    for (int i = 0; i < RUNS * LENGTH; i++)
        assert_int_equal(out[i].port, planned[i].port);
}

static void a_run_that_makes_no_sense_is_refused(void **state)
{
    struct engine *e = *state;
    dibs_request r[2] = { e_request(NULL, NULL), e_required(NULL, NULL, 26001) };
    dibs_claim out[2] = { 0 };
    dibs_batch batch = { .requests = r, .n = 2, .is_contiguous = true };

    assert_int_equal(claim(e, &batch, out), DIBS_INVALID);
    r[1] = r[0];
    batch = (dibs_batch){ .requests = r, .n = 2, .align = 8 };
    assert_int_equal(claim(e, &batch, out), DIBS_INVALID);
    assert_int_equal(e_count(e, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(W7_a_batch_is_one_decision_of_distinct_ports),
        E_TEST(D19_INV_4_one_that_fails_leaves_nothing_of_the_others),
        E_TEST(a_batch_may_mix_modes_kinds_pools_and_no_ops),
        E_TEST(claims_of_one_batch_do_not_conflict_with_each_other),
        E_TEST(names_fill_a_pool_to_its_last_port),
        E_TEST(a_number_that_is_asked_for_is_chosen_for_nobody_else_of_the_batch),
        E_TEST(a_batch_takes_what_is_free_and_what_the_dead_had),
        E_TEST(a_name_that_has_its_claim_keeps_no_port_from_the_others),
        E_TEST(an_empty_batch_is_a_no_op_and_an_enormous_one_refused),
        E_TEST(a_batch_larger_than_what_is_left_takes_nothing),
        E_TEST(ending_anothers_claim_in_a_batch_is_denied_whatever_else_is_asked_for),
        E_TEST(a_run_is_contiguous_aligned_and_passes_over_what_is_in_its_way),
        E_TEST(a_named_run_is_found_again_and_completed_where_it_is),
        E_TEST(names_of_a_batch_do_not_take_each_others_last_port),
        E_TEST(a_run_that_cannot_be_completed_names_its_blocker),
        E_TEST(names_whose_ports_do_not_follow_each_other_are_no_run),
        E_TEST(INV_7_a_run_that_ended_is_had_again),
        E_TEST(a_run_of_which_some_holders_are_dead_stays_where_it_is),
        E_TEST(a_run_stands_beside_the_claims_of_other_addresses),
        E_TEST(a_run_takes_over_the_dead_when_nothing_else_is_left),
        E_TEST(a_dry_run_shows_where_named_runs_will_be),
        E_TEST(a_run_that_makes_no_sense_is_refused),
    };

    e_own_network();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
