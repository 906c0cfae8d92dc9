/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_POOL_H
#define DIBS_KUBE_POOL_H
/* The ledger and the pool of pods' ports, shared by all replicas of webhook and controller. */
#include "base/loop.h"
#include "kube/install/installation.h"
#include "lib/handle.h"
#include "server/ledger_open.h"

#define KUBE_POOL "kube"
/* Outside the NodePorts (30000-32767) and the ephemeral range (32768-60999). */
enum { KUBE_START_PORT = 20000, KUBE_PORT_RANGE = 10000 };

/* Texts of the flags, named as in RBG; NULL: not given. */
struct kube_pool_flags {
    const char *name;       /* of the pool */
    const char *start_port; /* the first port */
    const char *port_range; /* number of ports */
    const char *strategy;   /* "random", or an order of dibs */
};
/* Build a pool from the flags. INVALID: the first port or the number of ports is out of range, the last
 * port is above 65535, or "unsupported port allocator strategy: X". */
dibs_status kube_pool_parse(const struct kube_pool_flags *flags, dibs_pool *out, dibs_err *err);
/* Create the pool unless it exists; *out is the pool as stored. */
dibs_status kube_pool_open(dibs *handle, bool is_shared, const dibs_pool *wanted, dibs_pool *out,
                           dibs_err *err);

struct kube_ledger_options {
    const dibs_settings *settings; /* opens the ledger itself, never a daemon */
    int64_t call_max_ms;           /* upper bound for the settings' deadline */
    const char *kind, *listen;     /* for the node's name, HOST/KIND-PORT */
    const char *principal;         /* for which `acting` acts; borrowed */
    struct loop *loop;
    const struct installation *installation; /* TAKEN when the ledger serves another one */
    dibs_pool pool;                          /* created if missing */
    const struct kube_pool_flags *flags;     /* INVALID when the stored pool differs from one of them */
};
struct kube_ledger { /* zero: closed. Must not move while it is open */
    struct server_ledger server;
    dibs acting; /* with the right to create the pool */
    dibs_pool pool;
    struct loop *loop;
    loop_source notices; /* change notices of a shared ledger */
    bool is_changed;     /* since its owner last cleared it */
};
/* Open the ledger. The caller closes it with kube_ledger_close(), also on failure. */
dibs_status kube_ledger_open(struct kube_ledger *ledger, const struct kube_ledger_options *options,
                             dibs_err *err);
/* Record which installation and cluster (the uid of kube-system; "": not known) the ledger serves. TAKEN: it
 * serves another one. */
dibs_status kube_ledger_serve(struct kube_ledger *ledger, const struct installation *installation,
                              const char *cluster, dibs_err *err);
void kube_ledger_close(struct kube_ledger *ledger);
/* Reread the pool: `dibs pool set` may have changed it, and a lost ledger has none. */
dibs_status kube_ledger_renew_pool(struct kube_ledger *ledger, dibs_err *err);

/* Record in the pool, for all replicas of the webhook, that a controller has rebuilt the ledger. A new or
 * lost ledger does not have the claims of existing pods. */
dibs_status kube_mark_rebuilt(dibs *handle, const char *name, dibs_err *err);
/* Return UNAVAILABLE when the ledger lacks the pool, or no controller has rebuilt it where that is needed. */
dibs_status kube_check_pool(dibs *handle, const char *name, bool needs_rebuilt, dibs_err *err);
#endif
