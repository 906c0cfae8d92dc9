/* SPDX-License-Identifier: MIT */
/* The ledger follows what the cluster has: confirms, writes again, declares, ends. */
#include "support/speak.h"
#include "support/t.h"

#include <stdlib.h>
#include <string.h>

#include "kube/controller/reconcile.h"
#include "kube/pool.h"
#include "lib/connection.h"

enum { TTL_MS = 1000, PODS = 0, SETS = 1 };
#define ID "0123456789abcdef0123456789abcdef"

struct world {
    dibs *handle;
    dibs_pool pool;
    struct inventory inventory;
    struct reconciler *reconciler;
    int64_t now_ms, listed_ms; /* the moment, and when the last lists began */
    bool leads;
    const char *late; /* a webhook claims this name, port 20017, during the pass; NULL: none */
    char complaint[512], assigned[512];
    size_t n_asked; /* for lists */
    dibs_err err;
};

static const struct installation installation = { .id = "test",
                                                  .keys = { "0123456789abcdef0123456789abcdef" },
                                                  .n_keys = 1 };

static bool is_proven(void *ctx, const char *keeper, int64_t since_ms)
{
    struct world *w = ctx;

    (void) keeper;
    w->n_asked++;
    return w->listed_ms >= since_ms;
}

static void claim_number(struct world *w, const char *name, const char *keeper, uint16_t port);

static bool may_change(void *ctx)
{
    struct world *w = ctx;

    if (w->late)
        claim_number(w, w->late, "Pod", 20017);
    w->late = NULL;
    return w->leads;
}

static void report(void *ctx, enum reconcile_finding what, const struct inventory_object *object,
                   uint16_t port, const char *text)
{
    struct world *w = ctx;
    char *to = what == RECONCILE_ASSIGNED ? w->assigned : w->complaint;

    (void) snprintf(to, sizeof w->complaint, "%d %s %u %s", (int) what, object->name, port, text);
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    dibs_flag flags[] = { { DIBS_SET_LEDGER, "memory:" }, { DIBS_SET_SOCKET, "none" } };
    dibs_settings *settings = calloc(1, sizeof *settings);

    assert_true(w && settings);
    ASSERT_OK(dibs_settings_load(flags, 2, settings, &w->err), &w->err);
    ASSERT_OK(dibs_open(settings, &w->handle, &w->err), &w->err);
    free(settings);
    ASSERT_OK(speak_for(w->handle, "kube:observed", &w->err), &w->err);
    ASSERT_OK(kube_pool_parse(&(struct kube_pool_flags){ .start_port = "20000", .port_range = "100" },
                              &w->pool, &w->err),
              &w->err);
    ASSERT_OK(kube_pool_open(w->handle, false, &w->pool, &w->pool, &w->err), &w->err);
    ASSERT_OK(reconcile_open(&(struct reconcile_options){ .handle = w->handle,
                                                          .ledger = handle_ledger(w->handle),
                                                          .pool = &w->pool,
                                                          .inventory = &w->inventory,
                                                          .is_proven = is_proven,
                                                          .may_change = may_change,
                                                          .report = report,
                                                          .ctx = w },
                             &w->reconciler, &w->err),
              &w->err);
    w->inventory.installation = &installation;
    w->now_ms = w->listed_ms = 1000;
    w->leads = true;
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    reconcile_close(w->reconciler);
    inventory_done(&w->inventory);
    dibs_close(w->handle);
    free(w);
    return 0;
}

/* As somebody writes it who may create objects, but has no key. */
static void put_unsigned(struct world *w, unsigned source, const char *kind, const char *text)
{
    jsonr_doc *doc = NULL;

    ASSERT_OK(jsonr_parse(text, strlen(text), &doc, &w->err), &w->err);
    assert_true(inventory_put(&w->inventory, source, kind, jsonr_root(doc)));
    jsonr_free(doc);
}

/* The object, with the webhook's signature where it has an assignment. */
static void put(struct world *w, unsigned source, const char *kind, const char *text)
{
    static const char begin[] = "\"annotations\":{";
    const char *at = strstr(text, "\"dibs.dev/assigned\"") ? strstr(text, begin) : NULL;
    char signature[INSTALLATION_SIGNATURE_MAX + 1];
    static char whole[4096];
    jsonr_doc *doc = NULL;
    struct installation_statement says = { .principal = "ns:shop" };

    if (!at) {
        put_unsigned(w, source, kind, text);
        return;
    }
    ASSERT_OK(jsonr_parse(text, strlen(text), &doc, &w->err), &w->err);
    const jsonr_value *annotations = jsonr_at(jsonr_root(doc), "metadata.annotations");
    assert_true(jsonr_get_string(annotations, "dibs.dev/claim", &says.id));
    assert_true(jsonr_get_string(annotations, "dibs.dev/assigned", &says.assigned));
    ASSERT_OK(installation_sign(&installation, &says, signature, &w->err), &w->err);
    jsonr_free(doc);
    at += strlen(begin);
    (void) snprintf(whole, sizeof whole, "%.*s\"dibs.dev/signature\":\"%s\",%s", (int) (at - text), text,
                    signature, at);
    put_unsigned(w, source, kind, whole);
}

