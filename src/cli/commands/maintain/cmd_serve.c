/* SPDX-License-Identifier: MIT */
/* The help of `dibs serve`; src/cli/serve runs it. */
#include "cli/cli.h"

#include "base/banned.h"

static const struct cli_opt opts[] = {
    { .name = "socket", .arg = "PATH", .help = "public socket (root: /run/dibs/dibs.sock)" },
    { .name = "admin-socket", .arg = "PATH", .help = "socket of administrators (0600)" },
    { .name = "portserver",
      .arg = "ADDRESS",
      .help = "also speak Google's portserver protocol: @NAME or a path" },
    { .name = "portserver-http", .arg = "ADDRESS", .help = "also speak gRPC's, on a loopback ADDRESS:PORT" },
    { .name = "metrics", .arg = "ADDRESS", .help = "also /metrics, plain, on a loopback ADDRESS:PORT" },
    { .name = "listen", .arg = "ADDRESS", .help = "also TCP with TLS, on ADDRESS:PORT" },
    { .name = "tls-cert", .arg = "FILE", .help = "certificate for --listen (PEM)" },
    { .name = "tls-key", .arg = "FILE", .help = "its key" },
    { .name = "tokens", .arg = "FILE", .help = "tokens accepted over TCP: lines 'uid:N TOKEN'" },
    { .name = "kube-metrics", .arg = "POOL", .help = "also export this pool's metrics by KEP-3668's names" },
    { .name = "quota", .arg = "N", .help = "claims that one user may have (8192)" },
    { .name = "rate", .arg = "N", .help = "requests of one user in a second (20000)" },
    { .name = "node-ttl", .arg = "TIME", .help = "lease of this host in a cluster (15s)" },
    { .name = "enforce", .help = "the kernel refuses claimed ports to others (needs root)" },
    { .name = "enforce-persistent", .help = "... also while no daemon runs" },
    { .name = "reserve", .help = "no outgoing connection gets a claimed port (needs root)" },
    { .name = "check-config", .help = "only check whether it could start" },
    { 0 },
};

const struct cli_cmd cmd_serve = {
    .name = "serve",
    .group = CLI_MAINTAIN,
    .args = "",
    .summary = "Run the daemon, for all users and containers of a host",
    .details = "Owns the ledger and answers on a Unix socket, which every dibs uses by itself\n"
               "when it is there. Ends with SIGTERM; SIGHUP reads certificates, tokens and\n"
               "settings again. Log lines go to standard error.",
    .examples = "dibs serve --check-config\n",
    .opts = opts,
    .program = "dibs-serve",
};
