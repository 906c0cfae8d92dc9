/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Let the processes of a cgroup use port numbers of their own (dibs run --as).
 *
 * bind, connect and sendmsg replace the number inside by the claimed port, getsockname, getpeername and
 * recvmsg do the reverse. Connections to other hosts are left alone. */
#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "hold/bpf/numbers_map.h"

enum {
    TCP = 6,
    MPTCP = 262, /* occupies TCP's ports */
    IN_USE = 98, /* EADDRINUSE */
    ALLOW = 1,
    REFUSE = 0,
    NO_NEW_PRIVS = 1, /* bit 0 of task_struct.atomic_flags */
};

/* The member of the kernel's structure that is read; libbpf finds its offset in the running kernel. */
struct task_struct {
    unsigned long atomic_flags;
} __attribute__((preserve_access_index));

/* One element for each cgroup that the programs are attached to. */
struct {
    __uint(type, BPF_MAP_TYPE_CGROUP_STORAGE);
    __type(key, __u64);
    __type(value, struct numbers);
} numbers SEC(".maps");

/* The daemon has looked at one process; others of its cgroup can be without PR_SET_NO_NEW_PRIVS. */
static __always_inline int could_gain_rights(void)
{
    const struct task_struct *task = (void *) bpf_get_current_task();

    return !(BPF_CORE_READ(task, atomic_flags) & NO_NEW_PRIVS);
}

static __always_inline const struct numbers *numbers_of(struct bpf_sock_addr *ctx)
{
    const struct numbers *all = bpf_get_local_storage(&numbers, 0);

    if (all->n == 0 || all->netns != bpf_get_netns_cookie(ctx))
        return 0;
    return all->is_users && could_gain_rights() ? 0 : all;
}

/* What a loop over the numbers or the addresses looks for. The loops are the kernel's (Linux 5.17), which
 * need not be unrolled to be proven. */
struct search {
    const struct numbers *all;
    const struct number *found;
    __u32 address[4];
    __u16 port;
    __u8 proto;
    __u8 is_inside;
    __u8 is_local;
};

static long try_number(__u32 i, void *ctx)
{
    struct search *search = ctx;

    if (i >= NUMBERS_MAX)
        return 1;
    const struct number *number = &search->all->number[i];
    if ((search->is_inside ? number->inside : number->outside) != search->port ||
        number->proto != search->proto)
        return 0;
    search->found = number;
    return 1;
}

static __always_inline const struct number *find(const struct numbers *all, struct bpf_sock_addr *ctx,
                                                 int is_inside)
{
    struct search search = { .all = all,
                             .port = bpf_ntohs((__u16) ctx->user_port),
                             .proto = ctx->protocol == MPTCP ? TCP : ctx->protocol,
                             .is_inside = is_inside };

    bpf_loop(all->n, try_number, &search, 0);
    return search.found;
}

static long try_address(__u32 i, void *ctx)
{
    struct search *search = ctx;

    if (i >= NUMBERS_ADDRESSES_MAX)
        return 1;
    const __u32 *own = search->all->address[i];
    search->is_local = own[0] == search->address[0] && own[1] == search->address[1] &&
                       own[2] == search->address[2] && own[3] == search->address[3];
    return search->is_local;
}

/* Is it an address of this host? */
static __always_inline int is_local(const struct numbers *all, __u32 a, __u32 b, __u32 c, __u32 d)
{
    int is_ip4 = a == 0 && b == 0 && c == bpf_htonl(0xffff);
    struct search search = { .all = all, .address = { a, b, c, d } };

    if (is_ip4 && (d == 0 || (bpf_ntohl(d) >> 24) == 127))
        return 1;
    if (a == 0 && b == 0 && c == 0 && (d == 0 || d == bpf_htonl(1)))
        return 1;
    bpf_loop(all->n_addresses, try_address, &search, 0);
    return search.is_local;
}

static __always_inline int is_local4(const struct numbers *all, struct bpf_sock_addr *ctx)
{
    return is_local(all, 0, 0, bpf_htonl(0xffff), ctx->user_ip4);
}

static __always_inline int is_local6(const struct numbers *all, struct bpf_sock_addr *ctx)
{
    return is_local(all, ctx->user_ip6[0], ctx->user_ip6[1], ctx->user_ip6[2], ctx->user_ip6[3]);
}

static __always_inline int on_bind(struct bpf_sock_addr *ctx)
{
    const struct numbers *all = numbers_of(ctx);
    const struct number *number = all ? find(all, ctx, 1) : 0;

    if (!number)
        return ALLOW;
    if (!number->is_own) {
        bpf_set_retval(-IN_USE);
        return REFUSE;
    }
    ctx->user_port = bpf_htons(number->outside);
    return ALLOW;
}

SEC("cgroup/bind4")
int as_bind4(struct bpf_sock_addr *ctx)
{
    return on_bind(ctx);
}

SEC("cgroup/bind6")
int as_bind6(struct bpf_sock_addr *ctx)
{
    return on_bind(ctx);
}

/* Replace the port of a peer that is this host. */
#define PEER(name, section, is_local_fn, is_inside)                                     \
    SEC(section) int name(struct bpf_sock_addr *ctx)                                    \
    {                                                                                   \
        const struct numbers *all = numbers_of(ctx);                                    \
        const struct number *number = all ? find(all, ctx, is_inside) : 0;              \
                                                                                        \
        if (number && is_local_fn(all, ctx))                                            \
            ctx->user_port = bpf_htons((is_inside) ? number->outside : number->inside); \
        return ALLOW;                                                                   \
    }

PEER(as_connect4, "cgroup/connect4", is_local4, 1)
PEER(as_connect6, "cgroup/connect6", is_local6, 1)
PEER(as_sendmsg4, "cgroup/sendmsg4", is_local4, 1)
PEER(as_sendmsg6, "cgroup/sendmsg6", is_local6, 1)
PEER(as_recvmsg4, "cgroup/recvmsg4", is_local4, 0)
PEER(as_recvmsg6, "cgroup/recvmsg6", is_local6, 0)
PEER(as_getpeername4, "cgroup/getpeername4", is_local4, 0)
PEER(as_getpeername6, "cgroup/getpeername6", is_local6, 0)

static __always_inline int on_name(struct bpf_sock_addr *ctx)
{
    const struct numbers *all = numbers_of(ctx);
    const struct number *number = all ? find(all, ctx, 0) : 0;

    if (number)
        ctx->user_port = bpf_htons(number->inside);
    return ALLOW;
}

SEC("cgroup/getsockname4")
int as_getsockname4(struct bpf_sock_addr *ctx)
{
    return on_name(ctx);
}

SEC("cgroup/getsockname6")
int as_getsockname6(struct bpf_sock_addr *ctx)
{
    return on_name(ctx);
}

char programs_license[] SEC("license") = "Dual MIT/GPL";
