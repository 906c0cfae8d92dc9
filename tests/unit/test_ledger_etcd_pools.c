/* SPDX-License-Identifier: MIT */
/* Pools of a cluster: a port changes between host and cluster scope only while no host has a claim on it. */
#include "support/etcd_ledger.h"

static dibs_claim claim_at(struct t_ledger *t, struct ledger *ledger, const char *name, uint16_t port)
{
    struct ledger_want want = t_want(name, "*");

    want.candidates = &port;
    want.n_candidates = 1;
    return must_claim(t, ledger, &want);
}

static dibs_status try_at(struct t_ledger *t, struct ledger *ledger, uint16_t port)
{
    struct ledger_want want = t_want(NULL, "*");
    dibs_claim out = { 0 };

    want.candidates = &port;
    want.n_candidates = 1;
    return try_claim(t, ledger, &want, &out);
}

static dibs_pool pool_of(const char *name, dibs_scope scope, uint16_t first, uint16_t last)
{
    dibs_pool pool = { .scope = scope, .order = "stride", .ranges = { .item = { { first, last } }, .n = 1 } };

    (void) snprintf(pool.name, sizeof pool.name, "%s", name);
    return pool;
}

static bool note_port_of(void *ctx, const dibs_claim *claim)
{
    dibs_claim *found = ctx;

    if (claim->port == found->port)
        *found = *claim;
    return true;
}

/* Whose claim of that port this host sees; "": none. */
static const char *seen_by(struct t_ledger *t, struct ledger *ledger, uint16_t port)
{
    static dibs_claim found;

    found = (dibs_claim){ .port = port };
    ASSERT_OK(
        ledger_list(ledger, T_CALL(t, ledger), &(struct ledger_filter){ 0 }, note_port_of, &found, &t->err),
        &t->err);
    return found.principal;
}

static void release(struct t_ledger *t, struct ledger *ledger, const dibs_claim *claim)
{
    struct ledger_seen seen = t_seen(claim);
    size_t n = 0;

    ASSERT_OK(ledger_end(ledger, T_CALL(t, ledger), &(struct ledger_ending){ &seen, 1, LEDGER_END_RELEASE },
                         &n, &t->err),
              &t->err);
    assert_int_equal(n, 1);
}

/* The change is refused, names the claim, changes nothing and leaves no fence behind. */
static void assert_refused(struct t_ledger *t, struct ledger *ledger, const dibs_pool *pool, const char *said)
{
    dibs_pool before = { 0 };
    dibs_pool after = { 0 };
    dibs_status s = ledger_pool_get(ledger, T_CALL(t, ledger), pool->name, &before, NULL);

    assert_int_equal(ledger_pool_put(ledger, T_CALL(t, ledger), pool, &t->err), DIBS_TAKEN);
    if (!strstr(t->err.msg, said))
        fail_msg("'%s' is not in: %s", said, t->err.msg);
    assert_int_equal(ledger_pool_get(ledger, T_CALL(t, ledger), pool->name, &after, NULL), s);
    assert_memory_equal(&after, &before, sizeof after);
}

static void ports_that_another_host_has_claimed_do_not_become_the_clusters(void **state)
{
    struct t_ledger *t = *state;
    const dibs_pool pool = pool_of("everywhere", DIBS_SCOPE_CLUSTER, 31000, 31002);

    NEED_ETCD();
    struct ledger *a = host(t, "a");
    struct ledger *b = host(t, "b");
    struct ledger *c = host(t, "c");
    dibs_claim of_b = claim_at(t, b, "web", 31001);
    (void) claim_at(t, b, "beside", 31010); /* in the same block, and no port of the pool */
    assert_refused(t, c, &pool,
                   "port 31001 would change between host and cluster scope, and 'web' of uid:1000 on host b");
    ASSERT_OK(try_at(t, a, 31001), &t->err); /* still each host's own */
    assert_refused(t, a, &pool, "port 31001");
    dibs_claim of_a = { .port = 31001 };
    ASSERT_OK(ledger_list(a, T_CALL(t, a), &(struct ledger_filter){ 0 }, note_port_of, &of_a, &t->err),
              &t->err);
    release(t, a, &of_a);
    release(t, b, &of_b);
    ASSERT_OK(ledger_pool_put(c, T_CALL(t, c), &pool, &t->err), &t->err);
    ASSERT_OK(try_at(t, a, 31001), &t->err);
    assert_int_equal(try_at(t, b, 31001), DIBS_TAKEN);
    assert_int_equal(try_at(t, b, 31010), DIBS_TAKEN);
    ASSERT_OK(try_at(t, c, 31010), &t->err);
    ledger_close(a);
    ledger_close(b);
    ledger_close(c);
}

