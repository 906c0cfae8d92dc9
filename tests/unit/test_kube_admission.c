/* SPDX-License-Identifier: MIT */
/* Reviews from question to answer, on a real ledger: what is asked for is claimed once, however often it is
 * repeated gets the same, and a copy does not. */
#include "support/review.h"

static void an_object_without_a_request_passes_without_a_ledger(void **state)
{
    static const char *const bodies[] = {
        "\"object\":{\"metadata\":{\"name\":\"a\"}," BODY "}",
        "\"object\":{\"metadata\":{\"name\":\"a\",\"annotations\":{\"dibs.dev/ports\":\"\"}}," BODY "}",
        "\"object\":{\"metadata\":{\"name\":\"a\",\"annotations\":{\"dibs.dev/ports\":\"{}\"}}," BODY "}",
        "\"subResource\":\"status\",\"object\":" OWN("\"name\":\"a\"", HTTP),
        "\"subResource\":\"binding\",\"object\":" OWN("\"name\":\"a\"", "{"),
        "\"object\":null",
    };

    (void) state;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        struct asked *asked = review(NULL, "CREATE", bodies[i]);

        ASSERT_ALLOWED(asked);
        assert_string_equal(asked->patch, "");
        free(asked);
    }
    struct asked *asked = review(NULL, "DELETE", "\"oldObject\":" OWN("\"name\":\"a\"", HTTP));
    ASSERT_ALLOWED(asked);
    free(asked);
}

static void a_static_pod_is_shown_and_not_asked(void **state)
{
    struct asked *asked =
        review(NULL, "CREATE",
               "\"object\":{\"metadata\":{\"name\":\"a\",\"annotations\":{\"dibs.dev/ports\":\"" HTTP
               "\",\"kubernetes.io/config.mirror\":\"x\"}}," BODY "}");

    (void) state;
    ASSERT_ALLOWED(asked);
    assert_string_equal(asked->patch, "");
    assert_non_null(strstr(asked->warning, "static pod"));
    free(asked);
}

static void a_named_instance_gets_the_same_port_again(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20099");
    struct asked *first = create(handle, OWN(SET(0), HTTP));
    struct asked *again = create(handle, OWN(SET(0), HTTP));
    struct asked *other = create(handle, OWN(SET(1), HTTP));

    ASSERT_ALLOWED(first);
    assert_string_equal(variable(first, "PORT"), variable(again, "PORT"));
    assert_string_not_equal(variable(first, "PORT"), variable(other, "PORT"));
    assert_non_null(strstr(assigned(first), "StatefulSet.web/web/0/-/http"));
    assert_non_null(strstr(assigned(first), "\\\"kind\\\":\\\"StatefulSet/web\\\""));
    assert_int_equal(strlen(claim_id(first)), IDENTITY_ID_MAX);
    free(first);
    free(again);
    free(other);
    dibs_close(handle);
}

/* The pod as the API server asks about it once more, after our patch. */
static struct asked *reinvoke(dibs *handle, const struct asked *first, const char *metadata, const char *more)
{
    static char pod[32768];

    (void) snprintf(
        pod, sizeof pod,
        "{\"metadata\":{%s,\"annotations\":{\"dibs.dev/ports\":\"" HTTP
        "\",\"dibs.dev/claim\":\"%s\",\"dibs.dev/assigned\":\"%s\",\"dibs.dev/signature\":\"%s\"}},"
        "\"spec\":{\"containers\":[{\"name\":"
        "\"main\",\"env\":[{\"name\":\"PORT\",\"value\":\"%s\"}]}]}%s}",
        metadata, claim_id(first), assigned(first), signature(first), variable(first, "PORT"), more);
    return create(handle, pod);
}

#define REPLICA \
    "\"generateName\":\"web-7d-\",\"labels\":{\"pod-template-hash\":\"7d\"}," OWNER("ReplicaSet", "web-7d")

