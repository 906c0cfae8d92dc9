/* SPDX-License-Identifier: MIT */
/* The promises of every ledger about several claims at once: dead ones that give way, batches, runs, dry
 * runs. argv[1] names the backend. */
#include "support/ledger.h"

static void a_dead_blocker_gives_way_and_both_are_reported(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want old = t_want("old", "*");
    struct ledger_want new = t_want("new", "127.0.0.1");
    dibs_claim got = { 0 };
    dibs_claim found = { 0 };

    t_by_process(&old, 500);
    t_of_other(&new);
    dibs_claim first = t_must(t, &old, 26001);
    struct ledger_seen dead = t_seen(&first);
    ASSERT_OK(t_claim_over(t, &new, 26001, &dead, &got), &t->err);
    assert_int_equal(got.port, 26001);
    struct t_events events = t_events_since(t, 1);
    assert_int_equal(events.n, 2);
    assert_int_equal(events.item[0].kind, DIBS_EV_REAPED);
    assert_int_equal(events.item[0].claim_id, first.id);
    assert_int_equal(events.item[1].kind, DIBS_EV_CLAIMED);
    assert_int_equal(events.item[1].claim_id, got.id);
    assert_int_equal(ledger_find_token(t->ledger, &t->call, first.token, &found, &t->err), DIBS_NOT_FOUND);
    assert_int_equal(ledger_find_name(t->ledger, &t->call, "old", &found, NULL, &t->err), DIBS_NOT_FOUND);
}

static void death_counts_only_for_the_generation_that_was_judged(void **state) /* INV-5 */
{
    struct t_ledger *t = *state;
    struct ledger_want old = t_want("old", "*");
    struct ledger_want new = t_want("new", "*");
    dibs_claim got = { 0 };
    dibs_claim heir = { 0 };

    t_by_process(&old, 500);
    dibs_claim first = t_must(t, &old, 26001);
    struct ledger_seen dead = t_seen(&first);
    t_by_process(&old, 700);
    heir = old.claim;
    ASSERT_OK(ledger_transfer(t->ledger, &t->call, dead, &heir, &got, &t->err), &t->err);
    assert_int_equal(t_claim_over(t, &new, 26001, &dead, &got), DIBS_TAKEN);
    assert_int_equal(t->refusal.blocker.process.pid, 700);
}

static void a_kept_claim_gives_way_to_nobody_even_when_its_holder_is_dead(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want kept = t_want("db", "*");
    struct ledger_want want = t_want(NULL, "127.0.0.1");
    dibs_claim got = { 0 };

    t_by_process(&kept, 500);
    kept.claim.is_kept = true;
    dibs_claim first = t_must(t, &kept, 26001);
    struct ledger_seen dead = t_seen(&first);
    assert_int_equal(t_claim_over(t, &want, 26001, &dead, &got), DIBS_TAKEN);
    assert_true(t->refusal.has_blocker);
    assert_int_equal(t->refusal.blocker.id, first.id);
    ASSERT_OK(ledger_find_token(t->ledger, &t->call, first.token, &got, &t->err), &t->err);
}

static void a_batch_is_all_or_nothing(void **state) /* INV-4 */
{
    static const uint16_t ports[] = { 26001, 26002, 26003 };
    struct t_ledger *t = *state;
    struct ledger_want blocker = t_want(NULL, "*");
    struct ledger_want wants[3];
    dibs_claim out[3] = { 0 };
    struct ledger_batch batch = { .wants = wants, .n = 3 };

    t_of_other(&blocker);
    dibs_claim held = t_must(t, &blocker, 26003);
    for (size_t i = 0; i < 3; i++) {
        char name[16];

        (void) snprintf(name, sizeof name, "web/%zu", i);
        wants[i] = t_want(name, "*");
        wants[i].candidates = &ports[i];
        wants[i].n_candidates = 1;
    }
    uint64_t tail = t_tail(t);
    assert_int_equal(ledger_claim(t->ledger, &t->call, &batch, out, &t->refusal, &t->err), DIBS_TAKEN);
    assert_int_equal(t->refusal.want, 2);
    assert_int_equal(t_tail(t), tail);
    assert_int_equal(t_list(t, (struct ledger_filter){ 0 }).n, 1);
    assert_int_equal(ledger_find_name(t->ledger, &t->call, "web/0", out, NULL, &t->err), DIBS_NOT_FOUND);
    size_t n = 0;
    struct ledger_seen seen = t_seen(&held);
    ASSERT_OK(ledger_end(t->ledger, &t->other, &(struct ledger_ending){ &seen, 1, LEDGER_END_RELEASE }, &n,
                         &t->err),
              &t->err);
    ASSERT_OK(ledger_claim(t->ledger, &t->call, &batch, out, &t->refusal, &t->err), &t->err);
    assert_int_equal(out[2].port, 26003);
}

