/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Refuse the bind of a claimed port to every process that does not belong to the claim (EADDRINUSE).
 *
 * The programs are attached to the root of the cgroup hierarchy, so that they see every bind of the host, and
 * the daemon keeps their map up to date. They run in the kernel: no loop without a bound, no allocation. */
#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "hold/bpf/ports_map.h"

enum {
    TCP = 6,
    UDP = 17,
    MPTCP = 262, /* occupies TCP's ports */
    IN_USE = 98, /* EADDRINUSE */
    ALLOW = 1,
    REFUSE = 0,
    /* /proc counts start times in ticks of 10 ms. */
    NS_IN_TICK = 10000000,
};

/* The members of kernel structures that are read; libbpf finds their offsets in the running kernel. */
struct task_struct {
    int tgid;
    unsigned long long start_boottime;
    struct task_struct *real_parent;
    struct task_struct *group_leader;
} __attribute__((preserve_access_index));

struct sock_common {
    unsigned char skc_ipv6only : 1;
} __attribute__((preserve_access_index));

struct sock {
    struct sock_common __sk_common;
} __attribute__((preserve_access_index));

struct inet_sock {
    struct sock sk;
} __attribute__((preserve_access_index));

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, PORTS_MAX);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, struct ports_key);
    __type(value, struct ports_owner);
} claimed SEC(".maps");

/* The daemon, which probes ports and makes guards: it may bind everything. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u32);
} exempt SEC(".maps");

struct wanted {
    __u32 address[4];
    __u8 any;
};

static __always_inline int overlaps(const struct ports_owner *owner, const struct wanted *want)
{
    int is_ip4 = want->address[0] == 0 && want->address[1] == 0 && want->address[2] == bpf_htonl(0xffff);

    if (owner->any & want->any)
        return 1;
    if (!owner->any && !want->any)
        return owner->address[0] == want->address[0] && owner->address[1] == want->address[1] &&
               owner->address[2] == want->address[2] && owner->address[3] == want->address[3];
    if (owner->any && !want->any)
        return owner->any & (is_ip4 ? PORTS_ANY4 : PORTS_ANY6);
    if (owner->any)
        return 0; /* one is IPv4 and one IPv6 */
    is_ip4 = owner->address[0] == 0 && owner->address[1] == 0 && owner->address[2] == bpf_htonl(0xffff);
    return want->any & (is_ip4 ? PORTS_ANY4 : PORTS_ANY6);
}

static __always_inline int is_descendant(const struct ports_owner *owner)
{
    struct task_struct *task = (void *) bpf_get_current_task();

    task = BPF_CORE_READ(task, group_leader);
    for (int i = 0; i < PORTS_ANCESTORS_MAX && task; i++) {
        if ((__u32) BPF_CORE_READ(task, tgid) == owner->pid)
            return BPF_CORE_READ(task, start_boottime) / NS_IN_TICK == owner->start_ticks;
        task = BPF_CORE_READ(task, real_parent, group_leader);
    }
    return 0;
}

static __always_inline int may_bind(const struct ports_owner *owner)
{
    switch (owner->kind) {
    case PORTS_OWNER_UID: return (__u32) bpf_get_current_uid_gid() == owner->uid;
    case PORTS_OWNER_TREE:
        if (owner->cgroup && bpf_get_current_ancestor_cgroup_id(owner->level) == owner->cgroup)
            return 1;
        return is_descendant(owner);
    default: return 1;
    }
}

static __always_inline int is_daemon(void)
{
    __u32 first = 0;
    const __u32 *daemon = bpf_map_lookup_elem(&exempt, &first);

    return daemon && *daemon == bpf_get_current_pid_tgid() >> 32;
}

static __always_inline int decide(struct bpf_sock_addr *ctx, const struct wanted *want)
{
    __u32 protocol = ctx->protocol;
    struct ports_key key = { .netns = bpf_get_netns_cookie(ctx),
                             .port = bpf_ntohs((__u16) ctx->user_port),
                             .proto = protocol == MPTCP ? TCP : protocol };

    if (key.port == 0)
        return ALLOW;
    __u32 n = 1;
    for (__u32 i = 0; i < PORTS_OWNERS_MAX; i++) {
        if (i >= n)
            break;
        key.index = i;
        const struct ports_owner *owner = bpf_map_lookup_elem(&claimed, &key);
        if (!owner)
            break;
        if (i == 0)
            n = owner->n;
        if (overlaps(owner, want) && !may_bind(owner) && !is_daemon()) {
            bpf_set_retval(-IN_USE);
            return REFUSE;
        }
    }
    return ALLOW;
}

SEC("cgroup/bind4")
int bind4(struct bpf_sock_addr *ctx)
{
    __u32 address = ctx->user_ip4;
    struct wanted want = { .address = { 0, 0, bpf_htonl(0xffff), address },
                           .any = address == 0 ? PORTS_ANY4 : 0 };

    return decide(ctx, &want);
}

/* Does this IPv6 socket leave IPv4 alone? */
static __always_inline int is_v6only(struct bpf_sock_addr *ctx)
{
    const struct inet_sock *inet = NULL;

    if (!ctx->sk)
        return 0;
    if (ctx->protocol == UDP)
        inet = (const void *) bpf_skc_to_udp6_sock(ctx->sk);
    else
        inet = (const void *) bpf_skc_to_tcp6_sock(ctx->sk);
    return inet && BPF_CORE_READ_BITFIELD_PROBED(&inet->sk.__sk_common, skc_ipv6only);
}

SEC("cgroup/bind6")
int bind6(struct bpf_sock_addr *ctx)
{
    struct wanted want = { .address = { ctx->user_ip6[0], ctx->user_ip6[1], ctx->user_ip6[2],
                                        ctx->user_ip6[3] } };

    if ((want.address[0] | want.address[1] | want.address[2] | want.address[3]) == 0)
        want.any = is_v6only(ctx) ? PORTS_ANY6 : PORTS_ANY4 | PORTS_ANY6;
    else if (want.address[0] == 0 && want.address[1] == 0 && want.address[2] == bpf_htonl(0xffff) &&
             want.address[3] == 0)
        want.any = PORTS_ANY4;
    return decide(ctx, &want);
}

char programs_license[] SEC("license") = "Dual MIT/GPL"; /* helpers that read kernel structures ask for it */
