/* SPDX-License-Identifier: MIT */
/* Damage to a SQLite ledger: records, slots, pages, the whole file. */
#include <fcntl.h>
#include <sys/stat.h>

#include "support/sqlite.h"

/* ---- damaged records ---- */

static dibs_status salvage(struct t_ledger *t, struct ledger_salvaged *out)
{
    close_ledger(t);
    return ledger_salvage(t->uri, &t->call, out, &t->err);
}

static struct ledger_salvaged salvage_and_reopen(struct t_ledger *t)
{
    struct ledger_salvaged salvaged = { 0 };

    ASSERT_OK(salvage(t, &salvaged), &t->err);
    ASSERT_OK(reopen(t, 500), &t->err);
    return salvaged;
}

static bool count_flaw(void *ctx, enum ledger_flaw flaw, const dibs_claim *claim, uint64_t other)
{
    size_t *n = ctx;

    (void) flaw, (void) claim, (void) other;
    ++*n;
    return true;
}

static size_t flaws(struct t_ledger *t)
{
    size_t n = 0;

    ASSERT_OK(ledger_flaws(t->ledger, &t->call, count_flaw, &n, &t->err), &t->err);
    return n;
}

static const char *const record_damage[] = {
    "port=70000",    "port=0",
    "generation=-5", "kind=9",
    "holder=7",      "kept=0, holder=0",
    "pid=-3",        "bindings=x'0102'",
    "bindings=x''",  "principal=''",
    "secret=x'00'",  "name='..'",
    "ttl_ms=-1",     "exclusive=3",
    "boot_id=''",    "boot_id=replace(boot_id, '-', '=')",
    "uid=-1",        "pool=hex(zeroblob(90))",
};
enum { RECORD_DAMAGES = sizeof record_damage / sizeof record_damage[0] };

static struct ledger_want numbered_want(size_t i)
{
    struct ledger_want want = t_want("shop/x", "*");

    (void) snprintf(want.claim.name, sizeof want.claim.name, "shop/x%zu", i);
    (void) snprintf(want.claim.project, sizeof want.claim.project, "/home/x");
    return want;
}

/* Claims a port, damages its record, and looks whether anything else suffers. */
static void damage_record(struct t_ledger *t, size_t i, uint16_t port)
{
    struct ledger_want want = numbered_want(i);
    struct ledger_want unnamed = t_want(NULL, "127.0.0.1");
    dibs_claim got = { 0 };
    size_t n = 0;
    char sql[256];

    dibs_claim bad = t_must(t, &want, port);
    dibs_claim good = t_must(t, &unnamed, (uint16_t) (port + 1));
    size_t before = t_list(t, (struct ledger_filter){ 0 }).n;
    (void) snprintf(sql, sizeof sql, "UPDATE claims SET %s WHERE id=%llu", record_damage[i],
                    (unsigned long long) bad.id);
    vandalise(t, sql);
    if (t_claim(t, &unnamed, port, &got) != DIBS_TAKEN)
        fail_msg("%s: its port was given away", record_damage[i]);
    assert_int_equal(t_list(t, (struct ledger_filter){ 0 }).n, before); /* listing goes on */
    (void) t_must(t, &unnamed, (uint16_t) (port + 2));
    assert_int_equal(t_end(t, &good, LEDGER_END_RELEASE), 1);
    ASSERT_OK(ledger_upkeep(t->ledger, &t->call, &n, &t->err), &t->err);
    if (n != i + 1 || flaws(t) != i + 1)
        fail_msg("%s: %zu records are damaged", record_damage[i], n);
}

