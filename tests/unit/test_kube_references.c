/* SPDX-License-Identifier: MIT */
/* Ports of pods for each other: RBG's forms, and references within a group, in whatever order they come.
 */
#include "support/review.h"

/* ---- RBG ---- */

#define RBG(type, component, id)                                                                     \
    "\"labels\":{\"rbg.workloads.x-k8s.io/group-name\":\"pd\",\"rbg.workloads.x-k8s.io/role-name\":" \
    "\"prefill\",\"rbg.workloads.x-k8s.io/role-type\":\"" type                                       \
    "\",\"rbg.workloads.x-k8s.io/component-name\":\"" component                                      \
    "\",\"rbg.workloads.x-k8s.io/component-id\":\"" id "\"}"
#define RBG_KEY "rolebasedgroup.workloads.x-k8s.io/port-allocator"
#define LEADER_CONFIG                                                                                      \
    "{\\\"allocations\\\":[{\\\"name\\\":\\\"leader-port\\\",\\\"env\\\":\\\"LEADER_PORT\\\","             \
    "\\\"annotationKey\\\":"                                                                               \
    "\\\"test/"                                                                                            \
    "grpc-port\\\",\\\"scope\\\":\\\"PodScoped\\\"},{\\\"name\\\":\\\"leader-port-static\\\",\\\"env\\\":" \
    "\\\"LEADER_PORT_STATIC\\\",\\\"annotationKey\\\":\\\"test/"                                           \
    "grpc-port-static\\\",\\\"scope\\\":\\\"RoleScoped\\\"}]}"
#define WORKER_CONFIG(port)                                                                            \
    "{\\\"references\\\":[{\\\"env\\\":\\\"LEADER_ADDR_PORT\\\",\\\"from\\\":\\\"prefill.leader." port \
    "\\\"}]}"

struct form {
    const char *leader, *worker, *shared_worker; /* pods */
    const char *second_leader;                   /* of another instance */
};
#define FORM(type, instance, leader, worker, second, second_leader)                                      \
    {                                                                                                    \
        POD("\"name\":\"" leader "\"," OWNER("RoleInstance", instance) "," RBG(type, "leader", "0"),     \
            RBG_KEY, LEADER_CONFIG),                                                                     \
            POD("\"name\":\"" worker "\"," OWNER("RoleInstance", instance) "," RBG(type, "worker", "0"), \
                RBG_KEY, WORKER_CONFIG("leader-port")),                                                  \
            POD("\"name\":\"" worker "\"," OWNER("RoleInstance", instance) "," RBG(type, "worker", "0"), \
                RBG_KEY, WORKER_CONFIG("leader-port-static")),                                           \
            POD("\"name\":\"" second_leader                                                              \
                "\"," OWNER("RoleInstance", second) "," RBG(type, "leader", "0"),                        \
                RBG_KEY, LEADER_CONFIG)                                                                  \
    }
static const struct form forms[] = {
    FORM("Components", "pd-prefill-0", "pd-prefill-0-leader-0", "pd-prefill-0-worker-0", "pd-prefill-1",
         "pd-prefill-1-leader-0"),
    FORM("Components", "pd-prefill-x7", "pd-prefill-x7-leader-0", "pd-prefill-x7-worker-0", "pd-prefill-y8",
         "pd-prefill-y8-leader-0"),
    FORM("LeaderWorkerSet", "pd-prefill-0", "pd-prefill-0-0", "pd-prefill-0-1", "pd-prefill-1",
         "pd-prefill-1-0"),
};

