/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_SERVE_SERVE_H
#define DIBS_CLI_SERVE_SERVE_H
/* The commands of dibs-serve. */
#include "cli/cli.h"

/* Load the settings again: files and environment may have changed since the start; flags cannot. `ctx` is the
 * struct cli. */
dibs_status serve_load(void *ctx, dibs_settings *out, dibs_err *err);
/* Run `dibs ui`. */
dibs_status serve_ui(struct cli *cli, dibs_err *err);
#endif
