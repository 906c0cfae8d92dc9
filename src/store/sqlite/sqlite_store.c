/* SPDX-License-Identifier: MIT */
/* The errors, statements, transactions and queries of a SQLite ledger. Values are bound, never spliced. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "store/sqlite/sqlite_store.h"

#include "base/banned.h"

const char *const sqlite_sql_text[SQL_COUNT] = {
#define S(name, text) text,
    SQLITE_STATEMENTS(S)
#undef S
};

/* ---- errors ---- */

/* Return whether the error is a state of this process or machine, not of the ledger. */
static bool is_transient(int os_errno)
{
    return os_errno == EMFILE || os_errno == ENFILE || os_errno == ENOMEM || os_errno == EIO;
}

static dibs_trouble trouble_of(int rc, int os_errno)
{
    if (((rc & 0xff) == SQLITE_CANTOPEN || (rc & 0xff) == SQLITE_READONLY) && is_transient(os_errno))
        return DIBS_TROUBLE_NONE;
    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_PROTOCOL: /* a process was stopped while it held a lock of the log's index */
    case SQLITE_LOCKED: return DIBS_TROUBLE_LOCKED;
    case SQLITE_FULL: return DIBS_TROUBLE_FULL;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return DIBS_TROUBLE_DAMAGED;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH: return DIBS_TROUBLE_UNWRITABLE;
    default: break;
    }
    switch (os_errno) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return DIBS_TROUBLE_FULL;
    case EACCES:
    case EPERM:
    case EROFS: return DIBS_TROUBLE_UNWRITABLE;
    case ENOENT:
    case ENOTDIR: return DIBS_TROUBLE_MISSING;
    default: return (rc & 0xff) == SQLITE_CANTOPEN ? DIBS_TROUBLE_UNWRITABLE : DIBS_TROUBLE_NONE;
    }
}

const char *sqlite_advice(dibs_trouble trouble)
{
    switch (trouble) {
    case DIBS_TROUBLE_LOCKED:
        return "another process holds it; look for a stopped one with 'fuser -v' on the file";
    case DIBS_TROUBLE_FULL: return "free some space, or name another place with DIBS_LEDGER";
    case DIBS_TROUBLE_DAMAGED:
        return "run 'dibs doctor --fix': it is set aside and rebuilt from what is readable";
    case DIBS_TROUBLE_UNWRITABLE: return "make it writable for you, or name another place with DIBS_LEDGER";
    case DIBS_TROUBLE_MISSING: return "create its directory, or name another place with DIBS_LEDGER";
    case DIBS_TROUBLE_NONE:
    case DIBS_TROUBLE_NEWER:
    case DIBS_TROUBLE_REMOTE: break;
    }
    return "see 'dibs doctor'";
}

dibs_status sqlite_error_of(const struct sqlite_store *self, int rc, int os_errno, const char *doing,
                            dibs_err *err)
{
    if (rc == SQLITE_IOERR_SHORT_READ) /* no system call failed: os_errno is of an earlier one */
        return sqlite_removed(self, "a part of it or of its log", err);
    dibs_trouble trouble = trouble_of(rc, os_errno);
    if (trouble == DIBS_TROUBLE_MISSING && access(self->path, F_OK) == 0)
        trouble = DIBS_TROUBLE_UNWRITABLE; /* what is missing, and cannot be made, is a file beside it */
    const char *text = self->db ? sqlite3_errmsg(self->db) : sqlite3_errstr(rc);

    (void) err_trouble(err, trouble, "ledger %s: %s: %s (SQLite %d); %s", self->path, doing, text, rc,
                       sqlite_advice(trouble));
    if (err)
        err->os_errno = os_errno;
    return DIBS_UNAVAILABLE;
}

dibs_status sqlite_error(struct sqlite_store *self, int rc, const char *doing, dibs_err *err)
{
    return sqlite_error_of(self, rc, self->db ? sqlite3_system_errno(self->db) : 0, doing, err);
}

