/* SPDX-License-Identifier: MIT */
/* The end of claims: release, transfer, renewal, leases, orphans. */
#include "support/core.h"

/* ---- release ---- */

static void W1_W2_releasing_twice_never_frees_what_another_has_got_meanwhile(void **state)
{
    struct engine *e = *state;

    need_network();
    dibs_claim mine = e_port(e, e->core, "127.0.0.1", 26001);
    assert_int_equal(e_release(e, e->core, &mine), 1);
    dibs_claim theirs = e_port(e, e_other(e), "127.0.0.1", 26001);
    for (int i = 0; i < 3; i++)
        assert_int_equal(e_release(e, e->core, &mine), 0);
    ASSERT_OK(core_release(e->core, E_CALL(e, e->core), &(dibs_which){ .port = 26001 }, 0, NULL, &e->err),
              &e->err);
    assert_int_equal(e_count(e, NULL), 1);
    assert_int_equal(e_release(e, e->other, &theirs), 1);
}

static void W1_a_claim_of_tcp_and_udp_is_released_once_and_whole(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_required(NULL, "127.0.0.1", 26001);
    dibs_request udp = e_required(NULL, NULL, 26001);

    need_network();
    e_bind_to(&r, DIBS_UDP, "127.0.0.1");
    e_bind_to(&udp, DIBS_UDP, "127.0.0.1");
    dibs_claim both = e_must(e, e->core, &r);
    assert_int_equal(e_try(e, e_other(e), &udp, &(dibs_claim){ 0 }), DIBS_TAKEN);
    assert_int_equal(e_release(e, e->core, &both), 1);
    (void) e_must(e, e->other, &udp);
    assert_int_equal(e_release(e, e->core, &both), 0);
    assert_int_equal(e_count(e, NULL), 1);
}

static void D5_INV_11_releasing_nothing_is_fine(void **state)
{
    struct engine *e = *state;
    static const char *const tokens[] = { "", "nonsense", "1.1.00000000000000000000000000000000", "9.9." };
    size_t n = 99;

    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        ASSERT_OK(
            core_release(e->core, E_CALL(e, e->core), &(dibs_which){ .token = tokens[i] }, 0, &n, &e->err),
            &e->err);
        assert_int_equal(n, 0);
    }
    ASSERT_OK(core_release(e->core, E_CALL(e, e->core), &(dibs_which){ .name = "never/was" }, 0, &n, &e->err),
              &e->err);
    ASSERT_OK(core_release(e->core, E_CALL(e, e->core), &(dibs_which){ .port = 26001 }, 0, &n, &e->err),
              &e->err);
    ASSERT_OK(core_release(e->core, E_CALL(e, e->core), &(dibs_which){ .all_mine = true }, 0, &n, &e->err),
              &e->err);
    assert_int_equal(n, 0);
}

static void D7_everything_of_one_user_can_be_released_at_once(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request(NULL, "127.0.0.1");
    size_t n = 0;

    for (int i = 0; i < 5; i++) {
        (void) e_must(e, e->core, &r);
        (void) e_must(e, e_other(e), &r);
    }
    ASSERT_OK(core_release(e->core, E_CALL(e, e->core), &(dibs_which){ .all_mine = true }, 0, &n, &e->err),
              &e->err);
    assert_int_equal(n, 5);
    assert_int_equal(e_count(e, NULL), 5); /* D9: the others' stay */
}

static void D13_not_found_is_returned_where_it_matters(void **state)
{
    struct engine *e = *state;
    const dibs_which nobody = { .name = "nobody" };
    const dibs_heir heir = { .keep = true };
    dibs_claim out = { 0 };

    assert_int_equal(core_find(e->core, E_CALL(e, e->core), &nobody, &out, &e->err), DIBS_NOT_FOUND);
    assert_int_equal(core_renew(e->core, E_CALL(e, e->core), &nobody, 1000, &out, &e->err), DIBS_NOT_FOUND);
    assert_int_equal(core_transfer(e->core, E_CALL(e, e->core), &nobody, &heir, &out, &e->err),
                     DIBS_NOT_FOUND);
    assert_int_equal(core_find(e->core, E_CALL(e, e->core), &(dibs_which){ .port = 26001 }, &out, &e->err),
                     DIBS_NOT_FOUND);
    assert_int_equal(core_find(e->core, E_CALL(e, e->core), &(dibs_which){ .name = NULL }, &out, &e->err),
                     DIBS_INVALID);
}

