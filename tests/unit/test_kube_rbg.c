/* SPDX-License-Identifier: MIT */
/* Objects as RBG's own controllers write them: pods that its allocator has served, and role instances before
 * their pods exist. */
#include "support/review.h"

#define RBG_KEY "rolebasedgroup.workloads.x-k8s.io/port-allocator"
#define LABEL(key, value) "\"rbg.workloads.x-k8s.io/" key "\":\"" value "\""
#define ROLE_LABELS LABEL("group-name", "pd") "," LABEL("role-name", "prefill") "," LABEL("group-uid", "ab12")
/* RBG has no "role-type" on pods. */
#define POD_LABELS(instance, component, id)                                         \
    "\"labels\":{" ROLE_LABELS "," LABEL("role-instance-name", instance) "," LABEL( \
        "component-name", component) "," LABEL("component-id", id) "," LABEL("component-size", "1") "}"
#define META(instance, component, id)           \
    "\"name\":\"" instance "-" component "-" id \
    "\"," OWNER("RoleInstance", instance) "," POD_LABELS(instance, component, id)

#define LEADER_CONFIG                                                                                       \
    "{\\\"allocations\\\":[{\\\"name\\\":\\\"grpc\\\",\\\"env\\\":\\\"GRPC_PORT\\\",\\\"annotationKey\\\":" \
    "\\\"test/grpc\\\",\\\"scope\\\":\\\"PodScoped\\\"},{\\\"name\\\":\\\"http\\\",\\\"env\\\":"            \
    "\\\"HTTP_PORT\\\",\\\"scope\\\":\\\"RoleScoped\\\"}]}"
#define WORKER_CONFIG \
    "{\\\"references\\\":[{\\\"env\\\":\\\"LEADER_PORT\\\",\\\"from\\\":\\\"prefill.leader.grpc\\\"}]}"
#define ENV(name, value) "{\"name\":\"" name "\",\"value\":\"" value "\"}"

/* A pod with this annotation, further annotations, and variables of its container. */
#define SERVED(metadata, config, annotations, env)                                                  \
    "{\"metadata\":{" metadata ",\"annotations\":{\"" RBG_KEY "\":\"" config "\"" annotations "}}," \
    "\"spec\":{\"containers\":[{\"name\":\"main\",\"env\":[" ENV("OTHER", "x") "," env "]}]}}"
#define LEADER(instance, grpc, http)                                                    \
    SERVED(META(instance, "leader", "0"), LEADER_CONFIG, ",\"test/grpc\":\"" grpc "\"", \
           ENV("GRPC_PORT", grpc) "," ENV("HTTP_PORT", http))
#define WORKER(instance, grpc) \
    SERVED(META(instance, "worker", "0"), WORKER_CONFIG, "", ENV("LEADER_PORT", grpc))

static uint16_t port_of(struct engine *e, dibs *handle, const char *name)
{
    dibs_claim claim = { 0 };

    ASSERT_OK(speak_for(handle, "ns:shop", &e->err), &e->err);
    return dibs_claim_find(handle, &(dibs_which){ .name = name }, &claim, NULL) == DIBS_OK ? claim.port : 0;
}

/* Of what RBG wrote nothing is changed. */
static void a_pod_that_rbg_has_served_keeps_its_numbers_and_they_are_claimed(void **state)
{
    struct engine *e = *state;

    for (unsigned is_worker_first = 0; is_worker_first < 2; is_worker_first++) {
        dibs *handle = open_pool(e, is_worker_first ? "21000-21099" : "20000-20099");
        struct asked *pods[4] = {
            create(handle, is_worker_first ? WORKER("pd-prefill-0", "21077")
                                           : LEADER("pd-prefill-0", "20077", "20078")),
            create(handle,
                   is_worker_first ? WORKER("pd-prefill-1", "21079") : WORKER("pd-prefill-0", "20077")),
            create(handle, is_worker_first ? LEADER("pd-prefill-0", "21077", "21078")
                                           : LEADER("pd-prefill-1", "20079", "20078")),
            create(handle, is_worker_first ? LEADER("pd-prefill-1", "21079", "21078")
                                           : WORKER("pd-prefill-1", "20079")),
        };

        for (size_t i = 0; i < 4; i++) {
            ASSERT_ALLOWED(pods[i]);
            assert_null(strstr(pods[i]->patch, "/env"));
            assert_null(strstr(pods[i]->patch, "test~1grpc"));
            free(pods[i]);
        }
        uint16_t first = is_worker_first ? 21077 : 20077;
        assert_int_equal(port_of(e, handle, "pd/prefill/0/leader/grpc"), first);
        assert_int_equal(port_of(e, handle, "pd/prefill/1/leader/grpc"), first + 2);
        assert_int_equal(port_of(e, handle, "pd/prefill/-/leader/http"), first + 1);
        assert_int_equal(count_claims(e, handle), 3);
        ASSERT_OK(
            dibs_claim_release(handle, &(dibs_which){ .all_mine = true }, DIBS_RELEASE_FORCE, NULL, &e->err),
            &e->err);
        dibs_close(handle);
    }
}

