/* SPDX-License-Identifier: MIT */
/* What a process was started with. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/bytes.h"
#include "owner/look.h"
#include "owner/owner.h"

#include "base/banned.h"

/* The kernel starts nothing whose arguments and environment together are longer than this. */
enum { ENVIRON_MAX = 6 << 20, ENVIRON_STEP = 16 << 10 };
enum { LOOKS_MAX = 10, LOOK_AGAIN_NS = 1000000 };

/* The whole file with a NUL behind it; false: it cannot be read, or is longer than it can be. */
static bool read_environ(int pid_dir_fd, struct bytes *out)
{
    AUTO(fd_auto) int fd = openat(pid_dir_fd, "environ", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : 1;

    while (n > 0 && out->n <= ENVIRON_MAX) {
        char *to = bytes_reserve(out, ENVIRON_STEP);

        n = to ? read(fd, to, ENVIRON_STEP) : -1;
        out->n += n > 0 ? (size_t) n : 0;
    }
    if (n == 0)
        bytes_add(out, "", 1);
    return n == 0 && !out->is_lost;
}

/* Is it that process, and can it be read? Its memory is read under a lock that it may hold itself while the
 * kernel keeps it waiting (state D): `ps` hangs on such a one, we do not (INV-9). Most are back at once. */
static bool is_open(const struct owner_view *view, const dibs_process *who, int pid_dir_fd)
{
    const struct timespec moment = { .tv_nsec = LOOK_AGAIN_NS };
    struct owner_stat stat = { .state = 'D' };

    for (int i = 0; i < LOOKS_MAX && stat.state == 'D'; i++) {
        if (i > 0)
            (void) nanosleep(&moment, NULL);
        if (look_stat(view, pid_dir_fd, "stat", &stat) != LOOK_OK || stat.start_ticks != who->start_ticks)
            return false;
    }
    return stat.state != 'D';
}

char *owner_variable(const struct owner_view *view, const dibs_process *who, const char *name)
{
    pid_t pid = owner_pid_here(view, who);
    size_t name_len = strlen(name);
    AUTO(bytes_done) struct bytes text = { 0 };
    char path[32];

    (void) snprintf(path, sizeof path, "/proc/%d", pid);
    AUTO(fd_auto) int dir = pid > 0 ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    /* From here on the directory is that of one process, and reads nothing once it is gone: it must be he. */
    if (dir < 0 || !is_open(view, who, dir) || !read_environ(dir, &text))
        return NULL;
    for (size_t at = 0; at < text.n; at += strlen(text.at + at) + 1)
        if (strncmp(text.at + at, name, name_len) == 0 && text.at[at + name_len] == '=')
            return strdup(text.at + at + name_len + 1);
    return NULL;
}
