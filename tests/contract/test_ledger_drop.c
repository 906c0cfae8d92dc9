/* SPDX-License-Identifier: MIT */
/* Every ledger's promises about claims that end in the step in which others are made: a process that uses one
 * keeps it, under another name when its own is needed. argv[1] names the backend. */
#include "support/ledger.h"

#define NAME "shop/web/0/-/http"

/* Drops one claim and asks for one want at one port; 0: for none. */
static dibs_status swap(struct t_ledger *t, struct ledger_drop drop, struct ledger_want *want, uint16_t port,
                        dibs_claim *out)
{
    struct ledger_batch batch = { .wants = want, .n = port ? 1 : 0, .drops = &drop, .n_drops = 1 };

    if (port) {
        want->candidates = &port;
        want->n_candidates = 1;
    }
    return ledger_claim(t->ledger, &t->call, &batch, out, &t->refusal, &t->err);
}

static struct ledger_drop drop_of(const dibs_claim *claim, const char *frees)
{
    return (struct ledger_drop){ .seen = t_seen(claim), .frees = frees };
}

static dibs_claim named(struct t_ledger *t, const char *name)
{
    dibs_claim found = { 0 };

    ASSERT_OK(ledger_find_name(t->ledger, &t->call, name, &found, NULL, &t->err), &t->err);
    return found;
}

static bool note_flaw(void *ctx, enum ledger_flaw flaw, const dibs_claim *claim, uint64_t other)
{
    (void) flaw;
    (void) claim;
    (void) other;
    *(bool *) ctx = true;
    return false;
}

/* Every name leads to the claim that has it, and to no other. */
static bool is_sound(struct t_ledger *t)
{
    bool has_flaw = false;

    ASSERT_OK(ledger_flaws(t->ledger, &t->call, note_flaw, &has_flaw, &t->err), &t->err);
    return !has_flaw;
}

static bool is_named(struct t_ledger *t, const char *name)
{
    dibs_claim found = { 0 };

    return ledger_find_name(t->ledger, &t->call, name, &found, NULL, &t->err) == DIBS_OK;
}

/* NAME at 26001, kept, and held by a process. */
static dibs_claim held_claim(struct t_ledger *t)
{
    struct ledger_want want = t_want(NAME, "*");

    t_by_process(&want, 500);
    want.claim.is_kept = true;
    return t_must(t, &want, 26001);
}

static struct ledger_want kept_want(const char *name)
{
    struct ledger_want want = t_want(name, "*");

    t_kept(&want);
    return want;
}

static void a_claim_that_is_held_stays_under_its_name_and_is_kept_no_more(void **state) /* INV-5 */
{
    struct t_ledger *t = *state;
    dibs_claim held = held_claim(t);

    t->call.now.wall_ms++;
    ASSERT_OK(swap(t, drop_of(&held, NULL), NULL, 0, NULL), &t->err);
    assert_false(named(t, NAME).is_kept);
    assert_int_equal(named(t, NAME).changed_ms, t->call.now.wall_ms);
    struct t_events events = t_events_since(t, 1);
    assert_int_equal(events.n, 1);
    assert_int_equal(events.item[0].kind, DIBS_EV_TRANSFERRED);
    ASSERT_OK(swap(t, drop_of(&held, NULL), NULL, 0, NULL), &t->err); /* nothing changes, no event */
    assert_int_equal(t_events_since(t, 1).n, 1);
    assert_int_equal(t_end(t, &held, LEDGER_END_UNHOLD), 1);
    assert_false(is_named(t, NAME));
}

static void a_claim_that_nobody_holds_or_a_dead_one_does_ends(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = kept_want(NAME);
    dibs_claim kept = t_must(t, &want, 26001);

    ASSERT_OK(swap(t, drop_of(&kept, NULL), NULL, 0, NULL), &t->err);
    assert_false(is_named(t, NAME));
    dibs_claim held = held_claim(t);
    struct ledger_seen dead = t_seen(&held);
    struct ledger_drop drop = drop_of(&held, NULL);
    struct ledger_batch batch = { .drops = &drop, .n_drops = 1, .dead = &dead, .n_dead = 1 };
    ASSERT_OK(ledger_claim(t->ledger, &t->call, &batch, NULL, &t->refusal, &t->err), &t->err);
    assert_int_equal(t_list(t, (struct ledger_filter){ 0 }).n, 0);
}

