/* SPDX-License-Identifier: MIT */
#include "hold/enforced_mark.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "hold/bpf/hand_over.h"

#include "base/banned.h"

enum {
    LOCK_MS = 2000, /* a daemon that ends has the lock for some milliseconds */
    LOCK_STEP_MS = 10,
    PATH_BYTES = PATH_MAX + 16,
};

static const char persistent[] = "persistent\n";

/* Find the path of the lock: beside the file itself, not beside a link to it. False: the ledger is no file.
 */
static bool find_path(const char *ledger, char out[PATH_BYTES])
{
    static const char scheme[] = "sqlite:";
    char file[PATH_MAX];

    if (strncmp(ledger, scheme, sizeof scheme - 1) != 0 || !realpath(ledger + sizeof scheme - 1, file))
        return false;
    (void) snprintf(out, PATH_BYTES, "%s-enforced", file);
    return true;
}

static struct flock lock_of(short type)
{
    return (struct flock){ .l_type = type, .l_whence = SEEK_SET };
}

dibs_status enforced_mark_take(const char *ledger, bool is_persistent, int *fd, dibs_err *err)
{
    struct flock lock = lock_of(F_WRLCK);
    int64_t end_ms = clock_monotonic_ms() + LOCK_MS;
    char path[PATH_BYTES];

    *fd = -1;
    if (!find_path(ledger, path))
        return DIBS_OK;
    AUTO(fd_auto) int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "opening %s", path);
    while (fcntl(file, F_OFD_SETLK, &lock) != 0) {
        if ((errno != EAGAIN && errno != EACCES) || clock_monotonic_ms() >= end_ms)
            return errno == EAGAIN || errno == EACCES
                       ? err_set(err, DIBS_TAKEN, "another daemon enforces the claims of this ledger (%s)",
                                 path)
                       : err_os(err, DIBS_UNAVAILABLE, errno, "locking %s", path);
        (void) poll(NULL, 0, LOCK_STEP_MS);
    }
    size_t n = is_persistent ? sizeof persistent - 1 : 0;
    if (ftruncate(file, 0) != 0 || pwrite(file, persistent, n, 0) != (ssize_t) n)
        return err_os(err, DIBS_UNAVAILABLE, errno, "writing %s", path);
    *fd = fd_take(&file);
    return DIBS_OK;
}

/* Are the programs pinned? Only root can look. */
static bool is_pinned(void)
{
    struct stat st = { 0 };

    return stat(HAND_OVER_PINS "/bind4", &st) == 0 || errno == EACCES;
}

bool enforced_mark_is_taken(const char *ledger)
{
    struct flock lock = lock_of(F_RDLCK);
    char path[PATH_BYTES];

    if (!find_path(ledger, path))
        return false;
    AUTO(fd_auto) int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0)
        return errno != ENOENT;
    if (fcntl(file, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK)
        return true;
    char text[sizeof persistent];
    ssize_t n = pread(file, text, sizeof text, 0);
    return n == sizeof persistent - 1 && memcmp(text, persistent, (size_t) n) == 0 && is_pinned();
}
