/* SPDX-License-Identifier: MIT */
#include "support/web.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "http/client.h"

char *read_request(int fd)
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

void say(int fd, const char *text)
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
        atomic_fetch_add(&s->n_closed, 1);
    }
    return NULL;
}

void serve_with(struct world *w, serve_fn serve)
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

int web_setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);

    assert_non_null(w);
    w->server.listening = -1;
    ASSERT_OK(web_open(&(struct web_options){ 0 }, &w->web, &w->err), &w->err);
    *state = w;
    return 0;
}

int web_teardown(void **state)
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

dibs_status ask(struct world *w, const struct web_request *request)
{
    struct web_request r = *request;

    r.method = r.method ? r.method : "POST";
    r.url = r.url ? r.url : w->url;
    r.deadline_ms = r.deadline_ms ? r.deadline_ms : clock_monotonic_ms() + LONG_MS;
    web_answer_done(&w->answer);
    return web_ask(w->web, &r, &w->answer);
}

void ask_well(struct world *w, const struct web_request *request)
{
    ASSERT_OK(ask(w, request), &w->answer.err);
    assert_int_equal(w->answer.reach, WEB_ANSWERED);
}

void ask_in_vain(struct world *w, const struct web_request *request, enum web_reach reach, const char *text)
{
    dibs_status s = ask(w, request);

    if (s == DIBS_OK || w->answer.reach != reach || !strstr(w->answer.err.msg, text))
        fail_msg("%s, reach %d, %s (wanted: %d, %s)", dibs_status_text(s), w->answer.reach, w->answer.err.msg,
                 reach, text);
}

bool body_is(const struct world *w, const char *text)
{
    return w->answer.body.n == strlen(text) && memcmp(w->answer.body.at, text, w->answer.body.n) == 0;
}

bool serve_hi(struct server *s, int fd)
{
    (void) s;
    say(fd, HI);
    return true;
}

bool serve_refusal(struct server *s, int fd)
{
    (void) s;
    say(fd, PLAIN("503 No", "3\r\n\r\nbad"));
    return true;
}

bool serve_nothing(struct server *s, int fd)
{
    char byte = 0;

    (void) s;
    (void) recv(fd, &byte, 1, 0); /* until the client has enough */
    return false;
}
