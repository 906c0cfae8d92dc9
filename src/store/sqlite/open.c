/* SPDX-License-Identifier: MIT */
/* Open a SQLite ledger: find its file, check owner and version, and wait for its lock.
 *
 * A short-lived process leaves a small WAL behind instead of paying a checkpoint and its fsyncs at every
 * exit; the next one recovers it in microseconds. CHECKPOINT_FRAMES keeps it small. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/directory.h"
#include "base/err.h"
#include "base/jitter.h"
#include "base/text.h"
#include "store/sqlite/sqlite_store.h"

#include "base/banned.h"

enum { CHECKPOINT_FRAMES = 48 };

void sqlite_set_deadline(struct sqlite_store *self, int64_t deadline_ms)
{
    self->deadline_ms = deadline_ms ? deadline_ms : clock_monotonic_ms() + self->timeout_ms;
    sqlite_vfs_deadline(self->deadline_ms);
}

/* Sleep before the next attempt to get a lock: a random part of a quarter of the time waited so far, limited.
 * With pauses of up to 10 or 25 ms a thousand waiting processes kept the lock's holder from running. */
static void pause_waiting(const struct sqlite_store *self, int64_t since_ms)
{
    enum { SHORTEST_US = 200, LONGEST_US = 100000 };
    int64_t now_ms = clock_monotonic_ms();
    int64_t left_us = (self->deadline_ms - now_ms) * 1000;
    int64_t ceiling_us = (now_ms - since_ms) * 1000 / 4;

    ceiling_us = ceiling_us < SHORTEST_US ? SHORTEST_US : ceiling_us > LONGEST_US ? LONGEST_US : ceiling_us;
    int64_t pause_us = ceiling_us / 4 + jitter_random() % (uint32_t) ceiling_us;
    if (pause_us > left_us)
        pause_us = left_us > 0 ? left_us : 0; /* make one last attempt at the deadline */
    struct timespec pause = { .tv_sec = pause_us / 1000000, .tv_nsec = (long) (pause_us % 1000000) * 1000 };
    (void) nanosleep(&pause, NULL);
}

/* Wait for a lock. SQLite's own handler backs off to 100 ms at once and is unfair. */
static int wait_for_lock(void *ctx, int tries)
{
    struct sqlite_store *self = ctx;
    int64_t now_ms = clock_monotonic_ms();

    if (tries == 0)
        self->waits_since_ms = now_ms;
    if (now_ms >= self->deadline_ms)
        return 0;
    pause_waiting(self, self->waits_since_ms);
    return 1;
}

/* Write the URI that opens `path` as an immutable file, and return it. */
#define URI_BYTES (3 * 1024 + 64)
static const char *bare_uri(const char *path, char out[URI_BYTES])
{
    size_t n = (size_t) snprintf(out, URI_BYTES, "file:");

    for (; *path; path++) {
        bool is_plain = *path != '%' && *path != '?' && *path != '#';

        n += (size_t) snprintf(out + n, URI_BYTES - n, is_plain ? "%c" : "%%%02x", (unsigned char) *path);
    }
    (void) snprintf(out + n, URI_BYTES - n, "?immutable=1");
    return out;
}

void sqlite_resolve(char path[1024])
{
    AUTO(free_auto) char *resolved = realpath(path, NULL);

    if (resolved && strlen(resolved) < 1024)
        (void) text_copy(path, 1024, resolved);
}

/* Refuse a dangling link: the ledger would be created in a place that the user has not named. */
static dibs_status refuse_dangling(const struct sqlite_store *self, dibs_err *err)
{
    struct stat st = { 0 };

    if (lstat(self->path, &st) != 0 || !S_ISLNK(st.st_mode) || stat(self->path, &st) == 0 || errno != ENOENT)
        return DIBS_OK;
    return err_trouble(
        err, DIBS_TROUBLE_MISSING,
        "ledger %s: it is a symbolic link to something that is not there; make that, or remove "
        "the link",
        self->path);
}

/* Refuse file systems that several hosts may share: the boot id of another host looks like an earlier boot of
 * ours, and WAL needs shared memory. FUSE cannot be distinguished from sshfs, so it is refused as well. */
