/* SPDX-License-Identifier: MIT */
#include "hold/run_cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/hash_table.h"
#include "base/text.h"
#include "host/process.h"

#include "base/banned.h"

enum {
    LEVEL_MAX = 32,          /* depth of the hierarchy that is searched; real ones have about ten */
    DIRECTORIES_MAX = 65536, /* cgroups that the search looks at */
    EMPTY_MS = 60000,        /* how long a cgroup waits for its process, which is moved within milliseconds */
};

#define NAME_FORMAT "dibs-run.%" PRId32 ".%" PRIu64 /* pid and start time of its first process */

struct cgroup {
    struct hash_table_item item; /* first; key: the pid */
    uint64_t start_ticks;
    uint32_t uid; /* the command's user */
    int64_t made_ms;
    struct run_cgroup is;
    char path[]; /* below the root, with a slash in front */
};

struct run_cgroups {
    int root_fd;
    struct hash_table all;
    int moves[2]; /* a pipe to the thread */
    pthread_t thread;
    bool has_thread;
};

/* A move that the thread makes. Moving a process waits until no CPU is in a fork, which takes some
 * milliseconds: too long for the daemon's only thread. */
struct move {
    int fd; /* cgroup.procs of the new cgroup */
    int32_t pid;
};

static void *move_processes(void *ctx)
{
    int fd = *(int *) ctx;
    struct move move;
    char text[16];

    while (read(fd, &move, sizeof move) == (ssize_t) sizeof move) {
        int n = snprintf(text, sizeof text, "%" PRId32, move.pid);

        /* If the process has ended, its empty cgroup is removed like others. */
        (void) !write(move.fd, text, (size_t) n);
        (void) close(move.fd);
    }
    return NULL;
}

static struct cgroup *find(const struct run_cgroups *c, int32_t pid, uint64_t start_ticks)
{
    struct hash_table_item *item = hash_table_first(&c->all, (uint64_t) pid);

    while (item && ((struct cgroup *) item)->start_ticks != start_ticks)
        item = hash_table_next(item);
    return (struct cgroup *) item;
}

struct count {
    uint32_t uid;
    size_t n;
};

static void count_one(void *ctx, struct hash_table_item *item)
{
    struct count *count = ctx;

    count->n += ((struct cgroup *) item)->uid == count->uid;
}

/* May the user have one more? */
static dibs_status check_room(struct run_cgroups *c, uint32_t uid, dibs_err *err)
{
    struct count count = { .uid = uid };

    if (c->all.n == RUN_CGROUPS_MAX)
        return err_set(err, DIBS_UNAVAILABLE, "there are %d cgroups of commands already", RUN_CGROUPS_MAX);
    if (uid != 0 && c->all.n >= RUN_CGROUPS_USER_MAX)
        hash_table_each(&c->all, count_one, &count);
    if (count.n >= RUN_CGROUPS_USER_MAX)
        return err_set(err, DIBS_UNAVAILABLE, "user %" PRIu32 " has %d cgroups of commands already", uid,
                       RUN_CGROUPS_USER_MAX);
    return DIBS_OK;
}

/* Remember an existing cgroup. One that another user has made counts for nothing, whatever its name says: in
 * a subtree that is theirs users make cgroups as they like, and put their processes into these. */
static dibs_status add(struct run_cgroups *c, const char *path, const dibs_process *process, uint32_t uid,
                       dibs_err *err)
{
    struct stat st = { 0 };
    struct cgroup *cgroup = NULL;

    if (fstatat(c->root_fd, path + 1, &st, 0) != 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "looking at the cgroup %s", path);
    if (st.st_uid != geteuid())
        return err_set(err, DIBS_UNAVAILABLE, "another user has made the cgroup %s", path);
    cgroup = calloc(1, sizeof *cgroup + strlen(path) + 1);
    if (!cgroup || !hash_table_add(&c->all, &cgroup->item, (uint64_t) process->pid)) {
        free(cgroup);
        return err_set(err, DIBS_FAILURE, "making a cgroup: out of memory");
    }
    cgroup->start_ticks = process->start_ticks;
    cgroup->uid = uid;
    cgroup->made_ms = clock_monotonic_ms();
    cgroup->is.id = st.st_ino; /* of cgroup v2 the inode is the number that the kernel's programs see */
    for (const char *p = path; *p; p++)
        cgroup->is.level += *p == '/';
    (void) text_copy(cgroup->path, strlen(path) + 1, path);
    return DIBS_OK;
}

