/* SPDX-License-Identifier: MIT */
/* One claim: modes and kinds, what the kernel and the pool say to it, deadlines. */
#include <sys/resource.h>

#include "support/core.h"

/* ---- modes and kinds ---- */

static void D8_a_declared_port_is_recorded_avoided_by_choice_and_never_an_error(void **state)
{
    struct engine *e = *state;
    dibs_request declared = e_kept("db", NULL);
    dibs_ranges two = e_ranges("26001-26002");
    dibs_request choice = e_request(NULL, NULL);
    dibs_claim out = { 0 };

    need_network();
    declared.mode = DIBS_DECLARED;
    declared.port = 26001;
    choice.ranges = &two;
    int fd = e_serve(DIBS_TCP, "0.0.0.0", 26001); /* the user has it already: no error, it is not probed */
    out = e_must(e, e->core, &declared);
    assert_int_equal(out.port, 26001);
    assert_int_equal(out.kind, DIBS_STATIC);
    assert_false(out.is_exclusive);
    (void) close(fd);
    /* Another user declares the same: no error either. */
    declared.name = "db2";
    (void) e_must(e, e_other(e), &declared);
    /* Dynamic choice avoids it, and says so rather than take it. */
    assert_int_equal(e_must(e, e->core, &choice).port, 26002);
    assert_int_equal(e_try(e, e->core, &choice, &out), DIBS_EXHAUSTED);
    /* It is not exclusive: by number it can be had. */
    (void) e_port(e, e->core, "127.0.0.1", 26001);
}

static void D8_port_0_creates_nothing(void **state)
{
    struct engine *e = *state;
    static const dibs_mode modes[] = { DIBS_REQUIRED, DIBS_PREFERRED, DIBS_DECLARED };
    dibs_request r = e_request("zero", NULL);

    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        dibs_claim out = { .port = 7 };

        r.mode = modes[i];
        ASSERT_OK(e_try(e, e->core, &r, &out), &e->err);
        assert_int_equal(out.port, 0);
        assert_int_equal(out.token[0], '\0');
    }
    assert_int_equal(e_count(e, NULL), 0);
}

static void a_named_number_is_static_and_a_chosen_one_dynamic(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request(NULL, "127.0.0.1");

    need_network();
    assert_int_equal(e_must(e, e->core, &r).kind, DIBS_DYNAMIC);
    assert_int_equal(e_port(e, e->core, "127.0.0.1", 26001).kind, DIBS_STATIC);
    r.mode = DIBS_PREFERRED;
    r.port = 26002;
    dibs_claim hit = e_must(e, e->core, &r);
    assert_int_equal(hit.port, 26002);
    assert_int_equal(hit.kind, DIBS_STATIC);
    dibs_claim missed = e_must(e, e_other(e), &r);
    assert_int_not_equal(missed.port, 26002);
    assert_int_equal(missed.kind, DIBS_DYNAMIC);
}

static void a_preference_gives_way_to_a_stranger_and_to_a_foreign_socket(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request(NULL, "127.0.0.1");

    need_network();
    int fd = e_serve(DIBS_TCP, "127.0.0.1", 26003);
    r.mode = DIBS_PREFERRED;
    r.port = 26003;
    dibs_claim out = e_must(e, e->core, &r);
    assert_int_not_equal(out.port, 26003);
    assert_in_range(out.port, 20128, 32767);
    (void) close(fd);
}

static void a_preference_outside_of_the_pool_that_is_given_up_belongs_to_the_pool(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request(NULL, "127.0.0.1");

    need_network();
    (void) e_port(e, e_other(e), "127.0.0.1", 9229);
    r.mode = DIBS_PREFERRED;
    r.port = 9229;
    dibs_claim out = e_must(e, e->core, &r);
    assert_in_range(out.port, 20128, 32767);
    assert_string_equal(out.pool, "default");
}

static void D21_the_default_choice_is_of_20000_to_32767_above_its_band(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request(NULL, NULL);

    need_network();
    for (int i = 0; i < 50; i++)
        assert_in_range(e_must(e, e->core, &r).port, 20128, 32767);
}

