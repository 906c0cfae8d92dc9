/* SPDX-License-Identifier: MIT */
#ifndef DIBS_TESTS_OWNER_H
#define DIBS_TESTS_OWNER_H
/* Processes as the owner room sees them, and waiting for what they become. */
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "owner/owner.h"
#include "support/t.h"

static inline struct owner_view here(void)
{
    struct owner_view view = { 0 };
    dibs_err err = { 0 };

    ASSERT_OK(owner_view_load(&view, &err), &err);
    return view;
}

static inline struct owner_facts facts_of(const struct owner_view *view, pid_t pid)
{
    struct owner_facts facts = { 0 };
    dibs_err err = { 0 };

    ASSERT_OK(owner_identify(view, pid, &facts, &err), &err);
    return facts;
}

#define ASSERT_LIFE(view, who, life, text)                                       \
    do {                                                                         \
        char why_[128] = "";                                                     \
        assert_int_equal(owner_judge((view), (who), why_, sizeof why_), (life)); \
        if (!strstr(why_, (text)))                                               \
            fail_msg("the reason is \"%s\", not \"%s\"", why_, (text));          \
    } while (0)

/* The letter of /proc/PID/stat; '?' when there is none. */
static inline char state_of(pid_t pid)
{
    char path[64];
    char text[2048] = "";
    struct owner_stat stat = { 0 };

    (void) snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
    if (fd >= 0)
        (void) close(fd);
    if (n <= 0 || !owner_stat_parse(text, (size_t) n, &stat))
        return '?';
    return stat.state;
}

/* Ticks since the host began, as start times are counted. */
static inline uint64_t ticks_now(const struct owner_view *view)
{
    struct timespec now = { 0 };

    (void) clock_gettime(CLOCK_BOOTTIME, &now);
    int64_t ns = (int64_t) now.tv_sec * 1000000000 + now.tv_nsec - view->boot_offset_ns;
    return (uint64_t) (ns / (1000000000 / sysconf(_SC_CLK_TCK)));
}
#endif
