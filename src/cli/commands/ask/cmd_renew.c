/* SPDX-License-Identifier: MIT */
/* `renew` and `transfer`: change how long a claim is held, and by which holder. */
#include "base/err.h"
#include "cli/claim_options.h"

#include "base/banned.h"

/* Renew a lease; without --ttl it keeps its length. */
static dibs_status renew(struct cli *cli, const dibs_which *which, int64_t ttl_ms, dibs_claim *out,
                         dibs_err *err)
{
    dibs_status s = ttl_ms ? DIBS_OK : dibs_claim_find(cli->handle, which, out, err);

    if (!ttl_ms)
        ttl_ms = out->lease_ttl_ms > 0 ? out->lease_ttl_ms : cli->settings.ttl_ms;
    return s ? s : dibs_claim_renew(cli->handle, which, ttl_ms, out, err);
}

static dibs_status run(struct cli *cli, dibs_err *err)
{
    bool is_renew = cli->cmd == &cmd_renew;
    char name[DIBS_NAME_MAX + 1];
    dibs_which which = { 0 };
    dibs_heir heir = { .holder = DIBS_HELD_BY_NOBODY };
    dibs_claim claim = { 0 };
    bool is_given = false;
    dibs_status s = cli_target(cli, &which, name, err);

    if (!s)
        s = cli_heir_from(cli, &heir, &is_given, err);
    if (!s && !is_given && !is_renew)
        s = err_set(err, DIBS_INVALID, "transfer: name the new holder: --pid PID, --ttl TIME or --keep");
    if (!s)
        s = cli_open(cli, err);
    if (!s)
        s = is_renew ? renew(cli, &which, heir.ttl_ms, &claim, err)
                     : dibs_claim_transfer(cli->handle, &which, &heir, &claim, err);
    return s ? s : cli_print_claims(cli, &claim, 1, false, err);
}

static const struct cli_opt renew_opts[] = {
    { .name = "ttl", .arg = "TIME", .help = "from now on; the default is the length it had" },
    { .name = "token", .arg = "TOKEN", .help = "the claim with this token, and no later one" },
    { 0 },
};

const struct cli_cmd cmd_renew = {
    .name = "renew",
    .group = CLI_ASK,
    .args = "NAME|PORT | --token TOKEN",
    .summary = "Extend the lease of a claim and print its port",
    .details = "The lease then ends TIME from now. A claim that a process holds, or nobody,\n"
               "has no lease and needs none.",
    .examples = "dibs renew web\n"
                "dibs renew web --ttl 2h\n",
    .opts = renew_opts,
    .max_args = 1,
    .args_words = ":names",
    .run = run,
};

static const struct cli_opt transfer_opts[] = {
    { .name = "pid", .arg = "PID", .help = "to this process, until it ends" },
    { .name = "ttl", .arg = "TIME", .help = "to a lease of this length" },
    { .name = "keep", .help = "to nobody: it stays until it is released" },
    { .name = "token", .arg = "TOKEN", .help = "the claim with this token, and no later one" },
    { 0 },
};

const struct cli_cmd cmd_transfer = {
    .name = "transfer",
    .group = CLI_ASK,
    .args = "NAME|PORT | --token TOKEN",
    .summary = "Hand a claim over to another holder and print its port",
    .details = "The claim gets a new token (shown with --json); the old one is invalid\n"
               "from then on.",
    .examples = "dibs transfer web --keep\n"
                "dibs transfer web --ttl 30m\n",
    .opts = transfer_opts,
    .max_args = 1,
    .args_words = ":names",
    .run = run,
};
