/* SPDX-License-Identifier: MIT */
/* The last part of a rebuild: the new ledger is made whole and takes the place of the damaged one. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/auto.h"
#include "base/err.h"
#include "ledger/sqlite_rebuild.h"

#include "base/banned.h"

enum { ASIDE_MAX = 1000 };

static dibs_status sync_path(const struct rebuild *r, const char *path)
{
    AUTO(fd_auto) int fd = open(path, O_RDONLY | O_CLOEXEC);

    return fd >= 0 && fsync(fd) == 0 ? DIBS_OK : rebuild_os_error(r, "cannot write it to disk");
}

/* Who could use the old one can use the new one, and nobody else. */
static dibs_status give_to_owner(const struct rebuild *r)
{
    struct stat old = { 0 };
    AUTO(fd_auto) int fd = open(r->new_path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || stat(r->source, &old) != 0)
        return rebuild_os_error(r, "cannot look at its owner");
    mode_t mode = old.st_mode & 0777;
    /* Only root may give a file away; its group may be one of ours. */
    if (fchown(fd, old.st_uid, old.st_gid) != 0 && fchown(fd, (uid_t) -1, old.st_gid) != 0)
        mode &= ~(mode_t) 070;
    return fchmod(fd, mode) == 0 ? DIBS_OK : rebuild_os_error(r, "cannot set its mode");
}

/* Everything into the one file, and no -wal that would have to move with it. */
dibs_status rebuild_finish(struct rebuild *r)
{
    struct sqlite_rows *self = (struct sqlite_rows *) r->rows;
    char name[REBUILD_PATH_BYTES];
    int rc = sqlite3_wal_checkpoint_v2(self->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);

    if (rc != SQLITE_OK)
        return sqlite_error(self, rc, "writing it whole", r->err);
    self->wal_frames = 0;
    sqlite_close_rows(r->rows);
    r->rows = NULL;
    for (size_t i = 1; i < REBUILD_SUFFIXES; i++)
        if (rebuild_join(name, r->new_path, rebuild_suffixes[i]) == DIBS_OK)
            (void) unlink(name);
    dibs_status s = give_to_owner(r);
    return s == DIBS_OK ? sync_path(r, r->new_path) : s;
}

static dibs_status choose_aside(struct rebuild *r)
{
    time_t seconds = (time_t) (r->actor->now.wall_ms / 1000);
    struct tm utc = { 0 };
    char stamp[32] = "";

    (void) gmtime_r(&seconds, &utc);
    (void) strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &utc);
    for (int i = 1; i <= ASIDE_MAX; i++) {
        bool is_free = true;

        for (size_t k = 0; k < REBUILD_SUFFIXES; k++) {
            struct stat st = { 0 };
            int n = snprintf(r->name, sizeof r->name, "%s.damaged-%s-%d%s", r->path, stamp, i,
                             rebuild_suffixes[k]);

            if (n < 0 || n >= (int) sizeof r->name)
                return err_set(r->err, DIBS_INVALID, "ledger %s: its path is too long to set it aside",
                               r->path);
            is_free = is_free && lstat(r->name, &st) != 0 && errno == ENOENT;
        }
        r->name[strlen(r->name) - strlen(rebuild_suffixes[REBUILD_SUFFIXES - 1])] = '\0';
        if (is_free)
            return DIBS_OK;
    }
    return err_set(r->err, DIBS_FAILURE, "ledger %s: too many damaged ones lie beside it", r->path);
}

/* One step, so that nobody finds the place empty and makes a ledger there. The old one gets its second name
 * before it loses the first: wherever we are killed, it is there. */
static dibs_status replace(struct rebuild *r)
{
    if (link(r->path, r->name) == 0) {
        if (rename(r->new_path, r->path) == 0)
            return DIBS_OK;
        int os_errno = errno;
        (void) unlink(r->name);
        errno = os_errno;
    } else if (renameat2(AT_FDCWD, r->new_path, AT_FDCWD, r->path, RENAME_EXCHANGE) == 0 &&
               rename(r->new_path, r->name) == 0) { /* a file system without links */
        return DIBS_OK;
    }
    return rebuild_os_error(r, "cannot set it aside");
}

static dibs_status remove_log(const struct rebuild *r)
{
    char name[REBUILD_PATH_BYTES];

    for (size_t i = 1; i < REBUILD_SUFFIXES; i++)
        if (rebuild_join(name, r->path, rebuild_suffixes[i]) == DIBS_OK && unlink(name) != 0 &&
            errno != ENOENT)
            return rebuild_os_error(r, "cannot remove its -wal or -shm");
    return DIBS_OK;
}