static void a_damaged_record_harms_itself_alone(void **state) /* INV-6 */
{
    struct t_ledger *t = *state;
    struct ledger_want unnamed = t_want(NULL, "127.0.0.1");
    dibs_claim got = { 0 };

    for (size_t i = 0; i < RECORD_DAMAGES; i++)
        damage_record(t, i, (uint16_t) (26000 + 10 * i));
    struct ledger_salvaged salvaged = salvage_and_reopen(t);
    assert_int_equal(salvaged.n_saved, RECORD_DAMAGES);
    assert_int_equal(salvaged.n_lost, RECORD_DAMAGES);
    assert_int_equal(flaws(t), 0);
    for (size_t i = 0; i < RECORD_DAMAGES; i++) {
        struct ledger_want want = numbered_want(i);
        uint16_t port = (uint16_t) (26000 + 10 * i);

        if (t_claim(t, &unnamed, port, &got) != DIBS_TAKEN)
            fail_msg("%s: its port was given away by the salvage", record_damage[i]);
        assert_string_equal(t->refusal.blocker.command, "damaged record");
        assert_string_equal(t->refusal.blocker.name, want.claim.name); /* INV-7 */
        assert_string_equal(t->refusal.blocker.project, "/home/x");
        assert_string_equal(t->refusal.blocker.principal, "uid:1000");
        assert_int_equal(t_must(t, &want, (uint16_t) (port + 3)).port, port);
    }
    struct ledger_health health = { 0 };
    ASSERT_OK(ledger_health(t->ledger, &health, &t->err), &t->err);
    assert_true(health.is_sound);
    assert_true(health.bytes > 0);
}

static void a_placeholder_of_nobody_is_the_ledgers_owners(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    dibs_claim bad = t_must(t, &want, 26001);
    size_t n = 0;

    vandalise(t, "UPDATE claims SET principal='', kind=9");
    (void) salvage_and_reopen(t);
    struct t_ids left = t_list(t, (struct ledger_filter){ .port = 26001 });
    assert_int_equal(left.n, 1);
    assert_int_equal(left.last.id, bad.id);
    assert_string_equal(left.last.principal, "uid:1000"); /* the maker of the file, by its own principal */
    struct ledger_seen seen = t_seen(&left.last);
    assert_int_equal(ledger_end(t->ledger, &t->other, &(struct ledger_ending){ &seen, 1, LEDGER_END_RELEASE },
                                &n, &t->err),
                     DIBS_DENIED);
    assert_int_equal(t_end(t, &left.last, LEDGER_END_RELEASE), 1);
    (void) t_must(t, &want, 26001);
}

static void lost_slots_are_written_again_and_lost_claims_keep_their_port(void **state) /* INV-10 */
{
    static const char *const damage[] = {
        "DELETE FROM slots WHERE port=26001",
        "UPDATE slots SET exclusive=0 WHERE port=26001",
        "UPDATE slots SET exclusive=9 WHERE port=26001",
        "UPDATE slots SET address=x'01' WHERE port=26001",
        "UPDATE slots SET claim=77 WHERE port=26001",
        "DELETE FROM claims WHERE port=26001",
    };
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "127.0.0.1");
    dibs_claim got = { 0 };

    for (size_t i = 0; i < sizeof damage / sizeof damage[0]; i++) {
        dibs_claim claim = t_must(t, &want, 26001);

        vandalise(t, damage[i]);
        assert_true(flaws(t) > 0);
        struct ledger_salvaged salvaged = salvage_and_reopen(t);
        assert_int_equal(salvaged.n_lost, i == 5); /* slots that can be made from their claim are no loss */
        assert_int_equal(flaws(t), 0);
        if (t_claim(t, &want, 26001, &got) != DIBS_TAKEN)
            fail_msg("%s: the port was given twice", damage[i]);
        struct t_ids left = t_list(t, (struct ledger_filter){ .port = 26001 });
        assert_int_equal(left.n, 1);
        assert_int_equal(left.last.id, claim.id);
        t->call.is_admin = true;
        assert_int_equal(t_end(t, &left.last, LEDGER_END_RELEASE), 1);
    }
}

