/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOLD_GUARD_H
#define DIBS_HOLD_GUARD_H
/* A guard: sockets that are bound to a claimed port and never used.
 *
 * While they exist, the kernel gives the port to no outgoing connection and to no bind(0), and refuses a bind
 * without a reuse option. A server that sets SO_REUSEADDR (or SO_REUSEPORT, as the same user) binds and
 * listens as usual, because a guard sets both and never listens. docs/HOLD.md has the measured table.
 *
 * Every guard is bound to a network device that does not exist (KERNEL_GUARD_DEVICE). Sockets without a
 * device conflict with it all the same, but no datagram reaches it: without that, a UDP guard that was bound
 * after the program, or that shares SO_REUSEPORT with it, would take the program's datagrams. */
#include <stddef.h>
#include <stdint.h>

#include "dibs/claim.h"

struct guard { /* n 0: no socket */
    int fd[DIBS_BINDINGS_MAX];
    size_t n;
};

/* Where a guard belongs. */
struct guard_place {
    uint64_t netns; /* 0: ours */
    uint32_t uid;   /* whose program binds the port */
    uint16_t port;
    size_t n_bindings;
    dibs_binding bindings[DIBS_BINDINGS_MAX];
};
struct guard_place guard_place_of(const dibs_claim *claim);

/* Check that every binding can have a guard on this kernel. FAILURE says why not. */
dibs_status guard_check(const dibs_binding *bindings, size_t n, dibs_err *err);

/* Bind a guard for each binding. TAKEN: a socket that
 * a guard cannot join has the port: a listener, or a UDP program without a reuse option. Else as
 * kernel_socket_in(), DENIED for a privileged port, or FAILURE. */
dibs_status guard_open(const struct guard_place *place, struct guard *out, dibs_err *err);
void guard_close(struct guard *guard);
/* Is the socket bound to this port, and does not listen? */
bool guard_has(int fd, uint16_t port);
#endif
