/* SPDX-License-Identifier: MIT */
/* SQLite's way to the system, in three places ours; the third is sqlite_log.c.
 *
 * A full disk must be an error, not a SIGBUS. SQLite maps the -shm file and, before that, writes one byte
 * into each of its 4096-byte pages, so that they have room on disk. Where blocks are smaller (ext4 of less
 * than 512 MB has 1024) the rest of each page stays a hole; the first touch of it on a full disk kills the
 * process. SQLite lets its system calls be replaced: ours gives the hole its blocks first, and refuses when
 * there are none. The table of system calls is one for the whole process. Another user of the same SQLite
 * gets the same protection, and nothing else changes for him.
 *
 * A call must end at its deadline (INV-9). When somebody was stopped in the middle of recovering the log,
 * SQLite sleeps and tries again for ten seconds without asking the busy handler. Our connections sleep no
 * longer than their call may last. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
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

/* CLOCK_MONOTONIC: the deadline of this thread's call. Eight bytes of the initial TLS block: the general
 * model would make the program load the dynamic linker as a library. */
static __thread int64_t awake_at_ms __attribute__((tls_model("initial-exec")));

static int sleep_within_call(sqlite3_vfs *vfs, int us)
{
    int64_t left_us = (awake_at_ms - clock_monotonic_ms()) * 1000;
    int64_t sleep_us = us < left_us ? us : left_us > 0 ? left_us : 0;
    struct timespec pause = { .tv_sec = sleep_us / 1000000, .tv_nsec = sleep_us % 1000000 * 1000 };

    (void) vfs;
    (void) nanosleep(&pause, NULL);
    return us;
}

void sqlite_vfs_deadline(int64_t deadline_ms)
{
    awake_at_ms = deadline_ms;
}

static sqlite3_vfs ours; /* written once, under pthread_once */
static sqlite3_vfs *theirs;

static int open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *got)
{
    (void) vfs;
    return flags & SQLITE_OPEN_WAL ? sqlite_log_open(theirs, name, file, flags, got)
                                   : theirs->xOpen(theirs, name, file, flags, got);
}

static void make_ours(void)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);

    if (vfs && vfs->iVersion >= 3 && vfs->xSetSystemCall)
        (void) vfs->xSetSystemCall(vfs, "mmap", (sqlite3_syscall_ptr) map_with_room);
    if (!vfs)
        return;
    theirs = vfs;
    ours = *vfs;
    ours.szOsFile += sqlite_log_size();
    ours.xOpen = open_file;
    ours.pNext = NULL;
    ours.zName = "dibs";
    ours.xSleep = sleep_within_call;
    (void) sqlite3_vfs_register(&ours, 0);
}

const char *sqlite_vfs(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void) pthread_once(&once, make_ours);
    return ours.zName; /* NULL, SQLite's own, when there was none to begin with */
}

void ledger_have_process(void)
{
    (void) sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}
