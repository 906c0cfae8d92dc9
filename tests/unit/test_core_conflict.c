/* SPDX-License-Identifier: MIT */
/* Conflicts between claims: seeds §1.10 cases 18-28, and the content of a refusal (D18). */
#include "support/core.h"

enum who { FIRST, OTHER };

/* A row: the first claim stands; may the second have its binding of the same port? */
static const struct row {
    const char *about;
    uint16_t port;
    const char *first;
    enum who by;
    const char *second;
    dibs_status status;
    dibs_relation relation;
} rows[] = {
    { "case 18: the same", 26001, "127.0.0.1", OTHER, "127.0.0.1", DIBS_TAKEN, DIBS_REL_OTHER_HOLDER },
    { "case 22: 0.0.0.0 blocks", 26008, "0.0.0.0", OTHER, "127.0.0.1", DIBS_TAKEN, DIBS_REL_OTHER_HOLDER },
    { "case 23: and is blocked", 26009, "127.0.0.1", OTHER, "0.0.0.0", DIBS_TAKEN, DIBS_REL_OTHER_HOLDER },
    { "case 24: own wildcard", 26012, "127.0.0.1", FIRST, "0.0.0.0", DIBS_TAKEN, DIBS_REL_OWN_WILDCARD },
    { "case 25: own wildcard", 26013, "0.0.0.0", FIRST, "127.0.0.1", DIBS_TAKEN, DIBS_REL_OWN_WILDCARD },
    { "case 26: :: blocks ::1", 26010, "::", OTHER, "::1", DIBS_TAKEN, DIBS_REL_OTHER_HOLDER },
    { "case 27: 0.0.0.0 and ::1", 26011, "0.0.0.0", OTHER, "::1", DIBS_OK, DIBS_REL_NONE },
    { "P6: :: is dual-stack", 26014, "::", OTHER, "127.0.0.1", DIBS_TAKEN, DIBS_REL_OTHER_HOLDER },
    { "P6: and blocked by IPv4", 26015, "127.0.0.1", OTHER, "::", DIBS_TAKEN, DIBS_REL_OTHER_HOLDER },
    { "P6: 0.0.0.0 and ::", 26016, "0.0.0.0", OTHER, "*", DIBS_TAKEN, DIBS_REL_OTHER_HOLDER },
    { "two loopbacks", 26017, "127.0.0.1", OTHER, "127.0.0.2", DIBS_OK, DIBS_REL_NONE },
    { "::1 and 127.0.0.1", 26018, "::1", OTHER, "127.0.0.1", DIBS_OK, DIBS_REL_NONE },
    { "P4: own, the same", 26019, "127.0.0.1", FIRST, "127.0.0.1", DIBS_TAKEN, DIBS_REL_SAME_HOLDER },
    { "M3: mapped is IPv4", 26020, "::ffff:127.0.0.1", OTHER, "127.0.0.1", DIBS_TAKEN,
      DIBS_REL_OTHER_HOLDER },
};

static void D27_cases_18_and_22_to_27_conflicts_follow_the_kernels_rule(void **state)
{
    struct engine *e = *state;

    need_network();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *row = &rows[i];
        dibs_request r = e_required(NULL, row->second, row->port);
        dibs_claim out = { 0 };

        (void) e_port(e, e->core, row->first, row->port);
        dibs_status s = e_try(e, row->by == OTHER ? e_other(e) : e->core, &r, &out);
        if (s != row->status || (s == DIBS_TAKEN && e->err.blocker.relation != row->relation))
            fail_msg("%s: %s, relation %d: %s", row->about, dibs_status_text(s), e->err.blocker.relation,
                     e->err.msg);
        if (s == DIBS_OK) { /* case 27: the answer has the address that was asked for */
            dibs_address asked = t_address(row->second);

            assert_true(dibs_address_equal(&out.bindings[0].address, &asked));
        }
    }
}

