/* SPDX-License-Identifier: MIT */
#ifndef DIBS_TESTS_CHILD_H
#define DIBS_TESTS_CHILD_H
/* Tests that need a process of their own: another uid, another namespace, a death. */
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

#include "support/t.h"

#define CHILD_NOBODY 65534
#define CHILD_INITIAL_PIDNS 0xEFFFFFFCu /* the kernel's fixed inode of it */

/* Checks in a forked child, where cmocka's own would jump into its parent's frames. For functions that
 * return 0 when all is well. */
#define CHECK(cond)                                                                   \
    do {                                                                              \
        if (!(cond)) {                                                                \
            (void) fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #cond); \
            return 1;                                                                 \
        }                                                                             \
    } while (0)

/* Run fn(arg) in a child, which ends with its answer, or with us: a failed test leaves nobody behind. */
static inline pid_t child_start(int (*fn)(void *), void *arg)
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

/* Its exit code, or 128 + signal. */
static inline int child_wait(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return -1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Until all its threads have ended; it stays a zombie. */
static inline void child_await_end(pid_t pid)
{
    siginfo_t info = { 0 };

    while (waitid(P_PID, (id_t) pid, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR)
        continue;
}

static inline void child_end(pid_t pid)
{
    (void) kill(pid, SIGKILL);
    (void) child_wait(pid);
}

static inline int child_run(int (*fn)(void *), void *arg)
{
    return child_wait(child_start(fn, arg));
}

/* What a child does that is only there: a minute at most. */
static inline int child_idle(void *arg)
{
    (void) arg;
    (void) alarm(60);
    (void) pause();
    return 0;
}

/* What a child does that is a shell command; becomes it. */
static inline int child_shell(void *command)
{
    (void) execl("/bin/sh", "sh", "-c", (char *) command, (char *) NULL);
    return 127;
}

/* Fork into a fresh pid namespace with its own /proc; the child there is pid 1. */
static inline int child_in_new_pidns(int (*fn)(void *), void *arg)
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
    return init < 0 ? 4 : child_wait(init);
}

/* Everything, piece by piece if need be: the kernel takes a long sysctl value page by page. */
static inline int child_write_file(const char *path, const char *text)
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

static inline void need_root(void)
{
    if (geteuid() != 0)
        SKIP_BECAUSE("needs root");
}

/* Where every process and every namespace can be seen. */
static inline void need_the_host(void)
{
    struct stat st = { 0 };

    need_root();
    if (stat("/proc/self/ns/pid", &st) != 0 || st.st_ino != CHILD_INITIAL_PIDNS)
        SKIP_BECAUSE("needs the initial pid namespace");
}
#endif
