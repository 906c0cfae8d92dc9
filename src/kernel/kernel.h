/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KERNEL_KERNEL_H
#define DIBS_KERNEL_KERNEL_H
/* What the real kernel says about ports: bind probe, sockets, ephemeral and reserved ranges. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "dibs/claim.h"
#include "kernel/ahead.h"
#include "kernel/udp_bound.h"
#include "net/portbits.h"

enum kernel_probe_result { KERNEL_FREE, KERNEL_BUSY, KERNEL_ABORT };

/* What makes the probes of a group cheaper. */
struct kernel_group {
    struct ahead *ahead; /* of kernel_probe_common(); may be NULL */
    size_t n_left;       /* about as many claims are to come */
    size_t n_probed;
    struct udp_bound udp;
};

/* Can `port` be bound on every one of the bindings? TCP: SO_REUSEADDR, bind, no listen, close.
 * UDP: plain bind; in a group it is enough that nobody has the port, where TCP could be bound on the same
 * address. `group` may be NULL. BUSY is EADDRINUSE alone, `*which` tells the binding (may be NULL); ABORT is
 * anything else, with the reason in `err`: EACCES is DIBS_DENIED, the rest DIBS_FAILURE. */
enum kernel_probe_result kernel_probe(const dibs_binding *bindings, size_t n, uint16_t port,
                                      struct kernel_group *group, size_t *which, dibs_err *err);
/* For ahead_open(): what most claims want, TCP on "*". */
bool kernel_probe_common(uint16_t port);
/* Is it of use for such claims to ahead_ask() for ports? */
bool kernel_probes_ahead(const struct kernel_group *group, const dibs_binding *bindings, size_t n);
/* The message of an ABORT with this error. */
void kernel_probe_why(const dibs_binding *binding, uint16_t port, int os_errno, dibs_err *err);

/* Can IPv6 sockets be made and ::1 be bound in this network namespace? */
bool kernel_has_ipv6(void);
/* Does the kernel know this protocol (SCTP may be missing)? */
bool kernel_has_proto(dibs_proto proto);

enum kernel_source { KERNEL_DETECTED, KERNEL_DEFAULT };

/* The live ephemeral range of this network namespace; Linux's default 32768-60999 when it
 * cannot be read or is not sane (D1, D23). */
void kernel_ephemeral(dibs_range *out, enum kernel_source *source);

/* ip_local_reserved_ports, whole, however long. An unreadable file is an empty set and false. */
bool kernel_reserved_ports(struct portbits *out);
/* The parser of that file, apart for its tests and fuzzing. False: not in the kernel's format. */
bool kernel_reserved_parse(const char *text, size_t len, struct portbits *out);

/* The first port that everybody may bind; below it a privilege is needed. 1024 when it cannot be read. */
uint16_t kernel_unprivileged_start(void);

/* inode of our network namespace; 0 when it cannot be told. */
uint64_t kernel_netns(void);
/* The same of a process; 0 when we may not look. */
uint64_t kernel_netns_of(pid_t pid);

struct kernel_socket {
    dibs_proto proto;
    dibs_address address; /* v6only set for an IPv6 socket that does not take IPv4 */
    uint16_t port;
    uint32_t uid;
    uint64_t inode;
};

/* Return false to stop. */
typedef bool (*kernel_socket_fn)(void *ctx, const struct kernel_socket *socket);

/* Listening TCP (and SCTP) or bound UDP sockets in network namespace `netns` (0 or our own: here),
 * of `proto` on `port` (0: every port), through sock_diag; for our own namespace /proc/net is read
 * when netlink is not to be had. NOT_FOUND: no such namespace any more (nobody is in it and every
 * process could be looked at); UNAVAILABLE: it cannot be reached from here. */
dibs_status kernel_sockets(uint64_t netns, dibs_proto proto, uint16_t port, kernel_socket_fn fn, void *ctx,
                           dibs_err *err);

/* Whose socket is at the other end of this TCP connection, which must be in our own network namespace: the
 * kernel is asked for the one socket with the same two ends. NOT_FOUND: none of this host's that is still
 * connected. */
dibs_status kernel_peer_uid(int fd, uint32_t *uid, dibs_err *err);

/* Whom to look at first and last when the owner of a socket is searched.
 *
 * Looking into /proc/PID/fd makes the kernel hold each file of that process for a moment. A socket that its
 * owner closes in that moment is closed late, and when he binds its port again at once, he is refused.
 * Measured: one in 700 binds of a server that rebinds without pause while its descriptors are read without
 * pause. So: look only when the socket has been there for a while (kernel_settle), at the likely owner first,
 * and at those last who have claims of their own. */
struct kernel_suspects {
    const pid_t *first;
    size_t n_first;
    const pid_t *last;
    size_t n_last;
};

/* The sockets of this network namespace at one moment; begin with zeros. */
struct kernel_inventory {
    uint64_t *inodes; /* ascending */
    size_t n, max;
    int64_t taken_ms; /* CLOCK_MONOTONIC */
};
/* `sockets` were just seen: those that were not there a moment ago, or are not any more a moment later, get
 * inode 0. Waits only when the inventory does not tell. */
void kernel_settle(struct kernel_inventory *inventory, struct kernel_socket *sockets, size_t n);
void kernel_inventory_done(struct kernel_inventory *inventory);

/* Which processes have these sockets open, in one walk over /proc: pids[i] becomes that of inodes[i] (of
 * several the first found; prefers the lowest), or 0: none that may be looked at (always for inode 0).
 * `suspects` may be NULL. */
void kernel_socket_owners(const uint64_t *inodes, pid_t *pids, size_t n,
                          const struct kernel_suspects *suspects);
#endif
