/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_OBSERVED_H
#define DIBS_CLI_OBSERVED_H
/* A list of ports in use, for `dibs repair --observed`.
 *
 * Text: a line is `PROTO ADDRESS PORT [NAME]`, or `PORT [NAME]` for tcp on "*"; blank lines and comments (a
 * field that starts with '#') are skipped. Or a JSON array of objects with "port" and optional "proto",
 * "address" and "name". Names are absolute. `localhost` gives two entries. */
#include <stddef.h>

#include "dibs/dibs.h"

/* Parse the whole text or nothing: INVALID names the line (or array item) of the first error. The caller
 * frees *out, which is NULL for an empty list. */
dibs_status cli_observed_parse(const char *text, size_t len, dibs_observed **out, size_t *n, dibs_err *err);
#endif
