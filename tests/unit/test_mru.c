/* SPDX-License-Identifier: MIT */
/* The fallback file: DCP's idea, and each of its weaknesses (M1-M7 of the seeds) repaired. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ledger/mru.h"
#include "support/ledger.h"

struct mru_case {
    char dir[256];
    char path[300];
    struct portbits choosable;
    dibs_claim claim;
    struct mru_want want;
    uint16_t busy;
    bool aborts;
    dibs_err err;
};

static enum ledger_probe probe(void *ctx, const dibs_claim *claim, uint16_t port, dibs_err *err)
{
    const struct mru_case *c = ctx;

    assert_true(claim->n_bindings > 0);
    if (c->aborts) {
        err->code = DIBS_DENIED;
        return LEDGER_PROBE_ABORT;
    }
    return port == c->busy ? LEDGER_PROBE_BUSY : LEDGER_PROBE_FREE;
}

static int make_case(void **state)
{
    struct mru_case *c = calloc(1, sizeof *c);

    assert_non_null(c);
    t_make_directory(c->dir);
    (void) snprintf(c->path, sizeof c->path, "%s/mru", c->dir);
    portbits_add_range(&c->choosable, (dibs_range){ 26010, 26019 });
    c->claim = t_want(NULL, "127.0.0.1").claim;
    c->want = (struct mru_want){ .claim = &c->claim,
                                 .choosable = &c->choosable,
                                 .n = 1,
                                 .lifetime_ms = 120000,
                                 .timeout_ms = 2000,
                                 .now = { 1000000, 5000000 },
                                 .boot_id = T_BOOT,
                                 .instance = "test",
                                 .entropy = 7,
                                 .probe = probe,
                                 .probe_ctx = c };
    *state = c;
    return 0;
}

static int drop_case(void **state)
{
    struct mru_case *c = *state;

    t_remove_directory(c->dir);
    free(c);
    return 0;
}

static uint16_t take(struct mru_case *c)
{
    uint16_t port = 0;

    ASSERT_OK(mru_claim(c->path, &c->want, &port, &c->err), &c->err);
    return port;
}

static void write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    (void) close(fd);
}

static size_t read_lines(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t lines = 0;

    assert_true(fd >= 0);
    ssize_t n = read(fd, text, size - 1);
    assert_true(n >= 0);
    (void) close(fd);
    text[n] = '\0';
    for (const char *p = text; *p; p++)
        lines += *p == '\n';
    return lines;
}

static void write_records(struct mru_case *c, int odd_age_ms)
{
    char text[4096] = "";

    for (int i = 0; i < 10; i++) {
        size_t used = strlen(text);

        (void) snprintf(text + used, sizeof text - used, "v1 tcp 127.0.0.1 %d %d " T_BOOT " dcp\n", 26010 + i,
                        5000000 - (i % 2 ? odd_age_ms : 0));
    }
    write_text(c->path, text);
}

static void ten_records_are_read_back_and_kept(void **state) /* seeds 16 */
{
    struct mru_case *c = *state;
    char text[8192];

    portbits_add(&c->choosable, 26020);
    write_records(c, 0);
    assert_int_equal(take(c), 26020); /* the only one that is not recorded */
    assert_int_equal(read_lines(c->path, text, sizeof text), 11);
    assert_non_null(strstr(text, "127.0.0.1 26010 "));
    assert_non_null(strstr(text, "127.0.0.1 26019 "));
    assert_non_null(strstr(text, "127.0.0.1 26020 5000000 " T_BOOT " test\n"));
}

static void records_live_for_less_than_their_lifetime(void **state) /* seeds 17 */
{
    struct mru_case *c = *state;
    uint16_t ports[6] = { 0 };

    c->want.lifetime_ms = 2000;
    write_records(c, 2000); /* exactly the lifetime: over */
    c->want.n = 6;
    assert_int_equal(mru_claim(c->path, &c->want, ports, &c->err), DIBS_EXHAUSTED);
    c->want.n = 5;
    ASSERT_OK(mru_claim(c->path, &c->want, ports, &c->err), &c->err);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(ports[i] % 2, 1);
    write_records(c, 1999);
    assert_int_equal(mru_claim(c->path, &c->want, ports, &c->err), DIBS_EXHAUSTED);
}

