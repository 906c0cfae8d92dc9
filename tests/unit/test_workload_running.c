/* SPDX-License-Identifier: MIT */
/* Running processes lose nothing when a group changes, and changes that they cannot see are reported. */
#include "support/child.h"
#include "support/workload.h"

static void an_instance_runs_also_when_its_group_has_none_of_its_ports_any_more(void **state)
{
    struct world *w = *state;
    struct workload_role *role = add_role(w->group, "web", 1, 2);

    need_network();
    sync_on(w);
    hold(w, "shop/web/0/-/first");
    role->components[0].ports++;
    role->components[0].n_ports = 1;
    sync_on(w);
    assert_int_equal(check_idle(w, 0), DIBS_TAKEN);
    assert_string_equal(w->err.blocker.name, "shop/web/0/-/first");
}

static void the_second_of_several_pods_is_not_the_first(void **state)
{
    struct world *w = *state;
    struct workload_component *worker = add_role(w->group, "web", 1, 1)->components;

    need_network();
    worker->name = "worker";
    worker->size = 2;
    sync_on(w);
    hold(w, "shop/web/0/worker.1/first");
    ASSERT_OK(check_idle(w, 0), &w->err);
    hold(w, "shop/web/0/worker/first");
    assert_int_equal(check_idle(w, 0), DIBS_TAKEN);
}

static void a_process_that_has_ended_does_not_run(void **state)
{
    struct world *w = *state;

    need_network();
    add_role(w->group, "web", 1, 1);
    sync_on(w);
    pid_t child = child_fork(child_idle, NULL);
    hold_by(w, "shop/web/0/-/first", child);
    assert_int_equal(check_idle(w, 0), DIBS_TAKEN);
    child_end(child);
    ASSERT_OK(check_idle(w, 0), &w->err);
}

static void a_lease_is_no_process_that_runs(void **state)
{
    struct world *w = *state;
    dibs_request lease = { .name = "shop/web/0/-/first", .holder = DIBS_HELD_BY_LEASE, .ttl_ms = 60000 };
    dibs_batch batch = { .requests = &lease, .n = 1 };
    dibs_claim claim;

    need_network();
    add_role(w->group, "web", 1, 1);
    ASSERT_OK(dibs_claim_ports(w->handle, &batch, &claim, &w->err), &w->err);
    ASSERT_OK(check_idle(w, 0), &w->err);
}

static void nobody_is_to_restart_a_lease(void **state)
{
    struct world *w = *state;
    dibs_request lease = { .name = "shop/web/0/-/first", .holder = DIBS_HELD_BY_LEASE, .ttl_ms = 60000 };
    dibs_batch batch = { .requests = &lease, .n = 1 };
    dibs_claim claim;

    need_network();
    add_role(w->group, "web", 1, 2);
    ASSERT_OK(dibs_claim_ports(w->handle, &batch, &claim, &w->err), &w->err);
    struct workload_plan plan = sync_now(w);
    assert_counts(&plan, 1, 1, 0, 0);
    for (size_t i = 0; i < plan.n; i++) {
        assert_false(plan.changes[i].needs_restart);
        assert_int_equal(plan.changes[i].n_pods, 0);
    }
    workload_plan_free(&plan);
}

static void a_port_added_to_a_running_instance_needs_a_restart(void **state)
{
    struct world *w = *state;
    struct workload_role *role = add_role(w->group, "web", 2, 2);

    need_network();
    role->components[0].n_ports = 1;
    struct workload_plan plan = sync_now(w);
    workload_plan_free(&plan);
    hold(w, "shop/web/1/-/first");
    role->components[0].n_ports = 2;
    plan = sync_now(w);
    assert_counts(&plan, 2, 2, 0, 0);
    for (size_t i = 0; i < plan.n; i++)
        assert_int_equal(plan.changes[i].needs_restart,
                         strcmp(plan.changes[i].claim.name, "shop/web/1/-/second") == 0);
    workload_plan_free(&plan);
}

