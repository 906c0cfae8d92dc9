/* SPDX-License-Identifier: MIT */
/* The ledger follows what the cluster has: claims are confirmed, stay, and end. */
#include "support/reconcile.h"

#include <string.h>

static void a_claim_is_confirmed_when_its_pod_is_seen(void **state)
{
    struct world *w = *state;
    char pod[1024];
    uint16_t port = world_claim(w, UNNAMED, "Pod");

    world_pass(w);
    assert_int_equal(world_claims(w).last.holder, DIBS_HELD_BY_LEASE);
    assert_int_equal(reconcile_count(w->reconciler)->n_pending, 1);
    (void) snprintf(pod, sizeof pod, POD("u1", ID, ASSIGNED(UNNAMED, "%u", "Pod"), ""), port);
    world_put(w, PODS, "Pod", pod);
    world_pass(w);
    struct found f = world_claims(w);
    assert_int_equal(f.n, 1);
    assert_int_equal(f.last.holder, DIBS_HELD_BY_NOBODY);
    assert_true(f.last.is_kept);
    assert_string_equal(f.last.keeper, "Pod");
    assert_int_equal(reconcile_count(w->reconciler)->n_confirmed, 1);
    assert_string_equal(w->complaint, "");
    char ports[64];
    (void) snprintf(ports, sizeof ports, "web 0 Ports of the pod: http %u", port);
    assert_non_null(strstr(w->assigned, ports));
    world_pass(w);
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
        world_put(w, PODS, "Pod", pods[i].text);
        assert_int_equal(w->inventory.n_missed, pods[i].n);
        world_pass(w);
        assert_int_equal(strstr(w->complaint, "web 0 It asks for ports") != NULL, pods[i].n);
        world_pass(w);
        assert_string_equal(w->complaint, "");
        world_drop(w, pods[i].text);
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

    (void) world_claim(w, UNNAMED, "Pod");
    world_pass(w);
    int64_t over_ms = w->now_ms + TTL_MS;
    world_list(w); /* while the lease runs */
    world_pass(w);
    assert_int_equal(world_claims(w).n, 1);
    assert_int_equal(reconcile_due_ms(w->reconciler), over_ms);
    w->now_ms = over_ms + 10 * TTL_MS; /* the lease is over, but nobody has looked since */
    world_pass(w);
    assert_int_equal(world_claims(w).n, 1);
    assert_true(w->n_asked > 0);
    world_list(w);
    w->leads = false;
    world_pass(w);
    assert_int_equal(world_claims(w).n, 1);
    w->leads = true;
    world_pass(w);
    assert_int_equal(world_claims(w).n, 0);
    assert_int_equal(reconcile_count(w->reconciler)->n_ended, 1);
}

static void a_pod_with_the_id_keeps_it_whatever_else_it_says(void **state)
{
    struct world *w = *state;

    (void) world_claim(w, UNNAMED, "Pod");
    world_put(w, PODS, "Pod", POD("u1", ID, "nonsense", ""));
    world_pass(w);
    w->now_ms += 2 * TTL_MS;
    world_list(w);
    world_pass(w);
    assert_int_equal(world_claims(w).n, 1);
    assert_int_equal(w->inventory.n_damaged, 1);
    world_drop(w, POD("u1", ID, "nonsense", ""));
    world_pass(w);
    world_list(w);
    world_pass(w);
    assert_int_equal(world_claims(w).n, 0);
}

static void a_finished_pod_gives_back(void **state)
{
    struct world *w = *state;
    static const char *const phases[] = { "Succeeded", "Failed" };

    for (size_t i = 0; i < 2; i++) {
        char pod[1024];
        uint16_t port = world_claim(w, UNNAMED, "Pod");

        (void) snprintf(pod, sizeof pod, POD("u1", ID, ASSIGNED(UNNAMED, "%u", "Pod"), ""), port);
        world_put(w, PODS, "Pod", pod);
        world_pass(w);
        (void) snprintf(pod, sizeof pod,
                        POD("u1", ID, ASSIGNED(UNNAMED, "%u", "Pod"), ",\"status\":{\"phase\":\"%s\"}"), port,
                        phases[i]);
        world_put(w, PODS, "Pod", pod);
        world_pass(w);
        world_list(w);
        world_pass(w);
        assert_int_equal(world_claims(w).n, 0);
    }
}

/* It was there and is not any more, before anybody has looked: neither waits for the lease. */
static void a_pod_that_came_and_went_unseen_gives_back(void **state)
{
    struct world *w = *state;

    for (int is_dropped = 0; is_dropped < 2; is_dropped++) {
        char pod[1024];
        uint16_t port = world_claim(w, UNNAMED, "Pod");

        (void) snprintf(pod, sizeof pod, POD("u1", ID, ASSIGNED(UNNAMED, "%u", "Pod"), "%s"), port,
                        is_dropped ? "" : ",\"status\":{\"phase\":\"Succeeded\"}");
        world_put(w, PODS, "Pod", pod);
        if (is_dropped)
            world_drop(w, pod);
        assert_int_equal(w->inventory.n_pods, !is_dropped);
        world_pass(w);
        assert_int_equal(world_claims(w).last.holder, DIBS_HELD_BY_NOBODY);
        world_pass(w);
        world_list(w);
        world_pass(w);
        assert_int_equal(world_claims(w).n, 0);
    }
}

