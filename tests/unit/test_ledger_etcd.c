/* SPDX-License-Identifier: MIT */
/* Faults that only a ledger in etcd can have: several hosts and processes at once, a copy that is not up to
 * date, answers that are lost. The rest is in tests/contract. */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/portbits.h"
#include "support/etcd_ledger.h"

static void hosts_have_their_own_ports_and_names(void **state)
{
    struct t_ledger *t = *state;
    const uint16_t ports[] = { 30000, 30001 };
    struct ledger_want want = t_want("web", "*");

    NEED_ETCD();
    struct ledger *a = host(t, "a");
    struct ledger *b = host(t, "b");
    want.candidates = ports;
    want.n_candidates = 1;
    dibs_claim first = must_claim(t, a, &want);
    dibs_claim second = must_claim(t, b, &want);
    assert_int_equal(first.port, second.port);
    assert_int_not_equal(first.id, second.id);
    struct ledger *again = host(t, "a");
    dibs_claim found = { 0 };
    ASSERT_OK(ledger_find_name(again, T_CALL(t, again), "web", &found, NULL, &t->err), &t->err);
    assert_int_equal(found.id, first.id);
    ledger_close(a);
    ledger_close(b);
    ledger_close(again);
}

static void a_cluster_pool_gives_a_port_to_one_host_only(void **state)
{
    struct t_ledger *t = *state;
    const uint16_t ports[] = { 31000, 31001 };
    struct ledger_want want = t_dynamic(NULL, ports, 2);
    dibs_claim out = { 0 };

    NEED_ETCD();
    struct ledger *a = host(t, "a");
    struct ledger *b = host(t, "b");
    make_pool(t, a, "everywhere", (dibs_range){ 31000, 31001 });
    dibs_claim first = must_claim(t, a, &want);
    dibs_claim second = must_claim(t, b, &want);
    assert_int_not_equal(first.port, second.port);
    assert_int_equal(try_claim(t, a, &want, &out), DIBS_EXHAUSTED);
    /* The holder is shown by user and host: it is not the user of that number here. */
    assert_true(t->refusal.has_blocker);
    assert_string_equal(t->refusal.blocker.principal, "uid:1000@b");
    struct ledger_seen seen = t_seen(&second);
    size_t n = 0;
    assert_int_equal(
        ledger_end(a, T_CALL(t, a), &(struct ledger_ending){ &seen, 1, LEDGER_END_RELEASE }, &n, &t->err),
        DIBS_DENIED);
    ASSERT_OK(
        ledger_end(b, T_CALL(t, b), &(struct ledger_ending){ &seen, 1, LEDGER_END_RELEASE }, &n, &t->err),
        &t->err);
    assert_int_equal(n, 1);
    ledger_close(a);
    ledger_close(b);
}

static void the_same_name_on_two_hosts_is_two_claims_of_a_cluster_pool(void **state)
{
    struct t_ledger *t = *state;
    const uint16_t ports[] = { 31000, 31001, 31002 };
    struct ledger_want want = t_dynamic("web", ports, 3);
    dibs_claim found = { 0 };

    NEED_ETCD();
    struct ledger *a = host(t, "a");
    struct ledger *b = host(t, "b");
    make_pool(t, a, "everywhere", (dibs_range){ 31000, 31002 });
    dibs_claim first = must_claim(t, a, &want);
    dibs_claim second = must_claim(t, b, &want);
    assert_int_not_equal(first.port, second.port);
    ASSERT_OK(ledger_find_name(a, T_CALL(t, a), "web", &found, NULL, &t->err), &t->err);
    assert_int_equal(found.id, first.id);
    ASSERT_OK(ledger_find_name(b, T_CALL(t, b), "web", &found, NULL, &t->err), &t->err);
    assert_int_equal(found.id, second.id);
    ledger_close(a);
    ledger_close(b);
}

/* One of them decides on what it knew before the other's change. */
static void a_transaction_that_lost_the_race_is_decided_again(void **state)
{
    struct t_ledger *t = *state;
    const uint16_t ports[] = { 31000, 31001 };
    struct ledger_want want = t_dynamic(NULL, ports, 2);

    NEED_ETCD();
    struct ledger *a = host(t, "a");
    struct ledger *b = host(t, "b");
    make_pool(t, a, "everywhere", (dibs_range){ 31000, 31001 });
    t_begin(t, a);
    dibs_claim lost = must_claim(t, a, &want); /* decided, and not committed yet */
    dibs_claim won = must_claim(t, b, &want);
    assert_int_equal(lost.port, won.port);
    assert_int_equal(t_commit(t, NULL), DIBS_UNAVAILABLE);
    assert_true(ledger_lost_race(a));
    assert_int_not_equal(must_claim(t, a, &want).port, won.port);
    ledger_close(a);
    ledger_close(b);
}

