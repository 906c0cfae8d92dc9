/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_CLI_H
#define DIBS_CLI_CLI_H
/* The command line: it parses and prints; <dibs/dibs.h> makes every decision.
 *
 * One row of a table is a command with its options, help, man page section and completion. To add a command,
 * write commands/GROUP/cmd_<name>.c with one `const struct cli_cmd`, and name it here and in commands.c. */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/text.h"
#include "codec/json.h"
#include "dibs/dibs.h"

/* The value of a macro, for help texts. */
#define CLI_TEXT_OF(macro) CLI_TEXT_OF_(macro)
#define CLI_TEXT_OF_(text) #text

struct cli_opt {
    const char *name; /* without "--"; NULL ends the list */
    const char *arg;  /* placeholder of its value; NULL: a switch */
    const char *help; /* one line, no full stop */
    const char
        *words; /* for completions: "tcp udp sctp", ":names" or ":roles"; for files and pools `arg` decides */
    const char *alias; /* another name that is accepted, without "--"; NULL: none */
    char letter;       /* short form, or 0 */
    bool is_repeatable;
};

enum cli_cmd_flags {
    CLI_HANDLE = 1 << 0,           /* program_main() opens the handle first */
    CLI_STOP = 1 << 1,             /* options end at the first argument: `run` */
    CLI_HIDDEN = 1 << 2,           /* not in help, man page and completions */
    CLI_NO_JSON = 1 << 3,          /* `run`: standard output belongs to the command */
    CLI_SILENT = 1 << 4,           /* no answer without --json: a closed stdout is no failure */
    CLI_NO_SETTINGS = 1 << 5,      /* must work with a broken configuration: `help`, `version` */
    CLI_MANIFEST = 1 << 6,         /* uses the manifest: an unusable one is an error */
    CLI_CLAIMS = 1 << 7,           /* claims by the manifest's range and group: a broken one is an error */
    CLI_SLOW = 1 << 9,             /* may take seconds: show progress on a terminal */
    CLI_REPORTS_MANIFEST = 1 << 8, /* reports an unusable manifest itself */
};

/* What a command is for. Help lists the commands by group, and each group has a folder in commands/. */
enum cli_group { CLI_RUN, CLI_ASK, CLI_LOOK, CLI_MAINTAIN, CLI_CLUSTER, CLI_ABOUT, CLI_GROUP_COUNT };

struct workload_group;
struct run_as;
struct cli;
struct cli_cmd {
    const char *name;
    enum cli_group group;
    const char *args;           /* synopsis after the options */
    const char *summary;        /* one line, no full stop */
    const char *details;        /* paragraphs for help and man page, lines <= 78 columns */
    const char *examples;       /* "dibs claim web\n...", one command per line; a test runs them */
    const struct cli_opt *opts; /* may be NULL */
    unsigned flags;
    int min_args, max_args; /* max -1: unlimited */
    const char *args_words; /* for completions: its verbs, ":names", ":roles" or ":files" */
    /* Run by another program ("dibs-serve"), by a verb's function, or by `run`. */
    const char *program;
    const struct cli_verb *verbs;
    dibs_status (*run)(struct cli *cli, dibs_err *err);
};

/* A verb of a command, its first argument: `dibs pool set NAME`. */
struct cli_verb {
    const char *name;           /* NULL ends the list */
    const char *arg;            /* argument after the verb: "NAME"; "[FILE]" is optional; NULL: none */
    const char *const *options; /* options of this verb, NULL-terminated; NULL: none */
    dibs_status (*run)(struct cli *cli, dibs_err *err);
};
/* Run the given verb, by default the first. INVALID: unknown verb, or wrong argument or options. */
dibs_status cli_run_verb(struct cli *cli, const struct cli_verb *verbs, dibs_err *err);

#define CLI_OPTIONS_MAX 256 /* options in one call; far above what a person types */

struct cli_given {
    const struct cli_opt *opt;
    const char *value; /* NULL for a switch */
};

struct cli {
    const struct cli_cmd *cmd;
    dibs_settings settings;
    struct workload_group *manifest; /* the project's manifest; NULL: none, or unusable */
    dibs_err no_manifest;            /* why `manifest` is NULL */
    dibs_project project;            /* project of relative names, after cli_project() */
    dibs *handle;                    /* set with CLI_HANDLE */
    bool json;
    bool quiet;
    bool is_dashed; /* "--" preceded the arguments */
    int argc;       /* arguments without options */
    char **argv;
    struct cli_given given[CLI_OPTIONS_MAX];
    size_t n_given;
    int exit_code;     /* the child's code for `run`; -1: by status */
    struct jsonw w;    /* with --json: the answer, one value */
    struct run_as *as; /* of `run --as` (cli/run/as.h) */
};

/* Return the value given for an option of this command, or NULL. */
const char *cli_value(const struct cli *cli, const char *name);
bool cli_has(const struct cli *cli, const char *name);
/* Return the i-th value of a repeatable option, or NULL. */
const char *cli_value_at(const struct cli *cli, const char *name, size_t i);

