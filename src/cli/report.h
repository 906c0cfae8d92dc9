/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_REPORT_H
#define DIBS_CLI_REPORT_H
#include "cli/cli.h"

/* One line on stderr: text for people, with --json an object. */
void report_error(const struct cli *cli, int exit_code, const dibs_err *err);
#endif
