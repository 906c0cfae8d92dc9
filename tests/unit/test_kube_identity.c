/* SPDX-License-Identifier: MIT */
/* The identity of a pod: the table of docs/KUBERNETES.md, a row at a time. */
#include <string.h>

#include "kube/keeper.h"
#include "support/t.h"

#define OWNER(kind, name) \
    "\"ownerReferences\":[{\"kind\":\"" kind "\",\"name\":\"" name "\",\"controller\":true}]"
#define ID "0123456789abcdef0123456789abcdef"
#define WITH_ID "\"annotations\":{\"dibs.dev/claim\":\"" ID "\"}"

/* The second generation of RBG's labels, and the first. */
#define RBG(type, component, id)                                                                     \
    "\"labels\":{\"rbg.workloads.x-k8s.io/group-name\":\"pd\",\"rbg.workloads.x-k8s.io/role-name\":" \
    "\"prefill\",\"rbg.workloads.x-k8s.io/role-type\":\"" type                                       \
    "\",\"rbg.workloads.x-k8s.io/component-name\":\"" component                                      \
    "\",\"rbg.workloads.x-k8s.io/component-id\":\"" id "\"}"
#define OLD_RBG(type, component, id)                                                                     \
    "\"labels\":{\"rolebasedgroup.workloads.x-k8s.io/name\":\"pd\",\"rolebasedgroup.workloads.x-k8s.io/" \
    "role\":"                                                                                            \
    "\"prefill\",\"role.rolebasedgroup.workloads.x-k8s.io/template-type\":\"" type                       \
    "\",\"instance.workloads.x-k8s.io/component-name\":\"" component                                     \
    "\",\"instance.workloads.x-k8s.io/component-id\":\"" id "\"}"
#define UNTYPED_RBG(component, id)                                                                       \
    "\"labels\":{\"rolebasedgroup.workloads.x-k8s.io/name\":\"pd\",\"rolebasedgroup.workloads.x-k8s.io/" \
    "role\":\"prefill\",\"instance.workloads.x-k8s.io/component-name\":\"" component                     \
    "\",\"instance.workloads.x-k8s.io/component-id\":\"" id "\"}"
/* The labels that RBG's controller gives to pods of a leader-worker role: only their instance has the type.
 */
#define INDEXED_RBG(component, id, index)                                                            \
    "\"labels\":{\"rbg.workloads.x-k8s.io/group-name\":\"pd\",\"rbg.workloads.x-k8s.io/role-name\":" \
    "\"prefill\",\"rbg.workloads.x-k8s.io/role-instance-name\":\"pd-prefill-0\","                    \
    "\"rbg.workloads.x-k8s.io/component-name\":\"" component                                         \
    "\",\"rbg.workloads.x-k8s.io/component-id\":\"" id                                               \
    "\",\"rbg.workloads.x-k8s.io/component-index\":\"" index "\"}"
#define LWS(group, worker)                                                                    \
    "\"labels\":{\"leaderworkerset.sigs.k8s.io/name\":\"llm\",\"leaderworkerset.sigs.k8s.io/" \
    "group-index\":\"" group "\",\"leaderworkerset.sigs.k8s.io/worker-index\":\"" worker "\"}"
#define LWS_ONLY(label, index)                                                                      \
    "\"labels\":{\"leaderworkerset.sigs.k8s.io/name\":\"llm\",\"leaderworkerset.sigs.k8s.io/" label \
    "\":\"" index "\"}"

/* As the Job controller makes the pods of an Indexed Job. */
#define INDEXED(job, index, name, labels)                                                                  \
    "\"generateName\":\"" job "-" index                                                                    \
    "-\"," name OWNER("Job", job) ",\"labels\":{" labels "},"                                              \
                                  "\"annotations\":{\"batch.kubernetes.io/job-completion-index\":\"" index \
                                  "\",\"dibs.dev/claim\":\"" ID "\"}"
#define NAME(name) "\"name\":\"" name "\","
#define JOBSET(role, jobs, job)                                                                             \
    "\"jobset.sigs.k8s.io/jobset-name\":\"llm\",\"jobset.sigs.k8s.io/replicatedjob-name\":\"" role          \
    "\",\"jobset.sigs.k8s.io/replicatedjob-replicas\":\"" jobs "\",\"jobset.sigs.k8s.io/job-index\":\"" job \
    "\""
