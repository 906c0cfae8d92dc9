/* SPDX-License-Identifier: MIT */
#include "host/process_list.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/grow.h"
#include "host/proc_read.h"

#include "base/banned.h"

enum {
    ENVIRON_MAX = 8 << 20, /* above the kernel's usual limit of arguments and environment together */
    PIDS_MAX = 1 << 22,    /* the kernel's limit (PID_MAX_LIMIT) */
    PASSES_MAX = 50,
};

void process_list_free(struct process_list *list)
{
    free(list->all);
    *list = (struct process_list){ 0 };
}

/* Is `mark` one of the words, separated by ':', of this text? */
static bool has_word(const char *text, const char *mark)
{
    size_t len = strlen(mark);

    for (const char *word = text;; word += strcspn(word, ":") + 1) {
        if (strncmp(word, mark, len) == 0 && (word[len] == ':' || !word[len]))
            return true;
        if (!strchr(word, ':'))
            return false;
    }
}

/* Read a whole file of /proc, which has no size; NULL when it cannot be read. The text ends with a NUL. */
static char *read_whole(int dir_fd, const char *name, size_t max, size_t *len)
{
    AUTO(fd_auto) int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    AUTO(free_auto) char *text = NULL;
    size_t size = 8192;
    ssize_t n = 1;

    *len = 0;
    while (fd >= 0 && n > 0 && *len < max) {
        if (!text || *len + 1 == size) {
            size *= 2;
            char *more = realloc(text, size);
            if (!more)
                return NULL;
            text = more;
        }
        n = read(fd, text + *len, size - 1 - *len);
        if (n < 0)
            return NULL;
        *len += (size_t) n;
    }
    if (text)
        text[*len] = '\0';
    return TAKE(text);
}

/* *is_empty: nothing could be read, as of a process that ends right now. */
static bool is_marked(int dir_fd, const char *variable, const char *mark, bool *is_empty)
{
    size_t len = 0;
    AUTO(free_auto) char *text = read_whole(dir_fd, "environ", ENVIRON_MAX, &len);
    size_t n = strlen(variable);

    *is_empty = len == 0;
    if (!text)
        return false;
    for (size_t at = 0; at < len; at += strlen(text + at) + 1)
        if (strncmp(text + at, variable, n) == 0 && text[at + n] == '=' && has_word(text + at + n + 1, mark))
            return true;
    return false;
}

static bool is_living(const struct proc_stat *stat)
{
    return stat->state != 'Z' && stat->state != 'X';
}

/* One pass over /proc. */
struct pass {
    const struct process_view *view;
    const char *variable, *mark;
    unsigned char *seen; /* bits of the pids that were looked at */
    struct process_list *out;
    size_t n_ended; /* in this pass, also zombies, and processes whose environment could not be read */
};

/* Look at a process, once. False: out of memory. */
static bool look_at(struct pass *pass, pid_t pid)
{
    struct process_list *list = pass->out;
    unsigned char bit = (unsigned char) (1u << (pid & 7));

    if (pid >= PIDS_MAX || (pass->seen[pid >> 3] & bit))
        return true;
    pass->seen[pid >> 3] |= bit;
    AUTO(fd_auto) int dir = proc_open(pid, "", O_PATH | O_DIRECTORY);
    struct proc_stat stat = { 0 };
    enum proc_result result = dir < 0 ? proc_trouble(errno) : proc_stat_read(pass->view, dir, "stat", &stat);
    bool is_empty = false;

    if (result != PROC_OK || !is_living(&stat)) {
        pass->n_ended += result == PROC_OK || result == PROC_GONE;
        return true;
    }
    bool is_member = pass->mark && is_marked(dir, pass->variable, pass->mark, &is_empty);
    pass->n_ended += is_empty;
    if (!grow((void **) &list->all, list->n, &list->max, sizeof *list->all))
        return false;
    list->all[list->n++] = (struct process_entry){ .pid = pid,
                                                   .ppid = stat.ppid,
                                                   .group = stat.group,
                                                   .start_ticks = stat.start_ticks,
                                                   .is_marked = is_member };
    return true;
}

dibs_status process_list_read(const struct process_view *view, const char *variable, const char *mark,
                              struct process_list *out, dibs_err *err)
{
    AUTO(process_list_free) struct process_list list = { 0 };
    AUTO(free_auto) unsigned char *seen = calloc(PIDS_MAX / 8, 1);
    struct pass pass = { view, variable, mark, seen, &list, 1 };

    if (!proc_is_ours())
        return err_set(err, DIBS_FAILURE, "/proc does not show the processes of our pid namespace");
    /* A process that ended before it was looked at may have a child that /proc did not list yet: look again
     * for new ones. */
    for (int n = 0; n < PASSES_MAX && pass.n_ended > 0; n++) {
        AUTO(dir_auto) DIR *proc = seen ? proc_open_dir(AT_FDCWD, "/proc") : NULL;

        if (!proc)
            return err_set(err, DIBS_FAILURE, "cannot list /proc");
        pass.n_ended = 0;
        for (pid_t pid = proc_next_pid(proc); pid > 0; pid = proc_next_pid(proc))
            if (!look_at(&pass, pid))
                return err_set(err, DIBS_FAILURE, "out of memory");
    }
    list.n_ended = pass.n_ended;
    *out = list;
    list.all = NULL;
    return DIBS_OK;
}

dibs_status process_signal(const struct process_view *view, pid_t pid, uint64_t start_ticks, int sig,
                           dibs_err *err)
{
    /* The pidfd is one process for good; whether it is the right one shows the time of its start. */
    AUTO(fd_auto) int fd = pidfd_open(pid, 0);
    AUTO(fd_auto) int dir = fd < 0 ? -1 : proc_open(pid, "", O_PATH | O_DIRECTORY);
    struct proc_stat stat = { 0 };

    if (fd < 0 || dir < 0 || proc_stat_read(view, dir, "stat", &stat) != PROC_OK ||
        stat.start_ticks != start_ticks || !is_living(&stat))
        return err_set(err, DIBS_NOT_FOUND, "process %d has ended", (int) pid);
    if (pidfd_send_signal(fd, sig, NULL, 0) == 0)
        return DIBS_OK;
    return errno == ESRCH ? err_set(err, DIBS_NOT_FOUND, "process %d has ended", (int) pid)
                          : err_os(err, errno == EPERM ? DIBS_DENIED : DIBS_FAILURE, errno,
                                   "cannot signal process %d", (int) pid);
}

bool process_is_there(const struct process_view *view, pid_t pid, uint64_t start_ticks)
{
    AUTO(fd_auto) int dir = proc_open(pid, "", O_PATH | O_DIRECTORY);
    struct proc_stat stat = { 0 };

    return dir >= 0 && proc_stat_read(view, dir, "stat", &stat) == PROC_OK && stat.start_ticks == start_ticks;
}

bool process_ignores(pid_t pid, int sig)
{
    AUTO(fd_auto) int dir = proc_open(pid, "", O_PATH | O_DIRECTORY);
    char status[PROC_STATUS_MAX];
    const char *value = NULL;
    const char *end = NULL;

    if (dir < 0 || proc_read_file(dir, "status", status, sizeof status) < 0 ||
        !proc_status_line(status, "SigIgn", &value, &end))
        return false;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    uint64_t mask = 0;
    for (; value < end; value++) {
        const char *digit = strchr("0123456789abcdef", *value);

        if (!digit || !*digit)
            return false;
        mask = mask << 4 | (uint64_t) (digit - "0123456789abcdef");
    }
    return sig > 0 && sig <= 64 && mask >> (sig - 1) & 1;
}
