/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_RUN_LAUNCH_H
#define DIBS_CLI_RUN_LAUNCH_H
/* A command of `dibs run` with the claims and the environment that it gets. */
#include "cli/cli.h"
#include "cli/run/child.h"

struct launch {
    char **argv; /* NULL-terminated */
    size_t n;    /* of its ports */
    /* In the child: call launch_set() for what the command gets with these ports. */
    void (*set_words)(struct launch *launch, const uint16_t *ports);
    /* NULL, or called before anything is claimed. */
    dibs_status (*may_run)(struct cli *cli, void *ctx, dibs_err *err);
    void *ctx;
    int failed; /* errno of launch_set() */
};
/* In the child: set a variable of the environment and fill "{placeholder}" in the arguments, where no other
 * text has been filled in yet; both may be NULL. */
void launch_set(struct launch *launch, const char *variable, const char *placeholder, const char *text);
void launch_set_port(struct launch *launch, const char *variable, const char *placeholder, uint16_t port);
/* In the child: set environment and arguments, then exec. Returns errno only if that failed. `ctx` is the
 * launch.
 */
int launch_exec(void *ctx, const uint16_t *ports);
/* The command's name for claims: "node" of "/usr/bin/node". */
const char *launch_name(const struct launch *launch);

/* The claims of a command: those that its process holds, and kept ones beside them. */
struct launch_claims {
    struct cli *cli;
    dibs_request *requests;
    dibs_claim *claims;
    size_t n;
    size_t n_declared; /* the last so many have a number that another request gets */
    /* NULL, or called when the others are claimed: sets the numbers of these, and what the claims record. */
    dibs_status (*record)(const struct launch_claims *claims, void *ctx, dibs_err *err);
    void *ctx;
};
/* Claim all of them or none. The handle is open. */
dibs_status launch_claim(const struct launch_claims *claims, dibs_err *err);
/* Release the claims of a command that has ended; kept and leased ones stay. If it never ran, the claims that
 * were made for it end as well (D19). A claim that cannot be released now is reaped later (INV-11). */
void launch_release(const struct launch_claims *claims, bool has_run);
/* Set exit code and error of a command that could not be run. */
dibs_status launch_not_run(struct cli *cli, const char *command, int failed, dibs_err *err);

/* `dibs run [-p NAME]... COMMAND` */
dibs_status run_command(struct cli *cli, dibs_err *err);
/* `dibs run ROLE[/INSTANCE] [-- COMMAND]`: *is_meant false when the first argument is no role. */
dibs_status run_role(struct cli *cli, bool *is_meant, dibs_err *err);
/* `dibs run --all` */
dibs_status run_all(struct cli *cli, dibs_err *err);
/* INVALID when an option was given that is for ports without a manifest. */
dibs_status run_by_manifest(const struct cli *cli, dibs_err *err);
/* Run one command until it ends: fork, claim, execute, wait, release. */
dibs_status launch_run(struct launch *launch, const struct launch_claims *claims, dibs_err *err);
#endif
