/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_NOTIFY_H
#define DIBS_DAEMON_NOTIFY_H
/* What a daemon and its service manager tell each other (systemd's protocols): readiness and life by
 * datagrams to $NOTIFY_SOCKET, listening sockets that were opened for us by $LISTEN_FDS. Both take their
 * variables out of the environment, so that no child takes them for its own. */
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "dibs/status.h"

struct notify {
    int fd;                /* -1: nobody wants to know */
    struct sockaddr_un to; /* not connected: a manager may be started anew */
    socklen_t to_len;
    int64_t watchdog_ms; /* WATCHDOG is to be told at least so often; 0: never */
};

enum notify_what { NOTIFY_STATUS, NOTIFY_READY, NOTIFY_RELOADING, NOTIFY_STOPPING, NOTIFY_WATCHDOG };

/* INVALID: the environment makes no sense. UNAVAILABLE: no descriptor left. */
dibs_status notify_open(struct notify *out, dibs_err *err);
void notify_close(struct notify *notify);
/* `status` (may be NULL) is a line for people. Nothing happens when nobody wants to know. UNAVAILABLE: the
 * manager cannot be reached, or does not read. */
dibs_status notify_tell(const struct notify *notify, enum notify_what what, const char *status,
                        dibs_err *err);

/* Sockets of one daemon: a few addresses for each door. */
#define ACTIVATION_MAX 16
enum activation_door { ACTIVATION_PUBLIC, ACTIVATION_ADMIN, ACTIVATION_PORTSERVER };
struct activation {
    size_t n; /* 0: none were passed */
    struct {
        int fd; /* listening, non-blocking, close-on-exec */
        enum activation_door door;
    } socket[ACTIVATION_MAX];
};

/* Which socket is for what is said by its name: "public", "admin" or "portserver", or that of the unit:
 * "dibs.socket" (public), "dibs-admin.socket", "dibs-portserver.socket". A socket without a name is public.
 * The caller owns the descriptors. INVALID: one is not a listening stream socket, or its name is not known.
 */
dibs_status activation_load(struct activation *out, dibs_err *err);
#endif
