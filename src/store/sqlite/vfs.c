/* SPDX-License-Identifier: MIT */
/* Two system calls of SQLite, replaced through its own hooks.
 *
 * mmap: a full disk must cause an error, not a SIGBUS. SQLite writes one byte into each 4096-byte page of
 * the -shm file before it maps it. Where blocks are smaller (ext4 of less than 512 MB has 1024) the rest
 * of each page stays a hole, and the first write to it on a full disk kills the process. Our mmap
 * allocates the hole first, and fails when there is no room. The hook is process-wide.
 *
 * xSleep: a call must end at its deadline (INV-9). When a process was stopped in the middle of recovering
 * the log, SQLite sleeps and retries for ten seconds without calling the busy handler. Connections of this
 * VFS sleep no longer than their call may last. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "store/sqlite/sqlite_store.h"

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

/* Deadline of this thread's call (CLOCK_MONOTONIC). Eight bytes of the initial TLS block: the general model
 * would make the program load the dynamic linker as a library. */
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

static sqlite3_vfs ours; /* SQLite's default VFS with our xSleep; written once, under pthread_once */

static void make_ours(void)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);

    if (vfs && vfs->iVersion >= 3 && vfs->xSetSystemCall)
        (void) vfs->xSetSystemCall(vfs, "mmap", (sqlite3_syscall_ptr) map_with_room);
    if (!vfs)
        return;
    ours = *vfs;
    ours.pNext = NULL;
    ours.zName = "dibs";
    ours.xSleep = sleep_within_call;
    (void) sqlite3_vfs_register(&ours, 0);
}

const char *sqlite_vfs(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void) pthread_once(&once, make_ours);
    return ours.zName; /* NULL, SQLite's own, when it has no default VFS */
}

void store_have_process(void)
{
    (void) sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}
