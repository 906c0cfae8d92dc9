/* SPDX-License-Identifier: MIT */
/* Old versions of what is in etcd. Each commit leaves some, and at a thousand commits a second they fill its
 * quota within minutes, after which nothing can be written at all.
 *
 * One host at a time has them forgotten, the one whose lease is the oldest: all know it without asking. What
 * is forgotten is far enough behind that nobody misses it (LEDGER_TEND_MS): a watch that was cut off for
 * longer reads everything anew, which it can. And nothing is forgotten while there is plenty of room, for the
 * cluster may be others', too, and who lets etcd compact by itself decides how much history there is. */
#include "base/clock.h"
#include "ledger/etcd_store.h"

#include "base/banned.h"

enum { LOOK_MOST_MS = 1000 }; /* to ask; the daemon waits for it */

/* Is nobody here for longer than this host? */
static bool is_eldest(const struct etcd_rows *self)
{
    struct ledger_lease mine;

    store_lease_state(self, &mine);
    for (size_t i = 0; i < self->n_nodes; i++)
        if (self->nodes[i].incarnation != 0 && self->nodes[i].incarnation < mine.incarnation)
            return false;
    return mine.margin_ms > 0;
}

static bool look(struct etcd_rows *self, struct etcd_call *call, struct etcd_status *out)
{
    for (size_t i = 0; i < self->config.n_origins; i++)
        if (etcd_status(self->etcd, call, i, out, NULL) == DIBS_OK)
            return true;
    return false;
}

void store_tend(struct etcd_rows *self, int64_t plenty_bytes)
{
    struct etcd_call call = { .deadline_ms = clock_monotonic_ms() + LOOK_MOST_MS };
    struct etcd_status status = { 0 };
    int64_t old = self->tended_revision;

    self->tended_revision = 0;
    if (!self->is_loaded || self->silent_ms != 0 || !is_eldest(self) || !look(self, &call, &status))
        return; /* what was noted is not used: it is another host's turn, or there are other worries */
    self->tended_revision = status.revision;
    /* Should it fail, it is as right the next time. */
    if (old > 0 && status.db_used_bytes > plenty_bytes)
        self->traffic.n_compactions += etcd_compact(self->etcd, &call, old, NULL) == DIBS_OK;
}
