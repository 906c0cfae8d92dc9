/* SPDX-License-Identifier: MIT */
/* `dibs run --all`: every pod whose role has a command, side by side. All ports are claimed in one step, each
 * line of output stands behind its pod's title, and they are stopped together. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/pod.h"
#include "cli/relay.h"
#include "cli/request.h"

#include "base/banned.h"

enum {
    PARTS_MAX = 512, /* processes of one call; each needs a few file descriptors */
    SAME_MOMENT_MS = 500,
    GRACE_MS = 10000, /* between the friendly signal and SIGKILL */
    IDLE_MS = 1000,   /* after the end, for somebody who does not read */
    STREAMS = 2,      /* stdout, stderr */
    TITLE_MAX = 3 * 64,
};

struct part {
    struct pod pod;
    struct child child;
    struct job job;
    size_t *which; /* of each need: its place among the requests */
    char title[TITLE_MAX];
    int write_end[STREAMS];
    struct relay_stream stream[STREAMS];
};

struct troupe {
    struct cli *cli;
    const struct workload_group *group;
    struct part *parts;
    size_t n, n_living;
    struct child *children; /* for those that start later */
    struct child_signals signals;
    struct job_claims claims;
    size_t like[PARTS_MAX]; /* of the claims' signs */
    struct relay_sink sinks[STREAMS];
    struct pollfd *polled; /* both sinks, signals, streams */
    size_t turn;           /* of who writes first */
    int width;             /* of the longest title */
    int code;              /* of the first that ended; -1: none has */
    int failed;            /* errno of the first that could not be run */
    const char *failed_command;
    bool is_stopping;
    bool is_told;       /* by a signal */
    int64_t term_at_ms; /* when SIGTERM follows an interrupt that was ignored; 0: not, or done */
    int64_t kill_at_ms; /* 0: not, or done */
};

static int64_t now_ms(void)
{
    struct timespec now = { 0 };

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void troupe_free(struct troupe *t)
{
    for (size_t i = 0; i < t->n; i++) {
        pod_free(&t->parts[i].pod);
        free(t->parts[i].which);
        for (int s = 0; s < STREAMS; s++) {
            fd_auto(&t->parts[i].write_end[s]);
            fd_auto(&t->parts[i].stream[s].fd);
        }
    }
    for (int s = 0; s < STREAMS; s++)
        relay_sink_close(&t->sinks[s]);
    free(t->parts);
    free(t->children);
    free(t->polled);
    free(t->claims.requests);
    free(t->claims.claims);
}

/* ---- who takes part ---- */

static dibs_status add_part(struct troupe *t, const struct workload_pod *which, dibs_err *err)
{
    struct part *part = &t->parts[t->n];
    size_t n = 0;

    if (t->n == PARTS_MAX)
        return err_set(err, DIBS_INVALID, "run: --all runs at most %d processes", PARTS_MAX);
    *part = (struct part){ .child = { .go = -1, .outcome = -1 },
                           .write_end = { -1, -1 },
                           .stream = { { .fd = -1, .left = SIZE_MAX }, { .fd = -1, .left = SIZE_MAX } } };
    t->n++;
    dibs_status s = pod_init(&part->pod, t->group, which, err);
    if (s)
        return s;
    while (which->role->command[n])
        n++;
    part->which = calloc(part->pod.needs.n + 1, sizeof *part->which);
    part->pod.argv = calloc(n + 1, sizeof *part->pod.argv);
    if (!part->which || !part->pod.argv)
        return err_set(err, DIBS_FAILURE, "out of memory");
    memcpy(part->pod.argv, which->role->command, n * sizeof *part->pod.argv);
    part->job =
        (struct job){ .argv = part->pod.argv, .n = part->pod.needs.n, .say = pod_say, .ctx = &part->pod };
    pod_title(which, part->title, sizeof part->title);
    if ((int) strlen(part->title) > t->width)
        t->width = (int) strlen(part->title);
    return DIBS_OK;
}

static dibs_status find_parts(struct troupe *t, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    t->parts = calloc(PARTS_MAX, sizeof *t->parts);
    t->children = calloc(PARTS_MAX, sizeof *t->children);
    t->polled = calloc(1 + STREAMS + (size_t) STREAMS * PARTS_MAX, sizeof *t->polled);
    if (!t->parts || !t->children || !t->polled)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (size_t r = 0; r < t->group->n_roles; r++) {
        const struct workload_role *role = &t->group->roles[r];
        struct workload_pod pod = { .role = role };

        for (; role->command && pod.instance < role->instances; pod.instance++)
            for (size_t c = 0; c < role->n_components; c++) {
                pod.component = &role->components[c];
                for (pod.id = 0; pod.id < pod.component->size && !s; pod.id++)
                    s = add_part(t, &pod, err);
            }
    }
    if (!s && t->n == 0)
        return err_set(err, DIBS_INVALID, "run: no role of %s has a command", t->group->source);
    return s;
}

static void plan_signs(struct troupe *t)
{
    for (size_t p = 0; p < t->n; p++)
        if (t->parts[p].pod.has_sign) {
            dibs_request *sign = &t->claims.requests[t->claims.n++];

            *sign = pod_sign_request(&t->parts[p].pod);
            sign->pid = (int32_t) p;
            t->like[t->claims.n_signs++] = t->parts[p].which[0];
        }
}

/* Each claim once: where one part holds what another refers to, the holder's request counts, and the claim is
 * kept as for every reference: the other may outlive the holder, and must not be led to a stranger. */
static dibs_status plan_claims(struct troupe *t, dibs_err *err)
{
    size_t max = 0;

    for (size_t p = 0; p < t->n; p++)
        max += t->parts[p].pod.needs.n + t->parts[p].pod.has_sign;
    t->claims.requests = calloc(max + 1, sizeof *t->claims.requests);
    t->claims.claims = calloc(max + 1, sizeof *t->claims.claims);
    if (!t->claims.requests || !t->claims.claims)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (size_t p = 0; p < t->n; p++) {
        struct part *part = &t->parts[p];

        for (size_t i = 0; i < part->pod.needs.n; i++) {
            dibs_request request = pod_request(&part->pod, i);
            size_t at = 0;

            while (at < t->claims.n && strcmp(t->claims.requests[at].name, request.name) != 0)
                at++;
            request.pid = (int32_t) p; /* whose it is, until there is a process */
            bool is_kept = request.keep || (at < t->claims.n && t->claims.requests[at].keep);
            if (at == t->claims.n || part->pod.needs.all[i].is_own)
                t->claims.requests[at] = request;
            t->claims.requests[at].keep = is_kept;
            t->claims.n += at == t->claims.n;
            part->which[i] = at;
        }
    }
    plan_signs(t);
    return DIBS_OK;
}

/* ---- starting ---- */

/* In the child. A group of its own, so that whatever it starts is stopped with it. */
static int become(void *ctx, const uint16_t *ports)
{
    struct part *part = ctx;
    int nothing = open("/dev/null", O_RDONLY);

    (void) setpgid(0, 0);
    if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(part->write_end[0], STDOUT_FILENO) < 0 ||
        dup2(part->write_end[1], STDERR_FILENO) < 0)
        return errno;
    if (nothing > STDERR_FILENO)
        (void) close(nothing);
    return job_become(&part->job, ports);
}

