/* SPDX-License-Identifier: MIT */
/* A daemon reads from an address what a client has written into it. */
#include "support/wire.h"

/* An address, taken apart as a server does it. */
struct address {
    char text[8192];
    const char *path;
    char *keys[32], *values[32];
    size_t n;
};

static int hex(char c)
{
    return c >= 'A' ? c - 'A' + 10 : c - '0';
}

static void decode(char *text)
{
    char *to = text;

    for (const char *c = text; *c; c++) {
        if (*c == '%') {
            *to++ = (char) (hex(c[1]) << 4 | hex(c[2]));
            c += 2;
        } else {
            *to++ = *c;
        }
    }
    *to = '\0';
}

static void take_apart(struct address *a, struct bytes *bytes)
{
    char *save = NULL;

    assert_false(bytes->is_lost);
    assert_true(bytes->n < sizeof a->text);
    memcpy(a->text, bytes->at, bytes->n);
    a->text[bytes->n] = '\0';
    bytes_done(bytes);
    for (const char *c = a->text; *c; c++) /* nothing that would end a request line */
        assert_true(*c > ' ' && *c < 0x7f);
    a->path = a->text;
    a->n = 0;
    char *query = strchr(a->text, '?');

    if (!query)
        return;
    *query++ = '\0';
    for (char *pair = strtok_r(query, "&", &save); pair; pair = strtok_r(NULL, "&", &save)) {
        char *equals = strchr(pair, '=');

        assert_non_null(equals);
        *equals = '\0';
        a->keys[a->n] = pair;
        a->values[a->n] = equals + 1;
        decode(a->values[a->n++]);
    }
}

static const char *get(void *ctx, const char *key, size_t i)
{
    const struct address *a = ctx;

    for (size_t j = 0; j < a->n; j++)
        if (strcmp(a->keys[j], key) == 0 && i-- == 0)
            return a->values[j];
    return NULL;
}

static void same_maybe(const char *a, const char *b)
{
    assert_int_equal(a != NULL, b != NULL);
    if (a && b)
        assert_string_equal(a, b);
}

static const char odd[] = "/home/a b&c=d%e\xff\n\x01?#+";

static void the_selection_of_a_claim_arrives(void **state)
{
    static const dibs_which rows[] = {
        { .token = "7.3.0123456789abcdef" },
        { .name = "shop@main/web", .project = odd },
        { .name = "x" },
        { .port = 65535, .proto = DIBS_SCTP },
        { .port = 1 },
        { .all_mine = true },
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bytes bytes = { 0 };
        struct address a = { 0 };
        struct wire_params params = { get, &a };
        dibs_which got = { 0 };
        dibs_err err = { 0 };
        unsigned flags = 0;

        wire_release_path(&bytes, &rows[i], DIBS_RELEASE_FORCE | DIBS_RELEASE_UNKEEP);
        take_apart(&a, &bytes);
        char *segment = strrchr(a.text, '/') + 1;

        decode(segment);
        ASSERT_OK(wire_which_read(segment, &params, &got, &err), &err);
        ASSERT_OK(wire_release_read(&params, &flags, &err), &err);
        assert_int_equal(flags, DIBS_RELEASE_FORCE | DIBS_RELEASE_UNKEEP);
        same_maybe(rows[i].token, got.token);
        same_maybe(rows[i].name, got.name);
        same_maybe(rows[i].project, got.project);
        assert_int_equal(rows[i].port, got.port);
        assert_int_equal(rows[i].proto, got.proto);
        assert_int_equal(rows[i].all_mine, got.all_mine);
    }
}

/* Else a part of the path would be taken for another. */
static void a_malformed_token_counts_as_an_unknown_one(void **state)
{
    static const char *const rows[] = { "", "-", "../../x", "a/b", "1.2.3?force=true", odd };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bytes bytes = { 0 };
        struct address a = { 0 };

        wire_which_path(&bytes, &(dibs_which){ .token = rows[i] }, "/renew");
        take_apart(&a, &bytes);
        assert_string_equal(a.path, "/v1/claims/./renew");
    }
}

