/* SPDX-License-Identifier: MIT */
/* Salvage a damaged ledger: copy what is readable into a new file, set the damaged one aside, and put the new
 * one in its place.
 *
 * The lock on the ledger's directory keeps other processes from making or salvaging it meanwhile, and the
 * ledger's own write lock keeps them from changing it. A process that waits for that lock finds, when it gets
 * it, that the file has moved, and opens the new one (begin() in sqlite_store.c). The log is empty while the
 * lock is held, so that one rename replaces everything: a salvage that is killed has changed nothing, or all.
 *
 * A file that SQLite cannot use at all has no lock to hold, and nothing in it is readable. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "store/sqlite/salvage.h"

#include "base/banned.h"

enum { TIMEOUT_MS = 30000, ASIDE_MAX = 1000, EMPTY_PAGE_BYTES = 4096 };

static const char suffixes[3][8] = { "", "-wal", "-shm" }; /* of the files of one ledger */

static dibs_status os_error(const struct salvage *r, const char *doing)
{
    return err_os(r->err, DIBS_FAILURE, errno, "salvaging ledger %s: %s", r->old.path, doing);
}

/* Remove the -wal and -shm of a ledger, and with `first` 0 the ledger. */
static dibs_status remove_files(const struct salvage *r, const char *path, size_t first)
{
    char name[sizeof r->new_path + 8];

    for (size_t i = first; i < 3; i++) {
        (void) snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        if (unlink(name) != 0 && errno != ENOENT && errno != ENOTDIR)
            return os_error(r, "cannot remove a file");
    }
    return DIBS_OK;
}

static void salvage_auto(struct salvage *r)
{
    sqlite_close(r->store);
    sqlite_disconnect(&r->old); /* which rolls back */
    if (r->work[0]) {
        (void) remove_files(r, r->new_path, 0);
        (void) rmdir(r->work);
    }
}

/* ---- the damaged ledger ---- */

/* SQLite takes an empty file for a new one and deletes its log. With a page of zeros it reads the log. */
static dibs_status look_at_file(struct salvage *r)
{
    struct stat st = { 0 };

    if (stat(r->old.path, &st) != 0)
        return errno == ENOENT ? err_set(r->err, DIBS_NOT_FOUND, "there is no ledger %s", r->old.path)
                               : os_error(r, "cannot open it");
    if (!S_ISREG(st.st_mode))
        return err_set(r->err, DIBS_INVALID, "ledger %s is not a regular file; it is left as it is",
                       r->old.path);
    if (st.st_size == 0 && sqlite_has_log(&r->old) && truncate(r->old.path, EMPTY_PAGE_BYTES) != 0)
        return os_error(r, "cannot write to it");
    return DIBS_OK;
}

/* Does SQLite say that the file cannot be used at all? */
static bool is_unusable(int rc)
{
    return (rc & 0xff) == SQLITE_CORRUPT || (rc & 0xff) == SQLITE_NOTADB;
}

/* Refuse another program's database, and a newer ledger, before anything is changed. */
static dibs_status check_owner(struct salvage *r)
{
    uint8_t header[SQLITE_HEADER_BYTES] = { 0 };
    sqlite3 *db = r->old.db;
    int64_t application_id = 0;
    int64_t version = 0;
    int64_t n_tables = 0;
    int os_errno = 0;
    int rc = sqlite_get_number(db, "PRAGMA application_id", &application_id);

    if (rc == SQLITE_ROW)
        rc = sqlite_get_number(db, "PRAGMA user_version", &version);
    if (rc == SQLITE_ROW)
        (void) sqlite_get_number(db, "SELECT count(*) FROM sqlite_schema", &n_tables);
    else if (!is_unusable(rc))
        return sqlite_error(&r->old, rc, "reading it", r->err);
    else if (sqlite_read_header(&r->old, header, &os_errno) == SQLITE_OK &&
             memcmp(header, "SQLite format 3", 16) == 0)
        application_id = sqlite_big_endian(header + 68);
    bool is_ours = application_id == SQLITE_APPLICATION_ID || (application_id == 0 && n_tables == 0);
    if (is_ours && version / 1000 > SQLITE_LEDGER_MAJOR)
        return sqlite_check_version(&r->old, (uint32_t) version, r->err);
    if (is_ours || sqlite_is_ours(db))
        return DIBS_OK;
    return err_set(r->err, DIBS_INVALID, "ledger %s is a database of another program; it is left as it is",
                   r->old.path);
}

