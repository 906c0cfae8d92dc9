/* SPDX-License-Identifier: MIT */
/* The answers to bind, connect, getsockname and getpeername. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/auto.h"
#include "hold/as/internal.h"
#include "host/kernel.h"

#include "base/banned.h"

static struct as_answer returns(int code)
{
    return (struct as_answer){ .value = code };
}

/* Replace the port of a bind. Another tree's number is refused like a port in use: its claim is not ours. */
static struct as_answer answer_bind(const struct as_request *request)
{
    struct as_address address;

    if (!as_address_read(request, request->args[1], request->args[2], &address))
        return AS_CONTINUE;
    uint16_t port = as_address_port(&address);
    bool is_any = request->tree->any && port != 0;
    if (!is_any && !as_number_is_inside(request->tree, port))
        return AS_CONTINUE;
    AUTO(fd_auto) int fd = as_request_socket(request);
    dibs_proto proto = fd < 0 ? 0 : as_socket_proto(fd);
    if (!proto || kernel_binds(fd) || !as_request_is_valid(request))
        return AS_CONTINUE;
    int code = 0;
    const struct as_number *number =
        is_any ? as_number_bound(request, proto, port, &code) : as_number_inside(request->tree, proto, port);
    if (code)
        return returns(code);
    if (!number)
        return AS_CONTINUE;
    if (!number->is_own)
        return returns(-EADDRINUSE);
    as_address_set_port(&address, number->outside);
    return returns(bind(fd, &address.any, address.size) ? -errno : 0);
}

/* Start to connect without waiting. A blocking caller continues its own call: on a socket that is connecting
 * already the kernel ignores the address and waits, with the caller's signals and time limits. */
static struct as_answer start_connect(int fd, const struct as_address *address)
{
    int flags = fcntl(fd, F_GETFL);
    bool blocks = flags >= 0 && !(flags & O_NONBLOCK);

    if (blocks)
        (void) fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    int code = connect(fd, &address->any, address->size) ? errno : 0;
    if (blocks)
        (void) fcntl(fd, F_SETFL, flags);
    return blocks && (code == EINPROGRESS || code == EALREADY) ? AS_CONTINUE : returns(-code);
}

static struct as_answer answer_connect(const struct as_request *request)
{
    struct as_address address;

    if (!as_address_read(request, request->args[1], request->args[2], &address) ||
        address.any.sa_family == AF_UNSPEC) /* disconnects */
        return AS_CONTINUE;
    const struct as_any *any = request->tree->any;
    uint16_t port = as_address_port(&address);
    if ((!any && !as_number_is_inside(request->tree, port)) || !as_address_is_local(&address))
        return AS_CONTINUE;
    AUTO(fd_auto) int fd = as_request_socket(request);
    dibs_proto proto = fd < 0 ? 0 : as_socket_proto(fd);
    const struct as_number *number = as_number_inside(request->tree, proto, port);

    if (!proto || !as_request_is_valid(request))
        return AS_CONTINUE;
    /* A server of another tree that has its own number is not the one that is not up yet here. */
    if (!number && any && !as_number_outside(request->tree, proto, port) &&
        any->is_neighbours(any->ctx, proto, port))
        return returns(-ECONNREFUSED);
    if (!number)
        return AS_CONTINUE;
    as_address_set_port(&address, number->outside);
    return start_connect(fd, &address);
}

/* Write the address as the kernel does: as much as fits, and the size that it has. */
static struct as_answer put_name(const struct as_request *request, const struct as_address *address)
{
    int32_t space = 0;
    int32_t size = (int32_t) address->size;

    if (!as_request_read(request, request->args[2], &space, sizeof space) || space < 0)
        return AS_CONTINUE; /* the kernel returns the error */
    size_t used = (size_t) (space < size ? space : size);
    if (!as_request_is_valid(request) ||
        (used && !as_request_write(request, request->args[1], &address->space, used)) ||
        !as_request_write(request, request->args[2], &size, sizeof size))
        return AS_CONTINUE;
    return returns(0);
}

static struct as_answer answer_name(const struct as_request *request)
{
    struct as_address address = { .size = sizeof address.space };
    AUTO(fd_auto) int fd = as_request_socket(request);
    int code = -1;

    if (fd < 0)
        return request->args[1] == AS_ASK ? returns(AS_SERVED) : AS_CONTINUE;
    if (request->call == AS_GETSOCKNAME)
        code = getsockname(fd, &address.any, &address.size);
    else
        code = getpeername(fd, &address.any, &address.size);
    if (code || !as_address_has_port(&address) || address.any.sa_family == AF_UNSPEC)
        return AS_CONTINUE;
    dibs_proto proto = as_socket_proto(fd);
    const struct as_number *number =
        proto ? as_number_outside(request->tree, proto, as_address_port(&address)) : NULL;
    /* A peer on another host has a port of its own. */
    if (!number || (request->call == AS_GETPEERNAME && !as_address_is_local(&address)))
        return AS_CONTINUE;
    as_address_set_port(&address, number->inside);
    return put_name(request, &address);
}

struct as_answer as_call_answer(const struct as_request *request)
{
    switch (request->call) {
    case AS_BIND: return answer_bind(request);
    case AS_CONNECT: return answer_connect(request);
    case AS_GETSOCKNAME:
    case AS_GETPEERNAME: return answer_name(request);
    case AS_SENDTO:
    case AS_SENDMSG:
    case AS_SENDMMSG: return as_datagram_send(request);
    case AS_RECVFROM:
    case AS_RECVMSG:
    case AS_RECVMMSG: return as_datagram_receive(request);
    case AS_CALL_COUNT: break;
    }
    return AS_CONTINUE;
}
