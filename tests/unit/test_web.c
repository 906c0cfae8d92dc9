/* SPDX-License-Identifier: MIT */
/* The HTTP client against servers of a few lines, which can be wrong in every way. */
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/loop.h"
#include "support/t.h"
#include "web/web.h"

enum { REQUEST_MAX = 4 << 20, SERVERS_MAX = 4, SHORT_MS = 300, LONG_MS = 10000 };

/* Answers one request on `fd`; false closes the connection. */
struct server;
typedef bool (*serve_fn)(struct server *s, int fd);

struct server {
    int listening;
    uint16_t port;
    _Atomic(serve_fn) serve;
    pthread_t threads[SERVERS_MAX]; /* so many connections at once */
    atomic_int n_connections, n_requests;
    atomic_bool is_ending;
};

struct world {
    struct web *web;
    struct web_answer answer;
    struct server server;
    char url[64];
    dibs_err err;
};

/* A whole request with its body, NUL-terminated; NULL at the end of the connection. The caller frees it. */
static char *read_request(int fd)
{
    char *text = calloc(1, REQUEST_MAX);
    size_t n = 0;

    while (text && n < REQUEST_MAX - 1) {
        ssize_t got = recv(fd, text + n, REQUEST_MAX - 1 - n, 0);

        if (got <= 0)
            break;
        n += (size_t) got;
        const char *body = strstr(text, "\r\n\r\n");
        const char *length = body ? strstr(text, "Content-Length: ") : NULL;
        size_t want = 0;
        if (length)
            for (const char *p = length + 16; *p >= '0' && *p <= '9'; p++)
                want = want * 10 + (size_t) (*p - '0');
        if (body && n - (size_t) (body + 4 - text) >= want)
            return text;
    }
    free(text);
    return NULL;
}

static void say(int fd, const char *text)
{
    size_t left = strlen(text);

    while (left > 0) {
        ssize_t n = send(fd, text, left, MSG_NOSIGNAL);

        if (n <= 0)
            return;
        text += n;
        left -= (size_t) n;
    }
}

static void *serve_all(void *arg)
{
    struct server *s = arg;

    while (!atomic_load(&s->is_ending)) {
        int fd = accept(s->listening, NULL, NULL);

        if (fd < 0)
            break;
        atomic_fetch_add(&s->n_connections, 1);
        bool goes_on = true;
        while (goes_on) {
            char *request = read_request(fd);

            goes_on = request != NULL;
            if (request) {
                atomic_fetch_add(&s->n_requests, 1);
                free(request);
                goes_on = s->serve(s, fd);
            }
        }
        (void) close(fd);
    }
    return NULL;
}

static void serve_with(struct world *w, serve_fn serve)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof at;
    struct server *s = &w->server;

    s->serve = serve;
    s->listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(s->listening, (struct sockaddr *) &at, size), 0);
    assert_int_equal(getsockname(s->listening, (struct sockaddr *) &at, &size), 0);
    s->port = ntohs(at.sin_port);
    (void) snprintf(w->url, sizeof w->url, "http://127.0.0.1:%u/x", s->port);
    if (!serve)
        return; /* bound, but nobody listens: nobody else can, either */
    assert_int_equal(listen(s->listening, 16), 0);
    for (int i = 0; i < SERVERS_MAX; i++)
        assert_int_equal(pthread_create(&s->threads[i], NULL, serve_all, s), 0);
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);

    assert_non_null(w);
    w->server.listening = -1;
    ASSERT_OK(web_open(&(struct web_options){ 0 }, &w->web, &w->err), &w->err);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    struct server *s = &w->server;

    web_answer_done(&w->answer);
    web_close(w->web); /* ends the connections, and with them the servers' reads */
    atomic_store(&s->is_ending, true);
    if (s->listening >= 0)
        (void) shutdown(s->listening, SHUT_RDWR);
    for (int i = 0; i < SERVERS_MAX && s->serve; i++)
        (void) pthread_join(s->threads[i], NULL);
    if (s->listening >= 0)
        (void) close(s->listening);
    free(w);
    return 0;
}

