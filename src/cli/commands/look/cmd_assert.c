/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "cli/target.h"
#include "codec/wire.h"

#include "base/banned.h"

static dibs_status run(struct cli *cli, dibs_err *err)
{
    char name[DIBS_NAME_MAX + 1] = "";
    dibs_which which = { 0 };
    struct cli_target own;
    dibs_socket socket = { 0 };
    dibs_status status = cli_has(cli, "own") ? cli_one_target(cli, &own, err)
                                             : cli_which(cli, cli->argv[0], &which, name, err);

    if (status == DIBS_OK && cli_has(cli, "own"))
        which = own.which;
    if (status == DIBS_OK)
        status = dibs_claim_assert(cli->handle, &which, &socket, err);
    if (status != DIBS_OK)
        return status;
    if (cli->json)
        wire_socket(&cli->w, &socket);
    else
        (void) printf("%u\n", socket.port);
    return DIBS_OK;
}

static const struct cli_opt opts[] = {
    { .name = "own", .help = "exit 3 for a claim of another project, too" },
    { 0 },
};

const struct cli_cmd cmd_assert = {
    .name = "assert",
    .group = CLI_LOOK,
    .args = "NAME|PORT",
    .summary = "Check that it is the claim's own holder that listens",
    .details = "Prints the port and exits with 0 when the holder of the claim listens on it.\n"
               "Exit code 3 when somebody else or nobody does, 5 when there is no such claim.",
    .examples = "dibs assert web || echo 'web does not listen'\n",
    .opts = opts,
    .flags = CLI_HANDLE,
    .min_args = 1,
    .max_args = 1,
    .args_words = ":names",
    .run = run,
};
