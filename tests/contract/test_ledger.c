/* SPDX-License-Identifier: MIT */
/* What every ledger promises about claiming: names, conflicts, batches, candidates. argv[1] names the
 * backend. */
#include "support/ledger.h"

/* ---- a name asked for again ---- */

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
    assert_int_equal(t_tail(t), tail); /* nothing changed, so nothing is told */
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
    assert_int_equal(ledger_find_token(t->ledger, first.token, &found, &t->err), DIBS_NOT_FOUND);
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
    assert_int_equal(ledger_find_token(t->ledger, first.token, &found, &t->err), DIBS_NOT_FOUND);
    ASSERT_OK(ledger_find_token(t->ledger, got.token, &found, &t->err), &t->err);
}

static void who_takes_a_claim_over_brings_his_user_and_his_network(void **state)
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
    ASSERT_OK(ledger_find_id(t->ledger, first.id, &found, &t->err), &t->err);
    assert_int_equal(found.uid, 1001);
    assert_int_equal(found.netns, 4026532999);
    assert_string_equal(found.command, "later");
}

static void a_dead_holders_name_moves_on_when_a_stranger_sits_on_its_port(void **state);

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
    assert_int_equal(t->refusal.n_blockers, 1);
    assert_int_equal(t->refusal.blockers[0].id, first.id);
    assert_int_equal(t->refusal.blockers[0].process.pid, 500);
    assert_int_equal(got.port, 7);
    assert_int_equal(t_list(t, (struct ledger_filter){ 0 }).n, 1);
}

static void asking_for_something_else_says_so(void **state)
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
        assert_int_equal(t->refusal.blockers[0].port, 21000);
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

    t->actor.now.boot_ms += 300000;
    dibs_claim again = t_must(t, &want, 21001);
    assert_int_equal(again.id, first.id);
    assert_string_equal(again.token, first.token);
    assert_int_equal(again.lease_until_ms, t->actor.now.boot_ms + 600000);
    want.claim.lease_ttl_ms = 1000; /* shorter: never cut */
    again = t_must(t, &want, 21001);
    assert_int_equal(again.lease_until_ms, t->actor.now.boot_ms + 600000);
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
    ASSERT_OK(ledger_find_name(t->ledger, "uid:1000", "shop/web", &found, NULL, &t->err), &t->err);
    assert_int_equal(found.id, a.id);
    ASSERT_OK(ledger_find_name(t->ledger, "uid:2000", "shop/web", &found, NULL, &t->err), &t->err);
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

/* ---- conflicts: seeds 1.10, cases 18-28, with the kernel's rule ---- */

static void conflicts_follow_the_kernels_rule(void **state)
{
    static const struct {
        const char *held, *wanted;
        bool conflicts;
    } cases[] = {
        { "127.0.0.1", "127.0.0.1", true }, /* 18 */
        { "0.0.0.0", "127.0.0.1", true },   /* 22 */
        { "127.0.0.1", "0.0.0.0", true },   /* 23 */
        { "::", "::1", true },              /* 26 */
        { "::1", "::", true },
        { "0.0.0.0", "::1", false }, /* 27 */
        { "::1", "0.0.0.0", false },
        { "::1", "127.0.0.1", false },
        { "127.0.0.1", "127.0.0.2", false },
        { "::", "127.0.0.1", true }, /* P6: dual stack covers IPv4 */
        { "127.0.0.1", "*", true },
        { "*", "0.0.0.0", true },
        { "0.0.0.0", "::", true },
        { "::ffff:127.0.0.1", "127.0.0.1", true },
    };
    struct t_ledger *t = *state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint16_t port = (uint16_t) (26001 + i);
        struct ledger_want held = t_want(NULL, cases[i].held);
        struct ledger_want wanted = t_want(NULL, cases[i].wanted);
        dibs_claim got = { 0 };

        t_of_other(&wanted);
        dibs_claim first = t_must(t, &held, port);
        dibs_status s = t_claim(t, &wanted, port, &got);
        if ((s == DIBS_TAKEN) != cases[i].conflicts)
            fail_msg("%s then %s: %s", cases[i].held, cases[i].wanted, dibs_status_text(s));
        if (s != DIBS_TAKEN)
            continue;
        assert_int_equal(t->refusal.port, port);
        assert_int_equal(t->refusal.n_blockers, 1);
        assert_int_equal(t->refusal.blockers[0].id, first.id);
    }
}

