/* SPDX-License-Identifier: MIT */
#include "cli/request.h"

#include "base/banned.h"

static dibs_status run(struct cli *cli, dibs_err *err)
{
    char name[DIBS_NAME_MAX + 1];
    dibs_project project = { .dir = "" };
    dibs_ranges ranges = { .n = 0 };
    dibs_request request = { .keep = true, .is_lookup = true, .holder = DIBS_HELD_BY_NOBODY };
    dibs_claim claim = { 0 };
    dibs_status s = cli_name(cli, cli->argv[0], name, &project, &request.project, err);

    if (!s)
        s = cli_request_from(cli, &request, &ranges, err);
    /* Whoever does not say it takes the claim as it is. */
    if (!cli_has(cli, "proto") && !cli_has(cli, "address"))
        request.n_bindings = 0;
    if (!s)
        s = cli_open(cli, err);
    if (s)
        return s;
    request.name = name;
    s = dibs_claim_ports(cli->handle, &(dibs_batch){ .requests = &request, .n = 1 }, &claim, err);
    return s ? s : cli_answer(cli, &claim, 1, false, err);
}

static const struct cli_opt opts[] = {
    { .name = "port", .arg = "PORT", .help = "this port or an error", .kind = CLI_PORT },
    { .name = "prefer", .arg = "PORT", .help = "this port if it can be had", .kind = CLI_PORT },
    CLI_REQUEST_OPTS,
    { 0 },
};

const struct cli_cmd cmd_get = {
    .name = "get",
    .args = "NAME",
    .summary = "Print the port of a name; it is chosen once and kept",
    .details = "Prints the port that NAME has in this project. If it has none yet, one is\n"
               "claimed and kept until 'dibs release NAME'. Whoever asks does not become its\n"
               "holder, so scripts and configuration files may ask as often as they like.",
    .examples = "dibs get web\n"
                "dibs get db --prefer 5432\n",
    .opts = opts,
    .min_args = 1,
    .max_args = 1,
    .args_kind = CLI_NAME,
    .run = run,
};
