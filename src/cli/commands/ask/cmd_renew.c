/* SPDX-License-Identifier: MIT */
/* `renew` and `transfer`: change how long a claim is held, and by which holder. */
#include "base/err.h"
#include "cli/claim_options.h"
#include "cli/target.h"

#include "base/banned.h"

static dibs_status run(struct cli *cli, dibs_err *err)
{
    bool is_renew = cli->cmd == &cmd_renew;
    struct cli_target target;
    dibs_heir heir = { .holder = DIBS_HELD_BY_NOBODY };
    dibs_claim claim = { 0 };
    bool is_given = false;
    dibs_status s = cli_check_brief(cli, err);

    if (!s)
        s = cli_heir_from(cli, &heir, &is_given, err);
    if (!s && !is_given && !is_renew)
        s = err_set(err, DIBS_INVALID, "transfer: name the new holder: --pid PID, --ttl TIME or --keep");
    if (!s)
        s = cli_one_target(cli, &target, err);
    if (s)
        return s;
    if (is_renew && !heir.ttl_ms) /* without --ttl the lease keeps its length */
        heir.ttl_ms = target.claim.lease_ttl_ms > 0 ? target.claim.lease_ttl_ms : cli->settings.ttl_ms;
    s = is_renew ? dibs_claim_renew(cli->handle, &target.which, heir.ttl_ms, &claim, err)
                 : dibs_claim_transfer(cli->handle, &target.which, &heir, &claim, err);
    return s ? s : cli_print_claims(cli, &claim, 1, false, err);
}

static const struct cli_opt renew_opts[] = {
    { .name = "ttl", .arg = "TIME", .help = "from now on; the default is the length it had" },
    { .name = "token", .arg = "TOKEN", .help = "the claim with this token, and no later one" },
    CLI_PROJECT_OPT,
    CLI_BRIEF_OPT,
    { .name = "force", .help = "also a claim of another project" },
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
    CLI_PROJECT_OPT,
    CLI_BRIEF_OPT,
    { .name = "force", .help = "also a claim of another project" },
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
