/* SPDX-License-Identifier: MIT */
/* The engine on a real ledger and real processes. */
#include "daemon/engine.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "ledger/step.h"
#include "lib/connection.h"
#include "support/ledger.h"
#include "support/sqlite.h"

struct fixture {
    struct loop *loop;
    struct engine *engine;
    dibs_settings settings;
    char dir[256];
    size_t n_changes;
    size_t n_reaped;
    size_t n_resets;
    dibs_err err;
};

static void changed(void *ctx, const dibs_event *event, const char *pool, int change)
{
    struct fixture *f = ctx;

    (void) pool;
    (void) change;
    f->n_changes++;
    f->n_reaped += event->kind == DIBS_EV_REAPED;
}

static dibs_status reset(void *ctx, dibs_err *err)
{
    struct fixture *f = ctx;

    f->n_resets++;
    (void) err;
    return f->n_resets > 1 ? DIBS_OK : DIBS_UNAVAILABLE;
}

static void start(struct fixture *f)
{
    const struct engine_options options = {
        .loop = f->loop, .settings = &f->settings, .changed = changed, .reset = reset, .ctx = f
    };

    ASSERT_OK(engine_open(&options, &f->engine, &f->err), &f->err);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    char uri[300];

    assert_non_null(f);
    t_make_directory(f->dir);
    (void) snprintf(uri, sizeof uri, "sqlite:%s/ledger.db", f->dir);
    const dibs_flag flags[] = { { DIBS_SET_LEDGER, uri }, { DIBS_SET_SOCKET, "none" } };
    ASSERT_OK(dibs_settings_load(flags, 2, &f->settings, &f->err), &f->err);
    ASSERT_OK(loop_open(&f->loop, &f->err), &f->err);
    start(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    engine_close(f->engine);
    loop_close(f->loop);
    t_remove_directory(f->dir);
    free(f);
    return 0;
}

/* Turns until `is_true`, ten seconds at most. */
#define TURN_UNTIL(f, is_true)                                                                      \
    do {                                                                                            \
        int64_t until_ms_ = clock_monotonic_ms() + 10000;                                           \
        while (!(is_true) && clock_monotonic_ms() < until_ms_) {                                    \
            int64_t wait_ms_ = engine_next_ms((f)->engine);                                         \
            assert_int_equal(loop_turn((f)->loop, wait_ms_ < 100 ? wait_ms_ : 100, NULL), DIBS_OK); \
            engine_turn((f)->engine);                                                               \
        }                                                                                           \
        assert_true(is_true);                                                                       \
    } while (0)

/* ---- jobs ---- */

struct claiming_job {
    struct job job;
    dibs_request request;
    dibs_claim claim;
    dibs_status status;
    dibs_err err;
    int n_worked, n_done;
    bool is_refused; /* by the commit */
    bool spoils;     /* writes something and then fails, once */
};

static void spoil(dibs *handle)
{
    AUTO(step_auto) struct step step = { 0 };
    const struct call call = handle_call(handle);
    dibs_pool pool = { .name = "half", .order = "stride" };

    assert_int_equal(dibs_ranges_parse("30000-30010", &pool.ranges, NULL), DIBS_OK);
    assert_int_equal(step_write(&step, handle_ledger(handle), &call, false, NULL), DIBS_OK);
    assert_int_equal(step_pool_put(&step, &pool, NULL), DIBS_OK);
}

static void work(struct job *job, dibs *handle)
{
    struct claiming_job *self = (struct claiming_job *) job;
    const dibs_batch batch = { .requests = &self->request, .n = 1 };

    self->n_worked++;
    if (self->spoils) {
        self->spoils = false;
        spoil(handle);
    }
    self->status = dibs_claim_ports(handle, &batch, &self->claim, &self->err);
}

static void done(struct job *job, const dibs_err *err)
{
    struct claiming_job *self = (struct claiming_job *) job;

    self->n_done++;
    self->is_refused = err != NULL;
}

static void queue(struct fixture *f, struct claiming_job *job)
{
    job->job.work = work;
    job->job.done = done;
    job->job.call = f->engine->handle->call;
    group_commit_queue(f->engine->group, &job->job);
}

static struct claiming_job leased(int64_t ttl_ms)
{
    return (struct claiming_job){ .request = { .holder = DIBS_HELD_BY_LEASE, .ttl_ms = ttl_ms } };
}

static bool tally(void *ctx, const dibs_claim *claim)
{
    (void) claim;
    ++*(size_t *) ctx;
    return true;
}

static size_t count(struct fixture *f)
{
    size_t n = 0;

    ASSERT_OK(dibs_claim_list(f->engine->handle, &(dibs_filter){ 0 }, tally, &n, &f->err), &f->err);
    return n;
}

static void jobs_of_one_turn_share_one_commit(void **state)
{
    struct fixture *f = *state;
    struct claiming_job jobs[50];

    for (size_t i = 0; i < 50; i++) {
        jobs[i] = leased(60000);
        queue(f, &jobs[i]);
    }
    engine_turn(f->engine);
    for (size_t i = 0; i < 50; i++) {
        assert_int_equal(jobs[i].n_done, 1);
        assert_false(jobs[i].is_refused);
        ASSERT_OK(jobs[i].status, &jobs[i].err);
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(jobs[i].claim.port, jobs[k].claim.port);
    }
    assert_int_equal(group_commit_count(f->engine->group)->commits, 1);
    assert_int_equal(count(f), 50);
    assert_int_equal(f->n_changes, 50);
    assert_int_equal(engine_count(f->engine)->claims, 50);
}

static void the_index_is_used_from_the_first_claim_on(void **state)
{
    struct fixture *f = *state;
    struct claiming_job job = leased(60000);

    queue(f, &job);
    engine_turn(f->engine);
    ASSERT_OK(job.status, &job.err);
    assert_true(handle_core(f->engine->handle)->index.is_loaded);
}

static void heavy_jobs_are_not_all_in_one_commit(void **state)
{
    static const uint32_t weights[] = { 5000, 600, 0, 600, 424, 0, 0 };
    static const int done_after[] = { 1, 2, 2, 3, 3, 4, 4 }; /* turns */
    struct fixture *f = *state;
    struct claiming_job jobs[7];

    for (size_t i = 0; i < 7; i++) {
        jobs[i] = leased(60000);
        jobs[i].job.weight = weights[i];
        queue(f, &jobs[i]);
    }
    for (int turn = 1; turn <= 4; turn++) {
        engine_turn(f->engine);
        for (size_t i = 0; i < 7; i++)
            assert_int_equal(jobs[i].n_done, done_after[i] <= turn);
    }
    assert_int_equal(group_commit_count(f->engine->group)->commits, 4);
}

static void a_refused_job_leaves_the_others_alone(void **state)
{
    struct fixture *f = *state;
    struct claiming_job jobs[3] = { leased(60000), leased(60000), leased(60000) };

    jobs[0].request.mode = jobs[1].request.mode = DIBS_REQUIRED;
    jobs[0].request.port = jobs[1].request.port = 20007;
    for (size_t i = 0; i < 3; i++)
        queue(f, &jobs[i]);
    engine_turn(f->engine);
    assert_int_equal(jobs[0].status, DIBS_OK);
    assert_int_equal(jobs[1].status, DIBS_TAKEN);
    assert_int_equal(jobs[2].status, DIBS_OK);
    assert_int_equal(count(f), 2);
}

static void a_spoilt_commit_is_done_again_one_by_one(void **state)
{
    struct fixture *f = *state;
    struct claiming_job jobs[3] = { leased(60000), leased(60000), leased(60000) };

    jobs[1].spoils = true;
    for (size_t i = 0; i < 3; i++)
        queue(f, &jobs[i]);
    engine_turn(f->engine);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(jobs[i].n_worked, 2);
        assert_int_equal(jobs[i].n_done, 1);
        assert_false(jobs[i].is_refused);
        ASSERT_OK(jobs[i].status, &jobs[i].err);
    }
    assert_int_equal(count(f), 3);
    assert_int_equal(group_commit_count(f->engine->group)->splits, 1);
    dibs_pool pool;
    assert_int_equal(dibs_pool_get(f->engine->handle, "half", &pool, NULL), DIBS_NOT_FOUND);
}

