/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_JOB_H
#define DIBS_CLI_JOB_H
/* A command of `dibs run` and the ports that it is told. */
#include "cli/child.h"
#include "cli/cli.h"

/* What the command is told under one name. */
struct job_word {
    const char *variable; /* of the environment; NULL: none */
    const char *hole;     /* "{hole}" in an argument; NULL: none */
    const char *text;
};
struct job_words {
    struct job_word *all;
    size_t n, max;
    bool is_short; /* of memory */
};
/* Copies of all three. */
void job_say(struct job_words *words, const char *variable, const char *hole, const char *text);
void job_say_port(struct job_words *words, const char *variable, const char *hole, uint16_t port);

struct job {
    char **argv; /* NULL-terminated */
    size_t n;    /* of its ports */
    /* In the child: what these ports mean. */
    void (*say)(void *ctx, const uint16_t *ports, struct job_words *out);
    /* NULL, or asked before anything is claimed. */
    dibs_status (*may_run)(struct cli *cli, void *ctx, dibs_err *err);
    void *ctx;
};
/* In the child: environment and arguments, then exec. Returns errno only if that failed. */
int job_become(const struct job *job, const uint16_t *ports);
/* "node" of "/usr/bin/node": what a claim shows. */
const char *job_name(const struct job *job);

/* Claims that a command was to have: those that its process holds, and kept ones beside them. */
struct job_claims {
    struct cli *cli;
    dibs_request *requests;
    dibs_claim *claims;
    size_t n;
    size_t n_signs;     /* the last so many have a number that another request gets: */
    const size_t *like; /* which one */
};
/* All of them or none. The handle is open. */
dibs_status job_claim(const struct job_claims *claims, dibs_err *err);
/* The command is over and its claims with it; kept and leased ones stay. Of one that never ran, also those
 * end that were made for it (D19). What cannot be released now is found by the next reaping (INV-11). */
void job_let_go(const struct job_claims *claims, bool has_run);
/* The exit code and error of a command that could not be run. */
dibs_status job_not_run(struct cli *cli, const char *command, int failed, dibs_err *err);

/* `dibs run [-p NAME]... COMMAND` */
dibs_status run_plain(struct cli *cli, dibs_err *err);
/* `dibs run ROLE[/INSTANCE] [-- COMMAND]`: *is_meant false when the first argument is no role. */
dibs_status run_role(struct cli *cli, bool *is_meant, dibs_err *err);
/* `dibs run --all` */
dibs_status run_all(struct cli *cli, dibs_err *err);
/* INVALID when an option was given that is for ports without a manifest. */
dibs_status run_by_manifest(const struct cli *cli, dibs_err *err);
/* One command until it ends: claims for it, tells it, waits. */
dibs_status run_job(struct job *job, const struct job_claims *claims, dibs_err *err);
#endif
