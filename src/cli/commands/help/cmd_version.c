/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "cli/cli.h"

#include "base/banned.h"

static dibs_status run(struct cli *cli, dibs_err *err)
{
    (void) err;
    (void) printf(cli->json ? "{\"version\":\"%s\"}\n" : "dibs %s\n", dibs_version());
    return DIBS_OK;
}

const struct cli_cmd cmd_version = {
    .name = "version",
    .group = CLI_ABOUT,
    .args = "",
    .summary = "Print the version",
    .details = "The same as 'dibs --version'.",
    .examples = "dibs version\n",
    .flags = CLI_NO_SETTINGS,
    .run = run,
};
