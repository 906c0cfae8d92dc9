/* SPDX-License-Identifier: MIT */
/* The engine of a host in a cluster: its answers for claims that are attached to the lease of the host. */
#include "daemon/engine.h"

#include "lib/connection.h"
#include "support/etcd_ledger.h"

enum { TTL_MS = 1000, PATIENCE_MS = 20000, FIRST = 31000 };

/* Times that allow a lease of one second, which one member can afford. */
static int start_quick_etcd(void **state)
{
    static const char *const flags[] = { "--heartbeat-interval=20", "--election-timeout=200", NULL };

    (void) state;
    if (!has_etcd())
        return 0;
    shared = cluster_open(1, false, flags);
    cluster_wait(&shared->config);
    return 0;
}

struct fixture {
    struct loop *loop;
    struct engine *engine;
    dibs_settings settings;
    dibs_err err;
};

static void load_settings(struct fixture *f, const char *uri)
{
    const dibs_flag flags[] = { { DIBS_SET_LEDGER, uri }, { DIBS_SET_SOCKET, "none" } };

    ASSERT_OK(dibs_settings_load(flags, 2, &f->settings, &f->err), &f->err);
}

static void start(struct fixture *f, const char *uri)
{
    load_settings(f, uri);
    ASSERT_OK(loop_open(&f->loop, &f->err), &f->err);
    const struct engine_options options = { .loop = f->loop,
                                            .settings = &f->settings,
                                            .node_ttl_ms = TTL_MS };
    ASSERT_OK(engine_open(&options, &f->engine, &f->err), &f->err);
}

static void stop(struct fixture *f)
{
    engine_close(f->engine);
    loop_close(f->loop);
}

struct request {
    struct job job;
    uint16_t port;
    bool is_slow;        /* the commit, because etcd is stopped until the lease is over */
    bool gets_new_lease; /* ... and begins when there is another lease */
    int n_done;
    dibs_status found, answered;
    dibs_claim claim;
    dibs_err err;
};

static bool is_certain(dibs *handle)
{
    struct ledger_lease lease;

    ledger_lease(handle_ledger(handle), &lease);
    return lease.margin_ms > 0;
}

/* The lease is uncertain here before it has ended there: thawed between, a keepalive would save it. */
static void stop_until_lost(dibs *handle)
{
    member_freeze(shared, 0);
    UNTIL(!is_certain(handle));
    (void) usleep(TTL_MS * 1000);
    member_thaw(shared, 0);
}

/* Claim a cluster-scope port, then one of host scope: that is a commit. */
static void ask(struct job *job, dibs *handle)
{
    struct request *a = (struct request *) job;
    const dibs_request request = { .port = a->port, .mode = DIBS_REQUIRED, .holder = DIBS_HELD_BY_PROCESS };
    const dibs_batch batch = { .requests = &request, .n = 1 };

    if (!a->claim.port) {
        a->found = dibs_claim_ports(handle, &batch, &a->claim, &a->err);
        return;
    }
    dibs_claim found = { 0 };
    const dibs_request other = { .mode = DIBS_RANDOM, .keep = true };
    dibs_claim kept = { 0 };
    a->found = dibs_claim_find(handle, &(dibs_which){ .token = a->claim.token }, &found, &a->err);
    if (a->found == DIBS_OK)
        a->found = dibs_claim_ports(handle, &(dibs_batch){ .requests = &other, .n = 1 }, &kept, &a->err);
    if (a->is_slow)
        stop_until_lost(handle);
    if (a->gets_new_lease)
        UNTIL(is_certain(handle));
}

static void answered(struct job *job, const dibs_err *err)
{
    struct request *a = (struct request *) job;

    a->answered = err ? err->code : a->found;
    if (err)
        a->err = *err;
    a->n_done++;
}

static void ask_and_wait(struct fixture *f, struct request *a)
{
    int64_t until = in_ms(PATIENCE_MS);
    int n = a->n_done;

    a->job = (struct job){ .work = ask, .done = answered };
    a->job.call = f->engine->handle->call;
    group_commit_queue(f->engine->group, &a->job);
    while (a->n_done == n && clock_monotonic_ms() < until) {
        assert_int_equal(loop_turn(f->loop, 10, NULL), DIBS_OK);
        engine_turn(f->engine);
    }
    assert_int_equal(a->n_done, n + 1);
}

