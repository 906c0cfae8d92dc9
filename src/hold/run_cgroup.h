/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOLD_RUN_CGROUP_H
#define DIBS_HOLD_RUN_CGROUP_H
/* A cgroup for the command of each `dibs run`: a process that leaves its parents (a daemon) stays in it, so
 * that the kernel's programs still know whose it is.
 *
 * It is made below the cgroup that the process is in, named after the process, and removed when its last
 * process has ended. Cgroups of an earlier daemon are found again by their name. */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "dibs/claim.h"

struct run_cgroups;

/* What the kernel's programs compare: the cgroup's number, and its depth below the root. */
struct run_cgroup {
    uint64_t id;
    uint32_t level;
};

/* Find the cgroups of an earlier daemon below `root`, where cgroup v2 is mounted. */
dibs_status run_cgroups_open(const char *root, struct run_cgroups **out, dibs_err *err);
/* Remove the cgroups without a process, and free the rest of the memory. NULL is fine. */
void run_cgroups_close(struct run_cgroups *cgroups);

/* Make a cgroup for the process and move it there. The move takes some milliseconds and goes on after the
 * return: *path (relative to the root, RUN_CGROUP_PATH_MAX) is in /proc/PID/cgroup when it is done. A process
 * that has one already keeps it. UNAVAILABLE: the kernel refuses, or there are too many; then there is no new
 * one. An ordinary user may have a quarter of all, so that no user takes them from the others. */
enum { RUN_CGROUP_PATH_MAX = 1023, RUN_CGROUPS_MAX = 4096, RUN_CGROUPS_USER_MAX = RUN_CGROUPS_MAX / 4 };
dibs_status run_cgroup_make(struct run_cgroups *cgroups, const dibs_process *process, uint32_t uid,
                            char path[RUN_CGROUP_PATH_MAX + 1], dibs_err *err);
/* Return the cgroup that was made for the process; false: none. */
bool run_cgroup_of(const struct run_cgroups *cgroups, const dibs_process *process, struct run_cgroup *out);

/* Open the directory of that cgroup; -1: none. */
int run_cgroup_open(const struct run_cgroups *cgroups, const dibs_process *process);

/* Remove the cgroups in which no process is left. To be called every second or so, while there are any. */
void run_cgroups_clean(struct run_cgroups *cgroups);
size_t run_cgroups_count(const struct run_cgroups *cgroups);
#endif
