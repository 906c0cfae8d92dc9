/* SPDX-License-Identifier: MIT */
#ifndef DIBS_OWNER_PEER_H
#define DIBS_OWNER_PEER_H
/* Who is at the other end of a connected Unix socket: the process that connected, as the kernel has noted it.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "owner/owner.h"

struct owner_peer {
    uint32_t uid;         /* as seen from above our user namespace */
    uint32_t gid;         /* as the kernel tells it here */
    pid_t pid;            /* in our pid namespace; 0: not visible from here, or ended */
    uint64_t pidns;       /* of the peer; 0: not known */
    bool is_here;         /* in our own pid namespace */
    uint64_t began_ticks; /* when another namespace did; 0: not known */
    int pidfd;            /* -1: none */
    /* "uid:N" of a peer in our pid namespace. In another it is somebody else: "uid:N@INODE.TICKS", or
     * "uid:N@unknown" when it cannot be told; root of a container is not root of the host, nor of a later
     * container. */
    char principal[DIBS_PRINCIPAL_MAX + 1];
};

/* DENIED: the peer's uid has no number here. UNAVAILABLE: no descriptor left. The caller ends *out with
 * owner_peer_done(). */
dibs_status owner_peer_load(const struct owner_view *view, int fd, struct owner_peer *out, dibs_err *err);
void owner_peer_done(struct owner_peer *peer);

/* Our pid of the process that the peer calls `pid_there`; 0: the peer itself. Of a peer in our own pid
 * namespace it is the same number, and nothing is checked. Otherwise it must be a process of the same uid in
 * the peer's own pid namespace, else DENIED. NOT_FOUND: there is none. */
dibs_status owner_peer_pid(const struct owner_view *view, const struct owner_peer *peer, int32_t pid_there,
                           pid_t *here, dibs_err *err);
#endif
