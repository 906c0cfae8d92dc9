/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_SERVE_H
#define DIBS_DAEMON_SERVE_H
/* The daemon process: its sockets, its service manager, and one loop until SIGTERM or SIGINT. */
#include "dibs/dibs.h"

/* A server that only shows the dashboard to the user who starts it, over the user's own ledger. */
struct serve_page {
    int64_t idle_ms; /* it ends when no page has been connected for so long */
    /* The page can be opened at this address, until `expires_ms` (wall clock). An error ends the server. */
    dibs_status (*opened)(void *ctx, const char *url, int64_t expires_ms, dibs_err *err);
};

struct serve_options {
    /* Called at the start and at SIGHUP; an error at SIGHUP is logged, and nothing changes. */
    dibs_status (*load)(void *ctx, dibs_settings *out, dibs_err *err);
    void *ctx;
    const char *socket;       /* NULL: /run/dibs/dibs.sock for root, else $XDG_RUNTIME_DIR/dibs/dibs.sock */
    const char *admin_socket; /* NULL: beside the default socket; none beside another one */
    const char *portserver;   /* address for Google's protocol: "@NAME" or a path; NULL: none */
    const char *portserver_http; /* address for gRPC's protocol: "127.0.0.1:PORT"; NULL: none */
    const char *metrics;         /* loopback "ADDRESS:PORT" for plain /metrics; NULL: none */
    const char *listen;          /* "ADDRESS:PORT" for TCP with TLS; NULL: none; needs these three files: */
    const char *tls_cert, *tls_key, *tokens;
    const char *kube_pool;         /* pool exported under KEP-3668's names; NULL: none */
    uint32_t quota;                /* claims per user; 0: the default */
    uint32_t rate;                 /* requests per user and second; 0: the default */
    int64_t node_ttl_ms;           /* TTL of this host's lease in a cluster; 0: the default */
    const char *enforce_program;   /* path of dibs-bpf: the kernel enforces claims; NULL: it does not */
    bool is_persistent;            /* ... also while no daemon runs */
    bool reserves;                 /* claimed ports of the ephemeral range go to ip_local_reserved_ports */
    const struct serve_page *page; /* NULL: a daemon. Else there are no sockets but the page's */
    bool is_check;                 /* only check whether the daemon could start */
};

/* Run until SIGTERM or SIGINT; with a page also until SIGHUP, and until nobody looks any more. TAKEN: another
 * daemon answers on the socket. */
dibs_status serve_run(const struct serve_options *options, dibs_err *err);
#endif
