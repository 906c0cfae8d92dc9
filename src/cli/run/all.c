/* SPDX-License-Identifier: MIT */
/* `dibs run --all`: run every pod whose role has a command, in parallel. All ports are claimed in one step,
 * each line of output is prefixed with its pod's title, and the pods are stopped together. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "cli/claim_options.h"
#include "cli/run/pod.h"
#include "cli/run/relay.h"

#include "base/banned.h"

enum {
    SAME_MOMENT_MS = 500,
    GRACE_MS = 10000, /* from the first signal to SIGKILL */
    IDLE_MS = 1000,   /* how long a reader may be idle after the end */
    STREAMS = 2,      /* stdout, stderr */
};

struct part {
    struct child child;
    struct launch launch; /* its context is the pod at the same index */
    char title[PODS_TITLE_MAX];
    int write_end[STREAMS];
    struct relay_stream stream[STREAMS];
};

struct processes {
    struct cli *cli;
    struct pods pods;
    struct part *parts;
    size_t n, n_living;
    struct child *children; /* children started so far; later ones close their pipes */
    struct child_signals signals;
    struct launch_claims claims;
    struct relay_sink sinks[STREAMS];
    struct pollfd *polled; /* both sinks, signals, streams */
    size_t turn;           /* index of the part that writes first */
    int width;             /* of the longest title */
    int code;              /* exit code of the first part that ended; -1: none has */
    int failed;            /* errno of the first part that could not run */
    const char *failed_command;
    bool is_stopping;
    bool is_signalled;  /* a signal has asked dibs to stop */
    int64_t term_at_ms; /* when SIGTERM follows an ignored interrupt; 0: not pending */
    int64_t kill_at_ms; /* when SIGKILL follows; 0: not pending */
};

static void processes_free(struct processes *all)
{
    for (size_t i = 0; i < all->n; i++)
        for (int s = 0; s < STREAMS; s++) {
            fd_auto(&all->parts[i].write_end[s]);
            fd_auto(&all->parts[i].stream[s].fd);
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
                           .write_end = { -1, -1 },
                           .stream = { { .fd = -1, .left = SIZE_MAX }, { .fd = -1, .left = SIZE_MAX } } };
    all->n++;
    pod_title(&all->pods.all[i].pod, part->title, sizeof part->title);
    if ((int) strlen(part->title) > all->width)
        all->width = (int) strlen(part->title);
    dibs_status s = pod_launch(&all->pods.all[i], &part->launch, err);
    part->launch.is_confined = i == 0 ? launch_may_confine(all->cli) : all->parts[0].launch.is_confined;
    return s;
}

static dibs_status find_parts(struct processes *all, dibs_err *err)
{
    dibs_status s = pods_find(all->cli->manifest, NULL, 0, &all->pods, err);

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

    for (int s = 0; s < STREAMS; s++) {
        int ends[2] = { -1, -1 };

        if (pipe2(ends, O_CLOEXEC))
            return err_os(err, DIBS_FAILURE, errno, "run: cannot make a pipe");
        part->stream[s].fd = ends[0];
        part->write_end[s] = ends[1];
        (void) fcntl(ends[0], F_SETFL, O_NONBLOCK);
    }
    dibs_status s = child_start(&options, &all->signals, &part->child, err);
    if (s)
        return s;
    all->children[i] = part->child;
    all->n_living++;
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
        struct part *part = &all->parts[p];

        pod_ports(&all->pods.all[p], &all->claims, ports);
        child_go(&part->child, ports, part->launch.n);
        fd_auto(&part->child.go); /* a child that cannot run need not wait: none of its claims is kept */
    }
    return DIBS_OK;
}

/* ---- main loop ---- */

/* Move the parts' output into the sinks as far as it fits. The parts take turns at being first. */
static void relay(struct processes *all)
{
    char title[PODS_TITLE_MAX];

    all->turn++;
    for (size_t i = 0; i < all->n; i++) {
        struct part *part = &all->parts[(all->turn + i) % all->n];

        (void) snprintf(title, sizeof title, "%-*s", all->width, part->title);
        for (int s = 0; s < STREAMS; s++) {
            relay_stream_read(&part->stream[s]);
            relay_stream_put(&part->stream[s], title, &all->sinks[s]);
        }
    }
}

