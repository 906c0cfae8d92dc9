/* SPDX-License-Identifier: MIT */
/* A claim that is killed or stopped in its middle.
 *
 *   storm_kill kills=2000 stops=400
 *
 * Killed: the ledger opens, is sound, and has all five claims of the batch or none. Stopped while it has the
 * ledger's lock: the others say so (exit 6) within their deadline, readers go on, and after SIGCONT all
 * goes on as if nothing had been. */
#include "storm.h"

#include <sqlite3.h>
#include <sys/wait.h>

enum { OTHERS = 4, BATCH = 5, CALIBRATION = 20, OWN_LEDGER_EVERY = 8, FINISH_EVERY = 10, CLEAN_EVERY = 50 };
/* A process that waits longer than a second waits for more than a busy machine. */
#define LATE_NS 21000000000

static void must_succeed(const char *what, const struct storm_run *run)
{
    if (run->code != 0)
        storm_violation("%s: exit %d: %s", what, run->code, run->err);
}

static void name_of(long i, char out[32])
{
    (void) snprintf(out, 32, "/kill/k%ld", i);
}

static struct storm_child start_batch(const char *name)
{
    return storm_spawn(
        (const char *const[]){ "claim", "-n", "5", name, "--range", "20000-21999", "--ttl", "10m", NULL });
}

static int64_t count_batch(long i)
{
    char sql[120];

    (void) snprintf(sql, sizeof sql, "SELECT count(*) FROM claims WHERE name GLOB 'kill/k%ld/*'", i);
    return storm_sql(sql);
}

/* How long a batch takes when nobody disturbs it. */
static uint32_t usual_us(void)
{
    int64_t all_ns = 0;
    struct storm_run run = { 0 };

    for (long i = 0; i < CALIBRATION; i++) {
        char name[32];

        (void) snprintf(name, sizeof name, "/usual/k%ld", i);
        struct storm_child child = start_batch(name);
        storm_finish(&child, &run);
        must_succeed("an undisturbed claim", &run);
        all_ns += run.wall_ns;
    }
    STORM_DIBS(&run, "release", "--all-mine");
    must_succeed("release", &run);
    return (uint32_t) (all_ns / CALIBRATION / 1000);
}

/* Somebody who works all the time, so that kills also fall into waiting for the lock and handing it on. */
static pid_t start_neighbour(const _Atomic int *is_over)
{
    pid_t pid = storm_fork();

    if (pid != 0)
        return pid;
    dibs *handle = storm_open();
    while (!atomic_load(is_over)) {
        dibs_ranges ranges = { .n = 1, .item = { { 23000, 23999 } } };
        dibs_request request = { .holder = DIBS_HELD_BY_PROCESS, .ranges = &ranges };
        dibs_batch batch = { .requests = &request, .n = 1 };
        dibs_claim claim = { 0 };
        dibs_which which = { .token = claim.token };
        dibs_err err = { 0 };
        size_t n = 0;

        if (dibs_claim_ports(handle, &batch, &claim, &err) != DIBS_OK)
            storm_violation("the neighbour's claim: %s", err.msg);
        else if (dibs_claim_release(handle, &which, 0, &n, &err) != DIBS_OK || n != 1)
            storm_violation("the neighbour's release of port %u: %zu ended, %s", claim.port, n, err.msg);
        storm_sleep_us(2000);
    }
    dibs_close(handle);
    _exit(0);
}

struct tally {
    long n_before, n_after, n_finished; /* killed before the commit, after it; ended by itself */
};

static void kill_one(long i, uint32_t within_us, struct storm_random *random, struct tally *tally)
{
    struct storm_run run = { 0 };
    char name[32];

    name_of(i, name);
    struct storm_child child = start_batch(name);
    storm_sleep_us((long) storm_below(random, within_us));
    (void) kill(child.pid, SIGKILL);
    storm_finish(&child, &run);
    int64_t n = count_batch(i);
    if (n != 0 && n != BATCH)
        storm_violation("half a batch: %lld of %d claims of %s", (long long) n, BATCH, name);
    if (run.code == 0 && n != BATCH)
        storm_violation("%s was returned and is not there", name);
    if (run.code != 0 && run.code != 128 + SIGKILL)
        storm_violation("%s: exit %d: %s", name, run.code, run.err);
    tally->n_finished += run.code == 0;
    tally->n_before += run.code != 0 && n == 0;
    tally->n_after += run.code != 0 && n == BATCH;
    storm_check_ledger(name);
    if (i % FINISH_EVERY == 0) { /* asked for again, the names are complete */
        child = start_batch(name);
        storm_finish(&child, &run);
        must_succeed("the same names again", &run);
        if (count_batch(i) != BATCH)
            storm_violation("%s asked for again has %lld claims", name, (long long) count_batch(i));
    }
}

