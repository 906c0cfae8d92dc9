/* SPDX-License-Identifier: MIT */
#ifndef DIBS_SERVER_SERVICE_MANAGER_H
#define DIBS_SERVER_SERVICE_MANAGER_H
/* Systemd's protocols: readiness and watchdog by datagrams to $NOTIFY_SOCKET, listening sockets by
 * $LISTEN_FDS. Both remove their variables from the environment, so that no child uses them. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "dibs/status.h"

struct notify {
    int fd;                /* -1: no manager to notify */
    struct sockaddr_un to; /* not connected: the manager may restart */
    socklen_t to_len;
    int64_t watchdog_ms; /* interval of WATCHDOG messages; 0: none */
};

enum notify_what { NOTIFY_READY, NOTIFY_RELOADING, NOTIFY_STOPPING, NOTIFY_WATCHDOG };

/* Open the socket to the manager. INVALID: a variable is malformed. UNAVAILABLE: no descriptor left. */
dibs_status notify_open(struct notify *out, dibs_err *err);
void notify_close(struct notify *notify);
/* Send a message, if there is a manager. Return false when the manager is gone or does not read. */
bool notify_send(const struct notify *notify, enum notify_what what);

/* Descriptors that the manager keeps while the daemon is restarted (systemd's FD store), under a name. */
#define NOTIFY_STORE_MAX 16 /* in one message: more than one claim has */
struct notify_kept {
    const char *name;
    const int *fds;
    size_t n; /* 0: the manager is to close those of that name */
};
/* Send them, if there is a manager. Return false when it is gone or does not read: then it keeps nothing. */
bool notify_keep(const struct notify *notify, const struct notify_kept *kept);

/* Enough for a few addresses per role. */
#define ACTIVATION_MAX 16
enum activation_role { ACTIVATION_PUBLIC, ACTIVATION_ADMIN, ACTIVATION_PORTSERVER };
#define ACTIVATION_KEPT "guard."
#define ACTIVATION_KEPT_MAX 65536 /* as many claims of one host as there are ports */
struct activation {
    size_t n; /* 0: none were passed */
    struct {
        int fd; /* listening, non-blocking, close-on-exec */
        enum activation_role role;
    } socket[ACTIVATION_MAX];
    struct activation_kept { /* those of the FD store whose name begins with ACTIVATION_KEPT */
        int fd;              /* close-on-exec */
        uint64_t id;         /* the rest of the name */
    } * kept;                /* n_kept of them; the caller frees the array */
    size_t n_kept;
};

/* Load the passed sockets, which the caller owns. A socket's name is its role ("public", the default,
 * "admin" or "portserver") or its unit. INVALID: not a listening stream socket, or an unknown name. */
dibs_status activation_load(struct activation *out, dibs_err *err);
#endif
