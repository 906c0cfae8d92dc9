/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "host/kernel.h"
#include "support/child.h"

#define RANGE_FILE "/proc/sys/net/ipv4/ip_local_port_range"
#define RESERVED_FILE "/proc/sys/net/ipv4/ip_local_reserved_ports"

static bool same(const struct portbits *a, const struct portbits *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static void the_ephemeral_range_is_what_the_kernel_says(void **state)
{
    unsigned first = 0;
    unsigned last = 0;
    dibs_range range = { 0 };
    FILE *file = fopen(RANGE_FILE, "re");

    (void) state;
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%u %u", &first, &last), 2); // NOLINT(cert-err34-c)
    (void) fclose(file);
    assert_true(kernel_ephemeral(&range));
    assert_int_equal(range.first, first);
    assert_int_equal(range.last, last);
}

static int sets_its_own_range(void *arg)
{
    dibs_range range = { 0 };

    (void) arg;
    CHECK(unshare(CLONE_NEWNET) == 0);
    CHECK(child_write_file(RANGE_FILE, "40001 40009") == 0);
    CHECK(kernel_ephemeral(&range) && range.first == 40001 && range.last == 40009);
    return 0;
}

static void the_ephemeral_range_is_that_of_this_network_namespace(void **state)
{
    (void) state;
    need_root();
    assert_int_equal(child_run(sets_its_own_range, NULL), 0);
}

/* Put a file of ours in the place of the kernel's, in a private mount namespace. */
static int cover(const char *path, char temp[64])
{
    const char *dir = getenv("TMPDIR");

    CHECK(unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    CHECK(snprintf(temp, 64, "%s/cover.XXXXXX", dir ? dir : "/tmp") < 64);
    int fd = mkstemp(temp);
    CHECK(fd >= 0);
    (void) close(fd);
    return mount(temp, path, NULL, MS_BIND, NULL);
}

static int shows_strange_ranges(void *arg)
{
    static const struct {
        const char *text;
        bool is_sane;
        uint16_t first, last;
    } rows[] = {
        { "1\t65535\n", true, 1, 65535 },
        { "5000 5000\n", true, 5000, 5000 },
        { "60999\t32768\n", false, 32768, 60999 },
        { "0\t100\n", false, 32768, 60999 },
        { "1\t65536\n", false, 32768, 60999 },
        { "4294967297\t4294967298\n", false, 32768, 60999 },
        { "32768\n", false, 32768, 60999 },
        { "1\t2\t3\n", false, 32768, 60999 },
        { "-1\t2\n", false, 32768, 60999 },
        { "a b\n", false, 32768, 60999 },
        { "", false, 32768, 60999 },
    };
    char temp[64];

    (void) arg;
    CHECK(cover(RANGE_FILE, temp) == 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        dibs_range range = { 0 };

        CHECK(child_write_file(temp, rows[i].text) == 0);
        CHECK(kernel_ephemeral(&range) == rows[i].is_sane);
        CHECK(range.first == rows[i].first && range.last == rows[i].last);
    }
    CHECK(unlink(temp) == 0);
    return 0;
}

static void an_insane_ephemeral_range_is_refused_and_the_default_taken(void **state)
{
    (void) state;
    need_root();
    assert_int_equal(child_run(shows_strange_ranges, NULL), 0);
}

static int has_no_proc(void *arg)
{
    static struct portbits bits;
    dibs_range range = { 0 };

    (void) arg;
    CHECK(unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    CHECK(mount("none", "/proc", "tmpfs", 0, NULL) == 0);
    portbits_add(&bits, 80);
    CHECK(!kernel_reserved_ports(&bits));
    CHECK(portbits_count(&bits) == 0);
    CHECK(!kernel_ephemeral(&range) && range.first == 32768 && range.last == 60999);
    CHECK(kernel_netns() == 0);
    return 0;
}

static void without_proc_nothing_is_reserved_and_the_default_range_is_taken(void **state)
{
    (void) state;
    need_root();
    assert_int_equal(child_run(has_no_proc, NULL), 0);
}

static void a_list_of_reserved_ports_is_read(void **state)
{
    static const struct {
        const char *text;
        uint32_t count;
        uint16_t in, out;
    } rows[] = {
        { "\n", 0, 0, 1 },
        { "8080\n", 1, 8080, 8081 },
        { "1-65535\n", 65535, 65535, 0 },
        { "8080,9148-9150\n", 4, 9149, 9151 },
        { "0\n", 0, 0, 1 },
        { "0-3\n", 3, 1, 4 },
        { "5-5,7\n", 2, 5, 6 },
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct portbits bits;

        memset(&bits, 0xff, sizeof bits); /* the answer replaces what was there */
        assert_true(kernel_reserved_parse(rows[i].text, strlen(rows[i].text), &bits));
        assert_int_equal(portbits_count(&bits), rows[i].count);
        if (rows[i].in)
            assert_true(portbits_has(&bits, rows[i].in));
        assert_false(portbits_has(&bits, rows[i].out));
    }
}

static void a_list_the_kernel_would_not_write_is_refused_and_the_output_left_alone(void **state)
{
    static const char *const bad[] = {
        "",
        "8080",
        "8080,\n",
        ",8080\n",
        "8080,,9090\n",
        "65536\n",
        "1-65536\n",
        "9-8\n",
        "-5\n",
        "5-\n",
        "5--6\n",
        "5-6-7\n",
        " 5\n",
        "5 \n",
        "5\n\n",
        "5;6\n",
        "x\n",
        "1,2\n3",
        "+5\n",
        ",\n",
        "-\n",
        "99999999999999999999\n",
    };
    struct portbits before;

    (void) state;
    memset(&before, 0x5a, sizeof before);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct portbits bits = before;

        assert_false(kernel_reserved_parse(bad[i], strlen(bad[i]), &bits));
        assert_true(same(&bits, &before));
    }
}

/* Writes every second port from `first`, `n` of them, and compares what comes back. */
static int reserve_and_compare(uint32_t first, uint32_t n, uint32_t first2, uint32_t n2)
{
    static char text[256 * 1024];
    static struct portbits want;
    static struct portbits got;
    size_t used = 0;

    memset(&want, 0, sizeof want);
    for (uint32_t i = 0; i < n + n2; i++) {
        uint32_t port = i < n ? first + 2 * i : first2 + 2 * (i - n);

        portbits_add(&want, (uint16_t) port);
        used += (size_t) snprintf(text + used, sizeof text - used, "%s%u", i ? "," : "", port);
    }
    CHECK(child_write_file(RESERVED_FILE, text) == 0);
    memset(&got, 0xff, sizeof got);
    CHECK(kernel_reserved_ports(&got));
    CHECK(portbits_count(&got) == n + n2);
    CHECK(same(&want, &got));
    return 0;
}

static int reserves_long_lists(void *arg)
{
    static struct portbits got;

    (void) arg;
    CHECK(unshare(CLONE_NEWNET) == 0);
    memset(&got, 0xff, sizeof got);
    CHECK(kernel_reserved_ports(&got) && portbits_count(&got) == 0);
    CHECK(reserve_and_compare(10001, 27767, 0, 0) == 0); /* 166,602 bytes: 128 KiB are not enough */
    CHECK(reserve_and_compare(1, 32768, 0, 0) == 0);     /* the longest list there is */
    /* Around the size of the first, cheap read: `a` numbers of 4 digits and `b` of 5, 5a + 6b bytes. */
    for (uint32_t bytes = 4090; bytes <= 4102; bytes++) {
        uint32_t a = (6 - bytes % 6) % 6;

        CHECK(reserve_and_compare(2000, a, 20000, (bytes - 5 * a) / 6) == 0);
    }
    return 0;
}

static void a_list_of_reserved_ports_is_whole_however_long(void **state)
{
    (void) state;
    need_root();
    assert_int_equal(child_run(reserves_long_lists, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ephemeral_range_is_what_the_kernel_says),
        cmocka_unit_test(the_ephemeral_range_is_that_of_this_network_namespace),
        cmocka_unit_test(an_insane_ephemeral_range_is_refused_and_the_default_taken),
        cmocka_unit_test(without_proc_nothing_is_reserved_and_the_default_range_is_taken),
        cmocka_unit_test(a_list_of_reserved_ports_is_read),
        cmocka_unit_test(a_list_the_kernel_would_not_write_is_refused_and_the_output_left_alone),
        cmocka_unit_test(a_list_of_reserved_ports_is_whole_however_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
