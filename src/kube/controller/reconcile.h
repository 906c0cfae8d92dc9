/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_CONTROLLER_RECONCILE_H
#define DIBS_KUBE_CONTROLLER_RECONCILE_H
/* Reconcile the ledger with the cluster: confirm the claims of pods, restore those that the ledger has lost,
 * declare numbers that objects use without a claim, and end the claims that nothing needs any more.
 *
 * A claim ends only when its lease is over, by our own clock, and complete lists that began after that, and
 * after nobody seemed to need it, show neither a pod that has it nor an object that keeps it. */
#include "dibs/dibs.h"
#include "kube/controller/inventory.h"

/* The principal of numbers that objects use without a claim. No namespace has this name. */
#define RECONCILE_PRINCIPAL "kube:observed"

struct reconciler;

enum reconcile_finding { RECONCILE_DUPLICATE, RECONCILE_REPAIRED, RECONCILE_OUTSIDE, RECONCILE_FINDINGS };

struct reconcile_options {
    struct ledger *ledger; /* that of the handle */
    dibs *handle;          /* on a ledger itself; speaks for the cluster */
    const dibs_pool *pool; /* borrowed, and read at every pass: others may have changed it */
    struct inventory *inventory;
    /* Began a complete list of what keeps such claims at `since_ms` or later? NULL as keeper: of pods and
     * Services alone; "": of all. If not, it is wanted. */
    bool (*is_proven)(void *ctx, const char *keeper, int64_t since_ms);
    /* May the ledger be changed now: are we the only ones, for as long as a call of it lasts? */
    bool (*may_change)(void *ctx);
    /* Something is wrong with an object. */
    void (*report)(void *ctx, enum reconcile_finding what, const struct inventory_object *object,
                   uint16_t port, const char *text);
    void *ctx;
};

struct reconcile_counts {
    uint64_t n_passes, n_confirmed, n_restored, n_ended, n_errors;
    uint64_t n_findings[RECONCILE_FINDINGS];
    uint64_t n_allocated[2]; /* claims that were seen for the first time, by kind */
    size_t n_claims;         /* of the cluster */
    size_t n_pending;        /* under a lease */
    size_t n_unneeded;       /* that will end when that is proven */
    uint32_t n_ports;        /* of the pool with a claim */
    uint32_t n_size;         /* ports of the pool */
};

dibs_status reconcile_open(const struct reconcile_options *options, struct reconciler **out, dibs_err *err);
void reconcile_close(struct reconciler *reconciler); /* NULL is fine */
/* One look at everything. What fails is tried again in the next one. */
dibs_status reconcile_pass(struct reconciler *reconciler, int64_t now_ms, dibs_err *err);
const struct reconcile_counts *reconcile_count(const struct reconciler *reconciler);
/* When a lease is over next that nobody needs (clock_monotonic_ms()); 0: there is none. */
int64_t reconcile_due_ms(const struct reconciler *reconciler);
#endif
