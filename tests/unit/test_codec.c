/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "store/store.h"
#include "support/t.h"

static struct claim_record sample(uint64_t id, uint64_t generation)
{
    struct claim_record row = { .claim = { .id = id, .generation = generation } };

    for (size_t i = 0; i < STORE_SECRET_BYTES; i++)
        row.secret[i] = (uint8_t) (i * 17);
    return row;
}

static void a_token_reads_back(void **state)
{
    static const uint64_t ids[] = { 1, 42, 922337203685477579u };

    (void) state;
    for (size_t i = 0; i < 3; i++) {
        struct claim_record row = sample(ids[i], ids[2 - i]);
        struct record_token token = { 0 };
        char text[DIBS_TOKEN_MAX + 1];

        record_token_format(&row, text);
        assert_true(record_token_parse(text, &token));
        assert_int_equal(token.id, ids[i]);
        assert_int_equal(token.generation, ids[2 - i]);
        assert_true(record_secret_equal(token.secret, row.secret));
    }
}

static void the_longest_token_fits(void **state)
{
    struct claim_record row = sample(UINT64_MAX, UINT64_MAX);
    char text[DIBS_TOKEN_MAX + 1];

    (void) state;
    record_token_format(&row, text);
    assert_true(strlen(text) <= DIBS_TOKEN_MAX);
    assert_int_equal(strlen(strrchr(text, '.') + 1), 2 * STORE_SECRET_BYTES);
}

static void a_malformed_token_is_refused(void **state)
{
#define SECRET "00112233445566778899aabbccddeeff"
    static const char *const bad[] = {
        "",
        ".",
        "1.1",
        "1.1.",
        "0.1." SECRET,
        "1.0." SECRET,
        "-1.1." SECRET,
        "+1.1." SECRET,
        " 1.1." SECRET,
        "1..1." SECRET,
        "1.1." SECRET "0",
        "1.1." SECRET " ",
        "1.1.00112233445566778899AABBCCDDEEFF", /* one spelling each */
        "1.1.0011223344556677889gaabbccddeeff",
        "99999999999999999999.1." SECRET,
        "1.99999999999999999999." SECRET,
        "1.1.00112233445566778899aabbccddeef",
    };
    struct record_token token = { .id = 7 };

    (void) state;
    assert_true(record_token_parse("1.1." SECRET, &token));
    token.id = 7;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (record_token_parse(bad[i], &token))
            fail_msg("'%s' was taken for a token", bad[i]);
    assert_int_equal(token.id, 7);
}

static void secrets_differ_and_compare_by_every_byte(void **state)
{
    uint8_t a[STORE_SECRET_BYTES];
    uint8_t b[STORE_SECRET_BYTES];
    dibs_err err = { 0 };

    (void) state;
    ASSERT_OK(record_secret(a, &err), &err);
    ASSERT_OK(record_secret(b, &err), &err);
    assert_false(record_secret_equal(a, b));
    for (size_t i = 0; i < STORE_SECRET_BYTES; i++) {
        memcpy(b, a, sizeof b);
        assert_true(record_secret_equal(a, b));
        b[i] ^= 1;
        assert_false(record_secret_equal(a, b));
    }
}

static void bindings_read_back(void **state)
{
    dibs_claim claim = { 0 };
    dibs_claim back = { 0 };
    uint8_t bytes[RECORD_BINDINGS_BYTES_MAX];

    (void) state;
    for (size_t i = 0; i < DIBS_BINDINGS_MAX; i++) {
        dibs_binding *b = &claim.bindings[claim.n_bindings++];

        b->proto = (dibs_proto) (1 + i % 3);
        b->address.len = i % 2 ? 16 : 4;
        b->address.bytes[0] = (uint8_t) (i + 1);
    }
    size_t n = record_bindings_pack(&claim, bytes);
    assert_int_equal(n, 4 * 6 + 4 * 18);
    assert_true(record_bindings_unpack(bytes, n, &back));
    assert_int_equal(back.n_bindings, DIBS_BINDINGS_MAX);
    assert_true(record_same_bindings(&claim, &back));
    for (size_t cut = 0; cut < n; cut++) { /* every cut is refused, or ends at a binding */
        dibs_claim part = { 0 };
        bool is_ok = record_bindings_unpack(bytes, cut, &part);
        size_t whole = 0;

        for (size_t i = 0, at = 0; i < DIBS_BINDINGS_MAX && at < cut; i++) {
            at += 2u + claim.bindings[i].address.len;
            whole += at == cut;
        }
        assert_int_equal(is_ok, whole == 1);
    }
}

