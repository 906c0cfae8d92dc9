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

/* Run fn(arg) in a child, which exits with the result. It dies with us: a failed test leaves no process. */
pid_t child_fork(int (*fn)(void *), void *arg);

/* Wait for a child; return its exit code, or 128 + signal. */
int child_join(pid_t pid);

/* Wait until all threads of a child have ended; it stays a zombie. */
void child_await_end(pid_t pid);
void child_end(pid_t pid);
int child_run(int (*fn)(void *), void *arg);

/* For child_fork(): do nothing, a minute at most. */
int child_idle(void *arg);

/* For child_fork(): execute a shell command. */
int child_shell(void *command);

/* Fork into a fresh pid namespace with its own /proc; the child there is pid 1. */
int child_in_new_pidns(int (*fn)(void *), void *arg);

/* Write all of `text`, in pieces if necessary: the kernel takes a long sysctl value page by page. */
int child_write_file(const char *path, const char *text);
void need_root(void);

/* Skip unless every process and every namespace is visible. */
void need_the_host(void);
#endif
