/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOLD_ENFORCED_MARK_H
#define DIBS_HOLD_ENFORCED_MARK_H
/* The lock LEDGER-enforced beside a ledger's file, which the daemon has that enforces its claims. There is
 * one such daemon at most: each knows only the cgroups of the commands that it was asked for. */
#include <stdbool.h>

#include "dibs/dibs.h"

/* Lock the file for as long as *fd is open. `ledger` is its URI; that of no file has no lock, and *fd is -1.
 * `is_persistent`: the claims stay enforced without a daemon. TAKEN: another daemon has the lock. */
dibs_status enforced_mark_take(const char *ledger, bool is_persistent, int *fd, dibs_err *err);

/* Does the kernel enforce the claims of this ledger now? True where that cannot be seen from here. */
bool enforced_mark_is_taken(const char *ledger);
#endif
