/* SPDX-License-Identifier: MIT */
/* The least that a request of the portserver protocol costs: a server that accepts, reads, asks who it is,
 * tries the next port for TCP and for UDP on both families as Google's does, answers and closes. It keeps
 * nothing, so ports are given out again, and it has no use but to be measured.
 *
 * usage: bare ADDRESS FIRST LAST [tcp|blind]        ADDRESS: @abstract or a path; ends with SIGTERM
 * tcp: one probe for each; blind: without trying the port, so that only the connection is left */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "bench.h"

enum { AT_ONCE = 512, REQUEST_MAX = 100, PATIENCE_MS = 1000 };

__attribute__((noreturn)) static void die(const char *what)
{
    (void) fprintf(stderr, "bare: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int listen_at(const char *address)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    (void) snprintf(at.sun_path, sizeof at.sun_path, "%s", address);
    socklen_t len = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + strlen(at.sun_path));
    if (*address == '@')
        at.sun_path[0] = '\0';
    if (fd < 0 || bind(fd, (struct sockaddr *) &at, len) != 0 || listen(fd, AT_ONCE) != 0)
        die(address);
    return fd;
}

static bool can_bind(int type, uint16_t port)
{
    const struct sockaddr_in6 at = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
    const int on = 1;
    const int off = 0;
    int fd = socket(AF_INET6, type | SOCK_CLOEXEC, 0);

    if (fd < 0)
        die("socket");
    (void) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (type == SOCK_STREAM)
        (void) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    bool is_free = bind(fd, (const struct sockaddr *) &at, sizeof at) == 0;
    (void) close(fd);
    return is_free;
}

static void serve(int fd, uint16_t port, int n_probes)
{
    struct ucred peer = { 0 };
    socklen_t len = sizeof peer;
    char text[REQUEST_MAX];

    (void) getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len);
    if (recv(fd, text, sizeof text, MSG_DONTWAIT) < 0 && errno == EAGAIN) {
        (void) poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, PATIENCE_MS);
        (void) recv(fd, text, sizeof text, MSG_DONTWAIT);
    }
    if ((n_probes < 1 || can_bind(SOCK_STREAM, port)) && (n_probes < 2 || can_bind(SOCK_DGRAM, port))) {
        int n = snprintf(text, sizeof text, "%u\n", port);

        (void) send(fd, text, (size_t) n, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    (void) close(fd);
}

int main(int argc, char **argv)
{
    int n_probes = argc == 4 ? 2 : argc == 5 && strcmp(argv[4], "tcp") == 0 ? 1 : 0;

    if (argc != 4 && n_probes == 0 && (argc != 5 || strcmp(argv[4], "blind") != 0)) {
        (void) fprintf(stderr, "usage: bare ADDRESS FIRST LAST [tcp|blind]\n");
        return 2;
    }
    int listening = listen_at(argv[1]);
    const uint16_t first = (uint16_t) strtol(argv[2], NULL, 10);
    const uint16_t last = (uint16_t) strtol(argv[3], NULL, 10);
    uint16_t port = first;

    while (poll(&(struct pollfd){ .fd = listening, .events = POLLIN }, 1, -1) >= 0)
        for (int fd = -1; (fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC)) >= 0;) {
            serve(fd, port, n_probes);
            port = port == last ? first : (uint16_t) (port + 1);
        }
    die("poll");
}
