/* SPDX-License-Identifier: MIT */
#include "daemon/quota.h"

#include "support/t.h"

static struct quota *quota(uint32_t claims, uint32_t requests_per_s)
{
    struct quota *q = NULL;

    assert_int_equal(quota_open(&(struct quota_options){ claims, requests_per_s }, &q, NULL), DIBS_OK);
    return q;
}

static void claims_are_counted_for_each_user(void **state)
{
    struct quota *q = quota(10, 0);
    dibs_err err = { 0 };

    (void) state;
    ASSERT_OK(quota_take(q, "uid:1", 9, &err), &err);
    ASSERT_OK(quota_take(q, "uid:1", 1, &err), &err);
    assert_int_equal(quota_take(q, "uid:1", 1, &err), DIBS_EXHAUSTED);
    assert_string_equal(err.msg, "uid:1 has 10 claims here, and may have 10: release some first");
    assert_int_equal(quota_count(q, "uid:1"), 10);
    ASSERT_OK(quota_take(q, "uid:11", 10, &err), &err); /* somebody else */
    assert_int_equal(quota_take(q, "uid:2", 11, &err), DIBS_EXHAUSTED);
    assert_int_equal(quota_take(q, "uid:2", UINT32_MAX, &err), DIBS_EXHAUSTED);
    assert_int_equal(quota_count(q, "uid:2"), 0);
    quota_give(q, "uid:1", 3);
    ASSERT_OK(quota_take(q, "uid:1", 3, &err), &err);
    assert_int_equal(quota_take(q, "uid:1", 1, &err), DIBS_EXHAUSTED);
    quota_close(q);
}

static void a_pid_namespace_gives_no_quota_of_its_own(void **state)
{
    struct quota *q = quota(10, 0);
    dibs_err err = { 0 };

    (void) state;
    ASSERT_OK(quota_take(q, "uid:1@4026532000.5", 4, &err), &err);
    ASSERT_OK(quota_take(q, "uid:1@unknown", 4, &err), &err);
    ASSERT_OK(quota_take(q, "uid:1", 2, &err), &err);
    assert_int_equal(quota_take(q, "uid:1@4026532001.6", 1, &err), DIBS_EXHAUSTED);
    assert_int_equal(quota_users(q), 1);
    quota_give(q, "uid:1@unknown", 1);
    assert_int_equal(quota_count(q, "uid:1"), 9);
    ASSERT_OK(quota_take(q, "uid:1@4026532001.6", 1, &err), &err);
    quota_close(q);
}

static void claims_that_exist_count_even_beyond_the_limit(void **state)
{
    struct quota *q = quota(10, 0);
    dibs_err err = { 0 };

    (void) state;
    ASSERT_OK(quota_note(q, "uid:1", 12, &err), &err);
    ASSERT_OK(quota_note(q, "uid:2", 0, &err), &err);
    assert_int_equal(quota_users(q), 1);
    assert_int_equal(quota_take(q, "uid:1", 1, &err), DIBS_EXHAUSTED);
    quota_give(q, "uid:1", 2);
    assert_int_equal(quota_take(q, "uid:1", 1, &err), DIBS_EXHAUSTED);
    quota_give(q, "uid:1", 1);
    ASSERT_OK(quota_take(q, "uid:1", 1, &err), &err);
    quota_close(q);
    quota_close(NULL);
}

static void who_has_no_claim_takes_no_room(void **state)
{
    struct quota *q = quota(0, 0);
    char principal[32];

    (void) state;
    for (int i = 0; i < 10000; i++) {
        (void) snprintf(principal, sizeof principal, "uid:%d", i);
        assert_int_equal(quota_take(q, principal, 1, NULL), DIBS_OK);
        if (i % 100 != 0)
            quota_give(q, principal, 1);
    }
    assert_int_equal(quota_users(q), 100);
    quota_give(q, "uid:100", 5); /* more than there are */
    quota_give(q, "uid:100", 1);
    assert_int_equal(quota_users(q), 99);
    assert_int_equal(quota_count(q, "uid:100"), 0);
    quota_close(q);
}

static void the_defaults_are_those_that_are_named(void **state)
{
    struct quota *q = quota(0, 0);

    (void) state;
    assert_int_equal(quota_take(q, "uid:1", QUOTA_CLAIMS, NULL), DIBS_OK);
    assert_int_equal(quota_take(q, "uid:1", 1, NULL), DIBS_EXHAUSTED);
    for (int i = 0; i < QUOTA_REQUESTS_PER_S; i++)
        assert_int_equal(quota_request(q, 1, 0), 0);
    assert_int_equal(quota_request(q, 1, 0), 1);
    quota_close(q);
}

