/* SPDX-License-Identifier: MIT */
/* A request arrives as the client made it, and an impossible one is refused by name. */
#include "support/wire.h"

static const dibs_ranges ranges = { .item = { { 20000, 20010 }, { 30000, 30000 } }, .n = 2 };

static dibs_request full_request(void)
{
    dibs_request r = { .name = "shop@main/web",
                       .project = "/home/\xff\"\n",
                       .pool = "p",
                       .ranges = &ranges,
                       .mode = DIBS_PREFERRED,
                       .port = 65535,
                       .holder = DIBS_HELD_BY_PROCESS,
                       .pid = INT32_MAX,
                       .keep = true,
                       .is_lookup = true,
                       .is_adopted = true,
                       .run = UINT32_MAX,
                       .n_bindings = DIBS_BINDINGS_MAX };

    for (size_t i = 0; i < DIBS_BINDINGS_MAX; i++)
        r.bindings[i] = (dibs_binding){ (dibs_proto) (DIBS_TCP + i % 3),
                                        { .len = 4, .bytes = { 127, 0, 0, (uint8_t) i } } };
    return r;
}

static void same_maybe(const char *a, const char *b)
{
    assert_int_equal(a != NULL, b != NULL);
    if (a && b)
        assert_string_equal(a, b);
}

static void same_request(const dibs_request *a, const dibs_request *b)
{
    same_maybe(a->name, b->name);
    same_maybe(a->project, b->project);
    same_maybe(a->pool, b->pool);
    assert_int_equal(a->ranges != NULL, b->ranges != NULL);
    if (a->ranges && b->ranges) {
        SAME(ranges->n);
        assert_memory_equal(a->ranges->item, b->ranges->item, a->ranges->n * sizeof a->ranges->item[0]);
    }
    SAME(mode), SAME(port), SAME(holder), SAME(pid), SAME(ttl_ms), SAME(keep), SAME(is_lookup);
    SAME(is_adopted), SAME(run);
    same_bindings(a->bindings, a->n_bindings, b->bindings, b->n_bindings);
}

