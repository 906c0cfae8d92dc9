/* SPDX-License-Identifier: MIT */
#include "support/process.h"

#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "host/process.h"

struct process_view here(void)
{
    struct process_view view = { 0 };
    dibs_err err = { 0 };

    ASSERT_OK(process_view_load(&view, &err), &err);
    return view;
}

struct process_facts facts_of(const struct process_view *view, pid_t pid)
{
    struct process_facts facts = { 0 };
    dibs_err err = { 0 };

    ASSERT_OK(process_identify(view, pid, &facts, &err), &err);
    return facts;
}

char state_of(pid_t pid)
{
    char path[64];
    char text[2048] = "";
    struct proc_stat stat = { 0 };

    (void) snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
    if (fd >= 0)
        (void) close(fd);
    if (n <= 0 || !proc_stat_parse(text, (size_t) n, &stat))
        return '?';
    return stat.state;
}

uint64_t ticks_now(const struct process_view *view)
{
    struct timespec now = { 0 };

    (void) clock_gettime(CLOCK_BOOTTIME, &now);
    int64_t ns = (int64_t) now.tv_sec * 1000000000 + now.tv_nsec - view->boot_offset_ns;
    return (uint64_t) (ns / (1000000000 / sysconf(_SC_CLK_TCK)));
}
