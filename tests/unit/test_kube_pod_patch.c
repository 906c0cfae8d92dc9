/* SPDX-License-Identifier: MIT */
/* JSONPatch of a pod: every rule of it, by its exact text. */
#include <string.h>

#include "base/auto.h"
#include "kube/webhook/pod_patch.h"
#include "support/t.h"

static struct pod_edit_pair env[] = { { "PORT", "20001" }, { "API_PORT", "20002" } };
static struct pod_edit_pair annotations[] = { { "a.b/c~d", "20001" } };
static struct pod_edit_port tcp[] = { { 20001, "TCP" } };
static struct pod_edit_port both[] = { { 20001, "TCP" }, { 20001, "UDP" } };
static struct pod_edit_port old[] = { { 20009, "TCP" } };

#define HOST(rest) "{\"metadata\":{},\"spec\":{\"hostNetwork\":true," rest "}}"
#define ADD(path, value) "{\"op\":\"add\",\"path\":\"" path "\",\"value\":" value "}"
#define REPLACE(path, value) "{\"op\":\"replace\",\"path\":\"" path "\",\"value\":" value "}"
#define REMOVE(path) "{\"op\":\"remove\",\"path\":\"" path "\"}"
#define PORT_VAR "{\"name\":\"PORT\",\"value\":\"20001\"}"
#define API_VAR "{\"name\":\"API_PORT\",\"value\":\"20002\"}"
#define ENTRY(number, proto) \
    "{\"containerPort\":" #number ",\"hostPort\":" #number ",\"protocol\":\"" proto "\"}"

struct row {
    const char *pod;
    struct pod_edit plan;
    const char *patch; /* "": nothing */
};

static void check(const struct row *row)
{
    AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;
    struct bytes out = { 0 };
    dibs_err err = { 0 };

    ASSERT_OK(jsonr_parse(row->pod, strlen(row->pod), &doc, &err), &err);
    ASSERT_OK(pod_patch_write(jsonr_root(doc), &row->plan, &out, &err), &err);
    bytes_add(&out, "", 1);
    assert_false(out.is_lost);
    assert_string_equal(out.at, row->patch);
    bytes_done(&out);
}

#define ENV .env = env, .n_env = 2
#define NOTES .annotations = annotations, .n_annotations = 1

