/* SPDX-License-Identifier: MIT */
#ifndef DIBS_OWNER_OWNER_H
#define DIBS_OWNER_OWNER_H
/* Who is this process, and is it alive (DESIGN "Life and death")?
 *
 * A process is boot id + pid namespace + pid + start ticks, never wall time. Trouble to look
 * is "unknown", never "dead" (INV-5). */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "dibs/claim.h"

/* uids of a user namespace and what they are in the one above it. Recorded and compared is the uid above: who
 * is root by `unshare -r` is the user that he was. Of namespaces in namespaces the kernel tells one level. */
#define OWNER_EXTENTS_MAX 340
#define OWNER_UID_UNKNOWN UINT32_MAX /* (uid_t) -1: nobody's */
struct owner_extent {
    uint32_t inside, above, n;
};
struct owner_users {
    bool is_initial;   /* uids are the host's */
    uint32_t overflow; /* stands for everybody who has no number here */
    size_t n;
    struct owner_extent extent[OWNER_EXTENTS_MAX];
};
dibs_status owner_users_load(struct owner_users *out, dibs_err *err);
/* UNKNOWN: it has none. */
uint32_t owner_uid_above(const struct owner_users *users, uint32_t uid);
/* The same of a uid that the kernel reports of a process or socket, which may be the overflow uid. */
uint32_t owner_seen_uid(const struct owner_users *users, uint32_t uid);

/* From where we look; loaded once per handle. */
struct owner_view {
    char boot_id[DIBS_BOOT_ID_MAX + 1];
    uint64_t pidns;         /* ours */
    bool is_initial_pidns;  /* every other pid namespace is below ours */
    int64_t boot_offset_ns; /* our time namespace's CLOCK_BOOTTIME minus the host's */
    struct owner_users users;
};

dibs_status owner_view_load(struct owner_view *out, dibs_err *err);

struct owner_facts {
    dibs_process process;
    uint32_t uid; /* effective uid, as seen from above our user namespace */
    int32_t ppid;
    int32_t session;
    char command[DIBS_COMMAND_MAX + 1]; /* comm, control characters replaced by '?' */
};

/* Facts of a living process of our own pid namespace. NOT_FOUND: no such process, or it is
 * dead already (zombie); DENIED: it exists, but we may not look (hidepid). */
dibs_status owner_identify(const struct owner_view *view, pid_t pid, struct owner_facts *out, dibs_err *err);

/* Judge a recorded identity. `why` (may be NULL) gets a short reason, such as "no such process",
 * "start time differs", "another boot", "in a pid namespace that cannot be seen from here". */
dibs_life owner_judge(const struct owner_view *view, const dibs_process *who, char *why, size_t why_size);

/* Our pid of the recorded process (translated from a pid namespace below), or 0. */
pid_t owner_pid_here(const struct owner_view *view, const dibs_process *who);

/* Is `pid` the process `ancestor` or a descendant of it? (Both pids in our namespace.) */
bool owner_descends_from(const struct owner_view *view, pid_t pid, pid_t ancestor);

/* Is its working directory `dir` or below? False when that cannot be told. */
bool owner_works_in(pid_t pid, const char *dir);

/* A variable of the environment that the program of a living process was started with, as its memory has it
 * still: a program may write something else there, such as its title. The caller frees it. NULL: it has none,
 * or that cannot be told (the process has ended, is another's, or cannot be seen from here). */
char *owner_variable(const struct owner_view *view, const dibs_process *who, const char *name);

/* The parser of /proc/PID/stat, apart for its tests: text after the last ')'. */
struct owner_stat {
    char state;
    int32_t ppid;
    int32_t session;
    int64_t num_threads;
    uint64_t start_ticks;
};
bool owner_stat_parse(const char *text, size_t len, struct owner_stat *out);
#endif
