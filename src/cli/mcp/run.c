/* SPDX-License-Identifier: MIT */
/* Run the command of a call in a process of its own: it works in the project's directory, can be cancelled,
 * and sees the ledger of its moment. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/pidfd.h>

#include "base/auto.h"
#include "base/err.h"
#include "cli/mcp/mcp.h"
#include "cli/parse.h"

#include "base/banned.h"

enum { FIRST_WORDS = 3, READ_END = 0, WRITE_END = 1 };

struct line {
    char *words[FIRST_WORDS + DIBS_SETTING_COUNT + MCP_WORDS_MAX + 1];
    size_t n;
    size_t n_settings;
    char *settings[DIBS_SETTING_COUNT]; /* "--ledger=URI", owned */
};

static void line_auto(struct line *line)
{
    for (size_t i = 0; i < line->n_settings; i++)
        free(line->settings[i]);
}

/* Compose "dibs --json --quiet SETTINGS... COMMAND...". Answers have no notes, but warnings. */
static bool compose(struct line *line, const struct cli *cli, const struct mcp_call *call)
{
    static char first[FIRST_WORDS][8] = { "dibs", "--json", "--quiet" };

    for (size_t i = 0; i < FIRST_WORDS; i++)
        line->words[line->n++] = first[i];
    for (size_t i = 0; i < cli->n_given; i++) {
        const struct cli_given *given = &cli->given[i];
        char *word = NULL;

        if (cli_setting_of(given->opt) >= DIBS_SETTING_COUNT)
            continue;
        if (asprintf(&word, "--%s%s%s", given->opt->name, given->value ? "=" : "",
                     given->value ? given->value : "") < 0)
            return false;
        line->settings[line->n_settings++] = word;
        line->words[line->n++] = word;
    }
    for (size_t i = 0; i < call->n_words; i++)
        line->words[line->n++] = call->words[i];
    return true;
}

/* The child's descriptors; in: -1: /dev/null. */
struct ends {
    int in, out, err;
};

static int spawn(char *const *words, const char *dir, const struct ends *ends, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    int why = posix_spawn_file_actions_init(&actions);

    if (why)
        return why;
    why = ends->in >= 0 ? posix_spawn_file_actions_adddup2(&actions, ends->in, STDIN_FILENO)
                        : posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!why)
        why = posix_spawn_file_actions_adddup2(&actions, ends->out, STDOUT_FILENO);
    if (!why)
        why = posix_spawn_file_actions_adddup2(&actions, ends->err, STDERR_FILENO);
    if (!why)
        why = posix_spawn_file_actions_addchdir_np(&actions, dir);
    if (!why)
        why = posix_spawn(pid, "/proc/self/exe", &actions, NULL, words, environ);
    (void) posix_spawn_file_actions_destroy(&actions);
    return why;
}

dibs_status mcp_child_start(const struct cli *cli, const struct mcp_call *call, const char *dir,
                            struct mcp_child *child, dibs_err *err)
{
    AUTO(line_auto) struct line line = { .n = 0 };
    int in[2] = { -1, -1 };
    int out[2] = { -1, -1 };
    int errors[2] = { -1, -1 };
    pid_t pid = 0;
    int why =
        !compose(&line, cli, call) ? ENOMEM
        : (call->tool->is_confirmed && pipe2(in, O_CLOEXEC)) || pipe2(out, O_CLOEXEC) ||
                pipe2(errors, O_CLOEXEC)
            ? errno
            : spawn(line.words, dir, &(struct ends){ in[READ_END], out[WRITE_END], errors[WRITE_END] }, &pid);

    fd_auto(&in[READ_END]);
    fd_auto(&out[WRITE_END]);
    fd_auto(&errors[WRITE_END]);
    if (why) {
        fd_auto(&in[WRITE_END]);
        fd_auto(&out[READ_END]);
        fd_auto(&errors[READ_END]);
        return err_os(err, DIBS_FAILURE, why, "cannot run dibs in '%.300s'", dir);
    }
    *child = (struct mcp_child){ .pid = pid,
                                 .out = out[READ_END],
                                 .err = errors[READ_END],
                                 .confirm = in[WRITE_END],
                                 .end = pidfd_open(pid, 0) };
    return DIBS_OK;
}
