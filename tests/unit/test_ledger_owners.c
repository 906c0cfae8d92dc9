/* SPDX-License-Identifier: MIT */
/* Holders across hosts: claims are attached to the lease of a host, who may take it over, and when. */
#include "ledger/step.h"
#include "store/etcd/etcd_store.h"
#include "support/etcd_ledger.h"

enum {
    TTL_MS = 3000, /* the least that etcd grants with the times of our members */
    PATIENCE_MS = 60000,
    LOOK_MS = 100, /* a host without a daemon has no watch */
};

static const char boot_a[] = "11111111-1111-1111-1111-111111111111";
static const char boot_b[] = "22222222-2222-2222-2222-222222222222";
static const uint16_t ports[] = { 31000, 31001, 31002 };

static struct ledger *member(struct t_ledger *t, const char *node, const char *boot_id)
{
    struct ledger *ledger = host(t, node);

    ASSERT_OK(ledger_start_background(ledger, &t->err), &t->err);
    ASSERT_OK(ledger_join(ledger, TTL_MS, boot_id, &t->err), &t->err);
    return ledger;
}

static int64_t boot_ms(void)
{
    return clock_now(0).boot_ms;
}

/* Until when the handle counts on its lease. */
static int64_t certain_until_ms(const struct ledger *ledger)
{
    struct ledger_lease lease;

    ledger_lease(ledger, &lease);
    return boot_ms() + lease.margin_ms;
}

static dibs_claim look_up(struct t_ledger *t, struct ledger *ledger, uint64_t id)
{
    dibs_claim out = { 0 };

    (void) ledger_take_notices(ledger);
    ASSERT_OK(ledger_find_id(ledger, T_CALL(t, ledger), id, &out, &t->err), &t->err);
    return out;
}

/* Changes of other hosts, and a lease that began or ended, wake it; the end of a margin is known before. */
static void wait_a_while(struct ledger *ledger)
{
    struct pollfd notices = { .fd = ledger_notices(ledger), .events = POLLIN };
    struct ledger_lease lease;

    ledger_lease(ledger, &lease);
    (void) poll(&notices, 1,
                lease.margin_ms > 0 && lease.margin_ms < LOOK_MS ? (int) lease.margin_ms + 1 : LOOK_MS);
    (void) ledger_take_notices(ledger);
}

static void wait_for_life(struct t_ledger *t, struct ledger *ledger, uint64_t id, dibs_life life)
{
    int64_t until = in_ms(PATIENCE_MS);
    dibs_claim out = { 0 };

    /* It may take a moment until it is known here at all. */
    while (clock_monotonic_ms() < until &&
           (ledger_find_id(ledger, T_CALL(t, ledger), id, &out, &t->err) != DIBS_OK || out.node_life != life))
        wait_a_while(ledger);
    assert_int_equal(look_up(t, ledger, id).node_life, life);
}

static dibs_status take(struct t_ledger *t, struct ledger *ledger, const struct ledger_want *want,
                        const dibs_claim *dead, dibs_claim *out)
{
    struct ledger_seen seen = t_seen(dead);
    const struct ledger_batch batch = { .wants = want, .n = 1, .dead = &seen, .n_dead = 1 };

    return ledger_claim(ledger, T_CALL(t, ledger), &batch, out, &t->refusal, &t->err);
}

static size_t noted(struct t_ledger *t, struct ledger *ledger)
{
    size_t n = 0;

    (void) ledger_take_notices(ledger);
    ASSERT_OK(ledger_note_lost(ledger, &t->call, &n, &t->err), &t->err);
    return n;
}