static void a_number_of_rbg_that_cannot_be_had_is_refused_with_its_holder(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20099");
    struct asked *first = create(handle, LEADER("pd-prefill-0", "20077", "20078"));
    struct asked *same = create(handle, LEADER("pd-prefill-1", "20077", "20078"));
    struct asked *outside = create(handle, LEADER("pd-prefill-1", "30001", "20078"));

    ASSERT_ALLOWED(first);
    ASSERT_REFUSED(same, 409, "RBG's allocator has given this pod its ports");
    assert_non_null(strstr(same->message, "pod 0/leader of RoleInstance/pd-prefill-0"));
    ASSERT_REFUSED(outside, 422, "allocations[0].env");
    assert_non_null(strstr(outside->message, "30001"));
    assert_int_equal(count_claims(e, handle), 2);
    free(first);
    free(same);
    free(outside);
    dibs_close(handle);
}

/* Numbers that only look like RBG's are replaced, as for any pod. */
static void only_ports_that_rbg_wrote_are_adopted(void **state)
{
    static const char *const pods[] = {
        /* its allocator is off: no variable at all, one of the template, from elsewhere, or not everywhere */
        POD(META("pd-prefill-0", "leader", "0"), RBG_KEY, LEADER_CONFIG),
        SERVED(META("pd-prefill-0", "leader", "0"), LEADER_CONFIG, "", ENV("GRPC_PORT", "20077")),
        SERVED(META("pd-prefill-0", "leader", "0"), LEADER_CONFIG, "",
               ENV("GRPC_PORT", "20077") "," ENV("HTTP_PORT", "20078")), /* no annotation */
        SERVED(META("pd-prefill-0", "leader", "0"), LEADER_CONFIG, ",\"test/grpc\":\"20077\"",
               ENV("GRPC_PORT", "20077") ",{\"name\":\"HTTP_PORT\",\"valueFrom\":{}}"),
        SERVED(META("pd-prefill-0", "leader", "0"), LEADER_CONFIG, ",\"test/grpc\":\"20077\"",
               ENV("GRPC_PORT", "20077") "," ENV("GRPC_PORT", "20079") "," ENV("HTTP_PORT", "20078")),
        SERVED(META("pd-prefill-0", "leader", "0"), LEADER_CONFIG, ",\"test/grpc\":\"70077\"",
               ENV("GRPC_PORT", "70077") "," ENV("HTTP_PORT", "20078")),
        /* not of an instance: a copy */
        SERVED("\"name\":\"copy\"," OWNER("RoleInstance", "pd-prefill-0") "," POD_LABELS("pd-prefill-0",
                                                                                         "leader", "0"),
               LEADER_CONFIG, ",\"test/grpc\":\"20077\"",
               ENV("GRPC_PORT", "20077") "," ENV("HTTP_PORT", "20078")),
    };
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20049");

    for (size_t i = 0; i < sizeof pods / sizeof *pods; i++) {
        struct asked *asked = create(handle, pods[i]);

        ASSERT_ALLOWED(asked);
        assert_string_not_equal(variable(asked, "GRPC_PORT"), "");
        assert_string_not_equal(variable(asked, "GRPC_PORT"), "20077");
        free(asked);
    }
    dibs_close(handle);
}

