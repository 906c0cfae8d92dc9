/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_CLI_H
#define DIBS_CLI_CLI_H
/* The command line: a door. It parses, prints and decides nothing; everything it does
 * is a call of <dibs/dibs.h>.
 *
 * One row of a table is a command, its options, its help, its man page section and its
 * completion. Adding a command: write cmd_<name>.c with one `const struct cli_cmd`, name it
 * here and in commands.c. */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "dibs/dibs.h"

/* What a value is, for completions. */
enum cli_value_kind {
    CLI_TEXT,
    CLI_NAME, /* a claim's name: completed from `dibs ls` */
    CLI_POOL,
    CLI_PORT,
    CLI_FILE,
    CLI_WORDS, /* one of opt->words */
};

struct cli_opt {
    const char *name;  /* without "--"; NULL ends the list */
    const char *arg;   /* placeholder of its value; NULL: a switch */
    const char *help;  /* one line, no full stop */
    const char *words; /* CLI_WORDS: "tcp udp sctp" */
    enum cli_value_kind kind;
    char letter; /* short form, or 0 */
    bool is_repeatable;
};

enum cli_cmd_flags {
    CLI_HANDLE = 1 << 0,  /* the dispatcher opens the handle first */
    CLI_STOP = 1 << 1,    /* options end at the first argument: `run` */
    CLI_HIDDEN = 1 << 2,  /* not in help, man page and completions */
    CLI_NO_JSON = 1 << 3, /* `run`: what is printed is the child's */
};

struct workload_group;
struct cli;
struct cli_cmd {
    const char *name;
    const char *args;           /* synopsis after the options */
    const char *summary;        /* one line, no full stop */
    const char *details;        /* paragraphs for help and man page, lines <= 78 columns */
    const char *examples;       /* "dibs claim web\n..." one command a line, run by a test */
    const struct cli_opt *opts; /* may be NULL */
    unsigned flags;
    int min_args, max_args; /* max -1: any number */
    enum cli_value_kind args_kind;
    const char *args_words; /* CLI_WORDS, for `pool` and `snapshot` verbs */
    /* Returns the exit status' code; `err` filled on failure. */
    dibs_status (*run)(struct cli *cli, dibs_err *err);
};

#define CLI_OPTIONS_MAX 256 /* options given in one call; far above what a person types */

struct cli_given {
    const struct cli_opt *opt;
    const char *value; /* NULL for a switch */
};

struct cli {
    const struct cli_cmd *cmd;
    dibs_settings settings;
    struct workload_group *manifest; /* of the project; NULL: none, or it cannot be used */
    dibs_err no_manifest;            /* why not */
    dibs *handle;                    /* with CLI_HANDLE */
    bool json;
    bool quiet;
    bool is_dashed; /* "--" stood before the arguments */
    int argc;       /* arguments without options */
    char **argv;
    struct cli_given given[CLI_OPTIONS_MAX];
    size_t n_given;
    int exit_code; /* `run`: the child's code; -1: by status */
};

/* The last value given for an option of this command, or NULL. */
const char *cli_value(const struct cli *cli, const char *name);
bool cli_has(const struct cli *cli, const char *name);
/* The i-th value of a repeatable option, or NULL. */
const char *cli_value_at(const struct cli *cli, const char *name, size_t i);

/* A line for people on stderr: "dibs: ...". Silent with --quiet (errors are not notes). */
void cli_note(const struct cli *cli, const char *fmt, ...) DIBS_PRINTF(2, 3);

/* Terminal-safe text: control characters and broken UTF-8 become '?'. Writes at most size. */
const char *cli_safe(const char *text, char *out, size_t size);
/* "pid 123 (node)", "lease, 9m30s left", "-" : who holds a claim. `boot_ms`: dibs_boot_ms(). */
void cli_holder(const dibs_claim *claim, int64_t boot_ms, char *out, size_t size);
/* "tcp *:8080 udp *:8080" */
void cli_bindings(const dibs_claim *claim, char *out, size_t size);

/* Bindings from --proto (comma list, "tcp+udp") and --address (repeatable); default tcp on "*". */
dibs_status cli_bindings_from(const struct cli *cli, dibs_binding out[DIBS_BINDINGS_MAX], size_t *n,
                              dibs_err *err);
/* NAME, /NAME or PORT as `dibs_which`; `name` is storage for the absolute name. */
dibs_status cli_which(const struct cli *cli, const char *text, dibs_which *out, char name[DIBS_NAME_MAX + 1],
                      dibs_project *project, dibs_err *err);

/* Exhaustive over dibs_status. */
int cli_exit_code(dibs_status status);

/* The table. */
extern const struct cli_cmd *const cli_commands[];
extern const struct cli_opt cli_global_opts[]; /* --json, --quiet, --help, and the settings */

extern const struct cli_cmd cmd_serve, cmd_run, cmd_get, cmd_claim, cmd_release, cmd_renew, cmd_transfer,
    cmd_ls, cmd_who, cmd_explain, cmd_assert, cmd_log, cmd_pool, cmd_node, cmd_snapshot, cmd_reap, cmd_repair,
    cmd_doctor, cmd_help, cmd_version, cmd_up, cmd_down, cmd_plan, cmd_env, cmd_render, cmd_kube;

/* ---- for the framework and the changing commands ---- */

enum cli_cmd_more_flags {
    CLI_SILENT = 1 << 4,      /* no answer without --json: a closed stdout is no failure */
    CLI_NO_SETTINGS = 1 << 5, /* must work with a broken configuration: `help`, `version` */
    CLI_MANIFEST = 1 << 6,    /* speaks of the manifest: one that cannot be used is an error */
    CLI_CLAIMS = 1 << 7,      /* claims by its range and group: one that is broken is an error */
    CLI_TELLS = 1 << 8,       /* tells itself of one that cannot be used */
};

#define CLI_EXIT_OUTPUT 74        /* the answer could not be written (sysexits.h has the same number) */
#define CLI_EXIT_READER_GONE 141  /* as if SIGPIPE had ended us, and as silently */
#define CLI_EXIT_NOT_RUNNABLE 126 /* `run`, as shells do it */
#define CLI_EXIT_NO_COMMAND 127

/* A line that --quiet does not silence (INV-10): "dibs: warning: ...". */
void cli_warn(const char *fmt, ...) DIBS_PRINTF(1, 2);
/* Digits only, within min..max. */
bool cli_number(const char *text, int64_t min, int64_t max, int64_t *out);
/* Open the handle unless it is open. The dispatcher does it for CLI_HANDLE; a command that does it itself
 * can refuse a wrong request before there is a ledger. */
dibs_status cli_open(struct cli *cli, dibs_err *err);
/* Push the answer out. On failure exit_code is CLI_EXIT_OUTPUT or CLI_EXIT_READER_GONE: whoever changed
 * something can still take it back. */
dibs_status cli_flush(struct cli *cli, dibs_err *err);
#endif
