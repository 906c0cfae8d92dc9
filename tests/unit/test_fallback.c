/* SPDX-License-Identifier: MIT */
/* Claims without the ledger: DCP's idea of recently used ports, and each of its weaknesses (M1-M7 of the
 * seeds) repaired. */
#include <netinet/in.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "lib/connection.h"
#include "support/core.h"

static struct instant shifted_now(void *ctx)
{
    const struct instant *shift = ctx;
    struct instant now = clock_now(0);

    return (struct instant){ now.wall_ms + shift->wall_ms, now.boot_ms + shift->boot_ms };
}

static dibs *open_mru(struct engine *e)
{
    dibs *handle = NULL;

    need_network();
    e->settings.ledger_mode = DIBS_LEDGER_MRU;
    ASSERT_OK(dibs_open(&e->settings, &handle, &e->err), &e->err);
    return handle;
}

static dibs_status take(struct engine *e, dibs *handle, const char *range, size_t n, uint16_t *out)
{
    dibs_ranges ranges = e_ranges(range);
    dibs_request requests[16];
    dibs_claim claims[16] = { 0 };

    for (size_t i = 0; i < n; i++) {
        requests[i] = e_request(NULL, "127.0.0.1");
        requests[i].ranges = &ranges;
    }
    memset(&e->err, 0, sizeof e->err);
    dibs_status s = dibs_claim_ports(handle, &(dibs_batch){ .requests = requests, .n = n }, claims, &e->err);
    for (size_t i = 0; i < n && s == DIBS_OK; i++) {
        assert_true(claims[i].is_degraded && !claims[i].token[0] && claims[i].holder == DIBS_HELD_BY_NOBODY);
        out[i] = claims[i].port;
    }
    return s;
}

static uint16_t take_one(struct engine *e, dibs *handle, const char *range)
{
    uint16_t port = 0;

    ASSERT_OK(take(e, handle, range, 1, &port), &e->err);
    return port;
}

static void ten_records_are_read_back_and_kept(void **state) /* seeds 16 */
{
    struct engine *e = *state;
    uint16_t ports[10] = { 0 };
    dibs *handle = open_mru(e);

    ASSERT_OK(take(e, handle, "26010-26019", 10, ports), &e->err);
    dibs_close(handle);
    handle = open_mru(e);
    assert_int_equal(take_one(e, handle, "26010-26020"), 26020); /* the only one that is not recorded */
    assert_int_equal(take(e, handle, "26010-26020", 1, ports), DIBS_EXHAUSTED);
    dibs_close(handle);
}

static void records_live_for_less_than_their_lifetime(void **state) /* seeds 17 */
{
    struct engine *e = *state;
    struct instant shift = { 0, 0 };
    uint16_t ports[2] = { 0 };
    dibs *handle = open_mru(e);

    handle->to->core->options.now = shifted_now;
    handle->to->core->options.now_ctx = &shift;
    ASSERT_OK(take(e, handle, "26010-26011", 2, ports), &e->err);
    shift.boot_ms = 110000;
    assert_int_equal(take(e, handle, "26010-26011", 1, ports), DIBS_EXHAUSTED);
    shift.boot_ms = 120001;
    ASSERT_OK(take(e, handle, "26010-26011", 2, ports), &e->err);
    dibs_close(handle);
}

static void m1_an_unusable_place_is_an_answer_not_a_crash(void **state)
{
    static const char *const places[] = { "/proc/self/nothing/mru", "/dev/null/mru" };
    struct engine *e = *state;
    uint16_t port = 7;
    char path[400];
    dibs *handle = NULL;

    for (size_t i = 0; i < 2; i++) {
        (void) snprintf(e->settings.mru_file, sizeof e->settings.mru_file, "%s", places[i]);
        handle = open_mru(e);
        assert_int_equal(take(e, handle, "26010", 1, &port), DIBS_UNAVAILABLE);
        dibs_close(handle);
    }
    e->settings.mru_file[0] = '\0';
    handle = open_mru(e);
    assert_int_equal(take(e, handle, "26010", 1, &port), DIBS_INVALID);
    dibs_close(handle);
    (void) snprintf(e->settings.mru_file, sizeof e->settings.mru_file, "%s/mru", e->dir);
    handle = open_mru(e);
    assert_int_equal(chmod(e->dir, 0777), 0);
    assert_int_equal(take(e, handle, "26010", 1, &port), DIBS_UNAVAILABLE);
    assert_int_equal(chmod(e->dir, 0700), 0);
    dibs_close(handle);
    (void) snprintf(path, sizeof path, "%s/link", e->dir);
    assert_int_equal(symlink(".", path), 0); /* a directory must not be another one by its name */
    (void) snprintf(e->settings.mru_file, sizeof e->settings.mru_file, "%s/mru", path);
    handle = open_mru(e);
    assert_int_equal(take(e, handle, "26010", 1, &port), DIBS_UNAVAILABLE);
    dibs_close(handle);
    assert_int_equal(port, 7);
}

