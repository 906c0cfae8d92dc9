/* SPDX-License-Identifier: MIT */
/* The help of `dibs ui`; src/cli/serve/ui.c runs it. */
#include "cli/cli.h"

#include "base/banned.h"

static const struct cli_opt opts[] = {
    { .name = "idle", .arg = "TIME", .help = "without a daemon: end so long after the last page (5m)" },
    { .name = "no-open", .help = "only print the address; open no browser" },
    { 0 },
};

const struct cli_cmd cmd_ui = {
    .name = "ui",
    .group = CLI_LOOK,
    .args = "",
    .summary = "Show ports and claims in the browser",
    .details = "Prints the address of the dashboard, and opens the browser if there is a\n"
               "terminal and a desktop. The address works once, within a minute.\n"
               "\n"
               "The daemon serves the page. Without a daemon this command serves it over\n"
               "your own ledger, until Ctrl-C or until no page is open any more.",
    .examples = "dibs ui --no-open --idle 1s\n",
    .opts = opts,
    .program = "dibs-serve",
};
