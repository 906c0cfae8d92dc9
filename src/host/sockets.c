/* SPDX-License-Identifier: MIT */
/* List listening and bound sockets, whole before the first callback: a dump may have to be repeated. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/grow.h"
#include "host/kernel.h"
#include "host/procnet.h"
#include "net/proto.h"

#include "base/banned.h"

/* 65,535 ports on some addresses each; 48 bytes apiece, so 48 MiB at worst. */
#define SOCKETS_MAX (1u << 20)

bool socket_list_add(struct socket_list *list, const struct kernel_socket *socket)
{
    if (list->n == SOCKETS_MAX || !grow((void **) &list->item, list->n, &list->max, sizeof *list->item))
        return false;
    list->item[list->n++] = *socket;
    return true;
}

void socket_list_done(struct socket_list *list)
{
    free(list->item);
    *list = (struct socket_list){ 0 };
}

dibs_address socket_address(const uint8_t *bytes, bool is_v6, bool v6only)
{
    static const uint8_t mapped[12] = { [10] = 0xFF, [11] = 0xFF };
    bool is_mapped = is_v6 && memcmp(bytes, mapped, sizeof mapped) == 0;
    dibs_address address = { .len = is_v6 && !is_mapped ? 16 : 4, .v6only = is_v6 && !is_mapped && v6only };

    memcpy(address.bytes, is_mapped ? bytes + sizeof mapped : bytes, address.len);
    return address;
}

static dibs_status list_sockets(uint64_t netns, const struct socket_query *query, struct socket_list *list,
                                dibs_err *err)
{
    bool is_here = netns == 0 || netns == kernel_netns();
    AUTO(fd_auto) int fd = -1;

    /* All namespaces have one kernel: no process can have a socket of a protocol that it lacks. */
    if (proto_row(query->proto)->is_optional && !kernel_has_proto(query->proto))
        return DIBS_OK;
    dibs_status s = netns_socket(netns, &fd, err);
    if (s == DIBS_OK)
        s = sock_diag_list(fd, query, list, err);
    else if (!is_here)
        return s;
    if (s == DIBS_OK)
        return DIBS_OK;
    list->n = 0;
    if (is_here)
        return procnet_list(query, list, err);
    return err_wrap(err, DIBS_UNAVAILABLE, "sockets of another network namespace");
}

static dibs_status show_sockets(uint64_t netns, const struct socket_query *query, kernel_socket_fn fn,
                                void *ctx, dibs_err *err)
{
    AUTO(socket_list_done) struct socket_list list = { 0 };
    dibs_status s = list_sockets(netns, query, &list, err);

    for (size_t i = 0; s == DIBS_OK && i < list.n; i++) {
        if (!fn(ctx, &list.item[i]))
            break;
    }
    return s;
}

dibs_status kernel_sockets(uint64_t netns, dibs_proto proto, uint16_t port, kernel_socket_fn fn, void *ctx,
                           dibs_err *err)
{
    return show_sockets(netns, &(struct socket_query){ proto, port, SOCKETS_SERVING(proto) }, fn, ctx, err);
}

dibs_status kernel_blocking_sockets(dibs_proto proto, uint16_t port, kernel_socket_fn fn, void *ctx,
                                    dibs_err *err)
{
    return show_sockets(0, &(struct socket_query){ proto, port, SOCKETS_BLOCKING(proto) }, fn, ctx, err);
}

dibs_status kernel_peer_uid(int fd, uint32_t *uid, dibs_err *err)
{
    struct sockaddr_storage here = { 0 };
    struct sockaddr_storage there = { 0 };
    socklen_t here_len = sizeof here;
    socklen_t there_len = sizeof there;

    if (getsockname(fd, (struct sockaddr *) &here, &here_len) != 0 ||
        getpeername(fd, (struct sockaddr *) &there, &there_len) != 0)
        return err_os(err, DIBS_NOT_FOUND, errno, "the other end has gone");
    if (here.ss_family != there.ss_family || (here.ss_family != AF_INET && here.ss_family != AF_INET6))
        return err_set(err, DIBS_INVALID, "this is not a TCP connection");
    AUTO(fd_auto) int netlink = -1;
    dibs_status s = netns_socket(0, &netlink, err);
    return s == DIBS_OK ? sock_diag_find(netlink, &there, &here, uid, err) : s;
}