/* Let the thread move the process. */
static dibs_status move_to(const struct run_cgroups *c, const char *path, int32_t pid, dibs_err *err)
{
    char procs[RUN_CGROUP_PATH_MAX + 16];

    (void) snprintf(procs, sizeof procs, "%s/cgroup.procs", path + 1);
    int fd = openat(c->root_fd, procs, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "opening the cgroup %s", path);
    if (write(c->moves[1], &(struct move){ fd, pid }, sizeof(struct move)) > 0)
        return DIBS_OK; /* the thread closes it */
    (void) close(fd);
    return err_os(err, DIBS_UNAVAILABLE, errno, "moving process %" PRId32 " into its cgroup", pid);
}

dibs_status run_cgroup_make(struct run_cgroups *cgroups, const dibs_process *process, uint32_t uid,
                            char path[RUN_CGROUP_PATH_MAX + 1], dibs_err *err)
{
    const struct cgroup *known = find(cgroups, process->pid, process->start_ticks);
    char inside[PATH_MAX];

    if (known) {
        (void) text_copy(path, RUN_CGROUP_PATH_MAX + 1, known->path);
        return DIBS_OK;
    }
    dibs_status s = check_room(cgroups, uid, err);
    if (s == DIBS_OK)
        s = process_cgroup(process->pid, inside, sizeof inside, err);
    if (s != DIBS_OK)
        return s;
    int n = snprintf(path, RUN_CGROUP_PATH_MAX + 1, "%s/" NAME_FORMAT, inside, process->pid,
                     process->start_ticks);
    if (n > RUN_CGROUP_PATH_MAX)
        return err_set(err, DIBS_UNAVAILABLE, "the path of the cgroup %s is too long", inside);
    bool is_new = mkdirat(cgroups->root_fd, path + 1, 0755) == 0;
    if (!is_new && errno != EEXIST)
        return err_os(err, DIBS_UNAVAILABLE, errno, "making the cgroup %s", path);
    s = add(cgroups, path, process, uid, err);
    if (s != DIBS_OK && is_new)
        (void) unlinkat(cgroups->root_fd, path + 1, AT_REMOVEDIR);
    return s == DIBS_OK ? move_to(cgroups, path, process->pid, err) : s;
}

bool run_cgroup_of(const struct run_cgroups *cgroups, const dibs_process *process, struct run_cgroup *out)
{
    const struct cgroup *cgroup = find(cgroups, process->pid, process->start_ticks);

    if (cgroup)
        *out = cgroup->is;
    return cgroup != NULL;
}

