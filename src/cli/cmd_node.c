/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "cli/cli.h"
#include "cli/table.h"
#include "wire/wire.h"

#include "base/banned.h"

static bool add_row(void *ctx, const dibs_node *node)
{
    cli_table_cell(ctx, node->name);
    cli_table_cell(ctx, node->is_alive ? "alive" : "gone");
    cli_table_cell(ctx, node->is_here ? "this host" : "");
    return true;
}

static bool add_json(void *ctx, const dibs_node *node)
{
    wire_node(ctx, node);
    return true;
}

static dibs_status list(struct cli *cli, dibs_err *err)
{
    static const char *const header[] = { "NODE", "STATE", "NOTE" };
    struct cli_table table = { 0 };
    struct json_writer w;
    dibs_status s = DIBS_OK;

    if (cli->json) {
        json_begin(&w, stdout);
        json_array(&w);
        s = dibs_node_list(cli->handle, add_json, &w, err);
        json_end_array(&w);
        json_finish(&w);
        return s;
    }
    cli_table_begin(&table, header, 3);
    s = dibs_node_list(cli->handle, add_row, &table, err);
    if (s == DIBS_OK)
        s = cli_table_print(&table, stdout, err);
    cli_table_done(&table);
    return s;
}

static dibs_status drop(struct cli *cli, dibs_err *err)
{
    unsigned flags = cli_has(cli, "force") ? DIBS_NODE_FORCE : 0;
    size_t n = 0;
    dibs_status s = dibs_node_remove(cli->handle, cli->argv[1], flags, &n, err);

    if (s == DIBS_OK && cli->json)
        (void) printf("{\"ended\":%zu}\n", n);
    if (s == DIBS_OK)
        cli_note(cli, "%zu claim%s ended", n, n == 1 ? "" : "s");
    return s;
}

static dibs_status run(struct cli *cli, dibs_err *err)
{
    const char *word = cli->argc ? cli->argv[0] : "ls";
    bool is_remove = strcmp(word, "remove") == 0;
    char safe[64] = "";

    if (!is_remove && strcmp(word, "ls") != 0)
        return err_set(err, DIBS_INVALID, "'%s' is none of ls, remove", cli_safe(word, safe, sizeof safe));
    if (is_remove != (cli->argc == 2))
        return err_set(err, DIBS_INVALID,
                       is_remove ? "`dibs node remove` needs the NODE" : "`dibs node ls` takes no NODE");
    if (cli_has(cli, "force") && !is_remove)
        return err_set(err, DIBS_INVALID, "--force belongs to `dibs node remove`");
    return is_remove ? drop(cli, err) : list(cli, err);
}

static const struct cli_opt opts[] = {
    { .name = "force", .help = "remove it although it is alive" },
    { 0 },
};

const struct cli_cmd cmd_node = {
    .name = "node",
    .args = "[ls | remove NODE]",
    .summary = "List the hosts of a cluster, or forget one",
    .details = "`ls` shows which hosts share the ledger, and whether their daemons are alive.\n"
               "`remove` ends all claims of a host that will not come back, kept ones of its\n"
               "users too, and forgets it. Until then its own ports stay claimed, however\n"
               "long it is gone. For administrators.",
    .examples = "dibs node\ndibs node ls --json\n",
    .opts = opts,
    .flags = CLI_HANDLE,
    .max_args = 2,
    .args_kind = CLI_WORDS,
    .args_words = "ls remove",
    .run = run,
};
