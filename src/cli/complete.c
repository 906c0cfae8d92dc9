/* SPDX-License-Identifier: MIT */
/* Completions for three shells, from the command table. Names and pools are asked from dibs when
 * they are wanted; everything else is written down. */
#include <string.h>

#include "cli/help.h"
#include "cli/parse.h"

#include "base/banned.h"

static bool is_shown(const struct cli_cmd *cmd)
{
    return !(cmd->flags & CLI_HIDDEN);
}

/* The global options of a command: those it has not hidden. */
typedef void (*opt_fn)(FILE *to, const struct cli_cmd *cmd, const struct cli_opt *opt);
static void each_opt(FILE *to, const struct cli_cmd *cmd, opt_fn fn)
{
    for (size_t i = 0; cmd && cmd->opts && cmd->opts[i].name; i++)
        fn(to, cmd, &cmd->opts[i]);
    for (size_t i = 0; cli_global_opts[i].name; i++) {
        if (!cli_hides(cmd, &cli_global_opts[i]))
            fn(to, cmd, &cli_global_opts[i]);
    }
    for (size_t i = 0; !cmd && cli_top_opts[i].name; i++)
        fn(to, cmd, &cli_top_opts[i]);
}

/* Single-quoted text; `quote` is how the shell writes a quote inside of one. */
static void quoted(FILE *to, const char *text, const char *quote)
{
    for (const char *c = text; *c; c++) {
        if (*c == '\'')
            (void) fputs(quote, to);
        else
            (void) fputc(*c, to);
    }
}

static void command_names(FILE *to)
{
    for (size_t i = 0, n = 0; cli_commands[i]; i++) {
        if (is_shown(cli_commands[i]))
            (void) fprintf(to, "%s%s", n++ ? " " : "", cli_commands[i]->name);
    }
}

/* ---- bash ---- */

static void bash_words(FILE *to, const struct cli_cmd *cmd, const struct cli_opt *opt)
{
    (void) cmd;
    if (opt->letter)
        (void) fprintf(to, "-%c ", opt->letter);
    (void) fprintf(to, "--%s ", opt->name);
}

static void bash_source(FILE *to, enum cli_value_kind kind, const char *words)
{
    switch (kind) {
    case CLI_NAME: (void) fputs("_dibs_lines \"$(dibs ls --names 2>/dev/null)\"", to); return;
    case CLI_POOL: (void) fputs("_dibs_lines \"$(dibs pool --names 2>/dev/null)\"", to); return;
    case CLI_FILE:
        (void) fputs("compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")", to);
        return;
    case CLI_WORDS: (void) fprintf(to, "_dibs_lines '"); break;
    case CLI_TEXT:
    case CLI_PORT: (void) fputs(":", to); return;
    }
    for (const char *c = words; *c; c++)
        (void) fputc(*c == ' ' ? '\n' : *c, to);
    (void) fputc('\'', to);
}

/* "claim --pool" | "claim -x") ...: what follows an option */
static void bash_value(FILE *to, const struct cli_cmd *cmd, const struct cli_opt *opt)
{
    if (!opt->arg)
        return;
    (void) fputs("        ", to);
    if (opt->letter)
        (void) fprintf(to, "'%s -%c' | ", cmd ? cmd->name : "", opt->letter);
    (void) fprintf(to, "'%s --%s') ", cmd ? cmd->name : "", opt->name);
    bash_source(to, opt->kind, opt->words);
    (void) fputs("; return ;;\n", to);
}

static void bash_skip(FILE *to, const struct cli_cmd *cmd, const struct cli_opt *opt)
{
    (void) cmd;
    if (opt->arg)
        (void) fprintf(to, "%s--%s", opt == &cli_global_opts[3] ? "" : " | ", opt->name);
}

static void bash_arguments(FILE *to)
{
    (void) fputs("    case $command in\n", to);
    (void) fputs("        '' | help) _dibs_lines \"$(dibs --list-commands)\" ;;\n", to);
    for (size_t i = 0; cli_commands[i]; i++) {
        const struct cli_cmd *cmd = cli_commands[i];
        if (!is_shown(cmd) || cmd == &cmd_help)
            continue;
        (void) fprintf(to, "        %s) ", cmd->name);
        if (cmd->flags & CLI_STOP)
            (void) fputs("mapfile -t COMPREPLY < <(compgen -c -- \"$cur\")", to);
        else
            bash_source(to, cmd->args_kind, cmd->args_words);
        (void) fputs(" ;;\n", to);
    }
    (void) fputs("    esac\n", to);
}

