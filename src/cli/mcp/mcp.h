/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_MCP_MCP_H
#define DIBS_CLI_MCP_MCP_H
/* `dibs mcp`: the Model Context Protocol, one JSON-RPC message a line.
 *
 * protocol.c reads messages and queues calls of tools; it touches neither files nor processes. A tool is a
 * command of dibs with few arguments (tools.c), which run.c executes with --json in the project's directory;
 * fields.c picks what an agent needs. So each call sees the daemon, the ledger and the manifest of
 * its moment, with the rights of the caller, and cannot do more than the command. */
#include "cli/cli.h"

enum {
    MCP_LINE_MAX = 1 << 20,    /* bytes of a message; hosts send a few thousand */
    MCP_WAITING_MAX = 64,      /* calls that wait; an agent makes a few at once */
    MCP_ROOTS_MAX = 64,        /* roots of a client */
    MCP_OUTPUT_MAX = 16 << 20, /* bytes that a command may print: some 100,000 claims */
    MCP_WORDS_MAX = 16,        /* words of a tool's command */
    MCP_ARGUMENT_MAX = 4096,   /* bytes of an argument: a path */
    MCP_LISTED_MAX = 100,      /* entries of a list in an answer */
    MCP_ROOTS_WAIT_MS = 2000,  /* for a client that never tells its roots */
};

/* ---- places ---- */

/* The project that a call in some directory is about. */
struct mcp_place {
    dibs_project project;
    bool has_manifest;
};
/* Find it, by the rules of --project. `cli` has the settings of the server's command line. INVALID: there is
 * no such directory. */
dibs_status mcp_place_find(const struct cli *cli, const char *dir, struct mcp_place *out, dibs_err *err);

/* ---- tools ---- */

enum mcp_type { MCP_TEXT, MCP_NUMBER, MCP_FLAG, MCP_OBJECT, MCP_LIST };

/* An argument or a member of the answer. */
struct mcp_field {
    const char *name; /* NULL ends the list */
    enum mcp_type type;
    bool is_required;
    const char *help;   /* may be NULL */
    const char *option; /* of the command, "--prefer"; NULL: the word after the options */
};

/* What to do after a failure; the first that fits is given. */
struct mcp_advice {
    dibs_status code; /* OK ends the list */
    const char *text;
    bool needs_manifest; /* for a project that has one */
    bool needs_blocker;  /* when a claim or process is in the way */
};

struct mcp_tool {
    const char *name, *title, *summary;
    const char *const *command;    /* NULL-terminated */
    const struct mcp_field *takes; /* and `project`, which every tool has */
    const struct mcp_field *gives;
    bool is_reader;                  /* changes nothing */
    bool only_adds;                  /* ends no claim; otherwise only the session's projects are its places */
    bool is_confirmed;               /* its command has --confirm: it waits until its answer counts */
    bool needs_name;                 /* of a claim: a number could be another project's */
    bool is_found_free;              /* nothing on a port is an answer, not a failure */
    const struct mcp_advice *advice; /* before the common one; may be NULL */
    /* Write the members of the answer. `answer`: what the command printed. */
    void (*write)(struct jsonw *w, const struct mcp_place *place, const jsonr_value *answer);
};
extern const struct mcp_tool mcp_tools[];
extern const size_t mcp_n_tools;

/* The protocol's versions, in order. */
enum mcp_version { MCP_UNKNOWN, MCP_2024_11_05, MCP_2025_03_26, MCP_2025_06_18 };

/* Write the description of every tool, as `tools/list` has it. */
void mcp_tools_write(struct jsonw *w, enum mcp_version version);

/* The id of a request. */
struct mcp_id {
    const char *text; /* NULL: a number, or null */
    int64_t number;
    bool is_null;
};

/* A call that waits or runs. */
struct mcp_call {
    struct mcp_call *next;
    struct mcp_id id;
    char *id_text; /* that of `id`; NULL: a number */
    const struct mcp_tool *tool;
    char *words[MCP_WORDS_MAX + 1]; /* of the command, without "dibs" */
    size_t n_words;
    const char *last; /* the word after the options; NULL: none */
    char *project;    /* NULL: the session's */
    bool is_cancelled;
    bool is_done; /* it will be answered: too late to cancel it */
    struct mcp_batch *batch;
};
/* Return a member of an object; NULL: it is absent, or null, as clients and models write what they do not
 * give. */
