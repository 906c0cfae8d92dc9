/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "base/auto.h"
#include "base/err.h"
#include "cli/cli.h"
#include "cli/file.h"
#include "cli/observed.h"
#include "codec/wire.h"

#include "base/banned.h"

struct repairing {
    struct cli *cli;
    size_t n;
    size_t n_failed; /* ports in use that could not be claimed */
};

static bool show(void *ctx, const dibs_repair_item *item)
{
    struct repairing *r = ctx;
    char address[DIBS_ADDRESS_TEXT_MAX + 1] = "";
    char name[DIBS_NAME_MAX + 1] = "";
    char text[sizeof item->text] = "";

    r->n++;
    r->n_failed += item->kind == DIBS_REPAIR_FULL;
    dibs_address_format(&item->binding.address, address);
    if (r->cli->json)
        wire_repair_item(&r->cli->w, item);
    else
        (void) printf("%s %s %s %u %s: %s\n", dibs_repair_kind_text(item->kind),
                      dibs_proto_text(item->binding.proto), address, item->port,
                      item->name[0] ? text_safe(item->name, name, sizeof name) : "-",
                      text_safe(item->text, text, sizeof text));
    return true;
}

static dibs_status observe(const char *path, dibs_observed **list, size_t *n, dibs_err *err)
{
    AUTO(free_auto) char *text = NULL;
    size_t len = 0;
    dibs_status status = cli_input_read(path, &text, &len, err);

    return status == DIBS_OK ? cli_observed_parse(text, len, list, n, err) : status;
}

static dibs_status run(struct cli *cli, dibs_err *err)
{
    /* An empty list means that nothing is in use; NULL would mean the live sockets. */
    static const dibs_observed none = { 0 };
    AUTO(free_auto) dibs_observed *list = NULL;
    const char *path = cli_value(cli, "observed");
    struct repairing r = { .cli = cli };
    dibs_repair_plan plan = { .pool = cli_value(cli, "pool"), .is_dry_run = cli_has(cli, "dry-run") };
    dibs_status status = DIBS_OK;

    if (cli_value(cli, "grace"))
        status = dibs_duration_parse(cli_value(cli, "grace"), &plan.grace_ms, err);
    if (status == DIBS_OK && cli_value(cli, "grace") && plan.grace_ms == 0)
        status = err_set(err, DIBS_INVALID, "--grace: at least 1ms");
    if (status != DIBS_OK)
        return status;
    if (path) {
        status = observe(path, &list, &plan.n, err);
        if (status != DIBS_OK)
            return status;
        plan.observed = list ? list : &none;
    }
    cli_begin_list(cli);
    status = dibs_repair(cli->handle, &plan, show, &r, err);
    cli_end_list(cli);
    if (status == DIBS_OK)
        cli_note(cli, "%zu finding%s%s", r.n, r.n == 1 ? "" : "s",
                 plan.is_dry_run ? "; nothing was changed" : "");
    if (status == DIBS_OK && r.n_failed > 0)
        return err_set(err, DIBS_FAILURE, "%zu port%s in use could not be claimed", r.n_failed,
                       r.n_failed == 1 ? "" : "s");
    return status;
}

static const struct cli_opt opts[] = {
    { .name = "observed", .arg = "FILE", .help = "list of ports in use, or - for stdin" },
    { .name = "pool", .arg = "POOL", .help = "pool to repair" },
    { .name = "grace", .arg = "TIME", .help = "how long a port is unused before its claim goes (3m)" },
    { .name = "dry-run", .help = "only show findings" },
    { 0 },
};

const struct cli_cmd cmd_repair = {
    .name = "repair",
    .group = CLI_MAINTAIN,
    .args = "",
    .summary = "Compare the ledger with the ports really in use, and repair it",
    .details = "Without --observed the live sockets of this host are looked at. An observed\n"
               "list has lines `PROTO ADDRESS PORT [NAME]`, or `PORT [NAME]` for tcp on *;\n"
               "blank lines and # comments are skipped. Or a JSON array of objects with port,\n"
               "proto, address and name. Port 0 is skipped. A bad line is exit code 2, and\n"
               "nothing is changed.\n"
               "\n"
               "What is in use without a claim is claimed; further ports of a name are called\n"
               "NAME/PORT. A claim without a holder is dropped when two runs, at least --grace\n"
               "apart, and all between them found it unused; one that another run found in\n"
               "use begins again. A line for each finding. An observed port that cannot be\n"
               "claimed, because a part of its addresses is another claim's, is exit code 1,\n"
               "and declared, so that choice passes it over until nobody observes it.",
    .examples = "dibs repair --dry-run\ndibs repair --dry-run --json\n",
    .opts = opts,
    .flags = CLI_SLOW | CLI_HANDLE,
    .run = run,
};
