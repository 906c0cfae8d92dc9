/* SPDX-License-Identifier: MIT */
/* Reports of a port (explain, assert), of a pool (usage), and Kubernetes' snapshots. */
#include "support/core.h"

static dibs_port_report *explain(struct engine *e, uint16_t port, const dibs_request *r)
{
    static dibs_port_report report;

    ASSERT_OK(core_explain(e->core, E_CALL(e, e->core),
                           &(dibs_port_question){ port, NULL, r ? r->bindings : NULL, r ? r->n_bindings : 0 },
                           &report, &e->err),
              &e->err);
    return &report;
}

static const dibs_reason *reason(const dibs_port_report *report, dibs_reason_kind kind)
{
    for (size_t i = 0; i < report->n_reasons; i++)
        if (report->reasons[i].kind == kind)
            return &report->reasons[i];
    return NULL;
}

/* The reason is there and says whether it blocks a number and a choice. */
static void expect(struct engine *e, uint16_t port, dibs_reason_kind kind, bool blocks_static,
                   bool blocks_dynamic)
{
    const dibs_port_report *report = explain(e, port, NULL);
    const dibs_reason *r = reason(report, kind);

    if (!r)
        fail_msg("port %u: reason %d is missing", port, kind);
    else if (r->blocks_static != blocks_static || r->blocks_dynamic != blocks_dynamic || !r->text[0] ||
             !r->advice[0])
        fail_msg("port %u: reason %d: static %d dynamic %d: %s (%s)", port, kind, r->blocks_static,
                 r->blocks_dynamic, r->text, r->advice);
    assert_int_equal(report->can_claim, !blocks_static);
}

static void every_reason_is_given_and_says_what_it_blocks(void **state)
{
    struct engine *e = *state;
    dibs_request declared = e_kept("d", NULL);
    dibs_request r = e_request(NULL, NULL);

    need_network();
    assert_int_equal(explain(e, 26001, NULL)->n_reasons, 0);
    assert_true(explain(e, 26001, NULL)->can_choose);

    (void) e_port(e, e_other(e), NULL, 26001);
    expect(e, 26001, DIBS_WHY_CLAIMED, true, true);
    declared.mode = DIBS_DECLARED;
    declared.port = 26002;
    (void) e_must(e, e->core, &declared);
    expect(e, 26002, DIBS_WHY_DECLARED, false, true);
    int fd = e_serve(DIBS_TCP, "127.0.0.1", 26003);
    expect(e, 26003, DIBS_WHY_FOREIGN, true, true);
    assert_int_equal(explain(e, 26003, NULL)->sockets[0].pid, getpid());
    (void) close(fd);
    dibs_claim cooling = e_must(e, e->core, &r);
    assert_int_equal(e_release(e, e->core, &cooling), 1);
    expect(e, cooling.port, DIBS_WHY_COOLING, false, false);
    e_pass(e, 5000);
    assert_null(reason(explain(e, cooling.port, NULL), DIBS_WHY_COOLING));
    expect(e, 40000, DIBS_WHY_EPHEMERAL, false, true);
    expect(e, 9229, DIBS_WHY_OUTSIDE, false, true);
    expect(e, 20001, DIBS_WHY_BAND, false, false);
    expect(e, 6000, DIBS_WHY_BROWSER, false, true);
    assert_int_equal(core_explain(e->core, E_CALL(e, e->core), &(dibs_port_question){ 0, NULL, NULL, 0 },
                                  explain(e, 1, NULL), &e->err),
                     DIBS_INVALID);
}

static void D1_the_source_of_the_ephemeral_range_is_reported(void **state)
{
    struct engine *e = *state;

    need_network();
    const dibs_reason *r = reason(explain(e, 40000, NULL), DIBS_WHY_EPHEMERAL);
    assert_non_null(r);
    assert_non_null(strstr(r->text, "(detected)"));
}

