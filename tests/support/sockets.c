/* SPDX-License-Identifier: MIT */
#include "support/sockets.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "host/kernel.h"

int serve(int type, const char *address, size_t len, int flags, uint16_t *port)
{
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
    struct sockaddr_in v4 = { .sin_family = AF_INET };
    struct sockaddr *sa = len == 4 ? (struct sockaddr *) &v4 : (struct sockaddr *) &v6;
    socklen_t sa_len = len == 4 ? sizeof v4 : sizeof v6;
    int v6only = flags & V6ONLY ? 1 : 0;
    int fd = socket(sa->sa_family, type | SOCK_CLOEXEC, 0);

    memcpy(len == 4 ? (void *) &v4.sin_addr : (void *) &v6.sin6_addr, address, len);
    if (fd >= 0 && len == 16)
        (void) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof v6only);
    if (fd < 0 || bind(fd, sa, sa_len) != 0 || ((flags & LISTENING) && listen(fd, 5) != 0) ||
        getsockname(fd, sa, &sa_len) != 0)
        return -1;
    *port = ntohs(len == 4 ? v4.sin_port : v6.sin6_port);
    return fd;
}

uint64_t inode_of(int fd)
{
    struct stat st = { 0 };

    return fstat(fd, &st) == 0 ? st.st_ino : 0;
}

bool note(void *ctx, const struct kernel_socket *socket)
{
    struct finding *f = ctx;

    f->n++;
    if (f->inode == 0 || socket->inode == f->inode) {
        f->n_wanted++;
        f->last = *socket;
    }
    return f->stop_after == 0 || f->n < f->stop_after;
}

struct finding find(uint64_t netns, dibs_proto proto, uint16_t port, uint64_t inode)
{
    struct finding f = { .inode = inode };
    dibs_err err = { 0 };

    ASSERT_OK(kernel_sockets(netns, proto, port, note, &f, &err), &err);
    return f;
}
