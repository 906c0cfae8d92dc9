/* SPDX-License-Identifier: MIT */
/* dibs-serve: the daemon. `dibs serve` executes it. dibs-serve-etcd is the same program with the store of
 * clusters, which dibs-serve executes for a ledger in etcd. */
#include <limits.h>

#include "base/err.h"
#include "cli/parse.h"
#include "cli/program.h"
#include "cli/serve/serve.h"
#include "daemon/serve.h"

#include "base/banned.h"

dibs_status serve_load(void *ctx, dibs_settings *out, dibs_err *err)
{
    const struct cli *cli = ctx;
    dibs_flag flags[DIBS_SETTING_COUNT];

    return dibs_settings_load(flags, cli_flags(cli, flags), out, err);
}

static dibs_status number_of(const struct cli *cli, const char *name, uint32_t *out, dibs_err *err)
{
    int64_t value = *out;
    dibs_status s = cli_number_from(cli, name, 1, 1000000000, &value, err);

    *out = (uint32_t) value;
    return s;
}

static dibs_status node_ttl(const struct cli *cli, int64_t *out, dibs_err *err)
{
    const char *text = cli_value(cli, "node-ttl");
    dibs_status s = text ? dibs_duration_parse(text, out, err) : DIBS_OK;

    if (s == DIBS_OK && text && (*out < 1000 || *out > 3600000))
        return err_set(err, DIBS_INVALID, "--node-ttl must be between 1s and 1h");
    return s == DIBS_OK ? s : err_wrap(err, s, "--node-ttl");
}

static dibs_status find_enforcer(const struct cli *cli, struct serve_options *options, char *path,
                                 size_t size, dibs_err *err)
{
    options->is_persistent = cli_has(cli, "enforce-persistent");
    if (!options->is_persistent && !cli_has(cli, "enforce"))
        return DIBS_OK;
    options->enforce_program = path;
    return program_find("dibs-bpf", path, size, err);
}

static dibs_status serve(struct cli *cli, dibs_err *err)
{
    char enforcer[PATH_MAX];
    struct serve_options options = {
        .load = serve_load,
        .ctx = cli,
        .socket = cli_value(cli, "socket"),
        .admin_socket = cli_value(cli, "admin-socket"),
        .portserver = cli_value(cli, "portserver"),
        .portserver_http = cli_value(cli, "portserver-http"),
        .metrics = cli_value(cli, "metrics"),
        .listen = cli_value(cli, "listen"),
        .tls_cert = cli_value(cli, "tls-cert"),
        .tls_key = cli_value(cli, "tls-key"),
        .tokens = cli_value(cli, "tokens"),
        .kube_pool = cli_value(cli, "kube-metrics"),
        .reserves = cli_has(cli, "reserve"),
        .is_check = cli_has(cli, "check-config"),
    };
    dibs_status s = number_of(cli, "quota", &options.quota, err);

    if (s == DIBS_OK)
        s = number_of(cli, "rate", &options.rate, err);
    if (s == DIBS_OK)
        s = node_ttl(cli, &options.node_ttl_ms, err);
    if (s == DIBS_OK)
        s = find_enforcer(cli, &options, enforcer, sizeof enforcer, err);
    if (s == DIBS_OK)
        s = serve_run(&options, err);
    if (s == DIBS_OK && options.is_check)
        cli_note(cli, "it could start");
    return s;
}

static dibs_status run(struct cli *cli, dibs_err *err)
{
    return cli->cmd == &cmd_ui ? serve_ui(cli, err) : serve(cli, err);
}

#ifdef SERVE_WITH_ETCD
static const bool has_etcd = true;
#else
static const bool has_etcd = false;
#endif

int main(int argc, char **argv)
{
    const struct program self = { .name = "dibs-serve", .run = run, .opens_clusters = has_etcd };

    return program_main(&self, argc, argv);
}
