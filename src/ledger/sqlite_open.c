/* SPDX-License-Identifier: MIT */
/* Opening a SQLite ledger: who made it, which version, and how it waits.
 *
 * WAL with synchronous=NORMAL: a commit survives the death of any process; FULL (kept claims) also power
 * loss. A short-lived process leaves a small WAL behind instead of paying a checkpoint and its fsyncs at
 * every exit; the next one recovers it in microseconds. CHECKPOINT_FRAMES keeps it small. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "ledger/sqlite.h"

#include "base/banned.h"

enum { CHECKPOINT_FRAMES = 48 };

void sqlite_start_deadline(struct sqlite_rows *self)
{
    self->deadline_ms = clock_monotonic_ms() + self->timeout_ms;
    sqlite_vfs_deadline(self->deadline_ms);
}

/* Until when one waits is fixed; how often one asks depends on how long one has waited: each pause is a
 * random part of a quarter of that, up to a bound. So a short wait is met within a moment, and a crowd of a
 * thousand does not spend both cores with asking (as it did at pauses of up to 10 and of up to 25 ms, keeping
 * the one who held the lock from running). */
static void pause_waiting(const struct sqlite_rows *self, int64_t since_ms)
{
    enum { SHORTEST_US = 200, LONGEST_US = 100000 };
    int64_t now_ms = clock_monotonic_ms();
    int64_t left_us = (self->deadline_ms - now_ms) * 1000;
    int64_t ceiling_us = (now_ms - since_ms) * 1000 / 4;
    uint32_t noise = 0;

    if (getrandom(&noise, sizeof noise, GRND_NONBLOCK) < 0)
        noise = (uint32_t) now_ms * 2654435761u;
    ceiling_us = ceiling_us < SHORTEST_US ? SHORTEST_US : ceiling_us > LONGEST_US ? LONGEST_US : ceiling_us;
    int64_t pause_us = ceiling_us / 4 + noise % (uint32_t) ceiling_us;
    if (pause_us > left_us)
        pause_us = left_us > 0 ? left_us : 0; /* ask once more at the very end */
    struct timespec pause = { .tv_sec = pause_us / 1000000, .tv_nsec = (long) (pause_us % 1000000) * 1000 };
    (void) nanosleep(&pause, NULL);
}

/* SQLite's own handler backs off to 100 ms at once and is unfair. */
static int wait_for_lock(void *ctx, int tries)
{
    struct sqlite_rows *self = ctx;
    int64_t now_ms = clock_monotonic_ms();

    if (tries == 0)
        self->waits_since_ms = now_ms;
    if (now_ms >= self->deadline_ms)
        return 0;
    pause_waiting(self, self->waits_since_ms);
    return 1;
}

/* ---- what it is ---- */

/* Its marks are not ours. Are its tables? */
static dibs_status foreign(const struct sqlite_rows *self, sqlite3 *db, dibs_err *err)
{
    if (sqlite_is_ours(db))
        return sqlite_damaged(self, "the marks of a ledger are gone from it", err);
    return err_trouble(err, DIBS_TROUBLE_DAMAGED,
                       "ledger %s: this is an SQLite database of another program; it is left as it is. "
                       "Name another place with DIBS_LEDGER",
                       self->path);
}

/* Of a file with the marks of a ledger, or with none: new, or its first page is still in the WAL. */
static dibs_status check_version(const struct sqlite_rows *self, uint32_t version, dibs_err *err)
{
    char what[64];

    if (version <= INT32_MAX && version / 1000 > SQLITE_LEDGER_MAJOR)
        return err_trouble(
            err, DIBS_TROUBLE_NEWER,
            "ledger %s: it has version %u.%u, and this dibs reads up to %d.x; it is left as it is. "
            "Use a newer dibs, or another place with DIBS_LEDGER",
            self->path, version / 1000, version % 1000, SQLITE_LEDGER_MAJOR);
    if (version <= INT32_MAX && version >= 1000)
        return DIBS_OK;
    (void) snprintf(what, sizeof what, "no ledger has the version %d", (int32_t) version);
    return sqlite_damaged(self, what, err);
}

static bool has_log(const struct sqlite_rows *self)
{
    char name[sizeof self->path + 8];
    struct stat st = { 0 };

    (void) snprintf(name, sizeof name, "%s-wal", self->path);
    return stat(name, &st) == 0 && st.st_size > 0;
}

