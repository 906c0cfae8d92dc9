/* SPDX-License-Identifier: MIT */
/* The main loop of `dibs run --all`: output, signals and the end of the parts.
 *
 * Each process receives each signal once. SIGTERM goes to the command alone, because programs such as npm
 * forward it to their children, and after the command has ended to what it has left. What a terminal sends to
 * the whole foreground group (Ctrl-C) goes to the whole process group of each part. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "cli/run/note.h"
#include "cli/run/processes.h"
#include "cli/run/pty.h"
#include "runs/stop.h"

#include "base/banned.h"

enum {
    SAME_MOMENT_MS = 500,
    IDLE_MS = 1000, /* how long a reader may be idle after the end */
    LOOK_MS = 50,   /* between two looks at what a command has left */
};

/* ---- output ---- */

void processes_note(struct processes *all, const char *fmt, ...)
{
    char note[DIBS_ERR_MSG_MAX];
    char shown[DIBS_ERR_MSG_MAX];
    va_list args;

    va_start(args, fmt);
    (void) vsnprintf(note, sizeof note, fmt, args);
    va_end(args);
    (void) text_safe(note, shown, sizeof shown);
    if (all->cli->quiet || strlen(shown) + 7 > sizeof all->sinks[1].text - all->sinks[1].used)
        return;
    (void) relay_sink_put(&all->sinks[1], "dibs: ", 6);
    (void) relay_sink_put(&all->sinks[1], shown, strlen(shown));
    (void) relay_sink_put(&all->sinks[1], "\n", 1);
}

/* Write what stands in front of a part's lines; each part has a colour. */
static void write_prefix(const struct processes *all, size_t i, int stream, char *out, size_t size)
{
    static const char *const colours[] = { "36", "33", "32", "35", "34", "96", "93", "92", "95", "94" };
    const char *colour = colours[i % (sizeof colours / sizeof colours[0])];

    if (all->has_colour[stream])
        (void) snprintf(out, size, "\033[%sm%-*s |\033[0m ", colour, all->width, all->parts[i].title);
    else
        (void) snprintf(out, size, "%-*s | ", all->width, all->parts[i].title);
}

/* Move the parts' output into the sinks as far as it fits. The parts take turns at being first. */
static void relay(struct processes *all)
{
    char prefix[PODS_TITLE_MAX + 32];

    all->turn++;
    for (size_t k = 0; k < all->n; k++) {
        size_t i = (all->turn + k) % all->n;

        for (int s = 0; s < STREAMS; s++) {
            write_prefix(all, i, s, prefix, sizeof prefix);
            relay_stream_read(&all->parts[i].stream[s]);
            relay_stream_put(&all->parts[i].stream[s], prefix, &all->sinks[s]);
        }
    }
}

/* ---- signals ---- */

/* Does a terminal send this signal to all processes of its foreground group? */
static bool is_for_group(int sig)
{
    return sig == SIGINT || sig == SIGQUIT || sig == SIGHUP;
}

/* Send a signal that asks the part to end, once. */
static void ask_part(struct part *part, int sig)
{
    pid_t pid = part->child.pid;
    int64_t now = clock_monotonic_ms();

    if (pid <= 0)
        return;
    if (is_for_group(sig) && part->group_sig != sig) {
        if (kill(-pid, sig) < 0) /* not reaped yet: the process group is still its own */
            (void) kill(pid, sig);
        part->group_sig = sig;
        part->term_at_ms = now + RUN_GRACE_MS / 2;
    } else if (sig == SIGTERM && !part->is_asked && !part->has_ended) {
        (void) kill(pid, SIGTERM);
        part->is_asked = true;
    }
    if (!part->kill_at_ms)
        part->kill_at_ms = now + RUN_GRACE_MS;
}

static void begin_stop(struct processes *all, int sig, int code)
{
    if (all->code < 0)
        all->code = code;
    for (size_t i = 0; i < all->n; i++)
        ask_part(&all->parts[i], sig);
    all->is_stopping = true;
}

/* Look after a part whose command has ended. Returns whether nothing of its group is left. */
static bool is_group_gone(struct part *part)
{
    bool is_due = part->kill_at_ms && clock_monotonic_ms() >= part->kill_at_ms;
    size_t n = is_due            ? run_group_kill(&part->group)
               : part->group_sig ? run_group_count(&part->group)
                                 : run_group_ask_left(&part->group);

    return n == 0 || n == SIZE_MAX; /* where /proc cannot be read, nothing can be awaited */
}

/* Send what is due to a living part. Return the time until the next look at it; INT64_MAX: none. */
static int64_t send_due_signals(struct part *part)
{
    int64_t now = clock_monotonic_ms();

    if (part->child.pid <= 0)
        return INT64_MAX;
    /* A background job of a shell ignores Ctrl-C. A process that does not has had its signal. */
    if (part->term_at_ms && now >= part->term_at_ms) {
        run_group_ask_ignoring(&part->group, part->group_sig);
        part->term_at_ms = 0;
    }
    if (part->has_ended)
        return LOOK_MS;
    if (part->kill_at_ms && now >= part->kill_at_ms) {
        (void) run_group_kill(&part->group);
        return LOOK_MS;
    }
    int64_t next = part->term_at_ms ? part->term_at_ms : part->kill_at_ms;
    return next ? next - now : INT64_MAX;
}

static int64_t send_all_due(struct processes *all)
{
    int64_t least = INT64_MAX;

    for (size_t i = 0; i < all->n; i++) {
        int64_t next = send_due_signals(&all->parts[i]);

        least = next < least ? next : least;
    }
    return least == INT64_MAX ? -1 : least;
}

