/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/text_table.h"
#include "codec/wire.h"

#include "base/banned.h"

struct listing {
    struct cli *cli;
    struct cli_table table;
};

static bool show(void *ctx, const dibs_node *node)
{
    struct listing *l = ctx;
    bool is_part = strchr(node->name, '/') != NULL; /* a webhook or a controller */

    if (l->cli->json) {
        wire_node(&l->cli->w, node);
        return true;
    }
    cli_table_cell(&l->table, node->name);
    cli_table_cell(&l->table, is_part ? "" : node->is_alive ? "alive" : "gone");
    cli_table_cell(&l->table, node->is_here ? "this host"
                              : is_part     ? "a webhook or controller, which has no lease"
                                            : "");
    return true;
}

static dibs_status list(struct cli *cli, dibs_err *err)
{
    static const struct cli_column columns[] = {
        { .title = "NODE", .asks = 32 },
        { .title = "STATE", .is_state = true },
        { .title = "NOTE", .asks = 16, .rank = 1 },
    };
    struct listing l = { .cli = cli };

    cli_begin_list(cli);
    cli_table_begin(&l.table, columns, 3);
    dibs_status s = dibs_node_list(cli->handle, show, &l, err);
    cli_end_list(cli);
    if (s == DIBS_OK && !cli->json)
        s = cli_table_print(&l.table, stdout, err);
    cli_table_done(&l.table);
    return s;
}

static dibs_status drop(struct cli *cli, dibs_err *err)
{
    unsigned flags = cli_has(cli, "force") ? DIBS_NODE_FORCE : 0;
    size_t n = 0;
    dibs_status s = dibs_node_remove(cli->handle, cli->argv[1], flags, &n, err);

    if (s != DIBS_OK)
        return s;
    cli_print_count(cli, "ended", n);
    cli_note(cli, "%zu claim%s ended", n, n == 1 ? "" : "s");
    return DIBS_OK;
}

static const char *const of_remove[] = { "force", NULL };
static const struct cli_verb verbs[] = {
    { "ls", NULL, NULL, list },
    { "remove", "the NODE", of_remove, drop },
    { 0 },
};

static const struct cli_opt opts[] = {
    { .name = "force", .help = "remove it although it is alive" },
    { 0 },
};

const struct cli_cmd cmd_node = {
    .name = "node",
    .group = CLI_CLUSTER,
    .args = "[ls | remove NODE]",
    .summary = "List the hosts of a cluster, or forget one",
    .details = "`ls` shows which hosts share the ledger, and whether their daemons are alive.\n"
               "HOST/webhook-PORT and HOST/controller-PORT are processes of Kubernetes, which\n"
               "have no lease: the probes of their pods show whether they are alive.\n"
               "`remove` ends all claims of a host that will not come back, kept ones of its\n"
               "users too, and forgets it. Until then its own ports stay claimed, however\n"
               "long it is gone. For administrators.",
    .examples = "dibs node\ndibs node ls --json\n",
    .opts = opts,
    .flags = CLI_HANDLE,
    .max_args = 2,
    .args_words = "ls remove",
    .verbs = verbs,
};