static void drop(struct world *w, const char *text)
{
    jsonr_doc *doc = NULL;

    ASSERT_OK(jsonr_parse(text, strlen(text), &doc, &w->err), &w->err);
    inventory_drop(&w->inventory, jsonr_root(doc));
    jsonr_free(doc);
}

/* As the webhook does it. */
static uint16_t claim(struct world *w, const char *name, const char *keeper)
{
    dibs_request r = { .name = name,
                       .keep = true,
                       .holder = DIBS_HELD_BY_LEASE,
                       .ttl_ms = TTL_MS,
                       .pool = KUBE_POOL,
                       .keeper = keeper };
    dibs_batch batch = { .requests = &r, .n = 1 };
    dibs_claim out = { 0 };

    ASSERT_OK(speak_for(w->handle, "ns:shop", &w->err), &w->err);
    ASSERT_OK(dibs_claim_ports(w->handle, &batch, &out, &w->err), &w->err);
    ASSERT_OK(speak_for(w->handle, "kube:observed", &w->err), &w->err);
    return out.port;
}

static void claim_number(struct world *w, const char *name, const char *keeper, uint16_t port)
{
    dibs_request r = { .name = name,
                       .keep = true,
                       .holder = DIBS_HELD_BY_LEASE,
                       .ttl_ms = TTL_MS,
                       .pool = KUBE_POOL,
                       .mode = DIBS_REQUIRED,
                       .port = port,
                       .keeper = keeper };
    dibs_claim out = { 0 };

    ASSERT_OK(speak_for(w->handle, "ns:shop", &w->err), &w->err);
    ASSERT_OK(dibs_claim_ports(w->handle, &(dibs_batch){ .requests = &r, .n = 1 }, &out, &w->err), &w->err);
    ASSERT_OK(speak_for(w->handle, "kube:observed", &w->err), &w->err);
}

static void pass(struct world *w)
{
    w->complaint[0] = w->assigned[0] = '\0';
    w->now_ms++;
    ASSERT_OK(reconcile_pass(w->reconciler, w->now_ms, &w->err), &w->err);
}

/* A complete list that begins now. */
static void list(struct world *w)
{
    w->now_ms++;
    w->listed_ms = w->now_ms;
}

struct found {
    size_t n;
    dibs_claim last;
};

static bool count(void *ctx, const dibs_claim *c)
{
    struct found *f = ctx;

    f->n++;
    f->last = *c;
    return true;
}

static struct found claims(struct world *w)
{
    struct found f = { 0 };

    ASSERT_OK(dibs_claim_list(w->handle, &(dibs_filter){ .pool = KUBE_POOL }, count, &f, &w->err), &w->err);
    return f;
}

#define POD(uid, id, assigned, more)                                                               \
    "{\"metadata\":{\"namespace\":\"shop\",\"name\":\"web\",\"uid\":\"" uid "\",\"annotations\":{" \
    "\"dibs.dev/claim\":\"" id "\",\"dibs.dev/assigned\":\"" assigned "\"}}" more "}"
#define ASSIGNED(name, port, kind)                        \
    "[{\\\"claim\\\":\\\"" name "\\\",\\\"port\\\":" port \
    ",\\\"protocols\\\":[\\\"TCP\\\"],\\\"kind\\\":\\\"" kind "\\\"}]"
#define UNNAMED "Pod.web/web/~" ID "/-/http"
#define NAMED "StatefulSet.web/web/0/-/http"

static void a_claim_is_confirmed_when_its_pod_is_seen(void **state)
{
    struct world *w = *state;
    char pod[1024];
    uint16_t port = claim(w, UNNAMED, "Pod");

    pass(w);
    assert_int_equal(claims(w).last.holder, DIBS_HELD_BY_LEASE);
    assert_int_equal(reconcile_count(w->reconciler)->n_pending, 1);
    (void) snprintf(pod, sizeof pod, POD("u1", ID, ASSIGNED(UNNAMED, "%u", "Pod"), ""), port);
    put(w, PODS, "Pod", pod);
    pass(w);
    struct found f = claims(w);
    assert_int_equal(f.n, 1);
    assert_int_equal(f.last.holder, DIBS_HELD_BY_NOBODY);
    assert_true(f.last.is_kept);
    assert_string_equal(f.last.keeper, "Pod");
    assert_int_equal(reconcile_count(w->reconciler)->n_confirmed, 1);
    assert_string_equal(w->complaint, "");
    char ports[64];
    (void) snprintf(ports, sizeof ports, "web 0 Ports of the pod: http %u", port);
    assert_non_null(strstr(w->assigned, ports));
    pass(w);
    assert_string_equal(w->assigned, "");
}

#define BARE(annotations, more)                                                                          \
    "{\"metadata\":{\"namespace\":\"shop\",\"name\":\"web\",\"uid\":\"a\",\"annotations\":{" annotations \
    "}}" more "}"
