/* SPDX-License-Identifier: MIT */
/* A ledger in etcd whose answers are lost, whose members die and stop, and whose records are damaged: a
 * claim is made once, answers are true, and no call waits for ever. */
#include "ledger/step.h"
#include "store/etcd/etcd_store.h"
#include "support/etcd_ledger.h"
#include "support/relay.h"

enum { SHORT_MS = 1500, DECIDE_MS = 2000, SPOILT = 150, FIRST = 30000 };

static struct etcd_store *store(struct ledger *ledger)
{
    return etcdstore_of(ledger->store);
}

static size_t count_claims(struct t_ledger *t, struct ledger *ledger)
{
    struct ledger_health health = { 0 };

    ASSERT_OK(ledger_health(ledger, &health, &t->err), &t->err);
    return (size_t) health.n_claims;
}

static bool is_held(struct t_ledger *t, struct ledger *ledger, uint16_t port)
{
    dibs_claim out = { 0 };
    dibs_status s = claim_port(t, ledger, port, &out);

    if (s == DIBS_OK) {
        struct ledger_seen seen = t_seen(&out);

        ASSERT_OK(ledger_end(ledger, T_CALL(t, ledger),
                             &(struct ledger_ending){ &seen, 1, LEDGER_END_RELEASE }, NULL, &t->err),
                  &t->err);
    }
    return s != DIBS_OK;
}

/* ---- lost answers ---- */

/* A handle that sends through a relay that loses answers on request. */
static struct ledger *through(struct t_ledger *t, const struct relay *relay, int64_t timeout_ms)
{
    const struct ledger_options options = { .timeout_ms = timeout_ms, .node = "a" };
    struct ledger *ledger = NULL;
    char uri[128] = "";

    (void) snprintf(uri, sizeof uri, "etcd://127.0.0.1:%u%s", relay->port, strrchr(t->uri, '/'));
    ASSERT_OK(ledger_open(uri, &options, &ledger, &t->err), &t->err);
    return ledger;
}

static void a_commit_whose_answer_is_lost_is_found_to_be_done(void **state)
{
    struct t_ledger *t = *state;
    dibs_claim out = { 0 };
    struct relay relay;

    NEED_ETCD();
    relay_open(&relay, shared->client[0]);
    struct ledger *a = through(t, &relay, 10000);
    ASSERT_OK(claim_port(t, a, FIRST, &out), &t->err);
    (void) relay_tell(&relay, 'a'); /* the next Txn is done, and its answer cut off */
    ASSERT_OK(claim_port(t, a, FIRST + 1, &out), &t->err);
    assert_int_equal(out.port, FIRST + 1);
    assert_int_equal(relay_lost(&relay), 1);
    ASSERT_OK(claim_port(t, a, FIRST + 2, &out), &t->err); /* and it knows how things stand */
    assert_int_equal(count_claims(t, a), 3);
    ledger_close(a);
    relay_close(&relay);
}

static void a_request_that_is_lost_is_found_to_be_not_done_and_made_again(void **state)
{
    struct t_ledger *t = *state;
    dibs_claim out = { 0 };
    struct relay relay;

    NEED_ETCD();
    relay_open(&relay, shared->client[0]);
    struct ledger *a = through(t, &relay, 10000);
    ASSERT_OK(claim_port(t, a, FIRST, &out), &t->err);
    (void) relay_tell(&relay, 'r');
    ASSERT_OK(claim_port(t, a, FIRST + 1, &out), &t->err);
    assert_int_equal(relay_lost(&relay), 1);
    assert_int_equal(count_claims(t, a), 2);
    ledger_close(a);
    relay_close(&relay);
}

/* The Txn stays inside of the relay until the decision has been made without it. */
static void a_commit_that_comes_after_the_decision_comes_to_nothing(void **state)
{
    struct t_ledger *t = *state;
    dibs_claim out = { 0 };
    struct relay relay;

    NEED_ETCD();
    relay_open(&relay, shared->client[0]);
    struct ledger *a = through(t, &relay, 10000);
    ASSERT_OK(claim_port(t, a, FIRST, &out), &t->err);
    (void) relay_tell(&relay, 'h');                        /* held back, its connection closed */
    ASSERT_OK(claim_port(t, a, FIRST + 1, &out), &t->err); /* decided, and made again */
    struct ledger *b = host(t, "a");
    assert_int_equal(count_claims(t, b), 2);
    const char *late = relay_tell(&relay, 'g');
    assert_non_null(strstr(late, "revision")); /* an answer */
    assert_null(strstr(late, "succeeded"));    /* which says so when it is so */
    assert_int_equal(count_claims(t, b), 2);
    ledger_close(a);
    ledger_close(b);
    relay_close(&relay);
}