static void ones_own_wildcard_conflicts_too(void **state) /* 24, 25 */
{
    struct t_ledger *t = *state;
    struct ledger_want specific = t_want(NULL, "127.0.0.1");
    struct ledger_want wildcard = t_want(NULL, "0.0.0.0");
    dibs_claim got = { 0 };

    (void) t_must(t, &specific, 26012);
    assert_int_equal(t_claim(t, &wildcard, 26012, &got), DIBS_TAKEN);
    (void) t_must(t, &wildcard, 26013);
    assert_int_equal(t_claim(t, &specific, 26013, &got), DIBS_TAKEN);
    assert_string_equal(t->refusal.blockers[0].principal, "uid:1000");
}

static void protocols_do_not_conflict(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");

    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_SCTP; proto++) {
        want.claim.bindings[0].proto = proto;
        (void) t_must(t, &want, 26001);
    }
    assert_int_equal(t_list(t, (struct ledger_filter){ .port = 26001 }).n, 3);
    assert_int_equal(t_list(t, (struct ledger_filter){ .port = 26001, .proto = DIBS_UDP }).n, 1);
}

static void addresses_come_back_as_they_went_in(void **state) /* 27, 28 */
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "::1");
    dibs_claim found = { 0 };

    dibs_claim got = t_must(t, &want, 26007);
    ASSERT_OK(ledger_find_id(t->ledger, got.id, &found, &t->err), &t->err);
    assert_int_equal(found.n_bindings, 1);
    assert_int_equal(found.bindings[0].proto, DIBS_TCP);
    assert_int_equal(found.bindings[0].address.len, 16);
    assert_memory_equal(found.bindings[0].address.bytes, want.claim.bindings[0].address.bytes, 16);
    assert_string_equal(found.token, ""); /* tokens are for those who claimed */
}

static void the_first_and_the_last_port_are_ports(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    dibs_claim got = { 0 };

    assert_int_equal(t_must(t, &want, 1).port, 1);
    assert_int_equal(t_must(t, &want, 65535).port, 65535);
    assert_int_equal(t_claim(t, &want, 65535, &got), DIBS_TAKEN);
}

static void eight_bindings_are_one_claim(void **state)
{
    static const char *const addresses[] = { "127.0.0.1", "127.0.0.2", "127.0.0.3", "::1" };
    struct t_ledger *t = *state;
    struct ledger_want want = t_want("all", "*");
    struct ledger_want one = t_want(NULL, "127.0.0.3");
    dibs_claim found = { 0 };

    want.claim.n_bindings = 0;
    for (size_t i = 0; i < 8; i++)
        want.claim.bindings[want.claim.n_bindings++] =
            (dibs_binding){ i % 2 ? DIBS_UDP : DIBS_TCP, t_address(addresses[i / 2]) };
    dibs_claim got = t_must(t, &want, 26001);
    ASSERT_OK(ledger_find_id(t->ledger, got.id, &found, &t->err), &t->err);
    assert_int_equal(found.n_bindings, 8);
    assert_int_equal(t_claim(t, &one, 26001, &found), DIBS_TAKEN);
    assert_int_equal(t_end(t, &got, LEDGER_END_RELEASE), 1);
    (void) t_must(t, &one, 26001); /* every one of its slots is free again */
    one.claim.bindings[0] = want.claim.bindings[7];
    (void) t_must(t, &one, 26001);
}

/* ---- declared, cooling, probe ---- */

