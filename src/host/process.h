/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOST_PROCESS_H
#define DIBS_HOST_PROCESS_H
/* Identity and liveness of processes (docs/INVARIANTS.md, "Liveness").
 *
 * A process is boot id + pid namespace + pid + start ticks, never wall time. An error while looking means
 * "unknown", never "dead" (INV-5). */
#include <sys/types.h>

#include "dibs/claim.h"
#include "host/uid_map.h"

/* Our own namespaces and boot; loaded once per handle. */
struct process_view {
    char boot_id[DIBS_BOOT_ID_MAX + 1];
    uint64_t pidns;         /* ours */
    bool is_initial_pidns;  /* every other pid namespace is below ours */
    int64_t boot_offset_ns; /* our time namespace's CLOCK_BOOTTIME minus the host's */
    struct uid_map users;
};

dibs_status process_view_load(struct process_view *out, dibs_err *err);

struct process_facts {
    dibs_process process;
    uint32_t uid; /* effective uid in the parent of our user namespace */
    int32_t ppid;
    int32_t session;
    bool is_here;                       /* in our own pid namespace, not in one below it */
    char command[DIBS_COMMAND_MAX + 1]; /* comm, control characters replaced by '?' */
};

/* Read the facts of a living process of our own pid namespace. NOT_FOUND: no such process, or a zombie;
 * DENIED: it exists, but we may not look (hidepid). */
dibs_status process_identify(const struct process_view *view, pid_t pid, struct process_facts *out,
                             dibs_err *err);

/* Judge a recorded identity. `why` (may be NULL) becomes a short reason, such as "no such process". */
dibs_life process_judge(const struct process_view *view, const dibs_process *process, const char **why);

/* Return our pid of the recorded process (translated from a pid namespace below), or 0. */
pid_t process_pid_here(const struct process_view *view, const dibs_process *process);

/* Is `pid` the process `ancestor` or a descendant of it? Both pids are in our namespace. */
bool process_descends_from(const struct process_view *view, pid_t pid, pid_t ancestor);

/* Is its working directory `dir` or below? False when unknown. */
bool process_works_in(pid_t pid, const char *dir);

/* What people recognise a process by; each is "" when unknown. */
struct process_details {
    char arguments[DIBS_ARGUMENTS_MAX + 1]; /* its command line, cut if it is longer */
    char unit[DIBS_UNIT_MAX + 1];           /* "nginx.service", "container 4f2a9c1e03b7" */
    char directory[DIBS_DIRECTORY_MAX + 1]; /* where it works */
};
/* Command line and directory are read only with `with_private`: they are nobody else's affair. */
void process_details(pid_t pid, bool with_private, struct process_details *out);
/* Find systemd's unit, or the container, in the text of /proc/PID/cgroup; public for tests and fuzzing. */
void process_unit_parse(const char *cgroups, char *out, size_t size);

/* Write the path of its cgroup v2, "" for the root. UNAVAILABLE: it has none, or not one below ours. */
dibs_status process_cgroup(pid_t pid, char *out, size_t size, dibs_err *err);
/* Is its cgroup called as the last part of this path? The rest may look different from a container. */
bool process_is_in_cgroup(pid_t pid, const char *cgroup);
/* Can it never get more rights by executing a program (PR_SET_NO_NEW_PRIVS)? False when unknown. */
bool process_cannot_gain_rights(pid_t pid);

/* Parse /proc/PID/stat after the last ')'; public for tests. */
struct proc_stat {
    char state;
    int32_t ppid;
    int32_t group; /* process group */
    int32_t session;
    int64_t num_threads;
    uint64_t start_ticks;
};
bool proc_stat_parse(const char *text, size_t len, struct proc_stat *out);
#endif