/* Another process commits on behalf of this host between the Txn and the question what became of it. */
static void a_commit_that_another_one_hides_is_reported_as_unknown(void **state)
{
    struct t_ledger *t = *state;
    dibs_claim out = { 0 };
    struct relay relay;

    NEED_ETCD();
    relay_open(&relay, shared->client[0]);
    struct ledger *a = through(t, &relay, 10000);
    struct ledger *b = host(t, "a");
    ASSERT_OK(claim_port(t, a, FIRST, &out), &t->err);
    (void) relay_tell(&relay,
                      'w'); /* the answer is lost, and no new connection until the others are through */
    pid_t others = fork();
    assert_true(others >= 0);
    if (others == 0) {
        UNTIL(relay_lost(&relay) == 1);
        bool is_well = relay_lost(&relay) == 1;

        for (uint16_t i = 0; i < 5 && is_well; i++)
            is_well = claim_port(t, b, (uint16_t) (FIRST + 10 + i), &out) == DIBS_OK;
        (void) relay_tell(&relay, 'o');
        _exit(is_well ? 0 : 1);
    }
    assert_int_equal(claim_port(t, a, FIRST + 1, &out), DIBS_UNAVAILABLE);
    assert_non_null(strstr(t->err.msg, "may have been done"));
    assert_int_equal(child_join(others), 0);
    assert_int_equal(relay_lost(&relay), 1);
    ASSERT_OK(claim_port(t, a, FIRST + 2, &out), &t->err);
    assert_int_equal(count_claims(t, a), 8);
    ledger_close(a);
    ledger_close(b);
    relay_close(&relay);
}

static void a_member_that_stops_with_a_commit_inside_keeps_the_deadline(void **state)
{
    struct t_ledger *t = *state;
    dibs_claim out = { 0 };

    NEED_ETCD();
    struct ledger *a = host_for(t, "a", SHORT_MS);
    ASSERT_OK(claim_port(t, a, FIRST, &out), &t->err);
    member_freeze(shared, 0);
    int64_t begun_ms = clock_monotonic_ms();
    t_begin(t, a); /* it has looked already, so the Txn goes out */
    store(a)->is_watched = true;
    dibs_status s = claim_port(t, a, FIRST + 1, &out);
    if (s == DIBS_OK)
        s = t_commit(t, NULL);
    else
        (void) t_commit(t, NULL);
    store(a)->is_watched = false;
    int64_t took_ms = clock_monotonic_ms() - begun_ms;
    member_thaw(shared, 0);
    assert_int_equal(s, DIBS_UNAVAILABLE);
    assert_true(took_ms < SHORT_MS + DECIDE_MS + STALL_MS);
    assert_true(ledger_was_unreachable(a) && !ledger_lost_race(a));
    assert_non_null(strstr(t->err.msg, "may have been done"));
    /* Woken, it does it or not; from then on all agree. */
    struct ledger *b = host(t, "a");
    bool was_done = is_held(t, b, FIRST + 1);
    assert_int_equal(is_held(t, a, FIRST + 1), was_done);
    assert_int_equal(count_claims(t, a), was_done ? 2 : 1);
    ledger_close(a);
    ledger_close(b);
}

