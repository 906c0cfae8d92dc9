/* SPDX-License-Identifier: MIT */
/* What is written so that it survives power loss, and what is not (INV-2): counted by the calls that make the
 * disk keep it. */
#include <sys/syscall.h>

#include "support/sqlite.h"

static unsigned n_syncs;

/* SQLite's, too, is this one. */
__attribute__((visibility("default"))) int fdatasync(int fd)
{
    n_syncs++;
    return (int) syscall(SYS_fdatasync, fd);
}

/* Since the last time. */
static bool was_synced(void)
{
    bool was = n_syncs > 0;

    n_syncs = 0;
    return was;
}

/* A new ledger's log begins with a sync, whatever is written. */
static int start(void **state)
{
    if (t_open(state) != 0)
        return -1;
    struct t_ledger *t = *state;
    struct ledger_want lease = t_want(NULL, "*");

    (void) t_must(t, &lease, 26000);
    n_syncs = 0;
    return 0;
}

static void kept_claims_and_pools_survive_power_loss(void **state)
{
    const struct ledger_options always = { .timeout_ms = 1000, .is_sync_full = true };
    struct t_ledger *t = *state;
    struct ledger_want lease = t_want(NULL, "*");
    struct ledger_want kept = t_want("kept", "*");
    dibs_pool pool = { .name = "p", .ranges = { { { 30000, 30010 } }, 1 }, .order = "stride" };

    t_kept(&kept);
    (void) t_must(t, &lease, 26001);
    assert_false(was_synced());
    (void) t_must(t, &kept, 26002);
    assert_true(was_synced());
    (void) t_must(t, &lease, 26003);
    assert_false(was_synced());
    ASSERT_OK(ledger_pool_put(t->ledger, &pool, &t->actor, &t->err), &t->err);
    assert_true(was_synced());
    close_ledger(t);
    ASSERT_OK(ledger_open(t->uri, &always, &t->ledger, &t->err), &t->err);
    n_syncs = 0;
    (void) t_must(t, &lease, 26004);
    assert_true(was_synced());
}

static void what_is_restored_or_handed_over_to_be_kept_survives_power_loss(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want lease = t_want(NULL, "*");
    struct ledger_want kept = t_want("kept", "*");
    dibs_claim out = { 0 };
    size_t n = 0;

    t_kept(&kept);
    kept.claim.port = 26002;
    dibs_claim got = t_must(t, &lease, 26001);
    assert_false(was_synced());
    ASSERT_OK(
        ledger_restore(t->ledger, &(dibs_snapshot){ &kept.claim, 1, NULL, 0 }, &t->actor, &n, NULL, &t->err),
        &t->err);
    assert_int_equal(n, 1);
    assert_true(was_synced());
    ASSERT_OK(ledger_transfer(t->ledger, t_seen(&got), &lease.claim, &t->actor, &got, &t->err), &t->err);
    assert_false(was_synced()); /* nothing of it is kept */
    ASSERT_OK(ledger_transfer(t->ledger, t_seen(&got), &kept.claim, &t->actor, &out, &t->err), &t->err);
    assert_true(out.is_kept);
    assert_true(was_synced());
}

static void commit(struct t_ledger *t)
{
    ASSERT_OK(ledger_group_commit(t->ledger, NULL, &t->err), &t->err);
}

