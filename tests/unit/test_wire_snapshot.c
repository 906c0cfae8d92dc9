/* SPDX-License-Identifier: MIT */
/* A full snapshot, written as `dibs snapshot export` writes it and read back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "codec/wire.h"
#include "support/t.h"

static dibs_claim held_claim(void)
{
    dibs_claim claim = { .id = 7,
                         .generation = 3,
                         .port = 20007,
                         .kind = DIBS_STATIC,
                         .is_exclusive = true,
                         .is_kept = true,
                         .holder = DIBS_HELD_BY_PROCESS,
                         .process = { .boot_id = "0b6b1a42-7f0e-4a4e-9d5b-2f6f1f0c9a11",
                                      .pidns = 4026531836,
                                      .start_ticks = 123456789,
                                      .pid = 4711 },
                         .uid = 1000,
                         .netns = 4026531840,
                         .created_ms = 1767225600000,
                         .changed_ms = 1767225601000,
                         .n_bindings = 2,
                         .bindings = { { DIBS_TCP, { .len = 16 } },
                                       { DIBS_UDP, { .len = 4, .bytes = { 127, 0, 0, 1 } } } },
                         .principal = "uid:1000",
                         .name = "shop@main/web",
                         .pool = "default",
                         .command = "node",
                         .project = "/home/me/shop" };

    return claim;
}

/* The document, with `find` replaced by `put` when given. The caller frees it. */
static char *document(const dibs_claim *claim, const char *find, const char *put)
{
    dibs_pool pool = { .name = "default",
                       .ranges = { .item = { { 20000, 32767 } }, .n = 1 },
                       .band = 100,
                       .cooldown_ms = 5000 };
    struct jsonw w;
    char *text = NULL;
    char *changed = NULL;
    size_t len = 0;
    FILE *to = open_memstream(&text, &len);

    assert_non_null(to);
    (void) snprintf(pool.order, sizeof pool.order, "%s", dibs_order_name(0));
    jsonw_begin(&w, to);
    jsonw_object(&w);
    jsonw_key_int(&w, "dibs", WIRE_SNAPSHOT_VERSION);
    jsonw_key(&w, "pools");
    jsonw_array(&w);
    wire_pool(&w, &pool, NULL);
    jsonw_end_array(&w);
    jsonw_key(&w, "claims");
    jsonw_array(&w);
    wire_claim(&w, claim, false);
    jsonw_end_array(&w);
    jsonw_end_object(&w);
    jsonw_finish(&w);
    assert_int_equal(fclose(to), 0);
    if (!find)
        return text;
    char *at = strstr(text, find);

    if (!at)
        fail_msg("no '%s' in %s", find, text);
    to = open_memstream(&changed, &len);
    assert_non_null(to);
    (void) fprintf(to, "%.*s%s%s", (int) (at - text), text, put, at + strlen(find));
    assert_int_equal(fclose(to), 0);
    free(text);
    return changed;
}

static dibs_status read_text(const char *text, struct wire_snapshot *out, dibs_err *err)
{
    AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;

    ASSERT_OK(jsonr_parse(text, strlen(text), &doc, err), err);
    return wire_snapshot_read(jsonr_root(doc), out, err);
}

/* As text, which has every member; padding between them is anybody's. */
static void same_claim(const dibs_claim *got, const dibs_claim *wanted)
{
    char *got_text = document(got, NULL, NULL);
    char *wanted_text = document(wanted, NULL, NULL);

    assert_string_equal(got_text, wanted_text);
    free(got_text);
    free(wanted_text);
}

static void written_values_are_read_back(void **state)
{
    dibs_claim claim = held_claim();
    char *text = document(&claim, NULL, NULL);
    struct wire_snapshot got = { 0 };
    dibs_err err = { 0 };
    dibs_status status = read_text(text, &got, &err);

    (void) state;
    free(text);
    ASSERT_OK(status, &err);
    assert_int_equal(got.n_pools, 1);
    assert_int_equal(got.pools[0].band, 100);
    assert_int_equal(got.pools[0].ranges.item[0].last, 32767);
    assert_int_equal(got.n_claims, 1);
    same_claim(&got.claims[0], &claim);
    assert_int_equal(got.claims[0].process.pid, 4711); /* and the text is not blind */
    assert_string_equal(got.claims[0].name, "shop@main/web");
    wire_snapshot_done(&got);
}

