/* SPDX-License-Identifier: MIT */
/* The private copy that a rebuild reads. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "ledger/sqlite_rebuild.h"

#include "base/banned.h"

enum { EMPTY_PAGE = 4096, COPY_MAX = 1 << 30 };

dibs_status rebuild_copy(const struct rebuild *r, const char *from, const char *to)
{
    AUTO(fd_auto) int in = open(from, O_RDONLY | O_CLOEXEC);
    AUTO(fd_auto) int out = -1;
    char block[65536];
    ssize_t got = 0;

    if (in < 0)
        return errno == ENOENT ? DIBS_OK : rebuild_os_error(r, "cannot read it");
    out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (out < 0)
        return rebuild_os_error(r, "cannot make a copy");
    while ((got = read(in, block, sizeof block)) > 0)
        for (ssize_t done = 0; done < got;) {
            ssize_t put = write(out, block + done, (size_t) (got - done));

            if (put <= 0)
                return rebuild_os_error(r, "cannot write a copy");
            done += put;
        }
    return got == 0 ? DIBS_OK : rebuild_os_error(r, "cannot read it");
}

/* SQLite reads nothing of a file that is shorter than its header says, and deletes the log of an empty one.
 * Pages of nothing in place of the lost ones let it read the others. The copy is sparse: they cost no room.
 */
static dibs_status fill_up(const struct rebuild *r, const char *copy)
{
    uint8_t header[SQLITE_HEADER_BYTES] = { 0 };
    struct stat st = { 0 };
    AUTO(fd_auto) int fd = open(copy, O_RDWR | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &st) != 0 || pread(fd, header, sizeof header, 0) < 0)
        return rebuild_os_error(r, "cannot read the copy");
    off_t page = header[16] << 8 | header[17];
    off_t wanted = (page == 1 ? 65536 : page) * (off_t) sqlite_big_endian(header + 28);
    if (st.st_size == 0)
        wanted = EMPTY_PAGE;
    if (wanted > st.st_size && wanted <= COPY_MAX && ftruncate(fd, wanted) != 0)
        return rebuild_os_error(r, "cannot write a copy");
    return DIBS_OK;
}

static dibs_status copy_held(struct rebuild *r, const char *to)
{
    AUTO(fd_auto) int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    return fd >= 0 ? sqlite_copy_held(&r->live, fd, r->err) : rebuild_os_error(r, "cannot make a copy");
}

static dibs_status copy_files(struct rebuild *r)
{
    char from[REBUILD_PATH_BYTES];
    char to[REBUILD_PATH_BYTES];
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < 2 && s == DIBS_OK; i++) { /* the -shm is made anew from the -wal */
        s = rebuild_join(from, r->source, rebuild_suffixes[i]);
        if (s == DIBS_OK)
            s = rebuild_join(to, r->work, i == 0 ? "/old" : "/old-wal");
        if (s == DIBS_OK)
            s = rebuild_copy(r, from, to);
    }
    return s;
}

dibs_status rebuild_open_copy(struct rebuild *r)
{
    char to[REBUILD_PATH_BYTES];
    dibs_status s = rebuild_join(to, r->work, "/old");

    if (s == DIBS_OK)
        s = r->is_held ? copy_held(r, to) : copy_files(r);
    if (s == DIBS_OK)
        s = fill_up(r, to);
    if (s != DIBS_OK)
        return s;
    r->damaged.base.ops = &rows_sqlite_ops;
    (void) text_copy(r->damaged.path, sizeof r->damaged.path, r->path);
    if (sqlite3_open_v2(to, &r->damaged.db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
                        NULL) != SQLITE_OK)
        return err_set(r->err, DIBS_FAILURE, "rebuilding ledger %s: cannot open the copy", r->path);
    (void) sqlite3_db_config(r->damaged.db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    return DIBS_OK;
}