static dibs_status ask(struct world *w, const struct web_request *request)
{
    struct web_request r = *request;

    r.method = r.method ? r.method : "POST";
    r.url = r.url ? r.url : w->url;
    r.deadline_ms = r.deadline_ms ? r.deadline_ms : clock_monotonic_ms() + LONG_MS;
    web_answer_done(&w->answer);
    return web_ask(w->web, &r, &w->answer);
}

static void ask_well(struct world *w, const struct web_request *request)
{
    ASSERT_OK(ask(w, request), &w->answer.err);
    assert_int_equal(w->answer.reach, WEB_ANSWERED);
}

static void ask_in_vain(struct world *w, const struct web_request *request, enum web_reach reach,
                        const char *text)
{
    dibs_status s = ask(w, request);

    if (s == DIBS_OK || w->answer.reach != reach || !strstr(w->answer.err.msg, text))
        fail_msg("%s, reach %d, %s (wanted: %d, %s)", dibs_status_text(s), w->answer.reach, w->answer.err.msg,
                 reach, text);
}

static bool body_is(const struct world *w, const char *text)
{
    return w->answer.body.n == strlen(text) && memcmp(w->answer.body.at, text, w->answer.body.n) == 0;
}

#define PLAIN(code, body) "HTTP/1.1 " code "\r\nContent-Length: " body
#define HI PLAIN("200 OK", "2\r\n\r\nhi")

/* ---- answers ---- */

static bool serve_hi(struct server *s, int fd)
{
    (void) s;
    say(fd, HI);
    return true;
}

static void connections_are_kept(void **state)
{
    struct world *w = *state;

    serve_with(w, serve_hi);
    for (int i = 0; i < 5; i++) {
        ask_well(w, &(struct web_request){ .body = "{}", .n_body = 2 });
        assert_int_equal(w->answer.http_status, 200);
        assert_true(body_is(w, "hi"));
    }
    assert_int_equal(atomic_load(&w->server.n_connections), 1);
    assert_int_equal(atomic_load(&w->server.n_requests), 5);
}

static void large_bodies_arrive_whole(void **state)
{
    struct world *w = *state;
    size_t n = 2 << 20;
    char *body = malloc(n);

    assert_non_null(body);
    memset(body, 'x', n);
    serve_with(w, serve_hi);
    ask_well(w, &(struct web_request){ .body = body, .n_body = n });
    assert_true(body_is(w, "hi"));
    free(body);
}

static bool serve_refusal(struct server *s, int fd)
{
    (void) s;
    say(fd, PLAIN("503 No", "3\r\n\r\nbad"));
    return true;
}

static void a_refusal_is_an_answer(void **state)
{
    struct world *w = *state;

    serve_with(w, serve_refusal);
    ask_well(w, &(struct web_request){ .method = "GET" });
    assert_int_equal(w->answer.http_status, 503);
    assert_true(body_is(w, "bad"));
}

static bool serve_redirect(struct server *s, int fd)
{
    char text[200] = "";

    (void) snprintf(text, sizeof text,
                    "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:%u/y\r\nContent-Length: 0\r\n\r\n",
                    s->port);
    say(fd, text);
    return true;
}

static void redirects_and_proxies_are_not_followed(void **state)
{
    struct world *w = *state;

    serve_with(w, serve_redirect);
    assert_int_equal(setenv("http_proxy", "http://127.0.0.1:1", 1), 0);
    assert_int_equal(setenv("ALL_PROXY", "http://127.0.0.1:1", 1), 0);
    ask_well(w, &(struct web_request){ .method = "GET" });
    assert_int_equal(unsetenv("http_proxy"), 0);
    assert_int_equal(unsetenv("ALL_PROXY"), 0);
    assert_int_equal(w->answer.http_status, 302);
    assert_int_equal(atomic_load(&w->server.n_requests), 1);
}

/* ---- failures ---- */

