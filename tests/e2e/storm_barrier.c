/* SPDX-License-Identifier: MIT */
/* Many processes behind a barrier claim at the same moment, and each binds and listens on what it got.
 *
 *   storm_barrier workers=1000 killed=200 rounds=10 library=0
 *
 * Every worker holds its port until all have theirs. Then the victims of the round are dead, killed during
 * their claim, between claim and bind, or while they listened, and new workers claim their very ports. Dead
 * holders are left in the ledger in two rounds of three, so that later rounds must take over from them. */
#include "storm.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define RANGE "20000-21999"
enum { FIRST_PORT = 20000, LAST_PORT = 21999, WORKERS_MAX = 1800, LIMIT_S = 120 };

enum fate { LIVES, DIES_CLAIMING, CLAIMER_DIES, DIES_BEFORE_BIND, DIES_LISTENING, N_FATES };
enum phase { STARTING, READY, CLAIMING, CLAIMED, LISTENING, FAILED };

struct worker {
    _Atomic int phase;
    _Atomic int port;
    pid_t pid;
    enum fate fate;
    uint16_t wanted; /* 0: any of the range */
    int64_t wait_ns;
    char why[400];
};

struct shared {
    _Atomic uint32_t go, end;
    struct worker workers[2 * WORKERS_MAX];
};

struct storm {
    struct shared *shared;
    size_t n, n_killed;
    bool by_library;
    uint64_t seed;
};

static void futex_wait(_Atomic uint32_t *word)
{
    while (atomic_load(word) == 0)
        (void) syscall(SYS_futex, word, FUTEX_WAIT, 0, NULL, NULL, 0);
}

static void futex_open(_Atomic uint32_t *word)
{
    atomic_store(word, 1);
    (void) syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* ---- a worker ---- */

__attribute__((noreturn, format(printf, 2, 3))) static void fail(struct worker *me, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void) vsnprintf(me->why, sizeof me->why, format, args);
    va_end(args);
    atomic_store(&me->phase, FAILED);
    _exit(1);
}

static void die_later(struct storm_random *random, uint32_t within_us)
{
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL };
    struct itimerspec at = { .it_value.tv_nsec = 1000 * (long) (1 + storm_below(random, within_us)) };
    timer_t timer = NULL;

    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &at, NULL) != 0)
        _exit(98);
}

static uint16_t claim_by_program(struct worker *me, struct storm_random *random)
{
    char pid[16];
    char port[16];
    struct storm_run run = { 0 };

    (void) snprintf(pid, sizeof pid, "%d", (int) getpid());
    (void) snprintf(port, sizeof port, "%u", me->wanted);
    struct storm_child child =
        me->wanted ? storm_spawn((const char *const[]){ "claim", "--pid", pid, "--port", port, NULL })
                   : storm_spawn((const char *const[]){ "claim", "--pid", pid, "--range", RANGE, NULL });
    if (me->fate == CLAIMER_DIES) {
        storm_sleep_us((long) storm_below(random, 400000));
        (void) kill(child.pid, SIGKILL);
        storm_finish(&child, &run);
        (void) raise(SIGKILL);
    }
    storm_finish(&child, &run);
    if (run.code != 0)
        fail(me, "claim: exit %d: %s", run.code, run.err);
    return (uint16_t) strtoul(run.out, NULL, 10);
}

static uint16_t claim_by_library(struct worker *me, dibs *handle)
{
    dibs_ranges ranges = { .n = 1, .item = { { FIRST_PORT, LAST_PORT } } };
    dibs_request request = { .holder = DIBS_HELD_BY_PROCESS,
                             .mode = me->wanted ? DIBS_REQUIRED : DIBS_RANDOM,
                             .port = me->wanted,
                             .ranges = &ranges };
    dibs_batch batch = { .requests = &request, .n = 1 };
    dibs_claim claim = { 0 };
    dibs_err err = { 0 };

    if (dibs_claim_ports(handle, &batch, &claim, &err) != DIBS_OK)
        fail(me, "claim: %s", err.msg);
    if (claim.is_degraded)
        fail(me, "claim: degraded");
    return claim.port;
}

