/* SPDX-License-Identifier: MIT */
/* Create, migrate and recognise the tables of a SQLite ledger. */
#include <stdio.h>
#include <sys/random.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/hash.h"
#include "store/sqlite/sqlite_store.h"

#include "base/banned.h"

/* Keep slots while their claim exists. Conflicts are looked up in slots alone: a lost slot would let the port
 * be given twice (INV-1). An invalid slot may go. An index of claims by port would notice any loss, but cost
 * a claim and its release 8 us where this costs 2. */
#define WHILE_CLAIMED                                                           \
    " ON slots WHEN old.proto BETWEEN 1 AND 3 AND old.port BETWEEN 1 AND 65535" \
    " AND length(old.address) IN (4, 16) AND old.exclusive IN (0, 1)"           \
    " AND old.claim IN (SELECT id FROM claims) BEGIN SELECT RAISE(ABORT, 'it is claimed'); END"
#define TRIGGERS                                                \
    "CREATE TRIGGER slots_stay BEFORE DELETE" WHILE_CLAIMED ";" \
    "CREATE TRIGGER slots_stay_as_they_are BEFORE UPDATE" WHILE_CLAIMED ";"

/* SQLite stores each text as it stands here; see SCHEMA_DIGEST. Tables and columns are only added, because an
 * older dibs with the same major continues with its own statements. 1.3 is the oldest version of a ledger. */
static const char version_1003[] =
    "CREATE TABLE claims(id INTEGER PRIMARY KEY, generation INTEGER NOT NULL CHECK(generation > 0),"
    " secret BLOB NOT NULL CHECK(length(secret) = 16), port INTEGER NOT NULL CHECK(port BETWEEN 1 AND "
    "65535),"
    " kind INTEGER NOT NULL CHECK(kind IN (0, 1)), exclusive INTEGER NOT NULL CHECK(exclusive IN (0, 1)),"
    " kept INTEGER NOT NULL CHECK(kept IN (0, 1)), holder INTEGER NOT NULL CHECK(holder BETWEEN 0 AND 2),"
    " boot_id TEXT NOT NULL, pidns INTEGER NOT NULL, pid INTEGER NOT NULL, start_ticks INTEGER NOT NULL,"
    " ttl_ms INTEGER NOT NULL, until_ms INTEGER NOT NULL, uid INTEGER NOT NULL, netns INTEGER NOT NULL,"
    " created_ms INTEGER NOT NULL, changed_ms INTEGER NOT NULL, bindings BLOB NOT NULL,"
    " principal TEXT NOT NULL, name TEXT NOT NULL, pool TEXT NOT NULL, command TEXT NOT NULL,"
    " project TEXT NOT NULL, CHECK(kept = 1 OR holder > 0)) STRICT;"
    /* claim 0: free, cooling since released_ms. */
    "CREATE TABLE slots(proto INTEGER NOT NULL CHECK(proto BETWEEN 1 AND 3),"
    " port INTEGER NOT NULL CHECK(port BETWEEN 1 AND 65535),"
    " address BLOB NOT NULL CHECK(length(address) IN (4, 16)), claim INTEGER NOT NULL,"
    " exclusive INTEGER NOT NULL, released_ms INTEGER NOT NULL,"
    " PRIMARY KEY(proto, port, address, claim)) STRICT, WITHOUT ROWID;"
    /* claim 0: only remembered. */
    "CREATE TABLE names(principal TEXT NOT NULL, name TEXT NOT NULL, claim INTEGER NOT NULL,"
    " port INTEGER NOT NULL, used_ms INTEGER NOT NULL, project TEXT NOT NULL DEFAULT '',"
    " PRIMARY KEY(principal, name)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE events(seq INTEGER PRIMARY KEY, cursor INTEGER NOT NULL, time_ms INTEGER NOT NULL,"
    " kind INTEGER NOT NULL, claim INTEGER NOT NULL, generation INTEGER NOT NULL, port INTEGER NOT NULL,"
    " protos INTEGER NOT NULL, dynamic INTEGER NOT NULL, actor_uid INTEGER NOT NULL,"
    " actor_pid INTEGER NOT NULL, principal TEXT NOT NULL, name TEXT NOT NULL) STRICT;"
    "CREATE TABLE pools(name TEXT PRIMARY KEY, ranges TEXT NOT NULL, scope INTEGER NOT NULL,"
    " band INTEGER NOT NULL, cooldown_ms INTEGER NOT NULL, ordering TEXT NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TABLE sightings(claim INTEGER PRIMARY KEY, generation INTEGER NOT NULL,"
    " count INTEGER NOT NULL) STRICT;"
    /* Unused since 0.2. */
    "CREATE TABLE quarantine(id INTEGER PRIMARY KEY, found_ms INTEGER NOT NULL, source TEXT NOT NULL,"
    " key TEXT NOT NULL, reason TEXT NOT NULL, record TEXT NOT NULL) STRICT;"
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;" TRIGGERS
    /* The answers to batches with a key. */
    "CREATE TABLE answers(principal TEXT NOT NULL, key TEXT NOT NULL, part INTEGER NOT NULL,"
    " n INTEGER NOT NULL, seq INTEGER NOT NULL, digest INTEGER NOT NULL, claim INTEGER NOT NULL,"
    " generation INTEGER NOT NULL, PRIMARY KEY(principal, key, part)) STRICT, WITHOUT ROWID;"
    "CREATE INDEX answers_by_age ON answers(seq)";

