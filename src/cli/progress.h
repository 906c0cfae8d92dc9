/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_PROGRESS_H
#define DIBS_CLI_PROGRESS_H
/* Show on a terminal that a long command is still working, and for how long. One call of the library can take
 * minutes, so a thread writes. */
#include <pthread.h>

#include "cli/cli.h"

struct progress {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t over;
    const char *what;
    int64_t began_ms;
    bool is_running, is_over;
};

/* From two seconds on, write a line to standard error each second. Nothing when that is no terminal. */
void progress_begin(struct progress *progress, const struct cli *cli);
/* Remove the line. Also for one that was never begun. */
void progress_end(struct progress *progress);
#endif
