/* SPDX-License-Identifier: MIT */
/* DCP's own cases (seeds §1.10, 1-7 and 12-15) through the public interface, and what settings, fallback and
 * damage do to a whole call. */
#include <sqlite3.h>

#include "dibs/dibs.h"
#include "host/kernel.h"
#include "support/core.h"

static dibs *open_dibs(struct engine *e)
{
    dibs *handle = NULL;

    ASSERT_OK(dibs_open(&e->settings, &handle, &e->err), &e->err);
    return handle;
}

static dibs_status claim(struct engine *e, dibs *handle, const dibs_request *r, dibs_claim *out)
{
    const dibs_batch batch = { .requests = r, .n = 1 };

    memset(&e->err, 0, sizeof e->err);
    return dibs_claim_ports(handle, &batch, out, &e->err);
}

static uint16_t must(struct engine *e, dibs *handle, const dibs_request *r)
{
    dibs_claim out = { 0 };

    ASSERT_OK(claim(e, handle, r, &out), &e->err);
    return out.port;
}

static void cases_1_and_2_two_ports_in_a_row_differ_for_tcp_and_udp(void **state)
{
    struct engine *e = *state;

    need_network();
    dibs *handle = open_dibs(e);
    for (dibs_proto proto = DIBS_TCP; proto <= DIBS_UDP; proto++) {
        dibs_request r = e_request(NULL, NULL);

        e_bind_to(&r, proto, "localhost");
        assert_int_not_equal(must(e, handle, &r), must(e, handle, &r));
    }
    dibs_close(handle);
}

static void cases_3_to_6_each_loopback_address_alone_follows_its_socket(void **state)
{
    struct engine *e = *state;
    static const char *const addresses[] = { "127.0.0.1", "::1" };

    need_network();
    dibs *handle = open_dibs(e);
    for (size_t i = 0; i < 4; i++) {
        dibs_proto proto = i < 2 ? DIBS_TCP : DIBS_UDP;
        dibs_request r = e_request(NULL, NULL);
        dibs_claim out = { 0 };

        e_bind_to(&r, proto, addresses[i % 2]);
        ASSERT_OK(claim(e, handle, &r, &out), &e->err);
        /* Free, used, free again: as the next claim of that number sees it. */
        ASSERT_OK(dibs_claim_release(handle, &(dibs_which){ .token = out.token }, 0, NULL, &e->err), &e->err);
        r.mode = DIBS_REQUIRED;
        r.port = out.port;
        int fd = e_serve(proto, addresses[i % 2], out.port);
        assert_int_equal(claim(e, handle, &r, &out), DIBS_TAKEN);
        assert_int_equal(e->err.blocker.relation, DIBS_REL_FOREIGN);
        (void) close(fd);
        assert_int_equal(must(e, handle, &r), r.port);
    }
    dibs_close(handle);
}

static void case_7_no_choice_intersects_the_ephemeral_range(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request(NULL, NULL);
    dibs_ranges around = { 0 };

    need_network();
    const struct core_host *host = core_host(e->core, E_CALL(e, e->core));
    around = (dibs_ranges){
        .n = 1, .item = { { (uint16_t) (host->ephemeral.first - 1), (uint16_t) (host->ephemeral.first + 1) } }
    };
    r.ranges = &around;
    assert_int_equal(e_must(e, e->core, &r).port, host->ephemeral.first - 1);
    assert_int_equal(e_try(e, e->core, &r, &(dibs_claim){ 0 }), DIBS_EXHAUSTED);
}

static void cases_12_to_14_addresses_are_normalised(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request(NULL, NULL);

    need_network();
    e_bind_to(&r, DIBS_TCP, "localhost"); /* two literals, no name is stored */
    e_bind_to(&r, DIBS_UDP, "[::ffff:127.0.0.1]");
    e_bind_to(&r, DIBS_UDP, "[0:0:0:0:0:0:0:1]");
    dibs_claim out = e_must(e, e->core, &r);
    static const char *const expected[] = { "127.0.0.1", "::1", "127.0.0.1", "::1" };
    assert_int_equal(out.n_bindings, 4);
    for (size_t i = 0; i < 4; i++) {
        dibs_address a = t_address(expected[i]);
        bool is_there = false;

        for (size_t k = 0; k < 4; k++)
            is_there = is_there || (out.bindings[k].proto == (i < 2 ? DIBS_TCP : DIBS_UDP) &&
                                    dibs_address_equal(&out.bindings[k].address, &a));
        assert_true(is_there);
    }
}

