/* SPDX-License-Identifier: MIT */
/* Processes: our namespaces, identity, and liveness. */
#include "host/process.h"

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

#include "base/banned.h"

#define NS_PER_S 1000000000

static dibs_status load_boot_id(struct process_view *view, dibs_err *err)
{
    char text[DIBS_BOOT_ID_MAX + 2];
    ssize_t n = proc_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", text, sizeof text);

    if (n < 0)
        return err_os(err, DIBS_FAILURE, errno, "cannot read the boot id in /proc/sys/kernel/random/boot_id");
    text[strcspn(text, "\n")] = '\0';
    if (!text_is_boot_id(text))
        return err_set(err, DIBS_FAILURE, "/proc/sys/kernel/random/boot_id does not hold a boot id");
    memcpy(view->boot_id, text, sizeof view->boot_id);
    return DIBS_OK;
}

/* Parse "boottime  SECONDS  NANOSECONDS"; seconds may be negative. */
static bool parse_boottime_offset(const char *text, int64_t *out_ns)
{
    const char *p = strstr(text, "boottime");
    const char *end = text + strlen(text);
    const char *word = NULL;
    int64_t seconds = 0;
    int64_t ns = 0;

    return p && proc_next_word(&p, end, &word) && proc_next_word(&p, end, &word) &&
           proc_number(word, p, &seconds) && proc_next_word(&p, end, &word) && proc_number(word, p, &ns) &&
           !__builtin_mul_overflow(seconds, (int64_t) NS_PER_S, &seconds) &&
           !__builtin_add_overflow(seconds, ns, out_ns);
}

static dibs_status load_boot_offset(struct process_view *view, dibs_err *err)
{
    char text[256];
    uint64_t ours = proc_link_inode(AT_FDCWD, "/proc/self/ns/time", "time");

    view->boot_offset_ns = 0;
    /* No link: a kernel without time namespaces. */
    if (ours == PROC_INITIAL_TIMENS || (ours == 0 && errno == ENOENT))
        return DIBS_OK;
    /* The file shows the namespace of our future children, which need not be ours. */
    if (ours == 0 || proc_link_inode(AT_FDCWD, "/proc/self/ns/time_for_children", "time") != ours)
        return err_set(err, DIBS_FAILURE, "the clock offset of this time namespace is not known");
    if (proc_read_file(AT_FDCWD, "/proc/self/timens_offsets", text, sizeof text) < 0)
        return errno == ENOENT ? DIBS_OK
                               : err_os(err, DIBS_FAILURE, errno, "cannot read /proc/self/timens_offsets");
    if (!parse_boottime_offset(text, &view->boot_offset_ns))
        return err_set(err, DIBS_FAILURE, "/proc/self/timens_offsets is not in the kernel's format");
    return DIBS_OK;
}

dibs_status process_view_load(struct process_view *out, dibs_err *err)
{
    struct process_view view = { .pidns = proc_link_inode(AT_FDCWD, "/proc/self/ns/pid", "pid") };

    if (view.pidns == 0)
        return err_os(err, DIBS_FAILURE, errno, "cannot read our pid namespace from /proc/self/ns/pid");
    view.is_initial_pidns = view.pidns == PROC_INITIAL_PIDNS;
    dibs_status s = load_boot_id(&view, err);
    if (s == DIBS_OK)
        s = load_boot_offset(&view, err);
    if (s == DIBS_OK)
        s = uid_map_load(&view.users, err);
    if (s == DIBS_OK)
        *out = view;
    return s;
}

/* ---- identity ---- */

/* Bounds the walk: deeper chains do not occur, and reused pids could form a loop. */
#define ANCESTORS_MAX 1024

static bool is_gone(pid_t pid)
{
    return kill(pid, 0) != 0 && errno == ESRCH;
}

/* Copy a command name. The kernel cuts names at 15 bytes, possibly inside a character: bytes that are not
 * valid UTF-8 become '?', because JSON could not carry them. */
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
    if (is_gone(pid))
        return err_set(err, DIBS_NOT_FOUND, "there is no process %d", pid);
    return err_os(err, DIBS_DENIED, os_errno, "process %d exists, but may not be looked at", pid);
}

static bool is_ended(char state)
{
    return state == 'Z' || state == 'X' || state == 'x';
}

/* Has the process ended, threads included? A leader that has exited while its threads run looks like a
 * zombie, so the state of each thread decides. Returns ALIVE, DEAD or UNKNOWN. */