static dibs_status refuse_remote(const struct sqlite_store *self, const char *dir, dibs_err *err)
{
    static const struct {
        unsigned long magic;
        const char *name;
    } remote[] = {
        { NFS_SUPER_MAGIC, "NFS" },   { SMB_SUPER_MAGIC, "SMB" },     { 0xff534d42ul, "CIFS" },
        { 0xfe534d42ul, "SMB2" },     { CODA_SUPER_MAGIC, "Coda" },   { AFS_SUPER_MAGIC, "AFS" },
        { AFS_FS_MAGIC, "AFS" },      { CEPH_SUPER_MAGIC, "Ceph" },   { V9FS_MAGIC, "9p" },
        { FUSE_SUPER_MAGIC, "FUSE" }, { OCFS2_SUPER_MAGIC, "OCFS2" }, { 0x01161970ul, "GFS2" },
        { 0x0bd00bd0ul, "Lustre" },   { 0x47504653ul, "GPFS" },       { 0x19830326ul, "BeeGFS" },
    };
    struct statfs fs;

    if (statfs(dir, &fs) != 0)
        return sqlite_os_error(self, "cannot look at its file system", errno, err);
    for (size_t i = 0; i < sizeof remote / sizeof remote[0]; i++)
        if ((unsigned long) fs.f_type == remote[i].magic)
            return err_trouble(
                err, DIBS_TROUBLE_REMOTE,
                "ledger %s: it lies on a network file system (%s), which other hosts may share; "
                "name a local place with DIBS_LEDGER",
                self->path, remote[i].name);
    return DIBS_OK;
}

/* Refuse a file that is mounted by itself, as into a container: its log would be another one than that of the
 * same ledger at its first place, and neither would see the other's claims. */
static dibs_status refuse_lone_mount(const struct sqlite_store *self, dibs_err *err)
{
    struct statx sx = { 0 };

    if (statx(AT_FDCWD, self->path, 0, 0, &sx) != 0 || S_ISDIR(sx.stx_mode) ||
        !(sx.stx_attributes_mask & sx.stx_attributes & STATX_ATTR_MOUNT_ROOT))
        return DIBS_OK;
    return err_trouble(err, DIBS_TROUBLE_NONE,
                       "ledger %s: this file is mounted by itself, without the log beside it that has its "
                       "newest claims; mount its directory instead",
                       self->path);
}

/* Create the missing directories of the ledger, private, and refuse a place that is not local. */
static dibs_status prepare_place(const struct sqlite_store *self, char dir[1024], dibs_err *err)
{
    dibs_status s = refuse_dangling(self, err);

    if (s == DIBS_OK)
        s = refuse_lone_mount(self, err);
    if (s != DIBS_OK)
        return s;
    (void) directory_of(self->path, dir, 1024);
    int failed = directory_make(dir, 0700);
    if (failed != 0)
        s = sqlite_os_error(self, "cannot make its directory", failed, err);
    return s == DIBS_OK ? refuse_remote(self, dir, err) : s;
}

/* Report a file whose application id is not ours, though its tables may be. */
static dibs_status foreign(const struct sqlite_store *self, sqlite3 *db, dibs_err *err)
{
    if (sqlite_is_ours(db))
        return sqlite_damaged(self, "the marks of a ledger are gone from it", err);
    return err_trouble(err, DIBS_TROUBLE_DAMAGED,
                       "ledger %s: this is an SQLite database of another program; it is left as it is. "
                       "Name another place with DIBS_LEDGER",
                       self->path);
}

dibs_status sqlite_check_version(const struct sqlite_store *self, uint32_t version, dibs_err *err)
{
    char what[64];

    if (version <= INT32_MAX && version / 1000 > SQLITE_LEDGER_MAJOR)
        return err_trouble(
            err, DIBS_TROUBLE_NEWER,
            "ledger %s: it has version %u.%u, and this dibs reads up to %d.x; it is left as it is. "
            "Use a newer dibs, or another place with DIBS_LEDGER",
            self->path, version / 1000, version % 1000, SQLITE_LEDGER_MAJOR);
    if (version <= INT32_MAX && version >= SQLITE_OLDEST_VERSION)
        return DIBS_OK;
    (void) snprintf(what, sizeof what, "it has the unknown version %d", (int32_t) version);
    return sqlite_damaged(self, what, err);
}

bool sqlite_has_log(const struct sqlite_store *self)
{
    char name[sizeof self->path + 8];
    struct stat st = { 0 };

    (void) snprintf(name, sizeof name, "%s-wal", self->path);
    return stat(name, &st) == 0 && st.st_size > 0;
}

/* Read the file's first bytes, zeros where it ends early. This uses SQLite's own file layer: a close() of
 * ours would drop the locks that another connection of this process has on the file. */
int sqlite_read_header(const struct sqlite_store *self, uint8_t header[SQLITE_HEADER_BYTES], int *os_errno)
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

