/* SPDX-License-Identifier: MIT */
/* A new ledger from what is readable of a damaged one.
 *
 * The files are copied into a private directory beside the ledger. When that copy is damaged, the ledger's
 * log is emptied into its file, whatever the pages hold, all writers are kept out (sqlite_hold.c), and it is
 * copied again. The copy is read from the front until an error and from the back until an error, what is
 * valid goes into a new ledger in the same directory, and only when that is whole and on disk do the names
 * change. The lock on the ledger's directory keeps others from making or rebuilding it meanwhile. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "ledger/sqlite_rebuild.h"

#include "base/banned.h"

enum { TIMEOUT_MS = 30000, ROWS_MAX = 1 << 22 };

const char *const rebuild_suffixes[REBUILD_SUFFIXES] = { "", "-wal", "-shm" };

dibs_status rebuild_os_error(const struct rebuild *r, const char *doing)
{
    return err_os(r->err, DIBS_FAILURE, errno, "rebuilding ledger %s: %s", r->path, doing);
}

dibs_status rebuild_join(char out[REBUILD_PATH_BYTES], const char *a, const char *b)
{
    int n = snprintf(out, REBUILD_PATH_BYTES, "%s%s", a, b);

    return n > 0 && n < REBUILD_PATH_BYTES ? DIBS_OK : DIBS_INVALID;
}

static void remove_work(const char *work)
{
    char name[REBUILD_PATH_BYTES + 16];

    for (size_t i = 0; i < REBUILD_SUFFIXES; i++) {
        (void) snprintf(name, sizeof name, "%s/old%s", work, rebuild_suffixes[i]);
        (void) unlink(name);
        (void) snprintf(name, sizeof name, "%s/new%s", work, rebuild_suffixes[i]);
        (void) unlink(name);
    }
    (void) snprintf(name, sizeof name, "%s/note", work);
    (void) unlink(name);
    (void) rmdir(work);
}

static void rebuild_auto(struct rebuild *r)
{
    if (r->rows)
        sqlite_close_rows(r->rows);
    (void) sqlite3_close(r->damaged.db);
    sqlite_release(&r->live);
    if (r->work[0])
        remove_work(r->work);
}

/* ---- is it damaged? ---- */

static dibs_status not_damaged(const struct rebuild *r)
{
    return err_set(r->err, DIBS_INVALID, "ledger %s is not damaged; it is left as it is", r->path);
}

static dibs_status another_programs(const struct rebuild *r)
{
    return err_set(r->err, DIBS_INVALID, "ledger %s is a database of another program; it is left as it is",
                   r->path);
}

static dibs_status check_version(const struct rebuild *r, uint32_t version)
{
    if (version > INT32_MAX || version / 1000 <= SQLITE_LEDGER_MAJOR)
        return DIBS_OK;
    return err_trouble(r->err, DIBS_TROUBLE_NEWER,
                       "ledger %s has version %u.%u, newer than this dibs; it is left as it is", r->path,
                       version / 1000, version % 1000);
}

static bool has_log(const struct rebuild *r)
{
    char name[REBUILD_PATH_BYTES + 8];
    struct stat st = { 0 };

    (void) snprintf(name, sizeof name, "%s-wal", r->source);
    return stat(name, &st) == 0 && st.st_size > 0;
}

/* By its first bytes alone: *is_certain when they cannot be a ledger's. */
static dibs_status look_at_header(struct rebuild *r, bool *is_certain)
{
    uint8_t header[SQLITE_HEADER_BYTES] = { 0 };
    struct stat st = { 0 };
    AUTO(fd_auto) int fd = open(r->source, O_RDONLY | O_CLOEXEC);

    if (fd < 0 && errno == ENOENT)
        return err_set(r->err, DIBS_NOT_FOUND, "there is no ledger %s", r->path);
    if (fd < 0 || fstat(fd, &st) != 0)
        return rebuild_os_error(r, "cannot open it");
    if (!S_ISREG(st.st_mode))
        return err_set(r->err, DIBS_INVALID, "ledger %s is not a regular file; it is left as it is", r->path);
    if (st.st_size == 0 && !has_log(r) && !r->is_resumed)
        return not_damaged(r);
    ssize_t got = pread(fd, header, sizeof header, 0);
    if (got < 0)
        return rebuild_os_error(r, "cannot read it");
    *is_certain = r->is_resumed || got < SQLITE_HEADER_BYTES || memcmp(header, "SQLite format 3", 16) != 0;
    if (*is_certain)
        return DIBS_OK;
    uint32_t application_id = sqlite_big_endian(header + 68);
    uint32_t version = sqlite_big_endian(header + 60);
    /* Both zero: its first page may still be in the WAL. The copy tells. */
    r->is_marked = application_id == SQLITE_APPLICATION_ID || (application_id == 0 && version == 0);
    return application_id == SQLITE_APPLICATION_ID ? check_version(r, version) : DIBS_OK;
}

