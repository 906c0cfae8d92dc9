/* SPDX-License-Identifier: MIT */
/* The ledger against observation: seeds §3.9 cases 32-34, leaks by generation (W4), live sockets (K7);
 * and restoring a snapshot. */
#include "support/core.h"

#define KINDS (DIBS_REPAIR_REAPED + 1)

struct findings {
    unsigned n[KINDS];
    dibs_repair_item last[KINDS];
};

static bool note_finding(void *ctx, const dibs_repair_item *item)
{
    struct findings *f = ctx;

    f->n[item->kind]++;
    f->last[item->kind] = *item;
    return true;
}

static dibs_observed seen_at(uint16_t port, dibs_proto proto, const char *address, const char *name)
{
    dibs_observed o = { .port = port, .binding = { .proto = proto, .address = t_address(address) } };

    (void) snprintf(o.name, sizeof o.name, "%s", name);
    return o;
}

static struct findings repair(struct engine *e, const dibs_observed *observed, size_t n)
{
    static const dibs_observed nothing;
    const dibs_repair_plan plan = { .pool = "k8s", .observed = n ? observed : &nothing, .n = n };
    struct findings f = { 0 };

    ASSERT_OK(core_repair(e->core, E_CALL(e, e->core), &plan, note_finding, &f, &e->err), &e->err);
    return f;
}

static void case_32_an_empty_range_with_nothing_observed_is_in_order(void **state)
{
    struct engine *e = *state;

    e_pool(e, "k8s", "100-200", DIBS_BAND_AUTO, 0);
    struct findings f = repair(e, NULL, 0);
    for (size_t i = 0; i < KINDS; i++)
        assert_int_equal(f.n[i], 0);
    /* ... and an error of the ledger is passed on. */
    const dibs_repair_plan nowhere = { .pool = "no such pool" };
    assert_int_equal(core_repair(e->core, E_CALL(e, e->core), &nowhere, note_finding, &f, &e->err),
                     DIBS_NOT_FOUND);
}

static void case_33_a_leak_is_dropped_when_its_grace_is_over(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_kept(NULL, "127.0.0.1");
    struct findings f = { 0 };

    need_network();
    need_root(); /* port 111 */
    e_pool(e, "k8s", "100-200", DIBS_BAND_AUTO, 0);
    r.mode = DIBS_REQUIRED;
    r.port = 111;
    r.pool = "k8s";
    (void) e_must(e, e->core, &r);
    for (unsigned run = 1; run <= 5; run++) { /* runs without a pause, and one at the last moment */
        f = repair(e, NULL, 0);
        assert_int_equal(f.n[DIBS_REPAIR_SUSPECT], 1);
        assert_int_equal(f.last[DIBS_REPAIR_SUSPECT].sightings, run);
        assert_int_equal(e_count(e, NULL), 1);
        if (run == 4)
            e_pass(e, DIBS_GRACE_DEFAULT_MS - 1);
    }
    e_pass(e, 1);
    f = repair(e, NULL, 0);
    assert_int_equal(f.n[DIBS_REPAIR_LEAK], 1);
    assert_int_equal(f.n[DIBS_REPAIR_SUSPECT], 0);
    assert_int_equal(e_count(e, NULL), 0);
}

static void case_34_what_is_observed_is_claimed_and_the_rest_reported(void **state)
{
    struct engine *e = *state;
    const dibs_observed services[] = {
        seen_at(111, DIBS_TCP, "*", "one"),   seen_at(122, DIBS_TCP, "*", "two/0"),
        seen_at(133, DIBS_TCP, "*", "two/1"), seen_at(201, DIBS_TCP, "*", "three"),
        seen_at(111, DIBS_TCP, "*", "five"),  seen_at(144, DIBS_TCP, "*", "six/health"),
    };

    e_pool(e, "k8s", "100-200", DIBS_BAND_AUTO, 0);
    struct findings f = repair(e, services, 6);
    assert_int_equal(f.n[DIBS_REPAIR_RESTORED], 4);
    assert_int_equal(f.n[DIBS_REPAIR_OUTSIDE], 1);
    assert_int_equal(f.n[DIBS_REPAIR_DUPLICATE], 1);
    assert_int_equal(f.n[DIBS_REPAIR_LEAK], 0);
    assert_int_equal(f.n[DIBS_REPAIR_FULL], 0);
    static const uint16_t ports[] = { 111, 122, 133, 144 };
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(e_count(e, &(dibs_filter){ .port = ports[i] }), 1);
    dibs_pool_usage usage = { 0 };
    ASSERT_OK(core_pool_usage(e->core, E_CALL(e, e->core), "k8s", &usage, &e->err), &e->err);
    assert_int_equal(usage.size - usage.n_static - usage.n_dynamic, 97);
    /* Again: nothing to do; W5: an observation that cannot be kept is a finding, not a crash. */
    f = repair(e, services, 6);
    assert_int_equal(f.n[DIBS_REPAIR_RESTORED], 0);
}

