/* SPDX-License-Identifier: MIT */
/* Alive, dead or unknown (INV-5). DEAD is said only on proof; every doubt is UNKNOWN. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "owner/look.h"
#include "owner/owner.h"

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
static struct verdict weigh(const struct owner_view *view, const dibs_process *who, int dir, pid_t pid,
                            const struct owner_stat *stat)
{
    dibs_life life = look_life(view, dir, stat);

    /* If the zombie is not he, his pid was reused: dead either way. */
    if (life == DIBS_DEAD)
        return (struct verdict){ DIBS_DEAD, 0, "ended, not yet reaped by its parent" };
    switch (compare_ticks(stat->start_ticks, who->start_ticks)) {
    case OTHER: return (struct verdict){ DIBS_DEAD, 0, "start time differs, the pid was reused" };
    case MAYBE_SAME: return (struct verdict){ DIBS_UNKNOWN, 0, "start time differs by one clock tick only" };
    case SAME: break;
    }
    if (life == DIBS_UNKNOWN)
        return (struct verdict){ DIBS_UNKNOWN, 0, "its threads may not be looked at" };
    return (struct verdict){ DIBS_ALIVE, pid, "running" };
}

static struct verdict judge_here(const struct owner_view *view, const dibs_process *who)
{
    char path[32];
    struct owner_stat stat = { 0 };

    if (is_gone(who->pid))
        return (struct verdict){ DIBS_DEAD, 0, "no such process" };
    (void) snprintf(path, sizeof path, "/proc/%d/stat", who->pid);
    enum look seen = look_stat(view, AT_FDCWD, path, &stat);
    /* The everyday answer, at the price of one signal check and one read. */
    if (seen == LOOK_OK && stat.start_ticks == who->start_ticks && strchr("RSDTtWKPI", stat.state))
        return (struct verdict){ DIBS_ALIVE, who->pid, "running" };

    /* From here on the answer may be "dead", which must rest on our own /proc. */
    if (!look_proc_is_ours())
        return (struct verdict){ DIBS_UNKNOWN, 0, "/proc does not belong to our pid namespace" };
    if (seen == LOOK_OK) {
        (void) snprintf(path, sizeof path, "/proc/%d", who->pid);
        AUTO(fd_auto) int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        return weigh(view, who, dir, who->pid, &stat);
    }
    if (is_gone(who->pid))
        return (struct verdict){ DIBS_DEAD, 0, "no such process" };
    return (struct verdict){ DIBS_UNKNOWN, 0,
                             seen == LOOK_DAMAGED ? "its /proc entry cannot be understood"
                                                  : "it exists, but may not be looked at" };
}

/* The walk over /proc for a process of a pid namespace that is not ours. */
struct walk {
    const struct owner_view *view;
    const dibs_process *who;
    int proc_fd;
    bool is_complete;    /* nothing refused to be looked at */
    bool sees_namespace; /* some process lives in the namespace: it is below ours */
    bool has_doubt;
    struct verdict found; /* pid 0 and why NULL: not found */
};

static void note_trouble(struct walk *w, enum look seen)
{
    if (seen == LOOK_DENIED || seen == LOOK_DAMAGED)
        w->is_complete = false;
}

/* Someone with the recorded start time: is he the one? */
static void examine(struct walk *w, int dir, pid_t pid, const struct owner_stat *stat)
{
    struct look_pids pids = { 0 };
    enum look seen = look_pids(dir, &pids);

    note_trouble(w, seen);
    /* One number alone: our own namespace. */
    if (seen != LOOK_OK || pids.depth < 2 || pids.innermost != w->who->pid)
        return;
    uint64_t pidns = look_namespace(dir, "ns/pid");
    if (pidns == 0) {
        /* Everything that may be seen fits. If it is only a zombie, it does not matter who it is. */
        if (look_trouble(errno) != LOOK_GONE && look_life(w->view, dir, stat) != DIBS_DEAD)
            w->has_doubt = true;
        return;
    }
    if (pidns == w->who->pidns)
        w->found = weigh(w->view, w->who, dir, pid, stat);
}

static void visit(struct walk *w, pid_t pid)
{
    char name[32];
    struct owner_stat stat = { 0 };

    (void) snprintf(name, sizeof name, "%d", pid);
    AUTO(fd_auto) int dir = openat(w->proc_fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    enum look seen = dir < 0 ? look_trouble(errno) : look_stat(w->view, dir, "stat", &stat);
    note_trouble(w, seen);
    if (seen != LOOK_OK)
        return;
    /* In the initial namespace every other one is below ours: no need to see it. */
    if (!w->view->is_initial_pidns && !w->sees_namespace && look_namespace(dir, "ns/pid") == w->who->pidns)
        w->sees_namespace = true;
    /* The start time is readable for all and almost always tells enough: a namespace's inode
     * and its pids are reused, the moment is not. */
    if (compare_ticks(stat.start_ticks, w->who->start_ticks) != OTHER)
        examine(w, dir, pid, &stat);
}

static struct verdict judge_below(const struct owner_view *view, const dibs_process *who)
{
    struct walk w = { .view = view, .who = who, .is_complete = true };

    if (!look_proc_is_ours())
        return (struct verdict){ DIBS_UNKNOWN, 0, "/proc does not belong to our pid namespace" };
    AUTO(dir_auto) DIR *dir = opendir("/proc");
    if (!dir)
        return (struct verdict){ DIBS_UNKNOWN, 0, "/proc cannot be read" };
    w.proc_fd = dirfd(dir);
    for (pid_t pid = look_next_pid(dir); pid && !w.found.why; pid = look_next_pid(dir))
        visit(&w, pid);

    if (w.found.why)
        return w.found;
    if (!view->is_initial_pidns && !w.sees_namespace)
        return (struct verdict){ DIBS_UNKNOWN, 0, "in a pid namespace that cannot be seen from here" };
    if (w.has_doubt || !w.is_complete || !look_sees_every_process())
        return (struct verdict){ DIBS_UNKNOWN, 0,
                                 "in another pid namespace, where not all may be looked at" };
    return (struct verdict){ DIBS_DEAD, 0, "no such process in its pid namespace" };
}

static struct verdict judge(const struct owner_view *view, const dibs_process *who)
{
    /* A damaged record proves nothing (INV-6); and kill() takes 0 and less for groups. */
    if (who->pid <= 0 || who->pidns == 0 || who->boot_id[0] == '\0')
        return (struct verdict){ DIBS_UNKNOWN, 0, "the record does not say which process" };
    if (strncmp(who->boot_id, view->boot_id, sizeof who->boot_id) != 0)
        return (struct verdict){ DIBS_DEAD, 0, "another boot" };
    return who->pidns == view->pidns ? judge_here(view, who) : judge_below(view, who);
}

dibs_life owner_judge(const struct owner_view *view, const dibs_process *who, char *why, size_t why_size)
{
    struct verdict v = judge(view, who);

    if (why && why_size > 0)
        (void) snprintf(why, why_size, "%s", v.why);
    return v.life;
}

pid_t owner_pid_here(const struct owner_view *view, const dibs_process *who)
{
    return judge(view, who).pid;
}
