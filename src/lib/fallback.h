/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LIB_FALLBACK_H
#define DIBS_LIB_FALLBACK_H
/* Claim ports without the ledger: unnamed random ones, as leases in a small ledger of their own, the MRU file
 * (seeds 1.1-1.2, with M1-M7 repaired). Nothing in it is released: the leases expire. */
#include "lib/connection.h"

/* May the fallback stand in? A ledger that is locked, damaged or newer is never passed over. */
bool fallback_may(const dibs_settings *settings, const dibs_err *why);
/* Is this a batch that can be served so? */
bool fallback_serves(const dibs_batch *batch);
dibs_status fallback_claim(const dibs *handle, const dibs_batch *batch, dibs_claim *out, dibs_err *err);
#endif