static bool ask(sqlite3 *db, const char *sql, int64_t *out)
{
    AUTO(sqlite_finalize_auto) sqlite3_stmt *stmt = NULL;
    bool is_answered =
        sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK && sqlite3_step(stmt) == SQLITE_ROW;

    if (is_answered)
        *out = sqlite3_column_int64(stmt, 0);
    return is_answered;
}

/* The whole structure, and everything that a ledger is used with. Values are quarantine's business. */
static bool is_sound(struct rebuild *r, int64_t version)
{
    char what[SQLITE_WHAT_BYTES];
    int64_t n = 0;
    sqlite3 *db = r->damaged.db;

    (void) sqlite3_exec(db, "PRAGMA ignore_check_constraints=1", NULL, NULL, NULL);
    return ask(db, "SELECT count(*) FROM pragma_integrity_check(1) WHERE integrity_check='ok'", &n) &&
           n == 1 && sqlite_check_tables(db, version, what) == SQLITE_OK &&
           ask(db, "SELECT value FROM meta WHERE key='salt'", &n);
}

static dibs_status check_damaged(struct rebuild *r)
{
    int64_t application_id = 0;
    int64_t version = 0;
    int64_t n_tables = 0;

    if (!ask(r->damaged.db, "PRAGMA application_id", &application_id) ||
        !ask(r->damaged.db, "PRAGMA user_version", &version) ||
        !ask(r->damaged.db, "SELECT count(*) FROM sqlite_master",
             &n_tables)) /* so damaged that it cannot say */
        return r->is_marked ? DIBS_OK : another_programs(r);
    if (application_id == 0 && version == 0 && n_tables == 0)
        return not_damaged(r);
    if (application_id != SQLITE_APPLICATION_ID)
        return sqlite_is_ours(r->damaged.db) ? DIBS_OK : another_programs(r);
    dibs_status s = check_version(r, (uint32_t) version);
    if (s != DIBS_OK || version < 1000)
        return s;
    return is_sound(r, version) ? not_damaged(r) : DIBS_OK;
}

/* The first copy was taken while others wrote. It told that the ledger is ours and seems damaged; now nobody
 * writes, and a second one tells what there is. */
static dibs_status copy_again(struct rebuild *r, bool is_certain)
{
    struct stat st = { 0 };
    char name[REBUILD_PATH_BYTES + 16];

    if (stat(r->source, &st) != 0)
        return rebuild_os_error(r, "cannot look at it");
    if (st.st_size == 0 ||
        r->is_resumed) /* SQLite would delete its log; nobody uses one that was set aside */
        return DIBS_OK;
    dibs_status s = sqlite_hold(&r->live, &r->is_held, r->err);
    if (s != DIBS_OK || !r->is_held)
        return s;
    (void) sqlite3_close(r->damaged.db);
    r->damaged.db = NULL;
    for (size_t i = 0; i < REBUILD_SUFFIXES; i++) {
        (void) snprintf(name, sizeof name, "%s/old%s", r->work, rebuild_suffixes[i]);
        (void) unlink(name);
    }
    s = rebuild_open_copy(r);
    return s == DIBS_OK && !is_certain ? check_damaged(r) : s;
}

/* ---- saving rows ---- */

static void see(struct rebuild *r, int64_t number)
{
    if (number > 0 && number < INT64_MAX / 2 && (uint64_t) number > r->highest)
        r->highest = (uint64_t) number;
}

/* Calls `save` for each row of `sql`, ascending and, when that ends in an error, descending. What cannot be
 * read is what we are here for: it ends a pass, not the rebuild. */
static dibs_status read_both_ways(struct rebuild *r, const char *sql, const char *order,
                                  dibs_status (*save)(struct rebuild *r, sqlite3_stmt *stmt))
{
    dibs_status s = DIBS_OK;
    bool is_whole = false;

    for (int pass = 0; pass < 2 && !is_whole && s == DIBS_OK; pass++) {
        AUTO(sqlite_finalize_auto) sqlite3_stmt *stmt = NULL;
        char text[1024];
        int rc = SQLITE_ERROR;

        (void) snprintf(text, sizeof text, "%s ORDER BY %s%s", sql, order, pass == 0 ? "" : " DESC");
        if (sqlite3_prepare_v2(r->damaged.db, text, -1, &stmt, NULL) == SQLITE_OK)
            for (size_t n = 0; n < ROWS_MAX && s == DIBS_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW; n++)
                s = save(r, stmt);
        is_whole = rc == SQLITE_DONE;
        r->lost_some = r->lost_some || (s == DIBS_OK && !is_whole);
    }
    return s;
}

