/* SPDX-License-Identifier: MIT */
#ifndef DIBS_OPERATOR_TEND_H
#define DIBS_OPERATOR_TEND_H
/* The ledger follows the cluster: what a pod has is confirmed, what a pod has and the ledger does not is
 * written again, what is used by others is declared, and what nobody needs any more ends.
 *
 * A claim ends only when its lease is over, by our own clock, and complete lists that began after that, and
 * after nobody seemed to need it, show neither a pod that has it nor an object that keeps it. */
#include "dibs/dibs.h"
#include "operator/census.h"

/* Whose claims the numbers are that others use. No namespace is called like that. */
#define TEND_PRINCIPAL "kube:observed"

struct tend;

enum tend_complaint { TEND_DUPLICATE, TEND_REPAIRED, TEND_OUTSIDE, TEND_COMPLAINTS };

struct tend_options {
    dibs *handle;          /* on a ledger itself; speaks for the cluster */
    const dibs_pool *pool; /* borrowed, and read at every pass: others may have changed it */
    struct census *census;
    /* Began a complete list of what keeps such claims at `since_ms` or later? NULL as keeper: of pods and
     * Services alone; "": of all. If not, it is wanted. */
    bool (*is_proven)(void *ctx, const char *keeper, int64_t since_ms);
    /* May the ledger be changed now: are we the only ones, for as long as a call of it lasts? */
    bool (*may_change)(void *ctx);
    /* Something is wrong with an object. */
    void (*complain)(void *ctx, enum tend_complaint what, const struct census_object *object, uint16_t port,
                     const char *text);
    void *ctx;
};

struct tend_counts {
    uint64_t n_passes, n_confirmed, n_restored, n_ended, n_errors;
    uint64_t n_complaints[TEND_COMPLAINTS];
    uint64_t n_allocated[2]; /* claims that were seen for the first time, by kind */
    size_t n_claims;         /* of the cluster */
    size_t n_pending;        /* under a lease */
    size_t n_unneeded;       /* that will end when that is proven */
    uint32_t n_ports;        /* of the pool with a claim */
    uint32_t n_size;         /* ports of the pool */
};

dibs_status tend_open(const struct tend_options *options, struct tend **out, dibs_err *err);
void tend_close(struct tend *tend); /* NULL is fine */
/* One look at everything. What fails is tried again in the next one. */
dibs_status tend_pass(struct tend *tend, int64_t now_ms, dibs_err *err);
const struct tend_counts *tend_count(const struct tend *tend);
/* When a lease is over next that nobody needs (clock_monotonic_ms()); 0: there is none. */
int64_t tend_due_ms(const struct tend *tend);
#endif