static void a_host_that_is_gone_loses_what_it_held_after_its_ttl_and_never_before(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_dynamic("web", ports, 1);
    dibs_claim out = { 0 };

    NEED_ETCD();
    struct ledger *a = member(t, "a", boot_a);
    struct ledger *b = member(t, "b", boot_b);
    make_pool(t, a, "everywhere", (dibs_range){ 31000, 31002 });
    t_by_process(&want, 12);
    dibs_claim theirs = must_claim(t, a, &want);
    wait_for_life(t, b, theirs.id, DIBS_ALIVE);
    assert_string_equal(look_up(t, b, theirs.id).node, "a");
    assert_string_equal(look_up(t, a, theirs.id).node, "");
    want.accepts_cooling = true;
    /* Somebody who mistakes a for dead gets nothing. */
    assert_int_equal(take(t, b, &want, &theirs, &out), DIBS_EXHAUSTED);
    int64_t certain_ms = certain_until_ms(a);
    ledger_close(a);
    wait_for_life(t, b, theirs.id, DIBS_DEAD);
    assert_true(boot_ms() > certain_ms);
    ASSERT_OK(take(t, b, &want, &theirs, &out), &t->err);
    assert_int_equal(out.port, 31000);
    /* The history of a says so when it is back. */
    a = member(t, "a", boot_a);
    assert_int_equal(noted(t, a), 1);
    assert_int_equal(noted(t, a), 0);
    struct t_events events = { 0 };
    ASSERT_OK(ledger_events(a, T_CALL(t, a), &(struct ledger_feed){ { 0, 0, false }, NULL }, t_note_event,
                            &events, &t->err),
              &t->err);
    const dibs_event *last = &events.item[events.n - 1];
    assert_int_equal(last->kind, DIBS_EV_REAPED);
    assert_int_equal(last->claim_id, theirs.id);
    assert_string_equal(last->principal, "uid:1000");
    assert_int_equal(ledger_find_id(a, T_CALL(t, a), theirs.id, &out, &t->err), DIBS_NOT_FOUND);
    ledger_close(a);
    ledger_close(b);
}

static void kept_claims_and_those_of_the_host_itself_outlive_its_lease(void **state)
{
    struct t_ledger *t = *state;
    const uint16_t own[] = { 30000 };
    struct ledger_want held = t_dynamic("held", ports, 3);
    struct ledger_want kept = t_dynamic("kept", ports, 3);
    struct ledger_want local = t_dynamic("local", own, 1);

    NEED_ETCD();
    struct ledger *a = member(t, "a", boot_a);
    struct ledger *b = member(t, "b", boot_b);
    make_pool(t, a, "everywhere", (dibs_range){ 31000, 31002 });
    t_by_process(&held, 12);
    t_by_process(&local, 12);
    kept.claim.holder = DIBS_HELD_BY_NOBODY;
    kept.claim.is_kept = true;
    kept.claim.lease_ttl_ms = 0;
    dibs_claim first = must_claim(t, a, &held);
    dibs_claim second = must_claim(t, a, &kept);
    dibs_claim third = must_claim(t, a, &local);
    ledger_close(a);
    wait_for_life(t, b, first.id, DIBS_DEAD);
    assert_int_equal(look_up(t, b, second.id).holder, DIBS_HELD_BY_NOBODY);
    a = member(t, "a", boot_a);
    assert_int_equal(look_up(t, a, first.id).node_life, DIBS_DEAD); /* another incarnation */
    assert_int_equal(look_up(t, a, third.id).node_life, DIBS_ALIVE);
    dibs_claim out = { 0 };
    assert_int_equal(ledger_renew(a, T_CALL(t, a), t_seen(&first), 1000, &out, &t->err), DIBS_NOT_FOUND);
    ledger_close(a);
    ledger_close(b);
}

static void a_daemon_that_comes_back_in_time_goes_on_as_the_same(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_dynamic("web", ports, 1);
    struct ledger_lease before;
    struct ledger_lease after;

    NEED_ETCD();
    struct ledger *a = member(t, "a", boot_a);
    make_pool(t, a, "everywhere", (dibs_range){ 31000, 31002 });
    t_by_process(&want, 12);
    dibs_claim mine = must_claim(t, a, &want);
    ledger_lease(a, &before);
    ledger_close(a);
    a = member(t, "a", boot_a);
    ledger_lease(a, &after);
    assert_int_equal(before.incarnation, after.incarnation);
    assert_int_equal(look_up(t, a, mine.id).node_life, DIBS_ALIVE);
    ledger_close(a);
}

static void two_machines_of_one_name_are_distinguished(void **state)
{
    struct t_ledger *t = *state;

    NEED_ETCD();
    struct ledger *a = member(t, "a", boot_a);
    struct ledger *other = host(t, "a");
    assert_int_equal(ledger_join(other, TTL_MS, boot_b, &t->err), DIBS_TAKEN);
    assert_non_null(strstr(t->err.msg, "set 'node'"));
    ledger_close(a);
    /* After a reboot it is the same machine, whose last lease ends first. */
    ledger_close(other);
    other = member(t, "a", boot_b);
    ledger_close(other);
}