static void K9_a_number_outside_of_a_named_pool_is_refused_with_the_valid_range(void **state)
{
    struct engine *e = *state;
    static const uint16_t outside[] = { 29999, 32768, 1 };
    dibs_request r = e_required(NULL, NULL, 0);
    dibs_claim out = { .port = 7 };

    need_network();
    e_pool(e, "nodes", "30000-32767", DIBS_BAND_AUTO, 0);
    r.pool = "nodes";
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        r.port = outside[i];
        assert_int_equal(e_try(e, e->core, &r, &out), DIBS_INVALID);
        assert_non_null(strstr(e->err.msg, "30000-32767"));
        assert_int_equal(out.port, 7);
    }
    for (uint32_t port = 30000; port <= 32767; port += 2767) { /* both ends belong to it */
        r.port = (uint16_t) port;
        assert_int_equal(e_must(e, e->core, &r).port, port);
    }
    r.pool = NULL; /* the default pool binds nobody who names a number */
    r.port = 9229;
    assert_string_equal(e_must(e, e->core, &r).pool, "");
    r.pool = "nowhere";
    assert_int_equal(e_try(e, e->core, &r, &out), DIBS_NOT_FOUND);
}

/* ---- what the kernel says ---- */

static void W12_a_foreign_socket_is_passed_over_and_named(void **state)
{
    struct engine *e = *state;
    dibs_ranges two = e_ranges("26001-26002");
    dibs_request r = e_request(NULL, "127.0.0.1");
    dibs_claim out = { 0 };

    need_network();
    int fd = e_serve(DIBS_TCP, "127.0.0.1", 26001);
    r.ranges = &two;
    assert_int_equal(e_must(e, e->core, &r).port, 26002);
    assert_int_equal(e_try(e, e->core, &r, &out), DIBS_EXHAUSTED);
    r = e_required(NULL, "127.0.0.1", 26001);
    assert_int_equal(e_try(e, e->core, &r, &out), DIBS_TAKEN);
    assert_int_equal(e->err.blocker.relation, DIBS_REL_FOREIGN);
    assert_int_equal(e->err.blocker.pid, getpid());
    assert_int_equal(e->err.blocker.port, 26001);
    assert_non_null(strstr(e->err.msg, "without a claim"));
    (void) close(fd);
    (void) e_port(e, e->core, "127.0.0.1", 26001);
}

static void P3_a_busy_port_of_the_ephemeral_range_is_busy_and_a_free_one_is_recorded(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_required(NULL, "127.0.0.1", 40000);
    dibs_claim out = { 0 };

    need_network();
    int fd = e_serve(DIBS_TCP, "127.0.0.1", 40000);
    assert_int_equal(e_try(e, e->core, &r, &out), DIBS_TAKEN);
    (void) close(fd);
    out = e_must(e, e->core, &r);
    assert_int_equal(e_count(e, NULL), 1);
    assert_int_equal(e_try(e, e_other(e), &r, &out), DIBS_TAKEN);
}

static void P3_looking_at_a_port_reserves_nothing(void **state)
{
    struct engine *e = *state;
    dibs_port_report *report = calloc(1, sizeof *report);

    need_network();
    assert_non_null(report);
    ASSERT_OK(core_explain(e->core, E_CALL(e, e->core), &(dibs_port_question){ 26001, NULL, NULL, 0 }, report,
                           &e->err),
              &e->err);
    assert_true(report->can_claim);
    assert_int_equal(e_count(e, NULL), 0);
    free(report);
    (void) e_port(e, e_other(e), NULL, 26001);
}

static void P7_an_address_of_another_host_ends_the_call_with_its_reason(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request(NULL, "192.0.2.1");
    dibs_claim out = { 0 };

    need_network();
    e->clock_looks = 0;
    assert_int_equal(e_try(e, e->core, &r, &out), DIBS_FAILURE);
    assert_int_equal(e->err.os_errno, EADDRNOTAVAIL);
    assert_non_null(strstr(e->err.msg, "192.0.2.1"));
    assert_true(e->clock_looks < 16); /* no futile scan */
    assert_int_equal(e_count(e, NULL), 0);
}

