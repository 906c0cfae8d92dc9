/* SPDX-License-Identifier: MIT */
/* A group's claims follow what the group says, in one step. */
#include "support/workload.h"

static void a_second_sync_changes_nothing(void **state)
{
    struct world *w = *state;

    need_network();
    add_role(w->group, "web", 2, 2);
    struct workload_plan plan = sync_now(w);
    assert_counts(&plan, 0, 4, 0, 0);
    assert_string_equal(plan.changes[3].claim.name, "shop/web/1/-/second");
    workload_plan_free(&plan);
    plan = sync_now(w);
    assert_counts(&plan, 4, 0, 0, 0);
    workload_plan_free(&plan);
}

static void scaling_up_and_down_keeps_what_stays(void **state)
{
    struct world *w = *state;
    struct workload_role *role = add_role(w->group, "web", 1, 1);

    need_network();
    struct workload_plan plan = sync_now(w);
    workload_plan_free(&plan);
    uint16_t first = port_of(w, "shop/web/0/-/first");
    role->instances = 3;
    plan = sync_now(w);
    assert_counts(&plan, 1, 2, 0, 0);
    workload_plan_free(&plan);
    role->instances = 1;
    plan = sync_now(w);
    assert_counts(&plan, 1, 0, 0, 2);
    workload_plan_free(&plan);
    assert_int_equal(port_of(w, "shop/web/0/-/first"), first);
}

static void a_role_scoped_port_is_one_for_all_instances_and_stays_without_any(void **state)
{
    struct world *w = *state;
    struct workload_role *role = add_role(w->group, "web", 3, 2);

    need_network();
    role->components[0].ports[1].scope = WORKLOAD_ROLE_SCOPED;
    struct workload_plan plan = sync_now(w);
    assert_counts(&plan, 0, 4, 0, 0);
    assert_string_equal(plan.changes[0].claim.name, "shop/web/-/-/second");
    workload_plan_free(&plan);
    role->instances = 0;
    plan = sync_now(w);
    assert_counts(&plan, 1, 0, 0, 3);
    workload_plan_free(&plan);
}

static void a_changed_required_port_moves(void **state)
{
    struct world *w = *state;
    struct workload_role *role = add_role(w->group, "web", 1, 1);

    need_network();
    role->components[0].ports[0].mode = DIBS_REQUIRED;
    role->components[0].ports[0].port = 8080;
    struct workload_plan plan = sync_now(w);
    assert_counts(&plan, 0, 1, 0, 0);
    workload_plan_free(&plan);
    role->components[0].ports[0].port = 8081;
    plan = sync_now(w);
    assert_counts(&plan, 0, 0, 1, 0);
    assert_int_equal(plan.changes[0].before->port, 8080);
    assert_int_equal(plan.changes[0].claim.port, 8081);
    assert_false(plan.changes[0].needs_restart);
    workload_plan_free(&plan);
}

static void a_renamed_role_takes_over_the_required_port_of_the_old_one(void **state)
{
    struct world *w = *state;
    struct workload_role *role = add_role(w->group, "web", 1, 1);

    need_network();
    role->components[0].ports[0].mode = DIBS_REQUIRED;
    role->components[0].ports[0].port = 8080;
    struct workload_plan plan = sync_now(w);
    workload_plan_free(&plan);
    role->name = "front";
    plan = sync_now(w);
    assert_counts(&plan, 0, 1, 0, 1);
    workload_plan_free(&plan);
    assert_int_equal(port_of(w, "shop/front/0/-/first"), 8080);
}

