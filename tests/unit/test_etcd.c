/* SPDX-License-Identifier: MIT */
/* Every call of the client, against a real etcd of one member. */
#include "store/report.h"
#include "support/etcd.h"

static void ask(struct asker *f, const struct etcd_op *op)
{
    etcd_answer_done(&f->answer);
    ASSERT_OK(etcd_do(f->etcd, &f->call, op, &f->answer, &f->err), &f->err);
    assert_int_equal(f->call.fate, ETCD_DONE);
    assert_int_equal(f->call.fault, ETCD_FAULT_NONE);
    assert_true(f->answer.revision > 0);
}

static int64_t put(struct asker *f, const char *key, const char *value)
{
    ask(f, &(struct etcd_op){ .kind = ETCD_PUT, .key = ETCD_BYTES(key), .value = ETCD_BYTES(value) });
    return f->answer.revision;
}

static void get(struct asker *f, const char *key)
{
    ask(f, &(struct etcd_op){ .kind = ETCD_RANGE, .key = ETCD_BYTES(key) });
}

static bool is(struct etcd_bytes bytes, const char *text)
{
    return bytes.n == strlen(text) && memcmp(bytes.at, text, bytes.n) == 0;
}

static void a_written_key_can_be_read(void **state)
{
    struct asker *f = *state;

    NEED_ETCD();
    int64_t first = put(f, "put/a", "1");
    int64_t second = put(f, "put/a", "");
    assert_true(second > first);
    get(f, "put/a");
    assert_int_equal(f->answer.result.n_kvs, 1);
    const struct etcd_kv *kv = f->answer.result.kvs;
    assert_true(is(kv->key, "put/a") && kv->value.n == 0);
    assert_int_equal(kv->create_revision, first);
    assert_int_equal(kv->mod_revision, second);
    assert_int_equal(kv->lease, 0);
    get(f, "put/none");
    assert_int_equal(f->answer.result.n_kvs, 0);
    assert_int_equal(f->answer.result.count, 0);
}

static void any_bytes_are_kept(void **state)
{
    struct asker *f = *state;
    unsigned char key[300];

    NEED_ETCD();
    for (size_t n = 1; n <= sizeof key; n += 37) { /* every padding */
        for (size_t i = 0; i < n; i++)
            key[i] = (unsigned char) (i * 7 + n);
        ask(f, &(struct etcd_op){ .kind = ETCD_PUT, .key = { key, n }, .value = { key, n } });
        ask(f, &(struct etcd_op){ .kind = ETCD_RANGE, .key = { key, n } });
        assert_int_equal(f->answer.result.n_kvs, 1);
        assert_int_equal(f->answer.result.kvs->value.n, n);
        assert_memory_equal(f->answer.result.kvs->value.at, key, n);
        assert_memory_equal(f->answer.result.kvs->key.at, key, n);
    }
}

static void a_deleted_key_is_gone(void **state)
{
    struct asker *f = *state;

    NEED_ETCD();
    (void) put(f, "gone/a", "old");
    ask(f, &(struct etcd_op){ .kind = ETCD_DELETE, .key = ETCD_BYTES("gone/a") });
    assert_int_equal(f->answer.result.count, 1);
    ask(f, &(struct etcd_op){ .kind = ETCD_DELETE, .key = ETCD_BYTES("gone/a") });
    assert_int_equal(f->answer.result.count, 0);
}

/* ---- ranges and pages ---- */

struct taken {
    size_t n, n_pages, stop_after;
    char last[64];
};

static bool take(void *ctx, const struct etcd_kv *kvs, size_t n)
{
    struct taken *t = ctx;

    t->n_pages++;
    for (size_t i = 0; i < n; i++) {
        char key[64] = "";

        assert_true(kvs[i].key.n < sizeof key);
        memcpy(key, kvs[i].key.at, kvs[i].key.n);
        assert_true(strcmp(key, t->last) > 0); /* in order, none twice */
        memcpy(t->last, key, sizeof key);
        t->n++;
    }
    return t->stop_after == 0 || t->n < t->stop_after;
}