static void W4_sightings_of_an_earlier_generation_do_not_count(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_kept("svc", "127.0.0.1");
    struct findings f = { 0 };

    need_network();
    e_pool(e, "k8s", "28000-28100", DIBS_BAND_AUTO, 0);
    r.mode = DIBS_REQUIRED;
    r.port = 28001;
    r.pool = "k8s";
    (void) e_must(e, e->core, &r);
    (void) repair(e, NULL, 0);
    e_pass(e, DIBS_GRACE_DEFAULT_MS);
    f = repair(e, NULL, 0);
    assert_int_equal(f.n[DIBS_REPAIR_LEAK], 1);
    /* Claimed again, not yet in use when the next repair runs: it has all its grace again. */
    (void) e_must(e, e->core, &r);
    f = repair(e, NULL, 0);
    assert_int_equal(f.n[DIBS_REPAIR_SUSPECT], 1);
    assert_int_equal(f.n[DIBS_REPAIR_LEAK], 0);
    e_pass(e, DIBS_GRACE_DEFAULT_MS);
    /* Handed over: a new generation, counted from the beginning. */
    dibs_claim out = { 0 };
    const dibs_heir heir = { .keep = true };
    ASSERT_OK(
        core_transfer(e->core, E_CALL(e, e->core), &(dibs_which){ .name = "svc" }, &heir, &out, &e->err),
        &e->err);
    f = repair(e, NULL, 0);
    assert_int_equal(f.last[DIBS_REPAIR_SUSPECT].sightings, 1);
    assert_int_equal(e_count(e, NULL), 1);
}

static void a_sighting_in_use_forgets_the_earlier_ones(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_kept("svc", "127.0.0.1");
    const dibs_observed used = seen_at(28001, DIBS_TCP, "127.0.0.1", "svc");
    struct findings f = { 0 };

    need_network();
    e_pool(e, "k8s", "28000-28100", DIBS_BAND_AUTO, 0);
    r.mode = DIBS_REQUIRED;
    r.port = 28001;
    (void) e_must(e, e->core, &r);
    for (int round = 0; round < 4; round++) {
        (void) repair(e, NULL, 0);
        e_pass(e, DIBS_GRACE_DEFAULT_MS / 2);
        f = repair(e, NULL, 0);
        assert_int_equal(f.n[DIBS_REPAIR_SUSPECT], 1);
        f = repair(e, &used, 1);
        assert_int_equal(f.n[DIBS_REPAIR_SUSPECT], 0);
    }
    assert_int_equal(e_count(e, NULL), 1);
}

static void INV_5_a_living_holder_is_no_leak_and_anothers_claim_not_ours_to_drop(void **state)
{
    struct engine *e = *state;
    dibs_request held = e_held("held", "127.0.0.1", 0);
    dibs_request theirs = e_kept("theirs", "127.0.0.1");

    need_network();
    e_pool(e, "k8s", "28000-28100", DIBS_BAND_AUTO, 0);
    held.pool = theirs.pool = "k8s";
    (void) e_must(e, e->core, &held);
    (void) e_must(e, e_other(e), &theirs);
    for (int round = 0; round < 5; round++, e_pass(e, DIBS_GRACE_DEFAULT_MS)) {
        struct findings f = repair(e, NULL, 0);

        assert_int_equal(f.n[DIBS_REPAIR_SUSPECT] + f.n[DIBS_REPAIR_LEAK], 0);
    }
    assert_int_equal(e_count(e, NULL), 2);
}

