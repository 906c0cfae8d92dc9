/* SPDX-License-Identifier: MIT */
/* The storage and allocator cases of Kubernetes' NodePort allocator (its numbers 12-31) for several hosts on
 * one pool of a real etcd with three members, each through an engine of its own.
 *
 * Different from the original, on purpose: 12 and 27, whoever comes first makes the store; 22, the figures
 * are right from the start and the same on every host (W13); 25 and 26, a dry run tells what the real one
 * would (W3); 28 and 19, numbers outside of the range are refused everywhere, in snapshots too (W9). 21 is
 * arithmetic alone (unit/test_band), and what 22 to 24 count is in unit/test_daemon_metrics. */
#include "index/snapshot.h"
#include "support/core.h"
#include "support/etcd.h"

enum { HOSTS = 3 };
static const char *const names[HOSTS] = { "a", "b", "c" };

struct cluster_case {
    struct engine e;
    struct core *at[HOSTS];
};

static int start_cluster(void **state)
{
    (void) state;
    e_own_network();
    return e_has_network ? shared_open(3) : 0;
}

static int open_hosts(void **state)
{
    static unsigned n_cases;
    struct cluster_case *c = calloc(1, sizeof *c);
    char tail[32] = "";

    assert_non_null(c);
    *state = c;
    c->e.now = (struct instant){ 1700000000000, 5000000 };
    c->e.settings = (dibs_settings){ .ledger_mode = DIBS_LEDGER_STRICT,
                                     .range = { .item = { { 20000, 32767 } }, .n = 1 },
                                     .pool = "default",
                                     .band = DIBS_BAND_AUTO,
                                     .order = "stride",
                                     .socket = "none",
                                     .cooldown_ms = 5000,
                                     .ttl_ms = E_LEASE,
                                     .timeout_ms = 20000 };
    (void) snprintf(tail, sizeof tail, "/case%u", ++n_cases);
    for (size_t i = 0; i < HOSTS && shared; i++) {
        cluster_url(shared, tail, c->e.uri, sizeof c->e.uri);
        c->e.node = names[i];
        c->at[i] = c->e.more[i] = e_open(&c->e, "uid:1000", 1000, false, &c->e.settings);
    }
    c->e.core = c->at[0];
    return 0;
}

static int close_hosts(void **state)
{
    struct cluster_case *c = *state;

    for (size_t i = 0; i < HOSTS; i++)
        core_close(c->at[i]);
    free(c);
    return 0;
}

#define NEED_CLUSTER()  \
    do {                \
        need_network(); \
        NEED_ETCD();    \
    } while (0)

static void make_pool(struct cluster_case *c, const char *name, const char *ranges, int64_t cooldown_ms)
{
    dibs_pool pool = { .ranges = e_ranges(ranges),
                       .scope = DIBS_SCOPE_CLUSTER,
                       .band = DIBS_BAND_AUTO,
                       .cooldown_ms = cooldown_ms,
                       .order = "stride" };

    (void) snprintf(pool.name, sizeof pool.name, "%s", name);
    ASSERT_OK(core_pool_put(c->at[0], &pool, &c->e.err), &c->e.err);
}

static dibs_status take(struct cluster_case *c, size_t host, uint16_t port, dibs_claim *out)
{
    dibs_request r = e_required(NULL, NULL, port);

    r.pool = "nodeports";
    return e_try(&c->e, c->at[host], &r, out);
}

static dibs_status take_any(struct cluster_case *c, size_t host, dibs_claim *out)
{
    dibs_request r = e_request(NULL, NULL);

    r.pool = "nodeports";
    return e_try(&c->e, c->at[host], &r, out);
}

/* `n` at once: the storage is the same, and it takes less time. */
static void take_many(struct cluster_case *c, size_t host, size_t n, struct portbits *seen)
{
    dibs_request *requests = calloc(n, sizeof *requests);
    dibs_claim *out = calloc(n, sizeof *out);

    assert_true(requests && out);
    for (size_t i = 0; i < n; i++) {
        requests[i] = e_request(NULL, NULL);
        requests[i].pool = "nodeports";
    }
    const dibs_batch batch = { .requests = requests, .n = n };
    ASSERT_OK(core_claim(c->at[host], &batch, out, &c->e.err), &c->e.err);
    for (size_t i = 0; i < n; i++) {
        assert_false(portbits_has(seen, out[i].port));
        portbits_add(seen, out[i].port);
    }
    free(requests);
    free(out);
}

