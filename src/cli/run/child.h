/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_RUN_CHILD_H
#define DIBS_CLI_RUN_CHILD_H
/* The child process of `dibs run`. It is forked before its ports are claimed, so that it can be their
 * holder, and executes the command when it gets them. */
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "dibs/status.h"

/* Signal state before dibs changed it; the command must get the same. */
struct child_signals {
    sigset_t mask;
    struct sigaction on_child;
    sigset_t waited; /* forwarded signals, and SIGCHLD */
};

enum { CHILD_FDS_MAX = 96 };

struct child;
struct run_as;
struct child_options {
    const char *name; /* process name while it waits */
    size_t n_ports;
    /* In the child: execute the command. Returns errno only on failure. */
    int (*exec)(void *ctx, const uint16_t *ports);
    /* NULL, or in the child, before `exec`: take what dibs sends over `go`, a socket, after the ports.
     * Returns errno. Descriptors below CHILD_FDS_MAX are not the child's own. */
    int (*take)(void *ctx, int go);
    void *ctx;
    /* Children started before this one, which closes their pipes so that they see the end of dibs. */
    const struct child *others;
    size_t n_others;
    struct run_as *as; /* the command's numbers (cli/run/as.h); NULL: none */
};

struct child {
    pid_t pid;   /* 0: none */
    int go;      /* write end for the ports; when closed, the child ends unless it has executed the command */
    int outcome; /* read end for the errno of a failed exec */
    bool is_dibs; /* it is dibs itself, so dibs stops whenever it does */
};

/* Block the forwarded signals for the rest of this process's life. Call it once, before the first child. */
dibs_status child_prepare(struct child_signals *out, dibs_err *err);
/* In a new process: undo it. Pending signals are delivered here. */
void child_restore(const struct child_signals *before);
dibs_status child_start(const struct child_options *options, const struct child_signals *signals,
                        struct child *out, dibs_err *err);
/* Send the child its ports. child_wait() notices a child that is gone already. */
void child_go(struct child *child, const uint16_t *ports, size_t n);
/* End the child without executing the command. */
void child_cancel(struct child *child);
/* Return a child that has ended and may be reaped; 0: none. As process 1 of a container, dibs is the parent
 * of every process whose own has ended. */
pid_t child_next_ended(void);
/* Forward signals until the child ends. Return the exit code as a shell does; *failed is the errno of exec,
 * 0 when the command ran. A child whose exec failed may still exist: child_cancel() ends it. */
int child_wait(struct child *child, const struct child_signals *signals, int *failed);
/* Return the errno of a failed exec; 0: it runs, or nothing is known yet. */
int child_failure(const struct child *child);
/* The same as child_wait() for a child that has ended with this status already. */
int child_ended(struct child *child, int status, int *failed);
#endif
