/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "cli/cli.h"
#include "codec/wire.h"

#include "base/banned.h"

static bool show(void *ctx, const dibs_claim *claim)
{
    struct cli *cli = ctx;
    char name[DIBS_NAME_MAX + 1] = "";
    char holder[1024] = "";
    char safe[1024] = "";

    if (cli->json) {
        wire_claim(&cli->w, claim, true);
        return true;
    }
    /* The lease has ended, whatever the clock says. */
    cli_holder(claim, INT64_MAX, holder, sizeof holder);
    (void) printf("%u %s %s\n", claim->port, claim->name[0] ? text_safe(claim->name, name, sizeof name) : "-",
                  text_safe(holder, safe, sizeof safe));
    return true;
}

static dibs_status run(struct cli *cli, dibs_err *err)
{
    unsigned flags = 0;
    size_t n = 0;

    if (cli_has(cli, "stale"))
        flags |= DIBS_REAP_STALE;
    if (cli_has(cli, "dry-run"))
        flags |= DIBS_REAP_DRY_RUN;
    cli_begin_list(cli);
    dibs_status status = dibs_reap(cli->handle, flags, show, cli, &n, err);

    cli_end_list(cli); /* also after a failure: claims reaped before it must be shown */
    if (status == DIBS_OK)
        cli_note(cli, "%zu claim%s %s", n, n == 1 ? "" : "s",
                 flags & DIBS_REAP_DRY_RUN ? "would be reaped" : "reaped");
    return status;
}

static const struct cli_opt opts[] = {
    { .name = "stale", .help = "also kept claims of directories that are gone, on ports nobody uses" },
    { .name = "dry-run", .help = "only show what would end" },
    { 0 },
};

const struct cli_cmd cmd_reap = {
    .name = "reap",
    .group = CLI_MAINTAIN,
    .args = "",
    .summary = "End the claims of dead holders",
    .details = "Prints a line for each claim that ended: port, name, former holder. A holder\n"
               "whose state is unknown is never taken for dead.",
    .examples = "dibs reap --dry-run\ndibs reap --stale --dry-run --json\n",
    .opts = opts,
    .flags = CLI_SLOW | CLI_HANDLE,
    .run = run,
};