static void several_claims_on_one_number_are_listed_not_guessed(void **state)
{
    struct engine *e = *state;
    dibs_request a = e_required("a", "127.0.0.1", 26001);
    dibs_request b = e_required("b", "127.0.0.2", 26001);
    dibs_claim out = { 0 };

    need_network();
    (void) e_must(e, e->core, &a);
    (void) e_must(e, e->core, &b);
    assert_int_equal(
        core_release(e->core, E_CALL(e, e->core), &(dibs_which){ .port = 26001 }, 0, NULL, &e->err),
        DIBS_INVALID);
    assert_non_null(strstr(e->err.msg, "a (port 26001"));
    assert_non_null(strstr(e->err.msg, "b (port 26001"));
    assert_int_equal(e_count(e, NULL), 2);
    ASSERT_OK(core_find(e->core, E_CALL(e, e->core), &(dibs_which){ .name = "b" }, &out, &e->err), &e->err);
    assert_int_equal(out.bindings[0].address.bytes[3], 2);
}

static void unholding_keeps_what_is_kept(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_held("web", "127.0.0.1", 0);
    dibs_claim out = { 0 };
    size_t n = 0;

    r.keep = true;
    dibs_claim first = e_must(e, e->core, &r);
    ASSERT_OK(core_release(e->core, E_CALL(e, e->core), &(dibs_which){ .token = first.token },
                           DIBS_RELEASE_UNHOLD, &n, &e->err),
              &e->err);
    assert_int_equal(n, 1);
    ASSERT_OK(core_find(e->core, E_CALL(e, e->core), &(dibs_which){ .name = "web" }, &out, &e->err), &e->err);
    assert_int_equal(out.holder, DIBS_HELD_BY_NOBODY);
    assert_int_equal(out.port, first.port);
}

static dibs_claim let_go(struct engine *e, const dibs_claim *claim, unsigned flags)
{
    dibs_claim out = { 0 };

    ASSERT_OK(core_release(e->core, E_CALL(e, e->core), &(dibs_which){ .token = claim->token }, flags, NULL,
                           &e->err),
              &e->err);
    (void) core_find(e->core, E_CALL(e, e->core), &(dibs_which){ .name = claim->name }, &out, NULL);
    return out;
}

static void D19_a_lease_runs_on_beneath_the_process_that_borrows_its_name(void **state)
{
    struct engine *e = *state;
    dibs_request lease = e_request("web", "127.0.0.1");
    dibs_request held = e_held("web", "127.0.0.1", 0);
    dibs_claim first = e_must(e, e->core, &lease);

    e_pass(e, E_LEASE / 2);
    dibs_claim borrowed = e_must(e, e->core, &held);
    assert_int_equal(borrowed.holder, DIBS_HELD_BY_PROCESS);
    e_pass(e, E_LEASE / 4);
    dibs_claim again = let_go(e, &borrowed, DIBS_RELEASE_UNHOLD);
    assert_int_equal(again.id, first.id);
    assert_int_equal(again.holder, DIBS_HELD_BY_LEASE);
    assert_int_equal(again.lease_ttl_ms, E_LEASE);
    assert_int_equal(again.lease_until_ms, first.lease_until_ms);
    assert_int_equal(again.process.pid, 0);
    assert_string_equal(again.command, first.command);
    assert_int_equal(core_judge(e->core, E_CALL(e, e->core), NULL, &again, NULL), DIBS_ALIVE);
    /* Its time ends while it is borrowed: then it is over with the process. */
    borrowed = e_must(e, e->core, &held);
    e_pass(e, E_LEASE / 4);
    assert_int_equal(let_go(e, &borrowed, DIBS_RELEASE_UNHOLD).id, 0);
    assert_int_equal(e_count(e, NULL), 0);
}