static void a_range_is_read_page_by_page_at_one_revision(void **state)
{
    struct asker *f = *state;
    struct taken t = { 0 };
    char end[8];

    NEED_ETCD();
    for (int i = 0; i < 25; i++) {
        char key[32] = "";

        (void) snprintf(key, sizeof key, "pages/%02d", i);
        (void) put(f, key, "x");
    }
    int64_t before = f->answer.revision;
    (void) put(f, "pages/99", "later");
    struct etcd_op pages = { .kind = ETCD_RANGE,
                             .key = ETCD_BYTES("pages/"),
                             .end = etcd_prefix_end(ETCD_BYTES("pages/"), end),
                             .limit = 10,
                             .revision = before };
    ASSERT_OK(etcd_read_pages(f->etcd, &f->call, &pages, take, &t, &f->err), &f->err);
    assert_int_equal(t.n, 25);
    assert_int_equal(t.n_pages, 3);
    assert_int_equal(pages.revision, before);
    t = (struct taken){ .stop_after = 5 };
    pages.revision = 0;
    ASSERT_OK(etcd_read_pages(f->etcd, &f->call, &pages, take, &t, &f->err), &f->err);
    assert_int_equal(t.n_pages, 1);
    assert_true(pages.revision > before);
    ask(f,
        &(struct etcd_op){ .kind = ETCD_RANGE, .key = pages.key, .end = pages.end, .is_count_only = true });
    assert_int_equal(f->answer.result.count, 26);
    assert_int_equal(f->answer.result.n_kvs, 0);
    ask(f, &(struct etcd_op){ .kind = ETCD_RANGE, .key = pages.key, .end = pages.end, .limit = 3 });
    assert_int_equal(f->answer.result.n_kvs, 3);
    assert_true(f->answer.result.has_more);
}

static void the_end_of_a_prefix_is_behind_all_its_keys(void **state)
{
    char out[8];

    (void) state;
    assert_true(is(etcd_prefix_end(ETCD_BYTES("a"), out), "b"));
    assert_true(is(etcd_prefix_end(ETCD_BYTES("a/"), out), "a0"));
    assert_true(is(etcd_prefix_end(ETCD_BYTES("a\xff"), out), "b"));
    struct etcd_bytes all = etcd_prefix_end(ETCD_BYTES("\xff\xff"), out);
    assert_int_equal(all.n, 1);
    assert_int_equal(*(const char *) all.at, 0);
    assert_int_equal(etcd_prefix_end((struct etcd_bytes){ 0 }, out).n, 1);
}

/* ---- Txns ---- */

static void a_txn_takes_the_branch_that_its_compares_say(void **state)
{
    struct asker *f = *state;
    const struct etcd_compare fresh = { .target = ETCD_CREATE_REVISION, .key = ETCD_BYTES("txn/a") };
    const struct etcd_op make = { .kind = ETCD_PUT, .key = ETCD_BYTES("txn/a"), .value = ETCD_BYTES("mine") };
    const struct etcd_op look = { .kind = ETCD_RANGE, .key = ETCD_BYTES("txn/a") };
    const struct etcd_txn txn = { &fresh, 1, &make, 1, &look, 1 };
    const struct etcd_op op = { .kind = ETCD_TXN, .txn = &txn };

    NEED_ETCD();
    ask(f, &op);
    assert_true(f->answer.result.succeeded);
    assert_int_equal(f->answer.result.n_results, 1);
    assert_int_equal(f->answer.result.results->kind, ETCD_PUT);
    int64_t made = f->answer.revision;
    ask(f, &op);
    assert_false(f->answer.result.succeeded);
    assert_int_equal(f->answer.result.results->kind, ETCD_RANGE);
    assert_int_equal(f->answer.result.results->kvs->mod_revision, made);
}

static bool holds(struct asker *f, struct etcd_compare compare)
{
    const struct etcd_op mark = { .kind = ETCD_PUT, .key = ETCD_BYTES("compare-mark") };
    const struct etcd_txn txn = { .compares = &compare, .n_compares = 1, .then = &mark, .n_then = 1 };

    ask(f, &(struct etcd_op){ .kind = ETCD_TXN, .txn = &txn });
    return f->answer.result.succeeded;
}

#define COMPARE(...) ((struct etcd_compare){ .key = ETCD_BYTES("compare/a"), __VA_ARGS__ })

