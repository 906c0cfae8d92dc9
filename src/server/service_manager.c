/* SPDX-License-Identifier: MIT */
#include "server/service_manager.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "server/listeners.h"

#include "base/banned.h"

enum {
    FIRST_FD = 3,       /* first passed descriptor in systemd's protocol */
    SEND_TIMEOUT_S = 1, /* a manager that does not read must not stop a daemon */
    US_PER_MS = 1000,
};

/* Read a number from the environment; `otherwise` when it is not set. */
static dibs_status read_number(const char *name, uint64_t otherwise, uint64_t *out, dibs_err *err)
{
    const char *text = getenv(name);

    *out = otherwise;
    if (text && !text_number(text, strlen(text), INT64_MAX, out))
        return err_set(err, DIBS_INVALID, "%s is not a number: '%.80s'", name, text);
    return DIBS_OK;
}

/* ---- notifications ---- */

static dibs_status open_socket(const char *path, struct notify *out, dibs_err *err)
{
    const struct timeval patience = { .tv_sec = SEND_TIMEOUT_S };
    size_t n = strlen(path);

    if ((path[0] != '/' && path[0] != '@') || n < 2 || n >= sizeof out->to.sun_path)
        return err_set(err, DIBS_INVALID, "NOTIFY_SOCKET is not the address of a Unix socket: '%.160s'",
                       path);
    out->to_len = socket_unix_address(path, &out->to);
    AUTO(fd_auto) int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) != 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "a socket to the service manager");
    out->fd = fd_take(&fd);
    return DIBS_OK;
}

dibs_status notify_open(struct notify *out, dibs_err *err)
{
    struct notify notify = { .fd = -1 };
    const char *path = getenv("NOTIFY_SOCKET");
    uint64_t watchdog_us = 0;
    uint64_t watchdog_pid = 0;
    dibs_status s = read_number("WATCHDOG_USEC", 0, &watchdog_us, err);

    if (s == DIBS_OK)
        s = read_number("WATCHDOG_PID", (uint64_t) getpid(), &watchdog_pid, err);
    if (s == DIBS_OK && path && path[0])
        s = open_socket(path, &notify, err);
    (void) unsetenv("NOTIFY_SOCKET");
    (void) unsetenv("WATCHDOG_USEC");
    (void) unsetenv("WATCHDOG_PID");
    if (s != DIBS_OK)
        return s;
    /* Send twice within the watchdog's time: one message may be late. */
    if (notify.fd >= 0 && watchdog_pid == (uint64_t) getpid() && watchdog_us > 0)
        notify.watchdog_ms = watchdog_us / 2 < US_PER_MS ? 1 : (int64_t) (watchdog_us / 2 / US_PER_MS);
    *out = notify;
    return DIBS_OK;
}

void notify_close(struct notify *notify)
{
    fd_auto(&notify->fd);
}

bool notify_send(const struct notify *notify, enum notify_what what)
{
    static const char *const texts[] = { [NOTIFY_READY] = "READY=1\nSTATUS=serving\n",
                                         [NOTIFY_RELOADING] = "RELOADING=1\n",
                                         [NOTIFY_STOPPING] = "STOPPING=1\n",
                                         [NOTIFY_WATCHDOG] = "WATCHDOG=1\n" };
    const struct sockaddr *to = (const struct sockaddr *) &notify->to;
    char time[64] = "";

    if (what == NOTIFY_RELOADING)
        (void) snprintf(time, sizeof time, "MONOTONIC_USEC=%" PRId64 "\n", clock_monotonic_us());
    char text[128];
    int n = snprintf(text, sizeof text, "%s%s", texts[what], time);
    return notify->fd < 0 || sendto(notify->fd, text, (size_t) n, MSG_NOSIGNAL, to, notify->to_len) == n;
}

bool notify_keep(const struct notify *notify, const struct notify_kept *kept)
{
    union {
        struct cmsghdr head; /* for its alignment */
        char room[CMSG_SPACE(NOTIFY_STORE_MAX * sizeof(int))];
    } control = { .room = { 0 } };
    char text[128];
    /* Without FDPOLL=0 systemd drops a TCP socket that is only bound: it polls as hung up. */
    int n = snprintf(text, sizeof text,
                     kept->n > 0 ? "FDSTORE=1\nFDPOLL=0\nFDNAME=%s\n" : "FDSTOREREMOVE=1\nFDNAME=%s\n",
                     kept->name);
    struct iovec part = { text, (size_t) n };
    struct msghdr message = { .msg_name = (void *) (uintptr_t) &notify->to,
                              .msg_namelen = notify->to_len,
                              .msg_iov = &part,
                              .msg_iovlen = 1 };

    if (notify->fd < 0 || kept->n > NOTIFY_STORE_MAX || n < 0 || (size_t) n >= sizeof text)
        return notify->fd < 0;
    if (kept->n > 0) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(kept->n * sizeof(int));
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(kept->n * sizeof(int));
        memcpy(CMSG_DATA(&control.head), kept->fds, kept->n * sizeof(int));
    }
    return sendmsg(notify->fd, &message, MSG_NOSIGNAL) == n;
}

