/* SPDX-License-Identifier: MIT */
/* The portserver protocol on real sockets, with a real engine behind it: the test is client and daemon in
 * turn.
 */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "daemon/portserver/portserver.h"
#include "support/child.h"

#define WAIT_MS 10000

/* ---- the parser ---- */

static void a_pid_is_read_as_python_reads_it(void **state)
{
    static const struct {
        const char *text;
        int64_t pid; /* -1: refused */
    } cases[] = {
        { "1", 1 },
        { "20655\n", 20655 },
        { "20655\r\n", 20655 },
        { "20655", 20655 },
        { " \t\v\f 42 \n", 42 },
        { "+123", 123 },
        { "1_0", 10 },
        { "1_2_3", 123 },
        { "007", 7 },
        { "-0", 0 },
        { "12345678901234567890", INT64_MAX },
        { "", -1 },
        { " \n", -1 },
        { "+", -1 },
        { "+ 1", -1 },
        { "++1", -1 },
        { "_1", -1 },
        { "1_", -1 },
        { "1__0", -1 },
        { "+_1", -1 },
        { "1 2", -1 },
        { "0x10", -1 },
        { "1.0", -1 },
        { "12\xC2\xA0", -1 },
        { "000000000000000000001", -1 }, /* 21 bytes */
        { "1                    ", -1 },
    };

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t pid = -1;
        bool is_read = portserver_pid_parse(cases[i].text, strlen(cases[i].text), &pid);

        if (is_read != (cases[i].pid != -1) || pid != cases[i].pid)
            fail_msg("'%s' became %lld", cases[i].text, (long long) pid);
    }
    int64_t pid = 0;
    assert_true(portserver_pid_parse("-5\n", 3, &pid));
    assert_int_equal(pid, -5);
    assert_false(portserver_pid_parse("1\0", 2, &pid));
}

/* ---- a daemon ---- */

struct world {
    struct loop *loop;
    struct engine *engine;
    struct quota *quota;
    struct metrics *metrics;
    struct portserver *server;
    dibs_settings settings;
    struct sockaddr_un address;
    socklen_t len;
    dibs_err err;
};

static void count(void *ctx, const dibs_event *event, const char *pool, int change)
{
    struct world *w = ctx;

    (void) pool;
    (void) change;
    if (event->kind == DIBS_EV_CLAIMED)
        quota_note(w->quota, event->principal, 1);
    else
        quota_give(w->quota, event->principal, 1);
}

static void w_listen(struct world *w)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    w->address.sun_family = AF_UNIX;
    assert_int_equal(bind(fd, (struct sockaddr *) &w->address, sizeof(sa_family_t)),
                     0); /* any abstract name */
    w->len = sizeof w->address;
    assert_int_equal(getsockname(fd, (struct sockaddr *) &w->address, &w->len), 0);
    assert_int_equal(listen(fd, 4096), 0);
    ASSERT_OK(portserver_listen(w->server, fd, &w->err), &w->err);
}

/* `range` NULL: the default. */
static struct world *w_open(const char *range, const struct quota_options *limits)
{
    struct world *w = calloc(1, sizeof *w);
    const dibs_flag flags[] = { { DIBS_SET_LEDGER, "memory:" },
                                { DIBS_SET_SOCKET, "none" },
                                { DIBS_SET_ALLOW_EPHEMERAL, "true" },
                                { DIBS_SET_RANGE, range } };

    assert_non_null(w);
    ASSERT_OK(dibs_settings_load(flags, range ? 4 : 3, &w->settings, &w->err), &w->err);
    ASSERT_OK(loop_open(&w->loop, &w->err), &w->err);
    ASSERT_OK(quota_open(limits, &w->quota, &w->err), &w->err);
    const struct engine_options options = {
        .loop = w->loop, .settings = &w->settings, .changed = count, .ctx = w
    };
    ASSERT_OK(engine_open(&options, &w->engine, &w->err), &w->err);
    ASSERT_OK(metrics_open(w->engine, NULL, &w->metrics, &w->err), &w->err);
    const struct api_options portserver = { .loop = w->loop,
                                            .settings = dibs_settings_of(w->engine->handle),
                                            .engine = w->engine,
                                            .quota = w->quota,
                                            .metrics = w->metrics,
                                            .uid = geteuid() };
    ASSERT_OK(portserver_open(&portserver, &w->server, &w->err), &w->err);
    w_listen(w);
    return w;
}

static void w_close(struct world *w)
{
    engine_close(w->engine);
    portserver_close(w->server);
    quota_close(w->quota);
    metrics_close(w->metrics);
    loop_close(w->loop);
    free(w);
}

