/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_CALLER_H
#define DIBS_DAEMON_CALLER_H
/* Who is at the other end of a connection, and what he may: DESIGN "Rights". */
#include "core/core.h"
#include "daemon/tokens.h"
#include "owner/peer.h"
#include "owner/watch.h"

enum caller_door {
    CALLER_PUBLIC,   /* everybody: sees all claims, ends his own */
    CALLER_ADMIN,    /* whoever can open the 0600 socket */
    CALLER_TCP,      /* a token says who; no process can be seen */
    CALLER_LOOPBACK, /* of this host: the kernel says whose socket it is; gRPC's routes alone */
};

struct caller {
    unsigned n_users; /* of a connection's: that connection, and requests which may outlive it */
    enum caller_door door;
    struct owner_peer peer; /* of a Unix socket */
    struct core_caller who; /* as the engine is told; its settings are the daemon's */
    char principal[DIBS_PRINCIPAL_MAX + 1];
};

struct caller_view {
    const struct owner_view *owners;
    const dibs_settings *settings; /* the daemon's own */
    uint32_t uid;                  /* whose the ledger is */
};

/* Of a connection on a Unix socket. DENIED: the peer has no uid here. */
dibs_status caller_load(const struct caller_view *view, int fd, enum caller_door door, struct caller *out,
                        dibs_err *err);
/* The same without a look at /proc, which is most of its cost. True only when the process that connected is
 * watched since before it did: `moment` is one at which the connection was not there yet. So it is that
 * process and no later one of its pid, and in our own pid namespace. */
bool caller_load_watched(const struct caller_view *view, struct watch *watch, uint64_t moment, int fd,
                         struct caller *out);
/* Of a request over TCP, by its header field "Authorization". DENIED: none, or no such token. */
dibs_status caller_load_token(const struct caller_view *view, const struct tokens *tokens, const char *field,
                              struct caller *out, dibs_err *err);
/* Of a TCP connection from this host: the user whose socket is at its other end. DENIED: nobody's. */
dibs_status caller_load_loopback(const struct caller_view *view, int fd, struct caller *out, dibs_err *err);
void caller_done(struct caller *caller);

/* The caller's pids become ours: of requests, or of an heir. 0 is the caller itself. */
dibs_status caller_translate(const struct caller_view *view, const struct caller *caller, dibs_holder holder,
                             int32_t *pid, dibs_err *err);
#endif