static dibs_status start_part(struct troupe *t, size_t i, dibs_err *err)
{
    struct part *part = &t->parts[i];
    struct child_plan plan = { .name = job_name(&part->job),
                               .n_ports = part->job.n,
                               .become = become,
                               .ctx = part,
                               .others = t->children,
                               .n_others = i };

    for (int s = 0; s < STREAMS; s++) {
        int ends[2] = { -1, -1 };

        if (pipe2(ends, O_CLOEXEC))
            return err_os(err, DIBS_FAILURE, errno, "run: cannot make a pipe");
        part->stream[s].fd = ends[0];
        part->write_end[s] = ends[1];
        (void) fcntl(ends[0], F_SETFL, O_NONBLOCK);
    }
    dibs_status s = child_start(&plan, &t->signals, &part->child, err);
    if (s)
        return s;
    t->children[i] = part->child;
    t->n_living++;
    (void) setpgid(part->child.pid, part->child.pid); /* both sides do it: whoever comes first */
    for (int k = 0; k < STREAMS; k++)
        fd_auto(&part->write_end[k]);
    return DIBS_OK;
}

static dibs_status are_idle(struct troupe *t, dibs_err *err)
{
    const struct workload_pod *pods[PARTS_MAX];
    dibs_status s = cli_open_manifest(t->cli, err);

    for (size_t i = 0; i < t->n; i++)
        pods[i] = &t->parts[i].pod.pod;
    return s ? s : workload_check_idle(t->cli->handle, t->group, pods, t->n, err);
}

static dibs_status start_all(struct troupe *t, dibs_err *err)
{
    dibs_status s = child_prepare(&t->signals, err);

    /* Forked before the ledger is open: a connection does not survive a fork. */
    for (size_t i = 0; i < t->n && !s; i++)
        s = start_part(t, i, err);
    if (!s)
        s = are_idle(t, err);
    for (size_t i = 0; i < t->claims.n && !s; i++) {
        dibs_request *r = &t->claims.requests[i];
        r->pid = r->holder == DIBS_HELD_BY_PROCESS ? t->parts[r->pid].child.pid : 0;
    }
    if (!s)
        s = job_claim(&t->claims, err);
    return workload_advise(t->cli->manifest, s, err);
}

