/* SPDX-License-Identifier: MIT */
/* The rows of a SQLite ledger. Values are bound, never spliced; what comes back is checked column by column,
 * because one damaged record must harm that record alone (INV-6). */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "ledger/sqlite.h"

#include "base/banned.h"

#define CLAIM_COLUMNS                                                                                 \
    "id, generation, secret, port, kind, exclusive, kept, holder, boot_id, pidns, pid, start_ticks, " \
    "ttl_ms, until_ms,"                                                                               \
    " uid, netns, created_ms, changed_ms, bindings, principal, name, pool, command, project"
/* 2^62: no ledger counts that far; a damaged record must not make every following number invalid (INV-6). */
#define EVENT_SEQ_END "4611686018427387904"
#define EVENT_COLUMNS                                                                              \
    "seq, cursor, time_ms, kind, claim, generation, port, protos, dynamic, actor_uid, actor_pid, " \
    "principal, name"

const char *const sqlite_sql_text[SQL_COUNT] = {
    [SQL_BEGIN_READ] = "BEGIN",
    [SQL_BEGIN_WRITE] = "BEGIN IMMEDIATE",
    [SQL_COMMIT] = "COMMIT",
    [SQL_ROLLBACK] = "ROLLBACK",
    [SQL_SAVE] = "SAVEPOINT one",
    [SQL_UNDO] = "ROLLBACK TO one",
    [SQL_FORGET] = "RELEASE one",
    [SQL_SNAPSHOT] = "PRAGMA user_version",
    [SQL_CLAIM_GET] = "SELECT " CLAIM_COLUMNS " FROM claims WHERE id=?1",
    [SQL_CLAIM_PUT] =
        "INSERT OR REPLACE INTO claims(" CLAIM_COLUMNS ") VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10,"
        " ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24)",
    [SQL_CLAIM_DELETE] = "DELETE FROM claims WHERE id=?1",
    [SQL_CLAIMS] = "SELECT " CLAIM_COLUMNS " FROM claims WHERE id>?1 ORDER BY id",
    [SQL_CLAIMS_OF_PRINCIPAL] =
        "SELECT " CLAIM_COLUMNS " FROM claims WHERE id>?1 AND principal=?2 ORDER BY id",
    [SQL_CLAIMS_OF_POOL] = "SELECT " CLAIM_COLUMNS " FROM claims WHERE id>?1 AND pool=?2 ORDER BY id",
    /* Names are the smaller table, and tell whose they are. */
    [SQL_CLAIMS_OF_PROJECT] = "SELECT " CLAIM_COLUMNS " FROM claims WHERE id>?1 AND id IN"
                              " (SELECT claim FROM names WHERE principal=?2 AND project=?3) ORDER BY id",
    [SQL_SLOTS_AT] =
        "SELECT proto, port, address, claim, exclusive, released_ms FROM slots WHERE proto=?1 AND port=?2",
    [SQL_SLOTS_ALL] = "SELECT proto, port, address, claim, exclusive, released_ms FROM slots",
    [SQL_SLOT_PUT] = "INSERT OR REPLACE INTO slots(proto, port, address, claim, exclusive, released_ms)"
                     " VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
    [SQL_SLOT_DELETE] = "DELETE FROM slots WHERE proto=?1 AND port=?2 AND address=?3 AND claim=?4",
    [SQL_NAME_GET] = "SELECT claim, port, used_ms, project FROM names WHERE principal=?1 AND name=?2",
    [SQL_NAME_PUT] = "INSERT OR REPLACE INTO names(principal, name, claim, port, used_ms, project)"
                     " VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
    [SQL_NAME_FIRST] = "SELECT name FROM names WHERE principal=?1 AND name>=?2 AND name<?3"
                       " AND (project=?4 OR (?4 IS NULL AND project<>'" SQLITE_UNKNOWN_PROJECT "'))"
                       " ORDER BY name LIMIT 1",
    /* A claim may be newer than the newest event that is left: its id must not be used twice. */
    [SQL_TAIL] = "SELECT max(seq, coalesce((SELECT id FROM claims WHERE id<" EVENT_SEQ_END
                 " ORDER BY id DESC LIMIT 1), 0)), cursor"
                 " FROM events WHERE seq<" EVENT_SEQ_END " ORDER BY seq DESC LIMIT 1",
    [SQL_TAIL_CLAIMS] = "SELECT max(id) FROM claims",
    [SQL_EVENT_PUT] = "INSERT INTO events(" EVENT_COLUMNS
                      ") VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    [SQL_EVENTS] =
        "SELECT " EVENT_COLUMNS " FROM events WHERE seq>?1 AND seq<" EVENT_SEQ_END " ORDER BY seq LIMIT ?2",
    [SQL_EVENTS_NEWEST] =
        "SELECT * FROM (SELECT " EVENT_COLUMNS " FROM events WHERE seq>?1 AND seq<" EVENT_SEQ_END
        " ORDER BY seq DESC LIMIT ?2) ORDER BY seq",
    [SQL_EVENTS_OLDEST] = "SELECT min(seq) FROM events",
    [SQL_POOL_GET] = "SELECT name, ranges, scope, band, cooldown_ms, ordering FROM pools WHERE name=?1",
    [SQL_POOL_PUT] = "INSERT OR REPLACE INTO pools(name, ranges, scope, band, cooldown_ms, ordering)"
                     " VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
    [SQL_POOL_DELETE] = "DELETE FROM pools WHERE name=?1",
    [SQL_POOLS] = "SELECT name, ranges, scope, band, cooldown_ms, ordering FROM pools ORDER BY name",
    [SQL_SIGHTING_GET] = "SELECT count FROM sightings WHERE claim=?1 AND generation=?2",
    [SQL_SIGHTING_PUT] = "INSERT OR REPLACE INTO sightings(claim, generation, count) VALUES(?1, ?2, ?3)",
    [SQL_SIGHTING_DELETE] = "DELETE FROM sightings WHERE claim=?1",
    [SQL_ANSWER_GET] = "SELECT n, seq, digest, claim, generation FROM answers"
                       " WHERE principal=?1 AND key=?2 AND part=?3",
    [SQL_ANSWER_PUT] =
        "INSERT OR REPLACE INTO answers(principal, key, part, n, seq, digest, claim, generation)"
        " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    [SQL_TRIM_ANSWERS] = "DELETE FROM answers WHERE seq<=?1",
    [SQL_TRIM_EVENTS] = "DELETE FROM events WHERE seq<=?1 OR seq>=" EVENT_SEQ_END,
    [SQL_TRIM_NAMES] = "DELETE FROM names WHERE claim=0 AND used_ms <"
                       " (SELECT used_ms FROM names WHERE claim=0 ORDER BY used_ms DESC LIMIT 1 OFFSET ?1)",
    [SQL_TRIM_SLOTS] = "DELETE FROM slots WHERE claim=0 AND (released_ms<?1 OR released_ms>?2)",
    [SQL_TRIM_SIGHTINGS] = "DELETE FROM sightings WHERE claim NOT IN (SELECT id FROM claims)",
    [SQL_QUARANTINE_PUT] =
        "INSERT INTO quarantine(found_ms, source, key, reason, record) VALUES(?1, ?2, ?3, ?4, ?5)",
    [SQL_SLOTS_OF_CLAIM] =
        "SELECT proto, port, address, claim, exclusive, released_ms FROM slots WHERE claim=?1",
    [SQL_SLOTS_DAMAGED] = "DELETE FROM slots WHERE proto NOT BETWEEN 1 AND 3 OR port NOT BETWEEN 1 AND 65535"
                          " OR length(address) NOT IN (4, 16) OR exclusive NOT IN (0, 1) OR claim<0",
};

