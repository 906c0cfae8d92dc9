/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_HELP_H
#define DIBS_CLI_HELP_H
/* Help, man page and completions, all made from the command table. */
#include "cli/cli.h"

void help_overview(FILE *to);
void help_command(FILE *to, const struct cli_cmd *cmd);
void help_list_commands(FILE *to);

void man_page(FILE *to);

/* Print what the last of these words of a command line can be (`dibs complete`). */
void complete_line(FILE *to, int n, char *const *words);
void complete_bash(FILE *to);
void complete_zsh(FILE *to);
void complete_fish(FILE *to);
#endif
