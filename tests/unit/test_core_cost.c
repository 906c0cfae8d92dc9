/* SPDX-License-Identifier: MIT */
/* The cost of choosing as a pool fills (P1), how often a long repair syncs, and that nobody is judged while
 * the write lock is held (P9). */
#include <sqlite3.h>
#include <sys/random.h>
#include <sys/syscall.h>

#include "core/cooldown.h"
#include "support/core.h"

/* ---- looking over the engine's shoulder ----
 * These stand before the C library's own and pass on to the kernel. */

static unsigned binds;
static const char *locked_path; /* set: at each look at a process, is the ledger's write lock free? */
static unsigned looks, looks_under_lock;

int bind(int fd, __CONST_SOCKADDR_ARG address, socklen_t len)
{
    binds++;
    return (int) syscall(SYS_bind, fd, address.__sockaddr__, len);
}

static unsigned syncs;

__attribute__((visibility("default"))) int fdatasync(int fd) /* SQLite's, from its library */
{
    syncs++;
    return (int) syscall(SYS_fdatasync, fd);
}

__attribute__((visibility("default"))) int fsync(int fd)
{
    syncs++;
    return (int) syscall(SYS_fsync, fd);
}

static void look_at_the_lock(void)
{
    const char *path = locked_path;
    sqlite3 *db = NULL;

    locked_path = NULL; /* what SQLite opens is not a look */
    looks++;
    if (sqlite3_open(path, &db) != SQLITE_OK ||
        sqlite3_exec(db, "BEGIN IMMEDIATE; ROLLBACK", NULL, NULL, NULL) != SQLITE_OK)
        looks_under_lock++;
    (void) sqlite3_close(db);
    locked_path = path;
}

/* Judging a process begins so. */
int kill(pid_t pid, int signal)
{
    if (locked_path && signal == 0)
        look_at_the_lock();
    return (int) syscall(SYS_kill, pid, signal);
}

/* ---- helpers ---- */

static void claim_many(struct engine *e, struct core *core, const dibs_request *like, size_t n,
                       uint16_t *ports)
{
    dibs_request *requests = calloc(n, sizeof *requests);
    dibs_claim *out = calloc(n, sizeof *out);
    const dibs_batch batch = { .requests = requests, .n = n };

    assert_non_null(requests);
    assert_non_null(out);
    for (size_t i = 0; i < n; i++)
        requests[i] = *like;
    ASSERT_OK(core_claim(core, E_CALL(e, core), &batch, out, &e->err), &e->err);
    for (size_t i = 0; i < n && ports; i++)
        ports[i] = out[i].port;
    free(requests);
    free(out);
}

static void fill(struct engine *e, struct core *core, size_t n)
{
    const dibs_request like = e_request(NULL, "127.0.0.1");

    for (size_t part = 0; n > 0; n -= part) {
        part = n < 2000 ? n : 2000;
        claim_many(e, core, &like, part, NULL);
    }
}

static void P1_claiming_does_not_rewalk_held_ports(void **state)
{
    struct engine *e = *state;
    const dibs_request r = e_request(NULL, "127.0.0.1");

    need_network();
    fill(e, e->core, 6000);
    /* A cold process finds its way from the cursor alone: had it to walk over the held ones, it would have
     * had to load the index. */
    for (int i = 0; i < 3; i++) {
        struct core *cold = e_twin(e);

        (void) core_host(cold, E_CALL(e, cold)); /* its own facts are not the claim's */
        binds = 0;
        e->clock_looks = 0;
        (void) e_must(e, cold, &r);
        assert_int_equal(binds, 1);
        assert_true(e->clock_looks < 12);
        assert_false(cold->index.is_loaded);
    }
}

static void P1_W8_the_last_ports_of_a_pool_cost_no_more_than_the_first(void **state)
{
    struct engine *e = *state;
    const dibs_request r = e_request(NULL, "127.0.0.1");
    dibs_claim out = { 0 };

    need_network();
    fill(e, e->core, 12700);
    for (int i = 0; i < 68; i++) {
        binds = 0;
        e->clock_looks = 0;
        (void) e_must(e, e->core, &r);
        assert_true(binds <= 4); /* its own, and a look whether IPv6 is there */
        assert_true(e->clock_looks < 40);
    }
    assert_int_equal(e_try(e, e->core, &r, &out), DIBS_EXHAUSTED); /* K3: all 12,768 */
    assert_int_equal(e_count(e, NULL), 12768);
}

