/* SPDX-License-Identifier: MIT */
/* Every public function, called as it must not be: INVALID with a message, or the quiet answer that is
 * documented, never a crash; outputs stay as they were. Here pointers, texts and settings, in
 * test_misuse_values.c what requests and claims are made of. api/symbols.sh checks that none is left out. */
#include "support/misuse.h"

static void texts_of_what_is_not_there_are_plain(void **state)
{
    char env[48];
    char value[DIBS_SETTING_VALUE_MAX + 1];
    dibs_settings settings = { .ledger_mode = BEYOND(dibs_ledger_mode) };

    (void) state;
    assert_string_equal(dibs_status_text(BEYOND(dibs_status)), "unknown status");
    assert_string_equal(dibs_proto_text(BEYOND(dibs_proto)), "unknown");
    assert_string_equal(dibs_event_kind_text(BEYOND(dibs_event_kind)), "unknown");
    assert_string_equal(dibs_repair_kind_text(BEYOND(dibs_repair_kind)), "unknown");
    assert_string_equal(dibs_source_text(BEYOND(dibs_source)), "unknown");
    assert_null(dibs_setting_name(BEYOND(dibs_setting)));
    assert_null(dibs_setting_name((dibs_setting) -1));
    assert_null(dibs_setting_summary(BEYOND(dibs_setting)));
    dibs_setting_env(BEYOND(dibs_setting), env);
    assert_string_equal(env, "");
    dibs_setting_env(DIBS_SET_LEDGER, NULL);
    dibs_setting_format(&settings, DIBS_SET_LEDGER_MODE, value);
    assert_string_equal(value, "");
    dibs_setting_format(&settings, BEYOND(dibs_setting), value);
    assert_string_equal(value, "");
    dibs_setting_format(NULL, DIBS_SET_LEDGER, value);
    assert_string_equal(value, "");
    dibs_setting_format(&settings, DIBS_SET_LEDGER, NULL);
    assert_null(dibs_order_name(SIZE_MAX));
    assert_non_null(dibs_version());
    assert_int_equal(dibs_band_size(UINT32_MAX), 128);
}

static void values_that_are_none_are_refused_or_are_nothing(void **state)
{
    dibs_address address[2] = { { .len = 4 }, { .len = 99 } };
    dibs_ranges huge = { .n = SIZE_MAX };
    dibs_ranges backwards = { .item = { { 9, 1 } }, .n = 1 };
    dibs_ranges ranges;
    dibs_proto proto;
    char text[DIBS_RANGES_TEXT_MAX + 1];
    uint16_t port;
    size_t n;

    (void) state;
    FILL(ranges);
    FILL(proto);
    FILL(port);
    FILL(n);
    REFUSED(dibs_proto_parse(NULL, &proto, &err));
    REFUSED(dibs_proto_parse("tcp", NULL, &err));
    REFUSED(dibs_address_parse(NULL, address, &n, &err));
    REFUSED(dibs_address_parse("*", NULL, &n, &err));
    REFUSED(dibs_address_parse("*", address, NULL, &err));
    REFUSED(dibs_port_parse(NULL, &port, &err));
    REFUSED(dibs_port_parse("1", NULL, &err));
    REFUSED(dibs_ranges_parse(NULL, &ranges, &err));
    REFUSED(dibs_ranges_parse("1-2", NULL, &err));
    REFUSED(dibs_ranges_subtract(NULL, (dibs_range){ 1, 2 }, &ranges, &err));
    REFUSED(dibs_ranges_subtract(&huge, (dibs_range){ 1, 2 }, &ranges, &err));
    REFUSED(dibs_ranges_subtract(&backwards, (dibs_range){ 1, 2 }, NULL, &err));
    REFUSED(dibs_ranges_subtract(&backwards, (dibs_range){ 1, 2 }, &ranges, &err));
    STAYS(ranges);
    STAYS(proto);
    STAYS(port);
    STAYS(n);
    for (int i = 0; i < 3; i++) {
        const dibs_ranges *bad[] = { NULL, &huge, &backwards };

        assert_int_equal(dibs_ranges_count(bad[i]), 0);
        assert_false(dibs_ranges_contain(bad[i], 5));
        assert_int_equal(dibs_ranges_at(bad[i], 0), 0);
        dibs_ranges_format(bad[i], text);
        dibs_ranges_format(bad[i], NULL);
    }
    dibs_address_format(NULL, text);
    assert_string_equal(text, "invalid");
    dibs_address_format(&address[1], text);
    assert_string_equal(text, "invalid");
    dibs_address_format(&address[0], NULL);
    for (int i = 0; i < 2; i++) {
        const dibs_address *bad = i ? &address[1] : NULL;

        assert_false(dibs_address_is_wildcard(bad));
        assert_false(dibs_address_equal(bad, &address[0]));
        assert_false(dibs_address_equal(&address[0], bad));
        assert_false(dibs_address_conflict(bad, &address[0]));
        assert_false(dibs_address_conflict(&address[0], bad));
    }
}

