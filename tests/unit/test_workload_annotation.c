/* SPDX-License-Identifier: MIT */
/* RBG's port-allocator annotation: what it says, and the exact words of every refusal. */
#include <stdlib.h>
#include <string.h>

#include "support/t.h"
#include "workload/annotation.h"

static int new_group(void **state)
{
    *state = workload_new();
    return *state ? 0 : -1;
}

static int free_group(void **state)
{
    workload_free(*state);
    return 0;
}

static struct workload_component parse_as(struct workload_group *group, enum workload_dialect dialect,
                                          const char *text)
{
    struct workload_component out = { 0 };
    dibs_err err = { 0 };

    ASSERT_OK(workload_annotation_parse(group, dialect, text, &out, &err), &err);
    return out;
}

static struct workload_component parse(struct workload_group *group, const char *text)
{
    return parse_as(group, WORKLOAD_RBG, text);
}

struct bad {
    const char *text, *says;
};

static void refuse_all(struct workload_group *group, enum workload_dialect dialect, const struct bad *rows,
                       size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct workload_component out = { 0 };
        dibs_err err = { 0 };

        assert_int_equal(workload_annotation_parse(group, dialect, rows[i].text, &out, &err), DIBS_INVALID);
        assert_string_equal(err.msg, rows[i].says);
        assert_null(out.ports);
        assert_null(out.references);
    }
}

static void without_a_text_there_is_no_configuration(void **state)
{
    static const char *const texts[] = {
        NULL, "", "{}", "null", " null\n", "{\"allocations\": null}", "{\"references\": []}"
    };

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct workload_component got = parse(*state, texts[i]);

        assert_int_equal(got.n_ports, 0);
        assert_int_equal(got.n_references, 0);
    }
}

static void a_pod_scoped_entry_has_all_its_fields(void **state)
{
    struct workload_component got =
        parse(*state, "{\"allocations\": [{\"name\": \"grpc\", \"env\": \"GRPC_PORT\", \"annotationKey\": "
                      "\"test/grpc-port\", \"scope\": \"PodScoped\"}]}");

    assert_int_equal(got.n_ports, 1);
    assert_string_equal(got.ports[0].name, "grpc");
    assert_string_equal(got.ports[0].env, "GRPC_PORT");
    assert_string_equal(got.ports[0].annotation, "test/grpc-port");
    assert_int_equal(got.ports[0].scope, WORKLOAD_POD_SCOPED);
    assert_int_equal(got.ports[0].mode, DIBS_RANDOM);
    assert_int_equal(got.ports[0].count, 1);
    assert_int_equal(got.ports[0].n_bindings, 0);
}

static void scopes_are_kept_apart_and_pod_scoped_is_the_default(void **state)
{
    struct workload_component got =
        parse(*state, "{\"allocations\": [{\"name\": \"port1\", \"env\": \"A\"},"
                      "{\"name\": \"port2\", \"env\": \"B\", \"scope\": \"RoleScoped\"},"
                      "{\"name\": \"port3\", \"env\": \"C\", \"scope\": \"\"}]}");

    assert_int_equal(got.ports[0].scope, WORKLOAD_POD_SCOPED);
    assert_int_equal(got.ports[1].scope, WORKLOAD_ROLE_SCOPED);
    assert_null(got.ports[1].annotation);
    assert_int_equal(got.ports[2].scope, WORKLOAD_POD_SCOPED);
}

static void a_reference_is_read_with_its_parts(void **state)
{
    struct workload_component got = parse(
        *state, "{\"references\": [{\"env\": \"LEADER_PORT\", \"from\": \"prefill.leader.leader-port\"}]}");

    assert_int_equal(got.n_references, 1);
    assert_string_equal(got.references[0].env, "LEADER_PORT");
    assert_string_equal(got.references[0].role, "prefill");
    assert_string_equal(got.references[0].component, "leader");
    assert_string_equal(got.references[0].port, "leader-port");
    assert_int_equal(got.references[0].instance, -1);
    assert_int_equal(got.references[0].pod, -1);
}