dibs_status sqlite_os_error(const struct sqlite_store *self, const char *doing, int os_errno, dibs_err *err)
{
    dibs_trouble trouble = trouble_of(SQLITE_OK, os_errno);
    char text[128];

    (void) err_trouble(err, trouble, "ledger %s: %s: %s; %s", self->path, doing,
                       strerror_r(os_errno, text, sizeof text), sqlite_advice(trouble));
    if (err)
        err->os_errno = os_errno;
    return DIBS_UNAVAILABLE;
}

dibs_status sqlite_damaged(const struct sqlite_store *self, const char *what, dibs_err *err)
{
    return err_trouble(err, DIBS_TROUBLE_DAMAGED, "ledger %s: it is damaged (%s); %s", self->path, what,
                       sqlite_advice(DIBS_TROUBLE_DAMAGED));
}

/* ---- statements ---- */

sqlite3_stmt *sqlite_stmt(struct sqlite_store *self, enum sqlite_sql which, dibs_err *err)
{
    if (!self->stmt[which]) {
        int rc = sqlite3_prepare_v3(self->db, sqlite_sql_text[which], -1, SQLITE_PREPARE_PERSISTENT,
                                    &self->stmt[which], NULL);

        if (rc == SQLITE_ERROR) /* a missing table or column */
            (void) sqlite_damaged(self, sqlite3_errmsg(self->db), err);
        else if (rc != SQLITE_OK)
            (void) sqlite_error(self, rc, "reading its tables", err);
    }
    return self->stmt[which];
}

dibs_status sqlite_run(struct sqlite_store *self, sqlite3_stmt *stmt, const char *doing, dibs_err *err)
{
    if (!stmt)
        return DIBS_UNAVAILABLE;
    int rc = sqlite3_step(stmt);
    dibs_status s = rc == SQLITE_DONE || rc == SQLITE_ROW ? DIBS_OK : sqlite_error(self, rc, doing, err);

    (void) sqlite3_reset(stmt);
    return s;
}

dibs_status sqlite_find(struct sqlite_store *self, sqlite3_stmt *stmt, const char *doing, dibs_err *err)
{
    if (!stmt)
        return DIBS_UNAVAILABLE;
    int rc = sqlite3_step(stmt);
    if (rc == SQLITE_DONE)
        return DIBS_NOT_FOUND;
    return rc == SQLITE_ROW ? DIBS_OK : sqlite_error(self, rc, doing, err);
}

/* ---- transactions ---- */

/* Set whether the next transaction survives power loss (INV-2). SQLite refuses to change that inside one. */
static dibs_status set_sync(struct sqlite_store *self, bool is_full, dibs_err *err)
{
    if (self->is_full == is_full)
        return DIBS_OK;
    dibs_status s = sqlite_exec(self, is_full ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL",
                                "configuring", err);
    if (s == DIBS_OK)
        self->is_full = is_full;
    return s;
}

static void rollback(struct store *store)
{
    struct sqlite_store *self = sqlite_of(store);

    /* A failed statement may have rolled back already. */
    if (self->db && !sqlite3_get_autocommit(self->db))
        (void) sqlite_run(self, self->stmt[SQL_ROLLBACK], "rolling back", NULL);
}

static dibs_status begin_here(struct sqlite_store *self, bool is_write, bool is_full, dibs_err *err)
{
    enum sqlite_sql which = is_write ? SQL_BEGIN_WRITE : SQL_BEGIN_READ;

    /* Prepare the rollback first: it must not need memory. */
    if (!sqlite_stmt(self, SQL_ROLLBACK, err) || !sqlite_stmt(self, which, err) ||
        (!is_write && !sqlite_stmt(self, SQL_SNAPSHOT, err)))
        return DIBS_UNAVAILABLE;
    dibs_status s = is_write ? set_sync(self, is_full, err) : DIBS_OK;
    if (s == DIBS_OK)
        s = sqlite_run(self, self->stmt[which], "waiting for it", err);
    if (s == DIBS_OK && !is_write) /* BEGIN alone reads nothing; this fixes the snapshot */
        s = sqlite_run(self, self->stmt[SQL_SNAPSHOT], "reading", err);
    return s;
}