/* A ledger of its own for each: killed while the tables are made. */
static void kill_maker(long i, uint32_t within_us, struct storm_random *random, struct tally *tally)
{
    char usual[4100];
    char uri[4200];

    (void) snprintf(usual, sizeof usual, "sqlite:%s", storm_ledger_path());
    (void) snprintf(uri, sizeof uri, "%s.%ld", usual, i);
    (void) setenv("DIBS_LEDGER", uri, 1);
    struct storm_run run = { 0 };
    char name[32];

    name_of(i, name);
    struct storm_child child = start_batch(name);
    storm_sleep_us((long) storm_below(random, 2 * within_us));
    (void) kill(child.pid, SIGKILL);
    storm_finish(&child, &run);
    tally->n_finished += run.code == 0;
    tally->n_before += run.code != 0;
    child = start_batch(name);
    storm_finish(&child, &run);
    must_succeed("a claim after its ledger's maker was killed", &run);
    if (count_batch(i) != BATCH)
        storm_violation("a ledger whose maker was killed has %lld claims", (long long) count_batch(i));
    storm_check_ledger("a ledger whose maker was killed");
    (void) setenv("DIBS_LEDGER", usual, 1);
}

static void kill_many(long kills, uint64_t seed)
{
    struct storm_random random = storm_random_of(seed, 1);
    _Atomic int *is_over = storm_share(sizeof *is_over);
    uint32_t usual = usual_us();
    uint32_t within = usual + usual / 4 < 3000 ? 3000 : usual + usual / 4;
    pid_t neighbour = start_neighbour(is_over);
    struct tally tally = { 0 };
    struct tally makers = { 0 };
    struct storm_run run = { 0 };

    for (long i = 0; i < kills; i++) {
        if (i % OWN_LEDGER_EVERY == OWN_LEDGER_EVERY - 1)
            kill_maker(i, within, &random, &makers);
        else
            kill_one(i, within, &random, &tally);
        if (i % CLEAN_EVERY == CLEAN_EVERY - 1)
            for (long k = i + 1 - CLEAN_EVERY; k <= i; k++) {
                char names[BATCH][40];

                for (int n = 0; n < BATCH; n++)
                    (void) snprintf(names[n], sizeof names[n], "/kill/k%ld/%d", k, n);
                STORM_DIBS(&run, "release", names[0], names[1], names[2], names[3], names[4]);
                must_succeed("release by name", &run);
            }
    }
    atomic_store(is_over, 1);
    if (storm_wait(neighbour) != 0)
        storm_violation("the neighbour did not end well");
    printf("  a batch takes %.1f ms; %ld kills within %.1f ms: %ld before the commit, %ld after it, %ld too "
           "late\n",
           usual / 1e3, kills, within / 1e3, tally.n_before, tally.n_after, tally.n_finished);
    printf("  of these on a ledger of its own: %ld killed, %ld too late\n", makers.n_before,
           makers.n_finished);
    if (tally.n_before == 0)
        storm_violation("no kill hit a claim under way: nothing was shown");
}

/* ---- stopped ---- */

