/* SPDX-License-Identifier: MIT */
/* A service manager's two protocols, on real sockets. */
#include "server/service_manager.h"

#include <netinet/in.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include "support/child.h"
#include "support/ledger.h"

/* ---- telling ---- */

struct manager {
    int fd;
    char dir[256];
    char address[320]; /* as NOTIFY_SOCKET has it */
};

static void listen_at(struct manager *m, const char *path)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    size_t n = strlen(path);
    const struct timeval patience = { .tv_sec = 5 };

    assert_in_range(n, 1, sizeof at.sun_path - 1);
    memcpy(at.sun_path, path, n);
    if (path[0] == '@')
        at.sun_path[0] = '\0';
    m->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(
        bind(m->fd, (struct sockaddr *) &at,
             (socklen_t) (offsetof(struct sockaddr_un, sun_path) + n + (path[0] == '/' ? 1 : 0))),
        0);
    assert_int_equal(setsockopt(m->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    (void) snprintf(m->address, sizeof m->address, "%s", path);
    assert_int_equal(setenv("NOTIFY_SOCKET", path, 1), 0);
}

static int by_path(void **state)
{
    struct manager *m = calloc(1, sizeof *m);
    char path[300];

    assert_non_null(m);
    t_make_directory(m->dir);
    (void) snprintf(path, sizeof path, "%s/notify", m->dir);
    listen_at(m, path);
    *state = m;
    return 0;
}

static int abstract(void **state)
{
    struct manager *m = calloc(1, sizeof *m);
    char path[64];

    assert_non_null(m);
    (void) snprintf(path, sizeof path, "@dibs-test-%d", (int) getpid());
    listen_at(m, path);
    *state = m;
    return 0;
}

static int leave(void **state)
{
    struct manager *m = *state;

    (void) close(m->fd);
    if (m->dir[0])
        t_remove_directory(m->dir);
    free(m);
    (void) unsetenv("NOTIFY_SOCKET");
    (void) unsetenv("WATCHDOG_USEC");
    (void) unsetenv("WATCHDOG_PID");
    return 0;
}

static const char *heard(const struct manager *m)
{
    static char text[2048];
    ssize_t n = recv(m->fd, text, sizeof text - 1, 0);

    text[n < 0 ? 0 : n] = '\0';
    return text;
}

static struct notify open_notify(void)
{
    struct notify notify = { 0 };
    dibs_err err = { 0 };

    ASSERT_OK(notify_open(&notify, &err), &err);
    return notify;
}

static int64_t now_us(void)
{
    struct timespec now = { 0 };

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void a_manager_hears_how_the_daemon_is(void **state)
{
    const struct manager *m = *state;
    struct notify notify = open_notify();
    long long at_us = 0;

    assert_null(getenv("NOTIFY_SOCKET")); /* a child must not speak for us */
    assert_true(notify_send(&notify, NOTIFY_READY));
    assert_string_equal(heard(m), "READY=1\nSTATUS=serving\n");
    int64_t before_us = now_us();
    assert_true(notify_send(&notify, NOTIFY_RELOADING));
    const char *text = heard(m);
    assert_int_equal(sscanf(text, "RELOADING=1\nMONOTONIC_USEC=%lld\n", &at_us), 1);
    assert_true(at_us >= before_us && at_us <= now_us());
    assert_true(notify_send(&notify, NOTIFY_WATCHDOG));
    assert_string_equal(heard(m), "WATCHDOG=1\n");
    assert_true(notify_send(&notify, NOTIFY_STOPPING));
    assert_string_equal(heard(m), "STOPPING=1\n");
    notify_close(&notify);
    assert_int_equal(notify.fd, -1);
}

static void a_restarted_manager_gets_the_rest(void **state)
{
    struct manager *m = *state;
    struct notify notify = open_notify();

    assert_true(notify_send(&notify, NOTIFY_READY));
    (void) close(m->fd);
    if (m->address[0] == '/')
        assert_int_equal(unlink(m->address), 0);
    assert_false(notify_send(&notify, NOTIFY_WATCHDOG));
    listen_at(m, m->address);
    assert_true(notify_send(&notify, NOTIFY_WATCHDOG));
    assert_string_equal(heard(m), "WATCHDOG=1\n");
    notify_close(&notify);
}

static void a_manager_that_does_not_read_is_not_waited_for_long(void **state)
{
    struct notify notify = open_notify();
    bool is_sent = true;

    (void) state;
    for (int i = 0; i < 10000 && is_sent; i++)
        is_sent = notify_send(&notify, NOTIFY_WATCHDOG);
    assert_false(is_sent);
    notify_close(&notify);
}

static void without_a_manager_nothing_is_sent(void **state)
{
    (void) state;
    assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
    assert_int_equal(setenv("WATCHDOG_USEC", "30000000", 1), 0);
    struct notify notify = open_notify();
    assert_int_equal(notify.fd, -1);
    assert_int_equal(notify.watchdog_ms, 0);
    assert_true(notify_send(&notify, NOTIFY_READY));
    notify_close(&notify);
}

static void the_watchdog_is_ours_only_with_our_pid(void **state)
{
    static const struct {
        const char *usec, *pid;
        int64_t ms;
    } rows[] = {
        { NULL, NULL, 0 },   { "30000000", NULL, 15000 }, { "30000000", "self", 15000 },
        { "0", "self", 0 },  { "30000000", "1", 0 },      { "1", "self", 1 },
        { NULL, "self", 0 },
    };
    const struct manager *m = *state;
    char self[16];

    (void) snprintf(self, sizeof self, "%d", (int) getpid());
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *pid = rows[i].pid && strcmp(rows[i].pid, "self") == 0 ? self : rows[i].pid;

        assert_int_equal(setenv("NOTIFY_SOCKET", m->address, 1), 0);
        if (rows[i].usec)
            assert_int_equal(setenv("WATCHDOG_USEC", rows[i].usec, 1), 0);
        if (pid)
            assert_int_equal(setenv("WATCHDOG_PID", pid, 1), 0);
        struct notify notify = open_notify();
        assert_int_equal(notify.watchdog_ms, rows[i].ms);
        assert_null(getenv("WATCHDOG_USEC"));
        assert_null(getenv("WATCHDOG_PID"));
        notify_close(&notify);
    }
}

static void an_environment_that_makes_no_sense_is_refused(void **state)
{
    static const struct {
        const char *name, *value;
    } rows[] = {
        { "NOTIFY_SOCKET", "relative" },
        { "NOTIFY_SOCKET", "@" },
        { "NOTIFY_SOCKET", "/" },
        { "NOTIFY_SOCKET", "vsock:2:1234" },
        { "NOTIFY_SOCKET", "/0123456789012345678901234567890123456789012345678901234567890123456789"
                           "01234567890123456789012345678901234567" },
        { "WATCHDOG_USEC", "soon" },
        { "WATCHDOG_USEC", "" },
        { "WATCHDOG_USEC", "-1" },
        { "WATCHDOG_USEC", "9223372036854775808" },
        { "WATCHDOG_PID", "1x" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct notify notify = { .fd = 77 };
        dibs_err err = { 0 };

        assert_int_equal(setenv(rows[i].name, rows[i].value, 1), 0);
        assert_int_equal(notify_open(&notify, &err), DIBS_INVALID);
        assert_non_null(strstr(err.msg, rows[i].name));
        assert_int_equal(notify.fd, 77);
        assert_null(getenv(rows[i].name));
    }
}

/* ---- sockets that were opened for us: in a child, where descriptors 3, 4, ... are ours to choose ---- */

enum made { UNIX, TCP, DATAGRAM, NOT_LISTENING, A_FILE };

struct passed {
    size_t n;
    enum made made[20];
    const char *names;  /* NULL: not set */
    const char *n_text; /* NULL: n */
    const char *pid;    /* NULL: the right one */
    dibs_status wanted;
    const char *why;
    struct activation out;
};

static int make(enum made made)
{
    struct sockaddr_un any = { .sun_family = AF_UNIX };
    struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int fd = made == A_FILE     ? open("/dev/null", O_RDWR)
             : made == TCP      ? socket(AF_INET, SOCK_STREAM, 0)
             : made == DATAGRAM ? socket(AF_UNIX, SOCK_DGRAM, 0)
                                : socket(AF_UNIX, SOCK_STREAM, 0);

    if (made == A_FILE || fd < 0)
        return fd;
    int bound = made == TCP ? bind(fd, (struct sockaddr *) &v4, sizeof v4)
                            : bind(fd, (struct sockaddr *) &any, sizeof any.sun_family);
    return bound == 0 && (made > TCP || listen(fd, 5) == 0) ? fd : -1;
}

static int loads(void *arg)
{
    const struct passed *p = arg;
    struct activation got = { .n = 99 };
    dibs_err err = { 0 };
    char number[16];
    char self[16];

    for (int fd = 3; fd < 64; fd++)
        (void) close(fd);
    for (size_t i = 0; i < p->n; i++)
        CHECK(make(p->made[i]) == (int) i + 3);
    (void) snprintf(number, sizeof number, "%zu", p->n);
    (void) snprintf(self, sizeof self, "%d", (int) getpid());
    CHECK(setenv("LISTEN_FDS", p->n_text ? p->n_text : number, 1) == 0);
    CHECK(setenv("LISTEN_PID", p->pid ? p->pid : self, 1) == 0);
    if (p->names)
        CHECK(setenv("LISTEN_FDNAMES", p->names, 1) == 0);
    CHECK(activation_load(&got, &err) == p->wanted);
    CHECK(!getenv("LISTEN_FDS") && !getenv("LISTEN_PID") && !getenv("LISTEN_FDNAMES"));
    if (p->wanted != DIBS_OK) {
        if (!strstr(err.msg, p->why))
            (void) fprintf(stderr, "%s\n", err.msg);
        CHECK(strstr(err.msg, p->why));
        CHECK(got.n == 99);
        return 0;
    }
    CHECK(got.n == p->out.n && got.n_kept == p->out.n_kept);
    for (size_t i = 0; i < got.n_kept; i++)
        CHECK(got.kept[i].fd == 3 && got.kept[i].id == 71 && fcntl(3, F_GETFD) & FD_CLOEXEC);
    free(got.kept);
    for (size_t i = 0; i < got.n; i++) {
        CHECK(got.socket[i].fd == p->out.socket[i].fd);
        CHECK(got.socket[i].role == p->out.socket[i].role);
        CHECK(fcntl(got.socket[i].fd, F_GETFD) & FD_CLOEXEC);
        CHECK(fcntl(got.socket[i].fd, F_GETFL) & O_NONBLOCK);
    }
    return 0;
}

static void sockets_are_known_by_their_names(void **state)
{
    static const struct passed rows[] = {
        { .out = { .n = 0 } },
        { .n = 1, .made = { UNIX }, .out = { .n = 1, .socket = { { 3, ACTIVATION_PUBLIC } } } },
        { .n = 1, .made = { UNIX }, .names = "", .out = { .n = 1, .socket = { { 3, ACTIVATION_PUBLIC } } } },
        { .n = 1,
          .made = { TCP },
          .names = "dibs.socket",
          .out = { .n = 1, .socket = { { 3, ACTIVATION_PUBLIC } } } },
        { .n = 4,
          .made = { UNIX, TCP, UNIX, UNIX },
          .names = "admin:public:portserver:public",
          .out = { .n = 4,
                   .socket = { { 3, ACTIVATION_ADMIN },
                               { 4, ACTIVATION_PUBLIC },
                               { 5, ACTIVATION_PORTSERVER },
                               { 6, ACTIVATION_PUBLIC } } } },
        { .n = 2,
          .made = { UNIX, UNIX },
          .names = "dibs-portserver.socket:dibs-admin.socket",
          .out = { .n = 2, .socket = { { 3, ACTIVATION_PORTSERVER }, { 4, ACTIVATION_ADMIN } } } },
        /* Fewer names than sockets: the rest has none. */
        { .n = 2,
          .made = { UNIX, UNIX },
          .names = "admin",
          .out = { .n = 2, .socket = { { 3, ACTIVATION_ADMIN }, { 4, ACTIVATION_PUBLIC } } } },
        /* A guard that the manager kept: any descriptor, under a name with a number. */
        { .n = 2,
          .made = { A_FILE, UNIX },
          .names = "guard.71:admin",
          .out = { .n = 1, .socket = { { 4, ACTIVATION_ADMIN } }, .n_kept = 1 } },
        /* Somebody else's. */
        { .n = 1, .made = { UNIX }, .pid = "1", .out = { .n = 0 } },
        { .n = 1, .made = { A_FILE }, .pid = "1", .names = "what", .out = { .n = 0 } },
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(child_run(loads, (void *) (uintptr_t) &rows[i]), 0);
}

static void an_unsupported_listener_is_refused(void **state)
{
    static const struct passed rows[] = {
        { .n = 1, .made = { DATAGRAM }, .wanted = DIBS_INVALID, .why = "descriptor 3" },
        { .n = 2, .made = { UNIX, NOT_LISTENING }, .wanted = DIBS_INVALID, .why = "descriptor 4" },
        { .n = 1, .made = { A_FILE }, .wanted = DIBS_INVALID, .why = "not a listening stream socket" },
        { .n = 0, .n_text = "1", .wanted = DIBS_INVALID, .why = "descriptor 3" },
        { .n = 1, .made = { UNIX }, .names = "web", .wanted = DIBS_INVALID, .why = "'web'" },
        { .n = 1, .made = { UNIX }, .names = "Admin\n", .wanted = DIBS_INVALID, .why = "'Admin?'" },
        { .n = 1, .made = { A_FILE }, .names = "guard.x", .wanted = DIBS_INVALID, .why = "'guard.x'" },
        { .n = 17, .wanted = DIBS_INVALID, .why = "more than 16 sockets" },
        { .n = 1, .made = { UNIX }, .n_text = "one", .wanted = DIBS_INVALID, .why = "LISTEN_FDS" },
        { .n = 1, .made = { UNIX }, .n_text = "-1", .wanted = DIBS_INVALID, .why = "LISTEN_FDS" },
        { .n = 1, .made = { UNIX }, .pid = "x", .wanted = DIBS_INVALID, .why = "LISTEN_PID" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(child_run(loads, (void *) (uintptr_t) &rows[i]), 0);
}

#define AT_BOTH(test)                                      \
    cmocka_unit_test_setup_teardown(test, by_path, leave), \
        cmocka_unit_test_setup_teardown(test, abstract, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        AT_BOTH(a_manager_hears_how_the_daemon_is),
        AT_BOTH(a_restarted_manager_gets_the_rest),
        cmocka_unit_test_setup_teardown(a_manager_that_does_not_read_is_not_waited_for_long, by_path, leave),
        cmocka_unit_test_setup_teardown(without_a_manager_nothing_is_sent, by_path, leave),
        cmocka_unit_test_setup_teardown(the_watchdog_is_ours_only_with_our_pid, by_path, leave),
        cmocka_unit_test(an_environment_that_makes_no_sense_is_refused),
        cmocka_unit_test(sockets_are_known_by_their_names),
        cmocka_unit_test(an_unsupported_listener_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
