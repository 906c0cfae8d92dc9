/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_HELP_H
#define DIBS_CLI_HELP_H
/* Everything that the table says of itself: help, man page, completions. */
#include "cli/cli.h"

void help_overview(FILE *to);
void help_command(FILE *to, const struct cli_cmd *cmd);
void help_list_commands(FILE *to);

void man_page(FILE *to);

void complete_bash(FILE *to);
void complete_zsh(FILE *to);
void complete_fish(FILE *to);
#endif
