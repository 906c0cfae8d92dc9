/* SPDX-License-Identifier: MIT */
/* A real etcd of three members whose members die and stop, and one behind a proxy that damages answers. */
#include <poll.h>

#include "store/etcd/client/watch.h"
#include "support/etcd.h"
#include "support/relay.h"

enum { SHORT_MS = 1500, LONG_MS = 30000, SPOILT = 400 };

static dibs_status look(struct asker *f, struct etcd *etcd, const char *key)
{
    const struct etcd_op op = { .kind = ETCD_RANGE, .key = ETCD_BYTES(key) };

    etcd_answer_done(&f->answer);
    return etcd_do(etcd, &f->call, &op, &f->answer, &f->err);
}

/* A claim of a name: done once, or not at all. */
static dibs_status make(struct asker *f, struct etcd *etcd, const char *key)
{
    const struct etcd_compare fresh = { .target = ETCD_CREATE_REVISION, .key = ETCD_BYTES(key) };
    const struct etcd_op put = { .kind = ETCD_PUT, .key = ETCD_BYTES(key), .value = ETCD_BYTES(key) };
    const struct etcd_op other = { .kind = ETCD_RANGE, .key = ETCD_BYTES(key) };
    const struct etcd_txn txn = { &fresh, 1, &put, 1, &other, 1 };
    const struct etcd_op op = { .kind = ETCD_TXN, .txn = &txn };

    etcd_answer_done(&f->answer);
    return etcd_do(etcd, &f->call, &op, &f->answer, &f->err);
}

static int64_t took_ms(int64_t begun_ms)
{
    return clock_monotonic_ms() - begun_ms;
}

static void freeze(size_t but)
{
    for (size_t i = 0; i < shared->n; i++)
        if (i != but)
            member_freeze(shared, i);
}

static void thaw(struct asker *f, size_t but)
{
    for (size_t i = 0; i < shared->n; i++)
        if (i != but)
            member_thaw(shared, i);
    f->call.deadline_ms = in_ms(LONG_MS);
    ASSERT_OK(look(f, f->etcd, "well again"), &f->err);
}

/* ---- members ---- */

static void the_death_of_the_leader_is_survived(void **state)
{
    struct asker *f = *state;
    char key[32] = "";

    NEED_ETCD();
    size_t leader = cluster_leader(shared, f->etcd);
    member_kill(shared, leader);
    for (int i = 0; i < 20; i++) {
        (void) snprintf(key, sizeof key, "leader/%d", i);
        f->call.deadline_ms = in_ms(LONG_MS);
        dibs_status s = make(f, f->etcd, key);
        bool is_unknown = s != DIBS_OK && f->call.fate == ETCD_UNKNOWN;

        if (s == DIBS_OK)
            assert_true(f->answer.result.succeeded);
        else
            assert_true(is_unknown); /* with so much time nothing else is a reason to fail */
        ASSERT_OK(look(f, f->etcd, key), &f->err);
        assert_true(f->answer.result.n_kvs == 1 || is_unknown);
    }
    member_begin(shared, leader);
    (void) cluster_leader(shared, f->etcd);
}

static void a_member_that_does_not_answer_leaves_time_for_the_others(void **state)
{
    struct asker *f = *state;

    NEED_ETCD();
    ASSERT_OK(look(f, f->etcd, "x"), &f->err);
    size_t hung = 0;
    while (strcmp(shared->config.origin[hung], etcd_endpoint(f->etcd)) != 0)
        hung++;
    member_freeze(shared, hung);
    f->call.deadline_ms = in_ms(LONG_MS); /* the stopped one may have led */
    ASSERT_OK(look(f, f->etcd, "x"), &f->err);
    assert_true(f->call.n_tries >= 2);
    assert_string_not_equal(shared->config.origin[hung], etcd_endpoint(f->etcd));
    ASSERT_OK(look(f, f->etcd, "x"), &f->err); /* it is remembered */
    assert_int_equal(f->call.n_tries, 1);
    member_thaw(shared, hung);
}

static void when_no_member_answers_calls_end_by_their_deadline(void **state)
{
    struct asker *f = *state;

    NEED_ETCD();
    ASSERT_OK(look(f, f->etcd, "x"), &f->err);
    freeze(SIZE_MAX);
    int64_t begun_ms = clock_monotonic_ms();
    f->call.deadline_ms = in_ms(SHORT_MS);
    assert_int_equal(look(f, f->etcd, "x"), DIBS_UNAVAILABLE);
    assert_true(took_ms(begun_ms) >= SHORT_MS - 50 && took_ms(begun_ms) < SHORT_MS + STALL_MS);
    assert_int_equal(f->call.fault, ETCD_FAULT_UNREACHABLE);
    assert_non_null(strstr(f->err.msg, "127.0.0.1"));
    begun_ms = clock_monotonic_ms();
    f->call.deadline_ms = in_ms(SHORT_MS);
    assert_int_equal(make(f, f->etcd, "hung"), DIBS_UNAVAILABLE);
    assert_int_equal(f->call.fate, ETCD_UNKNOWN);
    assert_true(took_ms(begun_ms) < SHORT_MS + STALL_MS);
    thaw(f, SIZE_MAX);
}

