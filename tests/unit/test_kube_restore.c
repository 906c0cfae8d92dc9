/* SPDX-License-Identifier: MIT */
/* The ledger gets what it lacks from the cluster: lost claims, numbers of others; and what is reported. */
#include "support/reconcile.h"

#include <string.h>

static void ports_of_pods_that_the_ledger_lacks_are_written_again(void **state) /* B7 */
{
    struct world *w = *state;

    world_put(w, PODS, "Pod", POD("u1", ID, ASSIGNED(UNNAMED, "20017", "Pod"), ""));
    world_pass(w);
    struct found f = world_claims(w);
    assert_int_equal(f.n, 1);
    assert_int_equal(f.last.port, 20017);
    assert_string_equal(f.last.principal, "ns:shop");
    assert_string_equal(f.last.name, UNNAMED);
    assert_string_equal(f.last.keeper, "Pod");
    assert_true(f.last.is_exclusive && f.last.is_kept);
    assert_non_null(strstr(w->complaint, "1 web 20017"));
    world_pass(w);
    assert_int_equal(world_claims(w).n, 1);
    assert_string_equal(w->complaint, "");
}

/* The pod was seen before its claim: the copy of the ledger was older than the list of pods. */
static void a_claim_that_arrives_after_its_pod_is_no_finding(void **state)
{
    struct world *w = *state;

    world_put(w, PODS, "Pod", POD("u1", ID, ASSIGNED(UNNAMED, "20017", "Pod"), ""));
    w->late = UNNAMED;
    world_pass(w);
    assert_string_equal(w->complaint, "");
    assert_int_equal(world_claims(w).n, 1);
    assert_int_equal(reconcile_count(w->reconciler)->n_restored, 0);
    assert_int_equal(reconcile_count(w->reconciler)->n_findings[RECONCILE_REPAIRED], 0);
}

static void a_shared_port_is_restored_and_reported_once(void **state)
{
    struct world *w = *state;

    world_put(w, PODS, "Pod",
              POD("u1", ID, ASSIGNED("Deployment.web/web/-/-/http", "20017", "Deployment/web"), ""));
    world_put(w, PODS, "Pod",
              POD("u2", "ffffffffffffffffffffffffffffffff",
                  ASSIGNED("Deployment.web/web/-/-/http", "20017", "Deployment/web"), ""));
    world_pass(w);
    assert_int_equal(world_claims(w).n, 1);
    assert_int_equal(reconcile_count(w->reconciler)->n_findings[RECONCILE_REPAIRED], 1);
}

/* A user who may create pods past the webhook can write any annotation. */
static void a_claim_that_no_signature_proves_is_not_written_again(void **state)
{
    struct world *w = *state;
    const char *forged = POD("u1", ID, ASSIGNED(UNNAMED, "20017", "Pod"),
                             ",\"spec\":{\"containers\":[{\"ports\":[{\"hostPort\":20017}]}]}");

    world_put_unsigned(w, PODS, "Pod", forged);
    world_pass(w);
    assert_int_equal(world_claims(w).n, 1); /* the host port, as of any pod */
    assert_string_equal(world_claims(w).last.principal, "kube:observed");
    assert_string_equal(w->complaint, ""); /* perhaps only reported too early */
    w->now_ms += 2000;
    world_pass(w);
    assert_non_null(strstr(w->complaint, "4 web 20017"));
    assert_non_null(strstr(w->complaint, "dibs.dev/signature does not prove it"));
    assert_int_equal(world_claims(w).n, 1);
    world_pass(w);
    assert_string_equal(w->complaint, ""); /* once a minute */
}