static void give_back(struct cluster_case *c, uint16_t port)
{
    size_t n = 0;

    for (size_t i = 0; i < HOSTS && n == 0; i++) {
        const dibs_which which = { .port = port };

        ASSERT_OK(core_release(c->at[i], &which, 0, &n, &c->e.err), &c->e.err);
    }
    assert_int_equal(n, 1);
}

/* Free and used, as every host sees it. */
static void check_figures(struct cluster_case *c, uint32_t free_ports, uint32_t used)
{
    for (size_t i = 0; i < HOSTS; i++) {
        dibs_pool_usage usage = { 0 };

        ASSERT_OK(core_pool_usage(c->at[i], "nodeports", &usage, &c->e.err), &c->e.err);
        assert_int_equal(usage.size - usage.n_static - usage.n_dynamic, free_ports);
        assert_int_equal(usage.n_static + usage.n_dynamic, used);
    }
}

static bool collect_port(void *ctx, const dibs_claim *claim)
{
    portbits_add(ctx, claim->port);
    return true;
}

static void check_list(struct cluster_case *c, const uint16_t *ports, size_t n)
{
    for (size_t i = 0; i < HOSTS; i++) {
        struct portbits found = { 0 };

        ASSERT_OK(core_list(c->at[i], &(dibs_filter){ 0 }, collect_port, &found, &c->e.err), &c->e.err);
        assert_int_equal(portbits_count(&found), n);
        for (size_t k = 0; k < n; k++)
            assert_true(portbits_has(&found, ports[k]));
    }
}

/* ---- storage ---- */

static void cases_12_27_whoever_comes_first_makes_the_store(void **state)
{
    struct cluster_case *c = *state;
    dibs_claim out = { 0 };

    NEED_CLUSTER();
    /* Three have opened a place where nothing was: one store, with one salt, and it can be used at once. */
    assert_int_equal(ledger_salt(c->at[0]->ledger), ledger_salt(c->at[1]->ledger));
    assert_int_equal(ledger_salt(c->at[0]->ledger), ledger_salt(c->at[2]->ledger));
    make_pool(c, "nodeports", "30000-32767", 0);
    ASSERT_OK(take(c, 2, 30001, &out), &c->e.err);
}

static void cases_13_29_a_port_is_taken_for_all_until_it_is_released(void **state)
{
    struct cluster_case *c = *state;
    dibs_claim out = { 0 };

    NEED_CLUSTER();
    make_pool(c, "nodeports", "30000-32767", 0);
    ASSERT_OK(take(c, 0, 30100, &out), &c->e.err);
    for (size_t i = 0; i < HOSTS; i++) {
        assert_int_equal(take(c, i, 30100, &(dibs_claim){ 0 }), DIBS_TAKEN);
        check_list(c, (const uint16_t[]){ 30100 }, 1);
    }
    assert_non_null(strstr(c->e.err.msg, "uid:1000@a")); /* c is told whose it is, W1 */
    give_back(c, 30100);
    ASSERT_OK(take(c, 1, 30100, &out), &c->e.err);
    assert_int_equal(take(c, 0, 30100, &out), DIBS_TAKEN);
}

/* What one client believes does not matter; what is stored does. */
static void cases_14_15_the_store_decides_and_no_copy(void **state)
{
    struct cluster_case *c = *state;
    dibs_claim out = { 0 };

    NEED_CLUSTER();
    make_pool(c, "nodeports", "30000-32767", 0);
    ASSERT_OK(take(c, 0, 30002, &out), &c->e.err);
    ledger_group_begin(c->at[0]->ledger); /* released here alone: it is never committed */
    assert_int_equal(e_release(&c->e, c->at[0], &out), 1);
    assert_int_equal(take(c, 1, 30002, &(dibs_claim){ 0 }), DIBS_TAKEN);
    ASSERT_OK(take(c, 0, 30003, &out), &c->e.err); /* taken here alone, likewise */
    ASSERT_OK(take(c, 1, 30003, &out), &c->e.err);
    assert_int_equal(ledger_group_commit(c->at[0]->ledger, NULL, &c->e.err), DIBS_UNAVAILABLE);
    assert_int_equal(take(c, 0, 30003, &(dibs_claim){ 0 }), DIBS_TAKEN);
    assert_int_equal(take(c, 0, 30002, &(dibs_claim){ 0 }), DIBS_TAKEN);
}

/* ---- the allocator ---- */

