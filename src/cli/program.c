/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "cli/help.h"
#include "cli/manifest.h"
#include "cli/parse.h"
#include "cli/program.h"
#include "cli/progress.h"
#include "codec/wire.h"

#include "base/banned.h"

/* Open 0, 1 and 2 if the caller has closed them: the ledger's file must not become one of them. They are
 * close-on-exec, so that the command of `run` gets exactly what dibs got; stdout is opened for reading, so
 * that writing an answer still fails. */
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

/* Fail before anything is claimed when there is no standard output for the answer. */
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

/* Let a write beyond the file size limit fail instead of ending the process. The signal is caught, not
 * ignored: the command of `run` would inherit that. */
static void survive_size_limit(void)
{
    struct sigaction before = { 0 };
    struct sigaction ours = { .sa_handler = do_nothing };

    if (sigaction(SIGXFSZ, NULL, &before) == 0 && before.sa_handler == SIG_DFL)
        (void) sigaction(SIGXFSZ, &ours, NULL);
}

/* Write the path of a file beside this program, links resolved; false when unknown or too long. */
static bool path_beside(const char *name, char *out, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", out, size - 1);

    if (n <= 0 || (size_t) n >= size - 1)
        return false;
    out[n] = '\0';
    char *slash = strrchr(out, '/');
    size_t space = slash ? size - (size_t) (slash + 1 - out) : 0;

    return slash && (size_t) snprintf(slash + 1, space, "%s", name) < space;
}

dibs_status program_find(const char *name, char *out, size_t size, dibs_err *err)
{
    if (path_beside(name, out, size) && access(out, X_OK) == 0)
        return DIBS_OK;
    if ((size_t) snprintf(out, size, "%s/%s", DIBS_LIBEXEC_DIR, name) < size && access(out, X_OK) == 0)
        return DIBS_OK;
    return err_set(err, DIBS_UNAVAILABLE, "%s is missing: this dibs was built or installed without it", name);
}

/* Replace this process by another program of dibs, with the same command line. Search it beside this
 * program, then in the configured directory. Returns only on FAILURE. */
static dibs_status program_exec(const char *name, char *const *argv, dibs_err *err)
{
    char path[PATH_MAX];
    int beside_errno = ENOENT;

    if (path_beside(name, path, sizeof path)) {
        (void) execv(path, argv);
        beside_errno = errno;
    }
    if (beside_errno != ENOENT && beside_errno != EACCES)
        return err_os(err, DIBS_FAILURE, beside_errno, "cannot execute %s", path);
    (void) snprintf(path, sizeof path, "%s/%s", DIBS_LIBEXEC_DIR, name);
    (void) execv(path, argv);
    int code = errno;
    return code == ENOENT ? err_set(err, DIBS_FAILURE,
                                    "%s is missing: it belongs beside dibs or into %s; install dibs again",
                                    name, DIBS_LIBEXEC_DIR)
                          : err_os(err, DIBS_FAILURE, code, "cannot execute %s", path);
}

/* Does the command itself use etcd? `doctor` asks its members; the others reach a cluster through `serve`. */
static bool uses_etcd(const struct cli *cli)
{
    return (cli->cmd == &cmd_serve || cli->cmd == &cmd_doctor) &&
           strncmp(cli->settings.ledger, "etcd:", strlen("etcd:")) == 0;
}

/* Load the settings and open the ledger, if the command needs them; `line` is the original command line. */
static dibs_status prepare(const struct program *self, struct cli *cli, char **line, dibs_err *err)
{
    dibs_flag flags[DIBS_SETTING_COUNT];
    dibs_status s = check_stdout(cli, err);

    if (!s && !(cli->cmd->flags & CLI_NO_SETTINGS))
        s = cli_settings_load(cli, flags, cli_flags(cli, flags), err);
    if (!s && uses_etcd(cli) && !self->opens_clusters)
        s = program_exec("dibs-serve-etcd", line, err);
    if (!s && cli->settings.unread[0])
        cli_warn("settings file %s may not be read: it is ignored", cli->settings.unread);
    if (!s && (cli->cmd->flags & CLI_HANDLE))
        s = cli_open(cli, err);
    return s;
}

static dibs_status dispatch(const struct program *self, struct cli *cli, char **line, dibs_err *err)
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
    bool is_foreign = cli->cmd->program && strcmp(cli->cmd->program, self->name) != 0;

    if (is_foreign)
        return program_exec(cli->cmd->program, line, err);
    /* A write to a closed pipe fails instead of ending the process. Not for `run`, whose command inherits
     * the signal's disposition. */
    if (!(cli->cmd->flags & CLI_NO_JSON))
        (void) signal(SIGPIPE, SIG_IGN);
    dibs_status s = prepare(self, cli, line, err);

    if (s)
        return s;
    AUTO(progress_end) struct progress progress = { .is_running = false };
    if (cli->cmd->flags & CLI_SLOW)
        progress_begin(&progress, cli);
    if (cli->cmd->verbs)
        return cli_run_verb(cli, cli->cmd->verbs, err);
    return cli->cmd->program ? self->run(cli, err) : cli->cmd->run(cli, err);
}

/* Was --json given? The parser may have stopped before it. */
static bool asks_for_json(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (!strcmp(argv[i], "--json"))
            return true;
    }
    return false;
}

/* Print an error as one line on stderr: text for people, with --json an object. */
static void report_error(const struct cli *cli, int exit_code, const dibs_err *err)
{
    char people[DIBS_ERR_MSG_MAX];
    char shown[DIBS_ERR_MSG_MAX];
    struct jsonw w;

    if (!cli->json) {
        const char *text = err->msg[0] ? err->msg : dibs_status_text(err->code);

        (void) cli_for_people(cli, text, people, sizeof people);
        (void) fprintf(stderr, "dibs: %s\n", text_safe(people, shown, sizeof shown));
        return;
    }
    jsonw_begin(&w, stderr);
    jsonw_object(&w);
    jsonw_key_object(&w, "error");
    jsonw_key_string(&w, "code", exit_code == CLI_EXIT_OUTPUT ? "output" : wire_code_text(err->code));
    jsonw_key_int(&w, "exit", exit_code);
    jsonw_key_string(&w, "message", err->msg);
    if (err->blocker.relation != DIBS_REL_NONE)
        wire_blocker(&w, &err->blocker);
    jsonw_end_object(&w);
    jsonw_end_object(&w);
    jsonw_finish(&w);
}

int program_main(const struct program *self, int argc, char **argv)
{
    struct cli cli = { .exit_code = -1, .w = { .to = stdout } };
    dibs_err err = { 0 };
    size_t n = (size_t) argc + 1;

    if (!guard_standard_fds())
        return CLI_EXIT_OUTPUT;
    survive_size_limit();
    cli.json = asks_for_json(argc, argv);
    AUTO(free_auto) char **line = calloc(n, sizeof *line); /* the parser changes argv */
    if (!line)
        return DIBS_FAILURE;
    memcpy(line, argv, n * sizeof *line);
    dibs_status s = cli_parse(&cli, argc, argv, &err);
    if (!s)
        s = dispatch(self, &cli, line, &err);
    dibs_close(cli.handle);
    workload_free(cli.manifest);
    cli_end_json(&cli); /* also after a failure: changes made before it are shown */
    if (!s)
        s = cli_flush(&cli, &err);
    else
        (void) fflush(stdout);
    int code = cli.exit_code >= 0 ? cli.exit_code : (int) s; /* a status is its exit code */
    if (s && code != CLI_EXIT_READER_GONE)                   /* `dibs log | head`: the reader needs no more */
        report_error(&cli, code, &err);
    return code;
}
