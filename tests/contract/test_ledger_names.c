/* SPDX-License-Identifier: MIT */
/* The promises of every ledger about a name that is asked for again, and about finding names. argv[1] names
 * the backend. */
#include "support/ledger.h"

static void a_kept_claim_without_holder_is_answered_again(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want("shop/web", "*");

    t_kept(&want);
    dibs_claim first = t_must(t, &want, 21000);
    assert_false(first.was_there);
    uint64_t tail = t_tail(t);
    dibs_claim again = t_must(t, &want, 21001); /* other candidates do not matter: INV-7 */
    assert_int_equal(again.id, first.id);
    assert_int_equal(again.port, 21000);
    assert_int_equal(again.generation, first.generation);
    assert_string_equal(again.token, first.token);
    assert_true(again.was_there);
    assert_int_equal(t_tail(t), tail); /* nothing changed, so there is no event */
}

static void a_kept_claim_without_holder_gets_the_caller_as_holder(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want kept = t_want("shop/web", "*");
    struct ledger_want run = t_want("shop/web", "*");
    dibs_claim found = { 0 };

    t_kept(&kept);
    t_by_process(&run, 500);
    dibs_claim first = t_must(t, &kept, 21000);
    dibs_claim held = t_must(t, &run, 21001);
    assert_int_equal(held.id, first.id);
    assert_int_equal(held.port, 21000);
    assert_int_equal(held.generation, first.generation + 1);
    assert_int_equal(held.holder, DIBS_HELD_BY_PROCESS);
    assert_true(held.is_kept);
    assert_int_equal(ledger_find_token(t->ledger, &t->call, first.token, &found, &t->err), DIBS_NOT_FOUND);
}

static void the_same_holder_gets_the_same_claim(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want("shop/web", "*");

    t_by_process(&want, 500);
    dibs_claim first = t_must(t, &want, 21000);
    dibs_claim again = t_must(t, &want, 21001);
    assert_int_equal(again.id, first.id);
    assert_int_equal(again.generation, first.generation);
    assert_true(again.was_there);
}

static void the_variables_of_a_process_are_recorded_until_it_lets_go(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want("shop/web", "*");
    dibs_claim found = { 0 };

    t_by_process(&want, 500);
    want.claim.is_kept = true;
    dibs_claim first = t_must(t, &want, 21000);
    assert_string_equal(first.env, "");
    (void) snprintf(want.claim.env, sizeof want.claim.env, "PORT=21000");
    dibs_claim again = t_must(t, &want, 21001);
    assert_string_equal(again.env, "PORT=21000");
    assert_int_equal(again.generation, first.generation);
    want.claim.env[0] = '\0'; /* says nothing: the record stays */
    assert_string_equal(t_must(t, &want, 21001).env, "PORT=21000");
    assert_int_equal(t_end(t, &again, LEDGER_END_UNHOLD), 1);
    ASSERT_OK(ledger_find_name(t->ledger, &t->call, "shop/web", &found, NULL, &t->err), &t->err);
    assert_int_equal(found.holder, DIBS_HELD_BY_NOBODY);
    assert_string_equal(found.env, "");
}

static void a_new_holder_starts_with_its_own(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want old = t_want("shop/web", "*");
    struct ledger_want new = t_want("shop/web", "*");
    dibs_claim got = { 0 };

    t_by_process(&old, 500);
    t_by_process(&new, 501);
    (void) snprintf(old.claim.env, sizeof old.claim.env, "PORT=21000");
    dibs_claim first = t_must(t, &old, 21000);
    struct ledger_seen dead = { .id = first.id, .generation = first.generation };
    ASSERT_OK(t_claim_over(t, &new, 21001, &dead, &got), &t->err);
    assert_int_equal(got.id, first.id);
    assert_string_equal(got.env, "");
}

static void a_dead_holders_name_keeps_its_port_under_a_new_generation(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want old = t_want("shop/web", "*");
    struct ledger_want new = t_want("shop/web", "*");
    dibs_claim got = { 0 };
    dibs_claim found = { 0 };

    t_by_process(&old, 500);
    t_by_process(&new, 600);
    dibs_claim first = t_must(t, &old, 21000);
    struct ledger_seen dead = t_seen(&first);
    ASSERT_OK(t_claim_over(t, &new, 21001, &dead, &got), &t->err);
    assert_int_equal(got.port, 21000);
    assert_int_equal(got.generation, first.generation + 1);
    assert_int_equal(got.process.pid, 600);
    assert_int_equal(ledger_find_token(t->ledger, &t->call, first.token, &found, &t->err), DIBS_NOT_FOUND);
    ASSERT_OK(ledger_find_token(t->ledger, &t->call, got.token, &found, &t->err), &t->err);
}