/* A container that another webhook has added since, and the webhook's own second call. */
static void a_container_that_was_added_gets_the_numbers_of_rbg(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20099");
    struct asked *asked = create(
        handle, "{\"metadata\":{" META(
                    "pd-prefill-0", "leader",
                    "0") ",\"annotations\":{\"" RBG_KEY "\":\"" LEADER_CONFIG
                         "\",\"test/grpc\":\"20077\"}},\"spec\":{\"initContainers\":[{\"name\":\"i\"}],"
                         "\"containers\":[{\"name\":\"main\",\"env\":[" ENV("GRPC_PORT", "20077") "," ENV(
                             "HTTP_PORT", "20078") "]},{\"name\":\"proxy\"}]}}");

    ASSERT_ALLOWED(asked);
    assert_string_equal(
        behind(asked, "/spec/containers/1/env\",\"value\":[{\"name\":\"GRPC_PORT\",\"value\":\""), "20077");
    assert_null(strstr(asked->patch, "/spec/containers/0/env"));
    free(asked);
    dibs_close(handle);
}

/* ---- role instances ---- */

#define INSTANCE_KIND "{\"group\":\"workloads.x-k8s.io\",\"version\":\"v1alpha2\",\"kind\":\"RoleInstance\"}"
#define COMPONENT(name, size, config)                                                                      \
    "{\"name\":\"" name "\",\"serviceName\":\"s-pd-prefill\",\"size\":" size                               \
    ",\"template\":{\"metadata\":{\"labels\":{" ROLE_LABELS "},\"annotations\":{\"" RBG_KEY "\":\"" config \
    "\"}},\"spec\":{\"containers\":[{\"name\":\"main\"}]}}}"
#define INSTANCE(name, type, annotations, components)                                                        \
    "{\"metadata\":{\"name\":\"" name "\",\"labels\":{" ROLE_LABELS "," LABEL("role-type", type) "}," OWNER( \
        "RoleInstanceSet", "pd-prefill") ",\"annotations\":{" annotations                                    \
                                         "}},\"spec\":{\"components\":[" components "]}}"
#define GANG "\"rbg.workloads.x-k8s.io/role-instance-gang-scheduling\":\"true\""
#define BOTH COMPONENT("leader", "1", LEADER_CONFIG) "," COMPONENT("worker", "2", WORKER_CONFIG)

static struct asked *instance(dibs *handle, const char *operation, const char *is, const char *was)
{
    static char more[16384];

    (void) snprintf(more, sizeof more, "\"object\":%s%s%s", is, was ? ",\"oldObject\":" : "", was ? was : "");
    return review_of(handle, INSTANCE_KIND, operation, more);
}

static const char *annotated(const struct asked *asked, const char *key)
{
    char before[128];

    (void) snprintf(before, sizeof before, ANNOTATED "%s\",\"value\":\"", key);
    return behind(asked, before);
}

/* RBG's allocator is off. With gang scheduling its instances have an annotation, so that it looks for the
 * numbers there, and creates no pod without them. */
static void an_instance_gets_the_numbers_of_its_pods_before_they_exist(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20099");
    struct asked *first =
        instance(handle, "CREATE", INSTANCE("pd-prefill-0", "Components", GANG, BOTH), NULL);
    struct asked *second = instance(handle, "CREATE", INSTANCE("pd-prefill-1", "Components", "", BOTH), NULL);

    ASSERT_ALLOWED(first);
    ASSERT_ALLOWED(second);
    const char *grpc = annotated(first, "pd-prefill-0-leader-0.grpc");
    const char *http = annotated(first, "leader.http");
    assert_int_equal(port_request_number(grpc), port_of(e, handle, "pd/prefill/0/leader/grpc"));
    assert_int_equal(port_request_number(http), port_of(e, handle, "pd/prefill/-/leader/http"));
    assert_string_equal(first->warning, "");
    assert_string_equal(annotated(first, "pd-prefill-0-leader-0.http"),
                        http); /* where RBG's references look */
    assert_string_equal(annotated(second, "leader.http"), http);
    assert_string_not_equal(annotated(second, "pd-prefill-1-leader-0.grpc"), grpc);
    assert_null(strstr(first->patch, "/spec"));
    assert_null(strstr(first->patch, "dibs.dev"));
    assert_int_equal(count_claims(e, handle), 3);
    free(first);
    free(second);
    dibs_close(handle);
}