static void ports_with_claims_do_not_go_back_to_their_hosts(void **state)
{
    struct t_ledger *t = *state;
    dibs_pool pool = pool_of("everywhere", DIBS_SCOPE_CLUSTER, 31000, 31200);

    NEED_ETCD();
    struct ledger *a = host(t, "a");
    struct ledger *b = host(t, "b");
    ASSERT_OK(ledger_pool_put(a, T_CALL(t, a), &pool, &t->err), &t->err);
    dibs_claim of_a = claim_at(t, a, "first", 31001);
    dibs_claim of_b = claim_at(t, b, "second", 31150);
    pool.ranges.item[0].last = 31149;
    assert_refused(t, a, &pool, "port 31150");
    assert_refused(t, b, &pool, "'second' of uid:1000");
    pool.scope = DIBS_SCOPE_HOST;
    assert_refused(t, a, &pool, "port 31001");
    pool.scope = DIBS_SCOPE_CLUSTER;
    pool.ranges.item[0].last = 31150; /* ports without claims may go */
    ASSERT_OK(ledger_pool_put(a, T_CALL(t, a), &pool, &t->err), &t->err);
    assert_string_equal(seen_by(t, a, 31150), "uid:1000@b");
    ASSERT_OK(try_at(t, a, 31151), &t->err);
    ASSERT_OK(try_at(t, b, 31151), &t->err);
    assert_int_equal(ledger_pool_remove(a, T_CALL(t, a), "everywhere", &t->err), DIBS_TAKEN);
    release(t, b, &of_b);
    release(t, a, &of_a);
    ASSERT_OK(ledger_pool_remove(a, T_CALL(t, a), "everywhere", &t->err), &t->err);
    ASSERT_OK(try_at(t, a, 31150), &t->err);
    ASSERT_OK(try_at(t, b, 31150), &t->err);
    ledger_close(a);
    ledger_close(b);
}

/* The port was released, and its mark stands in a block of the scope that it had. */
static void a_port_that_cools_does_not_keep_its_block_from_being_read(void **state)
{
    struct t_ledger *t = *state;
    const uint16_t port = 31001;
    struct ledger_want want = t_dynamic(NULL, &port, 1);
    const dibs_pool pool = pool_of("everywhere", DIBS_SCOPE_CLUSTER, 31000, 31002);

    NEED_ETCD();
    struct ledger *a = host(t, "a");
    struct ledger *b = host(t, "b");
    (void) claim_at(t, b, "beside", 31010);
    dibs_claim cools = must_claim(t, b, &want);
    release(t, b, &cools);
    ASSERT_OK(ledger_pool_put(a, T_CALL(t, a), &pool, &t->err), &t->err);
    struct ledger *again = host(t, "b");
    assert_string_equal(seen_by(t, again, 31010), "uid:1000");
    ASSERT_OK(try_at(t, again, 31011), &t->err);
    ASSERT_OK(try_at(t, again, 31001), &t->err);
    assert_int_equal(try_at(t, a, 31001), DIBS_TAKEN);
    ledger_close(a);
    ledger_close(b);
    ledger_close(again);
}

