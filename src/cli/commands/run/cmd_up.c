/* SPDX-License-Identifier: MIT */
/* `up`, `down` and `plan`: the whole manifest. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/text.h"
#include "cli/claim_options.h"
#include "cli/listener.h"
#include "cli/manifest.h"
#include "workload/strangers.h"

#include "base/banned.h"

/* Print one port per line: "web/0/http 20001". */
static void print_ports(struct cli *cli, const struct workload_plan *plan)
{
    char name[DIBS_NAME_MAX + 1];

    if (cli->json) {
        cli_print_changes(cli, plan);
        return;
    }
    for (size_t i = 0; i < plan->n; i++)
        if (plan->changes[i].kind < WORKLOAD_DROP)
            (void) printf("%s %u\n", cli_short_name(plan->changes[i].claim.name, name, sizeof name),
                          plan->changes[i].claim.port);
}

/* Note once what holds for all claims. */
static void note_all_claims(const struct cli *cli, const struct workload_plan *plan)
{
    dibs_claim any = { .was_there = true };

    for (size_t i = 0; i < plan->n; i++) {
        any.is_degraded = any.is_degraded || plan->changes[i].claim.is_degraded;
        any.is_narrowed = any.is_narrowed || plan->changes[i].claim.is_narrowed;
    }
    cli_note_claims(cli, &any, plan->n > 0);
    for (size_t i = 0; i < plan->n; i++)
        cli_note_hold(cli, &plan->changes[i].claim);
}

/* Find the first kept claim of a removed directory. */
static bool find_left(void *ctx, const dibs_claim *claim)
{
    dibs_claim *left = ctx;

    if (!claim->is_kept || !claim->project[0] || access(claim->project, F_OK) == 0 || errno != ENOENT)
        return true;
    *left = *claim;
    return false;
}

/* Note that a moved directory has other ports, because its old path still owns the group's name. */
static void note_moved(const struct cli *cli, const struct workload_group *group,
                       const struct workload_plan *plan)
{
    char stem[sizeof group->group];
    dibs_claim left = { 0 };
    dibs_filter filter = { .name_prefix = stem, .principal = dibs_principal_of(cli->handle) };

    (void) text_copy(stem, sizeof stem, group->group);
    stem[strcspn(stem, "~")] = '\0';
    if (strcmp(stem, group->group) == 0 || plan->count[WORKLOAD_ADD] == 0 ||
        dibs_claim_list(cli->handle, &filter, find_left, &left, NULL) != DIBS_OK || !left.project[0])
        return;
    cli_note(cli,
             "'%s' is the group of %s, which is not there any more; 'dibs reap --stale' ends what it left",
             stem, left.project);
}

/* Warn of other projects' processes on ports that the plan keeps. */
static void warn_strangers(struct cli *cli, const struct workload_plan *plan)
{
    AUTO(free_auto) dibs_claim *kept = calloc(plan->n + 1, sizeof *kept);
    size_t n = 0;

    for (size_t i = 0; i < plan->n && kept; i++)
        if (plan->changes[i].kind == WORKLOAD_KEEP) {
            kept[n] = plan->changes[i].claim;
            kept[n++].was_there = true;
        }
    if (kept)
        cli_warn_strangers(cli, kept, n);
}

/* Release the claims without a holder whose port another project's process uses: the sync that follows makes
 * them again, and the probe passes over these ports. */
static dibs_status move_from_strangers(struct cli *cli, dibs_err *err)
{
    AUTO(workload_plan_free) struct workload_plan plan = { 0 };
    AUTO(strangers_free) struct strangers *strangers = strangers_new();
    char name[DIBS_NAME_MAX + 1];
    char owner[DIBS_COMMAND_MAX + 64];
    struct workload_need need;
    dibs_socket socket;
    dibs_status s = strangers ? workload_sync(cli->handle, cli->manifest, true, &plan, err)
                              : err_set(err, DIBS_FAILURE, "out of memory");

    for (size_t i = 0; i < plan.n && !s; i++) {
        const dibs_claim *claim = &plan.changes[i].claim;

        if (plan.changes[i].kind != WORKLOAD_KEEP || claim->holder != DIBS_HELD_BY_NOBODY ||
            !strangers_find(strangers, cli->handle, cli->manifest, claim, &socket))
            continue;
        (void) cli_short_name(claim->name, name, sizeof name);
        cli_socket_owner(&socket, owner, sizeof owner);
        if (workload_need_parse(cli->manifest, name, &need, NULL, NULL) == DIBS_OK &&
            need.port->mode == DIBS_REQUIRED)
            return err_set(err, DIBS_TAKEN,
                           "up: the manifest requires port %u for %s, and %s uses it; stop that process",
                           claim->port, name, owner);
        s = dibs_claim_release(cli->handle, &(dibs_which){ .name = claim->name }, 0, NULL, err);
        if (!s)
            cli_note(cli, "%s leaves port %u to %s", name, claim->port, owner);
    }
    return s;
}

