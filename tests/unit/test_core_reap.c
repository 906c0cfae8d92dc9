/* SPDX-License-Identifier: MIT */
/* The reaper, and what happens without it. */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "support/core.h"

static void a_lease_holds_again_when_the_process_that_borrowed_its_claim_is_reaped(void **state)
{
    struct engine *e = *state;
    pid_t pid = child_fork(child_idle, NULL);
    dibs_request lease = e_request("web", "127.0.0.1");
    dibs_request held = e_held("web", "127.0.0.1", pid);
    dibs_claim first = e_must(e, e->core, &lease);
    dibs_claim again = { 0 };
    size_t n = 0;

    (void) e_must(e, e->core, &held);
    child_end(pid);
    ASSERT_OK(e_reap_with(e, e->core, 0, NULL, NULL, &n), &e->err);
    assert_int_equal(n, 1);
    ASSERT_OK(core_find(e->core, E_CALL(e, e->core), &(dibs_which){ .name = "web" }, &again, &e->err),
              &e->err);
    assert_int_equal(again.id, first.id);
    assert_int_equal(again.holder, DIBS_HELD_BY_LEASE);
    assert_int_equal(again.lease_until_ms, first.lease_until_ms);
    ASSERT_OK(e_reap_with(e, e->core, 0, NULL, NULL, &n), &e->err);
    assert_int_equal(n, 0);
    e_pass(e, E_LEASE);
    ASSERT_OK(e_reap_with(e, e->core, 0, NULL, NULL, &n), &e->err);
    assert_int_equal(e_count(e, NULL), 0);
}

static void case_29_D26_reaping_ends_the_dead_and_spares_the_living(void **state)
{
    struct engine *e = *state;
    pid_t dead = child_fork(child_idle, NULL);
    dibs_request active = e_held(NULL, "127.0.0.1", 0);
    dibs_request stale = e_held(NULL, "127.0.0.1", dead);
    dibs_request r = e_required(NULL, "127.0.0.1", 26003);

    need_network();
    active.mode = stale.mode = DIBS_REQUIRED;
    active.port = 26003;
    stale.port = 26004;
    (void) e_must(e, e->core, &active);
    (void) e_must(e, e->core, &stale);
    child_end(dead);
    assert_int_equal(e_reap(e, e->core), 1);
    assert_int_equal(e_try(e, e_other(e), &r, &(dibs_claim){ 0 }), DIBS_TAKEN);
    r.port = 26004;
    (void) e_must(e, e->other, &r);
}

struct others_view {
    sqlite3 *db;
    int left; /* claims that other processes see */
};

static int note_left(void *ctx, int n, char **values, char **names)
{
    (void) n;
    (void) names;
    ((struct others_view *) ctx)->left = (int) strtol(values[0], NULL, 10);
    return 0;
}

/* Each end is committed when it is reported, and another process can write between two of them. */
static bool check_step(void *ctx, const dibs_claim *claim)
{
    struct others_view *others = ctx;
    int before = others->left;

    (void) claim;
    assert_int_equal(sqlite3_exec(others->db, "BEGIN IMMEDIATE; ROLLBACK; SELECT count(*) FROM claims",
                                  note_left, others, NULL),
                     SQLITE_OK);
    assert_int_equal(others->left, before - 1);
    return true;
}