static void names_of_fields_match_in_any_case_and_unknown_ones_do_not_count(void **state)
{
    struct workload_component got = parse(
        *state, "{\"Allocations\": [{\"NAME\": \"old\", \"name\": \"a\", \"eNv\": \"A\", \"colour\": 7}], "
                "\"more\": {}}");

    assert_int_equal(got.n_ports, 1);
    assert_string_equal(got.ports[0].name, "a"); /* the last one counts */
    assert_string_equal(got.ports[0].env, "A");
}

static void under_our_own_key_a_field_that_is_unknown_is_refused(void **state)
{
    static const struct bad rows[] = {
        { "{\"alocations\": []}", "the annotation has no key 'alocations'; did you mean 'allocations'?" },
        { "{\"ports\": []}", "the annotation has no key 'ports'; there are: allocations, references" },
        { "{\"allocations\": [{\"name\": \"a\", \"env\": \"A\"}, {\"name\": \"b\", \"env\": \"B\", "
          "\"annotationkey\": \"x/y\", \"scoep\": \"RoleScoped\"}]}",
          "allocations[1] has no key 'scoep'; did you mean 'scope'?" },
        { "{\"references\": [{\"env\": \"A\", \"form\": \"a.b\"}]}",
          "references[0] has no key 'form'; did you mean 'from'?" },
    };
    struct workload_component got =
        parse_as(*state, WORKLOAD_OWN, "{\"Allocations\": [{\"NAME\": \"a\", \"eNv\": \"A\"}]}");

    assert_string_equal(got.ports[0].name, "a");
    refuse_all(*state, WORKLOAD_OWN, rows, sizeof rows / sizeof rows[0]);
}

static void our_own_fields_say_which_port(void **state)
{
    struct workload_component got = parse(
        *state, "{\"allocations\": ["
                "{\"name\": \"a\", \"env\": \"A\", \"port\": 8080, \"proto\": \"tcp+udp\"},"
                "{\"name\": \"b\", \"env\": \"B\", \"prefer\": 9000, \"address\": \"127.0.0.1\"},"
                "{\"name\": \"c\", \"env\": \"C\", \"count\": 8, \"contiguous\": true, \"hostPort\": false,"
                " \"address\": [\"127.0.0.1\", \"::1\"]}]}");

    assert_int_equal(got.ports[0].mode, DIBS_REQUIRED);
    assert_int_equal(got.ports[0].port, 8080);
    assert_int_equal(got.ports[0].n_bindings, 2);
    assert_int_equal(got.ports[0].bindings[1].proto, DIBS_UDP);
    assert_int_equal(got.ports[1].mode, DIBS_PREFERRED);
    assert_int_equal(got.ports[1].port, 9000);
    assert_int_equal(got.ports[1].n_bindings, 1);
    assert_int_equal(got.ports[2].count, 8);
    assert_true(got.ports[2].is_contiguous);
    assert_true(got.ports[2].has_no_host_port && !got.ports[1].has_no_host_port);
    assert_int_equal(got.ports[2].n_bindings, 2);
}

