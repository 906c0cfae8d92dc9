/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_OUTPUT_H
#define DIBS_CLI_OUTPUT_H
/* Writing files for people. */
#include <stdbool.h>
#include <stddef.h>

#include "dibs/status.h"

/* The file is there whole or not at all: written beside its place, synced, then renamed. A link stays a link,
 * and a device or pipe is written to. `is_private`: 0600; otherwise a file that is there keeps its mode, and
 * a new one has what the umask leaves. */
dibs_status cli_output_save(const char *path, const char *text, size_t len, bool is_private, dibs_err *err);
#endif