static uint64_t count_ended(const struct fixture *f)
{
    struct ledger_lease lease;

    ledger_lease(handle_ledger(f->engine->handle), &lease);
    return lease.n_ended;
}

/* Did the lease go on after all? An etcd that elects a new leader restarts all leases. */
static bool is_saved(struct fixture *f, uint64_t n_ended)
{
    int64_t until = in_ms(PATIENCE_MS);

    while (count_ended(f) == n_ended && !is_certain(f->engine->handle) && clock_monotonic_ms() < until) {
        assert_int_equal(loop_turn(f->loop, 10, NULL), DIBS_OK);
        engine_turn(f->engine);
    }
    return count_ended(f) == n_ended;
}

/* True: it was found before the commit, and nothing but the commit was in the way. A machine that stalls may
 * cost the lease before, or keep it. */
static bool ask_slowly(struct fixture *f, struct request *a, bool gets_new_lease)
{
    ask_and_wait(f, a);
    if (a->answered != DIBS_OK)
        return false;
    uint64_t n_ended = count_ended(f);
    a->is_slow = true;
    a->gets_new_lease = gets_new_lease;
    ask_and_wait(f, a);
    return a->found == DIBS_OK && (a->answered != DIBS_OK || !is_saved(f, n_ended));
}

static void check_slow_commit(struct t_ledger *t, bool gets_new_lease)
{
    struct request a = { 0 };
    struct fixture f = { 0 };
    bool is_shown = false;

    NEED_ETCD();
    struct ledger *other = host(t, "other");
    make_pool(t, other, "everywhere", (dibs_range){ FIRST, FIRST + 9 });
    ledger_close(other);
    start(&f, t->uri);
    for (uint16_t i = 0; i < 10 && !is_shown; i++) {
        a = (struct request){ .port = FIRST + i };
        is_shown = ask_slowly(&f, &a, gets_new_lease);
    }
    assert_true(is_shown);
    assert_int_equal(a.answered, DIBS_UNAVAILABLE);
    stop(&f);
}

static void no_answer_after_a_slow_commit_has_stale_facts(void **state)
{
    check_slow_commit(*state, false);
}

static void no_answer_of_a_group_that_outlived_its_lease_has_stale_facts(void **state)
{
    check_slow_commit(*state, true);
}

static bool is_alive_for(struct t_ledger *t, struct ledger *other, uint64_t id)
{
    dibs_claim out = { 0 };

    return ledger_find_id(other, &t->call, id, &out, &t->err) == DIBS_OK && out.node_life == DIBS_ALIVE;
}

static void an_earlier_claim_is_attached_to_the_daemons_lease(void **state)
{
    struct t_ledger *t = *state;
    const dibs_request request = {
        .port = FIRST, .mode = DIBS_REQUIRED, .holder = DIBS_HELD_BY_LEASE, .ttl_ms = 600000
    };
    dibs_claim early = { 0 };
    dibs *direct = NULL;
    int64_t until = in_ms(PATIENCE_MS);
    struct fixture f = { 0 };

    NEED_ETCD();
    struct ledger *other = host(t, "other");
    make_pool(t, other, "everywhere", (dibs_range){ FIRST, FIRST + 9 });
    load_settings(&f, t->uri);
    ASSERT_OK(handle_open(&f.settings, DIBS_LEDGER_STRICT, false, &direct, &f.err), &f.err);
    ASSERT_OK(dibs_claim_ports(direct, &(dibs_batch){ .requests = &request, .n = 1 }, &early, &f.err),
              &f.err);
    dibs_close(direct);
    assert_false(is_alive_for(t, other, early.id)); /* unknown there */
    start(&f, t->uri);
    while (!is_alive_for(t, other, early.id) && clock_monotonic_ms() < until) {
        assert_int_equal(loop_turn(f.loop, 10, NULL), DIBS_OK);
        engine_turn(f.engine);
    }
    assert_true(is_alive_for(t, other, early.id));
    stop(&f);
    ledger_close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(no_answer_after_a_slow_commit_has_stale_facts),
        CASE(no_answer_of_a_group_that_outlived_its_lease_has_stale_facts),
        CASE(an_earlier_claim_is_attached_to_the_daemons_lease),
    };
    return cmocka_run_group_tests(tests, start_quick_etcd, shared_close);
}