/* Put the row's columns into the new ledger; one that does not fit its rules is passed over. */
static dibs_status copy_row(struct rebuild *r, sqlite3_stmt *from, const char *insert)
{
    struct sqlite_rows *self = (struct sqlite_rows *) r->rows;
    AUTO(sqlite_finalize_auto) sqlite3_stmt *to = NULL;
    int rc = sqlite3_prepare_v2(self->db, insert, -1, &to, NULL);

    for (int i = 0; i < sqlite3_column_count(from) && rc == SQLITE_OK; i++)
        rc = sqlite3_bind_value(to, i + 1, sqlite3_column_value(from, i));
    if (rc == SQLITE_OK)
        rc = sqlite3_step(to);
    if (rc == SQLITE_DONE || (rc & 0xff) == SQLITE_CONSTRAINT)
        return DIBS_OK;
    return sqlite_error(self, rc, "writing what was readable", r->err);
}

/* One that nobody has yet. Who comes later and has it gets another. */
static dibs_status new_id(struct rebuild *r, dibs_claim *claim)
{
    uint64_t cursor = 0;
    dibs_status s = r->rows->ops->tail(r->rows, &claim->id, &cursor, r->err);

    claim->id++;
    return s;
}

static dibs_status save_claim(struct rebuild *r, sqlite3_stmt *stmt)
{
    struct row_claim row;
    struct row_claim other;
    struct row_name name = { 0 };
    bool is_excluded = false;

    see(r, sqlite3_column_int64(stmt, 0));
    sqlite_load_claim(stmt, &row);
    if (row.claim.is_damaged)
        return DIBS_OK;
    dibs_status s = r->rows->ops->claim_get(r->rows, row.claim.id, &other, r->err);
    if (s == DIBS_OK && row.claim.is_exclusive && memcmp(row.secret, other.secret, sizeof row.secret) != 0)
        s = new_id(r, &row.claim); /* a damaged number is that of another claim: both are readable */
    else if (s != DIBS_NOT_FOUND)
        return s; /* saved by the pass before */
    if (s != DIBS_OK && s != DIBS_NOT_FOUND)
        return s;
    s = sqlite_is_excluded(r->rows, &row.claim, &is_excluded, r->err);
    if (s != DIBS_OK || is_excluded) /* INV-1: the first wins */
        return s;
    if (row.claim.name[0]) {
        s = r->rows->ops->name_get(r->rows, row.claim.principal, row.claim.name, &name, r->err);
        if (s == DIBS_OK)
            row.claim.name[0] = '\0'; /* the name is the first's; the port stays blocked */
        else if (s == DIBS_NOT_FOUND) {
            name = (struct row_name){ row.claim.id, row.claim.port, row.claim.changed_ms, "" };
            memcpy(name.project, row.claim.project, sizeof name.project);
            s = r->rows->ops->name_put(r->rows, row.claim.principal, row.claim.name, &name, r->err);
        }
    }
    if (s == DIBS_OK)
        s = sqlite_put_with_slots(r->rows, &row, r->err);
    r->n_saved += s == DIBS_OK;
    return s;
}

static dibs_status save_slot(struct rebuild *r, sqlite3_stmt *stmt)
{
    struct ledger_slot slot;
    bool is_new = false;

    if (!sqlite_load_slot(stmt, &slot) || slot.claim_id == 0 || slot.claim_id > INT64_MAX / 2 ||
        !slot.is_exclusive)
        return DIBS_OK;
    see(r, (int64_t) slot.claim_id);
    dibs_status s = sqlite_block_slot(r->rows, &slot, &r->keeper, &is_new, r->err);
    r->n_lost += is_new;
    return s;
}

static dibs_status save_name(struct rebuild *r, sqlite3_stmt *stmt)
{
    /* A ledger of version 1.0 has no sixth column, see its migration. Those of claims that were saved are
     * there already. */
    return copy_row(r, stmt,
                    "INSERT OR IGNORE INTO names(principal, name, claim, port, used_ms, project)"
                    " VALUES(?1, ?2, ?3, ?4, ?5, coalesce(?6,"
                    " CASE ?3 WHEN 0 THEN '" SQLITE_UNKNOWN_PROJECT "' ELSE '' END))");
}