/* Equality, which the original does not ask for. */
static void check_scenario(dibs *handle, const struct form *form, bool is_worker_first)
{
    struct asked *worker = is_worker_first ? create(handle, form->worker) : NULL;
    struct asked *shared = is_worker_first ? create(handle, form->shared_worker) : NULL;
    struct asked *leader = create(handle, form->leader);
    struct asked *second = create(handle, form->second_leader);

    if (!is_worker_first) {
        worker = create(handle, form->worker);
        shared = create(handle, form->shared_worker);
    }
    ASSERT_ALLOWED(leader);
    ASSERT_ALLOWED(worker);
    ASSERT_ALLOWED(shared);
    ASSERT_ALLOWED(second);
    const char *own = variable(leader, "LEADER_PORT");
    const char *common = variable(leader, "LEADER_PORT_STATIC");
    assert_string_not_equal(own, "");
    assert_string_not_equal(own, common);
    assert_string_equal(own, behind(leader, ANNOTATED "test~1grpc-port\",\"value\":\""));
    assert_string_equal(common, behind(leader, ANNOTATED "test~1grpc-port-static\",\"value\":\""));
    assert_string_equal(variable(worker, "LEADER_ADDR_PORT"), own);
    assert_string_equal(variable(shared, "LEADER_ADDR_PORT"), common);
    assert_string_equal(variable(second, "LEADER_PORT_STATIC"), common);
    assert_string_not_equal(variable(second, "LEADER_PORT"), own);
    free(worker);
    free(shared);
    free(leader);
    free(second);
}

static void case_41_of_rbg_with_equality(void **state)
{
    struct engine *e = *state;
    size_t n_forms = sizeof forms / sizeof *forms;

    for (size_t i = 0; i < 2 * n_forms; i++) {
        char ranges[32];

        (void) snprintf(ranges, sizeof ranges, "%zu-%zu", 20000 + 100 * i, 20099 + 100 * i);
        dibs *handle = open_pool(e, ranges);
        check_scenario(handle, &forms[i % n_forms], i >= n_forms);
        /* As a ledger where nothing has happened yet. */
        ASSERT_OK(speak_for(handle, "ns:shop", &e->err), &e->err);
        ASSERT_OK(
            dibs_claim_release(handle, &(dibs_which){ .all_mine = true }, DIBS_RELEASE_FORCE, NULL, &e->err),
            &e->err);
        assert_int_equal(count_claims(e, handle), 0);
        dibs_close(handle);
    }
}

#define SECOND_WORKER(port)                                                                                 \
    POD("\"name\":\"pd-prefill-1-worker-0\"," OWNER("RoleInstance", "pd-prefill-1") "," RBG("Components",   \
                                                                                            "worker", "0"), \
        RBG_KEY, WORKER_CONFIG(port))

/* Two instances, and in each the worker comes first. Whether its leader's port is shared is not known:
 * one of them gets a number, the other when the first leader exists. */
static void only_one_instance_gets_a_port_that_all_could_share(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20099");
    struct asked *first = create(handle, forms[0].shared_worker);
    struct asked *second = create(handle, SECOND_WORKER("leader-port-static"));

    ASSERT_ALLOWED(first);
    ASSERT_REFUSED(second, 409, "references[0].from: no pod has this port yet");
    struct asked *other = create(handle, forms[0].second_leader);
    struct asked *leader = create(handle, forms[0].leader);
    struct asked *again = create(handle, SECOND_WORKER("leader-port-static"));

    ASSERT_ALLOWED(again);
    assert_string_equal(other->warning, "");
    assert_string_equal(leader->warning, "");
    assert_string_equal(variable(first, "LEADER_ADDR_PORT"), variable(leader, "LEADER_PORT_STATIC"));
    assert_string_equal(variable(first, "LEADER_ADDR_PORT"), variable(other, "LEADER_PORT_STATIC"));
    assert_string_equal(variable(first, "LEADER_ADDR_PORT"), variable(again, "LEADER_ADDR_PORT"));
    assert_int_equal(count_claims(e, handle), 3); /* nothing is left of what was foreseen */
    free(first);
    free(second);
    free(leader);
    free(other);
    free(again);
    dibs_close(handle);
}

/* The same where the port is each leader's own. */
static void instances_that_wait_for_their_own_get_different_numbers(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20099");
    struct asked *first = create(handle, forms[0].worker);
    struct asked *second = create(handle, SECOND_WORKER("leader-port"));
    struct asked *leader = create(handle, forms[0].leader);
    struct asked *again = create(handle, SECOND_WORKER("leader-port"));
    struct asked *other = create(handle, forms[0].second_leader);

    ASSERT_REFUSED(second, 409, "references[0].from: no pod has this port yet");
    ASSERT_ALLOWED(again);
    assert_string_equal(variable(first, "LEADER_ADDR_PORT"), variable(leader, "LEADER_PORT"));
    assert_string_equal(variable(again, "LEADER_ADDR_PORT"), variable(other, "LEADER_PORT"));
    assert_string_not_equal(variable(first, "LEADER_ADDR_PORT"), variable(again, "LEADER_ADDR_PORT"));
    assert_int_equal(count_claims(e, handle), 3);
    free(first);
    free(second);
    free(leader);
    free(again);
    free(other);
    dibs_close(handle);
}

