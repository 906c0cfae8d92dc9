/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KERNEL_WALK_H
#define DIBS_KERNEL_WALK_H
/* Inside the room: walking over the numbered directories of /proc. */
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>

/* The kernel's own limit of pids (PID_MAX_LIMIT), and a few names more. */
#define WALK_ENTRIES_MAX ((1 << 22) + 256)

static inline void dir_auto(DIR **dir)
{
    if (*dir)
        (void) closedir(*dir);
}

/* NULL and errno when it cannot be opened. The caller closes it. */
DIR *walk_open(int dir_fd, const char *name);
/* Next numeric name, as long as it is valid; NULL at the end. */
const char *walk_next(DIR *dir);
/* "socket:[123]" or "net:[123]" -> 123; 0 and errno when the link is unreadable or is something else. */
uint64_t walk_inode(int dir_fd, const char *name, const char *kind);
#endif