static void settings_and_names_are_checked(void **state)
{
    struct right *r = *state;
    const dibs_flag flags[] = { { BEYOND(dibs_setting), "x" }, { DIBS_SET_POOL, NULL } };
    dibs_project endless;
    dibs_project project;
    dibs_settings out;
    char name[DIBS_NAME_MAX + 1];
    int64_t ms;

    FILL(out);
    FILL(ms);
    FILL(name);
    FILL(project);
    memset(&endless, 'x', sizeof endless);
    REFUSED(dibs_settings_load(NULL, 1, &out, &err));
    REFUSED(dibs_settings_load(NULL, 0, NULL, &err));
    REFUSED(dibs_settings_load(&flags[0], 1, &out, &err));
    REFUSED(dibs_settings_load(&flags[1], 1, &out, &err));
    REFUSED(dibs_settings_load_project(&(dibs_project_file){ 0 }, NULL, 0, &out, &err));
    REFUSED(dibs_settings_load_project(&(dibs_project_file){ .dir = "relative" }, NULL, 0, &out, &err));
    REFUSED(dibs_settings_load_project(&(dibs_project_file){ .dir = "/x", .n = 1 }, NULL, 0, &out, &err));
    for (int i = -1; i <= DIBS_SETTING_COUNT; i++) {
        dibs_project_setting given = { (dibs_setting) i, NULL, NULL };

        REFUSED(
            dibs_settings_load_project(&(dibs_project_file){ "/x", NULL, &given, 1 }, NULL, 0, &out, &err));
        given.value = "sqlite:/x";
        if (!dibs_setting_is_for_projects((dibs_setting) i))
            REFUSED(dibs_settings_load_project(&(dibs_project_file){ "/x", NULL, &given, 1 }, NULL, 0, &out,
                                               &err));
    }
    REFUSED(dibs_duration_parse(NULL, &ms, &err));
    REFUSED(dibs_duration_parse("1s", NULL, &err));
    REFUSED(dibs_name_check(NULL, &err));
    REFUSED(dibs_name_resolve(NULL, "web", name, &err));
    REFUSED(dibs_name_resolve(&endless, "web", name, &err));
    REFUSED(dibs_name_resolve(&endless, NULL, name, &err));
    REFUSED(dibs_name_resolve(NULL, "/web", NULL, &err));
    REFUSED(dibs_project_find(&r->settings, NULL, NULL, &err));
    REFUSED(dibs_project_find(&r->settings, "/does/not/exist", &project, &err));
    REFUSED(dibs_name_locate(r->handle, NULL, "/x", name, &err));
    REFUSED(dibs_name_locate(r->handle, "a b", "/x", name, &err));
    REFUSED(dibs_name_locate(r->handle, "web", "/x", NULL, &err));
    REFUSED(dibs_name_locate(NULL, "web", "/x", name, &err));
    STAYS(out);
    STAYS(ms);
    STAYS(name);
    STAYS(project);
}

