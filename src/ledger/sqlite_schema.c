/* SPDX-License-Identifier: MIT */
/* The tables of a SQLite ledger: how they are made, and whether they are there. */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/auto.h"
#include "base/err.h"
#include "ledger/sqlite.h"

#include "base/banned.h"

/* SQLite keeps each text as it stands here, and it is how a ledger is recognised: a text is never changed, a
 * change is a new version. */
static const char *const version_1000[] = {
    "CREATE TABLE claims(id INTEGER PRIMARY KEY, generation INTEGER NOT NULL CHECK(generation > 0),"
    " secret BLOB NOT NULL CHECK(length(secret) = 16), port INTEGER NOT NULL CHECK(port BETWEEN 1 AND "
    "65535),"
    " kind INTEGER NOT NULL CHECK(kind IN (0, 1)), exclusive INTEGER NOT NULL CHECK(exclusive IN (0, 1)),"
    " kept INTEGER NOT NULL CHECK(kept IN (0, 1)), holder INTEGER NOT NULL CHECK(holder BETWEEN 0 AND 2),"
    " boot_id TEXT NOT NULL, pidns INTEGER NOT NULL, pid INTEGER NOT NULL, start_ticks INTEGER NOT NULL,"
    " ttl_ms INTEGER NOT NULL, until_ms INTEGER NOT NULL, uid INTEGER NOT NULL, netns INTEGER NOT NULL,"
    " created_ms INTEGER NOT NULL, changed_ms INTEGER NOT NULL, bindings BLOB NOT NULL,"
    " principal TEXT NOT NULL, name TEXT NOT NULL, pool TEXT NOT NULL, command TEXT NOT NULL,"
    " project TEXT NOT NULL, CHECK(kept = 1 OR holder > 0)) STRICT",
    /* claim 0: nobody's, it cools since released_ms. */
    "CREATE TABLE slots(proto INTEGER NOT NULL CHECK(proto BETWEEN 1 AND 3),"
    " port INTEGER NOT NULL CHECK(port BETWEEN 1 AND 65535),"
    " address BLOB NOT NULL CHECK(length(address) IN (4, 16)), claim INTEGER NOT NULL,"
    " exclusive INTEGER NOT NULL, released_ms INTEGER NOT NULL,"
    " PRIMARY KEY(proto, port, address, claim)) STRICT, WITHOUT ROWID",
    /* claim 0: remembered only. */
    "CREATE TABLE names(principal TEXT NOT NULL, name TEXT NOT NULL, claim INTEGER NOT NULL,"
    " port INTEGER NOT NULL, used_ms INTEGER NOT NULL, PRIMARY KEY(principal, name)) STRICT, WITHOUT ROWID",
    "CREATE TABLE events(seq INTEGER PRIMARY KEY, cursor INTEGER NOT NULL, time_ms INTEGER NOT NULL,"
    " kind INTEGER NOT NULL, claim INTEGER NOT NULL, generation INTEGER NOT NULL, port INTEGER NOT NULL,"
    " protos INTEGER NOT NULL, dynamic INTEGER NOT NULL, actor_uid INTEGER NOT NULL,"
    " actor_pid INTEGER NOT NULL, principal TEXT NOT NULL, name TEXT NOT NULL) STRICT",
    "CREATE TABLE pools(name TEXT PRIMARY KEY, ranges TEXT NOT NULL, scope INTEGER NOT NULL,"
    " band INTEGER NOT NULL, cooldown_ms INTEGER NOT NULL, ordering TEXT NOT NULL) STRICT, WITHOUT ROWID",
    "CREATE TABLE sightings(claim INTEGER PRIMARY KEY, generation INTEGER NOT NULL,"
    " count INTEGER NOT NULL) STRICT",
    "CREATE TABLE quarantine(id INTEGER PRIMARY KEY, found_ms INTEGER NOT NULL, source TEXT NOT NULL,"
    " key TEXT NOT NULL, reason TEXT NOT NULL, record TEXT NOT NULL) STRICT",
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID",
    NULL,
};

/* Whose a remembered name was nobody knows: it is no directory's, and in no directory's way. */
static const char *const version_1001[] = {
    "ALTER TABLE names ADD COLUMN project TEXT NOT NULL DEFAULT ''",
    "UPDATE names SET project = coalesce((SELECT project FROM claims WHERE id = names.claim),"
    " '" SQLITE_UNKNOWN_PROJECT "')",
    NULL,
};

