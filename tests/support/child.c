/* SPDX-License-Identifier: MIT */
#include "support/child.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t child_fork(int (*fn)(void *), void *arg)
{
    pid_t parent = getpid();
    pid_t pid = fork();

    if (pid == 0) {
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        /* In a new pid namespace the parent has no number. */
        if (getppid() != parent && getppid() != 0)
            _exit(99);
        _exit(fn(arg));
    }
    return pid;
}

int child_join(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return -1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void child_await_end(pid_t pid)
{
    siginfo_t info = { 0 };

    while (waitid(P_PID, (id_t) pid, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR)
        continue;
}

void child_end(pid_t pid)
{
    (void) kill(pid, SIGKILL);
    (void) child_join(pid);
}

int child_run(int (*fn)(void *), void *arg)
{
    return child_join(child_fork(fn, arg));
}

int child_idle(void *arg)
{
    (void) arg;
    (void) alarm(60);
    (void) pause();
    return 0;
}

int child_shell(void *command)
{
    (void) execl("/bin/sh", "sh", "-c", (char *) command, (char *) NULL);
    return 127;
}

int child_in_new_pidns(int (*fn)(void *), void *arg)
{
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return 2;
    pid_t init = fork();
    if (init == 0) {
        if (mount("proc", "/proc", "proc", 0, NULL) != 0)
            _exit(3);
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL); /* init goes with its keeper */
        _exit(fn(arg));
    }
    return init < 0 ? 4 : child_join(init);
}

int child_write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_TRUNC);
    size_t left = strlen(text);

    while (fd >= 0 && left > 0) {
        ssize_t n = write(fd, text, left);

        if (n <= 0)
            break;
        text += n;
        left -= (size_t) n;
    }
    if (fd >= 0)
        (void) close(fd);
    return fd >= 0 && left == 0 ? 0 : -1;
}

void need_root(void)
{
    if (geteuid() != 0)
        SKIP_BECAUSE("needs root");
}

void need_the_host(void)
{
    struct stat st = { 0 };

    need_root();
    if (stat("/proc/self/ns/pid", &st) != 0 || st.st_ino != CHILD_INITIAL_PIDNS)
        SKIP_BECAUSE("needs the initial pid namespace");
}
