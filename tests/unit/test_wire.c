/* SPDX-License-Identifier: MIT */
/* A written value reads back as that value. */
#include "support/wire.h"

static dibs_claim through_wire(const dibs_claim *claim, bool with_token)
{
    struct written t;
    dibs_claim got;
    dibs_err err = { 0 };

    wire_claim(written_begin(&t), claim, with_token);
    memset(&got, 0x5a, sizeof got);
    ASSERT_OK(wire_claim_read(written_root(&t), WIRE_ANSWERED, &got, &err), &err);
    written_done(&t);
    return got;
}

static void a_claim_comes_back_with_every_member_at_its_limit(void **state)
{
    dibs_claim claim = full_claim();
    dibs_claim got = through_wire(&claim, true);

    (void) state;
    same_claim(&claim, &got, true);
    got = through_wire(&claim, false);
    same_claim(&claim, &got, false); /* the token only where it is asked for */
}

static void an_empty_claim_and_a_lease_come_back(void **state)
{
    dibs_claim claim = { .port = 1, .life = DIBS_DEAD };
    dibs_claim got = through_wire(&claim, true);

    (void) state;
    same_claim(&claim, &got, true);
    claim = full_claim();
    claim.holder = DIBS_HELD_BY_LEASE;
    claim.process = (dibs_process){ .boot_id = "0b6b1a42-7f0e-4a4e-9d5b-2f6f1f0c9a11" };
    got = through_wire(&claim, true);
    same_claim(&claim, &got, true);
}

/* A damaged record may hold any numbers: it is reported, and its list can be read. */
static void numbers_that_no_reader_can_hold_are_cut(void **state)
{
    dibs_claim claim = full_claim();

    (void) state;
    claim.netns = UINT64_MAX;
    claim.created_ms = claim.changed_ms = INT64_MIN;
    dibs_claim got = through_wire(&claim, true);

    assert_true(got.netns == INT64_MAX);
    assert_true(got.created_ms == INT64_MIN);
}

static void a_newer_daemon_may_say_more(void **state)
{
    dibs_claim claim = full_claim();
    struct written t;
    dibs_claim got = { 0 };
    dibs_err err = { 0 };
    struct jsonw *w = written_begin(&t);

    (void) state;
    jsonw_object(w);
    wire_claim_members(w, &claim, false);
    jsonw_key_string(w, "mood", "fine");
    jsonw_end_object(w);
    ASSERT_OK(wire_claim_read(written_root(&t), WIRE_ANSWERED, &got, &err), &err);
    same_claim(&claim, &got, false);
    assert_int_equal(wire_claim_read(written_root(&t), WIRE_ASKED, &got, &err), DIBS_INVALID);
    assert_non_null(strstr(err.msg, "mood"));
    written_done(&t);
}

static void events_come_back(void **state)
{
    (void) state;
    for (int kind = DIBS_EV_CLAIMED; kind <= DIBS_EV_POOL; kind++) {
        dibs_event event = { .seq = INT64_MAX,
                             .time_ms = INT64_MAX - kind,
                             .kind = (dibs_event_kind) kind,
                             .claim_id = INT64_MAX,
                             .generation = INT64_MAX,
                             .port = 65535,
                             .protos = (uint8_t) (kind % 2 ? 0x0e : 1 << DIBS_SCTP),
                             .is_dynamic = kind % 2,
                             .actor_uid = UINT32_MAX,
                             .actor_pid = INT32_MIN };
        struct written t;
        dibs_event got;
        dibs_err err = { 0 };

        fill_text(event.principal, DIBS_PRINCIPAL_MAX, 'p');
        fill_text(event.name, kind % 3 ? DIBS_NAME_MAX : 0, 'n');
        wire_event(written_begin(&t), &event);
        ASSERT_OK(wire_event_read(written_root(&t), &got, &err), &err);
        written_done(&t);
        const dibs_event *a = &event;
        const dibs_event *b = &got;

        SAME(seq), SAME(time_ms), SAME(kind), SAME(claim_id), SAME(generation), SAME(port), SAME(protos);
        SAME(is_dynamic), SAME(actor_uid), SAME(actor_pid), SAME_TEXT(principal), SAME_TEXT(name);
    }
}