#define LONG "a123456789b123456789c123456789d123456789e123456789f1234"
static void identify(const char *metadata, struct identity *out)
{
    AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;
    char text[4096];
    dibs_err err = { 0 };

    int n = snprintf(text, sizeof text, "{\"metadata\":{%s}}", metadata);
    ASSERT_OK(jsonr_parse(text, (size_t) n, &doc, &err), &err);
    ASSERT_OK(identity_of_pod(jsonr_root(doc), "shop", out, &err), &err);
    /* Borrowed texts end with the document. */
    static char component[64];
    if (out->component) {
        (void) snprintf(component, sizeof component, "%s", out->component);
        out->component = component;
    }
}

static const struct workload_port own = { .name = "http", .count = 1 };
static const struct workload_port shared = { .name = "gossip", .scope = WORKLOAD_ROLE_SCOPED, .count = 1 };

struct row {
    const char *metadata;
    bool is_named;
    const char *own, *shared; /* names of claims */
    const char *keeper, *role_keeper;
};

static void check(const struct row *row)
{
    struct identity who = { 0 };
    char name[DIBS_NAME_MAX + 1];

    identify(row->metadata, &who);
    assert_string_equal(who.principal, "ns:shop");
    if (who.is_named != row->is_named)
        fail_msg("%s: named %d", row->metadata, who.is_named);
    identity_claim_name(&who, &own, 0, name);
    assert_string_equal(name, row->own);
    identity_claim_name(&who, &shared, 0, name);
    assert_string_equal(name, row->shared);
    assert_string_equal(who.keeper, row->keeper);
    assert_string_equal(who.role_keeper, row->role_keeper);
}

