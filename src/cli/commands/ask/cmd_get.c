/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "base/err.h"
#include "cli/claim_options.h"
#include "cli/listener.h"
#include "cli/manifest.h"
#include "cli/target.h"

#include "base/banned.h"

/* Answer, and warn of another project's process on the port. */
static dibs_status give(struct cli *cli, dibs_claim *claim, dibs_err *err)
{
    dibs_status s = cli_answer(cli, claim, 1, false, err);

    if (!s)
        cli_warn_strangers(cli, claim, 1);
    return s;
}

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
    return s ? s : give(cli, &claims[n > 1 ? need->number : 0], err);
}

/* Answer with the claim that exists, and make none. */
static dibs_status get_existing(struct cli *cli, const char *name, const char *dir, dibs_err *err)
{
    const dibs_which which = { .name = name, .project = dir };
    dibs_claim claim = { 0 };
    dibs_status s = cli_open(cli, err);

    if (!s)
        s = dibs_claim_find(cli->handle, &which, &claim, err);
    if (!s)
        s = cli_check_project(cli, &claim, err);
    claim.was_there = true;
    return s ? s : give(cli, &claim, err);
}

/* Answer with the claim of a port number or a token. */
static dibs_status get_looked_up(struct cli *cli, dibs_err *err)
{
    struct cli_target target;
    dibs_status s = cli_one_target(cli, &target, err);

    target.claim.was_there = true;
    return s ? s : give(cli, &target.claim, err);
}

/* The name may be a full one, of another project. */
static dibs_status check_full_name(struct cli *cli, const dibs_request *request, dibs_err *err)
{
    dibs_claim claim = { 0 };

    if (request->project ||
        dibs_claim_find(cli->handle, &(dibs_which){ .name = request->name }, &claim, NULL))
        return DIBS_OK;
    return cli_check_project(cli, &claim, err);
}

static dibs_status get_name(struct cli *cli, dibs_err *err)
{
    char name[DIBS_NAME_MAX + 1];
    dibs_ranges ranges = { .n = 0 };
    dibs_request request = { .keep = true, .is_lookup = true, .holder = DIBS_HELD_BY_NOBODY };
    dibs_claim claim = { 0 };
    dibs_status s = cli_claim_name(cli, cli->argv[0], name, &request.project, err);

    if (!s && cli_has(cli, "existing"))
        return get_existing(cli, name, request.project, err);
    if (!s)
        s = cli_request_from(cli, &request, &ranges, err);
    /* Without these options an existing claim keeps its bindings. */
    if (!cli_has(cli, "proto") && !cli_has(cli, "address"))
        request.n_bindings = 0;
    if (!s)
        s = cli_open(cli, err);
    request.name = name;
    if (!s)
        s = check_full_name(cli, &request, err);
    if (!s)
        s = cli_check_hold(cli, request.hold, err);
    if (s)
        return s;
    s = dibs_claim_ports(cli->handle, &(dibs_batch){ .requests = &request, .n = 1 }, &claim, err);
    return s ? s : give(cli, &claim, err);
}

static dibs_status run(struct cli *cli, dibs_err *err)
{
    static const char *const shape[] = { "port", "prefer", "proto", "address", "range", "pool", NULL };
    const char *given = NULL;
    struct workload_need need;
    bool is_manifest = false;
    bool is_token = cli_has(cli, "token");
    bool is_lookup = is_token || cli->argc == 0 || cli_port_digits(cli->argv[0]);
    dibs_status s = cli_check_brief(cli, err);

    if (s)
        return s;

    for (size_t i = 0; shape[i] && !given; i++)
        given = cli_has(cli, shape[i]) ? shape[i] : NULL;
    if (cli_has(cli, "existing") && (given || cli_has(cli, "create")))
        return err_set(err, DIBS_INVALID, "get: '--existing' makes no claim; '--%s' cannot be used with it",
                       given ? given : "create");
    if (is_lookup)
        return given && (is_token || cli->argc > 0)
                   ? err_set(err, DIBS_INVALID, "get: a %s has no '--%s'; give it a name",
                             is_token ? "token" : "port number", given)
                   : get_looked_up(cli, err);
    s = cli_manifest_need(cli, cli->argv[0], &need, &is_manifest, err);
    if (s || !is_manifest)
        return s ? s : get_name(cli, err);
    if (given)
        return err_set(err, DIBS_INVALID, "get: the manifest defines '%s'; change it there", need.name);
    return cli_has(cli, "existing") ? get_existing(cli, need.name, cli->manifest->project, err)
                                    : get_need(cli, &need, err);
}

static const struct cli_opt opts[] = {
    { .name = "port", .arg = "PORT", .help = "this port or an error" },
    { .name = "prefer", .arg = "PORT", .help = "this port if it can be had" },
    CLI_REQUEST_OPTS,
    { .name = "existing", .help = "only a claim that exists, else exit code 5" },
    { .name = "create", .help = "also a name that the manifest does not have" },
    { .name = "token", .arg = "TOKEN", .help = "the claim with this token, and no later one" },
    CLI_PROJECT_OPT,
    CLI_BRIEF_OPT,
    CLI_CONFIRM_OPT,
    { .name = "force", .help = "also a claim of another project" },
    { 0 },
};

const struct cli_cmd cmd_get = {
    .name = "get",
    .group = CLI_ASK,
    .args = "NAME|PORT | --token TOKEN",
    .summary = "Print the port of a name; it is chosen once and kept",
    .details = "Prints the port that NAME has in this project. If it has none yet, one is\n"
               "claimed and kept until 'dibs release NAME'. The caller does not become its\n"
               "holder, so scripts and configuration files may ask as often as they like.\n"
               "\n"
               "In a project with a manifest NAME is a port of the manifest, or of a claim that\n"
               "exists; a role with one port is enough: 'dibs get pg'. Another name is exit\n"
               "code 5, unless --create is given. A PORT or token is looked up and never\n"
               "claimed.",
    .examples = "dibs get web\n"
                "dibs get db --create --prefer 5432\n",
    .opts = opts,
    .flags = CLI_CLAIMS,
    .max_args = 1,
    .args_words = ":names",
    .run = run,
};
