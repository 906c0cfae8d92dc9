/* SPDX-License-Identifier: MIT */
#include "cli/run/child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "cli/file.h"
#include "cli/run/as.h"

#include "base/banned.h"

/* Every signal is forwarded except these: faults and limits of dibs itself, job control of a background
 * group, and a broken pipe. (SIGKILL and SIGSTOP cannot be caught.) */
static const int ours[] = { SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,  SIGTRAP, SIGSYS,
                            SIGXCPU, SIGXFSZ, SIGTTIN, SIGTTOU, SIGPIPE };

static bool read_all(int fd, void *to, size_t size)
{
    char *at = to;

    while (size) {
        ssize_t n = read(fd, at, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        size -= (size_t) n;
    }
    return true;
}

/* In the child: wait for the ports, then execute the command. Without ports dibs has failed or died, and
 * nothing must run. If exec fails, wait until dibs has released the claims: for the daemon a process that
 * ends is one that has run. */
static _Noreturn void wait_and_exec(const struct child_options *options, int go, int outcome,
                                    const struct child_signals *before)
{
    uint16_t *ports = calloc(options->n_ports + 1, sizeof *ports);
    uint16_t begins = 0;
    int failed = ENOMEM;

    if (options->take) { /* the numbers that the sockets will have must be free */
        go = fcntl(go, F_DUPFD_CLOEXEC, CHILD_FDS_MAX);
        outcome = fcntl(outcome, F_DUPFD_CLOEXEC, CHILD_FDS_MAX);
    }
    if (ports &&
        (!read_all(go, &begins, sizeof begins) || !read_all(go, ports, options->n_ports * sizeof *ports)))
        _exit(1);
    child_restore(before);
    if (ports)
        failed = options->take ? options->take(options->ctx, go) : 0;
    if (ports && !failed)
        failed = options->exec(options->ctx, ports);
    (void) cli_write_all(outcome, &failed, sizeof failed);
    (void) kill(getppid(), SIGCHLD); /* child_wait() waits for it */
    (void) read_all(go, &failed, 1);
    _exit(127);
}

void child_restore(const struct child_signals *before)
{
    (void) sigaction(SIGCHLD, &before->on_child, NULL);
    (void) sigprocmask(SIG_SETMASK, &before->mask, NULL);
}

dibs_status child_prepare(struct child_signals *out, dibs_err *err)
{
    struct sigaction plain = { .sa_handler = SIG_DFL };

    (void) sigfillset(&out->waited); /* SIGCHLD too */
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        (void) sigdelset(&out->waited, ours[i]);
    sigset_t blocked = out->waited;
    (void) sigaddset(&blocked, SIGPIPE); /* a child that is gone must not end dibs */
    /* If SIGCHLD was inherited as ignored, dibs would not see the child's end. */
    /* Processes that a command leaves behind become children of dibs, which then knows of them. */
    if (sigprocmask(SIG_BLOCK, &blocked, &out->mask) || sigaction(SIGCHLD, &plain, &out->on_child) ||
        prctl(PR_SET_CHILD_SUBREAPER, 1))
        return err_os(err, DIBS_FAILURE, errno, "run: cannot prepare signals");
    return DIBS_OK;
}

/* Fork a child with this process name. The child inherits the name: set in the child itself, it could come
 * too late for the claim that records it. */
static pid_t fork_as(const char *name)
{
    char own[16] = "";

    (void) prctl(PR_GET_NAME, own);
    (void) prctl(PR_SET_NAME, name);
    pid_t pid = fork();
    if (pid)
        (void) prctl(PR_SET_NAME, own);
    return pid;
}

dibs_status child_start(const struct child_options *options, const struct child_signals *signals,
                        struct child *out, dibs_err *err)
{
    struct child child = { .go = -1, .outcome = -1 };
    int go[2] = { -1, -1 };
    int outcome[2] = { -1, -1 };

    /* Sockets can be sent over a socket only. Its ends are as those of a pipe: dibs writes, the child reads.
     */
    if (options->take ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, go) : pipe2(go, O_CLOEXEC))
        return err_os(err, DIBS_FAILURE, errno, "run: cannot make a pipe");
    AUTO(fd_auto) int go_in = go[0];
    AUTO(fd_auto) int go_out = go[1];
    if (pipe2(outcome, O_CLOEXEC))
        return err_os(err, DIBS_FAILURE, errno, "run: cannot make a pipe");
    AUTO(fd_auto) int outcome_in = outcome[0];
    AUTO(fd_auto) int outcome_out = outcome[1];
    dibs_status s = options->as ? run_as_before(options->as, err) : DIBS_OK;
    if (s)
        return s;
    child.pid = fork_as(options->name);
    if (child.pid < 0)
        return err_os(err, DIBS_FAILURE, errno, "run: cannot start a process");
    if (!child.pid) {
        (void) close(fd_take(&go_out)); /* otherwise dibs would never see end-of-file */
        (void) close(fd_take(&outcome_in));
        for (size_t i = 0; i < options->n_others; i++) {
            (void) close(options->others[i].go);
            (void) close(options->others[i].outcome);
        }
        if (options->as)
            run_as_enter(options->as);
        wait_and_exec(options, go_in, outcome_out, signals);
    }
    child.go = fd_take(&go_out);
    child.outcome = fd_take(&outcome_in);
    if (options->as)
        s = run_as_meet(options->as, child.pid, err);
    if (s)
        child_cancel(&child);
    else
        *out = child;
    return s;
}