/* A daemon serves many: what one has waited for the next ones do not wait for again, each as long. */
static void a_request_after_one_that_timed_out_fails_at_once(void **state)
{
    struct t_ledger *t = *state;
    dibs_claim out = { 0 };

    NEED_ETCD();
    struct ledger *a = host_for(t, "a", SHORT_MS);
    ASSERT_OK(claim_port(t, a, FIRST, &out), &t->err);
    ASSERT_OK(ledger_start_background(a, &t->err), &t->err);
    member_freeze(shared, 0);
    dibs_status first = claim_port(t, a, FIRST + 1, &out);
    struct ledger_traffic before = store(a)->state.traffic;
    bool are_refused = true;
    for (uint16_t i = 2; i < 10; i++)
        are_refused = are_refused && claim_port(t, a, FIRST + i, &out) == DIBS_UNAVAILABLE;
    struct ledger_traffic after = store(a)->state.traffic;
    member_thaw(shared, 0);
    assert_int_equal(first, DIBS_UNAVAILABLE);
    assert_true(are_refused);
    assert_non_null(strstr(t->err.msg, "etcd"));
    assert_int_equal(after.n_commits, before.n_commits);  /* no retry, */
    assert_int_equal(after.n_loads, before.n_loads);      /* ... neither way */
    UNTIL(claim_port(t, a, FIRST + 10, &out) == DIBS_OK); /* it goes on by itself */
    ledger_close(a);
}

/* ---- the copy ---- */

/* A commit of ours says nothing about what others changed before it. */
static void changes_of_others_before_our_commit_are_not_overwritten(void **state)
{
    enum { BLOCKS_TOUCHED = 100 };
    struct t_ledger *t = *state;
    struct ledger_want wants[BLOCKS_TOUCHED];
    uint16_t ports[BLOCKS_TOUCHED];
    dibs_claim out[BLOCKS_TOUCHED] = { 0 };
    struct ledger_want single = t_want(NULL, "*");

    NEED_ETCD();
    struct ledger *a = host(t, "a");
    struct ledger *b = host(t, "b");
    make_pool(t, a, "everywhere", (dibs_range){ 20000, 29999 });
    ASSERT_OK(claim_port(t, a, 29999, out), &t->err);
    t->call.deadline_ms = clock_monotonic_ms() + 60000; /* one call, and one look at etcd for all of it */
    t_begin(t, a);
    ASSERT_OK(claim_port(t, a, 29998, out), &t->err);
    single.candidates = &(uint16_t){ 20000 };
    single.n_candidates = 1;
    (void) must_claim(t, b, &single);
    ASSERT_OK(t_commit(t, NULL), &t->err); /* another block: no conflict */
    for (size_t i = 0; i < BLOCKS_TOUCHED; i++) {
        ports[i] = (uint16_t) (20000 + 64 * i);
        wants[i] = t_want(NULL, "*");
        wants[i].candidates = &ports[i];
        wants[i].n_candidates = 1;
    }
    const struct ledger_batch batch = { .wants = wants, .n = BLOCKS_TOUCHED };
    assert_int_not_equal(ledger_claim(a, T_CALL(t, a), &batch, out, &t->refusal, &t->err), DIBS_OK);
    assert_true(t->refusal.has_blocker);
    assert_string_equal(t->refusal.blocker.principal, "uid:1000@b");
    ports[0] = 20001;
    ASSERT_OK(ledger_claim(a, T_CALL(t, a), &batch, out, &t->refusal, &t->err), &t->err);
    assert_true(is_held(t, b, 20000) && is_held(t, b, 20001));
    ledger_close(a);
    ledger_close(b);
}

/* Namespaces belong to the cluster, and so do their names. */
static void a_name_that_another_host_has_taken_is_not_forgotten(void **state)
{
    struct t_ledger *t = *state;
    const uint16_t ports[] = { 31000, 31001 };
    struct ledger_want want = t_dynamic("web", ports, 2);
    struct ledger_want other = t_dynamic(NULL, ports, 2);
    dibs_claim found = { 0 };

    NEED_ETCD();
    struct ledger *a = host(t, "a");
    struct ledger *b = host(t, "b");
    (void) snprintf(want.claim.principal, sizeof want.claim.principal, "k8s:shop");
    t->call.is_admin = true;
    t->call.principal = "k8s:shop";
    make_pool(t, a, "everywhere", (dibs_range){ 31000, 31200 });
    dibs_claim old = must_claim(t, a, &want);
    struct ledger_seen seen = t_seen(&old);
    ASSERT_OK(
        ledger_end(a, T_CALL(t, a), &(struct ledger_ending){ &seen, 1, LEDGER_END_RELEASE }, NULL, &t->err),
        &t->err);
    t_begin(t, a);
    /* in another block */
    other.candidates = &(uint16_t){ 31150 };
    other.n_candidates = 1;
    (void) must_claim(t, a, &other);
    struct name_record name = { 0 };
    (void) snprintf(name.principal, sizeof name.principal, "k8s:shop");
    (void) snprintf(name.name, sizeof name.name, "web");
    ASSERT_OK(memory_erase(&store(a)->copy.tables, NAMES, &name, &t->err), &t->err); /* as upkeep does */
    want.accepts_cooling = true;
    dibs_claim taken = must_claim(t, b, &want);
    assert_int_equal(t_commit(t, NULL), DIBS_UNAVAILABLE);
    assert_true(ledger_lost_race(a));
    ASSERT_OK(ledger_find_name(a, T_CALL(t, a), "web", &found, NULL, &t->err), &t->err);
    assert_int_equal(found.id, taken.id);
    ledger_close(a);
    ledger_close(b);
}