static void filters_and_event_queries_arrive(void **state)
{
    static const dibs_filter rows[] = {
        { 0 },
        { .name_prefix = "shop@main",
          .pool = odd,
          .principal = "uid:1000@4026531836",
          .port = 65535,
          .proto = DIBS_UDP,
          .after_id = INT64_MAX,
          .limit = 1000,
          .judge = true,
          .project = odd },
    };
    static const dibs_event_query queries[] = { { 0 }, { .since = INT64_MAX, .limit = 5, .newest = true } };
    dibs_err err = { 0 };

    (void) state;
    for (size_t i = 0; i < 2; i++) {
        struct bytes bytes = { 0 };
        struct address at = { 0 };
        struct wire_params params = { get, &at };
        dibs_filter got = { 0 };
        dibs_event_query query = { 0 };
        const dibs_filter *a = &rows[i];
        const dibs_filter *b = &got;

        wire_filter_path(&bytes, &rows[i]);
        take_apart(&at, &bytes);
        ASSERT_OK(wire_filter_read(&params, &got, &err), &err);
        assert_string_equal(at.path, "/v1/claims");
        same_maybe(a->name_prefix, b->name_prefix);
        same_maybe(a->pool, b->pool);
        same_maybe(a->principal, b->principal);
        same_maybe(a->project, b->project);
        SAME(port), SAME(proto), SAME(after_id), SAME(limit), SAME(judge);
        wire_event_path(&bytes, &queries[i]);
        take_apart(&at, &bytes);
        ASSERT_OK(wire_event_query_read(&params, &query, &err), &err);
        assert_memory_equal(&query, &queries[i], sizeof query);
    }
}

static void a_question_arrives_with_exactly_its_bindings(void **state)
{
    dibs_binding asked[] = { { DIBS_TCP, { .len = 16 } },
                             { DIBS_UDP, { .len = 4, .bytes = { 127, 0, 0, 1 } } },
                             { DIBS_UDP, { .len = 16, .bytes = { [15] = 1 } } } };
    dibs_port_question question = { .port = 65535, .pool = "p", .bindings = asked, .n = 3 };
    dibs_binding bindings[DIBS_BINDINGS_MAX] = { 0 };
    dibs_port_question got = { 0 };
    struct bytes bytes = { 0 };
    struct address a = { 0 };
    struct wire_params params = { get, &a };
    dibs_err err = { 0 };

    (void) state;
    wire_question_path(&bytes, &question);
    take_apart(&a, &bytes);
    assert_string_equal(a.path, "/v1/ports/tcp/65535");
    ASSERT_OK(wire_question_read("tcp", "65535", &params, bindings, &got, &err), &err);
    assert_int_equal(got.port, 65535);
    assert_string_equal(got.pool, "p");
    same_bindings(asked, 3, got.bindings, got.n);
}

static void people_ask_by_protocol_and_address(void **state)
{
    struct bytes bytes = { 0 };
    struct address a = { 0 };
    struct wire_params params = { get, &a };
    dibs_binding bindings[DIBS_BINDINGS_MAX] = { 0 };
    dibs_port_question got = { 0 };
    dibs_err err = { 0 };

    (void) state;
    ASSERT_OK(wire_question_read("udp", "1", &params, bindings, &got, &err), &err);
    assert_int_equal(got.n, 1);
    assert_int_equal(got.bindings[0].proto, DIBS_UDP);
    assert_int_equal(got.bindings[0].address.len, 16);
    bytes_add_text(&bytes, "x?address=localhost&address=10.0.0.1&with=udp");
    take_apart(&a, &bytes);
    ASSERT_OK(wire_question_read("tcp", "1", &params, bindings, &got, &err), &err);
    assert_int_equal(got.n, 6);
}

static void impossible_values_are_refused(void **state)
{
    static const char *const rows[] = {
        "x?",         "x?port=0",        "x?port=1&proto=icmp", "x?all=yes",
        "x?port=80x", "x?name=a&port=1", "x?name=a&all=true",
    };
    static const char *const filters[] = {
        "x?limit=-1", "x?limit=",    "x?after=9223372036854775808", "x?after=99999999999999999999999",
        "x?judge=1",  "x?port=65536"
    };
    dibs_err err = { 0 };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bytes bytes = { 0 };
        struct address a = { 0 };
        dibs_which got = { 0 };

        bytes_add_text(&bytes, rows[i]);
        take_apart(&a, &bytes);
        assert_int_equal(wire_which_read("-", &(struct wire_params){ get, &a }, &got, &err), DIBS_INVALID);
        assert_null(got.name);
    }
    for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++) {
        struct bytes bytes = { 0 };
        struct address a = { 0 };
        dibs_filter got = { 0 };

        bytes_add_text(&bytes, filters[i]);
        take_apart(&a, &bytes);
        assert_int_equal(wire_filter_read(&(struct wire_params){ get, &a }, &got, &err), DIBS_INVALID);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_selection_of_a_claim_arrives),
        cmocka_unit_test(a_malformed_token_counts_as_an_unknown_one),
        cmocka_unit_test(filters_and_event_queries_arrive),
        cmocka_unit_test(a_question_arrives_with_exactly_its_bindings),
        cmocka_unit_test(people_ask_by_protocol_and_address),
        cmocka_unit_test(impossible_values_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
