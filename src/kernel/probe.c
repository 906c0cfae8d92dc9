/* SPDX-License-Identifier: MIT */
/* The bind probe: can this port be bound right now?
 *
 * TCP binds with SO_REUSEADDR and never listens. So it sees every listener, ignores TIME_WAIT, and
 * a server that sets SO_REUSEADDR itself may bind and listen while the probe socket exists. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/err.h"
#include "kernel/kernel.h"

#include "base/banned.h"

union any_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static socklen_t fill_address(union any_address *out, const dibs_address *address, uint16_t port)
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
    switch (proto) {
    case DIBS_TCP: return socket(family, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
    case DIBS_UDP: return socket(family, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP);
    case DIBS_SCTP: return socket(family, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_SCTP);
    }
    errno = EPROTONOSUPPORT;
    return -1;
}

/* With the options that its protocol and address want; -1 and errno. */
static int open_for(const dibs_binding *binding)
{
    bool is_v6 = binding->address.len != sizeof(struct in_addr);
    AUTO(fd_auto) int fd = open_socket(is_v6 ? AF_INET6 : AF_INET, binding->proto);
    int on = 1;

    if (fd < 0)
        return -1;
    if (binding->proto != DIBS_UDP && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0)
        return -1;
    if (is_v6) {
        /* Only the wildcard is dual-stack; never trust the host's bindv6only. */
        int v6only = binding->address.v6only || !dibs_address_is_wildcard(&binding->address);
        if (setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof v6only) != 0)
            return -1;
    }
    return fd_take(&fd);
}

static const dibs_binding common = { .proto = DIBS_TCP, .address = { .len = 16 } };

static bool is_common(const dibs_binding *binding)
{
    return binding->proto == common.proto && dibs_address_equal(&binding->address, &common.address);
}

/* 0, or the errno of the step that failed. */
static int try_bind(const dibs_binding *binding, uint16_t port)
{
    union any_address address;
    socklen_t len = fill_address(&address, &binding->address, port);
    AUTO(fd_auto) int fd = open_for(binding);

    return fd < 0 || bind(fd, &address.any, len) != 0 ? errno : 0;
}

bool kernel_probe_common(uint16_t port)
{
    return try_bind(&common, port) == 0;
}

bool kernel_probes_ahead(const struct kernel_group *group, const dibs_binding *bindings, size_t n)
{
    bool has_common = false;

    for (size_t i = 0; i < n; i++)
        has_common = has_common || is_common(&bindings[i]);
    return has_common && group->ahead;
}

/* The other thread may have the last descriptor. */
static int try_bind_in(struct kernel_group *group, const dibs_binding *binding, uint16_t port)
{
    int failed = try_bind(binding, port);

    if ((failed != EMFILE && failed != ENFILE) || !group || !group->ahead)
        return failed;
    ahead_end(group->ahead);
    return try_bind(binding, port);
}

static const char *hint(const dibs_binding *binding, int os_errno)
{
    switch (os_errno) {
    case EACCES: return " (a privileged port, or a security policy)";
    case EADDRNOTAVAIL: return " (no interface of this host has that address)";
    case EAFNOSUPPORT: return binding->address.len == 4 ? "" : " (this host has no IPv6)";
    case EPROTONOSUPPORT: return binding->proto == DIBS_SCTP ? " (this kernel has no SCTP)" : "";
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

/* Whatever else may forbid to bind it was told by TCP, which came before. */
static bool is_free_by_list(const dibs_binding *bindings, size_t i, uint16_t port, struct udp_bound *udp)
{
    if (bindings[i].proto != DIBS_UDP)
        return false;
    for (size_t k = 0; k < i; k++) {
        if (bindings[k].proto == DIBS_TCP && dibs_address_equal(&bindings[k].address, &bindings[i].address))
            return udp_bound_is_free(udp, port);
    }
    return false;
}

enum kernel_probe_result kernel_probe(const dibs_binding *bindings, size_t n, uint16_t port,
                                      struct kernel_group *group, size_t *which, dibs_err *err)
{
    if (group)
        group->n_probed++;
    for (size_t i = 0; i < n; i++) {
        if (group && ((is_common(&bindings[i]) && ahead_is_free(group->ahead, port)) ||
                      is_free_by_list(bindings, i, port, &group->udp)))
            continue;
        int failed = bindings[i].address.len == 4 || bindings[i].address.len == 16
                         ? try_bind_in(group, &bindings[i], port)
                         : EAFNOSUPPORT;

        if (failed == 0)
            continue;
        if (which)
            *which = i;
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
    /* Port 0: any port will do. */
    return try_bind(&loopback, 0) == 0;
}

bool kernel_has_proto(dibs_proto proto)
{
    AUTO(fd_auto) int fd = open_socket(AF_INET, proto);

    /* Out of descriptors or memory is no answer about the protocol. */
    return fd >= 0 || (errno != EPROTONOSUPPORT && errno != EAFNOSUPPORT && errno != ESOCKTNOSUPPORT);
}