static void a_lost_claim_keeps_all_of_its_bindings_and_its_name(void **state) /* INV-7 */
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want("shop/a", "127.0.0.1");

    want.claim.n_bindings = 2;
    want.claim.bindings[1] = want.claim.bindings[0];
    want.claim.bindings[1].proto = DIBS_UDP;
    dibs_claim claim = t_must(t, &want, 26001);
    vandalise(t, "DELETE FROM claims");
    assert_int_equal(flaws(t), 1);
    assert_int_equal(salvage_and_reopen(t).n_lost, 1);
    dibs_claim found = { 0 };
    ASSERT_OK(ledger_find_name(t->ledger, &t->call, "shop/a", &found, NULL, &t->err), &t->err);
    assert_int_equal(found.id, claim.id);
    assert_int_equal(found.n_bindings, 2);
    assert_int_equal(t_must(t, &want, 26002).port, 26001);
}

static void claims_that_conflict_are_both_saved(void **state) /* INV-5 */
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");

    (void) t_must(t, &want, 26001);
    (void) t_must(t, &want, 26002);
    vandalise(t, "UPDATE claims SET port=26001");
    assert_int_equal(salvage_and_reopen(t).n_saved, 2);
    assert_int_equal(t_list(t, (struct ledger_filter){ .port = 26001 }).n, 2);
    assert_int_equal(flaws(t), 1); /* the conflict, which a user must end */
}

static void a_slot_cannot_go_or_change_while_its_claim_is_there(void **state) /* INV-1 */
{
    static const char *const attempts[] = { "DELETE FROM slots", "DELETE FROM slots WHERE port=26001",
                                            "UPDATE slots SET port=26002", "UPDATE slots SET exclusive=0" };
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    dibs_claim claim = t_must(t, &want, 26001);
    dibs_claim got = { 0 };
    char path[300];

    path_of(t, path);
    sqlite3 *db = open_raw(path);
    for (size_t i = 0; i < sizeof attempts / sizeof attempts[0]; i++)
        assert_int_equal(sqlite3_exec(db, attempts[i], NULL, NULL, NULL), SQLITE_CONSTRAINT);
    (void) sqlite3_close(db);
    assert_int_equal(t_claim(t, &want, 26001, &got), DIBS_TAKEN);
    assert_int_equal(t_end(t, &claim, LEDGER_END_RELEASE), 1);
    (void) t_must(t, &want, 26001);
}

static void an_older_minor_is_brought_up_to_date(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");

    (void) t_must(t, &want, 26001);
    close_ledger(t);
    vandalise(t, "ALTER TABLE claims DROP COLUMN keeper; ALTER TABLE claims DROP COLUMN run;"
                 " ALTER TABLE claims DROP COLUMN hold; ALTER TABLE claims DROP COLUMN as_port;"
                 " ALTER TABLE pools DROP COLUMN rebuilt; ALTER TABLE sightings DROP COLUMN since_ms; DROP "
                 "TABLE facts;"
                 " PRAGMA user_version=1004");
    ASSERT_OK(reopen(t, 500), &t->err);
    assert_int_equal(number(t, "PRAGMA user_version"), SQLITE_LEDGER_VERSION);
    assert_int_equal(t_list(t, (struct ledger_filter){ 0 }).n, 1);
}

static void a_damaged_slot_blocks_its_port(void **state)
{
    static const char *const damage[] = { "exclusive=9", "address=x'01'", "claim=-4" };
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "127.0.0.1");
    dibs_claim got = { 0 };

    for (size_t i = 0; i < 3; i++) {
        char sql[100];
        uint16_t port = (uint16_t) (26001 + i);

        (void) t_must(t, &want, port);
        (void) snprintf(sql, sizeof sql, "UPDATE slots SET %s WHERE port=%u", damage[i], port);
        vandalise(t, sql);
        assert_int_equal(t_claim(t, &want, port, &got), DIBS_TAKEN);
    }
}

/* ---- damaged files ---- */

