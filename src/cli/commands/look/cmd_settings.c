/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "base/auto.h"
#include "base/text.h"
#include "cli/target.h"
#include "cli/text_table.h"

#include "base/banned.h"

/* Why the manifest here cannot be used; NULL: it can, or there is none. */
static const char *manifest_problem(const struct cli *cli)
{
    dibs_status code = cli->manifest ? DIBS_OK : cli->no_manifest.code;

    return code == DIBS_OK || code == DIBS_NOT_FOUND ? NULL : cli->no_manifest.msg;
}

static void text_or_null(struct jsonw *w, const char *key, const char *text)
{
    jsonw_key(w, key);
    if (text && text[0])
        jsonw_string(w, text);
    else
        jsonw_null(w);
}

static void print_json(struct cli *cli)
{
    char value[DIBS_SETTING_VALUE_MAX + 1];
    struct jsonw *w = &cli->w;

    jsonw_object(w);
    jsonw_key_array(w, "settings");
    for (int i = 0; i < DIBS_SETTING_COUNT; i++) {
        dibs_setting_format(&cli->settings, (dibs_setting) i, value);
        jsonw_object(w);
        jsonw_key_string(w, "name", dibs_setting_name((dibs_setting) i));
        text_or_null(w, "value", value);
        jsonw_key_string(w, "source", dibs_source_text(cli->settings.source[i]));
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
    jsonw_key_string(w, "group", cli->project.group);
    text_or_null(w, "project", cli->project.dir);
    jsonw_key_bool(w, "manifest", cli->manifest != NULL);
    text_or_null(w, "manifest_problem", manifest_problem(cli));
    jsonw_end_object(w);
}

static dibs_status print_table(struct cli *cli, dibs_err *err)
{
    static const struct cli_column columns[] = { { .title = "SETTING" },
                                                 { .title = "VALUE", .asks = 24 },
                                                 { .title = "SOURCE" } };
    AUTO(cli_table_done) struct cli_table table = { 0 };
    char value[DIBS_SETTING_VALUE_MAX + 1];
    char safe[DIBS_SETTING_VALUE_MAX + 1];

    cli_table_begin(&table, columns, sizeof columns / sizeof columns[0]);
    for (int i = 0; i < DIBS_SETTING_COUNT; i++) {
        dibs_setting_format(&cli->settings, (dibs_setting) i, value);
        cli_table_cell(&table, dibs_setting_name((dibs_setting) i));
        cli_table_cell(&table, value);
        cli_table_cell(&table, dibs_source_text(cli->settings.source[i]));
    }
    dibs_status s = cli_table_print(&table, stdout, err);
    if (s != DIBS_OK)
        return s;
    (void) printf("\nnames here belong to the group %s", text_safe(cli->project.group, safe, sizeof safe));
    if (cli->project.dir[0])
        (void) printf(" of %s", text_safe(cli->project.dir, safe, sizeof safe));
    (void) fputs(cli->manifest ? ", which has a manifest\n" : "\n", stdout);
    return DIBS_OK;
}

static dibs_status run(struct cli *cli, dibs_err *err)
{
    dibs_status s = cli_project(cli, err);

    if (s == DIBS_OK && cli->json)
        print_json(cli);
    else if (s == DIBS_OK)
        s = print_table(cli, err);
    return s;
}

const struct cli_cmd cmd_settings = {
    .name = "settings",
    .group = CLI_LOOK,
    .args = "",
    .summary = "Show the settings that commands use here, and their sources",
    .details = "A line for each setting: its value, and whether it comes from a flag, the\n"
               "environment, the manifest, your file, /etc/dibs/dibs.yaml or is the default.\n"
               "The last line is the group of names here and its directory. No ledger and no\n"
               "daemon is asked; 'dibs doctor' checks those.\n"
               "\n"
               "With --json a program learns from it which daemon, range and group a command\n"
               "would use in this directory.",
    .examples = "dibs settings\n"
                "dibs settings --json\n",
    .run = run,
};
