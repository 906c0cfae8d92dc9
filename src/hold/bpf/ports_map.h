/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOLD_BPF_PORTS_MAP_H
#define DIBS_HOLD_BPF_PORTS_MAP_H
/* The map of claimed ports that the daemon writes and the kernel's programs (ports.bpf.c) read. */
#include <linux/types.h>

enum {
    /* Claims of one port and protocol that differ in their address: some addresses of 127.0.0.0/8 for each of
     * a user's work trees. */
    PORTS_OWNERS_MAX = 256,
    /* Owners in the kernel's map: every port of one network namespace in both protocols. */
    PORTS_MAX = 2 * 65536,
    /* Ancestors of a process that are compared with a claim's holder. The loop ends at process 1; a bound is
     * what a bind may cost. */
    PORTS_ANCESTORS_MAX = 1024,
    /* Depth of the cgroup namespace of a daemon in a container below the host's root. */
    PORTS_NESTING_MAX = 16,
};

struct ports_key {
    __u64 netns; /* SO_NETNS_COOKIE */
    __u16 port;  /* host byte order */
    __u16 proto; /* IPPROTO_TCP or IPPROTO_UDP */
    __u32 index; /* of the owner; nearly always there is only 0 */
};

/* Which addresses a claim covers. */
enum {
    PORTS_ANY4 = 1, /* every IPv4 address */
    PORTS_ANY6 = 2, /* every IPv6 address */
};

enum ports_owner_kind {
    PORTS_OWNER_NONE = 0,
    PORTS_OWNER_TREE, /* the process `pid`, its descendants, and all in `cgroup` and below it */
    PORTS_OWNER_UID,  /* every process of `uid` */
};

/* An owner of a port. Small, because a bind of the port waits for the memory that it is in. */
struct ports_owner {
    __u64 claim;       /* its id: the daemon replaces and removes an owner by it */
    __u64 cgroup;      /* 0: none */
    __u64 start_ticks; /* field 22 of /proc/PID/stat */
    __u64 helper_start_ticks;
    __u32 helper_pid; /* a process that binds in its place, without its descendants; 0: none */
    __u32 pid;        /* in the initial pid namespace */
    __u32 uid;
    __u8 kind;  /* enum ports_owner_kind */
    __u8 any;   /* PORTS_ANY4, PORTS_ANY6; 0: `address` alone */
    __u8 level; /* depth of `cgroup`, at least: in a container it is that below the container's root */
    __u8 unused1;
    __u16 n; /* of index 0: how many owners the port has */
    __u16 unused2;
    __u32 unused3;
    __u32 address[4]; /* network byte order; IPv4 is mapped into IPv6 */
};

/* A process that may bind every port: the daemon. When it has ended, another process may get its number. */
struct ports_exempt {
    __u64 start_ticks;
    __u32 pid; /* in the initial pid namespace; 0: none */
    __u32 unused;
};
#endif