/* A host that has joined since is seen in the middle of a decision, not by its commit. */
static void a_group_that_loses_the_race_before_its_commit_is_decided_again(void **state)
{
    struct t_ledger *t = *state;
    const uint16_t ports[] = { 30000 };
    struct ledger_want want = t_dynamic(NULL, ports, 1);
    dibs_pool pool = { .name = "late",
                       .scope = DIBS_SCOPE_CLUSTER,
                       .order = "stride",
                       .ranges = { .item = { { 31000, 31010 } }, .n = 1 } };

    NEED_ETCD();
    struct ledger *a = host(t, "a");
    (void) must_claim(t, a, &want);
    t_begin(t, a);
    want.candidates = &(uint16_t){ 30001 };
    (void) must_claim(t, a, &want); /* from here on it decides by what it knows */
    struct ledger *b = host(t, "b");
    (void) must_claim(t, b, &want); /* which joins by that */
    assert_int_equal(ledger_pool_put(a, T_CALL(t, a), &pool, &t->err), DIBS_UNAVAILABLE);
    assert_int_equal(t_commit(t, NULL), DIBS_UNAVAILABLE);
    assert_true(ledger_lost_race(a));
    ASSERT_OK(ledger_pool_put(a, T_CALL(t, a), &pool, &t->err), &t->err);
    ledger_close(a);
    ledger_close(b);
}

static void a_watching_host_sees_the_changes_of_others(void **state)
{
    struct t_ledger *t = *state;
    const uint16_t ports[] = { 31000 };
    struct ledger_want want = t_dynamic(NULL, ports, 1);
    dibs_claim out = { 0 };

    NEED_ETCD();
    struct ledger *a = host(t, "a");
    struct ledger *b = host(t, "b");
    make_pool(t, a, "everywhere", (dibs_range){ 31000, 31001 });
    ASSERT_OK(ledger_start_background(b, &t->err), &t->err);
    uint64_t before = ledger_take_notices(b);
    struct portbits changed;
    (void) ledger_changed_elsewhere(b, &changed);
    dibs_claim theirs = must_claim(t, a, &want);
    follow(b, before);
    assert_true(ledger_changed_elsewhere(b, &changed)); /* a block, and nothing else */
    assert_int_equal(portbits_count(&changed), 64);
    assert_true(portbits_has(&changed, 31000));
    assert_true(ledger_changed_elsewhere(b, &changed));
    assert_int_equal(portbits_count(&changed), 0);
    assert_int_equal(try_claim(t, b, &want, &out), DIBS_EXHAUSTED);
    struct ledger_seen seen = t_seen(&theirs);
    before = ledger_take_notices(b);
    ASSERT_OK(
        ledger_end(a, T_CALL(t, a), &(struct ledger_ending){ &seen, 1, LEDGER_END_RELEASE }, NULL, &t->err),
        &t->err);
    follow(b, before);
    want.accepts_cooling = true;
    assert_int_equal(must_claim(t, b, &want).port, 31000);
    ledger_close(a);
    ledger_close(b);
}

static bool count_one(void *ctx, const dibs_claim *claim)
{
    (void) claim;
    (*(size_t *) ctx)++;
    return true;
}

static void revalidation_sees_changes_before_the_watch_reports_them(void **state)
{
    struct t_ledger *t = *state;

    NEED_ETCD();
    struct ledger *a = host(t, "a");
    struct ledger *b = host(t, "b");
    make_pool(t, a, "everywhere", (dibs_range){ 31000, 31063 });
    ASSERT_OK(ledger_start_background(b, &t->err), &t->err);
    for (uint16_t i = 0; i < 40; i++) { /* without it some of these would be missed */
        const uint16_t port = (uint16_t) (31000 + i);
        struct ledger_want want = t_dynamic(NULL, &port, 1);

        (void) must_claim(t, a, &want);
        ledger_revalidate(b);
        size_t n = 0;
        ASSERT_OK(ledger_list(b, T_CALL(t, b), &(struct ledger_filter){ 0 }, count_one, &n, &t->err),
                  &t->err);
        assert_int_equal(n, i + 1);
    }
    ledger_close(a);
    ledger_close(b);
}