static void a_strangers_port_is_not_probed_by_every_claim(void **state)
{
    enum { N = 40, AGAIN = 10 };
    struct engine *e = *state;
    dibs_request r = e_request(NULL, "127.0.0.1");
    dibs_claim claims[N - 1];

    need_network();
    e_pool(e, "forty", "30000-30039", 0, 60000);
    r.pool = "forty";
    int fd = e_serve(DIBS_TCP, "127.0.0.1", 30007);
    ASSERT_OK(core_index_refresh(e->core, E_CALL(e, e->core), &e->err), &e->err);
    for (size_t i = 0; i < N - 1; i++)
        claims[i] = e_must(e, e->core, &r);
    for (size_t i = 0; i < N - 1; i++)
        assert_int_equal(e_release(e, e->core, &claims[i]), 1);
    e_pass(e, 10000); /* long enough to forget that port, and all others still cool */
    claims[0] = e_must(e, e->core, &r);
    binds = 0;
    for (size_t i = 1; i <= AGAIN; i++)
        claims[i] = e_must(e, e->core, &r);
    assert_int_equal(binds, AGAIN);
    (void) close(fd);
}

/* Where many ports are claimed again while their cooldown runs, a search for the oldest would pass over
 * all of them each time. */
static void a_port_that_is_claimed_does_not_cool_for_the_index(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_request(NULL, "127.0.0.1");
    dibs_ranges one = e_ranges("30000");
    struct core *twin = e_twin(e);

    need_network();
    r.ranges = &one;
    cooldown_remember(twin, 60000);
    ASSERT_OK(core_index_refresh(twin, E_CALL(e, twin), &e->err), &e->err);
    for (int i = 0; i < 3; i++) {
        dibs_claim claim = e_must(e, e->core, &r);

        twin->index.is_loaded = i > 0; /* whole, and through the events */
        ASSERT_OK(core_index_refresh(twin, E_CALL(e, twin), &e->err), &e->err);
        assert_true(portbits_has(&twin->index.taken[DIBS_TCP], 30000));
        assert_false(portbits_has(&twin->index.cooling[DIBS_TCP], 30000));
        assert_int_equal(e_release(e, e->core, &claim), 1);
        ASSERT_OK(core_index_refresh(twin, E_CALL(e, twin), &e->err), &e->err);
        assert_true(portbits_has(&twin->index.cooling[DIBS_TCP], 30000));
    }
    (void) e_must(e, e->core, &r);
    twin->index.is_loaded = false;
    ASSERT_OK(core_index_refresh(twin, E_CALL(e, twin), &e->err), &e->err);
    assert_false(portbits_has(&twin->index.cooling[DIBS_TCP], 30000));
}

static void every_claim_of_a_group_has_a_secret_of_its_own(void **state)
{
    enum { N = 20 };
    struct engine *e = *state;
    const dibs_request r = e_request(NULL, "127.0.0.1");
    dibs_claim claims[N];

    need_network();
    e_begin(e, e->core);
    for (size_t i = 0; i < N; i++)
        claims[i] = e_must(e, e->core, &r);
    ASSERT_OK(e_commit(e, e->core), &e->err);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(e_release(e, e->core, &claims[i]), 1);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(strrchr(claims[i].token, '.'), strrchr(claims[k].token, '.'));
    }
}

static void a_call_that_succeeds_at_once_reads_no_clock(void **state)
{
    struct engine *e = *state;
    const dibs_request r = e_request(NULL, "127.0.0.1");
    const dibs_batch batch = { .requests = &r, .n = 1 };
    dibs_claim claim = { 0 };
    size_t n = 0;

    need_network();
    ASSERT_OK(core_index_refresh(e->core, E_CALL(e, e->core), &e->err), &e->err);
    const struct call call = e_call(e, e->core);
    e->clock_looks = 0;
    ASSERT_OK(core_claim(e->core, &call, &batch, &claim, &e->err), &e->err);
    ASSERT_OK(core_release(e->core, &call, &(dibs_which){ .token = claim.token }, 0, &n, &e->err), &e->err);
    assert_int_equal(n, 1);
    assert_int_equal(e->clock_looks, 0);
}

static void sqlite_counts_no_memory_when_it_is_ours_alone(void **state)
{
    struct engine *e = *state;

    assert_int_equal(e_count(e, NULL), 0);
    assert_int_equal(sqlite3_memory_used(), 0);
}