static void case_15_two_ports_of_a_small_range_differ_and_lie_in_it(void **state)
{
    struct engine *e = *state;
    dibs_ranges range = e_ranges("26010-26020");
    dibs_request r = e_request(NULL, "127.0.0.1");

    need_network();
    r.ranges = &range;
    dibs *handle = open_dibs(e);
    uint16_t one = must(e, handle, &r);
    uint16_t two = must(e, handle, &r);
    dibs_close(handle);
    assert_in_range(one, 26010, 26020);
    assert_in_range(two, 26010, 26020);
    assert_int_not_equal(one, two);
}

/* ---- probing and claiming is one step ---- */

struct racers {
    struct engine *e;
    int go[2];
};

/* Claims in the range, then binds what it got and keeps it: 0 when that worked. */
static int race(void *arg)
{
    struct racers *r = arg;
    char c = 0;
    dibs_ranges range = { .n = 1, .item = { { 26100, 26119 } } };
    dibs_request request = { .holder = DIBS_HELD_BY_PROCESS, .ranges = &range };
    const dibs_batch batch = { .requests = &request, .n = 1 };
    dibs_claim out = { 0 };
    dibs *handle = NULL;

    (void) close(r->go[1]);
    CHECK(read(r->go[0], &c, 1) == 0); /* until all may go on */
    CHECK(dibs_open(&r->e->settings, &handle, &r->e->err) == DIBS_OK);
    CHECK(dibs_claim_ports(handle, &batch, &out, &r->e->err) == DIBS_OK);
    struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(out.port) };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *) &sa, sizeof sa) == 0 && listen(fd, 1) == 0);
    (void) child_idle(NULL);
    return 0;
}

/* The listeners among the twenty numbers. */
static int count_bound(struct engine *e, bool is_bound[20])
{
    const dibs_binding any = { DIBS_TCP, { .len = 4 } };
    int n = 0;

    for (uint16_t i = 0; i < 20; i++) {
        is_bound[i] = kernel_probe(&any, 1, (uint16_t) (26100 + i), &e->err) == KERNEL_BUSY;
        n += is_bound[i];
    }
    return n;
}

static void D29_K6_twenty_processes_share_twenty_ports_and_every_bind_works(void **state)
{
    struct racers r = { .e = *state };
    pid_t pids[20];

    need_network();
    assert_int_equal(pipe(r.go), 0);
    for (int i = 0; i < 20; i++)
        pids[i] = child_fork(race, &r);
    (void) close(r.go[1]);
    (void) close(r.go[0]);
    bool is_bound[20] = { false };
    UNTIL(count_bound(r.e, is_bound) == 20); /* each number has its listener */
    for (int i = 0; i < 20; i++) {
        int status = 0;

        assert_int_equal(waitpid(pids[i], &status, WNOHANG), 0); /* none has given up */
        child_end(pids[i]);
    }
    for (int i = 0; i < 20; i++)
        assert_true(is_bound[i]);
    assert_int_equal(e_count(r.e, NULL), 20);
}

/* ---- settings, fallback, damage ---- */

static void D16_P12_a_handle_keeps_the_settings_it_was_opened_with(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request(NULL, NULL);

    need_network();
    dibs *handle = open_dibs(e);
    e->settings.range = e_ranges("26001");
    e->settings.source[DIBS_SET_RANGE] = DIBS_FROM_FLAG;
    assert_int_equal(setenv("DIBS_RANGE", "26002", 1), 0);
    assert_in_range(must(e, handle, &r), 20128, 32767);
    assert_int_equal(dibs_settings_of(handle)->range.item[0].first, 20000);
    assert_int_equal(unsetenv("DIBS_RANGE"), 0);
    dibs_close(handle);
}

/* A ledger that cannot be made: its directory is a file. */
static void break_ledger(struct engine *e)
{
    char path[300];

    (void) snprintf(path, sizeof path, "%s/file", e->dir);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void) close(fd);
    (void) snprintf(e->settings.ledger, sizeof e->settings.ledger, "sqlite:%s/below/ledger.db", path);
}