static void case_16_drain_release_and_refusals_on_several_hosts(void **state)
{
    struct cluster_case *c = *state;
    struct portbits seen = { 0 };
    dibs_claim out = { 0 };

    NEED_CLUSTER();
    make_pool(c, "nodeports", "10000-10200", 0); /* 10080 is one that browsers refuse */
    check_figures(c, 201, 0);
    for (size_t i = 0; i < 4; i++)
        take_many(c, i % HOSTS, 50, &seen);
    assert_int_equal(portbits_count(&seen), 200);
    assert_int_equal(take_any(c, 2, &out), DIBS_EXHAUSTED);
    ASSERT_OK(take(c, 1, 10080, &out), &c->e.err);
    check_figures(c, 0, 201);
    give_back(c, 10005);
    check_figures(c, 1, 200);
    ASSERT_OK(take_any(c, 1, &out), &c->e.err);
    assert_int_equal(out.port, 10005);
    give_back(c, 10005);
    for (size_t i = 0; i < HOSTS; i++) {
        assert_int_equal(take(c, i, 1, &out), DIBS_INVALID);
        assert_int_equal(take(c, i, 10001, &out), DIBS_TAKEN);
        assert_int_equal(take(c, i, 20000, &out), DIBS_INVALID);
        assert_int_equal(take(c, i, 10201, &out), DIBS_INVALID);
    }
    check_figures(c, 1, 200);
    ASSERT_OK(take(c, 2, 10005, &out), &c->e.err);
    check_figures(c, 0, 201);
}

static void case_17_all_hosts_fill_the_upper_band_first(void **state)
{
    struct cluster_case *c = *state;
    struct portbits seen = { 0 };
    dibs_claim out = { 0 };

    NEED_CLUSTER();
    make_pool(c, "nodeports", "30000-30128", 0);
    for (size_t i = 0; i < 113; i++) {
        ASSERT_OK(take_any(c, i % HOSTS, &out), &c->e.err);
        assert_false(portbits_has(&seen, out.port));
        assert_in_range(out.port, 30016, 30128);
        portbits_add(&seen, out.port);
    }
    check_figures(c, 16, 113);
    for (uint16_t port = 30000; port <= 30015; port++)
        ASSERT_OK(take(c, port % HOSTS, port, &out), &c->e.err);
    check_figures(c, 0, 129);
    give_back(c, 30053);
    ASSERT_OK(take_any(c, 2, &out), &c->e.err);
    assert_int_equal(out.port, 30053);
    check_figures(c, 0, 129);
}

static void case_18_every_host_lists_exactly_what_is_taken(void **state)
{
    static const uint16_t ports[] = { 10000, 10200, 10099 };
    struct cluster_case *c = *state;
    dibs_claim out = { 0 };

    NEED_CLUSTER();
    make_pool(c, "nodeports", "10000-10200", 0);
    check_list(c, ports, 0);
    for (size_t i = 0; i < 3; i++) {
        ASSERT_OK(take(c, i, ports[i], &out), &c->e.err);
        check_list(c, ports, i + 1);
    }
}

static void cases_19_20_a_snapshot_of_one_host_has_what_all_have(void **state)
{
    struct cluster_case *c = *state;
    struct portbits seen = { 0 };
    char range[DIBS_RANGES_TEXT_MAX + 1] = "";
    uint8_t bytes[SNAPSHOT_BYTES_MAX];
    size_t n = 0;
    size_t n_claimed = 0;

    NEED_CLUSTER();
    make_pool(c, "nodeports", "10000-10200", 0);
    take_many(c, 0, 5, &seen);
    take_many(c, 1, 5, &seen);
    ASSERT_OK(core_snapshot_export(c->at[2], "nodeports", range, bytes, &n, &c->e.err), &c->e.err);
    assert_string_equal(range, "10000-10200");
    const dibs_range_snapshot snapshot = { range, bytes, n };
    make_pool(c, "elsewhere", "200-300", 0);
    assert_int_equal(core_snapshot_import(c->at[1], "elsewhere", &snapshot, &n_claimed, &c->e.err),
                     DIBS_INVALID);
    /* Into a store where they are free: all ten are there again, the same for all hosts. */
    for (uint32_t port = 10000; port <= 10200; port++)
        if (portbits_has(&seen, (uint16_t) port))
            give_back(c, (uint16_t) port);
    check_figures(c, 201, 0);
    ASSERT_OK(core_snapshot_import(c->at[1], "nodeports", &snapshot, &n_claimed, &c->e.err), &c->e.err);
    assert_int_equal(n_claimed, 10);
    check_figures(c, 191, 10);
    /* Where another host has one of them nothing is done. */
    for (uint32_t port = 10000; port <= 10200; port++)
        if (portbits_has(&seen, (uint16_t) port))
            give_back(c, (uint16_t) port);
    dibs_claim out = { 0 };
    uint16_t last = 10200;
    while (!portbits_has(&seen, last))
        last--;
    ASSERT_OK(take(c, 2, last, &out), &c->e.err);
    assert_int_equal(core_snapshot_import(c->at[1], "nodeports", &snapshot, &n_claimed, &c->e.err),
                     DIBS_TAKEN);
    check_list(c, &last, 1);
}