static struct sqlite_rows *of(struct rows *rows)
{
    return (struct sqlite_rows *) rows;
}

sqlite3_stmt *sqlite_stmt(struct sqlite_rows *self, enum sqlite_sql which, dibs_err *err)
{
    if (!self->stmt[which]) {
        int rc = sqlite3_prepare_v3(self->db, sqlite_sql_text[which], -1, SQLITE_PREPARE_PERSISTENT,
                                    &self->stmt[which], NULL);

        if (rc != SQLITE_OK) {
            (void) sqlite_error(self, rc, "reading its tables", err);
            return NULL;
        }
    }
    return self->stmt[which];
}

dibs_status sqlite_run(struct sqlite_rows *self, sqlite3_stmt *stmt, const char *doing, dibs_err *err)
{
    int rc = sqlite3_step(stmt);
    dibs_status s = rc == SQLITE_DONE || rc == SQLITE_ROW ? DIBS_OK : sqlite_error(self, rc, doing, err);

    (void) sqlite3_reset(stmt);
    return s;
}

void sqlite_bind_string(sqlite3_stmt *stmt, int at, const char *text)
{
    (void) sqlite3_bind_text(stmt, at, text, -1, SQLITE_STATIC);
}

void sqlite_bind_number(sqlite3_stmt *stmt, int at, int64_t value)
{
    (void) sqlite3_bind_int64(stmt, at, value);
}