static void a_user_gets_his_rate_and_no_more(void **state)
{
    struct quota *q = quota(0, 20000);
    int64_t now_ms = 5000;
    int n = 0;

    (void) state;
    for (int i = 0; i < 20000; i++)
        assert_int_equal(quota_request(q, 1000, now_ms), 0); /* all at once */
    /* A user in a loop, for two seconds of a clock that moves with every try: the rate, to the last request.
     */
    for (int i = 1; i <= 2000; i++) {
        now_ms++;
        for (int k = 0; k < 30; k++)
            n += quota_request(q, 1000, now_ms) == 0;
    }
    assert_int_equal(n, 40000);
    assert_int_equal(quota_request(q, 1001, now_ms), 0); /* others do not notice */
    quota_close(q);
}

static void who_has_to_wait_is_told_how_long(void **state)
{
    struct quota *q = quota(0, 2);

    (void) state;
    assert_int_equal(quota_request(q, 1, 100), 0);
    assert_int_equal(quota_request(q, 1, 100), 0);
    assert_int_equal(quota_request(q, 1, 100), 500);
    assert_int_equal(quota_request(q, 1, 599), 1); /* asking costs nothing */
    assert_int_equal(quota_request(q, 1, 600), 0);
    assert_int_equal(quota_request(q, 1, 600), 500);
    assert_int_equal(quota_request(q, 1, 50), 500); /* a clock that goes back gives nothing */
    assert_int_equal(quota_request(q, 1, INT64_MAX), 0);
    assert_int_equal(quota_request(q, 1, INT64_MAX), 0);
    assert_int_equal(quota_request(q, 1, INT64_MAX), 500); /* and the longest pause no more than the burst */
    quota_close(q);
}

static void a_request_that_is_many_is_waited_for_afterwards(void **state)
{
    struct quota *q = quota(0, 10);

    (void) state;
    assert_int_equal(quota_request(q, 1, 100), 0);
    quota_charge(q, 1, 24, 100); /* 15 more than there are: it is done, and the next one waits */
    assert_int_equal(quota_request(q, 1, 100), 1600);
    assert_int_equal(quota_request(q, 2, 100), 0);
    assert_int_equal(quota_request(q, 1, 1699), 1); /* also after a second */
    assert_int_equal(quota_request(q, 1, 1700), 0);
    assert_int_equal(quota_request(q, 1, 1700), 100);
    quota_charge(q, 1, UINT32_MAX, 1700);
    assert_int_equal(quota_request(q, 1, 1700), 60100);
    quota_charge(q, 1, UINT32_MAX, 1700); /* no more than a minute */
    assert_int_equal(quota_request(q, 1, 1700), 60100);
    for (int i = 0; i < 10; i++)
        assert_int_equal(quota_request(q, 1, INT64_MAX), 0); /* and then he has what he had before */
    assert_int_equal(quota_request(q, 1, INT64_MAX), 100);
    quota_close(q);
}

/* However many users there are: each gets his burst, and who stays within the room there is keeps his count.
 */
static void more_users_than_buckets_are_served(void **state)
{
    struct quota *q = quota(0, 1);

    (void) state;
    for (uint32_t uid = 0; uid < 1000; uid++)
        assert_int_equal(quota_request(q, uid, 10), 0);
    for (uint32_t uid = 0; uid < 1000; uid++)
        assert_int_equal(quota_request(q, uid, 10), 1000);
    for (uint32_t uid = 1000; uid < 200000; uid++)
        assert_int_equal(quota_request(q, uid, 10), 0);
    assert_int_equal(quota_request(q, UINT32_MAX, 10), 0);
    assert_int_equal(quota_request(q, UINT32_MAX, 10), 1000);
    quota_close(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(claims_are_counted_for_each_user),
        cmocka_unit_test(a_pid_namespace_gives_no_quota_of_its_own),
        cmocka_unit_test(claims_that_exist_count_even_beyond_the_limit),
        cmocka_unit_test(who_has_no_claim_takes_no_room),
        cmocka_unit_test(the_defaults_are_those_that_are_named),
        cmocka_unit_test(a_user_gets_his_rate_and_no_more),
        cmocka_unit_test(who_has_to_wait_is_told_how_long),
        cmocka_unit_test(a_request_that_is_many_is_waited_for_afterwards),
        cmocka_unit_test(more_users_than_buckets_are_served),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
