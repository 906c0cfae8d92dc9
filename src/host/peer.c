/* SPDX-License-Identifier: MIT */
#include "host/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/nsfs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/err.h"
#include "host/proc_read.h"

#include "base/banned.h"

/* Debian 12's headers lack these: Linux 6.5 and 6.11. */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef NS_GET_PID_FROM_PIDNS
#define NS_GET_PID_FROM_PIDNS _IOR(NSIO, 0x6, int)
#endif

/* On a kernel without SO_PEERPIDFD open the peer's pid if it has the same user. If the pid was reused since
 * the connect, then by a process of the same user. */
static int open_by_pid(const struct process_view *view, const struct peer *peer)
{
    struct process_facts facts = { 0 };
    AUTO(fd_auto) int fd = pidfd_open(peer->pid, 0);

    if (fd < 0)
        return -1;
    if (process_identify(view, peer->pid, &facts, NULL) != DIBS_OK || facts.uid != peer->uid) {
        errno = ESRCH;
        return -1;
    }
    return fd_take(&fd);
}

static int open_pidfd(const struct process_view *view, int fd, const struct peer *peer)
{
    int pidfd = -1;
    socklen_t len = sizeof pidfd;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len) == 0)
        return pidfd;
    return errno == ENOPROTOOPT ? open_by_pid(view, peer) : -1;
}

/* Return the pid namespace of a process; 0 and errno when unknown. */
static uint64_t namespace_of(const struct process_view *view, pid_t pid)
{
    char link[48];
    struct proc_pids pids = { 0 };

    (void) snprintf(link, sizeof link, "/proc/%d/ns/pid", (int) pid);
    uint64_t pidns = proc_link_inode(AT_FDCWD, link, "pid");
    if (pidns != 0)
        return pidns;
    /* Only the same user and root may read the link; everyone may read the numbers. */
    AUTO(fd_auto) int dir = proc_open(pid, "", O_PATH | O_DIRECTORY);
    return dir >= 0 && proc_pids(dir, &pids) == PROC_OK && pids.depth == 1 ? view->pidns : 0;
}

/* Ask the kernel. 0: no such process; -1: the kernel has no such call, or denies it. */
static pid_t ask_kernel(const struct peer *peer, int32_t pid_there)
{
    struct stat st = { 0 };
    AUTO(fd_auto) int ns = proc_open(peer->pid, "/ns/pid", O_RDONLY);

    if (ns < 0 || fstat(ns, &st) != 0 || st.st_ino != peer->pidns)
        return -1;
    int pid = ioctl(ns, NS_GET_PID_FROM_PIDNS, (long) pid_there);
    return pid > 0 ? pid : errno == ESRCH ? 0 : -1;
}

static pid_t search(const struct peer *peer, int32_t pid_there)
{
    AUTO(dir_auto) DIR *proc = proc_is_ours() ? opendir("/proc") : NULL;

    for (pid_t pid = proc ? proc_next_pid(proc) : 0; pid; pid = proc_next_pid(proc)) {
        struct proc_pids pids = { 0 };
        AUTO(fd_auto) int dir = proc_open(pid, "", O_PATH | O_DIRECTORY);

        if (dir >= 0 && proc_link_inode(dir, "ns/pid", "pid") == peer->pidns &&
            proc_pids(dir, &pids) == PROC_OK && pids.innermost == pid_there)
            return pid;
    }
    return 0;
}

/* Return our pid for the peer's pid; 0: no such process, or not visible from here. */
static pid_t find_pid(const struct peer *peer, int32_t pid_there)
{
    pid_t pid = ask_kernel(peer, pid_there);

    return pid < 0 ? search(peer, pid_there) : pid;
}

/* Identify the peer's process. Fail only for lack of descriptors: a busy daemon must not lose a principal. */
static dibs_status find_process(const struct process_view *view, int fd, struct peer *peer, dibs_err *err)
{
    struct process_facts first = { 0 };

    errno = 0;
    peer->pidfd = open_pidfd(view, fd, peer);
    if (peer->pidfd >= 0 && peer->pid > 0 && proc_is_ours())
        peer->pidns = namespace_of(view, peer->pid);
    /* The kernel reuses the number of an ended namespace, and the new one is another principal. */
    if (peer->pidns != 0 && peer->pidns != view->pidns &&
        process_identify(view, find_pid(peer, 1), &first, NULL) == DIBS_OK)
        peer->began_ticks = first.process.start_ticks;
    bool is_clear = peer->pidns == view->pidns || peer->began_ticks != 0;
    if (!is_clear && (errno == EMFILE || errno == ENFILE)) {
        int why = errno;

        peer_done(peer);
        return err_os(err, DIBS_UNAVAILABLE, why, "reading process %d at the other end", (int) peer->pid);
    }
    /* Check last: the facts are the peer's only if it is still alive. */
    if (peer->pidfd < 0 || proc_pidfd_ended(peer->pidfd)) {
        peer->pid = 0;
        peer->pidns = 0;
    }
    peer->is_here = peer->pidns == view->pidns;
    return DIBS_OK;
}

