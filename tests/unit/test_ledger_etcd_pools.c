/* SPDX-License-Identifier: MIT */
/* Ports that become everybody's, or their hosts' again, take their claims along. */
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
    ASSERT_OK(ledger_list(ledger, &(struct ledger_filter){ 0 }, note_port_of, &found, &t->err), &t->err);
    return found.principal;
}

static void release(struct t_ledger *t, struct ledger *ledger, const dibs_claim *claim)
{
    struct ledger_seen seen = t_seen(claim);
    size_t n = 0;

    ASSERT_OK(
        ledger_end(ledger, &(struct ledger_ending){ &seen, 1, LEDGER_END_RELEASE }, &t->actor, &n, &t->err),
        &t->err);
    assert_int_equal(n, 1);
}

static void claims_of_all_hosts_become_everybodys_with_their_ports(void **state)
{
    struct t_ledger *t = *state;
    dibs_claim found = { 0 };

    NEED_ETCD();
    struct ledger *a = host(t, "a");
    struct ledger *b = host(t, "b");
    struct ledger *c = host(t, "c");
    (void) claim_at(t, a, "web", 31000);
    dibs_claim of_b = claim_at(t, b, "web", 31001);
    (void) claim_at(t, b, "beside", 31010); /* in the same block, and no port of the pool */
    make_pool(t, c, "everywhere", (dibs_range){ 31000, 31002 });
    assert_string_equal(seen_by(t, a, 31001), "uid:1000@b");
    assert_string_equal(seen_by(t, c, 31000), "uid:1000@a");
    assert_string_equal(seen_by(t, c, 31010), "");
    assert_int_equal(try_at(t, c, 31000), DIBS_TAKEN);
    assert_int_equal(try_at(t, a, 31001), DIBS_TAKEN);
    assert_int_equal(try_at(t, b, 31010), DIBS_TAKEN);
    ASSERT_OK(try_at(t, c, 31010), &t->err);
    /* It is still its owner's, by name and by what it was told. */
    ASSERT_OK(ledger_find_name(b, "uid:1000", "web", &found, NULL, &t->err), &t->err);
    assert_int_equal(found.id, of_b.id);
    assert_int_equal(found.port, 31001);
    release(t, b, &found);
    ASSERT_OK(try_at(t, c, 31001), &t->err);
    assert_int_equal(claim_at(t, b, "web", 31002).port, 31002);
    ledger_close(a);
    ledger_close(b);
    ledger_close(c);
}

static void ports_that_two_hosts_have_cannot_become_everybodys(void **state)
{
    struct t_ledger *t = *state;
    const dibs_pool pool = pool_of("everywhere", DIBS_SCOPE_CLUSTER, 31000, 31063);

    NEED_ETCD();
    struct ledger *a = host(t, "a");
    struct ledger *b = host(t, "b");
    struct ledger *c = host(t, "c");
    (void) claim_at(t, a, "web", 31005);
    dibs_claim second = claim_at(t, b, "api", 31005);
    assert_int_equal(ledger_pool_put(c, &pool, &t->actor, &t->err), DIBS_TAKEN);
    assert_non_null(strstr(t->err.msg, "31005"));
    assert_non_null(strstr(t->err.msg, "'web' of uid:1000@a"));
    assert_non_null(strstr(t->err.msg, "'api' of uid:1000@b"));
    /* Nothing has changed, and nothing is left in the way. */
    assert_int_equal(ledger_pool_get(c, "everywhere", &(dibs_pool){ 0 }, NULL), DIBS_NOT_FOUND);
    assert_string_equal(seen_by(t, b, 31005), "uid:1000");
    ASSERT_OK(try_at(t, b, 31006), &t->err);
    ASSERT_OK(try_at(t, a, 31006), &t->err);
    release(t, b, &second);
    struct ledger *again = host(t, "b");
    dibs_claim at6 = { .port = 31006 };
    ASSERT_OK(ledger_list(again, &(struct ledger_filter){ 0 }, note_port_of, &at6, &t->err), &t->err);
    release(t, again, &at6);
    ASSERT_OK(ledger_pool_put(c, &pool, &t->actor, &t->err), &t->err);
    assert_string_equal(seen_by(t, again, 31005), "uid:1000@a");
    ledger_close(a);
    ledger_close(b);
    ledger_close(c);
    ledger_close(again);
}