static void where_nobody_listens_nothing_was_sent(void **state)
{
    struct world *w = *state;

    serve_with(w, NULL);
    ask_in_vain(w, &(struct web_request){ .body = "{}", .n_body = 2 }, WEB_NOT_SENT, "is the server running");
    assert_non_null(strstr(w->answer.err.msg, "127.0.0.1"));
    assert_int_equal(w->answer.status, DIBS_UNAVAILABLE);
    ask_in_vain(w, &(struct web_request){ .url = "http://nobody.invalid:1/" }, WEB_NOT_SENT, "no such host");
    ask_in_vain(w, &(struct web_request){ .url = "ftp://127.0.0.1/" }, WEB_NOT_SENT, "no address");
    assert_int_equal(w->answer.status, DIBS_INVALID);
}

static bool serve_nothing(struct server *s, int fd)
{
    char byte = 0;

    (void) s;
    (void) recv(fd, &byte, 1, 0); /* until the client has enough */
    return false;
}

static void a_server_that_is_silent_ends_by_the_deadline(void **state)
{
    struct world *w = *state;

    serve_with(w, serve_nothing);
    int64_t begun_ms = clock_monotonic_ms();
    ask_in_vain(w, &(struct web_request){ .body = "{}", .n_body = 2, .deadline_ms = begun_ms + SHORT_MS },
                WEB_SENT, "no whole answer within");
    int64_t took_ms = clock_monotonic_ms() - begun_ms;
    assert_true(took_ms >= SHORT_MS - 1 && took_ms < SHORT_MS + 200);
}

static bool serve_once_then_close(struct server *s, int fd)
{
    if (atomic_load(&s->n_requests) != 1)
        return false;
    say(fd, HI);
    return true;
}

static void no_request_is_sent_twice(void **state)
{
    struct world *w = *state;

    serve_with(w, serve_once_then_close);
    ask_well(w, &(struct web_request){ .body = "{}", .n_body = 2 });
    /* The kept connection takes the request and dies: libcurl by itself would send it again. */
    ask_in_vain(w, &(struct web_request){ .body = "{}", .n_body = 2 }, WEB_SENT,
                "lost before the whole answer");
    assert_int_equal(atomic_load(&w->server.n_requests), 2);
}

static bool serve_and_leave(struct server *s, int fd)
{
    (void) s;
    say(fd, HI);
    return false;
}

static void a_kept_connection_that_was_closed_is_replaced(void **state)
{
    struct world *w = *state;

    serve_with(w, serve_and_leave);
    for (int i = 0; i < 3; i++) {
        ask_well(w, &(struct web_request){ .body = "{}", .n_body = 2 });
        (void) usleep(20000); /* its end has arrived when the next one begins */
    }
    assert_int_equal(atomic_load(&w->server.n_connections), 3);
}

static bool serve_half(struct server *s, int fd)
{
    (void) s;
    say(fd, PLAIN("200 OK", "100\r\n\r\nonly this"));
    return false;
}

static bool serve_noise(struct server *s, int fd)
{
    (void) s;
    say(fd, "what do you want?\r\n\r\n");
    return false;
}

static void answers_that_are_cut_or_none_are_failures(void **state)
{
    struct world *w = *state;

    serve_with(w, serve_half);
    ask_in_vain(w, &(struct web_request){ .body = "{}", .n_body = 2 }, WEB_SENT,
                "lost before the whole answer");
}

static void what_is_no_http_is_a_failure(void **state)
{
    struct world *w = *state;

    serve_with(w, serve_noise);
    ask_in_vain(w, &(struct web_request){ .body = "{}", .n_body = 2 }, WEB_SENT, "127.0.0.1");
}

static bool serve_too_much(struct server *s, int fd)
{
    (void) s;
    say(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 1000; i++)
        say(fd, "a\r\n0123456789\r\n");
    return false;
}

static bool serve_headers(struct server *s, int fd)
{
    (void) s;
    say(fd, "HTTP/1.1 200 OK\r\n");
    for (int i = 0; i < 5000; i++)
        say(fd, "X-Header: 0123456789012345\r\n");
    say(fd, "\r\n");
    return false;
}

static void an_answer_has_its_bound(void **state)
{
    struct world *w = *state;

    serve_with(w, serve_too_much);
    ask_in_vain(w, &(struct web_request){ .answer_max_bytes = 5000 }, WEB_SENT, "larger");
    assert_true(w->answer.body.n <= 5000);
}