static void case_22_W13_the_figures_are_the_same_on_every_host(void **state)
{
    struct cluster_case *c = *state;
    dibs_claim out[2] = { 0 };

    NEED_CLUSTER();
    make_pool(c, "nodeports", "30000-32767", 0);
    check_figures(c, 2768, 0);
    ASSERT_OK(take_any(c, 0, &out[0]), &c->e.err);
    ASSERT_OK(take_any(c, 1, &out[1]), &c->e.err);
    check_figures(c, 2766, 2);
    assert_int_equal(take(c, 2, out[0].port, &(dibs_claim){ 0 }), DIBS_TAKEN);
    assert_int_equal(take(c, 2, out[1].port, &(dibs_claim){ 0 }), DIBS_TAKEN);
    check_figures(c, 2766, 2);
    give_back(c, out[0].port);
    give_back(c, out[1].port);
    check_figures(c, 2768, 0);
}

static void cases_25_26_W3_a_dry_run_sees_what_other_hosts_have(void **state)
{
    struct cluster_case *c = *state;
    dibs_request r = e_required(NULL, NULL, 10000);
    dibs_claim out = { 0 };

    NEED_CLUSTER();
    make_pool(c, "nodeports", "10000-10002", 0);
    ASSERT_OK(take(c, 0, 10000, &out), &c->e.err);
    ASSERT_OK(take(c, 1, 10001, &out), &c->e.err);
    r.pool = "nodeports";
    dibs_batch dry = { .requests = &r, .n = 1, .is_dry_run = true };
    assert_int_equal(core_claim(c->at[2], &dry, &out, &c->e.err), DIBS_TAKEN);
    r.port = 12345;
    assert_int_equal(core_claim(c->at[2], &dry, &out, &c->e.err), DIBS_INVALID);
    r = e_request(NULL, NULL);
    r.pool = "nodeports";
    ASSERT_OK(core_claim(c->at[2], &dry, &out, &c->e.err), &c->e.err);
    assert_int_equal(out.port, 10002);
    check_figures(c, 1, 2);
    ASSERT_OK(take_any(c, 2, &out), &c->e.err);
    assert_int_equal(out.port, 10002);
    assert_int_equal(core_claim(c->at[1], &dry, &out, &c->e.err), DIBS_EXHAUSTED);
}

static void case_28_the_ends_of_the_range_and_what_is_beside_them(void **state)
{
    struct cluster_case *c = *state;
    dibs_claim out = { 0 };

    NEED_CLUSTER();
    make_pool(c, "nodeports", "30000-32767", 0);
    ASSERT_OK(take(c, 0, 30000, &out), &c->e.err);
    ASSERT_OK(take(c, 1, 32767, &out), &c->e.err);
    for (size_t i = 0; i < HOSTS; i++) {
        assert_int_equal(take(c, i, 29999, &out), DIBS_INVALID);
        assert_non_null(strstr(c->e.err.msg, "30000-32767"));
        assert_int_equal(take(c, i, 32768, &out), DIBS_INVALID);
    }
}

/* 2768 ports, by hosts in turns. None of them is withheld: 32768 and above would be ephemeral. */
static void cases_30_31_hosts_fill_the_whole_range_upper_band_first(void **state)
{
    struct cluster_case *c = *state;
    struct portbits seen = { 0 };
    dibs_claim out = { 0 };

    NEED_CLUSTER();
    make_pool(c, "nodeports", "30000-32767", 0);
    for (size_t i = 0; i < 6; i++)
        take_many(c, i % HOSTS, 447, &seen);
    portbits_remove_range(&seen, (dibs_range){ 30086, 32767 });
    assert_int_equal(portbits_count(&seen), 0);
    check_figures(c, 86, 2682);
    take_many(c, 1, 86, &seen);
    portbits_remove_range(&seen, (dibs_range){ 30000, 30085 });
    assert_int_equal(portbits_count(&seen), 0);
    for (size_t i = 0; i < HOSTS; i++)
        assert_int_equal(take_any(c, i, &out), DIBS_EXHAUSTED);
    give_back(c, 30053);
    ASSERT_OK(take_any(c, 2, &out), &c->e.err);
    assert_int_equal(out.port, 30053);
    assert_int_equal(take_any(c, 0, &out), DIBS_EXHAUSTED);
}