/* The id has been kept for a pod that is still to come: what was there before it says nothing. */
static void a_lease_that_was_acquired_again_is_waited_for(void **state)
{
    struct world *w = *state;
    char pod[1024];
    uint16_t port = world_claim(w, UNNAMED, "Pod");

    (void) snprintf(pod, sizeof pod, POD("u1", ID, ASSIGNED(UNNAMED, "%u", "Pod"), ""), port);
    world_put(w, PODS, "Pod", pod);
    world_drop(w, pod);
    do /* times are of milliseconds */
        assert_int_equal(world_claim(w, UNNAMED, "Pod"), port);
    while (world_claims(w).last.changed_ms == world_claims(w).last.created_ms);
    world_pass(w);
    world_list(w);
    world_pass(w);
    assert_int_equal(world_claims(w).last.holder, DIBS_HELD_BY_LEASE);
}

static void a_named_instance_keeps_its_port_until_it_is_scaled_away(void **state)
{
    struct world *w = *state;
    char pod[1024];
    uint16_t port = world_claim(w, NAMED, "StatefulSet/web");

    (void) snprintf(pod, sizeof pod, POD("u1", ID, ASSIGNED(NAMED, "%u", "StatefulSet/web"), ""), port);
    world_put(w, SETS, "StatefulSet", SET("1"));
    world_put(w, PODS, "Pod", pod);
    world_pass(w);
    world_drop(w, pod);
    world_pass(w);
    world_list(w);
    world_pass(w);
    assert_int_equal(world_claims(w).n, 1);
    world_put(w, SETS, "StatefulSet", SET("0"));
    world_pass(w);
    world_list(w);
    world_pass(w);
    assert_int_equal(world_claims(w).n, 0);
}

static void a_referenced_claim_waits_while_its_instance_is_desired(void **state)
{
    struct world *w = *state;

    (void) world_claim(w, NAMED, ""); /* its own pod has not come yet */
    world_put(w, SETS, "StatefulSet", SET("1"));
    world_pass(w);
    w->now_ms += 2 * TTL_MS;
    world_list(w);
    world_pass(w);
    assert_int_equal(world_claims(w).n, 1);
    world_put(w, SETS, "StatefulSet", SET("0"));
    world_pass(w);
    world_list(w);
    world_pass(w);
    assert_int_equal(world_claims(w).n, 0);
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
    uint16_t port = world_claim(w, "g/web/0/-/http", "");
    char complaint[256];

    world_put(w, PODS, "Pod", CLIENT("Running"));
    world_pass(w);
    w->now_ms += TTL_MS / 2;
    world_list(w);
    world_pass(w);
    assert_int_equal(world_claims(w).n, 1);
    w->now_ms += TTL_MS / 2;
    world_pass(w);
    assert_int_equal(world_claims(w).n, 1); /* no list proves it */
    assert_string_equal(w->complaint, "");
    world_list(w);
    world_pass(w);
    assert_int_equal(world_claims(w).n, 0);
    (void) snprintf(
        complaint, sizeof complaint,
        "%d client %u No pod has come that has the port 'g/web/0/-/http', to which this pod refers",
        (int) RECONCILE_UNRESOLVED, port);
    assert_int_equal(strncmp(w->complaint, complaint, strlen(complaint)), 0);
    (void) world_claim(w, "g/web/1/-/http", ""); /* no existing pod got that one */
    world_pass(w);
    w->now_ms += TTL_MS;
    world_list(w);
    world_pass(w);
    assert_int_equal(world_claims(w).n, 0);
    assert_string_equal(w->complaint, "");
}

static size_t count_kept(struct world *w, const char *keeper)
{
    struct found f = { 0 };
    dibs_filter filter = { .pool = KUBE_POOL };

    ASSERT_OK(dibs_claim_list(w->handle, &filter, world_count, &f, &w->err), &w->err);
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

    uint16_t own = world_claim(w, "g/web/0/-/http", "StatefulSet/web");
    uint16_t second = world_claim(w, "g/web/0/-/http.1", "StatefulSet/web");
    uint16_t shared = world_claim(w, "g/web/-/-/http", "StatefulSet/web");
    (void) world_claim(w, "g/web/1/-/http", "StatefulSet/web");
    world_put(w, PODS, "Pod", CLIENT("Running"));
    world_pass(w);
    assert_int_equal(world_claims(w).n, 4);
    w->now_ms += 2 * TTL_MS;
    world_pass(w);
    assert_int_equal(count_kept(w, "StatefulSet/web"), 4); /* no list has shown yet that it is gone */
    world_list(w);
    world_pass(w);
    assert_int_equal(count_kept(w, ""), 3);
    assert_int_equal(world_claims(w).last.holder, DIBS_HELD_BY_NOBODY);
    assert_int_equal(reconcile_count(w->reconciler)->n_ended, 1);
    world_put(w, PODS, "Pod", PORTLESS); /* its next pod lacks the ports */
    world_list(w);
    world_pass(w);
    assert_int_equal(count_kept(w, ""), 3);
    world_drop(w, PORTLESS);
    /* Another object may be the role now. */
    assert_int_equal(world_claim(w, "g/web/0/-/http", "LeaderWorkerSet/web"), own);
    assert_int_equal(world_claim(w, "g/web/0/-/http.1", "LeaderWorkerSet/web"), second);
    assert_int_equal(world_claim(w, "g/web/-/-/http", "LeaderWorkerSet/web"), shared);
    world_drop(w, CLIENT("Running"));
    world_pass(w);
    w->now_ms += 2 * TTL_MS;
    world_list(w);
    world_pass(w);
    assert_int_equal(world_claims(w).n, 0);
}

