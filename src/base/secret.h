/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_SECRET_H
#define DIBS_BASE_SECRET_H
/* A file with secrets in it. */
#include "base/bytes.h"
#include "dibs/status.h"

/* The whole of a regular file that is ours or root's and that others can neither read nor write: who can read
 * it can be anybody in it, who can write it can make himself anybody. `what` says which file it is ("tokens
 * file"). DENIED by its owner or mode, INVALID for anything else. The caller ends `out` with secret_done().
 */
dibs_status secret_read(const char *what, const char *path, size_t max_bytes, struct bytes *out,
                        dibs_err *err);
void secret_done(struct bytes *secret); /* leaves nothing of it in memory */
#endif
