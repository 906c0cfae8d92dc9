/* SPDX-License-Identifier: MIT */
/* Settings: one row each, checked once, each with its source (D16); and the file they may stand in. */
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dibs/settings.h"
#include "lib/settings.h"
#include "support/child.h"
#include "support/ledger.h"

struct place {
    char dir[256];
    dibs_settings settings;
    dibs_err err;
};

/* An environment with nothing of the caller's own: a home that is empty. */
static int setup(void **state)
{
    struct place *p = calloc(1, sizeof *p);
    char variable[48];

    assert_non_null(p);
    t_make_directory(p->dir);
    for (int i = 0; i < DIBS_SETTING_COUNT; i++) {
        dibs_setting_env((dibs_setting) i, variable);
        assert_int_equal(unsetenv(variable), 0);
    }
    assert_int_equal(setenv("HOME", p->dir, 1), 0);
    assert_int_equal(setenv("XDG_CONFIG_HOME", p->dir, 1), 0);
    assert_int_equal(unsetenv("XDG_STATE_HOME"), 0);
    *state = p;
    return 0;
}

static void remove_file(const struct place *p)
{
    char path[300];

    (void) snprintf(path, sizeof path, "%s/dibs/dibs.yaml", p->dir);
    (void) unlink(path);
    (void) snprintf(path, sizeof path, "%s/dibs", p->dir);
    (void) rmdir(path);
}

static int teardown(void **state)
{
    struct place *p = *state;

    remove_file(p);
    t_remove_directory(p->dir);
    free(p);
    return 0;
}

static void write_file(const struct place *p, const char *text)
{
    char path[300];

    (void) snprintf(path, sizeof path, "%s/dibs", p->dir);
    (void) mkdir(path, 0700);
    (void) snprintf(path, sizeof path, "%s/dibs/dibs.yaml", p->dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t) strlen(text));
    (void) close(fd);
}

static void need_no_system_file(void)
{
    if (access("/etc/dibs/dibs.yaml", F_OK) == 0)
        SKIP_BECAUSE("this machine has an /etc/dibs/dibs.yaml");
}

static dibs_status load(struct place *p, const char *name, const char *value)
{
    dibs_flag flag = { .value = value };

    for (int i = 0; i < DIBS_SETTING_COUNT && name; i++)
        if (strcmp(name, dibs_setting_name((dibs_setting) i)) == 0)
            flag.setting = (dibs_setting) i;
    memset(&p->err, 0, sizeof p->err);
    return dibs_settings_load(&flag, name ? 1 : 0, &p->settings, &p->err);
}

static void D21_D22_the_defaults_are_the_documented_ones(void **state)
{
    struct place *p = *state;
    static const char *const expected[][2] = {
        { "range", "20000-32767" },
        { "ledger-mode", "fallback" },
        { "sync", "normal" },
        { "pool", "default" },
        { "band", "auto" },
        { "order", "stride" },
        { "cooldown", "5s" },
        { "ttl", "10m" },
        { "timeout", "5s" },
        { "allow-ephemeral", "false" },
        { "allow-blocked", "false" },
        { "socket", "auto" },
        { "group", "" },
        { "node", "" },
    };
    char value[DIBS_SETTING_VALUE_MAX + 1];

    need_no_system_file();
    ASSERT_OK(load(p, NULL, NULL), &p->err);
    for (int i = 0; i < DIBS_SETTING_COUNT; i++) {
        assert_int_equal(p->settings.source[i], DIBS_FROM_DEFAULT);
        dibs_setting_format(&p->settings, (dibs_setting) i, value);
        for (size_t k = 0; k < sizeof expected / sizeof expected[0]; k++)
            if (strcmp(expected[k][0], dibs_setting_name((dibs_setting) i)) == 0)
                assert_string_equal(value, expected[k][1]);
    }
    assert_int_equal(strncmp(p->settings.ledger, "sqlite:/", 8), 0);
    assert_true(p->settings.mru_file[0] == '/');
}

