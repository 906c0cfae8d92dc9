/* SPDX-License-Identifier: MIT */
#include <malloc.h>

#include "daemon/quota.h"

#include "support/ledger.h"

static struct quota *quota(uint32_t claims, uint32_t requests_per_s)
{
    struct quota *q = NULL;

    assert_int_equal(quota_open(&(struct quota_options){ claims, requests_per_s }, &q, NULL), DIBS_OK);
    return q;
}

/* Make claims as the ledger does: within the allowance of the call. */
static dibs_status take(struct quota *q, const char *principal, uint32_t n)
{
    struct quota_use use = { 0 };

    quota_begin(q, principal, &use);
    if (n > use.allowance.max || use.allowance.n > use.allowance.max - n)
        return DIBS_EXHAUSTED;
    use.allowance.n += n;
    quota_made(q, principal, &use);
    return DIBS_OK;
}

static uint32_t count(struct quota *q, const char *principal)
{
    struct quota_use use = { 0 };

    quota_begin(q, principal, &use);
    return use.allowance.n;
}

static void claims_are_counted_for_each_user(void **state)
{
    struct quota *q = quota(10, 0);

    (void) state;
    assert_int_equal(take(q, "uid:1", 9), DIBS_OK);
    assert_int_equal(take(q, "uid:1", 1), DIBS_OK);
    assert_int_equal(take(q, "uid:1", 1), DIBS_EXHAUSTED);
    assert_int_equal(count(q, "uid:1"), 10);
    assert_int_equal(take(q, "uid:11", 10), DIBS_OK); /* somebody else */
    assert_int_equal(take(q, "uid:2", 11), DIBS_EXHAUSTED);
    assert_int_equal(take(q, "uid:2", UINT32_MAX), DIBS_EXHAUSTED);
    assert_int_equal(count(q, "uid:2"), 0);
    quota_give(q, "uid:1", 3);
    assert_int_equal(take(q, "uid:1", 3), DIBS_OK);
    assert_int_equal(take(q, "uid:1", 1), DIBS_EXHAUSTED);
    quota_close(q);
}

static void claims_of_an_attempt_count_until_it_is_repeated_or_over(void **state)
{
    struct quota *q = quota(10, 0);
    struct quota_use use = { 0 };

    (void) state;
    for (int attempt = 0; attempt < 3; attempt++) {
        quota_begin(q, "uid:1", &use);
        assert_int_equal(use.allowance.n, 0);
        use.allowance.n = 7;
        quota_made(q, "uid:1", &use);
        assert_int_equal(count(q, "uid:1"), 7);
    }
    quota_note(q, "uid:1", 7); /* the events */
    quota_end(q, "uid:1", &use);
    assert_int_equal(count(q, "uid:1"), 7);
    quota_clear(q);
    assert_int_equal(count(q, "uid:1"), 0);
    quota_close(q);
}

static void a_pid_namespace_gives_no_quota_of_its_own(void **state)
{
    struct quota *q = quota(10, 0);

    (void) state;
    assert_int_equal(take(q, "uid:1@4026532000.5", 4), DIBS_OK);
    assert_int_equal(take(q, "uid:1@unknown", 4), DIBS_OK);
    assert_int_equal(take(q, "uid:1", 2), DIBS_OK);
    assert_int_equal(take(q, "uid:1@4026532001.6", 1), DIBS_EXHAUSTED);
    quota_give(q, "uid:1@unknown", 1);
    assert_int_equal(count(q, "uid:1"), 9);
    assert_int_equal(take(q, "uid:1@4026532001.6", 1), DIBS_OK);
    quota_close(q);
}

/* Write /etc/subuid as it would be; "" is no file. */
static bool follow(struct quota *q, const char *text)
{
    char dir[256];
    char path[300];

    t_make_directory(dir);
    (void) snprintf(path, sizeof path, "%s/subuid", dir);
    FILE *file = text[0] ? fopen(path, "we") : NULL;
    if (file) {
        assert_true(fputs(text, file) >= 0);
        assert_int_equal(fclose(file), 0);
    }
    bool is_changed = quota_follow_owners(q, path);
    assert_false(quota_follow_owners(q, path)); /* the same file again */
    t_remove_directory(dir);
    return is_changed;
}

static void a_subordinate_uid_counts_for_its_owner(void **state)
{
    struct quota *q = quota(3, 2);

    (void) state;
    assert_false(follow(q, ""));
    assert_int_equal(quota_user(q, 100000), 100000);
    assert_true(follow(q, "1001:165536:65536\n# none\ndaemon:100000:65536\n1000:231072:1\n\n1000:0:0\n"));
    assert_int_equal(quota_user(q, 99999), 99999);
    assert_int_equal(quota_user(q, 100000), 1); /* by name */
    assert_int_equal(quota_user(q, 165535), 1);
    assert_int_equal(quota_user(q, 165536), 1001);
    assert_int_equal(quota_user(q, 231071), 1001);
    assert_int_equal(quota_user(q, 231072), 1000);
    assert_int_equal(quota_user(q, 231073), 231073);
    assert_int_equal(take(q, "uid:165600", 2), DIBS_OK);
    assert_int_equal(take(q, "uid:165601@4026532000.7", 1), DIBS_OK);
    assert_int_equal(take(q, "uid:1001", 1), DIBS_EXHAUSTED);
    assert_int_equal(take(q, "uid:231073", 3), DIBS_OK);
    assert_int_equal(take(q, "ns:165600", 3), DIBS_OK); /* no uid */
    assert_int_equal(quota_request(q, 165536, 10), 0);
    assert_int_equal(quota_request(q, 165537, 10), 0);
    assert_int_equal(quota_request(q, 1001, 10), 500);
    assert_int_equal(quota_request(q, 1000, 10), 0);
    assert_true(follow(q, "")); /* the file was removed */
    assert_int_equal(quota_user(q, 165536), 165536);
    quota_close(q);
}