int run_cgroup_open(const struct run_cgroups *cgroups, const dibs_process *process)
{
    const struct cgroup *cgroup = find(cgroups, process->pid, process->start_ticks);

    return cgroup ? openat(cgroups->root_fd, cgroup->path + 1, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
}

/* A cgroup with a process, or with a cgroup of its command's own, cannot be removed. One that was made for a
 * process which is not there yet can: so only when that process has ended, or had time enough. (Its pid can
 * be that of another one by now.) */
static void clean_one(void *ctx, struct hash_table_item *item)
{
    struct run_cgroups *c = ctx;
    struct cgroup *cgroup = (struct cgroup *) item;
    char name[32];

    (void) snprintf(name, sizeof name, "/proc/%" PRIu64, cgroup->item.hash);
    if (clock_monotonic_ms() < cgroup->made_ms + EMPTY_MS && access(name, F_OK) == 0)
        return;
    if (unlinkat(c->root_fd, cgroup->path + 1, AT_REMOVEDIR) != 0 && errno != ENOENT)
        return;
    hash_table_remove(&c->all, item);
    free(cgroup);
}

void run_cgroups_clean(struct run_cgroups *cgroups)
{
    if (cgroups->all.n > 0)
        hash_table_each(&cgroups->all, clean_one, cgroups);
}

size_t run_cgroups_count(const struct run_cgroups *cgroups)
{
    return cgroups->all.n;
}

/* ---- open and close ---- */

/* Read a name of NAME_FORMAT. */
static bool read_name(const char *name, int32_t *pid, uint64_t *start_ticks)
{
    static const char prefix[] = "dibs-run.";
    uint64_t number = 0;

    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return false;
    name += sizeof prefix - 1;
    size_t length = strcspn(name, ".");
    if (!text_number(name, length, INT32_MAX, &number) || name[length] != '.' ||
        !text_number(name + length + 1, strlen(name + length + 1), UINT64_MAX, start_ticks))
        return false;
    *pid = (int32_t) number;
    return true;
}

/* Return the user of a process, or root. */
static uint32_t user_of(int32_t pid)
{
    char name[32];
    struct stat st = { 0 };

    (void) snprintf(name, sizeof name, "/proc/%" PRId32, pid);
    return stat(name, &st) == 0 ? st.st_uid : 0;
}

struct search {
    struct run_cgroups *cgroups;
    char path[RUN_CGROUP_PATH_MAX + 1];
    unsigned n_seen;
};

/* Search below the folder; `length` is that of search->path. The depth is bounded by LEVEL_MAX. */
static void search_below(struct search *search, int fd, size_t length, unsigned level)
{
    AUTO(fd_auto) int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    DIR *folder = own < 0 ? NULL : fdopendir(own);
    const struct dirent *entry = NULL;

    if (!folder)
        return;
    (void) fd_take(&own); /* closedir() closes it */
    rewinddir(folder);
    while ((entry = readdir(folder)) != NULL && search->n_seen++ < DIRECTORIES_MAX) {
        size_t room = sizeof search->path - length;
        dibs_process process = { 0 };

        if (entry->d_type != DT_DIR || entry->d_name[0] == '.' ||
            (size_t) snprintf(search->path + length, room, "/%s", entry->d_name) >= room)
            continue;
        if (search->cgroups->all.n < RUN_CGROUPS_MAX && /* full: an administrator removes it */
            read_name(entry->d_name, &process.pid, &process.start_ticks))
            (void) add(search->cgroups, search->path, &process, user_of(process.pid), NULL);
        AUTO(fd_auto) int below = openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below >= 0 && level < LEVEL_MAX)
            search_below(search, below, length + 1 + strlen(entry->d_name), level + 1);
    }
    (void) closedir(folder);
}

static dibs_status start_thread(struct run_cgroups *c, dibs_err *err)
{
    if (pipe2(c->moves, O_CLOEXEC) != 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "starting: cannot make a pipe");
    /* Only our end: the thread waits for more. */
    (void) fcntl(c->moves[1], F_SETFL, O_NONBLOCK);
    int failed = pthread_create(&c->thread, NULL, move_processes, &c->moves[0]);
    c->has_thread = !failed;
    return failed ? err_os(err, DIBS_UNAVAILABLE, failed, "starting a thread") : DIBS_OK;
}

dibs_status run_cgroups_open(const char *root, struct run_cgroups **out, dibs_err *err)
{
    struct run_cgroups *self = calloc(1, sizeof *self);

    if (!self)
        return err_set(err, DIBS_FAILURE, "starting: out of memory");
    self->moves[0] = self->moves[1] = -1;
    self->root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    dibs_status s = self->root_fd < 0 ? err_os(err, DIBS_UNAVAILABLE, errno, "opening %s", root)
                                      : start_thread(self, err);
    if (s != DIBS_OK) {
        run_cgroups_close(self);
        return s;
    }
    search_below(&(struct search){ .cgroups = self }, self->root_fd, 0, 0);
    *out = self;
    return DIBS_OK;
}

static void free_one(void *ctx, struct hash_table_item *item)
{
    hash_table_remove(ctx, item);
    free(item);
}

void run_cgroups_close(struct run_cgroups *cgroups)
{
    if (!cgroups)
        return;
    fd_auto(&cgroups->moves[1]);
    if (cgroups->has_thread)
        (void) pthread_join(cgroups->thread, NULL);
    fd_auto(&cgroups->moves[0]);
    run_cgroups_clean(cgroups);
    hash_table_each(&cgroups->all, free_one, &cgroups->all);
    hash_table_done(&cgroups->all);
    fd_auto(&cgroups->root_fd);
    free(cgroups);
}