static void a_takeover_records_the_new_holders_user_and_network(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want old = t_want("shop/web", "*");
    struct ledger_want new = t_want("shop/web", "*");
    dibs_claim got = { 0 };
    dibs_claim found = { 0 };

    t_by_process(&old, 500);
    t_by_process(&new, 600);
    old.claim.netns = 4026531840;
    new.claim.netns = 4026532999;
    new.claim.uid = 1001;
    (void) snprintf(new.claim.command, sizeof new.claim.command, "later");
    dibs_claim first = t_must(t, &old, 21000);
    struct ledger_seen dead = t_seen(&first);
    ASSERT_OK(t_claim_over(t, &new, 0, &dead, &got), &t->err);
    assert_int_equal(got.id, first.id);
    found = t_stored(t, first.id);
    assert_int_equal(found.uid, 1001);
    assert_int_equal(found.netns, 4026532999);
    assert_string_equal(found.command, "later");
}

static void another_live_holder_keeps_the_name(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want old = t_want("shop/web", "*");
    struct ledger_want new = t_want("shop/web", "*");
    dibs_claim got = { .port = 7 };

    t_by_process(&old, 500);
    t_by_process(&new, 600);
    dibs_claim first = t_must(t, &old, 21000);
    assert_int_equal(t_claim(t, &new, 21001, &got), DIBS_TAKEN);
    assert_true(t->refusal.by_name);
    assert_false(t->refusal.differs);
    assert_true(t->refusal.has_blocker);
    assert_int_equal(t->refusal.blocker.id, first.id);
    assert_int_equal(t->refusal.blocker.process.pid, 500);
    assert_int_equal(got.port, 7);
    assert_int_equal(t_list(t, (struct ledger_filter){ 0 }).n, 1);
}

static void a_different_request_for_a_name_is_refused_as_different(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want("shop/web", "127.0.0.1");
    dibs_claim got = { 0 };

    t_kept(&want);
    (void) t_must(t, &want, 21000);
    struct ledger_want other_port = want;
    other_port.required = 21001;
    struct ledger_want other_proto = want;
    other_proto.claim.bindings[0].proto = DIBS_UDP;
    struct ledger_want other_address = want;
    other_address.claim.bindings[0].address = t_address("*");
    struct ledger_want more = want;
    more.claim.bindings[more.claim.n_bindings++] = (dibs_binding){ DIBS_UDP, t_address("127.0.0.1") };
    const struct ledger_want *each[] = { &other_port, &other_proto, &other_address, &more };
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(t_claim(t, each[i], 21001, &got), DIBS_TAKEN);
        assert_true(t->refusal.by_name);
        assert_true(t->refusal.differs);
        assert_int_equal(t->refusal.blocker.port, 21000);
    }
    want.required = 21000; /* the very port it has is no difference */
    assert_int_equal(t_must(t, &want, 21000).port, 21000);
}

static void a_lookup_never_becomes_holder(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want run = t_want("shop/web", "*");
    struct ledger_want look = t_want("shop/web", "*");

    t_by_process(&run, 500);
    t_kept(&look);
    look.is_lookup = true;
    dibs_claim first = t_must(t, &run, 21000);
    uint64_t tail = t_tail(t);
    dibs_claim seen = t_must(t, &look, 21001);
    assert_int_equal(seen.id, first.id);
    assert_int_equal(seen.generation, first.generation);
    assert_int_equal(seen.process.pid, 500);
    assert_int_equal(t_tail(t), tail);
    look.required = 21001;
    assert_int_equal(t_claim(t, &look, 21001, &seen), DIBS_TAKEN);
    assert_true(t->refusal.differs);
}

static void an_own_lease_is_extended_and_keeps_its_token(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want("shop/web", "*");
    dibs_claim first = t_must(t, &want, 21000);

    t->call.now.boot_ms += 300000;
    dibs_claim again = t_must(t, &want, 21001);
    assert_int_equal(again.id, first.id);
    assert_string_equal(again.token, first.token);
    assert_int_equal(again.lease_until_ms, t->call.now.boot_ms + 600000);
    want.claim.lease_ttl_ms = 1000; /* shorter: never cut */
    again = t_must(t, &want, 21001);
    assert_int_equal(again.lease_until_ms, t->call.now.boot_ms + 600000);
}

