/* SPDX-License-Identifier: MIT */
/* The promises of every ledger about existing claims: ending, rights, tokens, leases. */
#include "ledger/step.h"
#include "support/ledger.h"

static void releasing_twice_is_fine_and_frees_once(void **state) /* seeds 20; INV-3 */
{
    struct t_ledger *t = *state;
    struct ledger_want mine = t_want(NULL, "*");
    struct ledger_want theirs = t_want(NULL, "*");
    dibs_claim got = t_must(t, &mine, 26005);

    t_of_other(&theirs);
    assert_int_equal(t_end(t, &got, LEDGER_END_RELEASE), 1);
    dibs_claim next = t_must(t, &theirs, 26005);
    uint64_t tail = t_tail(t);
    assert_int_equal(t_end(t, &got, LEDGER_END_RELEASE), 0); /* W1, W2: the second one touches nothing */
    assert_int_equal(t_tail(t), tail);
    assert_int_equal(t_list(t, (struct ledger_filter){ .port = 26005 }).last.id, next.id);
}

static void an_old_token_finds_nothing_after_a_transfer(void **state) /* INV-3 */
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want("shop/web", "*");
    dibs_claim first = t_must(t, &want, 26005);
    dibs_claim heir = want.claim;
    dibs_claim got = { 0 };
    dibs_claim found = { 0 };

    heir.holder = DIBS_HELD_BY_PROCESS;
    heir.process.pid = 900;
    ASSERT_OK(ledger_transfer(t->ledger, &t->call, t_seen(&first), &heir, &got, &t->err), &t->err);
    assert_int_equal(got.generation, first.generation + 1);
    assert_int_equal(got.process.pid, 900);
    assert_int_equal(t_end(t, &first, LEDGER_END_RELEASE), 0);
    assert_int_equal(ledger_find_token(t->ledger, &t->call, first.token, &found, &t->err), DIBS_NOT_FOUND);
    assert_int_equal(ledger_renew(t->ledger, &t->call, t_seen(&first), 1000, &found, &t->err),
                     DIBS_NOT_FOUND);
    assert_int_equal(ledger_transfer(t->ledger, &t->call, t_seen(&first), &heir, &found, &t->err),
                     DIBS_NOT_FOUND);
    ASSERT_OK(ledger_find_token(t->ledger, &t->call, got.token, &found, &t->err), &t->err);
    assert_int_equal(found.id, first.id);
}

static void a_token_with_a_wrong_secret_finds_nothing(void **state)
{
    static const char *const bad[] = { "", "1", "1.1", "1.1.", "x.1.00" };
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    dibs_claim got = t_must(t, &want, 26005);
    dibs_claim found = { .port = 7 };
    char *last = &got.token[strlen(got.token) - 1];

    *last = *last == '0' ? '1' : '0';
    assert_int_equal(ledger_find_token(t->ledger, &t->call, got.token, &found, &t->err), DIBS_NOT_FOUND);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(ledger_find_token(t->ledger, &t->call, bad[i], &found, &t->err), DIBS_INVALID);
    assert_int_equal(
        ledger_find_token(t->ledger, &t->call, "999.1.00000000000000000000000000000000", &found, &t->err),
        DIBS_NOT_FOUND);
    assert_int_equal(found.port, 7);
}

static void the_end_of_an_old_claim_leaves_its_name_to_the_one_that_has_it_now(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want("shop/web", "*");
    const struct name_record forgotten = {
        .principal = "uid:1000", .name = "shop/web", .port = 26001, .used_ms = 1
    };
    struct store *rows = t->ledger->store;
    dibs_claim found = { 0 };

    dibs_claim old = t_must(t, &want, 26001);
    /* Its name is lost, as through damage, and given again. */
    ASSERT_OK(rows->ops->begin(rows, true, false, 0, &t->err), &t->err);
    ASSERT_OK(rows->ops->put(rows, NAMES, &forgotten, &t->err), &t->err);
    ASSERT_OK(rows->ops->commit(rows, &t->err), &t->err);
    dibs_claim now = t_must(t, &want, 26002);
    assert_int_not_equal(now.id, old.id);
    assert_int_equal(t_end(t, &old, LEDGER_END_RELEASE), 1);
    ASSERT_OK(ledger_find_name(t->ledger, &t->call, "shop/web", &found, NULL, &t->err), &t->err);
    assert_int_equal(found.id, now.id);
    assert_int_equal(found.port, 26002);
}