static void signal_all(const struct processes *all, int sig)
{
    for (size_t i = 0; i < all->n; i++) {
        pid_t pid = all->parts[i].child.pid;

        if (pid > 0 && kill(-pid, sig) < 0) /* not reaped yet: the process group is still its own */
            (void) kill(pid, sig);
    }
}

static void begin_stop(struct processes *all, int sig, int code)
{
    if (all->code < 0)
        all->code = code;
    signal_all(all, sig);
    if (!all->is_stopping) {
        all->kill_at_ms = clock_monotonic_ms() + GRACE_MS;
        all->term_at_ms = sig == SIGTERM ? 0 : clock_monotonic_ms() + GRACE_MS / 2;
    }
    all->is_stopping = true;
}

/* Send SIGTERM and SIGKILL when they are due. Return the time until the next one; -1: none. */
static int64_t send_due_signals(struct processes *all)
{
    int64_t now = clock_monotonic_ms();

    if (all->term_at_ms && now >= all->term_at_ms) {
        signal_all(all, SIGTERM);
        all->term_at_ms = 0;
    }
    if (all->kill_at_ms && now >= all->kill_at_ms) {
        signal_all(all, SIGKILL);
        all->kill_at_ms = 0;
    }
    int64_t next = all->term_at_ms ? all->term_at_ms : all->kill_at_ms;
    return next ? next - now : -1;
}

/* Note which part has ended. cli_note() could block. */
static void note_end(struct processes *all, const struct part *part, int code)
{
    char note[PODS_TITLE_MAX + 64];
    int len = snprintf(note, sizeof note, "dibs: %s has ended with %d; the others are stopped\n", part->title,
                       code);

    if (!all->cli->quiet)
        (void) relay_sink_put(&all->sinks[1], note, (size_t) len);
}

static bool is_part(const struct processes *all, pid_t pid)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->parts[i].child.pid == pid)
            return true;
    return false;
}