static void asked_once_more_nothing_changes(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20099");
    struct asked *first = create(handle, OWN(REPLICA, HTTP));
    struct asked *again = reinvoke(handle, first, REPLICA, "");

    ASSERT_ALLOWED(first);
    ASSERT_ALLOWED(again);
    assert_string_equal(again->patch, "");
    free(again);
    free(first);
    first = create(handle, OWN(SET(0), HTTP));
    again = reinvoke(handle, first, SET(0), "");
    assert_string_equal(again->patch, "");
    free(again);
    free(first);
    dibs_close(handle);
}

static void a_copy_gets_ports_of_its_own(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20099");
    struct asked *first = create(handle, OWN(REPLICA, HTTP));
    struct asked *copy = reinvoke(handle, first, "\"name\":\"web-7d-abc-copy\"," REPLICA, "");
    char name[DIBS_NAME_MAX + 1];

    ASSERT_ALLOWED(copy);
    assert_string_not_equal(variable(copy, "PORT"), "");
    assert_string_not_equal(variable(copy, "PORT"), variable(first, "PORT"));
    assert_string_not_equal(claim_id(copy), claim_id(first));
    free(copy);
    /* without a name, as it was read from the API server: no controller has seen the original yet */
    copy = reinvoke(handle, first, REPLICA, ",\"status\":{\"phase\":\"Pending\"}");
    assert_string_not_equal(variable(copy, "PORT"), "");
    assert_string_not_equal(variable(copy, "PORT"), variable(first, "PORT"));
    free(copy);
    /* without a name, when the original's claim is confirmed */
    (void) snprintf(name, sizeof name, "Deployment.web/web/~%s/-/http", claim_id(first));
    ASSERT_OK(speak_for(handle, "ns:shop", &e->err), &e->err);
    ASSERT_OK(dibs_claim_release(handle, &(dibs_which){ .name = name }, DIBS_RELEASE_UNHOLD, NULL, &e->err),
              &e->err);
    copy = reinvoke(handle, first, REPLICA, "");
    assert_string_not_equal(variable(copy, "PORT"), "");
    assert_string_not_equal(variable(copy, "PORT"), variable(first, "PORT"));
    free(copy);
    free(first);
    /* of a named pod, under another name */
    first = create(handle, OWN(SET(0), HTTP));
    copy = reinvoke(handle, first, "\"name\":\"web-0-copy\"," OWNER("StatefulSet", "web"), "");
    assert_string_not_equal(variable(copy, "PORT"), "");
    assert_string_not_equal(variable(copy, "PORT"), variable(first, "PORT"));
    free(copy);
    free(first);
    dibs_close(handle);
}

static void a_dry_run_claims_nothing(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20099");
    struct asked *asked = review(handle, "CREATE", "\"dryRun\":true,\"object\":" OWN(SET(0), HTTP));

    ASSERT_ALLOWED(asked);
    assert_string_not_equal(variable(asked, "PORT"), "");
    assert_int_equal(count_claims(e, handle), 0);
    free(asked);
    dibs_close(handle);
}