dibs_status sqlite_refuse_writing(const struct sqlite_store *self, dibs_err *err)
{
    if (err)
        *err = self->why_read_only;
    return DIBS_UNAVAILABLE;
}

/* Compare the inode of a file beside the ledger with the one before; it is noted at the first time. */
static bool is_replaced(const struct sqlite_store *self, const char *suffix, uint64_t *inode)
{
    char name[sizeof self->path + sizeof "-wal"];
    struct stat st = { 0 };

    (void) snprintf(name, sizeof name, "%s%s", self->path, suffix);
    if (stat(name, &st) != 0)
        st.st_ino = 0;
    if (*inode == 0)
        *inode = st.st_ino;
    return *inode != st.st_ino;
}

/* Refuse to write after one was removed: other processes use another log by now, or another index with locks
 * of its own, and would give away the ports of claims that are only in ours. */
dibs_status sqlite_check_log(struct sqlite_store *self, dibs_err *err)
{
    if (is_replaced(self, "-wal", &self->log_inode))
        return sqlite_removed(self, "its log", err);
    if (is_replaced(self, "-shm", &self->index_inode))
        return sqlite_removed(self, "the index of its log (-shm)", err);
    return DIBS_OK;
}

static dibs_status writable(struct store *store, dibs_err *err)
{
    struct sqlite_store *self = sqlite_of(store);

    sqlite_set_deadline(self, 0);
    if (self->access != SQLITE_WRITES) { /* it may be by now */
        dibs_status s = sqlite_reopen(self, err);

        if (s != DIBS_OK || self->access != SQLITE_WRITES)
            return s != DIBS_OK ? s : sqlite_refuse_writing(self, err);
    }
    if (faccessat(AT_FDCWD, self->path, W_OK, AT_EACCESS) != 0)
        return sqlite_os_error(self, "cannot write it", errno, err);
    return sqlite_check_log(self, err);
}

/* Begin on the file that the path names now. A salvage replaces the file while it holds the write lock: a
 * file that is in place after BEGIN stays there until a writer ends, and a reader sees the state before. */
static dibs_status begin(struct store *store, bool is_write, bool is_full, int64_t deadline_ms, dibs_err *err)
{
    struct sqlite_store *self = sqlite_of(store);

    sqlite_set_deadline(self, deadline_ms); /* first: even configuring may wait for a lock */
    /* The ledger may be writable now, and a bare file must be reopened to see changes. */
    if (self->db && self->access != SQLITE_WRITES && (is_write || self->access == SQLITE_READS_FILE)) {
        dibs_status s = sqlite_reopen(self, err);

        if (s == DIBS_OK && is_write && self->access != SQLITE_WRITES)
            s = sqlite_refuse_writing(self, err);
        if (s != DIBS_OK)
            return s;
    }
    dibs_status s = self->db ? begin_here(self, is_write, is_full, err) : DIBS_UNAVAILABLE;
    if (!self->db || sqlite_has_moved(self)) {
        rollback(store);
        s = sqlite_reopen(self, err);
        if (s == DIBS_OK)
            s = begin_here(self, is_write, is_full, err);
        if (s == DIBS_OK && sqlite_has_moved(self))
            s = err_trouble(err, DIBS_TROUBLE_LOCKED,
                            "ledger %s: it was replaced twice while it was being opened; try again",
                            self->path);
    }
    if (s == DIBS_OK && is_write)
        s = sqlite_check_log(self, err);
    if (s != DIBS_OK)
        rollback(store);
    return s;
}

