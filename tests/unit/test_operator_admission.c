/* SPDX-License-Identifier: MIT */
/* Reviews from question to answer, on a real ledger: what is asked for is claimed once, whoever asks again
 * gets the same, and a copy does not. */
#include "lib/handle.h"
#include "operator/admission.h"
#include "support/core.h"

#define OWNER(kind, name) \
    "\"ownerReferences\":[{\"kind\":\"" kind "\",\"name\":\"" name "\",\"controller\":true}]"
#define HTTP "{\\\"allocations\\\":[{\\\"name\\\":\\\"http\\\",\\\"env\\\":\\\"PORT\\\"}]}"
#define BODY "\"spec\":{\"containers\":[{\"name\":\"main\"}]}"

static const struct admission_template templates[] = { { "RoleInstance", "spec.components[].template" } };
static const struct admission_options options = {
    .pool = "kube", .pending_ms = 300000, .templates = templates, .n_templates = 1
};

struct asked {
    bool is_allowed;
    int code;
    char message[DIBS_ERR_MSG_MAX];
    char warning[256];
    char patch[16384];
};

static dibs *open_pool(struct engine *e, const char *ranges)
{
    dibs *handle = NULL;
    dibs_pool pool = { .name = "kube", .ranges = e_ranges(ranges), .order = "stride" };

    ASSERT_OK(dibs_open(&e->settings, &handle, &e->err), &e->err);
    ASSERT_OK(handle_speak_for(handle, "ns:any", "", &e->err), &e->err);
    ASSERT_OK(dibs_pool_put(handle, &pool, &e->err), &e->err);
    return handle;
}

/* `more`: further members of the request. */
static struct asked *review(dibs *handle, const char *operation, const char *more)
{
    static char text[65536];
    struct asked *out = calloc(1, sizeof *out);
    struct admission a = { 0 };
    dibs_err err = { 0 };

    assert_non_null(out);
    int n = snprintf(
        text, sizeof text,
        "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{\"uid\":\"u-1\","
        "\"kind\":{\"group\":\"\",\"version\":\"v1\",\"kind\":\"Pod\"},\"namespace\":\"shop\","
        "\"operation\":\"%s\",%s}}",
        operation, more);
    assert_true(n > 0 && (size_t) n < sizeof text);
    ASSERT_OK(admission_begin(&options, text, (size_t) n, &a, &err), &err);
    assert_string_equal(a.review.uid, "u-1");
    if (a.needs_ledger)
        admission_work(&a, &options, handle);
    out->is_allowed = a.verdict.is_allowed;
    out->code = a.verdict.code;
    (void) snprintf(out->message, sizeof out->message, "%s", a.verdict.message);
    (void) snprintf(out->warning, sizeof out->warning, "%s", a.verdict.warning);
    if (a.verdict.patch.n > 0)
        (void) snprintf(out->patch, sizeof out->patch, "%.*s", (int) a.verdict.patch.n, a.verdict.patch.at);
    admission_done(&a);
    return out;
}

static struct asked *create(dibs *handle, const char *pod)
{
    static char more[60000];

    (void) snprintf(more, sizeof more, "\"object\":%s", pod);
    return review(handle, "CREATE", more);
}

/* The value that follows `before` in the patch, up to the next quote that is not escaped; "" when it is not
 * there. */
static const char *behind(const struct asked *asked, const char *before)
{
    static char out[8][4096];
    static size_t turn;
    char *to = out[turn++ % 8];
    const char *at = strstr(asked->patch, before);
    size_t n = 0;

    if (at)
        for (at += strlen(before); *at && n < sizeof out[0] - 2 && *at != '"'; at++) {
            if (*at == '\\')
                to[n++] = *at++;
            to[n++] = *at;
        }
    to[n] = '\0';
    return to;
}

static const char *variable(const struct asked *asked, const char *name)
{
    char before[128];

    (void) snprintf(before, sizeof before, "{\"name\":\"%s\",\"value\":\"", name);
    return behind(asked, before);
}

