/* SPDX-License-Identifier: MIT */
/* The server: read messages, run one call at a time, send answers. It holds no claim, and a command that
 * still runs when it is killed ends by itself. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/lines.h"
#include "base/text.h"
#include "cli/file.h"
#include "cli/mcp/mcp.h"

#include "base/banned.h"

enum { PIECE_BYTES = 64 << 10, KILLED = 128 };

struct server {
    struct cli *cli;
    struct mcp m;
    struct bytes rest; /* an incomplete line */
    bool is_skipping;  /* the rest of a line that is too long */
    bool is_input_over;
    int64_t roots_until_ms; /* calls run then, also without an answer about roots; 0: not awaited */
    struct mcp_child child;
    struct mcp_outcome outcome; /* of the call that runs */
};

/* ---- messages ---- */

static const char *take(void *ctx, const char *line, size_t n)
{
    struct server *server = ctx;

    mcp_take(&server->m, line, n);
    return NULL;
}

static void feed(struct server *server, const char *piece, size_t n)
{
    if (server->is_skipping) {
        const char *end = memchr(piece, '\n', n);

        if (!end)
            return;
        server->is_skipping = false;
        n -= (size_t) (end - piece);
        piece = end;
    }
    if (!lines_take(&server->rest, piece, n, take, server))
        return;
    /* A line that began in an earlier piece, since it is longer than one. */
    bytes_done(&server->rest);
    mcp_refuse_long(&server->m);
    server->is_skipping = true;
    feed(server, piece, n);
}

static void read_input(struct server *server)
{
    static char piece[PIECE_BYTES];
    ssize_t n = read(STDIN_FILENO, piece, sizeof piece);

    if (n > 0)
        feed(server, piece, (size_t) n);
    else if (n == 0 || (errno != EINTR && errno != EAGAIN))
        server->is_input_over = true;
    if (server->is_input_over && server->rest.n > 0) /* the last line has no newline */
        feed(server, "\n", 1);
    if (!server->m.awaits_roots || server->is_input_over)
        server->roots_until_ms = 0;
    else if (server->roots_until_ms == 0)
        server->roots_until_ms = clock_monotonic_ms() + MCP_ROOTS_WAIT_MS;
}

static dibs_status send_output(struct server *server, dibs_err *err)
{
    struct bytes *out = &server->m.out;

    if (out->is_lost)
        return err_set(err, DIBS_FAILURE, "out of memory");
    if (out->n > 0 && !cli_write_all(STDOUT_FILENO, out->at, out->n)) {
        server->cli->exit_code = errno == EPIPE ? CLI_EXIT_READER_GONE : CLI_EXIT_OUTPUT;
        return err_os(err, DIBS_FAILURE, errno, "cannot write to standard output");
    }
    out->n = 0;
    return DIBS_OK;
}

/* ---- places ---- */

/* Return the i-th directory of the session, NULL after the last: those of --project; the one in which it was
 * started, if it is a project; those that the client tells. */
static const char *session_dir(const struct server *server, size_t i)
{
    if (cli_has(server->cli, "project"))
        return cli_value_at(server->cli, "project", i);
    if (server->m.wants_roots && server->m.n_roots > 0)
        return i < server->m.n_roots ? server->m.roots[i] : NULL;
    return i == 0 ? "." : NULL;
}

static bool is_of_session(const struct server *server, const struct mcp_place *place)
{
    struct mcp_place own;
    const char *dir = NULL;

    for (size_t i = 0; (dir = session_dir(server, i)); i++)
        if (mcp_place_find(server->cli, dir, &own, NULL) == DIBS_OK &&
            strcmp(own.project.dir, place->project.dir) == 0 &&
            strcmp(own.project.group, place->project.group) == 0)
            return true;
    return false;
}

/* Find the directory of a call. DENIED: it could end claims of another project. */
static dibs_status find_place(struct server *server, const struct mcp_call *call, char dir[PATH_MAX],
                              dibs_err *err)
{
    struct mcp_place *place = &server->outcome.place;
    const char *given = call->project ? call->project : "";
    const char *base = session_dir(server, 0);
    int n = given[0] == '/' ? snprintf(dir, PATH_MAX, "%s", given)
                            : snprintf(dir, PATH_MAX, "%s%s%s", base, given[0] ? "/" : "", given);

    if (n < 0 || n >= PATH_MAX)
        return err_set(err, DIBS_INVALID, "the path of the project is too long");
    dibs_status s = mcp_place_find(server->cli, dir, place, err);
    if (s || call->tool->is_reader || call->tool->only_adds)
        return s;
    /* The command runs where was checked: by then a link in the given path may lead to another project. */
    if (is_of_session(server, place))
        return !place->project.dir[0] || text_copy(dir, PATH_MAX, place->project.dir)
                   ? DIBS_OK
                   : err_set(err, DIBS_INVALID, "the path of the project is too long");
    return err_set(err, DIBS_DENIED, "%s could end claims of another project, %.300s", call->tool->name,
                   place->project.dir[0] ? place->project.dir : place->project.group);
}

/* ---- calls ---- */

static void finish(struct server *server, const char *failure)
{
    server->outcome.failure = failure;
    mcp_finish(&server->m, &server->outcome);
    bytes_done(&server->outcome.out);
    bytes_done(&server->outcome.err);
}