static void D17_opening_reaps_nothing_and_reaping_goes_in_small_steps(void **state)
{
    struct engine *e = *state;
    pid_t pid = child_fork(child_idle, NULL);
    dibs_request like = e_held(NULL, "127.0.0.1", pid);
    dibs_request r[300];
    static dibs_claim out[300];
    const dibs_batch batch = { .requests = r, .n = 300 };
    size_t n = 0;

    need_network();
    for (size_t i = 0; i < 300; i++)
        r[i] = like;
    ASSERT_OK(core_claim(e->core, E_CALL(e, e->core), &batch, out, &e->err), &e->err);
    child_end(pid);
    (void) e_twin(e); /* a start */
    assert_int_equal(e_count(e, NULL), 300);
    ASSERT_OK(e_reap_with(e, e->core, DIBS_REAP_DRY_RUN, NULL, NULL, &n), &e->err);
    assert_int_equal(n, 300);
    assert_int_equal(e_count(e, NULL), 300);
    struct others_view others = { .left = 300 };
    assert_int_equal(sqlite3_open(e->uri + strlen("sqlite:"), &others.db), SQLITE_OK);
    ASSERT_OK(e_reap_with(e, e->core, 0, check_step, &others, &n), &e->err);
    (void) sqlite3_close(others.db);
    assert_int_equal(n, 300);
    assert_int_equal(e_count(e, NULL), 0);
}

static bool stop_after_one(void *ctx, const dibs_claim *claim)
{
    (void) claim;
    (*(int *) ctx)++;
    return false;
}

static void reaping_can_be_stopped_and_unholds_what_is_kept(void **state)
{
    struct engine *e = *state;
    pid_t pid = child_fork(child_idle, NULL);
    dibs_request r = e_held(NULL, "127.0.0.1", pid);
    int seen = 0;
    size_t n = 0;

    r.keep = true;
    for (int i = 0; i < 3; i++)
        (void) e_must(e, e->core, &r);
    child_end(pid);
    ASSERT_OK(e_reap_with(e, e->core, 0, stop_after_one, &seen, &n), &e->err);
    assert_int_equal(seen, 1);
    assert_int_equal(n, 1);
    assert_int_equal(e_reap(e, e->core), 2);
    assert_int_equal(e_reap(e, e->core), 0);
    assert_int_equal(e_count(e, NULL), 3); /* kept: they stay, without a holder */
}

static void stale_kept_claims_go_when_their_project_is_gone_and_only_then(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_kept("shop/web", "127.0.0.1");
    char dir[300];
    size_t n = 99;

    (void) snprintf(dir, sizeof dir, "%s/project", e->dir);
    assert_int_equal(mkdir(dir, 0700), 0);
    r.project = dir;
    (void) e_must(e, e->core, &r);
    ASSERT_OK(e_reap_with(e, e->core, DIBS_REAP_STALE, NULL, NULL, &n), &e->err);
    assert_int_equal(n, 0);
    assert_int_equal(rmdir(dir), 0);
    assert_int_equal(e_reap(e, e->core), 0); /* not without being asked to */
    ASSERT_OK(e_reap_with(e, e_other(e), DIBS_REAP_STALE, NULL, NULL, &n), &e->err);
    assert_int_equal(n, 0); /* another user's kept claim does not end */
    ASSERT_OK(e_reap_with(e, e->core, DIBS_REAP_STALE, NULL, NULL, &n), &e->err);
    assert_int_equal(n, 1);
}

static void P8_another_boot_frees_process_and_lease_claims_and_keeps_kept_ones(void **state)
{
    struct engine *e = *state;
    dibs_request held = e_held("held", "127.0.0.1", 0);
    dibs_request lease = e_request("lease", "127.0.0.1");
    dibs_request kept = e_kept("kept", "127.0.0.1");

    (void) e_must(e, e->core, &held);
    (void) e_must(e, e->core, &lease);
    dibs_claim k = e_must(e, e->core, &kept);
    /* The same ledger, seen from a machine that has started again: our own pid lives, and proves nothing. */
    struct core *later = e_twin(e);
    (void) snprintf(later->view.boot_id, sizeof later->view.boot_id, "%s", T_BOOT);
    assert_int_equal(e_reap(e, later), 2);
    assert_int_equal(e_must(e, later, &kept).id, k.id);
}

