/* SPDX-License-Identifier: MIT */
/* A ledger whose SQLite runs out of memory: from the n-th allocation of a call on, for every n. Whatever
 * fails, nothing is claimed, nothing stays locked, and the next call finds all as it was (INV-4). */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "support/ledger.h"

static sqlite3_mem_methods real;
static long left = -1; /* allocations until they fail; negative: they never do */

static bool is_out(void)
{
    if (left > 0)
        left--;
    return left == 0;
}

static void *take(int n)
{
    return is_out() ? NULL : real.xMalloc(n);
}

static void *resize(void *old, int n)
{
    return is_out() ? NULL : real.xRealloc(old, n);
}

/* Otherwise another process would wait for the lock. */
static void others_can_write(struct t_ledger *t, struct ledger *other)
{
    struct ledger *mine = t->ledger;
    const struct ledger_want want = t_want("other", "127.0.0.1");

    t->ledger = other;
    dibs_claim claim = t_must(t, &want, 21001);
    assert_int_equal(t_end(t, &claim, LEDGER_END_RELEASE), 1);
    t->ledger = mine;
}

static void without_memory_a_claim_fails_whole_and_locks_nobody_out(void **state)
{
    enum { ALLOCATIONS_MAX = 20000 };
    struct t_ledger *t = *state;
    const struct ledger_options options = { .timeout_ms = 300 };
    const struct ledger_want want = t_want("web", "127.0.0.1");
    struct ledger *other = NULL;
    dibs_status s = DIBS_UNAVAILABLE;
    long n = 0;

    ASSERT_OK(ledger_open(t->uri, &options, &other, &t->err), &t->err);
    while (s != DIBS_OK && n++ < ALLOCATIONS_MAX) {
        dibs_claim out = { 0 };

        ledger_close(t->ledger); /* cold: no statement is prepared */
        t->ledger = NULL;
        ASSERT_OK(ledger_open(t->uri, &options, &t->ledger, &t->err), &t->err);
        left = n;
        s = t_claim(t, &want, 21000, &out);
        left = -1;
        others_can_write(t, other);
        if (s != DIBS_OK)
            assert_int_equal(t_list(t, (struct ledger_filter){ 0 }).n, 0);
    }
    ASSERT_OK(s, &t->err);
    assert_true(n > 10); /* it did fail before */
    ledger_close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_memory_a_claim_fails_whole_and_locks_nobody_out, t_open,
                                        t_close),
    };

    t_scheme = "sqlite";
    if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real) != SQLITE_OK)
        return 1;
    sqlite3_mem_methods ours = real;
    ours.xMalloc = take;
    ours.xRealloc = resize;
    if (sqlite3_config(SQLITE_CONFIG_MALLOC, &ours) != SQLITE_OK)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