static void a_number_that_must_be_had_is_given_up_by_a_port_that_may_have_any(void **state)
{
    struct world *w = *state;
    struct workload_role *role = add_role(w->group, "web", 1, 2);
    struct workload_port *flexible = &role->components[0].ports[0];
    struct workload_port *fixed = &role->components[0].ports[1];
    struct workload_plan plan = sync_now(w);

    need_network();
    workload_plan_free(&plan);
    fixed->mode = DIBS_REQUIRED;
    fixed->port = port_of(w, "shop/web/0/-/first");
    plan = sync_now(w);
    assert_counts(&plan, 0, 0, 2, 0);
    assert_int_equal(port_of(w, "shop/web/0/-/second"), fixed->port);
    workload_plan_free(&plan);
    flexible->mode = DIBS_PREFERRED; /* preferring it moves nothing */
    flexible->port = fixed->port;
    plan = sync_now(w);
    assert_counts(&plan, 2, 0, 0, 0);
    workload_plan_free(&plan);
    fixed->port = port_of(w, "shop/web/0/-/first"); /* and preferring what is needed now holds nothing up */
    flexible->port = fixed->port;
    plan = sync_now(w);
    assert_counts(&plan, 0, 0, 2, 0);
    assert_int_equal(port_of(w, "shop/web/0/-/second"), fixed->port);
    workload_plan_free(&plan);
    fixed->port = port_of(w, "shop/web/0/-/first"); /* another protocol is not in the way */
    fixed->n_bindings = 1;
    fixed->bindings[0] = (dibs_binding){ DIBS_UDP, { .len = 16 } };
    plan = sync_now(w);
    assert_counts(&plan, 1, 0, 1, 0);
    workload_plan_free(&plan);
}

static void a_block_moves_as_one(void **state)
{
    struct world *w = *state;
    struct workload_role *role = add_role(w->group, "infer", 1, 2);
    struct workload_port *block = &role->components[0].ports[0];
    struct workload_port *fixed = &role->components[0].ports[1];

    need_network();
    block->count = 4;
    block->is_contiguous = true;
    struct workload_plan plan = sync_now(w);
    workload_plan_free(&plan);
    fixed->mode = DIBS_REQUIRED;
    fixed->port = port_of(w, "shop/infer/0/-/first.2");
    plan = sync_now(w);
    assert_counts(&plan, 0, 0, 5, 0);
    uint16_t base = port_of(w, "shop/infer/0/-/first");
    assert_int_equal(port_of(w, "shop/infer/0/-/first.3"), base + 3);
    assert_int_equal(port_of(w, "shop/infer/0/-/second"), fixed->port);
    assert_false(fixed->port >= base && fixed->port <= base + 3);
    workload_plan_free(&plan);
}

static void a_refused_sync_changes_nothing(void **state)
{
    struct world *w = *state;
    struct workload_role *role = add_role(w->group, "web", 2, 1);
    dibs_request other = { .name = "other/thing", .mode = DIBS_REQUIRED, .port = 8080, .keep = true };
    dibs_batch batch = { .requests = &other, .n = 1 };
    dibs_claim claim;
    struct workload_plan plan = sync_now(w);

    need_network();
    workload_plan_free(&plan);
    uint16_t first = port_of(w, "shop/web/0/-/first");
    uint16_t second = port_of(w, "shop/web/1/-/first");
    ASSERT_OK(dibs_claim_ports(w->handle, &batch, &claim, &w->err), &w->err);
    role->instances = 1; /* would drop, and move onto what is taken */
    role->components[0].ports[0].mode = DIBS_REQUIRED;
    role->components[0].ports[0].port = 8080;
    assert_int_equal(workload_sync(w->handle, w->group, true, &plan, &w->err), DIBS_TAKEN);
    assert_int_equal(workload_sync(w->handle, w->group, false, &plan, &w->err), DIBS_TAKEN);
    assert_non_null(strstr(w->err.msg, "other/thing"));
    assert_int_equal(port_of(w, "shop/web/0/-/first"), first);
    assert_int_equal(port_of(w, "shop/web/1/-/first"), second);
}

static void names_of_a_person_in_the_same_group_are_left_alone(void **state)
{
    struct world *w = *state;
    dibs_request mine = { .name = "shop/scratch", .keep = true };
    dibs_batch batch = { .requests = &mine, .n = 1 };
    dibs_claim claim;
    struct workload_plan plan = { 0 };

    need_network();
    add_role(w->group, "web", 1, 1);
    ASSERT_OK(dibs_claim_ports(w->handle, &batch, &claim, &w->err), &w->err);
    plan = sync_now(w);
    workload_plan_free(&plan);
    ASSERT_OK(workload_cleanup(w->handle, w->group, &plan, &w->err), &w->err);
    assert_counts(&plan, 0, 0, 0, 1);
    workload_plan_free(&plan);
    assert_int_equal(port_of(w, "shop/scratch"), claim.port);
    /* A group that never had anything: no-op, success (B1). */
    ASSERT_OK(workload_cleanup(w->handle, w->group, &plan, &w->err), &w->err);
    assert_int_equal(plan.n, 0);
    workload_plan_free(&plan);
}

