/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/err.h"
#include "cli/claim_options.h"
#include "cli/manifest.h"
#include "cli/run/launch.h"
#include "cli/target.h"

#include "base/banned.h"

static dibs_status run_any(struct cli *cli, dibs_err *err)
{
    bool is_role = false;
    dibs_status s = DIBS_OK;

    if (cli_has(cli, "all"))
        return cli->argc ? err_set(err, DIBS_INVALID,
                                   "run: --all runs the commands of the manifest, and takes none")
                         : run_all(cli, NULL, 0, err);
    if (!cli->argc)
        return err_set(err, DIBS_INVALID, "run: which command? see 'dibs run --help'");
    run_drop_group(cli);
    if (run_is_roles(cli))
        return run_all(cli, cli->argv, (size_t) cli->argc, err);
    if (cli_has(cli, "keep-going"))
        return err_set(err, DIBS_INVALID, "run: '--keep-going' goes with '--all' or several roles");
    if (!cli->is_dashed)
        s = run_role(cli, &is_role, err);
    if (s || is_role)
        return s;
    cli_warn_manifest(cli);
    return run_command(cli, err);
}

static dibs_status run(struct cli *cli, dibs_err *err)
{
    dibs_status s = run_any(cli, err);

    run_as_end(cli, s);
    return s;
}

static const struct cli_opt opts[] = {
    { .name = "port",
      .letter = 'p',
      .arg = "NAME[:VARIABLE][=PORT]",
      .help = "a port with this name, or this very port; may be repeated",
      .words = ":names",
      .is_repeatable = true },
    { .name = "count", .letter = 'n', .arg = "N", .help = "this many ports of one -p: NAME/0, NAME/1, ..." },
    { .name = "contiguous", .help = "the ports follow each other" },
    { .name = "align", .arg = "N", .help = "the first of them is a multiple of N" },
    { .name = "as",
      .arg = "[NAME=]PORT[/PROTO]|any",
      .help = "the command uses this number, and really a claimed port; may be repeated",
      .is_repeatable = true },
    { .name = "as-by",
      .arg = "WAY",
      .help = "how --as works: bpf where the daemon enforces claims, else seccomp",
      .words = "seccomp bpf" },
    { .name = "listen",
      .arg = "NAME[=PORT]",
      .help = "as -p, and dibs listens on it and passes the socket (LISTEN_FDS); may be repeated",
      .words = ":names",
      .is_repeatable = true },
    CLI_REQUEST_OPTS,
    { .name = "all", .help = "run every role of the manifest that has a command" },
    { .name = "confine", .help = "the command can bind no other TCP ports (Linux 6.7)" },
    { .name = "keep-going", .help = "with --all or several roles: one that ends does not stop the others" },
    { .name = "keep", .help = "the claims stay when the command has ended" },
    { 0 },
};

/* Options that do not define ports. */
static bool is_for_roles(const char *option)
{
    return strcmp(option, "all") == 0 || strcmp(option, "keep-going") == 0 || strcmp(option, "as-by") == 0 ||
           strcmp(option, "confine") == 0 || strcmp(option, "hold") == 0;
}

dibs_status run_by_manifest(const struct cli *cli, dibs_err *err)
{
    for (const struct cli_opt *opt = opts; opt->name; opt++)
        if (!is_for_roles(opt->name) && cli_has(cli, opt->name))
            return err_set(err, DIBS_INVALID,
                           "run: the manifest defines the ports of a role, not '--%s'; change it there",
                           opt->name);
    return DIBS_OK;
}

const struct cli_cmd cmd_run = {
    .name = "run",
    .group = CLI_RUN,
    .args = "[--] COMMAND [ARGUMENT]... | ROLE[/INSTANCE] [-- COMMAND [ARGUMENT]...] | ROLE ROLE...",
    .summary = "Run a command with ports that are its own",
    .details = "Claims a port for each -p, or one without a name, and runs COMMAND with them\n"
               "in its environment: PORT is the first, PORT0, PORT1, ... are all of them,\n"
               "WEB_PORT is that of the name 'web', DIBS_PORTS lists names and ports. {web} in\n"
               "an argument becomes the port of 'web', {PORT} the first; ${PORT} stays for a\n"
               "shell to fill. -p web:ADDR gives the port of 'web' the variable ADDR instead.\n"
               "With -n 8 -p rank these are rank/0 to rank/7; RANK_PORT is the first of them.\n"
               "\n"
               "With --as 3000 COMMAND and its processes use port 3000 among themselves, and\n"
               "really a claimed port, so that several of them can run at once. PORT is then\n"
               "3000, and DIBS_OUTSIDE_PORT_3000 the port for all others. --as web=3000 names\n"
               "the claim, --as 53/udp is for datagrams. --as any claims a port for each number\n"
               "that COMMAND binds.\n"
               "\n"
               "With --listen web dibs binds the port of 'web' itself, before COMMAND runs, and\n"
               "passes the listening socket as systemd does: LISTEN_FDS, LISTEN_PID and\n"
               "LISTEN_FDNAMES. --hold fd does so with every port.\n"
               "\n"
               "With --confine the kernel refuses each other TCP port to COMMAND and its\n"
               "processes, so that a server cannot move silently to the next one.\n"
               "\n"
               "COMMAND holds the claims: they end with it, and ending dibs frees nothing.\n"
               "Signals are forwarded. The exit code is that of COMMAND, 128 and the number of\n"
               "the signal that ended it, 126 or 127 if it could not be run. dibs itself fails\n"
               "only before COMMAND starts.\n"
               "\n"
               "ROLE alone, or before '--', is a role of the manifest: its ports and those it\n"
               "refers to are in the environment under the names that the manifest gives, and\n"
               "without COMMAND the manifest's is run. Several roles, or with --all every role\n"
               "that has a command, run in parallel, with each line of output behind its role's\n"
               "name. When one of them ends, the others are stopped (SIGTERM, after 10 s\n"
               "SIGKILL), and its exit code is the answer. 'dibs stop' ends what runs.",
    .examples = "dibs run printenv PORT\n"
                "dibs run -p web -p api -- echo {web} {api}\n"
                "dibs run -n 8 --contiguous -p rank:MASTER_PORT -- printenv MASTER_PORT\n",
    .opts = opts,
    .flags = CLI_STOP | CLI_NO_JSON | CLI_CLAIMS | CLI_REPORTS_MANIFEST,
    .max_args = -1,
    .run = run,
};