static dibs_status save_event(struct rebuild *r, sqlite3_stmt *stmt)
{
    uint64_t cursor = (uint64_t) sqlite3_column_int64(stmt, 1);

    see(r, sqlite3_column_int64(stmt, 0));
    r->cursor = cursor > r->cursor && cursor < INT64_MAX / 2 ? cursor : r->cursor;
    return copy_row(
        r, stmt,
        "INSERT OR IGNORE INTO events VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)");
}

static dibs_status save_quarantined(struct rebuild *r, sqlite3_stmt *stmt)
{
    return copy_row(r, stmt, "INSERT OR IGNORE INTO quarantine VALUES(?1, ?2, ?3, ?4, ?5, ?6)");
}

static bool save_pool(void *ctx, const dibs_pool *pool)
{
    struct rebuild *r = ctx;

    return r->rows->ops->pool_put(r->rows, pool, r->err) == DIBS_OK;
}

/* The same salt: who chose by a name's hash goes on choosing alike. */
static void save_salt(struct rebuild *r)
{
    char sql[96];
    int64_t salt = 0;

    if (!ask(r->damaged.db, "SELECT value FROM meta WHERE key='salt'", &salt))
        return;
    (void) snprintf(sql, sizeof sql, "UPDATE meta SET value=%lld WHERE key='salt'", (long long) salt);
    (void) sqlite3_exec(((struct sqlite_rows *) r->rows)->db, sql, NULL, NULL, NULL);
}

static dibs_status save_beginning(struct rebuild *r)
{
    /* Numbers that were lost with their records must not be given again to followers of the events. */
    enum { MARGIN = 4096 };
    dibs_event event = {
        .seq = r->highest + 1 + (r->lost_some ? MARGIN : 0),
        .time_ms = r->actor->now.wall_ms,
        .kind = DIBS_EV_REPAIRED,
        .actor_uid = r->actor->uid,
        .actor_pid = r->actor->pid,
    };

    (void) text_copy(event.principal, sizeof event.principal, r->actor->principal);
    return r->rows->ops->event_put(r->rows, &event, r->cursor + 1, r->err);
}

static dibs_status save_all(struct rebuild *r)
{
    char claims[1024];
    const char *order = strstr(sqlite_sql_text[SQL_CLAIMS], " WHERE");
    int length = order ? (int) (order - sqlite_sql_text[SQL_CLAIMS]) : 0;
    dibs_status s = r->rows->ops->begin(r->rows, true, true, r->err);

    /* With this, and only with it, SQLite reads a file that is shorter than its header says. */
    (void) sqlite3_exec(r->damaged.db, "PRAGMA writable_schema=ON", NULL, NULL, NULL);
    (void) snprintf(claims, sizeof claims, "%.*s", length, sqlite_sql_text[SQL_CLAIMS]);
    if (s == DIBS_OK)
        s = read_both_ways(r, claims, "id", save_claim);
    if (s == DIBS_OK)
        s = read_both_ways(r, sqlite_sql_text[SQL_SLOTS_ALL], "proto, port", save_slot);
    if (s == DIBS_OK)
        s = read_both_ways(r, "SELECT * FROM names", "principal, name", save_name);
    if (s == DIBS_OK)
        s = sqlite_match_names(r->rows, r->err);
    if (s == DIBS_OK)
        s = read_both_ways(r, "SELECT * FROM events", "seq", save_event);
    if (s == DIBS_OK)
        s = read_both_ways(r, "SELECT * FROM quarantine", "id", save_quarantined);
    if (s == DIBS_OK) /* what cannot be read of them is lost */
        (void) rows_sqlite_ops.pools(&r->damaged.base, save_pool, r, NULL);
    for (size_t i = 0; i < SQL_COUNT; i++) {
        (void) sqlite3_finalize(r->damaged.stmt[i]);
        r->damaged.stmt[i] = NULL;
    }
    save_salt(r);
    if (s == DIBS_OK)
        s = save_beginning(r);
    if (s == DIBS_OK)
        s = r->rows->ops->commit(r->rows, r->err);
    else
        r->rows->ops->rollback(r->rows);
    return s;
}

/* ---- all of it ---- */

static void closedir_auto(DIR **dir)
{
    if (*dir)
        (void) closedir(*dir);
}