static void pools_and_their_usage_come_back(void **state)
{
    static const int32_t bands[] = { DIBS_BAND_AUTO, 0, 1, 65535 };
    dibs_pool_usage usage = { UINT32_MAX, 1, 2, 3, 4, UINT32_MAX };

    (void) state;
    for (size_t i = 0; i < sizeof bands / sizeof bands[0]; i++) {
        dibs_pool pool = { .scope = (dibs_scope) (i % 2), .band = bands[i], .cooldown_ms = INT64_MAX };
        dibs_pool got = { 0 };
        dibs_pool_usage got_usage = { 0 };
        struct written t;
        dibs_err err = { 0 };

        for (pool.ranges.n = 0; pool.ranges.n < DIBS_RANGES_MAX; pool.ranges.n++)
            pool.ranges.item[pool.ranges.n] =
                (dibs_range){ (uint16_t) (1 + 1000 * pool.ranges.n), (uint16_t) (5 + 1000 * pool.ranges.n) };
        fill_text(pool.name, DIBS_POOL_NAME_MAX, 'p');
        fill_text(pool.order, sizeof pool.order - 1, 'o');
        wire_pool(written_begin(&t), &pool, &usage);
        ASSERT_OK(wire_pool_read(written_root(&t), WIRE_ANSWERED, &got, &err), &err);
        ASSERT_OK(wire_usage_read(jsonr_get(jsonr_root(t.doc), "usage"), &got_usage, &err), &err);
        written_done(&t);
        const dibs_pool *a = &pool;
        const dibs_pool *b = &got;

        SAME_TEXT(name), SAME_TEXT(order), SAME(scope), SAME(band), SAME(cooldown_ms), SAME(ranges.n);
        assert_memory_equal(a->ranges.item, b->ranges.item, sizeof a->ranges.item);
        assert_memory_equal(&usage, &got_usage, sizeof usage);
    }
}

static dibs_socket odd_socket(unsigned i)
{
    static const dibs_address addresses[] = {
        { .len = 4, .bytes = { 224, 0, 0, 251 } }, /* multicast: nobody claims it, but sockets have it */
        { .len = 16, .v6only = true },             /* the IPv6-only wildcard */
        { .len = 16 },                             /* the dual-stack one */
        { .len = 16, .bytes = { 0xff, 0x02, [15] = 1 } },
        { .len = 16, .bytes = { 0xfe, 0x80, [15] = 1 }, .v6only = true },
        { .len = 16, .bytes = { [10] = 0xff, [11] = 0xff, [12] = 10 } }, /* mapped, as the kernel says it */
        { .len = 4 },
        { .len = 4, .bytes = { 255, 255, 255, 255 } },
    };
    dibs_socket s = { .proto = (dibs_proto) (DIBS_TCP + i % 3),
                      .address = addresses[i % 8],
                      .port = (uint16_t) (65535 - i),
                      .uid = UINT32_MAX - i,
                      .pid = (int32_t) (i % 2 ? 0 : INT32_MAX),
                      .inode = INT64_MAX,
                      .is_holders = i % 2 };

    (void) snprintf(s.command, sizeof s.command, i % 3 ? "node" : "a\x1b\xfe");
    return s;
}

static void same_socket(const dibs_socket *a, const dibs_socket *b)
{
    SAME(proto), SAME(port), SAME(uid), SAME(pid), SAME(inode), SAME(is_holders), SAME_TEXT(command);
    same_address(&a->address, &b->address);
}

