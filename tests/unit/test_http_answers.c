/* SPDX-License-Identifier: MIT */
/* Answers that come later, in pieces, or for nobody. */
#include "support/http.h"

#define HOST "Host: dibs\r\n"
#define GET(target) "GET " target " HTTP/1.1\r\n" HOST "\r\n"

enum { STREAM_MAX = 10000 };

static int setup(void **state)
{
    const struct http_limits limits = { .max_stream_bytes = STREAM_MAX };

    *state = w_open(&limits);
    return 0;
}

static int teardown(void **state)
{
    w_close(*state);
    return 0;
}

/* A client whose request waits with the handler, `turns` turns long. */
static struct client *waiting(struct world *w, unsigned turns)
{
    struct client *c = c_open(w);
    size_t n = w->n_held;

    c_send(w, c, GET("/later"));
    W_UNTIL(w, w->n_held == n + 1);
    for (unsigned i = 0; i < turns; i++)
        w_turn(w, 0);
    return c;
}

static struct http_request *last_held(struct world *w)
{
    return w->held[--w->n_held];
}

static void answers_may_come_in_another_order(void **state)
{
    struct world *w = *state;
    struct client *c[5] = { 0 };
    struct http_request *r[5] = { 0 };
    char text[20] = "";

    for (size_t i = 0; i < 5; i++) {
        c[i] = waiting(w, 0);
        r[i] = last_held(w);
    }
    for (size_t k = 0; k < 5; k++) {
        size_t i = k * 3 % 5;

        (void) snprintf(text, sizeof text, "answer %zu", i);
        w_answer(r[i], 200, text);
        c_expect(w, c[i], "", text);
    }
    for (size_t i = 0; i < 5; i++) {
        c_expect(w, c[i], GET("/x"), "GET /x []");
        c_close(c[i]);
    }
}

/* In its own turn a request is not suspended yet, afterwards it is: each is another way. */
static void a_request_is_abandoned_when_its_client_leaves(void **state)
{
    struct world *w = *state;

    for (unsigned turns = 0; turns < 4; turns++) {
        struct client *c = waiting(w, turns);

        http_set_user(w->held[0], (void *) (uintptr_t) "mine");
        c_close(c);
        W_UNTIL(w, w->n_abandoned == turns + 1);
        assert_string_equal(w->last_abandoned, "mine");
        assert_int_equal(w->n_held, 0);
        W_UNTIL(w, w->n_disconnected == turns + 1);
    }
    assert_int_equal(http_next_ms(w->server), -1);
}

static void an_answer_for_nobody_does_no_harm(void **state)
{
    struct world *w = *state;

    for (unsigned turns = 0; turns < 3; turns++) {
        struct client *c = waiting(w, turns);

        c_close(c); /* the server has not seen it yet */
        w_answer(last_held(w), 200, "too late");
        W_UNTIL(w, w->n_disconnected == turns + 1);
    }
    assert_int_equal(w->n_abandoned, 0);
}

/* ---- streams ---- */

static struct client *streaming(struct world *w, unsigned turns, struct http_request **out)
{
    struct client *c = waiting(w, turns);
    const struct http_field extra[] = { { "Cache-Control", "no-store" } };

    *out = last_held(w);
    w->held[w->n_held++] = *out; /* so that abandoned() finds it */
    assert_true(http_stream_begin(*out, 200, "text/event-stream", extra, 1));
    W_UNTIL(w, c_has(c, "\r\n\r\n"));
    assert_true(c_has(c, "Content-Type: text/event-stream\r\n") && c_has(c, "Cache-Control: no-store\r\n"));
    return c;
}