static void a_kept_claim_among_others_is_synced_with_all_of_them(void **state) /* INV-2 */
{
    struct fixture *f = *state;
    struct claiming_job jobs[3] = { leased(60000), leased(60000), leased(60000) };

    jobs[1].request.keep = true;
    for (int is_known = 0; is_known < 2; is_known++) {
        jobs[1].job.is_kept = is_known;
        for (size_t i = 0; i < 3; i++) {
            jobs[i].n_worked = 0;
            queue(f, &jobs[i]);
        }
        engine_turn(f->engine);
        for (size_t i = 0; i < 3; i++) {
            ASSERT_OK(jobs[i].status, &jobs[i].err);
            assert_int_equal(jobs[i].n_worked, is_known ? 1 : 2); /* once without a sync, in vain */
        }
        assert_int_equal(count(f), 3 * (is_known + 1));
        assert_int_equal(group_commit_count(f->engine->group)->splits, 0);
    }
}

static void work_long(struct job *job, dibs *handle)
{
    (void) handle;
    ((struct claiming_job *) job)->n_worked++;
    (void) usleep(30000);
}

static void long_jobs_leave_most_of_the_time_to_others(void **state)
{
    struct fixture *f = *state;
    struct claiming_job longer[2] = { leased(60000), leased(60000) };
    struct claiming_job brief = leased(60000);

    for (size_t i = 0; i < 2; i++) {
        longer[i].job = (struct job){ .work = work_long, .done = done, .is_alone = true };
        longer[i].job.call = f->engine->handle->call;
        group_commit_queue(f->engine->group, &longer[i].job);
    }
    engine_turn(f->engine);
    assert_int_equal(longer[0].n_done, 1);
    queue(f, &brief);
    engine_turn(f->engine);
    assert_int_equal(brief.n_done, 1);
    assert_int_equal(longer[1].n_done, 0);
    TURN_UNTIL(f, longer[1].n_done == 1);
}