static void a_declared_port_is_never_an_error_and_not_chosen(void **state)
{
    static const uint16_t candidates[] = { 26001, 26002 };
    struct t_ledger *t = *state;
    struct ledger_want declared = t_want(NULL, "*");
    struct ledger_want choice = t_want(NULL, "127.0.0.1");
    struct ledger_want required = t_want(NULL, "127.0.0.1");

    declared.claim.is_exclusive = false;
    declared.skips_probe = true;
    t_kept(&declared);
    (void) t_must(t, &declared, 26001);
    (void) t_must(t, &declared, 26001); /* twice is fine, too */
    choice.is_choice = true;
    choice.claim.kind = DIBS_DYNAMIC;
    choice.candidates = candidates;
    choice.n_candidates = 2;
    assert_int_equal(t_must(t, &choice, 0).port, 26002);
    assert_int_equal(t_must(t, &required, 26001).port, 26001); /* the user takes it himself */
    (void) t_must(t, &declared, 26001);                        /* also over an exclusive claim */
}

static struct ledger_want dynamic(const char *name, const uint16_t *candidates, size_t n)
{
    struct ledger_want want = t_want(name, "*");

    want.claim.kind = DIBS_DYNAMIC;
    want.is_choice = true;
    want.cooldown_ms = 5000;
    want.candidates = candidates;
    want.n_candidates = n;
    return want;
}

static void a_released_dynamic_port_cools(void **state)
{
    static const uint16_t candidates[] = { 26001, 26002 };
    struct t_ledger *t = *state;
    struct ledger_want want = dynamic(NULL, candidates, 2);
    struct ledger_want only = dynamic(NULL, candidates, 1);
    dibs_claim got = t_must(t, &want, 0);

    assert_int_equal(got.port, 26001);
    assert_int_equal(t_end(t, &got, LEDGER_END_RELEASE), 1);
    assert_int_equal(t_must(t, &want, 0).port, 26002); /* INV-8: after all others */
    assert_int_equal(t_claim(t, &only, 0, &got), DIBS_EXHAUSTED);
    assert_int_equal(t->refusal.n_cooling, 1);
    only.accepts_cooling = true;
    assert_int_equal(t_must(t, &only, 0).port, 26001); /* no capacity is lost */
}

static void cooling_ends_at_its_moment_and_required_ignores_it(void **state)
{
    static const uint16_t candidates[] = { 26001, 26002 };
    struct t_ledger *t = *state;
    struct ledger_want one = dynamic(NULL, candidates, 1);
    struct ledger_want required = t_want(NULL, "*");
    dibs_claim got = t_must(t, &one, 0);

    (void) t_end(t, &got, LEDGER_END_RELEASE);
    t->actor.now.boot_ms += 4999;
    assert_int_equal(t_claim(t, &one, 0, &got), DIBS_EXHAUSTED);
    t->actor.now.boot_ms += 1;
    got = t_must(t, &one, 0);
    (void) t_end(t, &got, LEDGER_END_RELEASE);
    assert_int_equal(t_must(t, &required, 26001).port, 26001);
}

static void names_are_found_by_their_beginning_and_their_directory(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want("shop/web", "127.0.0.1");
    struct ledger_names among = { "uid:1000", "shop/", "shop0", NULL };
    char found[DIBS_NAME_MAX + 1] = "untouched";

    assert_int_equal(ledger_first_name(t->ledger, &among, found, &t->err), DIBS_NOT_FOUND);
    (void) snprintf(want.claim.project, sizeof want.claim.project, "/a/shop");
    const dibs_claim web = t_must(t, &want, 21000);
    (void) snprintf(want.claim.name, sizeof want.claim.name, "shop/api");
    (void) snprintf(want.claim.project, sizeof want.claim.project, "/b/shop");
    (void) t_must(t, &want, 21001);
    for (int i = 0; i < 2; i++) { /* of claims, and remembered */
        among.project = NULL;
        ASSERT_OK(ledger_first_name(t->ledger, &among, found, &t->err), &t->err);
        assert_string_equal(found, "shop/api");
        among.project = "/a/shop";
        ASSERT_OK(ledger_first_name(t->ledger, &among, found, &t->err), &t->err);
        assert_string_equal(found, "shop/web");
        among.project = "/c/shop";
        assert_int_equal(ledger_first_name(t->ledger, &among, found, &t->err), DIBS_NOT_FOUND);
        if (i == 0)
            assert_int_equal(t_end(t, &web, LEDGER_END_RELEASE), 1);
    }
    among = (struct ledger_names){ "uid:2000", "shop/", "shop0", NULL };
    assert_int_equal(ledger_first_name(t->ledger, &among, found, &t->err), DIBS_NOT_FOUND);
    among = (struct ledger_names){ "uid:1000", "shop/web", "shop/web\1", NULL };
    ASSERT_OK(ledger_first_name(t->ledger, &among, found, &t->err), &t->err);
    assert_string_equal(found, "shop/web");
}

