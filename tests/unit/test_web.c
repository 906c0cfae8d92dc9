/* SPDX-License-Identifier: MIT */
/* The HTTP client: one request, one answer. */
#include "support/web.h"

/* ---- answers ---- */

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

static void a_server_that_is_silent_ends_by_the_deadline(void **state)
{
    struct world *w = *state;

    serve_with(w, serve_nothing);
    int64_t begun_ms = clock_monotonic_ms();
    ask_in_vain(w, &(struct web_request){ .body = "{}", .n_body = 2, .deadline_ms = begun_ms + SHORT_MS },
                WEB_SENT, "no whole answer within");
    int64_t took_ms = clock_monotonic_ms() - begun_ms;
    assert_true(took_ms >= SHORT_MS - 1 && took_ms < SHORT_MS + STALL_MS);
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
        UNTIL(atomic_load(&w->server.n_closed) == i + 1); /* before the next one begins */
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

static void an_answer_that_is_no_http_is_a_failure(void **state)
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
    ask_well(w, &(struct web_request){ .body = "{}", .n_body = 2 });
    assert_int_equal(atomic_load(&w->server.n_connections), 2);
}

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
        WEB_TEST(an_answer_that_is_no_http_is_a_failure),
        WEB_TEST(an_answer_has_its_bound),
        WEB_TEST(headers_have_their_bound),
        WEB_TEST(an_answer_too_many_is_not_the_next_ones),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
