/* SPDX-License-Identifier: MIT */
#include "owner/look.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/banned.h"

#define NS_PER_S 1000000000
/* PROC_USER_INIT_INO of the kernel: fixed, part of its ABI since 3.8. */
#define INITIAL_USERNS 0xEFFFFFFDu
/* A node full of containers has some 10,000 mounts of some 200 bytes. */
#define MOUNTS_MAX 200000
/* The kernel's own limit of pids (PID_MAX_LIMIT), and a few names more. */
#define PROC_ENTRIES_MAX ((1 << 22) + 256)

ssize_t look_file(int dir_fd, const char *name, char *buf, size_t size)
{
    AUTO(fd_auto) int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return -1;
    ssize_t n = read(fd, buf, size - 1);
    if (n < 0)
        return -1;
    buf[n] = '\0';
    return n;
}

enum look look_trouble(int os_errno)
{
    return os_errno == ENOENT || os_errno == ESRCH ? LOOK_GONE : LOOK_DENIED;
}

enum look look_stat(const struct owner_view *view, int dir_fd, const char *name, struct owner_stat *out)
{
    char text[LOOK_STAT_MAX];
    struct owner_stat stat = { 0 };
    ssize_t n = look_file(dir_fd, name, text, sizeof text);

    if (n < 0)
        return look_trouble(errno);
    if (!owner_stat_parse(text, (size_t) n, &stat))
        return LOOK_DAMAGED;
    stat.start_ticks = look_host_ticks(view, stat.start_ticks);
    *out = stat;
    return LOOK_OK;
}

static bool is_ended(char state)
{
    return state == 'Z' || state == 'X' || state == 'x';
}

static DIR *open_dir(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir && fd >= 0)
        (void) close(fd);
    return dir;
}

dibs_life look_life(const struct owner_view *view, int pid_dir_fd, const struct owner_stat *stat)
{
    if (!is_ended(stat->state))
        return DIBS_ALIVE;
    if (stat->num_threads <= 1)
        return DIBS_DEAD;

    /* Dead threads of a traced process are counted as well: look at each. */
    AUTO(dir_auto) DIR *dir = open_dir(pid_dir_fd, "task");
    if (!dir)
        return look_trouble(errno) == LOOK_GONE ? DIBS_DEAD : DIBS_UNKNOWN;

    dibs_life life = DIBS_DEAD;
    for (pid_t tid = look_next_pid(dir); tid; tid = look_next_pid(dir)) {
        struct owner_stat thread = { 0 };
        char name[32];

        (void) snprintf(name, sizeof name, "%d/stat", tid);
        enum look seen = look_stat(view, dirfd(dir), name, &thread);
        if (seen == LOOK_OK && !is_ended(thread.state))
            return DIBS_ALIVE;
        if (seen == LOOK_DENIED || seen == LOOK_DAMAGED)
            life = DIBS_UNKNOWN;
    }
    return life;
}

pid_t look_next_pid(DIR *dir)
{
    for (int i = 0; i < PROC_ENTRIES_MAX; i++) {
        const struct dirent *entry = readdir(dir);
        int64_t pid = 0;

        if (!entry)
            return 0;
        if (look_number(entry->d_name, entry->d_name + strlen(entry->d_name), &pid) && pid > 0 &&
            pid <= INT32_MAX)
            return (pid_t) pid;
    }
    return 0;
}

enum look look_pids(int pid_dir_fd, struct look_pids *out)
{
    char status[LOOK_STATUS_MAX];
    const char *p = NULL;
    const char *end = NULL;
    struct look_pids pids = { 0 };

    if (look_file(pid_dir_fd, "status", status, sizeof status) < 0)
        return look_trouble(errno);
    if (!look_status_line(status, "NSpid", &p, &end))
        return LOOK_DAMAGED;
    while (p < end) {
        const char *start = p;
        while (p < end && *p != '\t' && *p != ' ')
            p++;
        if (p > start) {
            if (!look_number(start, p, &pids.innermost))
                return LOOK_DAMAGED;
            pids.depth++;
        }
        p++;
    }
    *out = pids;
    return LOOK_OK;
}

bool look_pidfd_ended(int pidfd)
{
    struct pollfd p = { .fd = pidfd, .events = POLLIN };

    return poll(&p, 1, 0) > 0;
}

uint64_t look_namespace(int dir_fd, const char *name)
{
    char text[64]; /* "pid:[4026531836]" */
    ssize_t n = readlinkat(dir_fd, name, text, sizeof text - 1);
    int64_t inode = 0;

    if (n < 0)
        return 0;
    text[n] = '\0';
    const char *open = strchr(text, '[');
    const char *close = open ? strchr(open, ']') : NULL;
    if (!close || !look_number(open + 1, close, &inode) || inode <= 0) {
        errno = EPROTO;
        return 0;
    }
    return (uint64_t) inode;
}

bool look_proc_is_ours(void)
{
    char text[32];
    int64_t pid = 0;
    ssize_t n = readlink("/proc/self", text, sizeof text);

    return n > 0 && look_number(text, text + n, &pid) && pid == getpid();
}

static bool may_look_at_everyone(void)
{
    struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3] = { { 0 } };

    /* The capability counts for everyone only in the initial user namespace. */
    return syscall(SYS_capget, &head, caps) == 0 && (caps[0].effective & (1u << CAP_SYS_PTRACE)) &&
           look_namespace(AT_FDCWD, "/proc/self/ns/user") == INITIAL_USERNS;
}

static void file_auto(FILE **file)
{
    if (*file)
        (void) fclose(*file);
}

/* hidepid is an option of the mount, so the mount is asked, not some process that might be ours. */
static bool proc_hides_nobody(void)
{
    struct statx sx = { 0 };
    AUTO(free_auto) char *line = NULL;
    size_t size = 0;

    if (statx(AT_FDCWD, "/proc/self/", 0, STATX_MNT_ID, &sx) != 0 || !(sx.stx_mask & STATX_MNT_ID))
        return false;
    AUTO(file_auto) FILE *mounts = fopen("/proc/self/mountinfo", "re");
    for (int i = 0; mounts && i < MOUNTS_MAX && getline(&line, &size, mounts) > 0; i++) {
        int64_t id = 0;

        if (look_number(line, strchrnul(line, ' '), &id) && (uint64_t) id == sx.stx_mnt_id) {
            const char *fs = strstr(line, " - proc ");
            return fs && !strstr(fs, "hidepid=");
        }
    }
    return false;
}

bool look_sees_every_process(void)
{
    return may_look_at_everyone() || proc_hides_nobody();
}

uint64_t look_host_ticks(const struct owner_view *view, uint64_t ticks)
{
    if (view->boot_offset_ns == 0)
        return ticks;

    /* The kernel adds the offset in unsigned nanoseconds, so that a process older than a clock set
     * back shows ticks near 2^64 / tick_ns; the wrapping product undoes that. The last fraction of
     * a tick is lost: round, and let the judge bear with one tick. */
    int64_t tick_ns = NS_PER_S / sysconf(_SC_CLK_TCK);
    int64_t shown_ns = (int64_t) (ticks * (uint64_t) tick_ns);
    int64_t host_ns = shown_ns - view->boot_offset_ns;

    return host_ns < 0 ? 0 : (uint64_t) ((host_ns + tick_ns / 2) / tick_ns);
}
