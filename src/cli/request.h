/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_REQUEST_H
#define DIBS_CLI_REQUEST_H
/* What claim, get, run, renew and transfer read from their options in the same way. */
#include "cli/cli.h"

/* The option of these (NULL-terminated) that was given, or NULL in *out. INVALID: two of them. */
dibs_status cli_one_of(const struct cli *cli, const char *const *names, const char **out, dibs_err *err);

/* Rows of options, for cli_request_from(). */
#define CLI_REQUEST_OPTS                                                                       \
    { .name = "range", .arg = "RANGE", .help = "choose from these ports, as 8000-8099,9000" }, \
        { .name = "pool", .arg = "POOL", .help = "choose from this pool", .kind = CLI_POOL },  \
        { .name = "proto",                                                                     \
          .arg = "PROTO",                                                                      \
          .help = "tcp, udp or sctp; one number for several: tcp+udp",                         \
          .kind = CLI_WORDS,                                                                   \
          .words = "tcp udp sctp tcp+udp" },                                                   \
    {                                                                                          \
        .name = "address", .arg = "ADDRESS",                                                   \
        .help = "address to be bound, may be repeated; the default is *", .kind = CLI_WORDS,   \
        .words = "* localhost 127.0.0.1 ::1 0.0.0.0", .is_repeatable = true                    \
    }

/* Port, pool or ranges, and bindings; the rest of *out is left alone. `ranges` is storage. */
dibs_status cli_request_from(const struct cli *cli, dibs_request *out, dibs_ranges *ranges, dibs_err *err);

/* --pid, --ttl or --keep. *given tells whether one of them was there; *out is untouched if not. */
dibs_status cli_heir_from(const struct cli *cli, dibs_heir *out, bool *given, dibs_err *err);

/* The one claim that renew and transfer speak of: their argument, or --token. */
dibs_status cli_target(const struct cli *cli, dibs_which *out, char name[DIBS_NAME_MAX + 1],
                       dibs_project *project, dibs_err *err);

/* The value of --hosts: "a,b,c". */
struct cli_hosts {
    const char *at[DIBS_HOSTS_MAX];
    size_t n;
    char text[DIBS_HOSTS_MAX * (DIBS_NODE_MAX + 1)];
};
dibs_status cli_hosts(const struct cli *cli, struct cli_hosts *out, dibs_err *err);

/* A name as typed into its absolute form. *dir is where a relative name belongs, else NULL;
 * `project` is found when it is needed first (its dir is empty until then). */
dibs_status cli_name(const struct cli *cli, const char *text, char out[DIBS_NAME_MAX + 1],
                     dibs_project *project, const char **dir, dibs_err *err);
/* The same of a name that is to get a claim, if it may. */
dibs_status cli_claim_name(struct cli *cli, const char *text, char out[DIBS_NAME_MAX + 1],
                           dibs_project *project, const char **dir, dibs_err *err);

/* Tell of degraded and narrowed answers, and of a preferred port that was not to be had. */
void cli_tell(const struct cli *cli, const dibs_claim *claims, size_t n);

/* Print the claims (a port a line; with --json an array, or the one object) and push them out. */
dibs_status cli_print_claims(struct cli *cli, const dibs_claim *claims, size_t n, bool is_list,
                             dibs_err *err);

/* End again what this call claimed newly: nobody was told of it (INV-4). */
void cli_take_back(const struct cli *cli, const dibs_claim *claims, size_t n);
/* The answer of a call that claimed: printed and told. What this call claimed newly ends again when nobody
 * could be told of it (INV-4). */
dibs_status cli_answer(struct cli *cli, const dibs_claim *claims, size_t n, bool is_list, dibs_err *err);
#endif
