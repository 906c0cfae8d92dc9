/* SPDX-License-Identifier: MIT */
/* A ledger of version 0.1 keeps all of its claims (tests/support/ledger-0.1.db, made by that version; the
 * -wal beside it is what its running daemon had written since then). */
#include "support/sqlite.h"

struct stored {
    const char *token;
    uint16_t port;
    const char *name;
    dibs_kind kind;
    dibs_holder holder;
    bool is_exclusive, is_kept;
    size_t n_bindings;
    const char *pool;
};

static const struct stored at_first[] = {
    { "2.1.3d6f31973c945577a751e4766ae1e552", 28008, "shop/web", DIBS_DYNAMIC, DIBS_HELD_BY_NOBODY, true,
      true, 1, "default" },
    { "3.1.635e7181c69a3a3f7ad7cc882fa8fdf4", 25432, "shop/db", DIBS_STATIC, DIBS_HELD_BY_NOBODY, true, true,
      2, "default" },
    { "4.1.61075524a2692406610db3489590ace0", 26187, "shop/api", DIBS_DYNAMIC, DIBS_HELD_BY_PROCESS, true,
      false, 1, "default" },
    { "5.1.c42ab76fd146b25e531dc7408ec372e3", 30808, "shop/job", DIBS_DYNAMIC, DIBS_HELD_BY_LEASE, true,
      false, 2, "default" },
    { "6.1.6a8369d74371502b0b68ac0a5c57ae33", 21311, "", DIBS_DYNAMIC, DIBS_HELD_BY_LEASE, true, false, 1,
      "default" },
    { "7.1.c2ff325aa3752e79e9b68014113df85a", 8080, "", DIBS_STATIC, DIBS_HELD_BY_LEASE, false, false, 1,
      "" },
    { "10.1.1a6660bfd4502573013d80262bf7085b", 31023, "shop/train", DIBS_DYNAMIC, DIBS_HELD_BY_NOBODY, true,
      true, 1, "gpu" },
};
enum { AT_FIRST = sizeof at_first / sizeof at_first[0] };

/* By the daemon, which has released shop/web and reaped shop/api. */
static const struct stored by_daemon[] = {
    { "12.1.073c42eee1e64f60e84ec5dc2cba1372", 25309, "shop/cache", DIBS_DYNAMIC, DIBS_HELD_BY_NOBODY, true,
      true, 1, "default" },
    { "13.1.b9723a83ed131f5338285568016825e2", 24000, "", DIBS_STATIC, DIBS_HELD_BY_LEASE, true, false, 1,
      "default" },
};
enum { BY_DAEMON = sizeof by_daemon / sizeof by_daemon[0], ENDED_BY_DAEMON = 2 };

static void copy(const struct t_ledger *t, const char *suffix)
{
    const char *source = getenv("SOURCE");
    char from[1024];
    char to[400];
    uint8_t *bytes = NULL;

    (void) snprintf(from, sizeof from, "%s/tests/support/ledger-0.1.db%s", source ? source : ".", suffix);
    (void) snprintf(to, sizeof to, "%s%s", t->uri + strlen("sqlite:"), suffix);
    size_t n = read_whole(from, &bytes);
    int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), n);
    (void) close(fd);
    free(bytes);
}

static int start(void **state)
{
    if (t_open(state) != 0)
        return -1;
    struct t_ledger *t = *state;
    t->call.principal = "uid:0";
    close_ledger(t);
    t_remove_directory(t->dir);
    (void) mkdir(t->dir, 0700);
    copy(t, "");
    return 0;
}

