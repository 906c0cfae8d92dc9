/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "cli/cli.h"
#include "json/json.h"

#include "base/banned.h"

static dibs_status run(struct cli *cli, dibs_err *err)
{
    struct json_writer w;

    (void) err;
    if (!cli->json) {
        (void) printf("dibs %s\n", dibs_version());
        return DIBS_OK;
    }
    json_begin(&w, stdout);
    json_object(&w);
    json_key_string(&w, "version", dibs_version());
    json_end_object(&w);
    json_finish(&w);
    return DIBS_OK;
}

const struct cli_cmd cmd_version = {
    .name = "version",
    .args = "",
    .summary = "Print the version",
    .details = "The same as 'dibs --version'.",
    .examples = "dibs version\n",
    .flags = CLI_NO_SETTINGS,
    .run = run,
};