static void a_name_gets_its_own_cooling_port_back(void **state)
{
    static const uint16_t candidates[] = { 26001, 26002 };
    struct t_ledger *t = *state;
    struct ledger_want want = dynamic("shop/web", candidates, 2);
    dibs_claim got = t_must(t, &want, 0);
    uint16_t remembered = 0;

    (void) t_end(t, &got, LEDGER_END_RELEASE);
    assert_int_equal(ledger_find_name(t->ledger, "uid:1000", "shop/web", &got, &remembered, &t->err),
                     DIBS_NOT_FOUND);
    assert_int_equal(remembered, 26001);
    want.remembered = remembered;
    assert_int_equal(t_must(t, &want, 0).port, 26001);
}

struct probing {
    uint16_t busy, abort;
    size_t n;
};

static enum ledger_probe probe(void *ctx, const dibs_claim *claim, uint16_t port, dibs_err *err)
{
    struct probing *p = ctx;

    assert_true(claim->n_bindings > 0);
    p->n++;
    if (port == p->abort && err) {
        err->code = DIBS_DENIED;
        (void) snprintf(err->msg, sizeof err->msg, "not your port");
    }
    return port == p->abort ? LEDGER_PROBE_ABORT : port == p->busy ? LEDGER_PROBE_BUSY : LEDGER_PROBE_FREE;
}

static dibs_status claim_probing(struct t_ledger *t, const struct ledger_want *want, struct probing *p,
                                 const struct ledger_seen *dead, dibs_claim *out)
{
    struct ledger_batch batch = {
        .wants = want, .n = 1, .probe = probe, .probe_ctx = p, .dead = dead, .n_dead = dead ? 1 : 0
    };

    return ledger_claim(t->ledger, &batch, &t->actor, out, &t->refusal, &t->err);
}

static void a_busy_port_is_passed_over_and_reported(void **state)
{
    static const uint16_t candidates[] = { 26001, 26002 };
    struct t_ledger *t = *state;
    struct ledger_want want = dynamic(NULL, candidates, 2);
    struct probing p = { .busy = 26001 };
    dibs_claim got = { 0 };

    ASSERT_OK(claim_probing(t, &want, &p, NULL, &got), &t->err);
    assert_int_equal(got.port, 26002);
    assert_int_equal(t->refusal.n_busy, 1);
    assert_int_equal(t->refusal.busy[0], 26001);
    want.n_candidates = 1;
    want.is_choice = false;
    assert_int_equal(claim_probing(t, &want, &p, NULL, &got), DIBS_TAKEN);
    assert_true(t->refusal.is_busy);
    assert_int_equal(t->refusal.port, 26001);
    assert_int_equal(t->refusal.n_blockers, 0);
}

static void a_claimed_port_is_never_probed(void **state)
{
    static const uint16_t candidates[] = { 26001 };
    struct t_ledger *t = *state;
    struct ledger_want want = dynamic(NULL, candidates, 1);
    struct probing p = { 0 };
    dibs_claim got = t_must(t, &want, 0);

    assert_int_equal(claim_probing(t, &want, &p, NULL, &got), DIBS_EXHAUSTED);
    assert_int_equal(p.n, 0);
}

static void a_probe_that_aborts_ends_the_call_with_its_reason(void **state)
{
    static const uint16_t candidates[] = { 26001, 26002 };
    struct t_ledger *t = *state;
    struct ledger_want want = dynamic("shop/web", candidates, 2);
    struct probing p = { .abort = 26001 };
    dibs_claim got = { 0 };

    assert_int_equal(claim_probing(t, &want, &p, NULL, &got), DIBS_DENIED);
    assert_string_equal(t->err.msg, "not your port");
    assert_int_equal(p.n, 1);
    assert_int_equal(t_tail(t), 0); /* nothing was written */
}

