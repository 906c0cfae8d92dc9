/* SPDX-License-Identifier: MIT */
/* Socket addresses of reported calls. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "hold/as/internal.h"

#include "base/banned.h"

#ifndef SO_NETNS_COOKIE /* Linux 5.14 */
#define SO_NETNS_COOKIE 71
#endif
#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif

_Static_assert(offsetof(struct sockaddr_in, sin_port) == offsetof(struct sockaddr_in6, sin6_port),
               "the port is at the same place in both");
/* The kernel accepts an IPv6 address without the scope, which RFC 2133 did not have. */
enum { V6_SIZE_MIN = offsetof(struct sockaddr_in6, sin6_scope_id) };

bool as_address_has_port(const struct as_address *address)
{
    if (address->size < sizeof address->any.sa_family)
        return false;
    switch (address->any.sa_family) {
    case AF_UNSPEC: /* bind() takes it for AF_INET */
    case AF_INET: return address->size >= sizeof address->v4;
    case AF_INET6: return address->size >= V6_SIZE_MIN;
    default: return false;
    }
}

bool as_address_read(const struct as_request *request, uint64_t at, uint64_t size, struct as_address *out)
{
    *out = (struct as_address){ .size = 0 };
    /* The kernel refuses a longer one. */
    if (!at || (int32_t) size <= 0 || (uint32_t) size > sizeof out->space ||
        !as_request_read(request, at, &out->space, (uint32_t) size))
        return false;
    out->size = (socklen_t) size;
    return as_address_has_port(out);
}

uint16_t as_address_port(const struct as_address *address)
{
    return ntohs(address->v4.sin_port);
}

void as_address_set_port(struct as_address *address, uint16_t port)
{
    address->v4.sin_port = htons(port);
}

static bool is_same_host(const struct as_address *a, const struct as_address *b)
{
    if (a->any.sa_family != b->any.sa_family)
        return false;
    return a->any.sa_family == AF_INET ? a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr
                                       : IN6_ARE_ADDR_EQUAL(&a->v6.sin6_addr, &b->v6.sin6_addr);
}

/* Ask the routing table: the kernel reaches an address of its own from that very address. Connecting a
 * datagram socket sends nothing. */
static bool is_own(const struct as_address *address)
{
    struct as_address to = *address;
    struct as_address from = { .size = sizeof from.space };
    AUTO(fd_auto) int fd = socket(to.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    return fd >= 0 && connect(fd, &to.any, to.size) == 0 && getsockname(fd, &from.any, &from.size) == 0 &&
           is_same_host(&from, &to);
}

bool as_address_is_local(const struct as_address *address)
{
    struct as_address plain = *address;

    if (address->any.sa_family == AF_INET6) {
        const struct in6_addr *v6 = &address->v6.sin6_addr;

        if (IN6_IS_ADDR_LOOPBACK(v6) || IN6_IS_ADDR_UNSPECIFIED(v6))
            return true;
        if (!IN6_IS_ADDR_V4MAPPED(v6))
            return is_own(address);
        plain = (struct as_address){ .size = sizeof plain.v4,
                                     .v4 = { .sin_family = AF_INET, .sin_port = address->v6.sin6_port } };
        memcpy(&plain.v4.sin_addr, &v6->s6_addr[12], sizeof plain.v4.sin_addr);
    }
    uint32_t v4 = ntohl(plain.v4.sin_addr.s_addr);
    return v4 >> 24 == IN_LOOPBACKNET || v4 == INADDR_ANY || is_own(&plain);
}

static bool is_here(int fd)
{
    uint64_t ours = 0;
    uint64_t theirs = 0;
    socklen_t size = sizeof ours;
    AUTO(fd_auto) int own = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (own < 0 || getsockopt(own, SOL_SOCKET, SO_NETNS_COOKIE, &ours, &size))
        return true; /* an older kernel does not tell */
    size = sizeof theirs;
    return getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &theirs, &size) == 0 && ours == theirs;
}

dibs_proto as_socket_proto(int fd)
{
    int domain = 0;
    int proto = 0;
    socklen_t size = sizeof domain;

    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) || (domain != AF_INET && domain != AF_INET6))
        return 0;
    size = sizeof proto;
    if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &proto, &size) || !is_here(fd))
        return 0;
    switch (proto) {
    case IPPROTO_TCP:
    case IPPROTO_MPTCP: return DIBS_TCP;
    case IPPROTO_UDP: return DIBS_UDP;
    default: return 0;
    }
}
