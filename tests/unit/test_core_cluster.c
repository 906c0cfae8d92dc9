/* SPDX-License-Identifier: MIT */
/* The storage and allocator cases of Kubernetes' NodePort allocator (its numbers 12-31) for several hosts on
 * one pool of a real etcd with three members, each through an engine of its own.
 *
 * Different from the original, on purpose: 12 and 27, the first host makes the store; 22, the counts
 * are right from the start and the same on every host (W13); 25 and 26, a dry run tells what the real one
 * would (W3); 28 and 19, numbers outside of the range are refused everywhere, in snapshots too (W9). 21 is
 * arithmetic alone (unit/test_band), and what 22 to 24 count is in unit/test_daemon_metrics. */
#include "net/range_snapshot.h"
#include "support/hosts.h"

/* ---- storage ---- */

static void cases_12_27_the_first_host_makes_the_store(void **state)
{
    struct cluster_case *c = *state;
    dibs_claim out = { 0 };

    NEED_CLUSTER();
    /* Three have opened a place where nothing was: one store, with one salt, and it can be used at once. */
    assert_int_equal(ledger_salt(c->at[0]->ledger), ledger_salt(c->at[1]->ledger));
    assert_int_equal(ledger_salt(c->at[0]->ledger), ledger_salt(c->at[2]->ledger));
    hosts_make_pool(c, "nodeports", "30000-32767", 0);
    ASSERT_OK(hosts_take(c, 2, 30001, &out), &c->e.err);
}

static void cases_13_29_a_port_is_taken_for_all_until_it_is_released(void **state)
{
    struct cluster_case *c = *state;
    dibs_claim out = { 0 };

    NEED_CLUSTER();
    hosts_make_pool(c, "nodeports", "30000-32767", 0);
    ASSERT_OK(hosts_take(c, 0, 30100, &out), &c->e.err);
    for (size_t i = 0; i < HOSTS; i++) {
        assert_int_equal(hosts_take(c, i, 30100, &(dibs_claim){ 0 }), DIBS_TAKEN);
        hosts_check_list(c, (const uint16_t[]){ 30100 }, 1);
    }
    assert_non_null(strstr(c->e.err.msg, "uid:1000@a")); /* the error names the holder, W1 */
    hosts_release(c, 30100);
    ASSERT_OK(hosts_take(c, 1, 30100, &out), &c->e.err);
    assert_int_equal(hosts_take(c, 0, 30100, &out), DIBS_TAKEN);
}

/* The stored pool decides, not the belief of one client. */
static void cases_14_15_the_store_decides_and_no_copy(void **state)
{
    struct cluster_case *c = *state;
    dibs_claim out = { 0 };

    NEED_CLUSTER();
    hosts_make_pool(c, "nodeports", "30000-32767", 0);
    ASSERT_OK(hosts_take(c, 0, 30002, &out), &c->e.err);
    e_begin(&c->e, c->at[0]); /* released here alone: it is never committed */
    assert_int_equal(e_release(&c->e, c->at[0], &out), 1);
    assert_int_equal(hosts_take(c, 1, 30002, &(dibs_claim){ 0 }), DIBS_TAKEN);
    ASSERT_OK(hosts_take(c, 0, 30003, &out), &c->e.err); /* taken here alone, likewise */
    ASSERT_OK(hosts_take(c, 1, 30003, &out), &c->e.err);
    assert_int_equal(e_commit(&c->e, c->at[0]), DIBS_UNAVAILABLE);
    assert_int_equal(hosts_take(c, 0, 30003, &(dibs_claim){ 0 }), DIBS_TAKEN);
    assert_int_equal(hosts_take(c, 0, 30002, &(dibs_claim){ 0 }), DIBS_TAKEN);
}

/* ---- the allocator ---- */