static void a_dead_holders_name_moves_on_when_a_stranger_sits_on_its_port(void **state)
{
    static const uint16_t candidates[] = { 26001, 26002 };
    struct t_ledger *t = *state;
    struct ledger_want want = dynamic("shop/web", candidates, 2);
    struct probing p = { .busy = 26001 };
    dibs_claim got = { 0 };

    t_by_process(&want, 500);
    dibs_claim first = t_must(t, &want, 0);
    struct ledger_seen dead = t_seen(&first);
    t_by_process(&want, 600);
    want.accepts_cooling = true;
    ASSERT_OK(claim_probing(t, &want, &p, &dead, &got), &t->err);
    assert_int_equal(got.port, 26002);
    assert_int_not_equal(got.id, first.id);
    struct t_events events = t_events_since(t, 1);
    assert_int_equal(events.n, 2);
    assert_int_equal(events.item[0].kind, DIBS_EV_REAPED);
    assert_int_equal(events.item[0].port, 26001);
    assert_int_equal(events.item[1].kind, DIBS_EV_CLAIMED);
}

/* ---- taking over from the dead, batches ---- */

static void a_dead_blocker_gives_way_and_both_are_told(void **state)
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
    assert_int_equal(ledger_find_token(t->ledger, first.token, &found, &t->err), DIBS_NOT_FOUND);
    assert_int_equal(ledger_find_name(t->ledger, "uid:1000", "old", &found, NULL, &t->err), DIBS_NOT_FOUND);
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
    ASSERT_OK(ledger_transfer(t->ledger, dead, &heir, &t->actor, &got, &t->err), &t->err);
    assert_int_equal(t_claim_over(t, &new, 26001, &dead, &got), DIBS_TAKEN);
    assert_int_equal(t->refusal.blockers[0].process.pid, 700);
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
    assert_int_equal(t->refusal.n_blockers, 1);
    assert_int_equal(t->refusal.blockers[0].id, first.id);
    ASSERT_OK(ledger_find_token(t->ledger, first.token, &got, &t->err), &t->err);
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
    assert_int_equal(ledger_claim(t->ledger, &batch, &t->actor, out, &t->refusal, &t->err), DIBS_TAKEN);
    assert_int_equal(t->refusal.want, 2);
    assert_int_equal(t_tail(t), tail);
    assert_int_equal(t_list(t, (struct ledger_filter){ 0 }).n, 1);
    assert_int_equal(ledger_find_name(t->ledger, "uid:1000", "web/0", out, NULL, &t->err), DIBS_NOT_FOUND);
    size_t n = 0;
    struct ledger_seen seen = t_seen(&held);
    ASSERT_OK(ledger_end(t->ledger, &(struct ledger_ending){ &seen, 1, LEDGER_END_RELEASE }, &t->other, &n,
                         &t->err),
              &t->err);
    ASSERT_OK(ledger_claim(t->ledger, &batch, &t->actor, out, &t->refusal, &t->err), &t->err);
    assert_int_equal(out[2].port, 26003);
}