static void bad_bindings_are_refused(void **state)
{
    static const uint8_t proto0[] = { 0, 4, 1, 2, 3, 4 };
    static const uint8_t proto4[] = { 4, 4, 1, 2, 3, 4 };
    static const uint8_t len5[] = { 1, 5, 1, 2, 3, 4, 5 };
    static const uint8_t nine[9 * 6] = { 1, 4, 0, 0, 0, 1, 1, 4, 0, 0, 0, 2, 1, 4, 0, 0, 0, 3,
                                         1, 4, 0, 0, 0, 4, 1, 4, 0, 0, 0, 5, 1, 4, 0, 0, 0, 6,
                                         1, 4, 0, 0, 0, 7, 1, 4, 0, 0, 0, 8, 1, 4, 0, 0, 0, 9 };
    dibs_claim claim = { 0 };

    (void) state;
    assert_false(record_bindings_unpack(proto0, sizeof proto0, &claim));
    assert_false(record_bindings_unpack(proto4, sizeof proto4, &claim));
    assert_false(record_bindings_unpack(len5, sizeof len5, &claim));
    assert_false(record_bindings_unpack(nine, sizeof nine, &claim));
    assert_true(record_bindings_unpack(nine, sizeof nine - 6, &claim));
    assert_false(record_bindings_unpack(NULL, 0, &claim));
}

static void the_order_of_bindings_does_not_matter(void **state)
{
    dibs_binding tcp = { .proto = DIBS_TCP, .address = { .len = 4, .bytes = { 127, 0, 0, 1 } } };
    dibs_binding udp = { .proto = DIBS_UDP, .address = { .len = 4, .bytes = { 127, 0, 0, 1 } } };
    dibs_claim a = { .n_bindings = 2, .bindings = { tcp, udp } };
    dibs_claim b = { .n_bindings = 2, .bindings = { udp, tcp } };
    dibs_claim c = { .n_bindings = 1, .bindings = { tcp } };

    (void) state;
    assert_true(record_same_bindings(&a, &b));
    assert_false(record_same_bindings(&a, &c));
    b.bindings[1].address.bytes[3] = 2;
    assert_false(record_same_bindings(&a, &b));
}

/* Breaks the i-th rule; false: there is no such rule. */
static bool spoil(dibs_claim *c, size_t i)
{
    switch (i) {
    case 0: c->id = 0; break;
    case 1: c->id = (uint64_t) INT64_MAX + 1; break;
    case 2: c->generation = 0; break;
    case 3: c->port = 0; break;
    case 4: c->n_bindings = 0; break;
    case 5: c->kind = (dibs_kind) 5; break;
    case 6: c->holder = (dibs_holder) 5; break;
    case 7: c->holder = DIBS_HELD_BY_PROCESS; break; /* without a process */
    case 8: c->holder = DIBS_HELD_BY_LEASE; break;   /* without a length */
    case 9: c->is_kept = false; break;
    case 10: c->principal[0] = '\0'; break;
    case 11: (void) snprintf(c->name, sizeof c->name, "a//b"); break;
    default: return false;
    }
    return true;
}

static void each_rule_of_a_valid_claim_has_its_reason(void **state)
{
    const dibs_claim good = {
        .id = 1,
        .generation = 1,
        .port = 80,
        .n_bindings = 1,
        .bindings = { { .proto = DIBS_TCP, .address.len = 4 } },
        .is_kept = true,
        .principal = "uid:1",
        .name = "a/b",
    };
    const char *why = "";
    dibs_claim bad = good;
    size_t n = 0;

    (void) state;
    assert_true(record_claim_valid(&good, &why));
    assert_null(why);
    for (; spoil(&bad, n); n++) {
        if (record_claim_valid(&bad, &why))
            fail_msg("case %zu is taken for valid", n);
        assert_non_null(why);
        bad = good;
    }
    assert_int_equal(n, 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_reads_back),
        cmocka_unit_test(the_longest_token_fits),
        cmocka_unit_test(a_malformed_token_is_refused),
        cmocka_unit_test(secrets_differ_and_compare_by_every_byte),
        cmocka_unit_test(bindings_read_back),
        cmocka_unit_test(bad_bindings_are_refused),
        cmocka_unit_test(the_order_of_bindings_does_not_matter),
        cmocka_unit_test(each_rule_of_a_valid_claim_has_its_reason),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