static dibs_status tell_all(struct troupe *t, dibs_err *err)
{
    AUTO(free_auto) uint16_t *ports = calloc(t->claims.n + 1, sizeof *ports);

    if (!ports)
        return err_set(err, DIBS_FAILURE, "out of memory");
    cli_tell(t->cli, t->claims.claims, t->claims.n - t->claims.n_signs);
    for (size_t p = 0; p < t->n; p++) {
        struct part *part = &t->parts[p];

        for (size_t i = 0; i < part->job.n; i++)
            ports[i] = t->claims.claims[part->which[i]].port;
        child_go(&part->child, ports, part->job.n);
        fd_auto(&part->child.go); /* one that cannot run need not wait: nothing of it is kept */
    }
    return DIBS_OK;
}

/* ---- while they run ---- */

/* What the parts have written, as far as it goes. Each is the first in turn to have the room there is. */
static void relay(struct troupe *t)
{
    char title[TITLE_MAX];

    t->turn++;
    for (size_t i = 0; i < t->n; i++) {
        struct part *part = &t->parts[(t->turn + i) % t->n];

        (void) snprintf(title, sizeof title, "%-*s", t->width, part->title);
        for (int s = 0; s < STREAMS; s++) {
            relay_stream_read(&part->stream[s]);
            relay_stream_put(&part->stream[s], title, &t->sinks[s]);
        }
    }
}

static void signal_all(const struct troupe *t, int sig)
{
    for (size_t i = 0; i < t->n; i++) {
        pid_t pid = t->parts[i].child.pid;

        if (pid > 0 && kill(-pid, sig) < 0) /* not reaped yet: the group is its own */
            (void) kill(pid, sig);
    }
}

static void begin_stop(struct troupe *t, int sig, int code)
{
    if (t->code < 0)
        t->code = code;
    signal_all(t, sig);
    if (!t->is_stopping) {
        t->kill_at_ms = now_ms() + GRACE_MS;
        t->term_at_ms = sig == SIGTERM ? 0 : now_ms() + GRACE_MS / 2;
    }
    t->is_stopping = true;
}

/* What was not friendly enough to end them is followed by something stronger. How long until then; -1: for
 * ever. */
static int64_t press_on(struct troupe *t)
{
    int64_t now = now_ms();

    if (t->term_at_ms && now >= t->term_at_ms) {
        signal_all(t, SIGTERM);
        t->term_at_ms = 0;
    }
    if (t->kill_at_ms && now >= t->kill_at_ms) {
        signal_all(t, SIGKILL);
        t->kill_at_ms = 0;
    }
    int64_t next = t->term_at_ms ? t->term_at_ms : t->kill_at_ms;
    return next ? next - now : -1;
}

/* Not by cli_note(): that would wait for whoever reads. */
static void tell_end(struct troupe *t, const struct part *part, int code)
{
    char note[TITLE_MAX + 64];
    int len = snprintf(note, sizeof note, "dibs: %s has ended with %d; the others are stopped\n", part->title,
                       code);

    if (!t->cli->quiet)
        (void) relay_sink_put(&t->sinks[1], note, (size_t) len);
}

