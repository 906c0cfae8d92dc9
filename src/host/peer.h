/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOST_PEER_H
#define DIBS_HOST_PEER_H
/* The process at the other end of a connected Unix socket, as the kernel recorded it at connect. */
#include <sys/types.h>

#include "host/process.h"

struct peer {
    uint32_t uid;         /* in the parent of our user namespace */
    pid_t pid;            /* in our pid namespace; 0: not visible from here, or ended */
    uint64_t pidns;       /* the peer's; 0: unknown */
    bool is_here;         /* the peer is in our own pid namespace */
    uint64_t began_ticks; /* start time of the peer's namespace if that is not ours; 0: unknown */
    int pidfd;            /* -1: none */
    /* "uid:N" in our pid namespace; "uid:N@INODE.TICKS" in another; "uid:N@unknown" when that is unknown:
     * root of a container is neither root of the host nor of a later container. */
    char principal[DIBS_PRINCIPAL_MAX + 1];
};

/* Identify the peer; end *out with peer_done(). DENIED: no uid here. UNAVAILABLE: no descriptor left. */
dibs_status peer_load(const struct process_view *view, int fd, struct peer *out, dibs_err *err);
void peer_done(struct peer *peer);

/* Translate `pid_there`, a pid as the peer sees it, to our pid; 0: the peer itself. In our own pid namespace
 * it is the same number, unchecked. Otherwise it must be a process of the same uid in the peer's own pid
 * namespace, else DENIED. NOT_FOUND: no such process. */
dibs_status peer_pid(const struct process_view *view, const struct peer *peer, int32_t pid_there, pid_t *here,
                     dibs_err *err);
/* Return false when the process is alive and the peer could not have named it by peer_pid(): it belongs to
 * another user, or to a pid namespace that is neither ours nor the peer's. */
bool peer_may_name(const struct process_view *view, const struct peer *peer, const dibs_process *process);
#endif
