/* SPDX-License-Identifier: MIT */
#ifndef DIBS_OPERATOR_FIGURES_H
#define DIBS_OPERATOR_FIGURES_H
/* What a webhook tells of itself, in Prometheus' text form; its pool also by the names of KEP-3668. */
#include <stdint.h>

#include "base/bytes.h"
#include "operator/asking.h"
#include "operator/office.h"

enum figures_outcome {
    FIGURES_PASSED,  /* it asked for nothing */
    FIGURES_CLAIMED, /* it has its ports */
    FIGURES_REFUSED,
    FIGURES_UNAVAILABLE, /* refused, because the ledger had no answer */
    FIGURES_BAD,         /* no review */
};
enum { FIGURES_OUTCOMES = FIGURES_BAD + 1, FIGURES_BUCKETS = 8 };

struct figures {
    uint64_t bucket[FIGURES_OUTCOMES][FIGURES_BUCKETS]; /* reviews by how long they took */
    uint64_t us[FIGURES_OUTCOMES];
    uint64_t ports[DIBS_STATIC + 1], errors[DIBS_STATIC + 1]; /* by kind: claimed, and asked for in vain */
};

/* `asking` may be NULL. */
void figures_note(struct figures *figures, enum figures_outcome outcome, const struct asking *asking,
                  int64_t us);
void figures_write(const struct figures *figures, struct office *office, struct bytes *out);
#endif