static void start(struct server *server)
{
    const struct mcp_call *call = server->m.first;
    char text[2 * DIBS_ERR_MSG_MAX];
    char dir[PATH_MAX];
    dibs_err err = { 0 };

    if (call->is_cancelled) {
        finish(server, "cancelled");
        return;
    }
    server->outcome = (struct mcp_outcome){ .code = 0 };
    dibs_status s = find_place(server, call, dir, &err);
    if (!s)
        s = mcp_child_start(server->cli, call, dir, &server->child, &err);
    if (!s)
        return;
    (void) snprintf(text, sizeof text, "%s. Next: %s", err.msg,
                    s == DIBS_DENIED ? "leave it to that project's agent, or ask the user"
                    : call->project  ? "give `project`, a directory that exists"
                                     : "ask the user, or give `project`");
    finish(server, text);
}

static bool is_running(const struct server *server)
{
    return server->child.pid > 0;
}

static void read_pipe(int *fd, struct bytes *into)
{
    char *to = bytes_reserve(into, PIECE_BYTES);
    ssize_t n = to && into->n < MCP_OUTPUT_MAX ? read(*fd, to, PIECE_BYTES) : 0;

    if (n > 0)
        into->n += (size_t) n;
    else if (n == 0 || errno != EINTR)
        fd_auto(fd);
}

/* Close our ends of its pipes. A command that cannot give its answer releases what it has claimed. */
static void close_pipes(struct mcp_child *child)
{
    fd_auto(&child->out);
    fd_auto(&child->err);
    fd_auto(&child->confirm);
}

/* Let the command end with what it has claimed: its answer, one line, is here, and will be given. */
static void confirm(struct server *server)
{
    struct mcp_child *child = &server->child;
    const struct bytes *out = &server->outcome.out;

    if (child->confirm < 0)
        return;
    if (!server->m.first->is_cancelled && out->n > 0 && out->at[out->n - 1] == '\n')
        server->m.first->is_done = write(child->confirm, "", 1) == 1;
    else if (child->out >= 0)
        return; /* the rest comes */
    fd_auto(&child->confirm);
}

/* Finish the call when its command has ended. */
static void reap(struct server *server)
{
    struct mcp_child *child = &server->child;
    struct pollfd end = { .fd = child->end, .events = POLLIN };
    const struct bytes *out = &server->outcome.out;
    int status = 0;

    if (server->m.first->is_cancelled)
        close_pipes(child);
    confirm(server);
    if (child->out >= 0 || child->err >= 0 || (child->end >= 0 && poll(&end, 1, 0) == 0))
        return;
    while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR) {
    }
    fd_auto(&child->end);
    fd_auto(&child->confirm);
    child->pid = 0;
    server->outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : KILLED + WTERMSIG(status);
    finish(server, out->is_lost || out->n >= MCP_OUTPUT_MAX
                       ? "the answer is too long. Next: call `dibs` in a shell, whose --help has filters"
                       : NULL);
}

/* Wait for input, for output and the end of the command, or for the time of the client's roots. */
static void wait_and_read(struct server *server)
{
    struct mcp_child *child = &server->child;
    bool has_output = is_running(server) && (child->out >= 0 || child->err >= 0);
    struct pollfd fds[] = { { server->is_input_over ? -1 : STDIN_FILENO, POLLIN, 0 },
                            { has_output ? child->out : -1, POLLIN, 0 },
                            { has_output ? child->err : -1, POLLIN, 0 },
                            { is_running(server) && !has_output ? child->end : -1, POLLIN, 0 } };
    int64_t wait_ms = server->roots_until_ms ? clock_until_ms(server->roots_until_ms) : -1;

    if (poll(fds, sizeof fds / sizeof *fds, (int) wait_ms) < 0)
        return;
    if (server->roots_until_ms && clock_until_ms(server->roots_until_ms) == 0) {
        server->m.awaits_roots = false;
        server->roots_until_ms = 0;
    }
    if (fds[0].revents)
        read_input(server);
    if (fds[1].revents)
        read_pipe(&child->out, &server->outcome.out);
    if (fds[2].revents)
        read_pipe(&child->err, &server->outcome.err);
}

dibs_status mcp_serve(struct cli *cli, dibs_err *err)
{
    struct server server = { .cli = cli };
    struct mcp_place here;
    dibs_status s = DIBS_OK;

    if (isatty(STDIN_FILENO))
        cli_note(cli, "waiting for an agent's messages; 'dibs mcp install' shows how an agent starts this");
    server.m.wants_roots = !cli_has(cli, "project") &&
                           (mcp_place_find(cli, ".", &here, NULL) != DIBS_OK || !here.project.is_marked);
    while (!s && !(server.is_input_over && !server.m.first)) {
        wait_and_read(&server);
        if (is_running(&server))
            reap(&server);
        while (!is_running(&server) && server.m.first && (!server.m.awaits_roots || server.is_input_over))
            start(&server);
        s = send_output(&server, err);
    }
    if (is_running(&server)) {
        close_pipes(&server.child);
        fd_auto(&server.child.end);
    }
    mcp_done(&server.m);
    bytes_done(&server.rest);
    bytes_done(&server.outcome.out);
    bytes_done(&server.outcome.err);
    return s;
}
