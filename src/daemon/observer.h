/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_OBSERVER_H
#define DIBS_DAEMON_OBSERVER_H
/* Looks at all sockets of the host and their processes, in a thread while somebody wants to know: with
 * thousands of them a look takes up to a tenth of a second, and claims must not wait for that. */
#include "base/loop.h"
#include "daemon/engine.h"
#include "host/socket_table.h"

struct observer_options {
    struct loop *loop;
    struct engine *engine; /* borrowed; its view of processes does not change */
    /* A look at the protocol is over; `err` is NULL if it has succeeded. */
    void (*done)(void *ctx, dibs_proto proto, const dibs_err *err);
    void *ctx;
};

struct observer;

dibs_status observer_open(const struct observer_options *options, struct observer **out, dibs_err *err);
/* Wait for the thread. NULL is fine. */
void observer_close(struct observer *observer);

/* Return the last table of the protocol, or NULL. It is valid until the next turn of the loop. */
const struct socket_table *observer_table(struct observer *observer, dibs_proto proto);
/* Is it young enough for one more reader? */
bool observer_is_fresh(const struct observer *observer, dibs_proto proto);
/* Begin a look, or join the one that has not begun yet. done() is called later. */
dibs_status observer_look(struct observer *observer, dibs_proto proto, dibs_err *err);
/* Forget tables that nobody has wanted for a while. Call it in each turn. */
void observer_run(struct observer *observer);
#endif
