/* SPDX-License-Identifier: MIT */
#include "hold/guard.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "host/kernel.h"
#include "net/proto.h"

#include "base/banned.h"

static int switch_on(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof value);
}

static bool is_v6(const dibs_binding *binding)
{
    return binding->address.len != sizeof(struct in_addr);
}

/* Bind the socket. Return 0, or errno. A UDP socket gets its device before the port if it can, so that there
 * is no moment in which it could receive. On a single IPv6 address the kernel looks for the device when it
 * binds; there SO_REUSEPORT comes last, and guard_open() has seen that no program is bound. */
static int bind_guard(int fd, const dibs_binding *binding, uint16_t port)
{
    union kernel_sockaddr address;
    socklen_t len = kernel_sockaddr(&binding->address, port, &address);
    bool is_wildcard = dibs_address_is_wildcard(&binding->address);
    bool is_udp = binding->proto == DIBS_UDP;
    bool is_late = is_v6(binding) && !is_wildcard;
    int v6only = binding->address.v6only || !is_wildcard;

    if ((is_v6(binding) && switch_on(fd, IPPROTO_IPV6, IPV6_V6ONLY, v6only) != 0) ||
        switch_on(fd, SOL_SOCKET, SO_REUSEADDR, 1) != 0)
        return errno;
    if (!is_late && switch_on(fd, SOL_SOCKET, SO_BINDTOIFINDEX, KERNEL_GUARD_DEVICE) != 0 && is_udp)
        return errno;
    if (!(is_late && is_udp) && switch_on(fd, SOL_SOCKET, SO_REUSEPORT, 1) != 0)
        return errno;
    if (kernel_bind(fd, &address, len) != 0)
        return errno;
    if (is_late && switch_on(fd, SOL_SOCKET, SO_BINDTOIFINDEX, KERNEL_GUARD_DEVICE) != 0 && is_udp)
        return errno;
    return is_late && is_udp && switch_on(fd, SOL_SOCKET, SO_REUSEPORT, 1) != 0 ? errno : 0;
}

dibs_status guard_check(const dibs_binding *bindings, size_t n, dibs_err *err)
{
    for (size_t i = 0; i < n; i++) {
        AUTO(fd_auto) int fd = -1;

        if (bindings[i].proto != DIBS_TCP && bindings[i].proto != DIBS_UDP)
            return err_set(err, DIBS_FAILURE, "a guard is for tcp and udp, not for %s",
                           dibs_proto_text(bindings[i].proto));
        if (bindings[i].proto != DIBS_UDP)
            continue;
        fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || switch_on(fd, SOL_SOCKET, SO_BINDTOIFINDEX, KERNEL_GUARD_DEVICE) != 0)
            return err_os(err, DIBS_FAILURE, errno,
                          "a guard for udp needs SO_BINDTOIFINDEX without privileges (Linux 5.7)");
    }
    return DIBS_OK;
}

static dibs_status refuse(const dibs_binding *binding, uint16_t port, int os_errno, dibs_err *err)
{
    if (os_errno != EADDRINUSE) {
        kernel_probe_why(binding, port, os_errno, err);
        return err->code;
    }
    return err_set(err, DIBS_TAKEN, "port %u/%s is in use by a socket that a guard cannot join", port,
                   dibs_proto_text(binding->proto));
}

static bool is_any(void *ctx, const struct kernel_socket *socket)
{
    (void) socket;
    *(bool *) ctx = true;
    return false;
}

/* A program with a UDP socket on one IPv6 address must not be joined, not even for a moment: bind_guard(). */
static bool is_occupied(const dibs_binding *binding, uint64_t netns, uint16_t port)
{
    bool is_used = false;

    return binding->proto == DIBS_UDP && is_v6(binding) && !dibs_address_is_wildcard(&binding->address) &&
           (kernel_sockets(netns, DIBS_UDP, port, is_any, &is_used, NULL) != DIBS_OK || is_used);
}

static dibs_status open_one(const struct guard_place *place, const dibs_binding *binding, int *out,
                            dibs_err *err)
{
    const struct proto *row = proto_row(binding->proto);
    AUTO(fd_auto) int fd = -1;

    if (!row || row->socket_type == 0)
        return err_set(err, DIBS_FAILURE, "an unknown protocol");
    const struct kernel_socket_kind kind = { is_v6(binding) ? AF_INET6 : AF_INET, row->socket_type,
                                             row->ip_proto };
    if (is_occupied(binding, place->netns, place->port))
        return refuse(binding, place->port, EADDRINUSE, err);
    dibs_status s = kernel_socket_in(place->netns, &kind, &fd, err);
    if (s != DIBS_OK)
        return s;
    /* The kernel compares the users of sockets that share by SO_REUSEPORT. */
    if (place->uid != 0 && geteuid() == 0)
        (void) !fchown(fd, place->uid, (gid_t) -1);
    int failed = bind_guard(fd, binding, place->port);
    if (failed)
        return refuse(binding, place->port, failed, err);
    *out = fd_take(&fd);
    return DIBS_OK;
}

struct guard_place guard_place_of(const dibs_claim *claim)
{
    struct guard_place place = {
        .netns = claim->netns, .uid = claim->uid, .port = claim->port, .n_bindings = claim->n_bindings
    };

    memcpy(place.bindings, claim->bindings, sizeof place.bindings);
    return place;
}

dibs_status guard_open(const struct guard_place *place, struct guard *out, dibs_err *err)
{
    AUTO(guard_close) struct guard guard = { .n = 0 };
    dibs_err local = { 0 };
    dibs_status s = guard_check(place->bindings, place->n_bindings, err ? err : &local);

    for (size_t i = 0; i < place->n_bindings && i < DIBS_BINDINGS_MAX && s == DIBS_OK; i++) {
        s = open_one(place, &place->bindings[i], &guard.fd[guard.n], err ? err : &local);
        guard.n += s == DIBS_OK;
    }
    if (s != DIBS_OK)
        return s;
    *out = guard;
    guard.n = 0;
    return DIBS_OK;
}

void guard_close(struct guard *guard)
{
    for (size_t i = 0; i < guard->n; i++)
        (void) close(guard->fd[i]);
    guard->n = 0;
}

bool guard_has(int fd, uint16_t port)
{
    union kernel_sockaddr at = { .any = { .sa_family = AF_UNSPEC } };
    socklen_t len = sizeof at;
    int is_listening = 0;
    socklen_t int_len = sizeof is_listening;

    if (getsockname(fd, &at.any, &len) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &int_len) != 0 || is_listening)
        return false;
    return port == (at.any.sa_family == AF_INET    ? ntohs(at.v4.sin_port)
                    : at.any.sa_family == AF_INET6 ? ntohs(at.v6.sin6_port)
                                                   : 0);
}