static void processes_of_one_host_share_its_history(void **state)
{
    struct t_ledger *t = *state;
    struct ledger *handles[4];
    uint64_t seq = 0;
    uint64_t cursor = 0;

    NEED_ETCD();
    for (size_t i = 0; i < 4; i++)
        handles[i] = host(t, "a");
    ASSERT_OK(ledger_start_background(handles[0], &t->err), &t->err);
    for (uint16_t i = 0; i < 40; i++) {
        const uint16_t port = (uint16_t) (30000 + i);
        struct ledger_want want = t_want(NULL, "*");

        want.candidates = &port;
        want.n_candidates = 1;
        (void) must_claim(t, handles[i % 4], &want);
    }
    ASSERT_OK(ledger_tail(handles[3], T_CALL(t, handles[3]), &seq, &cursor, &t->err), &t->err);
    assert_int_equal(seq, 40);
    struct t_events events = { 0 };
    ASSERT_OK(ledger_events(handles[1], T_CALL(t, handles[1]), &(struct ledger_feed){ { 0, 0, false }, NULL },
                            t_note_event, &events, &t->err),
              &t->err);
    assert_int_equal(events.n, 40);
    for (size_t i = 0; i < 40; i++)
        assert_int_equal(events.item[i].seq, i + 1);
    for (size_t i = 0; i < 4; i++)
        ledger_close(handles[i]);
}

static size_t count_keys(const char *prefix)
{
    struct etcd_call call = { .deadline_ms = in_ms(10000) };
    struct etcd_answer answer = { 0 };
    struct etcd *etcd = NULL;
    char end[64] = "";
    dibs_err err = { 0 };
    struct etcd_op look = { .kind = ETCD_RANGE, .key = ETCD_BYTES(prefix), .is_count_only = true };

    look.end = etcd_prefix_end(look.key, end);
    ASSERT_OK(etcd_open(&shared->config, &etcd, &err), &err);
    ASSERT_OK(etcd_do(etcd, &call, &look, &answer, &err), &err);
    size_t n = (size_t) answer.result.count;
    etcd_answer_done(&answer);
    etcd_close(etcd);
    return n;
}

static void two_that_follow_for_one_host_know_what_the_other_did(void **state)
{
    const uint16_t port = 30000;
    struct t_ledger *t = *state;
    struct ledger *twins[2];
    uint64_t seq = 0;
    uint64_t cursor = 0;

    NEED_ETCD();
    for (size_t i = 0; i < 2; i++) {
        twins[i] = host(t, "a");
        ASSERT_OK(ledger_start_background(twins[i], &t->err), &t->err);
    }
    for (size_t i = 0; i < 20; i++) {
        struct ledger_want want = t_dynamic("web", &port, 1);
        dibs_claim out = { 0 };

        want.accepts_cooling = true;
        ledger_revalidate(twins[i % 2]);
        dibs_claim made = must_claim(t, twins[i % 2], &want);
        (void) snprintf(want.claim.name, sizeof want.claim.name, "other");
        ledger_revalidate(twins[1 - i % 2]);
        assert_int_equal(try_claim(t, twins[1 - i % 2], &want, &out), DIBS_EXHAUSTED);
        struct ledger_seen seen = t_seen(&made);
        size_t ended = 0;
        ASSERT_OK(ledger_end(twins[1 - i % 2], T_CALL(t, twins[1 - i % 2]),
                             &(struct ledger_ending){ &seen, 1, LEDGER_END_RELEASE }, &ended, &t->err),
                  &t->err);
        assert_int_equal(ended, 1);
    }
    for (size_t i = 0; i < 2; i++) {
        ledger_revalidate(twins[i]);
        ASSERT_OK(ledger_tail(twins[i], T_CALL(t, twins[i]), &seq, &cursor, &t->err), &t->err);
        assert_int_equal(seq, 40);
        struct t_events events = { 0 };
        ASSERT_OK(ledger_events(twins[i], T_CALL(t, twins[i]), &(struct ledger_feed){ { 0, 0, false }, NULL },
                                t_note_event, &events, &t->err),
                  &t->err);
        assert_int_equal(events.n, 40);
        for (size_t k = 0; k < 40; k++)
            assert_int_equal(events.item[k].seq, k + 1);
    }
    for (size_t i = 0; i < 2; i++) {
        ledger_close(twins[i]);
    }
}