#define ASKS(config) "\"dibs.dev/ports\":\"" config "\""

static void a_pod_that_asks_and_bypassed_the_webhook_is_reported_once(void **state)
{
    static const struct {
        const char *text;
        size_t n;
    } pods[] = {
        { BARE(ASKS("{\\\"references\\\":[{\\\"env\\\":\\\"A\\\",\\\"from\\\":\\\"b.c\\\"}]}"), ""), 1 },
        { BARE("\"rolebasedgroup.workloads.x-k8s.io/port-allocator\":\"{\"", ""), 1 },
        { BARE(ASKS("{}"), ""), 0 },
        { BARE(ASKS("{"), ",\"status\":{\"phase\":\"Failed\"}"), 0 },
        { BARE("", ""), 0 },
    };
    struct world *w = *state;

    for (size_t i = 0; i < sizeof pods / sizeof *pods; i++) {
        put(w, PODS, "Pod", pods[i].text);
        assert_int_equal(w->inventory.n_missed, pods[i].n);
        pass(w);
        assert_int_equal(strstr(w->complaint, "web 0 It asks for ports") != NULL, pods[i].n);
        pass(w);
        assert_string_equal(w->complaint, "");
        drop(w, pods[i].text);
        assert_int_equal(w->inventory.n_missed, 0);
    }
    for (size_t i = 0; i < RECONCILE_FINDINGS; i++)
        assert_int_equal(reconcile_count(w->reconciler)->n_findings[i], 0);
}

static void ports_of_a_pod_are_described_within_the_space(void **state)
{
    char http[] = "StatefulSet.web/web/0/-/http";
    char moved[] = "StatefulSet.web/web/0/-/dns/20002";
    char foreign[] = "foreign";
    const struct assigned_claim claims[] = {
        { .name = http, .port = 20001, .protos = 1u << DIBS_TCP },
        { .name = moved, .port = 20002, .protos = 1u << DIBS_UDP },
        { .name = foreign, .port = 3, .protos = 1u << DIBS_TCP | 1u << DIBS_UDP },
    };
    char text[64];

    (void) state;
    assigned_describe(claims, 3, text, sizeof text);
    assert_string_equal(text, "http 20001, dns 20002 UDP,  3 TCP UDP");
    assigned_describe(claims, 3, text, 38);
    assert_string_equal(text, "http 20001, dns 20002 UDP, ...");
    assigned_describe(claims, 3, text, 12);
    assert_string_equal(text, "...");
    assigned_describe(NULL, 0, text, sizeof text);
    assert_string_equal(text, "");
}

static void it_ends_only_when_a_list_begun_after_its_lease_shows_nobody(void **state)
{
    struct world *w = *state;

    (void) claim(w, UNNAMED, "Pod");
    pass(w);
    int64_t over_ms = w->now_ms + TTL_MS;
    list(w); /* while the lease runs */
    pass(w);
    assert_int_equal(claims(w).n, 1);
    assert_int_equal(reconcile_due_ms(w->reconciler), over_ms);
    w->now_ms = over_ms + 10 * TTL_MS; /* the lease is over, but nobody has looked since */
    pass(w);
    assert_int_equal(claims(w).n, 1);
    assert_true(w->n_asked > 0);
    list(w);
    w->leads = false;
    pass(w);
    assert_int_equal(claims(w).n, 1);
    w->leads = true;
    pass(w);
    assert_int_equal(claims(w).n, 0);
    assert_int_equal(reconcile_count(w->reconciler)->n_ended, 1);
}

static void a_pod_with_the_id_keeps_it_whatever_else_it_says(void **state)
{
    struct world *w = *state;

    (void) claim(w, UNNAMED, "Pod");
    put(w, PODS, "Pod", POD("u1", ID, "nonsense", ""));
    pass(w);
    w->now_ms += 2 * TTL_MS;
    list(w);
    pass(w);
    assert_int_equal(claims(w).n, 1);
    assert_int_equal(w->inventory.n_damaged, 1);
    drop(w, POD("u1", ID, "nonsense", ""));
    pass(w);
    list(w);
    pass(w);
    assert_int_equal(claims(w).n, 0);
}

static void a_finished_pod_gives_back(void **state)
{
    struct world *w = *state;
    static const char *const phases[] = { "Succeeded", "Failed" };

    for (size_t i = 0; i < 2; i++) {
        char pod[1024];
        uint16_t port = claim(w, UNNAMED, "Pod");

        (void) snprintf(pod, sizeof pod, POD("u1", ID, ASSIGNED(UNNAMED, "%u", "Pod"), ""), port);
        put(w, PODS, "Pod", pod);
        pass(w);
        (void) snprintf(pod, sizeof pod,
                        POD("u1", ID, ASSIGNED(UNNAMED, "%u", "Pod"), ",\"status\":{\"phase\":\"%s\"}"), port,
                        phases[i]);
        put(w, PODS, "Pod", pod);
        pass(w);
        list(w);
        pass(w);
        assert_int_equal(claims(w).n, 0);
    }
}