static void a_claim_without_a_lease_is_judged_by_its_own_host_alone(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_dynamic("web", ports, 1);
    dibs_claim out = { 0 };

    NEED_ETCD();
    struct ledger *a = host(t, "a");
    struct ledger *b = member(t, "b", boot_b);
    make_pool(t, a, "everywhere", (dibs_range){ 31000, 31002 });
    want.claim.lease_ttl_ms = 1;
    dibs_claim theirs = must_claim(t, a, &want);
    wait_for_life(t, b, theirs.id, DIBS_UNKNOWN);
    assert_int_equal(look_up(t, a, theirs.id).node_life, DIBS_ALIVE);
    want.accepts_cooling = true;
    assert_int_equal(take(t, b, &want, &theirs, &out), DIBS_EXHAUSTED);
    ASSERT_OK(take(t, a, &want, &theirs, &out), &t->err);
    ledger_close(a);
    ledger_close(b);
}

/* The lease of host a ends now, whatever it does. */
static void end_lease(struct t_ledger *t)
{
    struct etcd_call call = { .deadline_ms = in_ms(PATIENCE_MS) };
    struct etcd_answer answer = { 0 };
    struct etcd *etcd = NULL;
    char key[64] = "";

    (void) snprintf(key, sizeof key, "%s/c/l/a", strrchr(t->uri, '/'));
    struct etcd_op gone = { .kind = ETCD_DELETE, .key = ETCD_BYTES(key) };
    ASSERT_OK(etcd_open(&shared->config, &etcd, &t->err), &t->err);
    ASSERT_OK(etcd_do(etcd, &call, &gone, &answer, &t->err), &t->err);
    etcd_answer_done(&answer);
    etcd_close(etcd);
}

/* ... and there is another one. */
static void end_lease_of(struct t_ledger *t, struct ledger *a)
{
    int64_t until = in_ms(PATIENCE_MS);
    struct ledger_lease lease;

    uint64_t seq = 0;
    uint64_t cursor = 0;

    ledger_lease(a, &lease);
    uint64_t n = lease.n_ended;
    end_lease(t);
    for (; (lease.n_ended == n || lease.margin_ms == 0) && clock_monotonic_ms() < until;
         ledger_lease(a, &lease)) {
        wait_a_while(a);
        ASSERT_OK(ledger_tail(a, T_CALL(t, a), &seq, &cursor, &t->err),
                  &t->err); /* pools may have changed before */
    }
    assert_int_equal(lease.n_ended, n + 1);
}

/* Attach a claim to the lease, as the daemon does after a notice. */
static void attach_one(struct t_ledger *t, struct ledger *ledger)
{
    int64_t until = in_ms(PATIENCE_MS);
    size_t n = 0;

    while (n == 0 && clock_monotonic_ms() < until) {
        ASSERT_OK(ledger_attach(ledger, &t->call, &n, &t->err), &t->err);
        if (n == 0)
            wait_a_while(ledger);
    }
    assert_int_equal(n, 1);
}

static void a_claim_made_beside_a_daemon_ends_with_its_host(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_dynamic("web", ports, 1);
    struct ledger_want before = t_dynamic("before", ports + 1, 1);
    size_t n = 0;

    NEED_ETCD();
    struct ledger *direct = host(t, "a");
    struct ledger *b = member(t, "b", boot_b);
    make_pool(t, b, "everywhere", (dibs_range){ 31000, 31002 });
    dibs_claim early = must_claim(t, direct, &before); /* nobody renews anything yet */
    wait_for_life(t, b, early.id, DIBS_UNKNOWN);
    struct ledger *a = member(t, "a", boot_a);
    dibs_claim late = must_claim(t, direct, &want);
    wait_for_life(t, b, late.id, DIBS_ALIVE);
    attach_one(t, a);
    wait_for_life(t, b, early.id, DIBS_ALIVE);
    ASSERT_OK(ledger_attach(a, &t->call, &n, &t->err), &t->err);
    assert_int_equal(n, 0);
    struct ledger_lease lease;
    ledger_lease(a, &lease);
    assert_false(lease.is_unattached);
    assert_int_equal(look_up(t, direct, early.id).node_life, DIBS_ALIVE);
    end_lease_of(t, a);
    wait_for_life(t, b, early.id, DIBS_DEAD);
    wait_for_life(t, b, late.id, DIBS_DEAD);
    assert_int_equal(look_up(t, direct, early.id).node_life, DIBS_DEAD);
    ledger_close(a);
    ledger_close(direct);
    ledger_close(b);
}

static struct etcd_store *store(struct ledger *ledger)
{
    return etcdstore_of(ledger->store);
}

