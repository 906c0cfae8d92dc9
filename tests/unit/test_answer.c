/* SPDX-License-Identifier: MIT */
/* HTTP answers as they may come: whole, in drops, and wrong. */
#include <stdlib.h>
#include <string.h>

#include "dibs/limits.h"
#include "lib/answer.h"
#include "support/t.h"

static void an_answer_is_the_same_whole_and_in_drops(void **state)
{
    static const struct {
        const char *text;
        int status;
        const char *body;
        bool is_closing;
    } rows[] = {
        { "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", 200, "{}", false },
        { "HTTP/1.1 201 \r\ncontent-length:2\r\nCONNECTION:  close \r\n\r\n[]", 201, "[]", true },
        { "HTTP/1.0 200 OK\nContent-Length: 0\n\n", 200, "", true },
        { "HTTP/1.1 204\r\n\r\n", 204, "", false },
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (size_t step = 1; step <= strlen(rows[i].text); step++) {
            struct answer a = { 0 };

            for (size_t at = 0; at < strlen(rows[i].text); at += step) {
                size_t left = strlen(rows[i].text) - at;

                assert_null(answer_take(&a, rows[i].text + at, left < step ? left : step));
            }
            assert_int_equal(a.state, ANSWER_DONE);
            assert_int_equal(a.status, rows[i].status);
            assert_int_equal(a.is_closing, rows[i].is_closing);
            assert_int_equal(a.body.n, strlen(rows[i].body));
            assert_true(a.body.n == 0 || memcmp(a.body.at, rows[i].body, a.body.n) == 0);
            answer_done(&a);
        }
    }
}

static void how_long_to_wait_is_read(void **state)
{
    static const char text[] = "HTTP/1.1 429 Slow\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n";
    struct answer a = { 0 };

    (void) state;
    assert_null(answer_take(&a, text, sizeof text - 1));
    assert_int_equal(a.retry_after_s, 3);
    answer_done(&a);
}

static void a_malformed_answer_is_refused(void **state)
{
    static const char *const rows[] = {
        "SSH-2.0-OpenSSH_9.2\r\n",
        "\r\n",
        "HTTP/2 200\r\n",
        "HTTP/1.1 99 OK\r\n",
        "HTTP/1.1 600 OK\r\n",
        "HTTP/1.1 2000\r\n",
        "HTTP/1.1 2x0 OK\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n",
        "HTTP/1.1 200 OK\r\n: x\r\n",
        "HTTP/1.1 200 OK\r\n\r\n", /* no length */
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: \r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 67108865\r\n\r\n", /* above DIBS_INPUT_MAX_BYTES */
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n",
        "HTTP/1.1 100 Continue\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct answer a = { 0 };

        if (!answer_take(&a, rows[i], strlen(rows[i])))
            fail_msg("taken: %s", rows[i]);
        answer_done(&a);
    }
}

static void a_head_has_a_bound_however_it_grows(void **state)
{
    static const char *const lines[] = { "X: y\r\n", "x" };
    static const char status[] = "HTTP/1.1 200 OK\r\n";

    (void) state;
    for (size_t i = 0; i < 2; i++) {
        struct answer a = { 0 };
        size_t taken = 0;

        assert_null(answer_take(&a, status, sizeof status - 1));
        while (taken < 1 << 20 && !answer_take(&a, lines[i], strlen(lines[i])))
            taken += strlen(lines[i]);
        assert_true(taken <= ANSWER_HEAD_MAX);
        answer_done(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_is_the_same_whole_and_in_drops),
        cmocka_unit_test(how_long_to_wait_is_read),
        cmocka_unit_test(a_malformed_answer_is_refused),
        cmocka_unit_test(a_head_has_a_bound_however_it_grows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