__attribute__((noreturn)) static void work(const struct storm *storm, struct worker *me)
{
    struct storm_random random = storm_random_of(storm->seed, (uint64_t) (me - storm->shared->workers));
    dibs_binding any = { .proto = DIBS_TCP, .address.len = 16 };
    dibs *handle = storm->by_library ? storm_open() : NULL;

    me->pid = getpid();
    atomic_store(&me->phase, READY);
    futex_wait(&storm->shared->go);
    int64_t start = storm_now_ns();
    atomic_store(&me->phase, CLAIMING);
    if (me->fate == DIES_CLAIMING || (me->fate == CLAIMER_DIES && handle))
        die_later(&random, 400000);
    uint16_t port = handle ? claim_by_library(me, handle) : claim_by_program(me, &random);
    me->wait_ns = storm_now_ns() - start;
    atomic_store(&me->port, port);
    atomic_store(&me->phase, CLAIMED);
    if (me->fate == DIES_BEFORE_BIND)
        (void) raise(SIGKILL);
    if (storm_listen(&any, port) < 0)
        fail(me, "port %u cannot be bound: %s", port, strerror(errno));
    atomic_store(&me->phase, LISTENING);
    if (me->fate == DIES_LISTENING)
        die_later(&random, 200000);
    futex_wait(&storm->shared->end);
    _exit(0);
}

/* ---- the round ---- */

static void start(struct storm *storm, struct worker *first, size_t n)
{
    atomic_store(&storm->shared->go, 0);
    for (size_t i = 0; i < n; i++) {
        pid_t pid = storm_fork();

        if (pid == 0)
            work(storm, &first[i]);
        first[i].pid = pid;
    }
    for (size_t i = 0; i < n; i++)
        for (int tries = 0; atomic_load(&first[i].phase) == STARTING; tries++) {
            if (tries > LIMIT_S * 1000)
                storm_die("worker %zu does not start", i);
            storm_sleep_us(1000);
        }
    futex_open(&storm->shared->go);
}

/* Until each listens, has failed, or is dead as it should be. */
static void await(const struct worker *first, size_t n)
{
    int64_t limit = storm_now_ns() + (int64_t) LIMIT_S * 1000000000;

    for (size_t i = 0; i < n; i++) {
        const struct worker *w = &first[i];

        if (w->fate != LIVES)
            (void) waitpid(w->pid, NULL, 0); /* a timer or its own hand ends it, soon */
        while (w->fate == LIVES && atomic_load(&w->phase) < LISTENING && storm_now_ns() < limit)
            storm_sleep_us(500);
        if (w->fate == LIVES && atomic_load(&w->phase) < LISTENING)
            storm_violation("worker %zu is not done after %d s (phase %d)", i, LIMIT_S,
                            atomic_load(&w->phase));
        if (atomic_load(&w->phase) == FAILED)
            storm_violation("worker %zu, pid %d: %s", i, (int) w->pid, w->why);
    }
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *) a;
    int64_t y = *(const int64_t *) b;

    return x < y ? -1 : x > y;
}

/* Every living worker listens, on a port of its own, which the ledger says is its. */
static void check_living(const struct storm *storm, size_t n, const char *when)
{
    static int64_t waits[2 * WORKERS_MAX];
    uint8_t seen[LAST_PORT + 1] = { 0 };
    size_t n_living = 0;
    char sql[200];

    for (size_t i = 0; i < n; i++) {
        const struct worker *w = &storm->shared->workers[i];
        int port = atomic_load(&w->port);

        if (w->fate != LIVES || atomic_load(&w->phase) != LISTENING)
            continue;
        if (port < FIRST_PORT || port > LAST_PORT)
            storm_violation("%s: port %d is outside of the range", when, port);
        else if (seen[port]++)
            storm_violation("%s: port %d was given twice", when, port);
        (void) snprintf(sql, sizeof sql,
                        "SELECT count(*) FROM claims WHERE port = %d AND pid = %d AND holder = 1", port,
                        (int) w->pid);
        if (storm_sql(sql) != 1)
            storm_violation("%s: port %d of pid %d is not in the ledger", when, port, (int) w->pid);
        waits[n_living++] = w->wait_ns;
    }
    int64_t median_ns = 0;
    qsort(waits, n_living, sizeof waits[0], by_value);
    if (n_living)
        median_ns = waits[n_living / 2];
    if (n_living)
        printf("  %s: %zu listen on %zu distinct ports; wait median %.1f ms, max %.1f ms\n", when, n_living,
               n_living, (double) median_ns / 1e6, (double) waits[n_living - 1] / 1e6);
}

