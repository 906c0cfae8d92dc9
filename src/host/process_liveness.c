/* SPDX-License-Identifier: MIT */
/* Judge a process: alive, dead or unknown (INV-5). DEAD needs proof; everything uncertain is UNKNOWN. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "host/proc_read.h"
#include "host/process.h"

#include "base/banned.h"

struct verdict {
    dibs_life life;
    pid_t pid; /* in our namespace, when alive */
    const char *why;
};

static bool is_gone(pid_t pid)
{
    return kill(pid, 0) != 0 && errno == ESRCH;
}

enum same { SAME, MAYBE_SAME, OTHER };

/* One tick apart is undecided: a record from a time namespace whose offset is not a whole number
 * of ticks was rounded, and a pid does not come round again within 10 ms by itself. */
static enum same compare_ticks(uint64_t a, uint64_t b)
{
    uint64_t apart = a > b ? a - b : b - a;

    return apart == 0 ? SAME : apart == 1 ? MAYBE_SAME : OTHER;
}

/* `dir` is the open directory of a process that has the recorded pid. */
static struct verdict weigh(const struct process_view *view, const dibs_process *process, int dir, pid_t pid,
                            const struct proc_stat *stat)
{
    dibs_life life = proc_life(view, dir, stat);

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
    /* The usual answer, for one signal check and one read. */
    if (seen == PROC_OK && stat.start_ticks == process->start_ticks && strchr("RSDTtWKPI", stat.state))
        return (struct verdict){ DIBS_ALIVE, process->pid, "running" };

    /* From here on the answer may be "dead", which must rest on our own /proc. */
    if (!proc_is_ours())
        return (struct verdict){ DIBS_UNKNOWN, 0, "/proc does not belong to our pid namespace" };
    if (seen == PROC_OK) {
        AUTO(fd_auto) int dir = proc_open(process->pid, "", O_PATH | O_DIRECTORY);

        return weigh(view, process, dir, process->pid, &stat);
    }
    if (is_gone(process->pid))
        return (struct verdict){ DIBS_DEAD, 0, "no such process" };
    return (struct verdict){ DIBS_UNKNOWN, 0,
                             seen == PROC_DAMAGED ? "its /proc entry cannot be understood"
                                                  : "it exists, but may not be looked at" };
}

/* The walk over /proc for a process of a pid namespace that is not ours. */
struct walk {
    const struct process_view *view;
    const dibs_process *process;
    int proc_fd;
    bool is_complete;    /* every process could be read */
    bool sees_namespace; /* some process lives in the namespace: it is below ours */
    bool is_uncertain;
    struct verdict found; /* pid 0 and why NULL: not found */
};

static void note_trouble(struct walk *w, enum proc_result seen)
{
    if (seen == PROC_DENIED || seen == PROC_DAMAGED)
        w->is_complete = false;
}

/* A process with the recorded start time: is it the recorded one? */
static void examine(struct walk *w, int dir, pid_t pid, const struct proc_stat *stat)
{
    struct proc_pids pids = { 0 };
    enum proc_result seen = proc_pids(dir, &pids);

    note_trouble(w, seen);
    /* One number alone: our own namespace. */
    if (seen != PROC_OK || pids.depth < 2 || pids.innermost != w->process->pid)
        return;
    uint64_t pidns = proc_link_inode(dir, "ns/pid", "pid");
    if (pidns == 0) {
        /* Everything that is visible fits. A zombie is dead, whichever process it is. */
        if (proc_trouble(errno) != PROC_GONE && proc_life(w->view, dir, stat) != DIBS_DEAD)
            w->is_uncertain = true;
        return;
    }
    if (pidns == w->process->pidns)
        w->found = weigh(w->view, w->process, dir, pid, stat);
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
    /* Below the initial namespace is every other one: no need to see it. */
    if (!w->view->is_initial_pidns && !w->sees_namespace &&
        proc_link_inode(dir, "ns/pid", "pid") == w->process->pidns)
        w->sees_namespace = true;
    /* Every user may read the start time, and it almost always decides: a namespace's inode and its pids are
     * reused, the moment is not. */
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
    /* A damaged record proves nothing (INV-6); and kill() takes 0 and less for groups. */
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