/* It was there and is not any more, before anybody has looked: neither waits for the lease. */
static void a_pod_that_came_and_went_unseen_gives_back(void **state)
{
    struct world *w = *state;

    for (int is_dropped = 0; is_dropped < 2; is_dropped++) {
        char pod[1024];
        uint16_t port = claim(w, UNNAMED, "Pod");

        (void) snprintf(pod, sizeof pod, POD("u1", ID, ASSIGNED(UNNAMED, "%u", "Pod"), "%s"), port,
                        is_dropped ? "" : ",\"status\":{\"phase\":\"Succeeded\"}");
        put(w, PODS, "Pod", pod);
        if (is_dropped)
            drop(w, pod);
        assert_int_equal(w->inventory.n_pods, !is_dropped);
        pass(w);
        assert_int_equal(claims(w).last.holder, DIBS_HELD_BY_NOBODY);
        pass(w);
        list(w);
        pass(w);
        assert_int_equal(claims(w).n, 0);
    }
}

/* The id has been kept for a pod that is still to come: what was there before it says nothing. */
static void a_lease_that_was_acquired_again_is_waited_for(void **state)
{
    struct world *w = *state;
    char pod[1024];
    uint16_t port = claim(w, UNNAMED, "Pod");

    (void) snprintf(pod, sizeof pod, POD("u1", ID, ASSIGNED(UNNAMED, "%u", "Pod"), ""), port);
    put(w, PODS, "Pod", pod);
    drop(w, pod);
    do /* times are of milliseconds */
        assert_int_equal(claim(w, UNNAMED, "Pod"), port);
    while (claims(w).last.changed_ms == claims(w).last.created_ms);
    pass(w);
    list(w);
    pass(w);
    assert_int_equal(claims(w).last.holder, DIBS_HELD_BY_LEASE);
}

#define SET(replicas)                                                                   \
    "{\"metadata\":{\"namespace\":\"shop\",\"name\":\"web\",\"uid\":\"s1\"},\"spec\":{" \
    "\"replicas\":" replicas ",\"template\":{}}}"

static void a_named_instance_keeps_its_port_until_it_is_scaled_away(void **state)
{
    struct world *w = *state;
    char pod[1024];
    uint16_t port = claim(w, NAMED, "StatefulSet/web");

    (void) snprintf(pod, sizeof pod, POD("u1", ID, ASSIGNED(NAMED, "%u", "StatefulSet/web"), ""), port);
    put(w, SETS, "StatefulSet", SET("1"));
    put(w, PODS, "Pod", pod);
    pass(w);
    drop(w, pod);
    pass(w);
    list(w);
    pass(w);
    assert_int_equal(claims(w).n, 1);
    put(w, SETS, "StatefulSet", SET("0"));
    pass(w);
    list(w);
    pass(w);
    assert_int_equal(claims(w).n, 0);
}

static void a_referenced_claim_waits_while_its_instance_is_desired(void **state)
{
    struct world *w = *state;

    (void) claim(w, NAMED, ""); /* its own pod has not come yet */
    put(w, SETS, "StatefulSet", SET("1"));
    pass(w);
    w->now_ms += 2 * TTL_MS;
    list(w);
    pass(w);
    assert_int_equal(claims(w).n, 1);
    put(w, SETS, "StatefulSet", SET("0"));
    pass(w);
    list(w);
    pass(w);
    assert_int_equal(claims(w).n, 0);
}

#define CLIENT(phase)                                                                                        \
    "{\"metadata\":{\"namespace\":\"shop\",\"name\":\"client\",\"uid\":\"c1\",\"labels\":{"                  \
    "\"dibs.dev/group\":\"g\"},\"annotations\":{\"dibs.dev/claim\":\"" ID "\",\"dibs.dev/assigned\":\"[]\"," \
    "\"dibs.dev/"                                                                                            \
    "ports\":\"{\\\"references\\\":[{\\\"env\\\":\\\"WEB\\\",\\\"from\\\":\\\"web[0].http\\\"}]}\"}},"       \
    "\"status\":{\"phase\":\"" phase "\"}}"

/* However long the pod lives that refers to it. */
static void a_reservation_ends_with_its_lease_when_no_target_has_come(void **state)
{
    struct world *w = *state;
    uint16_t port = claim(w, "g/web/0/-/http", "");
    char complaint[256];

    put(w, PODS, "Pod", CLIENT("Running"));
    pass(w);
    w->now_ms += TTL_MS / 2;
    list(w);
    pass(w);
    assert_int_equal(claims(w).n, 1);
    w->now_ms += TTL_MS / 2;
    pass(w);
    assert_int_equal(claims(w).n, 1); /* no list proves it */
    assert_string_equal(w->complaint, "");
    list(w);
    pass(w);
    assert_int_equal(claims(w).n, 0);
    (void) snprintf(
        complaint, sizeof complaint,
        "%d client %u No pod has come that has the port 'g/web/0/-/http', to which this pod refers",
        (int) RECONCILE_UNRESOLVED, port);
    assert_int_equal(strncmp(w->complaint, complaint, strlen(complaint)), 0);
    (void) claim(w, "g/web/1/-/http", ""); /* no existing pod got that one */
    pass(w);
    w->now_ms += TTL_MS;
    list(w);
    pass(w);
    assert_int_equal(claims(w).n, 0);
    assert_string_equal(w->complaint, "");
}

