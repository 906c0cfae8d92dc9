/* SPDX-License-Identifier: MIT */
/* UDP ports of a group of probes, told by the kernel's list. */
#include <sys/resource.h>
#include <unistd.h>

#include "base/auto.h"
#include "kernel/kernel.h"
#include "support/core.h"
#include "support/sockets.h"

enum { ENOUGH = 9, CROWD = 2000 };

static const dibs_binding both[] = { { DIBS_TCP, { .len = 16 } }, { DIBS_UDP, { .len = 16 } } };

static int bind_udp(uint16_t *port)
{
    int fd = serve(SOCK_DGRAM, "\x7f\0\0\1", 4, 0, port);

    assert_true(fd >= 0);
    return fd;
}

/* A port that nobody has bound, of either protocol. */
static uint16_t free_port(void)
{
    uint16_t port = 0;

    for (int i = 0; i < 1000; i++) {
        (void) close(bind_udp(&port));
        if (kernel_probe(both, 2, port, NULL, NULL, NULL) == KERNEL_FREE)
            return port;
    }
    fail_msg("no port is free");
    return 0;
}

/* Of UDP; of TCP nobody has it. */
static int bind_free(uint16_t *port)
{
    for (int i = 0; i < 1000; i++) {
        int fd = bind_udp(port);

        if (kernel_probe(both, 1, *port, NULL, NULL, NULL) == KERNEL_FREE)
            return fd;
        (void) close(fd);
    }
    fail_msg("no port is free");
    return -1;
}

static void ask(struct udp_bound *bound, size_t n)
{
    for (size_t i = 0; i < n; i++)
        (void) udp_bound_is_free(bound, 1);
}

static void few_are_worth_no_list(void **state)
{
    struct udp_bound bound = { 0 };
    uint16_t port = free_port();

    (void) state;
    for (int group = 0; group < 3; group++) {
        udp_bound_begin(&bound);
        for (int i = 0; i < ENOUGH - 1; i++)
            assert_false(udp_bound_is_free(&bound, port));
    }
    assert_true(udp_bound_is_free(&bound, port));
    udp_bound_done(&bound);
}

static void after_a_large_group_the_first_is_told_by_the_list(void **state)
{
    struct udp_bound bound = { 0 };
    uint16_t port = free_port();

    (void) state;
    ask(&bound, ENOUGH);
    udp_bound_begin(&bound);
    assert_true(udp_bound_is_free(&bound, port));
    udp_bound_begin(&bound); /* that one was small */
    assert_false(udp_bound_is_free(&bound, port));
    udp_bound_done(&bound);
}

static void every_group_has_a_list_of_its_own(void **state)
{
    struct udp_bound bound = { 0 };
    uint16_t port = free_port();

    (void) state;
    ask(&bound, ENOUGH);
    assert_true(udp_bound_is_free(&bound, port));
    int fd = bind_udp(&port);
    udp_bound_begin(&bound);
    assert_false(udp_bound_is_free(&bound, port));
    assert_true(bound.is_listed);
    (void) close(fd);
    udp_bound_done(&bound);
}

/* Between its pieces somebody may be passed over. */
static void a_list_that_does_not_come_in_one_piece_is_of_no_use(void **state)
{
    struct udp_bound bound = { 0 };
    struct rlimit was;
    int fds[CROWD];
    uint16_t port = 0;

    (void) state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    if (was.rlim_max < 2 * CROWD)
        skip();
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ was.rlim_max, was.rlim_max }), 0);
    for (size_t i = 0; i < CROWD; i++)
        fds[i] = bind_udp(&port);
    ask(&bound, ENOUGH);
    assert_true(bound.is_tried && !bound.is_listed);
    for (size_t i = 0; i < CROWD; i++)
        (void) close(fds[i]);
    udp_bound_begin(&bound);
    ask(&bound, ENOUGH); /* it is not tried at once again */
    assert_false(bound.is_tried);
    for (int i = 0; i < 1000 && !bound.is_listed; i++) {
        udp_bound_begin(&bound);
        ask(&bound, ENOUGH);
    }
    assert_true(bound.is_listed);
    udp_bound_done(&bound);
}

/* ---- probes ---- */

static enum kernel_probe_result probe(struct kernel_group *group, const dibs_binding *bindings, size_t n,
                                      uint16_t port)
{
    return kernel_probe(bindings, n, port, group, NULL, NULL);
}

static void who_has_a_udp_socket_is_seen_wherever_it_is_bound(void **state)
{
    static const struct {
        const char *address;
        size_t len;
        int flags;
    } rows[] = {
        { "\x7f\0\0\1", 4, 0 },
        { "\0\0\0\0", 4, 0 },
        { "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1", 16, V6ONLY },
        { "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16, V6ONLY },
        { "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16, 0 },
        { "\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\1", 16, 0 },
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kernel_group group = { 0 };
        uint16_t port = 0;
        if (rows[i].len == 16 && !kernel_has_ipv6())
            continue;
        AUTO(fd_auto) int fd = serve(SOCK_DGRAM, rows[i].address, rows[i].len, rows[i].flags, &port);
        assert_true(fd >= 0);
        for (size_t k = 0; k < 2 * ENOUGH; k++)
            assert_int_equal(probe(&group, both, 2, port), KERNEL_BUSY);
        if (kernel_probe(both, 1, port, NULL, NULL, NULL) == KERNEL_FREE) /* else TCP tells it already */
            assert_true(group.udp.is_listed);
        udp_bound_done(&group.udp);
    }
}

static void a_listed_port_that_became_free_can_be_had(void **state)
{
    struct kernel_group group = { 0 };
    uint16_t port = 0;
    int fd = bind_free(&port);

    (void) state;
    ask(&group.udp, ENOUGH);
    assert_int_equal(probe(&group, both, 2, port), KERNEL_BUSY);
    (void) close(fd);
    assert_int_equal(probe(&group, both, 2, port), KERNEL_FREE);
    udp_bound_done(&group.udp);
}

/* Without TCP on the same address nothing else would tell that it may be bound. */
static void udp_alone_is_always_tried(void **state)
{
    const dibs_binding others[] = { { DIBS_TCP, { .len = 4, .bytes = { 127, 0, 0, 1 } } },
                                    { DIBS_UDP, { .len = 16 } } };
    struct kernel_group group = { 0 };
    uint16_t port = 0;

    (void) state;
    ask(&group.udp, ENOUGH);
    assert_true(group.udp.is_listed);
    int fd = bind_free(&port); /* after the list */
    assert_int_equal(probe(&group, &both[1], 1, port), KERNEL_BUSY);
    assert_int_equal(probe(&group, others, 2, port), KERNEL_BUSY);
    assert_int_equal(probe(&group, both, 2, port), KERNEL_FREE); /* or this would show nothing */
    (void) close(fd);
    udp_bound_done(&group.udp);
}

int main(void)
{
    e_own_network(); /* where nobody else has sockets */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_are_worth_no_list),
        cmocka_unit_test(after_a_large_group_the_first_is_told_by_the_list),
        cmocka_unit_test(every_group_has_a_list_of_its_own),
        cmocka_unit_test(a_list_that_does_not_come_in_one_piece_is_of_no_use),
        cmocka_unit_test(who_has_a_udp_socket_is_seen_wherever_it_is_bound),
        cmocka_unit_test(a_listed_port_that_became_free_can_be_had),
        cmocka_unit_test(udp_alone_is_always_tried),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
