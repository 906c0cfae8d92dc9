/* SPDX-License-Identifier: MIT */
/* The promises of every ledger about claiming: conflicts, declared and cooling ports, the probe. Names:
 * test_ledger_names.c, batches: test_ledger_batch.c. argv[1] names the backend. */
#include "support/ledger.h"

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
        assert_true(t->refusal.has_blocker);
        assert_int_equal(t->refusal.blocker.id, first.id);
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
    assert_string_equal(t->refusal.blocker.principal, "uid:1000");
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
    found = t_stored(t, got.id);
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
    found = t_stored(t, got.id);
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
    assert_int_equal(t_must(t, &required, 26001).port, 26001); /* declared: the user binds it without dibs */
    (void) t_must(t, &declared, 26001);                        /* also over an exclusive claim */
}

static void a_released_dynamic_port_cools(void **state)
{
    static const uint16_t candidates[] = { 26001, 26002 };
    struct t_ledger *t = *state;
    struct ledger_want want = t_dynamic(NULL, candidates, 2);
    struct ledger_want only = t_dynamic(NULL, candidates, 1);
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
    struct ledger_want one = t_dynamic(NULL, candidates, 1);
    struct ledger_want required = t_want(NULL, "*");
    dibs_claim got = t_must(t, &one, 0);

    (void) t_end(t, &got, LEDGER_END_RELEASE);
    t->call.now.boot_ms += 4999;
    assert_int_equal(t_claim(t, &one, 0, &got), DIBS_EXHAUSTED);
    t->call.now.boot_ms += 1;
    got = t_must(t, &one, 0);
    (void) t_end(t, &got, LEDGER_END_RELEASE);
    assert_int_equal(t_must(t, &required, 26001).port, 26001);
}

static void a_name_gets_its_own_cooling_port_back(void **state)
{
    static const uint16_t candidates[] = { 26001, 26002 };
    struct t_ledger *t = *state;
    struct ledger_want want = t_dynamic("shop/web", candidates, 2);
    dibs_claim got = t_must(t, &want, 0);
    uint16_t remembered = 0;

    (void) t_end(t, &got, LEDGER_END_RELEASE);
    assert_int_equal(ledger_find_name(t->ledger, &t->call, "shop/web", &got, &remembered, &t->err),
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

    return ledger_claim(t->ledger, &t->call, &batch, out, &t->refusal, &t->err);
}

static void a_busy_port_is_passed_over_and_reported(void **state)
{
    static const uint16_t candidates[] = { 26001, 26002 };
    struct t_ledger *t = *state;
    struct ledger_want want = t_dynamic(NULL, candidates, 2);
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
    assert_false(t->refusal.has_blocker);
}

static void a_claimed_port_is_never_probed(void **state)
{
    static const uint16_t candidates[] = { 26001 };
    struct t_ledger *t = *state;
    struct ledger_want want = t_dynamic(NULL, candidates, 1);
    struct probing p = { 0 };
    dibs_claim got = t_must(t, &want, 0);

    assert_int_equal(claim_probing(t, &want, &p, NULL, &got), DIBS_EXHAUSTED);
    assert_int_equal(p.n, 0);
}

static void a_probe_that_aborts_ends_the_call_with_its_reason(void **state)
{
    static const uint16_t candidates[] = { 26001, 26002 };
    struct t_ledger *t = *state;
    struct ledger_want want = t_dynamic("shop/web", candidates, 2);
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
    struct ledger_want want = t_dynamic("shop/web", candidates, 2);
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

#define CASE(name) cmocka_unit_test_setup_teardown(name, t_open, t_close)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(a_dead_holders_name_moves_on_when_a_stranger_sits_on_its_port),
        CASE(conflicts_follow_the_kernels_rule),
        CASE(ones_own_wildcard_conflicts_too),
        CASE(protocols_do_not_conflict),
        CASE(addresses_come_back_as_they_went_in),
        CASE(the_first_and_the_last_port_are_ports),
        CASE(eight_bindings_are_one_claim),
        CASE(a_declared_port_is_never_an_error_and_not_chosen),
        CASE(a_released_dynamic_port_cools),
        CASE(cooling_ends_at_its_moment_and_required_ignores_it),
        CASE(a_name_gets_its_own_cooling_port_back),
        CASE(a_busy_port_is_passed_over_and_reported),
        CASE(a_claimed_port_is_never_probed),
        CASE(a_probe_that_aborts_ends_the_call_with_its_reason),
    };

    return t_backend(argc, argv) ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
