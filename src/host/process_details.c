/* SPDX-License-Identifier: MIT */
/* What people recognise a process by. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "host/proc_read.h"

#include "base/banned.h"

enum {
    CGROUPS_BYTES = 8192, /* of /proc/PID/cgroup: a line for each hierarchy, of at most a path */
    ID_DIGITS = 64,       /* of a container, as every engine makes them */
    ID_SHOWN = 12,        /* as `docker ps` shows them */
};

/* Return the digits of a container's id in a part of a path, or NULL. */
static const char *find_id(const char *part, size_t n)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t at = 0; at + ID_DIGITS <= n; at++)
        if (strspn(part + at, digits) == ID_DIGITS)
            return part + at;
    return NULL;
}

static bool has_ending(const char *part, size_t n, const char *ending)
{
    size_t len = strlen(ending);

    return n > len && memcmp(part + n - len, ending, len) == 0;
}

/* Look at one part of a path; a container is better than a unit, and the last part better than those before.
 */
static void take_part(const char *part, size_t n, char *out, size_t size, bool *is_container)
{
    const char *id = find_id(part, n);

    if (id)
        (void) snprintf(out, size, "container %.*s", ID_SHOWN, id);
    else if (!*is_container && (has_ending(part, n, ".service") || has_ending(part, n, ".scope")))
        (void) snprintf(out, size, "%.*s", (int) n, part);
    *is_container = *is_container || id;
}

void process_unit_parse(const char *cgroups, char *out, size_t size)
{
    bool is_container = false;

    out[0] = '\0';
    for (const char *line = cgroups; *line;) {
        size_t n = strcspn(line, "\n");
        const char *path = memchr(line, '/', n);

        for (const char *at = path; at && at < line + n;) {
            size_t part = strcspn(at + 1, "/\n");

            take_part(at + 1, part, out, size, &is_container);
            at += part + 1;
        }
        line += n + (line[n] == '\n');
    }
}

static void read_arguments(pid_t pid, char *out, size_t size)
{
    char text[DIBS_ARGUMENTS_MAX + 1];
    char name[48];

    (void) snprintf(name, sizeof name, "/proc/%d/cmdline", (int) pid);
    ssize_t n = proc_read_file(AT_FDCWD, name, text, sizeof text);
    while (n > 0 && text[n - 1] == '\0')
        n--;
    for (ssize_t i = 0; i < n; i++)
        if (text[i] == '\0')
            text[i] = ' ';
    if (n > 0)
        (void) text_copy(out, size, text);
}

void process_details(pid_t pid, bool with_private, struct process_details *out)
{
    char name[48];
    char cgroups[CGROUPS_BYTES];

    *out = (struct process_details){ 0 };
    if (pid <= 0 || !proc_is_ours())
        return;
    (void) snprintf(name, sizeof name, "/proc/%d/cgroup", (int) pid);
    if (proc_read_file(AT_FDCWD, name, cgroups, sizeof cgroups) > 0)
        process_unit_parse(cgroups, out->unit, sizeof out->unit);
    if (!with_private)
        return;
    read_arguments(pid, out->arguments, sizeof out->arguments);
    (void) snprintf(name, sizeof name, "/proc/%d/cwd", (int) pid);
    ssize_t n = readlink(name, out->directory, sizeof out->directory - 1);
    bool is_whole = n > 0 && (size_t) n < sizeof out->directory - 1;
    out->directory[is_whole ? n : 0] = '\0';
}
