/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_RUN_CHILD_H
#define DIBS_CLI_RUN_CHILD_H
/* The process of `dibs run`. It is forked before its ports are claimed, so that it can be their holder, and
 * executes the command when it gets them. */
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "dibs/status.h"

/* Signals as they were before dibs changed them: the command must get them so. */
struct child_signals {
    sigset_t mask;
    struct sigaction on_child;
    sigset_t waited; /* signals that are forwarded, and SIGCHLD */
};

struct child;
struct child_plan {
    const char *name; /* shown as the process' name while it waits */
    size_t n_ports;
    /* In the child: execute the command. Returns errno only if that failed. */
    int (*exec)(void *ctx, const uint16_t *ports);
    void *ctx;
    /* Children started before this one. It must not keep their pipes open: they would never see that dibs is
     * gone. */
    const struct child *others;
    size_t n_others;
};

struct child {
    pid_t pid;   /* 0: none */
    int go;      /* the ports are written here; closed, the child ends unless it has executed the command */
    int outcome; /* the errno is read here if it could not execute the command */
};

/* Block the signals that are forwarded, for the rest of this process' life. Once, before the first child. */
dibs_status child_prepare(struct child_signals *out, dibs_err *err);
dibs_status child_start(const struct child_plan *plan, const struct child_signals *signals, struct child *out,
                        dibs_err *err);
/* Send the child its ports. child_wait() finds a child that is gone already. */
void child_go(struct child *child, const uint16_t *ports, size_t n);
/* End the child without executing the command. */
void child_cancel(struct child *child);
/* Forward signals until the child ends. Returns the exit code as a shell gives it; *failed is the errno of
 * exec, 0 when the command ran. A child that could not run may still be there: child_cancel() ends it. */
int child_wait(struct child *child, const struct child_signals *signals, int *failed);
/* The same for a child that has ended with this status already. */
int child_ended(struct child *child, int status, int *failed);
#endif