static size_t count_claims(struct t_ledger *t, struct ledger *ledger)
{
    struct ledger_health health = { 0 };

    ASSERT_OK(ledger_health(ledger, &health, &t->err), &t->err);
    return (size_t) health.n_claims;
}

static bool is_forgotten(struct t_ledger *t, int64_t revision)
{
    const struct etcd_op look = { .kind = ETCD_RANGE, .key = { "x", 1 }, .revision = revision };
    struct etcd_call call = { .deadline_ms = in_ms(PATIENCE_MS) };
    struct etcd_answer answer = { 0 };
    struct etcd *etcd = NULL;

    ASSERT_OK(etcd_open(&shared->config, &etcd, &t->err), &t->err);
    dibs_status s = etcd_do(etcd, &call, &look, &answer, &t->err);
    etcd_answer_done(&answer);
    etcd_close(etcd);
    assert_true(s == DIBS_OK || call.fault == ETCD_FAULT_COMPACTED);
    return s != DIBS_OK;
}

static void the_oldest_host_and_no_other_has_old_versions_forgotten(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_dynamic(NULL, ports, 3);
    int64_t until = in_ms(PATIENCE_MS);

    NEED_ETCD();
    struct ledger *a = member(t, "a", boot_a);
    struct ledger *b = member(t, "b", boot_b);
    make_pool(t, a, "everywhere", (dibs_range){ 31000, 31002 });
    (void) must_claim(t, b, &want);
    (void) must_claim(t, a, &want);
    etcdstore_compact(store(a), 0);
    int64_t first = store(a)->compact_revision;
    assert_true(first > 0 && store(a)->state.traffic.n_compactions == 0); /* how old is that? */
    etcdstore_compact(store(b), 0);
    assert_int_equal(store(b)->compact_revision, 0);
    (void) must_claim(t, a, &want);
    etcdstore_compact(store(a), INT64_MAX); /* there is enough space */
    int64_t second = store(a)->compact_revision;
    assert_true(second > first && store(a)->state.traffic.n_compactions == 0);
    assert_false(is_forgotten(t, first));
    etcdstore_compact(store(a), 0);
    assert_int_equal(store(a)->state.traffic.n_compactions, 1);
    assert_true(is_forgotten(t, second - 1));
    assert_false(is_forgotten(t, second));
    end_lease_of(t, a); /* now the other one is older */
    while (store(b)->compact_revision == 0 && clock_monotonic_ms() < until) {
        wait_a_while(b);
        (void) count_claims(t, b); /* read again if necessary */
        etcdstore_compact(store(b), 0);
    }
    assert_true(store(b)->compact_revision > 0);
    etcdstore_compact(store(a), 0);
    assert_int_equal(store(a)->compact_revision, 0);
    ledger_close(a);
    ledger_close(b);
}

static void a_host_that_cannot_renew_does_not_claim_to_hold(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_dynamic("web", ports, 3);
    struct ledger_want more = t_dynamic("more", ports, 3);
    struct ledger_lease lease;
    dibs_claim out = { 0 };
    int64_t until = in_ms(PATIENCE_MS);

    NEED_ETCD();
    struct ledger *a = member(t, "a", boot_a);
    make_pool(t, a, "everywhere", (dibs_range){ 31000, 31002 });
    t_by_process(&want, 12);
    dibs_claim mine = must_claim(t, a, &want);
    int64_t before_ms = boot_ms();
    member_freeze(shared, 0);
    for (int64_t asked_ms = boot_ms(); ledger_lease(a, &lease), lease.margin_ms > 0; asked_ms = boot_ms()) {
        assert_true(asked_ms < before_ms + TTL_MS); /* nobody else can have the port yet */
        wait_a_while(a);
    }
    assert_int_equal(look_up(t, a, mine.id).node_life, DIBS_UNKNOWN);
    assert_int_equal(
        ledger_certain(&(dibs_claim){ .holder = DIBS_HELD_BY_PROCESS, .node_life = DIBS_UNKNOWN }, &t->err),
        DIBS_UNAVAILABLE);
    assert_int_equal(try_claim(t, a, &want, &out), DIBS_UNAVAILABLE); /* its own name again */
    assert_non_null(strstr(t->err.msg, "could not renew"));
    assert_int_equal(try_claim(t, a, &more, &out), DIBS_UNAVAILABLE);
    assert_non_null(strstr(t->err.msg, "cannot renew its lease"));
    member_thaw(shared, 0);
    /* Without intervention: the lease goes on, or there is another one. */
    for (ledger_lease(a, &lease); lease.margin_ms == 0 && clock_monotonic_ms() < until;
         ledger_lease(a, &lease))
        wait_a_while(a);
    assert_true(lease.margin_ms > 0);
    (void) ledger_take_notices(a);
    assert_int_equal(look_up(t, a, mine.id).node_life, lease.n_ended ? DIBS_DEAD : DIBS_ALIVE);
    (void) must_claim(t, a, &more);
    ledger_close(a);
}