static void a_group_is_synced_when_one_of_it_is_kept(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want lease = t_want(NULL, "*");
    struct ledger_want kept = t_want("kept", "*");

    t_kept(&kept);
    for (uint16_t port = 26100; port < 26130; port += 10) {
        ledger_group_begin(t->ledger);
        (void) t_must(t, &lease, port);
        (void) t_must(t, &lease, port + 1);
        commit(t);
        assert_false(was_synced());
        ledger_group_begin(t->ledger);
        (void) t_must(t, &lease, port + 2);
        dibs_claim got = t_must(t, &kept, port + 3);
        (void) t_must(t, &lease, port + 4);
        commit(t);
        assert_true(was_synced());
        ledger_group_begin(t->ledger);
        assert_int_equal(t_end(t, &got, LEDGER_END_RELEASE), 1);
        commit(t);
        assert_true(was_synced()); /* nor does it come back */
        ledger_group_begin(t->ledger);
        got = t_must(t, &kept, port + 5);
        commit(t);
        n_syncs = 0;
        ledger_group_begin(t->ledger);
        ASSERT_OK(ledger_transfer(t->ledger, t_seen(&got), &lease.claim, &t->actor, &got, &t->err), &t->err);
        commit(t);
        assert_true(was_synced()); /* nor is it kept again */
        ledger_group_begin(t->ledger);
        assert_int_equal(t_end(t, &got, LEDGER_END_RELEASE), 1);
        commit(t);
        assert_false(was_synced());
        ledger_group_begin(t->ledger);
        commit(t); /* of nothing */
        assert_false(was_synced());
    }
}

static void every_group_is_synced_where_that_is_asked_for(void **state)
{
    const struct ledger_options always = { .timeout_ms = 1000, .is_sync_full = true };
    struct t_ledger *t = *state;
    struct ledger_want lease = t_want(NULL, "*");

    close_ledger(t);
    ASSERT_OK(ledger_open(t->uri, &always, &t->ledger, &t->err), &t->err);
    for (uint16_t port = 26100; port < 26103; port++) {
        n_syncs = 0;
        ledger_group_begin(t->ledger);
        (void) t_must(t, &lease, port);
        commit(t);
        assert_true(was_synced());
    }
}

/* Carried over into the file a commit must be on the disk before, whether it was synced or not. */
static void nothing_is_spared_when_the_log_is_carried_over(void **state)
{
    struct t_ledger *t = *state;
    struct sqlite_rows *rows = (struct sqlite_rows *) t->ledger->rows;
    struct ledger_want lease = t_want(NULL, "*");

    ledger_group_begin(t->ledger);
    (void) t_must(t, &lease, 26100);
    commit(t);
    assert_false(was_synced());
    assert_int_equal(sqlite3_exec(rows->db, "PRAGMA wal_checkpoint(RESTART)", NULL, NULL, NULL), SQLITE_OK);
    assert_true(n_syncs >= 2); /* the log, and then the file */
    n_syncs = 0;
    ledger_group_begin(t->ledger);
    (void) t_must(t, &lease, 26101);
    commit(t);
    assert_int_equal(n_syncs, 1); /* the head of the log that begins anew, not the commit */
}

/* Or whoever carries the log over, and all who write meanwhile, would wait for all of it. */
static void not_much_is_left_to_be_synced(void **state)
{
    enum { MANY = 500, LITTLE = 1 << 19, MUCH = 1 << 21 };
    struct t_ledger *t = *state;
    struct ledger_want lease = t_want(NULL, "*");
    struct stat log = { 0 };
    char path[310];

    for (int n = 0; n < MANY && n_syncs == 0; n++) {
        ledger_group_begin(t->ledger);
        (void) t_must(t, &lease, (uint16_t) (26100 + n));
        commit(t);
    }
    assert_true(was_synced());
    (void) snprintf(path, sizeof path, "%s-wal", t->uri + strlen("sqlite:"));
    assert_int_equal(stat(path, &log), 0);
    assert_in_range(log.st_size, LITTLE, MUCH);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, t_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(kept_claims_and_pools_survive_power_loss),
        CASE(what_is_restored_or_handed_over_to_be_kept_survives_power_loss),
        CASE(a_group_is_synced_when_one_of_it_is_kept),
        CASE(every_group_is_synced_where_that_is_asked_for),
        CASE(nothing_is_spared_when_the_log_is_carried_over),
        CASE(not_much_is_left_to_be_synced),
    };

    t_scheme = "sqlite";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
