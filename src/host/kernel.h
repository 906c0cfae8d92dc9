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
/* Fill the socket address of an address and a port; returns its size. */
socklen_t kernel_sockaddr(const dibs_address *address, uint16_t port, union kernel_sockaddr *out);

/* Bind a socket as dibs does for itself: below `dibs run --as` (hold/as) the number is the real one, and the
 * notifier does not wait for the ledger, which we may have locked. */
int kernel_bind(int fd, const union kernel_sockaddr *address, socklen_t len);
/* Is this socket about to be bound by kernel_bind()? */
bool kernel_binds(int fd);

enum kernel_probe_result { KERNEL_FREE, KERNEL_BUSY, KERNEL_ABORT };

/* Can `port` be bound on all bindings? TCP: SO_REUSEADDR, bind, no listen, close. UDP: plain bind. BUSY is
 * only EADDRINUSE; ABORT is any other error: EACCES is DIBS_DENIED, the rest DIBS_FAILURE. */
enum kernel_probe_result kernel_probe(const dibs_binding *bindings, size_t n, uint16_t port, dibs_err *err);
/* Open a socket for a binding, close-on-exec and not bound yet: SO_REUSEADDR except for UDP, and IPV6_V6ONLY
 * unless it is the dual-stack wildcard. -1 and errno. The caller owns it. */
int kernel_open(const dibs_binding *binding);
/* Fill `err` with the message of an ABORT with this errno. */
void kernel_probe_why(const dibs_binding *binding, uint16_t port, int os_errno, dibs_err *err);

/* Can IPv6 sockets be made and ::1 be bound in this network namespace? */
bool kernel_has_ipv6(void);
/* Does the kernel know this protocol (SCTP may be missing)? */
bool kernel_has_proto(dibs_proto proto);

/* Read the live ephemeral range of this network namespace. Return false, and Linux's default 32768-60999,
 * when it cannot be read or is malformed (D1, D23). */
bool kernel_ephemeral(dibs_range *out);

/* Read ip_local_reserved_ports of any length. Return false and an empty set when it cannot be read. */
bool kernel_reserved_ports(struct portbits *out);
/* Parse that file; public for tests and fuzzing. Return false when it is not in the kernel's format. */
bool kernel_reserved_parse(const char *text, size_t len, struct portbits *out);

/* Return the first port that needs no privilege to bind; 1024 when it cannot be read. */
uint16_t kernel_unprivileged_start(void);

/* A network namespace that exists and could not be identified. No namespace has this inode. */
#define KERNEL_NETNS_UNKNOWN 1u

/* Return the inode of our network namespace; 0 when unknown. It changes with unshare() and setns(). */
uint64_t kernel_netns(void);
/* The same for a process; KERNEL_NETNS_UNKNOWN when we may not look; 0 when it has ended. */
uint64_t kernel_netns_of(pid_t pid);
/* The same for the other end of an accepted Unix connection, ours or UNKNOWN: also when its process cannot be
 * seen from here. */
uint64_t kernel_netns_of_peer(int fd);

struct kernel_socket_kind {
    int family, type, protocol;
};
/* Open a socket, close-on-exec, in the network namespace (0: ours); it stays in there. The caller owns *out.
 * Only the calling thread moves, and it is back on return. NOT_FOUND: no such namespace any more; DENIED: no
 * process of our user is in it; UNAVAILABLE: it cannot be reached from here. */
dibs_status kernel_socket_in(uint64_t netns, const struct kernel_socket_kind *kind, int *out, dibs_err *err);

/* The network device that our guards (hold/guard.h) are bound to. There is none with this number, so no
 * datagram ever arrives there. Lists of sockets leave out those that are bound to it. */
#define KERNEL_GUARD_DEVICE INT32_MAX

/* Read the number by which the kernel's programs know a network namespace (0: ours): unlike its inode it is
 * never used again. Fails as kernel_sockets(), or UNAVAILABLE: the kernel is older than Linux 5.14. */
dibs_status kernel_netns_cookie(uint64_t netns, uint64_t *out, dibs_err *err);

enum kernel_socket_state {
    KERNEL_LISTENING, /* also a UDP socket that receives from every sender */
    KERNEL_BOUND,
    KERNEL_CONNECTED, /* or about to be, or closing */
};

struct kernel_socket {
    dibs_proto proto;
    dibs_address address; /* v6only: an IPv6 socket that does not accept IPv4 */
    uint16_t port;
    uint32_t uid;
    uint64_t inode;
    bool serves; /* it listens, or receives datagrams */
    enum kernel_socket_state state;
};

/* Return false to stop. */
typedef bool (*kernel_socket_fn)(void *ctx, const struct kernel_socket *socket);

/* Call fn for the listening TCP (and SCTP) or bound UDP sockets of `proto` on `port` (0: every port) in
 * network namespace `netns` (0: ours). Uses sock_diag, or without netlink /proc/net in our own namespace. A
 * protocol that the kernel lacks has no sockets. NOT_FOUND: the namespace does not exist any more; DENIED: no
 * process of our user is in it; UNAVAILABLE: it cannot be reached from here. */
dibs_status kernel_sockets(uint64_t netns, dibs_proto proto, uint16_t port, kernel_socket_fn fn, void *ctx,
                           dibs_err *err);

/* The same, and TCP sockets that are only bound (from Linux 6.8 on) or connected from the port: these can
 * make a bind fail, too. */
dibs_status kernel_blocking_sockets(uint64_t netns, dibs_proto proto, uint16_t port, kernel_socket_fn fn,
                                    void *ctx, dibs_err *err);

/* Is a guard bound to the port in our network namespace? False also when that cannot be seen: the kernel
 * lists those of TCP since Linux 6.8. */
bool kernel_has_guard(dibs_proto proto, uint16_t port);

/* Find the uid at the other end of this TCP connection by the socket of our network namespace with the same
 * two ends. NOT_FOUND: no socket of this host, or not connected any more. */
dibs_status kernel_peer_uid(int fd, uint32_t *uid, dibs_err *err);

/* The processes to search first and last for the owner of a socket.
 *
 * Reading /proc/PID/fd makes the kernel hold each file of that process for a moment. If the owner closes the
 * socket then, the close is late, and an immediate bind of the same port fails (one in 700 in a tight loop).
 * So search only for sockets that have existed for a while (kernel_settle), the likely owner first, and
 * processes with their own claims last. */
struct kernel_suspects {
    const pid_t *first;
    size_t n_first;
    pid_t *last; /* the search sorts it */
    size_t n_last;
};

/* The sockets of a network namespace at one time; start with zeros. */
struct kernel_inventory {
    uint64_t netns;   /* 0: ours */
    uint64_t *inodes; /* ascending; the caller frees them */
    size_t n, max;
    int64_t taken_ms; /* CLOCK_MONOTONIC */
};
/* Set the inode to 0 for each of `sockets` that is not older than the inventory, or is closed a moment
 * later. Waits only when the inventory is too young to decide, or is of another namespace than `netns`. */
void kernel_settle(struct kernel_inventory *inventory, uint64_t netns, struct kernel_socket *sockets,
                   size_t n);

/* Find the processes that have these sockets open, in one walk over /proc: pids[i] becomes the owner of
 * inodes[i]; 0: none that we may inspect (always for inode 0). `suspects` may be NULL. */
void kernel_socket_owners(const uint64_t *inodes, pid_t *pids, size_t n,
                          const struct kernel_suspects *suspects);
#endif
