/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOLD_BPF_NUMBERS_MAP_H
#define DIBS_HOLD_BPF_NUMBERS_MAP_H
/* The port numbers that the processes of one cgroup believe in: the daemon writes them, the kernel's programs
 * (numbers.bpf.c) read them. They live as long as the cgroup. */
#include <linux/types.h>

enum {
    NUMBERS_MAX = 256,          /* as AS_NUMBERS_MAX */
    NUMBERS_ADDRESSES_MAX = 60, /* of the host; the kernel limits the whole to a page */
};

struct number {
    __u16 inside;  /* what the processes see; host byte order */
    __u16 outside; /* the claimed port */
    __u8 proto;    /* IPPROTO_TCP or IPPROTO_UDP */
    __u8 is_own;   /* 0: another cgroup binds it; this one can only connect to it */
    __u16 unused;
};

struct numbers {
    __u64 netns; /* SO_NETNS_COOKIE: sockets of other network namespaces are left alone */
    __u16 n;
    __u16 n_addresses;
    __u32 is_users; /* an ordinary user's: processes that could gain rights have the real numbers */
    struct number number[NUMBERS_MAX];
    /* The host's addresses beside loopback; network byte order, IPv4 is mapped into IPv6. */
    __u32 address[NUMBERS_ADDRESSES_MAX][4];
};
#endif
