/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CORE_REQUEST_H
#define DIBS_CORE_REQUEST_H
/* Checks a request, and turns it into a want of the ledger. */
#include "core/candidate.h"

struct ask {
    const dibs_request *request;
    const struct candidate_source *source; /* borrowed from the attempt */
    bool is_noop;                          /* port 0: creates nothing (D8) */
    bool is_choice;                        /* dibs chooses: random mode, or the preferred port was given up */
    bool is_narrowed;
    bool has_claim;   /* its name had a claim at the lookup, and keeps it */
    bool is_in_run;   /* one of several wants with adjacent ports */
    size_t run_first; /* index of the first want of that run */
};

/* Check everything that needs no ledger, and fill want->claim except its pool. */
dibs_status request_prepare(struct core *core, const struct call *call, const dibs_request *request,
                            struct ask *ask, struct ledger_want *want, dibs_err *err);
/* INVALID: two wants of the batch have the same name. */
dibs_status request_names_differ(const struct ledger_want *wants, size_t n, dibs_err *err);
/* Set the fields that depend on whether dibs chooses: the kind, and the single candidate of a given port. */
void request_set_choice(struct ask *ask, struct ledger_want *want, bool is_choice);
#endif