static dibs_status commit(struct store *store, dibs_err *err)
{
    struct sqlite_store *self = sqlite_of(store);
    dibs_status s = sqlite_run(self, sqlite_stmt(self, SQL_COMMIT, err), "writing", err);

    /* The log may contain the whole commit, and the next process that recovers the log finds it. */
    if (s != DIBS_OK && (sqlite3_errcode(self->db) & 0xff) == SQLITE_IOERR)
        (void) err_wrap(err, s,
                        "it is not known whether this was recorded: look with 'dibs ls' or 'dibs log' "
                        "before you ask again");
    return s;
}

static dibs_status run_savepoint(struct store *store, enum sqlite_sql which, dibs_err *err)
{
    struct sqlite_store *self = sqlite_of(store);

    return sqlite_run(self, sqlite_stmt(self, which, err), "dividing a transaction", err);
}

static dibs_status save(struct store *store, dibs_err *err)
{
    return run_savepoint(store, SQL_SAVE, err);
}

static dibs_status undo(struct store *store, dibs_err *err)
{
    /* A failure may have ended the whole transaction already: then nothing is left to undo. */
    dibs_status s = run_savepoint(store, SQL_UNDO, err);

    return s == DIBS_OK ? run_savepoint(store, SQL_FORGET, err) : s;
}

static dibs_status forget(struct store *store, dibs_err *err)
{
    return run_savepoint(store, SQL_FORGET, err);
}

static uint64_t changes(struct store *store)
{
    /* A failed statement may have rolled everything back, which no counter of changes shows. */
    return sqlite3_get_autocommit(sqlite_of(store)->db)
               ? UINT64_MAX
               : (uint64_t) sqlite3_total_changes64(sqlite_of(store)->db);
}

/* ---- queries over many records, and keeping them bounded ---- */

static void bind_string(sqlite3_stmt *stmt, int at, const char *text)
{
    (void) sqlite3_bind_text(stmt, at, text, -1, SQLITE_STATIC);
}

/* A scan whose keys do not rise goes around in a damaged file, whose pages point back (INV-9). */
static dibs_status out_of_order(const struct sqlite_store *self, const char *table, dibs_err *err)
{
    char what[64];

    (void) snprintf(what, sizeof what, "the rows of table %s are not in order", table);
    return sqlite_damaged(self, what, err);
}

static dibs_status claims(struct store *store, const struct ledger_filter *filter, claim_record_fn fn,
                          void *ctx, dibs_err *err)
{
    struct sqlite_store *self = sqlite_of(store);
    enum sqlite_sql which = filter->principal && filter->project ? SQL_CLAIMS_OF_PROJECT
                            : filter->principal                  ? SQL_CLAIMS_OF_PRINCIPAL
                            : filter->pool                       ? SQL_CLAIMS_OF_POOL
                                                                 : SQL_CLAIMS;
    AUTO(sqlite_reset_auto) sqlite3_stmt *stmt = sqlite_stmt(self, which, err);
    int rc = SQLITE_DONE;
    struct claim_record row;
    uint64_t last = 0;

    if (!stmt)
        return DIBS_UNAVAILABLE;
    (void) sqlite3_bind_int64(stmt, 1, (int64_t) filter->after_id);
    if (which != SQL_CLAIMS)
        bind_string(stmt, 2, filter->principal ? filter->principal : filter->pool);
    if (which == SQL_CLAIMS_OF_PROJECT)
        bind_string(stmt, 3, filter->project);
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        sqlite_load_claim(stmt, &row);
        if (row.claim.id <= last)
            return out_of_order(self, "claims", err);
        last = row.claim.id;
        dibs_status s = sqlite_find_place(self, &row.claim, err);
        if (s != DIBS_OK || !fn(ctx, &row))
            return s;
    }
    return rc == SQLITE_DONE ? DIBS_OK : sqlite_error(self, rc, "listing claims", err);
}

