/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_PARSE_H
#define DIBS_CLI_PARSE_H
/* Parse the command line into a struct cli, by the command table alone. Prints nothing. */
#include "cli/cli.h"

/* Parse and compact `argv`: cli->argv points into it and ends with NULL. cli->cmd is NULL without a command.
 * With --help the number of arguments is not checked. INVALID names the mistake and the nearest name. */
dibs_status cli_parse(struct cli *cli, int argc, char **argv, dibs_err *err);

/* Options without a command: --version and --list-commands. */
extern const struct cli_opt cli_top_opts[];

const struct cli_cmd *cli_find_command(const char *name);
/* Find an option of the command (NULL: without a command) or a global one; NULL: unknown. */
const struct cli_opt *cli_find_option(const struct cli_cmd *cmd, const char *name, size_t len);
const struct cli_opt *cli_find_letter(const struct cli_cmd *cmd, char letter);
/* Set the error of an unknown command. */
dibs_status cli_no_command(const char *name, dibs_err *err);

/* Return the setting of a global option; DIBS_SETTING_COUNT: none. */
dibs_setting cli_setting_of(const struct cli_opt *opt);
/* Collect the settings given as flags; `out` has space for DIBS_SETTING_COUNT. */
size_t cli_flags(const struct cli *cli, dibs_flag out[DIBS_SETTING_COUNT]);
/* Does this command hide the global option with its own? */
bool cli_hides(const struct cli_cmd *cmd, const struct cli_opt *global);
#endif