/* Empty the log into the file and keep the write lock. OK without r->is_held: the file cannot be used. */
static dibs_status hold(struct salvage *r)
{
    struct sqlite_store *old = &r->old;

    do { /* others may write between the checkpoint and our lock */
        int rc = sqlite3_exec(old->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);

        if (rc == SQLITE_OK && !sqlite_has_log(old)) {
            r->is_held = true;
            return DIBS_OK;
        }
        if (rc == SQLITE_OK)
            rc = sqlite3_exec(old->db, "ROLLBACK", NULL, NULL, NULL);
        if (rc == SQLITE_OK)
            rc = sqlite3_wal_checkpoint_v2(old->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
        if (is_unusable(rc))
            return DIBS_OK;
        if (rc != SQLITE_OK && (rc & 0xff) != SQLITE_BUSY)
            return sqlite_error(old, rc, "locking it", r->err);
    } while (clock_monotonic_ms() < old->deadline_ms);
    return sqlite_error(old, SQLITE_BUSY, "locking it", r->err);
}

static dibs_status open_old(struct salvage *r)
{
    dibs_status s = look_at_file(r);

    if (s == DIBS_OK)
        s = sqlite_connect(&r->old, r->err);
    if (s != DIBS_OK)
        return s;
    /* With this, and only with it, SQLite reads a file that is shorter than its header says. */
    (void) sqlite3_exec(r->old.db, "PRAGMA writable_schema=ON", NULL, NULL, NULL);
    s = check_owner(r);
    return s == DIBS_OK ? hold(r) : s;
}

/* ---- the new ledger ---- */

static dibs_status open_new(struct salvage *r)
{
    const struct ledger_options options = { .timeout_ms = TIMEOUT_MS };

    (void) snprintf(r->work, sizeof r->work, "%s.salvage", r->old.path);
    (void) snprintf(r->new_path, sizeof r->new_path, "%s/new", r->work);
    /* Of a salvage that was killed. */
    if (remove_files(r, r->new_path, 0) != DIBS_OK || (rmdir(r->work) != 0 && errno != ENOENT) ||
        mkdir(r->work, 0700) != 0)
        return os_error(r, "cannot make a directory beside it");
    return sqlite_open(r->new_path, &options, &r->store, r->err);
}

static dibs_status sync_path(const struct salvage *r, const char *path)
{
    AUTO(fd_auto) int fd = open(path, O_RDONLY | O_CLOEXEC);

    return fd >= 0 && fsync(fd) == 0 ? DIBS_OK : os_error(r, "cannot write it to disk");
}

/* The users of the old file can use the new one, and no others. */
static dibs_status give_to_owner(const struct salvage *r)
{
    struct stat old = { 0 };
    AUTO(fd_auto) int fd = open(r->new_path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || stat(r->old.path, &old) != 0)
        return os_error(r, "cannot look at its owner");
    mode_t mode = old.st_mode & 0777;
    /* Only root may give a file away; its group may be one of ours. */
    if (fchown(fd, old.st_uid, old.st_gid) != 0 && fchown(fd, (uid_t) -1, old.st_gid) != 0)
        mode &= ~(mode_t) 070;
    return fchmod(fd, mode) == 0 ? DIBS_OK : os_error(r, "cannot set its mode");
}

/* Everything into the one file, and onto the disk. */
static dibs_status finish(struct salvage *r)
{
    struct sqlite_store *self = (struct sqlite_store *) r->store;
    int rc = sqlite3_wal_checkpoint_v2(self->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);

    if (rc != SQLITE_OK)
        return sqlite_error(self, rc, "writing it whole", r->err);
    sqlite_close(r->store);
    r->store = NULL;
    dibs_status s = remove_files(r, r->new_path, 1);
    if (s == DIBS_OK)
        s = give_to_owner(r);
    return s == DIBS_OK ? sync_path(r, r->new_path) : s;
}

/* ---- the swap ---- */

/* Keep every process from using the new file until the old log is gone, which SQLite would apply to it. */
static dibs_status lock_new(const struct salvage *r, int *out)
{
    enum { PENDING_BYTE = 0x40000000, LOCK_BYTES = 512 }; /* where SQLite locks: part of its file format */
    struct flock all = { .l_type = F_WRLCK, .l_start = PENDING_BYTE, .l_len = LOCK_BYTES };
    AUTO(fd_auto) int fd = open(r->new_path, O_RDWR | O_CLOEXEC);

    if (fd < 0 || fcntl(fd, F_OFD_SETLK, &all) != 0)
        return os_error(r, "cannot lock the new one");
    *out = fd_take(&fd);
    return DIBS_OK;
}

/* Give the damaged file a second name, with a number when that name is in use. */
static dibs_status link_aside(const struct salvage *r, char aside[1024])
{
    time_t seconds = (time_t) (r->event->time_ms / 1000);
    struct tm utc = { 0 };
    char stamp[32] = "";

    (void) gmtime_r(&seconds, &utc);
    (void) strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &utc);
    for (int i = 1; i <= ASIDE_MAX; i++) {
        if (snprintf(aside, 1024, "%s.damaged-%s-%d", r->old.path, stamp, i) >= 1024)
            return err_set(r->err, DIBS_INVALID, "ledger %s: its path is too long to set it aside",
                           r->old.path);
        if (link(r->old.path, aside) == 0)
            return DIBS_OK;
        if (errno != EEXIST)
            break;
    }
    return os_error(r, "cannot set it aside");
}

