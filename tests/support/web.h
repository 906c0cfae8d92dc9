/* SPDX-License-Identifier: MIT */
#ifndef DIBS_TESTS_WEB_H
#define DIBS_TESTS_WEB_H
/* Servers of a few lines, which can be wrong in every way, and a client of ours for each case. */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "support/t.h"
#include "web/web.h"

enum { REQUEST_MAX = 4 << 20, SERVERS_MAX = 4, SHORT_MS = 300, LONG_MS = 30000 };

/* Answers one request on `fd`; false closes the connection. */
struct server;
typedef bool (*serve_fn)(struct server *s, int fd);

struct server {
    int listening;
    uint16_t port;
    _Atomic(serve_fn) serve;
    pthread_t threads[SERVERS_MAX]; /* so many connections at once */
    atomic_int n_connections, n_closed, n_requests;
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
__attribute__((unused)) static char *read_request(int fd)
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

__attribute__((unused)) static void say(int fd, const char *text)
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

__attribute__((unused)) static void *serve_all(void *arg)
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
        atomic_fetch_add(&s->n_closed, 1);
    }
    return NULL;
}

__attribute__((unused)) static void serve_with(struct world *w, serve_fn serve)
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

__attribute__((unused)) static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);

    assert_non_null(w);
    w->server.listening = -1;
    ASSERT_OK(web_open(&(struct web_options){ 0 }, &w->web, &w->err), &w->err);
    *state = w;
    return 0;
}

__attribute__((unused)) static int teardown(void **state)
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

__attribute__((unused)) static dibs_status ask(struct world *w, const struct web_request *request)
{
    struct web_request r = *request;

    r.method = r.method ? r.method : "POST";
    r.url = r.url ? r.url : w->url;
    r.deadline_ms = r.deadline_ms ? r.deadline_ms : clock_monotonic_ms() + LONG_MS;
    web_answer_done(&w->answer);
    return web_ask(w->web, &r, &w->answer);
}

__attribute__((unused)) static void ask_well(struct world *w, const struct web_request *request)
{
    ASSERT_OK(ask(w, request), &w->answer.err);
    assert_int_equal(w->answer.reach, WEB_ANSWERED);
}

__attribute__((unused)) static void ask_in_vain(struct world *w, const struct web_request *request,
                                                enum web_reach reach, const char *text)
{
    dibs_status s = ask(w, request);

    if (s == DIBS_OK || w->answer.reach != reach || !strstr(w->answer.err.msg, text))
        fail_msg("%s, reach %d, %s (wanted: %d, %s)", dibs_status_text(s), w->answer.reach, w->answer.err.msg,
                 reach, text);
}

__attribute__((unused)) static bool body_is(const struct world *w, const char *text)
{
    return w->answer.body.n == strlen(text) && memcmp(w->answer.body.at, text, w->answer.body.n) == 0;
}

#define PLAIN(code, body) "HTTP/1.1 " code "\r\nContent-Length: " body
#define HI PLAIN("200 OK", "2\r\n\r\nhi")

__attribute__((unused)) static bool serve_hi(struct server *s, int fd)
{
    (void) s;
    say(fd, HI);
    return true;
}

__attribute__((unused)) static bool serve_refusal(struct server *s, int fd)
{
    (void) s;
    say(fd, PLAIN("503 No", "3\r\n\r\nbad"));
    return true;
}

__attribute__((unused)) static bool serve_nothing(struct server *s, int fd)
{
    char byte = 0;

    (void) s;
    (void) recv(fd, &byte, 1, 0); /* until the client has enough */
    return false;
}

#define WEB_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#endif
