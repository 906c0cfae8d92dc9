/* SPDX-License-Identifier: MIT */
/* Which process has a socket open: the links in /proc/PID/fd tell. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "kernel/kernel.h"
#include "kernel/walk.h"

#include "base/banned.h"

struct wanted {
    uint64_t inode;
    size_t at; /* index in the caller's array */
};

struct owners {
    struct wanted *list; /* ascending by inode */
    size_t n;
    pid_t *pids;
    size_t n_open; /* not found yet */
};

DIR *walk_open(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir && fd >= 0)
        (void) close(fd);
    return dir;
}

const char *walk_next(DIR *dir)
{
    for (int i = 0; i < WALK_ENTRIES_MAX; i++) {
        const struct dirent *entry = readdir(dir);

        if (!entry)
            return NULL;
        size_t len = strlen(entry->d_name);
        /* Ten digits hold any pid and any descriptor. */
        if (len <= 10 && strspn(entry->d_name, "0123456789") == len)
            return entry->d_name;
    }
    return NULL;
}

uint64_t walk_inode(int dir_fd, const char *name, const char *kind)
{
    char text[64];
    ssize_t n = readlinkat(dir_fd, name, text, sizeof text - 1);
    size_t kind_len = strlen(kind);
    uint64_t inode = 0;

    if (n < 0)
        return 0;
    text[n] = '\0';
    errno = EPROTO;
    if (strncmp(text, kind, kind_len) != 0 || strncmp(text + kind_len, ":[", 2) != 0)
        return 0;
    const char *p = text + kind_len + 2;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (__builtin_mul_overflow(inode, (uint64_t) 10, &inode) ||
            __builtin_add_overflow(inode, (uint64_t) (*p - '0'), &inode))
            return 0;
    }
    return strcmp(p, "]") == 0 ? inode : 0;
}

static int by_inode(const void *a, const void *b)
{
    const struct wanted *x = a;
    const struct wanted *y = b;

    return x->inode < y->inode ? -1 : x->inode > y->inode;
}

static void note_owner(struct owners *o, uint64_t inode, pid_t pid)
{
    size_t low = 0;
    size_t high = o->n;

    while (low < high) { /* the first that is not below; the same inode may be asked for twice */
        size_t middle = low + (high - low) / 2;

        if (o->list[middle].inode < inode)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < o->n && o->list[low].inode == inode; low++) {
        pid_t *slot = &o->pids[o->list[low].at];

        if (*slot == 0)
            o->n_open--;
        if (*slot == 0 || pid < *slot)
            *slot = pid;
    }
}

/* How many files were seen; -1: it may not be looked at. */
static int look_at_files(struct owners *o, int dir_fd, const char *name, pid_t pid)
{
    AUTO(dir_auto) DIR *files = walk_open(dir_fd, name);
    int n = 0;

    if (!files)
        return -1;
    for (const char *fd = walk_next(files); fd; fd = walk_next(files), n++) {
        uint64_t inode = walk_inode(dirfd(files), fd, "socket");

        if (inode != 0)
            note_owner(o, inode, pid);
    }
    return n;
}

static void look_at_process(struct owners *o, int proc_fd, const char *name)
{
    pid_t pid = 0;
    char path[64];

    for (const char *p = name; *p; p++) {
        if (__builtin_mul_overflow(pid, 10, &pid) || __builtin_add_overflow(pid, *p - '0', &pid))
            return;
    }
    (void) snprintf(path, sizeof path, "%s/fd", name);
    if (look_at_files(o, proc_fd, path, pid) > 0)
        return;
    /* A process whose first thread has ended shows no files there, or refuses; its other threads, which
     * share their files, do not. If the first of them refuses too, it is not ours to look at. */
    (void) snprintf(path, sizeof path, "%s/task", name);
    AUTO(dir_auto) DIR *tasks = walk_open(proc_fd, path);
    for (const char *tid = tasks ? walk_next(tasks) : NULL; tid; tid = walk_next(tasks)) {
        if (strcmp(tid, name) == 0)
            continue;
        (void) snprintf(path, sizeof path, "%s/fd", tid);
        if (look_at_files(o, dirfd(tasks), path, pid) != 0)
            return;
    }
}

static void look_at_pid(struct owners *o, int proc_fd, pid_t pid)
{
    char name[16];

    (void) snprintf(name, sizeof name, "%d", (int) pid);
    look_at_process(o, proc_fd, name);
}

static int by_pid(const void *a, const void *b)
{
    pid_t x = *(const pid_t *) a;
    pid_t y = *(const pid_t *) b;

    return x < y ? -1 : x > y;
}

static bool is_in(const pid_t *sorted, size_t n, const char *name)
{
    pid_t pid = 0;

    for (const char *p = name; *p; p++)
        if (__builtin_mul_overflow(pid, 10, &pid) || __builtin_add_overflow(pid, *p - '0', &pid))
            return false;
    return n > 0 && bsearch(&pid, sorted, n, sizeof pid, by_pid) != NULL;
}

/* The likely ones, then everybody but the last ones, then these; until all are found. */
static void look_at_everyone(struct owners *o, const struct kernel_suspects *who)
{
    AUTO(dir_auto) DIR *proc = walk_open(AT_FDCWD, "/proc");
    pid_t *last = who->n_last ? calloc(who->n_last, sizeof *last) : NULL;
    size_t n_last = last ? who->n_last : 0;

    if (n_last > 0) {
        memcpy(last, who->last, n_last * sizeof *last);
        qsort(last, n_last, sizeof *last, by_pid);
    }
    for (size_t i = 0; proc && i < who->n_first && o->n_open > 0; i++)
        look_at_pid(o, dirfd(proc), who->first[i]);
    /* /proc lists pids ascending: the first finder has the lowest. */
    for (const char *pid = proc ? walk_next(proc) : NULL; pid && o->n_open > 0; pid = walk_next(proc))
        if (!is_in(last, n_last, pid))
            look_at_process(o, dirfd(proc), pid);
    for (size_t i = 0; proc && i < n_last && o->n_open > 0; i++)
        if (i == 0 || last[i] != last[i - 1])
            look_at_pid(o, dirfd(proc), last[i]);
    free(last);
}

void kernel_socket_owners(const uint64_t *inodes, pid_t *pids, size_t n,
                          const struct kernel_suspects *suspects)
{
    static const struct kernel_suspects nobody = { 0 };
    struct owners o = { .n = n, .pids = pids, .n_open = n };

    for (size_t i = 0; i < n; i++)
        pids[i] = 0;
    if (n == 0)
        return;
    o.list = calloc(n, sizeof *o.list);
    if (!o.list) /* nobody was found: what the caller is told when he may not look, too */
        return;
    for (size_t i = 0; i < n; i++) {
        o.list[i] = (struct wanted){ inodes[i], i };
        if (inodes[i] == 0) /* no socket has inode 0, so nobody will be found for it */
            o.n_open--;
    }
    qsort(o.list, n, sizeof *o.list, by_inode);
    look_at_everyone(&o, suspects ? suspects : &nobody);
    free(o.list);
}
