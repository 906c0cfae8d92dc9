/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_FILE_H
#define DIBS_CLI_FILE_H
/* Read and write files that the user names. */
#include <stdbool.h>
#include <stddef.h>

#include "dibs/status.h"

/* Read a whole file (stdin for "-") and add a NUL. INVALID: above DIBS_INPUT_MAX_BYTES. Caller frees *out. */
dibs_status cli_input_read(const char *path, char **out, size_t *len, dibs_err *err);
/* Return the path for messages: "standard input" for "-". */
const char *cli_input_name(const char *path);

/* Write all bytes. Return false with errno on failure. */
bool cli_write_all(int fd, const void *bytes, size_t n);
/* Write a file whole or not at all: to a temporary file, synced, then renamed. A link stays a link; a device
 * or pipe is written directly. `is_private`: mode 0600; otherwise an existing file keeps its mode, and a new
 * one gets the umask's. */
dibs_status cli_output_save(const char *path, const char *text, size_t len, bool is_private, dibs_err *err);
#endif