static void a_claim_that_the_ledger_has_needs_no_signature(void **state)
{
    struct world *w = *state;
    char pod[1024];
    uint16_t port = world_claim(w, UNNAMED, "Pod");

    (void) snprintf(pod, sizeof pod,
                    POD("u1", ID, ASSIGNED(UNNAMED, "%u", "Pod"),
                        ",\"spec\":{\"containers\":[{\"ports\":[{\"hostPort\":%u}]}]}"),
                    port, port);
    world_put_unsigned(w, PODS, "Pod", pod);
    world_pass(w);
    assert_int_equal(world_claims(w).n, 1);
    assert_int_equal(world_claims(w).last.holder, DIBS_HELD_BY_NOBODY);
    w->now_ms += 2 * TTL_MS;
    world_list(w);
    world_pass(w);
    assert_int_equal(world_claims(w).n, 1);
    assert_string_equal(w->complaint, "");
}

static void one_number_of_two_pods_is_reported(void **state)
{
    struct world *w = *state;

    world_put(w, PODS, "Pod", POD("u1", ID, ASSIGNED("Pod.a/a/~" ID "/-/http", "20017", "Pod"), ""));
    world_pass(w);
    world_put(w, PODS, "Pod",
              POD("u2", "ffffffffffffffffffffffffffffffff",
                  ASSIGNED("Pod.b/b/~ffffffffffffffffffffffffffffffff/-/http", "20017", "Pod"), ""));
    world_pass(w);
    assert_string_equal(w->complaint, ""); /* perhaps only reported too early */
    w->now_ms += 2000;
    world_pass(w);
    assert_non_null(strstr(w->complaint, "0 web 20017"));
    assert_int_equal(world_claims(w).n, 1);
}

static void a_number_outside_of_the_pool_is_reported_once(void **state)
{
    struct world *w = *state;

    world_put(w, PODS, "Pod", POD("u1", ID, ASSIGNED(UNNAMED, "30000", "Pod"), ""));
    world_pass(w);
    assert_non_null(strstr(w->complaint, "2 web 30000"));
    assert_int_equal(world_claims(w).n, 0);
    world_pass(w);
    assert_string_equal(w->complaint, "");
}

#define SERVICE                                                                                       \
    "{\"metadata\":{\"namespace\":\"shop\",\"name\":\"front\",\"uid\":\"v1\"},\"spec\":{\"ports\":[{" \
    "\"nodePort\":20050},{\"nodePort\":31000}]}}"

static void numbers_of_others_are_declared_while_they_are_used(void **state)
{
    struct world *w = *state;

    world_put(w, SETS, "Service", SERVICE);
    world_pass(w);
    struct found f = world_claims(w);
    assert_int_equal(f.n, 1);
    assert_int_equal(f.last.port, 20050);
    assert_false(f.last.is_exclusive);
    assert_string_equal(f.last.keeper, "Service/front");
    for (int i = 0; i < 99; i++) { /* all others; never that one */
        char name[64];

        (void) snprintf(name, sizeof name, "Pod.web/web/%d/-/http", i);
        assert_int_not_equal(world_claim(w, name, "Pod"), 20050);
    }
    world_drop(w, SERVICE);
    world_pass(w);
    world_list(w);
    world_pass(w);
    assert_int_equal(world_claims(w).n, 99);
}

static void a_pool_that_has_grown_has_the_new_numbers(void **state)
{
    struct world *w = *state;

    world_put(w, SETS, "Service", SERVICE);
    world_put(w, PODS, "Pod", POD("u1", ID, ASSIGNED(UNNAMED, "31001", "Pod"), ""));
    world_pass(w);
    assert_int_equal(world_claims(w).n, 1);
    assert_non_null(strstr(w->complaint, "not within the range"));
    w->pool.ranges.item[w->pool.ranges.n++] = (dibs_range){ 31000, 31009 };
    ASSERT_OK(dibs_pool_put(w->handle, &w->pool, &w->err), &w->err);
    world_pass(w);
    assert_int_equal(world_claims(w).n, 3);
    assert_int_equal(reconcile_count(w->reconciler)->n_size, 110);
}

