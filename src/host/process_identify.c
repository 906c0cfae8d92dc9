/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "host/proc_read.h"
#include "host/process.h"

#include "base/banned.h"

/* Deeper chains of parents do not occur; a loop of reused pids must end. */
#define ANCESTORS_MAX 1024

/* The kernel cuts names at 15 bytes, in the middle of a character too: bytes that are not clean UTF-8
 * become '?', or JSON could not carry the name. */
static void copy_command(const char *text, size_t len, char out[DIBS_COMMAND_MAX + 1])
{
    const char *open = memchr(text, '(', len);
    const char *close = memrchr(text, ')', len);
    char name[DIBS_COMMAND_MAX + 1] = "";
    char safe[DIBS_COMMAND_MAX + sizeof "..."];

    if (open && close && close > open)
        (void) snprintf(name, sizeof name, "%.*s", (int) (close - open - 1), open + 1);
    (void) text_copy(out, DIBS_COMMAND_MAX + 1, text_safe(name, safe, sizeof safe));
}

static bool status_number(const char *status, const char *key, int nth, int64_t *out)
{
    const char *p = NULL;
    const char *end = NULL;
    const char *word = NULL;

    if (!proc_status_line(status, key, &p, &end))
        return false;
    for (int i = 0; proc_next_word(&p, end, &word); i++)
        if (i == nth)
            return proc_number(word, p, out);
    return false;
}

static dibs_status not_readable(pid_t pid, int os_errno, dibs_err *err)
{
    if (os_errno == EMFILE || os_errno == ENFILE || os_errno == ENOMEM)
        return err_os(err, DIBS_UNAVAILABLE, os_errno, "process %d cannot be looked at now", pid);
    /* Hidden and gone look alike in /proc; kill() with signal 0 distinguishes them. */
    if (kill(pid, 0) != 0 && errno == ESRCH)
        return err_set(err, DIBS_NOT_FOUND, "there is no process %d", pid);
    return err_os(err, DIBS_DENIED, os_errno, "process %d exists, but may not be looked at", pid);
}

dibs_status process_identify(const struct process_view *view, pid_t pid, struct process_facts *out,
                             dibs_err *err)
{
    char text[PROC_STAT_MAX];
    char status[PROC_STATUS_MAX];
    struct process_facts facts = { 0 };
    struct proc_stat stat = { 0 };
    int64_t tgid = 0;
    int64_t uid = 0;
    int64_t below = 0;

    if (pid <= 0)
        return err_set(err, DIBS_NOT_FOUND, "%d is not the number of a process", pid);
    if (!proc_is_ours())
        return err_set(err, DIBS_FAILURE,
                       "/proc does not belong to our pid namespace, so that process %d "
                       "cannot be looked at",
                       pid);
    AUTO(fd_auto) int dir = proc_open(pid, "", O_PATH | O_DIRECTORY);
    ssize_t n = dir < 0 ? -1 : proc_read_file(dir, "stat", text, sizeof text);
    if (n < 0 || proc_read_file(dir, "status", status, sizeof status) < 0)
        return not_readable(pid, errno, err);
    if (!proc_stat_parse(text, (size_t) n, &stat) || !status_number(status, "Tgid", 0, &tgid) ||
        !status_number(status, "Uid", 1, &uid) || uid < 0 || uid > UINT32_MAX)
        return err_set(err, DIBS_FAILURE, "/proc/%d is not in the kernel's format", pid);
    if (tgid != pid)
        return err_set(err, DIBS_NOT_FOUND, "%d is a thread of process %d, not a process", pid, (int) tgid);
    dibs_life life = proc_life(view, dir, &stat);
    if (life == DIBS_DEAD)
        return err_set(err, DIBS_NOT_FOUND, "process %d has ended already", pid);

    memcpy(facts.process.boot_id, view->boot_id, sizeof facts.process.boot_id);
    facts.process.pidns = view->pidns;
    facts.process.start_ticks = proc_host_ticks(view, stat.start_ticks);
    facts.process.pid = pid;
    facts.uid = pid == getpid() ? uid_map_above(&view->users, (uint32_t) uid)
                                : uid_map_above_seen(&view->users, (uint32_t) uid);
    facts.ppid = stat.ppid;
    facts.session = stat.session;
    facts.is_here = !status_number(status, "NSpid", 1, &below);
    copy_command(text, (size_t) n, facts.command);
    *out = facts;
    return DIBS_OK;
}

static bool look_parent(const struct process_view *view, pid_t pid, struct proc_stat *out)
{
    char path[32];

    (void) snprintf(path, sizeof path, "/proc/%d/stat", pid);
    return proc_stat_read(view, AT_FDCWD, path, out) == PROC_OK;
}

bool process_descends_from(const struct process_view *view, pid_t pid, pid_t ancestor)
{
    struct proc_stat child = { 0 };
    struct proc_stat parent = { 0 };

    if (pid <= 0 || ancestor <= 0 || !proc_is_ours() || !look_parent(view, pid, &child))
        return false;
    for (int i = 0; i < ANCESTORS_MAX; i++) {
        if (pid == ancestor)
            return true;
        if (child.ppid <= 0 || !look_parent(view, child.ppid, &parent))
            return false;
        /* A parent is older than its child: the pid was reused while we walked. */
        if (parent.start_ticks > child.start_ticks + 1)
            return false;
        pid = child.ppid;
        child = parent;
    }
    return false;
}

bool process_works_in(pid_t pid, const char *dir)
{
    char link[48];
    char at[PATH_MAX];
    size_t len = strcmp(dir, "/") == 0 ? 0 : strlen(dir);

    (void) snprintf(link, sizeof link, "/proc/%d/cwd", (int) pid);
    ssize_t n = pid > 0 && proc_is_ours() ? readlink(link, at, sizeof at - 1) : -1;
    if (n < 0 || (size_t) n < len)
        return false;
    at[n] = '\0';
    return strncmp(at, dir, len) == 0 && (at[len] == '/' || at[len] == '\0');
}
