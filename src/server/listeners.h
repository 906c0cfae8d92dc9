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
    int fd;      /* listening; its user takes it over */
    int lock_fd; /* held as long as the daemon lives: -1 for an abstract socket */
    char path[108];
};

/* A Unix socket at `path`, or abstract when it begins with '@'. A file that a dead daemon left is replaced;
 * TAKEN: one that lives has it. Directories that are missing are made. */
dibs_status socket_open_unix(const char *path, mode_t mode, struct socket_file *out, dibs_err *err);
/* The address of a path that fits, or of an abstract socket; returns its size. */
socklen_t socket_unix_address(const char *path, struct sockaddr_un *out);
/* Check an administrators' socket that was passed. INVALID: others than owner and group may connect. */
dibs_status socket_check_closed(int fd, dibs_err *err);
/* Removes the file, if it is still ours. The descriptor is its user's. */
void socket_remove(struct socket_file *file);
/* "127.0.0.1:8443", "[::1]:8443", "*:8443". */
dibs_status socket_open_tcp(const char *text, bool is_loopback_only, int *out, dibs_err *err);
/* Check the text alone. */
dibs_status socket_check_unix(const char *path, bool may_be_abstract, dibs_err *err);
dibs_status socket_check_tcp(const char *text, bool is_loopback_only, dibs_err *err);
#endif