static void case_16_drain_release_and_refusals_on_several_hosts(void **state)
{
    struct cluster_case *c = *state;
    struct portbits seen = { 0 };
    dibs_claim out = { 0 };

    NEED_CLUSTER();
    hosts_make_pool(c, "nodeports", "10000-10200", 0); /* 10080 is one that browsers refuse */
    hosts_check_usage(c, 201, 0);
    for (size_t i = 0; i < 4; i++)
        hosts_take_many(c, i % HOSTS, 50, &seen);
    assert_int_equal(portbits_count(&seen), 200);
    assert_int_equal(hosts_take_any(c, 2, &out), DIBS_EXHAUSTED);
    ASSERT_OK(hosts_take(c, 1, 10080, &out), &c->e.err);
    hosts_check_usage(c, 0, 201);
    hosts_release(c, 10005);
    hosts_check_usage(c, 1, 200);
    ASSERT_OK(hosts_take_any(c, 1, &out), &c->e.err);
    assert_int_equal(out.port, 10005);
    hosts_release(c, 10005);
    for (size_t i = 0; i < HOSTS; i++) {
        assert_int_equal(hosts_take(c, i, 1, &out), DIBS_INVALID);
        assert_int_equal(hosts_take(c, i, 10001, &out), DIBS_TAKEN);
        assert_int_equal(hosts_take(c, i, 20000, &out), DIBS_INVALID);
        assert_int_equal(hosts_take(c, i, 10201, &out), DIBS_INVALID);
    }
    hosts_check_usage(c, 1, 200);
    ASSERT_OK(hosts_take(c, 2, 10005, &out), &c->e.err);
    hosts_check_usage(c, 0, 201);
}

static void case_17_all_hosts_fill_the_upper_band_first(void **state)
{
    struct cluster_case *c = *state;
    struct portbits seen = { 0 };
    dibs_claim out = { 0 };

    NEED_CLUSTER();
    hosts_make_pool(c, "nodeports", "30000-30128", 0);
    for (size_t i = 0; i < 113; i++) {
        ASSERT_OK(hosts_take_any(c, i % HOSTS, &out), &c->e.err);
        assert_false(portbits_has(&seen, out.port));
        assert_in_range(out.port, 30016, 30128);
        portbits_add(&seen, out.port);
    }
    hosts_check_usage(c, 16, 113);
    for (uint16_t port = 30000; port <= 30015; port++)
        ASSERT_OK(hosts_take(c, port % HOSTS, port, &out), &c->e.err);
    hosts_check_usage(c, 0, 129);
    hosts_release(c, 30053);
    ASSERT_OK(hosts_take_any(c, 2, &out), &c->e.err);
    assert_int_equal(out.port, 30053);
    hosts_check_usage(c, 0, 129);
}

static void case_18_every_host_lists_exactly_what_is_taken(void **state)
{
    static const uint16_t ports[] = { 10000, 10200, 10099 };
    struct cluster_case *c = *state;
    dibs_claim out = { 0 };

    NEED_CLUSTER();
    hosts_make_pool(c, "nodeports", "10000-10200", 0);
    hosts_check_list(c, ports, 0);
    for (size_t i = 0; i < 3; i++) {
        ASSERT_OK(hosts_take(c, i, ports[i], &out), &c->e.err);
        hosts_check_list(c, ports, i + 1);
    }
}