static void a_pod_is_identified_by_its_owner_and_its_labels(void **state)
{
    static const struct row rows[] = {
        { "\"name\":\"web-2\"," OWNER("StatefulSet", "web"), true, "StatefulSet.web/web/2/-/http",
          "StatefulSet.web/web/-/-/gossip", "StatefulSet/web", "StatefulSet/web" },
        { "\"generateName\":\"web-7d4-\"," OWNER(
              "ReplicaSet", "web-7d4") ",\"labels\":{\"pod-template-hash\":\"7d4\"}," WITH_ID,
          false, "Deployment.web/web/~" ID "/-/http", "Deployment.web/web/-/-/gossip", "Pod",
          "Deployment/web" },
        { "\"generateName\":\"web-\"," OWNER("ReplicaSet", "web") "," WITH_ID, false,
          "ReplicaSet.web/web/~" ID "/-/http", "ReplicaSet.web/web/-/-/gossip", "Pod", "ReplicaSet/web" },
        { "\"generateName\":\"sum-\"," OWNER("Job", "sum") "," WITH_ID, false, "Job.sum/sum/~" ID "/-/http",
          "Job.sum/sum/-/-/gossip", "Pod", "Job/sum" },
        { INDEXED("train", "3", "", ""), true, "Job.train/train/3/-/http", "Job.train/train/-/-/gossip",
          "Job/train", "Job/train" },
        { INDEXED("train", "3", NAME("train-3-x7k2q"), ""), true, "Job.train/train/3/-/http",
          "Job.train/train/-/-/gossip", "Job/train", "Job/train" },
        { INDEXED("train", "3", "", "\"dibs.dev/group\":\"g\",\"dibs.dev/role\":\"ranks\""), true,
          "g/ranks/3/-/http", "g/ranks/-/-/gossip", "Job/train", "Job/train" },
        { INDEXED("llm-workers-0", "12", "", JOBSET("workers", "1", "0")), true,
          "JobSet.llm/workers/12/-/http", "JobSet.llm/workers/-/-/gossip", "JobSet/llm", "JobSet/llm" },
        { INDEXED("llm-workers-1", "12", "", JOBSET("workers", "2", "1")), true,
          "JobSet.llm/workers/1/pod.12/http", "JobSet.llm/workers/-/pod/gossip", "JobSet/llm", "JobSet/llm" },
        /* of a Job that is called otherwise than its labels say */
        { INDEXED("other-0", "1", "", JOBSET("workers", "1", "0")), true, "Job.other-0/other-0/1/-/http",
          "Job.other-0/other-0/-/-/gossip", "Job/other-0", "Job/other-0" },
        /* the Job controller shortens long names */
        { "\"generateName\":\"" LONG "-7-\"," OWNER(
              "Job", LONG "56789") ",\"labels\":{\"dibs.dev/group\":\"g\"},"
                                   "\"annotations\":{\"batch.kubernetes.io/job-completion-index\":\"7\"}",
          true, "g/" LONG "56789/7/-/http", "g/" LONG "56789/-/-/gossip",
          "Job/a123456789b123456789c1234~4bd505af4918", "Job/a123456789b123456789c1234~4bd505af4918" },
        { "\"generateName\":\"agent-\"," OWNER("DaemonSet", "agent") "," WITH_ID, false,
          "DaemonSet.agent/agent/~" ID "/-/http", "DaemonSet.agent/agent/-/-/gossip", "Pod",
          "DaemonSet/agent" },
        { "\"name\":\"alone\"," WITH_ID, false, "Pod.alone/alone/~" ID "/-/http",
          "Pod.alone/alone/-/-/gossip", "Pod", "Pod" },
        { "\"generateName\":\"many-\"," WITH_ID, false, "Pod.many-/many-/~" ID "/-/http",
          "Pod.many-/many-/-/-/gossip", "Pod", "Pod" },
        { "\"name\":\"llm-1\"," OWNER("StatefulSet", "llm") "," LWS("1", "0"), true,
          "LeaderWorkerSet.llm/llm/1/leader/http", "LeaderWorkerSet.llm/llm/-/leader/gossip",
          "LeaderWorkerSet/llm", "LeaderWorkerSet/llm" },
        { "\"name\":\"llm-1-3\"," OWNER("StatefulSet", "llm-1") "," LWS("1", "3"), true,
          "LeaderWorkerSet.llm/llm/1/worker.2/http", "LeaderWorkerSet.llm/llm/-/worker/gossip",
          "LeaderWorkerSet/llm", "LeaderWorkerSet/llm" },
        /* before its own webhook was asked, which writes what is missing here */
        { "\"name\":\"llm-1\"," OWNER("StatefulSet", "llm") "," LWS_ONLY("worker-index", "0"), true,
          "LeaderWorkerSet.llm/llm/1/leader/http", "LeaderWorkerSet.llm/llm/-/leader/gossip",
          "LeaderWorkerSet/llm", "LeaderWorkerSet/llm" },
        { "\"name\":\"llm-1-3\"," OWNER("StatefulSet", "llm-1") "," LWS_ONLY("group-index", "1"), true,
          "LeaderWorkerSet.llm/llm/1/worker.2/http", "LeaderWorkerSet.llm/llm/-/worker/gossip",
          "LeaderWorkerSet/llm", "LeaderWorkerSet/llm" },
        { "\"name\":\"pd-prefill-0-leader-0\"," OWNER("RoleInstance", "pd-prefill-0") "," RBG("Components",
                                                                                              "leader", "0"),
          true, "pd/prefill/0/leader/http", "pd/prefill/-/leader/gossip", "RoleInstance/pd-prefill-0",
          "RoleBasedGroup/pd" },
        { "\"name\":\"pd-prefill-x7-worker-1\"," OWNER("RoleInstance",
                                                       "pd-prefill-x7") "," RBG("Components", "worker", "1"),
          true, "pd/prefill/pd-prefill-x7/worker.1/http", "pd/prefill/-/worker/gossip",
          "RoleInstance/pd-prefill-x7", "RoleBasedGroup/pd" },
        { "\"name\":\"pd-prefill-0-2\"," OWNER("RoleInstance", "pd-prefill-0") "," RBG("LeaderWorkerSet",
                                                                                       "worker", "1"),
          true, "pd/prefill/0/worker.1/http", "pd/prefill/-/worker/gossip", "RoleInstance/pd-prefill-0",
          "RoleBasedGroup/pd" },
        { "\"name\":\"pd-prefill-0\"," OWNER("RoleInstance", "pd-prefill-0") "," RBG("PodTemplate", "prefill",
                                                                                     "0"),
          true, "pd/prefill/0/-/http", "pd/prefill/-/-/gossip", "RoleInstance/pd-prefill-0",
          "RoleBasedGroup/pd" },
        { "\"name\":\"pd-prefill-0\"," OWNER("RoleInstance", "pd-prefill-0") "," UNTYPED_RBG("prefill", "0"),
          true, "pd/prefill/0/-/http", "pd/prefill/-/-/gossip", "RoleInstance/pd-prefill-0",
          "RoleBasedGroup/pd" },
        { "\"name\":\"pd-prefill-0-leader-0\"," OWNER("RoleInstance",
                                                      "pd-prefill-0") "," UNTYPED_RBG("leader", "0"),
          true, "pd/prefill/0/leader/http", "pd/prefill/-/leader/gossip", "RoleInstance/pd-prefill-0",
          "RoleBasedGroup/pd" },
        { "\"name\":\"pd-prefill-0-0\"," OWNER("RoleInstance", "pd-prefill-0") "," INDEXED_RBG("leader", "0",
                                                                                               "0"),
          true, "pd/prefill/0/leader/http", "pd/prefill/-/leader/gossip", "RoleInstance/pd-prefill-0",
          "RoleBasedGroup/pd" },
        { "\"name\":\"pd-prefill-0-2\"," OWNER("RoleInstance", "pd-prefill-0") "," INDEXED_RBG("worker", "1",
                                                                                               "2"),
          true, "pd/prefill/0/worker.1/http", "pd/prefill/-/worker/gossip", "RoleInstance/pd-prefill-0",
          "RoleBasedGroup/pd" },
        { "\"name\":\"pd-prefill-0-leader-0\"," OWNER("Instance", "pd-prefill-0") "," OLD_RBG("Components",
                                                                                              "leader", "0"),
          true, "pd/prefill/0/leader/http", "pd/prefill/-/leader/gossip", "Instance/pd-prefill-0",
          "RoleBasedGroup/pd" },
        { "\"name\":\"pd-prefill-0-1\"," OWNER("Instance", "pd-prefill-0") "," OLD_RBG("LeaderWorkerSet",
                                                                                       "worker", "0"),
          true, "pd/prefill/0/worker/http", "pd/prefill/-/worker/gossip", "Instance/pd-prefill-0",
          "RoleBasedGroup/pd" },
        { "\"name\":\"pd-prefill-1\"," OWNER("StatefulSet", "pd-prefill") "," RBG("PodTemplate", "", ""),
          true, "pd/prefill/1/-/http", "pd/prefill/-/-/gossip", "StatefulSet/pd-prefill",
          "RoleBasedGroup/pd" },
        { "\"name\":\"web-0\"," OWNER("StatefulSet", "web") ",\"labels\":{\"dibs.dev/group\":\"store\"}",
          true, "store/web/0/-/http", "store/web/-/-/gossip", "StatefulSet/web", "StatefulSet/web" },
        { "\"name\":\"web-0\"," OWNER(
              "StatefulSet", "web") ",\"labels\":{\"dibs.dev/group\":\"store\",\"dibs.dev/role\":\"front\"}",
          true, "store/front/0/-/http", "store/front/-/-/gossip", "StatefulSet/web", "StatefulSet/web" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check(&rows[i]);
}

/* A copied YAML has the labels of its original, and perhaps its id; never its name. */
static void a_pod_that_is_called_otherwise_is_not_the_named_one(void **state)
{
    static const char *const others[] = {
        "\"name\":\"web-2-copy\"," OWNER("StatefulSet", "web"),
        "\"name\":\"web-02\"," OWNER("StatefulSet", "web"),
        "\"name\":\"web-\"," OWNER("StatefulSet", "web"),
        "\"name\":\"web-2147483648\"," OWNER("StatefulSet", "web"),
        "\"generateName\":\"web-\"," OWNER("StatefulSet", "web"),
        "\"name\":\"web-2\"",
        "\"name\":\"copy\"," OWNER("StatefulSet", "llm") "," LWS("1", "0"),
        "\"name\":\"llm-1-0\"," OWNER("StatefulSet", "llm") "," LWS("1", "0"),
        "\"name\":\"pd-prefill-0-0\"," OWNER("RoleInstance", "pd-prefill-0") "," RBG("Components", "leader",
                                                                                     "0"),
        "\"name\":\"pd-prefill-0\"," OWNER("RoleInstance", "pd-prefill-0") "," RBG("Components", "leader",
                                                                                   "0"),
        "\"name\":\"pd-prefill-0-leader-0\"," OWNER("RoleInstance", "pd-prefill-0") "," RBG("LeaderWorkerSet",
                                                                                            "leader", "0"),
        "\"name\":\"pd-prefill-0-leader-0\"," OWNER("RoleInstance", "pd-prefill-0") "," RBG("Components",
                                                                                            "leader", "x"),
        "\"name\":\"pd-prefill-0-3\"," OWNER("RoleInstance", "pd-prefill-0") "," INDEXED_RBG("worker", "1",
                                                                                             "2"),
    };

    (void) state;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct identity who = { 0 };

        identify(others[i], &who);
        if (who.is_named)
            fail_msg("%s is named", others[i]);
        assert_string_equal(who.keeper, "Pod");
        assert_string_equal(who.instance, "");
        identity_take_id(&who, ID);
        assert_string_equal(who.instance, "~" ID);
    }
}

static void a_copy_of_an_indexed_pod_has_no_index(void **state)
{
    static const char *const others[] = {
        INDEXED("train", "3", NAME("train-3-copy1"), ""),
        INDEXED("train", "3", NAME("train-3-x7k2"), ""),
        INDEXED("train", "3", NAME("train-4-x7k2q"), ""),
        INDEXED("train", "03", "", ""),
        "\"generateName\":\"train-4-\"," OWNER(
            "Job", "train") ",\"annotations\":{"
                            "\"batch.kubernetes.io/job-completion-index\":\"3\",\"dibs.dev/claim\":\"" ID
                            "\"}",
    };

    (void) state;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        check(&(struct row){ others[i], false, "Job.train/train/~" ID "/-/http", "Job.train/train/-/-/gossip",
                             "Pod", "Job/train" });
}

static void only_our_own_ids_count(void **state)
{
    struct identity who = { 0 };

    (void) state;
    identify("\"name\":\"a\",\"annotations\":{\"dibs.dev/claim\":\"../../web\"}", &who);
    assert_string_equal(who.id, "");
    assert_false(identity_is_id(""));
    assert_false(identity_is_id(NULL));
    assert_false(identity_is_id("0123456789ABCDEF0123456789abcdef"));
}

/* Whether the same creation could have been asked about before, by its metadata and the id of another's. */
static bool is_again_after(int64_t later_ms, const char *metadata, const char *first, const char *spec)
{
    AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;
    AUTO(jsonr_free_auto) jsonr_doc *of_first = NULL;
    char text[1024];
    char id[IDENTITY_ID_MAX + 1];
    struct identity who = { 0 };
    dibs_err err = { 0 };

    int n = snprintf(text, sizeof text, "{\"metadata\":{%s}}", first);
    ASSERT_OK(jsonr_parse(text, (size_t) n, &of_first, &err), &err);
    ASSERT_OK(identity_draw_id(jsonr_root(of_first), 0, id, &err), &err);
    assert_true(identity_is_id(id));
    n = snprintf(text, sizeof text,
                 "{\"metadata\":{%s,\"annotations\":{\"dibs.dev/claim\":\"%s\"}},\"spec\":{%s}}", metadata,
                 id, spec);
    ASSERT_OK(jsonr_parse(text, (size_t) n, &doc, &err), &err);
    ASSERT_OK(identity_of_pod(jsonr_root(doc), "shop", &who, &err), &err);
    return identity_may_be_asked_again(&who, jsonr_root(doc), later_ms);
}

static bool is_again(const char *metadata, const char *first)
{
    return is_again_after(0, metadata, first, "");
}

/* A copy that has nothing of its original but the id. */
static void an_id_counts_no_longer_than_a_request_can_take(void **state)
{
    static const char unnamed[] = "\"generateName\":\"a-\"";

    (void) state;
    assert_true(is_again_after(30000, unnamed, unnamed, ""));
    assert_true(is_again_after(-30000, unnamed, unnamed, "")); /* the clock of another replica */
    assert_false(is_again_after(60000, unnamed, unnamed, ""));
    assert_false(is_again_after(3600000, unnamed, unnamed, ""));
    assert_false(is_again_after(0, unnamed, unnamed, "\"nodeName\":\"n1\""));
}

static void an_id_counts_only_for_the_object_of_the_same_name(void **state)
{
    (void) state;
    assert_true(is_again("\"name\":\"a\"", "\"name\":\"a\""));
    assert_true(is_again("\"generateName\":\"a-\"", "\"generateName\":\"a-\""));
    assert_false(is_again("\"name\":\"b\"", "\"name\":\"a\""));
    assert_false(is_again("\"generateName\":\"a-\",\"name\":\"a-x7\"", "\"generateName\":\"a-\""));
    assert_false(is_again("\"generateName\":\"a-\",\"uid\":\"1\"", "\"generateName\":\"a-\""));
}

static void a_namespace_that_cannot_be_is_refused(void **state)
{
    AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;
    struct identity who = { .role = "untouched" };
    dibs_err err = { 0 };

    const char *text = "{\"metadata\":{\"name\":\"a\"},\"x\":1}";

    (void) state;
    ASSERT_OK(jsonr_parse(text, strlen(text), &doc, &err), &err);
    assert_int_equal(identity_of_pod(jsonr_root(doc), "a/b", &who, &err), DIBS_INVALID);
    assert_non_null(strstr(err.msg, "metadata.namespace"));
    assert_int_equal(identity_of_pod(jsonr_get(jsonr_root(doc), "x"), "a", &who, &err), DIBS_INVALID);
    assert_string_equal(who.role, "untouched");
}

/* ---- what objects keep ---- */

struct kept {
    const char *name, *keeper;
    bool is_kept;
};

static void ask(void *ctx, const struct keeper_rule *keep)
{
    struct kept *k = ctx;
    dibs_claim claim = { .principal = "ns:shop" };

    (void) snprintf(claim.name, sizeof claim.name, "%s", k->name);
    (void) snprintf(claim.keeper, sizeof claim.keeper, "%s", k->keeper);
    k->is_kept = k->is_kept || keeper_rule_covers(keep, &claim);
}

static bool keeps(const char *kind, const char *object, const char *name, const char *keeper)
{
    AUTO(jsonr_free_auto) jsonr_doc *doc = NULL;
    struct kept k = { .name = name, .keeper = keeper };
    dibs_err err = { 0 };

    ASSERT_OK(jsonr_parse(object, strlen(object), &doc, &err), &err);
    keeper_rules_of(kind, jsonr_root(doc), ask, &k);
    return k.is_kept;
}

#define TEMPLATE(ports) "\"template\":{\"metadata\":{\"annotations\":{\"dibs.dev/ports\":\"" ports "\"}}}"
#define SHARES(more)                                                                     \
    TEMPLATE("{\\\"allocations\\\":[{\\\"name\\\":\\\"gossip\\\",\\\"env\\\":\\\"G\\\"," \
             "\\\"scope\\\":\\\"RoleScoped\\\"" more                                     \
             "},{\\\"name\\\":\\\"http\\\",\\\"env\\\":\\\"H\\\"}]}")
#define WEB "{\"metadata\":{\"name\":\"web\",\"namespace\":\"shop\"},\"spec\":{"

static void an_object_keeps_the_instances_that_it_has(void **state)
{
    const char *set = WEB "\"replicas\":2,\"ordinals\":{\"start\":3}," SHARES("") "}}";
    const char *lws =
        "{\"metadata\":{\"name\":\"llm\",\"namespace\":\"shop\"},\"spec\":{\"leaderWorkerTemplate\":"
        "{\"workerTemplate\":{\"metadata\":{\"labels\":{\"dibs.dev/group\":\"g\"}}}}}}";
    const char *instance =
        "{\"metadata\":{\"name\":\"pd-prefill-4\",\"namespace\":\"shop\"," RBG("", "", "") "}}";
    const char *group =
        "{\"metadata\":{\"name\":\"pd\",\"namespace\":\"shop\"},\"spec\":{\"roles\":[{\"name\":"
        "\"prefill\"},{},{\"name\":\"decode\"}]}}";
    const char *deployment = WEB SHARES("") "}}";
    /* which its pods do not have: labels of theirs are the template's */
    const char *labelled =
        "{\"metadata\":{\"name\":\"web\",\"namespace\":\"shop\",\"labels\":{\"dibs.dev/group\":\"g\","
        "\"dibs.dev/role\":\"r\"}},\"spec\":{" SHARES("") "}}";

    (void) state;
    assert_true(keeps("StatefulSet", labelled, "StatefulSet.web/web/0/-/http", "StatefulSet/web"));
    assert_true(keeps("Deployment", labelled, "Deployment.web/web/-/-/gossip", "Deployment/web"));
    assert_true(keeps("StatefulSet", set, "StatefulSet.web/web/3/-/http", "StatefulSet/web"));
    assert_true(keeps("StatefulSet", set, "StatefulSet.web/web/4/-/http", "StatefulSet/web"));
    assert_true(keeps("StatefulSet", set, "StatefulSet.web/web/-/-/gossip", "StatefulSet/web"));
    assert_false(keeps("StatefulSet", set, "StatefulSet.web/web/2/-/http", "StatefulSet/web"));
    assert_false(keeps("StatefulSet", set, "StatefulSet.web/web/5/-/http", "StatefulSet/web"));
    assert_false(keeps("StatefulSet", set, "StatefulSet.web/web/~" ID "/-/http", "Pod"));
    /* without a keeper: made for a reference, before the pod came */
    assert_true(keeps("StatefulSet", set, "StatefulSet.web/web/3/-/http", ""));
    assert_false(keeps("StatefulSet", set, "StatefulSet.web/web/5/-/http", ""));
    assert_true(keeps("LeaderWorkerSet", lws, "g/llm/0/leader/http", "LeaderWorkerSet/llm"));
    assert_false(keeps("LeaderWorkerSet", lws, "g/llm/1/leader/http", "LeaderWorkerSet/llm"));
    assert_true(keeps("RoleInstance", instance, "pd/prefill/4/leader/http", "RoleInstance/pd-prefill-4"));
    assert_false(keeps("RoleInstance", instance, "pd/prefill/44/leader/http", "RoleInstance/pd-prefill-4"));
    assert_false(keeps("RoleInstance", instance, "pd/prefill/-/leader/http", "RoleBasedGroup/pd"));
    assert_true(keeps("RoleBasedGroup", group, "pd/decode/-/leader/http", "RoleBasedGroup/pd"));
    assert_false(keeps("RoleBasedGroup", group, "pd/router/-/leader/http", "RoleBasedGroup/pd"));
    assert_true(keeps("Deployment", deployment, "Deployment.web/web/-/-/gossip", "Deployment/web"));
    assert_false(keeps("Service", "{\"metadata\":{\"name\":\"web\"},\"spec\":{}}", "Service.web/web/-/-/x",
                       "Service/web"));
    assert_false(keeps("Deployment", "{}", "a/b/-/-/x", ""));
}

/* ... as long as these can run. */
static void a_job_and_a_jobset_keep_their_indexes_until_they_are_over(void **state)
{
#define JOB(conditions)                                                                                   \
    "{\"metadata\":{\"name\":\"train\",\"namespace\":\"shop\"},\"spec\":{\"completionMode\":\"Indexed\"," \
    "\"completions\":4,\"parallelism\":2," SHARES("") "},\"status\":{\"conditions\":[" conditions "]}}"
#define SETS(conditions)                                                                               \
    "{\"metadata\":{\"name\":\"llm\",\"namespace\":\"shop\"},\"spec\":{\"replicatedJobs\":[{\"name\":" \
    "\"one\","                                                                                         \
    "\"template\":{\"spec\":{\"completions\":4," SHARES(                                               \
        "") "}}},{\"name\":\"many\",\"replicas\":2,"                                                   \
            "\"template\":{\"spec\":{\"completions\":4," SHARES(                                       \
                "") "}}}]},\"status\":{\"conditions\":[" conditions "]}}"
#define CONDITION(type, status) "{\"type\":\"" type "\",\"status\":\"" status "\"}"
    static const char *const jobs[] = { JOB(CONDITION("Complete", "False")),
                                        JOB(CONDITION("Suspended", "True")) };
    static const char *const over[] = { JOB(CONDITION("SuccessCriteriaMet", "True") "," CONDITION("Complete",
                                                                                                  "True")),
                                        JOB(CONDITION("Failed", "True")) };
    const char *plain = WEB "\"completions\":4," SHARES("") "}}";
    const char *set = SETS("");

    (void) state;
    for (size_t i = 0; i < 2; i++) {
        assert_true(keeps("Job", jobs[i], "Job.train/train/3/-/http", "Job/train"));
        assert_true(keeps("Job", jobs[i], "Job.train/train/-/-/gossip", "Job/train"));
        assert_false(keeps("Job", jobs[i], "Job.train/train/4/-/http", "Job/train"));
        assert_false(keeps("Job", over[i], "Job.train/train/3/-/http", "Job/train"));
        assert_false(keeps("Job", over[i], "Job.train/train/-/-/gossip", "Job/train"));
    }
    assert_false(keeps("Job", plain, "Job.web/web/0/-/http", "Job/web"));
    assert_true(keeps("Job", plain, "Job.web/web/-/-/gossip", "Job/web"));
    assert_true(keeps("JobSet", set, "JobSet.llm/one/3/-/http", "JobSet/llm"));
    assert_false(keeps("JobSet", set, "JobSet.llm/one/4/-/http", "JobSet/llm"));
    assert_true(keeps("JobSet", set, "JobSet.llm/one/-/-/gossip", "JobSet/llm"));
    assert_true(keeps("JobSet", set, "JobSet.llm/many/1/pod.3/http", "JobSet/llm"));
    assert_false(keeps("JobSet", set, "JobSet.llm/many/2/pod.3/http", "JobSet/llm"));
    assert_true(keeps("JobSet", set, "JobSet.llm/many/-/pod/gossip", "JobSet/llm"));
    assert_false(
        keeps("JobSet", SETS(CONDITION("Completed", "True")), "JobSet.llm/one/3/-/http", "JobSet/llm"));
    assert_false(
        keeps("JobSet", SETS(CONDITION("Failed", "True")), "JobSet.llm/many/-/-/gossip", "JobSet/llm"));
}

static void an_object_keeps_of_its_role_what_its_template_asks_for(void **state) /* B4 */
{
    const char *two = WEB SHARES(",\\\"count\\\":2") "}}";
    const char *none = WEB "\"template\":{}}}";
    const char *broken = WEB TEMPLATE("{") "}}";
    const char *lws = "{\"metadata\":{\"name\":\"llm\",\"namespace\":\"shop\"},\"spec\":{"
                      "\"leaderWorkerTemplate\":{\"workerTemplate\":{}}}}";

    (void) state;
    assert_true(keeps("Deployment", two, "Deployment.web/web/-/-/gossip", "Deployment/web"));
    assert_true(keeps("Deployment", two, "Deployment.web/web/-/-/gossip.1", "Deployment/web"));
    assert_false(keeps("Deployment", two, "Deployment.web/web/-/-/gossip.2", "Deployment/web"));
    assert_false(keeps("Deployment", two, "Deployment.web/web/-/-/old", "Deployment/web"));
    assert_false(keeps("Deployment", two, "Deployment.web/web/-/-/http", "Deployment/web"));
    /* Nobody knows: it stays. */
    assert_true(keeps("Deployment", none, "Deployment.web/web/-/-/gossip", "Deployment/web"));
    assert_true(keeps("Deployment", broken, "Deployment.web/web/-/-/gossip", "Deployment/web"));
    assert_true(
        keeps("LeaderWorkerSet", lws, "LeaderWorkerSet.llm/llm/-/worker/gossip", "LeaderWorkerSet/llm"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pod_is_identified_by_its_owner_and_its_labels),
        cmocka_unit_test(a_pod_that_is_called_otherwise_is_not_the_named_one),
        cmocka_unit_test(a_copy_of_an_indexed_pod_has_no_index),
        cmocka_unit_test(only_our_own_ids_count),
        cmocka_unit_test(an_id_counts_no_longer_than_a_request_can_take),
        cmocka_unit_test(an_id_counts_only_for_the_object_of_the_same_name),
        cmocka_unit_test(a_namespace_that_cannot_be_is_refused),
        cmocka_unit_test(an_object_keeps_the_instances_that_it_has),
        cmocka_unit_test(a_job_and_a_jobset_keep_their_indexes_until_they_are_over),
        cmocka_unit_test(an_object_keeps_of_its_role_what_its_template_asks_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