static void a_request_arrives_as_it_was_asked(void **state)
{
    dibs_request rows[] = {
        full_request(),
        { .keep = true },
        { .holder = DIBS_HELD_BY_LEASE, .ttl_ms = 1 },
        { .holder = DIBS_HELD_BY_LEASE, .ttl_ms = DIBS_TTL_MAX_MS, .mode = DIBS_DECLARED, .port = 1 },
        { .holder = DIBS_HELD_BY_PROCESS, .mode = DIBS_REQUIRED, .port = 1 }, /* pid 0 */
        { .holder = DIBS_HELD_BY_PROCESS, .pid = -1, .name = "", .pool = "" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct wire_asked asked = { 0 };
        struct written t;
        dibs_err err = { 0 };

        wire_request(written_begin(&t), &rows[i], NULL);
        ASSERT_OK(wire_request_read(t.bytes.at, t.bytes.n, 7, &asked, &err), &err);
        assert_int_equal(asked.batch.n, 1);
        assert_false(asked.has_settings);
        same_request(&rows[i], &asked.batch.requests[0]);
        wire_asked_done(&asked);
        written_done(&t);
    }
}

static void a_batch_arrives_with_its_drops(void **state)
{
    dibs_request requests[3] = { full_request(), { .keep = true }, full_request() };
    dibs_claim dropped = full_claim();
    dibs_drop drops[] = { { &dropped, true, false, 0 }, { &dropped, false, true, 9 } };
    dibs_batch batch = { .requests = requests,
                         .n = 3,
                         .drops = drops,
                         .n_drops = 2,
                         .is_contiguous = true,
                         .align = UINT32_MAX,
                         .is_dry_run = true };
    struct wire_asked asked = { 0 };
    struct written t;
    dibs_err err = { 0 };

    (void) state;
    wire_batch(written_begin(&t), &batch, NULL);
    ASSERT_OK(wire_batch_read(t.bytes.at, t.bytes.n, 7, &asked, &err), &err);
    written_done(&t); /* what was read does not borrow from the text */
    const dibs_batch *a = &batch;
    const dibs_batch *b = &asked.batch;

    SAME(n), SAME(n_drops), SAME(is_contiguous), SAME(align), SAME(is_dry_run);
    for (size_t i = 0; i < 3; i++)
        same_request(&requests[i], &b->requests[i]);
    for (size_t i = 0; i < 2; i++) {
        same_claim(&dropped, b->drops[i].claim, false);
        assert_int_equal(b->drops[i].frees_name, drops[i].frees_name);
        assert_int_equal(b->drops[i].stays, drops[i].stays);
        assert_int_equal(b->drops[i].shared_bytes, drops[i].shared_bytes);
    }
    wire_asked_done(&asked);
}

static void the_settings_that_somebody_gave_go_with_a_claim(void **state)
{
    dibs_settings settings = { .range = ranges, .band = 12, .cooldown_ms = 1500, .ttl_ms = 3600000 };
    dibs_request request = { .keep = true };
    struct wire_asked asked = { 0 };
    struct written t;
    dibs_err err = { 0 };

    (void) state;
    settings.allow_ephemeral = true;
    settings.source[DIBS_SET_RANGE] = DIBS_FROM_PROJECT;
    settings.source[DIBS_SET_BAND] = DIBS_FROM_FLAG;
    settings.source[DIBS_SET_COOLDOWN] = DIBS_FROM_USER;
    settings.source[DIBS_SET_ALLOW_EPHEMERAL] = DIBS_FROM_ENVIRONMENT;
    settings.source[DIBS_SET_ALLOW_BLOCKED] = DIBS_FROM_FLAG;
    settings.source[DIBS_SET_LEDGER] = DIBS_FROM_ENVIRONMENT; /* the daemon has its own */
    wire_request(written_begin(&t), &request, &settings);
    ASSERT_OK(wire_request_read(t.bytes.at, t.bytes.n, 7, &asked, &err), &err);
    written_done(&t);
    assert_true(asked.has_settings);
    assert_string_equal(asked.settings[DIBS_SET_RANGE], "20000-20010,30000-30000");
    assert_string_equal(asked.settings[DIBS_SET_BAND], "12");
    assert_string_equal(asked.settings[DIBS_SET_COOLDOWN], "1500ms");
    assert_string_equal(asked.settings[DIBS_SET_ALLOW_EPHEMERAL], "true");
    assert_string_equal(asked.settings[DIBS_SET_ALLOW_BLOCKED], "false");
    assert_null(asked.settings[DIBS_SET_TTL]);
    assert_null(asked.settings[DIBS_SET_ORDER]);
    assert_null(asked.settings[DIBS_SET_LEDGER]);
    wire_asked_done(&asked);
}

static dibs_status ask(const char *text, struct wire_asked *out, dibs_err *err)
{
    return wire_request_read(text, strlen(text), 600000, out, err);
}

static void a_request_without_holder_gets_the_lease_of_the_settings(void **state)
{
    static const struct {
        const char *text;
        int64_t ttl_ms;
    } rows[] = {
        { "{}", 600000 },
        { "{\"holder\":{\"kind\":\"lease\"}}", 600000 },
        { "{\"holder\":{\"kind\":\"lease\",\"ttl\":\"2s\"}}", 2000 },
        { "{\"settings\":{\"ttl\":\"1h\"}}", 3600000 },
        { "{\"settings\":{\"ttl\":\"1h\"},\"holder\":{\"kind\":\"lease\",\"ttl\":\"2s\"}}", 2000 },
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct wire_asked asked = { 0 };
        dibs_err err = { 0 };

        ASSERT_OK(ask(rows[i].text, &asked, &err), &err);
        assert_int_equal(asked.batch.requests[0].holder, DIBS_HELD_BY_LEASE);
        assert_int_equal(asked.batch.requests[0].ttl_ms, rows[i].ttl_ms);
        wire_asked_done(&asked);
    }
    struct wire_asked asked = { 0 };

    ASSERT_OK(ask("{\"holder\":null,\"keep\":true}", &asked, NULL), &(dibs_err){ 0 });
    assert_int_equal(asked.batch.requests[0].holder, DIBS_HELD_BY_NOBODY);
    wire_asked_done(&asked);
}

static void localhost_and_several_protocols_are_several_bindings(void **state)
{
    struct wire_asked asked = { 0 };
    dibs_err err = { 0 };

    (void) state;
    ASSERT_OK(ask("{\"bindings\":[{\"address\":\"localhost\"},{\"proto\":\"tcp+udp\"}]}", &asked, &err),
              &err);
    assert_int_equal(asked.batch.requests[0].n_bindings, 4);
    wire_asked_done(&asked);
}

static void whatever_is_wrong_is_refused_by_name(void **state)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        { "[]", "not an object" },
        { "{", "bad JSON" },
        { "{\"nme\":\"web\"}", "\"name\"" }, /* the nearest */
        { "{\"name\":1}", "\"name\"" },
        { "{\"name\":\"a\\u0007\"}", "control" },
        { "{\"pool\":\"a\\u007f\"}", "control" },
        { "{\"mode\":\"never\"}", "random required preferred declared" },
        { "{\"mode\":\"required\"}", "\"port\" must be given" },
        { "{\"mode\":\"preferred\",\"port\":0}", "\"port\" must be given" },
        { "{\"mode\":\"declared\"}", "\"port\" must be given" },
        { "{\"port\":20777}", "\"mode\" must be required or preferred" },
        { "{\"mode\":\"random\",\"port\":20777}", "\"mode\" must be required or preferred" },
        { "{\"port\":65536}", "\"port\"" },
        { "{\"port\":-1}", "\"port\"" },
        { "{\"port\":\"80\"}", "\"port\"" },
        { "{\"port\":80.0}", "\"port\"" },
        { "{\"run\":4294967296}", "\"run\"" },
        { "{\"keep\":1}", "\"keep\"" },
        { "{\"ranges\":\"9-1\"}", "\"ranges\"" },
        { "{\"holder\":{}}", "\"holder\": \"kind\"" },
        { "{\"holder\":1}", "\"holder\"" },
        { "{\"holder\":{\"kind\":\"ghost\"}}", "process lease" },
        { "{\"holder\":{\"kind\":\"lease\",\"pid\":1}}", "\"holder\"" },
        { "{\"holder\":{\"kind\":\"process\",\"ttl\":\"1s\"}}", "\"holder\"" },
        { "{\"holder\":{\"kind\":\"lease\",\"ttl\":\"600\"}}", "600" },
        { "{\"holder\":{\"kind\":\"process\",\"pid\":2147483648}}", "\"pid\"" },
        { "{\"bindings\":{}}", "\"bindings\"" },
        { "{\"bindings\":[{\"proto\":\"icmp\"}]}", "bindings[0]" },
        { "{\"bindings\":[{\"address\":\"example.org\"}]}", "bindings[0]" },
        { "{\"bindings\":[{\"adress\":\"*\"}]}", "\"address\"" },
        { "{\"settings\":{\"ledger\":\"memory:\"}}", "ledger" },
        { "{\"settings\":{\"ttl\":\"5\"}}", "\"settings\": \"ttl\"" },
        { "{\"settings\":[]}", "\"settings\"" },
        { "{\"project_base64\":\"AA==\"}", "project_base64" }, /* a NUL */
        { "{\"requests\":[]}", "requests" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct wire_asked asked = { 0 };
        dibs_err err = { 0 };
        dibs_status status = ask(rows[i].text, &asked, &err);

        wire_asked_done(&asked);
        if (status != DIBS_INVALID || !strstr(err.msg, rows[i].says))
            fail_msg("%s -> %d '%s', without '%s'", rows[i].text, (int) status, err.msg, rows[i].says);
    }
}

