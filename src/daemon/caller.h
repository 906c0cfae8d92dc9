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
    CALLER_LOOPBACK, /* a user of this host, identified by the kernel; only gRPC's routes */
    CALLER_PAGE, /* a page of the dashboard, identified by its session; its user's process by the kernel */
};

struct caller {
    unsigned n_users; /* the connection and its requests, which may outlive it */
    enum caller_listener listener;
    struct peer peer; /* of a Unix socket */
    struct call call; /* template for each request, without a time; has the daemon's settings */
    char principal[DIBS_PRINCIPAL_MAX + 1];
};

struct caller_view {
    const struct process_view *owners;
    const dibs_settings *settings; /* the daemon's own */
    uint32_t uid;                  /* owner of the ledger */
};

/* Identify the peer of a Unix socket. DENIED: it has no uid here. End out->peer with peer_done(). */
dibs_status caller_load(const struct caller_view *view, int fd, enum caller_listener listener,
                        struct caller *out);
/* Return the call of one request. Its process may have changed its network namespace since the last one. */
struct call caller_call(const struct caller *caller);
/* Do the same as caller_load() with fewer reads of /proc. Return true only when the process is in our pid
 * namespace and was watched since `moment`, before it connected: so its pid was not reused. */
bool caller_load_watched(const struct caller_view *view, struct watch *watch, uint64_t moment, int fd,
                         struct caller *out);
/* Identify the caller of a request over TCP by its header field "Authorization". DENIED: no known token. */
dibs_status caller_load_token(const struct caller_view *view, const struct tokens *tokens, const char *field,
                              struct caller *out, dibs_err *err);
/* Identify the user of a TCP connection from this host by its socket. The principal is empty for none. */
void caller_load_loopback(const struct caller_view *view, int fd, enum caller_listener listener,
                          struct caller *out);
/* Fill the caller of a request with the session of a user, who has the rights of a public socket. */
void caller_load_page(const struct caller_view *view, uint32_t uid, struct caller *out);

/* Translate a pid of the caller's namespace into ours; 0 is the caller itself. */
dibs_status caller_translate(const struct caller_view *view, const struct caller *caller, dibs_holder holder,
                             int32_t *pid, dibs_err *err);
/* Check that the caller may restore the claim: DENIED when its sockets or its holder are another user's. */
dibs_status caller_check(const struct caller_view *view, const struct caller *caller, const dibs_claim *claim,
                         dibs_err *err);
#endif