int64_t sqlite_read_number(struct sqlite_reader *r, int at, int64_t low, int64_t high)
{
    int64_t value = sqlite3_column_int64(r->stmt, at);

    if (sqlite3_column_type(r->stmt, at) != SQLITE_INTEGER || value < low || value > high) {
        r->is_ok = false;
        return low;
    }
    return value;
}

void sqlite_read_string(struct sqlite_reader *r, int at, char *out, size_t max)
{
    const unsigned char *text = sqlite3_column_text(r->stmt, at);
    size_t n = (size_t) sqlite3_column_bytes(r->stmt, at);

    out[0] = '\0';
    if (sqlite3_column_type(r->stmt, at) != SQLITE_TEXT || !text || n > max || memchr(text, 0, n)) {
        r->is_ok = false;
        return;
    }
    memcpy(out, text, n);
    out[n] = '\0';
}

void sqlite_read_bytes(struct sqlite_reader *r, int at, const void **out, size_t *n)
{
    *out = sqlite3_column_blob(r->stmt, at);
    *n = (size_t) sqlite3_column_bytes(r->stmt, at);
    if (sqlite3_column_type(r->stmt, at) != SQLITE_BLOB || !*out) {
        r->is_ok = false;
        *n = 0;
    }
}

/* ---- transactions ---- */

/* From the first one on that must be synced every commit would be, and those that need not are spared it. */
static dibs_status set_sync(struct sqlite_rows *self, bool is_full, dibs_err *err)
{
    self->is_spared = !is_full;
    if (self->is_full || !is_full)
        return DIBS_OK;
    int rc = sqlite3_exec(self->db, "PRAGMA synchronous=FULL", NULL, NULL, NULL);

    if (rc != SQLITE_OK)
        return sqlite_error(self, rc, "configuring", err);
    self->is_full = true;
    sqlite_log_set_synced(self->db);
    return DIBS_OK;
}

static void rollback(struct rows *rows)
{
    struct sqlite_rows *self = of(rows);

    /* A failed statement may have rolled back already. */
    if (self->db && !sqlite3_get_autocommit(self->db))
        (void) sqlite_run(self, self->stmt[SQL_ROLLBACK], "rolling back", NULL);
}

static dibs_status begin_here(struct sqlite_rows *self, bool is_write, bool is_full, dibs_err *err)
{
    enum sqlite_sql which = is_write ? SQL_BEGIN_WRITE : SQL_BEGIN_READ;

    /* Nothing is begun that cannot be ended: the rollback must not need memory. */
    if (!sqlite_stmt(self, SQL_ROLLBACK, err) || !sqlite_stmt(self, which, err) ||
        (!is_write && !sqlite_stmt(self, SQL_SNAPSHOT, err)))
        return DIBS_UNAVAILABLE;
    dibs_status s = is_write ? set_sync(self, is_full, err) : DIBS_OK;
    if (s == DIBS_OK)
        s = sqlite_run(self, self->stmt[which], "waiting for it", err);
    if (s == DIBS_OK && !is_write) /* BEGIN alone looks at nothing; this fixes what we see */
        s = sqlite_run(self, self->stmt[SQL_SNAPSHOT], "reading", err);
    return s;
}