/* The ledger remembers the answer to a batch with a key for some thousand events. */
static void answers_to_keys_do_not_pile_up(void **state)
{
    enum { BATCH = 2048, ROUNDS = 5 };
    struct t_ledger *t = *state;
    struct ledger_want *wants = calloc(BATCH, sizeof *wants);
    uint16_t *ports = calloc(BATCH, sizeof *ports);
    dibs_claim *out = calloc(BATCH, sizeof *out);
    struct ledger_seen *seen = calloc(BATCH, sizeof *seen);
    struct ledger_key key = { .digest = 1 };
    struct ledger_batch batch = { .wants = wants, .n = BATCH, .key = &key };
    char keys[64] = "";

    NEED_ETCD();
    assert_true(wants && ports && out && seen);
    struct ledger *a = host(t, "a");
    for (int round = 0; round < ROUNDS; round++) {
        char text[16] = "";

        (void) snprintf(text, sizeof text, "job-%d", round);
        key.text = text;
        for (size_t i = 0; i < BATCH; i++) {
            ports[i] = (uint16_t) (20000 + i);
            wants[i] = t_want(NULL, "127.0.0.1");
            wants[i].candidates = &ports[i];
            wants[i].n_candidates = 1;
        }
        ASSERT_OK(ledger_claim(a, T_CALL(t, a), &batch, out, &t->refusal, &t->err), &t->err);
        for (size_t i = 0; i < BATCH; i++)
            seen[i] = t_seen(&out[i]);
        ASSERT_OK(ledger_end(a, T_CALL(t, a), &(struct ledger_ending){ seen, BATCH, LEDGER_END_RELEASE },
                             NULL, &t->err),
                  &t->err);
    }
    (void) snprintf(keys, sizeof keys, "%s/h/a/k/", strrchr(t->uri, '/'));
    assert_in_range(count_keys(keys), 1, (ROUNDS - 1) * BATCH);
    ledger_close(a);
    free(wants);
    free(ports);
    free(out);
    free(seen);
}

/* 10,000 hosts with 100,000 events each would fill any etcd. */
static void the_history_of_a_host_stays_small(void **state)
{
    enum { N = 1500 };
    struct t_ledger *t = *state;
    struct ledger_want *wants = calloc(N, sizeof *wants);
    uint16_t *ports = calloc(N, sizeof *ports);
    struct ledger_seen *seen = calloc(N, sizeof *seen);
    dibs_claim *out = calloc(N, sizeof *out);
    uint64_t seq = 0;
    uint64_t cursor = 0;
    uint64_t oldest = 0;

    NEED_ETCD();
    assert_true(wants && ports && seen && out);
    struct ledger *a = host(t, "a");
    for (uint16_t i = 0; i < N; i++) {
        ports[i] = (uint16_t) (30000 + i);
        wants[i] = t_dynamic(NULL, &ports[i], 1);
    }
    for (int round = 0; round < 2; round++) {
        const struct ledger_batch batch = { .wants = wants, .n = N };

        for (size_t i = 0; i < N; i++)
            wants[i].accepts_cooling = true;
        ASSERT_OK(ledger_claim(a, T_CALL(t, a), &batch, out, &t->refusal, &t->err), &t->err);
        for (size_t i = 0; i < N; i++)
            seen[i] = t_seen(&out[i]);
        ASSERT_OK(ledger_end(a, T_CALL(t, a), &(struct ledger_ending){ seen, N, LEDGER_END_RELEASE }, NULL,
                             &t->err),
                  &t->err);
    }
    ASSERT_OK(ledger_upkeep(a, T_CALL(t, a), NULL, &t->err), &t->err);
    ASSERT_OK(ledger_tail(a, T_CALL(t, a), &seq, &cursor, &t->err), &t->err);
    assert_int_equal(seq, 4 * N);
    struct t_events events = { 0 };
    ASSERT_OK(ledger_events(a, T_CALL(t, a), &(struct ledger_feed){ { 0, 0, false }, &oldest }, t_note_event,
                            &events, &t->err),
              &t->err);
    assert_int_equal(events.n, DIBS_EVENTS_KEPT_SHARED);
    assert_int_equal(oldest, seq - DIBS_EVENTS_KEPT_SHARED + 1);
    ledger_close(a);
    free(wants);
    free(ports);
    free(seen);
    free(out);
}

