/* SPDX-License-Identifier: MIT */
#include "cli/help.h"

#include <string.h>

#include "cli/parse.h"

#include "base/banned.h"

enum { WIDTH = 80, HELP_COLUMN = 26 };

/* Print words from column `column` on, never beyond WIDTH; `at` is the current column of the line. */
static void wrapped(FILE *to, const char *text, int at, int column)
{
    if (at > 0 && at >= column) {
        (void) fputc('\n', to);
        at = 0;
    }
    (void) fprintf(to, "%*s", column - at, "");
    at = column;
    for (const char *p = text; *p;) {
        size_t len = strcspn(p, " ");
        if (at > column && at + 1 + (int) len > WIDTH) {
            (void) fprintf(to, "\n%*s", column, "");
            at = column;
        } else if (at > column) {
            (void) fputc(' ', to);
            at++;
        }
        (void) fprintf(to, "%.*s", (int) len, p);
        at += (int) len;
        p += len;
        p += strspn(p, " ");
    }
    (void) fputc('\n', to);
}

static void print_opt(FILE *to, const struct cli_opt *opt)
{
    char letter[] = "-?, ";

    letter[1] = opt->letter;
    int at = fprintf(to, "  %s--%s%s%s", opt->letter ? letter : "    ", opt->name, opt->arg ? " " : "",
                     opt->arg ? opt->arg : "");
    wrapped(to, opt->help, at, HELP_COLUMN);
}

static void print_globals(FILE *to, bool is_setting)
{
    for (size_t i = 0; cli_global_opts[i].name; i++)
        if ((cli_setting_of(&cli_global_opts[i]) < DIBS_SETTING_COUNT) == is_setting)
            print_opt(to, &cli_global_opts[i]);
}

void help_command(FILE *to, const struct cli_cmd *cmd)
{
    char usage[256];

    (void) snprintf(usage, sizeof usage, "Usage: dibs %s [OPTION]...%s%s", cmd->name, cmd->args[0] ? " " : "",
                    cmd->args);
    wrapped(to, usage, 0, 0);
    (void) fprintf(to, "%s.\n", cmd->summary);
    if (cmd->details && cmd->details[0])
        (void) fprintf(to, "\n%s\n", cmd->details);
    for (size_t i = 0; cmd->opts && cmd->opts[i].name; i++) {
        (void) fputs(i == 0 ? "\nOptions:\n" : "", to);
        print_opt(to, &cmd->opts[i]);
    }
    (void) fputs("\nOptions of every command (settings are in 'dibs --help'):\n", to);
    print_globals(to, false);
    if (!cmd->examples || !cmd->examples[0])
        return;
    (void) fputs("\nExamples:\n", to);
    for (const char *p = cmd->examples; *p;) {
        size_t len = strcspn(p, "\n");
        (void) fprintf(to, "  %.*s\n", (int) len, p);
        p += len + (p[len] == '\n');
    }
}

static void print_group(FILE *to, enum cli_group group)
{
    (void) fprintf(to, "\n%s:\n", cli_groups[group]);
    for (size_t i = 0; cli_commands[i]; i++) {
        if (cli_commands[i]->group != group || cli_commands[i]->flags & CLI_HIDDEN)
            continue;
        int at = fprintf(to, "  %s", cli_commands[i]->name);
        wrapped(to, cli_commands[i]->summary, at, 13);
    }
}

void help_overview(FILE *to)
{
    (void) fputs("Usage: dibs [OPTION]... COMMAND [ARGUMENT]...\n"
                 "Hands out network ports and makes sure that they stay yours.\n",
                 to);
    for (enum cli_group group = CLI_RUN; group < CLI_GROUP_COUNT; group++)
        print_group(to, group);
    (void) fputs("\nOptions:\n", to);
    print_globals(to, false);
    for (size_t i = 0; cli_top_opts[i].name; i++)
        print_opt(to, &cli_top_opts[i]);
    (void) fputs("\nSettings (also in the environment: DIBS_ and the name, as DIBS_LEDGER_MODE):\n", to);
    print_globals(to, true);
    (void) fputs("\nExit codes:\n", to);
#define X(name, value, text) (void) fprintf(to, "  %-4d %s\n", value, text);
    DIBS_STATUS_MAP(X)
#undef X
    (void) fprintf(to, "  %-4d %s\n", CLI_EXIT_OUTPUT, "the answer could not be written");
    (void) fputs("\n'dibs help COMMAND' shows more about a command.\n", to);
}

void help_list_commands(FILE *to)
{
    for (size_t i = 0; cli_commands[i]; i++) {
        if (!(cli_commands[i]->flags & CLI_HIDDEN))
            (void) fprintf(to, "%s\n", cli_commands[i]->name);
    }
}
