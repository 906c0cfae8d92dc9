/* SPDX-License-Identifier: MIT */
/* Numbers that Services and pods use by themselves. */
#include "support/t.h"

#include <stdlib.h>
#include <string.h>

#include "kube/controller/foreign_ports.h"

/* "111T 112U* ": the numbers with their protocols. */
static void collects(bool (*fn)(const jsonr_value *, struct numbers *), const char *text, const char *want)
{
    struct numbers numbers = { 0 };
    jsonr_doc *doc = NULL;
    char got[256] = "";
    dibs_err err = { 0 };

    ASSERT_OK(jsonr_parse(text, strlen(text), &doc, &err), &err);
    assert_true(fn(jsonr_root(doc), &numbers));
    for (size_t i = 0; i < numbers.n; i++)
        (void) snprintf(got + strlen(got), sizeof got - strlen(got), "%u%s%s%s ", numbers.all[i].port,
                        numbers.all[i].protos & 1u << DIBS_TCP ? "T" : "",
                        numbers.all[i].protos & 1u << DIBS_UDP ? "U" : "",
                        numbers.all[i].protos & 1u << DIBS_SCTP ? "S" : "");
    assert_string_equal(got, want);
    free(numbers.all);
    jsonr_free(doc);
}

#define T(n) "{\"protocol\":\"TCP\",\"port\":1,\"nodePort\":" #n "}"
#define U(n) "{\"protocol\":\"UDP\",\"port\":1,\"nodePort\":" #n "}"
#define SERVICE(ports, more) "{\"spec\":{\"ports\":[" ports "]" more "}}"
#define HEALTH(n) ",\"healthCheckNodePort\":" #n

static void node_ports_are_collected_as_kubernetes_repairs_them(void **state)
{
    (void) state;
    collects(service_numbers, SERVICE(T(111) "," U(112) "," U(113), ""), "111T 112U 113U ");
    collects(service_numbers, SERVICE(T(111) "," T(111) "," U(112), ""), "111T 112U ");
    collects(service_numbers, SERVICE(U(111) "," U(111) "," T(112), ""), "111U 112T ");
    collects(service_numbers, SERVICE(T(111) "," T(112) "," U(111), ""), "111TU 112T ");
    collects(service_numbers, SERVICE(T(111) "," U(112), HEALTH(113)), "111T 112U 113T ");
    collects(service_numbers, SERVICE(U(111) "," T(112), HEALTH(111)), "111TU 112T ");
    collects(service_numbers, SERVICE(U(111) "," T(112), HEALTH(112)), "111U 112T ");
}

static void a_value_that_is_no_number_is_left_out(void **state)
{
    (void) state;
    collects(service_numbers, SERVICE(T(0) "," T(65536) "," T(-1) ",{\"port\":80},{\"nodePort\":7}", ""),
             "7T ");
    collects(service_numbers,
             SERVICE("{\"protocol\":\"X\",\"nodePort\":9},3", ",\"healthCheckNodePort\":\"a\""), "");
    collects(service_numbers, "{}", "");
    collects(service_numbers, "[]", "");
}

static void host_ports_of_all_containers_count(void **state)
{
    (void) state;
    collects(
        pod_numbers,
        "{\"spec\":{\"containers\":[{\"ports\":[{\"containerPort\":80,\"hostPort\":8080}]},{\"ports\":"
        "[{\"containerPort\":53,\"hostPort\":5353,\"protocol\":\"UDP\"},{\"containerPort\":1}]}],"
        "\"initContainers\":[{\"ports\":[{\"containerPort\":9,\"hostPort\":9,\"protocol\":\"SCTP\"}]}]}}",
        "8080T 5353U 9S ");
    collects(pod_numbers, "{\"spec\":{\"containers\":[{}]}}", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(node_ports_are_collected_as_kubernetes_repairs_them),
        cmocka_unit_test(a_value_that_is_no_number_is_left_out),
        cmocka_unit_test(host_ports_of_all_containers_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