static void a_handle_is_not_opened_with_settings_that_cannot_be(void **state)
{
    struct right *r = *state;
    dibs *handle = NULL;
    const dibs_settings good = r->settings;

#define SPOILT(change)                                                      \
    do {                                                                    \
        r->settings = good;                                                 \
        change;                                                             \
        REFUSED(dibs_open(&r->settings, &handle, &err));                    \
        REFUSED(dibs_doctor(&r->settings, false, any_finding, NULL, &err)); \
    } while (0)
    SPOILT(memset(&r->settings, 0, sizeof r->settings));
    SPOILT(memset(r->settings.ledger, 'x', sizeof r->settings.ledger));
    SPOILT(memset(r->settings.socket, 'x', sizeof r->settings.socket));
    SPOILT(memset(r->settings.mru_file, 'x', sizeof r->settings.mru_file));
    SPOILT(memset(r->settings.pool, 'x', sizeof r->settings.pool));
    SPOILT(memset(r->settings.order, 'x', sizeof r->settings.order));
    SPOILT(memset(r->settings.group, 'x', sizeof r->settings.group));
    SPOILT(r->settings.pool[0] = '\0');
    SPOILT(r->settings.ledger_mode = BEYOND(dibs_ledger_mode));
    SPOILT(r->settings.range.n = 0);
    SPOILT(r->settings.range.n = DIBS_RANGES_MAX + 1);
    SPOILT(r->settings.range.item[0].first = 0);
    SPOILT(r->settings.range.item[0].last = 1);
    SPOILT(r->settings.band = -2);
    SPOILT(r->settings.cooldown_ms = -1);
    SPOILT(r->settings.ttl_ms = 0);
    SPOILT(r->settings.timeout_ms = DIBS_TIMEOUT_MAX_MS + INT64_C(1));
#undef SPOILT
    assert_null(handle);
    REFUSED(dibs_open(&good, NULL, &err));
    REFUSED(dibs_open(NULL, NULL, &err));
    assert_int_equal(dibs_open(NULL, NULL, NULL), DIBS_INVALID);
    REFUSED(dibs_doctor(NULL, false, any_finding, NULL, &err));
    REFUSED(dibs_doctor(&good, false, NULL, NULL, &err));
}

