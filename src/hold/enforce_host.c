/* SPDX-License-Identifier: MIT */
#include "hold/enforce_host.h"

#include <linux/magic.h>
#include <mntent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/err.h"

#include "base/banned.h"

/* The first kernel in which a program can choose the error of a bind that it refuses. */
enum { KERNEL_MAJOR = 5, KERNEL_MINOR = 18 };

dibs_status enforce_find_cgroups(char *out, size_t size, dibs_err *err)
{
    FILE *mounts = setmntent("/proc/self/mounts", "re");
    char text[8192];
    struct mntent mount;
    struct statfs there;
    bool is_found = false;

    /* Another mount may hide one of the list: ask what is there. */
    while (mounts && !is_found && getmntent_r(mounts, &mount, text, sizeof text))
        is_found = strcmp(mount.mnt_type, "cgroup2") == 0 && statfs(mount.mnt_dir, &there) == 0 &&
                   there.f_type == CGROUP2_SUPER_MAGIC &&
                   (size_t) snprintf(out, size, "%s", mount.mnt_dir) < size;
    if (mounts)
        (void) endmntent(mounts);
    return is_found ? DIBS_OK
                    : err_set(err, DIBS_UNAVAILABLE, "no cgroup v2 hierarchy is mounted on this host");
}

static bool is_older_kernel(const char *release)
{
    int major = 0;
    int minor = 0;

    return sscanf(release, "%d.%d", &major, &minor) != 2 || major < KERNEL_MAJOR ||
           (major == KERNEL_MAJOR && minor < KERNEL_MINOR);
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
