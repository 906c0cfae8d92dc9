/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LIB_FALLBACK_H
#define DIBS_LIB_FALLBACK_H
/* Claims ports without the ledger: unnamed random ones, as leases in a small separate ledger, the MRU file
 * (seeds 1.1-1.2, with M1-M7 repaired). Nothing in it is released: the leases expire. */
#include "lib/connection.h"

/* Return whether the fallback may be used: never instead of a locked, damaged or newer ledger. */
bool fallback_may(const dibs_settings *settings, const dibs_err *why);
/* Return whether the fallback can serve the batch. */
bool fallback_serves(const dibs_batch *batch);
dibs_status fallback_claim(const dibs *handle, const dibs_batch *batch, dibs_claim *out, dibs_err *err);
#endif