static void a_number_that_dibs_gave_before_is_reported(void **state)
{
    struct world *w = *state;

    world_put(w, PODS, "Pod", POD("u1", ID, ASSIGNED(UNNAMED, "20050", "Pod"), ""));
    world_pass(w);
    world_put(w, SETS, "Service", SERVICE);
    world_pass(w);
    assert_non_null(strstr(w->complaint, "0 front 20050"));
    assert_int_equal(world_claims(w).n, 2);
}

static void a_copy_that_has_the_ports_of_a_living_pod_is_reported(void **state)
{
#define ROLE_NAME "Deployment.web/web/-/-/gossip"
    struct world *w = *state;

    world_put(w, PODS, "Pod", POD("u1", ID, ASSIGNED(UNNAMED, "20017", "Pod"), ""));
    world_pass(w);
    w->now_ms += 60000;
    world_pass(w);
    assert_string_equal(w->complaint, "");
    world_put(w, PODS, "Pod", POD("u2", ID, ASSIGNED(UNNAMED, "20017", "Pod"), ""));
    world_pass(w);
    assert_string_equal(w->complaint, ""); /* perhaps the end of the other one was not seen yet */
    w->now_ms += 1000;
    world_pass(w);
    assert_non_null(strstr(w->complaint, "0 web 20017 Port 20017 is also that of another pod"));
    world_pass(w);
    assert_string_equal(w->complaint, "");
    assert_int_equal(world_claims(w).n, 1);
    /* finished or gone it has no port */
    world_put(w, PODS, "Pod",
              POD("u2", ID, ASSIGNED(UNNAMED, "20017", "Pod"), ",\"status\":{\"phase\":\"Failed\"}"));
    w->now_ms += 60000;
    world_pass(w);
    assert_string_equal(w->complaint, "");
    /* ports of a role are shared */
    world_put(w, PODS, "Pod", POD("u1", ID, ASSIGNED(ROLE_NAME, "20018", "Pod"), ""));
    world_put(w, PODS, "Pod", POD("u2", ID, ASSIGNED(ROLE_NAME, "20018", "Pod"), ""));
    world_pass(w);
    w->now_ms += 1000;
    w->complaint[0] = '\0';
    world_pass(w);
    assert_string_equal(w->complaint, "");
}

static void a_list_ends_objects_that_it_lacks(void **state)
{
    struct world *w = *state;

    world_put(w, PODS, "Pod", POD("u1", ID, ASSIGNED(UNNAMED, "20017", "Pod"), ""));
    world_put(w, SETS, "StatefulSet", SET("1"));
    world_pass(w);
    inventory_begin(&w->inventory, SETS); /* of another source */
    inventory_end(&w->inventory, SETS);
    assert_int_equal(w->inventory.n_pods, 1);
    inventory_begin(&w->inventory, PODS);
    inventory_end(&w->inventory, PODS);
    assert_int_equal(w->inventory.n_pods, 0);
    world_pass(w);
    world_list(w);
    world_pass(w);
    assert_int_equal(world_claims(w).n, 0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(ports_of_pods_that_the_ledger_lacks_are_written_again),
        CASE(a_claim_that_arrives_after_its_pod_is_no_finding),
        CASE(a_shared_port_is_restored_and_reported_once),
        CASE(a_claim_that_no_signature_proves_is_not_written_again),
        CASE(a_claim_that_the_ledger_has_needs_no_signature),
        CASE(one_number_of_two_pods_is_reported),
        CASE(a_number_outside_of_the_pool_is_reported_once),
        CASE(numbers_of_others_are_declared_while_they_are_used),
        CASE(a_pool_that_has_grown_has_the_new_numbers),
        CASE(a_number_that_dibs_gave_before_is_reported),
        CASE(a_copy_that_has_the_ports_of_a_living_pod_is_reported),
        CASE(a_list_ends_objects_that_it_lacks),
        CASE(pools_are_as_rbg_says_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