static void D18_own_wildcard_conflict_is_named(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_required(NULL, "127.0.0.1", 26012);
    dibs_claim out = { 0 };

    need_network();
    (void) e_port(e, e->core, "0.0.0.0", 26012);
    assert_int_equal(e_try(e, e->core, &r, &out), DIBS_TAKEN);
    assert_int_equal(e->err.blocker.relation, DIBS_REL_OWN_WILDCARD);
    assert_non_null(strstr(e->err.msg, "your own wildcard claim"));
    assert_non_null(strstr(e->err.msg, "0.0.0.0"));
    assert_null(strstr(e->err.msg, "another"));
    assert_non_null(strstr(e->err.msg, "it covers what is asked for: use it"));
}

static void the_own_wildcard_is_recommended_only_when_it_covers_what_is_asked_for(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_required(NULL, "::", 26012);

    need_network();
    (void) e_port(e, e->core, "0.0.0.0", 26012);
    assert_int_equal(e_try(e, e->core, &r, &(dibs_claim){ 0 }), DIBS_TAKEN);
    assert_int_equal(e->err.blocker.relation, DIBS_REL_OWN_WILDCARD);
    assert_null(strstr(e->err.msg, "use it"));
    assert_non_null(strstr(e->err.msg, "only a part of what is asked for; release it first"));
}

static void P5_the_own_wildcard_is_never_called_anothers(void **state)
{
    struct engine *e = *state;
    dibs_request wild = e_held(NULL, "0.0.0.0", 0);
    dibs_request one = e_held(NULL, "127.0.0.1", 0);
    dibs_claim out = { 0 };

    need_network();
    wild.mode = one.mode = DIBS_REQUIRED;
    wild.port = one.port = 26012;
    (void) e_must(e, e->core, &wild);
    assert_int_equal(e_try(e, e->core, &one, &out), DIBS_TAKEN);
    assert_int_equal(e->err.blocker.relation, DIBS_REL_OWN_WILDCARD);
    /* Another process of the same user is another holder. */
    pid_t pid = child_fork(child_idle, NULL);
    one.pid = (int32_t) pid;
    assert_int_equal(e_try(e, e->core, &one, &out), DIBS_TAKEN);
    child_end(pid);
    assert_int_equal(e->err.blocker.relation, DIBS_REL_OTHER_HOLDER);
}

static void D18_a_refusal_names_holder_start_and_remedy(void **state)
{
    struct engine *e = *state;
    dibs_request first = e_held("shop/web", "127.0.0.1", 0);
    dibs_request second = e_required("shop/api", "127.0.0.1", 26001);
    dibs_claim out = { 0 };

    need_network();
    first.mode = DIBS_REQUIRED;
    first.port = 26001;
    (void) e_must(e, e->core, &first);
    assert_int_equal(e_try(e, e_other(e), &second, &out), DIBS_TAKEN);
    const dibs_blocker *b = &e->err.blocker;
    assert_int_equal(b->relation, DIBS_REL_OTHER_HOLDER);
    assert_int_equal(b->proto, DIBS_TCP);
    assert_int_equal(b->port, 26001);
    assert_int_equal(b->pid, getpid());
    assert_int_equal(b->uid, geteuid());
    assert_int_equal(b->since_ms, e->now.wall_ms);
    assert_string_equal(b->name, "shop/web");
    assert_true(b->command[0] != '\0');
    assert_non_null(strstr(e->err.msg, "'shop/web'"));
    assert_non_null(strstr(e->err.msg, "127.0.0.1"));
    assert_non_null(strstr(e->err.msg, "since 2023-11-14T22:13:20Z"));
    assert_non_null(strstr(e->err.msg, "--prefer"));
}

static void case_19_a_repeated_request_by_name_gives_the_same_claim(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_required("svc", "127.0.0.1", 26002);
    dibs_claim first = { 0 };

    need_network();
    first = e_must(e, e->core, &r);
    dibs_claim again = e_must(e, e->core, &r);
    assert_int_equal(again.id, first.id);
    assert_int_equal(again.port, 26002);
    assert_true(again.was_there);
    assert_int_equal(e_count(e, NULL), 1);
}