/* Is this a second Ctrl-C? A wrapper that forwards the terminal's signal sends it at the same moment. */
static bool is_impatient(const struct processes *all)
{
    return all->signalled_at_ms && clock_monotonic_ms() - all->signalled_at_ms > SAME_MOMENT_MS;
}

static void kill_all(struct processes *all)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->parts[i].child.pid > 0)
            all->parts[i].kill_at_ms = 1; /* long ago */
}

/* Give the parts' terminals the size of ours. */
static void resize(struct processes *all)
{
    for (size_t i = 0; i < all->n; i++) {
        struct part *part = &all->parts[i];

        for (int s = 0; s < STREAMS; s++)
            if (part->stream[s].is_terminal && part->stream[s].fd >= 0)
                pty_resize(part->stream[s].fd, STDOUT_FILENO + s, all->width + (int) strlen(" | "));
        if (part->child.pid > 0)
            (void) kill(-part->child.pid, SIGWINCH); /* it is not their controlling terminal */
    }
}

static void read_signals(struct processes *all, int fd)
{
    struct signalfd_siginfo info = { 0 };

    while (read(fd, &info, sizeof info) == (ssize_t) sizeof info) {
        int sig = (int) info.ssi_signo;

        if (sig == SIGINT || sig == SIGTERM || sig == SIGHUP || sig == SIGQUIT) {
            if (sig == SIGINT && is_impatient(all))
                kill_all(all);
            else
                begin_stop(all, sig, 128 + sig);
            if (!all->signalled_at_ms)
                all->signalled_at_ms = clock_monotonic_ms();
        } else if (sig == SIGWINCH) {
            resize(all);
        } else if (sig != SIGCHLD && sig != SIGTSTP && sig != SIGCONT) {
            for (size_t i = 0; i < all->n; i++)
                if (all->parts[i].child.pid > 0 && !all->parts[i].has_ended)
                    (void) kill(all->parts[i].child.pid, sig);
        }
    }
}

/* ---- the end of parts ---- */

static bool is_part(const struct processes *all, pid_t pid)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->parts[i].child.pid == pid)
            return true;
    return false;
}

/* Decide what the end of a part means for the others. */
static void react(struct processes *all, struct part *part, int code)
{
    bool is_requested = run_note_is_stopped(all->cli, &part->launch);

    all->last_code = code;
    if (all->is_stopping)
        return; /* the others have been asked already, perhaps by another signal */
    if (all->failed) {
        begin_stop(all, SIGTERM, code);
    } else if (is_requested) {
        processes_note(all, "%s was stopped%s", part->title, all->n_living > 1 ? "; the others go on" : "");
    } else if (all->keeps_going) {
        processes_note(all, "%s has ended with %d%s", part->title, code,
                       all->n_living > 1 ? "; the others go on" : "");
        if (all->code <= 0)
            all->code = code;
    } else {
        processes_note(all, "%s has ended with %d; the others are stopped", part->title, code);
        begin_stop(all, SIGTERM, code);
    }
}

/* Note the end of a part's command, which stays unreaped: its process group keeps its number by that. */
static void note_ended(struct processes *all, struct part *part)
{
    siginfo_t info = { 0 };
    int failed = 0;

    if (part->child.pid <= 0 || part->has_ended ||
        waitid(P_PID, (id_t) part->child.pid, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid == 0)
        return;
    part->has_ended = true;
    int code = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
    failed = child_failure(&part->child);
    if (failed && !all->failed) {
        all->failed = failed;
        all->failed_command = part->launch.argv[0];
    }
    react(all, part, code);
    if (!part->kill_at_ms)
        part->kill_at_ms = clock_monotonic_ms() + RUN_GRACE_MS;
    if (part->group_sig)
        run_group_ask_ignoring(&part->group, part->group_sig);
}

static void reap_all(struct processes *all)
{
    pid_t other = child_next_ended();

    while (other && !is_part(all, other) && waitpid(other, NULL, WNOHANG) == other)
        other = child_next_ended();
    for (size_t i = 0; i < all->n; i++) {
        struct part *part = &all->parts[i];
        int status = 0;
        int failed = 0;

        note_ended(all, part);
        if (part->child.pid <= 0 || !part->has_ended || !is_group_gone(part))
            continue;
        (void) waitpid(part->child.pid, &status, 0);
        (void) child_ended(&part->child, status, &failed);
        run_note_remove(all->cli, &part->launch);
        all->n_living--;
    }
}

/* ---- the loop ---- */

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

void processes_supervise(struct processes *all, int signals)
{
    while (all->n_living > 0) {
        (void) await(all, signals, send_all_due(all));
        if (all->sinks[0].failed && !all->is_stopping) /* the reader is gone */
            begin_stop(all, SIGTERM, CLI_EXIT_OUTPUT);
        reap_all(all);
    }
    if (all->code < 0) /* each was stopped on request */
        all->code = all->last_code;
}

static bool has_more(const struct processes *all)
{
    bool has = all->sinks[0].used || all->sinks[1].used;

    for (size_t i = 0; i < all->n && !has; i++)
        for (int s = 0; s < STREAMS; s++)
            has = has || all->parts[i].stream[s].used || all->parts[i].stream[s].fd >= 0;
    return has;
}

/* The reader has unlimited time until a signal asks dibs to stop; then only while it keeps reading. */
void processes_drain(struct processes *all, int signals)
{
    for (size_t i = 0; i < all->n; i++)
        for (int s = 0; s < STREAMS; s++)
            relay_stream_finish(&all->parts[i].stream[s]);
    relay(all);
    int64_t read_ms = clock_monotonic_ms();
    while (has_more(all) && !(all->signalled_at_ms && clock_monotonic_ms() - read_ms >= IDLE_MS))
        if (await(all, signals, all->signalled_at_ms ? IDLE_MS : -1))
            read_ms = clock_monotonic_ms();
}