static size_t count_living(const struct storm *storm, size_t n)
{
    size_t n_living = 0;

    for (size_t i = 0; i < n; i++)
        n_living += storm->shared->workers[i].fate == LIVES &&
                    atomic_load(&storm->shared->workers[i].phase) == LISTENING;
    return n_living;
}

/* The port that a victim still has in the ledger, or 0. */
static uint16_t estate_of(const struct worker *victim)
{
    char sql[120];

    (void) snprintf(sql, sizeof sql, "SELECT count(*) FROM claims WHERE port = %d",
                    atomic_load(&victim->port));
    if (victim->fate >= DIES_BEFORE_BIND && storm_sql(sql) != 1)
        storm_violation("the claim of dead pid %d on port %d is gone, and nobody has taken it over",
                        (int) victim->pid, atomic_load(&victim->port));
    (void) snprintf(sql, sizeof sql, "SELECT coalesce(max(port), 0) FROM claims WHERE pid = %d",
                    (int) victim->pid);
    return (uint16_t) storm_sql(sql);
}

/* New workers for the dead: first those who ask for the very ports that the victims have in the ledger, then,
 * for victims without one, those who take any. (Together, the second might rightly take what the first name.)
 */
static size_t succeed(struct storm *storm)
{
    struct worker *heirs = &storm->shared->workers[storm->n];
    size_t n = 0;
    size_t n_victims = 0;

    for (size_t i = 0; i < storm->n; i++) {
        if (storm->shared->workers[i].fate == LIVES)
            continue;
        n_victims++;
        heirs[n].wanted = estate_of(&storm->shared->workers[i]);
        n += heirs[n].wanted != 0;
    }
    start(storm, heirs, n);
    await(heirs, n);
    start(storm, heirs + n, n_victims - n);
    await(heirs + n, n_victims - n);
    printf("  %zu victims, %zu of their ports claimed again by number\n", n_victims, n);
    return n_victims;
}

static void round_of(struct storm *storm, long number, bool reaps)
{
    struct storm_random random = storm_random_of(storm->seed, (uint64_t) number << 32);
    struct storm_run run = { 0 };
    size_t n_victims = 0;

    memset(storm->shared, 0, sizeof *storm->shared);
    while (n_victims < storm->n_killed) {
        struct worker *w = &storm->shared->workers[storm_below(&random, (uint32_t) storm->n)];

        if (w->fate != LIVES)
            continue;
        w->fate = (enum fate)(1 + n_victims % (N_FATES - 1));
        n_victims++;
    }
    start(storm, storm->shared->workers, storm->n);
    await(storm->shared->workers, storm->n);
    check_living(storm, storm->n, "at once");
    size_t n_heirs = n_victims ? succeed(storm) : 0;
    if (n_heirs)
        check_living(storm, storm->n + n_heirs, "with heirs");
    if (count_living(storm, storm->n + n_heirs) != storm->n)
        storm_violation("%zu of %zu workers listen", count_living(storm, storm->n + n_heirs), storm->n);
    storm_check_ledger("after the round");
    futex_open(&storm->shared->end);
    while (waitpid(-1, NULL, 0) > 0)
        ;
    if (!reaps)
        return;
    STORM_DIBS(&run, "reap");
    if (run.code != 0 || storm_sql("SELECT count(*) FROM claims") != 0)
        storm_violation("after reap (exit %d) %lld claims are left", run.code,
                        (long long) storm_sql("SELECT count(*) FROM claims"));
}

int main(int argc, char **argv)
{
    struct storm storm = {
        .n = (size_t) storm_number(argc, argv, "workers", 200),
        .n_killed = (size_t) storm_number(argc, argv, "killed", 40),
        .by_library = storm_number(argc, argv, "library", 0) != 0,
        .seed = storm_begin("storm_barrier"),
    };
    long rounds = storm_number(argc, argv, "rounds", 1);

    if (storm.n > WORKERS_MAX || storm.n_killed > storm.n / 2)
        storm_die("too many workers or victims");
    storm.shared = storm_share(sizeof *storm.shared);
    for (long i = 0; i < rounds; i++) {
        printf("round %ld: %zu processes, %zu of them killed, %s\n", i + 1, storm.n, storm.n_killed,
               storm.by_library ? "library" : "program");
        round_of(&storm, i, i % 3 == 2 || i + 1 == rounds);
        storm.seed++;
    }
    return storm_end("storm_barrier");
}
