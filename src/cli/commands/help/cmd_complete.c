/* SPDX-License-Identifier: MIT */
#include "cli/help.h"

#include "base/banned.h"

static dibs_status run(struct cli *cli, dibs_err *err)
{
    (void) err;
    complete_line(cli, stdout, cli->argc, cli->argv);
    return DIBS_OK;
}

const struct cli_cmd cmd_complete = {
    .name = "complete",
    .group = CLI_ABOUT,
    .args = "-- WORD...",
    .summary = "Print what the last word of a command line can be, for shells",
    .flags = CLI_HIDDEN | CLI_STOP | CLI_NO_SETTINGS,
    .max_args = -1,
    .run = run,
};