static size_t count_kept(struct world *w, const char *keeper)
{
    struct found f = { 0 };
    dibs_filter filter = { .pool = KUBE_POOL };

    ASSERT_OK(dibs_claim_list(w->handle, &filter, count, &f, &w->err), &w->err);
    return strcmp(f.last.keeper, keeper) == 0 ? f.n : SIZE_MAX;
}

#define PORTLESS                                                                                 \
    "{\"metadata\":{\"namespace\":\"shop\",\"name\":\"web-0\",\"uid\":\"u1\",\"labels\":{"       \
    "\"dibs.dev/group\":\"g\"},\"ownerReferences\":[{\"kind\":\"StatefulSet\",\"name\":\"web\"," \
    "\"controller\":true}]}}"

/* Pods have the numbers of a target that is gone: nobody else gets them, and a later target has them again.
 */
static void a_port_that_pods_refer_to_stays_reserved_when_its_target_is_gone(void **state)
{
    struct world *w = *state;

    uint16_t own = claim(w, "g/web/0/-/http", "StatefulSet/web");
    uint16_t second = claim(w, "g/web/0/-/http.1", "StatefulSet/web");
    uint16_t shared = claim(w, "g/web/-/-/http", "StatefulSet/web");
    (void) claim(w, "g/web/1/-/http", "StatefulSet/web");
    put(w, PODS, "Pod", CLIENT("Running"));
    pass(w);
    assert_int_equal(claims(w).n, 4);
    w->now_ms += 2 * TTL_MS;
    pass(w);
    assert_int_equal(count_kept(w, "StatefulSet/web"), 4); /* no list has shown yet that it is gone */
    list(w);
    pass(w);
    assert_int_equal(count_kept(w, ""), 3);
    assert_int_equal(claims(w).last.holder, DIBS_HELD_BY_NOBODY);
    assert_int_equal(reconcile_count(w->reconciler)->n_ended, 1);
    put(w, PODS, "Pod", PORTLESS); /* its next pod lacks the ports */
    list(w);
    pass(w);
    assert_int_equal(count_kept(w, ""), 3);
    drop(w, PORTLESS);
    /* Another object may be the role now. */
    assert_int_equal(claim(w, "g/web/0/-/http", "LeaderWorkerSet/web"), own);
    assert_int_equal(claim(w, "g/web/0/-/http.1", "LeaderWorkerSet/web"), second);
    assert_int_equal(claim(w, "g/web/-/-/http", "LeaderWorkerSet/web"), shared);
    drop(w, CLIENT("Running"));
    pass(w);
    w->now_ms += 2 * TTL_MS;
    list(w);
    pass(w);
    assert_int_equal(claims(w).n, 0);
}

#define OWNED(uid, assigned)                                                                              \
    "{\"metadata\":{\"namespace\":\"shop\",\"name\":\"web-0\",\"uid\":\"" uid "\",\"ownerReferences\":[{" \
    "\"kind\":\"StatefulSet\",\"name\":\"web\",\"controller\":true}],\"annotations\":{\"dibs.dev/"        \
    "ports\":\"{}\","                                                                                     \
    "\"dibs.dev/claim\":\"" ID "\",\"dibs.dev/assigned\":\"" assigned "\"}}}"

static void earlier_ports_of_an_instance_end_when_its_next_pod_exists(void **state) /* B4 */
{
    struct world *w = *state;

    (void) claim(w, NAMED, "StatefulSet/web");
    put(w, SETS, "StatefulSet", SET("1"));
    pass(w);
    w->now_ms += 2 * TTL_MS;
    list(w);
    pass(w);
    assert_int_equal(claims(w).n, 1); /* the instance has no pod just now */
    put(w, PODS, "Pod", OWNED("u2", "[]"));
    pass(w);
    list(w);
    pass(w);
    assert_int_equal(claims(w).n, 0);
}

static void a_number_that_has_moved_is_its_pods_as_long_as_that_is_there(void **state)
{
    struct world *w = *state;
    dibs_claim found = { 0 };

    put(w, SETS, "StatefulSet", SET("1"));
    put(w, PODS, "Pod", OWNED("u1", ASSIGNED(NAMED "/20017", "20017", "StatefulSet/web")));
    pass(w);
    /* As the webhook leaves it for the next pod of the instance: the name has another number. */
    drop(w, OWNED("u1", "[]"));
    put(w, PODS, "Pod", OWNED("u1", ASSIGNED(NAMED, "20017", "StatefulSet/web")));
    (void) claim(w, NAMED, "StatefulSet/web");
    pass(w);
    assert_string_equal(w->complaint, "");
    assert_int_equal(claims(w).n, 2);
    assert_int_equal(claims(w).last.holder, DIBS_HELD_BY_LEASE); /* it is not the old pod's */
    drop(w, OWNED("u1", "[]"));
    pass(w);
    list(w);
    pass(w);
    found = claims(w).last;
    assert_int_equal(claims(w).n, 1);
    assert_string_equal(found.name, NAMED);
}