static void P9_nobody_is_judged_while_the_write_lock_is_held(void **state)
{
    struct engine *e = *state;
    dibs_ranges two = e_ranges("26001-26002");
    dibs_request theirs = e_held("web", "127.0.0.1", 0);
    dibs_request mine = e_held("web", "127.0.0.1", 0);
    pid_t pid[3];

    need_network();
    theirs.ranges = mine.ranges = &two;
    for (int i = 0; i < 3; i++)
        pid[i] = child_fork(child_idle, NULL);
    theirs.pid = (int32_t) pid[0];
    (void) e_must(e, e->core, &theirs);
    theirs.name = NULL;
    theirs.pid = (int32_t) pid[1];
    (void) e_must(e, e->core, &theirs);
    child_end(pid[0]);
    child_end(pid[1]);

    locked_path = e->uri + strlen("sqlite:");
    looks = looks_under_lock = 0;
    (void) e_must(e, e->core, &mine); /* the name's dead holder */
    mine.name = NULL;
    (void) e_must(e, e->core, &mine); /* exhausted: the other dead one gives way */
    mine = e_held(NULL, "127.0.0.1", pid[2]);
    mine.mode = DIBS_REQUIRED;
    mine.port = 26003;
    (void) e_must(e, e->core, &mine);
    child_end(pid[2]);
    mine.pid = 0;
    (void) e_must(e, e->core, &mine); /* a number whose holder is dead */
    (void) e_reap(e, e->core);
    locked_path = NULL;
    assert_true(looks >= 3);
    assert_int_equal(looks_under_lock, 0);
}

static void P9_judging_goes_on_while_another_holds_the_write_lock(void **state)
{
    struct engine *e = *state;
    dibs_request r = e_held("web", "127.0.0.1", 0);
    sqlite3 *db = NULL;
    struct e_list *list = calloc(1, sizeof *list);

    assert_non_null(list);
    (void) e_must(e, e->core, &r);
    assert_int_equal(sqlite3_open(e->uri + strlen("sqlite:"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    ASSERT_OK(core_list(e->core, E_CALL(e, e->core), &(dibs_filter){ .judge = true }, e_note, list, &e->err),
              &e->err);
    assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    (void) sqlite3_close(db);
    assert_int_equal(list->n, 1);
    assert_int_equal(list->claims[0].life, DIBS_ALIVE);
    free(list);
}

static bool count_finding(void *ctx, const dibs_repair_item *item)
{
    assert_int_equal(item->kind, DIBS_REPAIR_RESTORED);
    ++*(size_t *) ctx;
    return true;
}

static void a_long_repair_is_durable_without_a_sync_for_every_line(void **state)
{
    enum { LINES = 5000 };
    struct engine *e = *state;
    dibs_observed *seen = calloc(LINES, sizeof *seen);
    const dibs_repair_plan plan = { .observed = seen, .n = LINES };
    size_t n = 0;

    assert_non_null(seen);
    for (uint16_t i = 0; i < LINES; i++)
        seen[i] = (dibs_observed){ .port = (uint16_t) (20000 + i),
                                   .binding = { DIBS_TCP, t_address("127.0.0.1") } };
    syncs = 0;
    ASSERT_OK(core_repair(e->core, E_CALL(e, e->core), &plan, count_finding, &n, &e->err), &e->err);
    assert_int_equal(n, LINES);
    assert_true(syncs > 0); /* INV-2: kept claims survive power loss */
    assert_true(syncs < LINES / 10);
    assert_int_equal(e_count(e, NULL), LINES);
    free(seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(P1_claiming_does_not_rewalk_held_ports),
        E_TEST(P1_W8_the_last_ports_of_a_pool_cost_no_more_than_the_first),
        E_TEST(a_strangers_port_is_not_probed_by_every_claim),
        E_TEST(a_port_that_is_claimed_does_not_cool_for_the_index),
        E_TEST(every_claim_of_a_group_has_a_secret_of_its_own),
        E_TEST(a_call_that_succeeds_at_once_reads_no_clock),
        E_TEST(sqlite_counts_no_memory_when_it_is_ours_alone),
        E_TEST(P9_nobody_is_judged_while_the_write_lock_is_held),
        E_TEST(P9_judging_goes_on_while_another_holds_the_write_lock),
        E_TEST(a_long_repair_is_durable_without_a_sync_for_every_line),
    };

    ledger_have_process();
    e_own_network();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