static void a_revoked_lease_is_noticed_and_granted_again(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_dynamic("web", ports, 3);

    NEED_ETCD();
    struct ledger *a = member(t, "a", boot_a);
    make_pool(t, a, "everywhere", (dibs_range){ 31000, 31002 });
    t_by_process(&want, 12);
    dibs_claim mine = must_claim(t, a, &want);
    end_lease_of(t, a);
    assert_int_equal(look_up(t, a, mine.id).node_life, DIBS_DEAD);
    (void) snprintf(want.claim.name, sizeof want.claim.name, "other");
    dibs_claim fresh = must_claim(t, a, &want);
    assert_int_equal(look_up(t, a, fresh.id).node_life, DIBS_ALIVE);
    ledger_close(a);
}

/* The times that a host writes are its own. */
static struct call at(const struct t_ledger *t, int64_t boot)
{
    struct call actor = t->call;

    actor.now.boot_ms = boot;
    return actor;
}

static bool note_cooling(void *ctx, const struct ledger_slot *slot)
{
    if (slot->claim_id == 0)
        *(int64_t *) ctx = slot->released_ms;
    return true;
}

static int64_t cooling_since(struct t_ledger *t, struct ledger *ledger)
{
    int64_t since_ms = 0;
    struct portbits port = { 0 };

    portbits_add(&port, 31000);
    ASSERT_OK(ledger_slots(ledger, T_CALL(t, ledger), &port, note_cooling, &since_ms, &t->err), &t->err);
    return since_ms;
}

static void a_port_that_another_host_released_cools_by_our_clock(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_dynamic(NULL, ports, 1);
    struct ledger_want beside = t_dynamic(NULL, ports + 1, 1);
    int64_t until = in_ms(PATIENCE_MS);
    int64_t since_ms = 0;

    NEED_ETCD();
    struct ledger *a = host(t, "a");
    struct ledger *b = member(t, "b", boot_b);
    make_pool(t, a, "everywhere", (dibs_range){ 31000, 31002 });
    dibs_claim theirs = must_claim(t, a, &want);
    struct ledger_seen seen = t_seen(&theirs);
    struct call in_ten_years = at(t, 315360000000);
    int64_t before_ms = boot_ms();
    ASSERT_OK(
        ledger_end(a, &in_ten_years, &(struct ledger_ending){ &seen, 1, LEDGER_END_RELEASE }, NULL, &t->err),
        &t->err);
    while (cooling_since(t, b) == 0 && clock_monotonic_ms() < until)
        (void) ledger_take_notices(b);
    since_ms = cooling_since(t, b);
    assert_in_range(since_ms, before_ms, boot_ms());
    /* However often the block is read again, or written by us. */
    (void) must_claim(t, b, &beside);
    assert_int_equal(cooling_since(t, b), since_ms);
    beside.candidates = ports + 2;
    dibs_claim more = must_claim(t, a, &beside);
    wait_for_life(t, b, more.id, DIBS_UNKNOWN);
    assert_int_equal(cooling_since(t, b), since_ms);
    assert_int_equal(cooling_since(t, a), in_ten_years.now.boot_ms);
    ledger_close(a);
    ledger_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_host_that_is_gone_loses_what_it_held_after_its_ttl_and_never_before),
        CASE(kept_claims_and_those_of_the_host_itself_outlive_its_lease),
        CASE(a_daemon_that_comes_back_in_time_goes_on_as_the_same),
        CASE(two_machines_of_one_name_are_distinguished),
        CASE(a_claim_without_a_lease_is_judged_by_its_own_host_alone),
        CASE(a_revoked_lease_is_noticed_and_granted_again),
        CASE(a_port_that_another_host_released_cools_by_our_clock),
        CASE(a_claim_made_beside_a_daemon_ends_with_its_host),
        CASE(the_oldest_host_and_no_other_has_old_versions_forgotten),
        CASE(a_host_that_cannot_renew_does_not_claim_to_hold),
    };
    return cmocka_run_group_tests(tests, shared_open_one, shared_close);
}
