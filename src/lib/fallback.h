/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LIB_FALLBACK_H
#define DIBS_LIB_FALLBACK_H
/* Ports without a ledger: unnamed random ones, from a small file of their own. */
#include "lib/handle.h"

/* Only what DESIGN "Fallback" allows: a ledger that is locked, damaged or newer is never passed over. */
bool fallback_may(const dibs_settings *settings, const dibs_err *why);
/* Is this a batch that can be served so? */
bool fallback_serves(const dibs_batch *batch);
dibs_status fallback_claim(dibs *handle, const dibs_batch *batch, dibs_claim *out, dibs_err *err);
#endif
