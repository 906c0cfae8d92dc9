/* SPDX-License-Identifier: MIT */
/* Names of RBG's pods, keys of their ports, and the component-discovery annotation. */
#include <stdlib.h>
#include <string.h>

#include "support/t.h"
#include "workload/annotation.h"
#include "workload/discovery.h"

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

static void pods_are_named_by_the_type_of_their_instance(void **state)
{
    static const struct {
        struct workload_pod_id pod;
        const char *name;
    } rows[] = {
        { { WORKLOAD_COMPONENT_PODS, "rbg-prefill-0", "leader", 0 }, "rbg-prefill-0-leader-0" },
        { { WORKLOAD_COMPONENT_PODS, "rbg-prefill-0", "worker", 0 }, "rbg-prefill-0-worker-0" },
        { { WORKLOAD_LEADER_WORKER_PODS, "test-prefill-0", "leader", 0 }, "test-prefill-0-0" },
        { { WORKLOAD_LEADER_WORKER_PODS, "test-prefill-0", "worker", 0 }, "test-prefill-0-1" },
        { { WORKLOAD_LEADER_WORKER_PODS, "test-prefill-0", "worker", 2 }, "test-prefill-0-3" },
        { { WORKLOAD_LEADER_WORKER_PODS, "test-prefill-0", "router", 1 }, "test-prefill-0-1" },
        { { WORKLOAD_STANDALONE_POD, "test-router-0", "", 0 }, "test-router-0" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char address[WORKLOAD_ADDRESS_MAX] = "";

        assert_true(workload_discovery_address(&rows[i].pod, "svc", "ns", address));
        *strstr(address, ".svc.ns.svc.cluster.local") = '\0';
        assert_string_equal(address, rows[i].name);
    }
}

static struct workload_discovery parse(struct workload_group *group, const char *text)
{
    struct workload_discovery out = { 0 };
    dibs_err err = { 0 };

    ASSERT_OK(workload_discovery_parse(group, (struct workload_place){ 0 }, text, &out, &err), &err);
    return out;
}

static void the_annotation_asks_for_ports_and_addresses(void **state)
{
    struct workload_discovery got =
        parse(*state, "{\"portRefs\": [{\"env\": \"P\", \"component\": \"leader\", \"portName\": \"grpc\"},"
                      "{\"env\": \"Q\", \"component\": \"worker\", \"portName\": \"grpc\", \"index\": 2}],"
                      "\"addressRefs\": [{\"env\": \"A\", \"component\": \"leader\", \"index\": 1}]}");

    assert_int_equal(got.n_ports, 2);
    assert_string_equal(got.ports[0].env, "P");
    assert_int_equal(got.ports[0].index, 0);
    assert_string_equal(got.ports[1].component, "worker");
    assert_string_equal(got.ports[1].port, "grpc");
    assert_int_equal(got.ports[1].index, 2);
    assert_int_equal(got.n_addresses, 1);
    assert_string_equal(got.addresses[0].component, "leader");
    assert_int_equal(got.addresses[0].index, 1);
}

static void addresses_may_be_asked_for_alone_or_nothing_at_all(void **state)
{
    static const char *const nothing[] = { NULL, "", "{}", "{\"portRefs\": null}" };
    struct workload_discovery got =
        parse(*state, "{\"addressRefs\": [{\"env\": \"A\", \"component\": \"leader\"}]}");

    assert_int_equal(got.n_ports, 0);
    assert_int_equal(got.n_addresses, 1);
    for (size_t i = 0; i < sizeof nothing / sizeof nothing[0]; i++) {
        got = parse(*state, nothing[i]);
        assert_int_equal(got.n_ports + got.n_addresses, 0);
    }
}

static void a_bad_annotation_is_refused_naming_what_is_wrong(void **state)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        { "{bad}", "failed to parse component discovery config: " },
        { "[]", "failed to parse component discovery config: it is not an object" },
        { "{\"portRefs\": {}}", "failed to parse component discovery config: portRefs is not a list" },
        { "{\"portRefs\": [7]}", "failed to parse component discovery config: portRefs[0] is not an object" },
        { "{\"portRefs\": [{}]}", "portRefs[0].env is required" },
        { "{\"portRefs\": [{\"env\": \"A B\"}]}", "portRefs[0].env is not the name of a variable" },
        { "{\"portRefs\": [{\"env\": \"IFS\"}]}",
          "portRefs[0].env is a variable that other programs read, such as PATH or LD_PRELOAD" },
        { "{\"portRefs\": [{\"env\": \"A\"}]}", "portRefs[0].component is required" },
        { "{\"portRefs\": [{\"env\": \"A\", \"component\": \"c\"}]}", "portRefs[0].portName is required" },
        { "{\"addressRefs\": [{\"env\": \"A\", \"component\": \"c\", \"index\": -1}]}",
          "addressRefs[0].index is not from 0 to 4095" },
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct workload_discovery out = { 0 };
        dibs_err err = { 0 };

        assert_int_equal(
            workload_discovery_parse(*state, (struct workload_place){ 0 }, rows[i].text, &out, &err),
            DIBS_INVALID);
        assert_memory_equal(err.msg, rows[i].says, strlen(rows[i].says));
        assert_null(out.ports);
    }
}

static void addresses_are_the_names_of_pods_in_the_cluster(void **state)
{
    struct workload_pod_id pod = { WORKLOAD_COMPONENT_PODS, "inst-abc", "leader", 0 };
    char lengthy[WORKLOAD_ADDRESS_MAX] = "";
    char address[WORKLOAD_ADDRESS_MAX] = "";

    (void) state;
    assert_true(workload_discovery_address(&pod, "svc", "ns", address));
    assert_string_equal(address, "inst-abc-leader-0.svc.ns.svc.cluster.local");
    pod.id = 2;
    assert_true(workload_discovery_address(&pod, "svc", "ns", address));
    assert_string_equal(address, "inst-abc-leader-2.svc.ns.svc.cluster.local");
    memset(lengthy, 'a', sizeof lengthy - 1);
    assert_false(workload_discovery_address(&pod, lengthy, "ns", address));
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, new_group, free_group)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(pods_are_named_by_the_type_of_their_instance),
        CASE(the_annotation_asks_for_ports_and_addresses),
        CASE(addresses_may_be_asked_for_alone_or_nothing_at_all),
        CASE(a_bad_annotation_is_refused_naming_what_is_wrong),
        CASE(addresses_are_the_names_of_pods_in_the_cluster),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