static void ports_that_a_pool_loses_go_back_to_the_hosts_that_have_them(void **state)
{
    struct t_ledger *t = *state;
    dibs_pool pool = pool_of("everywhere", DIBS_SCOPE_CLUSTER, 31000, 31200);
    dibs_claim found = { 0 };

    NEED_ETCD();
    struct ledger *a = host(t, "a");
    struct ledger *b = host(t, "b");
    ASSERT_OK(ledger_pool_put(a, &pool, &t->actor, &t->err), &t->err);
    (void) claim_at(t, a, "first", 31001);
    dibs_claim of_b = claim_at(t, b, "second", 31150);
    pool.ranges.item[0].last = 31100;
    ASSERT_OK(ledger_pool_put(a, &pool, &t->actor, &t->err), &t->err);
    assert_string_equal(seen_by(t, a, 31150), ""); /* it is b's own now */
    assert_string_equal(seen_by(t, b, 31150), "uid:1000");
    assert_string_equal(seen_by(t, b, 31001), "uid:1000@a");
    ASSERT_OK(ledger_find_name(b, "uid:1000", "second", &found, NULL, &t->err), &t->err);
    assert_int_equal(found.id, of_b.id);
    ASSERT_OK(try_at(t, a, 31150), &t->err);
    release(t, b, &found);
    assert_int_equal(claim_at(t, b, "second", 31151).port, 31151);
    ASSERT_OK(ledger_pool_remove(a, "everywhere", &t->actor, &t->err), &t->err);
    assert_string_equal(seen_by(t, b, 31001), "");
    assert_string_equal(seen_by(t, a, 31001), "uid:1000");
    ledger_close(a);
    ledger_close(b);
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
    assert_int_equal(ledger_pool_remove(a, "everywhere", &t->actor, &t->err), DIBS_TAKEN);
    ledger_close(a);
    ledger_close(b);
}

/* Who is between decision and commit when ports become everybody's decides anew. */
static void a_claim_under_way_does_not_slip_past_a_new_pool(void **state)
{
    struct t_ledger *t = *state;

    NEED_ETCD();
    struct ledger *a = host(t, "a");
    struct ledger *b = host(t, "b");
    ASSERT_OK(try_at(t, b, 32000), &t->err);
    ledger_group_begin(b);
    (void) claim_at(t, b, NULL, 31000);
    make_pool(t, a, "everywhere", (dibs_range){ 31000, 31010 });
    ASSERT_OK(try_at(t, a, 31000), &t->err);
    assert_int_equal(ledger_group_commit(b, NULL, &t->err), DIBS_UNAVAILABLE);
    assert_true(ledger_was_beaten(b));
    assert_int_equal(try_at(t, b, 31000), DIBS_TAKEN);
    ledger_close(a);
    ledger_close(b);
}

/* The same when they stop being everybody's: what is gone has no revision that could be compared. */
static void a_claim_under_way_does_not_slip_past_a_pool_that_is_removed(void **state)
{
    struct t_ledger *t = *state;

    NEED_ETCD();
    struct ledger *a = host(t, "a");
    struct ledger *b = host(t, "b");
    make_pool(t, a, "everywhere", (dibs_range){ 31000, 31010 });
    ASSERT_OK(try_at(t, b, 32000), &t->err);
    ledger_group_begin(b);
    (void) claim_at(t, b, NULL, 31000);
    ASSERT_OK(ledger_pool_remove(a, "everywhere", &t->actor, &t->err), &t->err);
    ASSERT_OK(try_at(t, a, 31000), &t->err); /* its own now, */
    assert_int_equal(ledger_group_commit(b, NULL, &t->err), DIBS_UNAVAILABLE);
    assert_true(ledger_was_beaten(b));
    ASSERT_OK(try_at(t, b, 31000), &t->err); /* ... and b's own is another */
    assert_string_equal(seen_by(t, a, 31000), "uid:1000");
    assert_string_equal(seen_by(t, b, 31000), "uid:1000");
    ledger_close(a);
    ledger_close(b);
    a = host(t, "a");
    assert_string_equal(seen_by(t, a, 31000), "uid:1000");
    ledger_close(a);
}

