/* SPDX-License-Identifier: MIT */
/* Network namespaces: their inodes, and sockets in another namespace. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/netlink.h>
#include <mntent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "host/proc_read.h"
#include "host/procnet.h"
#include "host/subuid.h"

#include "base/banned.h"

#define OWN_NETNS "/proc/thread-self/ns/net"

struct search {
    uint64_t wanted;
    int fd;           /* the namespace, once found */
    int os_errno;     /* why an existing namespace could not be opened */
    bool is_complete; /* every process could be read */
    bool is_ours;     /* every process of our user could be read */
    bool has_owners;  /* `owners` was read */
    struct subuids owners;
};

uint64_t kernel_netns(void)
{
    return proc_link_inode(AT_FDCWD, OWN_NETNS, "net"); /* half the cost of stat() */
}

/* Open a link or a mount point, and keep it if it is the wanted namespace. */
static void try_open(struct search *s, int dir_fd, const char *name)
{
    struct stat st = { 0 };
    AUTO(fd_auto) int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        s->os_errno = errno;
    else if (fstat(fd, &st) == 0 && (uint64_t) st.st_ino == s->wanted)
        s->fd = fd_take(&fd);
}

/* Does the process share our network namespace? Its files under /proc/ID/net are readable even where a
 * security module guards the link to the namespace: the same file means the same namespace. */
static bool shares_our_network(int dir_fd, pid_t id)
{
    char name[64];
    struct stat ours = { 0 };
    struct stat theirs = { 0 };

    (void) snprintf(name, sizeof name, "%d/net/dev", (int) id);
    return fstatat(dir_fd, name, &theirs, 0) == 0 && stat("/proc/thread-self/net/dev", &ours) == 0 &&
           ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev;
}

uint64_t kernel_netns_of(pid_t pid)
{
    char path[48];

    (void) snprintf(path, sizeof path, "/proc/%d/ns/net", (int) pid);
    uint64_t inode = proc_link_inode(AT_FDCWD, path, "net");
    if (inode != 0 || proc_trouble(errno) == PROC_GONE)
        return inode;
    AUTO(fd_auto) int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return shares_our_network(proc, pid) ? kernel_netns() : KERNEL_NETNS_UNKNOWN;
}

uint64_t kernel_netns_of_peer(int fd)
{
    AUTO(fd_auto) int ours = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    uint64_t here = 0;
    uint64_t there = 0;
    socklen_t len = sizeof here;

    /* The kernel creates our end of the connection in the namespace of the other one. */
    if (ours < 0 || getsockopt(ours, SOL_SOCKET, SO_NETNS_COOKIE, &here, &len) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &there, &len) != 0 || here != there)
        return KERNEL_NETNS_UNKNOWN;
    return kernel_netns();
}

/* Could the process have sockets of our user? True for one of our subordinate uids: we may inspect it, unless
 * a security module forbids that. */
static bool may_be_ours(struct search *s, int dir_fd, pid_t id)
{
    char name[64];
    char status[PROC_STATUS_MAX];
    const char *p = NULL;
    const char *end = NULL;
    const char *word = NULL;
    int64_t uid = 0;

    (void) snprintf(name, sizeof name, "%d/status", (int) id);
    if (proc_read_file(dir_fd, name, status, sizeof status) < 0)
        return proc_trouble(errno) != PROC_GONE;
    if (!proc_status_line(status, "Uid", &p, &end))
        return true;
    if (!s->has_owners)
        (void) subuids_refresh(&s->owners, SUBUID_FILE);
    s->has_owners = true;
    while (proc_next_word(&p, end, &word))
        if (!proc_number(word, p, &uid) || subuids_owner(&s->owners, (uint32_t) uid) == geteuid())
            return true;
    return false;
}

/* Look at a process below /proc, or a thread below its task directory. */
static void look_at_one(struct search *s, int dir_fd, pid_t id)
{
    char name[64];

    (void) snprintf(name, sizeof name, "%d/ns/net", (int) id);
    uint64_t inode = proc_link_inode(dir_fd, name, "net");
    /* A process that has ended, or a zombie, has no link and is in no namespace. We are not in the wanted
     * namespace, so a process that shares ours is not either. */
    if (inode == 0 && proc_trouble(errno) != PROC_GONE && !shares_our_network(dir_fd, id)) {
        s->is_complete = false;
        s->is_ours = s->is_ours && !may_be_ours(s, dir_fd, id);
    }
    if (inode == s->wanted)
        try_open(s, dir_fd, name);
}

/* Look at the threads: one may be in another namespace, and a leader that has ended is in none. */
static void look_at_threads(struct search *s, int proc_fd, pid_t pid)
{
    char name[64];

    (void) snprintf(name, sizeof name, "%d/task", (int) pid);
    AUTO(dir_auto) DIR *tasks = proc_open_dir(proc_fd, name);
    if (!tasks) {
        if (proc_trouble(errno) != PROC_GONE)
            s->is_complete = s->is_ours = false;
        return;
    }
    for (pid_t tid = proc_next_pid(tasks); tid && s->fd < 0; tid = proc_next_pid(tasks))
        look_at_one(s, dirfd(tasks), tid);
}

