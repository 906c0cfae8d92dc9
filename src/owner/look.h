/* SPDX-License-Identifier: MIT */
#ifndef DIBS_OWNER_LOOK_H
#define DIBS_OWNER_LOOK_H
/* Inside the room: how /proc is looked at. No policy, no verdicts. */
#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "owner/owner.h"

/* Longest stat line: 52 numbers of at most 20 digits and a 64-byte name. */
#define LOOK_STAT_MAX 2048
/* /proc/PID/status, up to and far beyond its NSpid line. */
#define LOOK_STATUS_MAX 4096

/* GONE covers "hidden" too: with hidepid=2 a foreign process looks like none at all. */
enum look { LOOK_OK, LOOK_GONE, LOOK_DENIED, LOOK_DAMAGED };

static inline void dir_auto(DIR **dir)
{
    if (*dir)
        (void) closedir(*dir);
}

/* The first `size - 1` bytes of a file, NUL-terminated; -1 and errno when it cannot be read. */
ssize_t look_file(int dir_fd, const char *name, char *buf, size_t size);

/* What kind of trouble an errno of /proc means. */
enum look look_trouble(int os_errno);

/* DIR/stat below an open directory of /proc; start ticks made those of the host's clock. */
enum look look_stat(const struct owner_view *view, int dir_fd, const char *name, struct owner_stat *out);

/* Has the process ended, threads included? A leader that left while its threads run on looks
 * like a zombie: only its threads can tell. LIFE is ALIVE, DEAD or UNKNOWN. */
dibs_life look_life(const struct owner_view *view, int pid_dir_fd, const struct owner_stat *stat);

/* Next numeric name of a directory of /proc, 0 at its end. */
pid_t look_next_pid(DIR *dir);

/* The NSpid line of DIR/status: a process' pids from our namespace (that of /proc) down to its own. */
struct look_pids {
    int depth; /* how many; 1: it is in our own namespace */
    int64_t innermost;
};
enum look look_pids(int pid_dir_fd, struct look_pids *out);

/* Has the process of this pidfd ended, all its threads included? */
bool look_pidfd_ended(int pidfd);

/* inode of a namespace link such as "self/ns/pid"; 0 and errno when it cannot be told. */
uint64_t look_namespace(int dir_fd, const char *name);

/* Is /proc that of our own pid namespace? If not, its numbers are not our pids. */
bool look_proc_is_ours(void);

/* Does /proc list every process of our pid namespace and below, for us? */
bool look_sees_every_process(void);

/* Start ticks as a reader in the initial time namespace sees them. */
uint64_t look_host_ticks(const struct owner_view *view, uint64_t ticks);

/* A decimal number with optional sign that must be the whole of [text, end). */
bool look_number(const char *text, const char *end, int64_t *out);

/* The value of "\nKEY:" in a status file: [*value, *end) is the rest of its line. */
bool look_status_line(const char *status, const char *key, const char **value, const char **end);
#endif