static void m1_an_unusable_place_is_an_answer_not_a_crash(void **state)
{
    struct mru_case *c = *state;
    uint16_t port = 7;
    char path[400];

    assert_int_equal(mru_claim("/proc/self/nothing/mru", &c->want, &port, &c->err), DIBS_UNAVAILABLE);
    assert_int_equal(mru_claim("/dev/null/mru", &c->want, &port, &c->err), DIBS_UNAVAILABLE);
    assert_int_equal(mru_claim("", &c->want, &port, &c->err), DIBS_INVALID);
    assert_int_equal(mru_claim("/proc/self/nothing/mru", &c->want, &port, NULL), DIBS_UNAVAILABLE);
    assert_int_equal(chmod(c->dir, 0777), 0);
    assert_int_equal(mru_claim(c->path, &c->want, &port, &c->err), DIBS_UNAVAILABLE);
    assert_int_equal(chmod(c->dir, 0700), 0);
    assert_int_equal(symlink("/etc/passwd", c->path), 0);
    assert_int_equal(mru_claim(c->path, &c->want, &port, &c->err), DIBS_UNAVAILABLE);
    assert_int_equal(unlink(c->path), 0);
    (void) snprintf(path, sizeof path, "%s.lock", c->path);
    (void) unlink(path);
    assert_int_equal(symlink("/tmp/elsewhere", path), 0);
    assert_int_equal(mru_claim(c->path, &c->want, &port, &c->err), DIBS_UNAVAILABLE);
    assert_int_equal(port, 7);
    assert_int_equal(unlink(path), 0);
    (void) take(c);
}

