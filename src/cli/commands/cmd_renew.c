/* SPDX-License-Identifier: MIT */
#include "cli/claim_options.h"

#include "base/banned.h"

/* Read --ttl; without it the lease gets the length it had. */
static dibs_status ttl_of(struct cli *cli, const dibs_which *which, int64_t *ttl_ms, dibs_err *err)
{
    dibs_heir heir = { .holder = DIBS_HELD_BY_LEASE };
    dibs_claim claim = { 0 };
    bool is_given = false;
    dibs_status s = cli_heir_from(cli, &heir, &is_given, err);

    if (!s)
        s = cli_open(cli, err);
    if (!s && !is_given) {
        s = dibs_claim_find(cli->handle, which, &claim, err);
        heir.ttl_ms = claim.lease_ttl_ms > 0 ? claim.lease_ttl_ms : cli->settings.ttl_ms;
    }
    if (!s)
        *ttl_ms = heir.ttl_ms;
    return s;
}

static dibs_status run(struct cli *cli, dibs_err *err)
{
    char name[DIBS_NAME_MAX + 1];
    dibs_which which = { 0 };
    dibs_claim claim = { 0 };
    int64_t ttl_ms = 0;
    dibs_status s = cli_target(cli, &which, name, err);

    if (!s)
        s = ttl_of(cli, &which, &ttl_ms, err);
    if (!s)
        s = dibs_claim_renew(cli->handle, &which, ttl_ms, &claim, err);
    if (!s)
        s = cli_print_claims(cli, &claim, 1, false, err);
    return s;
}

static const struct cli_opt opts[] = {
    { .name = "ttl", .arg = "TIME", .help = "from now on; the default is the length it had" },
    { .name = "token", .arg = "TOKEN", .help = "the claim with this token, and no later one" },
    { 0 },
};

const struct cli_cmd cmd_renew = {
    .name = "renew",
    .args = "NAME|PORT | --token TOKEN",
    .summary = "Extend the lease of a claim and print its port",
    .details = "The lease then ends TIME from now. A claim that a process holds, or nobody,\n"
               "has no lease and needs none.",
    .examples = "dibs renew web\n"
                "dibs renew web --ttl 2h\n",
    .opts = opts,
    .max_args = 1,
    .args_words = ":names",
    .run = run,
};