static void case_20_a_released_port_can_be_had_by_another(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_required(NULL, "127.0.0.1", 26005);
    dibs_claim out = { 0 };

    need_network();
    dibs_claim mine = e_must(e, e->core, &r);
    assert_int_equal(e_try(e, e_other(e), &r, &out), DIBS_TAKEN);
    assert_int_equal(e_release(e, e->core, &mine), 1);
    (void) e_must(e, e_other(e), &r); /* by number, at once: cooling is for choice */
}

static void D9_case_21_releasing_what_another_holds_has_no_effect(void **state)
{
    struct engine *e = *state;
    const dibs_which by_port = { .port = 26006 };
    dibs_request r = e_required("x", "127.0.0.1", 26006);
    dibs_claim out = { 0 };
    size_t n = 99;

    need_network();
    dibs_claim mine = e_must(e, e->core, &r);
    ASSERT_OK(core_release(e_other(e), E_CALL(e, e_other(e)), &by_port, 0, &n, &e->err),
              &e->err); /* finds among one's own */
    assert_int_equal(n, 0);
    ASSERT_OK(core_release(e_other(e), E_CALL(e, e_other(e)), &(dibs_which){ .name = "x" }, 0, &n, &e->err),
              &e->err);
    assert_int_equal(n, 0);
    /* Even with the token: rights are the principal's. */
    assert_int_equal(
        core_release(e_other(e), E_CALL(e, e_other(e)), &(dibs_which){ .token = mine.token }, 0, &n, &e->err),
        DIBS_DENIED);
    assert_int_equal(e_try(e, e_other(e), &r, &out), DIBS_TAKEN);
}

static void D25_case_28_addresses_are_packed_and_protocols_have_one_spelling(void **state)
{
    struct engine *e = *state;
    dibs_proto proto = 0;
    dibs_request r = { .mode = DIBS_REQUIRED, .port = 26007, .keep = true };

    need_network();
    ASSERT_OK(dibs_proto_parse("tCp", &proto, &e->err), &e->err);
    e_bind_to(&r, proto, "0:0:0:0:0:0:0:1");
    (void) e_must(e, e->core, &r);
    e_bind_to(&r, DIBS_TCP, "::ffff:127.0.0.1");
    r.port = 26008;
    (void) e_must(e, e->core, &r);
    struct e_list *list = calloc(1, sizeof *list);
    assert_non_null(list);
    ASSERT_OK(
        core_list(e->core, E_CALL(e, e->core), &(dibs_filter){ .proto = DIBS_TCP }, e_note, list, &e->err),
        &e->err);
    assert_int_equal(list->n, 2);
    assert_int_equal(list->claims[0].bindings[0].address.len, 16);
    assert_int_equal(list->claims[0].bindings[0].address.bytes[15], 1);
    assert_int_equal(list->claims[1].bindings[1].address.len, 4);
    free(list);
}

static void P4_two_claims_never_share_a_port_and_the_first_release_frees_only_its_own(void **state)
{
    struct engine *e = *state;
    dibs_request a = e_required("a", "127.0.0.1", 26001);
    dibs_request b = e_required("b", "127.0.0.1", 26001);
    dibs_claim out = { 0 };

    need_network();
    dibs_claim first = e_must(e, e->core, &a);
    assert_int_equal(e_try(e, e->core, &b, &out), DIBS_TAKEN);
    assert_int_equal(e->err.blocker.relation, DIBS_REL_SAME_HOLDER);
    assert_string_equal(e->err.blocker.name, "a");
    assert_int_equal(e_release(e, e->core, &first), 1);
    out = e_must(e, e->core, &b);
    assert_int_equal(e_release(e, e->core, &first), 0);
    assert_int_equal(e_count(e, NULL), 1);
}

