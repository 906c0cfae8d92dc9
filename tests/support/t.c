/* SPDX-License-Identifier: MIT */
#include "support/t.h"

#include <dirent.h>

size_t count_entries(const char *path)
{
    DIR *dir = opendir(path);
    size_t n = 0;

    assert_non_null(dir);
    while (readdir(dir))
        n++;
    (void) closedir(dir);
    return n;
}