static void a_changed_port_of_the_role_needs_a_restart_of_every_pod_that_runs(void **state)
{
    struct world *w = *state;
    struct workload_role *role = add_role(w->group, "web", 3, 2);
    struct workload_port *shared = &role->components[0].ports[1];

    need_network();
    role->components[0].n_ports = 1;
    struct workload_plan plan = sync_now(w);
    workload_plan_free(&plan);
    hold(w, "shop/web/1/-/first");
    hold(w, "shop/web/2/-/first");
    role->components[0].n_ports = 2;
    shared->scope = WORKLOAD_ROLE_SCOPED;
    plan = sync_now(w);
    const struct workload_change *change = change_of(&plan, "shop/web/-/-/second");
    assert_int_equal(change->kind, WORKLOAD_ADD);
    assert_true(change->needs_restart);
    assert_int_equal(change->n_pods, 2);
    assert_string_equal(change->pod, "shop/web/1/-");
    assert_false(change_of(&plan, "shop/web/1/-/first")->needs_restart);
    workload_plan_free(&plan);
    shared->mode = DIBS_REQUIRED;
    shared->port = 8080;
    plan = sync_now(w);
    change = change_of(&plan, "shop/web/-/-/second");
    assert_int_equal(change->kind, WORKLOAD_MOVE);
    assert_true(change->needs_restart);
    assert_int_equal(change->n_pods, 2);
    workload_plan_free(&plan);
}

static void a_moved_port_needs_a_restart_of_its_referrers(void **state)
{
    struct world *w = *state;
    struct workload_reference to = {
        .env = "API", .role = "api", .port = "first", .instance = -1, .pod = -1
    };

    need_network();
    add_role(w->group, "api", 1, 1);
    add_role(w->group, "web", 2, 1);
    w->group->roles[1].components[0].references = &to;
    w->group->roles[1].components[0].n_references = 1;
    struct workload_plan plan = sync_now(w);
    workload_plan_free(&plan);
    hold(w, "shop/web/1/-/first");
    w->group->roles[0].components[0].ports[0].mode = DIBS_REQUIRED;
    w->group->roles[0].components[0].ports[0].port = 8080;
    plan = sync_now(w);
    assert_counts(&plan, 2, 0, 1, 0);
    const struct workload_change *change = change_of(&plan, "shop/api/0/-/first");
    assert_true(change->needs_restart);
    assert_int_equal(change->n_pods, 1);
    assert_string_equal(change->pod, "shop/web/1/-");
    workload_plan_free(&plan);
}

static void the_port_of_a_role_that_runs_stays_until_none_of_its_pods_does(void **state)
{
    struct world *w = *state;
    struct workload_role *role = add_role(w->group, "web", 2, 2);
    struct workload_plan plan = { 0 };

    need_network();
    role->components[0].ports[1].scope = WORKLOAD_ROLE_SCOPED;
    plan = sync_now(w);
    workload_plan_free(&plan);
    uint16_t port = port_of(w, "shop/web/-/-/second");
    hold(w, "shop/web/1/-/first");
    role->components[0].n_ports = 1; /* a sync that drops it */
    plan = sync_now(w);
    assert_counts(&plan, 2, 0, 0, 0);
    assert_int_equal(plan.count[WORKLOAD_STAY], 1);
    assert_string_equal(change_of(&plan, "shop/web/-/-/second")->pod, "shop/web/1/-");
    workload_plan_free(&plan);
    ASSERT_OK(workload_cleanup(w->handle, w->group, &plan, &w->err), &w->err);
    assert_int_equal(plan.count[WORKLOAD_STAY], 2); /* and what the pod holds itself */
    workload_plan_free(&plan);
    assert_int_equal(port_of(w, "shop/web/-/-/second"), port);
    let_go(w, "shop/web/1/-/first");
    plan = sync_now(w);
    assert_counts(&plan, 0, 2, 0, 1);
    assert_int_equal(plan.count[WORKLOAD_STAY], 0);
    workload_plan_free(&plan);
}

static void a_port_that_is_gone_from_the_group_stays_with_its_process_and_is_the_same_again(void **state)
{
    struct world *w = *state;
    struct workload_role *role = add_role(w->group, "web", 1, 2);

    need_network();
    sync_on(w);
    hold(w, "shop/web/0/-/second");
    uint64_t id = claim_of(w, "shop/web/0/-/second").id;
    role->components[0].n_ports = 1;
    struct workload_plan plan = sync_now(w);
    assert_counts(&plan, 1, 0, 0, 0);
    const struct workload_change *stay = change_of(&plan, "shop/web/0/-/second");
    assert_int_equal(stay->kind, WORKLOAD_STAY);
    assert_false(stay->claim.is_kept);
    assert_string_equal(stay->pod, "shop/web/0/-");
    ASSERT_OK(workload_undo(w->handle, &plan, 1, &w->err), &w->err); /* as if it had never been gone */
    assert_true(claim_of(w, "shop/web/0/-/second").is_kept);
    workload_plan_free(&plan);
    sync_on(w);
    plan = sync_now(w);
    ASSERT_OK(workload_undo(w->handle, &plan, 1, &w->err), &w->err); /* it was not kept before this one */
    workload_plan_free(&plan);
    assert_false(claim_of(w, "shop/web/0/-/second").is_kept);
    role->components[0].n_ports = 2;
    plan = sync_now(w);
    assert_counts(&plan, 2, 0, 0, 0);
    workload_plan_free(&plan);
    assert_int_equal(claim_of(w, "shop/web/0/-/second").id, id);
    assert_true(claim_of(w, "shop/web/0/-/second").is_kept);
}