static void no_handle_is_no_crash(void **state)
{
    struct right *r = *state;
    const dibs_heir heir = { .keep = true };
    const dibs_range_snapshot bits = { .range = "1-2" };
    dibs_port_report *report = calloc(1, sizeof *report);
    char range[DIBS_RANGES_TEXT_MAX + 1];
    char why[8] = "?";
    uint8_t bytes[8192];
    dibs_claim out;
    dibs_sockets sockets = { .n = 0 };
    dibs_socket socket;
    dibs_pool pool;
    dibs_pool_usage usage;
    size_t n = 7;

    assert_non_null(report);
    dibs_close(NULL);
    assert_int_equal(dibs_boot_ms(NULL), 0);
    assert_false(dibs_is_degraded(NULL, why, sizeof why));
    assert_false(dibs_is_degraded(r->handle, NULL, 0));
    assert_false(dibs_is_enforced(NULL));
    assert_false(dibs_is_enforced(r->handle)); /* there is no daemon */
    REFUSED(dibs_numbers_set(NULL, &(dibs_numbers){ .pid = 1 }, &err));
    REFUSED(dibs_numbers_set(r->handle, NULL, &err));
    REFUSED(dibs_numbers_set(r->handle, &(dibs_numbers){ .pid = 1, .n = 1 }, &err));
    assert_null(dibs_settings_of(NULL));
    assert_string_equal(dibs_principal_of(NULL), "");
    REFUSED(dibs_claim_ports(NULL, &r->batch, &out, &err));
    REFUSED(dibs_listen(NULL, r->batch.requests, &sockets, &err));
    REFUSED(dibs_listen(r->handle, NULL, &sockets, &err));
    REFUSED(dibs_listen(r->handle, r->batch.requests, NULL, &err));
    REFUSED(dibs_sockets_send(1, NULL, &err));
    REFUSED(dibs_sockets_receive(1, NULL, &err));
    REFUSED(dibs_claim_on_hosts(NULL, r->batch.requests, &(const char *){ "a" }, 1, &out, &err));
    REFUSED(dibs_release_on_hosts(NULL, &(dibs_which){ .name = "a" }, &(const char *){ "a" }, 1, NULL, &err));
    REFUSED(
        dibs_release_on_hosts(r->handle, &(dibs_which){ .port = 1 }, &(const char *){ "a" }, 1, NULL, &err));
    REFUSED(dibs_claim_release(NULL, &r->which, 0, &n, &err));
    REFUSED(dibs_claim_renew(NULL, &r->which, 1, &out, &err));
    REFUSED(dibs_claim_transfer(NULL, &r->which, &heir, &out, &err));
    REFUSED(dibs_claim_find(NULL, &r->which, &out, &err));
    REFUSED(dibs_claim_list(NULL, &(dibs_filter){ 0 }, any_claim, NULL, &err));
    REFUSED(dibs_event_list(NULL, &(dibs_event_query){ 0 }, any_event, NULL, &err));
    REFUSED(dibs_node_list(NULL, any_node, NULL, &err));
    REFUSED(dibs_node_remove(NULL, "a", 0, &n, &err));
    REFUSED(dibs_pool_get(NULL, "default", &pool, &err));
    REFUSED(dibs_pool_put(NULL, &r->pool, &err));
    REFUSED(dibs_pool_remove(NULL, "p", &err));
    REFUSED(dibs_pool_list(NULL, any_pool, NULL, &err));
    REFUSED(dibs_pool_usage_of(NULL, "default", &usage, &err));
    REFUSED(dibs_port_explain(NULL, &(dibs_port_question){ .port = 1 }, report, &err));
    REFUSED(dibs_claim_assert(NULL, &r->which, &socket, &err));
    REFUSED(dibs_reap(NULL, 0, NULL, NULL, &n, &err));
    REFUSED(dibs_repair(NULL, &(dibs_repair_plan){ 0 }, any_item, NULL, &err));
    REFUSED(dibs_snapshot_export(NULL, NULL, range, bytes, &n, &err));
    REFUSED(dibs_snapshot_import(NULL, NULL, &bits, &n, &err));
    REFUSED(dibs_claim_restore(NULL, &(dibs_snapshot){ 0 }, &n, &err));
    assert_int_equal(n, 7);
    free(report);
}