static dibs_status slots(struct store *store, dibs_proto proto, uint16_t port, ledger_slot_fn fn, void *ctx,
                         dibs_err *err)
{
    struct sqlite_store *self = sqlite_of(store);
    AUTO(sqlite_reset_auto) sqlite3_stmt *stmt = sqlite_stmt(self, port ? SQL_SLOTS_AT : SQL_SLOTS_ALL, err);
    struct ledger_slot slot;
    uint32_t last = 0;
    int rc = SQLITE_DONE;

    if (!stmt)
        return DIBS_UNAVAILABLE;
    if (port) {
        (void) sqlite3_bind_int64(stmt, 1, proto);
        (void) sqlite3_bind_int64(stmt, 2, port);
    }
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        bool is_good = sqlite_load_slot(stmt, &slot);
        uint32_t at = (uint32_t) slot.proto << 16 | slot.port;

        if (is_good && at < last)
            return out_of_order(self, "slots", err);
        last = is_good ? at : last;
        if (is_good && !fn(ctx, &slot))
            return DIBS_OK;
    }
    return rc == SQLITE_DONE ? DIBS_OK : sqlite_error(self, rc, "reading ports", err);
}

static dibs_status name_first(struct store *store, const struct ledger_names *among,
                              char out[DIBS_NAME_MAX + 1], dibs_err *err)
{
    struct sqlite_store *self = sqlite_of(store);
    AUTO(sqlite_reset_auto) sqlite3_stmt *stmt = sqlite_stmt(self, SQL_NAME_FIRST, err);
    struct name_record row;

    if (!stmt)
        return DIBS_UNAVAILABLE;
    bind_string(stmt, 1, among->principal);
    bind_string(stmt, 2, among->from);
    bind_string(stmt, 3, among->to);
    bind_string(stmt, 4, among->project); /* NULL is bound as NULL */
    dibs_status s = sqlite_find(self, stmt, "reading a name", err);
    if (s != DIBS_OK)
        return s;
    if (!sqlite_load(stmt, NAMES, &row) && !row.name[0])
        return DIBS_NOT_FOUND;
    memcpy(out, row.name, sizeof row.name);
    return DIBS_OK;
}

static dibs_status tail(struct store *store, uint64_t *seq, uint64_t *cursor, dibs_err *err)
{
    AUTO(sqlite_reset_auto) sqlite3_stmt *stmt = sqlite_stmt(sqlite_of(store), SQL_TAIL, err);
    dibs_status s = sqlite_find(sqlite_of(store), stmt, "reading the newest event", err);

    if (s != DIBS_OK)
        return s;
    *seq = (uint64_t) sqlite3_column_int64(stmt, 0);
    /* No event: the ledger is new, or its events were lost. */
    *cursor = sqlite3_column_type(stmt, 1) == SQLITE_NULL ? *seq : (uint64_t) sqlite3_column_int64(stmt, 1);
    return DIBS_OK;
}

static dibs_status oldest_event(struct sqlite_store *self, uint64_t *oldest, dibs_err *err)
{
    AUTO(sqlite_reset_auto) sqlite3_stmt *stmt = sqlite_stmt(self, SQL_EVENTS_OLDEST, err);
    dibs_status s = sqlite_find(self, stmt, "reading the oldest event", err);

    if (s == DIBS_OK)
        *oldest = (uint64_t) sqlite3_column_int64(stmt, 0);
    return s;
}

