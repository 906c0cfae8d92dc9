/* SPDX-License-Identifier: MIT */
/* Sockets of other network namespaces, found by the inode of the namespace. */
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "host/kernel.h"
#include "support/child.h"
#include "support/sockets.h"

/* The kernel gives the inode of a namespace that has ended to the next one, which may be that of another
 * test at this moment: it ends soon, too. */
static bool is_not_found_before_long(uint64_t netns)
{
    struct finding f = { 0 };
    dibs_status s = DIBS_OK;

    UNTIL((f.n = 0, s = kernel_sockets(netns, DIBS_TCP, 0, note, &f, NULL)) != DIBS_OK);
    return s == DIBS_NOT_FOUND && f.n == 0;
}

/* A network namespace of its own with one listener, for the whole process or one thread of it. */
static int serve_elsewhere(struct shared *s)
{
    struct ifreq up = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };

    CHECK(unshare(CLONE_NEWNET) == 0);
    AUTO(fd_auto) int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK(ioctl(control, SIOCSIFFLAGS, &up) == 0);
    s->fd = serve(SOCK_STREAM, "\x7f\0\0\1", 4, LISTENING, &s->port);
    CHECK(s->fd >= 0);
    s->inode = inode_of(s->fd);
    s->netns = kernel_netns();
    CHECK(write(s->ready[1], s, sizeof *s) == (ssize_t) sizeof *s);
    return child_idle(NULL);
}

static int process_elsewhere(void *arg)
{
    return serve_elsewhere(arg);
}

static void *thread_elsewhere(void *arg)
{
    (void) serve_elsewhere(arg);
    return NULL;
}

static int process_with_a_thread_elsewhere(void *arg)
{
    pthread_t thread = 0;

    return pthread_create(&thread, NULL, thread_elsewhere, arg) != 0 ? 1 : child_idle(NULL);
}

static int asks_as_nobody(void *arg)
{
    const struct shared *s = arg;
    struct finding f = { 0 };
    dibs_err err = { 0 };

    CHECK(setresgid(CHILD_NOBODY, CHILD_NOBODY, CHILD_NOBODY) == 0 &&
          setresuid(CHILD_NOBODY, CHILD_NOBODY, CHILD_NOBODY) == 0);
    CHECK(kernel_sockets(s->netns, DIBS_TCP, 0, note, &f, &err) == DIBS_DENIED);
    CHECK(f.n == 0 && err.code == DIBS_DENIED && err.msg[0]);
    CHECK(kernel_sockets(0, DIBS_TCP, 0, note, &f, &err) == DIBS_OK);
    return 0;
}

static void another_network_namespace_is_looked_into(int (*fn)(void *))
{
    struct shared s = { .ready = { -1, -1 } };
    uint64_t ours = kernel_netns();

    need_the_host();
    assert_int_equal(pipe(s.ready), 0);
    pid_t pid = child_fork(fn, &s);
    assert_int_equal(read(s.ready[0], &s, sizeof s), sizeof s);
    assert_true(s.netns != 0 && s.netns != ours);
    struct finding f = find(s.netns, DIBS_TCP, s.port, s.inode);
    assert_int_equal(f.n, 1);
    assert_int_equal(f.n_wanted, 1);
    assert_int_equal(f.last.port, s.port);
    assert_true(kernel_netns() == ours); /* we are back */
    assert_int_equal(find(0, DIBS_TCP, 0, s.inode).n_wanted, 0);
    assert_int_equal(child_run(asks_as_nobody, &s), 0);
    child_end(pid);
    assert_true(is_not_found_before_long(s.netns));
    assert_int_equal(child_run(asks_as_nobody, &s), 0);
    (void) close(s.ready[0]);
    (void) close(s.ready[1]);
}

static void the_namespace_of_another_process_is_seen_until_it_ends(void **state)
{
    (void) state;
    another_network_namespace_is_looked_into(process_elsewhere);
}

static void the_namespace_of_one_thread_is_seen_until_it_ends(void **state)
{
    (void) state;
    another_network_namespace_is_looked_into(process_with_a_thread_elsewhere);
}

static int names_a_namespace(void *arg)
{
    struct shared *s = arg;
    const char *dir = getenv("TMPDIR");
    char name[128];
    char link[64];
    dibs_err err = { 0 };
    struct finding f = { 0 };

    CHECK(unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    CHECK(snprintf(name, sizeof name, "%s/a named\tnet.XXXXXX", dir ? dir : "/tmp") < (int) sizeof name);
    int fd = mkstemp(name);
    CHECK(fd >= 0);
    (void) close(fd);
    pid_t pid = child_fork(process_elsewhere, s);
    CHECK(read(s->ready[0], s, sizeof *s) == (ssize_t) sizeof *s);
    (void) snprintf(link, sizeof link, "/proc/%d/ns/net", pid);
    CHECK(mount(link, name, NULL, MS_BIND, NULL) == 0);
    child_end(pid);
    /* Nobody is in it, but it is there: an empty list, not "no such namespace". */
    CHECK(kernel_sockets(s->netns, DIBS_TCP, 0, note, &f, &err) == DIBS_OK);
    CHECK(f.n == 0);
    CHECK(umount(name) == 0 && unlink(name) == 0);
    CHECK(is_not_found_before_long(s->netns));
    return 0;
}

static void a_named_namespace_is_there_as_long_as_its_mount(void **state)
{
    struct shared s = { .ready = { -1, -1 } };

    (void) state;
    need_the_host();
    assert_int_equal(pipe(s.ready), 0);
    assert_int_equal(child_run(names_a_namespace, &s), 0);
    (void) close(s.ready[0]);
    (void) close(s.ready[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_namespace_of_another_process_is_seen_until_it_ends),
        cmocka_unit_test(the_namespace_of_one_thread_is_seen_until_it_ends),
        cmocka_unit_test(a_named_namespace_is_there_as_long_as_its_mount),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
