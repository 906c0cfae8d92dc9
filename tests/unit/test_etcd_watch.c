/* SPDX-License-Identifier: MIT */
/* Watching a real etcd of three members, while they die, stop and lose data. */
#include <poll.h>

#include "store/etcd/client/watch.h"
#include "support/etcd.h"

enum { SEEN_MAX = 4096, LONG_MS = 30000 };

struct seen {
    char key[64], value[64];
    size_t n_value;
    int64_t revision;
    bool is_delete;
};

struct fixture {
    struct etcd *etcd;
    struct etcd_watch *watch;
    struct seen seen[SEEN_MAX];
    size_t n_seen, n_notices, n_connected, n_interrupted;
    int64_t revision, compacted;
    char endpoint[ETCD_ORIGIN_MAX + 1];
    dibs_err err;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    *state = f;
    if (shared)
        ASSERT_OK(etcd_open(&shared->config, &f->etcd, &f->err), &f->err);
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    etcd_watch_close(f->watch);
    etcd_close(f->etcd);
    free(f);
    return 0;
}

/* ---- the changes seen ---- */

static void copy(char *to, size_t size, struct etcd_bytes from)
{
    size_t n = from.n < size - 1 ? from.n : size - 1;

    if (n > 0)
        memcpy(to, from.at, n);
    to[n] = '\0';
}

static void on_changed(void *ctx, const struct etcd_event *events, size_t n, int64_t revision)
{
    struct fixture *f = ctx;

    assert_true(revision >= f->revision);
    f->revision = revision;
    f->n_notices += n == 0;
    for (size_t i = 0; i < n; i++) {
        assert_true(f->n_seen < SEEN_MAX);
        struct seen *t = &f->seen[f->n_seen++];

        t->is_delete = events[i].is_delete;
        t->revision = events[i].kv.mod_revision;
        t->n_value = events[i].kv.value.n;
        copy(t->key, sizeof t->key, events[i].kv.key);
        copy(t->value, sizeof t->value, events[i].kv.value);
    }
}

static void on_cut(void *ctx, int64_t revision)
{
    struct fixture *f = ctx;

    f->compacted = revision;
}

static void on_connected(void *ctx, const char *endpoint, bool is_connected)
{
    struct fixture *f = ctx;

    f->n_interrupted += !is_connected;
    f->n_connected += is_connected;
    if (is_connected)
        (void) snprintf(f->endpoint, sizeof f->endpoint, "%s", endpoint);
}

