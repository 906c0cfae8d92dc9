/* SPDX-License-Identifier: MIT */
/* Which project a directory belongs to, and what its names are relative to. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "dibs/settings.h"
#include "index/order.h"

#include "base/banned.h"

enum { PATH_BYTES = 4096, GROUP_RAW_MAX = 1024, UP_MAX = 256 };

/* First line of a small file, without its newline. */
static bool read_line(const char *path, char *out, size_t size)
{
    AUTO(fd_auto) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, out, size - 1);

    if (n <= 0)
        return false;
    out[n] = '\0';
    out[strcspn(out, "\r\n")] = '\0';
    return true;
}

/* The branch of the work tree at `dir`, a short commit when detached, or nothing. */
static bool git_branch(const char *dir, char *out, size_t size)
{
    char path[PATH_BYTES + 16];
    char line[PATH_BYTES];
    struct stat st;
    static const char heads[] = "ref: refs/heads/";

    (void) snprintf(path, sizeof path, "%s/.git", dir);
    if (stat(path, &st) != 0)
        return false;
    (void) snprintf(path, sizeof path, "%s/.git/HEAD", dir);
    if (S_ISREG(st.st_mode)) { /* a linked work tree: "gitdir: PATH" */
        (void) snprintf(path, sizeof path, "%s/.git", dir);
        if (!read_line(path, line, sizeof line) || strncmp(line, "gitdir: ", 8) != 0)
            return false;
        (void) snprintf(path, sizeof path, "%s%s%.3000s/HEAD", line[8] == '/' ? "" : dir,
                        line[8] == '/' ? "" : "/", line + 8);
    }
    if (!read_line(path, line, sizeof line))
        return false;
    if (strncmp(line, heads, sizeof heads - 1) == 0)
        (void) text_copy(out, size, line + sizeof heads - 1);
    else
        (void) snprintf(out, size, "%.8s", line);
    return out[0] != '\0';
}

/* Bytes that a name cannot have are written %XX; what is too long is cut and told apart by a hash of the
 * whole. */
static void make_part(const char *raw, char out[DIBS_NAME_PART_MAX + 1])
{
    static const char hex[] = "0123456789ABCDEF";
    char full[3 * GROUP_RAW_MAX + 1] = { 0 };
    size_t n = 0;
    size_t len = strnlen(raw, GROUP_RAW_MAX);

    for (size_t i = 0; i < len;) {
        size_t step = text_utf8_length(raw + i, len - i);
        unsigned char c = (unsigned char) raw[i];
        bool is_plain =
            step > 1 ? c != 0xc2 : step == 1 && c > 0x20 && c < 0x7f && c != '/' && c != '%' && c != '~';

        if (is_plain) {
            memcpy(full + n, raw + i, step);
            n += step;
            i += step;
            continue;
        }
        full[n++] = '%';
        full[n++] = hex[c >> 4];
        full[n++] = hex[c & 15];
        i++;
    }
    full[n] = '\0';
    if (text_copy(out, DIBS_NAME_PART_MAX + 1, full))
        return;
    size_t keep = DIBS_NAME_PART_MAX - 7;
    while (keep > 0 && ((unsigned char) full[keep] & 0xc0) == 0x80)
        keep--;
    (void) snprintf(out + keep, 8, "~%06x", (unsigned) (order_fnv1a(ORDER_FNV_BASIS, full, n) & 0xffffff));
}

/* Upward to the nearest directory that holds `.git`; `dir` is shortened to it when there is one. */
static bool find_root(char *dir)
{
    char path[PATH_BYTES + 8];
    char top[PATH_BYTES];
    struct stat st;

    (void) text_copy(top, sizeof top, dir);
    for (int i = 0; i < UP_MAX; i++) {
        (void) snprintf(path, sizeof path, "%s/.git", top);
        if (stat(path, &st) == 0) {
            (void) text_copy(dir, PATH_BYTES, top[0] ? top : "/");
            return true;
        }
        char *slash = strrchr(top, '/');
        if (!slash)
            return false;
        *slash = '\0';
        if (!top[0])
            return false;
    }
    return false;
}

dibs_status dibs_project_find(const dibs_settings *settings, const char *dir, dibs_project *out,
                              dibs_err *err)
{
    char found[PATH_BYTES];
    char raw[GROUP_RAW_MAX];
    char branch[256] = "";
    dibs_project project = { 0 };

    if (dir ? !text_copy(found, sizeof found, dir) : !getcwd(found, sizeof found))
        return err_os(err, DIBS_FAILURE, dir ? ENAMETOOLONG : errno, "cannot tell the working directory");
    bool is_git = find_root(found);
    /* A longer path is not recorded; the group still tells projects apart. */
    if (!text_copy(project.dir, sizeof project.dir, found))
        project.dir[0] = '\0';
    if (settings && settings->group[0]) {
        (void) text_copy(project.group, sizeof project.group, settings->group);
        project.dir[0] = '\0'; /* a group that somebody named is the same wherever it is used */
    } else {
        const char *base = strrchr(found, '/');

        base = base && base[1] ? base + 1 : found[0] && found[1] ? found : "root";
        if (is_git && git_branch(found, branch, sizeof branch))
            (void) snprintf(raw, sizeof raw, "%s@%s", base, branch);
        else
            (void) text_copy(raw, sizeof raw, base);
        make_part(raw, project.group);
    }
    *out = project;
    return DIBS_OK;
}

dibs_status dibs_name_resolve(const dibs_project *project, const char *text, char out[DIBS_NAME_MAX + 1],
                              dibs_err *err)
{
    char name[DIBS_NAME_MAX + 1];
    char shown[80];
    bool is_absolute = text && text[0] == '/';
    const char *rest = is_absolute ? text + 1 : text;

    if (!rest || !rest[0])
        return err_set(err, DIBS_INVALID, "a name cannot be empty");
    if (rest[strspn(rest, "0123456789")] == '\0')
        return err_set(err, DIBS_INVALID, "name '%s' is only a number, which would be taken for a port",
                       text_safe(rest, shown, sizeof shown));
    int n = is_absolute ? snprintf(name, sizeof name, "%.*s", DIBS_NAME_MAX, rest)
                        : snprintf(name, sizeof name, "%s/%.*s", project->group, DIBS_NAME_MAX, rest);
    if (n < 0 || (size_t) n >= sizeof name || strnlen(rest, DIBS_NAME_MAX + 1) > DIBS_NAME_MAX)
        return err_set(err, DIBS_INVALID, "name '%s' has more than %d bytes with its group",
                       text_safe(rest, shown, sizeof shown), DIBS_NAME_MAX);
    dibs_status s = dibs_name_check(name, err);
    if (s == DIBS_OK)
        (void) text_copy(out, DIBS_NAME_MAX + 1, name);
    return s;
}