static void a_batch_names_the_request_that_is_wrong(void **state)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        { "{\"requests\":[{},{\"port\":0.5}]}", "requests[1]: \"port\"" },
        { "{\"requests\":{}}", "\"requests\"" },
        { "{\"requests\":[{\"settings\":{}}]}", "requests[0]" }, /* a batch has one for all */
        { "{\"drops\":1}", "\"drops\"" },
        { "{\"drops\":[{}]}", "drops[0]" },
        { "{\"drops\":[{\"claim\":{\"id\":1}}]}", "drops[0]: \"generation\"" },
        { "{\"align\":-1}", "\"align\"" },
        { "{\"contigous\":true}", "contiguous" },
    };
    struct bytes many = { 0 };
    struct wire_asked asked = { 0 };
    dibs_err err = { 0 };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        dibs_status status = wire_batch_read(rows[i].text, strlen(rows[i].text), 1, &asked, &err);

        wire_asked_done(&asked);
        if (status != DIBS_INVALID || !strstr(err.msg, rows[i].says))
            fail_msg("%s -> %d '%s', without '%s'", rows[i].text, (int) status, err.msg, rows[i].says);
    }
    static const char object[] = "{\"requests\":{}}";
    assert_int_equal(wire_batch_read(object, strlen(object), 1, &asked, &err), DIBS_INVALID);
    wire_asked_done(&asked);
    assert_string_equal(err.msg, "\"requests\" must be a list"); /* without a limit that there is none of */
    bytes_add_text(&many, "{\"requests\":[{}");
    for (int i = 0; i < DIBS_BATCH_MAX; i++)
        bytes_add_text(&many, ",{}");
    bytes_add_text(&many, "]}");
    assert_int_equal(wire_batch_read(many.at, many.n, 1, &asked, &err), DIBS_INVALID);
    assert_non_null(strstr(err.msg, "4096"));
    wire_asked_done(&asked);
    bytes_done(&many);
}