void child_go(struct child *child, const uint16_t *ports, size_t n)
{
    const uint16_t begins = 0; /* a command without ports has to wait, too */

    (void) cli_write_all(child->go, &begins, sizeof begins);
    (void) cli_write_all(child->go, ports, n * sizeof *ports);
}

void child_cancel(struct child *child)
{
    fd_auto(&child->go);
    fd_auto(&child->outcome);
    if (child->pid > 0) {
        while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    child->pid = 0;
}

/* Does the terminal send this signal to the whole foreground group, including the command? Only a hangup
 * goes to the session leader alone. */
static bool is_for_group(int sig)
{
    switch (sig) {
    case SIGINT:
    case SIGQUIT:
    case SIGTSTP:
    case SIGWINCH:
    case SIGCONT: return true;
    case SIGHUP: return getsid(0) != getpid();
    default: return false;
    }
}

static void hand_on(const struct child *child, const siginfo_t *info)
{
    bool is_kernels = info->si_code > 0; /* a terminal, or an alarm set before dibs was executed */

    if (is_kernels ? is_for_group(info->si_signo) : info->si_pid == child->pid)
        return; /* the command has received it already, or sent it itself */
    if (info->si_code == SI_QUEUE)
        (void) sigqueue(child->pid, info->si_signo, info->si_value);
    else
        (void) kill(child->pid, info->si_signo);
}

pid_t child_next_ended(void)
{
    siginfo_t info = { 0 };

    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 ? info.si_pid : 0;
}

/* Check the child's state. Return true when it has ended. */
static bool has_ended(const struct child *child, int *status)
{
    pid_t other = child_next_ended();

    while (other && other != child->pid && waitpid(other, NULL, WNOHANG) == other)
        other = child_next_ended();
    pid_t pid = waitpid(child->pid, status, WNOHANG | WUNTRACED);

    if (pid != child->pid)
        return false;
    if (!WIFSTOPPED(*status))
        return true;
    /* Stopped from the keyboard: stop dibs as well, because the shell waits for it and continues both.
     * SIGSTOP concerns the command alone; its sender does not know of dibs. */
    if (child->is_dibs || WSTOPSIG(*status) == SIGTSTP || WSTOPSIG(*status) == SIGTTIN ||
        WSTOPSIG(*status) == SIGTTOU)
        (void) kill(getpid(), SIGSTOP);
    return false;
}

int child_failure(const struct child *child)
{
    int failed = 0;

    (void) fcntl(child->outcome, F_SETFL, O_NONBLOCK);
    return read(child->outcome, &failed, sizeof failed) == (ssize_t) sizeof failed ? failed : 0;
}

int child_ended(struct child *child, int status, int *failed)
{
    *failed = child_failure(child);
    fd_auto(&child->go);
    fd_auto(&child->outcome);
    child->pid = 0;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int child_wait(struct child *child, const struct child_signals *signals, int *failed)
{
    int status = 0;

    for (;;) {
        siginfo_t info = { 0 };
        int sig = sigwaitinfo(&signals->waited, &info);
        if (sig < 0)
            continue; /* EINTR: dibs was stopped and continued */
        if (sig != SIGCHLD)
            hand_on(child, &info);
        if (has_ended(child, &status))
            return child_ended(child, status, failed);
        *failed = child_failure(child);
        if (*failed)
            return 0;
    }
}