/* ---- hosts that choose at the same time ---- */

/* All decide before one of them commits: who has met another there is beaten. */
static size_t claim_together(struct cluster_case *c, size_t n, dibs_claim *out)
{
    size_t n_beaten = 0;

    for (size_t i = 0; i < HOSTS; i++) {
        ledger_group_begin(c->at[i]->ledger);
        for (size_t k = 0; k < n; k++)
            ASSERT_OK(take_any(c, i, &out[i * n + k]), &c->e.err);
    }
    for (size_t i = 0; i < HOSTS; i++) {
        dibs_status s = ledger_group_commit(c->at[i]->ledger, NULL, &c->e.err);

        c->at[i]->index.is_loaded = false;
        if (s == DIBS_OK)
            continue;
        assert_true(ledger_was_beaten(c->at[i]->ledger));
        n_beaten++;
        for (size_t k = 0; k < n; k++)
            ASSERT_OK(take_any(c, i, &out[i * n + k]), &c->e.err);
    }
    return n_beaten;
}

static void hosts_that_share_a_pool_begin_at_places_of_their_own(void **state)
{
    struct cluster_case *c = *state;
    dibs_claim out[HOSTS * 40] = { 0 };

    NEED_CLUSTER();
    make_pool(c, "nodeports", "30000-32767", 5000);
    for (size_t i = 0; i < HOSTS; i++) { /* each has a number from its first claim on */
        ASSERT_OK(take_any(c, i, &out[0]), &c->e.err);
        assert_int_equal(e_release(&c->e, c->at[i], &out[0]), 1);
    }
    assert_int_equal(claim_together(c, 40, out), 0);
    for (size_t i = 0; i < HOSTS; i++) { /* and what one of them takes stays together */
        bool seen[1024] = { false };
        size_t n_blocks = 0;

        for (size_t k = 0; k < 40; k++) {
            n_blocks += !seen[out[i * 40 + k].port / 64];
            seen[out[i * 40 + k].port / 64] = true;
        }
        assert_in_range(n_blocks, 1, 2);
    }
}

/* The longest rested ones would be the same for all. */
static void hosts_do_not_fight_for_the_ports_that_cool(void **state)
{
    enum { ROUNDS = 12, N = 60 };
    struct cluster_case *c = *state;
    dibs_claim out[HOSTS * N] = { 0 };
    size_t n_beaten = 0;

    NEED_CLUSTER();
    make_pool(c, "nodeports", "30000-30999", 3600000);
    for (size_t round = 0; round < ROUNDS; round++) {
        n_beaten += claim_together(c, N, out);
        e_pass(&c->e, 100);
        for (size_t i = 0; i < (size_t) HOSTS * N; i++)
            assert_int_equal(e_release(&c->e, c->at[i / N], &out[i]), 1);
    }
    /* 2160 claims on 968 ports of the upper band: each was had more than twice. */
    print_message("%zu of %d commits were beaten\n", n_beaten, ROUNDS * HOSTS);
    assert_in_range(n_beaten, 0, ROUNDS * HOSTS / 4);
}

#define HOSTS_TEST(name) cmocka_unit_test_setup_teardown(name, open_hosts, close_hosts)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HOSTS_TEST(cases_12_27_whoever_comes_first_makes_the_store),
        HOSTS_TEST(cases_13_29_a_port_is_taken_for_all_until_it_is_released),
        HOSTS_TEST(cases_14_15_the_store_decides_and_no_copy),
        HOSTS_TEST(case_16_drain_release_and_refusals_on_several_hosts),
        HOSTS_TEST(case_17_all_hosts_fill_the_upper_band_first),
        HOSTS_TEST(case_18_every_host_lists_exactly_what_is_taken),
        HOSTS_TEST(cases_19_20_a_snapshot_of_one_host_has_what_all_have),
        HOSTS_TEST(case_22_W13_the_figures_are_the_same_on_every_host),
        HOSTS_TEST(cases_25_26_W3_a_dry_run_sees_what_other_hosts_have),
        HOSTS_TEST(case_28_the_ends_of_the_range_and_what_is_beside_them),
        HOSTS_TEST(cases_30_31_hosts_fill_the_whole_range_upper_band_first),
        HOSTS_TEST(hosts_that_share_a_pool_begin_at_places_of_their_own),
        HOSTS_TEST(hosts_do_not_fight_for_the_ports_that_cool),
    };
    return cmocka_run_group_tests(tests, start_cluster, shared_close);
}