static void an_own_lease_becomes_a_process_hold(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want lease = t_want("shop/web", "*");
    struct ledger_want run = t_want("shop/web", "*");
    dibs_claim first = t_must(t, &lease, 21000);

    t_by_process(&run, 500);
    dibs_claim held = t_must(t, &run, 21001);
    assert_int_equal(held.id, first.id);
    assert_int_equal(held.port, 21000);
    assert_int_equal(held.holder, DIBS_HELD_BY_PROCESS);
    assert_int_equal(held.generation, first.generation + 1);
}

static void each_principal_has_its_own_names(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want mine = t_want("shop/web", "*");
    struct ledger_want theirs = t_want("shop/web", "*");
    dibs_claim found = { 0 };

    t_of_other(&theirs);
    dibs_claim a = t_must(t, &mine, 21000);
    dibs_claim b = t_must(t, &theirs, 21001);
    assert_int_not_equal(a.id, b.id);
    ASSERT_OK(ledger_find_name(t->ledger, &t->call, "shop/web", &found, NULL, &t->err), &t->err);
    assert_int_equal(found.id, a.id);
    ASSERT_OK(ledger_find_name(t->ledger, &t->other, "shop/web", &found, NULL, &t->err), &t->err);
    assert_int_equal(found.id, b.id);
}

static void a_name_of_another_directory_is_another_project(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want("shop/web", "*");
    dibs_claim got = { 0 };

    (void) snprintf(want.claim.project, sizeof want.claim.project, "/home/a/shop");
    (void) t_must(t, &want, 21000);
    (void) snprintf(want.claim.project, sizeof want.claim.project, "/home/b/shop");
    assert_int_equal(t_claim(t, &want, 21001, &got), DIBS_TAKEN);
    assert_true(t->refusal.by_name);
}

static void names_are_found_by_their_beginning_and_their_directory(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want("shop/web", "127.0.0.1");
    struct ledger_names among = { "uid:1000", "shop/", "shop0", NULL };
    char found[DIBS_NAME_MAX + 1] = "untouched";

    assert_int_equal(ledger_first_name(t->ledger, &t->call, &among, found, &t->err), DIBS_NOT_FOUND);
    (void) snprintf(want.claim.project, sizeof want.claim.project, "/a/shop");
    const dibs_claim web = t_must(t, &want, 21000);
    (void) snprintf(want.claim.name, sizeof want.claim.name, "shop/api");
    (void) snprintf(want.claim.project, sizeof want.claim.project, "/b/shop");
    (void) t_must(t, &want, 21001);
    for (int i = 0; i < 2; i++) { /* of claims, and remembered */
        among.project = NULL;
        ASSERT_OK(ledger_first_name(t->ledger, &t->call, &among, found, &t->err), &t->err);
        assert_string_equal(found, "shop/api");
        among.project = "/a/shop";
        ASSERT_OK(ledger_first_name(t->ledger, &t->call, &among, found, &t->err), &t->err);
        assert_string_equal(found, "shop/web");
        among.project = "/c/shop";
        assert_int_equal(ledger_first_name(t->ledger, &t->call, &among, found, &t->err), DIBS_NOT_FOUND);
        if (i == 0)
            assert_int_equal(t_end(t, &web, LEDGER_END_RELEASE), 1);
    }
    among = (struct ledger_names){ "uid:2000", "shop/", "shop0", NULL };
    assert_int_equal(ledger_first_name(t->ledger, &t->call, &among, found, &t->err), DIBS_NOT_FOUND);
    among = (struct ledger_names){ "uid:1000", "shop/web", "shop/web\1", NULL };
    ASSERT_OK(ledger_first_name(t->ledger, &t->call, &among, found, &t->err), &t->err);
    assert_string_equal(found, "shop/web");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, t_open, t_close)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(a_kept_claim_without_holder_is_answered_again),
        CASE(a_kept_claim_without_holder_gets_the_caller_as_holder),
        CASE(the_variables_of_a_process_are_recorded_until_it_lets_go),
        CASE(a_new_holder_starts_with_its_own),
        CASE(the_same_holder_gets_the_same_claim),
        CASE(a_dead_holders_name_keeps_its_port_under_a_new_generation),
        CASE(a_takeover_records_the_new_holders_user_and_network),
        CASE(another_live_holder_keeps_the_name),
        CASE(a_different_request_for_a_name_is_refused_as_different),
        CASE(a_lookup_never_becomes_holder),
        CASE(an_own_lease_is_extended_and_keeps_its_token),
        CASE(an_own_lease_becomes_a_process_hold),
        CASE(each_principal_has_its_own_names),
        CASE(a_name_of_another_directory_is_another_project),
        CASE(names_are_found_by_their_beginning_and_their_directory),
    };

    return t_backend(argc, argv) ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
