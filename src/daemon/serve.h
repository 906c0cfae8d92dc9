/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_SERVE_H
#define DIBS_DAEMON_SERVE_H
/* The daemon as a process: its sockets, its service manager, one loop until SIGTERM or SIGINT. */
#include "dibs/dibs.h"

struct serve_options {
    /* Called at the start and at SIGHUP: an error then is logged and leaves everything as it is. */
    dibs_status (*load)(void *ctx, dibs_settings *out, dibs_err *err);
    void *ctx;
    const char *socket;          /* NULL: /run/dibs/dibs.sock, or dibs/dibs.sock of $XDG_RUNTIME_DIR */
    const char *admin_socket;    /* NULL: beside the default socket; none beside another one */
    const char *portserver;      /* Google's protocol: "@NAME" or a path; NULL: none */
    const char *portserver_http; /* gRPC's: "127.0.0.1:PORT"; NULL: none */
    const char *listen;          /* "ADDRESS:PORT" for TCP with TLS; NULL: none. Needs these three: */
    const char *tls_cert, *tls_key, *tokens; /* files */
    const char *kube_pool;                   /* NULL: none */
    uint32_t quota;                          /* claims of one user; 0: the default */
    uint32_t rate;                           /* requests of one user in a second; 0: the default */
    int64_t node_ttl_ms;                     /* of this host's lease in a cluster; 0: the default */
    bool is_check;                           /* only see whether it could start */
};

/* Until SIGTERM or SIGINT. TAKEN: another daemon answers on the socket. */
dibs_status serve_run(const struct serve_options *options, dibs_err *err);
#endif
