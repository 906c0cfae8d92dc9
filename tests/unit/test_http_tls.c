/* SPDX-License-Identifier: MIT */
/* TCP, plain and with TLS; the client is openssl's. */
#include <netinet/in.h>

#include "support/child.h"
#include "support/http.h"
#include "support/ledger.h"

#define GET(target) "GET " target " HTTP/1.1\r\nHost: dibs\r\n\r\n"

enum { STEP_MS = 200, PEM_BYTES = 8000 };

struct tls {
    struct world *w;
    char dir[256];
    uint16_t port;
    struct {
        char cert[PEM_BYTES], key[PEM_BYTES];
    } pem[2];
};

static void read_file(const char *dir, const char *name, char *out, size_t size)
{
    char path[400] = "";
    size_t n = 0;

    (void) snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "r");
    if (file) {
        n = fread(out, 1, size - 1, file);
        (void) fclose(file);
    }
    out[n] = '\0';
}

/* A certificate of its own authority, in DIR/NAME.cert and DIR/NAME.key. */
static void make_certificate(struct tls *t, int i)
{
    char command[1000] = "";
    char name[20] = "";

    (void) snprintf(
        command, sizeof command,
        "cd %s && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
        "-keyout %d.key -out %d.cert -subj /CN=dibs-test-%d -addext subjectAltName=IP:127.0.0.1 "
        "2>%d.log",
        t->dir, i, i, i, i);
    assert_int_equal(child_run(child_shell, command), 0);
    (void) snprintf(name, sizeof name, "%d.cert", i);
    read_file(t->dir, name, t->pem[i].cert, PEM_BYTES);
    (void) snprintf(name, sizeof name, "%d.key", i);
    read_file(t->dir, name, t->pem[i].key, PEM_BYTES);
    assert_true(*t->pem[i].cert && *t->pem[i].key);
}

static int listen_on_tcp(uint16_t *port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *) &address, size), 0);
    assert_int_equal(listen(fd, 100), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *) &address, &size), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

static struct client *connect_to(uint16_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons(port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct client *c = calloc(1, sizeof *c);

    assert_non_null(c);
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(c->fd, (struct sockaddr *) &address, sizeof address), 0);
    assert_int_equal(fcntl(c->fd, F_SETFL, O_NONBLOCK), 0);
    return c;
}

static int setup_with(void **state, int64_t max_step_ms)
{
    const struct http_limits limits = { .max_step_ms = max_step_ms, .max_per_user = 4 };
    struct tls *t = calloc(1, sizeof *t);

    assert_non_null(t);
    t_make_directory(t->dir);
    t->w = w_open(&limits);
    *state = t;
    return 0;
}

static int setup(void **state)
{
    return setup_with(state, 0);
}

static int setup_quick(void **state)
{
    return setup_with(state, STEP_MS);
}

static int teardown(void **state)
{
    struct tls *t = *state;

    w_close(t->w);
    t_remove_directory(t->dir);
    free(t);
    return 0;
}

static void open_tls(struct tls *t)
{
    make_certificate(t, 0);
    ASSERT_OK(http_set_tls(t->w->server, t->pem[0].cert, t->pem[0].key, &t->w->err), &t->w->err);
    ASSERT_OK(http_listen(t->w->server, listen_on_tcp(&t->port), t->w, true, &t->w->err), &t->w->err);
}

/* A client that trusts certificate `i` alone, says `request`, and writes what it gets into DIR/NAME. */
static pid_t ask(struct tls *t, int i, const char *name, const char *request)
{
    char path[400] = "";
    char command[1000] = "";

    (void) snprintf(path, sizeof path, "%s/%s.request", t->dir, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void) fputs(request, file);
    assert_int_equal(fclose(file), 0);
    (void) snprintf(
        command, sizeof command,
        "cd %s && exec openssl s_client -quiet -verify_quiet -verify_return_error -CAfile %d.cert "
        "-connect 127.0.0.1:%u <%s.request >%s 2>%s.log",
        t->dir, i, (unsigned) t->port, name, name, name);
    return child_fork(child_shell, command);
}

