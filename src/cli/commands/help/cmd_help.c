/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/err.h"
#include "cli/help.h"
#include "cli/parse.h"
#include "codec/json.h"

#include "base/banned.h"

static const struct {
    const char *name;
    void (*print)(FILE *to);
    const char *script; /* embedded script that is printed instead */
    const size_t *size;
} formats[] = {
    { "text", help_overview, NULL, NULL },
    { "man", man_page, NULL, NULL },
    { "bash", NULL, complete_bash, &complete_bash_size },
    { "zsh", NULL, complete_zsh, &complete_zsh_size },
    { "fish", NULL, complete_fish, &complete_fish_size },
};

static void json_opts(struct jsonw *w, const struct cli_opt *list)
{
    jsonw_array(w);
    for (size_t i = 0; list && list[i].name; i++) {
        jsonw_object(w);
        jsonw_key_string(w, "name", list[i].name);
        if (list[i].arg)
            jsonw_key_string(w, "value", list[i].arg);
        jsonw_key_string(w, "help", list[i].help);
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
}

/* Write the command table as JSON: one command or all. */
static void json_table(struct jsonw *w, const struct cli_cmd *only)
{
    jsonw_array(w);
    for (size_t i = 0; cli_commands[i]; i++) {
        const struct cli_cmd *cmd = cli_commands[i];
        if ((only && only != cmd) || (cmd->flags & CLI_HIDDEN))
            continue;
        jsonw_object(w);
        jsonw_key_string(w, "name", cmd->name);
        jsonw_key_string(w, "arguments", cmd->args);
        jsonw_key_string(w, "summary", cmd->summary);
        jsonw_key(w, "options");
        json_opts(w, cmd->opts);
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
}

static dibs_status run(struct cli *cli, dibs_err *err)
{
    const char *format = cli_value(cli, "format");
    const struct cli_cmd *about = cli->argc ? cli_find_command(cli->argv[0]) : NULL;

    if (cli->argc && !about)
        return cli_no_command(cli->argv[0], err);
    bool is_man = format && !strcmp(format, "man");
    if (format && (cli->json || (about && !is_man)))
        return err_set(err, DIBS_INVALID, "help: '--format %.64s' takes %s", format,
                       is_man ? "no --json" : "neither a command nor --json");
    if (cli->json) {
        json_table(&cli->w, about);
        return DIBS_OK;
    }
    if (about && is_man) {
        man_command(stdout, about);
        return DIBS_OK;
    }
    if (about) {
        help_command(stdout, about);
        return DIBS_OK;
    }
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (!strcmp(format ? format : "text", formats[i].name)) {
            if (formats[i].print)
                formats[i].print(stdout);
            else
                (void) fwrite(formats[i].script, 1, *formats[i].size, stdout);
            return DIBS_OK;
        }
    }
    return err_set(err, DIBS_INVALID, "help: unknown format '%.64s': text, man, bash, zsh or fish", format);
}

static const struct cli_opt opts[] = {
    { .name = "format",
      .arg = "FORMAT",
      .help = "text, the manual page, or completions for a shell",
      .words = "text man bash zsh fish" },
    { 0 },
};

const struct cli_cmd cmd_help = {
    .name = "help",
    .group = CLI_ABOUT,
    .args = "[COMMAND]",
    .summary = "Show help, the man page or shell completions",
    .details = "Without COMMAND: an overview; '--format man COMMAND' is that command's page.\n"
               "Completions are read by the shell as it starts; installing dibs puts them\n"
               "where it looks for them.",
    .examples = "dibs help claim\n"
                "dibs help --format bash\n",
    .opts = opts,
    .flags = CLI_NO_SETTINGS,
    .max_args = 1,
    .run = run,
};
