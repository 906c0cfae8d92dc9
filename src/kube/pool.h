/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_POOL_H
#define DIBS_KUBE_POOL_H
/* The ledger and the pool that pods' ports come from: the same for all replicas of webhook and controller. */
#include "base/loop.h"
#include "lib/handle.h"
#include "server/ledger_open.h"

#define KUBE_POOL "kube"
/* Clear of NodePorts (30000-32767) and of the ephemeral range (32768-60999). */
enum { KUBE_START_PORT = 20000, KUBE_PORT_RANGE = 10000 };

/* As RBG spells them: texts of flags, NULL when nothing was said. */
struct kube_pool_flags {
    const char *name;       /* of the pool */
    const char *start_port; /* the first port */
    const char *port_range; /* how many */
    const char *strategy;   /* "random", or an order of dibs */
};
/* INVALID: the first port is not from 1 to 65535, there are none, or the last one is above 65535;
 * "unsupported port allocator strategy: X". */
dibs_status kube_pool_parse(const struct kube_pool_flags *flags, dibs_pool *out, dibs_err *err);
/* Make the pool unless it exists; *out is the pool as stored. */
dibs_status kube_pool_open(dibs *handle, bool is_shared, const dibs_pool *wanted, dibs_pool *out,
                           dibs_err *err);

struct kube_ledger_options {
    const dibs_settings *settings; /* the ledger itself is used, never a daemon */
    int64_t call_max_ms;           /* unless the settings say less */
    const char *kind, *listen;     /* node HOST/KIND-PORT of the cluster */
    const char *principal;         /* for which `acting` acts; borrowed */
    struct loop *loop;
    dibs_pool pool;                      /* made if it is missing */
    const struct kube_pool_flags *flags; /* INVALID when the stored pool differs from one of them */
};
struct kube_ledger { /* zero: closed. It does not move while it is open */
    struct server_ledger server;
    dibs acting; /* may make the pool */
    dibs_pool pool;
    struct loop *loop;
    loop_source notices; /* of a shared ledger */
    bool is_changed;     /* since its owner set it to false */
};
/* The caller ends it with kube_ledger_close(), also on failure. */
dibs_status kube_ledger_open(struct kube_ledger *ledger, const struct kube_ledger_options *options,
                             dibs_err *err);
void kube_ledger_close(struct kube_ledger *ledger);
/* Read the pool as it is now: `dibs pool set` may have changed it, and a ledger that was lost has none. */
dibs_status kube_ledger_renew_pool(struct kube_ledger *ledger, dibs_err *err);

/* A ledger that was lost, or is new, does not know what pods have. Record in the pool, for all replicas of
 * the webhook, that a controller has written it all again. */
dibs_status kube_mark_rebuilt(dibs *handle, const char *name, dibs_err *err);
/* UNAVAILABLE: no controller has done so. */
dibs_status kube_check_rebuilt(dibs *handle, const char *name, dibs_err *err);
#endif
