/* SPDX-License-Identifier: MIT */
/* Find the process that has a socket open, by the links in /proc/PID/fd. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/grow.h"
#include "host/kernel.h"
#include "host/proc_read.h"

#include "base/banned.h"

static int by_inode(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *) a;
    uint64_t y = *(const uint64_t *) b;

    return x < y ? -1 : x > y;
}

/* ---- old enough sockets: see struct kernel_suspects ---- */

enum {
    SETTLED_AFTER_MS = 10, /* a server that rebinds in a tight loop has another socket by then */
    SOCKETS_MAX = 1 << 20,
};

static bool note_inode(void *ctx, const struct kernel_socket *socket)
{
    struct kernel_inventory *inventory = ctx;

    if (!grow((void **) &inventory->inodes, inventory->n, &inventory->max, sizeof *inventory->inodes))
        return false;
    inventory->inodes[inventory->n++] = socket->inode;
    return inventory->n < SOCKETS_MAX;
}

static void take_inventory(struct kernel_inventory *inventory)
{
    inventory->n = 0;
    inventory->taken_ms = clock_monotonic_ms();
    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_PROTO_MAX; proto++)
        (void) kernel_blocking_sockets(inventory->netns, proto, 0, note_inode, inventory, NULL);
    if (inventory->n > 1)
        qsort(inventory->inodes, inventory->n, sizeof *inventory->inodes, by_inode);
}

static bool is_known(const struct kernel_inventory *inventory, uint64_t inode)
{
    return inventory->n > 0 && bsearch(&inode, inventory->inodes, inventory->n, sizeof inode, by_inode);
}

void kernel_settle(struct kernel_inventory *inventory, uint64_t netns, struct kernel_socket *sockets,
                   size_t n)
{
    struct timespec pause = { .tv_nsec = SETTLED_AFTER_MS * 1000000L };
    int64_t age_ms = clock_monotonic_ms() - inventory->taken_ms;
    bool is_settled = inventory->netns == netns && inventory->n > 0 && age_ms >= SETTLED_AFTER_MS;

    for (size_t i = 0; i < n; i++)
        is_settled = is_settled && (sockets[i].inode == 0 || is_known(inventory, sockets[i].inode));
    if (is_settled || n == 0)
        return;
    (void) nanosleep(&pause, NULL);
    inventory->netns = netns;
    take_inventory(inventory);
    for (size_t i = 0; i < n; i++)
        if (!is_known(inventory, sockets[i].inode))
            sockets[i].inode = 0;
}

/* ---- owners ---- */

struct wanted {
    uint64_t inode; /* first: by_inode() */
    size_t at;      /* index in the caller's array */
};

struct owners {
    struct wanted *list; /* ascending by inode */
    size_t n;
    pid_t *pids;
    size_t n_open; /* not found yet */
};

static void note_owner(struct owners *o, uint64_t inode, pid_t pid)
{
    const struct wanted *w = bsearch(&inode, o->list, o->n, sizeof *w, by_inode);

    while (w && w > o->list && w[-1].inode == inode) /* the caller may ask for an inode twice */
        w--;
    for (; w && w < o->list + o->n && w->inode == inode; w++) {
        pid_t *slot = &o->pids[w->at];

        if (*slot == 0)
            o->n_open--;
        if (*slot == 0 || pid < *slot)
            *slot = pid;
    }
}

/* Look at the files of a process. Return how many were seen; -1: we may not look. */
static int look_at_files(struct owners *o, int dir_fd, const char *name, pid_t pid)
{
    AUTO(dir_auto) DIR *files = proc_open_dir(dir_fd, name);
    int n = 0;

    if (!files)
        return -1;
    for (const char *fd = proc_next_number(files); fd; fd = proc_next_number(files), n++) {
        uint64_t inode = proc_link_inode(dirfd(files), fd, "socket");

        if (inode != 0)
            note_owner(o, inode, pid);
    }
    return n;
}

static void look_at_process(struct owners *o, int proc_fd, pid_t pid)
{
    char path[64];

    (void) snprintf(path, sizeof path, "%d/fd", (int) pid);
    if (look_at_files(o, proc_fd, path, pid) > 0)
        return;
    /* A process whose first thread has ended shows no files there, or refuses; its other threads, which
     * share the files, show them. If the first of them refuses too, we may not inspect the process. */
    (void) snprintf(path, sizeof path, "%d/task", (int) pid);
    AUTO(dir_auto) DIR *tasks = proc_open_dir(proc_fd, path);
    for (pid_t tid = tasks ? proc_next_pid(tasks) : 0; tid; tid = proc_next_pid(tasks)) {
        if (tid == pid)
            continue;
        (void) snprintf(path, sizeof path, "%d/fd", (int) tid);
        if (look_at_files(o, dirfd(tasks), path, pid) != 0)
            return;
    }
}

static int by_pid(const void *a, const void *b)
{
    pid_t x = *(const pid_t *) a;
    pid_t y = *(const pid_t *) b;

    return x < y ? -1 : x > y;
}

/* Search the likely owners, then all others except the last ones, then these, until all sockets are found. */
static void look_at_all(struct owners *o, const struct kernel_suspects *suspects)
{
    AUTO(dir_auto) DIR *proc = proc_open_dir(AT_FDCWD, "/proc");
    pid_t *last = suspects->last;
    size_t n_last = suspects->n_last;

    if (!proc)
        return;
    if (n_last > 0)
        qsort(last, n_last, sizeof *last, by_pid);
    for (size_t i = 0; i < suspects->n_first && o->n_open > 0; i++)
        look_at_process(o, dirfd(proc), suspects->first[i]);
    /* /proc lists pids in ascending order: the lowest owner is found first. */
    for (pid_t pid = proc_next_pid(proc); pid && o->n_open > 0; pid = proc_next_pid(proc))
        if (n_last == 0 || !bsearch(&pid, last, n_last, sizeof pid, by_pid))
            look_at_process(o, dirfd(proc), pid);
    for (size_t i = 0; i < n_last && o->n_open > 0; i++)
        if (i == 0 || last[i] != last[i - 1])
            look_at_process(o, dirfd(proc), last[i]);
}

void kernel_socket_owners(const uint64_t *inodes, pid_t *pids, size_t n,
                          const struct kernel_suspects *suspects)
{
    static const struct kernel_suspects none = { 0 };
    struct owners o = { .n = n, .pids = pids, .n_open = n };

    for (size_t i = 0; i < n; i++)
        pids[i] = 0;
    if (n == 0)
        return;
    o.list = calloc(n, sizeof *o.list);
    if (!o.list) /* out of memory: report no owner, as when we may not look */
        return;
    for (size_t i = 0; i < n; i++) {
        o.list[i] = (struct wanted){ inodes[i], i };
        if (inodes[i] == 0) /* no socket has inode 0 */
            o.n_open--;
    }
    qsort(o.list, n, sizeof *o.list, by_inode);
    look_at_all(&o, suspects ? suspects : &none);
    free(o.list);
}
