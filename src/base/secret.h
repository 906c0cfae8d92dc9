/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_SECRET_H
#define DIBS_BASE_SECRET_H
/* Files that hold secrets, and certificates. */
#include "base/bytes.h"
#include "dibs/status.h"

/* Read a whole regular file that belongs to us or root and that others can neither read nor write: a reader
 * could impersonate any user in it, a writer could add one. `what` names the file in messages ("tokens
 * file"). DENIED by its owner or mode, INVALID for anything else. The caller ends `out` with secret_done().
 */
dibs_status secret_read(const char *what, const char *path, size_t max_bytes, struct bytes *out,
                        dibs_err *err);
/* Read a whole regular file that may be anybody's, NUL-terminated. The caller frees *out. INVALID: it cannot
 * be read, or has more bytes. */
dibs_status file_read_text(const char *what, const char *path, size_t max_bytes, char **out, dibs_err *err);
void secret_free(char *text);           /* overwrites it first; NULL is fine */
void secret_done(struct bytes *secret); /* overwrites the bytes before it frees them */
#endif
