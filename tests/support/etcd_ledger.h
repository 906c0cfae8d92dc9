/* SPDX-License-Identifier: MIT */
#ifndef DIBS_TESTS_ETCD_LEDGER_H
#define DIBS_TESTS_ETCD_LEDGER_H
/* Several hosts on one ledger in a real etcd: each is a handle with a name of its own. */
#include <poll.h>

#include "support/etcd.h"
#include "support/ledger.h"

CLUSTER_FN struct cluster *one;

CLUSTER_FN int start_members(size_t n)
{
    if (!has_etcd())
        return 0;
    one = cluster_open(n, false, NULL);
    cluster_wait(&one->config);
    return 0;
}

CLUSTER_FN int start_etcd(void **state)
{
    (void) state;
    return start_members(1);
}

CLUSTER_FN int end_etcd(void **state)
{
    (void) state;
    cluster_close(one);
    return 0;
}

/* Each case has a prefix of its own; hosts are handles with a name. */
CLUSTER_FN struct ledger *host_for(const struct t_ledger *t, const char *node, int64_t timeout_ms)
{
    const struct ledger_options options = { .timeout_ms = timeout_ms, .node = node };
    struct ledger *ledger = NULL;
    dibs_err err = { 0 };

    ASSERT_OK(ledger_open(t->uri, &options, &ledger, &err), &err);
    return ledger;
}

CLUSTER_FN struct ledger *host(const struct t_ledger *t, const char *node)
{
    return host_for(t, node, 10000);
}

/* Until more has been told than `before`, or ten seconds have passed: wakes when there is something. */
CLUSTER_FN void follow(struct ledger *ledger, uint64_t before)
{
    struct pollfd notices = { .fd = ledger_notices(ledger), .events = POLLIN };

    for (int64_t until = in_ms(10000), left = 10000; ledger_heed(ledger) == before && left > 0;
         left = until - clock_monotonic_ms())
        (void) poll(&notices, 1, (int) left);
    assert_true(ledger_heed(ledger) > before);
}

CLUSTER_FN int open_case(void **state)
{
    static unsigned n_cases;
    struct t_ledger *t = calloc(1, sizeof *t);
    char tail[32] = "";

    assert_non_null(t);
    t->actor =
        (struct ledger_actor){ .now = { 1000000, 5000000 }, .uid = 1000, .pid = 10, .principal = "uid:1000" };
    t->other =
        (struct ledger_actor){ .now = { 1000000, 5000000 }, .uid = 2000, .pid = 20, .principal = "uid:2000" };
    (void) snprintf(tail, sizeof tail, "/case%u", ++n_cases);
    if (one)
        cluster_url(one, tail, t->uri, sizeof t->uri);
    *state = t;
    return 0;
}

CLUSTER_FN int close_case(void **state)
{
    free(*state);
    return 0;
}

CLUSTER_FN dibs_status try_claim(struct t_ledger *t, struct ledger *ledger, const struct ledger_want *want,
                                 dibs_claim *out)
{
    const struct ledger_batch batch = { .wants = want, .n = 1 };

    return ledger_claim(ledger, &batch, &t->actor, out, &t->refusal, &t->err);
}

CLUSTER_FN dibs_claim must_claim(struct t_ledger *t, struct ledger *ledger, const struct ledger_want *want)
{
    dibs_claim out = { 0 };

    ASSERT_OK(try_claim(t, ledger, want, &out), &t->err);
    return out;
}

CLUSTER_FN void make_pool(struct t_ledger *t, struct ledger *ledger, const char *name, dibs_range range)
{
    dibs_pool pool = { .scope = DIBS_SCOPE_CLUSTER,
                       .order = "stride",
                       .ranges = { .item = { range }, .n = 1 } };

    (void) snprintf(pool.name, sizeof pool.name, "%s", name);
    ASSERT_OK(ledger_pool_put(ledger, &pool, &t->actor, &t->err), &t->err);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_case, close_case)
#endif
