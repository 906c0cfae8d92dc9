/* SPDX-License-Identifier: MIT */
/* Records that an older version wrote (support/etcd-format-1.txt: two hosts, claims of both scopes, a block
 * with a template) are read whole, and stay readable beside those of this version. */
#include "support/etcd_ledger.h"

static size_t from_hex(const char *hex, size_t n, uint8_t *out)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i + 1 < n; i += 2)
        out[i / 2] =
            (uint8_t) ((strchr(digits, hex[i]) - digits) << 4 | (strchr(digits, hex[i + 1]) - digits));
    return n / 2;
}

/* A line is "KEY VALUE" in hexadecimal digits, the key without its prefix. */
static void put_line(struct etcd *etcd, const char *prefix, const char *line)
{
    static uint8_t key[1024], value[4096];
    size_t n = strlen(prefix);
    size_t n_key = strcspn(line, " ");
    const char *rest = line + n_key + 1;
    struct etcd_answer answer = { 0 };
    struct etcd_call call = { .deadline_ms = in_ms(10000) };
    dibs_err err = { 0 };

    memcpy(key, prefix, n);
    n += from_hex(line, n_key, key + n);
    size_t n_value = from_hex(rest, strcspn(rest, "\n"), value);
    struct etcd_op put = { .kind = ETCD_PUT, .key = { key, n }, .value = { value, n_value } };
    ASSERT_OK(etcd_do(etcd, &call, &put, &answer, &err), &err);
    etcd_answer_done(&answer);
}

#define FENCE_2                                                    \
    "2f632f702f21666f726d61742d322d6e656564732d612d6e657765722d64" \
    "6962732d6f6e2d746869732d686f7374 32\n"

static void put_old_records(const struct t_ledger *t)
{
    const char *source = getenv("SOURCE");
    char path[1024] = "";
    static char line[8192];
    struct etcd *etcd = NULL;
    dibs_err err = { 0 };

    (void) snprintf(path, sizeof path, "%s/tests/support/etcd-format-1.txt", source ? source : ".");
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    ASSERT_OK(etcd_open(&shared->config, &etcd, &err), &err);
    while (fgets(line, sizeof line, file))
        put_line(etcd, strrchr(t->uri, '/'), line);
    /* Format 2 has put this where format 1 was: "c/p/!format-2-...". */
    (void) snprintf(line, sizeof line, "%s", FENCE_2);
    put_line(etcd, strrchr(t->uri, '/'), line);
    (void) fclose(file);
    etcd_close(etcd);
}

struct counted {
    size_t n, n_damaged, n_of_two;
};

static bool count_claim(void *ctx, const dibs_claim *claim)
{
    struct counted *c = ctx;

    c->n++;
    c->n_damaged += claim->is_damaged;
    c->n_of_two += strcmp(claim->principal, "uid:0@two") == 0;
    return true;
}

static void assert_all_there(struct t_ledger *t, struct ledger *ledger, size_t n_more)
{
    static const struct {
        const char *name;
        uint16_t port;
    } known[] = { { "shop/web/0", 29572 },    { "shop/web/7", 26654 },    { "shop/gossip/0", 21155 },
                  { "shop/gossip/2", 21111 }, { "shop/gossip/5", 21144 }, { "shop/lease", 21125 } };
    struct counted c = { 0 };
    struct call root = t_call(t, ledger);
    dibs_claim found = { 0 };
    dibs_pool pool = { 0 };

    ASSERT_OK(ledger_list(ledger, T_CALL(t, ledger), &(struct ledger_filter){ 0 }, count_claim, &c, &t->err),
              &t->err);
    assert_int_equal(c.n, 20 + n_more); /* 15 of this host, and 5 of the other in the cluster's pool */
    assert_int_equal(c.n_of_two, 5);
    assert_int_equal(c.n_damaged, 0);
    root.principal = "uid:0";
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        ASSERT_OK(ledger_find_name(ledger, &root, known[i].name, &found, NULL, &t->err), &t->err);
        assert_int_equal(found.port, known[i].port);
    }
    assert_int_equal(found.holder, DIBS_HELD_BY_LEASE);
    assert_int_equal(found.lease_ttl_ms, 3600000);
    ASSERT_OK(ledger_pool_get(ledger, T_CALL(t, ledger), "everywhere", &pool, &t->err), &t->err);
    assert_int_equal(pool.scope, DIBS_SCOPE_CLUSTER);
    assert_int_equal(pool.ranges.item[0].last, 21199);
}

static void records_of_an_older_version_are_read_whole(void **state)
{
    struct t_ledger *t = *state;

    NEED_ETCD();
    put_old_records(t);
    struct ledger *a = host(t, "one");
    assert_all_there(t, a, 0);
    ledger_close(a);
}

static int64_t count_keys(const char *key)
{
    const struct etcd_op look = { .kind = ETCD_RANGE, .key = ETCD_BYTES(key), .is_count_only = true };
    struct etcd_call call = { .deadline_ms = in_ms(10000) };
    struct etcd_answer answer = { 0 };
    struct etcd *etcd = NULL;
    dibs_err err = { 0 };

    ASSERT_OK(etcd_open(&shared->config, &etcd, &err), &err);
    ASSERT_OK(etcd_do(etcd, &call, &look, &answer, &err), &err);
    int64_t n = answer.result.count;
    etcd_answer_done(&answer);
    etcd_close(etcd);
    return n;
}

/* An older dibs that is at work would write blocks without the fields that it does not know: it stops at a
 * record among the pools that it cannot read, and one that starts refuses the format. */
static void processes_of_an_older_version_are_kept_from_writing(void **state)
{
    struct t_ledger *t = *state;
    char fence[256] = "";

    NEED_ETCD();
    (void) snprintf(fence, sizeof fence, "%s/c/p/~format-3-needs-a-newer-dibs-on-this-host",
                    strrchr(t->uri, '/'));
    struct ledger *fresh = host(t, "one");
    assert_int_equal(count_keys(fence), 0); /* not where no older one was */
    ledger_close(fresh);
    put_old_records(t);
    struct ledger *a = host(t, "one");
    assert_int_equal(count_keys(fence), 1);
    struct ledger *b = host(t, "two");
    assert_all_there(t, a, 0);
    ledger_close(a);
    ledger_close(b);
}

static void a_block_with_a_template_keeps_its_claims_when_one_is_added(void **state)
{
    struct t_ledger *t = *state;
    const uint16_t port = 21150; /* in the block of 21155 */
    struct ledger_want want = t_want("new", "*");

    NEED_ETCD();
    put_old_records(t);
    struct ledger *a = host(t, "one");
    want.candidates = &port;
    want.n_candidates = 1;
    assert_int_equal(must_claim(t, a, &want).port, port);
    ledger_close(a);
    a = host(t, "one");
    assert_all_there(t, a, 1);
    ledger_close(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(records_of_an_older_version_are_read_whole),
        CASE(processes_of_an_older_version_are_kept_from_writing),
        CASE(a_block_with_a_template_keeps_its_claims_when_one_is_added),
    };
    return cmocka_run_group_tests(tests, shared_open_one, shared_close);
}