/* Run `up` or `plan`. */
static dibs_status run(struct cli *cli, dibs_err *err)
{
    bool is_plan = cli->cmd == &cmd_plan;
    AUTO(workload_plan_free) struct workload_plan plan = { 0 };
    const struct workload_group *group = cli->manifest;
    dibs_status s = cli_open_manifest(cli, err);

    if (s == DIBS_OK && cli_has(cli, "move"))
        s = move_from_strangers(cli, err);
    if (s == DIBS_OK)
        s = cli_advise_stop(cli, workload_sync(cli->handle, group, is_plan, &plan, err), err);
    if (s != DIBS_OK)
        return s;
    if (is_plan)
        cli_print_changes(cli, &plan);
    else
        print_ports(cli, &plan);
    note_all_claims(cli, &plan);
    note_moved(cli, group, &plan);
    cli_note_changes(cli, group, &plan);
    warn_strangers(cli, &plan);
    return DIBS_OK;
}

static dibs_status run_down(struct cli *cli, dibs_err *err)
{
    AUTO(workload_plan_free) struct workload_plan plan = { 0 };
    const struct workload_group *group = cli->manifest;
    dibs_status s = cli_open_manifest(cli, err);

    if (s == DIBS_NOT_FOUND && !group)
        return err_set(err, s,
                       "%s; if it was taken away, 'dibs ls' shows what it left, and 'dibs release' ends it: "
                       "names, or --all-mine; 'dibs reap --stale' what belongs to directories that are gone",
                       cli->no_manifest.msg);
    if (s == DIBS_OK)
        s = workload_cleanup(cli->handle, group, &plan, err);
    if (s != DIBS_OK)
        return s;
    if (cli->json)
        cli_print_changes(cli, &plan);
    cli_note_changes(cli, group, &plan);
    return DIBS_OK;
}

static const struct cli_opt up_opts[] = {
    { .name = "move", .help = "leave ports on which another project's process listens" },
    { 0 },
};

const struct cli_cmd cmd_up = {
    .name = "up",
    .group = CLI_RUN,
    .args = "",
    .summary = "Claim every port of the manifest",
    .details = "Reads dibs.yaml or dibs.json, here or in the nearest directory above, and makes\n"
               "its claims true in one step: what is missing is claimed and kept, what the\n"
               "manifest does not name any more is released, everything else stays where it\n"
               "is. All of it happens, or nothing. Prints a port a line.\n"
               "\n"
               "A process that runs loses nothing: a port that is moved or dropped while its\n"
               "holder lives ends with it, that of a role stays while pods of the role run, and\n"
               "variables that change only with a restart are listed. A port that was moved is\n"
               "named after its number until then: web/0/-/http/8080.\n"
               "\n"
               "A kept port on which a process of another project or user listens is reported;\n"
               "with --move the name gets another port.",
    .examples = "dibs up\ndibs up --move\n",
    .opts = up_opts,
    .flags = CLI_MANIFEST,
    .run = run,
};

const struct cli_cmd cmd_plan = {
    .name = "plan",
    .group = CLI_RUN,
    .args = "",
    .summary = "Show what 'dibs up' would change",
    .details = "The same decisions as 'dibs up', and nothing is reserved. A line for each port:\n"
               "keep, add, move (its number, protocol or address changes), drop, or stay (not\n"
               "wanted any more, but a process that runs has it).",
    .examples = "dibs plan\n",
    .flags = CLI_MANIFEST,
    .run = run,
};

const struct cli_cmd cmd_down = {
    .name = "down",
    .group = CLI_RUN,
    .args = "",
    .summary = "Release every port of the manifest",
    .details = "Ends the claims of this project's manifest. Each name remembers its port and\n"
               "gets it again from the next 'dibs up', while it is still free. Processes that\n"
               "run keep theirs until they end, and those of their whole role until the next\n"
               "'dibs down'. Nothing there to release is no failure.",
    .examples = "dibs down\n",
    .flags = CLI_SILENT | CLI_MANIFEST,
    .run = run_down,
};