/* Containers that root starts may not use up its quota, and neither may users whose uid root maps. */
static void the_uids_of_a_range_of_root_count_together_and_not_for_root(void **state)
{
    struct quota *q = quota(3, 0);

    (void) state;
    assert_true(follow(q, "root:100000:65536\nroot:1000:1\n"));
    assert_int_equal(quota_user(q, 0), 0);
    assert_int_equal(quota_user(q, 1000), 1000);
    assert_int_equal(take(q, "uid:100000", 2), DIBS_OK);
    assert_int_equal(take(q, "uid:165535", 1), DIBS_OK);
    assert_int_equal(take(q, "uid:100007", 1), DIBS_EXHAUSTED);
    assert_int_equal(take(q, "uid:1000", 3), DIBS_OK);
    assert_int_equal(take(q, "uid:0", 3), DIBS_OK);
    quota_close(q);
}

static void claims_that_exist_count_even_beyond_the_limit(void **state)
{
    struct quota *q = quota(10, 0);

    (void) state;
    quota_note(q, "uid:1", 12);
    quota_note(q, "uid:2", 0);
    assert_int_equal(take(q, "uid:1", 1), DIBS_EXHAUSTED);
    quota_give(q, "uid:1", 2);
    assert_int_equal(take(q, "uid:1", 1), DIBS_EXHAUSTED);
    quota_give(q, "uid:1", 1);
    assert_int_equal(take(q, "uid:1", 1), DIBS_OK);
    quota_close(q);
    quota_close(NULL);
}

static void a_user_without_claims_takes_no_memory(void **state)
{
    struct quota *q = quota(0, 0);
    char principal[32];
    size_t before = mallinfo2().uordblks;

    (void) state;
    for (int i = 0; i < 10000; i++) {
        (void) snprintf(principal, sizeof principal, "uid:%d", i);
        assert_int_equal(take(q, principal, 1), DIBS_OK);
        if (i % 100 != 0)
            quota_give(q, principal, 1);
    }
    assert_true(mallinfo2().uordblks - before < 100 * 1024); /* of a hundred users, not of all */
    quota_give(q, "uid:100", 5);                             /* more than there are */
    quota_give(q, "uid:100", 1);
    assert_int_equal(count(q, "uid:100"), 0);
    quota_close(q);
}

static void the_defaults_are_those_that_are_named(void **state)
{
    struct quota *q = quota(0, 0);

    (void) state;
    assert_int_equal(take(q, "uid:1", QUOTA_CLAIMS), DIBS_OK);
    assert_int_equal(take(q, "uid:1", 1), DIBS_EXHAUSTED);
    for (int i = 0; i < QUOTA_REQUESTS_PER_S; i++)
        assert_int_equal(quota_request(q, 1, 0), 0);
    assert_int_equal(quota_request(q, 1, 0), 1);
    quota_close(q);
}

static void a_user_gets_the_rate_and_no_more(void **state)
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

static void a_user_over_the_rate_learns_how_long_to_wait(void **state)
{
    struct quota *q = quota(0, 2);

    (void) state;
    assert_int_equal(quota_request(q, 1, 100), 0);
    assert_int_equal(quota_request(q, 1, 100), 0);
    assert_int_equal(quota_request(q, 1, 100), 500);
    assert_int_equal(quota_request(q, 1, 599), 1); /* a refused request costs nothing */
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
        assert_int_equal(quota_request(q, 1, INT64_MAX), 0); /* and then the user has the burst again */
    assert_int_equal(quota_request(q, 1, INT64_MAX), 100);
    quota_close(q);
}

/* However many users there are: each gets a burst, and a user that fits into the table keeps the count.
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
        cmocka_unit_test(claims_of_an_attempt_count_until_it_is_repeated_or_over),
        cmocka_unit_test(a_pid_namespace_gives_no_quota_of_its_own),
        cmocka_unit_test(a_subordinate_uid_counts_for_its_owner),
        cmocka_unit_test(the_uids_of_a_range_of_root_count_together_and_not_for_root),
        cmocka_unit_test(claims_that_exist_count_even_beyond_the_limit),
        cmocka_unit_test(a_user_without_claims_takes_no_memory),
        cmocka_unit_test(the_defaults_are_those_that_are_named),
        cmocka_unit_test(a_user_gets_the_rate_and_no_more),
        cmocka_unit_test(a_user_over_the_rate_learns_how_long_to_wait),
        cmocka_unit_test(a_request_that_is_many_is_waited_for_afterwards),
        cmocka_unit_test(more_users_than_buckets_are_served),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
