/* SPDX-License-Identifier: MIT */
/* Several calls in one transaction, and batches that are asked for again with their key. */
#include "support/ledger.h"

static struct ledger_want want_port(const uint16_t *port, const char *name)
{
    struct ledger_want want = t_want(name, "*");

    want.candidates = port;
    want.n_candidates = 1;
    return want;
}

static dibs_status ask(struct t_ledger *t, const struct ledger_want *wants, size_t n,
                       const struct ledger_key *key, dibs_claim *out)
{
    struct ledger_batch batch = { .key = key, .wants = wants, .n = n };

    return ledger_claim(t->ledger, &t->call, &batch, out, &t->refusal, &t->err);
}

static bool count_one(void *ctx, const dibs_claim *claim)
{
    (void) claim;
    ++*(size_t *) ctx;
    return true;
}

static size_t count_claims(struct t_ledger *t)
{
    size_t n = 0;

    ASSERT_OK(ledger_list(t->ledger, &t->call, &(struct ledger_filter){ 0 }, count_one, &n, &t->err),
              &t->err);
    return n;
}

static void calls_of_a_group_are_committed_together(void **state)
{
    static const uint16_t ports[] = { 20001, 20002 };
    struct t_ledger *t = *state;
    struct ledger_want one = want_port(&ports[0], "g/one");
    struct ledger_want two = want_port(&ports[1], "g/two");
    struct ledger_span span = { 0 };
    dibs_claim claim;
    size_t n = 0;

    t_begin(t, t->ledger);
    ASSERT_OK(ask(t, &one, 1, NULL, &claim), &t->err);
    ASSERT_OK(ask(t, &two, 1, NULL, &claim), &t->err);
    struct ledger_seen seen = { claim.id, claim.generation, claim.lease_until_ms };
    ASSERT_OK(
        ledger_end(t->ledger, &t->call, &(struct ledger_ending){ &seen, 1, LEDGER_END_RELEASE }, &n, &t->err),
        &t->err);
    assert_int_equal(n, 1);
    assert_int_equal(count_claims(t), 1); /* the group sees what it did */
    ASSERT_OK(t_commit(t, &span), &t->err);
    assert_int_equal(span.before, 0);
    assert_int_equal(span.after, 3);
    assert_int_equal(count_claims(t), 1);
    ASSERT_OK(ledger_find_name(t->ledger, &t->call, "g/one", &claim, NULL, &t->err), &t->err);
}

static void a_call_that_is_refused_leaves_the_others_of_its_group(void **state)
{
    static const uint16_t ports[] = { 20001, 20002, 20003 };
    struct t_ledger *t = *state;
    struct ledger_want first = want_port(&ports[0], "g/one");
    struct ledger_want again = want_port(&ports[0], "g/two");
    struct ledger_want both[] = { want_port(&ports[1], "g/three"), want_port(&ports[0], "g/four") };
    struct ledger_want last = want_port(&ports[2], "g/five");
    struct ledger_span span = { 0 };
    dibs_claim claims[2];

    t_begin(t, t->ledger);
    ASSERT_OK(ask(t, &first, 1, NULL, claims), &t->err);
    assert_int_equal(ask(t, &again, 1, NULL, claims), DIBS_TAKEN);
    assert_int_equal(ask(t, both, 2, NULL, claims), DIBS_TAKEN); /* after it has written its first */
    ASSERT_OK(ask(t, &last, 1, NULL, claims), &t->err);
    ASSERT_OK(t_commit(t, &span), &t->err);
    assert_int_equal(span.after, 2);
    assert_int_equal(count_claims(t), 2);
    assert_int_equal(ledger_find_name(t->ledger, &t->call, "g/three", claims, NULL, &t->err), DIBS_NOT_FOUND);
}

static enum ledger_probe busy(void *ctx, const dibs_claim *claim, uint16_t port, dibs_err *err)
{
    (void) ctx;
    (void) claim;
    (void) port;
    (void) err;
    return LEDGER_PROBE_BUSY;
}

static void a_name_that_finds_no_port_after_its_holders_death_leaves_the_others_of_its_group(void **state)
{
    static const uint16_t ports[] = { 20001, 20002 };
    struct t_ledger *t = *state;
    struct ledger_want want = want_port(&ports[0], "g/one");
    struct ledger_want other = want_port(&ports[1], "g/two");
    dibs_claim claim = { 0 };

    t_by_process(&want, 500);
    claim = t_must(t, &want, 0);
    struct ledger_seen dead = t_seen(&claim);
    t_by_process(&want, 600);
    struct ledger_batch batch = { .wants = &want, .n = 1, .dead = &dead, .n_dead = 1, .probe = busy };

    t_begin(t, t->ledger);
    ASSERT_OK(ask(t, &other, 1, NULL, &claim), &t->err);
    assert_int_equal(ledger_claim(t->ledger, &t->call, &batch, &claim, &t->refusal, &t->err), DIBS_TAKEN);
    ASSERT_OK(t_commit(t, NULL), &t->err);
    assert_int_equal(count_claims(t), 2); /* the dead one's is as it was */
    ASSERT_OK(ledger_find_name(t->ledger, &t->call, "g/one", &claim, NULL, &t->err), &t->err);
    assert_int_equal(claim.process.pid, 500);
}