/* Check the tables without the log, and without changing a file. */
static dibs_status check_bare_tables(const struct sqlite_store *self, dibs_err *err)
{
    char uri[URI_BYTES];
    sqlite3 *db = NULL;
    int rc = sqlite3_open_v2(bare_uri(self->path, uri), &db,
                             SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, sqlite_vfs());
    dibs_status s =
        rc == SQLITE_OK ? foreign(self, db, err) : sqlite_error_of(self, rc, 0, "cannot read it", err);

    (void) sqlite3_close(db);
    return s;
}

dibs_status sqlite_removed(const struct sqlite_store *self, const char *what, dibs_err *err)
{
    return err_trouble(err, DIBS_TROUBLE_DAMAGED,
                       "ledger %s: %s was removed while it was in use; bring it back, or stop every process "
                       "that uses it and run 'dibs doctor --fix'",
                       self->path, what);
}

/* Create the file, readable by its owner only. */
static dibs_status make_file(const struct sqlite_store *self, dibs_err *err)
{
    AUTO(fd_auto) int fd = open(self->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    return fd >= 0 || errno == EEXIST ? DIBS_OK : sqlite_os_error(self, "cannot make it", errno, err);
}

/* Check the bare file before SQLite opens it, so that a foreign file is not touched in any way. */
static dibs_status check_file(struct sqlite_store *self, dibs_err *err)
{
    uint8_t header[SQLITE_HEADER_BYTES] = { 0 };
    struct stat st = { 0 };

    if (stat(self->path, &st) != 0) {
        if (errno != ENOENT || self->access != SQLITE_WRITES)
            return sqlite_os_error(self, "cannot open it", errno, err);
        if (self->is_in_use) /* a new one would have none of the claims that were made (INV-1) */
            return sqlite_removed(self, "it", err);
        return make_file(self, err);
    }
    if (!S_ISREG(st.st_mode))
        return err_trouble(err, DIBS_TROUBLE_DAMAGED,
                           "ledger %s: it is not a regular file; name another place with DIBS_LEDGER",
                           self->path);
    if (faccessat(AT_FDCWD, self->path, self->access == SQLITE_WRITES ? R_OK | W_OK : R_OK, AT_EACCESS) != 0)
        return sqlite_os_error(self, "cannot open it", errno, err);
    /* SQLite treats an empty file as new and deletes its log. A log is never older than its file. */
    if (st.st_size == 0 && !sqlite_has_log(self))
        return DIBS_OK;
    int os_errno = 0;
    int rc = sqlite_read_header(self, header, &os_errno);
    if (rc != SQLITE_OK)
        return sqlite_error_of(self, rc, os_errno, "cannot read it", err);
    if (memcmp(header, "SQLite format 3", 16) != 0)
        return err_trouble(err, DIBS_TROUBLE_DAMAGED,
                           "ledger %s: it is not a ledger or its beginning is damaged; %s", self->path,
                           sqlite_advice(DIBS_TROUBLE_DAMAGED));
    uint32_t application_id = sqlite_big_endian(header + 68);
    uint32_t version = sqlite_big_endian(header + 60);
    if (application_id == SQLITE_APPLICATION_ID)
        return sqlite_check_version(self, version, err);
    return application_id == 0 && version == 0 ? DIBS_OK : check_bare_tables(self, err);
}

dibs_status sqlite_exec(struct sqlite_store *self, const char *sql, const char *doing, dibs_err *err)
{
    int rc = sqlite3_exec(self->db, sql, NULL, NULL, NULL);

    return rc == SQLITE_OK ? DIBS_OK : sqlite_error(self, rc, doing, err);
}

int sqlite_get_number(sqlite3 *db, const char *sql, int64_t *out)
{
    AUTO(sqlite_finalize_auto) sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        *out = sqlite3_column_int64(stmt, 0);
    return rc;
}

static dibs_status get_number(struct sqlite_store *self, const char *sql, int64_t *out, dibs_err *err)
{
    int rc = sqlite_get_number(self->db, sql, out);

    if (rc == SQLITE_DONE)
        return sqlite_damaged(self, "a value is missing", err);
    return rc == SQLITE_ROW ? DIBS_OK : sqlite_error(self, rc, "reading", err);
}

dibs_status sqlite_lock_directory(const struct sqlite_store *self, const char *dir, int *out, dibs_err *err)
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

static dibs_status make_or_migrate(struct sqlite_store *self, const char *dir, int64_t *version,
                                   dibs_err *err)
{
    AUTO(fd_auto) int lock = -1;
    int64_t n_foreign = 0;
    dibs_status s = sqlite_lock_directory(self, dir, &lock, err);

    /* Tables without a version belong to another program. */
    if (s == DIBS_OK)
        s = get_number(
            self,
            "SELECT count(*) FROM sqlite_master WHERE (SELECT user_version FROM pragma_user_version) = 0",
            &n_foreign, err);
    if (s == DIBS_OK && n_foreign > 0)
        s = foreign(self, self->db, err);
    if (s == DIBS_OK)
        s = sqlite_exec(self, "PRAGMA journal_mode=WAL", "switching to WAL", err);
    if (s == DIBS_OK)
        s = sqlite_exec(self, "BEGIN IMMEDIATE", "locking it", err);
    if (s != DIBS_OK)
        return s;
    if (sqlite_has_moved(self)) /* never write to a file that was set aside */
        s = err_trouble(err, DIBS_TROUBLE_LOCKED, "ledger %s: it was replaced meanwhile; try again",
                        self->path);
    if (s == DIBS_OK)
        s = get_number(self, "PRAGMA user_version", version, err);
    if (s == DIBS_OK && *version < SQLITE_LEDGER_VERSION) {
        s = sqlite_migrate(self, *version, err);
        *version = SQLITE_LEDGER_VERSION;
    }
    if (s == DIBS_OK)
        s = sqlite_exec(self, "COMMIT", "committing its tables", err);
    if (s != DIBS_OK)
        (void) sqlite3_exec(self->db, "ROLLBACK", NULL, NULL, NULL);
    return s;
}

dibs_status sqlite_connect(struct sqlite_store *self, dibs_err *err)
{
    char uri[URI_BYTES];
    const char *name = self->path;
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE |
                (self->access == SQLITE_WRITES ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY);

    if (self->access == SQLITE_READS_FILE) {
        name = bare_uri(self->path, uri);
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

void sqlite_disconnect(struct sqlite_store *self)
{
    self->log_inode = self->index_inode = 0;
    for (size_t i = 0; i < SQL_COUNT; i++) {
        (void) sqlite3_finalize(self->stmt[i]);
        self->stmt[i] = NULL;
    }
    (void) sqlite3_close(self->db);
    self->db = NULL;
    self->is_full = false;
    self->wal_frames = 0;
}

bool sqlite_has_moved(struct sqlite_store *self)
{
    int has_moved = 0;

    return self->db &&
           sqlite3_file_control(self->db, "main", SQLITE_FCNTL_HAS_MOVED, &has_moved) == SQLITE_OK &&
           has_moved != 0;
}

/* Check application id and version again, through SQLite: the log may have a newer first page. One
 * transaction, because another process may be creating the ledger. */
static dibs_status check_marks(struct sqlite_store *self, int64_t *version, dibs_err *err)
{
    int64_t application_id = 0;
    dibs_status s = sqlite_exec(self, "BEGIN", "reading", err);

    if (s == DIBS_OK)
        s = get_number(self, "PRAGMA user_version", version, err);
    if (s == DIBS_OK)
        s = get_number(self, "PRAGMA application_id", &application_id, err);
    if (s == DIBS_OK)
        s = sqlite_exec(self, "COMMIT", "reading", err);
    if (s != DIBS_OK || (application_id == 0 && *version == 0))
        return s; /* a new ledger */
    return application_id == SQLITE_APPLICATION_ID ? sqlite_check_version(self, (uint32_t) *version, err)
                                                   : foreign(self, self->db, err);
}

static dibs_status open_file(struct sqlite_store *self, const char *dir, dibs_err *err)
{
    int64_t salt = 0;
    dibs_status s = check_file(self, err);

    self->version = 0;
    if (s == DIBS_OK)
        s = sqlite_connect(self, err);
    if (s == DIBS_OK)
        s = check_marks(self, &self->version, err);
    if (s == DIBS_OK && self->access == SQLITE_WRITES && self->version < SQLITE_LEDGER_VERSION)
        s = make_or_migrate(self, dir, &self->version, err);
    if (s == DIBS_OK && self->version == 0)
        s = err_trouble(err, DIBS_TROUBLE_UNWRITABLE, "ledger %s: a user who may write it must open it first",
                        self->path);
    if (s == DIBS_OK)
        s = sqlite_check_tables(self, err);
    if (s == DIBS_OK)
        s = sqlite_exec(self, "PRAGMA synchronous=NORMAL", "configuring", err);
    if (s == DIBS_OK)
        s = get_number(self, "SELECT value FROM meta WHERE key='salt'", &salt, err);
    if (s != DIBS_OK)
        return s;
    self->base.salt = (uint64_t) salt;
    (void) sqlite3_wal_hook(self->db, sqlite_note_log, self);
    /* Note the log now: until the first change it may be replaced. */
    return self->access == SQLITE_WRITES ? sqlite_check_log(self, err) : DIBS_OK;
}

/* Open the ledger read-only: through the index of the log or, without a log, the bare file. A log without an
 * index cannot be read where no index can be created. */
static dibs_status open_to_read(struct sqlite_store *self, const char *dir, dibs_err *err)
{
    dibs_err trouble = { 0 };

    /* SQLite makes a log to read with. */
    self->access = self->is_check && !sqlite_has_log(self) ? SQLITE_READS_FILE : SQLITE_READS;
    for (; self->access <= SQLITE_READS_FILE; self->access++) {
        if (self->access == SQLITE_READS_FILE && sqlite_has_log(self))
            break;
        sqlite_disconnect(self);
        dibs_status s = open_file(self, dir, &trouble);
        if (s == DIBS_OK)
            return DIBS_OK;
        if (trouble.trouble == DIBS_TROUBLE_UNWRITABLE || trouble.trouble == DIBS_TROUBLE_MISSING)
            continue;
        if (err)
            *err = trouble; /* damaged or newer: a writer would report the same */
        return s;
    }
    if (err)
        *err = self->why_read_only;
    return DIBS_UNAVAILABLE;
}

static dibs_status open_writable_or_not(struct sqlite_store *self, const char *dir, dibs_err *err)
{
    dibs_err *why = &self->why_read_only;
    dibs_status s = DIBS_OK;

    memset(why, 0, sizeof *why);
    if (self->is_check && access(self->path, F_OK) == 0) {
        (void) err_trouble(why, DIBS_TROUBLE_UNWRITABLE, "ledger %s: its log cannot be read without a change",
                           self->path);
        return open_to_read(self, dir, err);
    }
    self->access = SQLITE_WRITES;
    s = open_file(self, dir, why);
    if (s != DIBS_OK && why->trouble == DIBS_TROUBLE_UNWRITABLE)
        return open_to_read(self, dir, err);
    if (s != DIBS_OK && err)
        *err = *why;
    return s;
}

dibs_status sqlite_reopen(struct sqlite_store *self, dibs_err *err)
{
    char dir[1024];

    sqlite_disconnect(self);
    sqlite_resolve(self->path);
    dibs_status s = prepare_place(self, dir, err);
    if (s == DIBS_OK)
        s = open_writable_or_not(self, dir, err);
    if (sqlite_has_moved(self)) {
        sqlite_disconnect(self);
        s = open_writable_or_not(self, dir, err);
    }
    self->is_in_use = self->is_in_use || s == DIBS_OK;
    if (s == DIBS_OK)
        sqlite_resolve(self->path); /* for a new ledger: its path must outlive a chdir() */
    else
        sqlite_disconnect(self);
    return s;
}

dibs_status sqlite_init(struct sqlite_store *self, const char *path, int64_t timeout_ms, dibs_err *err)
{
    self->base.ops = &store_sqlite_ops;
    self->timeout_ms = timeout_ms;
    sqlite_set_deadline(self, 0);
    if (path[0] && text_copy(self->path, sizeof self->path, path))
        return DIBS_OK;
    return err_set(err, DIBS_INVALID, "ledger 'sqlite:%.80s': the path must have 1 to %zu bytes", path,
                   sizeof self->path - 1);
}

dibs_status sqlite_open(const char *rest, const struct ledger_options *options, struct store **out,
                        dibs_err *err)
{
    struct sqlite_store *self = calloc(1, sizeof *self);

    if (!self)
        return err_set(err, DIBS_FAILURE, "opening the ledger: out of memory");
    dibs_status s = sqlite_init(self, rest, options->timeout_ms, err);
    self->is_check = options->is_check;
    if (s == DIBS_OK)
        s = sqlite_reopen(self, err);
    if (s != DIBS_OK) {
        sqlite_close(&self->base);
        return s;
    }
    *out = &self->base;
    return DIBS_OK;
}

void sqlite_close(struct store *store)
{
    struct sqlite_store *self = sqlite_of(store);

    if (!self)
        return;
    sqlite_stop_checkpoints(self->checkpoints);
    if (self->db && self->wal_frames >= CHECKPOINT_FRAMES && !sqlite_has_moved(self)) {
        /* Do not wait for other processes at exit. TRUNCATE: short-lived processes recover the log, know no
         * earlier checkpoint and append; with passive checkpoints the log would grow for ever. */
        (void) sqlite3_busy_handler(self->db, NULL, NULL);
        (void) sqlite3_wal_checkpoint_v2(self->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    }
    sqlite_disconnect(self);
    free(self);
}