static void case_35_one_number_of_two_protocols_is_no_duplicate(void **state)
{
    struct engine *e = *state;
    const dibs_observed both[] = { seen_at(111, DIBS_TCP, "*", ""), seen_at(112, DIBS_TCP, "*", ""),
                                   seen_at(111, DIBS_UDP, "*", "") };
    const dibs_observed twice[] = { seen_at(121, DIBS_UDP, "*", ""), seen_at(121, DIBS_UDP, "*", ""),
                                    seen_at(122, DIBS_TCP, "*", "") };

    e_pool(e, "k8s", "100-200", DIBS_BAND_AUTO, 0);
    struct findings f = repair(e, both, 3);
    assert_int_equal(f.n[DIBS_REPAIR_RESTORED], 3);
    assert_int_equal(f.n[DIBS_REPAIR_DUPLICATE], 0);
    f = repair(e, twice, 3);
    assert_int_equal(f.n[DIBS_REPAIR_RESTORED], 2);
    assert_int_equal(f.n[DIBS_REPAIR_DUPLICATE], 1);
}

static void another_name_on_a_claimed_port_is_reported(void **state)
{
    struct engine *e = *state;
    const dibs_observed o = seen_at(111, DIBS_TCP, "*", "one");
    const dibs_observed p = seen_at(111, DIBS_TCP, "*", "other");

    e_pool(e, "k8s", "100-200", DIBS_BAND_AUTO, 0);
    (void) repair(e, &o, 1);
    struct findings f = repair(e, &p, 1);
    assert_int_equal(f.n[DIBS_REPAIR_DUPLICATE], 1);
    assert_non_null(strstr(f.last[DIBS_REPAIR_DUPLICATE].text, "'one'"));
}

static void K7_the_ledger_can_be_made_again_from_live_sockets(void **state)
{
    struct engine *e = *state;
    dibs_repair_plan plan = { .pool = "k8s", .is_dry_run = true };
    struct findings f = { 0 };
    struct e_list *list = calloc(1, sizeof *list);

    need_network();
    assert_non_null(list);
    e_pool(e, "k8s", "28000-28100", DIBS_BAND_AUTO, 0);
    int tcp = e_serve(DIBS_TCP, "127.0.0.1", 28001);
    int udp = e_serve(DIBS_UDP, "::1", 28002);
    int outside = e_serve(DIBS_TCP, "127.0.0.1", 27001); /* nobody's business */
    ASSERT_OK(core_repair(e->core, E_CALL(e, e->core), &plan, note_finding, &f, &e->err), &e->err);
    assert_int_equal(f.n[DIBS_REPAIR_RESTORED], 2);
    assert_int_equal(e_count(e, NULL), 0);
    plan.is_dry_run = false;
    f = (struct findings){ 0 };
    ASSERT_OK(core_repair(e->core, E_CALL(e, e->core), &plan, note_finding, &f, &e->err), &e->err);
    assert_int_equal(f.n[DIBS_REPAIR_RESTORED], 2);
    ASSERT_OK(core_list(e->core, E_CALL(e, e->core), &(dibs_filter){ .judge = true }, e_note, list, &e->err),
              &e->err);
    assert_int_equal(list->n, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(list->claims[i].holder, DIBS_HELD_BY_PROCESS);
        assert_int_equal(list->claims[i].process.pid, getpid());
        assert_int_equal(list->claims[i].life, DIBS_ALIVE);
    }
    f = (struct findings){ 0 };
    ASSERT_OK(core_repair(e->core, E_CALL(e, e->core), &plan, note_finding, &f, &e->err), &e->err);
    assert_int_equal(f.n[DIBS_REPAIR_RESTORED], 0);
    free(list);
    (void) close(tcp);
    (void) close(udp);
    (void) close(outside);
}

static void a_repair_by_sockets_reaps_the_dead(void **state)
{
    struct engine *e = *state;
    pid_t pid = child_fork(child_idle, NULL);
    dibs_request r = e_held("web", "127.0.0.1", pid);
    const dibs_repair_plan plan = { .pool = NULL };
    struct findings f = { 0 };

    need_network();
    (void) e_must(e, e->core, &r);
    child_end(pid);
    ASSERT_OK(core_repair(e->core, E_CALL(e, e->core), &plan, note_finding, &f, &e->err), &e->err);
    assert_int_equal(f.n[DIBS_REPAIR_REAPED], 1);
    assert_string_equal(f.last[DIBS_REPAIR_REAPED].name, "web");
}

static void W5_an_observed_port_is_claimed_whatever_claim_its_name_has(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_kept("one", "127.0.0.1");
    const dibs_observed o = seen_at(28050, DIBS_TCP, "127.0.0.1", "one"); /* the name has another port */

    need_network();
    e_pool(e, "k8s", "28000-28100", DIBS_BAND_AUTO, 0);
    r.mode = DIBS_REQUIRED;
    r.port = 28001;
    (void) e_must(e, e->core, &r);
    struct findings f = repair(e, &o, 1);
    assert_int_equal(f.n[DIBS_REPAIR_RESTORED], 1);
    assert_int_equal(f.n[DIBS_REPAIR_FULL], 0);
    r.name = NULL;
    r.port = 28050;
    assert_int_equal(e_try(e, e->core, &r, &(dibs_claim){ 0 }), DIBS_TAKEN);
}

