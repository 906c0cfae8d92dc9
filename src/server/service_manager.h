/* SPDX-License-Identifier: MIT */
#ifndef DIBS_SERVER_SERVICE_MANAGER_H
#define DIBS_SERVER_SERVICE_MANAGER_H
/* Systemd's protocols: readiness and watchdog by datagrams to $NOTIFY_SOCKET, listening sockets by
 * $LISTEN_FDS. Both remove their variables from the environment, so that no child takes them for its own. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "dibs/status.h"

struct notify {
    int fd;                /* -1: there is no manager to notify */
    struct sockaddr_un to; /* not connected: a manager may restart */
    socklen_t to_len;
    int64_t watchdog_ms; /* WATCHDOG is sent at least so often; 0: never */
};

enum notify_what { NOTIFY_READY, NOTIFY_RELOADING, NOTIFY_STOPPING, NOTIFY_WATCHDOG };

/* INVALID: the environment makes no sense. UNAVAILABLE: no descriptor left. */
dibs_status notify_open(struct notify *out, dibs_err *err);
void notify_close(struct notify *notify);
/* Does nothing without a manager. False: the manager cannot be reached, or does not read. */
bool notify_send(const struct notify *notify, enum notify_what what);

/* Sockets of one daemon: a few addresses for each role. */
#define ACTIVATION_MAX 16
enum activation_role { ACTIVATION_PUBLIC, ACTIVATION_ADMIN, ACTIVATION_PORTSERVER };
struct activation {
    size_t n; /* 0: none were passed */
    struct {
        int fd; /* listening, non-blocking, close-on-exec */
        enum activation_role role;
    } socket[ACTIVATION_MAX];
};

/* The name of a socket is its role ("public", which is the default, "admin" or "portserver") or its unit. The
 * caller owns the descriptors. INVALID: one is not a listening stream socket, or its name is not known. */
dibs_status activation_load(struct activation *out, dibs_err *err);
#endif
