/* SPDX-License-Identifier: MIT */
/* A port that gets another number while somebody runs with it: the old one stays in use under its name and
 * number, and is the same claim when it is wanted again. */
#include "support/child.h"
#include "support/workload.h"

static void a_running_instance_keeps_its_port_under_its_name_and_number_until_it_ends(void **state)
{
    struct world *w = *state;
    struct workload_port *port = add_role(w->group, "web", 2, 1)->components[0].ports;

    need_network();
    w->group->roles[0].instances = 1;
    must_be(port, 8080);
    sync_on(w);
    hold(w, "shop/web/0/-/first");
    port->port = 8081;
    struct workload_plan plan = sync_now(w);
    assert_counts(&plan, 0, 0, 1, 0);
    assert_true(plan.changes[0].needs_restart);
    assert_string_equal(plan.changes[0].pod, "shop/web/0/-");
    workload_plan_free(&plan);
    assert_int_equal(port_of(w, "shop/web/0/-/first"), 8081);
    dibs_claim left = claim_of(w, "shop/web/0/-/first/8080");
    assert_int_equal(left.port, 8080);
    assert_int_equal(left.holder, DIBS_HELD_BY_PROCESS);
    assert_false(left.is_kept);
    plan = sync_now(w);
    assert_counts(&plan, 1, 0, 0, 0);
    const struct workload_change *stay = change_of(&plan, "shop/web/0/-/first/8080");
    assert_int_equal(stay->kind, WORKLOAD_STAY);
    assert_string_equal(stay->pod, "shop/web/0/-");
    workload_plan_free(&plan);
    assert_int_equal(check_idle(w, 0), DIBS_TAKEN);
    assert_string_equal(w->err.blocker.name, "shop/web/0/-/first/8080");
    assert_int_equal(w->err.blocker.pid, getpid());
    ASSERT_OK(check_idle(w, 1), &w->err);
    let_go(w, "shop/web/0/-/first/8080");
    assert_false(is_there(w, "shop/web/0/-/first/8080"));
    ASSERT_OK(check_idle(w, 0), &w->err);
}

static void a_port_that_moves_back_is_the_claim_that_the_process_still_holds(void **state)
{
    struct world *w = *state;
    struct workload_reference to = {
        .env = "WEB", .role = "web", .port = "first", .instance = -1, .pod = -1
    };
    struct workload_port *port = add_role(w->group, "web", 1, 1)->components[0].ports;
    struct workload_component *other = add_role(w->group, "other", 1, 1)->components;

    need_network();
    other->references = &to;
    other->n_references = 1;
    must_be(port, 8080);
    sync_on(w);
    hold(w, "shop/web/0/-/first");
    hold(w, "shop/other/0/-/first");
    uint64_t id = claim_of(w, "shop/web/0/-/first").id;
    port->port = 8081;
    sync_on(w);
    port->port = 8080;
    struct workload_plan plan = sync_now(w);
    assert_counts(&plan, 1, 0, 1, 0);
    assert_int_equal(plan.n, 2);
    assert_int_equal(plan.changes[0].before->port, 8081);
    assert_int_equal(plan.changes[0].n_pods, 1); /* not who runs with it, but who refers to it may not know */
    assert_string_equal(plan.changes[0].pod, "shop/other/0/-");
    workload_plan_free(&plan);
    dibs_claim back = claim_of(w, "shop/web/0/-/first");
    assert_int_equal(back.id, id);
    assert_true(back.is_kept);
    assert_int_equal(back.holder, DIBS_HELD_BY_PROCESS);
    plan = sync_now(w);
    assert_counts(&plan, 2, 0, 0, 0);
    assert_int_equal(plan.n, 2);
    workload_plan_free(&plan);
}

static void a_move_back_that_is_undone_leaves_the_name_again(void **state)
{
    struct world *w = *state;
    struct workload_port *port = add_role(w->group, "web", 1, 1)->components[0].ports;

    need_network();
    must_be(port, 8080);
    sync_on(w);
    hold(w, "shop/web/0/-/first");
    port->port = 8081;
    sync_on(w);
    port->port = 8080;
    struct workload_plan plan = sync_now(w);
    ASSERT_OK(workload_undo(w->handle, &plan, 1, &w->err), &w->err);
    workload_plan_free(&plan);
    assert_int_equal(port_of(w, "shop/web/0/-/first"), 8081);
    assert_int_equal(claim_of(w, "shop/web/0/-/first/8080").holder, DIBS_HELD_BY_PROCESS);
}

static void the_same_number_for_something_else_is_not_the_claim_that_left_it(void **state)
{
    struct world *w = *state;
    struct workload_port *port = add_role(w->group, "web", 1, 1)->components[0].ports;

    need_network();
    must_be(port, 8080);
    sync_on(w);
    hold(w, "shop/web/0/-/first");
    port->port = 8081;
    sync_on(w);
    port->port = 8080;
    port->n_bindings = 1;
    port->bindings[0] = (dibs_binding){ DIBS_UDP, { .len = 16 } };
    struct workload_plan plan = sync_now(w);
    assert_counts(&plan, 0, 0, 1, 0);
    assert_int_equal(change_of(&plan, "shop/web/0/-/first/8080")->kind, WORKLOAD_STAY);
    workload_plan_free(&plan);
}

