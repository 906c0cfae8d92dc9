/* SPDX-License-Identifier: MIT */
/* `dibs run ROLE`: run one pod of the manifest. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "cli/run/pod.h"
#include "cli/target.h"

#include "base/banned.h"

/* Find the command: the words after "--", or the manifest's. */
static dibs_status find_command(struct cli *cli, const struct workload_pod *pod, const char *const **out,
                                dibs_err *err)
{
    if (cli->argc == 2)
        return err_set(err, DIBS_INVALID, "run: no command after '--'");
    if (cli->argc < 2 && !pod->role->command)
        return err_set(err, DIBS_INVALID, "run: role '%s' has no command in %s; dibs run %s -- COMMAND",
                       pod->role->name, cli->manifest->source, cli->argv[0]);
    *out = cli->argc > 2 ? (const char *const *) &cli->argv[2] : (const char *const *) pod->role->command;
    return DIBS_OK;
}

static dibs_status is_idle(struct cli *cli, void *ctx, dibs_err *err)
{
    return pods_check_idle(cli, &(struct pods){ ctx, 1 }, err);
}

/* Name the sockets of a request by its port of the manifest. */
static const char *name_of(const void *ctx, size_t request)
{
    const struct pod *pod = ctx;

    for (size_t i = 0; i < pod->needs.n; i++)
        if (pod->which[i] == request)
            return pod->needs.all[i].port->name;
    return "";
}

static dibs_status run_pod(struct cli *cli, struct pod *pod, dibs_err *err)
{
    struct pods pods = { pod, 1 };
    struct launch launch = { 0 };
    struct launch_claims claims = { .cli = cli };
    bool is_first = false;
    dibs_status s = pod_launch(pod, &launch, err);

    launch.may_run = is_idle;
    launch.name_of = cli_has(cli, "hold") && strcmp(cli_value(cli, "hold"), "fd") == 0 ? name_of : NULL;
    launch.is_confined = launch_may_confine(cli);
    if (!s)
        s = pods_plan(&pods, &claims, err);
    if (!s)
        s = pods_begin_as(cli, pod, 1, &is_first, err);
    if (!s && !is_first)
        s = workload_advise(pod->group, launch_run(&launch, &claims, err), err);
    free(claims.requests);
    free(claims.claims);
    return s;
}

static bool is_role(const struct workload_group *group, const char *typed)
{
    char role[DIBS_NAME_MAX + 1];

    (void) text_copy(role, sizeof role, typed);
    role[strcspn(role, "/")] = '\0';
    return workload_role_typed(group, typed) || workload_role_typed(group, role);
}

void run_drop_group(struct cli *cli)
{
    bool was_open = cli->handle;

    for (int i = 0; cli->manifest && !cli->is_dashed && i < cli->argc; i++) {
        char *rest = cli->argv[i] + (cli_in_project(cli, cli->argv[i]) - cli->argv[i]);

        if (!is_role(cli->manifest, rest))
            break;
        cli->argv[i] = rest;
    }
    if (!was_open) { /* the ledger was asked, and must not be open in the child */
        dibs_close(cli->handle);
        cli->handle = NULL;
    }
}

bool run_is_roles(const struct cli *cli)
{
    bool are_roles = cli->manifest && !cli->is_dashed && cli->argc > 1;

    for (int i = 0; i < cli->argc && are_roles; i++)
        are_roles = is_role(cli->manifest, cli->argv[i]);
    return are_roles;
}

dibs_status run_role(struct cli *cli, bool *is_meant, dibs_err *err)
{
    const struct workload_group *group = cli->manifest;
    AUTO(pod_free) struct pod pod = { 0 };
    struct workload_pod which = { 0 };
    const char *const *command = NULL;
    bool has_ports = cli_has(cli, "port");      /* with -p it is a command, unless a role precedes "--" */
    bool must_be = cli->argc > 1 && !has_ports; /* a role, even if none of that name exists */

    *is_meant = false;
    if (cli->argc > 1 ? strcmp(cli->argv[1], "--") != 0 : has_ports)
        return DIBS_OK;
    if (!group) /* without it "ROLE -- COMMAND" must not be run as a program */
        return must_be && cli->no_manifest.code == DIBS_DENIED ? cli_need_manifest(cli, err) : DIBS_OK;
    if (!is_role(group, cli->argv[0]))
        return must_be ? workload_pod_parse(group, cli->argv[0], &which, err) : DIBS_OK;
    *is_meant = true;
    dibs_status s = run_by_manifest(cli, err);
    if (!s)
        s = workload_pod_parse(group, cli->argv[0], &which, err);
    if (!s)
        s = find_command(cli, &which, &command, err);
    if (!s)
        s = pod_init(&pod, group, &which, command, err);
    return s ? s : run_pod(cli, &pod, err);
}