static void a_name_that_is_needed_leaves_its_number_to_the_holder(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = kept_want(NAME);
    dibs_claim held = held_claim(t);
    dibs_claim made = { 0 };
    dibs_claim left = { 0 };

    ASSERT_OK(swap(t, drop_of(&held, NAME), &want, 26002, &made), &t->err);
    assert_int_equal(named(t, NAME).id, made.id);
    left = named(t, NAME "/26001");
    assert_int_equal(left.id, held.id);
    assert_int_equal(left.port, 26001);
    assert_int_equal(left.holder, DIBS_HELD_BY_PROCESS);
    assert_false(left.is_kept);
    assert_true(is_sound(t));
    struct t_events events = t_events_since(t, 1);
    assert_int_equal(events.n, 2);
    assert_int_equal(events.item[0].kind, DIBS_EV_TRANSFERRED);
    assert_string_equal(events.item[0].name, NAME "/26001");
    /* A decision made before this changes nothing now. */
    ASSERT_OK(swap(t, drop_of(&held, NAME), NULL, 0, NULL), &t->err);
    assert_int_equal(t_events_since(t, 1).n, 2);
    /* The holder's token is still good, and ends this one alone (INV-3). */
    struct ledger_ended ended = { 0 };
    ASSERT_OK(ledger_end_token(t->ledger, &t->call, held.token, LEDGER_END_UNHOLD, &ended, &t->err), &t->err);
    assert_int_equal(ended.n, 1);
    assert_false(is_named(t, NAME "/26001"));
    assert_int_equal(named(t, NAME).id, made.id);
}

static void a_used_port_without_holder_is_kept_under_the_other_name(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = kept_want(NAME);
    dibs_claim shared = t_must(t, &want, 26001);
    struct ledger_drop drop = drop_of(&shared, NAME);
    dibs_claim made = { 0 };

    drop.stays = true;
    ASSERT_OK(swap(t, drop, &want, 26002, &made), &t->err);
    assert_int_equal(named(t, NAME "/26001").id, shared.id);
    assert_true(named(t, NAME "/26001").is_kept);
    assert_int_equal(named(t, NAME).id, made.id);
}

static void a_second_claim_that_leaves_the_same_name_and_number_has_its_id_behind_it(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = kept_want(NAME);
    struct ledger_drop drop = { .frees = NAME, .stays = true };
    dibs_claim first = t_must(t, &want, 26001);
    dibs_claim second = { 0 };
    dibs_claim third = { 0 };
    char name[DIBS_NAME_MAX + 1];

    drop.seen = t_seen(&first);
    want.claim.bindings[0].proto = DIBS_UDP;
    ASSERT_OK(swap(t, drop, &want, 26001, &second), &t->err);
    drop.seen = t_seen(&second);
    want.claim.bindings[0].proto = DIBS_SCTP;
    ASSERT_OK(swap(t, drop, &want, 26001, &third), &t->err);
    (void) snprintf(name, sizeof name, NAME "/26001.%llu", (unsigned long long) second.id);
    assert_int_equal(named(t, NAME "/26001").id, first.id);
    assert_int_equal(named(t, name).id, second.id);
    assert_int_equal(named(t, NAME).id, third.id);
}

static void a_claim_that_has_moved_on_is_passed_over(void **state) /* INV-3 */
{
    struct t_ledger *t = *state;
    dibs_claim held = held_claim(t);
    struct ledger_drop drop = drop_of(&held, NULL);

    drop.seen.generation++; /* another generation than the one that is there */
    ASSERT_OK(swap(t, drop, NULL, 0, NULL), &t->err);
    assert_true(named(t, NAME).is_kept);
    assert_int_equal(t_events_since(t, 1).n, 0);
}

static void a_refused_batch_leaves_every_name_where_it_was(void **state) /* INV-4 */
{
    struct t_ledger *t = *state;
    struct ledger_want other = t_want("other", "*");
    struct ledger_want want = kept_want(NAME);
    dibs_claim held = held_claim(t);
    dibs_claim made = { 0 };

    t_of_other(&other);
    (void) t_must(t, &other, 26002);
    uint64_t tail = t_tail(t);
    assert_int_equal(swap(t, drop_of(&held, NAME), &want, 26002, &made), DIBS_TAKEN);
    assert_int_equal(t_tail(t), tail);
    assert_int_equal(named(t, NAME).id, held.id);
    assert_true(named(t, NAME).is_kept);
    assert_false(is_named(t, NAME "/26001"));
}