static dibs_life life_of(const struct process_view *view, int pid_dir_fd, const struct proc_stat *stat)
{
    if (!is_ended(stat->state))
        return DIBS_ALIVE;
    if (stat->num_threads <= 1)
        return DIBS_DEAD;

    /* Dead threads of a traced process are counted as well: check each. */
    AUTO(dir_auto) DIR *dir = proc_open_dir(pid_dir_fd, "task");
    if (!dir)
        return proc_trouble(errno) == PROC_GONE ? DIBS_DEAD : DIBS_UNKNOWN;

    dibs_life life = DIBS_DEAD;
    for (pid_t tid = proc_next_pid(dir); tid; tid = proc_next_pid(dir)) {
        struct proc_stat thread = { 0 };
        char name[32];

        (void) snprintf(name, sizeof name, "%d/stat", tid);
        enum proc_result seen = proc_stat_read(view, dirfd(dir), name, &thread);
        if (seen == PROC_OK && !is_ended(thread.state))
            return DIBS_ALIVE;
        if (seen == PROC_DENIED || seen == PROC_DAMAGED)
            life = DIBS_UNKNOWN;
    }
    return life;
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
    dibs_life life = life_of(view, dir, &stat);
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
        /* A parent is older than its child: otherwise the pid was reused during the walk. */
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

/* ---- liveness: DEAD needs proof, everything uncertain is UNKNOWN (INV-5) ---- */

struct verdict {
    dibs_life life;
    pid_t pid; /* in our namespace, when alive */
    const char *why;
};

enum same { SAME, MAYBE_SAME, OTHER };

/* Compare start times. One tick apart is undecided: a record from a time namespace whose offset is not a
 * whole number of ticks was rounded, and a pid is not reused within 10 ms. */
static enum same compare_ticks(uint64_t a, uint64_t b)
{
    uint64_t apart = a > b ? a - b : b - a;

    return apart == 0 ? SAME : apart == 1 ? MAYBE_SAME : OTHER;
}

/* Judge a process that has the recorded pid; `dir` is its open directory. */
static struct verdict judge_found(const struct process_view *view, const dibs_process *process, int dir,
                                  pid_t pid, const struct proc_stat *stat)
{
    dibs_life life = life_of(view, dir, stat);

    /* If the zombie is another process, the pid was reused: dead either way. */
    if (life == DIBS_DEAD)
        return (struct verdict){ DIBS_DEAD, 0, "ended, not yet reaped by its parent" };
    switch (compare_ticks(stat->start_ticks, process->start_ticks)) {
    case OTHER: return (struct verdict){ DIBS_DEAD, 0, "start time differs, the pid was reused" };
    case MAYBE_SAME: return (struct verdict){ DIBS_UNKNOWN, 0, "start time differs by one clock tick only" };
    case SAME: break;
    }
    if (life == DIBS_UNKNOWN)
        return (struct verdict){ DIBS_UNKNOWN, 0, "its threads may not be looked at" };
    return (struct verdict){ DIBS_ALIVE, pid, "running" };
}

static struct verdict judge_here(const struct process_view *view, const dibs_process *process)
{
    char path[32];
    struct proc_stat stat = { 0 };

    if (is_gone(process->pid))
        return (struct verdict){ DIBS_DEAD, 0, "no such process" };
    (void) snprintf(path, sizeof path, "/proc/%d/stat", process->pid);
    enum proc_result seen = proc_stat_read(view, AT_FDCWD, path, &stat);
    /* The usual case costs one signal check and one read. */
    if (seen == PROC_OK && stat.start_ticks == process->start_ticks && strchr("RSDTtWKPI", stat.state))
        return (struct verdict){ DIBS_ALIVE, process->pid, "running" };

    /* From here on the answer may be "dead", which needs our own /proc as proof. */
    if (!proc_is_ours())
        return (struct verdict){ DIBS_UNKNOWN, 0, "/proc does not belong to our pid namespace" };
    if (seen == PROC_OK) {
        AUTO(fd_auto) int dir = proc_open(process->pid, "", O_PATH | O_DIRECTORY);

        return judge_found(view, process, dir, process->pid, &stat);
    }
    if (is_gone(process->pid))
        return (struct verdict){ DIBS_DEAD, 0, "no such process" };
    return (struct verdict){ DIBS_UNKNOWN, 0,
                             seen == PROC_DAMAGED ? "its /proc entry cannot be understood"
                                                  : "it exists, but may not be looked at" };
}

/* A walk over /proc for a process of another pid namespace. */
struct walk {
    const struct process_view *view;
    const dibs_process *process;
    int proc_fd;
    bool is_complete;    /* every process could be read */
    bool sees_namespace; /* some process lives in that namespace, so it is below ours */
    bool is_uncertain;
    struct verdict found; /* pid 0 and why NULL: not found */
};

static void note_trouble(struct walk *w, enum proc_result seen)
{
    if (seen == PROC_DENIED || seen == PROC_DAMAGED)
        w->is_complete = false;
}

/* Is this process, which has the recorded start time, the recorded one? */
static void examine(struct walk *w, int dir, pid_t pid, const struct proc_stat *stat)
{
    struct proc_pids pids = { 0 };
    enum proc_result seen = proc_pids(dir, &pids);

    note_trouble(w, seen);
    /* A single number means our own namespace. */
    if (seen != PROC_OK || pids.depth < 2 || pids.innermost != w->process->pid)
        return;
    uint64_t pidns = proc_link_inode(dir, "ns/pid", "pid");
    if (pidns == 0) {
        /* All visible facts match. A zombie is dead, whichever process it is. */
        if (proc_trouble(errno) != PROC_GONE && life_of(w->view, dir, stat) != DIBS_DEAD)
            w->is_uncertain = true;
        return;
    }
    if (pidns == w->process->pidns)
        w->found = judge_found(w->view, w->process, dir, pid, stat);
}

static void visit(struct walk *w, pid_t pid)
{
    char name[32];
    struct proc_stat stat = { 0 };

    (void) snprintf(name, sizeof name, "%d", pid);
    AUTO(fd_auto) int dir = openat(w->proc_fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    enum proc_result seen = dir < 0 ? proc_trouble(errno) : proc_stat_read(w->view, dir, "stat", &stat);
    note_trouble(w, seen);
    if (seen != PROC_OK)
        return;
    /* Every namespace is below the initial one: it need not be seen. */
    if (!w->view->is_initial_pidns && !w->sees_namespace &&
        proc_link_inode(dir, "ns/pid", "pid") == w->process->pidns)
        w->sees_namespace = true;
    /* Every user may read the start time, and it decides: inodes and pids are reused, start times are not. */
    if (compare_ticks(stat.start_ticks, w->process->start_ticks) != OTHER)
        examine(w, dir, pid, &stat);
}

static struct verdict judge_below(const struct process_view *view, const dibs_process *process)
{
    struct walk w = { .view = view, .process = process, .is_complete = true };

    if (!proc_is_ours())
        return (struct verdict){ DIBS_UNKNOWN, 0, "/proc does not belong to our pid namespace" };
    AUTO(dir_auto) DIR *dir = opendir("/proc");
    if (!dir)
        return (struct verdict){ DIBS_UNKNOWN, 0, "/proc cannot be read" };
    w.proc_fd = dirfd(dir);
    for (pid_t pid = proc_next_pid(dir); pid && !w.found.why; pid = proc_next_pid(dir))
        visit(&w, pid);

    if (w.found.why)
        return w.found;
    if (!view->is_initial_pidns && !w.sees_namespace)
        return (struct verdict){ DIBS_UNKNOWN, 0, "in a pid namespace that cannot be seen from here" };
    if (w.is_uncertain || !w.is_complete || !proc_shows_every_process())
        return (struct verdict){ DIBS_UNKNOWN, 0,
                                 "in another pid namespace, where not all may be looked at" };
    return (struct verdict){ DIBS_DEAD, 0, "no such process in its pid namespace" };
}

static struct verdict judge(const struct process_view *view, const dibs_process *process)
{
    /* A damaged record proves nothing (INV-6), and kill() treats 0 and less as groups. */
    if (process->pid <= 0 || process->pidns == 0 || process->boot_id[0] == '\0')
        return (struct verdict){ DIBS_UNKNOWN, 0, "the record does not say which process" };
    if (strncmp(process->boot_id, view->boot_id, sizeof process->boot_id) != 0)
        return (struct verdict){ DIBS_DEAD, 0, "another boot" };
    return process->pidns == view->pidns ? judge_here(view, process) : judge_below(view, process);
}

dibs_life process_judge(const struct process_view *view, const dibs_process *process, const char **why)
{
    struct verdict v = judge(view, process);

    if (why)
        *why = v.why;
    return v.life;
}

pid_t process_pid_here(const struct process_view *view, const dibs_process *process)
{
    return judge(view, process).pid;
}
