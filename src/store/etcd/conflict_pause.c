/* SPDX-License-Identifier: MIT */
/* The pause before a transaction that follows a conflict with another node's commit. */
#include <unistd.h>

#include "base/jitter.h"
#include "store/etcd/etcd_store.h"

#include "base/banned.h"

enum {
    BACKOFF_FROM = 2, /* conflicts in a row; then wait up to a millisecond, doubled with each up to 32 */
    BACKOFF_US = 250,
    BACKOFF_DOUBLINGS = 7,
};

void etcdstore_back_off(const struct etcd_store *self)
{
    unsigned doublings = self->n_conflicts < BACKOFF_DOUBLINGS ? self->n_conflicts : BACKOFF_DOUBLINGS;

    if (self->n_conflicts >= BACKOFF_FROM)
        (void) usleep(jitter_random() % ((uint32_t) BACKOFF_US << doublings));
}
