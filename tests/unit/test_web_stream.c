/* SPDX-License-Identifier: MIT */
/* The HTTP client: answers that come in pieces, and several at once. */
#include <poll.h>

#include "base/loop.h"
#include "support/web.h"

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
    assert_true(clock_monotonic_ms() - begun_ms < SHORT_MS + STALL_MS);
    assert_int_equal(s.status, DIBS_UNAVAILABLE);
    assert_int_equal(s.reach, WEB_SENT);
}

static void a_reader_may_end_a_stream(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        WEB_TEST(a_stream_outlives_its_deadline_and_ends_by_silence),
        WEB_TEST(a_stream_that_does_not_begin_ends_by_its_deadline),
        WEB_TEST(a_reader_may_end_a_stream),
        WEB_TEST(a_stream_that_is_refused_gives_no_pieces),
        WEB_TEST(calls_beside_a_stream_are_answered),
        WEB_TEST(a_client_lives_in_a_loop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