static void every_compare_is_understood(void **state)
{
    struct asker *f = *state;

    NEED_ETCD();
    int64_t rev = put(f, "compare/a", "value");
    assert_true(holds(f, COMPARE(.target = ETCD_CREATE_REVISION, .number = rev)));
    assert_true(holds(f, COMPARE(.target = ETCD_MOD_REVISION, .number = rev)));
    assert_true(holds(f, COMPARE(.target = ETCD_MOD_REVISION, .relation = ETCD_LESS, .number = rev + 1)));
    assert_false(holds(f, COMPARE(.target = ETCD_MOD_REVISION, .relation = ETCD_LESS, .number = rev)));
    assert_true(
        holds(f, (struct etcd_compare){ .target = ETCD_CREATE_REVISION, .key = ETCD_BYTES("compare/none") }));
    /* Of a range every key is compared; one without keys is as a key that is not there. */
    int64_t last = put(f, "compare/b", "value");
    assert_true(holds(f, COMPARE(.end = ETCD_BYTES("compare/z"), .target = ETCD_MOD_REVISION,
                                 .relation = ETCD_LESS, .number = last + 1)));
    assert_false(holds(f, COMPARE(.end = ETCD_BYTES("compare/z"), .target = ETCD_MOD_REVISION,
                                  .relation = ETCD_LESS, .number = last)));
    assert_false(
        holds(f, COMPARE(.end = ETCD_BYTES("compare/z"), .target = ETCD_MOD_REVISION, .number = rev)));
    assert_true(holds(f, (struct etcd_compare){ .target = ETCD_CREATE_REVISION,
                                                .key = ETCD_BYTES("compare/x"),
                                                .end = ETCD_BYTES("compare/y") }));
    assert_false(holds(f, COMPARE(.end = ETCD_BYTES("compare/z"), .target = ETCD_CREATE_REVISION)));
}

enum { NESTED = 127 };

struct many {
    char keys[NESTED][16];
    struct etcd_compare compares[NESTED];
    struct etcd_op puts[NESTED], looks[NESTED], ops[NESTED];
    struct etcd_txn nested[NESTED], all;
};

static void make_many(struct many *m, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct etcd_bytes key = { m->keys[i], 0 };

        key.n = (size_t) snprintf(m->keys[i], sizeof m->keys[i], "many/%03zu", i);
        m->compares[i] = (struct etcd_compare){ .target = ETCD_CREATE_REVISION, .key = key };
        m->puts[i] = (struct etcd_op){ .kind = ETCD_PUT, .key = key, .value = key };
        m->looks[i] = (struct etcd_op){ .kind = ETCD_RANGE, .key = key };
        m->nested[i] = (struct etcd_txn){ &m->compares[i], 1, &m->puts[i], 1, &m->looks[i], 1 };
        m->ops[i] = (struct etcd_op){ .kind = ETCD_TXN, .txn = &m->nested[i] };
    }
    m->all = (struct etcd_txn){ .then = m->ops, .n_then = n };
}

static void nested_txns_have_each_its_own_outcome(void **state)
{
    struct asker *f = *state;
    struct many *m = calloc(1, sizeof *m);

    assert_non_null(m);
    if (!has_etcd())
        free(m);
    NEED_ETCD();
    make_many(m, NESTED);
    (void) put(f, "many/005", "somebody's");
    ask(f, &(struct etcd_op){ .kind = ETCD_TXN, .txn = &m->all });
    assert_true(f->answer.result.succeeded);
    assert_int_equal(f->answer.result.n_results, NESTED);
    for (size_t i = 0; i < NESTED; i++) {
        const struct etcd_result *r = &f->answer.result.results[i];

        assert_int_equal(r->kind, ETCD_TXN);
        assert_int_equal(r->succeeded, i != 5);
        assert_int_equal(r->n_results, 1);
        if (i == 5)
            assert_true(is(r->results->kvs->value, "somebody's"));
    }
    int64_t revision = f->answer.revision;
    get(f, "many/126");
    assert_int_equal(f->answer.result.kvs->mod_revision, revision);
    free(m);
}

