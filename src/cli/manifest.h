/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_MANIFEST_H
#define DIBS_CLI_MANIFEST_H
/* What the commands that speak of a manifest have in common. */
#include "cli/cli.h"
#include "workload/workload.h"

/* Settings, with those of the project's manifest, which is read here, once for the call. One that cannot be
 * used is told and passed over where the answer does not depend on it: it could lie there to be in
 * everybody's way, and what is held must be seen and released all the same. */
dibs_status cli_settings_load(struct cli *cli, const dibs_flag *flags, size_t n, dibs_err *err);

/* Warn of one that is there and cannot be used; for CLI_TELLS, where no error says so already. */
void cli_warn_manifest(const struct cli *cli);

/* The manifest, for a command that needs it; borrowed. Its group has the name that it would have if nobody
 * else had it. NOT_FOUND: there is none here or above. */
dibs_status cli_need_manifest(struct cli *cli, dibs_err *err);
/* The same with its group's real name. Opens the handle. */
dibs_status cli_open_manifest(struct cli *cli, dibs_err *err);

/* A name as typed: is it a port of the manifest? *is_found false: there is no manifest, or nothing of that
 * name in it. NOT_FOUND: it looks as if it was meant to be one, and there is no claim of that name. */
dibs_status cli_manifest_need(struct cli *cli, const char *typed, struct workload_need *out, bool *is_found,
                              dibs_err *err);
/* May a name as typed get a claim? INVALID: it has none, and is none of the manifest's ports, but would be
 * taken for one and ended by the next sync. */
dibs_status cli_manifest_permits(struct cli *cli, const char *typed, dibs_err *err);
/* Is this the name of one of the manifest's ports, in short? `name` gets the whole one. */
bool cli_manifest_name(const struct cli *cli, const char *typed, char name[DIBS_NAME_MAX + 1]);

/* A claim's name without its group, as a person types it: "web/0/http", "web/-/gossip". */
const char *cli_short_name(const char *name, char *out, size_t size);

/* The status of a sync. When a pod of the project that runs is in its way, the error tells to stop it. */
dibs_status cli_advise_stop(const struct cli *cli, dibs_status status, dibs_err *err);

/* The plan, a line for each change: "add web/0/http 20001". */
void cli_print_changes(const struct cli *cli, const struct workload_plan *plan);
/* "2 kept, 1 added" and which processes need a restart, on standard error. */
void cli_tell_changes(const struct cli *cli, const struct workload_group *group,
                      const struct workload_plan *plan);
#endif