static void D16_flags_win_over_environment_over_file_over_defaults(void **state)
{
    struct place *p = *state;

    need_no_system_file();
    write_file(p, "# a comment\nttl: 1m\nband: 7\norder: lowest\n");
    assert_int_equal(setenv("DIBS_TTL", "2m", 1), 0);
    assert_int_equal(setenv("DIBS_ORDER", "random", 1), 0);
    assert_int_equal(setenv("DIBS_COOLDOWN", "", 1), 0); /* empty is not set */
    ASSERT_OK(load(p, "ttl", "3m"), &p->err);
    assert_int_equal(p->settings.ttl_ms, 180000);
    assert_int_equal(p->settings.source[DIBS_SET_TTL], DIBS_FROM_FLAG);
    assert_string_equal(p->settings.order, "random");
    assert_int_equal(p->settings.source[DIBS_SET_ORDER], DIBS_FROM_ENVIRONMENT);
    assert_int_equal(p->settings.band, 7);
    assert_int_equal(p->settings.source[DIBS_SET_BAND], DIBS_FROM_USER);
    assert_int_equal(p->settings.source[DIBS_SET_COOLDOWN], DIBS_FROM_DEFAULT);
}

static void every_setting_has_a_name_a_variable_and_a_summary(void **state)
{
    char variable[48];

    (void) state;
    for (int i = 0; i < DIBS_SETTING_COUNT; i++) {
        assert_true(dibs_setting_name((dibs_setting) i)[0] != '\0');
        assert_true(dibs_setting_summary((dibs_setting) i)[0] != '\0');
        dibs_setting_env((dibs_setting) i, variable);
        assert_int_equal(strncmp(variable, "DIBS_", 5), 0);
        assert_int_equal(variable[strspn(variable, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_")], '\0');
    }
    assert_null(dibs_setting_name(DIBS_SETTING_COUNT));
    for (dibs_source s = DIBS_FROM_DEFAULT; s <= DIBS_FROM_FLAG; s++)
        assert_true(dibs_source_text(s)[0] != '\0');
}

static void good_values_are_taken_and_written_back_as_they_are(void **state)
{
    struct place *p = *state;
    static const char *const rows[][3] = {
        { "ledger", "memory:", "memory:" },
        { "ledger", "sqlite:/tmp/x.db", "sqlite:/tmp/x.db" },
        { "ledger-mode", "strict", "strict" },
        { "ledger-mode", "mru", "mru" },
        { "sync", "full", "full" },
        { "range", " 300-400 , 100 - 200 ,,", "100-200,300-400" },
        { "band", "off", "off" },
        { "band", "0", "off" },
        { "band", "65535", "65535" },
        { "order", "dcp-stride", "dcp-stride" },
        { "cooldown", "0s", "0ms" },
        { "ttl", "90s", "90s" },
        { "timeout", "1ms", "1ms" },
        { "timeout", "1d", "1d" },
        { "allow-ephemeral", "YES", "true" },
        { "allow-ephemeral", "0", "false" },
        { "group", "shop@main", "shop@main" },
        { "node", "rack7-host12.example", "rack7-host12.example" },
        { "node", "gke-production-europe-west1-default-pool-0a1b2c3d-wxyz.example",
          "gke-production-europe-west1-default-po~a5c1519136e5" },
    };
    char value[DIBS_SETTING_VALUE_MAX + 1];

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ASSERT_OK(load(p, rows[i][0], rows[i][1]), &p->err);
        for (int k = 0; k < DIBS_SETTING_COUNT; k++)
            if (strcmp(rows[i][0], dibs_setting_name((dibs_setting) k)) == 0) {
                dibs_setting_format(&p->settings, (dibs_setting) k, value);
                if (strcmp(value, rows[i][2]) != 0 && strcmp(rows[i][0], "cooldown") != 0)
                    fail_msg("%s '%s' reads back as '%s'", rows[i][0], rows[i][1], value);
                ASSERT_OK(load(p, rows[i][0], value), &p->err); /* what is written can be read */
            }
    }
}

static void bad_values_are_refused_with_setting_source_and_value(void **state)
{
    struct place *p = *state;
    static const char *const rows[][2] = {
        { "ledger", "postgres:x" },
        { "ledger", "sqlite:" },
        { "ledger", "" },
        { "ledger-mode", "loose" },
        { "ledger-mode", "" },
        { "sync", "often" },
        { "range", "" },
        { "range", "10-5" },
        { "range", "0-10" },
        { "range", "65536" },
        { "range", "1-2-3" },
        { "band", "-1" },
        { "band", "65536" },
        { "band", "1e3" },
        { "band", "" },
        { "order", "zigzag" },
        { "cooldown", "5" },
        { "cooldown", "-1s" },
        { "ttl", "0s" },
        { "ttl", "99999d" },
        { "timeout", "0ms" },
        { "timeout", "2d" },
        { "allow-ephemeral", "perhaps" },
        { "group", "a/b" },
        { "group", "a b" },
        { "group", ".." },
        { "node", "a/b" },
        { "node", "a@b" },
        { "node", "a b" },
        { "node", "a\nb" },
        { "node", "a long name is not made shorter when it could not be one in any case" },
        { "socket", "" },
    };
    const dibs_settings untouched = { .ttl_ms = 7 };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        p->settings = untouched;
        if (load(p, rows[i][0], rows[i][1]) != DIBS_INVALID)
            fail_msg("%s '%s' was taken", rows[i][0], rows[i][1]);
        assert_non_null(strstr(p->err.msg, rows[i][0]));
        assert_non_null(strstr(p->err.msg, "flag"));
        assert_memory_equal(&p->settings, &untouched, sizeof untouched);
    }
}

static void an_overlong_or_dirty_value_is_refused_and_shown_safely(void **state)
{
    struct place *p = *state;
    char *huge = malloc((size_t) 1 << 20);

    assert_non_null(huge);
    memset(huge, 'x', ((size_t) 1 << 20) - 1);
    huge[((size_t) 1 << 20) - 1] = '\0';
    for (int i = 0; i < DIBS_SETTING_COUNT; i++)
        assert_int_equal(load(p, dibs_setting_name((dibs_setting) i), huge), DIBS_INVALID);
    free(huge);
    assert_int_equal(load(p, "order", "\033[31mred\n"), DIBS_INVALID);
    for (const char *c = p->err.msg; *c; c++)
        assert_true(*c >= 0x20 && *c != 0x7f);
}

static void a_bad_file_names_its_place(void **state)
{
    struct place *p = *state;
    static const struct {
        const char *text;
        const char *said;
    } rows[] = {
        { "ttl: 5\n", "dibs.yaml:1:1" },
        { "\n\nttl: 10m\n  nonsense: 1\n", "dibs.yaml:" },
        { "ttl: 10m\ncolour: red\n", "colour" },
        { "ttl: [1, 2]\n", "ttl" },
        { "- a\n- b\n", "setting: value" },
        { "ttl: 'open\n", "dibs.yaml:" },

        { "%\xff\xff\x05mru", "dibs.yaml:1" }, /* libfyaml would never come back */
        { "ttl: 1s\n\n\xff", "dibs.yaml:3" },
        { "%YAML 9.9\n---\nttl: 1s\n", "directives" },
        { "? [a]\n: b\n", "key is not plain text" },
    };

    need_no_system_file();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        write_file(p, rows[i].text);
        assert_int_equal(load(p, NULL, NULL), DIBS_INVALID);
        if (!strstr(p->err.msg, rows[i].said))
            fail_msg("'%s': '%s' does not say '%s'", rows[i].text, p->err.msg, rows[i].said);
    }
    static const char *const empty[] = { "", "\n \n", "# nothing\n", "\n  # a\n\t# b: c\n" };
    for (size_t i = 0; i < sizeof empty / sizeof empty[0]; i++) {
        write_file(p, empty[i]);
        ASSERT_OK(load(p, NULL, NULL), &p->err);
    }
}

