/* SPDX-License-Identifier: MIT */
/* Write dibs(1), and a page for each command, with the man macros, from the command table. */
#include <ctype.h>
#include <string.h>

#include "cli/help.h"
#include "cli/parse.h"

#include "base/banned.h"

/* Escape a text so that roff prints it unchanged. */
static void roff(FILE *to, const char *text, size_t len)
{
    bool is_line_start = true;

    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (is_line_start && (c == '.' || c == '\''))
            (void) fputs("\\&", to);
        if (c == '\\')
            (void) fputs("\\e", to);
        else if (c == '-')
            (void) fputs("\\-", to);
        else if (c == '\'')
            (void) fputs("\\(aq", to);
        else if (c == '^' || c == '~' || c == '`')
            (void) fprintf(to, "\\(%s", c == '^' ? "ha" : c == '~' ? "ti" : "ga");
        else
            (void) fputc(c, to);
        is_line_start = c == '\n';
    }
}

static size_t line_len(const char *p)
{
    return strcspn(p, "\n");
}

static void line(FILE *to, const char *text)
{
    roff(to, text, line_len(text));
    (void) fputc('\n', to);
}

/* Print paragraphs: they are filled, except lines that begin with a blank. */
static void paragraphs(FILE *to, const char *text)
{
    bool is_kept = false;

    for (const char *p = text; *p;) {
        size_t len = line_len(p);
        bool keeps = p[0] == ' ';
        if (keeps != is_kept)
            (void) fputs(keeps ? ".nf\n" : ".fi\n", to);
        is_kept = keeps;
        if (!len)
            (void) fputs(".PP\n", to);
        else
            line(to, p);
        p += len + (p[len] == '\n');
    }
    if (is_kept)
        (void) fputs(".fi\n", to);
}

static void option(FILE *to, const struct cli_opt *opt)
{
    (void) fputs(".TP\n", to);
    if (opt->letter)
        (void) fprintf(to, "\\fB\\-%c\\fR, ", opt->letter);
    (void) fputs("\\fB\\-\\-", to);
    roff(to, opt->name, line_len(opt->name));
    (void) fputs("\\fR", to);
    if (opt->arg) {
        (void) fputs(" \\fI", to);
        roff(to, opt->arg, line_len(opt->arg));
        (void) fputs("\\fR", to);
    }
    (void) fputc('\n', to);
    line(to, opt->help);
}

/* Write the head of a page: `command` NULL is that of dibs(1). */
static void head(FILE *to, const char *command, const char *summary)
{
    char title[32] = "";

    for (size_t i = 0; command && command[i] && i + 1 < sizeof title; i++)
        title[i] = (char) toupper((unsigned char) command[i]);
    (void) fprintf(to, ".TH DIBS%s%s 1 \"%s\" \"dibs %s\" \"User Commands\"\n.SH NAME\ndibs%s%s \\- ",
                   command ? "\\-" : "", title, DIBS_REVISED, dibs_version(), command ? "\\-" : "",
                   command ? command : "");
    (void) fputc(tolower((unsigned char) summary[0]), to);
    line(to, summary + 1);
}

static void examples(FILE *to, const struct cli_cmd *cmd)
{
    if (!cmd->examples || !cmd->examples[0])
        return;
    (void) fputs(".SH EXAMPLES\n.nf\n", to);
    for (const char *p = cmd->examples; *p; p += line_len(p) + (p[line_len(p)] == '\n'))
        line(to, p);
    (void) fputs(".fi\n", to);
}

void man_command(FILE *to, const struct cli_cmd *cmd)
{
    head(to, cmd->name, cmd->summary);
    (void) fprintf(to, ".SH SYNOPSIS\n.B dibs %s\n[\\fIOPTION\\fR]...\n", cmd->name);
    if (cmd->args[0])
        line(to, cmd->args);
    (void) fputs(".SH DESCRIPTION\n", to);
    roff(to, cmd->summary, line_len(cmd->summary));
    (void) fputs(".\n", to);
    if (cmd->details && cmd->details[0]) {
        (void) fputs(".PP\n", to);
        paragraphs(to, cmd->details);
    }
    (void) fputs(".SH OPTIONS\n", to);
    for (size_t i = 0; cmd->opts && cmd->opts[i].name; i++)
        option(to, &cmd->opts[i]);
    (void) fprintf(to,
                   "%sThe options of every command, the settings and the exit status are in\n"
                   ".BR dibs (1).\n",
                   cmd->opts && cmd->opts[0].name ? ".PP\n" : "");
    examples(to, cmd);
    (void) fprintf(to, ".SH SEE ALSO\n.BR dibs (1)%s",
                   cmd->flags & (CLI_MANIFEST | CLI_CLAIMS) ? ",\n.BR dibs.yaml (5)\n" : "\n");
}

