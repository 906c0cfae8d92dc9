/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_SECRET_H
#define DIBS_BASE_SECRET_H
/* Files that hold secrets, and certificates. */
#include "base/bytes.h"
#include "dibs/status.h"

/* Read a whole regular file that is ours or root's, and that others can neither read nor write (DENIED).
 * `what` names it in messages ("tokens file"). The caller ends `out` with secret_done(). */
dibs_status secret_read(const char *what, const char *path, size_t max_bytes, struct bytes *out,
                        dibs_err *err);
/* Read a whole regular file of any owner, NUL-terminated; the caller frees *out. INVALID otherwise. */
dibs_status file_read_text(const char *what, const char *path, size_t max_bytes, char **out, dibs_err *err);
void secret_free(char *text);           /* overwrites it first; NULL is fine */
void secret_done(struct bytes *secret); /* overwrites the bytes before it frees them */
#endif