static void compact(struct t_ledger *t)
{
    struct etcd_call call = { .deadline_ms = in_ms(10000) };
    struct etcd_op look = { .kind = ETCD_RANGE, .key = ETCD_BYTES("x") };
    struct etcd_answer answer = { 0 };
    struct etcd *etcd = NULL;

    ASSERT_OK(etcd_open(&shared->config, &etcd, &t->err), &t->err);
    ASSERT_OK(etcd_do(etcd, &call, &look, &answer, &t->err), &t->err);
    ASSERT_OK(etcd_compact(etcd, &call, answer.revision, &t->err), &t->err);
    etcd_answer_done(&answer);
    etcd_close(etcd);
}

/* The watch stood still while changes were made and compacted. */
static void a_host_that_missed_a_compaction_reads_everything_again(void **state)
{
    struct t_ledger *t = *state;
    dibs_claim out = { 0 };
    struct relay relay;

    NEED_ETCD();
    relay_open(&relay, shared->client[0]);
    struct ledger *a = through(t, &relay, 10000);
    struct ledger *b = host(t, "b");
    make_pool(t, a, "everywhere", (dibs_range){ 31000, 31010 });
    ASSERT_OK(ledger_start_background(a, &t->err), &t->err);
    uint64_t before = ledger_take_notices(a);
    ASSERT_OK(claim_port(t, b, 31000, &out), &t->err);
    follow(a, before);
    before = ledger_take_notices(a);
    (void) relay_tell(&relay, 'c'); /* all connections are cut, and none is made */
    for (uint16_t port = 31001; port < 31006; port++)
        ASSERT_OK(claim_port(t, b, port, &out), &t->err);
    compact(t);
    (void) relay_tell(&relay, 'o');
    follow(a, before);
    assert_int_equal(claim_port(t, a, 31003, &out), DIBS_TAKEN);
    before = ledger_take_notices(a);
    ASSERT_OK(claim_port(t, b, 31007, &out), &t->err);
    follow(a, before); /* the watch goes on behind that */
    assert_int_equal(count_claims(t, a), 7);
    ledger_close(a);
    ledger_close(b);
    relay_close(&relay);
}

/* Its member stops, or is wrong: nothing reports that there were changes. */
static void a_copy_that_hears_nothing_is_not_believed_for_long(void **state)
{
    struct t_ledger *t = *state;
    const uint16_t ports[] = { 31000 };
    struct ledger_want want = t_dynamic(NULL, ports, 1);
    struct relay relay;

    NEED_ETCD();
    relay_open(&relay, shared->client[0]);
    struct ledger *a = through(t, &relay, 10000);
    struct ledger *b = host(t, "b");
    make_pool(t, a, "everywhere", (dibs_range){ 31000, 31010 });
    ASSERT_OK(ledger_start_background(a, &t->err), &t->err);
    uint64_t before = ledger_take_notices(a);
    dibs_claim theirs = must_claim(t, b, &want);
    follow(a, before);
    (void) relay_tell(&relay, 'd');
    struct ledger_seen seen = t_seen(&theirs);
    ASSERT_OK(
        ledger_end(b, T_CALL(t, b), &(struct ledger_ending){ &seen, 1, LEDGER_END_RELEASE }, NULL, &t->err),
        &t->err);
    want.accepts_cooling = true;
    dibs_claim out = { 0 };
    UNTIL(try_claim(t, a, &want, &out) == DIBS_OK); /* after a silence of the watch it reads again */
    assert_int_equal(out.port, 31000);
    ledger_close(a);
    ledger_close(b);
    relay_close(&relay);
}

