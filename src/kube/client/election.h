/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_CLIENT_ELECTION_H
#define DIBS_KUBE_CLIENT_ELECTION_H
/* One leader among several processes, by a Lease object (coordination.k8s.io/v1), as Kubernetes' own
 * controllers do it and in the same fields, so that `kubectl get lease` shows the leader.
 *
 * Clocks are never compared: a lease of somebody else has ended when it has not changed for its duration by
 * our own clock, or when its holder is known to be dead. A leader counts on it from the moment at which
 * it *sent* the renewal that was answered, so it stops before others can begin. */
#include "kube/client/kubeapi.h"

enum {
    ELECTION_DURATION_MS = 15000, /* what others wait for when we say nothing more */
    ELECTION_RETRY_MS = 2000,     /* how often it is renewed, or looked at */
};

struct election;

struct election_self {
    const char *identity;
    /* Is the process of that identity dead for certain? Then its lease need not end first. NULL: not known.
     */
    bool (*is_dead)(void *ctx, const char *identity);
    void *ctx;
};

/* `name` and `self->identity` are copied. */
dibs_status election_open(struct kubeapi *api, const char *ns, const char *name,
                          const struct election_self *self, struct election **out, dibs_err *err);
void election_close(struct election *election); /* NULL is fine; nothing is given back */
void election_turn(struct election *election, int64_t now_ms);
int64_t election_next_ms(const struct election *election, int64_t now_ms);
/* For how long from `now_ms` on (clock_monotonic_ms()) nobody else leads; 0: that is not certain. */
int64_t election_margin_ms(const struct election *election, int64_t now_ms);
/* The identity of the leader, as far as we know; "": none. */
const char *election_holder(const struct election *election);
/* Why it could not be asked for, the last time; "": it could. */
const char *election_trouble(const struct election *election);
/* Give the Lease up. True while that is under way. */
bool election_resign(struct election *election);
#endif
