/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_RUN_LAUNCH_H
#define DIBS_CLI_RUN_LAUNCH_H
/* A command of `dibs run` with its claims and its environment. */
#include "cli/cli.h"
#include "cli/run/as.h"
#include "cli/run/child.h"

struct launch {
    char **argv; /* NULL-terminated */
    size_t n;    /* number of its ports */
    /* In the child: call launch_set() for each variable and placeholder of these ports. */
    void (*set_words)(struct launch *launch, const uint16_t *ports);
    /* NULL, or called before anything is claimed. */
    dibs_status (*may_run)(struct cli *cli, void *ctx, dibs_err *err);
    void *ctx;
    bool is_confined;                                        /* it can bind no TCP port but these: */
    bool (*may_bind)(const struct launch *launch, size_t i); /* NULL: all of its ports */
    const char *directory; /* in which the command runs; NULL: that of dibs */
    const char *title;     /* what `dibs stop` calls it: a role, or the name of its first port */
    char id[33];           /* of its note (cli/run/note.h); empty: none */
    int failed;            /* errno of launch_set() */
    const char *(*name_of)(const void *ctx, size_t i); /* name of the i-th request's sockets; NULL: none are
                                                          passed */
    const struct run_as_port *as; /* with --as: what its ports are inside; parallel to them */
};
/* Fill the placeholder into an argument: "{web}". "${web}" is left for a shell. The caller frees the answer;
 * NULL without memory. */
char *launch_filled(const char *arg, const char *placeholder, const char *text);
/* In the child: set an environment variable and fill "{placeholder}" in the arguments that have no text
 * filled in yet; both may be NULL. */
void launch_set(struct launch *launch, const char *variable, const char *placeholder, const char *text);
void launch_set_port(struct launch *launch, const char *variable, const char *placeholder, uint16_t port);
/* Return the number by which the command knows its i-th port. */
uint16_t launch_inside(const struct launch *launch, size_t i, uint16_t port);
/* Is the command to be confined? Warn when that was asked for and the kernel cannot do it. */
bool launch_may_confine(const struct cli *cli);
/* In the child: set environment and arguments, then exec `ctx`, the launch. Returns errno only on failure. */
int launch_exec(void *ctx, const uint16_t *ports);
/* Return the command's name for claims: "node" for "/usr/bin/node". */
const char *launch_name(const struct launch *launch);

/* The claims of a command: those that its process holds, and kept ones. */
struct launch_claims {
    struct cli *cli;
    dibs_request *requests;
    dibs_claim *claims;
    size_t n;
    bool is_contiguous; /* the ports follow each other */
    uint32_t align;     /* of the first of them; 0: none */
    size_t n_declared;  /* so many requests at the end declare the number of another request */
    /* NULL, or called after the other claims: sets the declared numbers and the recorded variables. */
    dibs_status (*record)(const struct launch_claims *claims, void *ctx, dibs_err *err);
    /* Does a command bind the port of the i-th request, although no process holds it? NULL: none does. */
    bool (*is_shared)(const struct launch_claims *claims, size_t i);
    void *ctx;
};
/* Claim all of them or none. The handle must be open. */
dibs_status launch_claim(const struct launch_claims *claims, dibs_err *err);
/* Release the claims of a command that has ended; kept and leased ones stay. If it never ran, the claims
 * made for it end as well (D19). A claim that cannot be released now is reaped later, unless it is kept
 * (INV-11). */
void launch_release(const struct launch_claims *claims, bool has_run);
/* Set exit code and error of a command that could not run. */
dibs_status launch_not_run(struct cli *cli, const char *command, int failed, dibs_err *err);

/* `dibs run [-p NAME]... COMMAND` */
dibs_status run_command(struct cli *cli, dibs_err *err);
/* `dibs run ROLE[/INSTANCE] [-- COMMAND]`. *is_meant is false when the first argument is no role. */
dibs_status run_role(struct cli *cli, bool *is_meant, dibs_err *err);
/* Drop the project's group from leading arguments that are roles behind it: `shop@main/web`. */
void run_drop_group(struct cli *cli);
/* Are the arguments several roles, and nothing else? */
bool run_is_roles(const struct cli *cli);
/* `dibs run ROLE ROLE...`, or without words `dibs run --all` */
dibs_status run_all(struct cli *cli, char *const *typed, size_t n_typed, dibs_err *err);
/* Refuse options for ports without a manifest (INVALID). */
dibs_status run_by_manifest(const struct cli *cli, dibs_err *err);
/* Run one command until it ends: fork, claim, execute, wait, release. */
dibs_status launch_run(struct launch *launch, const struct launch_claims *claims, dibs_err *err);
#endif