static void a_stream_delivers_what_is_written_when_it_is_written(void **state)
{
    struct world *w = *state;
    struct http_request *r = NULL;

    for (unsigned turns = 0; turns < 2; turns++) {
        struct client *c = streaming(w, turns, &r);
        char text[30] = "";

        for (int i = 0; i < 200; i++) {
            (void) snprintf(text, sizeof text, "data: %d\n\n", i);
            assert_true(http_stream_write(r, text, strlen(text)));
            if (i % 3 == 0)
                W_UNTIL(w, c_has(c, text));
        }
        assert_true(http_stream_write(r, "", 0));
        assert_true(http_stream_write(r, "last", 4));
        w->n_held = 0;
        http_stream_end(r);
        W_UNTIL(w, c_has(c, "last\r\n0\r\n\r\n"));
        c_expect(w, c, GET("/x"), "GET /x []");
        c_close(c);
    }
    assert_int_equal(w->n_abandoned, 0);
}

static void a_quiet_stream_keeps_nobody_busy(void **state)
{
    struct world *w = *state;
    struct http_request *r = NULL;
    struct client *c = streaming(w, 0, &r);

    for (int i = 0; i < 5; i++)
        w_turn(w, 0);
    assert_int_equal(http_next_ms(w->server), -1);
    w->n_held = 0;
    http_stream_end(r);
    W_UNTIL(w, c_has(c, "0\r\n\r\n"));
    c_close(c);
}

static void the_handler_is_notified_when_a_reader_leaves(void **state)
{
    struct world *w = *state;
    struct http_request *r = NULL;

    for (unsigned turns = 0; turns < 3; turns++) {
        struct client *c = streaming(w, turns, &r);

        for (unsigned i = 0; i < turns; i++)
            w_turn(w, 0);
        c_close(c);
        W_UNTIL(w, w->n_abandoned == turns + 1);
        W_UNTIL(w, w->n_disconnected == turns + 1);
    }
}

static void a_reader_that_does_not_read_is_disconnected(void **state)
{
    struct world *w = *state;
    struct http_request *r = NULL;
    struct client *c = streaming(w, 0, &r);
    struct client *other = c_open(w);
    char piece[1000] = "";
    int n = 0;

    memset(piece, 'x', sizeof piece);
    while (n < 5000 && http_stream_write(r, piece, sizeof piece)) { /* the kernel takes some, too */
        w_turn(w, 0);
        n++;
    }
    assert_true(n >= STREAM_MAX / (int) sizeof piece && n < 5000);
    w->n_held = 0;
    c_expect(w, other, GET("/x"), "GET /x []");
    W_UNTIL(w, w->n_disconnected == 1);
    assert_int_equal(w->n_abandoned, 0);
    c_close(c);
    c_close(other);
}

static void more_than_a_stream_may_hold_is_refused_at_once(void **state)
{
    struct world *w = *state;
    struct http_request *r = NULL;
    struct client *c = streaming(w, 3, &r);
    char *large = calloc(1, STREAM_MAX + 1);

    assert_non_null(large);
    assert_true(http_stream_write(r, large, STREAM_MAX));
    W_UNTIL(w, (c_read(c), c->n > STREAM_MAX));
    w->n_held = 0;
    assert_false(http_stream_write(r, large, STREAM_MAX + 1));
    W_UNTIL(w, c_is_over(c));
    free(large);
    c_close(c);
}

static void an_old_client_gets_a_stream_to_its_end(void **state)
{
    struct world *w = *state;
    struct client *c = c_open(w);

    c_send(w, c, "GET /later HTTP/1.0\r\n\r\n");
    W_UNTIL(w, w->n_held == 1);
    struct http_request *r = last_held(w);

    assert_true(http_stream_begin(r, 200, NULL, NULL, 0));
    assert_true(http_stream_write(r, "one", 3));
    W_UNTIL(w, c_has(c, "\r\n\r\none"));
    assert_true(http_stream_write(r, "two", 3));
    http_stream_end(r);
    W_UNTIL(w, c_is_over(c));
    assert_true(c_has(c, "\r\n\r\nonetwo"));
    c_close(c);
}

static void a_stream_of_which_only_the_head_is_wanted_is_abandoned(void **state)
{
    struct world *w = *state;
    struct client *c = c_open(w);

    c_send(w, c, "HEAD /later HTTP/1.1\r\n" HOST "\r\n");
    W_UNTIL(w, w->n_held == 1);
    assert_true(http_stream_begin(w->held[0], 200, "text/event-stream", NULL, 0));
    W_UNTIL(w, w->n_abandoned == 1);
    c_expect(w, c, GET("/x"), "GET /x []");
    c_close(c);
}

