/* SPDX-License-Identifier: MIT */
#include "server/listeners.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/directory.h"
#include "base/err.h"
#include "base/text.h"
#include "dibs/net.h"
#include "host/kernel.h"

#include "base/banned.h"

enum { BACKLOG = 4096 }; /* the kernel limits it to net.core.somaxconn */

static dibs_status make_directory(const char *path, dibs_err *err)
{
    char dir[108];

    (void) directory_of(path, dir, sizeof dir);
    int failed = directory_make(dir, geteuid() == 0 ? 0755 : 0700);
    return failed == 0 ? DIBS_OK : err_os(err, DIBS_UNAVAILABLE, failed, "making the directory %s", dir);
}

/* Take the lock that shows ownership of the socket file: no other process removes or replaces the file. */
static dibs_status lock(const char *path, int *out, dibs_err *err)
{
    char name[128];

    (void) snprintf(name, sizeof name, "%s.lock", path);
    AUTO(fd_auto) int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "opening %s", name);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        return err_set(err, DIBS_TAKEN, "another daemon serves %s; stop it, or name another --socket", path);
    *out = fd_take(&fd);
    return DIBS_OK;
}

socklen_t socket_unix_address(const char *path, struct sockaddr_un *out)
{
    size_t n = strlen(path);
    bool is_abstract = path[0] == '@'; /* an abstract name has a length and no terminator */

    *out = (struct sockaddr_un){ .sun_family = AF_UNIX };
    memcpy(out->sun_path, path, n);
    if (is_abstract)
        out->sun_path[0] = '\0';
    return (socklen_t) (offsetof(struct sockaddr_un, sun_path) + n + !is_abstract);
}

static dibs_status bind_unix(int fd, const char *path, mode_t mode, dibs_err *err)
{
    struct sockaddr_un address;
    socklen_t len = socket_unix_address(path, &address);
    mode_t before = umask((mode_t) ~mode & 0777); /* the file is never open to more users than `mode` says */
    int rc = bind(fd, (const struct sockaddr *) &address, len);
    int why = errno;
    (void) umask(before);
    if (rc != 0)
        return err_os(err, why == EADDRINUSE ? DIBS_TAKEN : DIBS_UNAVAILABLE, why, "listening on %s", path);
    if (listen(fd, BACKLOG) != 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "listening on %s", path);
    return DIBS_OK;
}

static dibs_status clear_place(const char *path, dibs_err *err)
{
    struct stat st = { 0 };

    if (lstat(path, &st) != 0)
        return errno == ENOENT ? DIBS_OK : err_os(err, DIBS_UNAVAILABLE, errno, "looking at %s", path);
    if (!S_ISSOCK(st.st_mode))
        return err_set(err, DIBS_INVALID, "%s is there and is not a socket; name another place", path);
    if (unlink(path) != 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "replacing %s", path);
    return DIBS_OK;
}

dibs_status socket_check_unix(const char *path, bool may_be_abstract, dibs_err *err)
{
    const size_t max = sizeof((struct socket_file *) 0)->path - 1;

    if (!path[0] || strlen(path) > max)
        return err_set(err, DIBS_INVALID, "a socket's path has between 1 and %zu bytes: '%s'", max, path);
    if (path[0] == '@' && !may_be_abstract)
        return err_set(err, DIBS_INVALID,
                       "%s: an abstract socket has no file that says who may connect; name a path", path);
    return DIBS_OK;
}

dibs_status socket_check_closed(int fd, dibs_err *err)
{
    struct sockaddr_un address = { 0 };
    socklen_t len = sizeof address - 1; /* leave a NUL behind the path */
    struct stat st = { 0 };

    if (getsockname(fd, (struct sockaddr *) &address, &len) != 0 || address.sun_family != AF_UNIX ||
        address.sun_path[0] != '/')
        return err_set(err, DIBS_INVALID,
                       "the admin socket that was passed is no file: any user could connect");
    if (stat(address.sun_path, &st) != 0)
        return err_os(err, DIBS_INVALID, errno, "reading the permissions of %s", address.sun_path);
    if (st.st_mode & S_IWOTH)
        return err_set(err, DIBS_INVALID,
                       "%s is for administrators, and all users may connect (mode %03o): SocketMode=0600",
                       address.sun_path, (unsigned) st.st_mode & 0777);
    return DIBS_OK;
}