static void D19_a_claim_that_was_not_kept_is_not_kept_after_an_undone_claim(void **state)
{
    struct engine *e = *state;
    dibs_request lease = e_request("lease", "127.0.0.1");
    dibs_request kept = e_kept("kept", "127.0.0.1");
    dibs_request held = e_held("lease", "127.0.0.1", 0);
    int64_t until = e_must(e, e->core, &lease).lease_until_ms;
    dibs_claim claim = e_must(e, e->core, &kept);

    assert_false(claim.was_kept);
    held.keep = true;
    claim = e_must(e, e->core, &held);
    assert_true(claim.was_there && claim.is_kept && !claim.was_kept);
    claim = let_go(e, &claim, DIBS_RELEASE_UNKEEP);
    assert_int_equal(claim.holder, DIBS_HELD_BY_LEASE);
    assert_int_equal(claim.lease_until_ms, until);
    assert_false(claim.is_kept);
    held.name = "new";
    claim = e_must(e, e->core, &held);
    assert_int_equal(let_go(e, &claim, DIBS_RELEASE_UNKEEP).id, 0);
    held.name = "kept";
    assert_true(e_must(e, e->core, &held).was_kept);
}

static void D33_cases_30_to_33_the_maker_of_a_claim_releases_it_when_its_use_ends(void **state)
{
    struct engine *e = *state;
    size_t n = 99;

    need_network();
    /* 30, 32, 33: stopped, deleted, or never started because a later step failed: the maker has the token. */
    for (uint16_t port = 26030; port <= 26032; port++) {
        dibs_claim made = e_port(e, e->core, "127.0.0.1", port);

        assert_int_equal(e_release(e, e->core, &made), 1);
        (void) e_port(e, e_other(e), "127.0.0.1", port);
    }
    /* 31: nothing was claimed (port 0), so nothing has to be released, and that is no error (D20: what was
     * released is not found again either). */
    dibs_request none = e_required("none", NULL, 0);
    dibs_claim nothing = e_must(e, e->core, &none);
    ASSERT_OK(
        core_release(e->core, E_CALL(e, e->core), &(dibs_which){ .token = nothing.token }, 0, &n, &e->err),
        &e->err);
    assert_int_equal(n, 0);
    assert_int_equal(
        core_find(e->core, E_CALL(e, e->core), &(dibs_which){ .name = "none" }, &nothing, &e->err),
        DIBS_NOT_FOUND);
}

static void D20_a_released_claim_is_not_found_renewed_or_handed_over(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request("web", "127.0.0.1");
    const dibs_heir heir = { .keep = true };
    dibs_claim out = { 0 };

    dibs_claim mine = e_must(e, e->core, &r);
    const dibs_which which = { .token = mine.token };
    assert_int_equal(e_release(e, e->core, &mine), 1);
    assert_int_equal(core_find(e->core, E_CALL(e, e->core), &which, &out, &e->err), DIBS_NOT_FOUND);
    assert_int_equal(core_renew(e->core, E_CALL(e, e->core), &which, 1000, &out, &e->err), DIBS_NOT_FOUND);
    assert_int_equal(core_transfer(e->core, E_CALL(e, e->core), &which, &heir, &out, &e->err),
                     DIBS_NOT_FOUND);
    assert_int_equal(e_count(e, NULL), 0);
}

/* ---- transfer and renewal ---- */

static void P10_the_holder_is_the_user_of_the_port_and_a_claim_outlives_its_maker(void **state)
{
    struct engine *e = *state;
    pid_t maker = child_fork(child_idle, NULL);
    pid_t server = child_fork(child_idle, NULL);
    dibs_request r = e_held("web", "127.0.0.1", maker);
    dibs_heir heir = { .holder = DIBS_HELD_BY_PROCESS, .pid = (int32_t) server };
    dibs_claim out = { 0 };

    dibs_claim first = e_must(e, e->core, &r);
    ASSERT_OK(core_transfer(e->core, E_CALL(e, e->core), &(dibs_which){ .token = first.token }, &heir, &out,
                            &e->err),
              &e->err);
    assert_int_equal(out.port, first.port);
    assert_int_equal(out.process.pid, server);
    assert_true(out.generation > first.generation);
    assert_string_not_equal(out.token, first.token);
    child_end(maker);
    assert_int_equal(e_reap(e, e->core), 0);
    assert_int_equal(e_release(e, e->core, &first), 0); /* the old token is worth nothing */
    child_end(server);
    assert_int_equal(e_reap(e, e->core), 1);
    assert_int_equal(e_count(e, NULL), 0);
}

