/* SPDX-License-Identifier: MIT */
#ifndef DIBS_TESTS_SOCKETS_H
#define DIBS_TESTS_SOCKETS_H
/* Real sockets, and what host/kernel.h finds of them. */
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "host/kernel.h"
#include "support/t.h"

enum { LISTENING = 1, V6ONLY = 2 };

/* A socket on a port of the kernel's choice. `address`: 4 bytes or 16. */
int serve(int type, const char *address, size_t len, int flags, uint16_t *port);
uint64_t inode_of(int fd);

struct finding {
    uint64_t inode; /* wanted; 0: any */
    size_t n, n_wanted, stop_after;
    struct kernel_socket last; /* of the wanted */
};

bool note(void *ctx, const struct kernel_socket *socket);
struct finding find(uint64_t netns, dibs_proto proto, uint16_t port, uint64_t inode);

/* A child reports the socket that it has opened. */
struct shared {
    int ready[2];
    int fd;
    uint64_t netns, inode;
    uint16_t port;
};
#endif
