/* SPDX-License-Identifier: MIT */
#ifndef DIBS_RUNS_STOP_H
#define DIBS_RUNS_STOP_H
/* End what `dibs run` has started, also after dibs itself has ended. */
#include "runs/record.h"

enum {
    RUN_GRACE_MS = 10000, /* from the first signal to SIGKILL */
};

struct run_stop {
    const struct run_record *record;
    bool was_running; /* there was a process of it */
    bool was_killed;  /* by SIGKILL */
    bool is_orphan;   /* its dibs has ended before it: nobody has released its claims */
    pid_t left;       /* a process that could not be ended; 0: none */
    dibs_status why;  /* DENIED: we may not signal that process */
};
/* End the processes of these records: SIGTERM to the command, and to each process that it leaves behind,
 * once; SIGKILL to all that are left after RUN_GRACE_MS. Each signal goes to exactly the process that was
 * seen. When dibs still runs, it handles what a command leaves behind, and its end is awaited. The records of
 * commands that have ended are removed. */
dibs_status runs_stop(const char *directory, struct run_stop *all, size_t n, dibs_err *err);
/* If the directory has more records than this, remove those of commands of which no process is left. */
void runs_prune(const char *directory, size_t limit);
#endif
