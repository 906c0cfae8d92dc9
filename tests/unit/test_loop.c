/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <unistd.h>

#include "base/loop.h"
#include "support/t.h"

struct end {
    loop_source source;
    struct loop *loop;
    int n;
    struct end *removes; /* what its ready() takes out of the loop */
};

static void on_ready(loop_source *source, uint32_t events)
{
    struct end *self = (struct end *) source;

    assert_true(events & EPOLLIN);
    self->n++;
    if (self->removes)
        loop_remove(self->loop, &self->removes->source);
}

static void serves_what_is_ready_and_nothing_else(void **state)
{
    struct loop *loop = NULL;
    int a[2];
    int b[2];

    (void) state;
    assert_int_equal(pipe(a), 0);
    assert_int_equal(pipe(b), 0);
    assert_int_equal(loop_open(&loop, NULL), DIBS_OK);
    struct end one = { .source = { a[0], on_ready }, .loop = loop };
    struct end two = { .source = { b[0], on_ready }, .loop = loop };
    assert_int_equal(loop_add(loop, &one.source, EPOLLIN, NULL), DIBS_OK);
    assert_int_equal(loop_add(loop, &two.source, EPOLLIN, NULL), DIBS_OK);
    assert_int_equal(loop_turn(loop, 0, NULL), DIBS_OK);
    assert_int_equal(one.n + two.n, 0);
    assert_int_equal(write(a[1], "x", 1), 1);
    assert_int_equal(loop_turn(loop, -1, NULL), DIBS_OK);
    assert_int_equal(one.n, 1);
    assert_int_equal(two.n, 0);
    loop_change(loop, &one.source, 0);
    assert_int_equal(loop_turn(loop, 0, NULL), DIBS_OK);
    assert_int_equal(one.n, 1);
    loop_close(loop);
    for (int i = 0; i < 2; i++) {
        (void) close(a[i]);
        (void) close(b[i]);
    }
}

static void a_source_removed_in_a_turn_is_not_served_in_it(void **state)
{
    struct loop *loop = NULL;
    int a[2];
    int b[2];

    (void) state;
    assert_int_equal(pipe(a), 0);
    assert_int_equal(pipe(b), 0);
    assert_int_equal(loop_open(&loop, NULL), DIBS_OK);
    struct end one = { .source = { a[0], on_ready }, .loop = loop };
    struct end two = { .source = { b[0], on_ready }, .loop = loop, .removes = &one };
    one.removes = &two;
    assert_int_equal(loop_add(loop, &one.source, EPOLLIN, NULL), DIBS_OK);
    assert_int_equal(loop_add(loop, &two.source, EPOLLIN, NULL), DIBS_OK);
    assert_int_equal(write(a[1], "x", 1), 1);
    assert_int_equal(write(b[1], "x", 1), 1);
    assert_int_equal(loop_turn(loop, -1, NULL), DIBS_OK);
    assert_int_equal(one.n + two.n, 1);
    loop_close(loop);
    for (int i = 0; i < 2; i++) {
        (void) close(a[i]);
        (void) close(b[i]);
    }
}

static void a_descriptor_that_is_none_is_refused(void **state)
{
    struct loop *loop = NULL;
    struct end one = { .source = { -1, on_ready } };
    dibs_err err = { 0 };

    (void) state;
    assert_int_equal(loop_open(&loop, NULL), DIBS_OK);
    assert_int_equal(loop_add(loop, &one.source, EPOLLIN, &err), DIBS_UNAVAILABLE);
    loop_close(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(serves_what_is_ready_and_nothing_else),
        cmocka_unit_test(a_source_removed_in_a_turn_is_not_served_in_it),
        cmocka_unit_test(a_descriptor_that_is_none_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