#define ANNOTATED "\"path\":\"/metadata/annotations/"
static const char *claim_id(const struct asked *asked)
{
    return behind(asked, ANNOTATED "dibs.dev~1claim\",\"value\":\"");
}

static const char *assigned(const struct asked *asked)
{
    return behind(asked, ANNOTATED "dibs.dev~1assigned\",\"value\":\"");
}

#define ASSERT_ALLOWED(asked)                                    \
    do {                                                         \
        if (!(asked)->is_allowed)                                \
            fail_msg("%d: %s", (asked)->code, (asked)->message); \
    } while (0)
#define ASSERT_REFUSED(asked, with, text)                                                        \
    do {                                                                                         \
        if ((asked)->is_allowed || (asked)->code != (with) || !strstr((asked)->message, (text))) \
            fail_msg("%d: %s", (asked)->code, (asked)->message);                                 \
        assert_string_equal((asked)->patch, "");                                                 \
    } while (0)

/* A pod with the annotation of either key. */
#define POD(metadata, key, config) \
    "{\"metadata\":{" metadata ",\"annotations\":{\"" key "\":\"" config "\"}}," BODY "}"
#define OWN(metadata, config) POD(metadata, "dibs.dev/ports", config)
#define SET(n) "\"name\":\"web-" #n "\"," OWNER("StatefulSet", "web")

static void what_asks_for_nothing_passes_without_a_ledger(void **state)
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
        "\",\"dibs.dev/claim\":\"%s\",\"dibs.dev/assigned\":\"%s\"}},\"spec\":{\"containers\":[{\"name\":"
        "\"main\",\"env\":[{\"name\":\"PORT\",\"value\":\"%s\"}]}]}%s}",
        metadata, claim_id(first), assigned(first), variable(first, "PORT"), more);
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

static size_t n_claims;
static bool count(void *ctx, const dibs_claim *claim)
{
    (void) ctx;
    (void) claim;
    n_claims++;
    return true;
}

static size_t count_claims(struct engine *e, dibs *handle)
{
    n_claims = 0;
    ASSERT_OK(dibs_claim_list(handle, &(dibs_filter){ 0 }, count, NULL, &e->err), &e->err);
    return n_claims;
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
          "references[0].from: role 'a' has pods without a number", 422 },
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

static void what_a_pod_was_given_cannot_be_changed(void **state)
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
        { CHANGE(NOTE("{\\\"allocations\\\":[{\\\"name\\\":\\\"a\\\",\\\"env\\\":\\\"A\\\","
                      "\\\"annotationKey\\\":\\\"my/a\\\"}]}",
                      "," CLAIM_A ",\"my/a\":\"20001\""),
                 NOTE("{\\\"allocations\\\":[{\\\"name\\\":\\\"a\\\",\\\"env\\\":\\\"A\\\","
                      "\\\"annotationKey\\\":\\\"my/a\\\"}]}",
                      "," CLAIM_A ",\"my/a\":\"20002\"")),
          "annotations[my/a]" },
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
        ASSERT_OK(handle_speak_for(handle, "ns:shop", "", &e->err), &e->err);
        ASSERT_OK(
            dibs_claim_release(handle, &(dibs_which){ .all_mine = true }, DIBS_RELEASE_FORCE, NULL, &e->err),
            &e->err);
        assert_int_equal(count_claims(e, handle), 0);
        dibs_close(handle);
    }
}

/* Two instances, and in each the worker comes first and foresees a port of its own leader; it is the role's.
 */