static void a_missing_directory_is_made_private(void **state)
{
    struct engine *e = *state;
    struct stat st = { 0 };
    char path[400];

    (void) snprintf(e->settings.mru_file, sizeof e->settings.mru_file, "%s/new/deep/mru", e->dir);
    dibs *handle = open_mru(e);
    (void) take_one(e, handle, "26010");
    dibs_close(handle);
    assert_int_equal(stat(e->settings.mru_file, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    (void) snprintf(path, sizeof path, "%s/new", e->dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    (void) snprintf(path, sizeof path, "%s/new/deep", e->dir);
    t_remove_directory(path);
    (void) snprintf(path, sizeof path, "%s/new", e->dir);
    t_remove_directory(path);
}

static void m2_the_wall_clock_may_jump(void **state)
{
    struct engine *e = *state;
    struct instant shift = { 0, 0 };
    uint16_t port = 0;
    dibs *handle = open_mru(e);

    handle->to->core->options.now = shifted_now;
    handle->to->core->options.now_ctx = &shift;
    assert_int_equal(take_one(e, handle, "26010"), 26010);
    shift.wall_ms = 10LL * 365 * 86400000; /* would expire everything */
    assert_int_equal(take(e, handle, "26010", 1, &port), DIBS_EXHAUSTED);
    shift = (struct instant){ -10LL * 365 * 86400000, 120001 }; /* would prolong everything */
    assert_int_equal(take_one(e, handle, "26010"), 26010);
    dibs_close(handle);
}

static void m3_addresses_are_compared_as_addresses_and_protocols_apart(void **state)
{
    static const struct {
        dibs_proto proto;
        const char *address;
        dibs_status status;
    } rows[] = {
        { DIBS_TCP, "127.0.0.1", DIBS_OK }, { DIBS_TCP, "0.0.0.0", DIBS_EXHAUSTED },
        { DIBS_TCP, "*", DIBS_EXHAUSTED },  { DIBS_TCP, "::ffff:127.0.0.1", DIBS_EXHAUSTED },
        { DIBS_TCP, "::1", DIBS_OK },       { DIBS_UDP, "127.0.0.1", DIBS_OK },
    };
    struct engine *e = *state;
    dibs_ranges one = e_ranges("26010");
    dibs *handle = open_mru(e);

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        dibs_request r = { .ranges = &one };
        dibs_claim out = { 0 };

        e_bind_to(&r, rows[i].proto, rows[i].address);
        assert_int_equal(dibs_claim_ports(handle, &(dibs_batch){ .requests = &r, .n = 1 }, &out, &e->err),
                         rows[i].status);
    }
    dibs_close(handle);
}

static void m4_a_damaged_file_is_made_again(void **state)
{
    static const char *const texts[] = { "v1 tcp 127.0.0.1 26010 5000000 x a\n", "" };
    struct engine *e = *state;

    for (size_t i = 0; i < 2; i++) {
        FILE *file = fopen(e->settings.mru_file, "we");

        assert_non_null(file);
        for (int k = 0; k < 400; k++)
            (void) fputs(texts[i], file);
        assert_int_equal(fclose(file), 0);
        dibs *handle = open_mru(e);
        uint16_t first = take_one(e, handle, "26010-26011");

        assert_int_not_equal(take_one(e, handle, "26010-26011"), first);
        dibs_close(handle);
        if (i == 0) { /* the path may have been a mistake */
            char aside[sizeof e->settings.mru_file + 16];

            (void) snprintf(aside, sizeof aside, "%s.damaged", e->settings.mru_file);
            assert_int_equal(access(aside, R_OK), 0);
        }
    }
}

static void m5_an_ephemeral_port_is_given_only_when_asked_for(void **state)
{
    struct engine *e = *state;
    uint16_t ports[2] = { 0 };
    dibs *handle = open_mru(e);

    assert_int_equal(take(e, handle, "40000", 1, ports), DIBS_EXHAUSTED);
    dibs_close(handle);
    e->settings.allow_ephemeral = true;
    handle = open_mru(e);
    ASSERT_OK(take(e, handle, "40000,65535", 2, ports), &e->err);
    assert_int_equal(ports[0] + ports[1], 40000 + 65535);
    dibs_close(handle);
}

static void m6_a_held_lock_is_reported_in_time(void **state)
{
    struct engine *e = *state;
    sqlite3 *db = NULL;
    uint16_t port = 7;

    e->settings.timeout_ms = 200;
    dibs *handle = open_mru(e);
    (void) take_one(e, handle, "26010-26019");
    assert_int_equal(sqlite3_open(e->settings.mru_file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    int64_t start = clock_monotonic_ms();
    assert_int_equal(take(e, handle, "26010-26019", 1, &port), DIBS_UNAVAILABLE);
    assert_int_equal(e->err.trouble, DIBS_TROUBLE_LOCKED);
    assert_in_range(clock_monotonic_ms() - start, 100, 1500);
    assert_int_equal(port, 7); /* never a port without a record */
    (void) sqlite3_close(db);
    (void) take_one(e, handle, "26010-26019");
    dibs_close(handle);
}

static void m7_processes_that_share_the_file_share_no_port(void **state)
{
    enum { PROCESSES = 16, EACH = 4 };
    struct engine *e = *state;
    struct portbits seen = { 0 };
    int pipes[2];

    need_network();
    e->settings.timeout_ms = 20000;
    assert_int_equal(pipe(pipes), 0);
    for (int i = 0; i < PROCESSES; i++) {
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
            uint16_t ports[EACH] = { 0 };
            dibs *handle = open_mru(e);

            if (take(e, handle, "26000-26063", EACH, ports) != DIBS_OK)
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
    struct engine *e = *state;
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(26010) };
    uint16_t ports[10] = { 7 };
    dibs *handle = open_mru(e);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *) &at, sizeof at), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(take(e, handle, "26010-26019", 10, ports), DIBS_EXHAUSTED);
    assert_int_equal(ports[0], 7);
    ASSERT_OK(take(e, handle, "26010-26019", 9, ports), &e->err); /* all or nothing */
    (void) close(fd);
    dibs_close(handle);
}

/* The fallback withholds what a ledger has that can be read, but not written. */
static void withheld_ports_are_not_chosen(void **state)
{
    struct engine *e = *state;
    dibs_ranges two = e_ranges("26010-26011");
    dibs_request r = e_request(NULL, "127.0.0.1");
    struct portbits withheld = { 0 };
    dibs_claim out = { 0 };

    need_network();
    r.ranges = &two;
    portbits_add(&withheld, 26010);
    e->core->options.withheld = &withheld;
    assert_int_equal(e_must(e, e->core, &r).port, 26011);
    assert_int_equal(e_try(e, e->core, &r, &out), DIBS_EXHAUSTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(ten_records_are_read_back_and_kept),
        E_TEST(records_live_for_less_than_their_lifetime),
        E_TEST(m1_an_unusable_place_is_an_answer_not_a_crash),
        E_TEST(a_missing_directory_is_made_private),
        E_TEST(m2_the_wall_clock_may_jump),
        E_TEST(m3_addresses_are_compared_as_addresses_and_protocols_apart),
        E_TEST(m4_a_damaged_file_is_made_again),
        E_TEST(m5_an_ephemeral_port_is_given_only_when_asked_for),
        E_TEST(m6_a_held_lock_is_reported_in_time),
        E_TEST(m7_processes_that_share_the_file_share_no_port),
        E_TEST(withheld_ports_are_not_chosen),
        E_TEST(a_probe_decides_and_nothing_is_recorded_when_it_fails),
    };

    e_own_network();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
