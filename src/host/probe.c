/* SPDX-License-Identifier: MIT */
/* The bind probe: can this port be bound right now?
 *
 * TCP binds with SO_REUSEADDR and never listens. So the probe sees every listener, ignores TIME_WAIT, and a
 * server that sets SO_REUSEADDR itself may bind and listen while the probe socket exists. */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/auto.h"
#include "base/err.h"
#include "host/kernel.h"
#include "net/proto.h"

#include "base/banned.h"

socklen_t kernel_sockaddr(const dibs_address *address, uint16_t port, union kernel_sockaddr *out)
{
    memset(out, 0, sizeof *out);
    if (address->len == sizeof out->v4.sin_addr) {
        out->v4.sin_family = AF_INET;
        out->v4.sin_port = htons(port);
        memcpy(&out->v4.sin_addr, address->bytes, sizeof out->v4.sin_addr);
        return sizeof out->v4;
    }
    out->v6.sin6_family = AF_INET6;
    out->v6.sin6_port = htons(port);
    memcpy(&out->v6.sin6_addr, address->bytes, sizeof out->v6.sin6_addr);
    return sizeof out->v6;
}

static int open_socket(int family, dibs_proto proto)
{
    const struct proto *row = proto_row(proto);

    if (row)
        return socket(family, row->socket_type | SOCK_CLOEXEC, row->ip_proto);
    errno = EPROTONOSUPPORT;
    return -1;
}

int kernel_open(const dibs_binding *binding)
{
    bool is_v6 = binding->address.len != sizeof(struct in_addr);
    AUTO(fd_auto) int fd = open_socket(is_v6 ? AF_INET6 : AF_INET, binding->proto);
    int on = 1;

    if (fd < 0)
        return -1;
    if (binding->proto != DIBS_UDP && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0)
        return -1;
    if (is_v6) {
        /* Only the wildcard is dual-stack; do not rely on the host's bindv6only. */
        int v6only = binding->address.v6only || !dibs_address_is_wildcard(&binding->address);
        if (setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof v6only) != 0)
            return -1;
    }
    return fd_take(&fd);
}

/* The mark: a time that no program sets, of a limit that means nothing before there is data. */
static const struct timeval mark = { .tv_sec = 0xd1b5 };

int kernel_bind(int fd, const union kernel_sockaddr *address, socklen_t len)
{
    const struct timeval none = { .tv_sec = 0 };

    (void) setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &mark, sizeof mark);
    int code = bind(fd, &address->any, len);
    int failed = errno;
    (void) setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof none); /* a program may get the socket */
    errno = failed;
    return code;
}

bool kernel_binds(int fd)
{
    struct timeval found = { .tv_sec = 0 };
    socklen_t size = sizeof found;

    return getsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &found, &size) == 0 && found.tv_sec == mark.tv_sec;
}

/* Return 0, or the errno of the step that failed. */
static int try_bind(const dibs_binding *binding, uint16_t port)
{
    union kernel_sockaddr address;
    socklen_t len = kernel_sockaddr(&binding->address, port, &address);
    AUTO(fd_auto) int fd = kernel_open(binding);

    return fd < 0 || kernel_bind(fd, &address, len) != 0 ? errno : 0;
}

static const char *hint(const dibs_binding *binding, int os_errno)
{
    switch (os_errno) {
    case EACCES: return " (a privileged port, or a security policy)";
    case EADDRNOTAVAIL: return " (no interface of this host has that address)";
    case EAFNOSUPPORT: return binding->address.len == 4 ? "" : " (this host has no IPv6)";
    case EPROTONOSUPPORT: return " (this kernel does not have the protocol)";
    case EINVAL: return " (a link-local address cannot be probed without its interface)";
    case EMFILE: return " (this process has too many open files)";
    default: return "";
    }
}

void kernel_probe_why(const dibs_binding *binding, uint16_t port, int os_errno, dibs_err *err)
{
    char text[DIBS_ADDRESS_TEXT_MAX + 1];
    bool is_v6 = binding->address.len != 4 && !dibs_address_is_wildcard(&binding->address);

    dibs_address_format(&binding->address, text);
    (void) err_os(err, os_errno == EACCES ? DIBS_DENIED : DIBS_FAILURE, os_errno,
                  "cannot bind %s %s%s%s:%u%s", dibs_proto_text(binding->proto), is_v6 ? "[" : "", text,
                  is_v6 ? "]" : "", (unsigned) port, hint(binding, os_errno));
}

enum kernel_probe_result kernel_probe(const dibs_binding *bindings, size_t n, uint16_t port, dibs_err *err)
{
    for (size_t i = 0; i < n; i++) {
        int failed = bindings[i].address.len == 4 || bindings[i].address.len == 16
                         ? try_bind(&bindings[i], port)
                         : EAFNOSUPPORT;

        if (failed == 0)
            continue;
        if (failed == EADDRINUSE)
            return KERNEL_BUSY;
        kernel_probe_why(&bindings[i], port, failed, err);
        return KERNEL_ABORT;
    }
    return KERNEL_FREE;
}

bool kernel_has_ipv6(void)
{
    dibs_binding loopback = { .proto = DIBS_UDP, .address = { .len = 16 } };

    loopback.address.bytes[15] = 1;
    return try_bind(&loopback, 0) == 0;
}

bool kernel_has_proto(dibs_proto proto)
{
    AUTO(fd_auto) int fd = open_socket(AF_INET, proto);

    /* A lack of descriptors or memory says nothing about the protocol. */
    return fd >= 0 || (errno != EPROTONOSUPPORT && errno != EAFNOSUPPORT && errno != ESOCKTNOSUPPORT);
}
