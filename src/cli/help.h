/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_HELP_H
#define DIBS_CLI_HELP_H
/* Help, man page and completions from the command table. */
#include "cli/cli.h"

void help_overview(FILE *to);
void help_command(FILE *to, const struct cli_cmd *cmd);
void help_list_commands(FILE *to);

void man_page(FILE *to); /* dibs(1) */
void man_command(FILE *to, const struct cli_cmd *cmd);

/* Print completions of the last of these words of a command line (`dibs complete`). */
void complete_line(struct cli *cli, FILE *to, int n, char *const *words);
/* Print names of the project's claims and of its manifest (complete_names.c); nothing without ledger or
 * manifest. */
void complete_names(struct cli *cli, FILE *to, const char *word);
void complete_roles(struct cli *cli, FILE *to);
bool complete_is_role(struct cli *cli, const char *word);
/* Scripts of share/completions, embedded. */
extern const char complete_bash[], complete_zsh[], complete_fish[];
extern const size_t complete_bash_size, complete_zsh_size, complete_fish_size;
#endif
