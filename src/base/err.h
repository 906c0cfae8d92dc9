/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_ERR_H
#define DIBS_BASE_ERR_H
/* Fill the caller's dibs_err. Messages are made safe for a terminal; call sites only limit foreign text. */
#include "dibs/status.h"

/* Record a failure and return its code, so that a call site reads
 * `return err_set(err, DIBS_TAKEN, ...)`. `err` may be NULL. Keeps errno. */
dibs_status err_set(dibs_err *err, dibs_status code, const char *fmt, ...) DIBS_PRINTF(3, 4);

/* The same for a failed system call: appends the text of `os_errno`. */
dibs_status err_os(dibs_err *err, dibs_status code, int os_errno, const char *fmt, ...) DIBS_PRINTF(4, 5);

/* The same for a ledger that cannot be used: DIBS_UNAVAILABLE with its reason. */
dibs_status err_trouble(dibs_err *err, dibs_trouble why, const char *fmt, ...) DIBS_PRINTF(3, 4);

/* Put context in front of the message of a callee. */
dibs_status err_wrap(dibs_err *err, dibs_status code, const char *fmt, ...) DIBS_PRINTF(3, 4);
#endif