static void only_the_principal_or_an_admin_may_change_a_claim(void **state) /* seeds 21 */
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    dibs_claim got = t_must(t, &want, 26006);
    struct ledger_seen seen = t_seen(&got);
    dibs_claim out = { 0 };
    size_t n = 9;

    assert_int_equal(ledger_end(t->ledger, &t->other, &(struct ledger_ending){ &seen, 1, LEDGER_END_RELEASE },
                                &n, &t->err),
                     DIBS_DENIED);
    assert_int_equal(
        ledger_end(t->ledger, &t->other, &(struct ledger_ending){ &seen, 1, LEDGER_END_UNHOLD }, &n, &t->err),
        DIBS_DENIED);
    assert_int_equal(ledger_renew(t->ledger, &t->other, seen, 1000, &out, &t->err), DIBS_DENIED);
    assert_int_equal(ledger_transfer(t->ledger, &t->other, seen, &want.claim, &out, &t->err), DIBS_DENIED);
    assert_int_equal(n, 9);
    assert_int_equal(t_list(t, (struct ledger_filter){ 0 }).n, 1);
    t->other.is_admin = true;
    ASSERT_OK(ledger_end(t->ledger, &t->other, &(struct ledger_ending){ &seen, 1, LEDGER_END_RELEASE }, &n,
                         &t->err),
              &t->err);
    assert_int_equal(n, 1);
}

static void a_refused_one_of_several_ends_none(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want mine = t_want(NULL, "*");
    struct ledger_want theirs = t_want(NULL, "*");
    size_t n = 0;

    t_of_other(&theirs);
    dibs_claim a = t_must(t, &mine, 26001);
    dibs_claim b = t_must(t, &theirs, 26002);
    struct ledger_seen both[] = { t_seen(&a), t_seen(&b) };
    assert_int_equal(
        ledger_end(t->ledger, &t->call, &(struct ledger_ending){ both, 2, LEDGER_END_RELEASE }, &n, &t->err),
        DIBS_DENIED);
    assert_int_equal(t_list(t, (struct ledger_filter){ 0 }).n, 2);
}

static void reaping_ends_what_is_dead_and_spares_the_rest(void **state) /* seeds 29 */
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    struct ledger_want theirs = t_want(NULL, "*");
    dibs_claim got = { 0 };

    t_of_other(&theirs);
    t_by_process(&want, 500);
    (void) t_must(t, &want, 26003);
    t_by_process(&want, 600);
    dibs_claim stale = t_must(t, &want, 26004);
    assert_int_equal(t_end(t, &stale, LEDGER_END_REAP), 1);
    assert_int_equal(t_claim(t, &theirs, 26003, &got), DIBS_TAKEN);
    assert_int_equal(t_must(t, &theirs, 26004).port, 26004);
}

static void reaping_a_kept_claim_only_takes_its_holder(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want("shop/web", "*");
    dibs_claim found = { 0 };

    want.claim.is_kept = true;
    t_by_process(&want, 500);
    dibs_claim got = t_must(t, &want, 26003);
    assert_int_equal(t_end(t, &got, LEDGER_END_REAP), 1);
    ASSERT_OK(ledger_find_name(t->ledger, &t->call, "shop/web", &found, NULL, &t->err), &t->err);
    assert_int_equal(found.holder, DIBS_HELD_BY_NOBODY);
    assert_int_equal(found.process.pid, 0);
    assert_int_equal(found.generation, got.generation + 1);
    assert_int_equal(t_end(t, &got, LEDGER_END_RELEASE), 0);  /* the dead one's token */
    assert_int_equal(t_end(t, &found, LEDGER_END_UNHOLD), 0); /* nobody holds it */
    assert_int_equal(t_end(t, &found, LEDGER_END_STALE), 1);
    struct t_events events = t_events_since(t, 1);
    assert_int_equal(events.n, 2);
    assert_int_equal(events.item[0].kind, DIBS_EV_UNHELD);
    assert_int_equal(events.item[1].kind, DIBS_EV_REAPED);
}

static void unholding_keeps_what_is_kept_and_ends_the_rest(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");

    t_by_process(&want, 500);
    dibs_claim plain = t_must(t, &want, 26001);
    want.claim.is_kept = true;
    dibs_claim kept = t_must(t, &want, 26002);
    assert_int_equal(t_end(t, &plain, LEDGER_END_UNHOLD), 1);
    assert_int_equal(t_end(t, &kept, LEDGER_END_UNHOLD), 1);
    struct t_ids left = t_list(t, (struct ledger_filter){ 0 });
    assert_int_equal(left.n, 1);
    assert_int_equal(left.last.port, 26002);
    assert_int_equal(t_list(t, (struct ledger_filter){ .held_only = true }).n, 0);
}

