/* SPDX-License-Identifier: MIT */
/* The URL of a cluster, and who we are there. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "store/etcd/client/config.h"
#include "support/ledger.h"

static void urls_are_taken_apart(void **state)
{
    static const struct {
        const char *url, *first, *last, *prefix;
        size_t n;
    } rows[] = {
        { "etcd://h", "http://h:2379", "http://h:2379", "/dibs", 1 },
        { "etcd://h/", "http://h:2379", "http://h:2379", "/dibs", 1 },
        { "etcd://h1:1,h2:65535,[::1]:2379/prod/dibs", "http://h1:1", "http://[::1]:2379", "/prod/dibs", 3 },
        { "etcd://[fe80::1]/a", "http://[fe80::1]:2379", "http://[fe80::1]:2379", "/a", 1 },
        { "etcd://10.0.0.1,a-b.example.org/x_1.y-Z", "http://10.0.0.1:2379", "http://a-b.example.org:2379",
          "/x_1.y-Z", 2 },
        { "etcd://1a.b?", "http://1a.b:2379", "http://1a.b:2379", "/dibs", 1 },
        { "etcd://h/p?cacert=/ca", "https://h:2379", "https://h:2379", "/p", 1 },
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct etcd_config c = { 0 };
        dibs_err err = { 0 };

        ASSERT_OK(etcd_config_parse(rows[i].url, &c, &err), &err);
        assert_int_equal(c.n_origins, rows[i].n);
        assert_string_equal(c.origin[0], rows[i].first);
        assert_string_equal(c.origin[c.n_origins - 1], rows[i].last);
        assert_string_equal(c.prefix, rows[i].prefix);
        assert_int_equal(c.is_tls, strstr(rows[i].url, "cacert") != NULL);
    }
}

static void files_are_parameters(void **state)
{
    struct etcd_config c = { 0 };
    dibs_err err = { 0 };

    (void) state;
    ASSERT_OK(etcd_config_parse("etcd://h?key=/k%20%26y&cert=/c&cacert=/a&passfile=p", &c, &err), &err);
    assert_string_equal(c.cacert, "/a");
    assert_string_equal(c.cert, "/c");
    assert_string_equal(c.key, "/k &y");
    assert_string_equal(c.passfile, "p");
}

static void wrong_urls_are_refused_with_the_part_that_is_wrong(void **state)
{
    static const struct {
        const char *url, *says;
    } rows[] = {
        { "", "must begin with etcd://" },
        { "etcd:", "must begin with etcd://" },
        { "http://h", "must begin with etcd://" },
        { "etcd://", "the host is missing" },
        { "etcd:///p", "the host is missing" },
        { "etcd://,h", "the host is missing" },
        { "etcd://h,", "the host is missing" },
        { "etcd://:2379", "the host is missing" },
        { "etcd://h:", "'h:': the port" },
        { "etcd://h:0", "the port" },
        { "etcd://h:65536", "the port" },
        { "etcd://h:12x", "the port" },
        { "etcd://h:1:2", "the port" },
        { "etcd://::1", "the host is missing" },
        { "etcd://[::1", "not closed" },
        { "etcd://[::1]x", "may follow the bracket" },
        { "etcd://[127.0.0.1]", "no IPv6" },
        { "etcd://[]", "no IPv6" },
        { "etcd://1.2.3", "must be a name" },
        { "etcd://1.2.3.256", "must be a name" },
        { "etcd://h..x", "must be a name" },
        { "etcd://.h", "must be a name" },
        { "etcd://h.", "must be a name" },
        { "etcd://-h", "must be a name" },
        { "etcd://h-.x", "must be a name" },
        { "etcd://h_x", "must be a name" },
        { "etcd://u:secret@h", "DIBS_ETCD_PASSWORD" },
        { "etcd://h,i,h:2379", "named twice" },
        { "etcd://a,b,c,d,e,f,g,h,i,j", "more than 9" },
        { "etcd://h/a//b", "empty" },
        { "etcd://h//", "empty" },
        { "etcd://h/a/", "empty" },
        { "etcd://h/a%20b", "a prefix has" },
        { "etcd://h/a b", "%XX" },
        { "etcd://h#x", "%XX" },
        { "etcd://h\x01", "%XX" },
        { "etcd://h?ca=/x", "no such parameter" },
        { "etcd://h?cacert", "the name of a file" },
        { "etcd://h?cacert=", "the name of a file" },
        { "etcd://h?cacert=a&cacert=b", "twice" },
        { "etcd://h?cacert=%0", "percent" },
        { "etcd://h?cacert=%00", "percent" },
        { "etcd://h?cacert=a&cert=b", "key is missing" },
        { "etcd://h?cacert=a&key=b", "cert is missing" },
        { "etcd://h?cert=a&key=b", "need cacert" },
        { "etcd://h?&", "no such parameter" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct etcd_config c = { .n_origins = 77 };
        dibs_err err = { 0 };

        if (etcd_config_parse(rows[i].url, &c, &err) != DIBS_INVALID || !strstr(err.msg, rows[i].says))
            fail_msg("%s: %s (wanted: %s)", rows[i].url, err.msg, rows[i].says);
        assert_int_equal(c.n_origins, 77);
        assert_null(strstr(err.msg, "secret"));
    }
}

static void bounds_are_kept(void **state)
{
    struct etcd_config c = { 0 };
    dibs_err err = { 0 };
    char url[2200] = "etcd://";

    (void) state;
    memset(url + 7, 'a', 300);
    assert_int_equal(etcd_config_parse(url, &c, &err), DIBS_INVALID);
    memcpy(url, "etcd://h/", 9);
    url[9 + ETCD_PREFIX_MAX - 1] = '\0';
    ASSERT_OK(etcd_config_parse(url, &c, &err), &err);
    assert_int_equal(strlen(c.prefix), ETCD_PREFIX_MAX);
    url[9 + ETCD_PREFIX_MAX - 1] = 'a';
    url[9 + ETCD_PREFIX_MAX] = '\0';
    assert_int_equal(etcd_config_parse(url, &c, &err), DIBS_INVALID);
    memcpy(url, "etcd://h?cacert=", 16);
    memset(url + 16, 'a', 2000);
    url[16 + ETCD_FILE_MAX] = '\0';
    ASSERT_OK(etcd_config_parse(url, &c, &err), &err);
    url[16 + ETCD_FILE_MAX] = 'a';
    assert_int_equal(etcd_config_parse(url, &c, &err), DIBS_INVALID);
}

/* ---- user and password ---- */

