/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LIB_HELD_H
#define DIBS_LIB_HELD_H
/* Claims with their level of holding, on the ledger itself. */
#include "lib/connection.h"

/* As core_claim(), and give each claim its level: as a whole or not at all. */
dibs_status held_claim(dibs *handle, const dibs_batch *batch, dibs_claim *out, dibs_err *err);
/* Drop the guards of claims that have ended. */
void held_settle(const dibs *handle);
/* Does a request ask for a level that needs the ledger? */
bool held_is_asked(const dibs_batch *batch);
#endif