static void garbage_is_damaged_and_set_aside_as_it_is(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    char path[300];
    struct ledger_salvaged salvaged = { 0 };
    uint8_t garbage[5000];

    path_of(t, path);
    for (size_t i = 0; i < sizeof garbage; i++)
        garbage[i] = (uint8_t) (i * 31 + 7);
    close_ledger(t);
    t_remove_directory(t->dir);
    assert_int_equal(mkdir(t->dir, 0700), 0);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, garbage, sizeof garbage), sizeof garbage);
    (void) close(fd);
    assert_int_equal(reopen(t, 500), DIBS_UNAVAILABLE);
    assert_int_equal(t->err.trouble, DIBS_TROUBLE_DAMAGED);
    ASSERT_OK(salvage(t, &salvaged), &t->err);
    assert_int_equal(salvaged.n_saved, 0);
    assert_non_null(strstr(salvaged.aside, ".damaged-"));
    assert_same_bytes(salvaged.aside, garbage, sizeof garbage);
    ASSERT_OK(reopen(t, 500), &t->err);
    (void) t_must(t, &want, 26001);
}

enum { MANY = 600 };

static void claim_many(struct t_ledger *t, dibs_claim *out)
{
    struct ledger_want want = t_want(NULL, "*");
    dibs_pool pool = { .name = "gpu", .ranges = { { { 30000, 30010 } }, 1 }, .order = "stride" };

    t_kept(&want);
    for (size_t i = 0; i < MANY; i++) {
        (void) snprintf(want.claim.name, sizeof want.claim.name, "shop/n%zu", i);
        (void) snprintf(want.claim.project, sizeof want.claim.project,
                        "/home/somebody/with/a/long/path/%0100zu", i);
        out[i] = t_must(t, &want, (uint16_t) (20000 + i));
    }
    ASSERT_OK(ledger_pool_put(t->ledger, &t->call, &pool, &t->err), &t->err);
}

static void overwrite(const char *path, int64_t at, size_t n)
{
    uint8_t noise[8192];
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    memset(noise, 0xa5, sizeof noise);
    assert_true(fd >= 0 && n <= sizeof noise);
    assert_int_equal(pwrite(fd, noise, n, at), n);
    (void) close(fd);
}

static void a_bad_page_costs_its_records_and_no_port(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    dibs_claim *claims = calloc(MANY, sizeof *claims);
    struct ledger_salvaged salvaged = { 0 };
    char path[300];
    size_t found = 0;
    dibs_claim got = { 0 };
    dibs_pool pool = { 0 };

    assert_non_null(claims);
    claim_many(t, claims);
    uint64_t tail = t_tail(t);
    uint64_t salt = ledger_salt(t->ledger);
    close_ledger(t);
    (void) number(t, "PRAGMA wal_checkpoint(TRUNCATE)");
    int64_t size = number(t, "PRAGMA page_size");
    int64_t page = number(
        t,
        "SELECT pageno FROM dbstat WHERE name='claims' AND pagetype='leaf' ORDER BY path LIMIT 1 OFFSET 5");
    path_of(t, path);
    overwrite(path, (page - 1) * size, (size_t) size);
    ASSERT_OK(reopen(t, 500), &t->err);
    struct t_ids ids = { 0 };
    struct ledger_filter all = { 0 };
    assert_int_equal(ledger_list(t->ledger, &t->call, &all, t_note_claim, &ids, &t->err), DIBS_UNAVAILABLE);
    assert_int_equal(t->err.trouble, DIBS_TROUBLE_DAMAGED);
    ASSERT_OK(salvage(t, &salvaged), &t->err);
    assert_in_range(salvaged.n_saved, MANY - 40, MANY - 1);
    assert_int_equal(salvaged.n_saved + salvaged.n_lost, MANY);
    ASSERT_OK(reopen(t, 500), &t->err);
    assert_int_equal(ledger_salt(t->ledger), salt);
    ASSERT_OK(ledger_pool_get(t->ledger, &t->call, "gpu", &pool, &t->err), &t->err);
    assert_true(t_tail(t) > tail);
    for (size_t i = 0; i < MANY; i++) {
        found += ledger_find_token(t->ledger, &t->call, claims[i].token, &got, &t->err) ==
                 DIBS_OK;                                                      /* tokens stay valid */
        assert_int_equal(t_claim(t, &want, claims[i].port, &got), DIBS_TAKEN); /* INV-10 */
        ASSERT_OK(ledger_find_name(t->ledger, &t->call, claims[i].name, &got, NULL, &t->err), &t->err);
        assert_int_equal(got.port, claims[i].port); /* INV-7 */
        assert_string_equal(got.project, claims[i].project);
    }
    assert_int_equal(found, salvaged.n_saved);
    struct ledger_health health = { 0 };
    ASSERT_OK(ledger_health(t->ledger, &health, &t->err), &t->err);
    assert_true(health.is_sound);
    assert_int_equal(health.n_claims, MANY);
    dibs_claim fresh = t_must(t, &want, 40000);
    for (size_t i = 0; i < MANY; i++)
        assert_true(fresh.id > claims[i].id); /* no id twice */
    free(claims);
}