static void work_and_look(struct job *job, dibs *handle)
{
    work(job, handle); /* the first of all may open files that stay open */
    size_t n_open = count_entries("/proc/self/fd");

    work(job, handle);
    assert_int_equal(count_entries("/proc/self/fd"), n_open);
}

/* It commits by itself, which may take long where the ledger is far away. */
static void a_job_alone_keeps_no_port_that_it_has_probed(void **state)
{
    struct fixture *f = *state;
    struct claiming_job job = leased(60000);

    job.job = (struct job){ .work = work_and_look, .done = done, .is_alone = true };
    job.job.call = f->engine->handle->call;
    group_commit_queue(f->engine->group, &job.job);
    TURN_UNTIL(f, job.n_done == 1);
    ASSERT_OK(job.status, &job.err);
    assert_int_equal(count(f), 2);
}

static int64_t size_of(const struct fixture *f, const char *name)
{
    char path[300];
    struct stat st = { 0 };

    (void) snprintf(path, sizeof path, "%s/%s", f->dir, name);
    assert_int_equal(stat(path, &st), 0);
    return st.st_size;
}

/* A log of more than a thousand frames is carried over, and nobody but the thread is there to do it. */
static void the_log_is_carried_over_beside_the_commits(void **state)
{
    enum { ROUNDS = 400 };
    struct fixture *f = *state;

    engine_close(f->engine);
    size_t n_threads = count_entries("/proc/self/task");
    start(f);
    assert_int_equal(count_entries("/proc/self/task"), n_threads + 1);
    int64_t bytes = size_of(f, "ledger.db");
    for (int i = 0; i < ROUNDS; i++) {
        struct claiming_job job = leased(60000);

        queue(f, &job);
        engine_turn(f->engine);
        ASSERT_OK(job.status, &job.err);
    }
    TURN_UNTIL(f, size_of(f, "ledger.db") > bytes);
    assert_int_equal(count(f), ROUNDS);
}

/* ---- deaths ---- */

static pid_t spawn(void)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        (void) pause();
        _exit(0);
    }
    return pid;
}

static void a_thousand_holders_die_at_once(void **state)
{
    enum { N = 1000 };
    struct fixture *f = *state;
    AUTO(free_auto) struct claiming_job *jobs = calloc(N, sizeof *jobs);
    AUTO(free_auto) pid_t *pids = calloc(N, sizeof *pids);

    assert_true(jobs && pids);
    for (size_t i = 0; i < N; i++) {
        pids[i] = spawn();
        jobs[i].request = (dibs_request){ .holder = DIBS_HELD_BY_PROCESS, .pid = (int32_t) pids[i] };
        queue(f, &jobs[i]);
    }
    TURN_UNTIL(f, f->n_changes == N);
    for (size_t i = 0; i < N; i++)
        (void) kill(pids[i], SIGKILL);
    int64_t killed_ms = clock_monotonic_ms();
    TURN_UNTIL(f, f->n_reaped == N);
    print_message("%d deaths were reaped within %lld ms\n", N,
                  (long long) (clock_monotonic_ms() - killed_ms));
    for (size_t i = 0; i < N; i++)
        (void) waitpid(pids[i], NULL, 0);
    assert_int_equal(count(f), 0);
    assert_int_equal(engine_count(f->engine)->claims, 0);
}

