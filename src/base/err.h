/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_ERR_H
#define DIBS_BASE_ERR_H
/* Filling the caller's dibs_err. A message is made safe for a terminal here, whatever text is put into it; a
 * call site only bounds the length of foreign text, as "%.80s". */
#include "dibs/status.h"

/* Record a failure and return its code, so that a call site reads
 * `return err_set(err, DIBS_TAKEN, ...)`. `err` may be NULL. Keeps errno. */
dibs_status err_set(dibs_err *err, dibs_status code, const char *fmt, ...) DIBS_PRINTF(3, 4);

/* The same for a failed system call: appends what `os_errno` means. */
dibs_status err_os(dibs_err *err, dibs_status code, int os_errno, const char *fmt, ...) DIBS_PRINTF(4, 5);

/* The same for a ledger that cannot be used: DIBS_UNAVAILABLE with its reason. */
dibs_status err_trouble(dibs_err *err, dibs_trouble why, const char *fmt, ...) DIBS_PRINTF(3, 4);

/* Put context in front of a message that a callee has set. */
dibs_status err_wrap(dibs_err *err, dibs_status code, const char *fmt, ...) DIBS_PRINTF(3, 4);
#endif
