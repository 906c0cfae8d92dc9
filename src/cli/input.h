/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_INPUT_H
#define DIBS_CLI_INPUT_H
/* Reading what people hand over: a file or standard input, and numbers. */
#include <stddef.h>
#include <stdint.h>

#include "dibs/status.h"

/* The whole of a file, or of stdin for "-", with a NUL behind it; INVALID when it is larger than
 * DIBS_INPUT_MAX_BYTES. The caller frees *out. */
dibs_status cli_input_read(const char *path, char **out, size_t *len, dibs_err *err);

/* Decimal digits only, `least` to `most`. `what` names it in the message. */
dibs_status cli_number_parse(const char *what, const char *text, int64_t least, int64_t most, int64_t *out,
                             dibs_err *err);
#endif
