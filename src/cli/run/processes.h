/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_RUN_PROCESSES_H
#define DIBS_CLI_RUN_PROCESSES_H
/* The commands that one `dibs run` runs in parallel, for all.c (their start) and supervise.c (until their
 * end). */
#include <poll.h>

#include "cli/run/pod.h"
#include "cli/run/relay.h"
#include "runs/group.h"

enum { STREAMS = 2 }; /* stdout, stderr */

struct part {
    struct child child;
    struct launch launch; /* its context is the pod at the same index */
    const char *title;    /* the pod's */
    int write_end[STREAMS];
    struct relay_stream stream[STREAMS]; /* both of one terminal: only the first is open */
    struct run_group group;
    bool has_ended;     /* the command has; it is reaped when nothing of its process group is left */
    bool is_asked;      /* the command has received SIGTERM */
    int group_sig;      /* signal of the terminal that the whole group has received; 0: none */
    int64_t term_at_ms; /* when those that ignore it receive SIGTERM; 0: not pending */
    int64_t kill_at_ms; /* when SIGKILL follows; 0: not pending */
};

struct processes {
    struct cli *cli;
    struct pods pods;
    struct part *parts;
    size_t n, n_living;
    struct child *children; /* children started so far; later ones close their pipes */
    struct child_signals signals;
    struct launch_claims claims;
    struct relay_sink sinks[STREAMS];
    bool has_colour[STREAMS];
    bool is_terminal[STREAMS];
    struct pollfd *polled; /* both sinks, signals, streams */
    size_t turn;           /* index of the part that writes first */
    int width;             /* of the longest title */
    int code;              /* exit code: of the first part that ended; -1: none has */
    int last_code;         /* of the last part that ended */
    int failed;            /* errno of the first part that could not run */
    const char *failed_command;
    bool keeps_going; /* the end of one part does not stop the others */
    bool is_stopping;
    int64_t signalled_at_ms; /* when a signal asked dibs to stop; 0: none has */
};

/* Note on standard error, without blocking. */
void processes_note(struct processes *all, const char *fmt, ...) DIBS_PRINTF(2, 3);
/* Relay output and signals until all parts have ended, with their process groups. */
void processes_supervise(struct processes *all, int signals);
/* Write the rest of the output. */
void processes_drain(struct processes *all, int signals);
#endif
