/* SPDX-License-Identifier: MIT */
/* Is a SQLite ledger sound, and how much is in it? */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/text.h"
#include "ledger/sqlite.h"

#include "base/banned.h"

static uint64_t file_bytes(const char *path, const char *suffix)
{
    char name[1024 + 8];
    struct stat st = { 0 };

    (void) snprintf(name, sizeof name, "%s%s", path, suffix);
    return stat(name, &st) == 0 ? (uint64_t) st.st_size : 0;
}

/* One value; what cannot be read makes the ledger unsound and is told, instead of ending the report. */
static void ask(struct sqlite_rows *self, const char *sql, struct ledger_health *out, uint64_t *number,
                char *text)
{
    AUTO(sqlite_finalize_auto) sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(self->db, sql, -1, &stmt, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW && number)
        *number = (uint64_t) sqlite3_column_int64(stmt, 0);
    if (rc == SQLITE_ROW && text)
        (void) text_copy(text, sizeof out->detail, (const char *) sqlite3_column_text(stmt, 0));
    if (rc != SQLITE_ROW && out->is_sound) {
        out->is_sound = false;
        (void) text_copy(out->detail, sizeof out->detail, sqlite3_errmsg(self->db));
    }
}

/* A writer that was stopped is seen by nobody who only reads. Those who are at work are waited for. */
static dibs_status try_to_write(struct sqlite_rows *self, dibs_err *err)
{
    enum { WAIT_MS = 2000 };
    int64_t deadline_ms = clock_monotonic_ms() + WAIT_MS;

    if (deadline_ms < self->deadline_ms)
        self->deadline_ms = deadline_ms;
    int rc = sqlite3_exec(self->db, "BEGIN IMMEDIATE; ROLLBACK", NULL, NULL, NULL);
    return rc == SQLITE_BUSY ? sqlite_error(self, rc, "waiting to write to it", err) : DIBS_OK;
}

dibs_status sqlite_health_rows(struct rows *rows, struct ledger_health *out, dibs_err *err)
{
    struct sqlite_rows *self = (struct sqlite_rows *) rows;
    struct ledger_health health = { .is_sound = true };
    uint64_t version = 0;
    dibs_status s = DIBS_OK;
    char said[sizeof health.detail] = "";

    sqlite_start_deadline(self);
    (void) text_copy(health.path, sizeof health.path, self->path);
    health.is_read_only = self->access != SQLITE_WRITES;
    health.bytes = file_bytes(self->path, "");
    health.wal_bytes = file_bytes(self->path, "-wal");
    ask(self, "PRAGMA quick_check(1)", &health, NULL, said);
    if (health.is_sound) {
        health.is_sound = strcmp(said, "ok") == 0;
        (void) text_copy(health.detail, sizeof health.detail, said);
    }
    if (health.is_sound && !sqlite_has_guards(self->db)) {
        health.is_sound = false;
        (void) text_copy(health.detail, sizeof health.detail,
                         "the triggers that keep ports from being given twice are gone");
    }
    int rc = sqlite3_errcode(self->db) & 0xff;
    if (rc == SQLITE_BUSY || rc == SQLITE_LOCKED)
        return sqlite_error(self, rc, "checking it", err);
    ask(self, "PRAGMA user_version", &health, &version, NULL);
    ask(self, "SELECT count(*) FROM claims", &health, &health.n_claims, NULL);
    ask(self, "SELECT count(*) FROM events", &health, &health.n_events, NULL);
    ask(self, "SELECT count(*) FROM names", &health, &health.n_names, NULL);
    ask(self, "SELECT count(*) FROM quarantine", &health, &health.n_quarantined, NULL);
    health.major = (int) (version / 1000);
    health.minor = (int) (version % 1000);
    if (self->access == SQLITE_WRITES && health.is_sound)
        s = try_to_write(self, err);
    if (s == DIBS_OK)
        *out = health;
    return s;
}