static void a_blocker_of_unknown_state_is_reported_as_unknown(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_required(NULL, "127.0.0.1", 26001);
    struct ledger_want want = t_want(NULL, "127.0.0.1");
    uint16_t port = 26001;
    struct ledger_refusal refusal = { 0 };
    dibs_claim out = { 0 };

    need_network();
    /* A process of a pid namespace that is not below ours cannot be judged. */
    t_by_process(&want, 4711);
    memcpy(want.claim.process.boot_id, e->core->view.boot_id, sizeof want.claim.process.boot_id);
    want.claim.process.pidns = e->core->view.pidns + 1000000;
    want.candidates = &port;
    want.n_candidates = 1;
    const struct ledger_batch batch = { .wants = &want, .n = 1 };
    if (e->core->view.is_initial_pidns)
        e->core->view.is_initial_pidns = false; /* look as from a container, which sees only its own */
    ASSERT_OK(ledger_claim(e->core->ledger, E_CALL(e, e->core), &batch, &out, &refusal, &e->err), &e->err);
    assert_int_equal(e_try(e, e->core, &r, &out), DIBS_TAKEN); /* INV-5 */
    assert_non_null(strstr(e->err.msg, "is unknown whether it is alive"));
    assert_int_equal(e_reap(e, e->core), 0);
    size_t n = 0;
    assert_int_equal(
        core_release(e->core, E_CALL(e, e->core), &(dibs_which){ .port = 26001 }, 0, &n, &e->err),
        DIBS_TAKEN);
    ASSERT_OK(core_release(e->core, E_CALL(e, e->core), &(dibs_which){ .port = 26001 }, DIBS_RELEASE_FORCE,
                           &n, &e->err),
              &e->err);
    assert_int_equal(n, 1);
}

static void a_port_busy_for_one_protocol_or_address_is_not_withheld_from_another(void **state)
{
    struct engine *e = *state;
    dibs_ranges one = e_ranges("26010");
    dibs_request both = e_request(NULL, "127.0.0.1");
    dibs_request tcp = e_request(NULL, "127.0.0.1");
    dibs_claim out = { 0 };

    need_network();
    both.ranges = tcp.ranges = &one;
    e_bind_to(&both, DIBS_UDP, "127.0.0.1");
    int udp = e_serve(DIBS_UDP, "127.0.0.1", 26010);
    assert_int_equal(e_try(e, e->core, &both, &out), DIBS_EXHAUSTED);
    assert_int_equal(e_must(e, e->core, &tcp).port, 26010);
    assert_int_equal(e_try(e, e->core, &both, &out), DIBS_EXHAUSTED);
    (void) close(udp);
}

static void the_default_pool_is_that_of_the_current_caller(void **state)
{
    struct engine *e = *state;
    struct call *call = &e_user(e, e->core)->call;
    dibs_request r = e_request(NULL, "127.0.0.1");

    need_network();
    e->settings2 = e->settings;
    e->settings2.range = e_ranges("19020-19029");
    for (int i = 0; i < 2; i++) { /* in the same second */
        call->settings = &e->settings2;
        assert_in_range(e_must(e, e->core, &r).port, 19020, 19029);
        call->settings = &e->settings;
        assert_true(dibs_ranges_contain(&e->settings.range, e_must(e, e->core, &r).port));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(D27_cases_18_and_22_to_27_conflicts_follow_the_kernels_rule),
        E_TEST(D18_own_wildcard_conflict_is_named),
        E_TEST(the_own_wildcard_is_recommended_only_when_it_covers_what_is_asked_for),
        E_TEST(P5_the_own_wildcard_is_never_called_anothers),
        E_TEST(D18_a_refusal_names_holder_start_and_remedy),
        E_TEST(case_19_a_repeated_request_by_name_gives_the_same_claim),
        E_TEST(case_20_a_released_port_can_be_had_by_another),
        E_TEST(D9_case_21_releasing_what_another_holds_has_no_effect),
        E_TEST(D25_case_28_addresses_are_packed_and_protocols_have_one_spelling),
        E_TEST(P4_two_claims_never_share_a_port_and_the_first_release_frees_only_its_own),
        E_TEST(a_blocker_of_unknown_state_is_reported_as_unknown),
        E_TEST(a_port_busy_for_one_protocol_or_address_is_not_withheld_from_another),
        E_TEST(the_default_pool_is_that_of_the_current_caller),
    };

    e_own_network();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
