/* SPDX-License-Identifier: MIT */
/* An etcd that lost its data while processes use the ledger in it: they read the new one, and follow it. */
#include "ledger/step.h"
#include "store/etcd/etcd_store.h"
#include "support/etcd_ledger.h"

enum {
    FIRST = 31000,
    TTL_MS = 30000, /* no renewal during a case finds out what the store did not notice */
    OLD_COMMITS = 40
};

static struct etcd_store *store(struct ledger *ledger)
{
    return etcdstore_of(ledger->store);
}

/* A long-lived process: it follows the ledger, and has a lease. */
static struct ledger *server(struct t_ledger *t, const char *node)
{
    struct ledger *ledger = host(t, node);

    ASSERT_OK(ledger_start_background(ledger, &t->err), &t->err);
    ASSERT_OK(ledger_join(ledger, TTL_MS, "boot", &t->err), &t->err);
    return ledger;
}

/* Two servers, the second of which has never committed. etcd has lost its data under both, and another
 * process has made the pool again. */
struct pair {
    struct ledger *a, *b;
};

static struct pair survivors(struct t_ledger *t, const char *flag)
{
    struct pair p = { server(t, "a"), server(t, "b") };
    dibs_claim out = { 0 };

    make_pool(t, p.a, "everywhere", (dibs_range){ FIRST, FIRST + 199 });
    for (uint16_t i = 0; i < OLD_COMMITS; i++)
        ASSERT_OK(claim_port(t, p.a, (uint16_t) (FIRST + i), &out), &t->err);
    assert_int_equal(claim_port(t, p.b, FIRST, &out), DIBS_TAKEN); /* it has read them */
    shared->flags[0] = flag;
    member_lose_data(shared, 0);
    struct ledger *fresh = host(t, "c");
    make_pool(t, fresh, "everywhere", (dibs_range){ FIRST, FIRST + 199 });
    ledger_close(fresh);
    return p;
}

static void close_pair(struct pair *p)
{
    ledger_close(p->a);
    ledger_close(p->b);
    shared->flags[0] = NULL;
}

/* Each sees the other's claims by its watch: no full read is needed, and none waits for notices. */
static void assert_follow_each_other(struct t_ledger *t, const struct pair *p)
{
    dibs_claim out = { 0 };

    /* Ports of old claims. Unread notices of the old etcd count as news for a moment. */
    UNTIL(claim_port(t, p->b, FIRST, &out) == DIBS_OK);
    UNTIL(claim_port(t, p->a, FIRST + 1, &out) == DIBS_OK);
    for (uint16_t i = 2; i < 6; i++) {
        struct ledger *from = i % 2 ? p->a : p->b;
        struct ledger *to = i % 2 ? p->b : p->a;
        uint64_t before = ledger_take_notices(to);

        ASSERT_OK(claim_port(t, from, (uint16_t) (FIRST + i), &out), &t->err);
        follow(to, before);
    }
    uint64_t n_loads = store(p->a)->state.traffic.n_loads + store(p->b)->state.traffic.n_loads;
    for (uint16_t i = 6; i < 30; i++)
        ASSERT_OK(claim_port(t, i % 2 ? p->a : p->b, (uint16_t) (FIRST + i), &out), &t->err);
    assert_int_equal(store(p->a)->state.traffic.n_loads + store(p->b)->state.traffic.n_loads, n_loads);
}

static void survivors_follow_an_etcd_whose_revision_went_back(void **state)
{
    struct t_ledger *t = *state;

    NEED_ETCD();
    struct pair p = survivors(t, NULL);
    assert_follow_each_other(t, &p);
    close_pair(&p);
}

static void survivors_follow_another_cluster_with_a_higher_revision(void **state)
{
    struct t_ledger *t = *state;
    struct etcd_op put = { .kind = ETCD_PUT, .key = ETCD_BYTES("x"), .value = ETCD_BYTES("y") };
    struct etcd *etcd = NULL;

    NEED_ETCD();
    struct pair p = survivors(t, "--initial-cluster-token=another");
    ASSERT_OK(etcd_open(&shared->config, &etcd, &t->err), &t->err);
    for (int64_t revision = 0, old = store(p.a)->revision; revision < old + 10;) {
        struct etcd_call call = { .deadline_ms = in_ms(10000) };
        struct etcd_answer answer = { 0 };

        ASSERT_OK(etcd_do(etcd, &call, &put, &answer, &t->err), &t->err);
        revision = answer.revision;
        etcd_answer_done(&answer);
    }
    etcd_close(etcd);
    assert_follow_each_other(t, &p);
    close_pair(&p);
}

