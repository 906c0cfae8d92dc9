/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_CHILD_H
#define DIBS_CLI_CHILD_H
/* The process of `dibs run`: it is there before its ports are, so that they can be claimed in its
 * name, and it becomes the command only when it is told them. */
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "dibs/status.h"

/* How signals were before us: what the command must get. */
struct child_signals {
    sigset_t mask;
    struct sigaction on_child;
    sigset_t waited; /* what is handed on, and SIGCHLD */
};

struct child;
struct child_plan {
    const char *name; /* shown as the process' name while it waits */
    size_t n_ports;
    /* In the child: become the command. Returns errno only if that failed. */
    int (*become)(void *ctx, const uint16_t *ports);
    void *ctx;
    /* Started before this one. It must not keep their pipes open: they would never see that dibs is gone. */
    const struct child *others;
    size_t n_others;
};

struct child {
    pid_t pid;   /* 0: none */
    int go;      /* the ports are written here; closed, the child ends unless it has become the command */
    int outcome; /* an errno comes out here if it could not become the command */
};

/* Blocks the signals that are handed on, for the rest of this process' life. Once, before the first child. */
dibs_status child_prepare(struct child_signals *out, dibs_err *err);
dibs_status child_start(const struct child_plan *plan, const struct child_signals *signals, struct child *out,
                        dibs_err *err);
/* Tell it its ports. A child that is gone already is found by child_wait(). */
void child_go(struct child *child, const uint16_t *ports, size_t n);
/* Never tell it: it ends without having become anything. */
void child_cancel(struct child *child);
/* Hand signals on until it ends. The exit code as a shell gives it; *failed is the errno of exec,
 * 0 when the command ran. What could not run may be there still: child_cancel() ends it. */
int child_wait(struct child *child, const struct child_signals *signals, int *failed);
/* The same for one that has ended with this status already: its exit code, and what exec failed with. */
int child_ended(struct child *child, int status, int *failed);
#endif