static dibs_status events(struct store *store, const dibs_event_query *query, uint64_t *oldest,
                          bool (*fn)(void *, const dibs_event *), void *ctx, dibs_err *err)
{
    struct sqlite_store *self = sqlite_of(store);
    AUTO(sqlite_reset_auto)
    sqlite3_stmt *stmt = sqlite_stmt(self, query->newest ? SQL_EVENTS_NEWEST : SQL_EVENTS, err);
    dibs_status s = stmt ? DIBS_OK : DIBS_UNAVAILABLE;
    struct event_record row;
    uint64_t last = 0;
    int rc = SQLITE_DONE;

    if (s == DIBS_OK && oldest)
        s = oldest_event(self, oldest, err);
    if (s != DIBS_OK)
        return s;
    (void) sqlite3_bind_int64(stmt, 1, query->since > INT64_MAX ? INT64_MAX : (int64_t) query->since);
    (void) sqlite3_bind_int64(stmt, 2,
                              query->limit == 0 || query->limit > INT64_MAX ? -1 : (int64_t) query->limit);
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        if (!sqlite_load(stmt, EVENTS, &row))
            continue;
        if (row.event.seq <= last)
            return out_of_order(self, "events", err);
        last = row.event.seq;
        if (!fn(ctx, &row.event))
            return DIBS_OK;
    }
    return rc == SQLITE_DONE ? DIBS_OK : sqlite_error(self, rc, "reading events", err);
}

static dibs_status all(struct store *store, enum record_kind kind, record_fn fn, void *ctx, dibs_err *err)
{
    struct sqlite_store *self = sqlite_of(store);
    AUTO(sqlite_reset_auto)
    sqlite3_stmt *stmt = sqlite_stmt(self, kind == POOLS ? SQL_POOLS : SQL_FACTS, err);
    union {
        dibs_pool pool;
        struct fact_record fact;
    } record;
    int rc = SQLITE_DONE;

    if (!stmt)
        return DIBS_UNAVAILABLE;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
        if (sqlite_load(stmt, kind, &record) && !fn(ctx, &record))
            return DIBS_OK;
    return rc == SQLITE_DONE ? DIBS_OK : sqlite_error(self, rc, "reading pools or facts", err);
}

static dibs_status count(struct store *store, const char *principal, uint32_t *n, dibs_err *err)
{
    struct sqlite_store *self = sqlite_of(store);
    AUTO(sqlite_reset_auto) sqlite3_stmt *stmt = sqlite_stmt(self, SQL_NAMES_COUNT, err);

    if (stmt)
        (void) sqlite3_bind_text(stmt, 1, principal, -1, SQLITE_STATIC);
    dibs_status s = sqlite_find(self, stmt, "counting claims", err);
    *n = s == DIBS_OK ? (uint32_t) sqlite3_column_int64(stmt, 0) : 0;
    return s;
}

static dibs_status trim(struct store *store, const struct store_bounds *bounds, dibs_err *err)
{
    struct sqlite_store *self = sqlite_of(store);
    dibs_status s = DIBS_OK;

    for (enum sqlite_sql which = SQL_TRIM_ANSWERS; which <= SQL_TRIM_SIGHTINGS && s == DIBS_OK; which++) {
        sqlite3_stmt *stmt = sqlite_stmt(self, which, err);

        if (!stmt)
            return DIBS_UNAVAILABLE;
        /* SQLite refuses parameters that a statement does not have. */
        (void) sqlite3_bind_int64(stmt, 1, (int64_t) bounds->oldest_seq);
        (void) sqlite3_bind_int64(stmt, 2, (int64_t) bounds->names_kept - 1);
        (void) sqlite3_bind_int64(stmt, 3, bounds->cooled_ms);
        (void) sqlite3_bind_int64(stmt, 4, bounds->until_ms);
        s = sqlite_run(self, stmt, "upkeep", err);
    }
    return s;
}

/* ---- health ---- */

static uint64_t file_bytes(const char *path, const char *suffix)
{
    char name[1024 + 8];
    struct stat st = { 0 };

    (void) snprintf(name, sizeof name, "%s%s", path, suffix);
    return stat(name, &st) == 0 ? (uint64_t) st.st_size : 0;
}