static bool is_locked(void)
{
    sqlite3 *db = NULL;
    bool is_busy = false;

    if (sqlite3_open_v2(storm_ledger_path(), &db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
        storm_die("the ledger file does not open");
    (void) sqlite3_busy_timeout(db, 0);
    is_busy = sqlite3_exec(db, "BEGIN IMMEDIATE; ROLLBACK", NULL, NULL, NULL) == SQLITE_BUSY;
    (void) sqlite3_close(db);
    return is_busy;
}

/* Several at once wait, give up in time, and say why; who only reads is not disturbed. */
static int64_t others_give_up(void)
{
    struct storm_child others[OTHERS];
    struct storm_run run = { 0 };
    int64_t longest_ns = 0;

    for (int i = 0; i < OTHERS; i++)
        others[i] = storm_spawn((const char *const[]){ "--timeout", "1s", "claim", "--ttl", "1m", NULL });
    for (int i = 0; i < OTHERS; i++) {
        storm_finish(&others[i], &run);
        if (run.code != 6 || !strstr(run.err, "locked"))
            storm_violation("a claim while the writer is stopped: exit %d: %s", run.code, run.err);
        if (run.wall_ns > LATE_NS)
            storm_violation("a claim with a timeout of 1s took %.2f s", (double) run.wall_ns / 1e9);
        longest_ns = run.wall_ns > longest_ns ? run.wall_ns : longest_ns;
    }
    return longest_ns;
}

static void stop_holder(void)
{
    struct storm_run run = { 0 };
    int status = 0;
    pid_t holder = storm_fork();

    if (holder == 0) {
        sqlite3 *db = NULL;

        if (sqlite3_open_v2(storm_ledger_path(), &db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK ||
            sqlite3_exec(db, "BEGIN IMMEDIATE; UPDATE meta SET value = value", NULL, NULL, NULL) != SQLITE_OK)
            _exit(1);
        (void) raise(SIGSTOP);
        _exit(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK ? 0 : 1);
    }
    if (waitpid(holder, &status, WUNTRACED) != holder || !WIFSTOPPED(status))
        storm_die("the holder of the lock did not stop");
    int64_t longest = others_give_up();
    STORM_DIBS(&run, "ls");
    must_succeed("ls while the writer is stopped", &run);
    (void) kill(holder, SIGCONT);
    if (storm_wait(holder) != 0)
        storm_violation("the stopped writer could not commit afterwards");
    STORM_DIBS(&run, "claim", "--ttl", "1m");
    must_succeed("a claim after SIGCONT", &run);
    printf("  a stopped transaction: %d others exit 6, the slowest after %.2f s\n", OTHERS,
           (double) longest / 1e9);
}

/* The program itself, stopped at random moments until one of them is inside its transaction. */
static void stop_claims(long stops, uint64_t seed)
{
    struct storm_random random = storm_random_of(seed, 2);
    struct storm_run run = { 0 };
    long n_caught = 0;
    long n_index = 0;
    long n_tried = 0;
    int64_t longest = 0;

    for (; n_tried < stops && n_caught < 3; n_tried++) {
        struct storm_child child = storm_spawn(
            (const char *const[]){ "claim", "-n", "200", "--range", "20000-31999", "--ttl", "1s", NULL });
        siginfo_t info = { 0 };

        storm_sleep_us((long) storm_below(&random, 12000));
        (void) kill(child.pid, SIGSTOP);
        /* It may be done already: then it is left for storm_finish() to wait for. */
        bool is_stopped = waitid(P_PID, (id_t) child.pid, &info, WSTOPPED | WEXITED | WNOWAIT) == 0 &&
                          info.si_code == CLD_STOPPED;
        if (is_stopped && is_locked()) {
            int64_t took = others_give_up();

            n_caught++;
            longest = took > longest ? took : longest;
        } else if (is_stopped) { /* stopped elsewhere: it is in nobody's way */
            STORM_DIBS(&run, "--timeout", "1s", "claim", "--ttl", "1s");
            /* It may hold a lock of the log's index: then nobody can read either, and that is said. */
            if (run.code != 6 || !strstr(run.err, "another process holds it"))
                must_succeed("a claim while another is stopped without the lock", &run);
            if (run.wall_ns > LATE_NS)
                storm_violation("with a timeout of 1s beside a stopped process: exit %d after %.2f s",
                                run.code, (double) run.wall_ns / 1e9);
            n_index += run.code == 6;
        }
        (void) kill(child.pid, SIGCONT);
        storm_finish(&child, &run);
        must_succeed("a claim that was stopped and continued", &run);
    }
    printf(
        "  'dibs claim' stopped %ld times, %ld of them holding the write lock, %ld a lock of the index; the "
        "slowest other gave up after %.2f s\n",
        n_tried, n_caught, n_index, (double) longest / 1e9);
    if (n_caught == 0)
        storm_violation("no stop hit a transaction: nothing was shown");
    storm_check_ledger("after the stops");
}

int main(int argc, char **argv)
{
    uint64_t seed = storm_begin("storm_kill");
    long kills = storm_number(argc, argv, "kills", 150);
    long stops = storm_number(argc, argv, "stops", 200);

    if (kills > 0)
        kill_many(kills, seed);
    if (stops > 0) {
        struct storm_run run = { 0 };

        STORM_DIBS(&run, "claim", "--ttl", "1m");
        must_succeed("a claim", &run);
        stop_holder();
        stop_claims(stops, seed);
    }
    return storm_end("storm_kill");
}
