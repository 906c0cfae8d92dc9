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
#include "owner/look.h"
#include "owner/owner.h"

#include "base/banned.h"

/* Deeper chains of parents do not occur; a loop of reused pids must end. */
#define ANCESTORS_MAX 1024

static int open_process(pid_t pid)
{
    char path[32];

    /* Everything is read below this directory: it stays with one process when the pid is reused. */
    (void) snprintf(path, sizeof path, "/proc/%d", pid);
    return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* Bytes of the well-formed UTF-8 character at `p`, 0 if there is none or it is a control character. */
static size_t printable(const unsigned char *p, size_t len)
{
    uint32_t code = p[0];
    size_t n = p[0] < 0x80 ? 1 : p[0] < 0xC2 ? 0 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : p[0] < 0xF5 ? 4 : 0;

    if (n == 0 || n > len)
        return 0;
    if (n > 1)
        code &= 0x7Fu >> n;
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xC0) != 0x80)
            return 0;
        code = code << 6 | (p[i] & 0x3F);
    }
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    bool is_control = code < 0x20 || (code >= 0x7F && code < 0xA0);
    bool is_wrong = code < least[n] || (code >= 0xD800 && code < 0xE000) || code > 0x10FFFF;
    return is_control || is_wrong ? 0 : n;
}

/* The kernel cuts names at 15 bytes, in the middle of a character too: what is not clean UTF-8
 * becomes '?', or JSON could not carry it. */
static void copy_command(const char *text, size_t len, char out[DIBS_COMMAND_MAX + 1])
{
    const char *open = memchr(text, '(', len);
    const char *close = memrchr(text, ')', len);
    size_t used = 0;

    if (open && close && close > open) {
        const unsigned char *p = (const unsigned char *) open + 1;
        size_t left = (size_t) (close - open) - 1;

        while (left > 0) {
            size_t n = printable(p, left);
            size_t step = n ? n : 1;

            if (used + step > DIBS_COMMAND_MAX)
                break;
            memcpy(out + used, n ? (const char *) p : "?", step);
            used += step;
            p += step;
            left -= step;
        }
    }
    out[used] = '\0';
}

static bool status_number(const char *status, const char *key, int nth, int64_t *out)
{
    const char *p = NULL;
    const char *end = NULL;

    if (!look_status_line(status, key, &p, &end))
        return false;
    for (int i = 0;; i++) {
        while (p < end && (*p == ' ' || *p == '\t'))
            p++;
        const char *start = p;
        while (p < end && *p != ' ' && *p != '\t')
            p++;
        if (i == nth || p == start)
            return look_number(start, p, out);
    }
}

static dibs_status not_readable(pid_t pid, enum look seen, int os_errno, dibs_err *err)
{
    if (seen == LOOK_DAMAGED)
        return err_set(err, DIBS_FAILURE, "/proc/%d is not in the kernel's format", pid);
    if (os_errno == EMFILE || os_errno == ENFILE || os_errno == ENOMEM)
        return err_os(err, DIBS_UNAVAILABLE, os_errno, "process %d cannot be looked at now", pid);
    /* Hidden and gone look alike in /proc; a signal that is not sent tells them apart. */
    if (kill(pid, 0) != 0 && errno == ESRCH)
        return err_set(err, DIBS_NOT_FOUND, "there is no process %d", pid);
    return err_os(err, DIBS_DENIED, os_errno, "process %d exists, but may not be looked at", pid);
}

dibs_status owner_identify(const struct owner_view *view, pid_t pid, struct owner_facts *out, dibs_err *err)
{
    char text[LOOK_STAT_MAX];
    char status[LOOK_STATUS_MAX];
    struct owner_facts facts = { 0 };
    struct owner_stat stat = { 0 };
    int64_t tgid = 0;
    int64_t uid = 0;

    if (pid <= 0)
        return err_set(err, DIBS_NOT_FOUND, "%d is not the number of a process", pid);
    if (!look_proc_is_ours())
        return err_set(err, DIBS_FAILURE,
                       "/proc does not belong to our pid namespace, so that process %d "
                       "cannot be looked at",
                       pid);
    AUTO(fd_auto) int dir = open_process(pid);
    ssize_t n = dir < 0 ? -1 : look_file(dir, "stat", text, sizeof text);
    if (n < 0 || look_file(dir, "status", status, sizeof status) < 0)
        return not_readable(pid, LOOK_DENIED, errno, err);
    if (!owner_stat_parse(text, (size_t) n, &stat) || !status_number(status, "Tgid", 0, &tgid) ||
        !status_number(status, "Uid", 1, &uid) || uid < 0 || uid > UINT32_MAX)
        return not_readable(pid, LOOK_DAMAGED, 0, err);
    if (tgid != pid)
        return err_set(err, DIBS_NOT_FOUND, "%d is a thread of process %d, not a process", pid, (int) tgid);
    dibs_life life = look_life(view, dir, &stat);
    if (life == DIBS_DEAD)
        return err_set(err, DIBS_NOT_FOUND, "process %d has ended already", pid);

    memcpy(facts.process.boot_id, view->boot_id, sizeof facts.process.boot_id);
    facts.process.pidns = view->pidns;
    facts.process.start_ticks = look_host_ticks(view, stat.start_ticks);
    facts.process.pid = pid;
    facts.uid = pid == getpid() ? owner_uid_above(&view->users, (uint32_t) uid)
                                : owner_seen_uid(&view->users, (uint32_t) uid);
    facts.ppid = stat.ppid;
    facts.session = stat.session;
    copy_command(text, (size_t) n, facts.command);
    *out = facts;
    return DIBS_OK;
}

static bool look_parent(const struct owner_view *view, pid_t pid, struct owner_stat *out)
{
    char path[32];

    (void) snprintf(path, sizeof path, "/proc/%d/stat", pid);
    return look_stat(view, AT_FDCWD, path, out) == LOOK_OK;
}

bool owner_descends_from(const struct owner_view *view, pid_t pid, pid_t ancestor)
{
    struct owner_stat child = { 0 };
    struct owner_stat parent = { 0 };

    if (pid <= 0 || ancestor <= 0 || !look_proc_is_ours() || !look_parent(view, pid, &child))
        return false;
    for (int i = 0; i < ANCESTORS_MAX; i++) {
        if (pid == ancestor)
            return true;
        if (child.ppid <= 0 || !look_parent(view, child.ppid, &parent))
            return false;
        /* A parent is older than its child: this pid has changed hands while we walked. */
        if (parent.start_ticks > child.start_ticks + 1)
            return false;
        pid = child.ppid;
        child = parent;
    }
    return false;
}

bool owner_works_in(pid_t pid, const char *dir)
{
    char link[48];
    char at[PATH_MAX];
    size_t len = strcmp(dir, "/") == 0 ? 0 : strlen(dir);

    (void) snprintf(link, sizeof link, "/proc/%d/cwd", (int) pid);
    ssize_t n = pid > 0 && look_proc_is_ours() ? readlink(link, at, sizeof at - 1) : -1;
    if (n < 0 || (size_t) n < len)
        return false;
    at[n] = '\0';
    return strncmp(at, dir, len) == 0 && (at[len] == '/' || at[len] == '\0');
}