static void without_a_majority_nothing_is_done(void **state)
{
    struct asker *f = *state;
    struct etcd *etcd = NULL;

    NEED_ETCD();
    size_t kept = (cluster_leader(shared, f->etcd) + 1) % 3; /* one that follows notices sooner */
    struct etcd_config config = shared->config;
    memcpy(config.origin[0], shared->config.origin[kept], sizeof config.origin[0]);
    config.n_origins = 1;
    ASSERT_OK(etcd_open(&config, &etcd, &f->err), &f->err);
    freeze(kept);
    for (int64_t until = in_ms(LONG_MS); clock_monotonic_ms() < until;) {
        struct etcd_status status = { 0 };

        f->call.deadline_ms = in_ms(SHORT_MS);
        if (etcd_status(etcd, &f->call, 0, &status, &f->err) == DIBS_OK && status.leader == 0)
            break;
        if (strstr(f->err.msg, "no leader"))
            break;
    }
    f->call.deadline_ms = in_ms(SHORT_MS);
    assert_int_equal(make(f, etcd, "minority"), DIBS_UNAVAILABLE);
    assert_int_equal(f->call.fate,
                     ETCD_NOT_DONE); /* it says so, because it was asked whether it has a leader */
    assert_non_null(strstr(f->err.msg, "no leader"));
    assert_true(f->call.n_tries > 1);
    etcd_close(etcd);
    thaw(f, kept);
    ASSERT_OK(look(f, f->etcd, "minority"), &f->err);
    assert_int_equal(f->answer.result.n_kvs, 0);
}

static void where_nobody_listens_nothing_was_done(void **state)
{
    struct asker *f = *state;
    struct etcd_config config = { .n_origins = 2, .prefix = "/t" };
    struct etcd *etcd = NULL;
    int guards[2] = { 0 };

    for (size_t i = 0; i < 2; i++)
        (void) snprintf(config.origin[i], sizeof config.origin[i], "http://127.0.0.1:%u",
                        etcd_guard_open(&guards[i]));
    ASSERT_OK(etcd_open(&config, &etcd, &f->err), &f->err);
    int64_t begun_ms = clock_monotonic_ms();
    f->call.deadline_ms = in_ms(SHORT_MS);
    assert_int_equal(make(f, etcd, "nobody"), DIBS_UNAVAILABLE);
    assert_int_equal(f->call.fate, ETCD_NOT_DONE);
    assert_true(took_ms(begun_ms) < SHORT_MS + STALL_MS);
    assert_true(f->call.n_tries > 2 && f->call.n_tries <= 64);
    assert_non_null(strstr(f->err.msg, "is the server running"));
    etcd_close(etcd);
    (void) close(guards[0]);
    (void) close(guards[1]);
}

/* ---- spoilt answers ---- */

struct fate {
    dibs_status status;
    enum etcd_fate fate;
    int64_t revision;
};

static void damaged_answers_are_never_believed(void **state)
{
    struct asker *f = *state;
    struct fate fates[SPOILT] = { 0 };
    struct etcd_config config = { 0 };
    struct etcd *etcd = NULL;
    size_t n_done = 0;
    size_t n_unknown = 0;
    char key[32] = "";

    NEED_ETCD();
    pid_t proxy = unruly_start(shared, &config, unruly_seed());
    ASSERT_OK(etcd_open(&config, &etcd, &f->err), &f->err);
    for (int i = 0; i < SPOILT; i++) {
        (void) snprintf(key, sizeof key, "spoilt/%03d", i);
        f->call.deadline_ms = in_ms(3000);
        fates[i].status = make(f, etcd, key);
        fates[i].fate = f->call.fate;
        fates[i].revision = f->answer.revision;
        if (fates[i].status != DIBS_OK)
            assert_true(fates[i].fate != ETCD_DONE && *f->err.msg);
        else if (!f->answer.result.succeeded)
            fail_msg("%s was asked for once and was there already", key); /* so it was sent twice */
        n_done += fates[i].status == DIBS_OK;
        n_unknown += fates[i].fate == ETCD_UNKNOWN;
        if (i % 3 == 0 && look(f, etcd, key) == DIBS_OK && f->answer.result.n_kvs > 0)
            assert_memory_equal(f->answer.result.kvs->value.at, key, strlen(key));
    }
    child_end(proxy);
    etcd_close(etcd);
    for (int i = 0; i < SPOILT; i++) { /* and what is really there */
        (void) snprintf(key, sizeof key, "spoilt/%03d", i);
        f->call.deadline_ms = in_ms(LONG_MS);
        ASSERT_OK(look(f, f->etcd, key), &f->err);
        if (fates[i].status == DIBS_OK) {
            assert_int_equal(f->answer.result.n_kvs, 1);
            assert_int_equal(f->answer.result.kvs->mod_revision, fates[i].revision);
        } else if (fates[i].fate == ETCD_NOT_DONE) {
            assert_int_equal(f->answer.result.n_kvs, 0);
        }
    }
    print_message("%zu done, %zu unknown of %d\n", n_done, n_unknown, SPOILT);
    assert_true(n_done > SPOILT / 2 && n_unknown > 0);
}