static void cases_19_20_a_snapshot_of_one_host_has_what_all_have(void **state)
{
    struct cluster_case *c = *state;
    struct portbits seen = { 0 };
    char range[DIBS_RANGES_TEXT_MAX + 1] = "";
    uint8_t bytes[RANGE_SNAPSHOT_BYTES_MAX];
    size_t n = 0;
    size_t n_claimed = 0;

    NEED_CLUSTER();
    hosts_make_pool(c, "nodeports", "10000-10200", 0);
    hosts_take_many(c, 0, 5, &seen);
    hosts_take_many(c, 1, 5, &seen);
    ASSERT_OK(core_snapshot_export(c->at[2], E_CALL(&c->e, c->at[2]), "nodeports",
                                   &(struct core_range_export){ range, bytes, &n }, &c->e.err),
              &c->e.err);
    assert_string_equal(range, "10000-10200");
    const dibs_range_snapshot snapshot = { range, bytes, n };
    hosts_make_pool(c, "elsewhere", "200-300", 0);
    assert_int_equal(core_snapshot_import(c->at[1], E_CALL(&c->e, c->at[1]), "elsewhere", &snapshot,
                                          &n_claimed, &c->e.err),
                     DIBS_INVALID);
    /* Into a store where they are free: all ten are there again, the same for all hosts. */
    for (uint32_t port = 10000; port <= 10200; port++)
        if (portbits_has(&seen, (uint16_t) port))
            hosts_release(c, (uint16_t) port);
    hosts_check_usage(c, 201, 0);
    ASSERT_OK(core_snapshot_import(c->at[1], E_CALL(&c->e, c->at[1]), "nodeports", &snapshot, &n_claimed,
                                   &c->e.err),
              &c->e.err);
    assert_int_equal(n_claimed, 10);
    hosts_check_usage(c, 191, 10);
    /* Where another host has one of them nothing is done. */
    for (uint32_t port = 10000; port <= 10200; port++)
        if (portbits_has(&seen, (uint16_t) port))
            hosts_release(c, (uint16_t) port);
    dibs_claim out = { 0 };
    uint16_t last = 10200;
    while (!portbits_has(&seen, last))
        last--;
    ASSERT_OK(hosts_take(c, 2, last, &out), &c->e.err);
    assert_int_equal(core_snapshot_import(c->at[1], E_CALL(&c->e, c->at[1]), "nodeports", &snapshot,
                                          &n_claimed, &c->e.err),
                     DIBS_TAKEN);
    hosts_check_list(c, &last, 1);
}

static void case_22_W13_the_counts_are_the_same_on_every_host(void **state)
{
    struct cluster_case *c = *state;
    dibs_claim out[2] = { 0 };

    NEED_CLUSTER();
    hosts_make_pool(c, "nodeports", "30000-32767", 0);
    hosts_check_usage(c, 2768, 0);
    ASSERT_OK(hosts_take_any(c, 0, &out[0]), &c->e.err);
    ASSERT_OK(hosts_take_any(c, 1, &out[1]), &c->e.err);
    hosts_check_usage(c, 2766, 2);
    assert_int_equal(hosts_take(c, 2, out[0].port, &(dibs_claim){ 0 }), DIBS_TAKEN);
    assert_int_equal(hosts_take(c, 2, out[1].port, &(dibs_claim){ 0 }), DIBS_TAKEN);
    hosts_check_usage(c, 2766, 2);
    hosts_release(c, out[0].port);
    hosts_release(c, out[1].port);
    hosts_check_usage(c, 2768, 0);
}

static void cases_25_26_W3_a_dry_run_sees_what_other_hosts_have(void **state)
{
    struct cluster_case *c = *state;
    dibs_request r = e_required(NULL, NULL, 10000);
    dibs_claim out = { 0 };

    NEED_CLUSTER();
    hosts_make_pool(c, "nodeports", "10000-10002", 0);
    ASSERT_OK(hosts_take(c, 0, 10000, &out), &c->e.err);
    ASSERT_OK(hosts_take(c, 1, 10001, &out), &c->e.err);
    r.pool = "nodeports";
    dibs_batch dry = { .requests = &r, .n = 1, .is_dry_run = true };
    assert_int_equal(core_claim(c->at[2], E_CALL(&c->e, c->at[2]), &dry, &out, &c->e.err), DIBS_TAKEN);
    r.port = 12345;
    assert_int_equal(core_claim(c->at[2], E_CALL(&c->e, c->at[2]), &dry, &out, &c->e.err), DIBS_INVALID);
    r = e_request(NULL, NULL);
    r.pool = "nodeports";
    ASSERT_OK(core_claim(c->at[2], E_CALL(&c->e, c->at[2]), &dry, &out, &c->e.err), &c->e.err);
    assert_int_equal(out.port, 10002);
    hosts_check_usage(c, 1, 2);
    ASSERT_OK(hosts_take_any(c, 2, &out), &c->e.err);
    assert_int_equal(out.port, 10002);
    assert_int_equal(core_claim(c->at[1], E_CALL(&c->e, c->at[1]), &dry, &out, &c->e.err), DIBS_EXHAUSTED);
}