static void w_turn(struct world *w)
{
    ASSERT_OK(loop_turn(w->loop, 5, &w->err), &w->err);
    engine_turn(w->engine);
    portserver_run(w->server);
}

#define W_UNTIL(w, condition)                                             \
    do {                                                                  \
        int64_t until_ = clock_monotonic_ms() + WAIT_MS;                  \
        while (!(condition) && clock_monotonic_ms() < until_)             \
            w_turn(w);                                                    \
        if (!(condition))                                                 \
            fail_msg("%s:%d: never: %s", __FILE__, __LINE__, #condition); \
    } while (0)

/* ---- clients ---- */

static int w_connect(struct world *w)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(connect(fd, (struct sockaddr *) &w->address, w->len), 0);
    return fd;
}

static bool is_answered(int fd)
{
    char c = 0;

    return recv(fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
}

/* The port, 0 for nothing and the end; the connection is closed. Anything else fails the test. */
static uint16_t w_answer(struct world *w, int fd)
{
    char text[16] = "";
    char *end = NULL;
    unsigned long port = 0;

    W_UNTIL(w, is_answered(fd));
    ssize_t n = recv(fd, text, sizeof text - 1, MSG_DONTWAIT);
    assert_true(n >= 0);
    if (n > 0) {
        port = strtoul(text, &end, 10);
        assert_in_range(port, 1, 65535);
        assert_string_equal(end, "\n");
        assert_int_equal(snprintf(NULL, 0, "%lu\n", port), n);
        W_UNTIL(w, is_answered(fd));
        assert_int_equal(recv(fd, text, 1, MSG_DONTWAIT), 0);
    }
    (void) close(fd);
    return (uint16_t) port;
}

static int w_send(struct world *w, const char *bytes, size_t n)
{
    int fd = w_connect(w);

    assert_int_equal(send(fd, bytes, n, MSG_NOSIGNAL), (ssize_t) n);
    return fd;
}

static uint16_t w_ask(struct world *w, const char *text)
{
    return w_answer(w, w_send(w, text, strlen(text)));
}

static int w_send_pid(struct world *w, pid_t pid)
{
    char text[16];
    int n = snprintf(text, sizeof text, "%d\n", (int) pid);

    return w_send(w, text, (size_t) n);
}

static uint16_t w_ask_for(struct world *w, pid_t pid)
{
    return w_answer(w, w_send_pid(w, pid));
}

struct list {
    size_t n;
    dibs_claim last;
};

static bool note(void *ctx, const dibs_claim *claim)
{
    struct list *list = ctx;

    list->n++;
    list->last = *claim;
    return true;
}

static struct list w_claims(struct world *w)
{
    struct list list = { 0 };

    ASSERT_OK(dibs_claim_list(w->engine->handle, &(dibs_filter){ 0 }, note, &list, &w->err), &w->err);
    return list;
}

/* Ports that are free now, "P" or "P,Q"; they are in the kernel's own range, which nobody else asks for. */
static void free_ports(size_t n, char *out, size_t size)
{
    int fd[4];
    size_t used = 0;

    for (size_t i = 0; i < n; i++) {
        struct sockaddr_in6 any = { .sin6_family = AF_INET6 };
        socklen_t len = sizeof any;

        fd[i] = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd[i] < 0 || bind(fd[i], (struct sockaddr *) &any, sizeof any) != 0)
            SKIP_BECAUSE("needs IPv6 sockets");
        assert_int_equal(getsockname(fd[i], (struct sockaddr *) &any, &len), 0);
        used += (size_t) snprintf(out + used, size - used, "%s%u", i ? "," : "", ntohs(any.sin6_port));
    }
    for (size_t i = 0; i < n; i++)
        (void) close(fd[i]);
}

/* ---- cases ---- */

static uint32_t count_claims(struct world *w, const char *principal)
{
    struct quota_use use = { 0 };

    quota_begin(w->quota, principal, &use);
    return use.allowance.n;
}

