/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "cli/cli.h"
#include "wire/wire.h"

#include "base/banned.h"

struct reaping {
    bool is_json;
    int64_t boot_ms;
    struct json_writer w;
};

static bool tell(void *ctx, const dibs_claim *claim)
{
    struct reaping *r = ctx;
    char name[DIBS_NAME_MAX + 1] = "";
    char holder[1024] = "";
    char safe[1024] = "";

    if (r->is_json) {
        wire_claim(&r->w, claim, true);
        return true;
    }
    cli_holder(claim, r->boot_ms, holder, sizeof holder);
    (void) printf("%u %s %s\n", claim->port, claim->name[0] ? cli_safe(claim->name, name, sizeof name) : "-",
                  cli_safe(holder, safe, sizeof safe));
    return true;
}

static dibs_status run(struct cli *cli, dibs_err *err)
{
    struct reaping r = { .is_json = cli->json, .boot_ms = dibs_boot_ms(cli->handle) };
    unsigned flags = 0;
    size_t n = 0;

    if (cli_has(cli, "stale"))
        flags |= DIBS_REAP_STALE;
    if (cli_has(cli, "dry-run"))
        flags |= DIBS_REAP_DRY_RUN;
    if (r.is_json) {
        json_begin(&r.w, stdout);
        json_array(&r.w);
    }
    dibs_status status = dibs_reap(cli->handle, flags, tell, &r, &n, err);

    if (r.is_json) {
        /* Also after a failure: what was reaped before it is gone, and must be told. */
        json_end_array(&r.w);
        json_finish(&r.w);
    }
    if (status == DIBS_OK)
        cli_note(cli, "%zu claim%s %s", n, n == 1 ? "" : "s",
                 flags & DIBS_REAP_DRY_RUN ? "would be reaped" : "reaped");
    return status;
}

static const struct cli_opt opts[] = {
    { .name = "stale", .help = "also kept claims of directories that are gone, on ports nobody uses" },
    { .name = "dry-run", .help = "only tell" },
    { 0 },
};

const struct cli_cmd cmd_reap = {
    .name = "reap",
    .args = "",
    .summary = "End the claims of dead holders",
    .details = "Prints a line for each claim that ended: port, name, former holder. A holder\n"
               "of whom nothing certain is known is never taken for dead.",
    .examples = "dibs reap --dry-run\ndibs reap --stale --dry-run --json\n",
    .opts = opts,
    .flags = CLI_HANDLE,
    .run = run,
};
