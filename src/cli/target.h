/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_TARGET_H
#define DIBS_CLI_TARGET_H
/* Finds the claim that a typed NAME or PORT means. A name is relative to the current project, or the full
 * name that `ls` shows. The library has no current directory, so the rule that a command changes only claims
 * of its own project is here. */
#include "cli/cli.h"

/* Options of a command that calls cli_check_project(). */
#define CLI_PROJECT_OPT                                                                               \
    {                                                                                                 \
        .name = "project", .arg = "DIR", .help = "as if called in this directory", .words = ":files", \
    }

struct cli_target {
    dibs_which which; /* selects exactly `claim` when one was found */
    char name[DIBS_NAME_MAX + 1];
    dibs_claim claim; /* port 0: none was found */
};

/* Find the one claim that an argument (NULL: --token) means. Without a match it is DIBS_OK, with claim.port
 * 0. INVALID: several match; the message lists them. TAKEN: the claim belongs to another project of the user,
 * and
 * --force is not given. */
dibs_status cli_target(struct cli *cli, const char *typed, struct cli_target *out, dibs_err *err);
/* The same for a command with one argument or --token; NOT_FOUND when there is no such claim. */
dibs_status cli_one_target(struct cli *cli, struct cli_target *out, dibs_err *err);

/* Is it a claim of the project? One without a project is a claim of every project. */
bool cli_is_of_project(const dibs_project *project, const dibs_claim *claim);
/* TAKEN: the claim belongs to another project than the current one, and --force is not given. */
dibs_status cli_check_project(struct cli *cli, const dibs_claim *claim, dibs_err *err);

/* Is a name that begins with `batch` one of its claims, NAME/0, NAME/1, ..., as `dibs claim -n` names them?
 */
bool cli_is_of_batch(const char *name, const char *batch);

/* Is it a port number, as 8080 or :8080? Return its digits, else NULL. */
const char *cli_port_digits(const char *text);
/* Get what follows the current group in a full name; NULL when the name does not begin with that group. */
dibs_status cli_after_group(struct cli *cli, const char *text, const char **rest, dibs_err *err);
/* Return the text without the group, if it begins with that of the current project. */
const char *cli_in_project(struct cli *cli, const char *text);

/* Make a typed name absolute. *dir is the project of a relative name, else NULL. */
dibs_status cli_name(struct cli *cli, const char *text, char out[DIBS_NAME_MAX + 1], const char **dir,
                     dibs_err *err);
/* The same for a name that is about to get a claim. INVALID: the manifest does not permit it. TAKEN: it is
 * the full name of a claim of another project. */
dibs_status cli_claim_name(struct cli *cli, const char *text, char out[DIBS_NAME_MAX + 1], const char **dir,
                           dibs_err *err);
/* The same for a text that is never a full name. */
dibs_status cli_relative_name(struct cli *cli, const char *text, char out[DIBS_NAME_MAX + 1],
                              const char **dir, dibs_err *err);
/* Find the port of a PORT, :PORT or NAME, of any project, to look at it; *claim (port 0: none) is the claim
 * of a NAME. A batch with one member is that member. NOT_FOUND: no claim has the name. INVALID: several do.
 */
dibs_status cli_port_of(struct cli *cli, const char *typed, uint16_t *port, dibs_claim *claim, dibs_err *err);
#endif