static void refusals_name_the_field_and_claim_nothing(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20001");
    static const struct {
        const char *pod, *text;
        int code;
    } rows[] = {
        { OWN("\"name\":\"a\"", "{"), "metadata.annotations[dibs.dev/ports]: failed to parse", 422 },
        { OWN("\"name\":\"a\"", "{\\\"allocations\\\":[{\\\"env\\\":\\\"A\\\"}]}"),
          "allocations[0].name is required", 422 },
        { OWN("\"name\":\"a\"", "{\\\"allocations\\\":[{\\\"name\\\":\\\"a\\\",\\\"env\\\":\\\"A\\\","
                                "\\\"scope\\\":\\\"X\\\"}]}"),
          "allocations[0].scope must be", 422 },
        { OWN("\"name\":\"a\"", "{\\\"allocations\\\":[{\\\"name\\\":\\\"a\\\",\\\"env\\\":\\\"A\\\"},{"
                                "\\\"name\\\":\\\"a\\\",\\\"env\\\":\\\"B\\\"}]}"),
          "allocations[1].name is that of allocations[0]", 422 },
        { OWN("\"name\":\"a\"", "{\\\"allocations\\\":[{\\\"name\\\":\\\"a\\\",\\\"env\\\":\\\"A\\\"},{"
                                "\\\"name\\\":\\\"b\\\",\\\"env\\\":\\\"A\\\"}]}"),
          "allocations[1].env is that of allocations[0]", 422 },
        { OWN("\"name\":\"a\"", "{\\\"allocations\\\":[{\\\"name\\\":\\\"a\\\",\\\"env\\\":\\\"A\\\","
                                "\\\"annotationKey\\\":\\\"dibs.dev/claim\\\"}]}"),
          "annotationKey is one that dibs writes", 422 },
        { OWN("\"name\":\"a\"",
              "{\\\"allocations\\\":[{\\\"name\\\":\\\"a\\\",\\\"env\\\":\\\"A\\\",\\\"port\\\":80}]}"),
          "metadata.annotations[dibs.dev/ports]: allocations[0].port: port 80 is not in the valid range",
          422 },
        { OWN("\"name\":\"a\"", "{\\\"allocations\\\":[{\\\"name\\\":\\\"a\\\",\\\"env\\\":\\\"A\\\"},{"
                                "\\\"name\\\":\\\"b\\\",\\\"env\\\":"
                                "\\\"B\\\",\\\"prefer\\\":80}]}"),
          "allocations[1].prefer: port 80 is not in the valid range", 422 },
        { OWN("\"name\":\"a\"",
              "{\\\"allocations\\\":[{\\\"name\\\":\\\"a\\\",\\\"env\\\":\\\"A\\\",\\\"count\\\":3}]}"),
          "left in pool 'kube'", 403 },
        { OWN("\"name\":\"a\"",
              "{\\\"references\\\":[{\\\"env\\\":\\\"A\\\",\\\"from\\\":\\\"api.http\\\"}]}"),
          "references[0].from: role 'api' is not in the group", 422 },
        { OWN("\"name\":\"a\"", "{\\\"references\\\":[{\\\"env\\\":\\\"A\\\",\\\"from\\\":\\\"a.http\\\"}]}"),
          "references[0].from: role 'a' has no port 'http'; it has none", 422 },
        { "{\"metadata\":{\"name\":\"a\",\"annotations\":{\"dibs.dev/ports\":\"" HTTP "\"}},\"spec\":{}}",
          "spec.containers", 422 },
        { "{\"metadata\":{\"name\":\"a\",\"annotations\":{\"dibs.dev/ports\":\"" HTTP
          "\",\"rolebasedgroup.workloads.x-k8s.io/port-allocator\":\"\"}}," BODY "}",
          "one is enough", 422 },
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct asked *asked = create(handle, rows[i].pod);

        ASSERT_REFUSED(asked, rows[i].code, rows[i].text);
        free(asked);
    }
    assert_int_equal(count_claims(e, handle), 0);
    dibs_close(handle);
}

#define CLAIM_A                        \
    "\"dibs.dev/claim\":\""            \
    "0123456789abcdef0123456789abcdef" \
    "\""
#define CHANGE(old, new) "\"oldObject\":{\"metadata\":{" old "}},\"object\":{\"metadata\":{" new "}}"
#define NOTE(config, more) "\"annotations\":{\"dibs.dev/ports\":\"" config "\"" more "}"

