/* SPDX-License-Identifier: MIT */
/* Checkpoints of the log, by the writer or in a thread: a checkpoint between two commits would delay all
 * callers (p99 13 ms instead of 2-3).
 *
 * The thread opens a connection for each checkpoint, because the file may have been replaced. Its
 * checkpoints are passive: they never wait, and under steady load SQLite then never restarts the log. The
 * writer rarely does that, when the thread has left little to copy. */
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "store/sqlite/sqlite_store.h"

#include "base/banned.h"

enum {
    PASSIVE_FRAMES = 1000,
    EVERY_FRAMES = 4000,   /* not at every commit: the thread uses CPU time, too */
    RESTART_FRAMES = 8000, /* some 32 MB, a second of full load; reused space syncs twice as fast */
    RESTART_WAIT_MS = 50
};

struct sqlite_checkpoints {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool is_due, is_busy, is_ending; /* guarded by the lock */
    char path[1024];
    int asked_frames; /* size of the log at the last request; used by the writer only */
};

/* Make a passive checkpoint. A failure is harmless: the log grows until the writer restarts it. */
static void make_checkpoint(const char *path)
{
    sqlite3 *db = NULL;
    int rc = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, sqlite_vfs());

    if (rc == SQLITE_OK)
        rc = sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    /* A connection that has not read its file yet does not know the log. */
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db, "SELECT 1 FROM sqlite_schema LIMIT 1", NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        (void) sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    (void) sqlite3_close(db);
}

static void *make_checkpoints(void *arg)
{
    struct sqlite_checkpoints *self = arg;

    (void) pthread_mutex_lock(&self->lock);
    while (!self->is_ending) {
        if (!self->is_due) {
            (void) pthread_cond_wait(&self->wake, &self->lock);
            continue;
        }
        self->is_due = false;
        self->is_busy = true;
        (void) pthread_mutex_unlock(&self->lock);
        make_checkpoint(self->path);
        (void) pthread_mutex_lock(&self->lock);
        self->is_busy = false;
    }
    (void) pthread_mutex_unlock(&self->lock);
    return NULL;
}

dibs_status sqlite_start_checkpoints(struct store *store, dibs_err *err)
{
    struct sqlite_store *live = sqlite_of(store);
    struct sqlite_checkpoints *self = calloc(1, sizeof *self);

    if (!self)
        return err_set(err, DIBS_FAILURE, "opening the ledger: out of memory");
    (void) text_copy(self->path, sizeof self->path, live->path);
    (void) pthread_mutex_init(&self->lock, NULL);
    (void) pthread_cond_init(&self->wake, NULL);
    int rc = pthread_create(&self->thread, NULL, make_checkpoints, self);
    if (rc != 0) {
        free(self);
        return err_os(err, DIBS_FAILURE, rc, "opening the ledger: starting a thread");
    }
    live->checkpoints = self;
    return DIBS_OK;
}

void sqlite_stop_checkpoints(struct sqlite_checkpoints *self)
{
    if (!self)
        return;
    (void) pthread_mutex_lock(&self->lock);
    self->is_ending = true;
    (void) pthread_cond_signal(&self->wake);
    (void) pthread_mutex_unlock(&self->lock);
    (void) pthread_join(self->thread, NULL);
    (void) pthread_cond_destroy(&self->wake);
    (void) pthread_mutex_destroy(&self->lock);
    free(self);
}

/* Request a checkpoint for a log of this size. False: the writer must restart the log. */
static bool checkpoint_later(struct sqlite_checkpoints *self, int frames)
{
    if (frames < self->asked_frames)
        self->asked_frames = 0; /* SQLite has restarted the log */
    bool is_due = self->asked_frames == 0 || frames >= self->asked_frames + EVERY_FRAMES;
    (void) pthread_mutex_lock(&self->lock);
    bool is_busy = self->is_busy || self->is_due;
    if (is_due && !is_busy) {
        self->asked_frames = frames;
        self->is_due = true;
        (void) pthread_cond_signal(&self->wake);
    }
    (void) pthread_mutex_unlock(&self->lock);
    /* Only right after the thread's checkpoint of a long log: to sync half of it took the writer 9 ms. */
    return is_busy || is_due || self->asked_frames < RESTART_FRAMES;
}

/* Make a checkpoint. A restart of a long log delays one commit until the readers are done. */
int sqlite_note_log(void *store, sqlite3 *db, const char *name, int frames)
{
    struct sqlite_store *self = store;

    self->wal_frames = frames;
    if (frames < PASSIVE_FRAMES || (self->checkpoints && checkpoint_later(self->checkpoints, frames)))
        return SQLITE_OK;
    int64_t deadline_ms = self->deadline_ms;
    self->deadline_ms = clock_monotonic_ms() + RESTART_WAIT_MS;
    (void) sqlite3_wal_checkpoint_v2(
        db, name, frames < RESTART_FRAMES ? SQLITE_CHECKPOINT_PASSIVE : SQLITE_CHECKPOINT_RESTART, NULL,
        NULL);
    self->deadline_ms = deadline_ms; /* the call continues */
    return SQLITE_OK;
}