static void INV_8_ports_of_the_dead_are_chosen_before_the_lower_band(void **state)
{
    enum { UPPER = 24 }; /* of 40 */
    struct fixture *f = *state;
    struct claiming_job jobs[UPPER + 1] = { 0 };
    dibs_ranges forty;
    pid_t pid = spawn();

    assert_int_equal(dibs_ranges_parse("30000-30039", &forty, NULL), DIBS_OK);
    for (size_t i = 0; i < UPPER; i++) {
        jobs[i].request =
            (dibs_request){ .holder = DIBS_HELD_BY_PROCESS, .pid = (int32_t) pid, .ranges = &forty };
        queue(f, &jobs[i]);
    }
    TURN_UNTIL(f, f->n_changes == UPPER);
    for (size_t i = 0; i < UPPER; i++)
        assert_true(jobs[i].claim.port >= 30040 - UPPER);
    (void) kill(pid, SIGKILL);
    TURN_UNTIL(f, f->n_reaped == UPPER);
    (void) waitpid(pid, NULL, 0);
    jobs[UPPER] = leased(60000);
    jobs[UPPER].request.ranges = &forty;
    queue(f, &jobs[UPPER]);
    engine_turn(f->engine);
    ASSERT_OK(jobs[UPPER].status, &jobs[UPPER].err);
    assert_true(jobs[UPPER].claim.port >= 30040 - UPPER);
}

static void a_holder_that_died_while_no_daemon_ran_is_reaped_at_the_start(void **state)
{
    struct fixture *f = *state;
    pid_t pid = spawn();
    struct claiming_job job = { .request = { .holder = DIBS_HELD_BY_PROCESS, .pid = (int32_t) pid } };

    queue(f, &job);
    engine_turn(f->engine);
    ASSERT_OK(job.status, &job.err);
    engine_close(f->engine);
    (void) kill(pid, SIGKILL);
    (void) waitpid(pid, NULL, 0);
    start(f);
    TURN_UNTIL(f, count(f) == 0);
}

static void a_lease_ends_on_time_and_not_before(void **state)
{
    struct fixture *f = *state;
    struct claiming_job brief = leased(150);
    struct claiming_job longer = leased(60000);

    queue(f, &brief);
    queue(f, &longer);
    engine_turn(f->engine);
    int64_t until_ms = brief.claim.lease_until_ms;
    TURN_UNTIL(f, f->n_reaped == 1);
    assert_true(dibs_boot_ms(f->engine->handle) >= until_ms);
    assert_int_equal(count(f), 1);
}

static void changes_of_other_processes_in_the_ledger_are_followed(void **state)
{
    struct fixture *f = *state;
    pid_t pid = spawn();
    dibs *other = NULL;
    const dibs_request request = { .holder = DIBS_HELD_BY_PROCESS, .pid = (int32_t) pid };
    const dibs_batch batch = { .requests = &request, .n = 1 };
    dibs_claim claim;

    ASSERT_OK(dibs_open(&f->settings, &other, &f->err), &f->err);
    ASSERT_OK(dibs_claim_ports(other, &batch, &claim, &f->err), &f->err);
    TURN_UNTIL(f,
               f->n_changes == 1); /* by the notice of the other's commit: nothing was asked of the engine */
    (void) kill(pid, SIGKILL);
    TURN_UNTIL(f, f->n_reaped == 1);
    (void) waitpid(pid, NULL, 0);
    assert_int_equal(dibs_claim_find(other, &(dibs_which){ .token = claim.token }, &claim, &f->err),
                     DIBS_NOT_FOUND);
    dibs_close(other);
}

/* ---- a ledger that is not what it was ---- */

