/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOST_NETNS_H
#define DIBS_HOST_NETNS_H
/* Reach a network namespace by its inode, for the files of host/ only. */
#include <stdint.h>

#include "dibs/status.h"

/* Open a sock_diag socket, whose reads time out, inside the network namespace (0 or our own: here). The
 * caller owns *out. NOT_FOUND: no such namespace any more; UNAVAILABLE: it cannot be reached.
 * Only the calling thread moves, and it is back when this returns. */
dibs_status netns_socket(uint64_t netns, int *out, dibs_err *err);
#endif