/* ---- restoring a snapshot ---- */

static void only_an_admin_restores_the_claims_of_another(void **state)
{
    struct engine *e = *state;
    dibs_request kept = e_kept("theirs", "127.0.0.1");
    dibs_request mine = e_kept("mine", "127.0.0.1");
    dibs_claim claims[2] = { e_must(e, e->core, &mine), e_must(e, e_other(e), &kept) };
    const dibs_snapshot snapshot = { claims, 2, NULL, 0 };
    size_t n = 99;

    assert_int_equal(e_release(e, e->core, &claims[0]), 1);
    assert_int_equal(e_release(e, e->other, &claims[1]), 1);
    assert_int_equal(core_restore(e->core, E_CALL(e, e->core), &snapshot, &n, &e->err), DIBS_DENIED);
    assert_non_null(strstr(e->err.msg, "uid:2000"));
    assert_int_equal(e_count(e, NULL), 0); /* not even one's own: all or nothing */
    ASSERT_OK(core_restore(e_more(e, "uid:0", 0, true), E_CALL(e, e_more(e, "uid:0", 0, true)), &snapshot, &n,
                           &e->err),
              &e->err);
    assert_int_equal(n, 2);
    assert_int_equal(e_count(e, &(dibs_filter){ .principal = "uid:2000" }), 1);
}

static void a_claim_of_another_boot_is_restored_only_when_it_is_kept(void **state)
{
    struct engine *e = *state;
    dibs_request requests[4] = { e_held("held", "127.0.0.1", 0), e_request("lease", "127.0.0.1"),
                                 e_held("kept", "127.0.0.1", 0), e_request("now", "127.0.0.1") };
    dibs_claim claims[4] = { 0 };
    dibs_claim found = { 0 };
    size_t n = 99;

    requests[2].keep = true;
    for (size_t i = 0; i < 4; i++) {
        claims[i] = e_must(e, e->core, &requests[i]);
        assert_int_equal(e_release(e, e->core, &claims[i]), 1);
        if (i < 3) /* our own pid lives, and proves nothing */
            (void) snprintf(claims[i].process.boot_id, sizeof claims[i].process.boot_id, "%s", T_BOOT);
    }
    ASSERT_OK(core_restore(e->core, E_CALL(e, e->core), &(dibs_snapshot){ claims, 4, NULL, 0 }, &n, &e->err),
              &e->err);
    assert_int_equal(n, 2);
    assert_int_equal(e_count(e, NULL), 2);
    ASSERT_OK(core_find(e->core, E_CALL(e, e->core), &(dibs_which){ .name = "kept" }, &found, &e->err),
              &e->err);
    assert_int_equal(found.port, claims[2].port);
    assert_true(found.is_kept);
    assert_int_equal(found.holder, DIBS_HELD_BY_NOBODY);
    assert_int_equal(found.process.pid, 0);
    ASSERT_OK(core_find(e->core, E_CALL(e, e->core), &(dibs_which){ .name = "now" }, &found, &e->err),
              &e->err);
    assert_int_equal(found.holder, DIBS_HELD_BY_LEASE);
}

