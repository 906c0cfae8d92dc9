/* SPDX-License-Identifier: MIT */
/* Finds the project of a directory, the group of its names, and what its manifest may set. It reads git's
 * files and does not run git: git may be missing, costs milliseconds, and can run commands of a hostile
 * checkout. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/name_part.h"
#include "base/secret.h"
#include "base/text.h"
#include "dibs/settings.h"

#include "base/banned.h"

enum { PATH_BYTES = 4096, UP_MAX = 256 };

/* Read the first line of a small regular file; a pipe or device in a checkout must not block us. */
static bool read_line(const char *path, char out[PATH_BYTES])
{
    AUTO(free_auto) char *text = NULL;

    if (file_read_text("", path, PATH_BYTES, &text, NULL) != DIBS_OK || !text[0])
        return false;
    text[strcspn(text, "\r\n")] = '\0';
    return text_copy(out, PATH_BYTES, text);
}

/* Find the directory of git's HEAD for the work tree `dir`: "DIR/.git", or the target of that file. */
static bool git_directory(const char *dir, char *out, size_t size)
{
    static const char link[] = "gitdir: ";
    char line[PATH_BYTES];
    struct stat st = { 0 };
    int n = snprintf(out, size, "%s/.git", dir);

    if (n < 0 || (size_t) n >= size || stat(out, &st) != 0)
        return false;
    if (S_ISDIR(st.st_mode))
        return true;
    if (!read_line(out, line) || strncmp(line, link, sizeof link - 1) != 0)
        return false;
    const char *to = line + sizeof link - 1;
    n = snprintf(out, size, "%s%s%s", to[0] == '/' ? "" : dir, to[0] == '/' ? "" : "/", to);
    return n >= 0 && (size_t) n < size;
}

/* Read the branch at `dir`. A detached HEAD has none: a commit changes with every step of a rebase. */
static bool git_branch(const char *dir, char *out, size_t size)
{
    static const char heads[] = "ref: refs/heads/";
    static const char elsewhere[] = ".invalid"; /* git writes this when HEAD is in a reftable */
    char path[2 * PATH_BYTES];
    char line[PATH_BYTES];

    if (!git_directory(dir, path, sizeof path - sizeof "/HEAD"))
        return false;
    memcpy(path + strlen(path), "/HEAD", sizeof "/HEAD");
    if (!read_line(path, line) || strncmp(line, heads, sizeof heads - 1) != 0)
        return false;
    const char *branch = line + sizeof heads - 1;
    (void) text_copy(out, size, branch);
    return branch[0] && strcmp(branch, elsewhere) != 0;
}

/* Make the group "shop@main". Escape '@' in the directory's name and cut it independently of the branch: the
 * part before the first '@' is the directory's alone (core/name.c). */
static void make_group(const char *name, const char *branch, char out[DIBS_NAME_PART_MAX + 1])
{
    enum { DIRECTORY_MAX = 44 };
    char part[DIBS_NAME_PART_MAX + 1];

    _Static_assert(DIBS_NAME_PART_MAX - 1 - DIRECTORY_MAX > NAME_PART_HASH_MIN,
                   "a branch always fits, or its hash");
    name_part_encode(name, "@", DIRECTORY_MAX, out);
    if (!branch[0])
        return;
    size_t n = strlen(out);
    name_part_encode(branch, "", DIBS_NAME_PART_MAX - 1 - n, part);
    (void) snprintf(out + n, DIBS_NAME_PART_MAX + 1 - n, "@%s", part);
}

/* Shorten `dir` to the nearest one upward with `.git`; skip another user's, which could be in /tmp. */
static bool find_root(char *dir)
{
    char path[PATH_BYTES + 8];
    char top[PATH_BYTES];
    struct stat start = { 0 };
    struct stat st = { 0 };
    bool is_known = stat(dir, &start) == 0;

    (void) text_copy(top, sizeof top, strcmp(dir, "/") == 0 ? "" : dir);
    for (int i = 0; i < UP_MAX; i++) {
        (void) snprintf(path, sizeof path, "%s/.git", top);
        if (stat(path, &st) == 0 &&
            (st.st_uid == geteuid() || st.st_uid == 0 || (is_known && st.st_uid == start.st_uid))) {
            (void) text_copy(dir, PATH_BYTES, top[0] ? top : "/");
            return true;
        }
        char *slash = strrchr(top, '/');
        if (!slash)
            return false;
        *slash = '\0';
    }
    return false;
}

dibs_status dibs_project_find(const dibs_settings *settings, const char *dir, dibs_project *out,
                              dibs_err *err)
{
    char found[PATH_BYTES];
    char root[PATH_BYTES]; /* of the work tree */
    char branch[NAME_PART_RAW_MAX + 1] = "";
    char shown[80];
    dibs_project project = { 0 };

    if (!out)
        return err_set(err, DIBS_INVALID, "the output for the project is missing");
    if (settings && settings->group[0]) { /* a named group is the same in every directory */
        (void) text_copy(project.group, sizeof project.group, settings->group);
        project.is_marked = true;
        *out = project;
        return DIBS_OK;
    }
    bool has_manifest = !dir && settings && settings->project_dir[0];
    if (has_manifest)
        (void) text_copy(found, sizeof found, settings->project_dir);
    else if (!dir && !getcwd(found, sizeof found))
        return err_os(err, DIBS_FAILURE, errno, "cannot tell the working directory");
    if (dir && !realpath(dir, found))
        return err_os(err, DIBS_INVALID, errno, "project directory '%s'",
                      text_safe(dir, shown, sizeof shown));
    (void) text_copy(root, sizeof root, found);
    bool is_tree = find_root(root);
    if (is_tree && !git_branch(root, branch, sizeof branch))
        branch[0] = '\0';
    project.is_marked = has_manifest || is_tree;
    if (!text_copy(project.dir, sizeof project.dir, has_manifest ? found : root))
        return err_set(err, DIBS_INVALID,
                       "the project's path has more than %d bytes, '%s'; name a group (--group, DIBS_GROUP)",
                       DIBS_PROJECT_MAX, text_safe(found, shown, sizeof shown));
    const char *base = strrchr(project.dir, '/') + 1;
    if (has_manifest && settings->project_group[0])
        base = settings->project_group;
    make_group(base[0] ? base : "root", branch, project.group);
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
    if (!out || (!is_absolute && (!project || !memchr(project->group, '\0', sizeof project->group))))
        return err_set(err, DIBS_INVALID, "an argument is missing");
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

/* A checkout must not redirect its user to another ledger or daemon, weaken durability, or rename the host.
 * Its group is no setting: it depends on branch and directory. */
bool dibs_setting_is_for_projects(dibs_setting setting)
{
    static const bool are[DIBS_SETTING_COUNT] = {
        [DIBS_SET_RANGE] = true,         [DIBS_SET_POOL] = true,
        [DIBS_SET_BAND] = true,          [DIBS_SET_ORDER] = true,
        [DIBS_SET_COOLDOWN] = true,      [DIBS_SET_TTL] = true,
        [DIBS_SET_TIMEOUT] = true,       [DIBS_SET_ALLOW_EPHEMERAL] = true,
        [DIBS_SET_ALLOW_BLOCKED] = true,
    };

    return (unsigned) setting < DIBS_SETTING_COUNT && are[setting];
}