#define DISCOVERY_KEY "rolebasedgroup.workloads.x-k8s.io/component-discovery"
#define DISCOVERER(component, subdomain, config)                                          \
    "{\"metadata\":{\"name\":\"pd-prefill-0-" component                                   \
    "-0\"," OWNER("RoleInstance", "pd-prefill-0") "," RBG(                                \
        "Components", component, "0") ",\"annotations\":{\"" DISCOVERY_KEY "\":\"" config \
                                      "\"}},\"spec\":{" subdomain "\"containers\":[{\"name\":\"main\"}]}}"
#define PORT_REF(env, component, port)                                                                       \
    "{\\\"env\\\":\\\"" env "\\\",\\\"component\\\":\\\"" component "\\\",\\\"portName\\\":\\\"" port "\\\"" \
    "}"
#define ADDRESS_REF "{\\\"env\\\":\\\"ADDRESS\\\",\\\"component\\\":\\\"leader\\\",\\\"index\\\":2}"

/* Cases 33 to 40 of RBG, on a pod: ports of either scope in any order, addresses, and the annotation is gone.
 */
static void components_discover_each_other(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20099");
    static const char ports[] = "{\\\"portRefs\\\":[" PORT_REF("A", "leader", "leader-port") "," PORT_REF(
        "B", "leader", "leader-port-static") "],\\\"addressRefs\\\":[" ADDRESS_REF "]}";
    char pod[4096];
    (void) snprintf(pod, sizeof pod, DISCOVERER("router", "\"subdomain\":\"s-pd-prefill\",", "%s"), ports);
    struct asked *early = create(handle, pod);
    struct asked *leader = create(handle, forms[0].leader);
    struct asked *late = create(handle, pod);
    struct asked *alone = create(handle, DISCOVERER("other", "", "{\\\"addressRefs\\\":[" ADDRESS_REF "]}"));
    struct asked *nothing = create(handle, DISCOVERER("none", "", "{}"));
    struct asked *wrong =
        create(handle, DISCOVERER("bad", "", "{\\\"portRefs\\\":[{\\\"env\\\":\\\"A\\\"}]}"));
    struct asked *nowhere =
        create(handle, "{\"metadata\":{\"name\":\"a\",\"annotations\":{\"" DISCOVERY_KEY
                       "\":\"{\\\"portRefs\\\":[" PORT_REF("A", "b", "c") "]}\"}}," BODY "}");

    ASSERT_ALLOWED(early);
    ASSERT_ALLOWED(leader);
    for (size_t i = 0; i < 2; i++) {
        const struct asked *asked = i ? late : early;

        assert_string_equal(variable(asked, "A"), variable(leader, "LEADER_PORT"));
        assert_string_equal(variable(asked, "B"), variable(leader, "LEADER_PORT_STATIC"));
        assert_string_equal(variable(asked, "ADDRESS"),
                            "pd-prefill-0-leader-2.s-pd-prefill.shop.svc.cluster.local");
        assert_non_null(strstr(asked->patch, "{\"op\":\"remove\",\"path\":\"/metadata/annotations/"
                                             "rolebasedgroup.workloads.x-k8s.io~1component-discovery\"}"));
    }
    ASSERT_ALLOWED(alone);
    assert_non_null(strstr(alone->warning, "addressRefs[0]"));
    assert_string_equal(variable(alone, "ADDRESS"), "");
    ASSERT_ALLOWED(nothing);
    assert_string_equal(nothing->patch, "");
    ASSERT_REFUSED(wrong, 422, "metadata.annotations[" DISCOVERY_KEY "]: portRefs[0].component is required");
    ASSERT_REFUSED(nowhere, 422,
                   "metadata.annotations[" DISCOVERY_KEY "]: portRefs[0]: role 'a' has pods without");
    free(early);
    free(leader);
    free(late);
    free(alone);
    free(nothing);
    free(wrong);
    free(nowhere);
    dibs_close(handle);
}