static void a_lease_comes_back_with_the_time_it_has_left_and_not_after_its_end(void **state)
{
    struct engine *e = *state;
    dibs_request requests[2] = { e_request("plain", "127.0.0.1"), e_request("kept", "127.0.0.1") };
    dibs_claim claims[2] = { 0 };
    const dibs_snapshot snapshot = { claims, 2, NULL, 0 };
    dibs_claim found = { 0 };
    size_t n = 99;

    requests[1].keep = true;
    for (size_t i = 0; i < 2; i++) {
        claims[i] = e_must(e, e->core, &requests[i]);
        (void) snprintf(claims[i].command, sizeof claims[i].command, "gone");
        assert_int_equal(e_release(e, e->core, &claims[i]), 1);
    }
    e_pass(e, E_LEASE - 1);
    ASSERT_OK(core_restore(e->core, E_CALL(e, e->core), &snapshot, &n, &e->err), &e->err);
    assert_int_equal(n, 2);
    ASSERT_OK(core_find(e->core, E_CALL(e, e->core), &(dibs_which){ .name = "plain" }, &found, &e->err),
              &e->err);
    assert_int_equal(found.lease_until_ms, claims[0].lease_until_ms);
    ASSERT_OK(core_release(e->core, E_CALL(e, e->core), &(dibs_which){ .all_mine = true }, 0, &n, &e->err),
              &e->err);
    e_pass(e, 1);
    ASSERT_OK(core_restore(e->core, E_CALL(e, e->core), &snapshot, &n, &e->err), &e->err);
    assert_int_equal(n, 1);
    ASSERT_OK(core_find(e->core, E_CALL(e, e->core), &(dibs_which){ .name = "kept" }, &found, &e->err),
              &e->err);
    assert_int_equal(found.holder, DIBS_HELD_BY_NOBODY);
    assert_int_equal(found.lease_ttl_ms, 0);
    assert_int_equal(found.lease_until_ms, 0);
    assert_string_equal(found.process.boot_id, "");
    assert_string_equal(found.command, "");
}

static void a_principal_that_is_no_user_of_a_host_has_no_claims_to_restore(void **state)
{
    static const char *const wrong[] = {
        "root",    "uid:",           "uid:-1",   "uid:01",   "uid:1 ",
        "UID:1",   "uid:4294967295", "ns:a",     "uid:1x",   "uid:99999999999",
        "uid:0x1", "uid:1@7",        "uid:1@7.", "uid:1@.7", "uid:1@7.8.9"
    };
    struct engine *e = *state;
    struct core *admin = e_more(e, "uid:0", 0, true);
    dibs_request r = e_kept("web", "127.0.0.1");
    dibs_claim claims[2] = { e_must(e, e->core, &r) };
    size_t n = 99;

    assert_int_equal(e_release(e, e->core, &claims[0]), 1);
    claims[1] = claims[0];
    claims[1].port++;
    claims[1].name[0] = '\0';
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        (void) snprintf(claims[1].principal, sizeof claims[1].principal, "%s", wrong[i]);
        assert_int_equal(
            core_restore(admin, E_CALL(e, admin), &(dibs_snapshot){ claims, 2, NULL, 0 }, &n, &e->err),
            DIBS_INVALID);
        assert_non_null(strstr(e->err.msg, "claims[1]"));
        assert_int_equal(e_count(e, NULL), 0);
    }
    (void) snprintf(claims[1].principal, sizeof claims[1].principal, "uid:4294967294");
    ASSERT_OK(core_restore(admin, E_CALL(e, admin), &(dibs_snapshot){ claims, 2, NULL, 0 }, &n, &e->err),
              &e->err);
    assert_int_equal(n, 2);
    claims[0] = claims[1];
    claims[0].port++;
    (void) snprintf(claims[0].principal, sizeof claims[0].principal,
                    "uid:4294967294@9223372036854775807.239373");
    ASSERT_OK(core_restore(admin, E_CALL(e, admin), &(dibs_snapshot){ claims, 1, NULL, 0 }, &n, &e->err),
              &e->err);
    assert_int_equal(n, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(case_32_an_empty_range_with_nothing_observed_is_in_order),
        E_TEST(case_33_a_leak_is_dropped_when_its_grace_is_over),
        E_TEST(case_34_what_is_observed_is_claimed_and_the_rest_reported),
        E_TEST(W4_sightings_of_an_earlier_generation_do_not_count),
        E_TEST(a_sighting_in_use_forgets_the_earlier_ones),
        E_TEST(INV_5_a_living_holder_is_no_leak_and_anothers_claim_not_ours_to_drop),
        E_TEST(case_35_one_number_of_two_protocols_is_no_duplicate),
        E_TEST(another_name_on_a_claimed_port_is_reported),
        E_TEST(K7_the_ledger_can_be_made_again_from_live_sockets),
        E_TEST(a_repair_by_sockets_reaps_the_dead),
        E_TEST(W5_an_observed_port_is_claimed_whatever_claim_its_name_has),
        E_TEST(only_an_admin_restores_the_claims_of_another),
        E_TEST(a_claim_of_another_boot_is_restored_only_when_it_is_kept),
        E_TEST(a_lease_comes_back_with_the_time_it_has_left_and_not_after_its_end),
        E_TEST(a_principal_that_is_no_user_of_a_host_has_no_claims_to_restore),
    };

    e_own_network();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
