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

/* The cookie of the daemon's network namespace. Nearly all claims are there, and their ports need not be
 * searched: a bind waits for one line of memory, however many there are. */
const volatile __u64 own_netns;

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, PORTS_OWN_MAX);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, __u32);
    __type(value, struct ports_owner);
} own SEC(".maps");

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
    __type(value, struct ports_exempt);
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

static __always_inline struct task_struct *current_process(void)
{
    struct task_struct *task = (void *) bpf_get_current_task();

    return BPF_CORE_READ(task, group_leader);
}

static __always_inline __u32 start_ticks_of(struct task_struct *process)
{
    return BPF_CORE_READ(process, start_boottime) / NS_IN_TICK;
}

/* The search for an ancestor. This loop, and that over the owners of a port, are the kernel's (Linux 5.17),
 * which need not be unrolled to be proven. */
struct climb {
    struct task_struct *process;
    __u32 start_ticks;
    __u32 pid;
    __u32 is_found;
};

static long look_at_process(__u32 i, void *ctx)
{
    struct climb *climb = ctx;
    struct task_struct *process = climb->process;
    __u32 pid = BPF_CORE_READ(process, tgid);

    (void) i;
    if (pid == climb->pid) {
        climb->is_found = start_ticks_of(process) == climb->start_ticks;
        return 1;
    }
    climb->process = BPF_CORE_READ(process, real_parent, group_leader);
    return pid <= 1 || !climb->process;
}

static __always_inline int is_descendant(const struct ports_owner *owner)
{
    struct climb climb = { .process = current_process(),
                           .pid = owner->pid,
                           .start_ticks = owner->start_ticks };

    bpf_loop(PORTS_ANCESTORS_MAX, look_at_process, &climb, 0);
    return climb.is_found;
}

static __always_inline int is_in_cgroup(const struct ports_owner *owner)
{
    for (int i = 0; i < PORTS_NESTING_MAX; i++) {
        __u64 id = bpf_get_current_ancestor_cgroup_id(owner->level + i);

        if (id == owner->cgroup)
            return 1;
        if (id == 0)
            break;
    }
    return 0;
}

static __always_inline int is_process(__u32 pid, __u32 start_ticks)
{
    return pid == bpf_get_current_pid_tgid() >> 32 && start_ticks == start_ticks_of(current_process());
}

static __always_inline int may_bind(const struct ports_owner *owner)
{
    switch (owner->kind) {
    case PORTS_OWNER_UID: return (__u32) bpf_get_current_uid_gid() == owner->uid;
    case PORTS_OWNER_TREE:
        return (owner->cgroup && is_in_cgroup(owner)) || is_descendant(owner) ||
               (owner->helper_pid && is_process(owner->helper_pid, owner->helper_start_ticks));
    default: return 1;
    }
}

static __always_inline int is_daemon(void)
{
    __u32 first = 0;
    const struct ports_exempt *daemon = bpf_map_lookup_elem(&exempt, &first);

    return daemon && is_process(daemon->pid, daemon->start_ticks);
}

/* The search for an owner that refuses a bind. */
struct search {
    struct ports_key key;
    struct wanted want;
    __u32 is_refused;
};

static long look_at_owner(__u32 i, void *ctx)
{
    struct search *search = ctx;

    search->key.index = i + 1;
    const struct ports_owner *owner = bpf_map_lookup_elem(&claimed, &search->key);
    if (!owner)
        return 1;
    search->is_refused = overlaps(owner, &search->want) && !may_bind(owner);
    return search->is_refused;
}

static __always_inline const struct ports_owner *first_owner(const struct ports_key *key)
{
    __u32 index = ports_own_index(key, own_netns);

    if (index == 0)
        return bpf_map_lookup_elem(&claimed, key);
    const struct ports_owner *owner = bpf_map_lookup_elem(&own, &index);
    return owner && owner->n > 0 ? owner : 0;
}

static __always_inline int decide(struct bpf_sock_addr *ctx, const struct wanted *want)
{
    __u32 protocol = ctx->protocol;
    struct search search = { .key = { .netns = bpf_get_netns_cookie(ctx),
                                      .port = bpf_ntohs((__u16) ctx->user_port),
                                      .proto = protocol == MPTCP ? TCP : protocol } };

    if (search.key.port == 0)
        return ALLOW;
    const struct ports_owner *first = first_owner(&search.key);
    if (!first)
        return ALLOW;
    search.want = *want;
    search.is_refused = overlaps(first, want) && !may_bind(first);
    if (!search.is_refused && first->n > 1)
        bpf_loop(first->n - 1, look_at_owner, &search, 0);
    if (!search.is_refused || is_daemon())
        return ALLOW;
    bpf_set_retval(-IN_USE);
    return REFUSE;
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