/* Beyond what a request may have; beyond what a message may have. */
enum { HEAVY_BYTES = 1700000, HEAVIER_BYTES = 2 << 20 };

static void a_txn_that_etcd_refuses_is_certainly_not_done(void **state)
{
    struct asker *f = *state;
    struct etcd_op twice[200];
    const struct etcd_txn txn = { .then = twice, .n_then = 2 };
    const struct etcd_txn large = { .then = twice, .n_then = 200 };
    const struct etcd_op op = { .kind = ETCD_TXN, .txn = &txn };

    NEED_ETCD();
    for (size_t i = 0; i < 200; i++)
        twice[i] = (struct etcd_op){ .kind = ETCD_PUT, .key = ETCD_BYTES("twice") };
    assert_int_equal(etcd_do(f->etcd, &f->call, &op, &f->answer, &f->err), DIBS_INVALID);
    assert_int_equal(f->call.fate, ETCD_NOT_DONE);
    assert_int_equal(f->call.n_tries, 1);
    assert_non_null(strstr(f->err.msg, "duplicate key"));
    assert_non_null(strstr(f->err.msg, "127.0.0.1"));
    assert_null(f->answer.memory);
    const struct etcd_op larger = { .kind = ETCD_TXN, .txn = &large };
    assert_int_equal(etcd_do(f->etcd, &f->call, &larger, &f->answer, &f->err), DIBS_INVALID);
    assert_int_equal(f->call.fault, ETCD_FAULT_TOO_MANY);
    char *heavy = calloc(1, HEAVIER_BYTES);
    assert_non_null(heavy);
    struct etcd_op put = { .kind = ETCD_PUT, .key = ETCD_BYTES("heavy"), .value = { heavy, HEAVY_BYTES } };
    for (; put.value.n <= HEAVIER_BYTES; put.value.n += HEAVIER_BYTES - HEAVY_BYTES) {
        assert_int_equal(etcd_do(f->etcd, &f->call, &put, &f->answer, &f->err), DIBS_INVALID);
        assert_int_equal(f->call.fault, ETCD_FAULT_TOO_MANY);
        assert_int_equal(f->call.fate, ETCD_NOT_DONE);
    }
    free(heavy);
}

/* ---- revisions ---- */

static void compacted_and_future_revisions_are_distinguished(void **state)
{
    struct asker *f = *state;
    struct etcd_op look = { .kind = ETCD_RANGE, .key = ETCD_BYTES("compact/a") };

    NEED_ETCD();
    int64_t first = put(f, "compact/a", "1");
    int64_t second = put(f, "compact/a", "2");
    look.revision = first;
    ask(f, &look);
    assert_true(is(f->answer.result.kvs->value, "1"));
    etcd_answer_done(&f->answer);
    ASSERT_OK(etcd_compact(f->etcd, &f->call, second, &f->err), &f->err);
    ASSERT_OK(etcd_compact(f->etcd, &f->call, second, &f->err), &f->err);
    assert_int_equal(f->call.fate, ETCD_DONE);
    assert_int_equal(etcd_do(f->etcd, &f->call, &look, &f->answer, &f->err), DIBS_NOT_FOUND);
    assert_int_equal(f->call.fault, ETCD_FAULT_COMPACTED);
    look.revision = second + 1000;
    assert_int_equal(etcd_do(f->etcd, &f->call, &look, &f->answer, &f->err), DIBS_NOT_FOUND);
    assert_int_equal(f->call.fault, ETCD_FAULT_FUTURE);
}

/* ---- leases ---- */

static void a_lease_is_granted_renewed_and_revoked(void **state)
{
    struct asker *f = *state;
    int64_t id = 0;
    int64_t ttl_s = 0;

    NEED_ETCD();
    int64_t before_ms = clock_now(0).boot_ms;
    ASSERT_OK(etcd_lease_grant(f->etcd, &f->call, 60, &id, &ttl_s, &f->err), &f->err);
    assert_true(id != 0 && ttl_s == 60);
    assert_true(f->call.asked_boot_ms >= before_ms && f->call.asked_boot_ms <= clock_now(0).boot_ms);
    ask(f, &(struct etcd_op){ .kind = ETCD_PUT, .key = ETCD_BYTES("lease/a"), .lease = id });
    get(f, "lease/a");
    assert_int_equal(f->answer.result.kvs->lease, id);
    ttl_s = 0;
    ASSERT_OK(etcd_lease_renew(f->etcd, &f->call, id, &ttl_s, &f->err), &f->err);
    assert_int_equal(ttl_s, 60);
    ASSERT_OK(etcd_lease_revoke(f->etcd, &f->call, id, &f->err), &f->err);
    get(f, "lease/a");
    assert_int_equal(f->answer.result.n_kvs, 0);
}