/* The next pod of an instance was seen before its new claim: the name still has the number of the last one.
 */
static void a_new_number_that_arrives_after_its_pod_is_no_finding(void **state)
{
    struct world *w = *state;

    put(w, SETS, "StatefulSet", SET("1"));
    put(w, PODS, "Pod", OWNED("u1", ASSIGNED(NAMED, "20017", "StatefulSet/web")));
    pass(w);
    drop(w, OWNED("u1", "[]"));
    put(w, PODS, "Pod", OWNED("u2", ASSIGNED(NAMED, "20018", "StatefulSet/web")));
    pass(w);
    assert_string_equal(w->complaint, "");
    w->now_ms += 2000; /* it has not arrived: the number is not the pod's */
    pass(w);
    assert_non_null(strstr(w->complaint, "0 web-0 20018 Port 20018 is no longer the pod's"));
}

static void asked_for_again_it_does_not_end(void **state)
{
    struct world *w = *state;

    (void) claim(w, NAMED, "StatefulSet/web");
    pass(w);
    w->now_ms += 2 * TTL_MS;
    pass(w);
    list(w);                                   /* without that pod */
    (void) usleep(2000);                       /* a lease is longer when it is asked for later */
    (void) claim(w, NAMED, "StatefulSet/web"); /* a pod is being admitted since */
    pass(w);
    assert_int_equal(claims(w).n, 1);
    assert_int_equal(reconcile_count(w->reconciler)->n_ended, 0);
}

static void ports_of_pods_that_the_ledger_lacks_are_written_again(void **state) /* B7 */
{
    struct world *w = *state;

    put(w, PODS, "Pod", POD("u1", ID, ASSIGNED(UNNAMED, "20017", "Pod"), ""));
    pass(w);
    struct found f = claims(w);
    assert_int_equal(f.n, 1);
    assert_int_equal(f.last.port, 20017);
    assert_string_equal(f.last.principal, "ns:shop");
    assert_string_equal(f.last.name, UNNAMED);
    assert_string_equal(f.last.keeper, "Pod");
    assert_true(f.last.is_exclusive && f.last.is_kept);
    assert_non_null(strstr(w->complaint, "1 web 20017"));
    pass(w);
    assert_int_equal(claims(w).n, 1);
    assert_string_equal(w->complaint, "");
}

/* The pod was seen before its claim: the copy of the ledger was older than the list of pods. */
static void a_claim_that_arrives_after_its_pod_is_no_finding(void **state)
{
    struct world *w = *state;

    put(w, PODS, "Pod", POD("u1", ID, ASSIGNED(UNNAMED, "20017", "Pod"), ""));
    w->late = UNNAMED;
    pass(w);
    assert_string_equal(w->complaint, "");
    assert_int_equal(claims(w).n, 1);
    assert_int_equal(reconcile_count(w->reconciler)->n_restored, 0);
    assert_int_equal(reconcile_count(w->reconciler)->n_findings[RECONCILE_REPAIRED], 0);
}

static void a_shared_port_is_restored_and_reported_once(void **state)
{
    struct world *w = *state;

    put(w, PODS, "Pod",
        POD("u1", ID, ASSIGNED("Deployment.web/web/-/-/http", "20017", "Deployment/web"), ""));
    put(w, PODS, "Pod",
        POD("u2", "ffffffffffffffffffffffffffffffff",
            ASSIGNED("Deployment.web/web/-/-/http", "20017", "Deployment/web"), ""));
    pass(w);
    assert_int_equal(claims(w).n, 1);
    assert_int_equal(reconcile_count(w->reconciler)->n_findings[RECONCILE_REPAIRED], 1);
}

/* A user who may create pods past the webhook can write any annotation. */
static void a_claim_that_no_signature_proves_is_not_written_again(void **state)
{
    struct world *w = *state;
    const char *forged = POD("u1", ID, ASSIGNED(UNNAMED, "20017", "Pod"),
                             ",\"spec\":{\"containers\":[{\"ports\":[{\"hostPort\":20017}]}]}");

    put_unsigned(w, PODS, "Pod", forged);
    pass(w);
    assert_int_equal(claims(w).n, 1); /* the host port, as of any pod */
    assert_string_equal(claims(w).last.principal, "kube:observed");
    assert_string_equal(w->complaint, ""); /* perhaps only reported too early */
    w->now_ms += 2000;
    pass(w);
    assert_non_null(strstr(w->complaint, "4 web 20017"));
    assert_non_null(strstr(w->complaint, "dibs.dev/signature does not prove it"));
    assert_int_equal(claims(w).n, 1);
    pass(w);
    assert_string_equal(w->complaint, ""); /* once a minute */
}