static void case_28_the_ends_of_the_range_and_what_is_beside_them(void **state)
{
    struct cluster_case *c = *state;
    dibs_claim out = { 0 };

    NEED_CLUSTER();
    hosts_make_pool(c, "nodeports", "30000-32767", 0);
    ASSERT_OK(hosts_take(c, 0, 30000, &out), &c->e.err);
    ASSERT_OK(hosts_take(c, 1, 32767, &out), &c->e.err);
    for (size_t i = 0; i < HOSTS; i++) {
        assert_int_equal(hosts_take(c, i, 29999, &out), DIBS_INVALID);
        assert_non_null(strstr(c->e.err.msg, "30000-32767"));
        assert_int_equal(hosts_take(c, i, 32768, &out), DIBS_INVALID);
    }
}

/* 2768 ports, by hosts in turns. None of them is withheld: 32768 and above would be ephemeral. */
static void cases_30_31_hosts_fill_the_whole_range_upper_band_first(void **state)
{
    struct cluster_case *c = *state;
    struct portbits seen = { 0 };
    dibs_claim out = { 0 };

    NEED_CLUSTER();
    hosts_make_pool(c, "nodeports", "30000-32767", 0);
    for (size_t i = 0; i < 6; i++)
        hosts_take_many(c, i % HOSTS, 447, &seen);
    portbits_remove_range(&seen, (dibs_range){ 30086, 32767 });
    assert_int_equal(portbits_count(&seen), 0);
    hosts_check_usage(c, 86, 2682);
    hosts_take_many(c, 1, 86, &seen);
    portbits_remove_range(&seen, (dibs_range){ 30000, 30085 });
    assert_int_equal(portbits_count(&seen), 0);
    for (size_t i = 0; i < HOSTS; i++)
        assert_int_equal(hosts_take_any(c, i, &out), DIBS_EXHAUSTED);
    hosts_release(c, 30053);
    ASSERT_OK(hosts_take_any(c, 2, &out), &c->e.err);
    assert_int_equal(out.port, 30053);
    assert_int_equal(hosts_take_any(c, 0, &out), DIBS_EXHAUSTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HOSTS_TEST(cases_12_27_the_first_host_makes_the_store),
        HOSTS_TEST(cases_13_29_a_port_is_taken_for_all_until_it_is_released),
        HOSTS_TEST(cases_14_15_the_store_decides_and_no_copy),
        HOSTS_TEST(case_16_drain_release_and_refusals_on_several_hosts),
        HOSTS_TEST(case_17_all_hosts_fill_the_upper_band_first),
        HOSTS_TEST(case_18_every_host_lists_exactly_what_is_taken),
        HOSTS_TEST(cases_19_20_a_snapshot_of_one_host_has_what_all_have),
        HOSTS_TEST(case_22_W13_the_counts_are_the_same_on_every_host),
        HOSTS_TEST(cases_25_26_W3_a_dry_run_sees_what_other_hosts_have),
        HOSTS_TEST(case_28_the_ends_of_the_range_and_what_is_beside_them),
        HOSTS_TEST(cases_30_31_hosts_fill_the_whole_range_upper_band_first),
    };
    return cmocka_run_group_tests(tests, hosts_start, shared_close);
}