#define TURN_UNTIL(f, condition)                                                       \
    do {                                                                               \
        int64_t until_ = in_ms(LONG_MS);                                               \
        while (!(condition)) {                                                         \
            struct pollfd at_ = { .fd = etcd_watch_fd((f)->watch), .events = POLLIN }; \
            if (clock_monotonic_ms() >= until_)                                        \
                fail_msg("not in time: %s", #condition);                               \
            (void) poll(&at_, 1, 100);                                                 \
            etcd_watch_turn((f)->watch);                                               \
        }                                                                              \
    } while (0)

static void watch_prefix(struct fixture *f, const char *prefix, int64_t revision)
{
    char end[64];
    const struct etcd_watch_options options = { .key = ETCD_BYTES(prefix),
                                                .end = etcd_prefix_end(ETCD_BYTES(prefix), end),
                                                .revision = revision,
                                                .changed = on_changed,
                                                .cut = on_cut,
                                                .connected = on_connected,
                                                .ctx = f };

    ASSERT_OK(etcd_watch_open(&shared->config, &options, &f->watch, &f->err), &f->err);
}

static int64_t do_op(struct fixture *f, const struct etcd_op *op)
{
    struct etcd_call call = { .deadline_ms = in_ms(LONG_MS), .may_repeat = true };
    struct etcd_answer answer = { 0 };

    ASSERT_OK(etcd_do(f->etcd, &call, op, &answer, &f->err), &f->err);
    int64_t revision = answer.revision;
    etcd_answer_done(&answer);
    return revision;
}

static int64_t put(struct fixture *f, const char *key, const char *value)
{
    return do_op(f,
                 &(struct etcd_op){ .kind = ETCD_PUT, .key = ETCD_BYTES(key), .value = ETCD_BYTES(value) });
}

static size_t watched_member(const struct fixture *f)
{
    for (size_t i = 0; i < shared->n; i++)
        if (strcmp(shared->config.origin[i], f->endpoint) == 0)
            return i;
    return 0;
}

/* ---- cases ----
 * Puts are repeated when their fate is unknown, so while members fail there may be more changes than puts. */

static void changes_are_reported_in_their_order(void **state)
{
    struct fixture *f = *state;

    NEED_ETCD();
    watch_prefix(f, "order/", 0);
    TURN_UNTIL(f, f->n_connected == 1);
    int64_t first = put(f, "order/a", "1");
    (void) put(f, "elsewhere", "x");
    (void) put(f, "order/a", "2");
    int64_t last = do_op(f, &(struct etcd_op){ .kind = ETCD_DELETE, .key = ETCD_BYTES("order/a") });
    TURN_UNTIL(f, f->n_seen >= 3);
    assert_int_equal(f->n_seen, 3);
    assert_string_equal(f->seen[0].key, "order/a");
    assert_string_equal(f->seen[0].value, "1");
    assert_int_equal(f->seen[0].revision, first);
    assert_string_equal(f->seen[1].value, "2");
    assert_true(f->seen[2].is_delete && f->seen[2].revision == last);
    assert_int_equal(f->revision, last);
    assert_int_equal(f->n_interrupted, 0);
}

static void the_past_is_reported_from_the_requested_revision(void **state)
{
    struct fixture *f = *state;

    NEED_ETCD();
    (void) put(f, "past/a", "0");
    int64_t from = put(f, "past/a", "1");
    (void) put(f, "past/a", "2");
    watch_prefix(f, "past/", from);
    TURN_UNTIL(f, f->n_seen == 2);
    assert_int_equal(f->seen[0].revision, from);
    etcd_watch_from(f->watch, from + 1);
    f->revision = 0;
    TURN_UNTIL(f, f->n_seen == 3);
    assert_int_equal(f->seen[2].revision, from + 1);
}

static void a_change_too_large_for_one_message_comes_in_parts(void **state)
{
    struct fixture *f = *state;
    enum { N = 12, BYTES = 500000 };
    char *value = calloc(1, BYTES);
    struct etcd_op ops[2];

    assert_non_null(value);
    if (!shared)
        free(value);
    NEED_ETCD();
    int64_t from = put(f, "large/first", "x");
    for (size_t i = 0; i < 2; i++)
        ops[i] = (struct etcd_op){ .kind = ETCD_PUT,
                                   .key = i == 0 ? ETCD_BYTES("large/a") : ETCD_BYTES("large/b"),
                                   .value = { value, BYTES } };
    const struct etcd_txn txn = { .then = ops, .n_then = 2 };
    for (int i = 0; i < N; i++)
        (void) do_op(f, &(struct etcd_op){ .kind = ETCD_TXN, .txn = &txn });
    watch_prefix(f, "large/", from);
    TURN_UNTIL(f, f->n_seen >= 1 + 2 * N);
    assert_int_equal(f->n_seen, 1 + 2 * N);
    for (size_t i = 1; i < f->n_seen; i++) {
        assert_true(f->seen[i].revision >= f->seen[i - 1].revision);
        assert_int_equal(f->seen[i].n_value, BYTES);
    }
    free(value);
}

static void a_watch_that_starts_too_late_is_notified_and_goes_on(void **state)
{
    struct fixture *f = *state;
    struct etcd_call call = { .deadline_ms = in_ms(LONG_MS) };

    NEED_ETCD();
    int64_t lost = put(f, "late/a", "1");
    int64_t kept = put(f, "late/a", "2");
    ASSERT_OK(etcd_compact(f->etcd, &call, kept, &f->err), &f->err);
    watch_prefix(f, "late/", lost);
    TURN_UNTIL(f, f->compacted > 0);
    assert_int_equal(f->compacted, kept);
    for (int i = 0; i < 5; i++) { /* it stands still: nothing wakes it */
        (void) poll(&(struct pollfd){ .fd = etcd_watch_fd(f->watch), .events = POLLIN }, 1, 20);
        etcd_watch_turn(f->watch);
    }
    assert_int_equal(f->n_seen, 0);
    assert_int_equal(f->n_connected, 1);
    etcd_watch_from(f->watch, kept);
    TURN_UNTIL(f, f->n_seen == 1);
    assert_int_equal(f->seen[0].revision, kept);
}

static void compaction_does_not_disturb_a_watch_that_keeps_up(void **state)
{
    struct fixture *f = *state;

    NEED_ETCD();
    watch_prefix(f, "busy/", 0);
    TURN_UNTIL(f, f->n_connected == 1);
    for (size_t i = 0; i < 20; i++) {
        struct etcd_call call = { .deadline_ms = in_ms(LONG_MS) };
        int64_t revision = put(f, "busy/a", "x");

        ASSERT_OK(etcd_compact(f->etcd, &call, revision, &f->err), &f->err);
        TURN_UNTIL(f, f->n_seen == i + 1);
    }
    assert_int_equal(f->compacted, 0);
    assert_int_equal(f->n_interrupted, 0);
}

static void nothing_is_lost_when_the_watched_member_dies(void **state)
{
    struct fixture *f = *state;
    char key[32] = "";

    NEED_ETCD();
    watch_prefix(f, "die/", 0);
    TURN_UNTIL(f, f->n_connected == 1);
    int64_t last = 0;
    int64_t first = put(f, "die/0", "x");
    TURN_UNTIL(f, f->n_seen == 1);
    size_t died = watched_member(f);
    member_kill(shared, died);
    for (int i = 1; i < 10; i++) {
        (void) snprintf(key, sizeof key, "die/%d", i);
        last = put(f, key, "x");
    }
    TURN_UNTIL(f, f->revision >= last);
    assert_int_equal(f->seen[0].revision, first);
    for (size_t i = 1; i < f->n_seen; i++) { /* each key, in its order; a put may have been made twice */
        assert_true(f->seen[i].revision > f->seen[i - 1].revision);
        assert_true(f->seen[i].key[4] - f->seen[i - 1].key[4] <= 1);
    }
    assert_string_equal(f->seen[f->n_seen - 1].key, "die/9");
    assert_true(f->n_interrupted >= 1 && f->n_connected >= 2);
    assert_true(watched_member(f) != died);
    member_begin(shared, died);
    (void) cluster_leader(shared, f->etcd);
}

static void a_watched_member_that_does_not_answer_is_left_when_a_change_is_expected(void **state)
{
    struct fixture *f = *state;

    NEED_ETCD();
    watch_prefix(f, "stop/", 0);
    TURN_UNTIL(f, f->n_connected == 1);
    size_t hung = watched_member(f);
    member_freeze(shared, hung);
    int64_t revision = put(f, "stop/a", "x");
    etcd_watch_expect(f->watch, revision);
    etcd_watch_expect(f->watch, revision);
    TURN_UNTIL(f, f->revision >= revision);
    assert_true(watched_member(f) != hung);
    assert_int_equal(f->seen[f->n_seen - 1].revision, revision);
    member_thaw(shared, hung);
    (void) cluster_leader(shared, f->etcd);
}

static void a_member_without_a_majority_ends_its_watches(void **state)
{
    struct fixture *f = *state;

    NEED_ETCD();
    watch_prefix(f, "alone/", 0);
    TURN_UNTIL(f, f->n_connected == 1);
    size_t watched = watched_member(f);
    for (size_t i = 0; i < 3; i++)
        if (i != watched)
            member_freeze(shared, i);
    TURN_UNTIL(f, f->n_interrupted >= 1);
    for (size_t i = 0; i < 3; i++)
        if (i != watched)
            member_thaw(shared, i);
    int64_t revision = put(f, "alone/a", "x");
    TURN_UNTIL(f, f->revision >= revision);
    bool is_seen = false; /* perhaps not as the last: an attempt that seemed lost may have been none */
    for (size_t i = 0; i < f->n_seen; i++)
        is_seen = is_seen || f->seen[i].revision == revision;
    assert_true(is_seen);
}

#define WATCH_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WATCH_TEST(changes_are_reported_in_their_order),
        WATCH_TEST(the_past_is_reported_from_the_requested_revision),
        WATCH_TEST(a_change_too_large_for_one_message_comes_in_parts),
        WATCH_TEST(a_watch_that_starts_too_late_is_notified_and_goes_on),
        WATCH_TEST(compaction_does_not_disturb_a_watch_that_keeps_up),
        WATCH_TEST(nothing_is_lost_when_the_watched_member_dies),
        WATCH_TEST(a_watched_member_that_does_not_answer_is_left_when_a_change_is_expected),
        WATCH_TEST(a_member_without_a_majority_ends_its_watches),
    };

    return cmocka_run_group_tests(tests, shared_open_three, shared_close);
}