/* ---- the end ---- */

static void stopping_lets_what_is_under_way_finish(void **state)
{
    struct world *w = *state;
    struct client *idle = c_open(w);

    c_expect(w, idle, GET("/x"), "GET /x []");
    struct client *busy = waiting(w, 2);

    W_UNTIL(w, w->n_connected == 2);
    http_stop_accepting(w->server);
    W_UNTIL(w, c_is_over(idle));
    W_UNTIL(w, http_connections(w->server) == 1);
    w_answer(last_held(w), 200, "the last");
    W_UNTIL(w, c_is_over(busy));
    assert_true(c_has(busy, "the last") && c_has(busy, "Connection: close\r\n"));
    W_UNTIL(w, http_connections(w->server) == 0);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *) &w->address, w->address_size), -1);
    (void) close(fd);
    c_close(idle);
    c_close(busy);
}

static void a_client_that_came_before_the_end_is_answered(void **state)
{
    struct world *w = *state;
    struct client *fresh = c_open(w);
    struct client *silent = c_open(w);
    struct client *again = c_open(w);

    c_expect(w, again, GET("/x"), "GET /x []");
    W_UNTIL(w, w->n_connected == 3);
    c_send(w, again, GET("/y")); /* it lies in the socket */
    http_stop_accepting(w->server);
    c_send(w, fresh, GET("/z"));
    W_UNTIL(w, c_is_over(fresh) && c_is_over(again));
    assert_true(c_has(fresh, "GET /z []") && c_has(fresh, "Connection: close\r\n"));
    assert_true(c_has(again, "GET /y []") && c_has(again, "Connection: close\r\n"));
    W_UNTIL(w, c_is_over(silent)); /* no wait is endless */
    W_UNTIL(w, http_connections(w->server) == 0);
    c_close(fresh);
    c_close(silent);
    c_close(again);
}

static void a_server_may_be_closed_at_any_moment(void **state)
{
    struct world *w = *state;
    struct http_request *r = NULL;
    struct client *c[8] = { 0 };

    c[0] = streaming(w, 0, &r);
    c[1] = waiting(w, 2);
    c[2] = waiting(w, 0);
    c[3] = c_open(w);
    c_send(w, c[3], "POST /x HTTP/1.1\r\n" HOST "Content-Length: 10\r\n\r\nhalf");
    c[4] = c_open(w);
    c_send(w, c[4], "GET /");
    c[5] = c_open(w);
    c[6] = waiting(w, 1);
    w_answer(last_held(w), 200, "never");
    W_UNTIL(w, w->n_connected == 7);
    c[7] = c_open(w); /* never accepted */
    http_close(w->server);
    w->server = NULL;
    assert_int_equal(w->n_abandoned, 3);
    assert_int_equal(w->n_disconnected, 7);
    for (size_t i = 0; i < 8; i++) {
        assert_true(c_is_over(c[i]));
        c_close(c[i]);
    }
}

#define HTTP_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HTTP_TEST(answers_may_come_in_another_order),
        HTTP_TEST(a_request_is_abandoned_when_its_client_leaves),
        HTTP_TEST(an_answer_for_nobody_does_no_harm),
        HTTP_TEST(a_stream_delivers_what_is_written_when_it_is_written),
        HTTP_TEST(a_quiet_stream_keeps_nobody_busy),
        HTTP_TEST(the_handler_is_notified_when_a_reader_leaves),
        HTTP_TEST(a_reader_that_does_not_read_is_disconnected),
        HTTP_TEST(more_than_a_stream_may_hold_is_refused_at_once),
        HTTP_TEST(an_old_client_gets_a_stream_to_its_end),
        HTTP_TEST(a_stream_of_which_only_the_head_is_wanted_is_abandoned),
        HTTP_TEST(stopping_lets_what_is_under_way_finish),
        HTTP_TEST(a_client_that_came_before_the_end_is_answered),
        HTTP_TEST(a_server_may_be_closed_at_any_moment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
