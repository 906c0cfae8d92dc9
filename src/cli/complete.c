/* SPDX-License-Identifier: MIT */
/* Completions for three shells. The scripts in share/completions pass the words of the line to the hidden
 * command `complete`, which prints one candidate per line with a tab and its help, or a directive for the
 * shell: ":pools", ":files", ":command N" (another program's line after N words). */
#include <string.h>

#include "cli/help.h"
#include "cli/parse.h"

#include "base/banned.h"

/* State after the words before the completed one. */
struct line {
    const struct cli_cmd *cmd;
    const struct cli_opt *pending; /* the next word is its value */
    bool is_over;                  /* only arguments follow */
    bool is_command;               /* the arguments are another program's line */
    bool is_role;                  /* they begin with a role: `dibs run web` */
};

static void read_word(struct cli *cli, struct line *line, const char *word)
{
    size_t len = strcspn(word, "=");

    if (line->pending && strcmp(word, "=") == 0) /* bash splits --option=value */
        return;
    if (line->pending) {
        line->pending = NULL;
    } else if (!line->is_over && strcmp(word, "--") == 0) {
        line->is_over = true;
        line->is_role = false; /* the role's command follows */
    } else if (!line->is_over && word[0] == '-' && word[1]) {
        const struct cli_opt *opt = word[1] == '-' ? cli_find_option(line->cmd, word + 2, len - 2)
                                                   : cli_find_letter(line->cmd, word[strlen(word) - 1]);

        line->pending = opt && opt->arg && !word[len] ? opt : NULL;
    } else if (!line->cmd) {
        line->cmd = cli_find_command(word);
    } else if (line->cmd->flags & CLI_STOP) {
        line->is_role = !line->is_over && complete_is_role(cli, word);
        line->is_command = !line->is_role;
    }
}

static const char *words_of(const struct cli_opt *opt)
{
    if (!opt->arg)
        return NULL;
    if (strcmp(opt->arg, "FILE") == 0 || strcmp(opt->arg, "PATH") == 0)
        return ":files";
    return strcmp(opt->arg, "POOL") == 0 ? ":pools" : opt->words;
}

/* Offer words. `before` is the start of the completed word: "--proto=", `word` the rest of it. */
static void offer_words(struct cli *cli, FILE *to, const char *words, const char *before, const char *word)
{
    if (words && strcmp(words, ":names") == 0) {
        complete_names(cli, to, word);
        return;
    }
    if (words && strcmp(words, ":roles") == 0) {
        complete_roles(cli, to);
        return;
    }
    for (const char *p = words ? words : ""; *p; p += strspn(p, " ")) {
        size_t len = strcspn(p, " ");

        (void) fprintf(to, "%s%.*s\n", *p == ':' ? "" : before, (int) len, p);
        p += len;
    }
}

/* Offer options, except those that the command `hiding` (NULL: none) replaces by its own. */
static void offer_options(FILE *to, const struct cli_opt *opts, const struct cli_cmd *hiding)
{
    for (; opts && opts->name; opts++) {
        if (cli_hides(hiding, opts))
            continue;
        if (opts->letter)
            (void) fprintf(to, "-%c\t%s\n", opts->letter, opts->help);
        (void) fprintf(to, "--%s\t%s\n", opts->name, opts->help);
    }
}

static void offer_commands(FILE *to)
{
    for (size_t i = 0; cli_commands[i]; i++)
        if (!(cli_commands[i]->flags & CLI_HIDDEN))
            (void) fprintf(to, "%s\t%s\n", cli_commands[i]->name, cli_commands[i]->summary);
}

void complete_line(struct cli *cli, FILE *to, int n, char *const *words)
{
    struct line line = { .cmd = NULL };
    char before[64] = "";

    if (n < 1)
        return;
    int n_own = 0; /* words before another program's line */

    for (; n_own < n - 1 && !line.is_command; n_own++)
        read_word(cli, &line, words[n_own]);
    const char *last = words[n - 1];
    size_t len = strcspn(last, "=");
    bool is_option = !line.pending && !line.is_over && !line.is_command && last[0] == '-';

    if (is_option && strncmp(last, "--", 2) == 0 && last[len]) {
        line.pending = cli_find_option(line.cmd, last + 2, len - 2);
        (void) snprintf(before, sizeof before, "%.*s=", (int) len, last);
    }
    if (line.pending) {
        offer_words(cli, to, words_of(line.pending), before, before[0] ? last + len + 1 : last);
    } else if (is_option) {
        offer_options(to, line.cmd ? line.cmd->opts : cli_top_opts, NULL);
        offer_options(to, cli_global_opts, line.cmd);
    } else if (!line.cmd || line.cmd == &cmd_help) {
        offer_commands(to);
    } else if (line.cmd->flags & CLI_STOP) {
        if (line.is_role)
            (void) fputs("--\tthe command of the role follows\n", to);
        if (!line.is_command && !line.is_over)
            complete_roles(cli, to);
        if (!line.is_role)
            (void) fprintf(to, ":command %d\n", n_own + !line.is_command);
    } else {
        offer_words(cli, to, line.cmd->args_words, "", last);
    }
}