/* dibs_claim.env. */
static const char version_1004[] = "ALTER TABLE claims ADD COLUMN env TEXT NOT NULL DEFAULT ''";

/* dibs_claim.keeper and dibs_claim.run, dibs_pool.is_rebuilt. */
static const char version_1005[] = "ALTER TABLE claims ADD COLUMN keeper TEXT NOT NULL DEFAULT '';"
                                   "ALTER TABLE claims ADD COLUMN run INTEGER NOT NULL DEFAULT 0;"
                                   "ALTER TABLE pools ADD COLUMN rebuilt INTEGER NOT NULL DEFAULT 0";

/* sighting_record.since_ms, and facts about a Kubernetes cluster. */
static const char version_1006[] =
    "ALTER TABLE sightings ADD COLUMN since_ms INTEGER NOT NULL DEFAULT 0;"
    "CREATE TABLE facts(subject TEXT PRIMARY KEY, cluster TEXT NOT NULL, installation TEXT NOT NULL,"
    " quota INTEGER NOT NULL CHECK(quota BETWEEN 0 AND 65535)) STRICT, WITHOUT ROWID";

/* dibs_claim.hold. Shorter triggers make room: all texts must fit into the first page, so that a file of
 * which only the beginning is left can be salvaged. */
static const char version_1007[] =
    "DROP TRIGGER IF EXISTS slots_stay; DROP TRIGGER IF EXISTS slots_stay_as_they_are;" TRIGGERS
    "ALTER TABLE claims ADD COLUMN hold INTEGER NOT NULL DEFAULT 0";

/* dibs_claim.as_port. */
static const char version_1008[] = "ALTER TABLE claims ADD COLUMN as_port INTEGER NOT NULL DEFAULT 0";

/* In order; each runs in one transaction together with the change of user_version. */
static const struct migration {
    int version;
    const char *sql;
} migrations[] = {
    { SQLITE_OLDEST_VERSION, version_1003 },
    { 1004, version_1004 },
    { 1005, version_1005 },
    { 1006, version_1006 },
    { 1007, version_1007 },
    { SQLITE_LEDGER_VERSION, version_1008 },
};

/* Sum of the hashes of all texts that the migrations leave in sqlite_schema. The cases of
 * tests/unit/test_sqlite_upgrade.c compare it with a new and a migrated ledger. */