/* ---- spoilt answers, no space ---- */

static void spoilt_answers_make_no_wrong_claim(void **state)
{
    struct t_ledger *t = *state;
    dibs_status answered[SPOILT] = { 0 };
    bool is_unsure[SPOILT] = { 0 };
    dibs_claim out = { 0 };
    unsigned seed = unruly_seed();
    struct etcd_config config = { 0 };
    char uri[128] = "";
    struct ledger *a = NULL;
    size_t n_done = 0;

    NEED_ETCD();
    pid_t proxy = unruly_start(shared, &config, seed);
    (void) snprintf(uri, sizeof uri, "etcd:%s%s", strchr(config.origin[0], ':') + 1, strrchr(t->uri, '/'));
    const struct ledger_options options = { .timeout_ms = 3000, .node = "a" };
    for (int i = 0; i < 20 && !a; i++)
        (void) ledger_open(uri, &options, &a, &t->err);
    assert_non_null(a);
    for (size_t i = 0; i < SPOILT; i++) {
        int64_t begun_ms = clock_monotonic_ms();

        answered[i] = claim_port(t, a, (uint16_t) (FIRST + i), &out);
        is_unsure[i] = answered[i] != DIBS_OK && strstr(t->err.msg, "may have been done");
        if (answered[i] != DIBS_OK && answered[i] != DIBS_UNAVAILABLE)
            fail_msg("port %zu: %s", FIRST + i, t->err.msg);
        assert_true(clock_monotonic_ms() - begun_ms < 3000 + DECIDE_MS + STALL_MS);
        n_done += answered[i] == DIBS_OK;
    }
    ledger_close(a);
    child_end(proxy);
    struct ledger *b = host(t, "a");
    for (size_t i = 0; i < SPOILT; i++)
        if (!is_unsure[i] && is_held(t, b, (uint16_t) (FIRST + i)) != (answered[i] == DIBS_OK))
            fail_msg("DIBS_TEST_SEED=%u: port %zu was reported as %s", seed, FIRST + i,
                     answered[i] == DIBS_OK ? "claimed" : "not claimed");
    print_message("%zu of %d done\n", n_done, SPOILT);
    assert_true(n_done > SPOILT / 2);
    ledger_close(b);
}

static void without_space_claims_fail_at_once_and_what_is_held_stays(void **state)
{
    static const char *const flags[] = { "--quota-backend-bytes", "2000000", NULL };
    struct t_ledger *t = *state;
    dibs_claim out = { 0 };
    char uri[sizeof t->uri] = "";
    dibs_status s = DIBS_OK;

    NEED_ETCD();
    struct cluster *small = cluster_open(1, false, flags);
    cluster_wait(&small->config);
    cluster_url(small, "/t", uri, sizeof uri);
    const struct ledger_options options = { .timeout_ms = 2 * STALL_MS, .node = "a" };
    struct ledger *a = NULL;
    ASSERT_OK(ledger_open(uri, &options, &a, &t->err), &t->err);
    ASSERT_OK(claim_port(t, a, FIRST, &out), &t->err);
    static char filler[200000];
    struct etcd *etcd = NULL;
    ASSERT_OK(etcd_open(&small->config, &etcd, &t->err), &t->err);
    for (int i = 0; i < 40 && s == DIBS_OK; i++) {
        struct etcd_call call = { .deadline_ms = in_ms(10000) };
        struct etcd_op put = { .kind = ETCD_PUT,
                               .key = ETCD_BYTES("filler"),
                               .value = { filler, sizeof filler } };
        struct etcd_answer answer = { 0 };

        s = etcd_do(etcd, &call, &put, &answer, &t->err);
        etcd_answer_done(&answer);
    }
    assert_int_not_equal(s, DIBS_OK);
    int64_t begun_ms = clock_monotonic_ms();
    assert_int_equal(claim_port(t, a, FIRST + 1, &out), DIBS_UNAVAILABLE);
    assert_true(clock_monotonic_ms() - begun_ms < STALL_MS);
    assert_non_null(strstr(t->err.msg, "space"));
    assert_int_equal(count_claims(t, a), 1);
    assert_int_equal(claim_port(t, a, FIRST, &out), DIBS_TAKEN);
    etcd_close(etcd);
    ledger_close(a);
    cluster_close(small);
}

