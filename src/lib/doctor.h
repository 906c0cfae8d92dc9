/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LIB_DOCTOR_H
#define DIBS_LIB_DOCTOR_H
/* The state of one run of `dibs doctor`, which its checks share. */
#include "core/core.h"

struct doctor {
    const dibs_settings *settings;
    bool fix;
    dibs_finding_fn fn;
    void *ctx;
    bool is_stopped;
    struct core *core;
    struct call call;
    size_t n_unknown, n_dead, n_orphan, n_claims, n_flawed;
    size_t n_pods, n_pending; /* of Kubernetes */
};

/* Report a finding; `advice` is ignored when all is fine. */
void doctor_say(struct doctor *d, dibs_severity severity, const char *topic, const char *advice,
                const char *fmt, ...) DIBS_PRINTF(5, 6);

/* Check the cluster (doctor_cluster.c); nothing for a ledger of one host. */
void doctor_check_cluster(struct doctor *d);

/* Report which levels of holding this host can give. */
void doctor_hold(struct doctor *d);

void doctor_check_host(struct doctor *d);
void doctor_check_pools(struct doctor *d);
/* Claim the ports of all pools on which there are sockets, for the processes of these. */
void doctor_claim_sockets(struct doctor *d);
/* Report the pool that the settings choose; `s` and `err` are the result of its lookup. */
void doctor_tell_choice(struct doctor *d, dibs_status s, const dibs_err *err);
/* Return whether settings override a pool of the cluster, so that hosts choose differently; see `out`. */
bool pool_is_overruled(const struct core *core, const struct call *call, const dibs_pool *stored, char *out,
                       size_t size);
#endif