static void who_was_told_another_number_than_it_turns_out_to_be_is_warned_of(void **state)
{
    struct engine *e = *state;
    dibs *handle = open_pool(e, "20000-20099");
    struct asked *first = create(handle, forms[0].shared_worker);
    struct asked *second =
        create(handle, POD("\"name\":\"pd-prefill-1-worker-0\"," OWNER(
                               "RoleInstance", "pd-prefill-1") "," RBG("Components", "worker", "0"),
                           RBG_KEY, WORKER_CONFIG("leader-port-static")));
    struct asked *leader = create(handle, forms[0].leader);
    struct asked *other = create(handle, forms[0].second_leader);

    ASSERT_ALLOWED(other);
    assert_string_equal(leader->warning, "");
    assert_string_equal(variable(first, "LEADER_ADDR_PORT"), variable(leader, "LEADER_PORT_STATIC"));
    assert_string_not_equal(variable(second, "LEADER_ADDR_PORT"), variable(other, "LEADER_PORT_STATIC"));
    assert_non_null(strstr(other->warning, variable(second, "LEADER_ADDR_PORT")));
    free(first);
    free(second);
    free(leader);
    free(other);
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

/* ---- a changed configuration ---- */

/* The pod of that name may still be there: the API server says so only after it has asked us. */
static void what_changes_ends_no_port_that_may_be_in_use(void **state)
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
    ASSERT_OK(dibs_claim_find(handle, &(dibs_which){ .name = left }, &claim, &e->err), &e->err);
    assert_true(claim.is_kept);
    assert_int_equal(claim.bindings[0].proto, DIBS_TCP);
    free(first);
    free(changed);
    dibs_close(handle);
}

/* Bare pods share it, and nobody but they would keep it under another name. */
static void what_bare_pods_share_does_not_change_under_them(void **state)
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
                                 "\\\"env\\\":\\\"TWO\\\",\\\"count\\\":2,\\\"proto\\\":\\\"tcp+udp\\\"}]}\"}"
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
    assert_int_equal(count_claims(e, handle), 5);
    free(asked);
    dibs_close(handle);
}

static void what_is_no_review_is_a_bad_request(void **state)
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
    struct review_verdict verdict = { .is_allowed = true, .warning = "w" };
    struct bytes out = { 0 };

    (void) state;
    bytes_add_text(&verdict.patch, "[]");
    review_write("u-\"1", &verdict, &out);
    bytes_add(&out, "", 1);
    assert_string_equal(
        out.at, "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"response\":{\"uid\":"
                "\"u-\\\"1\",\"allowed\":true,\"patchType\":\"JSONPatch\",\"patch\":\"W10=\",\"warnings\":["
                "\"w\"]}}\n");
    bytes_done(&out);
    out = (struct bytes){ 0 };
    verdict.warning[0] = '\0';
    review_refuse(&verdict, 422, "no %s", "way");
    review_write("u", &verdict, &out);
    bytes_add(&out, "", 1);
    assert_string_equal(
        out.at,
        "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"response\":{\"uid\":\"u\","
        "\"allowed\":false,\"status\":{\"code\":422,\"message\":\"no way\"}}}\n");
    bytes_done(&out);
    bytes_done(&verdict.patch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_asks_for_nothing_passes_without_a_ledger),
        cmocka_unit_test(a_static_pod_is_shown_and_not_asked),
        E_TEST(a_named_instance_gets_the_same_port_again),
        E_TEST(asked_once_more_nothing_changes),
        E_TEST(a_copy_gets_ports_of_its_own),
        E_TEST(a_dry_run_claims_nothing),
        E_TEST(refusals_name_the_field_and_claim_nothing),
        cmocka_unit_test(what_a_pod_was_given_cannot_be_changed),
        cmocka_unit_test(templates_are_checked_when_they_are_written),
        E_TEST(case_41_of_rbg_with_equality),
        E_TEST(who_was_told_another_number_than_it_turns_out_to_be_is_warned_of),
        E_TEST(a_standalone_role_can_be_referred_to_by_either_name),
        E_TEST(references_reach_across_the_objects_of_a_group),
        E_TEST(two_objects_are_not_one_role),
        E_TEST(what_changes_ends_no_port_that_may_be_in_use),
        E_TEST(what_bare_pods_share_does_not_change_under_them),
        E_TEST(blocks_counts_and_host_ports),
        cmocka_unit_test(what_is_no_review_is_a_bad_request),
        cmocka_unit_test(an_answer_has_the_form_that_the_api_server_reads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