static void D3_D31_P15_without_a_ledger_a_port_is_degraded_and_says_so_or_is_refused(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request(NULL, "127.0.0.1");
    dibs_claim out = { 0 };
    char why[DIBS_ERR_MSG_MAX] = "";
    dibs *handle = NULL;

    need_network();
    break_ledger(e);
    assert_int_equal(dibs_open(&e->settings, &handle, &e->err), DIBS_UNAVAILABLE); /* strict */
    assert_null(handle);
    e->settings.ledger_mode = DIBS_LEDGER_FALLBACK;
    handle = open_dibs(e);
    assert_true(dibs_is_degraded(handle, why, sizeof why));
    assert_true(why[0] != '\0');
    ASSERT_OK(claim(e, handle, &r, &out), &e->err);
    assert_true(out.is_degraded);
    assert_int_equal(out.token[0], '\0');
    assert_in_range(out.port, 20000, 32767); /* M5: not an ephemeral port */
    uint16_t lent = out.port;
    /* A call that needs the ledger is refused, not swallowed. */
    r.name = "web";
    assert_int_equal(claim(e, handle, &r, &out), DIBS_UNAVAILABLE);
    r = e_required(NULL, "127.0.0.1", 26001);
    assert_int_equal(claim(e, handle, &r, &out), DIBS_UNAVAILABLE);
    assert_int_equal(dibs_claim_renew(handle, &(dibs_which){ .port = 26001 }, 1000, &out, &e->err),
                     DIBS_UNAVAILABLE);
    /* A port that was given like this can be released, and without a ledger there is nothing else. */
    for (size_t n = 9, expected = 1; expected <= 1; expected--) {
        ASSERT_OK(dibs_claim_release(handle, &(dibs_which){ .port = lent }, 0, &n, &e->err), &e->err);
        assert_int_equal(n, expected);
    }
    dibs_close(handle);
}

static void the_fallback_ends_no_claims(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request(NULL, "127.0.0.1");
    const dibs_claim gone = { .id = 1, .generation = 1 };
    const dibs_drop drop = { .claim = &gone };
    dibs_claim out = { 0 };

    break_ledger(e);
    e->settings.ledger_mode = DIBS_LEDGER_FALLBACK;
    dibs *handle = open_dibs(e);
    for (size_t n = 0; n <= 1; n++)
        assert_int_equal(
            dibs_claim_ports(handle, &(dibs_batch){ .requests = &r, .n = n, .drops = &drop, .n_drops = 1 },
                             &out, &e->err),
            DIBS_UNAVAILABLE);
    dibs_close(handle);
}

static void D31_the_ledger_and_the_fallback_share_no_file(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request(NULL, "127.0.0.1");

    need_network();
    dibs *handle = open_dibs(e);
    (void) must(e, handle, &r);
    dibs_close(handle);
    assert_int_not_equal(access(e->settings.mru_file, F_OK), 0);
    assert_int_equal(e_count(e, NULL), 1);
}

