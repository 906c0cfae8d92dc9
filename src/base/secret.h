/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_SECRET_H
#define DIBS_BASE_SECRET_H
/* Read files with secrets or certificates. */
#include "base/bytes.h"
#include "dibs/status.h"

/* Read a regular file that belongs to us or root, and that other users can neither read nor write (DENIED).
 * `what` names it in messages ("tokens file"). The caller ends `out` with secret_done(). */
dibs_status secret_read(const char *what, const char *path, size_t max_bytes, struct bytes *out,
                        dibs_err *err);
/* Read a regular file of any owner, NUL-terminated; the caller frees *out. INVALID otherwise. */
dibs_status file_read_text(const char *what, const char *path, size_t max_bytes, char **out, dibs_err *err);
void secret_free(char *text);           /* overwrites the text first; NULL is fine */
void secret_done(struct bytes *secret); /* overwrites the bytes first */
#endif