static void a_user_at_the_quota_is_refused_alone(void **state)
{
    static const uint16_t ports[] = { 20001, 20002, 20003 };
    struct t_ledger *t = *state;
    struct ledger_want one = want_port(&ports[0], "g/one");
    struct ledger_want two = want_port(&ports[1], "g/two");
    struct ledger_want three = want_port(&ports[2], "g/three");
    struct ledger_allowance allowance = { .n = 7, .max = 8 };
    const struct ledger_key key = { "once", 1 };
    dibs_claim claim;
    dibs_claim again;
    size_t n = 0;

    t->call.allowance = &allowance;
    t_begin(t, t->ledger);
    ASSERT_OK(ask(t, &one, 1, &key, &claim), &t->err);
    assert_int_equal(allowance.n, 8);
    assert_int_equal(ask(t, &two, 1, NULL, &again), DIBS_EXHAUSTED);
    assert_true(t->refusal.is_beyond);
    assert_string_equal(t->err.msg, "uid:1000 has 8 claims here, and may have 8: release some first");
    ASSERT_OK(ask(t, &one, 1, &key, &again), &t->err); /* which is no more */
    ASSERT_OK(ask(t, &one, 1, NULL, &again), &t->err);
    assert_int_equal(again.id, claim.id);
    t->call.allowance = NULL;
    ASSERT_OK(ask(t, &three, 1, NULL, &again), &t->err);
    t->call.allowance = &allowance;
    struct ledger_seen seen = { again.id, again.generation, again.lease_until_ms };
    ASSERT_OK(
        ledger_end(t->ledger, &t->call, &(struct ledger_ending){ &seen, 1, LEDGER_END_RELEASE }, &n, &t->err),
        &t->err);
    assert_int_equal(allowance.n, 7);
    ASSERT_OK(ask(t, &two, 1, NULL, &again), &t->err);
    ASSERT_OK(t_commit(t, NULL), &t->err);
    assert_int_equal(count_claims(t), 2);
}

static void a_dry_run_in_a_group_leaves_nothing(void **state)
{
    static const uint16_t port = 20001;
    struct t_ledger *t = *state;
    struct ledger_want want = want_port(&port, "g/one");
    struct ledger_batch batch = { .wants = &want, .n = 1, .is_dry_run = true };
    dibs_claim claim;

    t_begin(t, t->ledger);
    ASSERT_OK(ledger_claim(t->ledger, &t->call, &batch, &claim, &t->refusal, &t->err), &t->err);
    ASSERT_OK(t_commit(t, NULL), &t->err);
    assert_int_equal(count_claims(t), 0);
}

static void a_group_without_a_change_costs_nothing(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_span span = { .before = 7, .after = 7 };

    t_begin(t, t->ledger);
    assert_int_equal(count_claims(t), 0);
    ASSERT_OK(t_commit(t, &span), &t->err);
    assert_int_equal(span.after, 0);
}

static void a_claim_made_and_released_in_one_group_leaves_nothing(void **state)
{
    static const uint16_t port = 20001;
    struct t_ledger *t = *state;
    struct ledger_want want = want_port(&port, "g/one");
    dibs_claim claim = { 0 };
    size_t n = 0;

    t_begin(t, t->ledger);
    ASSERT_OK(ask(t, &want, 1, NULL, &claim), &t->err);
    struct ledger_seen seen = t_seen(&claim);
    struct sighting_record sighting = { .seen = seen };
    ASSERT_OK(ledger_sighted(t->ledger, &t->call, &sighting, 1, &t->err), &t->err);
    ASSERT_OK(ledger_not_leaked(t->ledger, &t->call, &seen.id, 1, &t->err), &t->err);
    ASSERT_OK(
        ledger_end(t->ledger, &t->call, &(struct ledger_ending){ &seen, 1, LEDGER_END_RELEASE }, &n, &t->err),
        &t->err);
    ASSERT_OK(t_commit(t, NULL), &t->err);
    assert_int_equal(count_claims(t), 0);
    ASSERT_OK(ledger_sighted(t->ledger, &t->call, &sighting, 1, &t->err), &t->err);
    assert_int_equal(sighting.count, 1);
}