static dibs_status refuse_writing(const struct sqlite_rows *self, dibs_err *err)
{
    if (err)
        *err = self->why_read_only;
    return DIBS_UNAVAILABLE;
}

/* A rebuild puts another file in the ledger's place, and has the write lock meanwhile. So a file that is in
 * its place after the beginning stays there until a writer ends, and a reader sees what was before. */
static dibs_status begin(struct rows *rows, bool is_write, bool is_full, dibs_err *err)
{
    struct sqlite_rows *self = of(rows);

    if (!self->has_call)
        sqlite_start_deadline(self); /* first: even configuring may wait for a lock */
    /* It may be writable by now; and who reads the bare file must read it anew. */
    if (self->db && self->access != SQLITE_WRITES && (is_write || self->access == SQLITE_READS_FILE)) {
        dibs_status s = sqlite_reopen(self, err);

        if (s == DIBS_OK && is_write && self->access != SQLITE_WRITES)
            s = refuse_writing(self, err);
        if (s != DIBS_OK)
            return s;
    }
    dibs_status s = self->db ? begin_here(self, is_write, is_full, err) : DIBS_UNAVAILABLE;
    if (!self->db || sqlite_has_moved(self)) {
        rollback(rows);
        s = sqlite_reopen(self, err);
        if (s == DIBS_OK)
            s = begin_here(self, is_write, is_full, err);
        if (s == DIBS_OK && sqlite_has_moved(self))
            s = err_trouble(err, DIBS_TROUBLE_LOCKED,
                            "ledger %s: it was replaced twice while it was being opened; try again",
                            self->path);
    }
    if (s != DIBS_OK)
        rollback(rows);
    return s;
}

static void spare_sync(struct rows *rows)
{
    of(rows)->is_spared = true;
}

static dibs_status commit(struct rows *rows, dibs_err *err)
{
    struct sqlite_rows *self = of(rows);
    sqlite3_stmt *stmt = sqlite_stmt(self, SQL_COMMIT, err);
    bool is_spared = self->is_full && self->is_spared;

    if (is_spared)
        sqlite_log_spare_sync(self->db, true);
    dibs_status s = stmt ? sqlite_run(self, stmt, "writing", err) : DIBS_UNAVAILABLE;
    if (is_spared)
        sqlite_log_spare_sync(self->db, false); /* it may have written nothing */
    /* The log may have it whole, and who reads the log anew then finds it. */
    if (s != DIBS_OK && (sqlite3_errcode(self->db) & 0xff) == SQLITE_IOERR)
        (void) err_wrap(err, s,
                        "it cannot be told whether this was recorded: look with 'dibs ls' or 'dibs log' "
                        "before you ask again");
    return s;
}

static void start_call(struct rows *rows)
{
    sqlite_start_deadline(of(rows));
    of(rows)->has_call = true;
}

static uint64_t salt(struct rows *rows)
{
    return of(rows)->salt;
}

/* ---- slots ---- */

/* A damaged slot of a claim still blocks its port, whole and for everybody: leak rather than give twice
 * (INV-10). */
static bool block_by_damaged(struct ledger_slot *slot)
{
    if (slot->port == 0 || slot->claim_id == 0)
        return false;
    slot->address = (dibs_address){ .len = 16 };
    slot->is_exclusive = true;
    return true;
}