#define OWNED(uid, assigned)                                                                              \
    "{\"metadata\":{\"namespace\":\"shop\",\"name\":\"web-0\",\"uid\":\"" uid "\",\"ownerReferences\":[{" \
    "\"kind\":\"StatefulSet\",\"name\":\"web\",\"controller\":true}],\"annotations\":{\"dibs.dev/"        \
    "ports\":\"{}\","                                                                                     \
    "\"dibs.dev/claim\":\"" ID "\",\"dibs.dev/assigned\":\"" assigned "\"}}}"

static void earlier_ports_of_an_instance_end_when_its_next_pod_exists(void **state) /* B4 */
{
    struct world *w = *state;

    (void) world_claim(w, NAMED, "StatefulSet/web");
    world_put(w, SETS, "StatefulSet", SET("1"));
    world_pass(w);
    w->now_ms += 2 * TTL_MS;
    world_list(w);
    world_pass(w);
    assert_int_equal(world_claims(w).n, 1); /* the instance has no pod just now */
    world_put(w, PODS, "Pod", OWNED("u2", "[]"));
    world_pass(w);
    world_list(w);
    world_pass(w);
    assert_int_equal(world_claims(w).n, 0);
}

static void a_number_that_has_moved_is_its_pods_as_long_as_that_is_there(void **state)
{
    struct world *w = *state;
    dibs_claim found = { 0 };

    world_put(w, SETS, "StatefulSet", SET("1"));
    world_put(w, PODS, "Pod", OWNED("u1", ASSIGNED(NAMED "/20017", "20017", "StatefulSet/web")));
    world_pass(w);
    /* As the webhook leaves it for the next pod of the instance: the name has another number. */
    world_drop(w, OWNED("u1", "[]"));
    world_put(w, PODS, "Pod", OWNED("u1", ASSIGNED(NAMED, "20017", "StatefulSet/web")));
    (void) world_claim(w, NAMED, "StatefulSet/web");
    world_pass(w);
    assert_string_equal(w->complaint, "");
    assert_int_equal(world_claims(w).n, 2);
    assert_int_equal(world_claims(w).last.holder, DIBS_HELD_BY_LEASE); /* it is not the old pod's */
    world_drop(w, OWNED("u1", "[]"));
    world_pass(w);
    world_list(w);
    world_pass(w);
    found = world_claims(w).last;
    assert_int_equal(world_claims(w).n, 1);
    assert_string_equal(found.name, NAMED);
}

/* The next pod of an instance was seen before its new claim: the name still has the number of the last one.
 */
static void a_new_number_that_arrives_after_its_pod_is_no_finding(void **state)
{
    struct world *w = *state;

    world_put(w, SETS, "StatefulSet", SET("1"));
    world_put(w, PODS, "Pod", OWNED("u1", ASSIGNED(NAMED, "20017", "StatefulSet/web")));
    world_pass(w);
    world_drop(w, OWNED("u1", "[]"));
    world_put(w, PODS, "Pod", OWNED("u2", ASSIGNED(NAMED, "20018", "StatefulSet/web")));
    world_pass(w);
    assert_string_equal(w->complaint, "");
    w->now_ms += 2000; /* it has not arrived: the number is not the pod's */
    world_pass(w);
    assert_non_null(strstr(w->complaint, "0 web-0 20018 Port 20018 is no longer the pod's"));
}

static void asked_for_again_it_does_not_end(void **state)
{
    struct world *w = *state;

    (void) world_claim(w, NAMED, "StatefulSet/web");
    world_pass(w);
    w->now_ms += 2 * TTL_MS;
    world_pass(w);
    world_list(w);                                   /* without that pod */
    (void) usleep(2000);                             /* a lease is longer when it is asked for later */
    (void) world_claim(w, NAMED, "StatefulSet/web"); /* a pod is being admitted since */
    world_pass(w);
    assert_int_equal(world_claims(w).n, 1);
    assert_int_equal(reconcile_count(w->reconciler)->n_ended, 0);
}

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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
