/* SPDX-License-Identifier: MIT */
/* Keeping everybody from writing to a damaged ledger while a new one takes its place.
 *
 * The holder has the ledger's write lock, and its log is empty: all there is lies in the one file. Who waits
 * for the lock meanwhile finds, when he gets it, that the file has moved, and opens the new one (begin() in
 * sqlite_rows.c). The new file is locked whole until the old log and its index are gone from their names, so
 * that nobody can open the new file together with the old log. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "ledger/sqlite.h"

#include "base/banned.h"

bool sqlite_has_moved(struct sqlite_rows *self)
{
    int has_moved = 0;

    return self->db &&
           sqlite3_file_control(self->db, "main", SQLITE_FCNTL_HAS_MOVED, &has_moved) == SQLITE_OK &&
           has_moved != 0;
}

static bool log_is_empty(const struct sqlite_rows *live)
{
    char name[sizeof live->path + 8];
    struct stat st = { 0 };

    (void) snprintf(name, sizeof name, "%s-wal", live->path);
    return stat(name, &st) == 0 ? st.st_size == 0 : errno == ENOENT;
}

static int run(struct sqlite_rows *live, const char *sql)
{
    return sqlite3_exec(live->db, sql, NULL, NULL, NULL);
}

/* What SQLite says of a file that nobody can write to. */
static bool is_unusable(int rc)
{
    return (rc & 0xff) == SQLITE_CORRUPT || (rc & 0xff) == SQLITE_NOTADB;
}

dibs_status sqlite_hold(struct sqlite_rows *live, bool *is_held, dibs_err *err)
{
    dibs_err trouble = { 0 };
    dibs_status s = sqlite_connect(live, &trouble);

    *is_held = false;
    if (s != DIBS_OK && trouble.trouble == DIBS_TROUBLE_DAMAGED)
        return DIBS_OK;
    if (s != DIBS_OK) {
        if (err)
            *err = trouble;
        return s;
    }
    /* Others may write between the checkpoint and our lock; then again, up to the deadline. */
    do {
        int rc = run(live, "BEGIN IMMEDIATE");

        if (rc == SQLITE_OK && log_is_empty(live)) {
            *is_held = true;
            return DIBS_OK;
        }
        if (rc == SQLITE_OK)
            rc = run(live, "ROLLBACK");
        if (rc == SQLITE_OK)
            rc = sqlite3_wal_checkpoint_v2(live->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
        if (is_unusable(rc))
            return DIBS_OK;
        if (rc != SQLITE_OK && (rc & 0xff) != SQLITE_BUSY)
            return sqlite_error(live, rc, "holding it for the rebuild", err);
    } while (clock_monotonic_ms() < live->deadline_ms);
    return sqlite_error(live, SQLITE_BUSY, "holding it for the rebuild", err);
}

/* Through SQLite's own file: a close() of ours would drop its locks. */
dibs_status sqlite_copy_held(struct sqlite_rows *live, int to, dibs_err *err)
{
    sqlite3_file *file = NULL;
    sqlite3_int64 size = 0;
    char block[65536];
    int rc = sqlite3_file_control(live->db, "main", SQLITE_FCNTL_FILE_POINTER, (void *) &file);

    if (rc == SQLITE_OK)
        rc = file->pMethods->xFileSize(file, &size);
    for (sqlite3_int64 at = 0; at < size && rc == SQLITE_OK;) {
        int n = size - at < (sqlite3_int64) sizeof block ? (int) (size - at) : (int) sizeof block;

        rc = file->pMethods->xRead(file, block, n, at);
        if (rc == SQLITE_OK && pwrite(to, block, (size_t) n, at) != n)
            return err_os(err, DIBS_FAILURE, errno, "rebuilding ledger %s: cannot write a copy", live->path);
        at += n;
    }
    return rc == SQLITE_OK ? DIBS_OK : sqlite_error(live, rc, "copying it", err);
}

dibs_status sqlite_lock_whole(const char *path, int *out, dibs_err *err)
{
    enum { PENDING_BYTE = 0x40000000, LOCK_BYTES = 512 }; /* where SQLite locks: part of its file format */
    struct flock all = { .l_type = F_WRLCK, .l_start = PENDING_BYTE, .l_len = LOCK_BYTES };
    AUTO(fd_auto) int fd = open(path, O_RDWR | O_CLOEXEC);

    if (fd < 0 || fcntl(fd, F_OFD_SETLK, &all) != 0)
        return err_os(err, DIBS_FAILURE, errno, "rebuilding ledger %s: cannot lock the new one", path);
    *out = fd_take(&fd);
    return DIBS_OK;
}

void sqlite_release(struct sqlite_rows *live)
{
    (void) sqlite3_close(live->db); /* which rolls back */
    live->db = NULL;
}