/* Detect a stopped writer, which readers do not notice; wait for active ones. */
static dibs_status try_to_write(struct sqlite_store *self, dibs_err *err)
{
    enum { WAIT_MS = 2000 };
    int64_t deadline_ms = clock_monotonic_ms() + WAIT_MS;

    if (deadline_ms < self->deadline_ms)
        self->deadline_ms = deadline_ms;
    int rc = sqlite3_exec(self->db, "BEGIN IMMEDIATE; ROLLBACK", NULL, NULL, NULL);
    return rc == SQLITE_BUSY ? sqlite_error(self, rc, "waiting to write to it", err) : DIBS_OK;
}

static void set_unsound(struct ledger_health *health, const char *why)
{
    health->is_sound = false;
    (void) text_copy(health->detail, sizeof health->detail, why);
}

/* Check everything in one statement. A failure makes the ledger unsound, and its numbers stay 0. */
static dibs_status read_health(struct sqlite_store *self, struct ledger_health *health, dibs_err *err)
{
    AUTO(sqlite_finalize_auto) sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(
        self->db,
        "SELECT (SELECT integrity_check FROM pragma_integrity_check(1)),"
        " (SELECT count(*) FROM sqlite_schema WHERE type='trigger'"
        " AND name IN ('slots_stay', 'slots_stay_as_they_are')),"
        " (SELECT count(*) FROM claims), (SELECT count(*) FROM events), (SELECT count(*) FROM names)",
        -1, &stmt, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    if ((rc & 0xff) == SQLITE_BUSY || (rc & 0xff) == SQLITE_LOCKED)
        return sqlite_error(self, rc, "checking it", err);
    if (rc != SQLITE_ROW) {
        set_unsound(health, sqlite3_errmsg(self->db));
        return DIBS_OK;
    }
    (void) text_copy(health->detail, sizeof health->detail, (const char *) sqlite3_column_text(stmt, 0));
    health->is_sound = strcmp(health->detail, "ok") == 0;
    if (health->is_sound && sqlite3_column_int(stmt, 1) < 2 && self->version <= SQLITE_LEDGER_VERSION)
        set_unsound(health, "the triggers that keep ports from being given twice are gone");
    health->n_claims = (uint64_t) sqlite3_column_int64(stmt, 2);
    health->n_events = (uint64_t) sqlite3_column_int64(stmt, 3);
    health->n_names = (uint64_t) sqlite3_column_int64(stmt, 4);
    return DIBS_OK;
}

static dibs_status health(struct store *store, struct ledger_health *out, dibs_err *err)
{
    struct sqlite_store *self = sqlite_of(store);
    struct ledger_health found = { .major = (int) (self->version / 1000),
                                   .minor = (int) (self->version % 1000),
                                   .bytes = file_bytes(self->path, ""),
                                   .wal_bytes = file_bytes(self->path, "-wal"),
                                   .is_read_only = self->access != SQLITE_WRITES };

    sqlite_set_deadline(self, 0);
    (void) text_copy(found.path, sizeof found.path, self->path);
    dibs_status s = read_health(self, &found, err);
    if (s == DIBS_OK && self->access == SQLITE_WRITES && found.is_sound)
        s = try_to_write(self, err);
    if (s == DIBS_OK)
        *out = found;
    return s;
}

/* Accept any text: only open() can tell whether it is a usable path. */
static dibs_status check(const char *uri, dibs_err *err)
{
    (void) uri;
    (void) err;
    return DIBS_OK;
}

const struct store_ops store_sqlite_ops = {
    .scheme = "sqlite",
    .check = check,
    .open = sqlite_open,
    .close = sqlite_close,
    .start_background = sqlite_start_checkpoints,
    .begin = begin,
    .commit = commit,
    .rollback = rollback,
    .save = save,
    .undo = undo,
    .forget = forget,
    .changes = changes,
    .get = sqlite_get,
    .put = sqlite_put,
    .erase = sqlite_erase,
    .claims = claims,
    .slots = slots,
    .name_first = name_first,
    .tail = tail,
    .events = events,
    .all = all,
    .count = count,
    .trim = trim,
    .health = health,
    .writable = writable,
    .salvage = sqlite_salvage,
};