static void cleanup_leaves_a_running_process_its_ports_those_that_moved_too(void **state)
{
    struct world *w = *state;
    struct workload_port *port = add_role(w->group, "web", 1, 1)->components[0].ports;
    struct workload_plan plan = { 0 };

    need_network();
    must_be(port, 8080);
    sync_on(w);
    hold(w, "shop/web/0/-/first");
    ASSERT_OK(workload_cleanup(w->handle, w->group, &plan, &w->err), &w->err);
    assert_counts(&plan, 0, 0, 0, 0);
    assert_int_equal(plan.count[WORKLOAD_STAY], 1);
    workload_plan_free(&plan);
    assert_false(claim_of(w, "shop/web/0/-/first").is_kept);
    assert_int_equal(claim_of(w, "shop/web/0/-/first").holder, DIBS_HELD_BY_PROCESS);
    /* Up again: the same claim, kept again. */
    plan = sync_now(w);
    assert_counts(&plan, 1, 0, 0, 0);
    workload_plan_free(&plan);
    assert_true(claim_of(w, "shop/web/0/-/first").is_kept);
    port->port = 8081;
    sync_on(w);
    ASSERT_OK(workload_cleanup(w->handle, w->group, &plan, &w->err), &w->err);
    assert_counts(&plan, 0, 0, 0, 1);
    assert_int_equal(change_of(&plan, "shop/web/0/-/first/8080")->kind, WORKLOAD_STAY);
    workload_plan_free(&plan);
    let_go(w, "shop/web/0/-/first/8080");
    assert_false(is_there(w, "shop/web/0/-/first/8080"));
}

static void a_number_that_a_process_runs_with_is_not_given_up(void **state)
{
    struct world *w = *state;
    struct workload_role *role = add_role(w->group, "web", 1, 2);
    struct workload_port *fixed = &role->components[0].ports[1];
    struct workload_plan plan = sync_now(w);

    need_network();
    workload_plan_free(&plan);
    hold(w, "shop/web/0/-/first");
    fixed->mode = DIBS_REQUIRED;
    fixed->port = port_of(w, "shop/web/0/-/first");
    assert_int_equal(workload_sync(w->handle, w->group, true, &plan, &w->err), DIBS_TAKEN);
    assert_int_equal(workload_sync(w->handle, w->group, false, &plan, &w->err), DIBS_TAKEN);
    assert_non_null(strstr(w->err.msg, "'shop/web/0/-/first'")); /* as it is called after the refusal */
    let_go(w, "shop/web/0/-/first");
    sync_on(w); /* now it may have another */
    assert_int_equal(port_of(w, "shop/web/0/-/second"), fixed->port);
}

static void a_number_that_a_role_runs_with_is_not_given_up(void **state)
{
    struct world *w = *state;
    struct workload_role *role = add_role(w->group, "web", 1, 2);
    struct workload_plan plan = { 0 };

    need_network();
    role->components[0].ports[1].scope = WORKLOAD_ROLE_SCOPED;
    sync_on(w);
    hold(w, "shop/web/0/-/first");
    add_role(w->group, "other", 1, 1);
    must_be(w->group->roles[1].components[0].ports, port_of(w, "shop/web/-/-/second"));
    assert_int_equal(workload_sync(w->handle, w->group, false, &plan, &w->err), DIBS_TAKEN);
    assert_non_null(strstr(w->err.msg, "'shop/web/-/-/second'"));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(an_instance_runs_also_when_its_group_has_none_of_its_ports_any_more),
        T(the_second_of_several_pods_is_not_the_first),
        T(a_process_that_has_ended_does_not_run),
        T(a_lease_is_no_process_that_runs),
        T(nobody_is_to_restart_a_lease),
        T(a_port_added_to_a_running_instance_needs_a_restart),
        T(a_changed_port_of_the_role_needs_a_restart_of_every_pod_that_runs),
        T(a_moved_port_needs_a_restart_of_its_referrers),
        T(the_port_of_a_role_that_runs_stays_until_none_of_its_pods_does),
        T(a_port_that_is_gone_from_the_group_stays_with_its_process_and_is_the_same_again),
        T(cleanup_leaves_a_running_process_its_ports_those_that_moved_too),
        T(a_number_that_a_process_runs_with_is_not_given_up),
        T(a_number_that_a_role_runs_with_is_not_given_up),
    };

    e_own_network();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