static void a_file_that_is_none_or_too_long_is_refused(void **state)
{
    struct place *p = *state;
    char path[300];
    char *book = malloc(70000);

    need_no_system_file();
    assert_non_null(book);
    memset(book, '#', 69999);
    book[69999] = '\0';
    write_file(p, book);
    free(book);
    assert_int_equal(load(p, NULL, NULL), DIBS_INVALID);
    remove_file(p);
    (void) snprintf(path, sizeof path, "%s/dibs", p->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    (void) snprintf(path, sizeof path, "%s/dibs/dibs.yaml", p->dir);
    assert_int_equal(mkfifo(path, 0600), 0); /* must not block */
    assert_int_equal(load(p, NULL, NULL), DIBS_INVALID);
}

static void durations_have_a_unit(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } rows[] = { { "500ms", 500 },    { "10s", 10000 },
                 { "5m", 300000 },    { "2h", 7200000 },
                 { "7d", 604800000 }, { "3650d", DIBS_TTL_MAX_MS },
                 { "0s", 0 },         { "10", -1 },
                 { "", -1 },          { "s", -1 },
                 { "-1s", -1 },       { "1.5s", -1 },
                 { "1 s", -1 },       { "3651d", -1 },
                 { "10S", -1 },       { "99999999999999999999d", -1 } };
    dibs_err err = { 0 };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t ms = -1;
        dibs_status s = dibs_duration_parse(rows[i].text, &ms, &err);

        if (ms != rows[i].ms || (s == DIBS_OK) != (rows[i].ms >= 0))
            fail_msg("'%s': %lld", rows[i].text, (long long) ms);
    }
}

