/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LEDGER_CLAIM_INTERNAL_H
#define DIBS_LEDGER_CLAIM_INTERNAL_H
/* One claim decision under way: named.c settles the names, claim.c the ports. */
#include "ledger/step.h"

struct claiming {
    struct step *step;
    const struct ledger_batch *batch;
    struct ledger_refusal *refusal;
    dibs_err *err;
};

/* Judged to be dead beforehand, and still as it was then. */
bool claiming_is_dead(const struct ledger_batch *batch, const dibs_claim *claim);
/* Asks the kernel; a busy port is noted in the refusal. */
dibs_status claiming_probe(struct claiming *k, const struct ledger_want *want, uint16_t port, bool *is_free);
/* The claim that the want's name has. *is_done false: the name is free now, go on to the candidates. */
dibs_status claiming_by_name(struct claiming *k, const struct ledger_want *want, dibs_claim *out,
                             bool *is_done);
/* End the batch's drops, or leave them to their holders (end.c). TAKEN: one that is shared is in use. */
dibs_status claiming_drop(struct claiming *k);
void claiming_answer(const struct claim_record *row, bool was_there, dibs_claim *out);
#endif