static void headers_have_their_bound(void **state)
{
    struct world *w = *state;

    serve_with(w, serve_headers);
    ask_in_vain(w, &(struct web_request){ 0 }, WEB_SENT, "larger");
}

static bool serve_twice(struct server *s, int fd)
{
    (void) s;
    say(fd, HI HI);
    return true;
}

static void an_answer_too_many_is_not_the_next_ones(void **state)
{
    struct world *w = *state;

    serve_with(w, serve_twice);
    ask_well(w, &(struct web_request){ .body = "{}", .n_body = 2 });
    (void) usleep(20000);
    ask_well(w, &(struct web_request){ .body = "{}", .n_body = 2 });
    assert_int_equal(atomic_load(&w->server.n_connections), 2);
}

/* ---- streams, and several calls at once ---- */

struct stream {
    char got[256];
    size_t n, stop_at;
    bool is_over;
    dibs_status status;
    enum web_reach reach;
    int http_status;
    char msg[DIBS_ERR_MSG_MAX];
};

static bool on_chunk(void *ctx, const char *bytes, size_t n)
{
    struct stream *s = ctx;

    assert_true(s->n + n < sizeof s->got);
    memcpy(s->got + s->n, bytes, n);
    s->n += n;
    return s->stop_at == 0 || s->n < s->stop_at;
}

static void on_done(void *ctx, struct web_answer *answer)
{
    struct stream *s = ctx;

    assert_false(s->is_over);
    s->is_over = true;
    s->status = answer->status;
    s->reach = answer->reach;
    s->http_status = answer->http_status;
    (void) snprintf(s->msg, sizeof s->msg, "%s", answer->err.msg);
}

static struct web_call *begin_stream(struct world *w, struct stream *s, int64_t silence_ms)
{
    struct web_call *call = NULL;
    const struct web_request request = { .method = "POST",
                                         .url = w->url,
                                         .body = "{}",
                                         .n_body = 2,
                                         .deadline_ms = clock_monotonic_ms() + SHORT_MS,
                                         .silence_max_ms = silence_ms,
                                         .chunk = on_chunk,
                                         .done = on_done,
                                         .ctx = s };

    ASSERT_OK(web_start(w->web, &request, &call, &w->err), &w->err);
    return call;
}

#define TURN_UNTIL(w, condition)                                              \
    do {                                                                      \
        int64_t until_ = clock_monotonic_ms() + LONG_MS;                      \
        while (!(condition)) {                                                \
            struct pollfd at_ = { .fd = web_fd((w)->web), .events = POLLIN }; \
            assert_true(clock_monotonic_ms() < until_);                       \
            (void) poll(&at_, 1, LONG_MS);                                    \
            web_turn((w)->web);                                               \
        }                                                                     \
    } while (0)

static bool serve_stream(struct server *s, int fd)
{
    char byte = 0;

    (void) s;
    say(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 3; i++) {
        say(fd, "4\r\nwww\n\r\n");
        (void) usleep(1000u * SHORT_MS / 2);
    }
    (void) recv(fd, &byte, 1, 0);
    return false;
}

static void a_stream_outlives_its_deadline_and_ends_by_silence(void **state)
{
    struct world *w = *state;
    struct stream s = { 0 };

    serve_with(w, serve_stream);
    int64_t begun_ms = clock_monotonic_ms();
    (void) begin_stream(w, &s, SHORT_MS);
    TURN_UNTIL(w, s.n == 12);
    assert_true(clock_monotonic_ms() - begun_ms >= SHORT_MS - 1);
    assert_false(s.is_over);
    TURN_UNTIL(w, s.is_over);
    assert_string_equal(s.got, "www\nwww\nwww\n");
    assert_int_equal(s.status, DIBS_UNAVAILABLE);
    assert_int_equal(s.http_status, 200);
    assert_non_null(strstr(s.msg, "within"));
}

static void a_stream_that_does_not_begin_ends_by_its_deadline(void **state)
{
    struct world *w = *state;
    struct stream s = { 0 };

    serve_with(w, serve_nothing);
    int64_t begun_ms = clock_monotonic_ms();
    (void) begin_stream(w, &s, 0);
    TURN_UNTIL(w, s.is_over);
    assert_true(clock_monotonic_ms() - begun_ms < SHORT_MS + 200);
    assert_int_equal(s.status, DIBS_UNAVAILABLE);
    assert_int_equal(s.reach, WEB_SENT);
}