/* Conflicts are looked up in slots alone: one that goes while its claim is there lets the port be given twice
 * (INV-1). What is not valid may go; the claim writes it anew. An index of claims by port would notice any
 * loss, but cost a claim and its release 8 us where this costs 2. */
#define WHILE_CLAIMED                                                                            \
    " ON slots WHEN old.claim<>0 AND old.proto BETWEEN 1 AND 3 AND old.port BETWEEN 1 AND 65535" \
    " AND length(old.address) IN (4, 16) AND old.exclusive IN (0, 1)"                            \
    " AND EXISTS (SELECT 1 FROM claims WHERE id=old.claim)"                                      \
    " BEGIN SELECT RAISE(ABORT, 'a claim has this port'); END"
static const char *const version_1002[] = {
    "CREATE TRIGGER slots_stay BEFORE DELETE" WHILE_CLAIMED,
    "CREATE TRIGGER slots_stay_as_they_are BEFORE UPDATE" WHILE_CLAIMED,
    NULL,
};

/* What callers that gave a key were answered; see keyed.c. */
static const char *const version_1003[] = {
    "CREATE TABLE answers(principal TEXT NOT NULL, key TEXT NOT NULL, part INTEGER NOT NULL,"
    " n INTEGER NOT NULL, seq INTEGER NOT NULL, digest INTEGER NOT NULL, claim INTEGER NOT NULL,"
    " generation INTEGER NOT NULL, PRIMARY KEY(principal, key, part)) STRICT, WITHOUT ROWID",
    "CREATE INDEX answers_by_age ON answers(seq)",
    NULL,
};

/* In order; each runs in one transaction with the change of user_version. */
static const struct migration {
    int version;
    const char *const *sql;
} migrations[] = {
    { 1000, version_1000 },
    { 1001, version_1001 },
    { 1002, version_1002 },
    { SQLITE_LEDGER_VERSION, version_1003 },
};
#define N_MIGRATIONS (sizeof migrations / sizeof migrations[0])

/* ---- making ---- */

static dibs_status exec(struct sqlite_rows *self, const char *sql, const char *doing, dibs_err *err)
{
    int rc = sqlite3_exec(self->db, sql, NULL, NULL, NULL);

    return rc == SQLITE_OK ? DIBS_OK : sqlite_error(self, rc, doing, err);
}

static dibs_status make_salt(struct sqlite_rows *self, dibs_err *err)
{
    char text[96];
    int64_t salt = 0;

    if (getrandom(&salt, sizeof salt, 0) != (ssize_t) sizeof salt)
        return err_set(err, DIBS_FAILURE, "cannot get random bytes for the ledger");
    (void) snprintf(text, sizeof text, "INSERT INTO meta(key, value) VALUES('salt', %lld)", (long long) salt);
    return exec(self, text, "making its salt", err);
}

dibs_status sqlite_migrate(struct sqlite_rows *self, int64_t version, dibs_err *err)
{
    char text[160];
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < N_MIGRATIONS && s == DIBS_OK; i++) {
        if (migrations[i].version <= version)
            continue;
        for (size_t k = 0; migrations[i].sql[k] && s == DIBS_OK; k++)
            s = exec(self, migrations[i].sql[k], "making its tables", err);
        (void) snprintf(text, sizeof text, "PRAGMA user_version=%d; PRAGMA application_id=%d",
                        migrations[i].version, SQLITE_APPLICATION_ID);
        if (s == DIBS_OK)
            s = exec(self, text, "marking its version", err);
    }
    return s == DIBS_OK && version == 0 ? make_salt(self, err) : s;
}

/* ---- recognising ---- */

/* What a ledger of `version` has of a step above: the text of what is made, as later steps have changed it;
 * NULL for what leaves none. */
static const char *form_at(const char *sql, int64_t version)
{
    static const char names[] = "CREATE TABLE names(";

    if (strncmp(sql, "CREATE ", 7) != 0)
        return NULL;
    if (version >= 1001 && strncmp(sql, names, sizeof names - 1) == 0)
        return "CREATE TABLE names(principal TEXT NOT NULL, name TEXT NOT NULL, claim INTEGER NOT NULL,"
               " port INTEGER NOT NULL, used_ms INTEGER NOT NULL, project TEXT NOT NULL DEFAULT '',"
               " PRIMARY KEY(principal, name)) STRICT, WITHOUT ROWID";
    return sql;
}