static void the_assignment_of_a_pod_cannot_be_changed(void **state)
{
    static const struct {
        const char *more, *field; /* NULL: allowed */
    } rows[] = {
        { CHANGE(NOTE(HTTP, "," CLAIM_A), NOTE(HTTP, "," CLAIM_A ",\"x\":\"y\"")), NULL },
        { CHANGE("\"name\":\"a\"", "\"name\":\"a\",\"labels\":{\"dibs.dev/group\":\"g\"}"), NULL },
        { CHANGE(NOTE(HTTP, "," CLAIM_A), NOTE("{}", "," CLAIM_A)), "annotations[dibs.dev/ports]" },
        { CHANGE("\"name\":\"a\"", NOTE(HTTP, "")), "annotations[dibs.dev/ports]" },
        { CHANGE(NOTE(HTTP, "," CLAIM_A), "\"annotations\":{" CLAIM_A "}"), "annotations[dibs.dev/ports]" },
        { CHANGE(NOTE(HTTP, "," CLAIM_A), NOTE(HTTP, "")), "annotations[dibs.dev/claim]" },
        { CHANGE(NOTE(HTTP, "," CLAIM_A), NOTE(HTTP, "," CLAIM_A ",\"dibs.dev/assigned\":\"[]\"")),
          "annotations[dibs.dev/assigned]" },
        { CHANGE(NOTE(HTTP, "," CLAIM_A), NOTE(HTTP, "," CLAIM_A) ",\"labels\":{\"dibs.dev/group\":\"g\"}"),
          "labels[dibs.dev/group]" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct asked *asked = review(NULL, "UPDATE", rows[i].more);

        if (rows[i].field)
            ASSERT_REFUSED(asked, 422, rows[i].field);
        else
            ASSERT_ALLOWED(asked);
        free(asked);
    }
}

/* The manifest has values of its own where the pod has those of its ports. */
static void a_pod_that_is_applied_again_keeps_its_variables_and_annotations(void **state)
{
#define APPLIED(annotation, port, more)                                                                      \
    "{\"metadata\":{" NOTE(                                                                                  \
        "{\\\"allocations\\\":[{\\\"name\\\":\\\"a\\\",\\\"env\\\":\\\"PORT\\\","                            \
        "\\\"annotationKey\\\":\\\"my/a\\\"}],\\\"references\\\":[{\\\"env\\\":\\\"PEER\\\","                \
        "\\\"from\\\":\\\"b.http\\\"}]}",                                                                    \
        "," CLAIM_A ",\"my/a\":\"" annotation "\"") "},\"spec\":{\"containers\":[{\"name\":"                 \
                                                    "\"main\",\"env\":[{\"name\":\"PORT\",\"value\":\"" port \
                                                    "\"},{\"name\":\"PEER\",\"value\":\"20009\"}" more       \
                                                    "]}]}}"
    static const char old[] = "\"oldObject\":" APPLIED("20001", "20001", "") ",\"object\":";
    char more[4096];

    (void) state;
    (void) snprintf(more, sizeof more, "%s%s", old, APPLIED("0", "8080", ",{\"name\":\"PEER\"}"));
    struct asked *again = review(NULL, "UPDATE", more);
    (void) snprintf(more, sizeof more, "%s%s", old, APPLIED("20001", "20001", ""));
    struct asked *same = review(NULL, "UPDATE", more);

    ASSERT_ALLOWED(again);
    assert_string_equal(
        again->patch,
        "[{\"op\":\"replace\",\"path\":\"/spec/containers/0/env/0\",\"value\":{\"name\":"
        "\"PORT\",\"value\":\"20001\"}},{\"op\":\"replace\",\"path\":\"/spec/containers/0/env/2\","
        "\"value\":{\"name\":\"PEER\",\"value\":\"20009\"}},{\"op\":\"add\",\"path\":\"/metadata/"
        "annotations/my~1a\",\"value\":\"20001\"}]");
    assert_non_null(strstr(again->warning, "stay as they are"));
    ASSERT_ALLOWED(same);
    assert_string_equal(same->patch, "");
    assert_string_equal(same->warning, "");
    free(again);
    free(same);
}

static void templates_are_checked_when_they_are_written(void **state)
{
#define INSTANCE(config)                                                                           \
    "\"kind\":{\"group\":\"workloads.x-k8s.io\",\"kind\":\"RoleInstance\"},\"object\":{\"spec\":{" \
    "\"components\":[{},"                                                                          \
    "{\"template\":{\"metadata\":{\"annotations\":{\"dibs.dev/ports\":\"" config "\"}}}}]}}"
    static char text[4096];
    static const char *const heads[] = { INSTANCE(HTTP), INSTANCE("{\\\"allocations\\\":[{}]}") };
    dibs_err err = { 0 };

    (void) state;
    for (size_t i = 0; i < 2; i++) {
        struct admission a = { 0 };

        int n = snprintf(
            text, sizeof text,
            "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{\"uid\":"
            "\"u\",\"operation\":\"CREATE\",%s}}",
            heads[i]);
        ASSERT_OK(admission_begin(&options, text, (size_t) n, &a, &err), &err);
        assert_false(a.needs_ledger);
        assert_int_equal(a.verdict.is_allowed, i == 0);
        if (i == 1)
            assert_non_null(strstr(a.verdict.message,
                                   "spec.components[1].template.metadata.annotations[dibs.dev/"
                                   "ports]: allocations[0].name is required"));
        admission_done(&a);
    }
}

/* ---- a changed configuration ---- */

/* The pod of that name may still be there: the API server says so only after it has asked us. */
static void a_change_ends_no_port_that_may_be_in_use(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20099");
    const char *udp = "{\\\"allocations\\\":[{\\\"name\\\":\\\"http\\\",\\\"env\\\":\\\"PORT\\\","
                      "\\\"proto\\\":\\\"udp\\\"}]}";
    char pod[2048];
    struct asked *first = create(handle, OWN(SET(0), HTTP));
    (void) snprintf(pod, sizeof pod,
                    "{\"metadata\":{" SET(0) ",\"annotations\":{\"dibs.dev/ports\":\"%s\"}}," BODY "}", udp);
    struct asked *changed = create(handle, pod);
    dibs_claim claim = { 0 };
    char left[DIBS_NAME_MAX + 1];

    ASSERT_ALLOWED(changed);
    assert_string_equal(variable(changed, "PORT"),
                        variable(first, "PORT")); /* another protocol, free there */
    (void) snprintf(left, sizeof left, "StatefulSet.web/web/0/-/http/%s", variable(first, "PORT"));
    ASSERT_OK(speak_for(handle, "ns:shop", &e->err), &e->err);
    ASSERT_OK(dibs_claim_find(handle, &(dibs_which){ .name = left }, &claim, &e->err), &e->err);
    assert_true(claim.is_kept);
    assert_int_equal(claim.bindings[0].proto, DIBS_TCP);
    free(first);
    free(changed);
    dibs_close(handle);
}

/* Bare pods share it, and nobody but they would keep it under another name. */
static void a_port_that_bare_pods_share_does_not_change(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20099");
#define GOSSIP(proto)                                                               \
    OWN("\"generateName\":\"bare-\"",                                               \
        "{\\\"allocations\\\":[{\\\"name\\\":\\\"gossip\\\",\\\"env\\\":\\\"G\\\"," \
        "\\\"scope\\\":\\\"RoleScoped\\\",\\\"proto\\\":\\\"" proto "\\\"}]}")
    struct asked *one = create(handle, GOSSIP("tcp"));
    struct asked *two = create(handle, GOSSIP("tcp"));
    struct asked *other = create(handle, GOSSIP("udp"));

    ASSERT_ALLOWED(one);
    ASSERT_ALLOWED(two);
    assert_string_equal(variable(one, "G"), variable(two, "G"));
    ASSERT_REFUSED(other, 409, "give the port another name");
    free(one);
    free(two);
    free(other);
    dibs_close(handle);
}

static void blocks_counts_and_host_ports(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20099");
    const char *pod =
        "{\"metadata\":{" SET(0) ",\"annotations\":{\"dibs.dev/ports\":\"{\\\"allocations\\\":[{\\\"name\\\":"
                                 "\\\"ranks\\\",\\\"env\\\":\\\"RANKS\\\",\\\"count\\\":3,\\\"contiguous\\\":"
                                 "true},{\\\"name\\\":\\\"two\\\","
                                 "\\\"env\\\":\\\"TWO\\\",\\\"count\\\":2,\\\"proto\\\":\\\"tcp+udp\\\"},"
                                 "{\\\"name\\\":\\\"all\\\",\\\"env\\\":\\\"ALL\\\",\\\"scope\\\":"
                                 "\\\"RoleScoped\\\",\\\"hostPort\\\":false}]}\"}"
                                 "},\"spec\":{\"hostNetwork\":true,"
                                 "\"containers\":[{\"name\":\"main\"}]}}";
    struct asked *asked = create(handle, pod);
    char entry[128];
    unsigned base = 0;

    ASSERT_ALLOWED(asked);
    base = (unsigned) strtoul(variable(asked, "RANKS"), NULL, 10);
    for (unsigned i = 0; i < 3; i++) {
        (void) snprintf(entry, sizeof entry, "{\"containerPort\":%u,\"hostPort\":%u,\"protocol\":\"TCP\"}",
                        base + i, base + i);
        assert_non_null(strstr(asked->patch, entry));
    }
    assert_non_null(strchr(variable(asked, "TWO"), ','));
    assert_non_null(strstr(asked->patch, "\"protocol\":\"UDP\""));
    (void) snprintf(entry, sizeof entry, "\"hostPort\":%s,", variable(asked, "ALL"));
    assert_null(strstr(asked->patch, entry)); /* "hostPort": false */
    assert_int_equal(count_claims(e, handle), 6);
    free(asked);
    dibs_close(handle);
}

static void a_malformed_review_is_a_bad_request(void **state)
{
    static const char *const texts[] = {
        "",
        "{",
        "[]",
        "{}",
        "{\"apiVersion\":\"admission.k8s.io/"
        "v1beta1\",\"kind\":\"AdmissionReview\",\"request\":{\"uid\":\"u\",\"kind\":{}}}",
        "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\"}",
        "{\"apiVersion\":\"admission.k8s.io/"
        "v1\",\"kind\":\"AdmissionReview\",\"request\":{\"uid\":\"\",\"kind\":{}}}",
        "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{\"uid\":\"u\"}}",
    };

    (void) state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct admission a = { 0 };
        dibs_err err = { 0 };

        assert_int_equal(admission_begin(&options, texts[i], strlen(texts[i]), &a, &err), DIBS_INVALID);
        assert_null(a.review.doc);
    }
}

