/* SPDX-License-Identifier: MIT */
/* Hosts that choose ports at the same time, and one port on several hosts. */
#include "support/hosts.h"

/* ---- hosts that choose at the same time ---- */

/* All decide before one of them commits: of two on one block one loses the race. */
static size_t claim_together(struct cluster_case *c, size_t n, dibs_claim *out)
{
    size_t n_lost = 0;

    for (size_t i = 0; i < HOSTS; i++) {
        e_begin(&c->e, c->at[i]);
        for (size_t k = 0; k < n; k++)
            ASSERT_OK(hosts_take_any(c, i, &out[i * n + k]), &c->e.err);
    }
    for (size_t i = 0; i < HOSTS; i++) {
        dibs_status s = e_commit(&c->e, c->at[i]);

        c->at[i]->index.is_loaded = false;
        if (s == DIBS_OK)
            continue;
        assert_true(ledger_lost_race(c->at[i]->ledger));
        n_lost++;
        for (size_t k = 0; k < n; k++)
            ASSERT_OK(hosts_take_any(c, i, &out[i * n + k]), &c->e.err);
    }
    return n_lost;
}

static size_t count_blocks(const dibs_claim *claims, size_t n)
{
    bool seen[1024] = { false };
    size_t n_blocks = 0;

    for (size_t i = 0; i < n; i++) {
        n_blocks += !seen[claims[i].port / 64];
        seen[claims[i].port / 64] = true;
    }
    return n_blocks;
}

/* A commit writes each block that it touches. */
static void ports_of_one_host_are_neighbours_too(void **state)
{
    struct cluster_case *c = *state;
    dibs_request r = e_request(NULL, NULL);
    dibs_claim out[40] = { 0 };

    NEED_CLUSTER();
    for (size_t i = 0; i < 40; i++)
        out[i] = e_must(&c->e, c->at[0], &r);
    assert_in_range(count_blocks(out, 40), 1, 2);
}

/* Return whether each host knows its place among all of them: a watch reports the others. */
static bool all_have_places(const struct cluster_case *c)
{
    for (size_t i = 0; i < HOSTS; i++) {
        uint32_t rank = 0;
        uint32_t n = 0;

        if (!ledger_place(c->at[i]->ledger, &rank, &n) || n != HOSTS)
            return false;
    }
    return true;
}

static void hosts_that_share_a_pool_begin_at_places_of_their_own(void **state)
{
    struct cluster_case *c = *state;
    dibs_claim out[HOSTS * 40] = { 0 };

    NEED_CLUSTER();
    hosts_make_pool(c, "nodeports", "30000-32767", 5000);
    /* Each has a number from its first claim on. */
    for (size_t i = 0; i < 100 * (size_t) HOSTS && (i < HOSTS || !all_have_places(c)); i++) {
        ASSERT_OK(hosts_take_any(c, i % HOSTS, &out[0]), &c->e.err);
        assert_int_equal(e_release(&c->e, c->at[i % HOSTS], &out[0]), 1);
    }
    assert_true(all_have_places(c));
    assert_int_equal(claim_together(c, 40, out), 0);
    for (size_t i = 0; i < HOSTS; i++) /* and what one of them takes stays together */
        assert_in_range(count_blocks(&out[i * 40], 40), 1, 2);
}

/* The longest rested ones would be the same for all. */
static void hosts_do_not_fight_for_the_ports_that_cool(void **state)
{
    enum { ROUNDS = 12, N = 60 };
    struct cluster_case *c = *state;
    dibs_claim out[HOSTS * N] = { 0 };
    size_t n_lost = 0;

    NEED_CLUSTER();
    hosts_make_pool(c, "nodeports", "30000-30999", 3600000);
    for (size_t round = 0; round < ROUNDS; round++) {
        n_lost += claim_together(c, N, out);
        e_pass(&c->e, 100);
        for (size_t i = 0; i < (size_t) HOSTS * N; i++)
            assert_int_equal(e_release(&c->e, c->at[i / N], &out[i]), 1);
    }
    /* 2160 claims on 968 ports of the upper band: each was had more than twice. */
    print_message("%zu of %d commits lost a race\n", n_lost, ROUNDS * HOSTS);
    assert_in_range(n_lost, 0, ROUNDS * HOSTS / 4);
}

/* ---- one port on several hosts ---- */

static void check_name(struct cluster_case *c, size_t host, const char *name, uint16_t port)
{
    const dibs_which which = { .name = name };
    dibs_claim found = { 0 };

    ASSERT_OK(core_find(c->at[host], E_CALL(&c->e, c->at[host]), &which, &found, &c->e.err), &c->e.err);
    assert_int_equal(found.port, port);
    assert_true(found.is_kept);
    assert_string_equal(found.principal, "uid:1000");
}