static void a_login_is_whole_or_none(void **state)
{
    struct etcd_config c = { 0 };
    dibs_err err = { 0 };
    char large[400];

    (void) state;
    ASSERT_OK(etcd_config_login(&c, NULL, NULL, &err), &err);
    ASSERT_OK(etcd_config_login(&c, "", "", &err), &err);
    assert_string_equal(c.user, "");
    assert_int_equal(etcd_config_login(&c, "u", NULL, &err), DIBS_INVALID);
    assert_int_equal(etcd_config_login(&c, NULL, "secret", &err), DIBS_INVALID);
    assert_null(strstr(err.msg, "secret"));
    ASSERT_OK(etcd_config_login(&c, "u", "secret", &err), &err);
    assert_string_equal(c.user, "u");
    assert_string_equal(c.password, "secret");
    etcd_config_wipe(&c);
    assert_string_equal(c.password, "");
    memset(large, 'a', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    assert_int_equal(etcd_config_login(&c, "u", large, &err), DIBS_INVALID);
    assert_string_equal(c.password, "");
}

static void write_file(const char *path, const char *text, size_t n, mode_t mode)
{
    (void) unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_TRUNC, mode);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, n), n);
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(close(fd), 0);
}

static void a_password_file_and_a_key_must_be_private(void **state)
{
    static const struct {
        const char *text;
        mode_t mode;
        dibs_status status;
    } rows[] = {
        { "u:p:q\n", 0600, DIBS_OK },   { "u:p:q", 0440, DIBS_OK },     { "u:p:q\n", 0644, DIBS_DENIED },
        { "u\n", 0600, DIBS_INVALID },  { "", 0600, DIBS_INVALID },     { "u:p\nv:q\n", 0600, DIBS_INVALID },
        { ":p\n", 0600, DIBS_INVALID }, { "u:\n", 0600, DIBS_INVALID },
    };
    struct etcd_config c = { 0 };
    dibs_err err = { 0 };
    char dir[256] = "";

    (void) state;
    t_make_directory(dir);
    (void) snprintf(c.passfile, sizeof c.passfile, "%s/pass", dir);
    assert_int_equal(etcd_config_login(&c, "x", "y", &err), DIBS_INVALID);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        write_file(c.passfile, rows[i].text, strlen(rows[i].text), rows[i].mode);
        etcd_config_wipe(&c);
        dibs_status s = etcd_config_login(&c, "x", "y", &err);
        if (s != rows[i].status)
            fail_msg("'%s' %o: %s: %s", rows[i].text, rows[i].mode, dibs_status_text(s), err.msg);
        assert_string_equal(c.user, s == DIBS_OK ? "u" : "");
        assert_string_equal(c.password, s == DIBS_OK ? "p:q" : "");
    }
    write_file(c.passfile, "u:\0p", 4, 0600);
    assert_int_equal(etcd_config_login(&c, NULL, NULL, &err), DIBS_INVALID);
    c.passfile[0] = '\0';
    (void) snprintf(c.key, sizeof c.key, "%s/key", dir);
    write_file(c.key, "key", 3, 0604);
    assert_int_equal(etcd_config_login(&c, NULL, NULL, &err), DIBS_DENIED);
    write_file(c.key, "key", 3, 0640);
    ASSERT_OK(etcd_config_login(&c, NULL, NULL, &err), &err);
    t_remove_directory(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_are_taken_apart),
        cmocka_unit_test(files_are_parameters),
        cmocka_unit_test(wrong_urls_are_refused_with_the_part_that_is_wrong),
        cmocka_unit_test(bounds_are_kept),
        cmocka_unit_test(a_login_is_whole_or_none),
        cmocka_unit_test(a_password_file_and_a_key_must_be_private),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