/* The commands by group, each with its page. */
static void commands(FILE *to)
{
    (void) fputs(".SH COMMANDS\n\\fBdibs help \\fICOMMAND\\fR shows the most important part of a "
                 "command\\(aqs page.\n",
                 to);
    for (enum cli_group group = CLI_RUN; group < CLI_GROUP_COUNT; group++) {
        (void) fprintf(to, ".SS %s\n", cli_groups[group]);
        for (size_t i = 0; cli_commands[i]; i++) {
            if (cli_commands[i]->group != group || cli_commands[i]->flags & CLI_HIDDEN)
                continue;
            (void) fprintf(to, ".TP\n.BR dibs\\-%s (1)\n", cli_commands[i]->name);
            line(to, cli_commands[i]->summary);
        }
    }
}

static void settings(FILE *to)
{
    (void) fputs(".SH SETTINGS\n"
                 "A flag wins over the environment, the environment over the user\\(aqs file, that over\n"
                 "the system\\(aqs. \\fBdibs doctor\\fR shows every value and where it comes from.\n"
                 "Times are written as 500ms, 10s, 5m, 2h or 7d.\n",
                 to);
    for (size_t i = 0; cli_global_opts[i].name; i++) {
        dibs_setting setting = cli_setting_of(&cli_global_opts[i]);
        char variable[48];

        if (setting == DIBS_SETTING_COUNT)
            continue;
        option(to, &cli_global_opts[i]);
        dibs_setting_env(setting, variable);
        (void) fprintf(to, ".br\nEnvironment: \\fB%s\\fR\n", variable);
    }
}

static void exit_codes(FILE *to)
{
    (void) fputs(".SH EXIT STATUS\n", to);
#define X(name, value, text) (void) fprintf(to, ".TP\n.B %d\n%s\n", value, text);
    DIBS_STATUS_MAP(X)
#undef X
    (void) fprintf(to,
                   ".TP\n.B %d\nthe answer could not be written; what was claimed for it is released\n"
                   ".TP\n.B %d\n\\fBdibs run\\fR: the command cannot be executed\n"
                   ".TP\n.B %d\n\\fBdibs run\\fR: the command was not found\n"
                   ".PP\n\\fBdibs run\\fR otherwise exits with the code of its command, or with 128 and the\n"
                   "number of the signal that ended it.\n",
                   CLI_EXIT_OUTPUT, CLI_EXIT_NOT_RUNNABLE, CLI_EXIT_NO_COMMAND);
}

void man_page(FILE *to)
{
    head(to, NULL, "Hand out network ports that stay yours");
    (void) fputs(".SH SYNOPSIS\n.B dibs\n[\\fIOPTION\\fR]... \\fICOMMAND\\fR [\\fIARGUMENT\\fR]...\n"
                 ".SH DESCRIPTION\n"
                 "A claim is one port number that is yours on this host: it is written down before you\n"
                 "hear of it, checked against every other claim and against what the kernel has bound,\n"
                 "and it ends with its holder (a process, a lease) or when you release it.\n"
                 ".PP\n"
                 "Answers are on standard output, one a line; everything else is on standard error.\n"
                 ".PP\n"
                 "A \\fINAME\\fR belongs to the project you are in: the nearest directory upward with\n"
                 "a .git, and its branch. \\fI/NAME\\fR is the same everywhere.\n",
                 to);
    commands(to);
    (void) fputs(".SH OPTIONS\nEvery command takes these, and the settings below.\n", to);
    for (size_t i = 0; cli_global_opts[i].name; i++)
        if (cli_setting_of(&cli_global_opts[i]) == DIBS_SETTING_COUNT)
            option(to, &cli_global_opts[i]);
    for (size_t i = 0; cli_top_opts[i].name; i++)
        option(to, &cli_top_opts[i]);
    settings(to);
    exit_codes(to);
    (void) fputs(".SH TERMINAL\n"
                 "Tables fit the width of the terminal: the least important columns are left out, then\n"
                 "long cells are cut in their middle. Elsewhere all of a table is printed. States have\n"
                 "colours on a terminal, unless NO_COLOR is set or TERM is dumb.\n"
                 ".SH FILES\n"
                 ".TP\n.I $XDG_STATE_HOME/dibs/ledger.db\nthe ledger of a user\n"
                 ".TP\n.I /var/lib/dibs/ledger.db\nthe ledger of root\n"
                 ".TP\n.I $XDG_CONFIG_HOME/dibs/dibs.yaml\nsettings of a user\n"
                 ".TP\n.I /etc/dibs/dibs.yaml\nsettings of the system\n"
                 ".SH EXAMPLES\n"
                 "Run a server on a port of its own, and give it the number twice:\n"
                 ".PP\n.nf\n.RS\ndibs run \\-p web \\-\\- server \\-\\-port {web}\n.RE\n.fi\n"
                 ".PP\nThe port of a service of this project, the same every day:\n"
                 ".PP\n.nf\n.RS\ncurl http://localhost:$(dibs get web)/\n.RE\n.fi\n"
                 ".PP\nWhich process uses this port, and why it cannot be claimed:\n"
                 ".PP\n.nf\n.RS\ndibs who 8080\ndibs explain 8080\n.RE\n.fi\n"
                 ".SH SEE ALSO\n.BR dibs.yaml (5),\n.BR dibs (3)\n",
                 to);
}