static void a_truncated_file_gives_back_what_is_left(void **state)
{
    struct t_ledger *t = *state;
    dibs_claim *claims = calloc(MANY, sizeof *claims);
    struct ledger_salvaged salvaged = { 0 };
    char path[300];

    assert_non_null(claims);
    claim_many(t, claims);
    close_ledger(t);
    (void) number(t, "PRAGMA wal_checkpoint(TRUNCATE)");
    path_of(t, path);
    struct stat st = { 0 };
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size / 2 / 4096 * 4096), 0);
    ASSERT_OK(salvage(t, &salvaged), &t->err);
    assert_in_range(salvaged.n_saved, 1, MANY - 1);
    assert_true(salvaged.may_lack_claims);
    assert_string_equal(salvaged.unread, "claims, names, events, slots");
    assert_int_equal(salvaged.n_pages, st.st_size / 4096);
    assert_int_equal(salvaged.n_pages_left, st.st_size / 2 / 4096);
    ASSERT_OK(reopen(t, 500), &t->err);
    assert_int_equal(t_list(t, (struct ledger_filter){ 0 }).n, salvaged.n_saved + salvaged.n_lost);
    /* The port of each claim of which anything is left stays blocked (INV-10). */
    assert_in_range(number(t, "SELECT count(*) FROM names"), salvaged.n_saved, MANY - 1);
    assert_int_equal(number(t, "SELECT count(*) FROM names WHERE claim=0"), 0);
    assert_int_equal(number(t, "SELECT count(*) FROM names WHERE port NOT IN (SELECT port FROM slots)"), 0);
    assert_in_range(number(t, "SELECT count(*) FROM events WHERE kind=1"), 1, MANY - 1);
    assert_int_equal(
        number(t, "SELECT count(*) FROM events WHERE kind=1 AND port NOT IN (SELECT port FROM slots)"), 0);
    assert_int_equal(ledger_salvage("sqlite:/nonexistent/dibs", &t->call, &salvaged, &t->err),
                     DIBS_UNAVAILABLE);
    free(claims);
}

static void no_id_is_used_twice_when_all_events_are_lost(void **state) /* INV-3 */
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    dibs_claim old[3] = { 0 };
    dibs_claim found = { 0 };

    for (size_t i = 0; i < 3; i++)
        old[i] = t_must(t, &want, (uint16_t) (26001 + i));
    vandalise(t, "DELETE FROM events");
    assert_true(t_must(t, &want, 26010).id > old[2].id);
    for (size_t i = 0; i < 3; i++) {
        ASSERT_OK(ledger_find_token(t->ledger, &t->call, old[i].token, &found, &t->err), &t->err);
        assert_int_equal(found.port, 26001 + i);
    }
}

static void records_only_in_the_wal_are_saved_too(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    char path[300];
    struct ledger_salvaged salvaged = { 0 };
    dibs_claim found = { 0 };

    (void) number(t, "PRAGMA wal_checkpoint(TRUNCATE)");
    dibs_claim got = t_must(t, &want, 26001);
    close_ledger(t);
    path_of(t, path);
    overwrite(path, 28672, 4096); /* an empty table's root: the claim is not near it */
    ASSERT_OK(salvage(t, &salvaged), &t->err);
    assert_int_equal(salvaged.n_saved, 1);
    ASSERT_OK(reopen(t, 500), &t->err);
    ASSERT_OK(ledger_find_token(t->ledger, &t->call, got.token, &found, &t->err), &t->err);
}

