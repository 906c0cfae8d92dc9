/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/text.h"
#include "cli/manifest.h"
#include "cli/mcp/mcp.h"
#include "cli/parse.h"
#include "cli/target.h"

#include "base/banned.h"

dibs_status mcp_place_find(const struct cli *cli, const char *dir, struct mcp_place *out, dibs_err *err)
{
    static const struct cli_opt opts[] = { CLI_PROJECT_OPT, { 0 } };
    static const struct cli_cmd somewhere = { .name = "mcp", .opts = opts, .flags = CLI_REPORTS_MANIFEST };
    /* As if a command were called with --project, which reports a broken manifest when it runs. */
    struct cli called = { .cmd = &somewhere, .given = { { &opts[0], dir } }, .n_given = 1 };
    dibs_flag flags[DIBS_SETTING_COUNT];
    dibs_status s = cli_settings_load(&called, flags, cli_flags(cli, flags), err);

    if (!s)
        s = cli_project(&called, err);
    if (!s)
        *out = (struct mcp_place){ .project = called.project, .has_manifest = called.manifest != NULL };
    workload_free(called.manifest);
    return s;
}