static void variables_go_to_all_containers_in_place_or_in_front(void **state)
{
    static const struct row rows[] = {
        /* nothing there: the parents are made */
        { "{\"metadata\":{},\"spec\":{\"containers\":[{}]}}",
          { ENV },
          "[" ADD("/spec/containers/0/env", "[" PORT_VAR "," API_VAR "]") "]" },
        { "{\"metadata\":{},\"spec\":{\"containers\":[{\"env\":null}],\"initContainers\":[{}]}}",
          { ENV },
          "[" ADD("/spec/initContainers/0/env", "[" PORT_VAR "," API_VAR "]") "," ADD(
              "/spec/containers/0/env", "[" PORT_VAR "," API_VAR "]") "]" },
        /* in front, in their order */
        { "{\"metadata\":{},\"spec\":{\"containers\":[{\"env\":[{\"name\":\"URL\",\"value\":\"$(PORT)\"}]}]}"
          "}",
          { ENV },
          "[" ADD("/spec/containers/0/env/0", PORT_VAR) "," ADD("/spec/containers/0/env/1", API_VAR) "]" },
        /* in place, wherever its value came from; each of several */
        { "{\"metadata\":{},\"spec\":{\"containers\":[{\"env\":[{\"name\":\"X\"},{\"name\":\"PORT\","
          "\"valueFrom\":{}},"
          "{\"name\":\"PORT\",\"value\":\"1\"}]}]}}",
          { ENV },
          "[" REPLACE("/spec/containers/0/env/1", PORT_VAR) "," REPLACE(
              "/spec/containers/0/env/2", PORT_VAR) "," ADD("/spec/containers/0/env/0", API_VAR) "]" },
        /* as it is to be: nothing */
        { "{\"metadata\":{},\"spec\":{\"containers\":[{\"env\":[" PORT_VAR "," API_VAR "]}]}}", { ENV }, "" },
        { "{\"metadata\":{},\"spec\":{\"containers\":[{\"env\":[{\"name\":\"PORT\",\"value\":\"20001\","
          "\"valueFrom\":{}}," API_VAR "]}]}}",
          { ENV },
          "[" REPLACE("/spec/containers/0/env/0", PORT_VAR) "]" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check(&rows[i]);
}

static void keys_of_annotations_are_escaped(void **state)
{
    static const struct row rows[] = {
        { "{\"metadata\":{},\"spec\":{\"containers\":[{}]}}",
          { NOTES },
          "[" ADD("/metadata/annotations", "{}") "," ADD("/metadata/annotations/a.b~1c~0d",
                                                         "\"20001\"") "]" },
        { "{\"metadata\":{\"annotations\":{\"a.b/c~d\":\"1\"}},\"spec\":{\"containers\":[{}]}}",
          { NOTES },
          "[" ADD("/metadata/annotations/a.b~1c~0d", "\"20001\"") "]" },
        { "{\"metadata\":{\"annotations\":{\"a.b/c~d\":\"20001\"}},\"spec\":{\"containers\":[{}]}}",
          { NOTES },
          "" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check(&rows[i]);
}

static void host_ports_are_visible_to_the_scheduler(void **state)
{
    static const struct row rows[] = {
        { "{\"metadata\":{},\"spec\":{\"containers\":[{}]}}", { .ports = tcp, .n_ports = 1 }, "" },
        { HOST("\"containers\":[{},{}]"),
          { .ports = both, .n_ports = 2 },
          "[" ADD("/spec/containers/0/ports", "[" ENTRY(20001, "TCP") "]") "," ADD(
              "/spec/containers/0/ports/-", ENTRY(20001, "UDP")) "]" },
        /* an entry of that number is completed, in whichever container */
        { HOST("\"containers\":[{},{\"ports\":[{\"containerPort\":80},{\"containerPort\":20001}]}]"),
          { .ports = tcp, .n_ports = 1 },
          "[" ADD("/spec/containers/1/ports/1/hostPort", "20001") "]" },
        /* ... but for an init container: the scheduler does not look at it */
        { HOST("\"containers\":[{}],\"initContainers\":[{\"ports\":[" ENTRY(20001, "TCP") "]}]"),
          { .ports = tcp, .n_ports = 1 },
          "[" ADD("/spec/containers/0/ports", "[" ENTRY(20001, "TCP") "]") "]" },
        /* another protocol is another port */
        { HOST("\"containers\":[{\"ports\":[{\"containerPort\":20001,\"protocol\":\"UDP\"}]}]"),
          { .ports = tcp, .n_ports = 1 },
          "[" ADD("/spec/containers/0/ports/-", ENTRY(20001, "TCP")) "]" },
        { HOST("\"containers\":[{\"ports\":[" ENTRY(20001, "TCP") "]}]"),
          { .ports = tcp, .n_ports = 1 },
          "" },
        /* what a copy has brought along goes, and nothing else */
        { HOST("\"containers\":[{\"ports\":[" ENTRY(20009, "TCP") "," ENTRY(20009, "UDP") "]}]"),
          { .ports = tcp, .n_ports = 1, .obsolete = old, .n_obsolete = 1 },
          "[" ADD("/spec/containers/0/ports/-",
                  ENTRY(20001, "TCP")) "," REMOVE("/spec/containers/0/ports/0") "]" },
        { HOST("\"containers\":[{\"ports\":[" ENTRY(20001, "TCP") "]}]"),
          { .ports = tcp, .n_ports = 1, .obsolete = tcp, .n_obsolete = 1 },
          "" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check(&rows[i]);
}

static void an_object_that_is_no_pod_is_refused_by_its_field(void **state)
{
    static const struct {
        const char *pod, *field;
    } rows[] = {
        { "{\"metadata\":{},\"spec\":{}}", "spec.containers" },
        { "{\"metadata\":{}}", "spec.containers" },
        { "{\"metadata\":{},\"spec\":{\"containers\":{}}}", "spec.containers" },
        { "{\"metadata\":{},\"spec\":{\"containers\":[1]}}", "spec.containers[0]" },
        { "{\"metadata\":{},\"spec\":{\"containers\":[{\"env\":{}}]}}", "/spec/containers/0/env" },
        { "{\"metadata\":{\"annotations\":[]},\"spec\":{\"containers\":[{}]}}", "metadata.annotations" },
        { HOST("\"containers\":[{\"ports\":7}]"), "spec.containers[0].ports" },
    };
    const struct pod_edit plan = { ENV, NOTES, .ports = tcp, .n_ports = 1 };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;
        struct bytes out = { 0 };
        dibs_err err = { 0 };

        ASSERT_OK(jsonr_parse(rows[i].pod, strlen(rows[i].pod), &doc, &err), &err);
        assert_int_equal(pod_patch_write(jsonr_root(doc), &plan, &out, &err), DIBS_INVALID);
        if (!strstr(err.msg, rows[i].field))
            fail_msg("%s: %s", rows[i].pod, err.msg);
        assert_null(out.at);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables_go_to_all_containers_in_place_or_in_front),
        cmocka_unit_test(keys_of_annotations_are_escaped),
        cmocka_unit_test(host_ports_are_visible_to_the_scheduler),
        cmocka_unit_test(an_object_that_is_no_pod_is_refused_by_its_field),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
