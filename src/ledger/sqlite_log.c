/* SPDX-License-Identifier: MIT */
/* Fewer writes into the log. SQLite writes a frame as 24 bytes and a page, one call each, and a commit as all
 * of its frames; here the calls become one for each frame, and for a commit that is synced one for all (until
 * the buffer is full).
 *
 * What SQLite has written may be read by another process as soon as the log's index tells of it. The 24 bytes
 * of a frame are held back only until its page comes, which is the very next call; and only where the log
 * grows, because elsewhere frames' heads are corrected alone. More is held back only for a commit that ends
 * with a sync of the log (synchronous=FULL), which comes before the index. Every other call on the file
 * writes first what is held back.
 *
 * SQLite cannot be told within a transaction whether it is to be synced. So the sync of a commit is left out
 * here: it is the first one of the commit, unless the log begins anew, whose head is synced before. Now and
 * then it is not left out all the same, so that there is never much to be synced. */
#include <stdlib.h>
#include <string.h>

#include "ledger/sqlite.h"

#include "base/banned.h"

enum {
    HEAD_BYTES = 24,                 /* of a frame */
    LOG_HEAD_BYTES = 32,             /* of the log */
    FRAME_BYTES = HEAD_BYTES + 4096, /* with a page of the usual size; others are not held back */
    COMMIT_BYTES = 16 * FRAME_BYTES, /* beyond that a call more does not matter */
    /* Who carries the log over must sync all of it first, and whoever writes into it meanwhile waits: 7 ms
     * without this limit, 3 with it. */
    SPARED_BYTES = 1 << 20
};

struct log_file {
    sqlite3_file base;
    sqlite3_file *real; /* behind this struct */
    sqlite3_int64 end;  /* where the log grows; 0: not known */
    sqlite3_int64 head; /* where the page of a head belongs that was written by itself; 0: none */
    sqlite3_int64 at;   /* of what is held back */
    int n;
    bool is_spared;           /* the sync of the next commit */
    bool is_begun;            /* its head was written, and is not synced yet */
    sqlite3_int64 n_unsynced; /* bytes that were written since the last sync */
    int room;                 /* of `held` */
    char *held;               /* `frame`, or larger when commits end with a sync */
    char frame[FRAME_BYTES];
};

static struct log_file *of(sqlite3_file *file)
{
    return (struct log_file *) file;
}

static int flush(struct log_file *log)
{
    int n = log->n;

    log->n = 0; /* also when it fails: the transaction fails with it, and begins here again */
    return n > 0 ? log->real->pMethods->xWrite(log->real, log->held, n, log->at) : SQLITE_OK;
}

/* Does it go on where what is held back ends? */
static bool follows(const struct log_file *log, int n, sqlite3_int64 at)
{
    return log->n > 0 && at == log->at + log->n && n <= log->room - log->n;
}

static int log_write(sqlite3_file *file, const void *bytes, int n, sqlite3_int64 at)
{
    struct log_file *log = of(file);
    bool is_head = n == HEAD_BYTES;
    bool is_synced = log->held != log->frame;
    bool begins = at == 0 && n == LOG_HEAD_BYTES;
    bool grows = at == log->end || begins;
    int rc = SQLITE_OK;

    log->is_begun = log->is_begun || begins;
    log->n_unsynced += n;
    if (!follows(log, n, at)) {
        rc = flush(log);
        if (rc != SQLITE_OK)
            return rc;
        log->at = at;
    }
    if (grows || log->n > 0 || at == log->head)
        log->end = at + n; /* a head and its page together are a frame at the end of the log */
    log->head = is_head ? at + n : 0;
    if (n > log->room - log->n || (log->n == 0 && !(grows && (is_head || is_synced))))
        return log->real->pMethods->xWrite(log->real, bytes, n, at);
    memcpy(log->held + log->n, bytes, (size_t) n);
    log->n += n;
    return is_synced || is_head ? SQLITE_OK : flush(log);
}

static int log_close(sqlite3_file *file)
{
    int rc = flush(of(file));
    int closed = of(file)->real->pMethods->xClose(of(file)->real);

    if (of(file)->held != of(file)->frame)
        free(of(file)->held);
    return rc == SQLITE_OK ? closed : rc;
}