static void claims_of_one_batch_conflict_with_each_other(void **state)
{
    static const uint16_t ports[] = { 26001, 26002 };
    struct t_ledger *t = *state;
    struct ledger_want wants[2] = { dynamic(NULL, ports, 2), dynamic(NULL, ports, 2) };
    struct ledger_batch batch = { .wants = wants, .n = 2 };
    dibs_claim out[2] = { 0 };

    ASSERT_OK(ledger_claim(t->ledger, &batch, &t->actor, out, &t->refusal, &t->err), &t->err);
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
        wants[i] = dynamic(name, i == 0 ? bases : NULL, i == 0 ? 4 : 0);
    }
    wants[0].run = 3;
    for (int round = 0; round < 2; round++) {
        ASSERT_OK(ledger_claim(t->ledger, &batch, &t->actor, out, &t->refusal, &t->err), &t->err);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(out[i].port, 26010 + i);
    }
    assert_int_equal(t_list(t, (struct ledger_filter){ 0 }).n, 4);
    wants[0].n_candidates = 3;
    for (size_t i = 0; i < 3; i++)
        wants[i].claim.name[0] = '\0';
    assert_int_equal(ledger_claim(t->ledger, &batch, &t->actor, out, &t->refusal, &t->err), DIBS_EXHAUSTED);
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
        wants[i] = dynamic(name, i == 0 ? bases : NULL, i == 0 ? 1 : 0);
        (void) t_must(t, &wants[i], (uint16_t) (i == 2 ? 26005 : 26001 + i));
    }
    uint64_t tail = t_tail(t);
    wants[0].run = 3;
    assert_int_equal(ledger_claim(t->ledger, &batch, &t->actor, out, &t->refusal, &t->err), DIBS_TAKEN);
    assert_true(t->refusal.by_name);
    assert_true(t->refusal.breaks_run);
    assert_int_equal(t->refusal.n_blockers, 1);
    assert_string_equal(t->refusal.blockers[0].name, "web/2");
    assert_int_equal(t_tail(t), tail);
    batch.n = wants[0].run = 2; /* those two are a run */
    ASSERT_OK(ledger_claim(t->ledger, &batch, &t->actor, out, &t->refusal, &t->err), &t->err);
    assert_int_equal(out[0].port, 26001);
    assert_int_equal(out[1].port, 26002);
}

static void a_dry_run_decides_the_same_and_leaves_nothing(void **state)
{
    static const uint16_t ports[] = { 26001, 26002 };
    struct t_ledger *t = *state;
    struct ledger_want want = dynamic("shop/web", ports, 2);
    struct ledger_want blocker = t_want(NULL, "*");
    struct ledger_batch batch = { .wants = &want, .n = 1, .is_dry_run = true };
    dibs_claim out = { 0 };

    (void) t_must(t, &blocker, 26001);
    uint64_t tail = t_tail(t);
    ASSERT_OK(ledger_claim(t->ledger, &batch, &t->actor, &out, &t->refusal, &t->err), &t->err);
    assert_int_equal(out.port, 26002);
    assert_int_equal(t_tail(t), tail);
    assert_int_equal(ledger_find_name(t->ledger, "uid:1000", "shop/web", &out, NULL, &t->err),
                     DIBS_NOT_FOUND);
    assert_int_equal(t_must(t, &want, 0).port, 26002);
}

int main(int argc, char **argv)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, t_open, t_close)
    const struct CMUnitTest tests[] = {
        CASE(a_kept_claim_without_holder_is_answered_again),
        CASE(a_kept_claim_without_holder_gets_the_caller_as_holder),
        CASE(the_same_holder_gets_the_same_claim),
        CASE(a_dead_holders_name_keeps_its_port_under_a_new_generation),
        CASE(who_takes_a_claim_over_brings_his_user_and_his_network),
        CASE(a_dead_holders_name_moves_on_when_a_stranger_sits_on_its_port),
        CASE(another_live_holder_keeps_the_name),
        CASE(asking_for_something_else_says_so),
        CASE(a_lookup_never_becomes_holder),
        CASE(an_own_lease_is_extended_and_keeps_its_token),
        CASE(an_own_lease_becomes_a_process_hold),
        CASE(each_principal_has_its_own_names),
        CASE(a_name_of_another_directory_is_another_project),
        CASE(conflicts_follow_the_kernels_rule),
        CASE(ones_own_wildcard_conflicts_too),
        CASE(protocols_do_not_conflict),
        CASE(addresses_come_back_as_they_went_in),
        CASE(the_first_and_the_last_port_are_ports),
        CASE(eight_bindings_are_one_claim),
        CASE(a_declared_port_is_never_an_error_and_not_chosen),
        CASE(a_released_dynamic_port_cools),
        CASE(cooling_ends_at_its_moment_and_required_ignores_it),
        CASE(names_are_found_by_their_beginning_and_their_directory),
        CASE(a_name_gets_its_own_cooling_port_back),
        CASE(a_busy_port_is_passed_over_and_reported),
        CASE(a_claimed_port_is_never_probed),
        CASE(a_probe_that_aborts_ends_the_call_with_its_reason),
        CASE(a_dead_blocker_gives_way_and_both_are_told),
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
