/* SPDX-License-Identifier: MIT */
#include "hold/enforce_host.h"

#include <linux/magic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/err.h"
#include "base/text.h"

#include "base/banned.h"

/* The first kernel in which a program can choose the error of a bind that it refuses. */
enum { KERNEL_MAJOR = 5, KERNEL_MINOR = 18 };

/* Find the mount in a line of mountinfo. Its root must be that of our cgroup namespace ("/"), or the paths in
 * /proc/PID/cgroup would lead elsewhere. */
static bool read_mount(const char *line, char *root, char *out, size_t size)
{
    char path[256];
    const char *type = strstr(line, " - ");
    struct statfs there;

    /* Another mount may hide one of the list: ask what is there. */
    return type && strncmp(type, " - cgroup2 ", 11) == 0 &&
           sscanf(line, "%*d %*d %*s %255s %255s", root, path) == 2 && statfs(path, &there) == 0 &&
           there.f_type == CGROUP2_SUPER_MAGIC && (size_t) snprintf(out, size, "%s", path) < size;
}

dibs_status enforce_find_cgroups(char *out, size_t size, dibs_err *err)
{
    FILE *mounts = fopen("/proc/self/mountinfo", "re");
    char line[8192];
    char root[256];
    bool is_found = false;
    bool is_other = false;

    while (mounts && !is_found && fgets(line, sizeof line, mounts))
        if (read_mount(line, root, out, size)) {
            is_found = strcmp(root, "/") == 0;
            is_other = true;
        }
    if (mounts)
        (void) fclose(mounts);
    return is_found ? DIBS_OK
           : is_other
               ? err_set(err, DIBS_UNAVAILABLE,
                         "the cgroup v2 hierarchy is mounted, but not the part that the daemon's cgroup "
                         "namespace shows: mount it there, or use the host's namespace")
               : err_set(err, DIBS_UNAVAILABLE, "no cgroup v2 hierarchy is mounted on this host");
}

static bool is_older_kernel(const char *release)
{
    const char *rest = release + strcspn(release, ".");
    uint64_t major = 0;
    uint64_t minor = 0;

    return !text_number(release, (size_t) (rest - release), UINT16_MAX, &major) || *rest != '.' ||
           !text_number(rest + 1, strspn(rest + 1, "0123456789"), UINT16_MAX, &minor) ||
           major < KERNEL_MAJOR || (major == KERNEL_MAJOR && minor < KERNEL_MINOR);
}

dibs_status enforce_check_host(dibs_err *err)
{
    static const char types[] = "/sys/kernel/btf/vmlinux";
    char cgroups[256];
    struct utsname kernel;

    if (uname(&kernel) != 0 || is_older_kernel(kernel.release))
        return err_set(err, DIBS_UNAVAILABLE, "the kernel is older than Linux %d.%d", KERNEL_MAJOR,
                       KERNEL_MINOR);
    if (access(types, R_OK) != 0)
        return err_set(err, DIBS_UNAVAILABLE, "the kernel does not describe its types in %s", types);
    return enforce_find_cgroups(cgroups, sizeof cgroups, err);
}
