/* SPDX-License-Identifier: MIT */
/* A full disk must be an error, not a SIGBUS.
 *
 * SQLite maps the -shm file and, before that, writes one byte into each of its 4096-byte pages, so that they
 * have room on disk. Where blocks are smaller (ext4 of less than 512 MB has 1024) the rest of each page stays
 * a hole; the first touch of it on a full disk kills the process. SQLite lets its system calls be replaced:
 * ours gives the hole its blocks first, and refuses when there are none.
 *
 * The table of system calls is one for the whole process. Another user of the same SQLite gets the same
 * protection, and nothing else changes for him. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "ledger/sqlite.h"

#include "base/banned.h"

enum { SQLITE_SHM_PAGE = 4096 };

static void *map_with_room(void *address, size_t n, int protection, int flags, int fd, off_t offset)
{
    struct stat st = { 0 };
    bool is_written = fd >= 0 && (flags & MAP_SHARED) && (protection & PROT_WRITE);

    if (is_written && fstat(fd, &st) == 0 && st.st_blksize < SQLITE_SHM_PAGE &&
        fallocate(fd, 0, offset, (off_t) n) != 0 && errno != EOPNOTSUPP)
        return MAP_FAILED;
    return mmap(address, n, protection, flags, fd, offset);
}

static void replace_mmap(void)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);

    if (vfs && vfs->iVersion >= 3 && vfs->xSetSystemCall)
        (void) vfs->xSetSystemCall(vfs, "mmap", (sqlite3_syscall_ptr) map_with_room);
}

void sqlite_guard_shm(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void) pthread_once(&once, replace_mmap);
}