static void blocks_stay_together_beside_single_ports(void **state)
{
    struct world *w = *state;
    struct workload_role *role = add_role(w->group, "infer", 3, 2);
    struct workload_port *block = &role->components[0].ports[1];

    need_network();
    block->count = 8;
    block->is_contiguous = true;
    struct workload_plan plan = sync_now(w);
    assert_counts(&plan, 0, 27, 0, 0);
    for (size_t i = 0; i < plan.n; i++) {
        size_t number = i % 9; /* the single port, then eight */

        if (number > 1)
            assert_int_equal(plan.changes[i].claim.port, plan.changes[i - 1].claim.port + 1);
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(plan.changes[k].claim.port, plan.changes[i].claim.port);
    }
    assert_string_equal(plan.changes[2].claim.name, "shop/infer/0/-/second.1");
    uint16_t first = plan.changes[1].claim.port;
    workload_plan_free(&plan);
    block->count = 4; /* what stays, stays where it is */
    plan = sync_now(w);
    assert_counts(&plan, 15, 0, 0, 12);
    assert_int_equal(plan.changes[1].claim.port, first);
    workload_plan_free(&plan);
    block->count = 6; /* grown: the block's own ports again */
    plan = sync_now(w);
    assert_int_equal(plan.changes[1].claim.port, first);
    assert_int_equal(plan.changes[6].claim.port, first + 5);
    workload_plan_free(&plan);
}

static void different_things_never_share_a_name(void **state)
{
    static const char *const raw[] = { "a",   "A", "-",    ".",   "..", "a.1", "a%2E1", "a/b",
                                       "a b", "ä", "\xff", "a~b", "",   "1",   "a.0",   "%2D" };
    enum { N = sizeof raw / sizeof raw[0], LONG = 3 };
    char longs[LONG][300];
    char names[(N + LONG) * (N + LONG) * 2][DIBS_NAME_MAX + 1];
    size_t n = 0;
    struct workload_group group = { .group = "g" };

    (void) state;
    for (size_t i = 0; i < LONG; i++) {
        memset(longs[i], 'x', sizeof longs[i] - 1);
        longs[i][sizeof longs[i] - 1] = '\0';
        longs[i][250 + i] = 'y';
    }
    for (size_t i = 0; i < N + LONG; i++)
        for (size_t k = 0; k < N + LONG; k++)
            for (uint32_t id = 0; id < 2; id++) {
                struct workload_component component = { .name = i < N ? raw[i] : longs[i - N] };
                struct workload_role role = { .name = "r" };
                struct workload_port port = { .name = k < N ? raw[k] : longs[k - N], .count = 1 };
                struct workload_pod pod = { .role = &role, .component = &component, .id = id };
                dibs_err err = { 0 };

                workload_claim_name(&group, &pod, &port, 0, names[n]);
                ASSERT_OK(dibs_name_check(names[n], &err), &err);
                for (size_t m = 0; m < n; m++)
                    assert_string_not_equal(names[m], names[n]);
                n++;
            }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_second_sync_changes_nothing),
        T(scaling_up_and_down_keeps_what_stays),
        T(a_role_scoped_port_is_one_for_all_instances_and_stays_without_any),
        T(a_changed_required_port_moves),
        T(a_renamed_role_takes_over_the_required_port_of_the_old_one),
        T(a_number_that_must_be_had_is_given_up_by_a_port_that_may_have_any),
        T(a_block_moves_as_one),
        T(a_refused_sync_changes_nothing),
        T(names_of_a_person_in_the_same_group_are_left_alone),
        T(blocks_stay_together_beside_single_ports),
        T(different_things_never_share_a_name),
    };

    e_own_network();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