/* ---- a spoilt watch ---- */

struct heard {
    int64_t revisions[SPOILT]; /* that were made */
    size_t n_made, n_reported; /* the first of them, without a gap */
    int64_t revision;
    size_t n_interrupted;
};

static void on_changed(void *ctx, const struct etcd_event *events, size_t n, int64_t revision)
{
    struct heard *h = ctx;

    assert_true(revision > h->revision || n == 0);
    h->revision = revision;
    for (size_t i = 0; i < n; i++) {
        if (h->n_reported > 0 && events[i].kv.mod_revision == h->revisions[h->n_reported - 1])
            continue; /* a second time, after an interruption */
        assert_true(h->n_reported < h->n_made);
        assert_int_equal(events[i].kv.mod_revision, h->revisions[h->n_reported]);
        h->n_reported++;
    }
}

static void on_cut(void *ctx, int64_t revision)
{
    (void) ctx;
    fail_msg("nothing was compacted, not at %lld", (long long) revision);
}

static void on_connected(void *ctx, const char *endpoint, bool is_connected)
{
    (void) endpoint;
    ((struct heard *) ctx)->n_interrupted += !is_connected;
}

static void a_spoilt_watch_leaves_nothing_out(void **state)
{
    struct asker *f = *state;
    struct heard heard = { 0 };
    struct etcd_config config = { 0 };
    struct etcd_watch *watch = NULL;
    const struct etcd_watch_options options = { .key = ETCD_BYTES("heard"),
                                                .changed = on_changed,
                                                .cut = on_cut,
                                                .connected = on_connected,
                                                .revision = 1,
                                                .ctx = &heard };

    NEED_ETCD();
    pid_t proxy = unruly_start(shared, &config, unruly_seed());
    ASSERT_OK(etcd_watch_open(&config, &options, &watch, &f->err), &f->err);
    for (int64_t until = in_ms(2 * LONG_MS); heard.n_reported < SPOILT && clock_monotonic_ms() < until;) {
        struct pollfd at = { .fd = etcd_watch_fd(watch), .events = POLLIN };

        if (heard.n_made < SPOILT) {
            const struct etcd_op op = { .kind = ETCD_PUT, .key = ETCD_BYTES("heard") };

            etcd_answer_done(&f->answer);
            f->call.deadline_ms = in_ms(LONG_MS);
            ASSERT_OK(etcd_do(f->etcd, &f->call, &op, &f->answer, &f->err), &f->err);
            heard.revisions[heard.n_made++] = f->answer.revision;
        }
        etcd_watch_expect(watch, heard.revisions[heard.n_made - 1]); /* a cut may leave it waiting */
        (void) poll(&at, 1, heard.n_made < SPOILT ? 0 : 100);
        etcd_watch_turn(watch);
    }
    child_end(proxy);
    etcd_watch_close(watch);
    print_message("interrupted %zu times\n", heard.n_interrupted);
    assert_int_equal(heard.n_reported, SPOILT);
    assert_true(heard.n_interrupted > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ASKER_TEST(the_death_of_the_leader_is_survived),
        ASKER_TEST(a_member_that_does_not_answer_leaves_time_for_the_others),
        ASKER_TEST(when_no_member_answers_calls_end_by_their_deadline),
        ASKER_TEST(without_a_majority_nothing_is_done),
        ASKER_TEST(where_nobody_listens_nothing_was_done),
        ASKER_TEST(damaged_answers_are_never_believed),
        ASKER_TEST(a_spoilt_watch_leaves_nothing_out),
    };

    return cmocka_run_group_tests(tests, shared_open_three, shared_close);
}