static void a_key_gives_the_same_claims_again(void **state)
{
    static const uint16_t ports[] = { 20001, 20002, 20003, 20004 };
    struct t_ledger *t = *state;
    struct ledger_want wants[] = { t_dynamic("", ports, 4), t_dynamic("", ports, 4) };
    struct ledger_key key = { "job-1", 42 };
    dibs_claim first[2];
    dibs_claim second[2];
    dibs_claim other[2];

    ASSERT_OK(ask(t, wants, 2, &key, first), &t->err);
    ASSERT_OK(ask(t, wants, 2, &key, second), &t->err);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(first[i].port, second[i].port);
        assert_string_equal(first[i].token, second[i].token);
    }
    assert_int_equal(count_claims(t), 2);
    key.text = "job-2";
    ASSERT_OK(ask(t, wants, 2, &key, other), &t->err);
    assert_int_equal(count_claims(t), 4);
}

static void a_key_of_another_principal_is_another_key(void **state)
{
    static const uint16_t ports[] = { 20001, 20002 };
    struct t_ledger *t = *state;
    struct ledger_want want = t_dynamic("", ports, 2);
    struct ledger_key key = { "job-1", 42 };
    dibs_claim mine;
    dibs_claim theirs;

    ASSERT_OK(ask(t, &want, 1, &key, &mine), &t->err);
    t_of_other(&want);
    struct ledger_batch batch = { .key = &key, .wants = &want, .n = 1 };
    ASSERT_OK(ledger_claim(t->ledger, &t->other, &batch, &theirs, &t->refusal, &t->err), &t->err);
    assert_int_not_equal(mine.port, theirs.port);
}

static void a_key_for_something_else_is_refused(void **state)
{
    static const uint16_t port = 20001;
    struct t_ledger *t = *state;
    struct ledger_want want = want_port(&port, "g/one");
    struct ledger_key key = { "job-1", 42 };
    dibs_claim claim;

    ASSERT_OK(ask(t, &want, 1, &key, &claim), &t->err);
    key.digest = 43;
    assert_int_equal(ask(t, &want, 1, &key, &claim), DIBS_INVALID);
}

static void a_key_whose_claim_has_ended_makes_no_second_one(void **state)
{
    static const uint16_t port = 20001;
    struct t_ledger *t = *state;
    struct ledger_want want = want_port(&port, "");
    struct ledger_key key = { "job-1", 42 };
    struct ledger_ended ended;
    dibs_claim claim;

    ASSERT_OK(ask(t, &want, 1, &key, &claim), &t->err);
    ASSERT_OK(ledger_end_token(t->ledger, &t->call, claim.token, LEDGER_END_RELEASE, &ended, &t->err),
              &t->err);
    assert_int_equal(ask(t, &want, 1, &key, &claim), DIBS_NOT_FOUND);
    assert_int_equal(count_claims(t), 0);
}

static void a_refused_batch_leaves_its_key_free(void **state)
{
    static const uint16_t port = 20001;
    struct t_ledger *t = *state;
    struct ledger_want first = want_port(&port, "g/one");
    struct ledger_want want = want_port(&port, "g/two");
    struct ledger_key key = { "job-1", 42 };
    struct ledger_ended ended;
    dibs_claim holder;
    dibs_claim claim;

    ASSERT_OK(ask(t, &first, 1, NULL, &holder), &t->err);
    assert_int_equal(ask(t, &want, 1, &key, &claim), DIBS_TAKEN);
    ASSERT_OK(ledger_end_token(t->ledger, &t->call, holder.token, LEDGER_END_RELEASE, &ended, &t->err),
              &t->err);
    ASSERT_OK(ask(t, &want, 1, &key, &claim), &t->err);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, t_open, t_close)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(calls_of_a_group_are_committed_together),
        CASE(a_call_that_is_refused_leaves_the_others_of_its_group),
        CASE(a_name_that_finds_no_port_after_its_holders_death_leaves_the_others_of_its_group),
        CASE(a_user_at_the_quota_is_refused_alone),
        CASE(a_dry_run_in_a_group_leaves_nothing),
        CASE(a_group_without_a_change_costs_nothing),
        CASE(a_claim_made_and_released_in_one_group_leaves_nothing),
        CASE(a_key_gives_the_same_claims_again),
        CASE(a_key_of_another_principal_is_another_key),
        CASE(a_key_for_something_else_is_refused),
        CASE(a_key_whose_claim_has_ended_makes_no_second_one),
        CASE(a_refused_batch_leaves_its_key_free),
    };

    return t_backend(argc, argv) ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