/* By each of RBG's patterns the pod, when RBG makes it with the instance's number, is the one it was claimed
 * for. */
static void the_pods_of_an_instance_have_the_numbers_that_it_got(void **state)
{
#define ONE "{\\\"allocations\\\":[{\\\"name\\\":\\\"http\\\",\\\"env\\\":\\\"PORT\\\"}]}"
#define LABELS(instance, component, id, more)                                       \
    "\"labels\":{" ROLE_LABELS "," LABEL("role-instance-name", instance) "," LABEL( \
        "component-name", component) "," LABEL("component-id", id) more "}"
    static const struct {
        const char *instance, *key, *metadata;
    } rows[] = {
        { INSTANCE("pd-prefill-0", "Components", "", COMPONENT("worker", "2", ONE)), "pd-prefill-0-worker-1",
          LABELS("pd-prefill-0", "worker", "1", "") "," OWNER("RoleInstance", "pd-prefill-0") },
        { INSTANCE("pd-prefill-x7", "Components", "", COMPONENT("worker", "1", ONE)),
          "pd-prefill-x7-worker-0",
          LABELS("pd-prefill-x7", "worker", "0", "") "," OWNER("RoleInstance", "pd-prefill-x7") },
        { INSTANCE("pd-prefill-2", "LeaderWorkerSet", "",
                   COMPONENT("leader", "1", ONE) "," COMPONENT("worker", "2", ONE)),
          "pd-prefill-2-0",
          LABELS("pd-prefill-2", "leader", "0",
                 "," LABEL("component-index", "0")) "," OWNER("RoleInstance", "pd-prefill-2") },
        { INSTANCE("pd-prefill-3", "LeaderWorkerSet", "",
                   COMPONENT("leader", "1", ONE) "," COMPONENT("worker", "2", ONE)),
          "pd-prefill-3-2",
          LABELS("pd-prefill-3", "worker", "1",
                 "," LABEL("component-index", "2")) "," OWNER("RoleInstance", "pd-prefill-3") },
        { INSTANCE("pd-prefill-4", "PodTemplate", "", COMPONENT("prefill", "1", ONE)), "pd-prefill-4",
          LABELS("pd-prefill-4", "prefill", "0", "") "," OWNER("RoleInstance", "pd-prefill-4") },
    };
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20099");

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct asked *asked = instance(handle, "CREATE", rows[i].instance, NULL);
        char key[64];
        char pod[4096];

        ASSERT_ALLOWED(asked);
        size_t n = count_claims(e, handle);
        (void) snprintf(key, sizeof key, "%s.http", rows[i].key);
        const char *number = annotated(asked, key);
        assert_string_not_equal(number, "");
        (void) snprintf(
            pod, sizeof pod,
            "{\"metadata\":{\"name\":\"%s\",%s,\"annotations\":{\"" RBG_KEY "\":\"" ONE
            "\"}},\"spec\":{\"containers\":[{\"name\":\"main\",\"env\":[{\"name\":\"PORT\",\"value\":\"%s\"}"
            "]}]}}",
            rows[i].key, rows[i].metadata, number);
        struct asked *made = create(handle, pod);
        ASSERT_ALLOWED(made);
        assert_null(strstr(made->patch, "/env"));
        assert_int_equal(count_claims(e, handle), n);
        free(asked);
        free(made);
    }
    dibs_close(handle);
}

