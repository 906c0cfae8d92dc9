/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOLD_BPF_PORTS_MAP_H
#define DIBS_HOLD_BPF_PORTS_MAP_H
/* The maps of claimed ports that the daemon writes and the kernel's programs (ports.bpf.c) read: an array
 * with the first owner of each port of the daemon's own network namespace, and a hash table with all others.
 *
 * The array is 8 MiB that the daemon and the kernel share: a claim costs no system call, and a bind waits for
 * one line of memory, with 10 claims 60 ns and with 10,000 70 ns. With a hash table alone it was 370 ns. */
#include <linux/types.h>

enum {
    /* Claims of one port and protocol that differ in their address: some addresses of 127.0.0.0/8 for each of
     * a user's work trees. */
    PORTS_OWNERS_MAX = 256,
    /* Elements of the array: every port in both protocols. */
    PORTS_OWN_MAX = 2 * 65536,
    /* Owners in the hash table: those of other network namespaces, and further ones of a port. */
    PORTS_MAX = 65536,
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
    PORTS_OWNER_NONE = 0, /* refuses nobody */
    PORTS_OWNER_TREE,     /* the process `pid`, its descendants, and all in `cgroup` and below it */
    PORTS_OWNER_UID,      /* every process of `uid` */
};

/* An owner of a port: one line of the CPU's cache, for which a bind of the port waits. */
struct ports_owner {
    __u64 claim;       /* its id: the daemon replaces and removes an owner by it */
    __u64 cgroup;      /* 0: none */
    __u32 address[4];  /* network byte order; IPv4 is mapped into IPv6 */
    __u32 pid;         /* in the initial pid namespace */
    __u32 start_ticks; /* lower half of field 22 of /proc/PID/stat */
    __u32 helper_pid;  /* a process that binds in its place, without its descendants; 0: none */
    __u32 helper_start_ticks;
    __u32 uid;
    __u32 level; /* depth of `cgroup`, at least: in a container it is that below the container's root */
    /* The last eight bytes say whether the others count. */
    __u16 n;   /* of index 0: how many owners the port has */
    __u8 kind; /* enum ports_owner_kind */
    __u8 any;  /* PORTS_ANY4, PORTS_ANY6; 0: `address` alone */
    __u32 unused;
} __attribute__((aligned(64)));

/* A process that may bind every port: the daemon. When it has ended, another process may get its number. */
struct ports_exempt {
    __u32 pid; /* in the initial pid namespace; 0: none */
    __u32 start_ticks;
};

/* Index in the array; 0: the hash table has the owner. (Element 0, of port 0, names the network namespace:
 * its claim is the cookie.) */
static inline __u32 ports_own_index(const struct ports_key *key, __u64 own_netns)
{
    if (key->netns != own_netns || key->index > 0)
        return 0;
    return key->proto == 6 ? key->port : key->proto == 17 ? 65536U + key->port : 0;
}
#endif