static void one_port_is_claimed_on_several_hosts_at_once(void **state)
{
    struct cluster_case *c = *state;
    dibs_request r = e_kept(NULL, NULL);
    dibs_claim out[HOSTS] = { 0 };

    NEED_CLUSTER();
    dibs_request only = e_kept(NULL, NULL);
    for (uint16_t port = 20000; port < 20010; port++) { /* all but one are taken, each on another host */
        only.mode = DIBS_REQUIRED;
        only.port = port;
        if (port != 20007)
            (void) e_must(&c->e, c->at[port % HOSTS], &only);
    }
    dibs_ranges ranges = e_ranges("20000-20009");
    r.name = "job/7/rendezvous";
    r.ranges = &ranges;
    /* c has no number yet: it is not known. */
    dibs_claim gone = e_port(&c->e, c->at[2], NULL, 25000);
    assert_int_equal(e_release(&c->e, c->at[2], &gone), 1);
    ASSERT_OK(core_claim_on_hosts(c->at[0], E_CALL(&c->e, c->at[0]), &r,
                                  &(struct core_hosts){ host_names, HOSTS }, out, &c->e.err),
              &c->e.err);
    for (size_t i = 0; i < HOSTS; i++) {
        assert_int_equal(out[i].port, 20007);
        check_name(c, i, "job/7/rendezvous", 20007);
    }
    assert_int_not_equal(out[0].id, out[1].id);
    /* Asked again, from elsewhere: the same. Released on one of them, it is there again. */
    ASSERT_OK(core_claim_on_hosts(c->at[1], E_CALL(&c->e, c->at[1]), &r,
                                  &(struct core_hosts){ host_names, HOSTS }, out, &c->e.err),
              &c->e.err);
    assert_int_equal(out[2].port, 20007);
    assert_true(out[2].was_there);
    size_t n = 0;
    const dibs_which which = { .name = "job/7/rendezvous" };
    ASSERT_OK(core_release(c->at[2], E_CALL(&c->e, c->at[2]), &which, 0, &n, &c->e.err), &c->e.err);
    assert_int_equal(n, 1);
    ASSERT_OK(core_claim_on_hosts(c->at[1], E_CALL(&c->e, c->at[1]), &r,
                                  &(struct core_hosts){ host_names, HOSTS }, out, &c->e.err),
              &c->e.err);
    check_name(c, 2, "job/7/rendezvous", 20007);
    /* Nothing is left for another name, and nothing is left behind by the attempt. */
    r.name = "job/8/rendezvous";
    assert_int_equal(core_claim_on_hosts(c->at[0], E_CALL(&c->e, c->at[0]), &r,
                                         &(struct core_hosts){ host_names, HOSTS }, out, &c->e.err),
                     DIBS_EXHAUSTED);
    r.mode = DIBS_REQUIRED;
    r.port = 20007;
    assert_int_equal(core_claim_on_hosts(c->at[0], E_CALL(&c->e, c->at[0]), &r,
                                         &(struct core_hosts){ host_names, HOSTS }, out, &c->e.err),
                     DIBS_TAKEN);
    assert_non_null(strstr(c->e.err.msg, "on host a"));
    for (size_t i = 0; i < HOSTS; i++)
        assert_int_equal(core_find(c->at[i], E_CALL(&c->e, c->at[i]),
                                   &(dibs_which){ .name = "job/8/rendezvous" }, &out[0], NULL),
                         DIBS_NOT_FOUND);
}