static void a_lease_that_has_ended_is_said_to_be_gone(void **state)
{
    struct asker *f = *state;
    int64_t id = 4711;
    int64_t ttl_s = 7;

    NEED_ETCD();
    assert_int_equal(etcd_lease_renew(f->etcd, &f->call, id, &ttl_s, &f->err), DIBS_NOT_FOUND);
    assert_int_equal(f->call.fault, ETCD_FAULT_NO_LEASE);
    assert_int_equal(ttl_s, 7);
    ASSERT_OK(etcd_lease_revoke(f->etcd, &f->call, id, &f->err), &f->err);
    assert_int_equal(f->call.fate, ETCD_DONE);
    const struct etcd_op op = { .kind = ETCD_PUT, .key = ETCD_BYTES("lease/b"), .lease = id };
    assert_int_equal(etcd_do(f->etcd, &f->call, &op, &f->answer, &f->err), DIBS_NOT_FOUND);
    assert_int_equal(f->call.fault, ETCD_FAULT_NO_LEASE);
}

/* ---- the cluster ---- */

static void the_cluster_reports_its_members(void **state)
{
    struct asker *f = *state;
    struct etcd_status status = { 0 };
    static struct ledger_cluster seen;

    NEED_ETCD();
    ASSERT_OK(etcd_status(f->etcd, &f->call, 0, &status, &f->err), &f->err);
    assert_true(status.version[0] == '3' && status.member != 0 && status.leader == status.member);
    assert_true(status.db_bytes > 0);
    ASSERT_OK(etcd_cluster(&shared->config, 10000, &seen, &f->err), &f->err);
    assert_int_equal(seen.n, 1);
    assert_string_equal(seen.member[0].name, "m0");
    assert_string_equal(seen.member[0].url, etcd_endpoint(f->etcd));
    assert_true(seen.member[0].answers && seen.member[0].is_leader && seen.is_quorate);
    assert_true(!seen.member[0].is_full && !seen.member[0].is_corrupt && !seen.has_other_alarm);
}

static void a_call_without_time_asks_nobody(void **state)
{
    struct asker *f = *state;
    const struct etcd_op op = { .kind = ETCD_PUT, .key = ETCD_BYTES("late") };

    NEED_ETCD();
    f->call.deadline_ms = in_ms(0);
    assert_int_equal(etcd_do(f->etcd, &f->call, &op, &f->answer, &f->err), DIBS_UNAVAILABLE);
    assert_int_equal(f->call.fate, ETCD_NOT_DONE);
    assert_int_equal(f->call.n_tries, 0);
    assert_true(*f->err.msg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ASKER_TEST(a_written_key_can_be_read),
        ASKER_TEST(any_bytes_are_kept),
        ASKER_TEST(a_deleted_key_is_gone),
        ASKER_TEST(a_range_is_read_page_by_page_at_one_revision),
        ASKER_TEST(the_end_of_a_prefix_is_behind_all_its_keys),
        ASKER_TEST(a_txn_takes_the_branch_that_its_compares_say),
        ASKER_TEST(every_compare_is_understood),
        ASKER_TEST(nested_txns_have_each_its_own_outcome),
        ASKER_TEST(a_txn_that_etcd_refuses_is_certainly_not_done),
        ASKER_TEST(compacted_and_future_revisions_are_distinguished),
        ASKER_TEST(a_lease_is_granted_renewed_and_revoked),
        ASKER_TEST(a_lease_that_has_ended_is_said_to_be_gone),
        ASKER_TEST(the_cluster_reports_its_members),
        ASKER_TEST(a_call_without_time_asks_nobody),
    };

    return cmocka_run_group_tests(tests, shared_open_one, shared_close);
}
