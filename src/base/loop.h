/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_LOOP_H
#define DIBS_BASE_LOOP_H
/* The event loop: one thread waits for many file descriptors (epoll). */
#include <stdint.h>
#include <sys/epoll.h>

#include "dibs/status.h"

struct loop;

/* Embedded in the object that it serves; its owner closes the descriptor after loop_remove(). */
typedef struct loop_source {
    int fd;
    void (*ready)(struct loop_source *self, uint32_t events); /* EPOLLIN, ... */
} loop_source;

dibs_status loop_open(struct loop **out, dibs_err *err);
void loop_close(struct loop *loop); /* NULL is fine */

/* Add a source. UNAVAILABLE: no more descriptors or watches. */
dibs_status loop_add(struct loop *loop, loop_source *source, uint32_t events, dibs_err *err);
void loop_change(struct loop *loop, loop_source *source, uint32_t events);
/* Stop calling ready(), also in this turn: the source may be freed, even in ready(). */
void loop_remove(struct loop *loop, loop_source *source);

/* Wait up to `timeout_ms` (below 0: for ever) and call ready() of each ready source; a signal ends it. */
dibs_status loop_turn(struct loop *loop, int64_t timeout_ms, dibs_err *err);
#endif