static void look_at_processes(struct search *s, bool with_threads)
{
    AUTO(dir_auto) DIR *proc = proc_open_dir(AT_FDCWD, "/proc");

    if (!proc)
        s->is_complete = s->is_ours = false;
    for (pid_t pid = proc ? proc_next_pid(proc) : 0; pid && s->fd < 0; pid = proc_next_pid(proc)) {
        if (with_threads)
            look_at_threads(s, dirfd(proc), pid);
        else
            look_at_one(s, dirfd(proc), pid);
    }
}

/* Look at mounts: named namespaces (ip netns, container engines) are mounts, in any directory. */
static void look_at_mounts(struct search *s)
{
    FILE *mounts = setmntent("/proc/thread-self/mounts", "re");
    char text[8192];
    struct mntent mount;

    while (mounts && s->fd < 0 && getmntent_r(mounts, &mount, text, sizeof text))
        if (strcmp(mount.mnt_type, "nsfs") == 0)
            try_open(s, AT_FDCWD, mount.mnt_dir);
    if (mounts)
        (void) endmntent(mounts);
}

/* Only in the initial pid namespace does /proc show every process. */
static bool sees_the_host(void)
{
    return proc_is_ours() && proc_link_inode(AT_FDCWD, "/proc/self/ns/pid", "pid") == PROC_INITIAL_PIDNS;
}

static dibs_status open_netns(uint64_t netns, int *out, dibs_err *err)
{
    struct search s = { .wanted = netns, .fd = -1, .is_complete = true, .is_ours = true };
    bool is_root = proc_may_inspect_all();

    look_at_processes(&s, false);
    /* Only root can enter a namespace by its mount; and without a process in it, it has no sockets. */
    if (s.fd < 0 && is_root)
        look_at_mounts(&s);
    /* More expensive, and useful only when we may inspect every process that matters. */
    if (s.fd < 0 && s.is_ours)
        look_at_processes(&s, true);
    subuids_done(&s.owners);
    if (s.fd >= 0) {
        *out = s.fd;
        return DIBS_OK;
    }
    if (s.os_errno && proc_trouble(s.os_errno) != PROC_GONE)
        return err_os(err, DIBS_UNAVAILABLE, s.os_errno, "network namespace %" PRIu64 " cannot be opened",
                      netns);
    if (s.is_complete && is_root && sees_the_host())
        return err_set(err, DIBS_NOT_FOUND, "there is no network namespace %" PRIu64 " any more", netns);
    /* Our user may inspect its own processes only in user namespaces below its own. */
    if (s.is_ours && sees_the_host() && proc_shows_every_process() &&
        proc_link_inode(AT_FDCWD, "/proc/self/ns/user", "user") == PROC_INITIAL_USERNS)
        return err_set(err, DIBS_DENIED,
                       "no process of uid %u is in network namespace %" PRIu64
                       ", and those of others may not be inspected",
                       (unsigned) geteuid(), netns);
    return err_set(err, DIBS_UNAVAILABLE, "network namespace %" PRIu64 " cannot be seen from here", netns);
}

dibs_status kernel_socket_in(uint64_t netns, const struct kernel_socket_kind *kind, int *out, dibs_err *err)
{
    AUTO(fd_auto) int back = -1;
    AUTO(fd_auto) int there = -1;

    if (netns == KERNEL_NETNS_UNKNOWN)
        return err_set(err, DIBS_UNAVAILABLE, "it is not known which network namespace this is");
    if (netns != 0 && netns != kernel_netns()) {
        dibs_status s = open_netns(netns, &there, err);
        if (s != DIBS_OK)
            return s;
        back = open(OWN_NETNS, O_RDONLY | O_CLOEXEC);
        if (back < 0)
            return err_os(err, DIBS_UNAVAILABLE, errno, "cannot open our own network namespace");
        if (setns(there, CLONE_NEWNET) != 0)
            return err_os(err, DIBS_UNAVAILABLE, errno, "cannot enter network namespace %" PRIu64, netns);
    }
    AUTO(fd_auto) int fd = socket(kind->family, kind->type | SOCK_CLOEXEC, kind->protocol);
    int os_errno = errno;
    /* A thread left in a foreign namespace would do all its later work there: abort. */
    if (back >= 0 && setns(back, CLONE_NEWNET) != 0)
        abort();
    if (fd < 0)
        return err_os(err, DIBS_UNAVAILABLE, os_errno, "cannot open a socket");
    *out = fd_take(&fd);
    return DIBS_OK;
}

dibs_status netns_socket(uint64_t netns, int *out, dibs_err *err)
{
    static const struct kernel_socket_kind kind = { AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG };
    /* The kernel answers within the call; this only bounds a kernel that does not. */
    const struct timeval timeout = { .tv_sec = 5 };
    AUTO(fd_auto) int fd = -1;
    dibs_status s = kernel_socket_in(netns, &kind, &fd, err);

    if (s != DIBS_OK)
        return s;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) != 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "cannot set a timeout on a netlink socket");
    *out = fd_take(&fd);
    return DIBS_OK;
}

dibs_status kernel_netns_cookie(uint64_t netns, uint64_t *out, dibs_err *err)
{
    uint64_t cookie = 0;
    socklen_t len = sizeof cookie;
    AUTO(fd_auto) int fd = -1;
    dibs_status s = netns_socket(netns, &fd, err);

    if (s != DIBS_OK)
        return s;
    if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len) != 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "this kernel does not number network namespaces");
    *out = cookie;
    return DIBS_OK;
}