dibs_status socket_open_unix(const char *path, mode_t mode, struct socket_file *out, dibs_err *err)
{
    AUTO(fd_auto) int lock_fd = -1;
    dibs_status s = socket_check_unix(path, true, err);

    if (s == DIBS_OK && path[0] != '@') {
        s = make_directory(path, err);
        if (s == DIBS_OK)
            s = lock(path, &lock_fd, err);
        if (s == DIBS_OK)
            s = clear_place(path, err);
    }
    if (s != DIBS_OK)
        return s;
    AUTO(fd_auto) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "opening a socket");
    s = bind_unix(fd, path, mode, err);
    if (s != DIBS_OK)
        return s;
    (void) text_copy(out->path, sizeof out->path, path);
    out->fd = fd_take(&fd);
    out->lock_fd = fd_take(&lock_fd);
    return DIBS_OK;
}

void socket_remove(struct socket_file *file)
{
    if (file->lock_fd < 0)
        return;
    (void) unlink(file->path);
    (void) close(file->lock_fd); /* the file stays: without it two could have a lock each */
    file->lock_fd = -1;
}

static bool is_loopback(const dibs_address *address)
{
    return address->len == 4 ? address->bytes[0] == 127
                             : memcmp(address->bytes, &in6addr_loopback, sizeof in6addr_loopback) == 0;
}

/* Parse "ADDRESS:PORT"; an IPv6 address is in brackets. */
static dibs_status read_tcp(const char *text, bool is_loopback_only, dibs_address *address, uint16_t *port,
                            dibs_err *err)
{
    char host[64];
    dibs_address found[2];
    size_t n = 0;
    const char *colon = strrchr(text, ':');
    size_t len = colon ? (size_t) (colon - text) : 0;

    if (len == 0 || len >= sizeof host)
        return err_set(err, DIBS_INVALID, "'%s' is not ADDRESS:PORT", text);
    bool is_bracketed = text[0] == '[' && text[len - 1] == ']' && len > 2;
    (void) snprintf(host, sizeof host, "%.*s", (int) (is_bracketed ? len - 2 : len), text + is_bracketed);
    dibs_status s = dibs_address_parse(host, found, &n, err);
    if (s == DIBS_OK)
        s = dibs_port_parse(colon + 1, port, err);
    if (s == DIBS_OK && n > 1)
        s = err_set(err, DIBS_INVALID, "'%s' is two addresses: name 127.0.0.1 or [::1]", text);
    if (s == DIBS_OK && is_loopback_only && !is_loopback(&found[0]))
        s = err_set(err, DIBS_INVALID,
                    "%s is not a loopback address: the server cannot distinguish users there", text);
    *address = found[0];
    return s;
}

dibs_status socket_check_tcp(const char *text, bool is_loopback_only, dibs_err *err)
{
    dibs_address address = { 0 };
    uint16_t port = 0;

    return read_tcp(text, is_loopback_only, &address, &port, err);
}

dibs_status socket_open_tcp(const char *text, bool is_loopback_only, int *out, dibs_err *err)
{
    union kernel_sockaddr to;
    dibs_address address = { 0 };
    uint16_t port = 0;
    int on = 1;
    dibs_status s = read_tcp(text, is_loopback_only, &address, &port, err);

    if (s != DIBS_OK)
        return s;
    socklen_t len = kernel_sockaddr(&address, port, &to);
    AUTO(fd_auto) int fd = socket(to.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "opening a socket");
    (void) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, &to.any, len) != 0 || listen(fd, BACKLOG) != 0)
        return err_os(err, errno == EADDRINUSE ? DIBS_TAKEN : DIBS_UNAVAILABLE, errno, "listening on %s",
                      text);
    *out = fd_take(&fd);
    return DIBS_OK;
}