/* The file's first bytes, zeros where it ends early. Through SQLite's own file layer: a close() of ours would
 * drop the locks that another connection of this process has on the file. */
static int read_header(const struct sqlite_rows *self, uint8_t header[SQLITE_HEADER_BYTES], int *os_errno)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    AUTO(free_auto) sqlite3_file *file = vfs ? calloc(1, (size_t) vfs->szOsFile) : NULL;
    sqlite3_filename name = sqlite3_create_filename(self->path, "", "", 0, NULL);
    int rc = SQLITE_NOMEM;

    if (file && name)
        rc = vfs->xOpen(vfs, name, file, SQLITE_OPEN_READONLY | SQLITE_OPEN_MAIN_DB, NULL);
    if (rc == SQLITE_OK)
        rc = file->pMethods->xRead(file, header, SQLITE_HEADER_BYTES, 0);
    *os_errno = errno;
    if (file && file->pMethods)
        (void) file->pMethods->xClose(file);
    sqlite3_free_filename(name);
    return rc == SQLITE_IOERR_SHORT_READ ? SQLITE_OK : rc;
}

/* As it lies, without its log, and without leaving a trace in it or beside it. */
static dibs_status look_inside(const struct sqlite_rows *self, dibs_err *err)
{
    char uri[SQLITE_URI_BYTES];
    sqlite3 *db = NULL;
    int rc = sqlite3_open_v2(sqlite_uri(self->path, "immutable=1", uri), &db,
                             SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, sqlite_vfs());
    dibs_status s =
        rc == SQLITE_OK ? foreign(self, db, err) : sqlite_tell(self, rc, 0, "cannot read it", err);

    (void) sqlite3_close(db);
    return s;
}

