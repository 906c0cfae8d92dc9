/* SPDX-License-Identifier: MIT */
#include "cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "cli/terminal.h"

#include "base/banned.h"

enum { QUIET_MS = 2000, STEP_MS = 1000 };

/* Wait until the command ends; false: it goes on after that time. */
static bool is_over_within(struct progress *progress, int64_t ms)
{
    struct timespec until = { 0 };
    int code = 0;

    (void) clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    (void) pthread_mutex_lock(&progress->lock);
    while (!progress->is_over && code == 0)
        code = pthread_cond_timedwait(&progress->over, &progress->lock, &until);
    bool is_over = progress->is_over;
    (void) pthread_mutex_unlock(&progress->lock);
    return is_over;
}

static void *show(void *ctx)
{
    struct progress *progress = ctx;
    bool is_shown = false;

    for (int64_t ms = QUIET_MS; !is_over_within(progress, ms); ms = STEP_MS) {
        /* The cursor goes back, so that an answer on the same terminal writes over the line. */
        (void) fprintf(stderr, "\033[Kdibs: %s, %" PRId64 "s\r", progress->what,
                       (clock_monotonic_ms() - progress->began_ms) / 1000);
        (void) fflush(stderr);
        is_shown = true;
    }
    if (is_shown)
        (void) fputs("\033[K", stderr);
    return NULL;
}

void progress_begin(struct progress *progress, const struct cli *cli)
{
    pthread_condattr_t attributes;

    *progress = (struct progress){ .what = cli->cmd->name, .began_ms = clock_monotonic_ms() };
    if (cli->quiet || !terminal_has_cursor(stderr) || pthread_mutex_init(&progress->lock, NULL) ||
        pthread_condattr_init(&attributes))
        return;
    (void) pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    progress->is_running = pthread_cond_init(&progress->over, &attributes) == 0 &&
                           pthread_create(&progress->thread, NULL, show, progress) == 0;
    (void) pthread_condattr_destroy(&attributes);
}

void progress_end(struct progress *progress)
{
    if (!progress->is_running)
        return;
    (void) pthread_mutex_lock(&progress->lock);
    progress->is_over = true;
    (void) pthread_cond_signal(&progress->over);
    (void) pthread_mutex_unlock(&progress->lock);
    (void) pthread_join(progress->thread, NULL);
    progress->is_running = false;
}