bool sqlite_load_slot(sqlite3_stmt *stmt, struct ledger_slot *out)
{
    struct sqlite_reader r = { .stmt = stmt, .is_ok = true };
    const void *blob = NULL;
    size_t n = 0;

    *out = (struct ledger_slot){ 0 };
    out->proto = (dibs_proto) sqlite_read_number(&r, 0, DIBS_TCP, DIBS_SCTP);
    out->port = (uint16_t) sqlite_read_number(&r, 1, 1, DIBS_PORT_MAX);
    if (!r.is_ok)
        return false;
    sqlite_read_bytes(&r, 2, &blob, &n);
    out->claim_id = (uint64_t) sqlite_read_number(&r, 3, INT64_MIN, INT64_MAX);
    out->is_exclusive = sqlite_read_number(&r, 4, 0, 1) != 0;
    out->released_ms = sqlite_read_number(&r, 5, INT64_MIN, INT64_MAX);
    if (!r.is_ok || (n != 4 && n != 16))
        return block_by_damaged(out);
    out->address.len = (uint8_t) n;
    memcpy(out->address.bytes, blob, n);
    return true;
}

static dibs_status slots(struct rows *rows, dibs_proto proto, uint16_t port, ledger_slot_fn fn, void *ctx,
                         dibs_err *err)
{
    struct sqlite_rows *self = of(rows);
    AUTO(sqlite_reset_auto) sqlite3_stmt *stmt = sqlite_stmt(self, port ? SQL_SLOTS_AT : SQL_SLOTS_ALL, err);
    struct ledger_slot slot;
    int rc = SQLITE_DONE;

    if (!stmt)
        return DIBS_UNAVAILABLE;
    if (port) {
        sqlite_bind_number(stmt, 1, proto);
        sqlite_bind_number(stmt, 2, port);
    }
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
        if (sqlite_load_slot(stmt, &slot) && !fn(ctx, &slot))
            return DIBS_OK;
    return rc == SQLITE_DONE ? DIBS_OK : sqlite_error(self, rc, "reading ports", err);
}

static sqlite3_stmt *bind_slot(struct sqlite_rows *self, enum sqlite_sql which,
                               const struct ledger_slot *slot, dibs_err *err)
{
    sqlite3_stmt *stmt = sqlite_stmt(self, which, err);

    if (!stmt)
        return NULL;
    sqlite_bind_number(stmt, 1, slot->proto);
    sqlite_bind_number(stmt, 2, slot->port);
    (void) sqlite3_bind_blob(stmt, 3, slot->address.bytes, slot->address.len, SQLITE_STATIC);
    sqlite_bind_number(stmt, 4, (int64_t) slot->claim_id);
    return stmt;
}

dibs_status sqlite_put_slot(struct rows *rows, const struct ledger_slot *slot, dibs_err *err)
{
    sqlite3_stmt *stmt = bind_slot(of(rows), SQL_SLOT_PUT, slot, err);

    if (!stmt)
        return DIBS_UNAVAILABLE;
    sqlite_bind_number(stmt, 5, slot->is_exclusive);
    sqlite_bind_number(stmt, 6, slot->released_ms);
    return sqlite_run(of(rows), stmt, "writing a port", err);
}

static dibs_status slot_delete(struct rows *rows, const struct ledger_slot *slot, dibs_err *err)
{
    sqlite3_stmt *stmt = bind_slot(of(rows), SQL_SLOT_DELETE, slot, err);

    return stmt ? sqlite_run(of(rows), stmt, "freeing a port", err) : DIBS_UNAVAILABLE;
}

/* ---- names ---- */

static dibs_status name_get(struct rows *rows, const char *principal, const char *name, struct row_name *out,
                            dibs_err *err)
{
    struct sqlite_rows *self = of(rows);
    AUTO(sqlite_reset_auto) sqlite3_stmt *stmt = sqlite_stmt(self, SQL_NAME_GET, err);
    struct sqlite_reader r = { .stmt = stmt, .is_ok = true };

    if (!stmt)
        return DIBS_UNAVAILABLE;
    sqlite_bind_string(stmt, 1, principal);
    sqlite_bind_string(stmt, 2, name);
    int rc = sqlite3_step(stmt);
    if (rc == SQLITE_DONE)
        return DIBS_NOT_FOUND;
    if (rc != SQLITE_ROW)
        return sqlite_error(self, rc, "reading a name", err);
    out->claim_id = (uint64_t) sqlite_read_number(&r, 0, 0, INT64_MAX);
    out->port = (uint16_t) sqlite_read_number(&r, 1, 1, DIBS_PORT_MAX);
    out->used_ms = sqlite_read_number(&r, 2, INT64_MIN, INT64_MAX);
    sqlite_read_string(&r, 3, out->project, DIBS_PROJECT_MAX);
    return r.is_ok ? DIBS_OK : DIBS_NOT_FOUND; /* a damaged memory of a port is no memory */
}