static void a_pool_with_claims_of_another_host_is_not_removed(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    const uint16_t port = 31000;

    NEED_ETCD();
    struct ledger *a = host(t, "a");
    struct ledger *b = host(t, "b");
    make_pool(t, a, "everywhere", (dibs_range){ 31000, 31010 });
    (void) snprintf(want.claim.pool, sizeof want.claim.pool, "everywhere");
    want.candidates = &port;
    want.n_candidates = 1;
    (void) must_claim(t, b, &want);
    assert_int_equal(ledger_pool_remove(a, T_CALL(t, a), "everywhere", &t->err), DIBS_TAKEN);
    ledger_close(a);
    ledger_close(b);
}

/* A claim between decision and commit, when its port becomes the cluster's, is decided again. */
static void a_claim_under_way_does_not_slip_past_a_new_pool(void **state)
{
    struct t_ledger *t = *state;

    NEED_ETCD();
    struct ledger *a = host(t, "a");
    struct ledger *b = host(t, "b");
    ASSERT_OK(try_at(t, b, 32000), &t->err);
    t_begin(t, b);
    (void) claim_at(t, b, NULL, 31000);
    make_pool(t, a, "everywhere", (dibs_range){ 31000, 31010 });
    ASSERT_OK(try_at(t, a, 31000), &t->err);
    assert_int_equal(t_commit(t, NULL), DIBS_UNAVAILABLE);
    assert_true(ledger_lost_race(b));
    assert_int_equal(try_at(t, b, 31000), DIBS_TAKEN);
    ledger_close(a);
    ledger_close(b);
}

/* The same when a pool is removed: a deleted key has no revision that could be compared. */
static void a_claim_under_way_does_not_slip_past_a_pool_that_is_removed(void **state)
{
    struct t_ledger *t = *state;

    NEED_ETCD();
    struct ledger *a = host(t, "a");
    struct ledger *b = host(t, "b");
    make_pool(t, a, "everywhere", (dibs_range){ 31000, 31010 });
    ASSERT_OK(try_at(t, b, 32000), &t->err);
    t_begin(t, b);
    (void) claim_at(t, b, NULL, 31000);
    ASSERT_OK(ledger_pool_remove(a, T_CALL(t, a), "everywhere", &t->err), &t->err);
    ASSERT_OK(try_at(t, a, 31000), &t->err); /* its own now, */
    assert_int_equal(t_commit(t, NULL), DIBS_UNAVAILABLE);
    assert_true(ledger_lost_race(b));
    ASSERT_OK(try_at(t, b, 31000), &t->err); /* ... and b's own is another */
    assert_string_equal(seen_by(t, a, 31000), "uid:1000");
    assert_string_equal(seen_by(t, b, 31000), "uid:1000");
    ledger_close(a);
    ledger_close(b);
    a = host(t, "a");
    assert_string_equal(seen_by(t, a, 31000), "uid:1000");
    ledger_close(a);
}

enum { FENCED_CALL_MS = 1000 }; /* less than the fence lasts */

/* Within the deadline of one call. */
static dibs_status try_once(struct t_ledger *t, struct ledger *ledger, uint16_t port)
{
    t->call.deadline_ms = clock_monotonic_ms() + FENCED_CALL_MS;
    dibs_status s = try_at(t, ledger, port);
    t->call.deadline_ms = 0;
    return s;
}

