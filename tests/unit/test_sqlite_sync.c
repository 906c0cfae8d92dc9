/* SPDX-License-Identifier: MIT */
/* Writes that survive power loss, and those that need not (INV-2): counted by the calls that make the
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
    ASSERT_OK(ledger_pool_put(t->ledger, &t->call, &pool, &t->err), &t->err);
    assert_true(was_synced());
    close_ledger(t);
    ASSERT_OK(ledger_open(t->uri, &always, &t->ledger, &t->err), &t->err);
    n_syncs = 0;
    (void) t_must(t, &lease, 26004);
    assert_true(was_synced());
}

static void a_claim_restored_or_transferred_as_kept_survives_power_loss(void **state)
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
        ledger_restore(t->ledger, &t->call, &(dibs_snapshot){ &kept.claim, 1, NULL, 0 }, &n, NULL, &t->err),
        &t->err);
    assert_int_equal(n, 1);
    assert_true(was_synced());
    ASSERT_OK(ledger_transfer(t->ledger, &t->call, t_seen(&got), &lease.claim, &got, &t->err), &t->err);
    assert_false(was_synced()); /* nothing of it is kept */
    ASSERT_OK(ledger_transfer(t->ledger, &t->call, t_seen(&got), &kept.claim, &out, &t->err), &t->err);
    assert_true(out.is_kept);
    assert_true(was_synced());
}

static void commit(struct t_ledger *t)
{
    ASSERT_OK(t_commit(t, NULL), &t->err);
}

static void a_group_that_begins_with_a_kept_claim_is_synced(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want lease = t_want(NULL, "*");
    struct ledger_want kept = t_want("kept", "*");

    t_kept(&kept);
    for (uint16_t port = 26100; port < 26130; port += 10) {
        t_begin_unsynced(t, t->ledger);
        (void) t_must(t, &lease, port);
        (void) t_must(t, &lease, port + 1);
        commit(t);
        assert_false(was_synced());
        t_begin_unsynced(t, t->ledger);
        dibs_claim got = t_must(t, &kept, port + 2);
        (void) t_must(t, &lease, port + 3);
        commit(t);
        assert_true(was_synced());
        t_begin(t, t->ledger);
        (void) t_must(t, &lease, port + 4);
        assert_int_equal(t_end(t, &got, LEDGER_END_RELEASE), 1);
        commit(t);
        assert_true(was_synced());
        t_begin_unsynced(t, t->ledger);
        commit(t); /* of nothing */
        assert_false(was_synced());
    }
}

static dibs_status claim_in_group(struct t_ledger *t, const struct ledger_want *want, uint16_t port)
{
    dibs_claim got = { 0 };

    struct ledger_want lease = t_want(NULL, "*");

    t_begin_unsynced(t, t->ledger);
    (void) t_must(t, &lease, 26200);
    dibs_status s = t_claim(t, want, port, &got);
    dibs_status committed = t_commit(t, NULL);
    return s == DIBS_OK ? committed : s;
}

static void an_unsynced_group_never_commits_a_change_of_a_kept_claim(void **state) /* INV-2 */
{
    struct t_ledger *t = *state;
    struct ledger_want lease = t_want(NULL, "*");
    struct ledger_want kept = t_want("kept", "*");
    dibs_claim out = { 0 };

    t_kept(&kept);
    assert_int_equal(claim_in_group(t, &kept, 26201), DIBS_UNAVAILABLE);
    assert_int_equal(t_list(t, (struct ledger_filter){ .port = 26200 }).n,
                     0); /* nothing of it has happened */
    dibs_claim got = t_must(t, &kept, 26201);
    t_begin_unsynced(t, t->ledger);
    assert_int_equal(t_end(t, &got, LEDGER_END_RELEASE), 1);
    assert_int_equal(t_commit(t, NULL), DIBS_UNAVAILABLE);
    t_begin_unsynced(t, t->ledger);
    ASSERT_OK(ledger_transfer(t->ledger, &t->call, t_seen(&got), &lease.claim, &out, &t->err), &t->err);
    assert_int_equal(t_commit(t, NULL), DIBS_UNAVAILABLE);
    assert_true(t_stored(t, got.id).is_kept);
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
        t_begin_unsynced(t, t->ledger);
        (void) t_must(t, &lease, port);
        commit(t);
        assert_true(was_synced());
    }
}

/* Pages that a checkpoint copies must be on the disk before, whether their commit was synced or not. */
static void a_checkpoint_syncs_what_commits_did_not(void **state)
{
    struct t_ledger *t = *state;
    struct sqlite_store *store = (struct sqlite_store *) t->ledger->store;
    struct ledger_want lease = t_want(NULL, "*");

    (void) t_must(t, &lease, 26100);
    assert_false(was_synced());
    assert_int_equal(sqlite3_exec(store->db, "PRAGMA wal_checkpoint(RESTART)", NULL, NULL, NULL), SQLITE_OK);
    assert_true(n_syncs >= 2); /* the log, and then the file */
    n_syncs = 0;
    (void) t_must(t, &lease, 26101);
    assert_int_equal(n_syncs, 1); /* the head of the restarted log, not the commit */
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, t_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(kept_claims_and_pools_survive_power_loss),
        CASE(a_claim_restored_or_transferred_as_kept_survives_power_loss),
        CASE(a_group_that_begins_with_a_kept_claim_is_synced),
        CASE(an_unsynced_group_never_commits_a_change_of_a_kept_claim),
        CASE(every_group_is_synced_where_that_is_asked_for),
        CASE(a_checkpoint_syncs_what_commits_did_not),
    };

    t_scheme = "sqlite";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
