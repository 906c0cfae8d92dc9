/* SPDX-License-Identifier: MIT */
/* Whatever the group says, processes that run lose nothing, and what they cannot know is told. */
#include "support/workload.h"

static void a_running_instance_keeps_its_port_until_it_ends(void **state)
{
    struct world *w = *state;
    struct workload_role *role = add_role(w->group, "web", 1, 1);
    dibs_claim claim;
    dibs_which by_port = { .port = 8080 };

    need_network();
    role->components[0].ports[0].mode = DIBS_REQUIRED;
    role->components[0].ports[0].port = 8080;
    struct workload_plan plan = sync_now(w);
    workload_plan_free(&plan);
    hold(w, "shop/web/0/-/first");
    role->components[0].ports[0].port = 8081;
    plan = sync_now(w);
    assert_counts(&plan, 0, 0, 1, 0);
    assert_true(plan.changes[0].needs_restart);
    workload_plan_free(&plan);
    assert_int_equal(port_of(w, "shop/web/0/-/first"), 8081);
    ASSERT_OK(dibs_claim_find(w->handle, &by_port, &claim, &w->err), &w->err);
    assert_int_equal(claim.holder, DIBS_HELD_BY_PROCESS);
    assert_false(claim.is_kept);
    assert_string_equal(claim.name, "");
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

static void a_moved_port_needs_a_restart_of_those_who_refer_to_it(void **state)
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
    ASSERT_OK(workload_cleanup(w->handle, w->group, false, &plan, &w->err), &w->err);
    assert_int_equal(plan.count[WORKLOAD_STAY], 1);
    workload_plan_free(&plan);
    assert_int_equal(port_of(w, "shop/web/-/-/second"), port);
    let_go(w, "shop/web/1/-/first");
    plan = sync_now(w);
    assert_counts(&plan, 0, 2, 0, 1);
    assert_int_equal(plan.count[WORKLOAD_STAY], 0);
    workload_plan_free(&plan);
}

static void cleanup_leaves_a_running_process_its_port(void **state)
{
    struct world *w = *state;
    struct workload_plan plan = { 0 };
    dibs_claim claim;
    dibs_which which = { .name = "shop/web/0/-/first" };

    need_network();
    add_role(w->group, "web", 1, 1);
    plan = sync_now(w);
    workload_plan_free(&plan);
    hold(w, "shop/web/0/-/first");
    ASSERT_OK(workload_cleanup(w->handle, w->group, false, &plan, &w->err), &w->err);
    assert_true(plan.changes[0].needs_restart);
    workload_plan_free(&plan);
    ASSERT_OK(dibs_claim_find(w->handle, &which, &claim, &w->err), &w->err);
    assert_false(claim.is_kept);
    assert_int_equal(claim.holder, DIBS_HELD_BY_PROCESS);
    /* Up again: the same claim, kept again. */
    plan = sync_now(w);
    assert_counts(&plan, 1, 0, 0, 0);
    workload_plan_free(&plan);
    ASSERT_OK(dibs_claim_find(w->handle, &which, &claim, &w->err), &w->err);
    assert_true(claim.is_kept);
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
    assert_non_null(strstr(w->err.msg, "shop/web/0/-/first"));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_running_instance_keeps_its_port_until_it_ends),
        T(a_port_added_to_a_running_instance_needs_a_restart),
        T(a_changed_port_of_the_role_needs_a_restart_of_every_pod_that_runs),
        T(a_moved_port_needs_a_restart_of_those_who_refer_to_it),
        T(the_port_of_a_role_that_runs_stays_until_none_of_its_pods_does),
        T(cleanup_leaves_a_running_process_its_port),
        T(a_number_that_a_process_runs_with_is_not_given_up),
    };

    e_own_network();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
