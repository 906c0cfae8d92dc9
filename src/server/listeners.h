/* SPDX-License-Identifier: MIT */
#ifndef DIBS_SERVER_LISTENERS_H
#define DIBS_SERVER_LISTENERS_H
/* Listening sockets of a daemon. */
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "dibs/status.h"

struct socket_file {
    int fd;      /* listening; the caller owns it */
    int lock_fd; /* locked while the daemon lives; -1 for an abstract socket */
    char path[108];
};

/* Open a Unix socket at `path`, or an abstract one when it begins with '@'. Makes missing directories and
 * replaces a dead daemon's file. TAKEN: a live daemon has it. */
dibs_status socket_open_unix(const char *path, mode_t mode, struct socket_file *out, dibs_err *err);
/* Fill the address of a path that fits, or of an abstract socket; returns its size. */
socklen_t socket_unix_address(const char *path, struct sockaddr_un *out);
/* Check an administrators' socket that was passed. INVALID: others than owner and group may connect. */
dibs_status socket_check_closed(int fd, dibs_err *err);
/* Remove the file if it is still ours. The descriptor stays open. */
void socket_remove(struct socket_file *file);
/* Open "127.0.0.1:8443", "[::1]:8443" or "*:8443". */
dibs_status socket_open_tcp(const char *text, bool is_loopback_only, int *out, dibs_err *err);
/* Check only the text of a path. */
dibs_status socket_check_unix(const char *path, bool may_be_abstract, dibs_err *err);
dibs_status socket_check_tcp(const char *text, bool is_loopback_only, dibs_err *err);
#endif