/* ---- damage ---- */

static void put_value(struct t_ledger *t, const char *rest, const void *value, size_t n)
{
    struct etcd_call call = { .deadline_ms = in_ms(10000) };
    struct etcd_answer answer = { 0 };
    struct etcd *etcd = NULL;
    char key[128] = "";

    (void) snprintf(key, sizeof key, "%s%s", strrchr(t->uri, '/'), rest);
    struct etcd_op put = { .kind = ETCD_PUT, .key = ETCD_BYTES(key), .value = { value, n } };
    ASSERT_OK(etcd_open(&shared->config, &etcd, &t->err), &t->err);
    ASSERT_OK(etcd_do(etcd, &call, &put, &answer, &t->err), &t->err);
    etcd_answer_done(&answer);
    etcd_close(etcd);
}

static void a_damaged_block_is_blocked_and_harms_no_other(void **state)
{
    struct t_ledger *t = *state;
    dibs_claim out = { 0 };

    NEED_ETCD();
    struct ledger *a = host(t, "a");
    ASSERT_OK(claim_port(t, a, FIRST, &out), &t->err);
    put_value(t, "/h/a/b/0180", "rubbish", 7); /* 24576-24639 */
    put_value(t, "/h/a/s/0000000000000001", "rubbish", 7);
    struct ledger *b = host(t, "a");
    assert_int_equal(claim_port(t, b, 24600, &out), DIBS_TAKEN);
    assert_true(t->refusal.blocker.is_damaged);
    assert_int_equal(claim_port(t, b, 24639, &out), DIBS_TAKEN);
    ASSERT_OK(claim_port(t, b, 24640, &out), &t->err);
    ASSERT_OK(claim_port(t, b, FIRST + 1, &out), &t->err);
    assert_int_equal(count_claims(t, b), 3 + 64);
    ledger_close(a);
    ledger_close(b);
}

static void a_claim_whose_name_is_damaged_still_has_it(void **state)
{
    struct t_ledger *t = *state;
    const uint16_t ports[] = { FIRST };
    struct ledger_want want = t_dynamic("web", ports, 1);
    dibs_claim found = { 0 };

    NEED_ETCD();
    struct ledger *a = host(t, "a");
    dibs_claim first = must_claim(t, a, &want);
    const char name[] = "uid:1000\0web";
    struct etcdstore_key key = etcdstore_key(store(a), SPACE_HOST, 'n');
    etcdstore_key_add(&key, name, sizeof name - 1);
    struct etcd_call call = { .deadline_ms = in_ms(10000) };
    struct etcd_answer answer = { 0 };
    struct etcd_op put = { .kind = ETCD_PUT, .key = etcdstore_key_bytes(&key), .value = { "?", 1 } };
    ASSERT_OK(etcd_do(store(a)->etcd, &call, &put, &answer, &t->err), &t->err);
    etcd_answer_done(&answer);
    struct ledger *b = host(t, "a");
    ASSERT_OK(ledger_find_name(b, T_CALL(t, b), "web", &found, NULL, &t->err), &t->err);
    assert_int_equal(found.id, first.id);
    ledger_close(a);
    ledger_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_commit_whose_answer_is_lost_is_found_to_be_done),
        CASE(a_request_that_is_lost_is_found_to_be_not_done_and_made_again),
        CASE(a_commit_that_comes_after_the_decision_comes_to_nothing),
        CASE(a_commit_that_another_one_hides_is_reported_as_unknown),
        CASE(a_member_that_stops_with_a_commit_inside_keeps_the_deadline),
        CASE(a_request_after_one_that_timed_out_fails_at_once),
        CASE(changes_of_others_before_our_commit_are_not_overwritten),
        CASE(a_name_that_another_host_has_taken_is_not_forgotten),
        CASE(a_host_that_missed_a_compaction_reads_everything_again),
        CASE(a_copy_that_hears_nothing_is_not_believed_for_long),
        CASE(spoilt_answers_make_no_wrong_claim),
        CASE(without_space_claims_fail_at_once_and_what_is_held_stays),
        CASE(a_damaged_block_is_blocked_and_harms_no_other),
        CASE(a_claim_whose_name_is_damaged_still_has_it),
    };
    return cmocka_run_group_tests(tests, shared_open_one, shared_close);
}
