/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_CONTROLLER_RECONCILE_H
#define DIBS_KUBE_CONTROLLER_RECONCILE_H
/* Reconcile the ledger with the cluster: confirm the claims of pods, restore lost claims, declare numbers
 * that objects use without a claim, and end unneeded claims.
 *
 * A claim ends only when its lease has expired by our own clock and complete lists that began later, and
 * after the claim became unneeded, show neither a pod that has it nor an object that keeps it. */
#include "dibs/dibs.h"
#include "kube/controller/inventory.h"

struct reconciler;

enum reconcile_finding {
    RECONCILE_DUPLICATE,
    RECONCILE_REPAIRED,
    RECONCILE_OUTSIDE,
    RECONCILE_UNRESOLVED, /* a pod refers to a port that no pod has */
    RECONCILE_UNSIGNED,   /* neither the ledger nor a signature proves that the pod has the port */
    RECONCILE_FINDINGS,
    /* reported, but no errors of ports: */
    RECONCILE_MISSED = RECONCILE_FINDINGS, /* a pod bypassed the webhook */
    RECONCILE_ASSIGNED,                    /* a pod has come, with its ports */
    RECONCILE_REPORTS
};

struct reconcile_options {
    struct ledger *ledger; /* the handle's ledger */
    dibs *handle;          /* opened on the ledger itself; acts for the cluster */
    const dibs_pool *pool; /* borrowed, read at every pass: it may change */
    struct inventory *inventory;
    /* Return whether a complete list of the keeper's kind and of pods began at `since_ms` or later. Keeper
     * NULL: of pods and Services; "": of all. If not, request one. */
    bool (*is_proven)(void *ctx, const char *keeper, int64_t since_ms);
    /* Return whether we may change the ledger: we lead for at least the duration of one ledger call. */
    bool (*may_change)(void *ctx);
    /* Report a problem of an object, or what a pod was assigned. */
    void (*report)(void *ctx, enum reconcile_finding what, const struct inventory_object *object,
                   uint16_t port, const char *text);
    void *ctx;
};

struct reconcile_counts {
    uint64_t n_passes, n_confirmed, n_restored, n_ended, n_errors;
    uint64_t n_findings[RECONCILE_FINDINGS];
    uint64_t n_allocated[2]; /* claims seen for the first time, by kind */
    size_t n_claims;         /* of the cluster */
    size_t n_pending;        /* held by a lease */
    size_t n_unneeded;       /* that will end once proven unneeded */
    uint32_t n_ports;        /* of the pool, with a claim */
    uint32_t n_size;         /* of the pool, in all */
};

dibs_status reconcile_open(const struct reconcile_options *options, struct reconciler **out, dibs_err *err);
void reconcile_close(struct reconciler *reconciler); /* NULL is fine */
/* Compare all claims and objects once. The next pass retries what failed. */
dibs_status reconcile_pass(struct reconciler *reconciler, int64_t now_ms, dibs_err *err);
const struct reconcile_counts *reconcile_count(const struct reconciler *reconciler);
/* Return when the next lease of an unneeded claim expires (clock_monotonic_ms()); 0: none. */
int64_t reconcile_due_ms(const struct reconciler *reconciler);
#endif
