/* SPDX-License-Identifier: MIT */
#include "support/etcd_ledger.h"

#include <poll.h>

struct ledger *host_for(const struct t_ledger *t, const char *node, int64_t timeout_ms)
{
    const struct ledger_options options = { .timeout_ms = timeout_ms, .node = node };
    struct ledger *ledger = NULL;
    dibs_err err = { 0 };

    ASSERT_OK(ledger_open(t->uri, &options, &ledger, &err), &err);
    return ledger;
}

struct ledger *host(const struct t_ledger *t, const char *node)
{
    return host_for(t, node, 10000);
}

void follow(struct ledger *ledger, uint64_t before)
{
    struct pollfd notices = { .fd = ledger_notices(ledger), .events = POLLIN };

    for (int64_t until = in_ms(10000), left = 10000; ledger_take_notices(ledger) == before && left > 0;
         left = until - clock_monotonic_ms())
        (void) poll(&notices, 1, (int) left);
    assert_true(ledger_take_notices(ledger) > before);
}

int open_case(void **state)
{
    static unsigned n_cases;
    struct t_ledger *t = calloc(1, sizeof *t);
    char tail[32] = "";

    assert_non_null(t);
    t->call = (struct call){ .now = { 1000000, 5000000 }, .uid = 1000, .pid = 10, .principal = "uid:1000" };
    t->other = (struct call){ .now = { 1000000, 5000000 }, .uid = 2000, .pid = 20, .principal = "uid:2000" };
    (void) snprintf(tail, sizeof tail, "/case%u", ++n_cases);
    if (shared)
        cluster_url(shared, tail, t->uri, sizeof t->uri);
    *state = t;
    return 0;
}

int close_case(void **state)
{
    free(*state);
    return 0;
}

dibs_status try_claim(struct t_ledger *t, struct ledger *ledger, const struct ledger_want *want,
                      dibs_claim *out)
{
    const struct ledger_batch batch = { .wants = want, .n = 1 };

    return ledger_claim(ledger, T_CALL(t, ledger), &batch, out, &t->refusal, &t->err);
}

dibs_status claim_port(struct t_ledger *t, struct ledger *ledger, uint16_t port, dibs_claim *out)
{
    struct ledger_want want = t_want(NULL, "*");

    want.candidates = &port;
    want.n_candidates = 1;
    return try_claim(t, ledger, &want, out);
}

dibs_claim must_claim(struct t_ledger *t, struct ledger *ledger, const struct ledger_want *want)
{
    dibs_claim out = { 0 };

    ASSERT_OK(try_claim(t, ledger, want, &out), &t->err);
    return out;
}

void make_pool(struct t_ledger *t, struct ledger *ledger, const char *name, dibs_range range)
{
    dibs_pool pool = { .scope = DIBS_SCOPE_CLUSTER,
                       .order = "stride",
                       .ranges = { .item = { range }, .n = 1 } };

    (void) snprintf(pool.name, sizeof pool.name, "%s", name);
    ASSERT_OK(ledger_pool_put(ledger, T_CALL(t, ledger), &pool, &t->err), &t->err);
}