/* A role of single pods: its component is the role itself, or its leader. */
static void a_standalone_role_can_be_referred_to_by_either_name(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20099");
    const char *router =
        POD("\"name\":\"pd-router-0\"," OWNER(
                "RoleInstance",
                "pd-router-0") ",\"labels\":{\"rbg.workloads.x-k8s.io/"
                               "group-name\":\"pd\",\"rbg.workloads.x-k8s.io/"
                               "role-name\":\"router\",\"rbg.workloads.x-k8s.io/role-type\":\"PodTemplate\"}",
            RBG_KEY,
            "{\\\"references\\\":[{\\\"env\\\":\\\"A\\\",\\\"from\\\":\\\"prefill.leader.leader-port\\\"},{"
            "\\\"env\\\":\\\"B\\\","
            "\\\"from\\\":\\\"prefill.prefill.leader-port\\\"}]}");
    const char *prefill = POD("\"name\":\"pd-prefill-0\"," OWNER("RoleInstance", "pd-prefill-0") "," RBG(
                                  "PodTemplate", "prefill", "0"),
                              RBG_KEY, LEADER_CONFIG);
    struct asked *target = create(handle, prefill);
    struct asked *asked = create(handle, router);

    ASSERT_ALLOWED(target);
    ASSERT_ALLOWED(asked);
    assert_string_not_equal(variable(asked, "A"), "");
    assert_string_equal(variable(asked, "A"), variable(target, "LEADER_PORT"));
    assert_string_equal(variable(asked, "B"), variable(target, "LEADER_PORT"));
    free(asked);
    free(target);
    dibs_close(handle);
}

/* ---- groups of several objects ---- */

#define GROUPED(name, set, config)                                                                       \
    OWN("\"name\":\"" name "\"," OWNER("StatefulSet", set) ",\"labels\":{\"dibs.dev/group\":\"store\"}", \
        config)

static void references_reach_across_the_objects_of_a_group(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20099");
    const char *config = "{\\\"references\\\":[{\\\"env\\\":\\\"FIRST\\\",\\\"from\\\":\\\"api.http\\\"},{"
                         "\\\"env\\\":\\\"THIRD\\\","
                         "\\\"from\\\":\\\"api[2].http\\\"}]}";
    char pod[2048];
    struct asked *api = create(handle, GROUPED("api-0", "api", HTTP));
    (void) snprintf(pod, sizeof pod,
                    "{\"metadata\":{\"name\":\"web-0\"," OWNER(
                        "StatefulSet", "web") ",\"labels\":{\"dibs.dev/group\":\"store\"},"
                                              "\"annotations\":{\"dibs.dev/ports\":\"%s\"}}," BODY "}",
                    config);
    struct asked *web = create(handle, pod);
    struct asked *third = create(handle, GROUPED("api-2", "api", HTTP));

    ASSERT_ALLOWED(web);
    assert_string_equal(variable(web, "FIRST"), variable(api, "PORT"));
    assert_string_not_equal(variable(web, "THIRD"), "");
    assert_string_equal(variable(web, "THIRD"), variable(third, "PORT")); /* it came later */
    free(api);
    free(web);
    free(third);
    dibs_close(handle);
}

#define SEVERAL(name, count, more) \
    "{\\\"name\\\":\\\"" name "\\\",\\\"env\\\":\\\"" name "\\\",\\\"count\\\":" count more "}"

