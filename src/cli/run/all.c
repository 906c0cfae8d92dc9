/* SPDX-License-Identifier: MIT */
/* `dibs run --all` and `dibs run ROLE ROLE`: run several pods in parallel. All ports are claimed in one step,
 * each line of output has its pod's title in front, and the pods are stopped together. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/claim_options.h"
#include "cli/run/note.h"
#include "cli/run/processes.h"
#include "cli/run/pty.h"
#include "cli/terminal.h"

#include "base/banned.h"

enum { PREFIX_EXTRA = 3 }; /* " | " behind the title */

static void processes_free(struct processes *all)
{
    for (size_t i = 0; i < all->n; i++) {
        run_group_free(&all->parts[i].group);
        for (int s = 0; s < STREAMS; s++) {
            fd_auto(&all->parts[i].write_end[s]);
            fd_auto(&all->parts[i].stream[s].fd);
        }
    }
    for (int s = 0; s < STREAMS; s++)
        relay_sink_close(&all->sinks[s]);
    pods_done(&all->pods);
    free(all->parts);
    free(all->children);
    free(all->polled);
    free(all->claims.requests);
    free(all->claims.claims);
}

static dibs_status add_part(struct processes *all, size_t i, dibs_err *err)
{
    struct part *part = &all->parts[i];

    *part = (struct part){ .child = { .go = -1, .outcome = -1 },
                           .title = all->pods.all[i].title,
                           .write_end = { -1, -1 },
                           .stream = { { .fd = -1, .left = SIZE_MAX }, { .fd = -1, .left = SIZE_MAX } } };
    all->n++;
    if ((int) strlen(part->title) > all->width)
        all->width = (int) strlen(part->title);
    dibs_status s = pod_launch(&all->pods.all[i], &part->launch, err);
    part->launch.is_confined = i == 0 ? launch_may_confine(all->cli) : all->parts[0].launch.is_confined;
    return s;
}

/* Without typed words: all pods with a command. */
static dibs_status find_parts(struct processes *all, char *const *typed, size_t n_typed, dibs_err *err)
{
    dibs_status s = pods_find(all->cli->manifest, typed, n_typed, &all->pods, err);

    if (s)
        return s;
    all->parts = calloc(all->pods.n, sizeof *all->parts);
    all->children = calloc(all->pods.n, sizeof *all->children);
    all->polled = calloc(1 + STREAMS + STREAMS * all->pods.n, sizeof *all->polled);
    if (!all->parts || !all->children || !all->polled)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (size_t i = 0; i < all->pods.n && !s; i++)
        s = add_part(all, i, err);
    return s;
}

/* In the child: execute the command in its own process group, so that its children are stopped with it. */
static int exec_part(void *ctx, const uint16_t *ports)
{
    struct part *part = ctx;
    int nothing = open("/dev/null", O_RDONLY);

    (void) setpgid(0, 0);
    if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(part->write_end[0], STDOUT_FILENO) < 0 ||
        dup2(part->write_end[1], STDERR_FILENO) < 0)
        return errno;
    if (nothing > STDERR_FILENO)
        (void) close(nothing);
    return launch_exec(&part->launch, ports);
}

/* Open where a part writes to: a terminal if dibs itself writes to one there, else a pipe. One terminal is
 * for both streams, which keeps their order. */
static dibs_status open_streams(struct processes *all, struct part *part, dibs_err *err)
{
    for (int s = 0; s < STREAMS; s++) {
        int ends[2] = { -1, -1 };

        if (s == 1 && all->is_terminal[0] && all->is_terminal[1]) {
            part->write_end[1] = fcntl(part->write_end[0], F_DUPFD_CLOEXEC, 0);
            return part->write_end[1] >= 0 ? DIBS_OK : err_os(err, DIBS_FAILURE, errno, "run: cannot go on");
        }
        part->stream[s].is_terminal =
            all->is_terminal[s] && pty_open(STDOUT_FILENO + s, all->width + PREFIX_EXTRA, ends);
        if (!part->stream[s].is_terminal && pipe2(ends, O_CLOEXEC))
            return err_os(err, DIBS_FAILURE, errno, "run: cannot make a pipe");
        part->stream[s].fd = ends[0];
        part->write_end[s] = ends[1];
        (void) fcntl(ends[0], F_SETFL, O_NONBLOCK);
    }
    return DIBS_OK;
}

static dibs_status start_part(struct processes *all, size_t i, dibs_err *err)
{
    struct part *part = &all->parts[i];
    struct child_options options = { .name = launch_name(&part->launch),
                                     .n_ports = part->launch.n,
                                     .exec = exec_part,
                                     .ctx = part,
                                     .others = all->children,
                                     .n_others = i,
                                     .as = all->cli->as };

    dibs_status s = open_streams(all, part, err);
    if (s)
        return s;
    run_note_prepare(&part->launch);
    s = child_start(&options, &all->signals, &part->child, err);
    if (s)
        return s;
    all->children[i] = part->child;
    all->n_living++;
    part->group.leader = part->child.pid;
    (void) setpgid(part->child.pid, part->child.pid); /* parent and child both do it: either may be first */
    for (int k = 0; k < STREAMS; k++)
        fd_auto(&part->write_end[k]);
    return DIBS_OK;
}