static void reap_all(struct processes *all)
{
    pid_t other = child_next_ended();

    while (other && !is_part(all, other) && waitpid(other, NULL, WNOHANG) == other)
        other = child_next_ended();
    for (size_t i = 0; i < all->n; i++) {
        struct part *part = &all->parts[i];
        siginfo_t info = { 0 };
        int status = 0;
        int failed = 0;

        if (part->child.pid <= 0 ||
            waitid(P_PID, (id_t) part->child.pid, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid == 0)
            continue;
        /* Stop the processes that it has left, while the process group is still its own. */
        (void) kill(-part->child.pid, SIGTERM);
        (void) waitpid(part->child.pid, &status, 0);
        int code = child_ended(&part->child, status, &failed);
        all->n_living--;
        if (failed && !all->failed) {
            all->failed = failed;
            all->failed_command = part->launch.argv[0];
        }
        if (!all->is_stopping && !failed)
            note_end(all, part, code);
        begin_stop(all, SIGTERM, code);
    }
}

/* Is this a second Ctrl-C? A wrapper that forwards the terminal's signal sends it at the same moment. */
static bool is_impatient(const struct processes *all)
{
    return all->is_stopping && clock_monotonic_ms() - (all->kill_at_ms - GRACE_MS) > SAME_MOMENT_MS;
}

static void read_signals(struct processes *all, int fd)
{
    struct signalfd_siginfo info = { 0 };

    while (read(fd, &info, sizeof info) == (ssize_t) sizeof info) {
        int sig = (int) info.ssi_signo;

        if (sig == SIGCHLD)
            continue;
        bool is_stop = sig == SIGINT || sig == SIGTERM || sig == SIGHUP || sig == SIGQUIT;

        all->is_signalled = all->is_signalled || is_stop;
        if (is_stop)
            begin_stop(all, is_impatient(all) && sig == SIGINT ? SIGKILL : sig, 128 + sig);
        else if (sig != SIGTSTP && sig != SIGCONT && sig != SIGWINCH)
            signal_all(all, sig);
    }
}

/* Wait for output, a writable sink or signals, at most `timeout_ms` (-1: without limit), and move output.
 * Return true when something was written. */
static bool await(struct processes *all, int signals, int64_t timeout_ms)
{
    nfds_t n = 0;
    bool is_written = false;

    /* Do not poll an empty sink: a closed one would wake us again and again. */
    for (int s = 0; s < STREAMS; s++)
        all->polled[n++] =
            (struct pollfd){ .fd = all->sinks[s].used ? all->sinks[s].fd : -1, .events = POLLOUT };
    all->polled[n++] = (struct pollfd){ .fd = signals, .events = POLLIN };
    for (size_t i = 0; i < all->n; i++)
        for (int s = 0; s < STREAMS; s++)
            if (relay_stream_has_room(&all->parts[i].stream[s]))
                all->polled[n++] = (struct pollfd){ .fd = all->parts[i].stream[s].fd, .events = POLLIN };
    int ready = poll(all->polled, n, (int) timeout_ms);
    for (int s = 0; s < STREAMS && ready > 0; s++)
        if (all->polled[s].revents)
            is_written = relay_sink_write(&all->sinks[s]) || is_written;
    read_signals(all, signals);
    relay(all);
    return is_written;
}

static void supervise(struct processes *all, int signals)
{
    while (all->n_living > 0) {
        (void) await(all, signals, send_due_signals(all));
        if (all->sinks[0].failed && !all->is_stopping) /* the reader is gone */
            begin_stop(all, SIGTERM, CLI_EXIT_OUTPUT);
        reap_all(all);
    }
}

static bool has_more(const struct processes *all)
{
    bool has = all->sinks[0].used || all->sinks[1].used;

    for (size_t i = 0; i < all->n && !has; i++)
        for (int s = 0; s < STREAMS; s++)
            has = has || all->parts[i].stream[s].used || all->parts[i].stream[s].fd >= 0;
    return has;
}

/* Write the rest of the pipes and buffers. The reader has unlimited time until a signal asks dibs to stop;
 * then only while it keeps reading. */
static void drain(struct processes *all, int signals)
{
    for (size_t i = 0; i < all->n; i++)
        for (int s = 0; s < STREAMS; s++)
            relay_stream_finish(&all->parts[i].stream[s]);
    relay(all);
    int64_t read_ms = clock_monotonic_ms();
    while (has_more(all) && !(all->is_signalled && clock_monotonic_ms() - read_ms >= IDLE_MS))
        if (await(all, signals, all->is_signalled ? IDLE_MS : -1))
            read_ms = clock_monotonic_ms();
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
    supervise(all, signals);
    launch_release(&all->claims, !all->failed);
    drain(all, signals);
    if (all->failed)
        return launch_not_run(all->cli, all->failed_command, all->failed, err);
    int unwritten = all->sinks[0].failed;
    all->cli->exit_code = !unwritten           ? all->code
                          : unwritten == EPIPE ? CLI_EXIT_READER_GONE
                                               : CLI_EXIT_OUTPUT;
    return unwritten ? err_os(err, DIBS_FAILURE, unwritten, "cannot write to standard output") : DIBS_OK;
}

dibs_status run_all(struct cli *cli, dibs_err *err)
{
    AUTO(processes_free)
    struct processes all = { .cli = cli, .code = -1, .claims = { .cli = cli } };
    bool is_first = false;
    dibs_status s = run_by_manifest(cli, err);

    relay_sink_open(&all.sinks[0], STDOUT_FILENO);
    relay_sink_open(&all.sinks[1], STDERR_FILENO);
    if (!s)
        s = cli_need_manifest(cli, err);
    if (!s)
        s = find_parts(&all, err);
    if (!s)
        s = pods_plan(&all.pods, &all.claims, err);
    if (!s)
        s = pods_begin_as(cli, all.pods.all, all.pods.n, &is_first, err);
    return s || is_first ? s : run_processes(&all, err);
}