static void a_process_gets_a_port_with_tcp_and_udp_until_it_dies(void **state)
{
    struct world *w = w_open(NULL, &(struct quota_options){ 0 });
    pid_t pid = child_fork(child_idle, NULL);
    uint16_t port = w_ask_for(w, pid);
    struct list list = w_claims(w);

    (void) state;
    assert_int_not_equal(port, 0);
    assert_int_equal(list.n, 1);
    assert_int_equal(list.last.port, port);
    assert_int_equal(list.last.kind, DIBS_DYNAMIC);
    assert_int_equal(list.last.holder, DIBS_HELD_BY_PROCESS);
    assert_int_equal(list.last.process.pid, pid);
    assert_int_equal(list.last.n_bindings, 2);
    assert_string_equal(list.last.name, "");
    assert_int_equal(count_claims(w, list.last.principal), 1);
    child_end(pid);
    W_UNTIL(w, w_claims(w).n == 0);
    assert_int_equal(count_claims(w, list.last.principal), 0);
    w_close(w);
}

static void every_failure_is_nothing_and_the_end(void **state)
{
    static const char *const wrong[] = { "0\n",   "1\n",    "-5\n",       "\n",
                                         "x\n",   "0x10\n", "2147483648", "99999999999999999999",
                                         "1__0\n" };
    struct world *w = w_open(NULL, &(struct quota_options){ 0 });
    char long_text[3000];
    pid_t dead = child_fork(child_idle, NULL);

    (void) state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (w_ask(w, wrong[i]) != 0)
            fail_msg("'%s' got a port", wrong[i]);
    child_end(dead);
    assert_int_equal(w_ask_for(w, dead), 0);
    memset(long_text, '7', sizeof long_text);
    assert_int_equal(w_answer(w, w_send(w, long_text, sizeof long_text)), 0);
    int fd = w_connect(w);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    assert_int_equal(w_answer(w, fd), 0);
    assert_int_equal(w_claims(w).n, 0);
    assert_int_equal(portserver_connections(w->server), 0);
    assert_int_not_equal(w_ask_for(w, getpid()), 0);
    w_close(w);
}

static int idle_as_nobody(void *arg)
{
    const int *ready = arg;

    CHECK(setresuid(CHILD_NOBODY, CHILD_NOBODY, CHILD_NOBODY) == 0);
    CHECK(write(*ready, "x", 1) == 1);
    return child_idle(NULL);
}

static void another_users_process_gets_nothing(void **state)
{
    int ready[2];
    char c = 0;

    (void) state;
    need_root();
    struct world *w = w_open(NULL, &(struct quota_options){ 0 });
    assert_int_equal(pipe(ready), 0);
    pid_t pid = child_fork(idle_as_nobody, &ready[1]);
    assert_int_equal(read(ready[0], &c, 1), 1);
    assert_int_equal(w_ask_for(w, pid), 0);
    assert_int_equal(w_claims(w).n, 0);
    child_end(pid);
    (void) close(ready[0]);
    (void) close(ready[1]);
    w_close(w);
}

/* How many bytes come back for this pid; below 0: something went wrong. */
static ssize_t ask_blocking(const struct world *w, pid_t pid)
{
    char text[16];
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int n = snprintf(text, sizeof text, "%d", (int) pid);

    if (connect(fd, (const struct sockaddr *) &w->address, w->len) != 0 || write(fd, text, (size_t) n) != n)
        return -1;
    ssize_t got = read(fd, text, sizeof text);
    (void) close(fd);
    return got;
}

struct stranger {
    const struct world *w;
    pid_t pid; /* outside */
};

static int ask_from_inside(void *arg)
{
    const struct stranger *me = arg;
    pid_t child = child_fork(child_idle, NULL);

    CHECK(ask_blocking(me->w, me->pid) == 0);
    CHECK(ask_blocking(me->w, child) > 0);
    return 0;
}

static int become_stranger(void *arg)
{
    return child_in_new_pidns(ask_from_inside, arg);
}