static dibs_status start_all(struct processes *all, dibs_err *err)
{
    dibs_status s = child_prepare(&all->signals, err);

    /* Fork before the ledger is open: SQLite's connections do not survive a fork. */
    for (size_t i = 0; i < all->n && !s; i++)
        s = start_part(all, i, err);
    if (!s)
        s = pods_check_idle(all->cli, &all->pods, err);
    for (size_t i = 0; i < all->claims.n && !s; i++) {
        dibs_request *r = &all->claims.requests[i];
        r->pid = r->holder == DIBS_HELD_BY_PROCESS ? all->parts[r->pid].child.pid : 0;
    }
    if (!s)
        s = launch_claim(&all->claims, err);
    return workload_advise(all->cli->manifest, s, err);
}

/* Start the notifier. The commands have to wait until it serves. */
static dibs_status serve_as(struct processes *all, uint16_t *ports, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    if (!all->cli->as)
        return DIBS_OK;
    for (size_t p = 0; p < all->n && !s; p++) {
        const struct launch *launch = &all->parts[p].launch;
        const struct run_as_command command = {
            .which = p, .title = all->parts[p].title, .ports = launch->as, .outside = ports, .n = launch->n
        };

        pod_ports(&all->pods.all[p], &all->claims, ports);
        s = run_as_number(all->cli, &command, err);
    }
    return s ? s : run_as_serve(all->cli, err);
}

/* Note the ports of a part: "dibs: web | http 20001, debug 20002". */
static void note_ports(struct processes *all, size_t p, const uint16_t *ports)
{
    const struct pod *pod = &all->pods.all[p];
    char text[512] = "";

    for (size_t i = 0; i < pod->needs.n; i++) {
        const struct workload_need *need = &pod->needs.all[i];
        size_t used = strlen(text);

        if (need->pod.component != pod->pod.component || need->pod.role != pod->pod.role || need->number > 0)
            continue; /* of another one, or a later one of several */
        (void) snprintf(text + used, sizeof text - used, "%s%s %u", used ? ", " : "", need->port->name,
                        ports[i]);
    }
    if (text[0])
        processes_note(all, "%-*s | %s", all->width, all->parts[p].title, text);
}

static dibs_status start_commands(struct processes *all, dibs_err *err)
{
    AUTO(free_auto) uint16_t *ports = calloc(all->claims.n + 1, sizeof *ports);

    if (!ports)
        return err_set(err, DIBS_FAILURE, "out of memory");
    cli_note_claims(all->cli, all->claims.claims, all->claims.n - all->claims.n_declared);
    dibs_status s = serve_as(all, ports, err);
    if (s)
        return s;
    for (size_t p = 0; p < all->n; p++) {
        pod_ports(&all->pods.all[p], &all->claims, ports);
        note_ports(all, p, ports);
        run_note_write(all->cli, &all->parts[p].launch, all->parts[p].title, true, all->parts[p].child.pid);
    }
    for (size_t p = 0; p < all->n; p++) {
        struct part *part = &all->parts[p];

        pod_ports(&all->pods.all[p], &all->claims, ports);
        child_go(&part->child, ports, part->launch.n);
        fd_auto(&part->child.go); /* a child that cannot run need not wait: none of its claims is kept */
    }
    return DIBS_OK;
}

static dibs_status run_processes(struct processes *all, dibs_err *err)
{
    dibs_status s = start_all(all, err);
    AUTO(fd_auto) int signals = s ? -1 : signalfd(-1, &all->signals.waited, SFD_NONBLOCK | SFD_CLOEXEC);

    if (!s && signals < 0)
        s = err_os(err, DIBS_FAILURE, errno, "run: cannot wait for signals");
    if (!s)
        s = start_commands(all, err);
    if (s) {
        for (size_t i = 0; i < all->n; i++)
            child_cancel(&all->parts[i].child);
        if (all->cli->handle)
            launch_release(&all->claims, false);
        return s;
    }
    processes_supervise(all, signals);
    launch_release(&all->claims, !all->failed);
    for (size_t i = 0; i < all->n; i++)
        run_note_remove(all->cli, &all->parts[i].launch);
    processes_drain(all, signals);
    if (all->failed)
        return launch_not_run(all->cli, all->failed_command, all->failed, err);
    int unwritten = all->sinks[0].failed;
    all->cli->exit_code = !unwritten           ? all->code
                          : unwritten == EPIPE ? CLI_EXIT_READER_GONE
                                               : CLI_EXIT_OUTPUT;
    return unwritten ? err_os(err, DIBS_FAILURE, unwritten, "cannot write to standard output") : DIBS_OK;
}

dibs_status run_all(struct cli *cli, char *const *typed, size_t n_typed, dibs_err *err)
{
    AUTO(processes_free)
    struct processes all = {
        .cli = cli, .code = -1, .claims = { .cli = cli }, .keeps_going = cli_has(cli, "keep-going")
    };
    FILE *const streams[STREAMS] = { stdout, stderr };
    bool is_first = false;
    dibs_status s = run_by_manifest(cli, err);

    for (int i = 0; i < STREAMS; i++) {
        relay_sink_open(&all.sinks[i], STDOUT_FILENO + i);
        all.is_terminal[i] = terminal_has_cursor(streams[i]);
        all.has_colour[i] = terminal_has_colour(streams[i]);
    }
    if (!s)
        s = cli_need_manifest(cli, err);
    if (!s)
        s = find_parts(&all, typed, n_typed, err);
    if (!s)
        s = pods_plan(&all.pods, &all.claims, err);
    if (!s && cli_has(cli, "hold") && strcmp(cli_value(cli, "hold"), "fd") == 0)
        s = err_set(err, DIBS_INVALID, "run: --hold fd is for one command; run each role alone");
    if (!s)
        s = pods_begin_as(cli, all.pods.all, all.pods.n, &is_first, err);
    return s || is_first ? s : run_processes(&all, err);
}
