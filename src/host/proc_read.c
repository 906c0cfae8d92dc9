/* SPDX-License-Identifier: MIT */
#include "host/proc_read.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/text.h"

#include "base/banned.h"

#define NS_PER_S 1000000000
/* A node full of containers has about 10,000 mounts of about 200 bytes. */
#define MOUNTS_MAX 200000
/* The kernel's limit of pids (PID_MAX_LIMIT), and a few more names. */
#define PROC_ENTRIES_MAX ((1 << 22) + 256)

/* ---- stat and status: a process name may contain blanks, newlines and parentheses ---- */

/* Tokens after the last ')', counted from 0. */
enum {
    TOKEN_STATE = 0,
    TOKEN_PPID = 1,
    TOKEN_GROUP = 2,
    TOKEN_SESSION = 3,
    TOKEN_THREADS = 17,
    TOKEN_START = 19,
    N_TOKENS
};

bool proc_next_word(const char **p, const char *end, const char **word)
{
    static const char blanks[] = " \t\n";

    while (*p < end && memchr(blanks, **p, sizeof blanks - 1))
        ++*p;
    *word = *p;
    while (*p < end && !memchr(blanks, **p, sizeof blanks - 1))
        ++*p;
    return *p > *word;
}

bool proc_number(const char *text, const char *end, int64_t *out)
{
    bool is_negative = text < end && *text == '-';
    uint64_t n = 0;

    if (!text_number(text + is_negative, (size_t) (end - text) - is_negative, INT64_MAX, &n))
        return false;
    *out = is_negative ? -(int64_t) n : (int64_t) n;
    return true;
}

static bool parse_i32(const char *text, const char *end, int32_t *out)
{
    int64_t n = 0;

    if (!proc_number(text, end, &n) || n < INT32_MIN || n > INT32_MAX)
        return false;
    *out = (int32_t) n;
    return true;
}

static bool take_token(int i, const char *text, const char *end, struct proc_stat *stat)
{
    switch (i) {
    case TOKEN_STATE: stat->state = *text; return end - text == 1 && *text > ' ' && *text < 0x7f;
    case TOKEN_PPID: return parse_i32(text, end, &stat->ppid);
    case TOKEN_GROUP: return parse_i32(text, end, &stat->group);
    case TOKEN_SESSION: return parse_i32(text, end, &stat->session);
    case TOKEN_THREADS: return proc_number(text, end, &stat->num_threads);
    case TOKEN_START: return text_number(text, (size_t) (end - text), UINT64_MAX, &stat->start_ticks);
    default: return true;
    }
}

bool proc_stat_parse(const char *text, size_t len, struct proc_stat *out)
{
    const char *paren = len ? memrchr(text, ')', len) : NULL;
    const char *p = paren ? paren + 1 : text;
    const char *word = NULL;
    struct proc_stat stat = { 0 };

    if (!paren)
        return false;
    for (int n = 0; n < N_TOKENS; n++)
        if (!proc_next_word(&p, text + len, &word) || !take_token(n, word, p, &stat))
            return false;
    *out = stat;
    return true;
}

bool proc_status_line(const char *status, const char *key, const char **value, const char **end)
{
    size_t key_len = strlen(key);

    /* The kernel escapes newlines in the Name line, so a line start is a real one. */
    for (const char *line = strchr(status, '\n'); line; line = strchr(line, '\n')) {
        line++;
        if (strncmp(line, key, key_len) == 0 && line[key_len] == ':') {
            *value = line + key_len + 1;
            *end = strchrnul(*value, '\n');
            return true;
        }
    }
    return false;
}

/* ---- files, directories, links ---- */

int proc_open(pid_t pid, const char *below, int flags)
{
    char path[48];

    (void) snprintf(path, sizeof path, "/proc/%d%s", (int) pid, below);
    return open(path, flags | O_CLOEXEC);
}

ssize_t proc_read_file(int dir_fd, const char *name, char *buf, size_t size)
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

enum proc_result proc_trouble(int os_errno)
{
    return os_errno == ENOENT || os_errno == ESRCH ? PROC_GONE : PROC_DENIED;
}

enum proc_result proc_stat_read(const struct process_view *view, int dir_fd, const char *name,
                                struct proc_stat *out)
{
    char text[PROC_STAT_MAX];
    struct proc_stat stat = { 0 };
    ssize_t n = proc_read_file(dir_fd, name, text, sizeof text);

    if (n < 0)
        return proc_trouble(errno);
    if (!proc_stat_parse(text, (size_t) n, &stat))
        return PROC_DAMAGED;
    stat.start_ticks = proc_host_ticks(view, stat.start_ticks);
    *out = stat;
    return PROC_OK;
}

DIR *proc_open_dir(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir && fd >= 0)
        (void) close(fd);
    return dir;
}