static void reserved_ports_are_withheld_from_choice_and_explained(void **state)
{
    struct engine *e = *state;
    dibs_ranges two = e_ranges("28000-28001");
    dibs_request r = e_request(NULL, NULL);

    need_network();
    need_root();
    if (child_write_file("/proc/sys/net/ipv4/ip_local_reserved_ports", "28000") != 0)
        SKIP_BECAUSE("cannot reserve a port here");
    e_pass(e, 2000);
    expect(e, 28000, DIBS_WHY_RESERVED, false, true);
    r.ranges = &two;
    assert_int_equal(e_must(e, e->core, &r).port, 28001);
    assert_int_equal(e_try(e, e->core, &r, &(dibs_claim){ 0 }), DIBS_EXHAUSTED);
    (void) e_port(e, e->core, NULL, 28000); /* by number it can be had */
    assert_int_equal(child_write_file("/proc/sys/net/ipv4/ip_local_reserved_ports", "\n"), 0);
}

static void a_port_with_a_claim_of_another_address_can_be_chosen(void **state)
{
    struct engine *e = *state;
    dibs_request asked = e_request(NULL, "127.0.0.2");

    need_network();
    (void) e_port(e, e_other(e), "127.0.0.1", 26001);
    const dibs_port_report *report = explain(e, 26001, &asked);
    assert_true(report->can_claim);
    assert_true(report->can_choose);
    assert_non_null(strstr(report->reasons[0].text, "can still take it"));
    const dibs_ranges one = { .item = { { 26001, 26001 } }, .n = 1 };
    asked.ranges = &one;
    assert_int_equal(e_must(e, e->core, &asked).port, 26001);
    report = explain(e, 26001, NULL); /* on every address */
    assert_false(report->can_claim);
    assert_false(report->can_choose);
}

static void a_dead_holder_is_explained_and_does_not_block(void **state)
{
    struct engine *e = *state;
    pid_t pid = child_fork(child_idle, NULL);
    dibs_request r = e_held("web", NULL, pid);

    need_network();
    r.mode = DIBS_REQUIRED;
    r.port = 26001;
    (void) e_must(e, e->core, &r);
    expect(e, 26001, DIBS_WHY_CLAIMED, true, true);
    child_end(pid);
    expect(e, 26001, DIBS_WHY_CLAIMED, false, false);
    assert_non_null(strstr(explain(e, 26001, NULL)->reasons[0].text, "dead"));
}

static void a_holder_that_listens_is_asserted_and_nobody_or_a_stranger_is_not(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_held("web", "127.0.0.1", 0);
    const dibs_which which = { .name = "web" };
    dibs_socket socket = { 0 };

    need_network();
    assert_int_equal(core_assert(e->core, E_CALL(e, e->core), &which, &socket, &e->err), DIBS_NOT_FOUND);
    r.mode = DIBS_REQUIRED;
    r.port = 26001;
    (void) e_must(e, e->core, &r);
    memset(&e->err, 0, sizeof e->err);
    assert_int_equal(core_assert(e->core, E_CALL(e, e->core), &which, &socket, &e->err), DIBS_TAKEN);
    assert_int_equal(e->err.blocker.relation, DIBS_REL_NONE);
    /* Started before there is a socket: it inherits none. */
    pid_t pid = child_fork(child_idle, NULL);
    int fd = e_serve(DIBS_TCP, "127.0.0.1", 26001);
    ASSERT_OK(core_assert(e->core, E_CALL(e, e->core), &which, &socket, &e->err), &e->err);
    assert_int_equal(socket.pid, getpid());
    /* The claim is handed to a process that does not have the socket. */
    const dibs_heir heir = { .holder = DIBS_HELD_BY_PROCESS, .pid = (int32_t) pid };
    dibs_claim out = { 0 };
    ASSERT_OK(core_transfer(e->core, E_CALL(e, e->core), &which, &heir, &out, &e->err), &e->err);
    dibs_status s = core_assert(e->core, E_CALL(e, e->core), &which, &socket, &e->err);
    child_end(pid);
    assert_int_equal(s, DIBS_TAKEN);
    assert_int_equal(e->err.blocker.relation, DIBS_REL_FOREIGN);
    (void) close(fd);
}

