/* SPDX-License-Identifier: MIT */
/* Requests of clients and their answers. */
#include <errno.h>
#include <netinet/in.h>

#include "support/http.h"

#define HOST "Host: dibs\r\n"
#define GET(target) "GET " target " HTTP/1.1\r\n" HOST "\r\n"

static int setup(void **state)
{
    const struct http_limits limits = { .max_body_bytes = 1000 };

    *state = w_open(&limits);
    return 0;
}

static int teardown(void **state)
{
    w_close(*state);
    return 0;
}

static const struct {
    const char *request, *answer; /* `answer` is in it; a client of its own for each */
} cases[] = {
    { GET("/x?a=1&b=%202"), "HTTP/1.1 200 OK\r\n" },
    { GET("/x?a=1&b=%202"), "\r\n\r\nGET /x a=1 b= 2 []" },
    { GET("/now"), "\r\n\r\nGET /now []" },
    { GET("http://somebody/x"), "GET /x []" },
    { "POST /x HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello", "POST /x [hello]" },
    { "POST /x HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n", "POST /x []" },
    { "POST /x HTTP/1.1\r\n" HOST "\r\n", "POST /x []" },
    { "PUT /x HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
      "PUT /x [hello]" },
    { "PUT /x HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\nTrailer: 1\r\n\r\n", "PUT /x []" },
    { "BREW /pot HTTP/1.1\r\n" HOST "\r\n", "BREW /pot []" },
    { "\r\n" GET("/x"), "GET /x []" },
    /* refused, with a problem document of ours where libmicrohttpd lets us */
    { GET("/%"), "HTTP/1.1 400 Bad Request\r\n" },
    { GET("/%"), "\"detail\":\"broken percent escape in the path\",\"code\":2}" },
    { GET("/%"), "Content-Type: application/problem+json\r\n" },
    { GET("/a\tb"), "HTTP/1.1 400 " },
    { GET("/a\x01"), "HTTP/1.1 400 " },
    { GET("*"), "HTTP/1.1 400 " },
    { "POST /x HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip\r\n\r\n", "HTTP/1.1 501 Not Implemented\r\n" },
    { "POST /x HTTP/1.1\r\n" HOST "Content-Length: 1001\r\n\r\n", "HTTP/1.1 413 " },
    { "POST /x HTTP/1.1\r\n" HOST "Content-Length: 1073741824\r\n\r\n", "HTTP/1.1 413 " },
    { "POST /x HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999999\r\n\r\n", "HTTP/1.1 413 " },
    { "POST /x HTTP/1.1\r\n" HOST "Content-Length: -1\r\n\r\n", "HTTP/1.1 400 " },
    { "POST /x HTTP/1.1\r\n" HOST "Content-Length: many\r\n\r\n", "HTTP/1.1 400 " },
    { "POST /x HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nno\r\n", "HTTP/1.1 400 " },
    { "GET /x HTTP/1.1\r\n\r\n", "HTTP/1.1 400 " }, /* no Host */
    { "GET /x HTTP/1.1\r\nnonsense\r\n\r\n", "HTTP/1.1 400 " },
    { "GET /x HTTP/3.0\r\n" HOST "\r\n", "HTTP/1.1 505 " },
};

static void each_request_gets_its_answer(void **state)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct client *c = c_open(*state);

        c_expect(*state, c, cases[i].request, cases[i].answer);
        c_close(c);
    }
}

static void each_request_may_come_byte_by_byte(void **state)
{
    struct world *w = *state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct client *c = c_open(w);

        for (const char *p = cases[i].request; *p; p++) {
            c_send_bytes(w, c, p, 1);
            w_turn(w, 0);
        }
        c_expect(w, c, "", cases[i].answer);
        c_close(c);
    }
}

static void a_nul_in_the_target_is_refused(void **state)
{
    static const char request[] = "GET /a\0b HTTP/1.1\r\n" HOST "\r\n";
    struct client *c = c_open(*state);

    c_send_bytes(*state, c, request, sizeof request - 1);
    c_expect(*state, c, "", "HTTP/1.1 400 ");
    c_close(c);
}

static void a_connection_serves_one_request_after_the_other(void **state)
{
    struct world *w = *state;
    struct client *c = c_open(w);
    char request[100] = "";
    char answer[100] = "";

    for (int i = 0; i < 100; i++) {
        (void) snprintf(request, sizeof request, "GET /%s%d HTTP/1.1\r\n" HOST "\r\n", i % 2 ? "now?" : "",
                        i);
        (void) snprintf(answer, sizeof answer, i % 2 ? "GET /now %d= []" : "GET /%d []", i);
        c_expect(w, c, request, answer);
    }
    assert_int_equal(w->n_connected, 1);
    c_close(c);
}

static void pipelined_requests_are_answered_in_their_order(void **state)
{
    struct world *w = *state;
    struct client *c = c_open(w);
    char answers[8000] = "";
    size_t n = 0;

    for (int i = 0; i < 50; i++)
        c_send(w, c, i % 3 == 0 ? GET("/now") : "POST /x HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nab");
    W_UNTIL(w, w->n_requested == 50);
    c_send(w, c, GET("/last"));
    W_UNTIL(w, c_has(c, "GET /last []"));
    for (const char *p = c->got; (p = strstr(p, "\r\n\r\n")); p += 4) {
        (void) snprintf(answers + n, sizeof answers - n, "%.3s", p + 4);
        n += 3;
    }
    for (int i = 0; i < 50; i++)
        assert_memory_equal(answers + (size_t) 3 * (size_t) i, i % 3 == 0 ? "GET" : "POS", 3);
    c_close(c);
}

