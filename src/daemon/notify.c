/* SPDX-License-Identifier: MIT */
#include "daemon/notify.h"

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

#include "base/banned.h"

enum {
    FIRST_FD = 3,       /* of those that are passed, by systemd's protocol */
    SEND_TIMEOUT_S = 1, /* a manager that does not read must not stop a daemon */
    STATUS_MAX = 512,
    NAMES_MAX = 4096,
    US_PER_MS = 1000,
};

/* A decimal number that is the whole text. */
static bool parse_number(const char *text, int64_t *out)
{
    int64_t n = 0;

    if (*text == '\0')
        return false;
    for (; *text; text++)
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(n, 10, &n) ||
            __builtin_add_overflow(n, *text - '0', &n))
            return false;
    *out = n;
    return true;
}

/* A number of the environment; `otherwise` when it is not set. */
static dibs_status read_number(const char *name, int64_t otherwise, int64_t *out, dibs_err *err)
{
    const char *text = getenv(name);
    char shown[80];

    *out = otherwise;
    if (text && !parse_number(text, out))
        return err_set(err, DIBS_INVALID, "%s is not a number: '%s'", name,
                       text_safe(text, shown, sizeof shown));
    return DIBS_OK;
}

/* ---- telling ---- */

static dibs_status open_socket(const char *path, struct notify *out, dibs_err *err)
{
    const struct timeval patience = { .tv_sec = SEND_TIMEOUT_S };
    size_t n = strlen(path);
    char shown[160];

    if ((path[0] != '/' && path[0] != '@') || n < 2 || n >= sizeof out->to.sun_path)
        return err_set(err, DIBS_INVALID, "NOTIFY_SOCKET is not the address of a Unix socket: '%s'",
                       text_safe(path, shown, sizeof shown));
    out->to = (struct sockaddr_un){ .sun_family = AF_UNIX };
    memcpy(out->to.sun_path, path, n);
    if (path[0] == '@')
        out->to.sun_path[0] = '\0'; /* abstract: its length counts, not an end */
    out->to_len = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + n + (path[0] == '/' ? 1 : 0));
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
    int64_t watchdog_us = 0;
    int64_t watchdog_pid = 0;
    dibs_status s = read_number("WATCHDOG_USEC", 0, &watchdog_us, err);

    if (s == DIBS_OK)
        s = read_number("WATCHDOG_PID", getpid(), &watchdog_pid, err);
    if (s == DIBS_OK && path && path[0])
        s = open_socket(path, &notify, err);
    (void) unsetenv("NOTIFY_SOCKET");
    (void) unsetenv("WATCHDOG_USEC");
    (void) unsetenv("WATCHDOG_PID");
    if (s != DIBS_OK)
        return s;
    /* Twice in the time that is allowed: one may come late. */
    if (notify.fd >= 0 && watchdog_pid == getpid() && watchdog_us > 0)
        notify.watchdog_ms = watchdog_us / 2 / US_PER_MS > 0 ? watchdog_us / 2 / US_PER_MS : 1;
    *out = notify;
    return DIBS_OK;
}

void notify_close(struct notify *notify)
{
    fd_auto(&notify->fd);
}

dibs_status notify_tell(const struct notify *notify, enum notify_what what, const char *status, dibs_err *err)
{
    char text[STATUS_MAX + 128] = "";
    char line[STATUS_MAX] = "";
    int n = 0;

    if (notify->fd < 0)
        return DIBS_OK;
    switch (what) {
    case NOTIFY_STATUS: break;
    case NOTIFY_READY: n = snprintf(text, sizeof text, "READY=1\n"); break;
    case NOTIFY_RELOADING:
        n = snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%" PRId64 "\n", clock_monotonic_us());
        break;
    case NOTIFY_STOPPING: n = snprintf(text, sizeof text, "STOPPING=1\n"); break;
    case NOTIFY_WATCHDOG: n = snprintf(text, sizeof text, "WATCHDOG=1\n"); break;
    }
    if (status) /* one line, whatever is in it */
        n +=
            snprintf(text + n, sizeof text - (size_t) n, "STATUS=%s\n", text_safe(status, line, sizeof line));
    if (n > 0 && sendto(notify->fd, text, (size_t) n, MSG_NOSIGNAL, (const struct sockaddr *) &notify->to,
                        notify->to_len) != n)
        return err_os(err, DIBS_UNAVAILABLE, errno, "telling the service manager");
    return DIBS_OK;
}

/* ---- sockets that were opened for us ---- */

static const struct {
    const char *name, *unit;
    enum activation_door door;
} doors[] = {
    { "public", "dibs.socket", ACTIVATION_PUBLIC },
    { "admin", "dibs-admin.socket", ACTIVATION_ADMIN },
    { "portserver", "dibs-portserver.socket", ACTIVATION_PORTSERVER },
};

static bool find_door(const char *name, enum activation_door *out)
{
    for (size_t i = 0; i < sizeof doors / sizeof doors[0]; i++)
        if (strcmp(name, doors[i].name) == 0 || strcmp(name, doors[i].unit) == 0) {
            *out = doors[i].door;
            return true;
        }
    return false;
}

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
    char shown[80];
    int flags = fcntl(fd, F_GETFL);

    if (!find_door(name, &out->socket[out->n].door))
        return err_set(
            err, DIBS_INVALID,
            "socket %d that was passed is named '%s', which is none of public, admin and portserver "
            "(FileDescriptorName=)",
            fd, text_safe(name, shown, sizeof shown));
    if (!is_listening_stream(fd) || flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        return err_set(err, DIBS_INVALID, "descriptor %d that was passed is not a listening stream socket",
                       fd);
    out->socket[out->n++].fd = fd;
    return DIBS_OK;
}

static dibs_status take_sockets(int64_t n, const char *names, struct activation *out, dibs_err *err)
{
    char copy[NAMES_MAX];
    char *rest = copy;
    dibs_status s = DIBS_OK;

    if (n > ACTIVATION_MAX)
        return err_set(err, DIBS_INVALID,
                       "LISTEN_FDS: %" PRId64 " sockets were passed, at most %d are of use", n,
                       ACTIVATION_MAX);
    if (!text_copy(copy, sizeof copy, names ? names : ""))
        return err_set(err, DIBS_INVALID, "LISTEN_FDNAMES is longer than %d bytes", NAMES_MAX - 1);
    for (int i = 0; s == DIBS_OK && i < n; i++) {
        const char *name = strsep(&rest, ":");

        s = take_socket(FIRST_FD + i, name && name[0] ? name : doors[0].name, out, err);
    }
    return s;
}

dibs_status activation_load(struct activation *out, dibs_err *err)
{
    struct activation found = { 0 };
    int64_t pid = 0;
    int64_t n = 0;
    dibs_status s = read_number("LISTEN_PID", 0, &pid, err);

    if (s == DIBS_OK)
        s = read_number("LISTEN_FDS", 0, &n, err);
    /* Meant for somebody else who has passed his environment on: none of our business. */
    if (s == DIBS_OK && pid == getpid())
        s = take_sockets(n, getenv("LISTEN_FDNAMES"), &found, err);
    (void) unsetenv("LISTEN_PID");
    (void) unsetenv("LISTEN_FDS");
    (void) unsetenv("LISTEN_FDNAMES");
    if (s == DIBS_OK)
        *out = found;
    return s;
}
