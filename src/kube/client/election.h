/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_CLIENT_ELECTION_H
#define DIBS_KUBE_CLIENT_ELECTION_H
/* Leader election among several processes with a Lease object (coordination.k8s.io/v1). It uses the fields
 * of Kubernetes' own controllers, so `kubectl get lease` shows the leader.
 *
 * Clocks of two machines are never compared: another holder's lease has expired when it has not changed for
 * its duration by our own clock, or when its holder is known to be dead. A leader counts its lease from the
 * moment at which it *sent* the renewal, so it stops before another process can start. */
#include "kube/client/kubeapi.h"

enum {
    ELECTION_DURATION_MS = 15000, /* after a silence of this length another process takes over */
    ELECTION_RETRY_MS = 2000,     /* interval of renewals and reads */
};

struct election;

struct election_self {
    const char *identity;
    /* Return whether that process is certainly dead, so its lease need not expire. NULL: never. */
    bool (*is_dead)(void *ctx, const char *identity);
    void *ctx;
};

/* `name` and `self->identity` are copied. */
dibs_status election_open(struct kubeapi *api, const char *ns, const char *name,
                          const struct election_self *self, struct election **out, dibs_err *err);
void election_close(struct election *election); /* NULL is fine; does not release the Lease */
void election_turn(struct election *election, int64_t now_ms);
int64_t election_next_ms(const struct election *election, int64_t now_ms);
/* Return for how long from `now_ms` (clock_monotonic_ms()) on no other process can lead; 0: unknown. */
int64_t election_margin_ms(const struct election *election, int64_t now_ms);
/* Return the last known identity of the leader; "": none. */
const char *election_holder(const struct election *election);
/* Return why the last call about the Lease failed; "": it succeeded, or another process changed it first. */
const char *election_trouble(const struct election *election);
/* Return why we do not lead any more. */
const char *election_loss(const struct election *election);
/* Release the Lease. Return true while that is under way. */
bool election_resign(struct election *election);
#endif
