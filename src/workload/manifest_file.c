/* SPDX-License-Identifier: MIT */
/* Find a project's manifest and check that it can be trusted. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/text.h"
#include "workload/manifest.h"

#include "base/banned.h"

enum { UP_MAX = 256 };

/* Return whether any file has that name; reading it checks the rest. */
static bool is_there(const char *path)
{
    struct stat st = { 0 };

    return lstat(path, &st) == 0;
}

/* Check who can write the file, since dibs acts on it with the rights of its user. Its group may write it:
 * a checkout is group-writable where each user has a group of their own. */
static dibs_status check_trust(const char *path, const struct stat *st, dibs_err *err)
{
    if (st->st_uid != geteuid() && st->st_uid != 0)
        return err_set(err, DIBS_DENIED,
                       "%.200s belongs to uid %u, neither to you (uid %u) nor to root: it is not read", path,
                       (unsigned) st->st_uid, (unsigned) geteuid());
    if ((st->st_mode & S_IWOTH) && !S_ISLNK(st->st_mode)) /* a link's mode is meaningless */
        return err_set(err, DIBS_DENIED, "%.200s can be written by every user: it is not read; chmod o-w it",
                       path);
    return DIBS_OK;
}

/* Check before opening, too: another user's unreadable file must not block the search either. */
static dibs_status check_path(const char *path, dibs_err *err)
{
    struct stat st = { 0 };

    return stat(path, &st) == 0 || lstat(path, &st) == 0 ? check_trust(path, &st, err) : DIBS_OK;
}

/* Return why the file cannot be opened. NOT_FOUND only when not even a link exists. */
static dibs_status not_opened(const char *path, int why, dibs_err *err)
{
    if (check_path(path, err) != DIBS_OK)
        return DIBS_DENIED;
    if (why == ENOENT && is_there(path))
        return err_set(err, DIBS_INVALID, "%.200s is a symbolic link to nothing", path);
    return err_os(err, why == ENOENT || why == ENOTDIR ? DIBS_NOT_FOUND : DIBS_FAILURE, why, "%.200s", path);
}

dibs_status workload_manifest_read(const char *path, struct workload_group **out, dibs_err *err)
{
    AUTO(fd_auto) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    AUTO(free_auto) char *text = NULL;
    struct stat st = { 0 };

    if (fd < 0 || fstat(fd, &st) != 0)
        return not_opened(path, errno, err);
    dibs_status s = check_trust(path, &st, err);
    if (s != DIBS_OK)
        return s;
    if (!S_ISREG(st.st_mode))
        return err_set(err, DIBS_INVALID, "%.200s is not a regular file", path);
    text = malloc(MANIFEST_BYTES_MAX + 1); /* only the pages that the file fills are touched */
    if (!text)
        return err_set(err, DIBS_FAILURE, "%.200s: out of memory", path);
    ssize_t n = read(fd, text, MANIFEST_BYTES_MAX + 1); /* one call: it is a regular file */
    if (n < 0)
        return err_os(err, DIBS_FAILURE, errno, "%.200s", path);
    if (n > MANIFEST_BYTES_MAX)
        return err_set(err, DIBS_INVALID, "%.200s: larger than %d bytes", path, MANIFEST_BYTES_MAX);
    return workload_manifest_parse(path, text, (size_t) n, out, err);
}

/* Search this directory. NOT_FOUND sets no message. */
static dibs_status find_in(const char *dir, char *path, size_t size, dibs_err *err)
{
    char yaml[PATH_MAX + 16];
    char json[PATH_MAX + 16];

    (void) snprintf(yaml, sizeof yaml, "%s/dibs.yaml", dir);
    (void) snprintf(json, sizeof json, "%s/dibs.json", dir);
    bool has_yaml = is_there(yaml);
    bool has_json = is_there(json);
    if (!has_yaml && !has_json)
        return DIBS_NOT_FOUND;
    if (has_yaml && has_json && (check_path(yaml, err) != DIBS_OK || check_path(json, err) != DIBS_OK))
        return DIBS_DENIED;
    if (has_yaml && has_json)
        return err_set(err, DIBS_INVALID, "%.200s has both dibs.yaml and dibs.json: remove one",
                       *dir ? dir : "/");
    if (!text_copy(path, size, has_yaml ? yaml : json))
        return err_set(err, DIBS_INVALID, "the path of the manifest in %.200s is too long", dir);
    return DIBS_OK;
}

dibs_status workload_manifest_find(const char *dir, char *path, size_t size, dibs_err *err)
{
    char at[PATH_MAX];
    const char *from = dir ? dir : ".";
    dibs_status s = DIBS_NOT_FOUND;

    if (!realpath(from, at))
        return err_os(err, DIBS_NOT_FOUND, errno, "%.200s", from);
    if (strcmp(at, "/") == 0)
        at[0] = '\0';
    for (int i = 0; s == DIBS_NOT_FOUND && i < UP_MAX; i++) {
        s = find_in(at, path, size, err);
        char *slash = strrchr(at, '/');
        if (!slash)
            break;
        *slash = '\0';
    }
    if (s == DIBS_NOT_FOUND)
        return err_set(err, s, "no dibs.yaml or dibs.json in %.200s or above", from);
    return s;
}