/* Read the option's number, decimal digits only, `least` to `most`; *out stays when it was not given. */
dibs_status cli_number_from(const struct cli *cli, const char *name, int64_t least, int64_t most,
                            int64_t *out, dibs_err *err);

/* Print a line for people on stderr: "dibs: ...". Silent with --quiet. */
void cli_note(const struct cli *cli, const char *fmt, ...) DIBS_PRINTF(2, 3);

/* Describe the holder of a claim: "pid 123 (node)", "lease, 9m30s left", "-", or for a claim of a namespace
 * "pod 'web-0' in namespace 'shop'". The text is not yet safe for a terminal. `boot_ms`: dibs_boot_ms(). */
void cli_holder(const dibs_claim *claim, int64_t boot_ms, char *out, size_t size);
/* Write the two largest units of a duration: "9m30s", "3d2h", "12s". */
void cli_age(int64_t ms, char *out, size_t size);
/* Write a time for people: "2026-01-31 12:00:00" in local time, with --utc "2026-01-31T12:00:00Z". */
void cli_time(const struct cli *cli, int64_t wall_ms, char out[32]);
/* Write a message of the library for people: its times by cli_time(), its uids with the user's name. `cli`
 * NULL: local time. */
const char *cli_for_people(const struct cli *cli, const char *text, char *out, size_t size);
/* Write "alice (uid 1000)", or "uid 1000" for a user without a name. */
enum { CLI_USER_BYTES = 96 };
const char *cli_user(uint32_t uid, char out[CLI_USER_BYTES]);
/* Return "alive", "dead", "unknown", "orphan", "kept", or "pending" for a namespace's that waits for its pod.
 */
const char *cli_state(const dibs_claim *claim);
enum { CLI_ADDRESS_BYTES = DIBS_ADDRESS_TEXT_MAX + 3 };
/* Write the address as it precedes a port: IPv6 in brackets. */
void cli_address(const dibs_address *address, char out[CLI_ADDRESS_BYTES]);
/* Write the bindings of a claim: "tcp *:8080 udp *:8080". */
void cli_bindings(const dibs_claim *claim, char *out, size_t size);

/* With --json: begin and end the array of the answer. */
void cli_begin_list(struct cli *cli);
void cli_end_list(struct cli *cli);
/* With --json: print {"KEY":N}. */
void cli_print_count(const struct cli *cli, const char *key, size_t n);

/* Read bindings from --proto (comma list, "tcp+udp") and --address (repeatable); default tcp on "*". */
dibs_status cli_bindings_from(const struct cli *cli, dibs_binding out[DIBS_BINDINGS_MAX], size_t *n,
                              dibs_err *err);
/* Find the user's current project, once. */
dibs_status cli_project(struct cli *cli, dibs_err *err);
/* Read NAME, /NAME or PORT into `dibs_which`; `name` is storage for the absolute name. */
dibs_status cli_which(struct cli *cli, const char *text, dibs_which *out, char name[DIBS_NAME_MAX + 1],
                      dibs_err *err);

extern const struct cli_cmd *const cli_commands[];
extern const char *const cli_groups[CLI_GROUP_COUNT]; /* their headings */
extern const struct cli_opt cli_global_opts[];        /* --json, --quiet, --help, and the settings */

extern const struct cli_cmd cmd_serve, cmd_run, cmd_stop, cmd_get, cmd_claim, cmd_release, cmd_renew,
    cmd_transfer, cmd_ls, cmd_who, cmd_explain, cmd_assert, cmd_log, cmd_pool, cmd_node, cmd_snapshot,
    cmd_reap, cmd_repair, cmd_doctor, cmd_settings, cmd_help, cmd_version, cmd_complete, cmd_init, cmd_up,
    cmd_down, cmd_plan, cmd_env, cmd_render, cmd_kube, cmd_ui, cmd_mcp;

/* ---- for program.c and the commands that change something ---- */

#define CLI_EXIT_OUTPUT 74        /* the answer could not be written (as in sysexits.h) */
#define CLI_EXIT_READER_GONE 141  /* as if SIGPIPE had ended dibs, and as silently */
#define CLI_EXIT_NOT_RUNNABLE 126 /* `run`: the same codes as shells use */
#define CLI_EXIT_NO_COMMAND 127

/* Print a line that --quiet does not silence (INV-10): "dibs: warning: ...". */
void cli_warn(const char *fmt, ...) DIBS_PRINTF(1, 2);
/* Open the handle unless it is open. program_main() does it for CLI_HANDLE; a command that calls it itself
 * can refuse a wrong request before a ledger exists. */
dibs_status cli_open(struct cli *cli, dibs_err *err);
/* End the line of the JSON that was written to cli->w, if any. */
void cli_end_json(struct cli *cli);
/* End and flush the answer. On failure exit_code is CLI_EXIT_OUTPUT or CLI_EXIT_READER_GONE, and the caller
 * can still undo its changes. */
dibs_status cli_flush(struct cli *cli, dibs_err *err);
#endif
