/* SPDX-License-Identifier: MIT */
#include "kernel/ahead.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "net/portbits.h"

#include "base/banned.h"

enum {
    ASKED_MAX = 64,
    WORTH = 4 /* to wake a thread takes as long as to try some */
};

struct ahead {
    bool (*is_free)(uint16_t port);
    bool has_thread; /* from the first time that it is worth one */
    int away_from;   /* the core that the thread keeps off; -1: none */
    pthread_t thread;
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t asked, tried;
    uint16_t port[ASKED_MAX]; /* in turn */
    size_t first, n;
    struct portbits free;
    bool is_trying, is_ending;
};

static void *carry(void *arg)
{
    struct ahead *a = arg;

    (void) pthread_mutex_lock(&a->lock);
    while (!a->is_ending) {
        if (a->n == 0) {
            (void) pthread_cond_wait(&a->asked, &a->lock);
            continue;
        }
        uint16_t port = a->port[a->first];
        a->first = (a->first + 1) % ASKED_MAX;
        a->n--;
        a->is_trying = true;
        (void) pthread_mutex_unlock(&a->lock);
        bool is_free = a->is_free(port);
        (void) pthread_mutex_lock(&a->lock);
        a->is_trying = false;
        if (is_free)
            portbits_add(&a->free, port);
        (void) pthread_cond_signal(&a->tried);
    }
    (void) pthread_mutex_unlock(&a->lock);
    return NULL;
}

struct ahead *ahead_open(bool (*is_free)(uint16_t port))
{
    struct ahead *a = calloc(1, sizeof *a);

    if (!a)
        return NULL;
    a->is_free = is_free;
    a->away_from = -1;
    (void) pthread_mutex_init(&a->lock, NULL);
    (void) pthread_cond_init(&a->asked, NULL);
    (void) pthread_cond_init(&a->tried, NULL);
    return a;
}

void ahead_close(struct ahead *a)
{
    if (!a)
        return;
    if (a->has_thread) {
        (void) pthread_mutex_lock(&a->lock);
        a->is_ending = true;
        (void) pthread_cond_signal(&a->asked);
        (void) pthread_mutex_unlock(&a->lock);
        (void) pthread_join(a->thread, NULL);
    }
    (void) pthread_cond_destroy(&a->tried);
    (void) pthread_cond_destroy(&a->asked);
    (void) pthread_mutex_destroy(&a->lock);
    free(a);
}

/* In a virtual machine an idle core looks like one that its host has taken away: the kernel would wake the
 * thread on the caller's core, which then waits for it. */
static void keep_off(struct ahead *a)
{
    int here = sched_getcpu();
    cpu_set_t others;

    if (here < 0 || here == a->away_from || sched_getaffinity(0, sizeof others, &others) != 0)
        return;
    a->away_from = here;
    CPU_CLR((size_t) here, &others);
    if (CPU_COUNT(&others) > 0)
        (void) pthread_setaffinity_np(a->thread, sizeof others, &others);
}

void ahead_begin(struct ahead *a)
{
    if (!a || !a->has_thread)
        return;
    (void) pthread_mutex_lock(&a->lock);
    memset(&a->free, 0, sizeof a->free);
    (void) pthread_mutex_unlock(&a->lock);
}

void ahead_ask(struct ahead *a, const uint16_t *ports, size_t n)
{
    if (!a || n < WORTH)
        return;
    a->has_thread = a->has_thread || pthread_create(&a->thread, NULL, carry, a) == 0;
    if (!a->has_thread)
        return;
    keep_off(a);
    (void) pthread_mutex_lock(&a->lock);
    for (size_t i = 0; i < n && a->n < ASKED_MAX; i++)
        if (!portbits_has(&a->free, ports[i]))
            a->port[(a->first + a->n++) % ASKED_MAX] = ports[i];
    (void) pthread_mutex_unlock(&a->lock);
    (void) pthread_cond_signal(&a->asked);
}

bool ahead_is_free(struct ahead *a, uint16_t port)
{
    if (!a || !a->has_thread)
        return false;
    (void) pthread_mutex_lock(&a->lock);
    bool is_free = portbits_has(&a->free, port);
    /* The thread need not come to what the caller tries now, nor to what lies before it. */
    size_t i = 0;
    while (!is_free && i < a->n && a->port[(a->first + i) % ASKED_MAX] != port)
        i++;
    if (!is_free && i < a->n) {
        a->first = (a->first + i + 1) % ASKED_MAX;
        a->n -= i + 1;
    }
    (void) pthread_mutex_unlock(&a->lock);
    return is_free;
}

void ahead_end(struct ahead *a)
{
    if (!a || !a->has_thread)
        return;
    (void) pthread_mutex_lock(&a->lock);
    a->n = 0;
    while (a->is_trying)
        (void) pthread_cond_wait(&a->tried, &a->lock);
    (void) pthread_mutex_unlock(&a->lock);
}