static void directory_of(const char *path, char dir[REBUILD_PATH_BYTES])
{
    (void) text_copy(dir, REBUILD_PATH_BYTES, strchr(path, '/') ? path : ".");
    char *slash = strrchr(dir, '/');
    if (slash)
        slash[slash == dir ? 1 : 0] = '\0';
}

/* Of rebuilds that were killed; the lock on the directory tells that none is under way. */
static void remove_left_behind(const char *path, const char *where)
{
    enum { ENTRIES_MAX = 100000 };
    AUTO(closedir_auto) DIR *dir = opendir(where);
    const char *slash = strrchr(path, '/');
    char prefix[REBUILD_PATH_BYTES + 16];
    char name[REBUILD_PATH_BYTES];
    const struct dirent *entry = NULL;

    (void) snprintf(prefix, sizeof prefix, "%s.rebuild-", slash ? slash + 1 : path);
    for (int i = 0; dir && i < ENTRIES_MAX && (entry = readdir(dir)) != NULL; i++)
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 &&
            snprintf(name, sizeof name, "%s/%s", where, entry->d_name) < (int) sizeof name)
            remove_work(name);
}

void sqlite_tidy(const struct sqlite_rows *self)
{
    char dir[REBUILD_PATH_BYTES];

    directory_of(self->path, dir);
    AUTO(fd_auto) int lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0)
        remove_left_behind(self->path, dir);
}

static dibs_status make_work_directory(struct rebuild *r)
{
    if (snprintf(r->work, sizeof r->work, "%s.rebuild-XXXXXX", r->path) >= (int) sizeof r->work - 16) {
        r->work[0] = '\0';
        return err_set(r->err, DIBS_INVALID, "ledger %s: its path is too long", r->path);
    }
    if (!mkdtemp(r->work)) {
        r->work[0] = '\0';
        return rebuild_os_error(r, "cannot make a directory beside it");
    }
    return rebuild_join(r->new_path, r->work, "/new");
}

static dibs_status prepare(struct rebuild *r, const char *rest, int *lock)
{
    if (!rest[0] || !text_copy(r->path, sizeof r->path, rest))
        return err_set(r->err, DIBS_INVALID, "ledger 'sqlite:%.80s': the path must have 1 to %d bytes", rest,
                       REBUILD_PATH_BYTES - 1);
    sqlite_resolve(r->path);
    directory_of(r->path, r->dir);
    r->damaged.timeout_ms = r->live.timeout_ms = TIMEOUT_MS;
    (void) text_copy(r->damaged.path, sizeof r->damaged.path, r->path);
    (void) text_copy(r->live.path, sizeof r->live.path, r->path);
    sqlite_start_deadline(&r->damaged);
    sqlite_start_deadline(&r->live);
    dibs_status s = sqlite_lock_directory(&r->damaged, r->dir, lock, r->err);
    (void) text_copy(r->source, sizeof r->source, r->path);
    if (s == DIBS_OK)
        rebuild_resume(r);
    return s;
}

dibs_status sqlite_rebuild_rows(const char *rest, const struct ledger_actor *actor,
                                struct ledger_rebuilt *out, dibs_err *err)
{
    const struct ledger_options options = { .is_sync_full = true, .timeout_ms = TIMEOUT_MS };
    AUTO(fd_auto) int lock = -1; /* goes last */
    AUTO(rebuild_auto) struct rebuild r = { .actor = actor, .err = err };
    bool is_certain = false;
    dibs_status s = prepare(&r, rest, &lock);

    sqlite_keeper_of(r.source, actor, &r.keeper);
    if (s == DIBS_OK)
        s = look_at_header(&r, &is_certain);
    if (s == DIBS_OK) {
        remove_left_behind(r.path, r.dir);
        s = make_work_directory(&r);
    }
    if (s == DIBS_OK)
        s = rebuild_open_copy(&r);
    if (s == DIBS_OK && !is_certain)
        s = check_damaged(&r);
    if (s == DIBS_OK)
        s = copy_again(&r, is_certain);
    if (s == DIBS_OK)
        s = sqlite_open_rows(r.new_path, &options, &r.rows, err);
    if (s == DIBS_OK)
        s = save_all(&r);
    if (s == DIBS_OK)
        s = rebuild_finish(&r);
    if (s == DIBS_OK)
        s = rebuild_swap(&r);
    if (s != DIBS_OK)
        return s;
    *out = (struct ledger_rebuilt){ .n_saved = r.n_saved, .n_lost = r.n_lost };
    (void) text_copy(out->aside, sizeof out->aside, r.name);
    return DIBS_OK;
}