static void garbage_behind_a_request_harms_only_its_sender(void **state)
{
    struct world *w = *state;
    struct client *c = c_open(w);
    struct client *other = c_open(w);

    c_expect(w, c, GET("/x") "\x01\x02garbage\r\n\r\n", "GET /x []");
    W_UNTIL(w, c_is_over(c));
    c_expect(w, other, GET("/y"), "GET /y []");
    c_close(c);
    c_close(other);
}

static void a_head_request_gets_no_body(void **state)
{
    struct world *w = *state;
    struct client *c = c_open(w);

    c_send(w, c, "HEAD /x HTTP/1.1\r\n" HOST "\r\n" GET("/y"));
    W_UNTIL(w, c_has(c, "GET /y []"));
    assert_true(c_has(c, "Content-Length: 9\r\n"));
    assert_false(c_has(c, "GET /x []"));
    c_close(c);
}

static void a_client_that_expects_100_continue_gets_it(void **state)
{
    struct world *w = *state;
    struct client *c = c_open(w);

    c_expect(w, c, "POST /x HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n",
             "HTTP/1.1 100 Continue\r\n");
    c_expect(w, c, "hello", "POST /x [hello]");
    c_expect(w, c, "POST /x HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 5000\r\n\r\n",
             "HTTP/1.1 413 ");
    c_close(c);
}

static void a_connection_ends_where_the_client_says_so(void **state)
{
    static const char *const last[] = {
        "GET /x HTTP/1.0\r\n\r\n",
        "GET /x HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n",
    };
    struct world *w = *state;

    for (size_t i = 0; i < sizeof last / sizeof last[0]; i++) {
        struct client *c = c_open(w);

        c_expect(w, c, last[i], "GET /x []");
        W_UNTIL(w, c_is_over(c));
        c_close(c);
    }
    struct client *c = c_open(w);
    c_expect(w, c, "GET /x HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "GET /x []");
    c_expect(w, c, "GET /y HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "GET /y []");
    c_close(c);
}

/* A client that has sent everything still reads. */
static void a_client_that_has_finished_sending_gets_its_answer(void **state)
{
    struct world *w = *state;
    struct client *c = c_open(w);

    c_send(w, c, GET("/later"));
    assert_int_equal(shutdown(c->fd, SHUT_WR), 0);
    W_UNTIL(w, w->n_held == 1);
    for (int i = 0; i < 5; i++)
        w_turn(w, 1);
    assert_int_equal(w->n_abandoned, 0);
    w_answer(w->held[--w->n_held], 200, "at last");
    c_expect(w, c, "", "at last");
    c_close(c);
}

static void header_fields_are_found_whatever_their_case(void **state)
{
    struct world *w = *state;
    struct client *c = c_open(w);

    c_send(w, c, "GET /later?a=1&b=2&a=3 HTTP/1.1\r\n" HOST "iF-nOnE-mAtCh: \"7\"\r\n\r\n");
    W_UNTIL(w, w->n_held == 1);
    struct http_request *r = w->held[--w->n_held];
    const char *key = "untouched";
    const char *value = "untouched";

    assert_string_equal(http_header(r, "If-None-Match"), "\"7\"");
    assert_null(http_header(r, "If-Match"));
    assert_string_equal(http_query(r, "a", 0), "1");
    assert_string_equal(http_query(r, "a", 1), "3");
    assert_null(http_query(r, "a", 2));
    assert_null(http_query(r, "c", 0));
    assert_true(http_query_at(r, 1, &key, &value));
    assert_string_equal(key, "b");
    assert_false(http_query_at(r, 3, &key, &value));
    assert_string_equal(value, "2");
    const struct http_field extra[] = { { "ETag", "\"8\"" }, { "Retry-After", "1" } };
    http_answer(r, 304, NULL, &(struct bytes){ 0 }, extra, 2);
    W_UNTIL(w, c_has(c, "HTTP/1.1 304 Not Modified\r\n"));
    assert_true(c_has(c, "ETag: \"8\"\r\n") && c_has(c, "Retry-After: 1\r\n"));
    assert_false(c_has(c, "Content-Type"));
    c_close(c);
}

#define HTTP_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HTTP_TEST(each_request_gets_its_answer),
        HTTP_TEST(each_request_may_come_byte_by_byte),
        HTTP_TEST(a_nul_in_the_target_is_refused),
        HTTP_TEST(a_connection_serves_one_request_after_the_other),
        HTTP_TEST(pipelined_requests_are_answered_in_their_order),
        HTTP_TEST(garbage_behind_a_request_harms_only_its_sender),
        HTTP_TEST(a_head_request_gets_no_body),
        HTTP_TEST(a_client_that_expects_100_continue_gets_it),
        HTTP_TEST(a_connection_ends_where_the_client_says_so),
        HTTP_TEST(a_client_that_has_finished_sending_gets_its_answer),
        HTTP_TEST(header_fields_are_found_whatever_their_case),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
