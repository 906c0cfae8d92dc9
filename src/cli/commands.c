/* SPDX-License-Identifier: MIT */
#include "cli/parse.h"

#include "base/banned.h"

const char *const cli_groups[CLI_GROUP_COUNT] = {
    [CLI_RUN] = "Run a project",
    [CLI_ASK] = "Ask for ports",
    [CLI_LOOK] = "Look at ports",
    [CLI_MAINTAIN] = "Maintain",
    [CLI_CLUSTER] = "Clusters and Kubernetes",
    [CLI_ABOUT] = "About dibs",
};

/* In the order of help and man page: group by group. */
const struct cli_cmd *const cli_commands[] = {
    &cmd_run,    &cmd_stop,     &cmd_init,    &cmd_up,       &cmd_down,   &cmd_plan,     &cmd_env,
    &cmd_render, &cmd_get,      &cmd_claim,   &cmd_release,  &cmd_renew,  &cmd_transfer, &cmd_mcp,
    &cmd_ls,     &cmd_who,      &cmd_explain, &cmd_assert,   &cmd_log,    &cmd_ui,       &cmd_settings,
    &cmd_pool,   &cmd_snapshot, &cmd_reap,    &cmd_repair,   &cmd_doctor, &cmd_serve,    &cmd_node,
    &cmd_kube,   &cmd_help,     &cmd_version, &cmd_complete, NULL,
};

const struct cli_opt cli_top_opts[] = {
    { .name = "version", .letter = 'V', .help = "print the version" },
    { .name = "list-commands", .help = "print the commands, one per line" },
    { 0 },
};

/* Form of each setting's value. The build fails if a row of DIBS_SETTING_MAP has no line here. */
#define VALUE_LEDGER "URI", NULL
#define VALUE_LEDGER_MODE "MODE", "fallback strict mru"
#define VALUE_MRU_FILE "FILE", NULL
#define VALUE_SOCKET "PATH", NULL
#define VALUE_SYNC "HOW", "normal full"
#define VALUE_RANGE "RANGE", NULL
#define VALUE_POOL "POOL", NULL
#define VALUE_BAND "BAND", "auto off"
#define VALUE_ORDER "ORDER", NULL
#define VALUE_COOLDOWN "TIME", NULL
#define VALUE_TTL "TIME", NULL
#define VALUE_TIMEOUT "TIME", NULL
#define VALUE_ALLOW_EPHEMERAL NULL, NULL
#define VALUE_ALLOW_BLOCKED NULL, NULL
#define VALUE_GROUP "GROUP", NULL
#define VALUE_NODE "NAME", NULL

#define ROW(name, summary, ...) ROW_(name, summary, __VA_ARGS__)
#define ROW_(option, summary, value, value_words) \
    { .name = (option), .arg = (value), .help = (summary), .words = (value_words) },

enum { FIRST_SETTING = 4 };

const struct cli_opt cli_global_opts[] = {
    { .name = "json", .help = "answer in JSON; errors too, on standard error" },
    { .name = "quiet", .letter = 'q', .help = "no notes on standard error (errors and warnings stay)" },
    { .name = "help", .letter = 'h', .help = "show help" },
    { .name = "utc", .help = "times for people in UTC instead of local time" },
#define X(id, name, summary) ROW(name, summary, VALUE_##id)
    DIBS_SETTING_MAP(X)
#undef X
        { 0 },
};
_Static_assert(sizeof cli_global_opts / sizeof *cli_global_opts == FIRST_SETTING + DIBS_SETTING_COUNT + 1,
               "the settings come last, in their own order");

dibs_setting cli_setting_of(const struct cli_opt *opt)
{
    int i = 0;

    while (i < DIBS_SETTING_COUNT && opt != &cli_global_opts[FIRST_SETTING + i])
        i++;
    return (dibs_setting) i;
}