static void a_config_that_rbg_refuses_is_refused_in_its_words(void **state)
{
    static const struct bad rows[] = {
        { "{\"allocations\": [{\"env\": \"A\"}]}", "allocations[0].name is required" },
        { "{\"allocations\": [null]}", "allocations[0].name is required" },
        { "{\"allocations\": [{\"name\": \"a\", \"env\": \"A\"}, {\"name\": \"b\"}]}",
          "allocations[1].env is required" },
        { "{\"allocations\": [{\"name\": \"a\", \"env\": \"A\", \"scope\": \"Invalid\"}]}",
          "allocations[0].scope must be 'PodScoped' or 'RoleScoped', got 'Invalid'" },
        { "{\"allocations\": [{\"name\": \"a\", \"env\": \"A\", \"scope\": \"podscoped\"}]}",
          "allocations[0].scope must be 'PodScoped' or 'RoleScoped', got 'podscoped'" },
        { "{\"references\": [{\"from\": \"a.b.c\"}]}", "references[0].env is required" },
        { "{\"references\": [{\"env\": \"A\"}]}", "references[0].from is required" },
        { "[]", "failed to parse port allocator config: it is not an object" },
        { "{\"allocations\": {}}", "failed to parse port allocator config: allocations is not a list" },
        { "{\"allocations\": [7]}",
          "failed to parse port allocator config: allocations[0] is not an object" },
        { "{\"allocations\": [{\"name\": 7}]}",
          "failed to parse port allocator config: allocations[0].name is not a text" },
    };

    refuse_all(*state, WORKLOAD_RBG, rows, sizeof rows / sizeof rows[0]);
}

static void bad_json_is_refused(void **state)
{
    static const char *const texts[] = { "{invalid json}", "{} {}", "{\"allocations\": [}", "nul", "7" };

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct workload_component out = { 0 };
        dibs_err err = { 0 };

        assert_int_equal(workload_annotation_parse(*state, WORKLOAD_RBG, texts[i], &out, &err), DIBS_INVALID);
        assert_memory_equal(err.msg, "failed to parse port allocator config: ", 39);
    }
}

static void a_config_that_would_fail_later_is_refused_when_it_is_read(void **state)
{
    static const struct bad rows[] = {
        { "{\"allocations\": [{\"name\": \"a\", \"env\": \"1A\"}]}",
          "allocations[0].env is not the name of a variable" },
        { "{\"allocations\": [{\"name\": \"a\", \"env\": \"LD_PRELOAD\"}]}",
          "allocations[0].env is a variable that other programs read, such as PATH or LD_PRELOAD" },
        { "{\"allocations\": [{\"name\": \"a\", \"env\": \"A\", \"annotationKey\": \"a b\"}]}",
          "allocations[0].annotationKey is not the key of an annotation" },
        { "{\"allocations\": [{\"name\": \"a\", \"env\": \"A\", \"annotationKey\": \"" WORKLOAD_KEY_OWN
          "\"}]}",
          "allocations[0].annotationKey is the key of the annotation itself" },
        { "{\"allocations\": [{\"name\": \"a\", \"env\": \"A\", \"port\": 65536}]}",
          "allocations[0].port is not from 1 to 65535" },
        { "{\"allocations\": [{\"name\": \"a\", \"env\": \"A\", \"count\": 0}]}",
          "allocations[0].count is not from 1 to 64" },
        { "{\"allocations\": [{\"name\": \"a\", \"env\": \"A\", \"port\": 1, \"prefer\": 2}]}",
          "allocations[0].port and prefer cannot both be given" },
        { "{\"references\": [{\"env\": \"A-B\", \"from\": \"a.b.c\"}]}",
          "references[0].env is not the name of a variable" },
        { "{\"references\": [{\"env\": \"A\", \"from\": \"leader.leader-port\"}]}",
          "references[0].from: invalid reference format 'leader.leader-port', expected "
          "'<role_name>.<component_name>.<port_name>'" },
    };

    refuse_all(*state, WORKLOAD_RBG, rows, sizeof rows / sizeof rows[0]);
}

static void under_our_own_key_a_reference_needs_no_component(void **state)
{
    struct workload_component got =
        parse_as(*state, WORKLOAD_OWN, "{\"references\": [{\"env\": \"A\", \"from\": \"api[1].http\"}]}");

    assert_string_equal(got.references[0].role, "api");
    assert_int_equal(got.references[0].instance, 1);
    assert_null(got.references[0].component);
    assert_string_equal(got.references[0].port, "http");
}