static void D4_D6_a_dead_claim_is_taken_over_in_place_without_a_reaper(void **state)
{
    struct engine *e = *state;
    pid_t pid = child_fork(child_idle, NULL);
    dibs_request dead = e_held(NULL, "127.0.0.1", pid);
    dibs_request wild = e_required(NULL, "0.0.0.0", 26001);

    need_network();
    dead.mode = DIBS_REQUIRED;
    dead.port = 26001;
    (void) e_must(e, e->core, &dead);
    dead.n_bindings = 0;
    e_bind_to(&dead, DIBS_TCP, "127.0.0.2");
    (void) e_must(e, e->core, &dead);
    child_end(pid);
    (void) e_must(e, e_other(e), &wild); /* both gave way, in one transaction */
    assert_int_equal(e_count(e, NULL), 1);
}

static void a_kept_claim_is_not_taken_over_by_number_when_its_holder_is_dead(void **state)
{
    struct engine *e = *state;
    pid_t pid = child_fork(child_idle, NULL);
    dibs_request kept = e_held("db", "127.0.0.1", pid);
    dibs_request r = e_required(NULL, "127.0.0.1", 26001);
    dibs_claim found = { 0 };

    need_network();
    kept.mode = DIBS_REQUIRED;
    kept.port = 26001;
    kept.keep = true;
    dibs_claim first = e_must(e, e->core, &kept);
    child_end(pid);
    assert_int_equal(e_try(e, e_other(e), &r, &(dibs_claim){ 0 }), DIBS_TAKEN);
    assert_int_equal(e_try(e, e->core, &r, &(dibs_claim){ 0 }), DIBS_TAKEN); /* not by its own user either */
    ASSERT_OK(core_find(e->core, E_CALL(e, e->core), &(dibs_which){ .token = first.token }, &found, &e->err),
              &e->err);
    assert_int_equal(found.id, first.id);
    assert_int_equal(e_count(e, NULL), 1);
}

static void D12_W7_a_locked_ledger_ends_in_an_error_within_the_deadline(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request("web", "127.0.0.1");
    dibs_claim out = { 0 };
    sqlite3 *db = NULL;

    dibs_claim mine = e_must(e, e->core, &r);
    core_close(e->core);
    e->settings.timeout_ms = 50;
    e->core = e_open(e, "uid:1000", (uint32_t) geteuid(), false, &e->settings);
    assert_int_equal(sqlite3_open(e->uri + strlen("sqlite:"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    int64_t before = clock_monotonic_ms();
    r.name = NULL;
    assert_int_equal(e_try(e, e->core, &r, &out), DIBS_UNAVAILABLE);
    assert_int_equal(e->err.trouble, DIBS_TROUBLE_LOCKED);
    assert_int_equal(
        core_release(e->core, E_CALL(e, e->core), &(dibs_which){ .token = mine.token }, 0, NULL, &e->err),
        DIBS_UNAVAILABLE); /* seen, not swallowed; the reaper gets it later */
    assert_true(clock_monotonic_ms() - before < STALL_MS);
    assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    (void) sqlite3_close(db);
    e_pass(e, E_LEASE);
    assert_int_equal(e_reap(e, e->core), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(case_29_D26_reaping_ends_the_dead_and_spares_the_living),
        E_TEST(D17_opening_reaps_nothing_and_reaping_goes_in_small_steps),
        E_TEST(a_lease_holds_again_when_the_process_that_borrowed_its_claim_is_reaped),
        E_TEST(reaping_can_be_stopped_and_unholds_what_is_kept),
        E_TEST(stale_kept_claims_go_when_their_project_is_gone_and_only_then),
        E_TEST(P8_another_boot_frees_process_and_lease_claims_and_keeps_kept_ones),
        E_TEST(D4_D6_a_dead_claim_is_taken_over_in_place_without_a_reaper),
        E_TEST(a_kept_claim_is_not_taken_over_by_number_when_its_holder_is_dead),
        E_TEST(D12_W7_a_locked_ledger_ends_in_an_error_within_the_deadline),
    };

    e_own_network();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
