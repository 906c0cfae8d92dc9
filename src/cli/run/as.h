/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_RUN_AS_H
#define DIBS_CLI_RUN_AS_H
/* `dibs run --as`: the command's processes use port numbers of their own (hold/as).
 *
 * With --as, dibs is two processes. The first one, which the caller knows, only forwards signals and the exit
 * code. The second one is the whole of `dibs run`, and has the notifier as a thread: it survives the first
 * one, and stays until the last process of each command has ended. */
#include <signal.h>

#include "cli/cli.h"
#include "hold/as/as.h"

struct run_as; /* of one call of `dibs run`, in cli->as; NULL: without --as */

/* One port of a command. */
struct run_as_port {
    uint16_t inside; /* 0: the command uses the claimed port itself */
    bool is_own;     /* the command may bind it */
    bool has_tcp, has_udp;
};

/* Read "PORT[/PROTOCOL]" or "NAME=PORT[/PROTOCOL]". *name_size is 0 without a name. */
dibs_status run_as_parse(const char *text, size_t *name_size, struct run_as_port *out, dibs_err *err);

/* Prepare --as for one or more commands, and split dibs into its two processes. In the first one,
 * *is_first is true on return: everything is done, and cli->exit_code set. */
struct run_as_options {
    bool has_udp;
    bool is_any;    /* `--as any`: the command may bind other numbers, too, and each gets a claim when it is
                       bound */
    bool is_passed; /* dibs passes sockets to the command */
};
dibs_status run_as_begin(struct cli *cli, const struct run_as_options *options, bool *is_first,
                         dibs_err *err);
/* In the second process, at the end: hand over the exit code, and wait for what the commands have left.
 * Does nothing without --as. */
void run_as_end(struct cli *cli, dibs_status status);

/* Refuse a command that cannot work with --as; warn of one whose ports another process binds. */
dibs_status run_as_check(const char *command, dibs_err *err);

/* Before the fork of a command, in the new process, and in dibs afterwards. */
dibs_status run_as_before(struct run_as *as, dibs_err *err);
void run_as_enter(struct run_as *as);
dibs_status run_as_meet(struct run_as *as, pid_t pid, dibs_err *err);
/* In the new process, before exec: set DIBS_OUTSIDE_PORT_3000 ... */
bool run_as_set_outside(const struct run_as_port *ports, const uint16_t *outside, size_t n);

/* Give the command that was started as number `which` its numbers, and print those outside. `title` is how
 * the user knows it. */
struct run_as_command {
    size_t which;
    const char *title;
    const struct run_as_port *ports;
    const uint16_t *outside;
    size_t n;
};
dibs_status run_as_number(struct cli *cli, const struct run_as_command *command, dibs_err *err);
/* The claims of `--as any` (as_any.c). NULL without memory. */
struct run_as_any;
struct run_as_any *run_as_any_new(const struct cli *cli);
void run_as_any_free(struct run_as_any *any); /* NULL is fine */
const struct as_any *run_as_any_hooks(const struct run_as_any *any);
/* Start the notifier for all commands that were started, or give their numbers to the daemon. */
dibs_status run_as_serve(const struct cli *cli, dibs_err *err);
#endif
