/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/help.h"
#include "cli/manifest.h"
#include "cli/parse.h"
#include "cli/report.h"
#include "json/json.h"

#include "base/banned.h"

/* Whoever starts us with 0, 1 or 2 closed must not make the ledger one of them. What we open is
 * close-on-exec, so that `run` hands on exactly what it got; stdout is opened for reading, so that
 * writing an answer still fails. */
static bool guard_standard_fds(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF)
            continue;
        if (open("/dev/null", (fd == 2 ? O_WRONLY : O_RDONLY) | O_CLOEXEC) != fd)
            return false;
    }
    return true;
}

/* Found out before anything is claimed that nobody could be told of. */
static dibs_status check_stdout(struct cli *cli, dibs_err *err)
{
    bool is_silent = (cli->cmd->flags & CLI_NO_JSON) || ((cli->cmd->flags & CLI_SILENT) && !cli->json);
    int flags = fcntl(STDOUT_FILENO, F_GETFL);

    if (is_silent || (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY))
        return DIBS_OK;
    cli->exit_code = CLI_EXIT_OUTPUT;
    return err_os(err, DIBS_FAILURE, EBADF, "cannot write to standard output");
}

static void do_nothing(int number)
{
    (void) number;
}

/* A ledger at the limit of file sizes is a write that fails, not our death. Caught and not ignored: a command
 * that `run` starts has the signal as it was. */
static void survive_size_limit(void)
{
    struct sigaction before = { 0 };
    struct sigaction ours = { .sa_handler = do_nothing };

    if (sigaction(SIGXFSZ, NULL, &before) == 0 && before.sa_handler == SIG_DFL)
        (void) sigaction(SIGXFSZ, &ours, NULL);
}

static dibs_status prepare(struct cli *cli, dibs_err *err)
{
    dibs_flag flags[DIBS_SETTING_COUNT];
    char shown[1024];
    dibs_status s = check_stdout(cli, err);

    if (!s && !(cli->cmd->flags & CLI_NO_SETTINGS))
        s = cli_settings_load(cli, flags, cli_flags(cli, flags), err);
    if (!s && cli->settings.unread[0])
        cli_warn("settings file %s may not be read: it is passed over",
                 cli_safe(cli->settings.unread, shown, sizeof shown));
    if (!s && (cli->cmd->flags & CLI_HANDLE))
        s = cli_open(cli, err);
    return s;
}

static dibs_status dispatch(struct cli *cli, dibs_err *err)
{
    if (cli_has(cli, "version"))
        cli->cmd = &cmd_version;
    if (cli_has(cli, "list-commands")) {
        help_list_commands(stdout);
        return DIBS_OK;
    }
    if (cli_has(cli, "help")) {
        if (cli->cmd)
            help_command(stdout, cli->cmd);
        else
            help_overview(stdout);
        return DIBS_OK;
    }
    if (!cli->cmd)
        return err_set(err, DIBS_INVALID, "no command; usage: dibs COMMAND [ARGUMENT]..., see 'dibs --help'");
    /* A reader that went away is a failed write, not our death. `run` leaves the signal as it is:
     * its command inherits it. */
    if (!(cli->cmd->flags & CLI_NO_JSON))
        (void) signal(SIGPIPE, SIG_IGN);
    dibs_status s = prepare(cli, err);
    return s ? s : cli->cmd->run(cli, err);
}

/* The parser may have stopped before it came to --json. */
static bool asks_for_json(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (!strcmp(argv[i], "--json"))
            return true;
    }
    return false;
}

int main(int argc, char **argv)
{
    struct cli cli = { .exit_code = -1 };
    dibs_err err = { 0 };

    if (!guard_standard_fds())
        return CLI_EXIT_OUTPUT;
    survive_size_limit();
    json_own();
    cli.json = asks_for_json(argc, argv); /* argv is not whole any more afterwards */
    dibs_status s = cli_parse(&cli, argc, argv, &err);
    if (!s)
        s = dispatch(&cli, &err);
    dibs_close(cli.handle);
    workload_free(cli.manifest);
    if (!s)
        s = cli_flush(&cli, &err);
    else
        (void) fflush(stdout);
    int code = cli.exit_code >= 0 ? cli.exit_code : cli_exit_code(s);
    if (s && code != CLI_EXIT_READER_GONE) /* `dibs log | head`: whoever stopped reading has what he wanted */
        report_error(&cli, code, &err);
    return code;
}
