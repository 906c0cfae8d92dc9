/* SPDX-License-Identifier: MIT */
/* Where a process is in the cgroup hierarchy, and whether it can still gain rights. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "host/proc_read.h"
#include "host/process.h"

#include "base/banned.h"

/* The line is "0::/user.slice"; v1 hierarchies have lines of their own. */
dibs_status process_cgroup(pid_t pid, char *out, size_t size, dibs_err *err)
{
    char name[48];
    char text[8192];

    (void) snprintf(name, sizeof name, "/proc/%d/cgroup", (int) pid);
    AUTO(fd_auto) int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (n < 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "reading %s", name);
    text[n] = '\0';
    const char *line = strncmp(text, "0::/", 4) == 0 ? text : strstr(text, "\n0::/");
    if (!line)
        return err_set(err, DIBS_UNAVAILABLE, "process %d is in no cgroup v2", (int) pid);
    line = strchr(line, '/');
    size_t length = strcspn(line, "\n");
    if (strncmp(line, "/../", 4) == 0 || length >= size)
        return err_set(err, DIBS_UNAVAILABLE, "the cgroup of process %d cannot be reached from here",
                       (int) pid);
    memcpy(out, line, length);
    out[length == 1 ? 0 : length] = '\0';
    return DIBS_OK;
}

bool process_is_in_cgroup(pid_t pid, const char *cgroup)
{
    char path[4096];
    const char *wanted = strrchr(cgroup, '/');
    const char *name = process_cgroup(pid, path, sizeof path, NULL) == DIBS_OK ? strrchr(path, '/') : NULL;

    return wanted && name && strcmp(wanted, name) == 0;
}

bool process_cannot_gain_rights(pid_t pid)
{
    char name[48];
    char status[PROC_STATUS_MAX];
    const char *value = NULL;
    const char *end = NULL;
    const char *word = NULL;
    int64_t number = 0;

    (void) snprintf(name, sizeof name, "/proc/%d/status", (int) pid);
    return proc_read_file(AT_FDCWD, name, status, sizeof status) >= 0 &&
           proc_status_line(status, "NoNewPrivs", &value, &end) && proc_next_word(&value, end, &word) &&
           proc_number(word, value, &number) && number == 1;
}