static bool has_ended(pid_t pid)
{
    siginfo_t info = { 0 };

    return waitid(P_PID, (id_t) pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

static void a_pid_is_meant_in_the_askers_own_pid_namespace(void **state)
{
    (void) state;
    need_root();
    struct world *w = w_open(NULL, &(struct quota_options){ 0 });
    struct stranger stranger = { w, getpid() };
    assert_int_not_equal(w_ask_for(w, getpid()), 0); /* this number is known and watched from here on */
    w_turn(w);
    pid_t pid = child_fork(become_stranger, &stranger);
    W_UNTIL(w, has_ended(pid));
    assert_int_equal(child_join(pid), 0);
    struct list list = w_claims(w);
    W_UNTIL(w, w_claims(w).n == 1); /* it died with its namespace */
    assert_true(list.n == 1 || strchr(list.last.principal, '@'));
    w_close(w);
}

static int asks_before_and_after(void *arg)
{
    const struct world *w = arg;

    CHECK(ask_blocking(w, getpid()) > 0);
    CHECK(ask_blocking(w, getpid()) > 0); /* what is known of it is from here */
    CHECK(setresuid(CHILD_NOBODY, CHILD_NOBODY, CHILD_NOBODY) == 0);
    CHECK(ask_blocking(w, getpid()) > 0);
    return 0;
}

static void a_process_that_changed_its_uid_is_served_as_the_new_user(void **state)
{
    (void) state;
    need_root();
    struct world *w = w_open(NULL, &(struct quota_options){ 0 });
    pid_t pid = child_fork(asks_before_and_after, w);
    W_UNTIL(w, has_ended(pid));
    assert_int_equal(child_join(pid), 0);
    w_close(w);
}

static void a_burst_shares_commits_and_no_port_is_given_twice(void **state)
{
    enum { N = 300 };
    struct world *w = w_open(NULL, &(struct quota_options){ 0 });
    static bool is_given[65536];
    int fd[N];

    (void) state;
    memset(is_given, 0, sizeof is_given);
    for (int round = 0; round < 2; round++) { /* the second time it is watched already */
        uint64_t before = group_commit_count(w->engine->group)->commits;

        for (size_t i = 0; i < N; i++)
            fd[i] = w_send_pid(w, getpid());
        for (size_t i = 0; i < N; i++) {
            uint16_t port = w_answer(w, fd[i]);

            assert_int_not_equal(port, 0);
            assert_false(is_given[port]);
            is_given[port] = true;
        }
        assert_true(group_commit_count(w->engine->group)->commits - before <= 3);
    }
    assert_int_equal(w_claims(w).n, 2 * N);
    w_close(w);
}

static void of_a_dead_process_claims_the_one_whose_socket_is_bound_stays(void **state)
{
    enum { N = 20 };
    struct world *w = w_open(NULL, &(struct quota_options){ 0 });
    pid_t pid = child_fork(child_idle, NULL);
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    uint16_t port = 0;

    (void) state;
    for (size_t i = 0; i < N; i++)
        port = w_ask_for(w, pid);
    to.sin_port = htons(port);
    assert_int_equal(bind(fd, (struct sockaddr *) &to, sizeof to), 0);
    child_end(pid);
    W_UNTIL(w, w_claims(w).n == 1);
    assert_int_equal(w_claims(w).last.port, port);
    (void) close(fd);
    W_UNTIL(w, w_claims(w).n == 0);
    w_close(w);
}

static void an_exhausted_pool_is_a_failure_until_a_holder_dies(void **state)
{
    char range[32];

    (void) state;
    free_ports(2, range, sizeof range);
    struct world *w = w_open(range, &(struct quota_options){ 0 });
    pid_t pid = child_fork(child_idle, NULL);
    assert_int_not_equal(w_ask_for(w, pid), 0);
    assert_int_not_equal(w_ask_for(w, getpid()), 0);
    assert_int_equal(w_ask_for(w, getpid()), 0);
    child_end(pid);
    W_UNTIL(w, w_claims(w).n == 1);
    assert_int_not_equal(w_ask_for(w, getpid()), 0);
    w_close(w);
}

static void a_user_has_no_more_than_the_quota(void **state)
{
    struct world *w = w_open(NULL, &(struct quota_options){ .claims = 3 });
    int fd[6];
    size_t n = 0;

    (void) state;
    for (size_t i = 0; i < 6; i++) /* at once: those that are not decided yet count as well */
        fd[i] = w_send_pid(w, getpid());
    for (size_t i = 0; i < 6; i++)
        n += w_answer(w, fd[i]) != 0;
    assert_int_equal(n, 3);
    assert_int_equal(w_claims(w).n, 3);
    w_close(w);
}

static void a_user_asks_no_faster_than_the_rate(void **state)
{
    struct world *w = w_open(NULL, &(struct quota_options){ .requests_per_s = 5 });
    int fd[50];
    size_t n = 0;

    (void) state;
    for (size_t i = 0; i < 50; i++)
        fd[i] = w_send_pid(w, getpid());
    for (size_t i = 0; i < 50; i++)
        n += w_answer(w, fd[i]) != 0;
    assert_in_range(n, 5, 49);
    w_close(w);
}

static void a_client_that_leaves_before_the_answer_leaves_no_claim(void **state)
{
    struct world *w = w_open(NULL, &(struct quota_options){ 0 });
    uint64_t before = w->engine->seq;

    (void) state;
    (void) close(w_send_pid(w, getpid()));
    W_UNTIL(w, w->engine->seq == before + 2);
    assert_int_equal(w_claims(w).n, 0);
    assert_int_equal(portserver_connections(w->server), 0);
    w_close(w);
}

static void silent_connections_give_way_to_new_ones(void **state)
{
    struct rlimit limit = { 0 };
    struct world *w = w_open(NULL, &(struct quota_options){ 0 });
    int *fd = calloc(PORTSERVER_CONNECTIONS_MAX + 50, sizeof *fd);

    (void) state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0); /* the engine has raised it */
    if (limit.rlim_cur < 4UL * PORTSERVER_CONNECTIONS_MAX) {
        free(fd);
        w_close(w);
        SKIP_BECAUSE("needs %d descriptors", 4 * PORTSERVER_CONNECTIONS_MAX);
    }
    for (size_t i = 0; i < PORTSERVER_CONNECTIONS_MAX + 50; i++)
        fd[i] = w_connect(w);
    W_UNTIL(w, is_answered(fd[49])); /* the first came to their end */
    assert_int_equal(portserver_connections(w->server), PORTSERVER_CONNECTIONS_MAX);
    assert_false(is_answered(fd[50]));
    assert_int_not_equal(w_ask_for(w, getpid()), 0);
    assert_true(is_answered(fd[50]));
    assert_int_equal(send(fd[60], "1_0\n", 1, MSG_NOSIGNAL), 1); /* late, but not too late */
    assert_int_equal(w_answer(w, fd[60]), 0);
    fd[60] = -1;
    assert_in_range(portserver_next_ms(w->server), 0, PORTSERVER_SILENT_MS);
    for (size_t i = 0; i < PORTSERVER_CONNECTIONS_MAX + 50; i++)
        if (fd[i] >= 0)
            (void) close(fd[i]);
    W_UNTIL(w, portserver_connections(w->server) == 0);
    assert_true(portserver_next_ms(w->server) < 0);
    free(fd);
    w_close(w);
}

static void without_descriptors_it_waits_and_goes_on_later(void **state)
{
    struct world *w = w_open(NULL, &(struct quota_options){ 0 });
    struct rlimit limit = { 0 };
    int fd = w_send_pid(w, getpid());
    int next = dup(fd);

    (void) state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    (void) close(next);
    struct rlimit none = { .rlim_cur = (rlim_t) next, .rlim_max = limit.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    w_turn(w);
    assert_in_range(portserver_next_ms(w->server), 1, 1000); /* it is not asked again and again meanwhile */
    assert_false(is_answered(fd));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_not_equal(w_answer(w, fd), 0);
    w_close(w);
}

static void in_its_end_it_answers_what_was_asked(void **state)
{
    struct world *w = w_open(NULL, &(struct quota_options){ 0 });
    int silent = w_connect(w);

    (void) state;
    W_UNTIL(w, portserver_connections(w->server) == 1);
    int fd = w_send_pid(w, getpid());
    ASSERT_OK(loop_turn(w->loop, 1000, &w->err), &w->err);
    assert_true(portserver_drain(w->server));
    assert_int_equal(portserver_connections(w->server), 1); /* the silent one is cut */
    assert_int_not_equal(w_answer(w, fd), 0);
    assert_false(portserver_drain(w->server));
    assert_int_not_equal(
        connect(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), (struct sockaddr *) &w->address, w->len), 0);
    (void) close(silent);
    w_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pid_is_read_as_python_reads_it),
        cmocka_unit_test(a_process_gets_a_port_with_tcp_and_udp_until_it_dies),
        cmocka_unit_test(every_failure_is_nothing_and_the_end),
        cmocka_unit_test(another_users_process_gets_nothing),
        cmocka_unit_test(a_pid_is_meant_in_the_askers_own_pid_namespace),
        cmocka_unit_test(a_process_that_changed_its_uid_is_served_as_the_new_user),
        cmocka_unit_test(a_burst_shares_commits_and_no_port_is_given_twice),
        cmocka_unit_test(of_a_dead_process_claims_the_one_whose_socket_is_bound_stays),
        cmocka_unit_test(an_exhausted_pool_is_a_failure_until_a_holder_dies),
        cmocka_unit_test(a_user_has_no_more_than_the_quota),
        cmocka_unit_test(a_user_asks_no_faster_than_the_rate),
        cmocka_unit_test(a_client_that_leaves_before_the_answer_leaves_no_claim),
        cmocka_unit_test(silent_connections_give_way_to_new_ones),
        cmocka_unit_test(without_descriptors_it_waits_and_goes_on_later),
        cmocka_unit_test(in_its_end_it_answers_what_was_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