/* Else the port of the first claim could be taken away: its holder counts as dead without a lease. */
static void a_survivor_has_a_lease_in_the_new_etcd_before_it_claims_there(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_dynamic(NULL, &(uint16_t){ FIRST + 50 }, 1);

    NEED_ETCD();
    struct pair p = survivors(t, NULL);
    dibs_claim made = must_claim(t, p.a, &want);
    struct ledger *fresh = host(t, "c");
    dibs_claim seen = { 0 };
    ASSERT_OK(ledger_find_id(fresh, T_CALL(t, fresh), made.id, &seen, &t->err), &t->err);
    assert_int_equal(seen.node_life, DIBS_ALIVE);
    assert_true(ledger_salt(fresh) == ledger_salt(p.a)); /* and it goes by the new ledger's header */
    ledger_close(fresh);
    close_pair(&p);
}

/* It has no lease and no tail that could be missing, as a replica of the webhook: only its watch sees that
 * the revisions began again. Later they are where they were, and nothing else differs. */
static void an_idle_process_that_never_committed_reads_the_new_etcd(void **state)
{
    struct t_ledger *t = *state;
    dibs_claim out = { 0 };

    NEED_ETCD();
    struct ledger *writer = host(t, "a");
    struct ledger *idle = host(t, "b");
    make_pool(t, writer, "everywhere", (dibs_range){ FIRST, FIRST + 199 });
    for (uint16_t i = 0; i < OLD_COMMITS; i++)
        ASSERT_OK(claim_port(t, writer, (uint16_t) (FIRST + i), &out), &t->err);
    ASSERT_OK(ledger_start_background(idle, &t->err), &t->err);
    assert_int_equal(claim_port(t, idle, FIRST, &out), DIBS_TAKEN);
    ledger_close(writer);
    member_lose_data(shared, 0);
    UNTIL((ledger_take_notices(idle), store(idle)->is_cut));
    struct ledger *fresh = host(t, "c");
    make_pool(t, fresh, "everywhere", (dibs_range){ FIRST, FIRST + 199 });
    for (uint16_t i = 0; i < OLD_COMMITS + 10; i++)
        ASSERT_OK(claim_port(t, fresh, (uint16_t) (FIRST + 100 + i), &out), &t->err);
    ledger_close(fresh);
    ASSERT_OK(claim_port(t, idle, FIRST, &out), &t->err);
    assert_int_equal(claim_port(t, idle, FIRST + 100, &out), DIBS_TAKEN);
    ledger_close(idle);
}

/* No other process has made the ledger again before it. */
static void a_survivor_writes_the_header_of_an_etcd_that_has_none(void **state)
{
    struct t_ledger *t = *state;

    NEED_ETCD();
    struct ledger *survivor = server(t, "a");
    make_pool(t, survivor, "everywhere", (dibs_range){ FIRST, FIRST + 199 });
    member_lose_data(shared, 0);
    UNTIL(ledger_pool_get(survivor, T_CALL(t, survivor), "everywhere", &(dibs_pool){ 0 }, NULL) ==
          DIBS_NOT_FOUND);
    make_pool(t, survivor, "everywhere", (dibs_range){ FIRST, FIRST + 199 });
    struct ledger *fresh = host(t, "c");
    assert_true(ledger_salt(fresh) == ledger_salt(survivor));
    ledger_close(fresh);
    ledger_close(survivor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(survivors_follow_an_etcd_whose_revision_went_back),
        CASE(survivors_follow_another_cluster_with_a_higher_revision),
        CASE(a_survivor_has_a_lease_in_the_new_etcd_before_it_claims_there),
        CASE(an_idle_process_that_never_committed_reads_the_new_etcd),
        CASE(a_survivor_writes_the_header_of_an_etcd_that_has_none),
    };

    return cmocka_run_group_tests(tests, shared_open_one, shared_close);
}