static void numbers_that_rbg_drew_for_an_instance_are_kept_where_they_can_be_had(void **state)
{
#define DRAWN(instance, grpc, http) "\"" instance "-leader-0.grpc\":\"" grpc "\",\"leader.http\":\"" http "\""
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20099");
    struct asked *first =
        instance(handle, "CREATE",
                 INSTANCE("pd-prefill-0", "Components", DRAWN("pd-prefill-0", "20077", "20078"), BOTH), NULL);
    struct asked *second =
        instance(handle, "CREATE",
                 INSTANCE("pd-prefill-1", "Components", DRAWN("pd-prefill-1", "20077", "20078"), BOTH), NULL);
    struct asked *third =
        instance(handle, "CREATE",
                 INSTANCE("pd-prefill-2", "Components", DRAWN("pd-prefill-2", "30001", "20078"), BOTH), NULL);

    ASSERT_ALLOWED(first);
    assert_string_equal(annotated(first, "pd-prefill-0-leader-0.grpc"), ""); /* as it is */
    assert_string_equal(annotated(first, "leader.http"), "");
    assert_string_equal(first->warning, "");
    assert_int_equal(port_of(e, handle, "pd/prefill/0/leader/grpc"), 20077);
    assert_int_equal(port_of(e, handle, "pd/prefill/-/leader/http"), 20078);
    ASSERT_ALLOWED(second);
    assert_int_equal(port_request_number(annotated(second, "pd-prefill-1-leader-0.grpc")),
                     port_of(e, handle, "pd/prefill/1/leader/grpc"));
    assert_non_null(strstr(second->warning, "pd-prefill-1-leader-0.grpc: port 20077 cannot be had"));
    ASSERT_ALLOWED(third);
    assert_int_equal(port_request_number(annotated(third, "pd-prefill-2-leader-0.grpc")),
                     port_of(e, handle, "pd/prefill/2/leader/grpc"));
    assert_non_null(strstr(third->warning, "port 30001 cannot be had"));
    free(first);
    free(second);
    free(third);
    dibs_close(handle);
}

static void an_update_of_an_instance_adds_numbers_and_changes_none(void **state)
{
#define WORKERS(n) COMPONENT("worker", n, ONE)
#define HAS(id, number) "\"pd-prefill-0-worker-" id ".http\":\"" number "\""
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20099");
    const char *one = INSTANCE("pd-prefill-0", "Components", HAS("0", "20010"), WORKERS("1"));
    struct asked *made = instance(handle, "CREATE", one, NULL);
    struct asked *same = instance(NULL, "UPDATE", one, one); /* without the ledger */
    struct asked *grown = instance(
        handle, "UPDATE", INSTANCE("pd-prefill-0", "Components", HAS("0", "20010"), WORKERS("2")), one);
    struct asked *changed = instance(
        handle, "UPDATE", INSTANCE("pd-prefill-0", "Components", HAS("0", "20011"), WORKERS("1")), one);
    struct asked *removed =
        instance(handle, "UPDATE", INSTANCE("pd-prefill-0", "Components", GANG, WORKERS("1")), one);

    ASSERT_ALLOWED(made);
    ASSERT_ALLOWED(same);
    assert_string_equal(same->patch, "");
    ASSERT_ALLOWED(grown);
    assert_string_equal(annotated(grown, "pd-prefill-0-worker-0.http"), "");
    assert_int_equal(port_request_number(annotated(grown, "pd-prefill-0-worker-1.http")),
                     port_of(e, handle, "pd/prefill/0/worker.1/http"));
    ASSERT_REFUSED(changed, 422, "metadata.annotations[pd-prefill-0-worker-0.http] cannot be changed");
    /* a shared number that RBG drew before dibs came stays as the pods have it */
    struct asked *old = instance(
        NULL, "UPDATE", INSTANCE("pd-prefill-1", "Components", DRAWN("pd-prefill-1", "30001", "30002"), BOTH),
        INSTANCE("pd-prefill-1", "Components", DRAWN("pd-prefill-1", "30001", "30002"), BOTH));

    ASSERT_ALLOWED(old);
    assert_string_equal(old->patch, "");
    free(old);
    ASSERT_ALLOWED(removed);
    assert_string_equal(annotated(removed, "pd-prefill-0-worker-0.http"), "20010");
    assert_int_equal(count_claims(e, handle), 2);
    free(made);
    free(same);
    free(grown);
    free(changed);
    free(removed);
    dibs_close(handle);
}