#define FLUSHED(file)          \
    int rc_ = flush(of(file)); \
    if (rc_ != SQLITE_OK)      \
        return rc_;            \
    sqlite3_file *real = of(file)->real

static int log_read(sqlite3_file *file, void *to, int n, sqlite3_int64 at)
{
    FLUSHED(file);
    return real->pMethods->xRead(real, to, n, at);
}

static int log_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    FLUSHED(file);
    of(file)->end = 0;
    return real->pMethods->xTruncate(real, size);
}

static int log_sync(sqlite3_file *file, int flags)
{
    FLUSHED(file);
    struct log_file *log = of(file);
    bool is_spared = log->is_spared && !log->is_begun && log->n_unsynced < SPARED_BYTES;

    log->is_spared = log->is_spared && log->is_begun; /* the one of the commit comes after */
    log->is_begun = false;
    if (is_spared)
        return SQLITE_OK;
    log->n_unsynced = 0;
    return real->pMethods->xSync(real, flags);
}

static int log_size(sqlite3_file *file, sqlite3_int64 *size)
{
    FLUSHED(file);
    return real->pMethods->xFileSize(real, size);
}

static int log_lock(sqlite3_file *file, int level)
{
    FLUSHED(file);
    return real->pMethods->xLock(real, level);
}

static int log_unlock(sqlite3_file *file, int level)
{
    FLUSHED(file);
    return real->pMethods->xUnlock(real, level);
}

static int log_check_lock(sqlite3_file *file, int *is_locked)
{
    FLUSHED(file);
    return real->pMethods->xCheckReservedLock(real, is_locked);
}

static int log_control(sqlite3_file *file, int op, void *arg)
{
    FLUSHED(file);
    return real->pMethods->xFileControl(real, op, arg);
}

static int log_sector(sqlite3_file *file)
{
    return of(file)->real->pMethods->xSectorSize(of(file)->real);
}

static int log_traits(sqlite3_file *file)
{
    return of(file)->real->pMethods->xDeviceCharacteristics(of(file)->real);
}

static const sqlite3_io_methods log_methods = {
    .iVersion = 1, /* a log is neither mapped nor has it an index of its own */
    .xClose = log_close,
    .xRead = log_read,
    .xWrite = log_write,
    .xTruncate = log_truncate,
    .xSync = log_sync,
    .xFileSize = log_size,
    .xLock = log_lock,
    .xUnlock = log_unlock,
    .xCheckReservedLock = log_check_lock,
    .xFileControl = log_control,
    .xSectorSize = log_sector,
    .xDeviceCharacteristics = log_traits,
};

int sqlite_log_size(void)
{
    return (int) sizeof(struct log_file);
}

int sqlite_log_open(sqlite3_vfs *real, const char *name, sqlite3_file *file, int flags, int *got)
{
    struct log_file *log = of(file);

    log->base.pMethods = NULL;
    log->real = (sqlite3_file *) (log + 1);
    log->end = log->head = log->at = log->n_unsynced = log->n = 0;
    log->is_spared = log->is_begun = false;
    log->held = log->frame;
    log->room = FRAME_BYTES;
    int rc = real->xOpen(real, name, log->real, flags, got);
    if (rc == SQLITE_OK)
        log->base.pMethods = &log_methods;
    return rc;
}

/* NULL: it is not open yet. */
static struct log_file *find(sqlite3 *db)
{
    sqlite3_file *file = NULL;

    if (sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, (void *) &file) != SQLITE_OK ||
        !file || file->pMethods != &log_methods)
        return NULL;
    return of(file);
}

void sqlite_log_spare_sync(sqlite3 *db, bool is_spared)
{
    struct log_file *log = find(db);

    if (log)
        log->is_spared = is_spared;
}

void sqlite_log_set_synced(sqlite3 *db)
{
    struct log_file *log = find(db);
    char *larger = log && log->held == log->frame ? malloc(COMMIT_BYTES) : NULL;

    if (!larger)
        return; /* each frame by itself will do */
    log->held = larger;
    log->room = COMMIT_BYTES;
}