static void a_transfer_needs_right_holder_and_a_living_heir(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request("web", "127.0.0.1");
    dibs_heir heir = { .holder = DIBS_HELD_BY_NOBODY };
    dibs_claim out = { 0 };

    dibs_claim mine = e_must(e, e->core, &r);
    const dibs_which which = { .token = mine.token };
    assert_int_equal(core_transfer(e->core, E_CALL(e, e->core), &which, &heir, &out, &e->err), DIBS_INVALID);
    heir = (dibs_heir){ .keep = true };
    assert_int_equal(core_transfer(e_other(e), E_CALL(e, e_other(e)), &which, &heir, &out, &e->err),
                     DIBS_DENIED);
    pid_t pid = child_fork(child_idle, NULL);
    child_end(pid);
    heir = (dibs_heir){ .holder = DIBS_HELD_BY_PROCESS, .pid = (int32_t) pid };
    assert_int_equal(core_transfer(e->core, E_CALL(e, e->core), &which, &heir, &out, &e->err),
                     DIBS_NOT_FOUND);
    heir = (dibs_heir){ .keep = true };
    ASSERT_OK(core_transfer(e->core, E_CALL(e, e->core), &which, &heir, &out, &e->err), &e->err);
    assert_true(out.is_kept);
    assert_int_equal(out.holder, DIBS_HELD_BY_NOBODY);
    struct core *admin = e_more(e, "uid:0", 0, true);
    ASSERT_OK(
        core_transfer(admin, E_CALL(e, admin), &(dibs_which){ .token = out.token }, &heir, &out, &e->err),
        &e->err);
}

static void a_lease_ends_at_its_end_and_renewal_moves_it(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_required("web", "127.0.0.1", 26001);
    dibs_request other = e_required(NULL, "127.0.0.1", 26001);
    dibs_claim out = { 0 };

    need_network();
    r.ttl_ms = 10000;
    (void) e_must(e, e->core, &r);
    e_pass(e, 9999);
    assert_int_equal(e_try(e, e_other(e), &other, &out), DIBS_TAKEN);
    ASSERT_OK(core_renew(e->core, E_CALL(e, e->core), &(dibs_which){ .name = "web" }, 10000, &out, &e->err),
              &e->err);
    assert_int_equal(out.lease_until_ms, e->now.boot_ms + 10000);
    e_pass(e, 9999);
    assert_int_equal(e_try(e, e->other, &other, &out), DIBS_TAKEN);
    assert_int_equal(e_reap(e, e->core), 0);
    e_pass(e, 1);
    (void) e_must(e, e->other, &other);
    assert_int_equal(
        core_renew(e->core, E_CALL(e, e->core), &(dibs_which){ .name = "web" }, 1000, &out, &e->err),
        DIBS_NOT_FOUND);
}

static void only_a_lease_is_renewed(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_held("web", "127.0.0.1", 0);
    dibs_claim out = { 0 };

    (void) e_must(e, e->core, &r);
    assert_int_equal(
        core_renew(e->core, E_CALL(e, e->core), &(dibs_which){ .name = "web" }, 1000, &out, &e->err),
        DIBS_INVALID);
}

static void INV_5_no_clock_runs_against_a_living_process(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_held("web", "127.0.0.1", 0);

    (void) e_must(e, e->core, &r);
    e_pass(e, (int64_t) 365 * 86400 * 1000);
    assert_int_equal(e_reap(e, e->core), 0);
    e->now.wall_ms = 0; /* M2: nor does the wall clock, wherever it jumps */
    assert_int_equal(e_reap(e, e->core), 0);
    assert_int_equal(e_count(e, NULL), 1);
}

