/* SPDX-License-Identifier: MIT */
#include "kernel/closer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/banned.h"

enum {
    KEPT_MAX = 256, /* descriptors of each kind: those to be closed, and those for the next probes, */
    KEPT_PART = 16, /* ... and not more than such a part of all that there may be */
    WORTH = 8,      /* to wake a thread takes as long as to close some */
    GIVEN = 16,     /* to the thread at a time, while the group goes on */
    AT_ONCE = 8,    /* that the thread takes: what it has not taken may be closed by who waits */
};

struct some {
    int fd[KEPT_MAX];
    size_t n;
};

struct closer {
    int (*make)(void);
    size_t most;             /* that are opened beforehand */
    struct some kept, ready; /* to be closed, and opened: of who probes alone */
    bool has_given;          /* something to the thread, in this group */
    bool has_thread;         /* from the first time that it is worth one */
    pthread_t thread;
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t given, closed;
    struct some old, new; /* to be closed, and opened */
    size_t wanted;        /* of the new, of which there are never more */
    bool is_closing, is_ending;
};

/* The last ones of `from`, which has as many. */
static void move(struct some *from, size_t n, struct some *to)
{
    from->n -= n;
    memcpy(to->fd + to->n, from->fd + from->n, n * sizeof *to->fd);
    to->n += n;
}

static void close_all(struct some *some)
{
    while (some->n > 0)
        (void) close(some->fd[--some->n]);
}

/* Up to `most` of what waits, closed without the lock, which is held before and after. */
static void close_some(struct closer *c, size_t most)
{
    struct some mine = { 0 };

    move(&c->old, c->old.n < most ? c->old.n : most, &mine);
    (void) pthread_mutex_unlock(&c->lock);
    close_all(&mine);
    (void) pthread_mutex_lock(&c->lock);
}

/* Likewise. What cannot be opened is not tried again for this group. */
static void open_some(struct closer *c, size_t most)
{
    struct some mine = { 0 };
    size_t n = c->wanted - c->new.n;
    int fd = -1;

    n = n < most ? n : most;
    (void) pthread_mutex_unlock(&c->lock);
    while (mine.n < n && (fd = c->make()) >= 0)
        mine.fd[mine.n++] = fd;
    (void) pthread_mutex_lock(&c->lock);
    bool is_short = mine.n < n;
    size_t room = c->wanted - c->new.n; /* fewer may be wanted by now */
    move(&mine, mine.n < room ? mine.n : room, &c->new);
    close_all(&mine);
    if (is_short)
        c->wanted = c->new.n;
}

static void *carry(void *arg)
{
    struct closer *c = arg;

    (void) pthread_mutex_lock(&c->lock);
    while (!c->is_ending) {
        if (c->old.n > 0) {
            c->is_closing = true;
            close_some(c, AT_ONCE);
            c->is_closing = false;
            if (c->old.n == 0)
                (void) pthread_cond_signal(&c->closed);
        } else if (c->new.n < c->wanted) {
            open_some(c, AT_ONCE);
        } else {
            (void) pthread_cond_wait(&c->given, &c->lock);
        }
    }
    (void) pthread_mutex_unlock(&c->lock);
    return NULL;
}

static size_t count_most(void)
{
    struct rlimit limit = { .rlim_cur = 0 };

    (void) getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur / KEPT_PART < KEPT_MAX ? (size_t) limit.rlim_cur / KEPT_PART : KEPT_MAX;
}

struct closer *closer_open(int (*make)(void))
{
    struct closer *c = calloc(1, sizeof *c);

    if (!c)
        return NULL;
    c->make = make;
    c->most = make ? count_most() : 0;
    (void) pthread_mutex_init(&c->lock, NULL);
    (void) pthread_cond_init(&c->given, NULL);
    (void) pthread_cond_init(&c->closed, NULL);
    return c;
}

void closer_close(struct closer *c)
{
    if (!c)
        return;
    closer_end(c);
    if (c->has_thread) {
        (void) pthread_mutex_lock(&c->lock);
        c->is_ending = true;
        (void) pthread_cond_signal(&c->given);
        (void) pthread_mutex_unlock(&c->lock);
        (void) pthread_join(c->thread, NULL);
    }
    close_all(&c->ready);
    close_all(&c->new);
    (void) pthread_cond_destroy(&c->closed);
    (void) pthread_cond_destroy(&c->given);
    (void) pthread_mutex_destroy(&c->lock);
    free(c);
}

int closer_take(struct closer *c)
{
    if (c->ready.n == 0 && c->has_thread) {
        (void) pthread_mutex_lock(&c->lock);
        c->wanted -= c->new.n;
        move(&c->new, c->new.n, &c->ready);
        (void) pthread_mutex_unlock(&c->lock);
    }
    return c->ready.n > 0 ? c->ready.fd[--c->ready.n] : -1;
}

/* What is kept goes to the thread, which opens as many for it. */
static void give(struct closer *c)
{
    size_t n = c->kept.n;

    c->has_thread = c->has_thread || pthread_create(&c->thread, NULL, carry, c) == 0;
    if (c->has_thread) {
        (void) pthread_mutex_lock(&c->lock);
        if (c->old.n + n <= KEPT_MAX) {
            size_t most = c->most - c->ready.n;

            move(&c->kept, n, &c->old);
            c->wanted = c->wanted + n < most ? c->wanted + n : most;
            c->has_given = true;
            (void) pthread_cond_signal(&c->given);
        }
        (void) pthread_mutex_unlock(&c->lock);
    }
    close_all(&c->kept); /* there is no thread, or it does not keep up */
}

void closer_add(struct closer *c, int fd)
{
    c->kept.fd[c->kept.n++] = fd;
    if (c->kept.n == (c->make ? GIVEN : KEPT_MAX))
        give(c);
}

/* With the lock. */
static void close_old(struct closer *c)
{
    while (c->old.n > 0 || c->is_closing) {
        if (c->old.n > 0)
            close_some(c, KEPT_MAX);
        else
            (void) pthread_cond_wait(&c->closed, &c->lock);
    }
}

bool closer_drop(struct closer *c)
{
    if (!c)
        return false;
    size_t n = c->kept.n + c->ready.n;
    close_all(&c->kept);
    close_all(&c->ready);
    if (!c->has_thread)
        return n > 0;
    (void) pthread_mutex_lock(&c->lock);
    n += c->new.n + c->old.n + c->is_closing;
    c->wanted = 0;
    close_all(&c->new);
    close_old(c);
    (void) pthread_mutex_unlock(&c->lock);
    return n > 0;
}

void closer_begin(struct closer *c)
{
    if (!c)
        return;
    if (c->kept.n >= WORTH)
        give(c);
    else if (!c->has_given) /* of few claims: the next group may come much later */
        (void) closer_drop(c);
    close_all(&c->kept); /* the port is nobody's: the sooner it is free, the better */
}

void closer_end(struct closer *c)
{
    if (!c)
        return;
    close_all(&c->kept);
    c->has_given = false;
    if (!c->has_thread)
        return;
    (void) pthread_mutex_lock(&c->lock);
    close_old(c);
    (void) pthread_mutex_unlock(&c->lock);
}
