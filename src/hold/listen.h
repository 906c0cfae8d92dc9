/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOLD_LISTEN_H
#define DIBS_HOLD_LISTEN_H
/* The level `fd`: sockets of a claimed port that dibs binds itself, and passes on. */
#include <stddef.h>

#include "dibs/claim.h"

/* Bind a socket for each binding of the claim, and let those of TCP and SCTP listen. The caller owns `fds`,
 * which are close-on-exec. TAKEN: the port is in use; DENIED: it is privileged; FAILURE. */
dibs_status listen_open(const dibs_claim *claim, int fds[DIBS_BINDINGS_MAX], size_t *n, dibs_err *err);

/* Send sockets (SCM_RIGHTS) with a text over a Unix socket of any kind, in one message. */
struct listen_parcel {
    const char *text; /* without '\0' at its end */
    size_t text_n;
    const int *fds;
    size_t n;
};
#define LISTEN_PARCEL_FDS 64    /* the kernel passes 253 at most */
#define LISTEN_PARCEL_TEXT 8192 /* LISTEN_FDNAMES, or a claim's name */
dibs_status listen_send(int to, const struct listen_parcel *parcel, dibs_err *err);
/* Receive them, close-on-exec. UNAVAILABLE: the other side has closed; INVALID: it is no such message, or has
 * more than fits. */
struct listen_received {
    char text[LISTEN_PARCEL_TEXT + 1];
    size_t n;
    int fds[LISTEN_PARCEL_FDS];
};
dibs_status listen_receive(int from, struct listen_received *out, dibs_err *err);
#endif
