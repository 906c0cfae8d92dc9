/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/parse.h"
#include "daemon/serve.h"

#include "base/banned.h"

/* Files and environment may have changed since the start; flags cannot. */
static dibs_status load(void *ctx, dibs_settings *out, dibs_err *err)
{
    const struct cli *cli = ctx;
    dibs_flag flags[DIBS_SETTING_COUNT];

    return dibs_settings_load(flags, cli_flags(cli, flags), out, err);
}

static dibs_status number_of(const struct cli *cli, const char *name, uint32_t *out, dibs_err *err)
{
    const char *text = cli_value(cli, name);
    uint64_t value = 0;

    if (!text)
        return DIBS_OK;
    if (!text_number(text, strlen(text), 1000000000, &value) || value < 1)
        return err_set(err, DIBS_INVALID, "--%s must be a number between 1 and 1000000000", name);
    *out = (uint32_t) value;
    return DIBS_OK;
}

static dibs_status node_ttl(const struct cli *cli, int64_t *out, dibs_err *err)
{
    const char *text = cli_value(cli, "node-ttl");
    dibs_status s = text ? dibs_duration_parse(text, out, err) : DIBS_OK;

    if (s == DIBS_OK && text && (*out < 1000 || *out > 3600000))
        return err_set(err, DIBS_INVALID, "--node-ttl must be between 1s and 1h");
    return s == DIBS_OK ? s : err_wrap(err, s, "--node-ttl");
}

static dibs_status run(struct cli *cli, dibs_err *err)
{
    struct serve_options options = {
        .load = load,
        .ctx = cli,
        .socket = cli_value(cli, "socket"),
        .admin_socket = cli_value(cli, "admin-socket"),
        .portserver = cli_value(cli, "portserver"),
        .portserver_http = cli_value(cli, "portserver-http"),
        .listen = cli_value(cli, "listen"),
        .tls_cert = cli_value(cli, "tls-cert"),
        .tls_key = cli_value(cli, "tls-key"),
        .tokens = cli_value(cli, "tokens"),
        .kube_pool = cli_value(cli, "kube-metrics"),
        .is_check = cli_has(cli, "check-config"),
    };
    dibs_status s = number_of(cli, "quota", &options.quota, err);

    if (s == DIBS_OK)
        s = number_of(cli, "rate", &options.rate, err);
    if (s == DIBS_OK)
        s = node_ttl(cli, &options.node_ttl_ms, err);
    if (s == DIBS_OK)
        s = serve_run(&options, err);
    if (s == DIBS_OK && options.is_check)
        cli_note(cli, "it could start");
    return s;
}

static const struct cli_opt opts[] = {
    { .name = "socket",
      .arg = "PATH",
      .help = "public socket (root: /run/dibs/dibs.sock)",
      .kind = CLI_FILE },
    { .name = "admin-socket", .arg = "PATH", .help = "socket of administrators (0600)", .kind = CLI_FILE },
    { .name = "portserver",
      .arg = "ADDRESS",
      .help = "also speak Google's portserver protocol: @NAME or a path" },
    { .name = "portserver-http", .arg = "ADDRESS", .help = "also speak gRPC's, on a loopback ADDRESS:PORT" },
    { .name = "listen", .arg = "ADDRESS", .help = "also TCP with TLS, on ADDRESS:PORT" },
    { .name = "tls-cert", .arg = "FILE", .help = "certificate for --listen (PEM)", .kind = CLI_FILE },
    { .name = "tls-key", .arg = "FILE", .help = "its key", .kind = CLI_FILE },
    { .name = "tokens",
      .arg = "FILE",
      .help = "who may come in over TCP: lines 'uid:N TOKEN'",
      .kind = CLI_FILE },
    { .name = "kube-metrics", .arg = "POOL", .help = "tell this pool's figures by KEP-3668's names, too" },
    { .name = "quota", .arg = "N", .help = "claims that one user may have (8192)" },
    { .name = "rate", .arg = "N", .help = "requests of one user in a second (20000)" },
    { .name = "node-ttl", .arg = "TIME", .help = "lease of this host in a cluster (15s)" },
    { .name = "check-config", .help = "only see whether it could start" },
    { 0 },
};

const struct cli_cmd cmd_serve = {
    .name = "serve",
    .args = "",
    .summary = "Run the daemon: one truth for all users and containers",
    .details = "Owns the ledger and answers on a Unix socket, which every dibs uses by itself\n"
               "when it is there. Ends with SIGTERM; SIGHUP reads certificates, tokens and\n"
               "settings anew. Log lines go to standard error.",
    .examples = "dibs serve --check-config\n",
    .opts = opts,
    .run = run,
};