static void claims_of_one_batch_conflict_with_each_other(void **state)
{
    static const uint16_t ports[] = { 26001, 26002 };
    struct t_ledger *t = *state;
    struct ledger_want wants[2] = { t_dynamic(NULL, ports, 2), t_dynamic(NULL, ports, 2) };
    struct ledger_batch batch = { .wants = wants, .n = 2 };
    dibs_claim out[2] = { 0 };

    ASSERT_OK(ledger_claim(t->ledger, &t->call, &batch, out, &t->refusal, &t->err), &t->err);
    assert_int_equal(out[0].port, 26001);
    assert_int_equal(out[1].port, 26002);
    assert_int_not_equal(out[0].id, out[1].id);
}

static void a_run_is_contiguous_found_again_and_ends_at_65535(void **state)
{
    static const uint16_t bases[] = { 26001, 65535, 65534, 26010 };
    struct t_ledger *t = *state;
    struct ledger_want blocker = t_want(NULL, "*");
    struct ledger_want wants[3];
    struct ledger_batch batch = { .wants = wants, .n = 3 };
    dibs_claim out[3] = { 0 };

    (void) t_must(t, &blocker, 26003); /* the first run lacks its end; two would go over the edge */
    for (size_t i = 0; i < 3; i++) {
        char name[16];

        (void) snprintf(name, sizeof name, "web/%zu", i);
        wants[i] = t_dynamic(name, i == 0 ? bases : NULL, i == 0 ? 4 : 0);
    }
    wants[0].run = 3;
    for (int round = 0; round < 2; round++) {
        ASSERT_OK(ledger_claim(t->ledger, &t->call, &batch, out, &t->refusal, &t->err), &t->err);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(out[i].port, 26010 + i);
    }
    assert_int_equal(t_list(t, (struct ledger_filter){ 0 }).n, 4);
    wants[0].n_candidates = 3;
    for (size_t i = 0; i < 3; i++)
        wants[i].claim.name[0] = '\0';
    assert_int_equal(ledger_claim(t->ledger, &t->call, &batch, out, &t->refusal, &t->err), DIBS_EXHAUSTED);
}

static void names_of_scattered_ports_are_no_run(void **state)
{
    static const uint16_t bases[] = { 26010 };
    struct t_ledger *t = *state;
    struct ledger_want wants[3];
    struct ledger_batch batch = { .wants = wants, .n = 3 };
    dibs_claim out[3] = { 0 };

    for (size_t i = 0; i < 3; i++) {
        char name[16];

        (void) snprintf(name, sizeof name, "web/%zu", i);
        wants[i] = t_dynamic(name, i == 0 ? bases : NULL, i == 0 ? 1 : 0);
        (void) t_must(t, &wants[i], (uint16_t) (i == 2 ? 26005 : 26001 + i));
    }
    uint64_t tail = t_tail(t);
    wants[0].run = 3;
    assert_int_equal(ledger_claim(t->ledger, &t->call, &batch, out, &t->refusal, &t->err), DIBS_TAKEN);
    assert_true(t->refusal.by_name);
    assert_true(t->refusal.breaks_run);
    assert_true(t->refusal.has_blocker);
    assert_string_equal(t->refusal.blocker.name, "web/2");
    assert_int_equal(t_tail(t), tail);
    batch.n = wants[0].run = 2; /* those two are a run */
    ASSERT_OK(ledger_claim(t->ledger, &t->call, &batch, out, &t->refusal, &t->err), &t->err);
    assert_int_equal(out[0].port, 26001);
    assert_int_equal(out[1].port, 26002);
}

static void a_dry_run_decides_the_same_and_leaves_nothing(void **state)
{
    static const uint16_t ports[] = { 26001, 26002 };
    struct t_ledger *t = *state;
    struct ledger_want want = t_dynamic("shop/web", ports, 2);
    struct ledger_want blocker = t_want(NULL, "*");
    struct ledger_batch batch = { .wants = &want, .n = 1, .is_dry_run = true };
    dibs_claim out = { 0 };

    (void) t_must(t, &blocker, 26001);
    uint64_t tail = t_tail(t);
    ASSERT_OK(ledger_claim(t->ledger, &t->call, &batch, &out, &t->refusal, &t->err), &t->err);
    assert_int_equal(out.port, 26002);
    assert_int_equal(t_tail(t), tail);
    assert_int_equal(ledger_find_name(t->ledger, &t->call, "shop/web", &out, NULL, &t->err), DIBS_NOT_FOUND);
    assert_int_equal(t_must(t, &want, 0).port, 26002);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, t_open, t_close)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(a_dead_blocker_gives_way_and_both_are_reported),
        CASE(death_counts_only_for_the_generation_that_was_judged),
        CASE(a_kept_claim_gives_way_to_nobody_even_when_its_holder_is_dead),
        CASE(a_batch_is_all_or_nothing),
        CASE(claims_of_one_batch_conflict_with_each_other),
        CASE(a_run_is_contiguous_found_again_and_ends_at_65535),
        CASE(names_of_scattered_ports_are_no_run),
        CASE(a_dry_run_decides_the_same_and_leaves_nothing),
    };

    return t_backend(argc, argv) ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
