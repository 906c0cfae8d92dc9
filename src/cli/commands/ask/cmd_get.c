/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "base/err.h"
#include "cli/claim_options.h"
#include "cli/manifest.h"

#include "base/banned.h"

/* Get a port as the manifest describes it. All ports of a block are requested. */
static dibs_status get_need(struct cli *cli, const struct workload_need *need, dibs_err *err)
{
    const struct workload_group *group = cli->manifest;
    uint32_t n = need->port->is_contiguous ? need->port->count : 1;
    AUTO(free_auto) struct workload_need *all = calloc(n, sizeof *all);
    AUTO(free_auto) dibs_request *requests = calloc(n, sizeof *requests);
    AUTO(free_auto) dibs_claim *claims = calloc(n, sizeof *claims);

    if (!all || !requests || !claims)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (uint32_t i = 0; i < n; i++) {
        all[i] = *need;
        all[i].number = n > 1 ? i : need->number;
        workload_claim_name(group, &need->pod, need->port, all[i].number, all[i].name);
        requests[i] = workload_request(group, &all[i]);
    }
    dibs_status s = cli_open(cli, err);
    if (!s)
        s = dibs_claim_ports(cli->handle, &(dibs_batch){ .requests = requests, .n = n }, claims, err);
    s = workload_advise(group, s, err);
    return s ? s : cli_answer(cli, &claims[n > 1 ? need->number : 0], 1, false, err);
}

static dibs_status get_name(struct cli *cli, dibs_err *err)
{
    char name[DIBS_NAME_MAX + 1];
    dibs_ranges ranges = { .n = 0 };
    dibs_request request = { .keep = true, .is_lookup = true, .holder = DIBS_HELD_BY_NOBODY };
    dibs_claim claim = { 0 };
    dibs_status s = cli_claim_name(cli, cli->argv[0], name, &request.project, err);

    if (!s)
        s = cli_request_from(cli, &request, &ranges, err);
    /* Without these options an existing claim keeps its bindings. */
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

static dibs_status run(struct cli *cli, dibs_err *err)
{
    struct workload_need need;
    bool is_manifest = false;
    dibs_status s = cli_manifest_need(cli, cli->argv[0], &need, &is_manifest, err);

    if (s || !is_manifest)
        return s ? s : get_name(cli, err);
    if (cli->n_given && (cli_has(cli, "port") || cli_has(cli, "prefer") || cli_has(cli, "proto") ||
                         cli_has(cli, "address") || cli_has(cli, "range") || cli_has(cli, "pool")))
        return err_set(err, DIBS_INVALID, "get: the manifest defines '%s'; change it there", need.name);
    return get_need(cli, &need, err);
}

static const struct cli_opt opts[] = {
    { .name = "port", .arg = "PORT", .help = "this port or an error" },
    { .name = "prefer", .arg = "PORT", .help = "this port if it can be had" },
    CLI_REQUEST_OPTS,
    { 0 },
};

const struct cli_cmd cmd_get = {
    .name = "get",
    .group = CLI_ASK,
    .args = "NAME",
    .summary = "Print the port of a name; it is chosen once and kept",
    .details = "Prints the port that NAME has in this project. If it has none yet, one is\n"
               "claimed and kept until 'dibs release NAME'. The caller does not become its\n"
               "holder, so scripts and configuration files may ask as often as they like.",
    .examples = "dibs get web\n"
                "dibs get db --prefer 5432\n",
    .opts = opts,
    .flags = CLI_CLAIMS,
    .min_args = 1,
    .max_args = 1,
    .args_words = ":names",
    .run = run,
};