static void a_port_for_several_hosts_has_its_conditions(void **state)
{
    static const char *const unknown[] = { "a", "nowhere" };
    static const char *const twice[] = { "a", "a" };
    struct cluster_case *c = *state;
    dibs_request r = e_kept(NULL, NULL);
    dibs_claim out[HOSTS] = { 0 };

    NEED_CLUSTER();
    hosts_make_pool(c, "nodeports", "30000-30100", 0);
    for (size_t i = 0; i < HOSTS; i++)
        (void) e_port(&c->e, c->at[i], NULL, 25000);
    assert_int_equal(core_claim_on_hosts(c->at[0], E_CALL(&c->e, c->at[0]), &r,
                                         &(struct core_hosts){ unknown, 2 }, out, &c->e.err),
                     DIBS_NOT_FOUND);
    assert_non_null(strstr(c->e.err.msg, "'nowhere' (it knows a, b, c)"));
    assert_int_equal(core_claim_on_hosts(c->at[0], E_CALL(&c->e, c->at[0]), &r,
                                         &(struct core_hosts){ twice, 2 }, out, &c->e.err),
                     DIBS_INVALID);
    assert_int_equal(core_claim_on_hosts(c->at[0], E_CALL(&c->e, c->at[0]), &r,
                                         &(struct core_hosts){ host_names, 0 }, out, &c->e.err),
                     DIBS_INVALID);
    r.pool = "nodeports"; /* of these each port is one host's */
    assert_int_equal(core_claim_on_hosts(c->at[0], E_CALL(&c->e, c->at[0]), &r,
                                         &(struct core_hosts){ host_names, HOSTS }, out, &c->e.err),
                     DIBS_INVALID);
    r = e_required(NULL, NULL, 30050);
    assert_int_equal(core_claim_on_hosts(c->at[0], E_CALL(&c->e, c->at[0]), &r,
                                         &(struct core_hosts){ host_names, HOSTS }, out, &c->e.err),
                     DIBS_INVALID); /* a lease */
    r.holder = DIBS_HELD_BY_NOBODY;
    r.keep = true;
    assert_int_equal(core_claim_on_hosts(c->at[0], E_CALL(&c->e, c->at[0]), &r,
                                         &(struct core_hosts){ host_names, HOSTS }, out, &c->e.err),
                     DIBS_INVALID);
    hosts_check_usage(c, 101, 0);
}

/* A claim that loses the race on one host has nothing on any of them, and is decided again. */
static void a_port_for_several_hosts_is_all_or_nothing(void **state)
{
    struct cluster_case *c = *state;
    struct ledger *beside[2] = { 0 };
    struct ledger_tx *txs[2] = { 0 };
    struct ledger_want want = t_want("both", "*");
    const uint16_t port = 26000;

    NEED_CLUSTER();
    (void) e_port(&c->e, c->at[0], NULL, 25000);
    (void) e_port(&c->e, c->at[1], NULL, 25000);
    want.candidates = &port;
    want.n_candidates = 1;
    t_kept(&want);
    const struct ledger_batch batch = { .wants = &want, .n = 1 };
    for (size_t i = 0; i < 2; i++) {
        struct call call = e_call(&c->e, c->at[0]);
        struct ledger_refusal refusal = { 0 };
        dibs_claim out = { 0 };

        ASSERT_OK(ledger_beside(c->at[0]->ledger, host_names[i], &beside[i], &c->e.err), &c->e.err);
        call.tx = txs[i] = ledger_begin(beside[i], true);
        ASSERT_OK(ledger_claim(beside[i], &call, &batch, &out, &refusal, &c->e.err), &c->e.err);
    }
    (void) e_port(&c->e, c->at[1], NULL, 26000); /* b itself is first */
    assert_int_equal(ledger_commit_all(txs, 2, &c->e.err), DIBS_UNAVAILABLE);
    assert_true(ledger_lost_race(beside[0]));
    (void) e_port(&c->e, c->at[0], NULL, 26000); /* on a it is free */
    ledger_close(beside[0]);
    ledger_close(beside[1]);
}

/* Blocks of neighbours for each host, from the pool that they share. */
static void runs_of_ports_are_each_hosts_own(void **state)
{
    enum { N = 20 };
    struct cluster_case *c = *state;
    struct portbits seen = { 0 };

    NEED_CLUSTER();
    hosts_make_pool(c, "nodeports", "30000-30399", 5000);
    for (size_t i = 0; i < 9; i++) { /* 384 ports: however they lie, so many fit */
        dibs_request requests[N];
        dibs_claim out[N] = { 0 };

        for (size_t k = 0; k < N; k++) {
            requests[k] = e_request(NULL, NULL);
            requests[k].pool = "nodeports";
        }
        const dibs_batch batch = { .requests = requests, .n = N, .is_contiguous = true };
        ASSERT_OK(core_claim(c->at[i % HOSTS], E_CALL(&c->e, c->at[i % HOSTS]), &batch, out, &c->e.err),
                  &c->e.err);
        for (size_t k = 0; k < N; k++) {
            assert_int_equal(out[k].port, out[0].port + k);
            assert_false(portbits_has(&seen, out[k].port));
            portbits_add(&seen, out[k].port);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HOSTS_TEST(ports_of_one_host_are_neighbours_too),
        HOSTS_TEST(hosts_that_share_a_pool_begin_at_places_of_their_own),
        HOSTS_TEST(hosts_do_not_fight_for_the_ports_that_cool),
        HOSTS_TEST(one_port_is_claimed_on_several_hosts_at_once),
        HOSTS_TEST(a_port_for_several_hosts_has_its_conditions),
        HOSTS_TEST(a_port_for_several_hosts_is_all_or_nothing),
        HOSTS_TEST(runs_of_ports_are_each_hosts_own),
    };
    return cmocka_run_group_tests(tests, hosts_start, shared_close);
}