const char *proc_next_number(DIR *dir)
{
    for (int i = 0; i < PROC_ENTRIES_MAX; i++) {
        const struct dirent *entry = readdir(dir);

        if (!entry)
            return NULL;
        size_t len = strlen(entry->d_name);
        /* Ten digits hold any pid and any descriptor. */
        if (len <= 10 && strspn(entry->d_name, "0123456789") == len)
            return entry->d_name;
    }
    return NULL;
}

pid_t proc_next_pid(DIR *dir)
{
    const char *name = proc_next_number(dir);
    int64_t pid = 0;

    return name && proc_number(name, name + strlen(name), &pid) && pid <= INT32_MAX ? (pid_t) pid : 0;
}

enum proc_result proc_pids(int pid_dir_fd, struct proc_pids *out)
{
    char status[PROC_STATUS_MAX];
    const char *p = NULL;
    const char *end = NULL;
    const char *word = NULL;
    struct proc_pids pids = { 0 };

    if (proc_read_file(pid_dir_fd, "status", status, sizeof status) < 0)
        return proc_trouble(errno);
    if (!proc_status_line(status, "NSpid", &p, &end))
        return PROC_DAMAGED;
    for (; proc_next_word(&p, end, &word); pids.depth++)
        if (!proc_number(word, p, &pids.innermost))
            return PROC_DAMAGED;
    *out = pids;
    return PROC_OK;
}

bool proc_pidfd_ended(int pidfd)
{
    struct pollfd p = { .fd = pidfd, .events = POLLIN };

    return poll(&p, 1, 0) > 0;
}

uint64_t proc_link_inode(int dir_fd, const char *name, const char *kind)
{
    char text[64]; /* "pid:[4026531836]" */
    ssize_t n = readlinkat(dir_fd, name, text, sizeof text - 1);
    size_t kind_len = strlen(kind);
    int64_t inode = 0;

    if (n < 0)
        return 0;
    text[n] = '\0';
    const char *close = strchr(text, ']');
    if (strncmp(text, kind, kind_len) != 0 || strncmp(text + kind_len, ":[", 2) != 0 || !close ||
        !proc_number(text + kind_len + 2, close, &inode) || inode <= 0) {
        errno = EPROTO;
        return 0;
    }
    return (uint64_t) inode;
}

bool proc_is_ours(void)
{
    struct proc_pids pids = { 0 };
    char text[32];
    int64_t pid = 0;
    ssize_t n = readlink("/proc/self", text, sizeof text);

    if (n <= 0 || !proc_number(text, text + n, &pid) || pid != getpid())
        return false;
    if (proc_link_inode(AT_FDCWD, "/proc/self/ns/pid", "pid") == PROC_INITIAL_PIDNS)
        return true; /* the cheaper proof: only the /proc of the initial namespace lists us */
    /* In the /proc of a namespace above ours we can have the same number by accident. */
    AUTO(fd_auto) int dir = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return dir >= 0 && proc_pids(dir, &pids) == PROC_OK && pids.depth == 1;
}

bool proc_may_inspect_all(void)
{
    struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3] = { { 0 } };

    /* Only in the initial user namespace does the capability apply to every process. */
    return syscall(SYS_capget, &head, caps) == 0 && (caps[0].effective & (1u << CAP_SYS_PTRACE)) &&
           proc_link_inode(AT_FDCWD, "/proc/self/ns/user", "user") == PROC_INITIAL_USERNS;
}

/* Read hidepid from the mount options: a process that we can see might be our own. */
bool proc_shows_every_process(void)
{
    AUTO(free_auto) char *line = NULL;
    struct statx sx = { 0 };
    size_t size = 0;
    int64_t id = 0;
    bool is_found = false;

    if (proc_may_inspect_all())
        return true;
    if (statx(AT_FDCWD, "/proc/self/", 0, STATX_MNT_ID, &sx) != 0 || !(sx.stx_mask & STATX_MNT_ID))
        return false;
    FILE *mounts = fopen("/proc/self/mountinfo", "re");
    for (int i = 0; mounts && i < MOUNTS_MAX && !is_found && getline(&line, &size, mounts) > 0; i++)
        is_found = proc_number(line, strchrnul(line, ' '), &id) && (uint64_t) id == sx.stx_mnt_id;
    if (mounts)
        (void) fclose(mounts);
    const char *fs = is_found ? strstr(line, " - proc ") : NULL;
    return fs && !strstr(fs, "hidepid=");
}

uint64_t proc_host_ticks(const struct process_view *view, uint64_t ticks)
{
    if (view->boot_offset_ns == 0)
        return ticks;

    /* The kernel adds the offset in unsigned nanoseconds, so a process older than a clock set back shows
     * ticks near 2^64 / tick_ns; the wrapping product undoes that. The last fraction of a tick is lost:
     * round, and let the comparison allow one tick. */
    int64_t tick_ns = NS_PER_S / sysconf(_SC_CLK_TCK);
    int64_t shown_ns = (int64_t) (ticks * (uint64_t) tick_ns);
    int64_t host_ns = shown_ns - view->boot_offset_ns;

    return host_ns < 0 ? 0 : (uint64_t) ((host_ns + tick_ns / 2) / tick_ns);
}