void complete_bash(FILE *to)
{
    (void) fputs("# bash completion for dibs; made by 'dibs help --format bash'\n"
                 "_dibs_lines() {\n"
                 "    local IFS=$'\\n'\n"
                 "    mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$cur\")\n"
                 "}\n"
                 "_dibs() {\n"
                 "    local cur=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command='' i\n"
                 "    COMPREPLY=()\n"
                 "    # bash takes --option=value apart at the equals sign\n"
                 "    if [[ $cur == = ]]; then cur=''; "
                 "elif [[ $previous == = ]]; then previous=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
                 "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
                 "        case ${COMP_WORDS[i]} in\n"
                 "            ",
                 to);
    each_opt(to, NULL, bash_skip);
    (void) fputs(") ((i++)); [[ ${COMP_WORDS[i]} == = ]] && ((i++)) ;;\n"
                 "            -*) ;;\n"
                 "            *) command=${COMP_WORDS[i]}; break ;;\n"
                 "        esac\n"
                 "    done\n"
                 "    case \"$command $previous\" in\n",
                 to);
    each_opt(to, NULL, bash_value);
    for (size_t i = 0; cli_commands[i]; i++) {
        if (is_shown(cli_commands[i]))
            each_opt(to, cli_commands[i], bash_value);
    }
    (void) fputs("    esac\n"
                 "    if [[ $cur == -* ]]; then\n"
                 "        local options=''\n"
                 "        case $command in\n"
                 "            '') options='",
                 to);
    each_opt(to, NULL, bash_words);
    (void) fputs("' ;;\n", to);
    for (size_t i = 0; cli_commands[i]; i++) {
        if (!is_shown(cli_commands[i]))
            continue;
        (void) fprintf(to, "            %s) options='", cli_commands[i]->name);
        each_opt(to, cli_commands[i], bash_words);
        (void) fputs("' ;;\n", to);
    }
    (void) fputs("        esac\n"
                 "        mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$cur\")\n"
                 "        return\n"
                 "    fi\n",
                 to);
    bash_arguments(to);
    (void) fputs("}\ncomplete -F _dibs dibs\n", to);
}

/* ---- zsh ---- */

static void zsh_source(FILE *to, enum cli_value_kind kind, const char *words)
{
    switch (kind) {
    case CLI_NAME: (void) fputs("_dibs_names", to); return;
    case CLI_POOL: (void) fputs("_dibs_pools", to); return;
    case CLI_FILE: (void) fputs("_files", to); return;
    case CLI_TEXT:
    case CLI_PORT: (void) fputs(" ", to); return;
    case CLI_WORDS: break;
    }
    (void) fputc('(', to);
    for (const char *c = words; *c; c++) {
        if (strchr("*:\\", *c))
            (void) fputc('\\', to);
        (void) fputc(*c, to);
    }
    (void) fputc(')', to);
}

/* Text inside of "[...]" or a message between colons. */
static void zsh_text(FILE *to, const char *text)
{
    for (const char *c = text; *c; c++) {
        if (strchr("[]:\\", *c))
            (void) fputc('\\', to);
        if (*c == '\'')
            (void) fputs("'\\''", to);
        else
            (void) fputc(*c, to);
    }
}

static void zsh_opt(FILE *to, const struct cli_cmd *cmd, const struct cli_opt *opt)
{
    (void) cmd;
    for (int is_long = opt->letter ? 0 : 1; is_long < 2; is_long++) {
        (void) fputs("                '", to);
        if (opt->is_repeatable)
            (void) fputc('*', to);
        else if (opt->letter)
            (void) fprintf(to, "(-%c --%s)", opt->letter, opt->name);
        if (is_long)
            (void) fprintf(to, "--%s%s[", opt->name, opt->arg ? "=" : "");
        else
            (void) fprintf(to, "-%c%s[", opt->letter, opt->arg ? "+" : "");
        zsh_text(to, opt->help);
        (void) fputc(']', to);
        if (opt->arg) {
            (void) fputc(':', to);
            zsh_text(to, opt->arg);
            (void) fputc(':', to);
            zsh_source(to, opt->kind, opt->words);
        }
        (void) fputs("' \\\n", to);
    }
}

static void zsh_command(FILE *to, const struct cli_cmd *cmd)
{
    (void) fprintf(to, "        %s)\n            _arguments -s -S \\\n", cmd->name);
    each_opt(to, cmd, zsh_opt);
    (void) fputs("                ", to);
    if (cmd->flags & CLI_STOP)
        (void) fputs("'(-)1:command:_command_names -e' '*::arguments:_normal'", to);
    else if (cmd == &cmd_help)
        (void) fputs("'1:command:_dibs_commands'", to);
    else if (cmd->args[0]) {
        (void) fprintf(to, "'%s:", cmd->max_args == 1 ? "1" : "*");
        zsh_text(to, cmd->args);
        (void) fputc(':', to);
        zsh_source(to, cmd->args_kind, cmd->args_words);
        (void) fputc('\'', to);
    }
    (void) fputs(" && ret=0\n            ;;\n", to);
}