static dibs_status swap_held(struct rebuild *r)
{
    AUTO(fd_auto) int lock = -1;
    dibs_status s = sqlite_lock_whole(r->new_path, &lock, r->err);

    if (s == DIBS_OK)
        s = replace(r);
    /* The log is empty. Who has it open goes on with it and the old file, and finds that this has moved. */
    return s == DIBS_OK ? remove_log(r) : s;
}

/* ---- one that nobody can write to ----
 *
 * Its log could not be emptied into it, and two files cannot be replaced in one step; the log must neither
 * meet the new file nor be missed by the old one. So both get their second names, then a note takes the
 * ledger's place: no ledger, for everybody who opens it, and it says where the rebuild goes on when we are
 * killed here. */

static const char note_beginning[] =
    "A rebuild of this ledger was interrupted: run 'dibs doctor --fix'. It is now *";

void rebuild_resume(struct rebuild *r)
{
    char text[sizeof note_beginning + REBUILD_PATH_BYTES] = "";
    AUTO(fd_auto) int fd = open(r->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat st = { 0 };
    const size_t n = sizeof note_beginning - 1;

    if (fd < 0 || read(fd, text, sizeof text - 1) <= (ssize_t) n || memcmp(text, note_beginning, n) != 0)
        return;
    r->is_resumed = rebuild_join(r->name, r->path, text + n) == DIBS_OK && lstat(r->name, &st) == 0 &&
                    S_ISREG(st.st_mode);
    if (r->is_resumed)
        (void) rebuild_join(r->source, r->name, "");
}

static dibs_status second_name(const struct rebuild *r, const char *suffix)
{
    char from[REBUILD_PATH_BYTES];
    char to[REBUILD_PATH_BYTES];

    if (rebuild_join(from, r->path, suffix) != DIBS_OK || rebuild_join(to, r->name, suffix) != DIBS_OK)
        return err_set(r->err, DIBS_INVALID, "ledger %s: its path is too long to set it aside", r->path);
    if (link(from, to) == 0 || errno == ENOENT)
        return DIBS_OK;
    dibs_status s = rebuild_copy(r, from, to); /* a file system without links */
    return s == DIBS_OK ? sync_path(r, to) : s;
}

static dibs_status put_note(const struct rebuild *r)
{
    char name[REBUILD_PATH_BYTES];
    char text[sizeof note_beginning + REBUILD_PATH_BYTES];
    int n = snprintf(text, sizeof text, "%s%s", note_beginning, r->name + strlen(r->path));
    AUTO(fd_auto) int fd = -1;

    if (rebuild_join(name, r->work, "/note") == DIBS_OK)
        fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, (size_t) n) != n || fsync(fd) != 0 || rename(name, r->path) != 0)
        return rebuild_os_error(r, "cannot set it aside");
    return sync_path(r, r->dir);
}

static dibs_status set_aside(const struct rebuild *r)
{
    char name[REBUILD_PATH_BYTES];
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < 2 && s == DIBS_OK; i++) /* the -shm is made anew from the -wal */
        s = second_name(r, rebuild_suffixes[i]);
    if (s == DIBS_OK)
        s = sync_path(r, r->dir);
    if (s == DIBS_OK)
        s = put_note(r);
    for (size_t i = 0; i < 2 && s != DIBS_OK; i++) /* it has not moved */
        if (rebuild_join(name, r->name, rebuild_suffixes[i]) == DIBS_OK)
            (void) unlink(name);
    return s;
}

static dibs_status swap_unusable(struct rebuild *r)
{
    dibs_status s = r->is_resumed ? DIBS_OK : set_aside(r);

    if (s == DIBS_OK)
        s = remove_log(r);
    if (s == DIBS_OK) /* on disk before the new one can be there */
        s = sync_path(r, r->dir);
    if (s == DIBS_OK && rename(r->new_path, r->path) != 0)
        s = rebuild_os_error(r, "cannot put the new one in its place");
    return s;
}

dibs_status rebuild_swap(struct rebuild *r)
{
    dibs_status s = r->is_resumed ? DIBS_OK : choose_aside(r);

    if (s == DIBS_OK)
        s = r->is_held ? swap_held(r) : swap_unusable(r);
    if (s == DIBS_OK)
        s = sync_path(r, r->dir);
    sqlite_release(&r->live);
    return s;
}