static void a_missing_argument_is_named_before_the_ledger_is_asked(void **state)
{
    struct right *r = *state;
    const dibs_heir heir = { .keep = true };
    uint8_t bytes[1] = { 0 };
    char range[DIBS_RANGES_TEXT_MAX + 1];
    dibs_claim out;
    dibs_claim endless = { 0 };
    size_t n = 7;

    FILL(out);
    REFUSED(dibs_claim_ports(r->handle, NULL, &out, &err));
    REFUSED(dibs_claim_ports(r->handle, &(dibs_batch){ .n = 1 }, &out, &err));
    REFUSED(dibs_claim_ports(r->handle, &r->batch, NULL, &err));
    REFUSED(dibs_claim_ports(r->handle, &(dibs_batch){ .n_drops = 1 }, &out, &err));
    REFUSED(
        dibs_claim_ports(r->handle, &(dibs_batch){ .drops = &(dibs_drop){ 0 }, .n_drops = 1 }, &out, &err));
    memset(endless.name, 'a', sizeof endless.name);
    REFUSED(dibs_claim_ports(
        r->handle, &(dibs_batch){ .drops = &(dibs_drop){ .claim = &endless }, .n_drops = 1 }, &out, &err));
    REFUSED(dibs_claim_release(r->handle, NULL, 0, &n, &err));
    REFUSED(dibs_claim_release(r->handle, &(dibs_which){ 0 }, 0, &n, &err));
    REFUSED(dibs_claim_renew(r->handle, NULL, 1, &out, &err));
    REFUSED(dibs_claim_renew(r->handle, &r->which, 1, NULL, &err));
    REFUSED(dibs_claim_transfer(r->handle, &r->which, NULL, &out, &err));
    REFUSED(dibs_claim_transfer(r->handle, NULL, &heir, &out, &err));
    REFUSED(dibs_claim_transfer(r->handle, &r->which, &heir, NULL, &err));
    REFUSED(dibs_claim_find(r->handle, NULL, &out, &err));
    REFUSED(dibs_claim_find(r->handle, &r->which, NULL, &err));
    REFUSED(dibs_claim_find(r->handle, &(dibs_which){ 0 }, &out, &err));
    REFUSED(dibs_claim_list(r->handle, NULL, any_claim, NULL, &err));
    REFUSED(dibs_claim_list(r->handle, &(dibs_filter){ 0 }, NULL, NULL, &err));
    REFUSED(dibs_event_list(r->handle, NULL, any_event, NULL, &err));
    REFUSED(dibs_event_list(r->handle, &(dibs_event_query){ 0 }, NULL, NULL, &err));
    REFUSED(dibs_node_list(r->handle, NULL, NULL, &err));
    REFUSED(dibs_node_remove(r->handle, NULL, 0, NULL, &err));
    REFUSED(dibs_node_remove(r->handle, "a", 2, NULL, &err));
    REFUSED(dibs_pool_get(r->handle, NULL, &r->pool, &err));
    REFUSED(dibs_pool_get(r->handle, "default", NULL, &err));
    REFUSED(dibs_pool_put(r->handle, NULL, &err));
    REFUSED(dibs_pool_remove(r->handle, NULL, &err));
    REFUSED(dibs_pool_list(r->handle, NULL, NULL, &err));
    REFUSED(dibs_pool_usage_of(r->handle, NULL, &(dibs_pool_usage){ 0 }, &err));
    REFUSED(dibs_pool_usage_of(r->handle, "default", NULL, &err));
    REFUSED(dibs_port_explain(r->handle, NULL, NULL, &err));
    REFUSED(dibs_claim_assert(r->handle, NULL, &(dibs_socket){ 0 }, &err));
    REFUSED(dibs_claim_assert(r->handle, &r->which, NULL, &err));
    REFUSED(dibs_repair(r->handle, NULL, any_item, NULL, &err));
    REFUSED(dibs_repair(r->handle, &(dibs_repair_plan){ 0 }, NULL, NULL, &err));
    REFUSED(dibs_snapshot_export(r->handle, NULL, NULL, bytes, &n, &err));
    REFUSED(dibs_snapshot_export(r->handle, NULL, range, NULL, &n, &err));
    REFUSED(dibs_snapshot_export(r->handle, NULL, range, bytes, NULL, &err));
    REFUSED(dibs_snapshot_import(r->handle, NULL, NULL, &n, &err));
    REFUSED(dibs_snapshot_import(r->handle, NULL, &(dibs_range_snapshot){ .n = 1 }, &n, &err));
    REFUSED(dibs_snapshot_import(r->handle, NULL, &(dibs_range_snapshot){ "1-2", NULL, 1 }, &n, &err));
    REFUSED(dibs_claim_restore(r->handle, NULL, &n, &err));
    REFUSED(dibs_claim_restore(r->handle, &(dibs_snapshot){ .n = 1 }, &n, &err));
    REFUSED(dibs_claim_restore(r->handle, &(dibs_snapshot){ .n_pools = 1 }, &n, &err));
    STAYS(out);
    assert_int_equal(n, 7);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, misuse_setup, misuse_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_of_what_is_not_there_are_plain),
        cmocka_unit_test(values_that_are_none_are_refused_or_are_nothing),
        CASE(settings_and_names_are_checked),
        CASE(a_handle_is_not_opened_with_settings_that_cannot_be),
        CASE(no_handle_is_no_crash),
        CASE(a_missing_argument_is_named_before_the_ledger_is_asked),
    };

    e_own_network();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
