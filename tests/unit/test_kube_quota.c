/* SPDX-License-Identifier: MIT */
/* A namespace has a quota of ports: what exceeds it is refused with the numbers, and what it has stays. */
#include "support/review.h"

#define MANY(n) \
    "{\\\"allocations\\\":[{\\\"name\\\":\\\"http\\\",\\\"env\\\":\\\"PORT\\\",\\\"count\\\":" #n "}]}"
#define NAMED(name) "\"name\":\"" name "\""

static void a_namespace_has_a_quarter_of_the_pool_and_is_refused_more(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20098"); /* 99 ports: 25 for each namespace */
    struct asked *first = create(handle, OWN(NAMED("a"), MANY(20)));
    struct asked *refused = create(handle, OWN(NAMED("b"), MANY(6)));
    struct asked *fits = create(handle, OWN(NAMED("c"), MANY(5)));

    ASSERT_ALLOWED(first);
    ASSERT_REFUSED(refused, 403, "the quota of namespace 'shop' is 25 ports: it has 20");
    assert_non_null(strstr(refused->message, "needs 6 more"));
    assert_non_null(strstr(refused->message, "dibs.dev/quota"));
    ASSERT_ALLOWED(fits);
    free(first);
    free(refused);
    free(fits);
    assert_int_equal(count_claims(e, handle), 25); /* a refused pod has left nothing */
    dibs_close(handle);
}

static void a_quota_of_the_ledger_replaces_the_quarter(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20098");
    set_quota(e, handle, 60);
    struct asked *more = create(handle, OWN(NAMED("a"), MANY(60)));
    set_quota(e, handle, 0);
    struct asked *none = create(handle, OWN(NAMED("b"), HTTP));

    ASSERT_ALLOWED(more);
    ASSERT_REFUSED(none, 403, "is 0 ports: it has 60");
    free(more);
    free(none);
    dibs_close(handle);
}

static void a_namespace_above_a_new_quota_keeps_its_ports(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20098");
    struct asked *first = create(handle, OWN(SET(0), HTTP));
    set_quota(e, handle, 0);
    struct asked *again = create(handle, OWN(SET(0), HTTP));
    struct asked *other = create(handle, OWN(SET(1), HTTP));

    ASSERT_ALLOWED(again);
    assert_string_equal(variable(first, "PORT"), variable(again, "PORT"));
    ASSERT_REFUSED(other, 403, "quota");
    free(first);
    free(again);
    free(other);
    dibs_close(handle);
}

/* The old claim stays beside the new one until the new pod is there. */
static void a_changed_port_needs_one_more_for_a_while_and_is_refused_with_the_figures(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20098");
    set_quota(e, handle, 1);
    struct asked *first = create(handle, OWN(SET(0), HTTP));
    struct asked *changed =
        create(handle, OWN(SET(0), "{\\\"allocations\\\":[{\\\"name\\\":\\\"http\\\",\\\"env\\\":"
                                   "\\\"PORT\\\",\\\"proto\\\":\\\"udp\\\"}]}"));

    ASSERT_ALLOWED(first);
    ASSERT_REFUSED(changed, 403, "the quota of namespace 'shop' is 1 ports: it has 1");
    assert_non_null(strstr(changed->message, "needs 1 more"));
    free(first);
    free(changed);
    dibs_close(handle);
}

static void a_dry_run_is_refused_by_the_quota_too(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20098");
    struct asked *refused = review(handle, "CREATE", "\"dryRun\":true,\"object\":" OWN(NAMED("a"), MANY(26)));

    ASSERT_REFUSED(refused, 403, "quota");
    free(refused);
    dibs_close(handle);
}

static void an_exhausted_pool_is_not_called_a_quota(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20003");
    set_quota(e, handle, 100);
    struct asked *refused = create(handle, OWN(NAMED("a"), MANY(5)));

    ASSERT_REFUSED(refused, 403, "left in pool 'kube'");
    free(refused);
    dibs_close(handle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(a_namespace_has_a_quarter_of_the_pool_and_is_refused_more),
        E_TEST(a_quota_of_the_ledger_replaces_the_quarter),
        E_TEST(a_namespace_above_a_new_quota_keeps_its_ports),
        E_TEST(a_changed_port_needs_one_more_for_a_while_and_is_refused_with_the_figures),
        E_TEST(a_dry_run_is_refused_by_the_quota_too),
        E_TEST(an_exhausted_pool_is_not_called_a_quota),
    };

    options.has_quota = true;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
