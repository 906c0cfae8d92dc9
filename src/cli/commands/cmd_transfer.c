/* SPDX-License-Identifier: MIT */
#include "base/err.h"
#include "cli/claim_options.h"

#include "base/banned.h"

static dibs_status run(struct cli *cli, dibs_err *err)
{
    char name[DIBS_NAME_MAX + 1];
    dibs_which which = { 0 };
    dibs_heir heir = { .holder = DIBS_HELD_BY_NOBODY };
    dibs_claim claim = { 0 };
    bool is_given = false;
    dibs_status s = cli_target(cli, &which, name, err);

    if (!s)
        s = cli_heir_from(cli, &heir, &is_given, err);
    if (!s && !is_given)
        s = err_set(err, DIBS_INVALID, "transfer: say who shall hold it: --pid PID, --ttl TIME or --keep");
    if (!s)
        s = cli_open(cli, err);
    if (!s)
        s = dibs_claim_transfer(cli->handle, &which, &heir, &claim, err);
    if (!s)
        s = cli_print_claims(cli, &claim, 1, false, err);
    return s;
}

static const struct cli_opt opts[] = {
    { .name = "pid", .arg = "PID", .help = "to this process, until it ends" },
    { .name = "ttl", .arg = "TIME", .help = "to a lease of this length" },
    { .name = "keep", .help = "to nobody: it stays until it is released" },
    { .name = "token", .arg = "TOKEN", .help = "the claim with this token, and no later one" },
    { 0 },
};

const struct cli_cmd cmd_transfer = {
    .name = "transfer",
    .args = "NAME|PORT | --token TOKEN",
    .summary = "Hand a claim over to another holder and print its port",
    .details = "The claim gets a new token (shown with --json); the old one is worth nothing\n"
               "from then on.",
    .examples = "dibs transfer web --keep\n"
                "dibs transfer web --ttl 30m\n",
    .opts = opts,
    .max_args = 1,
    .args_words = ":names",
    .run = run,
};