static int wait_for(struct tls *t, pid_t pid)
{
    int status = 0;
    bool has_ended = false;

    W_UNTIL(t->w, (has_ended = has_ended || waitpid(pid, &status, WNOHANG) == pid));
    return WEXITSTATUS(status);
}

static bool has_got(const struct tls *t, const char *name, const char *text)
{
    char got[4000] = "";

    read_file(t->dir, name, got, sizeof got);
    return strstr(got, text) != NULL;
}

#define LAST(target) "GET " target " HTTP/1.1\r\nHost: dibs\r\nConnection: close\r\n\r\n"

static void requests_are_served_over_tls(void **state)
{
    struct tls *t = *state;

    open_tls(t);
    assert_int_equal(wait_for(t, ask(t, 0, "a", LAST("/x?a=1"))), 0);
    assert_true(has_got(t, "a", "GET /x a=1 []"));
    assert_int_equal(wait_for(t, ask(t, 0, "b", LAST("/now"))), 0);
    assert_true(has_got(t, "b", "GET /now []"));
    W_UNTIL(t->w, http_connections(t->w->server) == 0);
}

static void a_new_certificate_is_for_new_connections(void **state)
{
    struct tls *t = *state;
    struct world *w = t->w;

    open_tls(t);
    make_certificate(t, 1);
    pid_t old = ask(t, 0, "old", LAST("/later"));
    W_UNTIL(w, w->n_held == 1);
    ASSERT_OK(http_set_tls(w->server, t->pem[1].cert, t->pem[1].key, &w->err), &w->err);
    assert_int_equal(wait_for(t, ask(t, 1, "new", LAST("/x"))), 0);
    assert_true(has_got(t, "new", "GET /x []"));
    assert_int_not_equal(wait_for(t, ask(t, 0, "distrusts", LAST("/x"))), 0);
    assert_false(has_got(t, "distrusts", "GET /x []"));
    w_answer(w->held[--w->n_held], 200, "from before");
    assert_int_equal(wait_for(t, old), 0);
    assert_true(has_got(t, "old", "from before"));
    W_UNTIL(w, http_connections(w->server) == 0);
}

static void a_certificate_that_is_none_changes_nothing(void **state)
{
    struct tls *t = *state;
    struct world *w = t->w;
    int fd = listen_on_tcp(&t->port);

    assert_int_equal(http_listen(w->server, fd, w, true, &w->err), DIBS_INVALID);
    (void) close(fd);
    open_tls(t);
    make_certificate(t, 1);
    assert_int_equal(http_set_tls(w->server, "nonsense", t->pem[0].key, &w->err), DIBS_INVALID);
    assert_int_equal(http_set_tls(w->server, t->pem[0].cert, "nonsense", &w->err), DIBS_INVALID);
    assert_int_equal(http_set_tls(w->server, t->pem[0].cert, t->pem[1].key, &w->err), DIBS_INVALID);
    assert_non_null(strstr(w->err.msg, "certificate"));
    assert_int_equal(wait_for(t, ask(t, 0, "a", LAST("/x"))), 0);
    assert_true(has_got(t, "a", "GET /x []"));
}

static void a_tls_client_that_leaves_is_noticed(void **state)
{
    struct tls *t = *state;

    open_tls(t);
    pid_t pid = ask(t, 0, "a", LAST("/later"));
    W_UNTIL(t->w, t->w->n_held == 1);
    for (int i = 0; i < 3; i++)
        w_turn(t->w, 0);
    child_end(pid);
    W_UNTIL(t->w, t->w->n_abandoned == 1);
    W_UNTIL(t->w, t->w->n_disconnected == 1);
}