const jsonr_value *mcp_given(const jsonr_value *object, const char *key);
/* Read the arguments of a tool into call->words. INVALID names the argument. */
dibs_status mcp_arguments_read(const jsonr_value *arguments, struct mcp_call *call, dibs_err *err);
void mcp_call_free(struct mcp_call *call);

/* ---- answers ---- */

/* What the command of a call did. */
struct mcp_outcome {
    const char *failure; /* it did not run: why; NULL: it did */
    int code;            /* its exit code */
    struct bytes out, err;
    struct mcp_place place;
};
/* Write the members of the call's result. */
void mcp_answer_write(struct jsonw *w, enum mcp_version version, const struct mcp_call *call,
                      const struct mcp_outcome *outcome);
/* The writers of the tools (fields.c). */
void mcp_write_port(struct jsonw *w, const struct mcp_place *place, const jsonr_value *answer);
void mcp_write_claimed(struct jsonw *w, const struct mcp_place *place, const jsonr_value *answer);
void mcp_write_released(struct jsonw *w, const struct mcp_place *place, const jsonr_value *answer);
void mcp_write_listed(struct jsonw *w, const struct mcp_place *place, const jsonr_value *answer);
void mcp_write_users(struct jsonw *w, const struct mcp_place *place, const jsonr_value *answer);
void mcp_write_reasons(struct jsonw *w, const struct mcp_place *place, const jsonr_value *answer);
void mcp_write_env(struct jsonw *w, const struct mcp_place *place, const jsonr_value *answer);
void mcp_write_changes(struct jsonw *w, const struct mcp_place *place, const jsonr_value *answer);
void mcp_write_listener(struct jsonw *w, const struct mcp_place *place, const jsonr_value *answer);

/* ---- protocol ---- */

/* Requests of one JSON array; their answers are one array, too. */
struct mcp_batch {
    struct bytes answers; /* without brackets */
    size_t n_waiting;     /* calls, and 1 while the array is being read */
};

struct mcp {
    enum mcp_version version; /* UNKNOWN: not initialized */
    bool wants_roots;         /* set by the owner: it knows no project */
    bool has_roots;           /* the client can tell its roots */
    bool awaits_roots;        /* ... and has been asked; no call may run before it answers */
    int64_t n_asked;          /* the id of the last such request */
    char *roots[MCP_ROOTS_MAX];
    size_t n_roots;
    struct bytes out;       /* messages for the client, which the owner sends */
    struct mcp_call *first; /* calls in the order of their arrival; the owner runs the first */
    size_t n_waiting;
};
/* Read one message, without its newline. Answers go to m->out, calls of tools to the queue. */
void mcp_take(struct mcp *m, const char *line, size_t n);
/* Refuse a message that is longer than MCP_LINE_MAX. */
void mcp_refuse_long(struct mcp *m);
/* Answer the first call, and remove it. */
void mcp_finish(struct mcp *m, const struct mcp_outcome *outcome);
void mcp_done(struct mcp *m);

/* ---- the process ---- */

/* A command that runs. */
struct mcp_child {
    pid_t pid;    /* 0: none */
    int out, err; /* the ends of its pipes that we read; -1: closed */
    int confirm;  /* its standard input, if it waits for a byte there; -1: it does not */
    int end;      /* readable when it has ended; -1: unknown */
};
/* Start the command of a call in that directory, with the settings of the server's command line. */
dibs_status mcp_child_start(const struct cli *cli, const struct mcp_call *call, const char *dir,
                            struct mcp_child *child, dibs_err *err);

/* The two verbs of `dibs mcp`. */
dibs_status mcp_serve(struct cli *cli, dibs_err *err);
dibs_status mcp_install(struct cli *cli, dibs_err *err);
/* share/AGENTS.md, embedded. */
extern const char mcp_snippet[];
extern const size_t mcp_snippet_size;
#endif