static void leases_and_unheld_claims_come_back_too(void **state)
{
    dibs_claim claim = held_claim();
    struct wire_snapshot got = { 0 };
    dibs_err err = { 0 };

    (void) state;
    claim.holder = DIBS_HELD_BY_LEASE;
    claim.lease_ttl_ms = 600000;
    claim.lease_until_ms = 700000;
    claim.process = (dibs_process){ .boot_id = "0b6b1a42-7f0e-4a4e-9d5b-2f6f1f0c9a11" };
    char *text = document(&claim, NULL, NULL);

    ASSERT_OK(read_text(text, &got, &err), &err);
    free(text);
    same_claim(&got.claims[0], &claim);
    wire_snapshot_done(&got);

    claim = (dibs_claim){ .port = 1,
                          .n_bindings = 1,
                          .bindings = { { DIBS_TCP, { .len = 4 } } },
                          .principal = "ns:prod",
                          .pool = "p" };
    text = document(&claim, NULL, NULL);
    ASSERT_OK(read_text(text, &got, &err), &err);
    free(text);
    same_claim(&got.claims[0], &claim);
    wire_snapshot_done(&got);
}

static void foreign_bytes_in_a_command_do_not_make_a_snapshot_useless(void **state)
{
    dibs_claim claim = held_claim();
    struct wire_snapshot got = { 0 };
    dibs_err err = { 0 };

    (void) state;
    (void) snprintf(claim.command, sizeof claim.command,
                    "no\x1b\xff"
                    "de");
    (void) snprintf(claim.project, sizeof claim.project, "/home/\xff");
    char *text = document(&claim, NULL, NULL);

    ASSERT_OK(read_text(text, &got, &err), &err);
    free(text);
    assert_string_equal(got.claims[0].command, "no\x1b\xff"
                                               "de");
    assert_string_equal(got.claims[0].project, "/home/\xff");
    wire_snapshot_done(&got);
}

static void whatever_is_wrong_is_refused_by_name(void **state)
{
    static const struct {
        const char *find, *put, *says;
    } rows[] = {
        { "\"dibs\":1", "\"dibs\":2", "version 2" },
        { "\"dibs\":1", "\"dibz\":1", "neither" },
        { "\"dibs\":1", "\"dibs\":1,\"more\":1", "more" },
        { "\"claims\":[", "\"claims\":[1,", "claims[0]" },
        { "\"name\":\"default\"", "\"name\":\"\"", "pools[0]: \"name\"" },
        { "20000-32767", "0-32767", "pools[0]" },
        { "\"band\":\"100\"", "\"band\":\"99999\"", "\"band\"" },
        { "\"band\":\"100\"", "\"band\":\"12768\"", "\"band\"" }, /* the whole pool */
        { "\"scope\":\"host\"", "\"scope\":\"moon\"", "\"scope\"" },
        { "\"order\":\"", "\"order\":\"un", "\"order\"" },
        { "\"cooldown_ms\":5000", "\"cooldown_ms\":-1", "\"cooldown_ms\"" },
        { "\"port\":20007", "\"port\":0", "\"port\"" },
        { "\"port\":20007", "\"port\":65536", "\"port\"" },
        { "\"port\":20007", "\"port\":20008", "bindings[0]" }, /* differs from its bindings */
        { "\"kind\":\"static\"", "\"kind\":\"other\"", "\"kind\"" },
        { "\"kept\":true", "\"kept\":1", "\"kept\"" },
        { "\"kind\":\"process\"", "\"kind\":\"ghost\"", "\"kind\"" },
        { "\"pid\":4711", "\"pid\":0", "\"pid\"" },
        { "\"pid\":4711", "\"pid\":2147483648", "\"pid\"" },
        { "\"uid\":1000", "\"uid\":4294967296", "\"uid\"" },
        { "shop@main/web", "shop//web", "claims[0]" },
        { "\"proto\":\"tcp\"", "\"proto\":\"icmp\"", "bindings[0]" },
        { "\"address\":\"*\"", "\"address\":\"localhost\"", "one address" },
        { "\"created_ms\":", "\"created_ms\":-", "\"created_ms\"" },
        { "\"life\":", "\"token\":\"7.3.00\",\"life\":", "token" }, /* a snapshot carries none */
    };
    dibs_claim claim = held_claim();

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *text = document(&claim, rows[i].find, rows[i].put);
        struct wire_snapshot got = { 0 };
        dibs_err err = { 0 };
        dibs_status status = read_text(text, &got, &err);

        free(text);
        wire_snapshot_done(&got);
        if (status != DIBS_INVALID || !strstr(err.msg, rows[i].says))
            fail_msg("'%s' -> %d '%s', without '%s'", rows[i].put, (int) status, err.msg, rows[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_values_are_read_back),
        cmocka_unit_test(leases_and_unheld_claims_come_back_too),
        cmocka_unit_test(foreign_bytes_in_a_command_do_not_make_a_snapshot_useless),
        cmocka_unit_test(whatever_is_wrong_is_refused_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