static void a_client_without_tls_is_closed(void **state)
{
    struct tls *t = *state;

    open_tls(t);
    struct client *c = connect_to(t->port);
    c_send(t->w, c, GET("/x"));
    W_UNTIL(t->w, c_is_over(c));
    assert_false(c_has(c, "HTTP"));
    c_close(c);
    assert_int_equal(t->w->n_requested, 0);
}

static void a_handshake_that_does_not_end_is_cut_off(void **state)
{
    struct tls *t = *state;

    open_tls(t);
    struct client *silent = connect_to(t->port);
    struct client *slow = connect_to(t->port);
    c_send_bytes(t->w, slow, "\x16\x03\x01\x02", 4);
    W_UNTIL(t->w, c_is_over(silent) && c_is_over(slow));
    c_close(silent);
    c_close(slow);
}

static void callers_over_tcp_are_one_user_together(void **state)
{
    struct tls *t = *state;
    struct client *c[5] = { 0 };

    ASSERT_OK(http_listen(t->w->server, listen_on_tcp(&t->port), t->w, false, &t->w->err), &t->w->err);
    for (int i = 0; i < 4; i++) {
        c[i] = connect_to(t->port);
        c_expect(t->w, c[i], GET("/x"), "GET /x []");
    }
    c[4] = connect_to(t->port);
    c_expect(t->w, c[4], "", "HTTP/1.1 429 ");
    struct client *local = c_open(t->w);
    c_expect(t->w, local, GET("/x"), "GET /x []");
    c_close(local);
    for (int i = 0; i < 5; i++)
        c_close(c[i]);
}

static void identify(void *ctx, struct http_request *r)
{
    (void) ctx;
    if (strcmp(http_path(r), "/known") == 0)
        assert_true(http_identify(r, 1000));
}

static void callers_without_a_user_have_a_bound_and_a_deadline_of_their_own(void **state)
{
    static const struct http_limits limits = { .max_per_user = 4, .max_unknown = 2, .max_unknown_ms = 300 };
    struct world *w = w_open(&limits);
    struct client *known[2] = { 0 };
    struct client *silent[3] = { 0 };
    uint16_t port = 0;

    (void) state;
    w->handler.arriving = identify;
    ASSERT_OK(http_listen(w->server, listen_on_tcp(&port), w, false, &w->err), &w->err);
    for (int i = 0; i < 3; i++) {
        silent[i] = connect_to(port);
        W_UNTIL(w, w->n_connected == (size_t) i + 1);
    }
    W_UNTIL(w, c_is_over(silent[0])); /* the oldest gives way */
    for (int i = 0; i < 2; i++) {
        known[i] = connect_to(port);
        c_expect(w, known[i], GET("/known"), "GET /known []");
    }
    W_UNTIL(w, c_is_over(silent[1]) && c_is_over(silent[2])); /* for the known ones, and by the deadline */
    struct client *late = connect_to(port);
    c_expect(w, late, GET("/x"), "GET /x []"); /* an answer alone does not make it known */
    W_UNTIL(w, c_is_over(late));
    c_expect(w, known[0], GET("/known"), "GET /known []");
    c_expect(w, known[1], GET("/known"), "GET /known []");
    c_close(late);
    for (int i = 0; i < 3; i++)
        c_close(silent[i]);
    c_close(known[0]);
    c_close(known[1]);
    w_close(w);
}

#define TLS_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TLS_TEST(requests_are_served_over_tls),
        TLS_TEST(a_new_certificate_is_for_new_connections),
        TLS_TEST(a_certificate_that_is_none_changes_nothing),
        TLS_TEST(a_tls_client_that_leaves_is_noticed),
        TLS_TEST(a_client_without_tls_is_closed),
        cmocka_unit_test_setup_teardown(a_handshake_that_does_not_end_is_cut_off, setup_quick, teardown),
        TLS_TEST(callers_over_tcp_are_one_user_together),
        cmocka_unit_test(callers_without_a_user_have_a_bound_and_a_deadline_of_their_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
