/* SPDX-License-Identifier: MIT */
#include "kernel/closer.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/banned.h"

enum {
    KEPT_MAX = 128, /* descriptors that are open in vain for a moment; more are closed at once */
    WORTH = 8,      /* to wake a thread takes as long as to close some */
    AT_ONCE = 8,    /* that the thread takes: what it has not taken may be closed by who waits */
};

struct closer {
    int kept[KEPT_MAX]; /* of who probes alone */
    size_t n_kept;
    bool has_thread; /* from the first time that it is worth one */
    pthread_t thread;
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t given, closed;
    int fds[KEPT_MAX];
    size_t n;
    bool is_closing, is_ending;
};

static void close_all(const int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++)
        (void) close(fds[i]);
}

/* Up to `most` of what waits, closed without the lock, which is held before and after. */
static void close_some(struct closer *c, size_t most)
{
    int fds[KEPT_MAX];
    size_t n = c->n < most ? c->n : most;

    c->n -= n;
    memcpy(fds, c->fds + c->n, n * sizeof *fds);
    (void) pthread_mutex_unlock(&c->lock);
    close_all(fds, n);
    (void) pthread_mutex_lock(&c->lock);
}

static void *carry(void *arg)
{
    struct closer *c = arg;

    (void) pthread_mutex_lock(&c->lock);
    while (!c->is_ending) {
        if (c->n == 0) {
            (void) pthread_cond_wait(&c->given, &c->lock);
            continue;
        }
        c->is_closing = true;
        close_some(c, AT_ONCE);
        c->is_closing = false;
        if (c->n == 0)
            (void) pthread_cond_signal(&c->closed);
    }
    (void) pthread_mutex_unlock(&c->lock);
    return NULL;
}

struct closer *closer_open(void)
{
    struct closer *c = calloc(1, sizeof *c);

    if (!c)
        return NULL;
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
    (void) pthread_cond_destroy(&c->closed);
    (void) pthread_cond_destroy(&c->given);
    (void) pthread_mutex_destroy(&c->lock);
    free(c);
}

void closer_add(struct closer *c, int fd)
{
    if (c->n_kept < KEPT_MAX)
        c->kept[c->n_kept++] = fd;
    else
        (void) close(fd);
}

size_t closer_count(const struct closer *c)
{
    return c->n_kept;
}

static void close_kept(struct closer *c)
{
    close_all(c->kept, c->n_kept);
    c->n_kept = 0;
}

void closer_begin(struct closer *c)
{
    if (!c)
        return;
    c->has_thread = c->has_thread || (c->n_kept >= WORTH && pthread_create(&c->thread, NULL, carry, c) == 0);
    if (c->n_kept < WORTH || !c->has_thread) { /* the port is nobody's: the sooner it is free, the better */
        close_kept(c);
        return;
    }
    (void) pthread_mutex_lock(&c->lock);
    memcpy(c->fds, c->kept, c->n_kept * sizeof *c->fds);
    c->n = c->n_kept;
    c->n_kept = 0;
    (void) pthread_cond_signal(&c->given);
    (void) pthread_mutex_unlock(&c->lock);
}

void closer_end(struct closer *c)
{
    if (!c)
        return;
    close_kept(c);
    if (!c->has_thread)
        return;
    (void) pthread_mutex_lock(&c->lock);
    while (c->n > 0 || c->is_closing) {
        if (c->n > 0)
            close_some(c, KEPT_MAX);
        else
            (void) pthread_cond_wait(&c->closed, &c->lock);
    }
    (void) pthread_mutex_unlock(&c->lock);
}