static void a_name_that_asks_for_the_number_it_left_has_the_same_claim_again(void **state) /* INV-7 */
{
    struct t_ledger *t = *state;
    struct ledger_want want = kept_want(NAME);
    dibs_claim held = held_claim(t);
    dibs_claim made = { 0 };
    dibs_claim back = { 0 };

    ASSERT_OK(swap(t, drop_of(&held, NAME), &want, 26002, &made), &t->err);
    want.is_lookup = want.is_adopted = true;
    want.required = 26001;
    struct ledger_want udp = want;
    udp.claim.bindings[0].proto = DIBS_UDP; /* is something else: both are there then */
    ASSERT_OK(swap(t, drop_of(&made, NAME), &udp, 26001, &made), &t->err);
    assert_int_not_equal(made.id, held.id);
    struct ledger_want declared = want; /* and so is a declared number */
    declared.claim.is_exclusive = false;
    ASSERT_OK(swap(t, drop_of(&made, NAME), &declared, 26001, &made), &t->err);
    assert_int_not_equal(made.id, held.id);
    ASSERT_OK(swap(t, drop_of(&made, NAME), &want, 26001, &back), &t->err);
    assert_int_equal(back.id, held.id);
    assert_true(back.is_kept);
    assert_int_equal(back.process.pid, 500);
    assert_int_equal(named(t, NAME).id, held.id);
    assert_false(is_named(t, NAME "/26001"));
    assert_true(is_sound(t));
    want.required = 26002; /* and leaves it again, as before */
    ASSERT_OK(swap(t, drop_of(&back, NAME), &want, 26002, &made), &t->err);
    assert_int_equal(named(t, NAME "/26001").id, held.id);
}

static void a_name_with_anothers_number_behind_it_is_no_claim_to_come_back(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want restored = kept_want(NAME "/26001"); /* as a snapshot may have it */
    struct ledger_want want = kept_want(NAME);
    dibs_claim theirs = t_must(t, &restored, 26005);

    want.required = 26001;
    assert_int_equal(t_must(t, &want, 26001).port, 26001);
    assert_int_equal(named(t, NAME "/26001").id, theirs.id);
}

static void a_persons_own_name_that_looks_like_a_number_behind_another_is_left_alone(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want own = kept_want("web/26001");
    struct ledger_want want = kept_want("web");
    dibs_claim mine = t_must(t, &own, 26001);
    dibs_claim out = { 0 };

    want.required = 26001;
    assert_int_equal(t_claim(t, &want, 26001, &out), DIBS_TAKEN);
    assert_int_equal(named(t, "web/26001").id, mine.id);
}

#define PART62 "12345678901234567890123456789012345678901234567890123456789012"
#define PART PART62 "3"

/* Drops what a role shares, unless somebody has a claim of the role; of these, this one is known to be dead.
 */
static dibs_status drop_shared(struct t_ledger *t, const dibs_claim *shared, const dibs_claim *dead)
{
    const struct ledger_drop drop = { .seen = t_seen(shared), .shared_bytes = sizeof PART "/" - 1 };
    const struct ledger_seen seen = dead ? t_seen(dead) : (struct ledger_seen){ 0 };
    const struct ledger_batch batch = { .drops = &drop, .n_drops = 1, .dead = &seen, .n_dead = dead ? 1 : 0 };

    return ledger_claim(t->ledger, &t->call, &batch, NULL, &t->refusal, &t->err);
}

static void a_shared_port_does_not_end_while_the_role_has_a_claim(void **state) /* INV-5 */
{
    struct t_ledger *t = *state;
    struct ledger_want want = kept_want(PART "/-");
    struct ledger_want longest = kept_want(PART "/" PART "/" PART "/" PART "/" PART "/" PART);
    struct ledger_want other = t_want(PART62 "4/0", "*");
    struct ledger_want pod = t_want(PART "/2", "*");
    dibs_claim shared = t_must(t, &want, 26003);

    assert_int_equal(strlen(longest.claim.name), DIBS_NAME_MAX);
    (void) t_must(t, &longest, 26004); /* nobody holds it: what is behind it is looked at */
    t_by_process(&other, 500);
    (void) t_must(t, &other, 26005); /* of another role */
    t_by_process(&pod, 500);
    dibs_claim held = t_must(t, &pod, 26006);
    assert_int_equal(drop_shared(t, &shared, NULL), DIBS_TAKEN);
    assert_true(t->refusal.is_shared);
    assert_int_equal(t->refusal.blocker.id, held.id);
    assert_true(is_named(t, PART "/-"));
    ASSERT_OK(drop_shared(t, &shared, &held), &t->err);
    assert_false(is_named(t, PART "/-"));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, t_open, t_close)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(a_claim_that_is_held_stays_under_its_name_and_is_kept_no_more),
        CASE(a_claim_that_nobody_holds_or_a_dead_one_does_ends),
        CASE(a_name_that_is_needed_leaves_its_number_to_the_holder),
        CASE(a_used_port_without_holder_is_kept_under_the_other_name),
        CASE(a_second_claim_that_leaves_the_same_name_and_number_has_its_id_behind_it),
        CASE(a_claim_that_has_moved_on_is_passed_over),
        CASE(a_refused_batch_leaves_every_name_where_it_was),
        CASE(a_name_that_asks_for_the_number_it_left_has_the_same_claim_again),
        CASE(a_name_with_anothers_number_behind_it_is_no_claim_to_come_back),
        CASE(a_persons_own_name_that_looks_like_a_number_behind_another_is_left_alone),
        CASE(a_shared_port_does_not_end_while_the_role_has_a_claim),
    };

    return t_backend(argc, argv) ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