static void an_ended_process_leaves_its_number_to_the_next_one(void **state)
{
    struct world *w = *state;
    struct workload_port *ports = add_role(w->group, "web", 1, 2)->components[0].ports;

    need_network();
    pid_t child = child_fork(child_idle, NULL);
    must_be(&ports[0], 8080);
    sync_on(w);
    hold_by(w, "shop/web/0/-/first", child);
    ports[0].port = 8081;
    sync_on(w);
    must_be(&ports[1], 8080);
    struct workload_plan plan = { 0 };
    assert_int_equal(workload_sync(w->handle, w->group, false, &plan, &w->err), DIBS_TAKEN);
    assert_non_null(strstr(w->err.msg, "shop/web/0/-/first/8080"));
    child_end(child);
    plan = sync_now(w);
    assert_counts(&plan, 1, 0, 1, 1);
    assert_int_equal(change_of(&plan, "shop/web/0/-/first/8080")->kind, WORKLOAD_DROP);
    workload_plan_free(&plan);
    assert_int_equal(port_of(w, "shop/web/0/-/second"), 8080);
}

static void the_moved_port_of_a_role_that_runs_stays_until_none_of_its_pods_does(void **state)
{
    struct world *w = *state;
    struct workload_role *role = add_role(w->group, "web", 2, 2);
    struct workload_port *shared = &role->components[0].ports[1];

    need_network();
    shared->scope = WORKLOAD_ROLE_SCOPED;
    must_be(shared, 8080);
    sync_on(w);
    hold(w, "shop/web/1/-/first");
    shared->port = 8081;
    struct workload_plan plan = sync_now(w);
    assert_counts(&plan, 2, 0, 1, 0);
    workload_plan_free(&plan);
    assert_int_equal(port_of(w, "shop/web/-/-/second"), 8081);
    dibs_claim left = claim_of(w, "shop/web/-/-/second/8080");
    assert_true(left.is_kept);
    assert_int_equal(left.holder, DIBS_HELD_BY_NOBODY);
    add_role(w->group, "other", 1, 1);
    must_be(w->group->roles[1].components[0].ports, 8080);
    assert_int_equal(workload_sync(w->handle, w->group, false, &plan, &w->err), DIBS_TAKEN);
    assert_non_null(strstr(w->err.msg, "shop/web/-/-/second/8080"));
    w->group->n_roles = 1;
    plan = sync_now(w);
    assert_counts(&plan, 3, 0, 0, 0);
    assert_int_equal(change_of(&plan, "shop/web/-/-/second/8080")->kind, WORKLOAD_STAY);
    workload_plan_free(&plan);
    let_go(w, "shop/web/1/-/first");
    w->group->n_roles = 2;
    plan = sync_now(w);
    assert_counts(&plan, 3, 1, 0, 1);
    workload_plan_free(&plan);
    assert_int_equal(port_of(w, "shop/other/0/-/first"), 8080);
}

static void a_move_that_is_undone_gives_the_process_and_the_role_their_claims_back(void **state)
{
    struct world *w = *state;
    struct workload_port *ports = add_role(w->group, "web", 1, 2)->components[0].ports;

    need_network();
    ports[1].scope = WORKLOAD_ROLE_SCOPED;
    must_be(&ports[0], 8080);
    must_be(&ports[1], 9090);
    sync_on(w);
    hold(w, "shop/web/0/-/first");
    dibs_claim own = claim_of(w, "shop/web/0/-/first");
    dibs_claim shared = claim_of(w, "shop/web/-/-/second");
    ports[0].port = 8081;
    ports[1].port = 9091;
    struct workload_plan plan = sync_now(w);
    assert_counts(&plan, 0, 0, 2, 0);
    ASSERT_OK(workload_undo(w->handle, &plan, 1, &w->err), &w->err);
    workload_plan_free(&plan);
    assert_int_equal(claim_of(w, "shop/web/0/-/first").id, own.id);
    assert_true(claim_of(w, "shop/web/0/-/first").is_kept);
    assert_int_equal(claim_of(w, "shop/web/-/-/second").id, shared.id);
    ports[0].port = 8080;
    ports[1].port = 9090;
    plan = sync_now(w);
    assert_counts(&plan, 2, 0, 0, 0);
    assert_int_equal(plan.n, 2);
    workload_plan_free(&plan);
}

static void an_undo_is_not_about_what_had_left_its_name(void **state)
{
    struct world *w = *state;
    struct workload_port *ports = add_role(w->group, "web", 1, 2)->components[0].ports;

    need_network();
    ports[1].scope = WORKLOAD_ROLE_SCOPED;
    must_be(&ports[1], 9090);
    sync_on(w);
    hold(w, "shop/web/0/-/first");
    ports[1].port = 9091;
    sync_on(w);
    let_go(w, "shop/web/0/-/first");
    struct workload_plan plan = sync_now(w);
    assert_counts(&plan, 2, 0, 0, 1);
    ASSERT_OK(workload_undo(w->handle, &plan, 1, &w->err), &w->err);
    workload_plan_free(&plan);
    assert_false(is_there(w, "shop/web/-/-/second/9090"));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_running_instance_keeps_its_port_under_its_name_and_number_until_it_ends),
        T(a_port_that_moves_back_is_the_claim_that_the_process_still_holds),
        T(a_move_back_that_is_undone_leaves_the_name_again),
        T(the_same_number_for_something_else_is_not_the_claim_that_left_it),
        T(an_ended_process_leaves_its_number_to_the_next_one),
        T(the_moved_port_of_a_role_that_runs_stays_until_none_of_its_pods_does),
        T(a_move_that_is_undone_gives_the_process_and_the_role_their_claims_back),
        T(an_undo_is_not_about_what_had_left_its_name),
    };

    e_own_network();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