static void an_instance_that_cannot_have_the_annotations_is_left_as_it_is(void **state)
{
#define LONG_NAME "pd-prefill-that-is-much-longer-than-any-name-should-be-0"
    static const struct {
        const char *instance, *warning;
    } rows[] = {
        { INSTANCE(LONG_NAME, "Components", "", BOTH),
          "no annotation as long as " LONG_NAME "-leader-0.grpc" },
        { INSTANCE("pd-prefill-0", "Components", "", WORKERS("2147483647")), "too many ports" },
        { INSTANCE("pd-prefill-0", "Components", "", WORKERS("-1")), "" },
        { INSTANCE("pd-prefill-0", "Components", "", COMPONENT("worker", "1", WORKER_CONFIG)), "" },
        { INSTANCE("", "Components", "", BOTH), "" },
        { "{\"metadata\":{\"name\":\"x\"},\"spec\":{\"components\":7}}", "" },
    };
    struct asked *wrong = instance(
        NULL, "CREATE", INSTANCE("pd-prefill-0", "Components", "", COMPONENT("worker", "1", "[")), NULL);

    (void) state;
    ASSERT_REFUSED(wrong, 422, "spec.components[0].template.metadata.annotations[" RBG_KEY "]");
    free(wrong);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct asked *asked = instance(NULL, "CREATE", rows[i].instance, NULL); /* without the ledger */

        ASSERT_ALLOWED(asked);
        assert_string_equal(asked->patch, "");
        if (!strstr(asked->warning, rows[i].warning) || (!*rows[i].warning && asked->warning[0]))
            fail_msg("%zu: %s", i, asked->warning);
        free(asked);
    }
}

static void a_number_for_several_pods_of_an_instance_is_refused(void **state)
{
#define FIXED \
    "{\\\"allocations\\\":[{\\\"name\\\":\\\"http\\\",\\\"env\\\":\\\"PORT\\\",\\\"port\\\":20050}]}"
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20099");
    struct asked *one = instance(
        handle, "CREATE", INSTANCE("pd-prefill-0", "Components", "", COMPONENT("leader", "1", FIXED)), NULL);
    struct asked *two = instance(
        handle, "CREATE", INSTANCE("pd-prefill-1", "Components", "", COMPONENT("leader", "2", FIXED)), NULL);

    ASSERT_ALLOWED(one);
    ASSERT_REFUSED(two, 422, "allocations 'http': port 20050 cannot be that of several pods");
    free(one);
    free(two);
    dibs_close(handle);
}

/* Pods of a component with shared ports only have one number, however many they are. */
static void a_component_of_any_size_with_shared_ports_is_read_at_once(void **state)
{
#define SHARED                                                                                 \
    "{\\\"allocations\\\":[{\\\"name\\\":\\\"http\\\",\\\"env\\\":\\\"PORT\\\",\\\"scope\\\":" \
    "\\\"RoleScoped\\\"}]}"
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20099");
    struct asked *asked = instance(
        handle, "CREATE",
        INSTANCE("pd-prefill-0", "Components", "", COMPONENT("leader", "9223372036854775807", SHARED)), NULL);

    ASSERT_ALLOWED(asked);
    assert_string_not_equal(annotated(asked, "leader.http"), "");
    assert_string_equal(annotated(asked, "pd-prefill-0-leader-0.http"), annotated(asked, "leader.http"));
    assert_int_equal(count_claims(e, handle), 1);
    free(asked);
    dibs_close(handle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(a_pod_that_rbg_has_served_keeps_its_numbers_and_they_are_claimed),
        E_TEST(a_number_of_rbg_that_cannot_be_had_is_refused_with_its_holder),
        E_TEST(only_ports_that_rbg_wrote_are_adopted),
        E_TEST(a_container_that_was_added_gets_the_numbers_of_rbg),
        E_TEST(an_instance_gets_the_numbers_of_its_pods_before_they_exist),
        E_TEST(the_pods_of_an_instance_have_the_numbers_that_it_got),
        E_TEST(numbers_that_rbg_drew_for_an_instance_are_kept_where_they_can_be_had),
        E_TEST(an_update_of_an_instance_adds_numbers_and_changes_none),
        E_TEST(an_instance_that_cannot_have_the_annotations_is_left_as_it_is),
        E_TEST(a_number_for_several_pods_of_an_instance_is_refused),
        E_TEST(a_component_of_any_size_with_shared_ports_is_read_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
