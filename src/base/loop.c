/* SPDX-License-Identifier: MIT */
#include "base/loop.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"

#include "base/banned.h"

enum { TURN_EVENTS = 256 }; /* the rest comes first in the next turn */

struct loop {
    int epoll;
    int n; /* events of the current turn */
    struct epoll_event ready[TURN_EVENTS];
};

dibs_status loop_open(struct loop **out, dibs_err *err)
{
    struct loop *self = calloc(1, sizeof *self);

    if (!self)
        return err_set(err, DIBS_FAILURE, "waiting for descriptors: out of memory");
    self->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (self->epoll < 0) {
        int why = errno;

        free(self);
        return err_os(err, DIBS_UNAVAILABLE, why, "waiting for descriptors");
    }
    *out = self;
    return DIBS_OK;
}

void loop_close(struct loop *loop)
{
    if (!loop)
        return;
    (void) close(loop->epoll);
    free(loop);
}

dibs_status loop_add(struct loop *loop, loop_source *source, uint32_t events, dibs_err *err)
{
    struct epoll_event event = { .events = events, .data.ptr = source };

    if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, source->fd, &event) != 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "waiting for descriptor %d", source->fd);
    return DIBS_OK;
}

void loop_change(struct loop *loop, loop_source *source, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.ptr = source };

    (void) epoll_ctl(loop->epoll, EPOLL_CTL_MOD, source->fd, &event);
}

void loop_remove(struct loop *loop, loop_source *source)
{
    (void) epoll_ctl(loop->epoll, EPOLL_CTL_DEL, source->fd, NULL);
    for (int i = 0; i < loop->n; i++)
        if (loop->ready[i].data.ptr == source)
            loop->ready[i].data.ptr = NULL;
}

dibs_status loop_turn(struct loop *loop, int64_t timeout_ms, dibs_err *err)
{
    int wait = timeout_ms < 0 ? -1 : timeout_ms > INT_MAX ? INT_MAX : (int) timeout_ms;
    int n = epoll_wait(loop->epoll, loop->ready, TURN_EVENTS, wait);

    if (n < 0 && errno != EINTR)
        return err_os(err, DIBS_FAILURE, errno, "waiting for descriptors");
    loop->n = n < 0 ? 0 : n;
    for (int i = 0; i < loop->n; i++) {
        loop_source *source = loop->ready[i].data.ptr;

        if (source)
            source->ready(source, loop->ready[i].events);
    }
    loop->n = 0;
    return DIBS_OK;
}