static void assert_stored(struct t_ledger *t, const struct stored *claims, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        dibs_claim c = { 0 };

        ASSERT_OK(ledger_find_token(t->ledger, &t->call, claims[i].token, &c, &t->err), &t->err);
        assert_int_equal(c.port, claims[i].port);
        assert_string_equal(c.name, claims[i].name);
        assert_int_equal(c.kind, claims[i].kind);
        assert_int_equal(c.holder, claims[i].holder);
        assert_int_equal(c.is_exclusive, claims[i].is_exclusive);
        assert_int_equal(c.is_kept, claims[i].is_kept);
        assert_int_equal(c.n_bindings, claims[i].n_bindings);
        assert_string_equal(c.pool, claims[i].pool);
        assert_string_equal(c.principal, "uid:0");
        assert_string_equal(c.project, c.name[0] ? "/srv/shop" : "");
    }
}

static bool note_flaw(void *ctx, enum ledger_flaw flaw, const dibs_claim *claim, uint64_t other)
{
    (void) flaw, (void) claim, (void) other;
    ++*(size_t *) ctx;
    return true;
}

static void assert_sound(struct t_ledger *t)
{
    struct ledger_health health = { 0 };
    size_t n_flaws = 0;
    char path[300];
    uint8_t *file = NULL;

    ASSERT_OK(ledger_health(t->ledger, &health, &t->err), &t->err);
    assert_true(health.is_sound);
    assert_int_equal(health.major * 1000 + health.minor, SQLITE_LEDGER_VERSION);
    path_of(t, path);
    sqlite3 *db = open_raw(path);
    assert_true(sqlite_is_as_made(db));
    (void) sqlite3_exec(db, "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL);
    (void) sqlite3_close(db);
    size_t n = read_whole(path, &file);
    assert_true(n > 100 && file[100] == 13); /* a leaf: the salvage of a short file needs the tables' texts */
    free(file);
    ASSERT_OK(ledger_flaws(t->ledger, &t->call, note_flaw, &n_flaws, &t->err), &t->err);
    assert_int_equal(n_flaws, 0);
}

static bool note_cooling(void *ctx, const struct ledger_slot *slot)
{
    *(bool *) ctx = *(bool *) ctx || (slot->claim_id == 0 && slot->port == 23174);
    return true;
}

/* All that is not a claim. */
static void assert_rest(struct t_ledger *t)
{
    dibs_pool pool = { 0 };
    dibs_claim found = { 0 };
    uint16_t remembered = 0;
    bool is_cooling = false;

    ASSERT_OK(ledger_pool_get(t->ledger, &t->call, "gpu", &pool, &t->err), &t->err);
    assert_int_equal(pool.ranges.n, 2);
    assert_int_equal(pool.cooldown_ms, 7000);
    assert_int_equal(ledger_find_name(t->ledger, &t->call, "shop/gone", &found, &remembered, &t->err),
                     DIBS_NOT_FOUND);
    assert_int_equal(remembered, 23174); /* INV-7 */
    ASSERT_OK(ledger_slots(t->ledger, &t->call, NULL, note_cooling, &is_cooling, &t->err), &t->err);
    assert_true(is_cooling);
    struct t_events events = t_events_since(t, 0);
    assert_true(events.n >= 10);
    assert_int_equal(events.item[0].kind, DIBS_EV_POOL);
    assert_int_equal(events.item[8].kind, DIBS_EV_RELEASED);
    assert_int_equal(events.item[9].claim_id, 10);
}

static void a_ledger_of_version_0_1_keeps_everything(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    dibs_claim got = { 0 };

    ASSERT_OK(reopen(t, 500), &t->err);
    assert_int_equal(t_list(t, (struct ledger_filter){ 0 }).n, AT_FIRST);
    assert_stored(t, at_first, AT_FIRST);
    assert_rest(t);
    assert_sound(t);
    assert_int_equal(t_claim(t, &want, at_first[0].port, &got), DIBS_TAKEN); /* INV-1 */
    assert_true(t_must(t, &want, 26000).id > 10);
}

static void claims_that_a_running_daemon_of_version_0_1_has_written_are_kept(void **state) /* INV-2 */
{
    struct t_ledger *t = *state;
    dibs_claim found = { 0 };

    copy(t, "-wal");
    ASSERT_OK(reopen(t, 500), &t->err);
    assert_int_equal(t_list(t, (struct ledger_filter){ 0 }).n, AT_FIRST - ENDED_BY_DAEMON + BY_DAEMON);
    assert_stored(t, by_daemon, BY_DAEMON);
    for (size_t i = 0; i < AT_FIRST; i++)
        if (strcmp(at_first[i].name, "shop/web") != 0 && strcmp(at_first[i].name, "shop/api") != 0)
            assert_stored(t, &at_first[i], 1);
        else
            assert_int_equal(ledger_find_token(t->ledger, &t->call, at_first[i].token, &found, &t->err),
                             DIBS_NOT_FOUND);
    assert_rest(t);
    assert_sound(t);
}

static void a_damaged_ledger_of_version_0_1_is_salvaged(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_salvaged salvaged = { 0 };

    vandalise(t, "UPDATE pools SET scope=7");
    ASSERT_OK(ledger_salvage(t->uri, &t->call, &salvaged, &t->err), &t->err);
    assert_int_equal(salvaged.n_saved, AT_FIRST);
    assert_int_equal(salvaged.n_lost, 0);
    vandalise(t, "UPDATE pools SET scope=0");
    ASSERT_OK(ledger_salvage(t->uri, &t->call, &salvaged, &t->err), &t->err);
    ASSERT_OK(reopen(t, 500), &t->err);
    assert_int_equal(t_list(t, (struct ledger_filter){ 0 }).n, AT_FIRST);
    assert_stored(t, at_first, AT_FIRST);
    assert_rest(t);
    assert_sound(t);
}

static void a_new_ledger_has_the_tables_of_a_migrated_one(void **state)
{
    struct t_ledger *t = *state;
    char path[300];

    path_of(t, path);
    (void) unlink(path);
    ASSERT_OK(reopen(t, 500), &t->err);
    assert_sound(t);
}

/* A daemon of version 0.1 goes on with its own statements after a newer command has brought the ledger up to
 * date. */
static void a_process_of_version_0_1_may_still_write(void **state)
{
    struct t_ledger *t = *state;
    char path[300];
    sqlite3_stmt *insert = NULL;

    path_of(t, path);
    sqlite3 *old = open_raw(path);
    assert_int_equal(sqlite3_prepare_v2(old,
                                        "INSERT OR REPLACE INTO claims(id, generation, secret, port, kind,"
                                        " exclusive, kept, holder, boot_id, pidns, pid, start_ticks, ttl_ms,"
                                        " until_ms, uid, netns, created_ms, changed_ms, bindings, principal,"
                                        " name, pool, command, project) SELECT 11, generation, secret, 26000,"
                                        " kind, exclusive, kept, holder, boot_id, pidns, pid, start_ticks,"
                                        " ttl_ms, until_ms, uid, netns, created_ms, changed_ms, bindings,"
                                        " principal, '', pool, command, project FROM claims WHERE id=6",
                                        -1, &insert, NULL),
                     SQLITE_OK);
    ASSERT_OK(reopen(t, 500), &t->err);
    assert_int_equal(sqlite3_step(insert), SQLITE_DONE);
    (void) sqlite3_finalize(insert);
    assert_int_equal(sqlite3_exec(old,
                                  "INSERT INTO slots SELECT proto, 26000, address, 11, exclusive, released_ms"
                                  " FROM slots WHERE claim=6",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    (void) sqlite3_close(old);
    assert_int_equal(t_stored(t, 11).port, 26000);
    assert_stored(t, at_first, AT_FIRST);
    assert_sound(t);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, t_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_ledger_of_version_0_1_keeps_everything),
        CASE(claims_that_a_running_daemon_of_version_0_1_has_written_are_kept),
        CASE(a_damaged_ledger_of_version_0_1_is_salvaged),
        CASE(a_new_ledger_has_the_tables_of_a_migrated_one),
        CASE(a_process_of_version_0_1_may_still_write),
    };

    t_scheme = "sqlite";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