static void a_newer_format_is_refused_untouched(void **state)
{
    struct t_ledger *t = *state;
    const struct ledger_options options = { .timeout_ms = 10000, .node = "a" };
    struct ledger *ledger = NULL;
    struct etcd *etcd = NULL;
    struct etcd_call call = { .deadline_ms = in_ms(10000) };
    struct etcd_answer answer = { 0 };
    char key[64] = "";

    NEED_ETCD();
    (void) snprintf(key, sizeof key, "%s/c/v/", strrchr(t->uri, '/'));
    struct etcd_op put = { .kind = ETCD_PUT, .key = ETCD_BYTES(key), .value = { "\1\4\7", 3 } };
    ASSERT_OK(etcd_open(&shared->config, &etcd, &t->err), &t->err);
    ASSERT_OK(etcd_do(etcd, &call, &put, &answer, &t->err), &t->err);
    etcd_answer_done(&answer);
    assert_int_equal(ledger_open(t->uri, &options, &ledger, &t->err), DIBS_UNAVAILABLE);
    assert_int_equal(t->err.trouble, DIBS_TROUBLE_NEWER);
    put.value = (struct etcd_bytes){ "x", 1 };
    ASSERT_OK(etcd_do(etcd, &call, &put, &answer, &t->err), &t->err);
    etcd_answer_done(&answer);
    assert_int_equal(ledger_open(t->uri, &options, &ledger, &t->err), DIBS_UNAVAILABLE);
    assert_int_equal(t->err.trouble, DIBS_TROUBLE_DAMAGED);
    etcd_close(etcd);
}

static void a_host_needs_a_name_that_can_stand_in_a_key(void **state)
{
    static const char *const wrong[] = {
        "", "a/", "/b", "a/b/c", "a@b", "a b", "a-name-that-is-longer-than-fifty-one-bytes-is-too-much"
    };
    struct t_ledger *t = *state;
    struct ledger *ledger = NULL;

    NEED_ETCD();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const struct ledger_options options = { .timeout_ms = 10000, .node = wrong[i] };

        assert_int_equal(ledger_open(t->uri, &options, &ledger, &t->err), DIBS_INVALID);
        assert_non_null(strstr(t->err.msg, "set 'node'"));
    }
}

/* A webhook or controller of a host is a node of its own: neither sees or changes the other's records. */
static void a_part_of_a_host_is_a_node_of_its_own(void **state)
{
    struct t_ledger *t = *state;
    const uint16_t ports[] = { 31500 };
    struct ledger_want want = t_dynamic("web", ports, 1);
    uint64_t seq = 0;
    uint64_t cursor = 0;

    NEED_ETCD();
    struct ledger *a = host(t, "a");
    struct ledger *part = host(t, "a/webhook-8443");
    (void) must_claim(t, part, &want);
    (void) must_claim(t, a, &want);
    ledger_close(a);
    a = host(t, "a");
    ASSERT_OK(ledger_tail(a, T_CALL(t, a), &seq, &cursor, &t->err), &t->err);
    assert_int_equal(seq, 1);
    ledger_close(a);
    ledger_close(part);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(hosts_have_their_own_ports_and_names),
        CASE(a_cluster_pool_gives_a_port_to_one_host_only),
        CASE(the_same_name_on_two_hosts_is_two_claims_of_a_cluster_pool),
        CASE(a_transaction_that_lost_the_race_is_decided_again),
        CASE(a_group_that_loses_the_race_before_its_commit_is_decided_again),
        CASE(a_watching_host_sees_the_changes_of_others),
        CASE(revalidation_sees_changes_before_the_watch_reports_them),
        CASE(processes_of_one_host_share_its_history),
        CASE(two_that_follow_for_one_host_know_what_the_other_did),
        CASE(answers_to_keys_do_not_pile_up),
        CASE(the_history_of_a_host_stays_small),
        CASE(a_newer_format_is_refused_untouched),
        CASE(a_host_needs_a_name_that_can_stand_in_a_key),
        CASE(a_part_of_a_host_is_a_node_of_its_own),
    };
    return cmocka_run_group_tests(tests, shared_open_one, shared_close);
}