static void an_answer_has_the_form_that_the_api_server_reads(void **state)
{
    struct review_verdict verdict = { .is_allowed = true };
    struct bytes out = { 0 };

    (void) state;
    bytes_add_text(&verdict.patch, "[]");
    for (int i = 0; i < REVIEW_WARNINGS_MAX + 1; i++)
        review_warn(&verdict.warnings, "%d", i);
    review_write("u-\"1", &verdict, &out);
    bytes_add(&out, "", 1);
    assert_string_equal(
        out.at, "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"response\":{\"uid\":"
                "\"u-\\\"1\",\"allowed\":true,\"patchType\":\"JSONPatch\",\"patch\":\"W10=\",\"warnings\":["
                "\"dibs: 0\",\"dibs: 1\",\"dibs: 2\",\"dibs: 3\"]}}\n");
    bytes_done(&out);
    out = (struct bytes){ 0 };
    verdict.warnings.n = 0;
    verdict.is_allowed = false;
    verdict.code = 422;
    (void) snprintf(verdict.message, sizeof verdict.message, "no way");
    review_write("u", &verdict, &out);
    bytes_add(&out, "", 1);
    assert_string_equal(
        out.at,
        "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"response\":{\"uid\":\"u\","
        "\"allowed\":false,\"status\":{\"status\":\"Failure\",\"reason\":\"Invalid\",\"code\":422,"
        "\"message\":\"no way\"}}}\n");
    bytes_done(&out);
    bytes_done(&verdict.patch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_object_without_a_request_passes_without_a_ledger),
        cmocka_unit_test(a_static_pod_is_shown_and_not_asked),
        E_TEST(a_named_instance_gets_the_same_port_again),
        E_TEST(asked_once_more_nothing_changes),
        E_TEST(a_copy_gets_ports_of_its_own),
        E_TEST(a_dry_run_claims_nothing),
        E_TEST(refusals_name_the_field_and_claim_nothing),
        cmocka_unit_test(the_assignment_of_a_pod_cannot_be_changed),
        cmocka_unit_test(a_pod_that_is_applied_again_keeps_its_variables_and_annotations),
        cmocka_unit_test(templates_are_checked_when_they_are_written),
        E_TEST(a_change_ends_no_port_that_may_be_in_use),
        E_TEST(a_port_that_bare_pods_share_does_not_change),
        E_TEST(blocks_counts_and_host_ports),
        cmocka_unit_test(a_malformed_review_is_a_bad_request),
        cmocka_unit_test(an_answer_has_the_form_that_the_api_server_reads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