static void the_report_of_a_port_comes_back_when_it_is_full(void **state)
{
    dibs_port_report *report = calloc(2, sizeof *report);
    struct written t;
    dibs_err err = { 0 };

    (void) state;
    assert_non_null(report);
    const dibs_port_report *a = &report[0];
    const dibs_port_report *b = &report[1];

    report->can_choose = report->is_cut = true;
    for (; report->n_claims < DIBS_REPORT_CLAIMS_MAX; report->n_claims++)
        report->claims[report->n_claims] = full_claim();
    for (; report->n_sockets < DIBS_REPORT_SOCKETS_MAX; report->n_sockets++)
        report->sockets[report->n_sockets] = odd_socket((unsigned) report->n_sockets);
    for (; report->n_reasons < DIBS_REPORT_REASONS_MAX; report->n_reasons++) {
        dibs_reason *reason = &report->reasons[report->n_reasons];

        reason->kind = (dibs_reason_kind) (DIBS_WHY_CLAIMED + report->n_reasons % DIBS_WHY_UNUSABLE);
        reason->blocks_static = report->n_reasons % 2;
        reason->blocks_dynamic = report->n_reasons % 3;
        fill_text(reason->text, sizeof reason->text - 1, '\n');
        fill_text(reason->advice, sizeof reason->advice - 1, '"');
    }
    wire_report(written_begin(&t), 65535, a);
    ASSERT_OK(wire_report_read(written_root(&t), &report[1], &err), &err);
    written_done(&t);
    SAME(can_claim), SAME(can_choose), SAME(is_cut), SAME(n_claims), SAME(n_sockets), SAME(n_reasons);
    for (size_t i = 0; i < a->n_claims; i++)
        same_claim(&a->claims[i], &b->claims[i], true);
    for (size_t i = 0; i < a->n_sockets; i++)
        same_socket(&a->sockets[i], &b->sockets[i]);
    for (size_t i = 0; i < a->n_reasons; i++) {
        SAME(reasons[i].kind), SAME(reasons[i].blocks_static), SAME(reasons[i].blocks_dynamic);
        SAME_TEXT(reasons[i].text), SAME_TEXT(reasons[i].advice);
    }
    free(report);
}

static void findings_of_repair_and_doctor_come_back(void **state)
{
    (void) state;
    for (unsigned kind = DIBS_REPAIR_RESTORED; kind <= DIBS_REPAIR_REAPED; kind++) {
        dibs_socket socket = odd_socket(kind);
        dibs_repair_item item = { .kind = (dibs_repair_kind) kind,
                                  .binding = { socket.proto, socket.address },
                                  .port = (uint16_t) kind,
                                  .sightings = UINT32_MAX };
        dibs_repair_item got_item = { 0 };
        dibs_finding finding = { .severity = (dibs_severity) (kind % 4), .text = "a", .topic = "t" };
        dibs_finding got = { 0 };
        struct written t;
        dibs_err err = { 0 };

        fill_text(item.name, DIBS_NAME_MAX, 'n');
        fill_text(item.text, sizeof item.text - 1, '\t');
        wire_repair_item(written_begin(&t), &item);
        ASSERT_OK(wire_repair_item_read(written_root(&t), &got_item, &err), &err);
        written_done(&t);
        same_bindings(&item.binding, 1, &got_item.binding, 1);
        assert_true(item.kind == got_item.kind && item.port == got_item.port);
        assert_int_equal(item.sightings, got_item.sightings);
        assert_string_equal(item.name, got_item.name);
        assert_string_equal(item.text, got_item.text);

        fill_text(finding.advice, sizeof finding.advice - 1, 'a');
        wire_finding(written_begin(&t), &finding);
        ASSERT_OK(wire_finding_read(written_root(&t), &got, &err), &err);
        written_done(&t);
        assert_int_equal(got.severity, finding.severity);
        assert_string_equal(got.text, "a");
        assert_string_equal(got.topic, "t");
        assert_string_equal(got.advice, finding.advice);
    }
}