/* A file that is not there is made, readable by its owner alone. */
static dibs_status make_file(const struct sqlite_rows *self, dibs_err *err)
{
    AUTO(fd_auto) int fd = open(self->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    return fd >= 0 || errno == EEXIST ? DIBS_OK : sqlite_os_error(self, "cannot make it", errno, err);
}

/* Looks at the bare file before SQLite opens it, so that what is not ours is not touched in any way. */
static dibs_status look_at_file(struct sqlite_rows *self, dibs_err *err)
{
    uint8_t header[SQLITE_HEADER_BYTES] = { 0 };
    struct stat st = { 0 };

    if (stat(self->path, &st) != 0) {
        if (errno != ENOENT || self->access != SQLITE_WRITES)
            return sqlite_os_error(self, "cannot open it", errno, err);
        return make_file(self, err);
    }
    if (!S_ISREG(st.st_mode))
        return err_trouble(err, DIBS_TROUBLE_DAMAGED,
                           "ledger %s: it is not a regular file; name another place with DIBS_LEDGER",
                           self->path);
    if (faccessat(AT_FDCWD, self->path, self->access == SQLITE_WRITES ? R_OK | W_OK : R_OK, AT_EACCESS) != 0)
        return sqlite_os_error(self, "cannot open it", errno, err);
    /* SQLite would take an empty file for a new one and throw its log away. Never so by itself: the log is
     * begun after the file. */
    if (st.st_size == 0 && !has_log(self))
        return DIBS_OK;
    int os_errno = 0;
    int rc = read_header(self, header, &os_errno);
    if (rc != SQLITE_OK)
        return sqlite_tell(self, rc, os_errno, "cannot read it", err);
    if (memcmp(header, "SQLite format 3", 16) != 0)
        return err_trouble(err, DIBS_TROUBLE_DAMAGED,
                           "ledger %s: it is not a ledger or its beginning is damaged; %s", self->path,
                           sqlite_advice(DIBS_TROUBLE_DAMAGED));
    uint32_t application_id = sqlite_big_endian(header + 68);
    uint32_t version = sqlite_big_endian(header + 60);
    if (application_id == SQLITE_APPLICATION_ID)
        return check_version(self, version, err);
    return application_id == 0 && version == 0 ? DIBS_OK : look_inside(self, err);
}

static dibs_status exec(struct sqlite_rows *self, const char *sql, const char *doing, dibs_err *err)
{
    int rc = sqlite3_exec(self->db, sql, NULL, NULL, NULL);

    return rc == SQLITE_OK ? DIBS_OK : sqlite_error(self, rc, doing, err);
}

static dibs_status get_int(struct sqlite_rows *self, const char *sql, int64_t *out, dibs_err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(self->db, sql, -1, &stmt, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        *out = sqlite3_column_int64(stmt, 0);
    (void) sqlite3_finalize(stmt);
    if (rc == SQLITE_DONE)
        return sqlite_damaged(self, "a value is missing", err);
    return rc == SQLITE_ROW ? DIBS_OK : sqlite_error(self, rc, "reading", err);
}

/* One process makes or migrates the ledger; the others wait at a lock on its directory, within the deadline.
 */
dibs_status sqlite_lock_directory(const struct sqlite_rows *self, const char *dir, int *out, dibs_err *err)
{
    AUTO(fd_auto) int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int64_t since_ms = clock_monotonic_ms();

    if (fd < 0)
        return sqlite_os_error(self, "cannot open its directory", errno, err);
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return sqlite_os_error(self, "cannot lock its directory", errno, err);
        if (clock_monotonic_ms() >= self->deadline_ms)
            return err_trouble(err, DIBS_TROUBLE_LOCKED, "ledger %s: another process is making it; %s",
                               self->path, sqlite_advice(DIBS_TROUBLE_LOCKED));
        pause_waiting(self, since_ms);
    }
    *out = fd_take(&fd);
    return DIBS_OK;
}

static dibs_status make_or_migrate(struct sqlite_rows *self, const char *dir, int64_t *version, dibs_err *err)
{
    AUTO(fd_auto) int lock = -1;
    int64_t n_foreign = 0;
    dibs_status s = sqlite_lock_directory(self, dir, &lock, err);

    /* Tables without a version: of a program that marks its files with nothing. Seen before anything is
     * written. */
    if (s == DIBS_OK)
        s = get_int(
            self,
            "SELECT count(*) FROM sqlite_master WHERE (SELECT user_version FROM pragma_user_version) = 0",
            &n_foreign, err);
    if (s == DIBS_OK && n_foreign > 0)
        s = foreign(self, self->db, err);
    if (s == DIBS_OK)
        s = exec(self, "PRAGMA journal_mode=WAL", "switching to WAL", err);
    if (s == DIBS_OK)
        s = exec(self, "BEGIN IMMEDIATE", "locking it", err);
    if (s != DIBS_OK)
        return s;
    if (sqlite_has_moved(self)) /* nothing is written to a file that was set aside */
        s = err_trouble(err, DIBS_TROUBLE_LOCKED, "ledger %s: it was replaced meanwhile; try again",
                        self->path);
    if (s == DIBS_OK)
        s = get_int(self, "PRAGMA user_version", version, err);
    if (s == DIBS_OK && *version < SQLITE_LEDGER_VERSION) {
        s = sqlite_migrate(self, *version, err);
        *version = SQLITE_LEDGER_VERSION;
    }
    if (s == DIBS_OK)
        s = exec(self, "COMMIT", "committing its tables", err);
    if (s != DIBS_OK)
        (void) sqlite3_exec(self->db, "ROLLBACK", NULL, NULL, NULL);
    return s;
}

dibs_status sqlite_connect(struct sqlite_rows *self, dibs_err *err)
{
    char uri[SQLITE_URI_BYTES];
    const char *name = self->path;
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE |
                (self->access == SQLITE_WRITES ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY);

    if (self->access == SQLITE_READS_FILE) {
        name = sqlite_uri(self->path, "immutable=1", uri);
        flags |= SQLITE_OPEN_URI;
    }
    int rc = sqlite3_open_v2(name, &self->db, flags, sqlite_vfs());

    if (rc != SQLITE_OK)
        return sqlite_error(self, rc, "opening", err);
    (void) sqlite3_db_config(self->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    (void) sqlite3_db_config(self->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    (void) sqlite3_busy_handler(self->db, wait_for_lock, self);
    return DIBS_OK;
}

/* Passive checkpoints never wait, and their failure harms nothing; but under steady load they never let the
 * log start again from its beginning. When it has grown far, one commit waits a moment for the readers to
 * leave. */
static int note_wal(void *ctx, sqlite3 *db, const char *name, int frames)
{
    struct sqlite_rows *self = ctx;
    enum { PASSIVE_FRAMES = 1000, RESTART_FRAMES = 8000, RESTART_WAIT_MS = 50 };

    self->wal_frames = frames;
    if (frames < PASSIVE_FRAMES || (self->beside && sqlite_beside_does(self->beside, frames)))
        return SQLITE_OK;
    int64_t deadline_ms = self->deadline_ms;
    self->deadline_ms = clock_monotonic_ms() + RESTART_WAIT_MS;
    (void) sqlite3_wal_checkpoint_v2(
        db, name, frames < RESTART_FRAMES ? SQLITE_CHECKPOINT_PASSIVE : SQLITE_CHECKPOINT_RESTART, NULL,
        NULL);
    self->deadline_ms = deadline_ms; /* the call goes on */
    return SQLITE_OK;
}

static void disconnect(struct sqlite_rows *self)
{
    for (size_t i = 0; i < SQL_COUNT; i++) {
        (void) sqlite3_finalize(self->stmt[i]);
        self->stmt[i] = NULL;
    }
    (void) sqlite3_close(self->db);
    self->db = NULL;
    self->is_full = false;
    self->wal_frames = 0;
}

/* Again, through SQLite: the first page in the log is newer than that in the file. Both marks in one look:
 * somebody may be making the ledger at this moment. */
static dibs_status check_marks(struct sqlite_rows *self, int64_t *version, dibs_err *err)
{
    int64_t application_id = 0;
    dibs_status s = exec(self, "BEGIN", "reading", err);

    if (s == DIBS_OK)
        s = get_int(self, "PRAGMA user_version", version, err);
    if (s == DIBS_OK)
        s = get_int(self, "PRAGMA application_id", &application_id, err);
    if (s == DIBS_OK)
        s = exec(self, "COMMIT", "reading", err);
    if (s != DIBS_OK || (application_id == 0 && *version == 0))
        return s; /* a new one */
    return application_id == SQLITE_APPLICATION_ID ? check_version(self, (uint32_t) *version, err)
                                                   : foreign(self, self->db, err);
}

static dibs_status check_tables(struct sqlite_rows *self, int64_t version, dibs_err *err)
{
    char what[SQLITE_WHAT_BYTES];
    int rc = sqlite_check_tables(self->db, version, what);

    if (what[0])
        return sqlite_damaged(self, what, err);
    return rc == SQLITE_OK ? DIBS_OK : sqlite_error(self, rc, "reading its tables", err);
}

/* Of one that we cannot change: not made yet, or too old for our statements. */
static dibs_status check_readable(const struct sqlite_rows *self, dibs_err *err)
{
    if (self->version >= SQLITE_READABLE_VERSION)
        return DIBS_OK;
    if (self->version == 0)
        return err_trouble(err, DIBS_TROUBLE_UNWRITABLE, "ledger %s: who may write it must open it first",
                           self->path);
    return err_trouble(err, DIBS_TROUBLE_UNWRITABLE,
                       "ledger %s: it has the old version %d.%d, and can only be read after somebody who may "
                       "write it has opened it once, as with 'dibs ls'",
                       self->path, (int) (self->version / 1000), (int) (self->version % 1000));
}

static dibs_status open_file(struct sqlite_rows *self, const char *dir, dibs_err *err)
{
    int64_t salt = 0;
    dibs_status s = look_at_file(self, err);

    self->version = 0;
    if (s == DIBS_OK)
        s = sqlite_connect(self, err);
    if (s == DIBS_OK)
        s = check_marks(self, &self->version, err);
    if (s == DIBS_OK && self->access == SQLITE_WRITES && self->version < SQLITE_LEDGER_VERSION)
        s = make_or_migrate(self, dir, &self->version, err);
    if (s == DIBS_OK)
        s = check_readable(self, err);
    if (s == DIBS_OK)
        s = check_tables(self, self->version, err);
    if (s == DIBS_OK)
        s = exec(self, "PRAGMA synchronous=NORMAL", "configuring", err);
    if (s == DIBS_OK)
        s = get_int(self, "SELECT value FROM meta WHERE key='salt'", &salt, err);
    if (s != DIBS_OK)
        return s;
    self->salt = (uint64_t) salt;
    (void) sqlite3_wal_hook(self->db, note_wal, self);
    return DIBS_OK;
}

/* Who may not write may still look. SQLite reads beside writers when the log's index is there; without a log
 * the file alone is the ledger. A log without its index, where none can be made, nobody can read. */
static dibs_status open_to_read(struct sqlite_rows *self, const char *dir, dibs_err *err)
{
    dibs_err trouble = { 0 };

    for (self->access = SQLITE_READS; self->access <= SQLITE_READS_FILE; self->access++) {
        if (self->access == SQLITE_READS_FILE && has_log(self))
            break;
        disconnect(self);
        dibs_status s = open_file(self, dir, &trouble);
        if (s == DIBS_OK)
            return DIBS_OK;
        bool is_too_old = self->version != 0 && self->version < SQLITE_READABLE_VERSION;
        if (!is_too_old &&
            (trouble.trouble == DIBS_TROUBLE_UNWRITABLE || trouble.trouble == DIBS_TROUBLE_MISSING))
            continue;
        if (err)
            *err = trouble; /* damaged or newer: whoever has it open for writing would say so, too */
        return s;
    }
    if (err)
        *err = self->why_read_only;
    return DIBS_UNAVAILABLE;
}

static dibs_status open_as_can_be(struct sqlite_rows *self, const char *dir, dibs_err *err)
{
    dibs_err *why = &self->why_read_only;
    dibs_status s = DIBS_OK;

    memset(why, 0, sizeof *why);
    self->access = SQLITE_WRITES;
    s = open_file(self, dir, why);
    if (s != DIBS_OK && why->trouble == DIBS_TROUBLE_UNWRITABLE)
        return open_to_read(self, dir, err);
    if (s != DIBS_OK && err)
        *err = *why;
    return s;
}

/* Once more when a rebuild replaced it on the way: what was read then may be of two files. */
dibs_status sqlite_reopen(struct sqlite_rows *self, dibs_err *err)
{
    char dir[1024];

    disconnect(self);
    sqlite_resolve(self->path);
    dibs_status s = sqlite_refuse_dangling(self, err);
    if (s == DIBS_OK)
        s = sqlite_make_parents(self, dir, err);
    if (s == DIBS_OK)
        s = sqlite_refuse_remote(self, dir, err);
    if (s == DIBS_OK)
        s = open_as_can_be(self, dir, err);
    if (sqlite_has_moved(self)) {
        disconnect(self);
        s = open_as_can_be(self, dir, err);
    }
    if (s == DIBS_OK)
        sqlite_resolve(self->path); /* for one just made: its name must outlive a chdir() */
    else
        disconnect(self);
    return s;
}

dibs_status sqlite_open_rows(const char *rest, const struct ledger_options *options, struct rows **out,
                             dibs_err *err)
{
    struct sqlite_rows *self = calloc(1, sizeof *self);

    if (!self)
        return err_set(err, DIBS_FAILURE, "opening the ledger: out of memory");
    self->base.ops = &rows_sqlite_ops;
    self->timeout_ms = options->timeout_ms;
    sqlite_start_deadline(self);
    dibs_status s = DIBS_OK;
    if (!rest[0] || !text_copy(self->path, sizeof self->path, rest))
        s = err_set(err, DIBS_INVALID, "ledger 'sqlite:%.80s': the path must have 1 to %zu bytes", rest,
                    sizeof self->path - 1);
    if (s == DIBS_OK)
        s = sqlite_reopen(self, err);
    if (s != DIBS_OK) {
        sqlite_close_rows(&self->base);
        return s;
    }
    *out = &self->base;
    return DIBS_OK;
}

void sqlite_close_rows(struct rows *rows)
{
    struct sqlite_rows *self = (struct sqlite_rows *) rows;

    if (!self)
        return;
    sqlite_beside_stop(self->beside);
    for (size_t i = 0; i < SQL_COUNT; i++) {
        (void) sqlite3_finalize(self->stmt[i]);
        self->stmt[i] = NULL;
    }
    if (self->db && self->wal_frames >= CHECKPOINT_FRAMES && !sqlite_has_moved(self)) {
        /* A checkpoint must not make an exit wait for others: no busy handler. It empties the log: where
         * processes follow each other, each one reads the log anew, knows nothing of earlier checkpoints and
         * appends, so that a passive one would let it grow for ever. */
        (void) sqlite3_busy_handler(self->db, NULL, NULL);
        (void) sqlite3_wal_checkpoint_v2(self->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    }
    disconnect(self);
    free(self);
}
