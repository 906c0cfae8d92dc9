/* SPDX-License-Identifier: MIT */
/* Probes made ahead by another thread. */
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kernel/kernel.h"
#include "support/child.h"

enum { FIRST = 20000, MANY = 16, FEW = 3, LATER = 4, TAKEN = FIRST + 5, ROUNDS = 500 };

/* ---- whom the thread asks ---- */

static struct {
    _Atomic int tries[MANY + LATER];
    atomic_bool is_held, is_entered, is_left;
    pthread_t by;
} asked;

static int own_stat = -1; /* open all the time: descriptors may be few */

/* Is the first thread, which runs the cases, asleep? */
static bool is_waiting(void)
{
    char text[256] = "";
    const char *name_end = pread(own_stat, text, sizeof text - 1, 0) > 0 ? strrchr(text, ')') : NULL;

    return name_end && strncmp(name_end, ") S", 3) == 0;
}

static bool is_free(uint16_t port)
{
    asked.by = pthread_self();
    asked.tries[port - FIRST]++;
    asked.is_entered = true;
    UNTIL(!asked.is_held);
    asked.is_left = true;
    return port != TAKEN;
}

static struct ahead *open_ahead(void)
{
    struct ahead *ahead = ahead_open(is_free);

    assert_non_null(ahead);
    for (size_t i = 0; i < MANY + LATER; i++)
        asked.tries[i] = 0;
    asked.is_held = asked.is_entered = asked.is_left = false;
    return ahead;
}

static void ask(struct ahead *ahead, size_t n)
{
    uint16_t ports[MANY];

    for (size_t i = 0; i < n; i++)
        ports[i] = (uint16_t) (FIRST + i);
    ahead_ask(ahead, ports, n);
}

static void what_is_asked_for_is_tried_by_another_thread(void **state)
{
    struct ahead *ahead = open_ahead();

    (void) state;
    ahead_begin(ahead);
    assert_false(ahead_is_free(ahead, FIRST));
    ask(ahead, MANY);
    UNTIL(asked.tries[MANY - 1] > 0);
    ahead_end(ahead);
    assert_false(pthread_equal(asked.by, pthread_self()));
    for (uint16_t port = FIRST; port < FIRST + MANY; port++) {
        assert_int_equal(asked.tries[port - FIRST], 1);
        assert_int_equal(ahead_is_free(ahead, port), port != TAKEN);
    }
    ask(ahead, MANY); /* the same plan, made again: what is known need not be tried */
    UNTIL(asked.tries[TAKEN - FIRST] == 2);
    assert_int_equal(asked.tries[0], 1);
    ahead_begin(ahead);
    for (uint16_t port = FIRST; port < FIRST + MANY; port++)
        assert_false(ahead_is_free(ahead, port));
    ahead_close(ahead);
}

static void for_a_few_nobody_is_woken(void **state)
{
    struct ahead *ahead = open_ahead();
    size_t n_threads = count_entries("/proc/self/task");

    (void) state;
    ahead_begin(ahead);
    ask(ahead, FEW);
    assert_int_equal(count_entries("/proc/self/task"), n_threads);
    ahead_end(ahead);
    ahead_close(ahead);
}

static void what_the_group_has_come_to_is_left_to_it(void **state)
{
    struct ahead *ahead = open_ahead();

    (void) state;
    ahead_begin(ahead);
    asked.is_held = true;
    ask(ahead, MANY);
    UNTIL(asked.is_entered); /* it is at the first one */
    assert_false(ahead_is_free(ahead, FIRST + 3));
    asked.is_held = false;
    UNTIL(asked.tries[MANY - 1] > 0);
    assert_int_equal(asked.tries[0], 1);
    for (size_t i = 1; i <= 3; i++)
        assert_int_equal(asked.tries[i], 0);
    for (size_t i = 4; i < MANY; i++)
        assert_int_equal(asked.tries[i], 1);
    ahead_end(ahead);
    ahead_close(ahead);
}

