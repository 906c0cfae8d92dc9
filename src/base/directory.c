/* SPDX-License-Identifier: MIT */
#include "base/directory.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"

#include "base/banned.h"

bool directory_of(const char *path, char *out, size_t size)
{
    const char *slash = strrchr(path, '/');

    if (!text_copy(out, size, slash ? path : "."))
        return false;
    if (slash)
        out[slash == path ? 1 : slash - path] = '\0';
    return true;
}

int directory_make(const char *dir, mode_t mode)
{
    char part[PATH_MAX];
    struct stat st;

    if (stat(dir, &st) == 0)
        return 0;
    if (!dir[0] || !text_copy(part, sizeof part, dir))
        return dir[0] ? ENAMETOOLONG : ENOENT;
    for (char *p = part + 1;; p++) {
        if (*p != '/' && *p != '\0')
            continue;
        char end = *p;

        *p = '\0';
        if (mkdir(part, mode) != 0 && errno != EEXIST)
            return errno;
        *p = end;
        if (end == '\0')
            return 0;
    }
}