static void a_place_stands_in_front_of_a_message(void **state)
{
    struct workload_group *group = *state;
    struct workload_component out = { .place = { 3, 7 } };
    dibs_err err = { 0 };

    group->source = "pods.yaml";
    assert_int_equal(workload_annotation_parse(group, WORKLOAD_RBG, "{\"allocations\": [{}]}", &out, &err),
                     DIBS_INVALID);
    assert_string_equal(err.msg, "pods.yaml:3:7: allocations[0].name is required");
}

static void references_are_split_as_rbg_splits_them(void **state)
{
    static const struct {
        const char *text, *says; /* NULL: good */
    } rows[] = {
        { "prefill.leader.leader-port", NULL },
        { "prefill.worker-0.grpc-port", NULL },
        { "", "empty reference" },
        { "a.b..", "invalid reference format 'a.b..', all parts must be non-empty" },
        { "prefill..port", "invalid reference format 'prefill..port', all parts must be non-empty" },
        { ".leader.port", "invalid reference format '.leader.port', all parts must be non-empty" },
        { "prefill.leader.", "invalid reference format 'prefill.leader.', expected "
                             "'<role_name>.<component_name>.<port_name>'" },
        { "leaderport", "invalid reference format 'leaderport', expected "
                        "'<role_name>.<component_name>.<port_name>'" },
        { "leader.port", "invalid reference format 'leader.port', expected "
                         "'<role_name>.<component_name>.<port_name>'" },
        { "a.b.c.d", "invalid reference format 'a.b.c.d', expected "
                     "'<role_name>.<component_name>.<port_name>'" },
        /* RBG takes this one for a.b.c */
        { "a.b.c.", "invalid reference format 'a.b.c.', expected "
                    "'<role_name>.<component_name>.<port_name>'" },
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct workload_reference out = { 0 };
        dibs_err err = { 0 };
        dibs_status s = workload_reference_parse_rbg(*state, rows[i].text, &out, &err);

        assert_int_equal(s, rows[i].says ? DIBS_INVALID : DIBS_OK);
        assert_string_equal(err.msg, rows[i].says ? rows[i].says : "");
        if (rows[i].says)
            assert_null(out.role);
    }
}

static void keys_of_annotations_are_those_of_kubernetes(void **state)
{
    static const char *const good[] = { "a", "test/grpc-port", "a.b-c.d/E_f.9", "9/9" };
    static const char *const bad[] = { "",    "/",      "a/",     "/a",   "a/b/c", "-a",      "a-",
                                       "a b", "Test/a", "a..b/c", "-a/b", "a_b/c", "\xc3\xa4" };
    char lengthy[320] = "";

    (void) state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(workload_is_annotation_key(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(workload_is_annotation_key(bad[i]));
    memset(lengthy, 'a', 63);
    assert_true(workload_is_annotation_key(lengthy));
    lengthy[63] = 'a';
    assert_false(workload_is_annotation_key(lengthy));
    memset(lengthy, 'a', 253);
    memcpy(lengthy + 253, "/b", 3);
    assert_true(workload_is_annotation_key(lengthy));
    memcpy(lengthy + 253, "a/b", 4);
    assert_false(workload_is_annotation_key(lengthy));
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, new_group, free_group)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(without_a_text_there_is_no_configuration),
        CASE(a_pod_scoped_entry_has_all_its_fields),
        CASE(scopes_are_kept_apart_and_pod_scoped_is_the_default),
        CASE(a_reference_is_read_with_its_parts),
        CASE(names_of_fields_match_in_any_case_and_unknown_ones_do_not_count),
        CASE(under_our_own_key_a_field_that_is_unknown_is_refused),
        CASE(our_own_fields_say_which_port),
        CASE(a_config_that_rbg_refuses_is_refused_in_its_words),
        CASE(bad_json_is_refused),
        CASE(a_config_that_would_fail_later_is_refused_when_it_is_read),
        CASE(under_our_own_key_a_reference_needs_no_component),
        CASE(a_place_stands_in_front_of_a_message),
        CASE(references_are_split_as_rbg_splits_them),
        CASE(keys_of_annotations_are_those_of_kubernetes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