/* ---- pools ---- */

static void K8_W13_usage_is_right_from_the_start_by_kind_and_after_every_step(void **state)
{
    struct engine *e = *state;
    dibs_pool_usage u = { 0 };
    dibs_request r = e_request(NULL, NULL);

    need_network();
    e_pool(e, "p", "32760-32771", 0, 0);
    r.pool = "p";
    ASSERT_OK(core_pool_usage(e->core, E_CALL(e, e->core), "p", &u, &e->err), &e->err);
    assert_int_equal(u.size, 12);
    assert_int_equal(u.n_withheld, 4); /* 32768-32771 are ephemeral */
    assert_int_equal(u.n_available, 8);
    dibs_claim dynamic = e_must(e, e->core, &r);
    (void) e_port(e, e_other(e), NULL, dynamic.port == 32760 ? 32761 : 32760);
    ASSERT_OK(core_pool_usage(e->core, E_CALL(e, e->core), "p", &u, &e->err), &e->err);
    assert_int_equal(u.n_static, 1);
    assert_int_equal(u.n_dynamic, 1);
    assert_int_equal(u.n_available, 6);
    assert_int_equal(e_release(e, e->core, &dynamic), 1);
    ASSERT_OK(core_pool_usage(e->core, E_CALL(e, e->core), "p", &u, &e->err), &e->err);
    assert_int_equal(u.n_dynamic, 0);
    assert_int_equal(u.n_available, 7);
}

static void K4_D28_the_default_pool_needs_no_configuration_and_can_be_changed(void **state)
{
    struct engine *e = *state;
    dibs_pool_usage u = { 0 };
    dibs_request r = e_request(NULL, NULL);

    need_network();
    ASSERT_OK(core_pool_usage(e->core, E_CALL(e, e->core), NULL, &u, &e->err), &e->err);
    assert_int_equal(u.size, 12768);
    assert_int_equal(u.band, 128);
    e->settings.range = e_ranges("28000-28001,28010");
    e->settings.source[DIBS_SET_RANGE] = DIBS_FROM_ENVIRONMENT;
    for (int i = 0; i < 3; i++)
        assert_true(dibs_ranges_contain(&e->settings.range, e_must(e, e->core, &r).port));
    assert_int_equal(e_try(e, e->core, &r, &(dibs_claim){ 0 }), DIBS_EXHAUSTED);
}

static void a_pool_that_makes_no_sense_is_refused(void **state)
{
    struct engine *e = *state;
    const dibs_pool good = { .name = "p", .ranges = e_ranges("28000-28009"), .band = 0, .order = "stride" };
    dibs_pool bad = good;

    ASSERT_OK(core_pool_check(&good, &e->err), &e->err);
    (void) snprintf(bad.name, sizeof bad.name, "1p");
    assert_int_equal(core_pool_check(&bad, &e->err), DIBS_INVALID);
    bad = good;
    bad.ranges.n = 0;
    assert_int_equal(core_pool_check(&bad, &e->err), DIBS_INVALID);
    bad = good;
    bad.band = 10;
    assert_int_equal(core_pool_check(&bad, &e->err), DIBS_INVALID);
    bad = good;
    bad.band = -2;
    assert_int_equal(core_pool_check(&bad, &e->err), DIBS_INVALID);
    bad = good;
    (void) snprintf(bad.order, sizeof bad.order, "zigzag");
    assert_int_equal(core_pool_check(&bad, &e->err), DIBS_INVALID);
    bad = good;
    bad.cooldown_ms = -1;
    assert_int_equal(core_pool_check(&bad, &e->err), DIBS_INVALID);
}