static void heirs_and_plans_arrive(void **state)
{
    static const dibs_heir heirs[] = {
        { .holder = DIBS_HELD_BY_PROCESS, .pid = 0 },
        { .holder = DIBS_HELD_BY_LEASE, .ttl_ms = 1500, .keep = true },
        { .holder = DIBS_HELD_BY_NOBODY, .keep = true },
    };
    dibs_observed observed[] = { { .port = 1, .binding = { DIBS_UDP, { .len = 16 } } },
                                 { .port = 65535, .binding = { DIBS_TCP, { .len = 4, .bytes = { 10 } } } } };
    dibs_repair_plan plans[] = { { .pool = "p", .observed = observed, .n = 2, .grace_ms = 1500 },
                                 { .observed = observed, .is_dry_run = true }, /* nothing is in use */
                                 { 0 } };                                      /* look at the sockets */
    struct written t;
    dibs_err err = { 0 };

    (void) state;
    for (size_t i = 0; i < 3; i++) {
        dibs_heir got = { 0 };

        wire_heir(written_begin(&t), &heirs[i]);
        ASSERT_OK(wire_heir_read(written_root(&t), 7, &got, &err), &err);
        written_done(&t);
        assert_memory_equal(&got, &heirs[i], sizeof got);
    }
    fill_text(observed[1].name, DIBS_NAME_PART_MAX, 'n');
    for (size_t i = 0; i < 3; i++) {
        struct wire_plan got = { 0 };

        wire_repair_plan(written_begin(&t), &plans[i]);
        ASSERT_OK(wire_plan_read(t.bytes.at, t.bytes.n, &got, &err), &err);
        written_done(&t);
        same_maybe(plans[i].pool, got.plan.pool);
        assert_int_equal(plans[i].observed != NULL, got.plan.observed != NULL);
        assert_int_equal(plans[i].n, got.plan.n);
        assert_int_equal(plans[i].is_dry_run, got.plan.is_dry_run);
        assert_int_equal(plans[i].grace_ms, got.plan.grace_ms);
        for (size_t j = 0; j < plans[i].n; j++) {
            same_bindings(&plans[i].observed[j].binding, 1, &got.plan.observed[j].binding, 1);
            assert_string_equal(plans[i].observed[j].name, got.plan.observed[j].name);
        }
        wire_plan_done(&got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_arrives_as_it_was_asked),
        cmocka_unit_test(a_batch_arrives_with_its_drops),
        cmocka_unit_test(the_settings_that_somebody_gave_go_with_a_claim),
        cmocka_unit_test(a_request_without_holder_gets_the_lease_of_the_settings),
        cmocka_unit_test(localhost_and_several_protocols_are_several_bindings),
        cmocka_unit_test(whatever_is_wrong_is_refused_by_name),
        cmocka_unit_test(a_batch_names_the_request_that_is_wrong),
        cmocka_unit_test(heirs_and_plans_arrive),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