/* While a process makes a pool, no other one claims its ports. That process may die on the way. */
static void a_fence_expires_when_its_process_has_died(void **state)
{
    struct t_ledger *t = *state;
    const dibs_pool pool = pool_of("everywhere", DIBS_SCOPE_CLUSTER, 31000, 31010);

    NEED_ETCD();
    struct ledger *a = host(t, "a");
    struct ledger *b = host_for(t, "b", FENCED_CALL_MS);
    ASSERT_OK(try_once(t, b, 32000), &t->err);
    t_begin(t, a);
    ASSERT_OK(ledger_pool_put(a, T_CALL(t, a), &pool, &t->err), &t->err); /* and never committed */
    assert_int_equal(try_once(t, b, 31000), DIBS_UNAVAILABLE);
    ASSERT_OK(try_once(t, b, 31011), &t->err);
    dibs_status s = DIBS_UNAVAILABLE;
    UNTIL((s = try_once(t, b, 31000)) == DIBS_OK);
    ASSERT_OK(s, &t->err);
    assert_int_equal(t_commit(t, NULL), DIBS_UNAVAILABLE);
    assert_int_equal(ledger_pool_get(b, T_CALL(t, b), "everywhere", &(dibs_pool){ 0 }, NULL), DIBS_NOT_FOUND);
    ledger_close(a);
    ledger_close(b);
}

static void a_snapshot_with_pools_and_claims_on_them_is_restored_whole(void **state)
{
    struct t_ledger *t = *state;
    dibs_pool pool = pool_of("everywhere", DIBS_SCOPE_CLUSTER, 31000, 31010);
    size_t n = 0;

    NEED_ETCD();
    struct ledger *a = host(t, "a");
    struct ledger *b = host(t, "b");
    dibs_claim of_b = claim_at(t, b, "web", 31001);
    struct ledger_want kept = t_want("api", "*");
    t_kept(&kept);
    kept.claim.port = 31000;
    const dibs_snapshot snapshot = { &kept.claim, 1, &pool, 1 };
    assert_int_equal(ledger_restore(a, T_CALL(t, a), &snapshot, &n, NULL, &t->err), DIBS_TAKEN);
    assert_non_null(strstr(t->err.msg, "31001"));
    release(t, b, &of_b);
    ASSERT_OK(ledger_restore(a, T_CALL(t, a), &snapshot, &n, NULL, &t->err), &t->err);
    assert_int_equal(n, 1);
    assert_string_equal(seen_by(t, b, 31000), "uid:1000@a");
    assert_int_equal(try_at(t, b, 31000), DIBS_TAKEN);
    ledger_close(a);
    ledger_close(b);
}

/* A recent release reaches every host in its own time. */
static void a_port_cools_on_every_host(void **state)
{
    struct t_ledger *t = *state;
    const uint16_t ports[] = { 31000 };
    struct ledger_want want = t_dynamic(NULL, ports, 1);
    dibs_claim out = { 0 };

    NEED_ETCD();
    struct ledger *a = host(t, "a");
    struct ledger *b = host(t, "b");
    struct instant now = clock_now(0);
    t->call.now = now;
    make_pool(t, a, "everywhere", (dibs_range){ 31000, 31010 });
    dibs_claim claim = must_claim(t, a, &want);
    release(t, a, &claim);
    t->call.now.boot_ms += 1000; /* the two hosts may have read their clocks not quite at once */
    assert_int_equal(try_claim(t, b, &want, &out), DIBS_EXHAUSTED);
    t->call.now.boot_ms += 5000;
    ASSERT_OK(try_claim(t, b, &want, &out), &t->err);
    ledger_close(a);
    ledger_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(ports_that_another_host_has_claimed_do_not_become_the_clusters),
        CASE(ports_with_claims_do_not_go_back_to_their_hosts),
        CASE(a_port_that_cools_does_not_keep_its_block_from_being_read),
        CASE(a_pool_with_claims_of_another_host_is_not_removed),
        CASE(a_claim_under_way_does_not_slip_past_a_new_pool),
        CASE(a_claim_under_way_does_not_slip_past_a_pool_that_is_removed),
        CASE(a_fence_expires_when_its_process_has_died),
        CASE(a_snapshot_with_pools_and_claims_on_them_is_restored_whole),
        CASE(a_port_cools_on_every_host),
    };
    return cmocka_run_group_tests(tests, shared_open_one, shared_close);
}