/* As the target itself gets it: all numbers, or the first of a block. */
static void a_reference_to_several_ports_has_the_targets_values(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20099");
    static const char refers[] =
        "{\\\"references\\\":[{\\\"env\\\":\\\"A\\\",\\\"from\\\":\\\"api.shards\\\"},{\\\"env\\\":"
        "\\\"B\\\",\\\"from\\\":\\\"api.ring\\\"},{\\\"env\\\":\\\"C\\\",\\\"from\\\":\\\"api.all\\\"}]}";
    static const char has[] = "{\\\"allocations\\\":[" SEVERAL("shards", "3", "") "," SEVERAL(
        "ring", "4",
        ",\\\"contiguous\\\":true") "," SEVERAL("all", "2",
                                                ",\\\"scope\\\":\\\"RoleScoped\\\"") "],"
                                                                                     "\\\"references\\\":[{"
                                                                                     "\\\"env\\\":"
                                                                                     "\\\"OWN\\\","
                                                                                     "\\\"from\\\":\\\"api."
                                                                                     "shards\\\"},{"
                                                                                     "\\\"env\\\":"
                                                                                     "\\\"FIRST\\\","
                                                                                     "\\\"from\\\":\\\"api."
                                                                                     "ring\\\"}]}";
    char pod[4096];

    (void) snprintf(pod, sizeof pod, GROUPED("api-0", "api", "%s"), has);
    struct asked *early = create(
        handle, GROUPED("early-0", "early",
                        "{\\\"references\\\":[{\\\"env\\\":\\\"A\\\",\\\"from\\\":\\\"api.shards\\\"}]}"));
    struct asked *api = create(handle, pod);
    (void) snprintf(pod, sizeof pod, GROUPED("web-0", "web", "%s"), refers);
    struct asked *web = create(handle, pod);

    ASSERT_ALLOWED(api);
    ASSERT_ALLOWED(web);
    assert_non_null(strchr(variable(api, "shards"), ','));
    assert_string_equal(variable(web, "A"), variable(api, "shards"));
    assert_string_equal(variable(web, "B"), variable(api, "ring"));
    assert_string_equal(variable(web, "C"), variable(api, "all"));
    assert_string_equal(variable(api, "OWN"), variable(api, "shards"));
    assert_string_equal(variable(api, "FIRST"), variable(api, "ring"));
    assert_null(strchr(variable(web, "B"), ','));
    assert_int_equal(strlen(variable(early, "A")), 5);
    assert_memory_equal(variable(early, "A"), variable(api, "shards"), 5);
    assert_non_null(strstr(api->warning, "the first of its 3 numbers"));
    free(early);
    free(api);
    free(web);
    dibs_close(handle);
}

/* Numbers that are neighbours by chance are still several ports. */
static void several_adjacent_ports_are_no_block_unless_they_were_asked_for(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20001");
    struct asked *api =
        create(handle, GROUPED("api-0", "api", "{\\\"allocations\\\":[" SEVERAL("a", "2", "") "]}"));
    struct asked *web =
        create(handle, GROUPED("web-0", "web",
                               "{\\\"references\\\":[{\\\"env\\\":\\\"A\\\",\\\"from\\\":\\\"api.a\\\"}]}"));

    ASSERT_ALLOWED(api);
    ASSERT_ALLOWED(web);
    assert_non_null(strchr(variable(api, "a"), ','));
    assert_string_equal(variable(web, "A"), variable(api, "a"));
    free(api);
    free(web);
    dibs_close(handle);
}

/* Where it turns out to be the role's, the role has the number that was given first, and its controller
 * hears of the others. */
static void an_index_says_that_a_port_is_the_instances_own(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20099");
    struct asked *web =
        create(handle, GROUPED("web-0", "web",
                               "{\\\"references\\\":[{\\\"env\\\":\\\"A\\\",\\\"from\\\":\\\"api[2].http\\\"}"
                               ",{\\\"env\\\":\\\"B\\\",\\\"from\\\":\\\"api[1].http\\\"}]}"));
    struct asked *more = create(
        handle, GROUPED("web-1", "web",
                        "{\\\"references\\\":[{\\\"env\\\":\\\"A\\\",\\\"from\\\":\\\"api.http\\\"}]}"));
    struct asked *api = create(handle, GROUPED("api-1", "api",
                                               "{\\\"allocations\\\":[{\\\"name\\\":\\\"http\\\",\\\"env\\\":"
                                               "\\\"PORT\\\",\\\"scope\\\":\\\"RoleScoped\\\"}]}"));

    ASSERT_ALLOWED(web);
    ASSERT_ALLOWED(more);
    ASSERT_ALLOWED(api);
    assert_string_equal(variable(web, "A"), variable(api, "PORT"));
    assert_string_not_equal(variable(more, "A"), variable(api, "PORT"));
    assert_string_not_equal(variable(web, "B"), variable(api, "PORT"));
    assert_non_null(strstr(api->warning, variable(api, "PORT")));
    assert_true(strstr(api->warning, variable(more, "A")) || strstr(api->warning, variable(web, "B")));
    free(web);
    free(more);
    free(api);
    dibs_close(handle);
}