static void change(const char *path, const char *sql)
{
    sqlite3 *db = open_raw(path);

    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static uint64_t claim_beside(struct fixture *f, dibs *other)
{
    const dibs_request request = { .keep = true };
    dibs_claim claim;

    ASSERT_OK(dibs_claim_ports(other, &(dibs_batch){ .requests = &request, .n = 1 }, &claim, &f->err),
              &f->err);
    return claim.id;
}

static void events_that_are_gone_cost_a_look_at_everything(void **state)
{
    struct fixture *f = *state;
    struct claiming_job job = leased(60000);
    char path[300];
    dibs *other = NULL;

    queue(f, &job);
    engine_turn(f->engine);
    ASSERT_OK(dibs_open(&f->settings, &other, &f->err), &f->err);
    ASSERT_OK(dibs_claim_release(other, &(dibs_which){ .token = job.claim.token }, 0, NULL, &f->err),
              &f->err);
    uint64_t first = claim_beside(f, other);
    uint64_t last = claim_beside(f, other);
    (void) snprintf(path, sizeof path, "%s/ledger.db", f->dir);
    change(path, "DELETE FROM events WHERE seq<(SELECT max(seq) FROM events)");
    TURN_UNTIL(f, f->n_resets == 2);
    assert_int_equal(engine_count(f->engine)->claims, 2);
    assert_true(first < last && f->engine->seq >= last);
    assert_int_equal(f->n_changes, 1); /* missed changes are not reported one by one */
    (void) claim_beside(f, other);
    TURN_UNTIL(f, f->n_changes == 2);
    assert_int_equal(f->n_resets, 2);
    dibs_close(other);
}

static void a_restored_ledger_is_read_again(void **state)
{
    struct fixture *f = *state;
    struct claiming_job job = leased(60000);
    char path[300];
    char text[400];
    char copy[300];
    dibs *other = NULL;

    queue(f, &job);
    engine_turn(f->engine);
    (void) snprintf(path, sizeof path, "%s/ledger.db", f->dir);
    (void) snprintf(copy, sizeof copy, "%s/copy.db", f->dir);
    (void) snprintf(text, sizeof text, "VACUUM INTO '%s'", copy);
    change(path, text);
    ASSERT_OK(dibs_open(&f->settings, &other, &f->err), &f->err);
    (void) claim_beside(f, other);
    (void) claim_beside(f, other);
    TURN_UNTIL(f, f->n_changes == 3);
    dibs_close(other);
    sqlite3 *from = open_raw(copy);
    sqlite3 *to = open_raw(path);
    sqlite3_backup *backup = sqlite3_backup_init(to, "main", from, "main");
    assert_non_null(backup);
    assert_int_equal(sqlite3_backup_step(backup, -1), SQLITE_DONE);
    assert_int_equal(sqlite3_backup_finish(backup), SQLITE_OK);
    assert_int_equal(sqlite3_close(to), SQLITE_OK);
    assert_int_equal(sqlite3_close(from), SQLITE_OK);
    TURN_UNTIL(f, f->n_resets == 2);
    assert_int_equal(engine_count(f->engine)->claims, 1);
    queue(f, &job);
    engine_turn(f->engine);
    ASSERT_OK(job.status, &job.err);
    assert_int_equal(f->n_changes, 4);
    assert_int_equal(engine_count(f->engine)->claims, 2);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(jobs_of_one_turn_share_one_commit),
        CASE(the_index_is_used_from_the_first_claim_on),
        CASE(heavy_jobs_are_not_all_in_one_commit),
        CASE(a_refused_job_leaves_the_others_alone),
        CASE(a_spoilt_commit_is_done_again_one_by_one),
        CASE(a_kept_claim_among_others_is_synced_with_all_of_them),
        CASE(long_jobs_leave_most_of_the_time_to_others),
        CASE(a_job_alone_keeps_no_port_that_it_has_probed),
        CASE(the_log_is_carried_over_beside_the_commits),
        CASE(a_thousand_holders_die_at_once),
        CASE(INV_8_ports_of_the_dead_are_chosen_before_the_lower_band),
        CASE(a_holder_that_died_while_no_daemon_ran_is_reaped_at_the_start),
        CASE(a_lease_ends_on_time_and_not_before),
        CASE(changes_of_other_processes_in_the_ledger_are_followed),
        CASE(events_that_are_gone_cost_a_look_at_everything),
        CASE(a_restored_ledger_is_read_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