static void a_claim_that_the_ledger_has_needs_no_signature(void **state)
{
    struct world *w = *state;
    char pod[1024];
    uint16_t port = claim(w, UNNAMED, "Pod");

    (void) snprintf(pod, sizeof pod,
                    POD("u1", ID, ASSIGNED(UNNAMED, "%u", "Pod"),
                        ",\"spec\":{\"containers\":[{\"ports\":[{\"hostPort\":%u}]}]}"),
                    port, port);
    put_unsigned(w, PODS, "Pod", pod);
    pass(w);
    assert_int_equal(claims(w).n, 1);
    assert_int_equal(claims(w).last.holder, DIBS_HELD_BY_NOBODY);
    w->now_ms += 2 * TTL_MS;
    list(w);
    pass(w);
    assert_int_equal(claims(w).n, 1);
    assert_string_equal(w->complaint, "");
}

static void one_number_of_two_pods_is_reported(void **state)
{
    struct world *w = *state;

    put(w, PODS, "Pod", POD("u1", ID, ASSIGNED("Pod.a/a/~" ID "/-/http", "20017", "Pod"), ""));
    pass(w);
    put(w, PODS, "Pod",
        POD("u2", "ffffffffffffffffffffffffffffffff",
            ASSIGNED("Pod.b/b/~ffffffffffffffffffffffffffffffff/-/http", "20017", "Pod"), ""));
    pass(w);
    assert_string_equal(w->complaint, ""); /* perhaps only reported too early */
    w->now_ms += 2000;
    pass(w);
    assert_non_null(strstr(w->complaint, "0 web 20017"));
    assert_int_equal(claims(w).n, 1);
}

static void a_number_outside_of_the_pool_is_reported_once(void **state)
{
    struct world *w = *state;

    put(w, PODS, "Pod", POD("u1", ID, ASSIGNED(UNNAMED, "30000", "Pod"), ""));
    pass(w);
    assert_non_null(strstr(w->complaint, "2 web 30000"));
    assert_int_equal(claims(w).n, 0);
    pass(w);
    assert_string_equal(w->complaint, "");
}

#define SERVICE                                                                                       \
    "{\"metadata\":{\"namespace\":\"shop\",\"name\":\"front\",\"uid\":\"v1\"},\"spec\":{\"ports\":[{" \
    "\"nodePort\":20050},{\"nodePort\":31000}]}}"

static void numbers_of_others_are_declared_while_they_are_used(void **state)
{
    struct world *w = *state;

    put(w, SETS, "Service", SERVICE);
    pass(w);
    struct found f = claims(w);
    assert_int_equal(f.n, 1);
    assert_int_equal(f.last.port, 20050);
    assert_false(f.last.is_exclusive);
    assert_string_equal(f.last.keeper, "Service/front");
    for (int i = 0; i < 99; i++) { /* all others; never that one */
        char name[64];

        (void) snprintf(name, sizeof name, "Pod.web/web/%d/-/http", i);
        assert_int_not_equal(claim(w, name, "Pod"), 20050);
    }
    drop(w, SERVICE);
    pass(w);
    list(w);
    pass(w);
    assert_int_equal(claims(w).n, 99);
}

static void a_pool_that_has_grown_is_heeded(void **state)
{
    struct world *w = *state;

    put(w, SETS, "Service", SERVICE);
    put(w, PODS, "Pod", POD("u1", ID, ASSIGNED(UNNAMED, "31001", "Pod"), ""));
    pass(w);
    assert_int_equal(claims(w).n, 1);
    assert_non_null(strstr(w->complaint, "not within the range"));
    w->pool.ranges.item[w->pool.ranges.n++] = (dibs_range){ 31000, 31009 };
    ASSERT_OK(dibs_pool_put(w->handle, &w->pool, &w->err), &w->err);
    pass(w);
    assert_int_equal(claims(w).n, 3);
    assert_int_equal(reconcile_count(w->reconciler)->n_size, 110);
}

static void a_number_that_dibs_gave_before_is_reported(void **state)
{
    struct world *w = *state;

    put(w, PODS, "Pod", POD("u1", ID, ASSIGNED(UNNAMED, "20050", "Pod"), ""));
    pass(w);
    put(w, SETS, "Service", SERVICE);
    pass(w);
    assert_non_null(strstr(w->complaint, "0 front 20050"));
    assert_int_equal(claims(w).n, 2);
}