/* The user database knows nobody of this number. */
static uid_t stranger(void)
{
    uid_t uid = 70000;

    while (getpwuid(uid))
        uid++;
    return uid;
}

static int load_without_a_home(void *arg)
{
    struct place *p = arg;
    uid_t uid = stranger();

    CHECK(setresuid(uid, uid, uid) == 0);
    CHECK(unsetenv("HOME") == 0 && unsetenv("XDG_CONFIG_HOME") == 0);
    CHECK(load(p, NULL, NULL) == DIBS_INVALID);
    CHECK(strstr(p->err.msg, "DIBS_LEDGER"));
    CHECK(load(p, "ledger", "memory:") == DIBS_OK);
    return 0;
}

static void without_a_home_there_is_no_place_for_a_ledger(void **state)
{
    if (geteuid() != 0)
        SKIP_BECAUSE("becoming a user without an entry needs root");
    assert_int_equal(child_run(load_without_a_home, *state), 0);
}

static int load_as_nobody(void *arg)
{
    struct place *p = arg;
    char want[PATH_MAX];

    if (geteuid() == 0) /* root's ledger has a fixed place */
        CHECK(setresuid(CHILD_NOBODY, CHILD_NOBODY, CHILD_NOBODY) == 0);
    const struct passwd *entry = getpwuid(geteuid());
    CHECK(entry);
    (void) snprintf(want, sizeof want, "sqlite:%s/.local/state/dibs/ledger.db", entry->pw_dir);
    CHECK(unsetenv("HOME") == 0 && unsetenv("XDG_CONFIG_HOME") == 0);
    CHECK(load(p, NULL, NULL) == DIBS_OK);
    CHECK(strcmp(p->settings.ledger, want) == 0);
    CHECK(setenv("HOME", "", 1) == 0);
    CHECK(load(p, NULL, NULL) == DIBS_OK);
    CHECK(strcmp(p->settings.ledger, want) == 0);
    return 0;
}

static void without_HOME_the_user_database_says_where_home_is(void **state)
{
    if (geteuid() != 0 && !getpwuid(geteuid()))
        SKIP_BECAUSE("this user has no entry in the user database");
    assert_int_equal(child_run(load_as_nobody, *state), 0);
}

static void a_relative_ledger_begins_where_the_call_is_made(void **state)
{
    struct place *p = *state;
    char want[PATH_MAX + 32];
    char here[PATH_MAX];

    assert_non_null(getcwd(here, sizeof here));
    (void) snprintf(want, sizeof want, "sqlite:%s/sub/ledger.db", here);
    ASSERT_OK(load(p, "ledger", "sqlite:sub/ledger.db"), &p->err);
    assert_string_equal(p->settings.ledger, want);
    ASSERT_OK(load(p, "ledger", "sqlite:/sub/ledger.db"), &p->err);
    assert_string_equal(p->settings.ledger, "sqlite:/sub/ledger.db");
    write_file(p, "ledger: sqlite:sub/ledger.db\n");
    assert_int_equal(load(p, NULL, NULL), DIBS_INVALID);
    assert_non_null(strstr(p->err.msg, "whole path"));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(D21_D22_the_defaults_are_the_documented_ones),
        CASE(D16_flags_win_over_environment_over_file_over_defaults),
        CASE(every_setting_has_a_name_a_variable_and_a_summary),
        CASE(good_values_are_taken_and_written_back_as_they_are),
        CASE(bad_values_are_refused_with_setting_source_and_value),
        CASE(an_overlong_or_dirty_value_is_refused_and_shown_safely),
        CASE(a_bad_file_names_its_place),
        CASE(a_file_that_is_none_or_too_long_is_refused),
        CASE(durations_have_a_unit),
        CASE(without_a_home_there_is_no_place_for_a_ledger),
        CASE(without_HOME_the_user_database_says_where_home_is),
        CASE(a_relative_ledger_begins_where_the_call_is_made),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