static void M2_a_jump_of_the_wall_clock_neither_ends_nor_prolongs_a_lease(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request("web", "127.0.0.1");

    (void) e_must(e, e->core, &r);
    e->now.wall_ms += (int64_t) 10 * E_LEASE;
    assert_int_equal(e_reap(e, e->core), 0);
    e->now.wall_ms -= (int64_t) 20 * E_LEASE;
    e->now.boot_ms += E_LEASE;
    assert_int_equal(e_reap(e, e->core), 1);
}

/* ---- sockets keep a claim ---- */

static void an_ended_lease_lives_on_while_its_own_users_socket_listens(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_required("web", "127.0.0.1", 26001);
    struct e_list *list = calloc(1, sizeof *list);

    need_network();
    assert_non_null(list);
    (void) e_must(e, e->core, &r);
    int fd = e_serve(DIBS_TCP, "127.0.0.1", 26001);
    e_pass(e, E_LEASE + 1);
    assert_int_equal(e_reap(e, e->core), 0);
    ASSERT_OK(core_list(e->core, E_CALL(e, e->core), &(dibs_filter){ .judge = true }, e_note, list, &e->err),
              &e->err);
    assert_true(list->claims[0].is_orphan);
    assert_int_equal(list->claims[0].life, DIBS_ALIVE);
    (void) close(fd);
    free(list);
    assert_int_equal(e_reap(e, e->core), 1);
}

static int is_judged_in_its_own_network(void *arg)
{
    struct engine *e = arg;
    dibs_request r = e_required("web", "127.0.0.1", 26001);
    dibs_claim claim = e_must(e, e->core, &r);
    dibs_request again = e_required("after", NULL, 26002);
    uint64_t before = kernel_netns();
    int fd = e_serve(DIBS_TCP, "127.0.0.1", 26001);

    e_pass(e, E_LEASE + 1);
    CHECK(fd >= 0 && core_judge(e->core, E_CALL(e, e->core), NULL, &claim, NULL) == DIBS_ALIVE);
    CHECK(unshare(CLONE_NEWNET) == 0 && kernel_netns() != before);
    CHECK(core_judge(e->core, E_CALL(e, e->core), NULL, &claim, NULL) == DIBS_ALIVE);
    CHECK(e_must(e, e->core, &again).netns == kernel_netns());
    return 0;
}

static void INV_5_who_moves_to_another_network_takes_no_port_that_is_used_in_the_old_one(void **state)
{
    need_network();
    need_root();
    assert_int_equal(child_run(is_judged_in_its_own_network, *state), 0);
}

static void many_are_judged_by_the_sockets_of_one_moment(void **state)
{
    struct engine *e = *state;
    dibs_request bound = e_required(NULL, "127.0.0.1", 26001);
    dibs_request bound_udp = e_required(NULL, NULL, 26002);
    dibs_request free_one = e_required(NULL, "127.0.0.1", 26003);
    struct core_sockets sockets = { 0 };

    need_network();
    e_bind_to(&bound_udp, DIBS_UDP, "127.0.0.1");
    dibs_claim claims[] = { e_must(e, e->core, &bound), e_must(e, e->core, &bound_udp),
                            e_must(e, e->core, &free_one) };
    for (size_t i = 0; i < 3; i++) /* the sockets are ours, whichever user runs this */
        claims[i].uid = geteuid();
    int tcp = e_serve(DIBS_TCP, "127.0.0.1", 26001);
    int udp = e_serve(DIBS_UDP, "127.0.0.1", 26002);
    e_pass(e, E_LEASE + 1);
    assert_int_equal(core_judge(e->core, E_CALL(e, e->core), &sockets, &claims[0], NULL), DIBS_ALIVE);
    assert_int_equal(core_judge(e->core, E_CALL(e, e->core), &sockets, &claims[1], NULL), DIBS_ALIVE);
    assert_int_equal(core_judge(e->core, E_CALL(e, e->core), &sockets, &claims[2], NULL), DIBS_DEAD);
    int late = e_serve(DIBS_TCP, "127.0.0.1", 26003);
    (void) close(tcp);
    assert_int_equal(core_judge(e->core, E_CALL(e, e->core), &sockets, &claims[0], NULL),
                     DIBS_DEAD); /* a port that had one is asked for */
    assert_int_equal(core_judge(e->core, E_CALL(e, e->core), &sockets, &claims[2], NULL),
                     DIBS_DEAD); /* it was not there in that moment */
    assert_int_equal(core_judge(e->core, E_CALL(e, e->core), NULL, &claims[2], NULL), DIBS_ALIVE);
    (void) close(udp);
    (void) close(late);
}