static void a_missing_directory_is_made_private(void **state)
{
    struct mru_case *c = *state;
    char path[400];
    struct stat st = { 0 };
    uint16_t port = 0;

    (void) snprintf(path, sizeof path, "%s/new/mru", c->dir);
    ASSERT_OK(mru_claim(path, &c->want, &port, &c->err), &c->err);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    (void) snprintf(path, sizeof path, "%s/new", c->dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    t_remove_directory(path);
}

static void m2_the_wall_clock_may_jump(void **state)
{
    struct mru_case *c = *state;
    uint16_t first = take(c);

    c->want.now.wall_ms += 10LL * 365 * 86400000; /* would expire everything */
    uint16_t second = take(c);
    c->want.now.wall_ms = 0; /* would prolong everything */
    assert_int_not_equal(first, second);
    c->want.now.boot_ms += 120000;
    c->want.n = 10;
    uint16_t all[10] = { 0 };
    ASSERT_OK(mru_claim(c->path, &c->want, all, &c->err), &c->err);
}

static void m2_records_of_another_boot_do_not_count(void **state)
{
    struct mru_case *c = *state;
    uint16_t first = take(c);

    c->want.boot_id = "99999999-2222-3333-4444-555555555555";
    assert_int_equal(take(c), first);
}

static void m3_addresses_are_compared_as_addresses_and_protocols_apart(void **state)
{
    struct mru_case *c = *state;
    uint16_t port = 0;

    memset(&c->choosable, 0, sizeof c->choosable);
    portbits_add(&c->choosable, 26010);
    assert_int_equal(take(c), 26010);
    static const char *const same[] = { "0.0.0.0", "*", "::ffff:127.0.0.1" };
    for (size_t i = 0; i < 3; i++) {
        c->claim.bindings[0].address = t_address(same[i]);
        assert_int_equal(mru_claim(c->path, &c->want, &port, &c->err), DIBS_EXHAUSTED);
    }
    c->claim.bindings[0].address = t_address("::1");
    assert_int_equal(take(c), 26010);
    c->claim.bindings[0] = (dibs_binding){ DIBS_UDP, t_address("127.0.0.1") };
    assert_int_equal(take(c), 26010);
}

static void m4_a_bad_line_harms_nobody_else(void **state)
{
    struct mru_case *c = *state;
    char text[8192];
    char tmp[320];

    write_text(c->path, "v1 tcp 127.0.0.1 26010 5000000 " T_BOOT " a\n"
                        "\x01\x02 rubbish\n\n"
                        "v1 tcp 127.0.0.1 99999 5000000 " T_BOOT " a\n"
                        "v2 tcp 127.0.0.1 26012 5000000 " T_BOOT " a\n"
                        "v1 tcp 127.0.0.1 26011 5000000 " T_BOOT " a\n"
                        "v1 tcp 127.0.0.1 26013 5000000 " T_BOOT " cut");
    (void) snprintf(tmp, sizeof tmp, "%s.tmp", c->path);
    write_text(tmp, "left by one that died"); /* a crash leaves the old file or the new one */
    memset(&c->choosable, 0, sizeof c->choosable);
    portbits_add_range(&c->choosable, (dibs_range){ 26010, 26012 });
    assert_int_equal(take(c), 26012);
    assert_int_equal(read_lines(c->path, text, sizeof text), 3);
    assert_null(strstr(text, "rubbish"));
    assert_int_equal(access(tmp, F_OK), -1);
}

static void m5_only_choosable_ports_are_handed_out(void **state)
{
    struct mru_case *c = *state;
    uint16_t ports[10] = { 0 };
    struct portbits seen = { 0 };

    c->want.n = 10;
    c->want.entropy = UINT64_MAX;
    ASSERT_OK(mru_claim(c->path, &c->want, ports, &c->err), &c->err);
    for (size_t i = 0; i < 10; i++) {
        assert_in_range(ports[i], 26010, 26019);
        assert_false(portbits_has(&seen, ports[i]));
        portbits_add(&seen, ports[i]);
    }
}

static void the_first_and_the_last_port_are_found(void **state)
{
    struct mru_case *c = *state;
    uint16_t ports[2] = { 0 };

    memset(&c->choosable, 0, sizeof c->choosable);
    portbits_add(&c->choosable, 1);
    portbits_add(&c->choosable, 65535);
    c->want.n = 2;
    ASSERT_OK(mru_claim(c->path, &c->want, ports, &c->err), &c->err);
    assert_int_equal(ports[0] + ports[1], 65536);
}

static void m6_a_held_lock_is_told_in_time(void **state)
{
    struct mru_case *c = *state;
    char lock[320];
    uint16_t port = 7;

    (void) snprintf(lock, sizeof lock, "%s.lock", c->path);
    int fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    c->want.timeout_ms = 100;
    int64_t start = clock_monotonic_ms();
    assert_int_equal(mru_claim(c->path, &c->want, &port, &c->err), DIBS_UNAVAILABLE);
    assert_int_equal(c->err.trouble, DIBS_TROUBLE_LOCKED);
    assert_in_range(clock_monotonic_ms() - start, 90, 1500);
    assert_int_equal(port, 7); /* never a port without a record */
    (void) close(fd);
    (void) take(c);
}

static void m7_processes_that_share_the_file_share_no_port(void **state)
{
    enum { PROCESSES = 16, EACH = 4 };
    struct mru_case *c = *state;
    struct portbits seen = { 0 };
    int pipes[2];

    portbits_add_range(&c->choosable, (dibs_range){ 26000, 26063 });
    c->want.timeout_ms = 20000;
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    for (int i = 0; i < PROCESSES; i++) {
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
            uint16_t ports[EACH] = { 0 };

            c->want.n = EACH;
            if (mru_claim(c->path, &c->want, ports, &c->err) != DIBS_OK)
                _exit(1);
            _exit(write(pipes[1], ports, sizeof ports) == (ssize_t) sizeof ports ? 0 : 2);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = 0;
        uint16_t ports[EACH] = { 0 };

        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
        assert_int_equal(read(pipes[0], ports, sizeof ports), sizeof ports);
        for (size_t k = 0; k < EACH; k++) {
            assert_false(portbits_has(&seen, ports[k]));
            portbits_add(&seen, ports[k]);
        }
    }
    (void) close(pipes[0]);
    (void) close(pipes[1]);
    assert_int_equal(portbits_count(&seen), PROCESSES * EACH);
}

static void a_probe_decides_and_nothing_is_recorded_when_it_fails(void **state)
{
    struct mru_case *c = *state;
    uint16_t ports[10] = { 7 };

    c->busy = 26010;
    c->want.n = 10;
    assert_int_equal(mru_claim(c->path, &c->want, ports, &c->err), DIBS_EXHAUSTED);
    c->aborts = true;
    assert_int_equal(mru_claim(c->path, &c->want, ports, &c->err), DIBS_DENIED);
    assert_int_equal(ports[0], 7);
    assert_int_equal(access(c->path, F_OK), -1); /* all or nothing */
    c->aborts = false;
    c->want.n = 9;
    ASSERT_OK(mru_claim(c->path, &c->want, ports, &c->err), &c->err);
    c->want.n = 0;
    ASSERT_OK(mru_claim(c->path, &c->want, ports, &c->err), &c->err);
}

static void a_huge_file_is_cut_to_its_newest_records(void **state)
{
    enum { LINES = 30000 };
    struct mru_case *c = *state;
    FILE *file = fopen(c->path, "we");
    struct stat st = { 0 };

    assert_non_null(file);
    for (int i = 0; i < LINES; i++)
        (void) fprintf(file, "v1 tcp 127.0.0.1 %d 5000000 " T_BOOT " a\n", i < LINES / 2 ? 26010 : 26011);
    assert_int_equal(fclose(file), 0);
    memset(&c->choosable, 0, sizeof c->choosable);
    portbits_add_range(&c->choosable, (dibs_range){ 26010, 26011 });
    assert_int_equal(take(c), 26010); /* the newest ones are about 26011 */
    assert_int_equal(stat(c->path, &st), 0);
    assert_in_range(st.st_size, (1 << 20) - 200, 1 << 20);
}

static void a_record_reads_back(void **state)
{
    struct mru_record record = { .binding = { DIBS_SCTP, t_address("::1") },
                                 .port = 65535,
                                 .used_ms = INT64_MAX };
    struct mru_record back = { 0 };
    char line[192];

    (void) state;
    (void) snprintf(record.boot_id, sizeof record.boot_id, "%s", T_BOOT);
    (void) snprintf(record.instance, sizeof record.instance, "a b\nc");
    mru_record_format(&record, line);
    assert_string_equal(line, "v1 sctp ::1 65535 9223372036854775807 " T_BOOT " a_b_c\n");
    assert_true(mru_record_parse(line, strlen(line) - 1, &back));
    assert_int_equal(back.port, 65535);
    assert_int_equal(back.used_ms, INT64_MAX);
    assert_true(dibs_address_equal(&back.binding.address, &record.binding.address));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, make_case, drop_case)
    const struct CMUnitTest tests[] = {
        CASE(ten_records_are_read_back_and_kept),
        CASE(records_live_for_less_than_their_lifetime),
        CASE(m1_an_unusable_place_is_an_answer_not_a_crash),
        CASE(a_missing_directory_is_made_private),
        CASE(m2_the_wall_clock_may_jump),
        CASE(m2_records_of_another_boot_do_not_count),
        CASE(m3_addresses_are_compared_as_addresses_and_protocols_apart),
        CASE(m4_a_bad_line_harms_nobody_else),
        CASE(m5_only_choosable_ports_are_handed_out),
        CASE(the_first_and_the_last_port_are_found),
        CASE(m6_a_held_lock_is_told_in_time),
        CASE(m7_processes_that_share_the_file_share_no_port),
        CASE(a_probe_decides_and_nothing_is_recorded_when_it_fails),
        CASE(a_huge_file_is_cut_to_its_newest_records),
        CASE(a_record_reads_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
