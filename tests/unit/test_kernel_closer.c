/* SPDX-License-Identifier: MIT */
/* Sockets of probes, closed beside the work. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kernel/kernel.h"
#include "support/child.h"

enum { MANY = 300, ROUNDS = 400, FEW = 3 };

static const dibs_binding tcp = { .proto = DIBS_TCP, .address = { .len = 4, .bytes = { 127, 0, 0, 1 } } };
static const dibs_binding udp = { .proto = DIBS_UDP, .address = { .len = 4, .bytes = { 127, 0, 0, 1 } } };

static int open_one(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    return fd;
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static void all_are_closed_at_the_end_and_not_before_the_beginning(void **state)
{
    struct closer *closer = closer_open(NULL);
    int fds[64];

    (void) state;
    assert_non_null(closer);
    for (size_t i = 0; i < 64; i++) {
        fds[i] = open_one();
        closer_add(closer, fds[i]);
    }
    for (size_t i = 0; i < 64; i++)
        assert_true(is_open(fds[i]));
    closer_begin(closer);
    closer_end(closer);
    for (size_t i = 0; i < 64; i++)
        assert_false(is_open(fds[i]));
    assert_int_equal(closer_take(closer), -1);
    assert_false(closer_drop(closer));
    closer_close(closer);
}

static int open_none(void)
{
    return -1;
}

/* Where sockets are opened, too. */
static void the_group_need_not_be_over(void **state)
{
    struct closer *closer = closer_open(open_none);
    int fds[64];

    (void) state;
    assert_non_null(closer);
    for (size_t i = 0; i < 64; i++)
        fds[i] = open_one();
    for (size_t i = 0; i < 64; i++)
        closer_add(closer, fds[i]);
    for (size_t i = 0; i < 64; i++)
        UNTIL(!is_open(fds[i]));
    for (size_t i = 0; i < 64; i++)
        assert_false(is_open(fds[i]));
    closer_close(closer);
}

static void however_many_there_are_none_is_left(void **state)
{
    struct closer *closer = closer_open(NULL);
    size_t before = count_entries("/proc/self/fd");

    (void) state;
    assert_non_null(closer);
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t n = round * 37 % MANY;

        for (size_t i = 0; i < n; i++)
            closer_add(closer, open_one());
        if (round % 5 != 0) /* else who waits closes them */
            closer_begin(closer);
        if (round % 3 != 0)
            (void) sched_yield();
        closer_end(closer);
        assert_int_equal(count_entries("/proc/self/fd"), before);
    }
    for (size_t i = 0; i < 64; i++)
        closer_add(closer, open_one());
    closer_begin(closer);
    closer_close(closer);
    assert_int_equal(count_entries("/proc/self/fd"), before);
}

static void for_a_few_nobody_is_woken(void **state)
{
    struct closer *closer = closer_open(NULL);
    size_t n_threads = count_entries("/proc/self/task");
    size_t n_open = count_entries("/proc/self/fd");

    (void) state;
    assert_non_null(closer);
    for (size_t i = 0; i < FEW; i++)
        closer_add(closer, open_one());
    closer_begin(closer);
    assert_int_equal(count_entries("/proc/self/task"), n_threads);
    assert_int_equal(count_entries("/proc/self/fd"), n_open);
    closer_close(closer);
}

static void without_a_closer_there_is_nothing_to_do(void **state)
{
    (void) state;
    closer_begin(NULL);
    closer_end(NULL);
    closer_close(NULL);
}

/* As many as the last group has left, opened by another thread. */
static void as_many_are_opened_as_were_closed(void **state)
{
    struct closer *closer = closer_open(open_one);
    size_t before = count_entries("/proc/self/fd");
    int fds[64];
    size_t n = 0;

    (void) state;
    assert_non_null(closer);
    assert_int_equal(closer_take(closer), -1);
    for (size_t i = 0; i < 64; i++)
        closer_add(closer, open_one());
    closer_begin(closer);
    closer_end(closer);
    for (; n < 64; n++) {
        UNTIL((fds[n] = closer_take(closer)) >= 0);
        assert_true(fds[n] >= 0);
    }
    for (size_t i = 0; i < n; i++) {
        assert_true(is_open(fds[i]));
        closer_add(closer, fds[i]);
    }
    closer_begin(closer);
    closer_end(closer);
    closer_add(closer, open_one());
    closer_begin(closer); /* of a few: nothing is opened for the next, and what there is is closed */
    closer_end(closer);
    assert_int_equal(closer_take(closer), -1);
    closer_close(closer);
    assert_int_equal(count_entries("/proc/self/fd"), before);
}

/* ---- probes ---- */

static uint16_t free_port(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *) &at, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *) &at, &len), 0);
    (void) close(fd);
    return ntohs(at.sin_port);
}

/* By a server that does not ask for reuse. */
static bool can_bind(uint16_t port)
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_port = htons(port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    bool is_bound = bind(fd, (struct sockaddr *) &at, sizeof at) == 0;
    (void) close(fd);
    return is_bound;
}

static void a_port_can_be_bound_after_the_end(void **state)
{
    struct closer *closer = closer_open(NULL);
    uint16_t port = free_port();

    (void) state;
    assert_non_null(closer);
    assert_int_equal(kernel_probe(&tcp, 1, port, &(struct kernel_group){ .closer = closer }, NULL, NULL),
                     KERNEL_FREE);
    assert_false(can_bind(port)); /* or this would show nothing */
    assert_int_equal(kernel_probe(&tcp, 1, port, &(struct kernel_group){ .closer = closer }, NULL, NULL),
                     KERNEL_FREE);
    closer_end(closer);
    assert_true(can_bind(port));
    closer_close(closer);
}

static void udp_is_not_kept(void **state)
{
    struct closer *closer = closer_open(NULL);
    uint16_t port = free_port();

    (void) state;
    assert_non_null(closer);
    for (int i = 0; i < 2; i++)
        assert_int_equal(kernel_probe(&udp, 1, port, &(struct kernel_group){ .closer = closer }, NULL, NULL),
                         KERNEL_FREE);
    assert_false(closer_drop(closer));
    closer_close(closer);
}

static void descriptors_that_wait_are_given_back_when_there_are_no_others(void **state)
{
    struct rlimit was;
    struct closer *closer = closer_open(NULL);
    uint16_t port = free_port();

    (void) state;
    assert_non_null(closer);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    int next = open_one();
    (void) close(next);
    struct rlimit low = { .rlim_cur = (rlim_t) next + 4, .rlim_max = was.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    bool is_free = true;
    for (int i = 0; i < 20; i++)
        is_free = is_free && kernel_probe(&tcp, 1, port, &(struct kernel_group){ .closer = closer }, NULL,
                                          NULL) == KERNEL_FREE;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    assert_true(is_free);
    closer_close(closer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_closed_at_the_end_and_not_before_the_beginning),
        cmocka_unit_test(the_group_need_not_be_over),
        cmocka_unit_test(however_many_there_are_none_is_left),
        cmocka_unit_test(for_a_few_nobody_is_woken),
        cmocka_unit_test(as_many_are_opened_as_were_closed),
        cmocka_unit_test(without_a_closer_there_is_nothing_to_do),
        cmocka_unit_test(a_port_can_be_bound_after_the_end),
        cmocka_unit_test(udp_is_not_kept),
        cmocka_unit_test(descriptors_that_wait_are_given_back_when_there_are_no_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