dibs_status peer_load(const struct process_view *view, int fd, struct peer *out, dibs_err *err)
{
    struct ucred cred = { 0 };
    socklen_t len = sizeof cred;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0)
        return err_os(err, DIBS_FAILURE, errno, "cannot identify the process at the other end");
    struct peer peer = {
        .uid = uid_map_above_seen(&view->users, cred.uid),
        .pid = cred.pid,
        .pidfd = -1,
    };
    if (peer.uid == UID_MAP_UNKNOWN)
        return err_set(err, DIBS_DENIED, "the user at the other end has no number in this user namespace");
    dibs_status s = find_process(view, fd, &peer, err);
    if (s != DIBS_OK)
        return s;
    if (peer.is_here)
        (void) snprintf(peer.principal, sizeof peer.principal, "uid:%" PRIu32, peer.uid);
    else if (peer.pidns != 0 && peer.began_ticks != 0)
        (void) snprintf(peer.principal, sizeof peer.principal, "uid:%" PRIu32 "@%" PRIu64 ".%" PRIu64,
                        peer.uid, peer.pidns, peer.began_ticks);
    else
        (void) snprintf(peer.principal, sizeof peer.principal, "uid:%" PRIu32 "@unknown", peer.uid);
    *out = peer;
    return DIBS_OK;
}

void peer_done(struct peer *peer)
{
    fd_auto(&peer->pidfd);
}

static dibs_status find_there(const struct process_view *view, const struct peer *peer, int32_t pid_there,
                              pid_t *here, dibs_err *err)
{
    struct process_facts facts = { 0 };

    if (peer->pidns == 0)
        return err_set(err, DIBS_DENIED,
                       "the daemon cannot see the pid namespace of process %" PRId32
                       "; hold the claim for a time (--ttl), keep it (--keep), or run the daemon outside of "
                       "containers",
                       pid_there);
    pid_t pid = find_pid(peer, pid_there);
    if (pid == 0 || process_identify(view, pid, &facts, NULL) == DIBS_NOT_FOUND)
        return err_set(err, DIBS_NOT_FOUND, "there is no process %" PRId32 " in pid namespace %" PRIu64,
                       pid_there, peer->pidns);
    /* A process that could not be identified belongs to no user and no namespace. */
    if (facts.process.pid != pid || facts.uid != peer->uid || namespace_of(view, pid) != peer->pidns)
        return err_set(err, DIBS_DENIED,
                       "process %" PRId32 " of pid namespace %" PRIu64 " is not one of user %" PRIu32
                       " there",
                       pid_there, peer->pidns, peer->uid);
    *here = pid;
    return DIBS_OK;
}

dibs_status peer_pid(const struct process_view *view, const struct peer *peer, int32_t pid_there, pid_t *here,
                     dibs_err *err)
{
    if (pid_there < 0)
        return err_set(err, DIBS_NOT_FOUND, "%" PRId32 " is not the number of a process", pid_there);
    if (pid_there > 0 && !peer->is_here)
        return find_there(view, peer, pid_there, here, err);
    if (pid_there == 0 && (peer->pid == 0 || proc_pidfd_ended(peer->pidfd)))
        return err_set(err, DIBS_NOT_FOUND,
                       "the process at the other end has ended, or cannot be seen from here");
    *here = pid_there > 0 ? pid_there : peer->pid;
    return DIBS_OK;
}

bool peer_may_name(const struct process_view *view, const struct peer *peer, const dibs_process *process)
{
    struct process_facts facts = { 0 };
    pid_t pid = process_pid_here(view, process);

    return pid == 0 || (process_identify(view, pid, &facts, NULL) == DIBS_OK && facts.uid == peer->uid &&
                        (peer->is_here || (peer->pidns != 0 && namespace_of(view, pid) == peer->pidns)));
}
