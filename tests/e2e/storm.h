/* SPDX-License-Identifier: MIT */
#ifndef DIBS_TESTS_STORM_H
#define DIBS_TESTS_STORM_H
/* Shared by the storms: a seed that is printed, children that are ended by their number, real sockets, the
 * program as a child, and the ledger seen from outside.
 *
 * A storm is run as  storm_NAME KEY=NUMBER...  with $DIBS (the program) and $DIBS_LEDGER set. It prints its
 * counts and exits with 1 after a violation. SEED=N repeats a run as far as the scheduler lets it. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "dibs/dibs.h"

/* Ends the storm: for what makes going on pointless. */
__attribute__((format(printf, 1, 2), noreturn)) void storm_die(const char *format, ...);
/* A violation: printed and counted, the storm goes on. */
__attribute__((format(printf, 1, 2))) void storm_violation(const char *format, ...);
/* Prints the verdict: the exit code. */
int storm_end(const char *what);

/* Reads KEY=NUMBER from the arguments. */
long storm_number(int argc, char **argv, const char *key, long otherwise);

/* Prints the seed, and enters a network namespace of its own where it may: a stranger who takes a port
 * between a claim and its bind is nothing that an allocator could prevent. */
uint64_t storm_begin(const char *name);
bool storm_has_own_network(void);

/* A generator for each process, made from the seed and a number. */
struct storm_random {
    uint64_t state;
};
struct storm_random storm_random_of(uint64_t seed, uint64_t number);
uint32_t storm_below(struct storm_random *random, uint32_t n);

int64_t storm_now_ns(void); /* CLOCK_BOOTTIME */
void storm_sleep_us(long us);
/* Only be there, until somebody ends us, so many seconds at most. */
_Noreturn void storm_stay(unsigned seconds);
void *storm_share(size_t bytes); /* zeroed, seen by all children */

/* A child that ends with us; in it the call returns 0. */
pid_t storm_fork(void);
/* Its exit code, or 128 + signal. */
int storm_wait(pid_t pid);
void storm_kill(pid_t pid);

/* The program, its arguments up to NULL. */
struct storm_run {
    int code;
    int64_t wall_ns;
    char out[8192]; /* what is more is dropped */
    char err[2048];
};
enum { STORM_ARGS_MAX = 24 };
struct storm_child {
    pid_t pid;
    int out, err;
    int64_t start_ns;
};
struct storm_child storm_spawn(const char *const *args);
void storm_finish(struct storm_child *child, struct storm_run *run);
void storm_dibs(struct storm_run *run, const char *const *args);
#define STORM_DIBS(run, ...) storm_dibs((run), (const char *const[]){ __VA_ARGS__, NULL })

/* Bound and, for TCP, listening; else -1 with errno. */
int storm_listen(const dibs_binding *binding, uint16_t port);

/* A handle on the ledger of $DIBS_LEDGER, strict. */
dibs *storm_open(void);

/* One number from the ledger file, read from outside. */
int64_t storm_sql(const char *sql);
/* The file itself, and claims, slots, names and events against each other. */
void storm_check_ledger(const char *when);
const char *storm_ledger_path(void);
#endif
