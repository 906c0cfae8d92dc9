/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOLD_BPF_HAND_OVER_H
#define DIBS_HOLD_BPF_HAND_OVER_H
/* What dibs-bpf sends to the daemon: one message with the descriptors, or with the reason of a failure. */

enum {
    HAND_OVER_FD = 3, /* the socket, in dibs-bpf */
    HAND_OVER_TEXT_MAX = 512,
    HAND_OVER_CLAIMED = 0, /* index of the maps of claimed ports (ports_map.h): the hash table */
    HAND_OVER_OWN,         /* and the array */
    HAND_OVER_EXEMPT,      /* the map that names the daemon */
    HAND_OVER_BIND4,       /* the attachments */
    HAND_OVER_BIND6,
    HAND_OVER_NUMBERS, /* the map of port numbers, one element for each cgroup */
    HAND_OVER_AS,      /* the programs that read it, in the order of HAND_OVER_AS_MAP */
};

/* program, where it is attached */
#define HAND_OVER_AS_MAP(X)                          \
    X(as_bind4, BPF_CGROUP_INET4_BIND)               \
    X(as_bind6, BPF_CGROUP_INET6_BIND)               \
    X(as_connect4, BPF_CGROUP_INET4_CONNECT)         \
    X(as_connect6, BPF_CGROUP_INET6_CONNECT)         \
    X(as_sendmsg4, BPF_CGROUP_UDP4_SENDMSG)          \
    X(as_sendmsg6, BPF_CGROUP_UDP6_SENDMSG)          \
    X(as_recvmsg4, BPF_CGROUP_UDP4_RECVMSG)          \
    X(as_recvmsg6, BPF_CGROUP_UDP6_RECVMSG)          \
    X(as_getsockname4, BPF_CGROUP_INET4_GETSOCKNAME) \
    X(as_getsockname6, BPF_CGROUP_INET6_GETSOCKNAME) \
    X(as_getpeername4, BPF_CGROUP_INET4_GETPEERNAME) \
    X(as_getpeername6, BPF_CGROUP_INET6_GETPEERNAME)

#define HAND_OVER_ONE(program, type) +1
enum { HAND_OVER_FDS = HAND_OVER_AS HAND_OVER_AS_MAP(HAND_OVER_ONE) };

/* Where attachments outlive the daemon (dibs serve --enforce-persistent). */
#define HAND_OVER_PINS "/sys/fs/bpf/dibs"
/* What dibs-bpf does there. */
#define HAND_OVER_PIN "pin"       /* pin, and continue with the pins that are there */
#define HAND_OVER_UNPIN "unpin"   /* end what is pinned there */
#define HAND_OVER_IGNORE "ignore" /* nothing: they are those of another daemon that runs */
#endif
