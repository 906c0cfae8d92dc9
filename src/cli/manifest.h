/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_MANIFEST_H
#define DIBS_CLI_MANIFEST_H
/* Functions for commands that use the manifest. */
#include "cli/cli.h"
#include "workload/workload.h"

/* Load the settings, including those of the project's manifest, which is read here once. An unusable
 * manifest is reported and ignored where the answer does not depend on it: any user may have put it there,
 * and claims must still be listed and released. */
dibs_status cli_settings_load(struct cli *cli, const dibs_flag *flags, size_t n, dibs_err *err);

/* Warn of an unusable manifest; for commands with CLI_REPORTS_MANIFEST whose errors do not say so. */
void cli_warn_manifest(const struct cli *cli);

/* Require the manifest; borrowed. Its group has the name that it has when no other directory uses it.
 * NOT_FOUND: there is none here or above. */
dibs_status cli_need_manifest(struct cli *cli, dibs_err *err);
/* The same with the group's real name. Opens the handle. */
dibs_status cli_open_manifest(struct cli *cli, dibs_err *err);

/* Find a typed name among the ports of the manifest. *is_found false: no manifest, or no such port in it.
 * NOT_FOUND: the name resembles one of its ports, and there is no claim of that name. */
dibs_status cli_manifest_need(struct cli *cli, const char *typed, struct workload_need *out, bool *is_found,
                              dibs_err *err);
/* May a typed name get a claim? INVALID: it has none and is no port of the manifest, but has the form of
 * one, so that the next sync would end it. */
dibs_status cli_manifest_permits(struct cli *cli, const char *typed, dibs_err *err);
/* Is this the short name of one of the manifest's ports? `name` gets the full name. */
bool cli_manifest_name(const struct cli *cli, const char *typed, char name[DIBS_NAME_MAX + 1]);

/* Write a claim's name without its group, as a user types it: "web/0/http", "web/-/gossip". */
const char *cli_short_name(const char *name, char *out, size_t size);

/* Return the status of a sync. When a running pod of the project blocks it, the error says to stop it. */
dibs_status cli_advise_stop(const struct cli *cli, dibs_status status, dibs_err *err);

/* Print the plan, one change per line: "add web/0/http 20001". */
void cli_print_changes(struct cli *cli, const struct workload_plan *plan);
/* Note "2 kept, 1 added" and the processes that need a restart, on standard error. */
void cli_note_changes(const struct cli *cli, const struct workload_group *group,
                      const struct workload_plan *plan);
#endif
