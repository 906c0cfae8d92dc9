/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOST_KERNEL_H
#define DIBS_HOST_KERNEL_H
/* Ports as the kernel sees them: bind probe, sockets, ephemeral and reserved ranges. */
#include <netinet/in.h>
#include <sys/types.h>

#include "dibs/claim.h"
#include "net/portbits.h"

union kernel_sockaddr {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};
/* The address and the port as a socket has them; returns the size. */
socklen_t kernel_sockaddr(const dibs_address *address, uint16_t port, union kernel_sockaddr *out);

enum kernel_probe_result { KERNEL_FREE, KERNEL_BUSY, KERNEL_ABORT };

/* Can `port` be bound on every one of the bindings? TCP: SO_REUSEADDR, bind, no listen, close.
 * UDP: plain bind. BUSY is EADDRINUSE alone; ABORT is anything else, with the reason in `err`: EACCES is
 * DIBS_DENIED, the rest DIBS_FAILURE. */
enum kernel_probe_result kernel_probe(const dibs_binding *bindings, size_t n, uint16_t port, dibs_err *err);
/* Fill `err` with the message of an ABORT with this error. */
void kernel_probe_why(const dibs_binding *binding, uint16_t port, int os_errno, dibs_err *err);

/* Can IPv6 sockets be made and ::1 be bound in this network namespace? */
bool kernel_has_ipv6(void);
/* Does the kernel know this protocol (SCTP may be missing)? */
bool kernel_has_proto(dibs_proto proto);

/* Read the live ephemeral range of this network namespace; false, and Linux's default 32768-60999, when it
 * cannot be read or is not sane (D1, D23). */
bool kernel_ephemeral(dibs_range *out);

/* Read ip_local_reserved_ports, whatever its length. An unreadable file is an empty set and false. */
bool kernel_reserved_ports(struct portbits *out);
/* The parser of that file, public for its tests and fuzzing. False: not in the kernel's format. */
bool kernel_reserved_parse(const char *text, size_t len, struct portbits *out);

/* Return the first port that every user may bind without a privilege; 1024 when it cannot be read. */
uint16_t kernel_unprivileged_start(void);

/* Return the inode of our network namespace; 0 when it is not known. */
uint64_t kernel_netns(void);
/* The same of a process; 0 when we may not look. */
uint64_t kernel_netns_of(pid_t pid);

struct kernel_socket {
    dibs_proto proto;
    dibs_address address; /* v6only set for an IPv6 socket that does not take IPv4 */
    uint16_t port;
    uint32_t uid;
    uint64_t inode;
    bool serves; /* it listens, or takes datagrams */
};

/* Return false to stop. */
typedef bool (*kernel_socket_fn)(void *ctx, const struct kernel_socket *socket);

/* Call fn for the listening TCP (and SCTP) or bound UDP sockets in network namespace `netns` (0 or our own:
 * here), of `proto` on `port` (0: every port), through sock_diag, or here from /proc/net without netlink. A
 * protocol that the kernel lacks has no sockets. NOT_FOUND: no such namespace any more (no process is in it
 * and all could be looked at); UNAVAILABLE: it cannot be reached from here. */
dibs_status kernel_sockets(uint64_t netns, dibs_proto proto, uint16_t port, kernel_socket_fn fn, void *ctx,
                           dibs_err *err);

/* The same here, and TCP sockets that have only bound the port (from Linux 6.8 on) or are connected from it:
 * a bind can fail because of these, too. */
dibs_status kernel_blocking_sockets(dibs_proto proto, uint16_t port, kernel_socket_fn fn, void *ctx,
                                    dibs_err *err);

/* Find the uid at the other end of this TCP connection, by the one socket of our network namespace with the
 * same two ends. NOT_FOUND: no socket of this host, or not connected any more. */
dibs_status kernel_peer_uid(int fd, uint32_t *uid, dibs_err *err);

/* Which processes to look at first and last when searching the owner of a socket.
 *
 * Looking into /proc/PID/fd makes the kernel hold each file of that process for a moment. A socket that its
 * owner closes then is closed late, and a bind of the same port at once fails (one in 700, when both go on
 * without pause). So look only when the socket has existed for a while (kernel_settle), at the likely owner
 * first, and last at processes with claims of their own. */
struct kernel_suspects {
    const pid_t *first;
    size_t n_first;
    pid_t *last; /* sorted by the search */
    size_t n_last;
};

/* The sockets of this network namespace at one moment; begin with zeros. */
struct kernel_inventory {
    uint64_t *inodes; /* ascending; the owner frees them */
    size_t n, max;
    int64_t taken_ms; /* CLOCK_MONOTONIC */
};
/* Set the inode to 0 for each of `sockets` (just seen) that is not older than the inventory, or that is gone
 * a moment later. Waits only when the inventory is too young to decide. */
void kernel_settle(struct kernel_inventory *inventory, struct kernel_socket *sockets, size_t n);

/* Find the processes that have these sockets open, in one walk over /proc: pids[i] becomes the owner of
 * inodes[i], or 0: no process that we may look at (always for inode 0). `suspects` may be NULL. */
void kernel_socket_owners(const uint64_t *inodes, pid_t *pids, size_t n,
                          const struct kernel_suspects *suspects);
#endif
