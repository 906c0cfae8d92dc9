/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_OBSERVED_H
#define DIBS_CLI_OBSERVED_H
/* A list of ports in use, as an observer writes it for `dibs repair --observed`.
 *
 * Text: a line is `PROTO ADDRESS PORT [NAME]`, or `PORT [NAME]` for tcp on "*"; blank lines and
 * what follows a '#' at the start of a field are skipped. Or a JSON array of objects with "port"
 * and, if wanted, "proto", "address" and "name". Names are absolute, with or without the leading
 * slash. `localhost` gives two entries. */
#include <stddef.h>

#include "dibs/dibs.h"

/* The whole text or nothing: INVALID names the line (or array item) of the first fault. The caller
 * frees *out, which is NULL for an empty list. */
dibs_status cli_observed_parse(const char *text, size_t len, dibs_observed **out, size_t *n, dibs_err *err);
#endif