static void W12_claims_outside_of_a_changed_range_stay(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request("web", NULL);

    need_network();
    e_pool(e, "p", "28000-28009", 0, 0);
    r.pool = "p";
    dibs_claim first = e_must(e, e->core, &r);
    e_pool(e, "p", "29000-29009", 0, 0);
    assert_int_equal(e_must(e, e->core, &r).port, first.port);
    r.name = "api";
    assert_in_range(e_must(e, e->core, &r).port, 29000, 29009);
}

/* ---- snapshots ---- */

static void W9_a_snapshot_goes_there_and_back_and_a_bad_one_is_refused_whole(void **state)
{
    struct engine *e = *state;
    char range[DIBS_RANGES_TEXT_MAX + 1] = "";
    uint8_t bytes[8192] = { 0 };
    size_t n = sizeof bytes;
    size_t claimed = 99;

    need_network();
    e_pool(e, "a", "28000-28015", 0, 0);
    e_pool(e, "b", "29000-29015", 0, 0);
    (void) e_port(e, e->core, NULL, 28003);
    (void) e_port(e, e->core, NULL, 28009);
    ASSERT_OK(core_snapshot_export(e->core, E_CALL(e, e->core), "a",
                                   &(struct core_range_export){ range, bytes, &n }, &e->err),
              &e->err);
    assert_string_equal(range, "28000-28015");
    assert_int_equal(n, 2);
    assert_int_equal(bytes[0], 0x02); /* big-endian: {3, 9} is 02 08 */
    assert_int_equal(bytes[1], 0x08);
    assert_int_equal(core_snapshot_import(e->core, E_CALL(e, e->core), "b",
                                          &(dibs_range_snapshot){ range, bytes, n }, &claimed, &e->err),
                     DIBS_INVALID);
    const uint8_t beyond[] = { 0x01, 0x00, 0x00 }; /* bit 16 of a range of 16 */
    assert_int_equal(core_snapshot_import(e->core, E_CALL(e, e->core), "b",
                                          &(dibs_range_snapshot){ "29000-29015", beyond, 3 }, &claimed,
                                          &e->err),
                     DIBS_INVALID);
    assert_int_equal(e_count(e, NULL), 2);
    ASSERT_OK(core_snapshot_import(e->core, E_CALL(e, e->core), "b",
                                   &(dibs_range_snapshot){ "29000-29015", bytes, n }, &claimed, &e->err),
              &e->err);
    assert_int_equal(claimed, 2);
    assert_int_equal(e_count(e, &(dibs_filter){ .port = 29003 }), 1);
    assert_int_equal(e_count(e, &(dibs_filter){ .port = 29009 }), 1);
}

static void tokens_appear_in_no_listing(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request("web", "127.0.0.1");
    struct e_list *list = calloc(1, sizeof *list);

    assert_non_null(list);
    assert_true(e_must(e, e->core, &r).token[0] != '\0');
    ASSERT_OK(core_list(e_other(e), E_CALL(e, e_other(e)), &(dibs_filter){ 0 }, e_note, list, &e->err),
              &e->err);
    assert_int_equal(list->n, 1);
    assert_int_equal(list->claims[0].token[0], '\0');
    free(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(every_reason_is_given_and_says_what_it_blocks),
        E_TEST(D1_the_source_of_the_ephemeral_range_is_reported),
        E_TEST(reserved_ports_are_withheld_from_choice_and_explained),
        E_TEST(a_port_with_a_claim_of_another_address_can_be_chosen),
        E_TEST(a_dead_holder_is_explained_and_does_not_block),
        E_TEST(a_holder_that_listens_is_asserted_and_nobody_or_a_stranger_is_not),
        E_TEST(K8_W13_usage_is_right_from_the_start_by_kind_and_after_every_step),
        E_TEST(K4_D28_the_default_pool_needs_no_configuration_and_can_be_changed),
        E_TEST(a_pool_that_makes_no_sense_is_refused),
        E_TEST(W12_claims_outside_of_a_changed_range_stay),
        E_TEST(W9_a_snapshot_goes_there_and_back_and_a_bad_one_is_refused_whole),
        E_TEST(tokens_appear_in_no_listing),
    };

    e_own_network();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
