/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_RUN_PROCFILE_H
#define DIBS_CLI_RUN_PROCFILE_H
/* The manifest as a Procfile: "web: cd app && exec env PORT=20001 npm start". */
#include "cli/cli.h"

/* Print a line for each pod that has a command, with its claimed ports. INVALID: a command has several lines,
 * which a Procfile cannot contain, or there is none. */
dibs_status cli_print_procfile(struct cli *cli, dibs_err *err);
#endif