static void a_problem_has_all_that_a_caller_of_the_library_gets(void **state)
{
    (void) state;
    for (unsigned i = 0; i <= DIBS_TROUBLE_REMOTE; i++) {
        dibs_socket socket = odd_socket(i);
        dibs_err err = { .code = (dibs_status) (DIBS_FAILURE + i % DIBS_DENIED),
                         .os_errno = (int) i,
                         .trouble = (dibs_trouble) i,
                         .blocker = { .relation = (dibs_relation) (i % (DIBS_REL_USES + 1)) } };
        dibs_err got = { 0 };
        struct written t;

        fill_text(err.msg, sizeof err.msg - 1, '\n');
        if (err.blocker.relation != DIBS_REL_NONE) {
            err.blocker.proto = socket.proto;
            err.blocker.address = socket.address;
            err.blocker.port = 65535;
            err.blocker.pid = socket.pid;
            err.blocker.uid = UINT32_MAX;
            err.blocker.since_ms = i % 2 ? INT64_MAX : 0;
            err.blocker.differs = i % 2;
            fill_text(err.blocker.name, i % 2 ? DIBS_NAME_MAX : 0, 'n');
            fill_text(err.blocker.command, DIBS_COMMAND_MAX, '\x80');
        }
        wire_problem(written_begin(&t), &err, wire_http_status(&err));
        assert_true(wire_problem_read(written_root(&t), &got));
        written_done(&t);
        const dibs_err *a = &err;
        const dibs_err *b = &got;

        SAME(code), SAME(os_errno), SAME(trouble), SAME_TEXT(msg), SAME(blocker.relation),
            SAME(blocker.proto);
        SAME(blocker.port), SAME(blocker.pid), SAME(blocker.uid), SAME(blocker.since_ms),
            SAME(blocker.differs);
        SAME_TEXT(blocker.name), SAME_TEXT(blocker.command);
        same_address(&a->blocker.address, &b->blocker.address);
    }
}

static void a_foreign_problem_document_is_recognised(void **state)
{
    static const char *const texts[] = { "{}",
                                         "[]",
                                         "{\"code\":3}",
                                         "{\"code\":0,\"detail\":\"ok\"}",
                                         "{\"code\":8,\"detail\":\"?\"}",
                                         "{\"code\":\"3\",\"detail\":\"?\"}" };

    (void) state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        jsonr_doc *doc = NULL;
        dibs_err err = { .code = DIBS_TAKEN };

        ASSERT_OK(jsonr_parse(texts[i], strlen(texts[i]), &doc, NULL), &err);
        assert_false(wire_problem_read(jsonr_root(doc), &err));
        assert_int_equal(err.code, DIBS_TAKEN);
        jsonr_free(doc);
    }
}

static void the_daemon_and_range_snapshots_come_back(void **state)
{
    struct wire_daemon daemon = { .version = "0.1.0", .pid = 7, .is_admin = true, .boot_ms = INT64_MAX };
    struct wire_daemon got = { 0 };
    uint8_t bytes[WIRE_RANGE_BYTES_MAX] = { 0 };
    uint8_t again[WIRE_RANGE_BYTES_MAX] = { 0 };
    dibs_range_snapshot range = { 0 };
    struct written t;
    dibs_err err = { 0 };

    (void) state;
    fill_text(daemon.principal, DIBS_PRINCIPAL_MAX, 'p');
    wire_daemon(written_begin(&t), &daemon);
    ASSERT_OK(wire_daemon_read(written_root(&t), &got, &err), &err);
    written_done(&t);
    assert_string_equal(got.version, "0.1.0");
    assert_string_equal(got.principal, daemon.principal);
    assert_string_equal(got.ledger, "");
    assert_true(got.pid == 7 && got.is_admin && got.boot_ms == INT64_MAX);

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t) (i * 37);
    struct jsonw *w = written_begin(&t);

    jsonw_object(w);
    wire_range_members(w, &(dibs_range_snapshot){ "1-65535", bytes, sizeof bytes });
    jsonw_end_object(w);
    ASSERT_OK(wire_range_read(written_root(&t), again, &range, &err), &err);
    assert_string_equal(range.range, "1-65535");
    assert_int_equal(range.n, sizeof bytes);
    assert_memory_equal(bytes, again, sizeof bytes);
    written_done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_claim_comes_back_with_every_member_at_its_limit),
        cmocka_unit_test(an_empty_claim_and_a_lease_come_back),
        cmocka_unit_test(numbers_that_no_reader_can_hold_are_cut),
        cmocka_unit_test(a_newer_daemon_may_say_more),
        cmocka_unit_test(events_come_back),
        cmocka_unit_test(pools_and_their_usage_come_back),
        cmocka_unit_test(the_report_of_a_port_comes_back_when_it_is_full),
        cmocka_unit_test(findings_of_repair_and_doctor_come_back),
        cmocka_unit_test(a_problem_has_all_that_a_caller_of_the_library_gets),
        cmocka_unit_test(a_foreign_problem_document_is_recognised),
        cmocka_unit_test(the_daemon_and_range_snapshots_come_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
