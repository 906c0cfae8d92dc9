/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LIB_FALLBACK_H
#define DIBS_LIB_FALLBACK_H
/* Claims ports without the ledger: unnamed random ones, as leases in a small separate ledger, the MRU file
 * (seeds 1.1-1.2, with M1-M7 repaired). A lease there has no token; its port finds it, or it expires. */
#include "lib/connection.h"

/* Return whether the fallback may be used: never instead of a locked, damaged or newer ledger. */
bool fallback_may(const dibs_settings *settings, const dibs_err *why);
/* Return whether the fallback can serve the batch. */
bool fallback_serves(const dibs_batch *batch);
/* Release what the file has, after the ledger answered `ended` and *n. UNAVAILABLE becomes OK when no
 * other claim can be meant: the file had that port, there is no ledger, or it is turned off. */
dibs_status fallback_release(const dibs *handle, const dibs_which *which, unsigned flags, dibs_status ended,
                             size_t *n, dibs_err *err);
dibs_status fallback_claim(const dibs *handle, const dibs_batch *batch, dibs_claim *out, dibs_err *err);
#endif