/* Swap the files. The place of the ledger is never empty. A log that could not be emptied into its file goes
 * first, because SQLite would apply it to the new file; without it an unusable file stays unusable. */
static dibs_status swap(struct salvage *r)
{
    AUTO(fd_auto) int lock = -1;
    char log[2][1024 + 8];
    dibs_status s = lock_new(r, &lock);

    if (s == DIBS_OK)
        s = link_aside(r, r->result.aside);
    (void) snprintf(log[0], sizeof log[0], "%s-wal", r->old.path);
    (void) snprintf(log[1], sizeof log[1], "%s-wal", r->result.aside);
    if (s == DIBS_OK && !r->is_held && rename(log[0], log[1]) != 0 && errno != ENOENT)
        s = os_error(r, "cannot set its log aside");
    if (s == DIBS_OK)
        s = sync_path(r, r->dir);
    if (s == DIBS_OK && rename(r->new_path, r->old.path) != 0)
        s = os_error(r, "cannot put the new one in its place");
    if (s == DIBS_OK)
        s = remove_files(r, r->old.path, 1);
    return s == DIBS_OK ? sync_path(r, r->dir) : s;
}

dibs_status sqlite_salvage(const char *rest, const dibs_event *event, struct ledger_salvaged *out,
                           dibs_err *err)
{
    AUTO(fd_auto) int lock = -1; /* goes last */
    AUTO(salvage_auto) struct salvage r = { .event = event, .err = err };
    dibs_status s = sqlite_init(&r.old, rest, TIMEOUT_MS, err);

    if (s == DIBS_OK) {
        sqlite_resolve(r.old.path);
        sqlite_directory(r.old.path, r.dir);
        s = sqlite_lock_directory(&r.old, r.dir, &lock, err);
    }
    if (s == DIBS_OK)
        s = open_old(&r);
    if (s == DIBS_OK)
        s = open_new(&r);
    if (s == DIBS_OK)
        s = salvage_records(&r);
    if (s == DIBS_OK)
        s = finish(&r);
    if (s == DIBS_OK)
        s = swap(&r);
    if (s == DIBS_OK)
        *out = r.result;
    return s;
}