#define REFERS(from) "{\\\"references\\\":[{\\\"env\\\":\\\"A\\\",\\\"from\\\":\\\"" from "\\\"}]}"
#define HTTP_REFERS(from)                                                                               \
    "{\\\"allocations\\\":[{\\\"name\\\":\\\"http\\\",\\\"env\\\":\\\"PORT\\\"}],\\\"references\\\":[{" \
    "\\\"env\\\":\\\"A\\\",\\\"from\\\":\\\"" from "\\\"}]}"

/* The target is known by the pod's own template, or by a pod that was admitted, of whatever instance. */
static void a_known_target_has_no_other_ports_than_its_pods(void **state)
{
    struct engine *e = *state;
    static const struct {
        const char *pod, *why;
    } wrong[] = {
        { GROUPED("web-0", "web", HTTP_REFERS("web.nosuch")),
          "references[0].from: role 'web' has no port 'nosuch'; its ports are: http" },
        { GROUPED("web-0", "web", HTTP_REFERS("web.leader.http")), "role 'web' has no components, so no" },
        { GROUPED("web-0", "web", HTTP_REFERS("web[1].nosuch")), "role 'web' has no port 'nosuch'; its" },
        { GROUPED("db-0", "db", REFERS("api.nosuch")),
          "role 'api' has no port 'nosuch'; its ports are: http" },
        { GROUPED("db-0", "db", REFERS("api[7].htt")), "role 'api' has no port 'htt'; its ports are: http" },
        { GROUPED("db-0", "db", REFERS("api.leader.http")), "role 'api' has no components, so no 'leader'" },
        { SECOND_WORKER("nosuch"),
          "role 'prefill' has no port 'nosuch' in component 'leader'; its ports are: "
          "leader-port, leader-port-static" },
        { OWN("\"name\":\"x\",\"labels\":{\"dibs.dev/group\":\"pd\"}", REFERS("prefill.leader-port")),
          "role 'prefill' has components: say whose port 'leader-port' is meant" },
    };
    dibs *handle = open_pool(e, "20000-20099");
    struct asked *api = create(handle, GROUPED("api-0", "api", HTTP));
    struct asked *leader = create(handle, forms[0].leader);
    size_t n = count_claims(e, handle);

    ASSERT_ALLOWED(api);
    ASSERT_ALLOWED(leader);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct asked *asked = create(handle, wrong[i].pod);

        ASSERT_REFUSED(asked, 422, wrong[i].why);
        free(asked);
    }
    assert_int_equal(count_claims(e, handle), n);
    /* an instance that has not come, of a role that is known to have the port */
    struct asked *right = create(handle, GROUPED("db-0", "db", REFERS("api[7].http")));
    ASSERT_ALLOWED(right);
    free(right);
    free(api);
    free(leader);
    dibs_close(handle);
}

static void a_target_that_comes_after_its_reservation_has_the_same_number(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20099");
    struct asked *referring = create(handle, GROUPED("web-0", "web", REFERS("api.http")));

    ASSERT_OK(speak_for(handle, "ns:shop", &e->err), &e->err);
    ASSERT_OK(
        dibs_claim_release(handle, &(dibs_which){ .all_mine = true }, DIBS_RELEASE_FORCE, NULL, &e->err),
        &e->err);
    assert_int_equal(count_claims(e, handle), 0);
    struct asked *api = create(handle, GROUPED("api-0", "api", HTTP));
    assert_string_equal(variable(api, "PORT"), variable(referring, "A"));
    free(referring);
    free(api);
    dibs_close(handle);
}

/* Once the port is known to be the role's, an index means that number, whatever was reserved for it before.
 */
