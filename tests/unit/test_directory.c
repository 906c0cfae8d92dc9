/* SPDX-License-Identifier: MIT */
#include "base/directory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/t.h"

static void a_file_has_its_directory(void **state)
{
    static const char *const cases[][2] = {
        { "ledger.db", "." }, { "/ledger.db", "/" }, { "a/b", "a" }, { "/a/b/c", "/a/b" }, { "", "." },
    };
    char out[16];

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_true(directory_of(cases[i][0], out, sizeof out));
        assert_string_equal(out, cases[i][1]);
    }
    assert_false(directory_of("/a/longer/path/x", out, sizeof out));
}

static void missing_directories_are_made_with_the_mode(void **state)
{
    char top[] = "/tmp/directory-XXXXXX";
    char path[64];
    struct stat st;

    (void) state;
    assert_non_null(mkdtemp(top));
    (void) snprintf(path, sizeof path, "%s/one/two", top);
    assert_int_equal(directory_make(path, 0700), 0);
    assert_int_equal(directory_make(path, 0755), 0); /* a present one keeps its mode */
    assert_int_equal(stat(path, &st), 0);
    assert_true(S_ISDIR(st.st_mode) && (st.st_mode & 0777) == 0700);
    (void) snprintf(path, sizeof path, "%s/one/two/file/three", top);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    assert_int_equal(symlink("nowhere", path), 0);
    *slash = '/';
    assert_int_equal(directory_make(path, 0700), ENOENT); /* through a dangling link */
    assert_int_equal(directory_make("", 0700), ENOENT);
    *slash = '\0';
    (void) unlink(path);
    for (int i = 0; i < 3; i++) {
        *strrchr(path, '/') = '\0';
        (void) rmdir(path);
    }
    assert_int_not_equal(access(top, F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_has_its_directory),
        cmocka_unit_test(missing_directories_are_made_with_the_mode),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
