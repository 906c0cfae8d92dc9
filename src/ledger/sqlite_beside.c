/* SPDX-License-Identifier: MIT */
/* Carrying the log over into the file beside the writer. It costs several milliseconds, most of them waiting
 * for the disk: a daemon that did it between two commits would make everybody wait.
 *
 * The thread has a connection of its own. Under steady load it never finds the log complete, so that the log
 * does not start again from its beginning: once in a long while the writer sees to that (note_wal() in
 * sqlite_open.c), when little is left to be carried over. */
#include <pthread.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/text.h"
#include "ledger/sqlite.h"

#include "base/banned.h"

enum {
    EVERY_FRAMES = 4000, /* the thread takes its share of the machine, too: not at every commit */
    RESTART_FRAMES =
        8000 /* some 32 MB; a second of full load. Writing over it syncs twice as fast as growing */
};

struct sqlite_beside {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool is_due, is_busy, is_ending; /* under the lock */
    char path[1024];
    int asked_frames; /* of the log when it was last asked; the writer's */
    sqlite3 *db;      /* the thread's */
};

static void drop(struct sqlite_beside *self)
{
    (void) sqlite3_close(self->db);
    self->db = NULL;
}

/* A file that was replaced meanwhile is not ours to carry anything into. */
static bool is_current(struct sqlite_beside *self)
{
    int has_moved = 0;

    if (self->db &&
        (sqlite3_file_control(self->db, "main", SQLITE_FCNTL_HAS_MOVED, &has_moved) != SQLITE_OK ||
         has_moved))
        drop(self);
    if (self->db)
        return true;
    int rc =
        sqlite3_open_v2(self->path, &self->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, sqlite_vfs());
    if (rc == SQLITE_OK)
        rc = sqlite3_db_config(self->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    /* A connection that has not looked at its file yet knows of no log. */
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(self->db, "SELECT 1 FROM sqlite_master LIMIT 1", NULL, NULL, NULL);
    if (rc != SQLITE_OK)
        drop(self);
    return self->db != NULL;
}

static void *carry(void *arg)
{
    struct sqlite_beside *self = arg;

    (void) pthread_mutex_lock(&self->lock);
    while (!self->is_ending) {
        if (!self->is_due) {
            (void) pthread_cond_wait(&self->wake, &self->lock);
            continue;
        }
        self->is_due = false;
        self->is_busy = true;
        (void) pthread_mutex_unlock(&self->lock);
        /* It never waits for others, and its failure harms nothing: the log grows until the writer does it.
         */
        if (is_current(self))
            (void) sqlite3_wal_checkpoint_v2(self->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
        (void) pthread_mutex_lock(&self->lock);
        self->is_busy = false;
    }
    (void) pthread_mutex_unlock(&self->lock);
    (void) sqlite3_close(self->db);
    return NULL;
}

dibs_status sqlite_care_beside(struct rows *rows, dibs_err *err)
{
    struct sqlite_rows *live = (struct sqlite_rows *) rows;
    struct sqlite_beside *self = calloc(1, sizeof *self);

    if (!self)
        return err_set(err, DIBS_FAILURE, "opening the ledger: out of memory");
    (void) text_copy(self->path, sizeof self->path, live->path);
    (void) pthread_mutex_init(&self->lock, NULL);
    (void) pthread_cond_init(&self->wake, NULL);
    int rc = pthread_create(&self->thread, NULL, carry, self);
    if (rc != 0) {
        free(self);
        return err_os(err, DIBS_FAILURE, rc, "opening the ledger: starting a thread");
    }
    live->beside = self;
    return DIBS_OK;
}

void sqlite_beside_stop(struct sqlite_beside *beside)
{
    if (!beside)
        return;
    (void) pthread_mutex_lock(&beside->lock);
    beside->is_ending = true;
    (void) pthread_cond_signal(&beside->wake);
    (void) pthread_mutex_unlock(&beside->lock);
    (void) pthread_join(beside->thread, NULL);
    (void) pthread_cond_destroy(&beside->wake);
    (void) pthread_mutex_destroy(&beside->lock);
    free(beside);
}

bool sqlite_beside_does(struct sqlite_beside *beside, int frames)
{
    if (frames < beside->asked_frames)
        beside->asked_frames = 0; /* the log has begun anew */
    bool is_due = beside->asked_frames == 0 || frames >= beside->asked_frames + EVERY_FRAMES;
    (void) pthread_mutex_lock(&beside->lock);
    bool is_busy = beside->is_busy || beside->is_due;
    if (is_due && frames < RESTART_FRAMES) {
        beside->asked_frames = frames;
        beside->is_due = true;
        (void) pthread_cond_signal(&beside->wake);
    }
    (void) pthread_mutex_unlock(&beside->lock);
    return is_busy || frames < RESTART_FRAMES;
}