static void who_has_enough_of_a_stream_ends_it(void **state)
{
    struct world *w = *state;
    struct stream s = { .stop_at = 4 };
    struct stream other = { 0 };

    serve_with(w, serve_stream);
    (void) begin_stream(w, &s, 0);
    struct web_call *cancelled = begin_stream(w, &other, 0);
    TURN_UNTIL(w, s.is_over);
    assert_int_equal(s.n, 4);
    assert_int_not_equal(s.status, DIBS_OK);
    web_cancel(cancelled);
    web_cancel(NULL);
    assert_false(other.is_over);
}

static void a_stream_that_is_refused_gives_no_pieces(void **state)
{
    struct world *w = *state;
    struct stream s = { 0 };

    serve_with(w, serve_refusal);
    (void) begin_stream(w, &s, 0);
    TURN_UNTIL(w, s.is_over);
    assert_int_equal(s.n, 0);
    assert_int_equal(s.status, DIBS_OK);
    assert_int_equal(s.http_status, 503);
}

static void calls_beside_a_stream_are_answered(void **state)
{
    struct world *w = *state;
    struct stream s = { 0 };

    serve_with(w, serve_stream);
    (void) begin_stream(w, &s, 0);
    TURN_UNTIL(w, s.n > 0);
    w->server.serve = serve_hi;
    ask_well(w, &(struct web_request){ .body = "{}", .n_body = 2 });
    assert_true(body_is(w, "hi"));
    assert_false(s.is_over);
}

struct looped {
    loop_source source; /* first */
    struct web *web;
};

static void on_ready(loop_source *source, uint32_t events)
{
    (void) events;
    web_turn(((struct looped *) source)->web);
}

static void a_client_lives_in_a_loop(void **state)
{
    struct world *w = *state;
    struct stream s[3] = { 0 };
    struct loop *loop = NULL;

    serve_with(w, serve_hi);
    ASSERT_OK(loop_open(&loop, &w->err), &w->err);
    struct looped looped = { { web_fd(w->web), on_ready }, w->web };
    ASSERT_OK(loop_add(loop, &looped.source, EPOLLIN, &w->err), &w->err);
    for (int i = 0; i < 3; i++)
        (void) begin_stream(w, &s[i], 0);
    for (int i = 0; i < 1000 && !(s[0].is_over && s[1].is_over && s[2].is_over); i++)
        ASSERT_OK(loop_turn(loop, LONG_MS, &w->err), &w->err);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(s[i].status, DIBS_OK);
        assert_string_equal(s[i].got, "hi");
    }
    loop_remove(loop, &looped.source);
    loop_close(loop);
}

#define WEB_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WEB_TEST(connections_are_kept),
        WEB_TEST(large_bodies_arrive_whole),
        WEB_TEST(a_refusal_is_an_answer),
        WEB_TEST(redirects_and_proxies_are_not_followed),
        WEB_TEST(where_nobody_listens_nothing_was_sent),
        WEB_TEST(a_server_that_is_silent_ends_by_the_deadline),
        WEB_TEST(no_request_is_sent_twice),
        WEB_TEST(a_kept_connection_that_was_closed_is_replaced),
        WEB_TEST(answers_that_are_cut_or_none_are_failures),
        WEB_TEST(what_is_no_http_is_a_failure),
        WEB_TEST(an_answer_has_its_bound),
        WEB_TEST(headers_have_their_bound),
        WEB_TEST(an_answer_too_many_is_not_the_next_ones),
        WEB_TEST(a_stream_outlives_its_deadline_and_ends_by_silence),
        WEB_TEST(a_stream_that_does_not_begin_ends_by_its_deadline),
        WEB_TEST(who_has_enough_of_a_stream_ends_it),
        WEB_TEST(a_stream_that_is_refused_gives_no_pieces),
        WEB_TEST(calls_beside_a_stream_are_answered),
        WEB_TEST(a_client_lives_in_a_loop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
