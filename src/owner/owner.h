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

/* From where we look; loaded once per handle. */
struct owner_view {
    char boot_id[DIBS_BOOT_ID_MAX + 1];
    uint64_t pidns;         /* ours */
    bool is_initial_pidns;  /* every other pid namespace is below ours */
    int64_t boot_offset_ns; /* our time namespace's CLOCK_BOOTTIME minus the host's */
};

dibs_status owner_view_load(struct owner_view *out, dibs_err *err);

struct owner_facts {
    dibs_process process;
    uint32_t uid; /* effective uid */
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
