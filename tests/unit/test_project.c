/* SPDX-License-Identifier: MIT */
/* The project of a directory, and the names that follow from it. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dibs/settings.h"
#include "support/ledger.h"

struct place {
    char dir[256];
    dibs_settings settings;
    dibs_project project;
    dibs_err err;
};

static int setup(void **state)
{
    struct place *p = calloc(1, sizeof *p);

    assert_non_null(p);
    t_make_directory(p->dir);
    *state = p;
    return 0;
}

/* Depth first; only what the cases below make. */
static void remove_tree(const char *path)
{
    DIR *dir = opendir(path);
    char below[600];

    if (!dir)
        return;
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        (void) snprintf(below, sizeof below, "%s/%s", path, entry->d_name);
        if (unlink(below) != 0)
            remove_tree(below);
    }
    (void) closedir(dir);
    (void) rmdir(path);
}

static int teardown(void **state)
{
    struct place *p = *state;

    remove_tree(p->dir);
    free(p);
    return 0;
}

static const char *path_of(const struct place *p, const char *below)
{
    static char path[600];

    (void) snprintf(path, sizeof path, "%s/%s", p->dir, below);
    return path;
}

static void make_dir(const struct place *p, const char *below)
{
    assert_int_equal(mkdir(path_of(p, below), 0700), 0);
}

static void make_file(const struct place *p, const char *below, const char *text)
{
    int fd = open(path_of(p, below), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t) strlen(text));
    (void) close(fd);
}

static const char *group_of(struct place *p, const char *below)
{
    ASSERT_OK(dibs_project_find(&p->settings, path_of(p, below), &p->project, &p->err), &p->err);
    return p->project.group;
}

static void a_plain_directory_is_a_project_by_its_name(void **state)
{
    struct place *p = *state;

    make_dir(p, "shop");
    assert_string_equal(group_of(p, "shop"), "shop");
    assert_string_equal(p->project.dir, path_of(p, "shop"));
}

static void a_directory_inside_a_repository_is_that_project_on_its_branch(void **state)
{
    struct place *p = *state;

    make_dir(p, "shop");
    make_dir(p, "shop/.git");
    make_file(p, "shop/.git/HEAD", "ref: refs/heads/main\n");
    make_dir(p, "shop/src");
    make_dir(p, "shop/src/web");
    assert_string_equal(group_of(p, "shop/src/web"), "shop@main");
    assert_string_equal(p->project.dir, path_of(p, "shop"));
    make_file(p, "shop/.git/HEAD", "ref: refs/heads/feature/cart\n");
    assert_string_equal(group_of(p, "shop"), "shop@feature%2Fcart"); /* a part has no slash */
    make_file(p, "shop/.git/HEAD", "0123456789abcdef0123456789abcdef01234567\n");
    assert_string_equal(group_of(p, "shop"), "shop"); /* a commit is not stable */
    make_file(p, "shop/.git/HEAD", "ref: refs/heads/.invalid\n");
    assert_string_equal(group_of(p, "shop"), "shop"); /* a reftable: HEAD is not in HEAD */
    make_file(p, "shop/.git/HEAD", "ref: refs/remotes/origin/main\n");
    assert_string_equal(group_of(p, "shop"), "shop");
    make_file(p, "shop/.git/HEAD", "");
    assert_string_equal(group_of(p, "shop"), "shop"); /* a repository without a branch is a directory */
}

static void a_linked_work_tree_has_its_own_branch(void **state)
{
    struct place *p = *state;
    char line[600];

    make_dir(p, "main");
    make_dir(p, "main/.git");
    make_file(p, "main/.git/HEAD", "ref: refs/heads/main\n");
    make_dir(p, "main/.git/worktrees");
    make_dir(p, "main/.git/worktrees/fix");
    make_file(p, "main/.git/worktrees/fix/HEAD", "ref: refs/heads/fix\n");
    make_dir(p, "tree");
    (void) snprintf(line, sizeof line, "gitdir: %s\n", path_of(p, "main/.git/worktrees/fix"));
    make_file(p, "tree/.git", line);
    assert_string_equal(group_of(p, "tree"), "tree@fix");
    make_file(p, "tree/.git", "gitdir: ../main/.git/worktrees/fix\n");
    assert_string_equal(group_of(p, "tree"), "tree@fix");
    make_file(p, "tree/.git", "nonsense\n");
    assert_string_equal(group_of(p, "tree"), "tree");
}

static void bytes_that_a_name_cannot_have_are_escaped(void **state)
{
    struct place *p = *state;
    static const char *const rows[][2] = {
        { "my shop", "my%20shop" }, { "100%", "100%25" },          { "a~b", "a%7Eb" },
        { "me@home", "me%40home" }, { "tab\there", "tab%09here" }, { "caf\xc3\xa9", "caf\xc3\xa9" },
        { "bad\xff", "bad%FF" },
    };
    char name[DIBS_NAME_MAX + 1];

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        make_dir(p, rows[i][0]);
        assert_string_equal(group_of(p, rows[i][0]), rows[i][1]);
        ASSERT_OK(dibs_name_resolve(&p->project, "web", name, &p->err), &p->err);
    }
}

