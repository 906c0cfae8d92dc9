/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_LOOP_H
#define DIBS_BASE_LOOP_H
/* One thread waits for many file descriptors. */
#include <stdint.h>
#include <sys/epoll.h>

#include "dibs/status.h"

struct loop;

/* Lives inside of what it serves; its owner closes the descriptor after loop_remove(). */
typedef struct loop_source {
    int fd;
    void (*ready)(struct loop_source *self, uint32_t events); /* EPOLLIN, ... */
} loop_source;

dibs_status loop_open(struct loop **out, dibs_err *err);
void loop_close(struct loop *loop); /* NULL is fine */

/* UNAVAILABLE when there are no more descriptors or watches to be had. */
dibs_status loop_add(struct loop *loop, loop_source *source, uint32_t events, dibs_err *err);
void loop_change(struct loop *loop, loop_source *source, uint32_t events);
/* From then on its ready() is not called, not even in this turn: it may be freed, also from within ready().
 */
void loop_remove(struct loop *loop, loop_source *source);

/* For a server: SIGTERM, SIGINT and SIGHUP make `source` ready, to be read from it as signalfd_siginfo;
 * SIGPIPE is ignored. */
dibs_status loop_add_signals(struct loop *loop, loop_source *source,
                             void (*ready)(loop_source *self, uint32_t events), dibs_err *err);

/* Waits up to `timeout_ms` (below 0: for ever) and serves what is ready. A signal ends the wait. */
dibs_status loop_turn(struct loop *loop, int64_t timeout_ms, dibs_err *err);
#endif