static void a_strangers_socket_keeps_nobodys_claim(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_required("web", "127.0.0.1", 26001);

    need_network();
    if (geteuid() == 2000)
        SKIP_BECAUSE("needs another uid than 2000");
    (void) e_must(e, e_other(e), &r); /* uid 2000's; the socket is ours */
    int fd = e_serve(DIBS_TCP, "127.0.0.1", 26001);
    e_pass(e, E_LEASE + 1);
    assert_int_equal(e_reap(e, e->core), 1);
    (void) close(fd);
}

static int inherit_and_wait(void *arg)
{
    (void) arg;
    return child_idle(NULL);
}

static void a_dead_holder_whose_socket_lives_on_is_an_orphan(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_held("web", "127.0.0.1", 0);

    need_network();
    r.mode = DIBS_REQUIRED;
    r.port = 26001;
    pid_t holder = child_fork(child_idle, NULL);
    r.pid = (int32_t) holder;
    (void) e_must(e, e->core, &r);
    int fd = e_serve(DIBS_TCP, "127.0.0.1", 26001);
    pid_t heir = child_fork(inherit_and_wait, NULL); /* has the descriptor, too */
    (void) close(fd);
    child_end(holder);
    assert_int_equal(e_reap(e, e->core), 0);
    assert_int_equal(e_try(e, e->core, &(dibs_request){ .mode = DIBS_REQUIRED, .port = 26001, .keep = true },
                           &(dibs_claim){ 0 }),
                     DIBS_TAKEN);
    assert_non_null(strstr(e->err.msg, "its holder is gone, but its socket is still bound"));
    r.pid = 0;
    assert_int_equal(e_try(e, e->core, &r, &(dibs_claim){ 0 }), DIBS_TAKEN); /* by its name */
    assert_non_null(strstr(e->err.msg, "its holder is gone, but its socket is still bound"));
    assert_null(strstr(e->err.msg, "transfer"));
    child_end(heir);
    assert_int_equal(e_reap(e, e->core), 1);
}

static void a_kept_claim_of_a_dead_holder_is_not_described_as_alive(void **state)
{
    struct engine *e = *state;
    pid_t pid = child_fork(child_idle, NULL);
    dibs_request r = e_held("web", "127.0.0.1", pid);
    dibs_request other = e_required(NULL, "127.0.0.1", 26001);

    need_network();
    r.mode = DIBS_REQUIRED;
    r.port = 26001;
    r.keep = true;
    (void) e_must(e, e->core, &r);
    child_end(pid);
    assert_int_equal(e_try(e, e_other(e), &other, &(dibs_claim){ 0 }), DIBS_TAKEN);
    assert_non_null(strstr(e->err.msg, "kept, its holder is dead"));
}