static void
a_lease_renewed_after_it_was_judged_dead_is_neither_reaped_nor_taken_over(void **state) /* INV-5 */
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    dibs_claim got = t_must(t, &want, 26001);
    struct ledger_seen judged = t_seen(&got);
    uint16_t port = 26001;
    dibs_claim out = { 0 };
    size_t n = 9;

    t->call.now.boot_ms += 5;
    ASSERT_OK(ledger_renew(t->ledger, &t->call, judged, 600000, &out, &t->err), &t->err);
    assert_string_equal(out.token, got.token);
    ASSERT_OK(
        ledger_end(t->ledger, &t->call, &(struct ledger_ending){ &judged, 1, LEDGER_END_REAP }, &n, &t->err),
        &t->err);
    assert_int_equal(n, 0);
    want.candidates = &port;
    want.n_candidates = 1;
    struct ledger_batch batch = { .wants = &want, .n = 1, .dead = &judged, .n_dead = 1 };
    assert_int_equal(ledger_claim(t->ledger, &t->call, &batch, &out, &t->refusal, &t->err), DIBS_TAKEN);
    ASSERT_OK(ledger_find_token(t->ledger, &t->call, got.token, &out, &t->err), &t->err);
}

static void an_object_that_is_gone_ends_unless_it_was_requested_again(void **state) /* INV-3 */
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    dibs_claim out = { 0 };
    size_t n = 9;

    want.claim.is_kept = true;
    dibs_claim got = t_must(t, &want, 26001);
    struct ledger_seen seen = t_seen(&got);
    struct ledger_ending gone = { &seen, 1, LEDGER_END_GONE };
    t->call.now.boot_ms += 5;
    ASSERT_OK(ledger_renew(t->ledger, &t->call, seen, 600000, &out, &t->err), &t->err);
    ASSERT_OK(ledger_end(t->ledger, &t->call, &gone, &n, &t->err), &t->err);
    assert_int_equal(n, 0);
    seen = t_seen(&out);
    t->call.principal = "uid:4711";
    assert_int_equal(ledger_end(t->ledger, &t->call, &gone, &n, &t->err), DIBS_DENIED);
    t->call.is_admin = true;
    ASSERT_OK(ledger_end(t->ledger, &t->call, &gone, &n, &t->err), &t->err);
    assert_int_equal(n, 1);
    assert_int_equal(t_list(t, (struct ledger_filter){ 0 }).n, 0);
}

static void only_a_lease_is_renewed(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want lease = t_want(NULL, "*");
    struct ledger_want run = t_want(NULL, "*");
    struct ledger_want kept = t_want(NULL, "*");
    dibs_claim out = { 0 };

    t_by_process(&run, 500);
    t_kept(&kept);
    dibs_claim a = t_must(t, &lease, 26001);
    dibs_claim b = t_must(t, &run, 26002);
    dibs_claim c = t_must(t, &kept, 26003);
    t->call.now.boot_ms += 1000;
    ASSERT_OK(ledger_renew(t->ledger, &t->call, t_seen(&a), 5000, &out, &t->err), &t->err);
    assert_int_equal(out.lease_until_ms, t->call.now.boot_ms + 5000);
    assert_string_equal(out.token, a.token);
    assert_int_equal(ledger_renew(t->ledger, &t->call, t_seen(&b), 5000, &out, &t->err), DIBS_INVALID);
    assert_int_equal(ledger_renew(t->ledger, &t->call, t_seen(&c), 5000, &out, &t->err), DIBS_INVALID);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, t_open, t_close)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(releasing_twice_is_fine_and_frees_once),
        CASE(an_old_token_finds_nothing_after_a_transfer),
        CASE(a_token_with_a_wrong_secret_finds_nothing),
        CASE(the_end_of_an_old_claim_leaves_its_name_to_the_one_that_has_it_now),
        CASE(only_the_principal_or_an_admin_may_change_a_claim),
        CASE(a_refused_one_of_several_ends_none),
        CASE(reaping_ends_what_is_dead_and_spares_the_rest),
        CASE(reaping_a_kept_claim_only_takes_its_holder),
        CASE(unholding_keeps_what_is_kept_and_ends_the_rest),
        CASE(an_object_that_is_gone_ends_unless_it_was_requested_again),
        CASE(only_a_lease_is_renewed),
        CASE(a_lease_renewed_after_it_was_judged_dead_is_neither_reaped_nor_taken_over),
    };

    return t_backend(argc, argv) ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