static void *let_go(void *arg)
{
    (void) arg;
    UNTIL(is_waiting());
    asked.is_held = false;
    return NULL;
}

static void at_the_end_no_probe_is_under_way_and_none_follows(void **state)
{
    static const uint16_t later[LATER] = { FIRST + MANY, FIRST + MANY + 1, FIRST + MANY + 2,
                                           FIRST + MANY + 3 };
    struct ahead *ahead = open_ahead();
    pthread_t other;

    (void) state;
    ahead_begin(ahead);
    asked.is_held = true;
    ask(ahead, MANY);
    UNTIL(asked.is_entered);
    assert_int_equal(pthread_create(&other, NULL, let_go, NULL), 0);
    ahead_end(ahead);
    assert_true(asked.is_left);
    assert_int_equal(pthread_join(other, NULL), 0);
    ahead_begin(ahead);
    ahead_ask(ahead, later, LATER);
    UNTIL(asked.tries[MANY + LATER - 1] > 0); /* whatever was asked for before would have come first */
    for (size_t i = 1; i < MANY; i++)
        assert_int_equal(asked.tries[i], 0);
    ahead_close(ahead);
}

static void it_may_end_at_any_moment(void **state)
{
    struct ahead *ahead = NULL;

    (void) state;
    for (int round = 0; round < ROUNDS; round++) {
        if (!ahead)
            ahead = open_ahead();
        ahead_begin(ahead);
        ask(ahead, FEW + (size_t) round % (MANY - FEW));
        (void) ahead_is_free(ahead, (uint16_t) (FIRST + round % MANY));
        if (round % 3 > 0)
            ahead_end(ahead);
        if (round % 7 == 0) {
            ahead_close(ahead);
            ahead = NULL;
        }
    }
    ahead_close(ahead);
}

static void without_memory_nothing_is_known(void **state)
{
    (void) state;
    ahead_begin(NULL);
    ask(NULL, MANY);
    assert_false(ahead_is_free(NULL, FIRST));
    ahead_end(NULL);
    ahead_close(NULL);
}

/* ---- probes ---- */

static const dibs_binding common = { .proto = DIBS_TCP, .address = { .len = 16 } };

/* Ports beside each other that nobody has; [0] to [n - 1]. */
static void find_ports(uint16_t *ports, size_t n)
{
    for (uint16_t first = 21000; first < 30000; first++) {
        size_t k = 0;

        while (k < n && kernel_probe_common((uint16_t) (first + k)))
            k++;
        for (size_t i = 0; i < n; i++)
            ports[i] = (uint16_t) (first + i);
        if (k == n)
            return;
    }
    fail_msg("no free ports");
}

static atomic_int n_tried;

static bool probe_and_count(uint16_t port)
{
    bool is_free = kernel_probe_common(port);

    n_tried++;
    return is_free;
}

static struct kernel_group begin_group(void)
{
    struct kernel_group group = { .ahead = ahead_open(probe_and_count), .n_left = MANY };

    if (!kernel_has_ipv6())
        SKIP_BECAUSE("needs IPv6");
    assert_non_null(group.ahead);
    n_tried = 0;
    ahead_begin(group.ahead);
    return group;
}

static int listen_on(uint16_t port)
{
    struct sockaddr_in6 at = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *) &at, sizeof at), 0);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

static enum kernel_probe_result probe(struct kernel_group *group, const dibs_binding *binding, uint16_t port)
{
    return kernel_probe(binding, 1, port, group, NULL, NULL);
}

static void a_group_finds_what_each_alone_would_find(void **state)
{
    struct kernel_group group = begin_group();
    dibs_binding loopback = { .proto = DIBS_TCP, .address = { .len = 4, .bytes = { 127, 0, 0, 1 } } };
    uint16_t ports[MANY];

    (void) state;
    find_ports(ports, MANY);
    int fd = listen_on(ports[7]);
    assert_false(kernel_probes_ahead(&group, &loopback, 1));
    assert_true(kernel_probes_ahead(&group, &common, 1));
    ahead_ask(group.ahead, ports, MANY);
    UNTIL(n_tried == MANY);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(probe(&group, &common, ports[i]), i == 7 ? KERNEL_BUSY : KERNEL_FREE);
    assert_int_equal(group.n_probed, MANY);
    ahead_end(group.ahead);
    ahead_close(group.ahead);
    (void) close(fd);
}

