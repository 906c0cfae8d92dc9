/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOST_PROC_READ_H
#define DIBS_HOST_PROC_READ_H
/* Read /proc, for the files of host/ only: files, directories, links, and the state of a process. */
#include <dirent.h>
#include <sys/types.h>

#include "host/process.h"

/* Inodes of the initial namespaces: fixed, part of the kernel's ABI since 3.8 (time: 5.6). */
#define PROC_INITIAL_TIMENS 0xEFFFFFFAu
#define PROC_INITIAL_PIDNS 0xEFFFFFFCu
#define PROC_INITIAL_USERNS 0xEFFFFFFDu

/* Longest stat line: 52 numbers of at most 20 digits and a 64-byte name. */
#define PROC_STAT_MAX 2048
/* Enough of /proc/PID/status to include its NSpid line. */
#define PROC_STATUS_MAX 4096

/* GONE includes hidden: with hidepid=2 another user's process looks like none. */
enum proc_result { PROC_OK, PROC_GONE, PROC_DENIED, PROC_DAMAGED };

static inline void dir_auto(DIR **dir)
{
    if (*dir)
        (void) closedir(*dir);
}

/* Open /proc/PID, or a file below it ("/ns/pid"); -1 and errno. Reads below an open directory stay with one
 * process when the pid is reused. */
int proc_open(pid_t pid, const char *below, int flags);
/* Read the first `size - 1` bytes of a file, NUL-terminated; -1 and errno when it cannot be read. */
ssize_t proc_read_file(int dir_fd, const char *name, char *buf, size_t size);

/* Classify an errno of /proc: GONE or DENIED. */
enum proc_result proc_trouble(int os_errno);

/* Open a directory; NULL and errno when it cannot be opened. The caller closes it. */
DIR *proc_open_dir(int dir_fd, const char *name);
/* Return the next numeric name of a directory, valid until the next call; NULL at the end. */
const char *proc_next_number(DIR *dir);
/* The same for pids; 0 at the end. */
pid_t proc_next_pid(DIR *dir);

/* Return the inode of a link such as "pid:[123]"; 0 and errno when it cannot be read or is no such link. */
uint64_t proc_link_inode(int dir_fd, const char *name, const char *kind);

/* Read DIR/stat below an open directory of /proc; start ticks are converted to the host's clock. */
enum proc_result proc_stat_read(const struct process_view *view, int dir_fd, const char *name,
                                struct proc_stat *out);

/* The NSpid line of DIR/status: a process's pids from our namespace (that of /proc) down to its own. */
struct proc_pids {
    int depth; /* number of pids; 1: it is in our own namespace */
    int64_t innermost;
};
enum proc_result proc_pids(int pid_dir_fd, struct proc_pids *out);

/* Has the process of this pidfd ended, all its threads included? */
bool proc_pidfd_ended(int pidfd);

/* Does /proc belong to our own pid namespace? If not, its numbers are not our pids. */
bool proc_is_ours(void);

/* May we inspect every process that /proc lists (CAP_SYS_PTRACE in the initial user namespace)? */
bool proc_may_inspect_all(void);

/* Does /proc list for us every process of our pid namespace and below? */
bool proc_shows_every_process(void);

/* Convert start ticks to the clock of the initial time namespace. */
uint64_t proc_host_ticks(const struct process_view *view, uint64_t ticks);

/* Find the next word, [*word, *p); *p moves behind it. Return false at the end. */
bool proc_next_word(const char **p, const char *end, const char **word);

/* Parse a decimal number with an optional sign that fills [text, end). */
bool proc_number(const char *text, const char *end, int64_t *out);

/* Find the value of "\nKEY:" in a status file: [*value, *end) is the rest of its line. */
bool proc_status_line(const char *status, const char *key, const char **value, const char **end);
#endif