#define SCHEMA_DIGEST 0xa43e017dc53cb661u

static dibs_status make_salt(struct sqlite_store *self, dibs_err *err)
{
    char text[96];
    int64_t salt = 0;

    if (getrandom(&salt, sizeof salt, 0) != (ssize_t) sizeof salt)
        return err_set(err, DIBS_FAILURE, "cannot get random bytes for the ledger");
    (void) snprintf(text, sizeof text, "INSERT INTO meta(key, value) VALUES('salt', %lld)", (long long) salt);
    return sqlite_exec(self, text, "making its salt", err);
}

dibs_status sqlite_migrate(struct sqlite_store *self, int64_t version, dibs_err *err)
{
    char text[160];
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < sizeof migrations / sizeof migrations[0] && s == DIBS_OK; i++) {
        if (migrations[i].version <= version)
            continue;
        s = sqlite_exec(self, migrations[i].sql, "making its tables", err);
        (void) snprintf(text, sizeof text, "PRAGMA user_version=%d; PRAGMA application_id=%d",
                        migrations[i].version, SQLITE_APPLICATION_ID);
        if (s == DIBS_OK)
            s = sqlite_exec(self, text, "marking its version", err);
    }
    return s == DIBS_OK && version == 0 ? make_salt(self, err) : s;
}

bool sqlite_is_ours(sqlite3 *db)
{
    int64_t n = 0;

    return sqlite_get_number(db,
                             "SELECT count(*) FROM sqlite_schema WHERE name IN ('claims', 'slots',"
                             " 'sightings', 'quarantine', 'answers')",
                             &n) == SQLITE_ROW &&
           n >= 3;
}

bool sqlite_is_as_made(sqlite3 *db)
{
    AUTO(sqlite_finalize_auto) sqlite3_stmt *stmt = NULL;
    uint64_t digest = 0;
    int rc = sqlite3_prepare_v2(db, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL", -1, &stmt, NULL);

    while (rc == SQLITE_OK && sqlite3_step(stmt) == SQLITE_ROW) {
        const void *text = sqlite3_column_text(stmt, 0);

        digest += hash_fnv1a(HASH_FNV_BASIS, text, (size_t) sqlite3_column_bytes(stmt, 0));
    }
    return digest == SCHEMA_DIGEST;
}

dibs_status sqlite_check_tables(struct sqlite_store *self, dibs_err *err)
{
    AUTO(sqlite_finalize_auto) sqlite3_stmt *keys = NULL;
    char what[160];
    dibs_status s = DIBS_OK;

    if (self->version < SQLITE_LEDGER_VERSION || sqlite_is_as_made(self->db))
        return DIBS_OK;
    for (enum sqlite_sql i = 0; i < SQL_COUNT && s == DIBS_OK; i++)
        s = sqlite_stmt(self, i, err) ? DIBS_OK : DIBS_UNAVAILABLE;
    if (s != DIBS_OK)
        return s;
    int rc = sqlite3_prepare_v2(
        self->db,
        "SELECT t FROM (SELECT 'claims' AS t, 'id' AS k UNION VALUES('slots', 'proto,port,address,claim'),"
        " ('names', 'principal,name'), ('events', 'seq'), ('pools', 'name'), ('sightings', 'claim'),"
        " ('meta', 'key')) WHERE k IS NOT (SELECT group_concat(name) FROM"
        " (SELECT name FROM pragma_table_info(t) WHERE pk ORDER BY pk))",
        -1, &keys, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(keys);
    if (rc != SQLITE_ROW)
        return rc == SQLITE_DONE ? DIBS_OK : sqlite_error(self, rc, "reading its tables", err);
    (void) snprintf(what, sizeof what, "the key of table %s is not what it was",
                    (const char *) sqlite3_column_text(keys, 0));
    return sqlite_damaged(self, what, err);
}