/* Its boot id, pid and clock are that host's, and say nothing here. */
static void INV_5_a_holder_on_another_host_is_never_found_dead_here(void **state)
{
    static const dibs_life of_node[] = { DIBS_ALIVE, DIBS_UNKNOWN };
    struct engine *e = *state;
    const char *why = "";
    dibs_claim claim = { .port = 26001,
                         .is_exclusive = true,
                         .process = { .boot_id = "another", .pid = 12, .start_ticks = 1, .pidns = 1 },
                         .lease_ttl_ms = 1000,
                         .lease_until_ms = 1,
                         .n_bindings = 1,
                         .bindings = { { DIBS_TCP, { .len = 4 } } },
                         .node = "b" };

    for (dibs_holder holder = DIBS_HELD_BY_PROCESS; holder <= DIBS_HELD_BY_LEASE; holder++)
        for (size_t i = 0; i < 2; i++) {
            claim.holder = holder;
            claim.node_life = of_node[i];
            assert_int_equal(core_judge(e->core, E_CALL(e, e->core), NULL, &claim, &why), of_node[i]);
            assert_int_equal(core_judge_without_holder(e->core, NULL, &claim, NULL), of_node[i]);
        }
    assert_string_equal(why, "only its own host can tell");
    claim.node_life = DIBS_DEAD; /* the cluster decides, for every host */
    assert_int_equal(core_judge(e->core, E_CALL(e, e->core), NULL, &claim, &why), DIBS_DEAD);
    claim.holder = DIBS_HELD_BY_NOBODY;
    assert_int_equal(core_judge(e->core, E_CALL(e, e->core), NULL, &claim, &why), DIBS_ALIVE);
}

static void a_holder_attached_to_its_hosts_lease_is_as_alive_as_the_lease(void **state)
{
    struct engine *e = *state;
    pid_t pid = child_fork(child_idle, NULL);
    dibs_request r = e_held("web", "127.0.0.1", pid);
    const char *why = "";

    dibs_claim claim = e_must(e, e->core, &r);
    claim.node_life = DIBS_UNKNOWN;
    assert_int_equal(core_judge(e->core, E_CALL(e, e->core), NULL, &claim, &why), DIBS_UNKNOWN);
    assert_string_equal(why, "this host cannot renew its lease in the cluster");
    claim.node_life = DIBS_DEAD; /* although the process lives */
    assert_int_equal(core_judge(e->core, E_CALL(e, e->core), NULL, &claim, &why), DIBS_DEAD);
    child_end(pid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(W1_W2_releasing_twice_never_frees_what_another_has_got_meanwhile),
        E_TEST(W1_a_claim_of_tcp_and_udp_is_released_once_and_whole),
        E_TEST(D5_INV_11_releasing_nothing_is_fine),
        E_TEST(D7_everything_of_one_user_can_be_released_at_once),
        E_TEST(D13_not_found_is_returned_where_it_matters),
        E_TEST(several_claims_on_one_number_are_listed_not_guessed),
        E_TEST(unholding_keeps_what_is_kept),
        E_TEST(D19_a_lease_runs_on_beneath_the_process_that_borrows_its_name),
        E_TEST(D19_a_claim_that_was_not_kept_is_not_kept_after_an_undone_claim),
        E_TEST(D33_cases_30_to_33_the_maker_of_a_claim_releases_it_when_its_use_ends),
        E_TEST(D20_a_released_claim_is_not_found_renewed_or_handed_over),
        E_TEST(P10_the_holder_is_the_user_of_the_port_and_a_claim_outlives_its_maker),
        E_TEST(a_transfer_needs_right_holder_and_a_living_heir),
        E_TEST(a_lease_ends_at_its_end_and_renewal_moves_it),
        E_TEST(only_a_lease_is_renewed),
        E_TEST(INV_5_no_clock_runs_against_a_living_process),
        E_TEST(M2_a_jump_of_the_wall_clock_neither_ends_nor_prolongs_a_lease),
        E_TEST(an_ended_lease_lives_on_while_its_own_users_socket_listens),
        E_TEST(INV_5_who_moves_to_another_network_takes_no_port_that_is_used_in_the_old_one),
        E_TEST(many_are_judged_by_the_sockets_of_one_moment),
        E_TEST(a_strangers_socket_keeps_nobodys_claim),
        E_TEST(a_dead_holder_whose_socket_lives_on_is_an_orphan),
        E_TEST(a_kept_claim_of_a_dead_holder_is_not_described_as_alive),
        E_TEST(INV_5_a_holder_on_another_host_is_never_found_dead_here),
        E_TEST(a_holder_attached_to_its_hosts_lease_is_as_alive_as_the_lease),
    };

    e_own_network();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
