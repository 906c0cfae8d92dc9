/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOST_PROCNET_H
#define DIBS_HOST_PROCNET_H
/* Lists of sockets from sock_diag or /proc/net, for the files of host/ only. */
#include <sys/socket.h>

#include "host/kernel.h"

/* States as the kernel numbers them (tcp_states.h, also for UDP). */
enum {
    SOCKET_ESTABLISHED = 1,
    SOCKET_TIME_WAIT = 6,
    SOCKET_CLOSED = 7,
    SOCKET_LISTENING = 10,
    SOCKET_BOUND = 13, /* bound, not listening; listed since Linux 6.8 */
};
/* Sets of states, as bits: sockets that serve, and TCP sockets that can make a bind fail. */
#define SOCKETS_SERVING(proto) \
    ((proto) == DIBS_UDP ? 1u << SOCKET_CLOSED | 1u << SOCKET_ESTABLISHED : 1u << SOCKET_LISTENING)
#define SOCKETS_BLOCKING(proto)                   \
    ((proto) == DIBS_UDP ? SOCKETS_SERVING(proto) \
                         : ((1u << (SOCKET_BOUND + 1)) - 2) & ~(1u << SOCKET_TIME_WAIT))

/* Return how a socket in that state of the kernel's uses its port. */
enum kernel_socket_state socket_state(dibs_proto proto, unsigned state);

/* Sockets of a protocol on `port` (0: every port) in one of the states. */
struct socket_query {
    dibs_proto proto;
    uint16_t port;
    uint32_t states;
    bool is_of_guards; /* only guards, instead of all other sockets; not for /proc/net */
};

/* A bounded list of sockets; start with zeros, end with socket_list_done(). */
struct socket_list {
    struct kernel_socket *item;
    size_t n, max;
};
/* Return false without memory, or for more sockets than one host can have. */
bool socket_list_add(struct socket_list *list, const struct kernel_socket *socket);
void socket_list_done(struct socket_list *list);

/* Return the address of a socket, 4 or 16 bytes; v4-mapped becomes IPv4. */
dibs_address socket_address(const uint8_t *bytes, bool is_v6, bool v6only);

/* Parse a line of /proc/net/{tcp,udp}{,6}. Return false for a line without a socket or outside of the query.
 * The file does not show v6only: every IPv6 wildcard counts as dual-stack. */
bool procnet_line_parse(const char *line, bool is_v6, const struct socket_query *query,
                        struct kernel_socket *out);

/* Open a sock_diag socket, whose reads time out, in the network namespace (0: ours). The caller owns *out.
 * Only the calling thread moves, and it is back on return. NOT_FOUND: no such namespace any more;
 * UNAVAILABLE: it cannot be reached. */
dibs_status netns_socket(uint64_t netns, int *out, dibs_err *err);
/* Append the sockets of the query. */
dibs_status procnet_list(const struct socket_query *query, struct socket_list *list, dibs_err *err);
/* As procnet_list(), through a netlink socket and in its network namespace. FAILURE: the kernel does not
 * answer; err->os_errno is ENOENT when it has no sock_diag for the protocol. */
dibs_status sock_diag_list(int fd, const struct socket_query *query, struct socket_list *list, dibs_err *err);
/* Find the connected TCP socket with these two ends, of one family. NOT_FOUND: no such socket. */
dibs_status sock_diag_find(int fd, const struct sockaddr_storage *local, const struct sockaddr_storage *peer,
                           uint32_t *uid, dibs_err *err);
#endif
