/* SPDX-License-Identifier: MIT */
/* The numbers of a tree. There are few: a search from the start costs less than a table. */
#include <errno.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hold/as/internal.h"
#include "host/kernel.h"

#include "base/banned.h"

const struct as_number *as_number_inside(const struct as_tree *tree, dibs_proto proto, uint16_t port)
{
    for (size_t i = 0; i < tree->n; i++)
        if (tree->numbers[i].inside == port && tree->numbers[i].proto == proto)
            return &tree->numbers[i];
    return NULL;
}

const struct as_number *as_number_outside(const struct as_tree *tree, dibs_proto proto, uint16_t port)
{
    for (size_t i = 0; i < tree->n; i++)
        if (tree->numbers[i].outside == port && tree->numbers[i].proto == proto)
            return &tree->numbers[i];
    return NULL;
}

bool as_number_is_inside(const struct as_tree *tree, uint16_t port)
{
    return as_number_inside(tree, DIBS_TCP, port) || as_number_inside(tree, DIBS_UDP, port);
}

/* Has the process that bound the number ended? Its claim ends with it. */
static bool is_left(const struct as_number *number)
{
    struct pollfd holder = { .fd = number->holder, .events = POLLIN };

    return number->holder > 0 && poll(&holder, 1, 0) == 1;
}

/* Claim a port for the number; again the one that it had, if it can be had. */
static int claim(const struct as_request *request, struct as_number *number)
{
    const struct as_any *any = request->tree->any;
    uint16_t preferred = number->outside ? number->outside : number->inside;
    pid_t pid = as_request_process(request);
    int port = pid ? any->claim(any->ctx, number->proto, number->inside, preferred, pid) : -ESRCH;

    if (port < 0)
        return port;
    if (number->holder > 0)
        (void) close(number->holder);
    number->holder = (int) syscall(SYS_pidfd_open, pid, 0);
    number->outside = (uint16_t) port;
    return 0;
}

static bool note_socket(void *ctx, const struct kernel_socket *socket)
{
    (void) socket;
    *(bool *) ctx = true;
    return false;
}

/* Has any process a socket on the port? The cheap question first: a bind that fails. */
static bool is_bound(const struct as_number *number)
{
    dibs_binding binding = { .proto = number->proto, .address = { .len = kernel_has_ipv6() ? 16 : 4 } };
    bool has_socket = false;

    return kernel_probe(&binding, 1, number->outside, NULL) != KERNEL_FREE ||
           kernel_blocking_sockets(0, number->proto, number->outside, note_socket, &has_socket, NULL) ||
           has_socket;
}

/* A program that runs for long may bind one number after the other: forget one that nobody has bound any
 * more, and end its claim. False: all are bound. */
static bool forget_unbound(struct as_tree *tree)
{
    for (size_t i = 0; i < tree->n; i++) {
        struct as_number *number = &tree->numbers[tree->oldest++ % tree->n];

        if (number->holder <= 0 || is_bound(number))
            continue;
        tree->any->release(tree->any->ctx, number->proto, number->outside);
        (void) close(number->holder);
        *number = tree->numbers[--tree->n];
        return true;
    }
    return false;
}

const struct as_number *as_number_bound(const struct as_request *request, dibs_proto proto, uint16_t port,
                                        int *code)
{
    struct as_tree *tree = request->tree;
    struct as_number *number = NULL;

    *code = 0;
    for (size_t i = 0; i < tree->n && !number; i++)
        if (tree->numbers[i].inside == port && tree->numbers[i].proto == proto)
            number = &tree->numbers[i];
    if (number) {
        if (is_left(number))
            *code = claim(request, number);
        return *code ? NULL : number;
    }
    if (tree->n == tree->max && !forget_unbound(tree)) {
        *code = -ENOBUFS;
        return NULL;
    }
    tree->numbers[tree->n] = (struct as_number){ .proto = proto, .inside = port, .is_own = true };
    *code = claim(request, &tree->numbers[tree->n]);
    return *code ? NULL : &tree->numbers[tree->n++];
}