/* Somebody has taken one meanwhile: who looked again would see it. */
static void what_was_free_is_not_probed_again(void **state)
{
    struct kernel_group group = begin_group();
    uint16_t ports[MANY];

    (void) state;
    find_ports(ports, MANY);
    ahead_ask(group.ahead, ports, MANY);
    UNTIL(n_tried == MANY);
    ahead_end(group.ahead);
    int fd = listen_on(ports[3]);
    assert_int_equal(probe(&group, &common, ports[3]), KERNEL_FREE);
    ahead_begin(group.ahead); /* another group looks for itself */
    assert_int_equal(probe(&group, &common, ports[3]), KERNEL_BUSY);
    ahead_end(group.ahead);
    ahead_close(group.ahead);
    (void) close(fd);
}

static atomic_bool has_descriptor;

static bool hold_a_descriptor(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    (void) port;
    has_descriptor = fd >= 0;
    UNTIL(!has_descriptor);
    (void) close(fd);
    return false;
}

static struct rlimit leave_descriptors(rlim_t n)
{
    struct rlimit was;
    int next = dup(2);

    (void) close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    struct rlimit low = { .rlim_cur = (rlim_t) next + n, .rlim_max = was.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    return was;
}

static void *free_the_descriptor(void *arg)
{
    (void) arg;
    UNTIL(is_waiting());
    has_descriptor = false;
    return NULL;
}

static void the_last_descriptor_is_waited_for(void **state)
{
    struct kernel_group group = begin_group();
    pthread_t other;
    uint16_t ports[MANY];

    (void) state;
    find_ports(ports, MANY);
    ahead_close(group.ahead);
    group.ahead = ahead_open(hold_a_descriptor);
    assert_non_null(group.ahead);
    struct rlimit was = leave_descriptors(1);
    ahead_ask(group.ahead, ports, MANY);
    UNTIL(has_descriptor);
    assert_int_equal(pthread_create(&other, NULL, free_the_descriptor, NULL), 0);
    enum kernel_probe_result got = probe(&group, &common, ports[MANY - 1]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    assert_int_equal(got, KERNEL_FREE);
    assert_int_equal(pthread_join(other, NULL), 0);
    ahead_close(group.ahead);
}

static void without_descriptors_the_group_is_told_why(void **state)
{
    struct kernel_group group = begin_group();
    uint16_t ports[MANY];
    dibs_err err = { 0 };

    (void) state;
    find_ports(ports, MANY);
    struct rlimit was = leave_descriptors(0);
    ahead_ask(group.ahead, ports, MANY);
    UNTIL(n_tried == MANY);
    enum kernel_probe_result got = kernel_probe(&common, 1, ports[MANY - 1], &group, NULL, &err);
    ahead_end(group.ahead);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    assert_int_equal(got, KERNEL_ABORT);
    assert_non_null(strstr(err.msg, "too many open files"));
    ahead_close(group.ahead);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_asked_for_is_tried_by_another_thread),
        cmocka_unit_test(for_a_few_nobody_is_woken),
        cmocka_unit_test(what_the_group_has_come_to_is_left_to_it),
        cmocka_unit_test(at_the_end_no_probe_is_under_way_and_none_follows),
        cmocka_unit_test(it_may_end_at_any_moment),
        cmocka_unit_test(without_memory_nothing_is_known),
        cmocka_unit_test(a_group_finds_what_each_alone_would_find),
        cmocka_unit_test(what_was_free_is_not_probed_again),
        cmocka_unit_test(the_last_descriptor_is_waited_for),
        cmocka_unit_test(without_descriptors_the_group_is_told_why),
    };
    own_stat = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