void complete_zsh(FILE *to)
{
    (void) fputs("#compdef dibs\n"
                 "# zsh completion for dibs; made by 'dibs help --format zsh'\n"
                 "_dibs_names() {\n"
                 "    local -a names; names=(${(f)\"$(dibs ls --names 2>/dev/null)\"})\n"
                 "    compadd -a names\n"
                 "}\n"
                 "_dibs_pools() {\n"
                 "    local -a pools; pools=(${(f)\"$(dibs pool --names 2>/dev/null)\"})\n"
                 "    compadd -a pools\n"
                 "}\n"
                 "_dibs_commands() {\n"
                 "    local -a commands; commands=(\n",
                 to);
    for (size_t i = 0; cli_commands[i]; i++) {
        if (!is_shown(cli_commands[i]))
            continue;
        (void) fprintf(to, "        '%s:", cli_commands[i]->name);
        quoted(to, cli_commands[i]->summary, "'\\''");
        (void) fputs("'\n", to);
    }
    (void) fputs("    )\n"
                 "    _describe command commands\n"
                 "}\n"
                 "_dibs() {\n"
                 "    local curcontext=$curcontext state line ret=1\n"
                 "    typeset -A opt_args\n"
                 "    _arguments -C -s -S \\\n",
                 to);
    each_opt(to, NULL, zsh_opt);
    (void) fputs("                '1:command:_dibs_commands' '*::arguments:->arguments' && ret=0\n"
                 "    [[ $state == arguments ]] || return ret\n"
                 "    curcontext=${curcontext%:*}-$line[1]:\n"
                 "    case $line[1] in\n",
                 to);
    for (size_t i = 0; cli_commands[i]; i++) {
        if (is_shown(cli_commands[i]))
            zsh_command(to, cli_commands[i]);
    }
    (void) fputs("    esac\n    return ret\n}\n"
                 "if [[ $funcstack[1] == _dibs ]]; then _dibs \"$@\"; else compdef _dibs dibs; fi\n",
                 to);
}

/* ---- fish ---- */

static void fish_source(FILE *to, enum cli_value_kind kind, const char *words)
{
    switch (kind) {
    case CLI_NAME: (void) fputs(" -a '(dibs ls --names 2>/dev/null)'", to); return;
    case CLI_POOL: (void) fputs(" -a '(dibs pool --names 2>/dev/null)'", to); return;
    case CLI_FILE: (void) fputs(" -F", to); return;
    case CLI_WORDS: break;
    case CLI_TEXT:
    case CLI_PORT: return;
    }
    (void) fputs(" -a '", to);
    for (const char *c = words; *c; c++)
        (void) fprintf(to, "%s%c", *c == '*' ? "\\\\" : "", *c);
    (void) fputc('\'', to);
}

static void fish_condition(FILE *to, const struct cli_cmd *cmd)
{
    if (cmd)
        (void) fprintf(to, "complete -c dibs -n '__fish_seen_subcommand_from %s'", cmd->name);
    else
        (void) fputs("complete -c dibs -n \"not __fish_seen_subcommand_from $__dibs_commands\"", to);
}

static void fish_opt(FILE *to, const struct cli_cmd *cmd, const struct cli_opt *opt)
{
    fish_condition(to, cmd);
    if (opt->letter)
        (void) fprintf(to, " -s %c", opt->letter);
    (void) fprintf(to, " -l %s", opt->name);
    if (opt->arg) {
        (void) fputs(opt->kind == CLI_FILE ? " -r" : " -x", to);
        fish_source(to, opt->kind, opt->words);
    }
    (void) fputs(" -d '", to);
    quoted(to, opt->help, "\\'");
    (void) fputs("'\n", to);
}

void complete_fish(FILE *to)
{
    (void) fputs("# fish completion for dibs; made by 'dibs help --format fish'\nset -g __dibs_commands ",
                 to);
    command_names(to);
    (void) fputs("\ncomplete -c dibs -f\n", to);
    each_opt(to, NULL, fish_opt);
    for (size_t i = 0; cli_commands[i]; i++) {
        const struct cli_cmd *cmd = cli_commands[i];
        if (!is_shown(cmd))
            continue;
        fish_condition(to, NULL);
        (void) fprintf(to, " -a %s -d '", cmd->name);
        quoted(to, cmd->summary, "\\'");
        (void) fputs("'\n", to);
        each_opt(to, cmd, fish_opt);
        if (cmd->flags & CLI_STOP) {
            fish_condition(to, cmd);
            (void) fputs(" -x -a '(__fish_complete_subcommand --fcs-skip=2)'\n", to);
        } else if (cmd == &cmd_help) {
            fish_condition(to, cmd);
            (void) fputs(" -a \"$__dibs_commands\"\n", to);
        } else if (cmd->args_kind != CLI_TEXT && cmd->args_kind != CLI_PORT) {
            fish_condition(to, cmd);
            fish_source(to, cmd->args_kind, cmd->args_words);
            (void) fputc('\n', to);
        }
    }
}