/* Within the deadline of one call. */
static dibs_status try_once(struct t_ledger *t, struct ledger *ledger, uint16_t port)
{
    ledger_start_call(ledger);
    return try_at(t, ledger, port);
}

/* While a pool is being made nobody claims its ports; who makes it may die on the way. */
static void ports_are_free_again_when_who_wanted_them_for_all_has_died(void **state)
{
    struct t_ledger *t = *state;
    const dibs_pool pool = pool_of("everywhere", DIBS_SCOPE_CLUSTER, 31000, 31010);

    NEED_ETCD();
    struct ledger *a = host(t, "a");
    struct ledger *b = host_for(t, "b", 1000); /* less than the fence lasts */
    ASSERT_OK(try_once(t, b, 32000), &t->err);
    ledger_group_begin(a);
    ASSERT_OK(ledger_pool_put(a, &pool, &t->actor, &t->err), &t->err); /* and never committed */
    assert_int_equal(try_once(t, b, 31000), DIBS_UNAVAILABLE);
    ASSERT_OK(try_once(t, b, 31011), &t->err);
    dibs_status s = DIBS_UNAVAILABLE;
    UNTIL((s = try_once(t, b, 31000)) == DIBS_OK);
    ASSERT_OK(s, &t->err);
    assert_int_equal(ledger_group_commit(a, NULL, &t->err), DIBS_UNAVAILABLE);
    assert_int_equal(ledger_pool_get(b, "everywhere", &(dibs_pool){ 0 }, NULL), DIBS_NOT_FOUND);
    ledger_close(a);
    ledger_close(b);
}

static void a_snapshot_with_pools_and_claims_on_them_is_taken_in_whole(void **state)
{
    struct t_ledger *t = *state;
    dibs_pool pool = pool_of("everywhere", DIBS_SCOPE_CLUSTER, 31000, 31010);
    size_t n = 0;

    NEED_ETCD();
    struct ledger *a = host(t, "a");
    struct ledger *b = host(t, "b");
    (void) claim_at(t, b, "web", 31001);
    struct ledger_want kept = t_want("api", "*");
    t_kept(&kept);
    kept.claim.port = 31000;
    const dibs_snapshot snapshot = { &kept.claim, 1, &pool, 1 };
    ASSERT_OK(ledger_restore(a, &snapshot, &t->actor, &n, NULL, &t->err), &t->err);
    assert_int_equal(n, 1);
    assert_string_equal(seen_by(t, b, 31000), "uid:1000@a");
    assert_string_equal(seen_by(t, a, 31001), "uid:1000@b");
    assert_int_equal(try_at(t, b, 31000), DIBS_TAKEN);
    ledger_close(a);
    ledger_close(b);
}

/* A release that is not old is told to all hosts in their own time. */
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
    t->actor.now = now;
    make_pool(t, a, "everywhere", (dibs_range){ 31000, 31010 });
    dibs_claim claim = must_claim(t, a, &want);
    release(t, a, &claim);
    t->actor.now.boot_ms += 1000; /* the two hosts may have read their clocks not quite at once */
    assert_int_equal(try_claim(t, b, &want, &out), DIBS_EXHAUSTED);
    t->actor.now.boot_ms += 5000;
    ASSERT_OK(try_claim(t, b, &want, &out), &t->err);
    ledger_close(a);
    ledger_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(claims_of_all_hosts_become_everybodys_with_their_ports),
        CASE(ports_that_two_hosts_have_cannot_become_everybodys),
        CASE(ports_that_a_pool_loses_go_back_to_the_hosts_that_have_them),
        CASE(a_pool_with_claims_of_another_host_is_not_removed),
        CASE(a_claim_under_way_does_not_slip_past_a_new_pool),
        CASE(a_claim_under_way_does_not_slip_past_a_pool_that_is_removed),
        CASE(ports_are_free_again_when_who_wanted_them_for_all_has_died),
        CASE(a_snapshot_with_pools_and_claims_on_them_is_taken_in_whole),
        CASE(a_port_cools_on_every_host),
    };
    return cmocka_run_group_tests(tests, start_etcd, end_etcd);
}