static void W6_a_claim_that_could_not_be_written_leaves_no_phantom(void **state)
{
    struct engine *e = *state;
    dibs_ranges one = e_ranges("26001");
    dibs_request r = e_request(NULL, "127.0.0.1");
    sqlite3 *db = NULL;

    need_network();
    r.ranges = &one;
    ASSERT_OK(core_index_refresh(e->core, E_CALL(e, e->core), &e->err), &e->err);
    assert_int_equal(sqlite3_open(e->uri + strlen("sqlite:"), &db), SQLITE_OK);
    /* The write fails after the decision was made. */
    assert_int_equal(sqlite3_exec(db,
                                  "CREATE TRIGGER broken BEFORE INSERT ON events BEGIN "
                                  "SELECT RAISE(ABORT, 'no'); END",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_not_equal(e_try(e, e->core, &r, &(dibs_claim){ 0 }), DIBS_OK);
    assert_int_equal(sqlite3_exec(db, "DROP TRIGGER broken", NULL, NULL, NULL), SQLITE_OK);
    (void) sqlite3_close(db);
    assert_int_equal(e_count(e, NULL), 0);
    assert_int_equal(e_must(e, e->core, &r).port, 26001);
}

static void P11_one_bad_row_harms_itself_alone(void **state)
{
    struct engine *e = *state;
    pid_t pid = child_fork(child_idle, NULL);
    dibs_request dead = e_held("dead", "127.0.0.1", pid);
    dibs_request r = e_request(NULL, "127.0.0.1");
    sqlite3 *db = NULL;

    need_network();
    (void) e_must(e, e->core, &dead);
    (void) e_port(e, e->core, "127.0.0.1", 26001);
    assert_int_equal(sqlite3_open(e->uri + strlen("sqlite:"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA ignore_check_constraints=1", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "UPDATE claims SET bindings=x'00' WHERE port=26001", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_changes(db), 1);
    (void) sqlite3_close(db);
    child_end(pid);
    dibs_request its_port = e_required(NULL, "127.0.0.1", 26001);
    (void) e_must(e, e->core, &r); /* others are claimed, */
    assert_int_equal(e_try(e, e_other(e), &its_port, &(dibs_claim){ 0 }), DIBS_TAKEN);
    assert_non_null(strstr(e->err.msg, "damaged record"));
    assert_int_equal(e_reap(e, e->core), 1); /* the dead reaped, the bad row set aside, */
    /* and its port is still not given twice: rather leaked (INV-10). */
    assert_int_equal(e_try(e, e->other, &its_port, &(dibs_claim){ 0 }), DIBS_TAKEN);
}

static void W14_a_full_pool_is_its_own_outcome(void **state)
{
    struct engine *e = *state;
    dibs_ranges one = e_ranges("26001");
    dibs_request r = e_request(NULL, NULL);

    need_network();
    r.ranges = &one;
    (void) e_must(e, e->core, &r);
    assert_int_equal(e_try(e, e->core, &r, &(dibs_claim){ 0 }), DIBS_EXHAUSTED);
    assert_int_equal(e->err.code, DIBS_EXHAUSTED);
    assert_non_null(strstr(e->err.msg, "dibs ls"));
}

static void M7_claims_can_be_listed_explained_and_released(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_kept("web", "127.0.0.1");
    size_t n = 0;

    need_network();
    (void) e_must(e, e->core, &r);
    assert_int_equal(e_count(e, &(dibs_filter){ .name_prefix = "web" }), 1);
    ASSERT_OK(core_release(e->core, E_CALL(e, e->core), &(dibs_which){ .name = "web" }, 0, &n, &e->err),
              &e->err);
    assert_int_equal(n, 1);
}

static void the_fallback_never_passes_over_claims_that_are_to_end(void **state)
{
    struct engine *e = *state;
    const dibs_claim kept = { .id = 1, .generation = 1, .port = 26001 };
    const dibs_drop drop = { .claim = &kept };
    dibs_request r = e_request(NULL, "127.0.0.1");
    dibs_batch batch = { .requests = &r, .drops = &drop, .n_drops = 1 };
    dibs_claim out = { 0 };

    need_network();
    e->settings.ledger_mode = DIBS_LEDGER_FALLBACK;
    (void) snprintf(e->settings.ledger, sizeof e->settings.ledger, "sqlite:/proc/nowhere/ledger.db");
    dibs *handle = open_dibs(e);
    assert_true(dibs_is_degraded(handle, NULL, 0));
    for (batch.n = 0; batch.n < 2; batch.n++)
        assert_int_equal(dibs_claim_ports(handle, &batch, &out, &e->err), DIBS_UNAVAILABLE);
    dibs_close(handle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(cases_1_and_2_two_ports_in_a_row_differ_for_tcp_and_udp),
        E_TEST(cases_3_to_6_each_loopback_address_alone_follows_its_socket),
        E_TEST(case_7_no_choice_intersects_the_ephemeral_range),
        E_TEST(cases_12_to_14_addresses_are_normalised),
        E_TEST(case_15_two_ports_of_a_small_range_differ_and_lie_in_it),
        E_TEST(D29_K6_twenty_processes_share_twenty_ports_and_every_bind_works),
        E_TEST(D16_P12_a_handle_keeps_the_settings_it_was_opened_with),
        E_TEST(D3_D31_P15_without_a_ledger_a_port_is_degraded_and_says_so_or_is_refused),
        E_TEST(the_fallback_ends_no_claims),
        E_TEST(D31_the_ledger_and_the_fallback_share_no_file),
        E_TEST(W6_a_claim_that_could_not_be_written_leaves_no_phantom),
        E_TEST(P11_one_bad_row_harms_itself_alone),
        E_TEST(W14_a_full_pool_is_its_own_outcome),
        E_TEST(M7_claims_can_be_listed_explained_and_released),
        E_TEST(the_fallback_never_passes_over_claims_that_are_to_end),
    };

    e_own_network();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