static void P7_want_of_descriptors_ends_the_call_with_its_reason(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request(NULL, "127.0.0.1");
    dibs_claim out = { 0 };
    struct rlimit old = { 0 };

    (void) e_must(e, e->core, &r); /* whatever is opened once is open now */
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    struct rlimit none = { .rlim_cur = 3, .rlim_max = old.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    dibs_status s = e_try(e, e->core, &r, &out);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_int_equal(s, DIBS_FAILURE);
    assert_int_equal(e->err.os_errno, EMFILE);
    assert_int_equal(e_count(e, NULL), 1);
}

static int claim_a_privileged_port(void *arg)
{
    struct engine *e = arg;
    const struct ledger_options options = { .timeout_ms = 1000 };
    struct core_options core_options = { .uid = CHILD_NOBODY, .now = e_clock, .now_ctx = e };
    struct call call = {
        .settings = &e->settings, .principal = "uid:65534", .uid = CHILD_NOBODY, .now = e->now
    };
    dibs_request r = e_required(NULL, "127.0.0.1", 80);
    const dibs_batch batch = { .requests = &r, .n = 1 };
    struct ledger *ledger = NULL;
    struct core *core = NULL;
    dibs_claim out = { 0 };

    CHECK(setresuid(CHILD_NOBODY, CHILD_NOBODY, CHILD_NOBODY) == 0);
    CHECK(ledger_open("memory:", &options, &ledger, &e->err) == DIBS_OK);
    CHECK(core_open(ledger, &core_options, &core, &e->err) == DIBS_OK);
    CHECK(core_claim(core, &call, &batch, &out, &e->err) == DIBS_DENIED);
    CHECK(e->err.os_errno == EACCES);
    r.port = 8080;
    CHECK(core_claim(core, &call, &batch, &out, &e->err) == DIBS_OK);
    core_close(core);
    return 0;
}

static void P7_a_port_that_may_not_be_bound_is_denied_not_busy(void **state)
{
    need_root();
    need_network();
    assert_int_equal(child_run(claim_a_privileged_port, *state), 0);
}

static void P6_one_number_for_tcp_and_udp_on_both_families(void **state)
{
    struct engine *e = *state;
    dibs_ranges three = e_ranges("26001-26003");
    dibs_request r = e_request(NULL, NULL);

    need_network();
    e_bind_to(&r, DIBS_TCP, "localhost");
    e_bind_to(&r, DIBS_UDP, "localhost");
    r.ranges = &three;
    int udp6 = e_serve(DIBS_UDP, "::1", 26001); /* one of the four is busy: the number will not do */
    int tcp4 = e_serve(DIBS_TCP, "127.0.0.1", 26003);
    dibs_claim out = e_must(e, e->core, &r);
    assert_int_equal(out.port, 26002);
    assert_int_equal(out.n_bindings, 4);
    (void) close(udp6);
    (void) close(tcp4);
}

static void W11_protocols_do_not_block_each_other(void **state)
{
    struct engine *e = *state;
    dibs_request udp = e_required(NULL, NULL, 30100);

    need_network();
    e_bind_to(&udp, DIBS_UDP, "*");
    (void) e_port(e, e->core, NULL, 30100);
    assert_int_equal(e_must(e, e_other(e), &udp).port, 30100);
    assert_int_equal(
        e_must(e, e->core, &(dibs_request){ .mode = DIBS_DECLARED, .port = 30100, .keep = true }).port,
        30100);
}

static void an_exhausted_pool_says_what_is_declared(void **state)
{
    struct engine *e = *state;
    dibs_ranges range = e_ranges("28000-28002");
    dibs_request r = e_request(NULL, NULL);
    dibs_request declared = { .mode = DIBS_DECLARED, .port = 28001, .keep = true };
    dibs_claim out = { 0 };

    need_network();
    r.ranges = &range;
    (void) e_must(e, e->core, &declared);
    (void) e_must(e, e->core, &r);
    (void) e_must(e, e->core, &r);
    assert_int_equal(e_try(e, e->core, &r, &out), DIBS_EXHAUSTED);
    assert_non_null(strstr(e->err.msg, "1 are declared"));
    assert_null(strstr(e->err.msg, "--allow-ephemeral"));
}

static int ask_again_without_ipv6(void *arg)
{
    struct engine *e = arg;
    static const char *const names[] = { "shop/any", "shop/local", "shop/held" };
    static const char *const addresses[] = { NULL, "localhost", "localhost" };
    dibs_claim out = { 0 };

    e_own_network();
    CHECK(child_write_file("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1") == 0);
    for (size_t i = 0; i < 3; i++) {
        dibs_request r = e_request(names[i], addresses[i]);
        const dibs_batch batch = { .requests = &r, .n = 1 };

        CHECK(core_claim(e->core, E_CALL(e, e->core), &batch, &out, &e->err) == DIBS_OK);
        CHECK(out.was_there && !out.is_narrowed); /* it still covers IPv6 */
        r.is_lookup = true;
        CHECK(core_claim(e->core, E_CALL(e, e->core), &batch, &out, &e->err) == DIBS_OK);
    }
    dibs_request other = e_request("shop/local", "127.0.0.1"); /* not narrowed: asked for like that */
    CHECK(core_claim(e->core, E_CALL(e, e->core), &(dibs_batch){ .requests = &other, .n = 1 }, &out,
                     &e->err) == DIBS_TAKEN);
    return 0;
}

static void a_name_with_IPv6_is_had_again_on_a_host_without(void **state)
{
    struct engine *e = *state;
    dibs_request any = e_kept("shop/any", NULL);
    dibs_request local = e_request("shop/local", "localhost");
    pid_t pid = child_fork(child_idle, NULL);
    dibs_request held = e_held("shop/held", "localhost", pid);

    need_network();
    if (access("/proc/sys/net/ipv6", F_OK) != 0)
        SKIP_BECAUSE("this kernel has no IPv6 at all");
    (void) e_must(e, e->core, &any);
    (void) e_must(e, e->core, &local);
    (void) e_must(e, e->core, &held);
    child_end(pid); /* a dead holder's claim is taken over in place */
    e_pass(e, 2000);
    assert_int_equal(child_run(ask_again_without_ipv6, e), 0);
}

static int claim_without_ipv6(void *arg)
{
    struct engine *e = arg;
    dibs_request any = e_request(NULL, NULL);
    dibs_request local = e_request(NULL, "localhost");
    dibs_request v6 = e_request(NULL, "::1");
    const dibs_batch batch = { .requests = &any, .n = 1 };
    const dibs_batch batch2 = { .requests = &local, .n = 1 };
    const dibs_batch batch3 = { .requests = &v6, .n = 1 };
    dibs_claim out = { 0 };

    e_own_network();
    CHECK(child_write_file("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1") == 0);
    CHECK(core_claim(e->core, E_CALL(e, e->core), &batch, &out, &e->err) == DIBS_OK);
    CHECK(out.is_narrowed && out.n_bindings == 1 && out.bindings[0].address.len == 4);
    CHECK(dibs_address_is_wildcard(&out.bindings[0].address));
    CHECK(core_claim(e->core, E_CALL(e, e->core), &batch2, &out, &e->err) == DIBS_OK);
    CHECK(out.is_narrowed && out.n_bindings == 1 && out.bindings[0].address.bytes[0] == 127);
    CHECK(core_claim(e->core, E_CALL(e, e->core), &batch3, &out, &e->err) ==
          DIBS_FAILURE); /* asked for, and not to be had */
    return 0;
}

static void a_host_without_ipv6_narrows_and_says_so(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request(NULL, NULL);

    need_network();
    if (access("/proc/sys/net/ipv6", F_OK) != 0)
        SKIP_BECAUSE("this kernel has no IPv6 at all");
    assert_false(e_must(e, e->core, &r).is_narrowed);
    e_pass(e, 2000); /* facts of the host are looked at again */
    assert_int_equal(child_run(claim_without_ipv6, e), 0);
}

static void K11_choice_leaves_the_live_ephemeral_range_alone_unless_allowed(void **state)
{
    struct engine *e = *state;
    dibs_ranges straddling = e_ranges("32766-32769");
    dibs_request r = e_request(NULL, NULL);
    dibs_claim out = { 0 };

    need_network();
    r.ranges = &straddling;
    for (int i = 0; i < 2; i++)
        assert_in_range(e_must(e, e->core, &r).port, 32766, 32767);
    assert_int_equal(e_try(e, e->core, &r, &out), DIBS_EXHAUSTED);
    assert_non_null(strstr(e->err.msg, "2 of its 4 ports are withheld"));
    assert_non_null(strstr(e->err.msg, "--allow-ephemeral adds up to 2"));
    assert_null(strstr(e->err.msg, "declared"));
    e->settings.allow_ephemeral = true;
    for (int i = 0; i < 2; i++)
        assert_in_range(e_must(e, e->core, &r).port, 32768, 32769);
    e->settings.allow_ephemeral = false;
}

/* ---- bounds ---- */

static void D30_a_call_ends_at_its_deadline(void **state)
{
    struct engine *e = *state;
    dibs_ranges range = e_ranges("26001-26400");
    dibs_request r = e_request(NULL, NULL);
    dibs_claim out = { 0 };
    int fds[400];

    need_network();
    for (uint16_t i = 0; i < 400; i++)
        fds[i] = e_serve(DIBS_TCP, "127.0.0.1", (uint16_t) (26001 + i));
    r.ranges = &range;
    const dibs_batch batch = { .requests = &r, .n = 1 };
    struct call call = e_call(e, e->core);
    call.deadline_ms = clock_monotonic_ms() + 1; /* too soon to try them all */
    assert_int_equal(core_claim(e->core, &call, &batch, &out, &e->err), DIBS_UNAVAILABLE);
    assert_non_null(strstr(e->err.msg, "timeout"));
    for (uint16_t i = 0; i < 400; i++)
        (void) close(fds[i]);
}

static void D14_outputs_are_written_only_on_success(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request("bad name", NULL);
    dibs_claim out = { .port = 7 };
    size_t n = 7;

    assert_int_equal(e_try(e, e->core, &r, &out), DIBS_INVALID);
    assert_int_equal(e->err.code, DIBS_INVALID);
    assert_int_equal(out.port, 7);
    assert_int_equal(core_find(e->core, E_CALL(e, e->core), &(dibs_which){ .name = "nobody" }, &out, &e->err),
                     DIBS_NOT_FOUND);
    assert_int_equal(out.port, 7);
    assert_int_equal(
        core_renew(e->core, E_CALL(e, e->core), &(dibs_which){ .name = "nobody" }, 0, &out, &e->err),
        DIBS_INVALID);
    assert_int_equal(out.port, 7);
    ASSERT_OK(core_release(e->core, E_CALL(e, e->core), &(dibs_which){ .name = "nobody" }, 0, &n, &e->err),
              &e->err);
    assert_int_equal(n, 0);
}

static void a_claim_needs_a_holder_or_is_kept(void **state)
{
    struct engine *e = *state;
    dibs_request r = { 0 };
    dibs_claim out = { 0 };

    assert_int_equal(e_try(e, e->core, &r, &out), DIBS_INVALID);
    r = e_request(NULL, NULL);
    r.ttl_ms = 0;
    assert_int_equal(e_try(e, e->core, &r, &out), DIBS_INVALID);
    r.ttl_ms = DIBS_TTL_MAX_MS + 1;
    assert_int_equal(e_try(e, e->core, &r, &out), DIBS_INVALID);
    r = e_held(NULL, NULL, -1);
    assert_int_equal(e_try(e, e->core, &r, &out), DIBS_INVALID);
    r = e_request(NULL, "127.0.0.1");
    e_bind_to(&r, DIBS_TCP, "0.0.0.0"); /* covers the first: one of them is enough */
    assert_int_equal(e_try(e, e->core, &r, &out), DIBS_INVALID);
    assert_int_equal(e_count(e, NULL), 0);
}

static void a_process_of_another_user_cannot_be_made_holder(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_held(NULL, "127.0.0.1", getpid());
    dibs_claim out = { 0 };

    if (geteuid() == 2000)
        SKIP_BECAUSE("needs another uid than 2000");
    assert_int_equal(e_try(e, e_other(e), &r, &out), DIBS_DENIED);
    (void) e_must(e, e->core, &r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(D8_a_declared_port_is_recorded_avoided_by_choice_and_never_an_error),
        E_TEST(D8_port_0_creates_nothing),
        E_TEST(a_named_number_is_static_and_a_chosen_one_dynamic),
        E_TEST(a_preference_gives_way_to_a_stranger_and_to_a_foreign_socket),
        E_TEST(a_preference_outside_of_the_pool_that_is_given_up_belongs_to_the_pool),
        E_TEST(D21_the_default_choice_is_of_20000_to_32767_above_its_band),
        E_TEST(K9_a_number_outside_of_a_named_pool_is_refused_with_the_valid_range),
        E_TEST(W12_a_foreign_socket_is_passed_over_and_named),
        E_TEST(P3_a_busy_port_of_the_ephemeral_range_is_busy_and_a_free_one_is_recorded),
        E_TEST(P3_looking_at_a_port_reserves_nothing),
        E_TEST(P7_an_address_of_another_host_ends_the_call_with_its_reason),
        E_TEST(P7_want_of_descriptors_ends_the_call_with_its_reason),
        E_TEST(P7_a_port_that_may_not_be_bound_is_denied_not_busy),
        E_TEST(P6_one_number_for_tcp_and_udp_on_both_families),
        E_TEST(W11_protocols_do_not_block_each_other),
        E_TEST(a_host_without_ipv6_narrows_and_says_so),
        E_TEST(an_exhausted_pool_says_what_is_declared),
        E_TEST(a_name_with_IPv6_is_had_again_on_a_host_without),
        E_TEST(K11_choice_leaves_the_live_ephemeral_range_alone_unless_allowed),
        E_TEST(D30_a_call_ends_at_its_deadline),
        E_TEST(D14_outputs_are_written_only_on_success),
        E_TEST(a_claim_needs_a_holder_or_is_kept),
        E_TEST(a_process_of_another_user_cannot_be_made_holder),
    };

    e_own_network();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