static void long_directory_names_stay_apart(void **state)
{
    struct place *p = *state;
    char one[201];
    char first[DIBS_NAME_PART_MAX + 1];
    char name[DIBS_NAME_MAX + 1];

    memset(one, 'x', 200);
    one[200] = '\0';
    make_dir(p, one);
    (void) snprintf(first, sizeof first, "%s", group_of(p, one));
    assert_true(strlen(first) <= DIBS_NAME_PART_MAX);
    /* The part before the '@' does not change with the branch: that is how its group is found again. */
    char below[256];
    (void) snprintf(below, sizeof below, "%s/.git", one);
    make_dir(p, below);
    (void) snprintf(below, sizeof below, "%s/.git/HEAD", one);
    make_file(p, below, "ref: refs/heads/a-branch-with-a-long-name-that-is-cut-as-well\n");
    assert_int_equal(strncmp(group_of(p, one), first, strlen(first)), 0);
    assert_int_equal(p->project.group[strlen(first)], '@');
    one[199] = 'y';
    make_dir(p, one);
    assert_string_not_equal(group_of(p, one), first);
    ASSERT_OK(dibs_name_resolve(&p->project, "web", name, &p->err), &p->err);
}

static void a_path_is_the_same_however_it_is_written(void **state)
{
    struct place *p = *state;
    static const char *const ways[] = { "shop/", "shop/.", "shop/src/..", "link", "./shop//" };

    make_dir(p, "shop");
    make_dir(p, "shop/src");
    (void) snprintf(p->project.dir, sizeof p->project.dir, "%s", path_of(p, "shop"));
    assert_int_equal(symlink(p->project.dir, path_of(p, "link")), 0);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        assert_string_equal(group_of(p, ways[i]), "shop");
        assert_string_equal(p->project.dir, path_of(p, "shop"));
    }
    assert_int_equal(dibs_project_find(NULL, path_of(p, "none"), &p->project, &p->err), DIBS_INVALID);
    assert_string_equal(p->project.group, "shop"); /* untouched */
}

static void a_group_that_was_named_is_the_same_everywhere(void **state)
{
    struct place *p = *state;

    make_dir(p, "a");
    make_dir(p, "b");
    (void) snprintf(p->settings.group, sizeof p->settings.group, "shop");
    assert_string_equal(group_of(p, "a"), "shop");
    assert_string_equal(p->project.dir, "");
    assert_string_equal(group_of(p, "b"), "shop");
}

static void the_root_and_the_working_directory_are_projects_too(void **state)
{
    struct place *p = *state;
    char cwd[4096];

    ASSERT_OK(dibs_project_find(NULL, "/", &p->project, &p->err), &p->err);
    assert_true(strncmp(p->project.group, "root", 4) == 0);
    assert_non_null(getcwd(cwd, sizeof cwd));
    make_dir(p, "here");
    assert_int_equal(chdir(path_of(p, "here")), 0);
    ASSERT_OK(dibs_project_find(NULL, NULL, &p->project, &p->err), &p->err);
    assert_int_equal(chdir(cwd), 0);
    assert_string_equal(p->project.group, "here");
}

static void relative_names_belong_to_the_group_and_absolute_ones_to_nobody(void **state)
{
    struct place *p = *state;
    const dibs_project shop = { .group = "shop@main" };
    static const char *const good[][2] = {
        { "web", "shop@main/web" },
        { "web/0/-/http", "shop@main/web/0/-/http" },
        { "/web", "web" },
        { "/a/b/c/d/e", "a/b/c/d/e" },
    };
    static const char *const bad[] = { "",    "/",   "8080", "/8080", "a//b", "a/",        "..",
                                       "a b", "a\n", "//a",  "\xff",  ".",    "a/b/c/d/e", "/a/b/c/d/e/f" };
    char name[DIBS_NAME_MAX + 1] = "untouched";

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        ASSERT_OK(dibs_name_resolve(&shop, good[i][0], name, &p->err), &p->err);
        assert_string_equal(name, good[i][1]);
    }
    (void) snprintf(name, sizeof name, "untouched");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (dibs_name_resolve(&shop, bad[i], name, &p->err) != DIBS_INVALID)
            fail_msg("'%s' was taken", bad[i]);
        assert_string_equal(name, "untouched");
    }
    assert_int_equal(dibs_name_resolve(&shop, NULL, name, &p->err), DIBS_INVALID);
    char *huge = malloc((size_t) 1 << 20);
    assert_non_null(huge);
    memset(huge, 'x', ((size_t) 1 << 20) - 1);
    huge[((size_t) 1 << 20) - 1] = '\0';
    assert_int_equal(dibs_name_resolve(&shop, huge, name, &p->err), DIBS_INVALID);
    free(huge);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_plain_directory_is_a_project_by_its_name),
        CASE(a_directory_inside_a_repository_is_that_project_on_its_branch),
        CASE(a_linked_work_tree_has_its_own_branch),
        CASE(bytes_that_a_name_cannot_have_are_escaped),
        CASE(long_directory_names_stay_apart),
        CASE(a_path_is_the_same_however_it_is_written),
        CASE(a_group_that_was_named_is_the_same_everywhere),
        CASE(the_root_and_the_working_directory_are_projects_too),
        CASE(relative_names_belong_to_the_group_and_absolute_ones_to_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