static void a_copy_that_has_the_ports_of_a_living_pod_is_reported(void **state)
{
#define ROLE_NAME "Deployment.web/web/-/-/gossip"
    struct world *w = *state;

    put(w, PODS, "Pod", POD("u1", ID, ASSIGNED(UNNAMED, "20017", "Pod"), ""));
    pass(w);
    w->now_ms += 60000;
    pass(w);
    assert_string_equal(w->complaint, "");
    put(w, PODS, "Pod", POD("u2", ID, ASSIGNED(UNNAMED, "20017", "Pod"), ""));
    pass(w);
    assert_string_equal(w->complaint, ""); /* perhaps the end of the other one was not seen yet */
    w->now_ms += 1000;
    pass(w);
    assert_non_null(strstr(w->complaint, "0 web 20017 Port 20017 is also that of another pod"));
    pass(w);
    assert_string_equal(w->complaint, "");
    assert_int_equal(claims(w).n, 1);
    /* finished or gone it has no port */
    put(w, PODS, "Pod",
        POD("u2", ID, ASSIGNED(UNNAMED, "20017", "Pod"), ",\"status\":{\"phase\":\"Failed\"}"));
    w->now_ms += 60000;
    pass(w);
    assert_string_equal(w->complaint, "");
    /* ports of a role are shared */
    put(w, PODS, "Pod", POD("u1", ID, ASSIGNED(ROLE_NAME, "20018", "Pod"), ""));
    put(w, PODS, "Pod", POD("u2", ID, ASSIGNED(ROLE_NAME, "20018", "Pod"), ""));
    pass(w);
    w->now_ms += 1000;
    w->complaint[0] = '\0';
    pass(w);
    assert_string_equal(w->complaint, "");
}

static void a_list_ends_objects_that_it_lacks(void **state)
{
    struct world *w = *state;

    put(w, PODS, "Pod", POD("u1", ID, ASSIGNED(UNNAMED, "20017", "Pod"), ""));
    put(w, SETS, "StatefulSet", SET("1"));
    pass(w);
    inventory_begin(&w->inventory, SETS); /* of another source */
    inventory_end(&w->inventory, SETS);
    assert_int_equal(w->inventory.n_pods, 1);
    inventory_begin(&w->inventory, PODS);
    inventory_end(&w->inventory, PODS);
    assert_int_equal(w->inventory.n_pods, 0);
    pass(w);
    list(w);
    pass(w);
    assert_int_equal(claims(w).n, 0);
}

static void pools_are_as_rbg_says_them(void **state)
{
    struct world *w = *state;
    static const struct {
        struct kube_pool_flags texts;
        const char *why;
    } rows[] = {
        { { .start_port = "0" }, "--start-port" },
        { { .start_port = "65536: beyond" }, "--start-port" },
        { { .start_port = "x" }, "--start-port" },
        { { .port_range = "0" }, "--port-range" },
        { { .start_port = "60000", .port_range = "5537" }, "65536: beyond" },
        { { .strategy = "best" }, "unsupported port allocator strategy: best" },
    };
    dibs_pool pool = { 0 };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(kube_pool_parse(&rows[i].texts, &pool, &w->err), DIBS_INVALID);
        assert_non_null(strstr(w->err.msg, rows[i].why));
    }
    ASSERT_OK(
        kube_pool_parse(
            &(struct kube_pool_flags){ .start_port = "60000", .port_range = "5536", .strategy = "random" },
            &pool, &w->err),
        &w->err);
    assert_int_equal(pool.ranges.item[0].last, 65535);
    assert_string_equal(pool.order, "random");
    ASSERT_OK(kube_pool_open(w->handle, false, &pool, &pool, &w->err), &w->err);
    assert_int_equal(pool.ranges.item[0].last, 20099);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_claim_is_confirmed_when_its_pod_is_seen),
        CASE(a_pod_that_asks_and_bypassed_the_webhook_is_reported_once),
        cmocka_unit_test(ports_of_a_pod_are_described_within_the_space),
        CASE(it_ends_only_when_a_list_begun_after_its_lease_shows_nobody),
        CASE(a_pod_with_the_id_keeps_it_whatever_else_it_says),
        CASE(a_finished_pod_gives_back),
        CASE(a_pod_that_came_and_went_unseen_gives_back),
        CASE(a_lease_that_was_acquired_again_is_waited_for),
        CASE(a_named_instance_keeps_its_port_until_it_is_scaled_away),
        CASE(a_referenced_claim_waits_while_its_instance_is_desired),
        CASE(a_reservation_ends_with_its_lease_when_no_target_has_come),
        CASE(a_port_that_pods_refer_to_stays_reserved_when_its_target_is_gone),
        CASE(earlier_ports_of_an_instance_end_when_its_next_pod_exists),
        CASE(a_number_that_has_moved_is_its_pods_as_long_as_that_is_there),
        CASE(a_new_number_that_arrives_after_its_pod_is_no_finding),
        CASE(asked_for_again_it_does_not_end),
        CASE(ports_of_pods_that_the_ledger_lacks_are_written_again),
        CASE(a_claim_that_arrives_after_its_pod_is_no_finding),
        CASE(a_shared_port_is_restored_and_reported_once),
        CASE(a_claim_that_no_signature_proves_is_not_written_again),
        CASE(a_claim_that_the_ledger_has_needs_no_signature),
        CASE(one_number_of_two_pods_is_reported),
        CASE(a_number_outside_of_the_pool_is_reported_once),
        CASE(numbers_of_others_are_declared_while_they_are_used),
        CASE(a_pool_that_has_grown_is_heeded),
        CASE(a_number_that_dibs_gave_before_is_reported),
        CASE(a_copy_that_has_the_ports_of_a_living_pod_is_reported),
        CASE(a_list_ends_objects_that_it_lacks),
        CASE(pools_are_as_rbg_says_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