static void no_id_is_used_twice_when_the_newest_event_is_lost(void **state) /* INV-6 */
{
    struct t_ledger *t = *state;
    struct ledger_want oldest = t_want("shop/o", "*");
    struct ledger_want first = t_want("shop/a", "*");
    struct ledger_want second = t_want("shop/b", "*");
    dibs_claim found = { 0 };

    (void) t_must(t, &oldest, 26000);
    dibs_claim got = t_must(t, &first, 26001);
    vandalise(t, "DELETE FROM events WHERE seq=(SELECT max(seq) FROM events)");
    dibs_claim other = t_must(t, &second, 26002);
    assert_int_not_equal(other.id, got.id);
    ASSERT_OK(ledger_find_token(t->ledger, &t->call, got.token, &found, &t->err), &t->err);
    assert_int_equal(found.port, 26001);
}

/* The number of the first record of a leaf page of claims becomes that of the second: a flipped bit does it.
 */
static void number_twice(const char *path, int64_t root)
{
    uint8_t *bytes = NULL;
    size_t n = read_whole(path, &bytes);
    uint8_t *page = bytes + (root - 1) * 4096;
    uint8_t *number[2];

    assert_true((size_t) root * 4096 <= n);
    assert_int_equal(page[0], 13); /* a leaf */
    for (int i = 0; i < 2; i++) {
        uint8_t *cell = page + (page[8 + 2 * i] << 8 | page[9 + 2 * i]);

        while (*cell & 0x80) /* the record's length */
            cell++;
        number[i] = cell + 1;
        assert_true(*number[i] < 0x80);
    }
    *number[0] = *number[1];
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), n);
    (void) close(fd);
    free(bytes);
}

static void a_number_that_is_there_twice_costs_no_port(void **state) /* INV-10 */
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want("shop/a", "*");
    struct ledger_salvaged salvaged = { 0 };
    dibs_claim got = { 0 };
    char path[300];

    for (uint16_t port = 26001; port <= 26003; port++) {
        (void) snprintf(want.claim.name, sizeof want.claim.name, "shop/%u", port);
        (void) t_must(t, &want, port);
    }
    path_of(t, path);
    int64_t root = number(t, "SELECT rootpage FROM sqlite_master WHERE name='claims'");
    close_ledger(t);
    vandalise(t, "PRAGMA wal_checkpoint(TRUNCATE)");
    number_twice(path, root);
    ASSERT_OK(salvage(t, &salvaged), &t->err);
    ASSERT_OK(reopen(t, 500), &t->err);
    want.claim.name[0] = '\0';
    for (uint16_t port = 26001; port <= 26003; port++)
        assert_int_equal(t_claim(t, &want, port, &got), DIBS_TAKEN);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, t_open, t_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_damaged_record_harms_itself_alone),
        CASE(a_placeholder_of_nobody_is_the_ledgers_owners),
        CASE(lost_slots_are_written_again_and_lost_claims_keep_their_port),
        CASE(a_lost_claim_keeps_all_of_its_bindings_and_its_name),
        CASE(claims_that_conflict_are_both_saved),
        CASE(a_slot_cannot_go_or_change_while_its_claim_is_there),
        CASE(an_older_minor_is_brought_up_to_date),
        CASE(a_damaged_slot_blocks_its_port),
        CASE(no_id_is_used_twice_when_all_events_are_lost),
        CASE(garbage_is_damaged_and_set_aside_as_it_is),
        CASE(a_bad_page_costs_its_records_and_no_port),
        CASE(a_truncated_file_gives_back_what_is_left),
        CASE(records_only_in_the_wal_are_saved_too),
        CASE(no_id_is_used_twice_when_the_newest_event_is_lost),
        CASE(a_number_that_is_there_twice_costs_no_port),
    };

    t_scheme = "sqlite";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
