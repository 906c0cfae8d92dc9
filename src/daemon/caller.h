/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_CALLER_H
#define DIBS_DAEMON_CALLER_H
/* The caller at the other end of a connection, and its rights. */
#include "core/core.h"
#include "daemon/tokens.h"
#include "host/peer.h"
#include "host/process_watch.h"

enum caller_listener {
    CALLER_PUBLIC,   /* any user: sees all claims, ends its own */
    CALLER_ADMIN,    /* users that can open the 0600 socket */
    CALLER_TCP,      /* identified by a token; no process can be seen */
    CALLER_LOOPBACK, /* of this host: the kernel says whose socket it is; gRPC's routes alone */
};

struct caller {
    unsigned n_users; /* of a connection's: that connection, and requests which may outlive it */
    enum caller_listener listener;
    struct peer peer; /* of a Unix socket */
    struct call call; /* of each request, but its time; its settings are the daemon's */
    char principal[DIBS_PRINCIPAL_MAX + 1];
};

struct caller_view {
    const struct process_view *owners;
    const dibs_settings *settings; /* the daemon's own */
    uint32_t uid;                  /* whose the ledger is */
};

/* Of a Unix socket's peer. DENIED: it has no uid here. End out->peer with peer_done(). */
dibs_status caller_load(const struct caller_view *view, int fd, enum caller_listener listener,
                        struct caller *out);
/* Return the call of one request: its process may be in another network namespace than at the last one. */
struct call caller_call(const struct caller *caller);
/* As caller_load(), without most of its look at /proc. True only when the process is watched since `moment`,
 * which was before it connected, and is in our own pid namespace: so it is no later process of the same pid.
 */
bool caller_load_watched(const struct caller_view *view, struct watch *watch, uint64_t moment, int fd,
                         struct caller *out);
/* Of a request over TCP, by its header field "Authorization". DENIED: none, or no such token. */
dibs_status caller_load_token(const struct caller_view *view, const struct tokens *tokens, const char *field,
                              struct caller *out, dibs_err *err);
/* Of a TCP connection from this host: the user whose socket is at its other end. Without one the principal is
 * empty. */
void caller_load_loopback(const struct caller_view *view, int fd, struct caller *out);

/* Translate pids of the caller's namespace, in requests or an heir, into ours. 0 is the caller itself. */
dibs_status caller_translate(const struct caller_view *view, const struct caller *caller, dibs_holder holder,
                             int32_t *pid, dibs_err *err);
#endif