static dibs_status name_put(struct rows *rows, const char *principal, const char *name,
                            const struct row_name *row, dibs_err *err)
{
    sqlite3_stmt *stmt = sqlite_stmt(of(rows), SQL_NAME_PUT, err);

    if (!stmt)
        return DIBS_UNAVAILABLE;
    sqlite_bind_string(stmt, 1, principal);
    sqlite_bind_string(stmt, 2, name);
    sqlite_bind_number(stmt, 3, (int64_t) row->claim_id);
    sqlite_bind_number(stmt, 4, row->port);
    sqlite_bind_number(stmt, 5, row->used_ms);
    sqlite_bind_string(stmt, 6, row->project);
    return sqlite_run(of(rows), stmt, "writing a name", err);
}

static dibs_status name_first(struct rows *rows, const struct ledger_names *among,
                              char out[DIBS_NAME_MAX + 1], dibs_err *err)
{
    struct sqlite_rows *self = of(rows);
    AUTO(sqlite_reset_auto) sqlite3_stmt *stmt = sqlite_stmt(self, SQL_NAME_FIRST, err);
    struct sqlite_reader r = { .stmt = stmt, .is_ok = true };

    if (!stmt)
        return DIBS_UNAVAILABLE;
    sqlite_bind_string(stmt, 1, among->principal);
    sqlite_bind_string(stmt, 2, among->from);
    sqlite_bind_string(stmt, 3, among->to);
    if (among->project)
        sqlite_bind_string(stmt, 4, among->project);
    else
        (void) sqlite3_bind_null(stmt, 4);
    int rc = sqlite3_step(stmt);
    if (rc == SQLITE_DONE)
        return DIBS_NOT_FOUND;
    if (rc != SQLITE_ROW)
        return sqlite_error(self, rc, "reading a name", err);
    sqlite_read_string(&r, 0, out, DIBS_NAME_MAX);
    return r.is_ok ? DIBS_OK : DIBS_NOT_FOUND;
}

const struct rows_ops rows_sqlite_ops = {
    .scheme = "sqlite",
    .open = sqlite_open_rows,
    .close = sqlite_close_rows,
    .salt = salt,
    .start_call = start_call,
    .care_beside = sqlite_care_beside,
    .begin = begin,
    .commit = commit,
    .spare_sync = spare_sync,
    .rollback = rollback,
    .save = sqlite_rows_save,
    .undo = sqlite_rows_undo,
    .forget = sqlite_rows_forget,
    .changes = sqlite_rows_changes,
    .claim_get = sqlite_rows_claim_get,
    .claim_put = sqlite_put_claim,
    .claim_delete = sqlite_rows_claim_delete,
    .claims = sqlite_rows_claims,
    .slots = slots,
    .slot_put = sqlite_put_slot,
    .slot_delete = slot_delete,
    .name_get = name_get,
    .name_put = name_put,
    .name_first = name_first,
    .tail = sqlite_rows_tail,
    .event_put = sqlite_rows_event_put,
    .events = sqlite_rows_events,
    .pool_get = sqlite_rows_pool_get,
    .pool_put = sqlite_rows_pool_put,
    .pool_delete = sqlite_rows_pool_delete,
    .pools = sqlite_rows_pools,
    .sighting_get = sqlite_rows_sighting_get,
    .sighting_put = sqlite_rows_sighting_put,
    .answer_get = sqlite_rows_answer_get,
    .answer_put = sqlite_rows_answer_put,
    .quarantine = sqlite_quarantine_rows,
    .trim = sqlite_rows_trim,
    .health = sqlite_health_rows,
    .rebuild = sqlite_rebuild_rows,
};