static void reap_all(struct troupe *t)
{
    for (size_t i = 0; i < t->n; i++) {
        struct part *part = &t->parts[i];
        siginfo_t info = { 0 };
        int status = 0;
        int failed = 0;

        if (part->child.pid <= 0 ||
            waitid(P_PID, (id_t) part->child.pid, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid == 0)
            continue;
        /* What it has started and left behind goes with it, while the number is still its own. */
        (void) kill(-part->child.pid, SIGTERM);
        (void) waitpid(part->child.pid, &status, 0);
        int code = child_ended(&part->child, status, &failed);
        t->n_living--;
        if (failed && !t->failed) {
            t->failed = failed;
            t->failed_command = part->job.argv[0];
        }
        if (!t->is_stopping && !failed)
            tell_end(t, part, code);
        begin_stop(t, SIGTERM, code);
    }
}

/* A second Ctrl-C. Wrappers hand on what the terminal has sent already: that comes at the same moment. */
static bool is_impatient(const struct troupe *t)
{
    return t->is_stopping && now_ms() - (t->kill_at_ms - GRACE_MS) > SAME_MOMENT_MS;
}

static void take_signals(struct troupe *t, int fd)
{
    struct signalfd_siginfo info = { 0 };

    while (read(fd, &info, sizeof info) == (ssize_t) sizeof info) {
        int sig = (int) info.ssi_signo;

        if (sig == SIGCHLD)
            continue;
        t->is_told = t->is_told || sig == SIGINT || sig == SIGTERM || sig == SIGHUP || sig == SIGQUIT;
        if (sig == SIGINT || sig == SIGTERM || sig == SIGHUP || sig == SIGQUIT)
            begin_stop(t, is_impatient(t) && sig == SIGINT ? SIGKILL : sig, 128 + sig);
        else if (sig != SIGTSTP && sig != SIGCONT && sig != SIGWINCH)
            signal_all(t, sig);
    }
}

/* Until something happens, at most so long; -1: however long it takes. True: something was written. */
static bool await(struct troupe *t, int signals, int64_t timeout_ms)
{
    nfds_t n = 0;
    bool is_written = false;

    /* A sink without anything to say would only tell again and again that it is closed. */
    for (int s = 0; s < STREAMS; s++)
        t->polled[n++] = (struct pollfd){ .fd = t->sinks[s].used ? t->sinks[s].fd : -1, .events = POLLOUT };
    t->polled[n++] = (struct pollfd){ .fd = signals, .events = POLLIN };
    for (size_t i = 0; i < t->n; i++)
        for (int s = 0; s < STREAMS; s++)
            if (relay_stream_has_room(&t->parts[i].stream[s]))
                t->polled[n++] = (struct pollfd){ .fd = t->parts[i].stream[s].fd, .events = POLLIN };
    int ready = poll(t->polled, n, (int) timeout_ms);
    for (int s = 0; s < STREAMS && ready > 0; s++)
        if (t->polled[s].revents)
            is_written = relay_sink_write(&t->sinks[s]) || is_written;
    take_signals(t, signals);
    relay(t);
    return is_written;
}

static void supervise(struct troupe *t, int signals)
{
    while (t->n_living > 0) {
        (void) await(t, signals, press_on(t));
        if (t->sinks[0].failed && !t->is_stopping) /* nobody reads any more */
            begin_stop(t, SIGTERM, CLI_EXIT_OUTPUT);
        reap_all(t);
    }
}

static bool has_more(const struct troupe *t)
{
    bool has = t->sinks[0].used || t->sinks[1].used;

    for (size_t i = 0; i < t->n && !has; i++)
        for (int s = 0; s < STREAMS; s++)
            has = has || t->parts[i].stream[s].used || t->parts[i].stream[s].fd >= 0;
    return has;
}

/* What is left in the pipes and buffers. Whoever reads it has all the time he wants, until dibs is told to
 * stop: then only while he goes on reading. */
static void drain(struct troupe *t, int signals)
{
    for (size_t i = 0; i < t->n; i++)
        for (int s = 0; s < STREAMS; s++)
            relay_stream_finish(&t->parts[i].stream[s]);
    relay(t);
    int64_t read_ms = now_ms();
    while (has_more(t) && !(t->is_told && now_ms() - read_ms >= IDLE_MS))
        if (await(t, signals, t->is_told ? IDLE_MS : -1))
            read_ms = now_ms();
}

static dibs_status run_troupe(struct troupe *t, dibs_err *err)
{
    dibs_status s = start_all(t, err);
    AUTO(fd_auto) int signals = s ? -1 : signalfd(-1, &t->signals.waited, SFD_NONBLOCK | SFD_CLOEXEC);

    if (!s && signals < 0)
        s = err_os(err, DIBS_FAILURE, errno, "run: cannot wait for signals");
    if (!s)
        s = tell_all(t, err);
    if (s) {
        for (size_t i = 0; i < t->n; i++)
            child_cancel(&t->parts[i].child);
        if (t->cli->handle)
            job_let_go(&t->claims, false);
        return s;
    }
    supervise(t, signals);
    job_let_go(&t->claims, !t->failed);
    drain(t, signals);
    if (t->failed)
        return job_not_run(t->cli, t->failed_command, t->failed, err);
    int unwritten = t->sinks[0].failed;
    t->cli->exit_code = !unwritten ? t->code : unwritten == EPIPE ? CLI_EXIT_READER_GONE : CLI_EXIT_OUTPUT;
    return unwritten ? err_os(err, DIBS_FAILURE, unwritten, "cannot write to standard output") : DIBS_OK;
}

dibs_status run_all(struct cli *cli, dibs_err *err)
{
    AUTO(troupe_free)
    struct troupe t = {
        .cli = cli, .group = cli->manifest, .code = -1, .claims = { .cli = cli, .like = t.like }
    };
    dibs_status s = run_by_manifest(cli, err);

    relay_sink_open(&t.sinks[0], STDOUT_FILENO);
    relay_sink_open(&t.sinks[1], STDERR_FILENO);
    if (!s)
        s = cli_need_manifest(cli, err);
    if (!s)
        s = find_parts(&t, err);
    if (!s)
        s = plan_claims(&t, err);
    return s ? s : run_troupe(&t, err);
}