/* ---- socket activation ---- */

/* Names of sockets by role. */
static const struct {
    const char *name, *unit;
} roles[] = {
    [ACTIVATION_PUBLIC] = { "public", "dibs.socket" },
    [ACTIVATION_ADMIN] = { "admin", "dibs-admin.socket" },
    [ACTIVATION_PORTSERVER] = { "portserver", "dibs-portserver.socket" },
};
#define N_ROLES (sizeof roles / sizeof roles[0])

static bool is_listening_stream(int fd)
{
    int type = 0;
    int is_listening = 0;
    socklen_t len = sizeof type;

    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM &&
           getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &len) == 0 && is_listening;
}

static dibs_status take_socket(int fd, const char *name, struct activation *out, dibs_err *err)
{
    int flags = fcntl(fd, F_GETFL);
    size_t role = 0;

    if (out->n == ACTIVATION_MAX)
        return err_set(err, DIBS_INVALID, "LISTEN_FDS: more than %d sockets were passed", ACTIVATION_MAX);
    while (role < N_ROLES && strcmp(name, roles[role].name) != 0 && strcmp(name, roles[role].unit) != 0)
        role++;
    if (role == N_ROLES)
        return err_set(
            err, DIBS_INVALID,
            "socket %d that was passed is named '%.80s', which is none of public, admin and portserver "
            "(FileDescriptorName=)",
            fd, name);
    if (!is_listening_stream(fd) || flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        return err_set(err, DIBS_INVALID, "descriptor %d that was passed is not a listening stream socket",
                       fd);
    out->socket[out->n].role = (enum activation_role) role;
    out->socket[out->n++].fd = fd;
    return DIBS_OK;
}

/* Take a descriptor that an earlier daemon has stored. Return false for any other. */
static bool take_kept(int fd, const char *name, struct activation *out)
{
    const size_t before = sizeof ACTIVATION_KEPT - 1;
    uint64_t id = 0;

    if (strncmp(name, ACTIVATION_KEPT, before) != 0 ||
        !text_number(name + before, strlen(name + before), INT64_MAX, &id) ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        return false;
    out->kept[out->n_kept++] = (struct activation_kept){ fd, id };
    return true;
}

static dibs_status take_sockets(uint64_t n, const char *names, struct activation *out, dibs_err *err)
{
    AUTO(free_auto) char *copy = strdup(names ? names : "");
    char *rest = copy;
    dibs_status s = DIBS_OK;

    if (n > ACTIVATION_MAX + ACTIVATION_KEPT_MAX)
        return err_set(err, DIBS_INVALID, "LISTEN_FDS: %" PRIu64 " sockets were passed, which is too many",
                       n);
    out->kept = calloc(n + 1, sizeof *out->kept);
    if (!copy || !out->kept)
        return err_set(err, DIBS_FAILURE, "taking passed sockets: out of memory");
    for (int i = 0; s == DIBS_OK && i < (int) n; i++) {
        const char *name = strsep(&rest, ":");

        name = name && name[0] ? name : roles[0].name;
        if (!take_kept(FIRST_FD + i, name, out))
            s = take_socket(FIRST_FD + i, name, out, err);
    }
    return s;
}

dibs_status activation_load(struct activation *out, dibs_err *err)
{
    struct activation found = { 0 };
    uint64_t pid = 0;
    uint64_t n = 0;
    dibs_status s = read_number("LISTEN_PID", 0, &pid, err);

    if (s == DIBS_OK)
        s = read_number("LISTEN_FDS", 0, &n, err);
    /* Another pid: the variables were meant for a parent. */
    if (s == DIBS_OK && pid == (uint64_t) getpid())
        s = take_sockets(n, getenv("LISTEN_FDNAMES"), &found, err);
    (void) unsetenv("LISTEN_PID");
    (void) unsetenv("LISTEN_FDS");
    (void) unsetenv("LISTEN_FDNAMES");
    if (s == DIBS_OK)
        *out = found;
    else
        free(found.kept);
    return s;
}