/* How many of the texts of `version` are there, and is `text` one of them? */
static size_t count_wanted(int64_t version, const char *text, bool *is_known)
{
    size_t n = 0;

    for (size_t i = 0; i < N_MIGRATIONS && migrations[i].version <= version; i++)
        for (size_t k = 0; migrations[i].sql[k]; k++) {
            const char *form = form_at(migrations[i].sql[k], version);

            n += form != NULL;
            *is_known = *is_known || (form && strcmp(text, form) == 0);
        }
    return n;
}

static int count_known(sqlite3 *db, int64_t version, size_t *n_known, size_t *n_wanted)
{
    AUTO(sqlite_finalize_auto) sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL", -1, &stmt, NULL);
    bool is_known = false;

    *n_known = 0;
    *n_wanted = count_wanted(version, "", &is_known);
    while (rc == SQLITE_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        const char *text = (const char *) sqlite3_column_text(stmt, 0);

        is_known = false;
        (void) count_wanted(version, text ? text : "", &is_known);
        *n_known += is_known;
        rc = SQLITE_OK;
    }
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

bool sqlite_is_ours(sqlite3 *db)
{
    size_t n_known = 0;
    size_t n_wanted = 0;

    return count_known(db, SQLITE_LEDGER_VERSION, &n_known, &n_wanted) == SQLITE_OK && n_known > 0;
}

/* A newer minor, or somebody's own column, is no damage: what we do with it must be possible. */
static int look_closely(sqlite3 *db, char what[SQLITE_WHAT_BYTES])
{
    AUTO(sqlite_finalize_auto) sqlite3_stmt *keys = NULL;
    int rc = SQLITE_OK;

    for (size_t i = 0; i < SQL_COUNT && rc == SQLITE_OK; i++) {
        AUTO(sqlite_finalize_auto) sqlite3_stmt *stmt = NULL;

        rc = sqlite3_prepare_v2(db, sqlite_sql_text[i], -1, &stmt, NULL);
    }
    if (rc == SQLITE_OK)
        rc = sqlite3_prepare_v2(
            db,
            "SELECT t FROM (SELECT 'claims' AS t, 'id' AS k UNION VALUES('slots', "
            "'proto,port,address,claim'),"
            " ('names', 'principal,name'), ('events', 'seq'), ('pools', 'name'), ('sightings', 'claim'),"
            " ('meta', 'key')) WHERE k IS NOT (SELECT group_concat(name) FROM"
            " (SELECT name FROM pragma_table_info(t) WHERE pk ORDER BY pk))",
            -1, &keys, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(keys);
    if (rc == SQLITE_ROW) {
        (void) snprintf(what, SQLITE_WHAT_BYTES, "the key of table %s is not what it was",
                        (const char *) sqlite3_column_text(keys, 0));
        return SQLITE_CORRUPT;
    }
    if (rc == SQLITE_ERROR) { /* no such table, no such column */
        (void) snprintf(what, SQLITE_WHAT_BYTES, "%s", sqlite3_errmsg(db));
        return SQLITE_CORRUPT;
    }
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int sqlite_check_tables(sqlite3 *db, int64_t version, char what[SQLITE_WHAT_BYTES])
{
    size_t n_known = 0;
    size_t n_wanted = 0;
    int rc = count_known(db, version, &n_known, &n_wanted);

    what[0] = '\0';
    return rc == SQLITE_OK && n_known < n_wanted ? look_closely(db, what) : rc;
}

/* ---- triggers ---- */

bool sqlite_has_guards(sqlite3 *db)
{
    AUTO(sqlite_finalize_auto) sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db,
                                "SELECT user_version<>?1 OR (SELECT count(*) FROM sqlite_schema"
                                " WHERE sql IN (?2, ?3)) = 2 FROM pragma_user_version",
                                -1, &stmt, NULL);

    if (rc != SQLITE_OK)
        return true;                                         /* there are worse things to tell */
    (void) sqlite3_bind_int(stmt, 1, SQLITE_LEDGER_VERSION); /* another has others */
    sqlite_bind_string(stmt, 2, version_1002[0]);
    sqlite_bind_string(stmt, 3, version_1002[1]);
    return sqlite3_step(stmt) != SQLITE_ROW || sqlite3_column_int(stmt, 0) != 0;
}

dibs_status sqlite_restore_guards(struct sqlite_rows *self, dibs_err *err)
{
    dibs_status s = exec(self,
                         "DROP TRIGGER IF EXISTS slots_stay;"
                         " DROP TRIGGER IF EXISTS slots_stay_as_they_are",
                         "restoring its triggers", err);

    for (size_t i = 0; version_1002[i] && s == DIBS_OK; i++)
        s = exec(self, version_1002[i], "restoring its triggers", err);
    return s;
}
