/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_CLAIM_OPTIONS_H
#define DIBS_CLI_CLAIM_OPTIONS_H
/* Options that claim, get, run, renew and transfer share. */
#include "cli/cli.h"
#include "net/proto.h"

/* Find which of these options (NULL-terminated) was given; *out is NULL for none. INVALID: two of them. */
dibs_status cli_one_of(const struct cli *cli, const char *const *names, const char **out, dibs_err *err);

/* Rows of options that cli_request_from() reads. */
#define CLI_REQUEST_OPTS                                                                       \
    { .name = "range", .arg = "RANGE", .help = "choose from these ports, as 8000-8099,9000" }, \
        { .name = "pool", .arg = "POOL", .help = "choose from this pool" },                    \
        { .name = "proto",                                                                     \
          .arg = "PROTO",                                                                      \
          .help = PROTO_PROSE "; one number for several: tcp+udp",                             \
          .words = PROTO_WORDS " tcp+udp" },                                                   \
        { .name = "hold",                                                                      \
          .arg = "LEVEL",                                                                      \
          .help = "how the kernel holds it: auto, none, guard, fd, enforce",                   \
          .words = "auto none guard fd enforce" },                                             \
    {                                                                                          \
        .name = "address", .arg = "ADDRESS",                                                   \
        .help = "address to be bound, may be repeated; the default is *",                      \
        .words = "* localhost 127.0.0.1 ::1 0.0.0.0", .is_repeatable = true                    \
    }

/* Rows of commands that print claims by cli_claim_json(). */
#define CLI_CONFIRM_OPT                                                                     \
    {                                                                                       \
        .name = "confirm", .help = "release it again unless a byte comes on standard input" \
    }
#define CLI_BRIEF_OPT                                                                      \
    {                                                                                      \
        .name = "brief", .help = "with --json: only port, name, project, state and holder" \
    }
/* INVALID: --brief without --json. */
dibs_status cli_check_brief(const struct cli *cli, dibs_err *err);
/* Write a claim in JSON, whole or brief. */
void cli_claim_json(struct cli *cli, const dibs_claim *claim);

/* Read port, pool or ranges, and bindings; the rest of *out stays. `ranges` is storage. */
dibs_status cli_request_from(const struct cli *cli, dibs_request *out, dibs_ranges *ranges, dibs_err *err);

/* Read --hold; *out AUTO: it was not given. INVALID: `fd` for a command that runs no program. */
dibs_status cli_hold_from(const struct cli *cli, dibs_hold *out, dibs_err *err);
/* Check that this command may ask for that level: FAILURE without a daemon that keeps a guard. The handle
 * must be open. */
dibs_status cli_check_hold(const struct cli *cli, dibs_hold hold, dibs_err *err);

/* Read --pid, --ttl or --keep. *given: one of them was given; otherwise *out is untouched. */
dibs_status cli_heir_from(const struct cli *cli, dibs_heir *out, bool *given, dibs_err *err);

/* The value of --hosts: "a,b,c". */
struct cli_hosts {
    const char *at[DIBS_HOSTS_MAX];
    size_t n;
    char text[DIBS_HOSTS_MAX * (DIBS_NODE_MAX + 1)];
};
dibs_status cli_hosts(const struct cli *cli, struct cli_hosts *out, dibs_err *err);

/* Note that an automatic level could not be had. */
void cli_note_hold(const struct cli *cli, const dibs_claim *claim);
/* Note degraded and narrowed answers, and preferred ports that were not free. */
void cli_note_claims(const struct cli *cli, const dibs_claim *claims, size_t n);

/* Print the claims (one port per line; with --json an array, or a single object) and flush. */
dibs_status cli_print_claims(struct cli *cli, const dibs_claim *claims, size_t n, bool is_list,
                             dibs_err *err);

/* Release the new claims of a call whose answer could not be printed (INV-4). */
void cli_take_back(const struct cli *cli, const dibs_claim *claims, size_t n);
/* Print the claims of a call and their notes. On failure release the new ones (INV-4). */
dibs_status cli_answer(struct cli *cli, const dibs_claim *claims, size_t n, bool is_list, dibs_err *err);
#endif