static void a_stale_reservation_is_not_the_number_of_a_shared_port(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20099");
    struct asked *first = create(handle, GROUPED("web-0", "web", REFERS("api.http")));
    struct asked *stale = create(handle, GROUPED("web-1", "web", REFERS("api[1].http")));
    struct asked *api = create(handle, GROUPED("api-0", "api",
                                               "{\\\"allocations\\\":[{\\\"name\\\":\\\"http\\\",\\\"env\\\":"
                                               "\\\"PORT\\\",\\\"scope\\\":\\\"RoleScoped\\\"}]}"));
    struct asked *late = create(handle, GROUPED("web-2", "web", REFERS("api[1].http")));

    ASSERT_ALLOWED(api);
    assert_string_equal(variable(first, "A"), variable(api, "PORT"));
    assert_string_not_equal(variable(stale, "A"), variable(api, "PORT"));
    assert_non_null(strstr(api->warning, variable(stale, "A")));
    assert_string_equal(variable(late, "A"), variable(api, "PORT"));
    assert_string_equal(late->warning, "");
    free(first);
    free(stale);
    free(api);
    free(late);
    dibs_close(handle);
}

static void a_port_that_no_pod_has_yet_is_reserved_with_a_warning(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20099");
    struct asked *first = create(handle, GROUPED("web-0", "web", REFERS("api.http")));
    struct asked *second = create(handle, GROUPED("web-1", "web", REFERS("api.http")));
    struct asked *wrong = create(handle, GROUPED("web-2", "web", REFERS("api.htp")));
    struct asked *api = create(handle, GROUPED("api-0", "api", HTTP));
    struct asked *late = create(handle, GROUPED("web-3", "web", REFERS("api.http")));
    struct asked *again = create(handle, GROUPED("web-4", "web", REFERS("api.htp")));
    char warning[256];

    ASSERT_ALLOWED(first);
    (void) snprintf(
        warning, sizeof warning,
        "dibs: metadata.annotations[dibs.dev/ports]: references[0].from: no pod has port 'http' of "
        "'api' yet; %s is reserved for it",
        variable(api, "PORT"));
    assert_string_equal(first->warning, warning);
    assert_string_equal(second->warning, warning);
    assert_string_equal(variable(second, "A"), variable(api, "PORT"));
    assert_non_null(strstr(wrong->warning, "no pod has port 'htp' of 'api' yet"));
    assert_string_equal(api->warning, "");
    assert_string_equal(late->warning, "");
    /* now the target is known, and a reservation is no proof of the port */
    ASSERT_REFUSED(again, 422, "role 'api' has no port 'htp'; its ports are: http");
    free(first);
    free(second);
    free(wrong);
    free(api);
    free(late);
    free(again);
    dibs_close(handle);
}

static void two_objects_are_not_one_role(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20099");
#define FRONT(set)                                                                                    \
    OWN("\"name\":\"" set "-0\"," OWNER(                                                              \
            "StatefulSet", set) ",\"labels\":{\"dibs.dev/group\":\"g\",\"dibs.dev/role\":\"front\"}", \
        HTTP)
    struct asked *one = create(handle, FRONT("one"));
    struct asked *two = create(handle, FRONT("two"));

    ASSERT_ALLOWED(one);
    ASSERT_REFUSED(two, 409, "two objects cannot be one role");
    free(one);
    free(two);
    dibs_close(handle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(case_41_of_rbg_with_equality),
        E_TEST(components_discover_each_other),
        E_TEST(only_one_instance_gets_a_port_that_all_could_share),
        E_TEST(instances_that_wait_for_their_own_get_different_numbers),
        E_TEST(a_reference_to_several_ports_has_the_targets_values),
        E_TEST(several_adjacent_ports_are_no_block_unless_they_were_asked_for),
        E_TEST(an_index_says_that_a_port_is_the_instances_own),
        E_TEST(a_standalone_role_can_be_referred_to_by_either_name),
        E_TEST(references_reach_across_the_objects_of_a_group),
        E_TEST(a_known_target_has_no_other_ports_than_its_pods),
        E_TEST(a_target_that_comes_after_its_reservation_has_the_same_number),
        E_TEST(a_stale_reservation_is_not_the_number_of_a_shared_port),
        E_TEST(a_port_that_no_pod_has_yet_is_reserved_with_a_warning),
        E_TEST(two_objects_are_not_one_role),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
