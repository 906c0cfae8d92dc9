/* SPDX-License-Identifier: MIT */
#include "daemon/observer.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/grow.h"

#include "base/banned.h"

enum {
    FRESH_MS = 1000, /* several pages and users share a look */
    KEPT_MS = 20000, /* for the next look: its owners need no search. Longer than a page waits for it */
};

struct observer {
    loop_source ended; /* first; eventfd of the thread */
    struct observer_options options;
    struct socket_table tables[DIBS_PROTO_MAX + 1];
    bool is_due[DIBS_PROTO_MAX + 1];
    int64_t wanted_ms; /* when a table was wanted last */

    /* Of the running look; the thread alone uses them until it has ended. */
    bool is_running;
    pthread_t thread;
    struct socket_look look;
    struct table_holder *holders;
    size_t n_holders, max_holders;
    struct kernel_inventory inventory;
    struct socket_table taken;
    dibs_status outcome;
    dibs_err err;
};

static void *run_look(void *arg)
{
    struct observer *o = arg;
    const uint64_t one = 1;

    o->outcome = socket_table_take(&o->look, &o->taken, &o->err);
    while (write(o->ended.fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
    return NULL;
}

static void note_holder(void *ctx, const struct engine_claim *claim)
{
    struct observer *o = ctx;

    if (claim->holder == DIBS_HELD_BY_PROCESS && claim->pidns == o->options.engine->core->view.pidns &&
        grow((void **) &o->holders, o->n_holders, &o->max_holders, sizeof *o->holders))
        o->holders[o->n_holders++] = (struct table_holder){ claim->port, claim->pid };
}

static dibs_status start(struct observer *o, dibs_proto proto, dibs_err *err)
{
    const struct socket_table *before = &o->tables[proto];

    o->n_holders = 0;
    engine_each_claim(o->options.engine, note_holder, o);
    o->look = (struct socket_look){ .view = &o->options.engine->core->view,
                                    .proto = proto,
                                    .holders = o->holders,
                                    .n_holders = o->n_holders,
                                    .before = before->taken_ms ? before : NULL,
                                    .inventory = &o->inventory };
    o->err = (dibs_err){ 0 };
    o->is_due[proto] = false;
    int rc = pthread_create(&o->thread, NULL, run_look, o);
    o->is_running = rc == 0;
    return rc == 0 ? DIBS_OK : err_os(err, DIBS_UNAVAILABLE, rc, "looking at sockets: starting a thread");
}

/* Start the next look that is due. */
static void start_next(struct observer *o)
{
    dibs_err err = { 0 };

    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_PROTO_MAX && !o->is_running; proto++)
        if (o->is_due[proto] && start(o, proto, &err) != DIBS_OK)
            o->options.done(o->options.ctx, proto, &err);
}

static void look_ended(loop_source *source, uint32_t events)
{
    struct observer *o = (struct observer *) source;
    dibs_proto proto = o->look.proto;
    uint64_t n = 0;

    (void) events;
    if (read(source->fd, &n, sizeof n) < 0 || !o->is_running)
        return;
    (void) pthread_join(o->thread, NULL);
    o->is_running = false;
    if (o->outcome == DIBS_OK) {
        socket_table_done(&o->tables[proto]);
        o->tables[proto] = o->taken;
    }
    o->options.done(o->options.ctx, proto, o->outcome == DIBS_OK ? NULL : &o->err);
    start_next(o);
}

dibs_status observer_open(const struct observer_options *options, struct observer **out, dibs_err *err)
{
    struct observer *self = calloc(1, sizeof *self);

    if (!self)
        return err_set(err, DIBS_FAILURE, "starting the daemon: out of memory");
    self->options = *options;
    self->ended = (loop_source){ eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), look_ended };
    dibs_status s = self->ended.fd < 0 ? err_os(err, DIBS_UNAVAILABLE, errno, "no descriptor is left")
                                       : loop_add(options->loop, &self->ended, EPOLLIN, err);
    if (s != DIBS_OK) {
        fd_auto(&self->ended.fd);
        free(self);
        return s;
    }
    *out = self;
    return DIBS_OK;
}

static bool drop_tables(struct observer *o)
{
    bool is_any = false;

    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_PROTO_MAX; proto++) {
        is_any = is_any || o->tables[proto].taken_ms;
        socket_table_done(&o->tables[proto]);
    }
    free(o->holders);
    o->holders = NULL;
    o->max_holders = 0;
    free(o->inventory.inodes);
    o->inventory = (struct kernel_inventory){ 0 };
    return is_any;
}

void observer_close(struct observer *observer)
{
    if (!observer)
        return;
    if (observer->is_running) {
        (void) pthread_join(observer->thread, NULL);
        if (observer->outcome == DIBS_OK)
            socket_table_done(&observer->taken);
    }
    (void) drop_tables(observer);
    loop_remove(observer->options.loop, &observer->ended);
    fd_auto(&observer->ended.fd);
    free(observer);
}

const struct socket_table *observer_table(struct observer *observer, dibs_proto proto)
{
    observer->wanted_ms = clock_monotonic_ms();
    return observer->tables[proto].taken_ms ? &observer->tables[proto] : NULL;
}

bool observer_is_fresh(const struct observer *observer, dibs_proto proto)
{
    int64_t taken_ms = observer->tables[proto].taken_ms;

    return taken_ms && clock_monotonic_ms() - taken_ms < FRESH_MS;
}

dibs_status observer_look(struct observer *observer, dibs_proto proto, dibs_err *err)
{
    observer->wanted_ms = clock_monotonic_ms();
    if (observer->is_running) {
        observer->is_due[proto] = true;
        return DIBS_OK;
    }
    return start(observer, proto, err);
}

void observer_run(struct observer *observer)
{
    if (observer->is_running || observer->wanted_ms == 0 ||
        clock_monotonic_ms() - observer->wanted_ms < KEPT_MS)
        return;
    observer->wanted_ms = 0;
    if (drop_tables(observer))
        (void) malloc_trim(0); /* also what the threads have left */
}
