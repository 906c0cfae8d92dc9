/* SPDX-License-Identifier: MIT */
/* A group's claims follow what the group says, in one step, and running processes lose nothing. */
#include <string.h>

#include "support/core.h"
#include "support/t.h"
#include "workload/workload.h"

struct world {
    dibs *handle;
    struct workload_group *group;
    dibs_err err;
};

/* A group made by hand: role `name` with `instances`, and ports that are filled in by the test. */
static struct workload_role *add_role(struct workload_group *group, const char *name, uint32_t instances,
                                      size_t n_ports)
{
    struct workload_role *roles = workload_take(group, (group->n_roles + 1) * sizeof *roles);
    struct workload_component *component = workload_take(group, sizeof *component);

    assert_true(roles && component);
    if (group->n_roles)
        memcpy(roles, group->roles, group->n_roles * sizeof *roles);
    group->roles = roles;
    component->size = 1;
    component->n_ports = n_ports;
    component->ports = workload_take(group, n_ports * sizeof *component->ports);
    for (size_t i = 0; i < n_ports; i++)
        component->ports[i] = (struct workload_port){ .name = i ? "second" : "first",
                                                      .env = i ? "SECOND" : "FIRST",
                                                      .count = 1 };
    roles[group->n_roles] = (struct workload_role){
        .name = name, .instances = instances, .components = component, .n_components = 1
    };
    return &roles[group->n_roles++];
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    dibs_settings *settings = calloc(1, sizeof *settings);
    const dibs_flag flags[] = { { DIBS_SET_LEDGER, "memory:" },
                                { DIBS_SET_SOCKET, "none" },
                                { DIBS_SET_LEDGER_MODE, "strict" } };

    assert_true(w && settings);
    ASSERT_OK(dibs_settings_load(flags, 3, settings, &w->err), &w->err);
    ASSERT_OK(dibs_open(settings, &w->handle, &w->err), &w->err);
    free(settings);
    w->group = workload_new();
    assert_non_null(w->group);
    (void) snprintf(w->group->group, sizeof w->group->group, "shop");
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    workload_free(w->group);
    dibs_close(w->handle);
    free(w);
    return 0;
}

static struct workload_plan sync_now(struct world *w)
{
    struct workload_plan plan = { 0 };
    struct workload_plan made = { 0 };

    /* Whatever is done is predicted first. */
    ASSERT_OK(workload_sync(w->handle, w->group, true, &plan, &w->err), &w->err);
    ASSERT_OK(workload_sync(w->handle, w->group, false, &made, &w->err), &w->err);
    assert_int_equal(plan.n, made.n);
    for (size_t i = 0; i < made.n; i++) {
        assert_int_equal(plan.changes[i].kind, made.changes[i].kind);
        assert_int_equal(plan.changes[i].claim.port, made.changes[i].claim.port);
        assert_string_equal(plan.changes[i].claim.name, made.changes[i].claim.name);
        assert_int_equal(plan.changes[i].needs_restart, made.changes[i].needs_restart);
        assert_int_equal(plan.changes[i].n_pods, made.changes[i].n_pods);
        assert_string_equal(plan.changes[i].pod, made.changes[i].pod);
    }
    workload_plan_free(&plan);
    return made;
}

static void assert_counts(const struct workload_plan *plan, size_t keep, size_t add, size_t move, size_t drop)
{
    assert_int_equal(plan->count[WORKLOAD_KEEP], keep);
    assert_int_equal(plan->count[WORKLOAD_ADD], add);
    assert_int_equal(plan->count[WORKLOAD_MOVE], move);
    assert_int_equal(plan->count[WORKLOAD_DROP], drop);
}

static uint16_t port_of(struct world *w, const char *name)
{
    dibs_claim claim;
    dibs_which which = { .name = name };

    ASSERT_OK(dibs_claim_find(w->handle, &which, &claim, &w->err), &w->err);
    return claim.port;
}

/* This process becomes the holder, as `dibs run` would make its child. */
static void hold(struct world *w, const char *name)
{
    dibs_request request = { .name = name, .holder = DIBS_HELD_BY_PROCESS };
    dibs_batch batch = { .requests = &request, .n = 1 };
    dibs_claim claim;

    ASSERT_OK(dibs_claim_ports(w->handle, &batch, &claim, &w->err), &w->err);
}

static void let_go(struct world *w, const char *name)
{
    dibs_which which = { .name = name };

    ASSERT_OK(dibs_claim_release(w->handle, &which, DIBS_RELEASE_UNHOLD, NULL, &w->err), &w->err);
}

static const struct workload_change *change_of(const struct workload_plan *plan, const char *name)
{
    size_t i = 0;

    while (i < plan->n && strcmp(plan->changes[i].claim.name, name) != 0)
        i++;
    assert_true(i < plan->n);
    return &plan->changes[i];
}

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
    assert_int_equal(plan.changes[0].was, 8080);
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
    ASSERT_OK(workload_cleanup(w->handle, w->group, false, &plan, &w->err), &w->err);
    assert_counts(&plan, 0, 0, 0, 1);
    workload_plan_free(&plan);
    assert_int_equal(port_of(w, "shop/scratch"), claim.port);
    /* A group that never had anything: no-op, success (B1). */
    ASSERT_OK(workload_cleanup(w->handle, w->group, false, &plan, &w->err), &w->err);
    assert_int_equal(plan.n, 0);
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
        T(a_running_instance_keeps_its_port_until_it_ends),
        T(a_port_added_to_a_running_instance_needs_a_restart),
        T(a_changed_port_of_the_role_needs_a_restart_of_every_pod_that_runs),
        T(a_moved_port_needs_a_restart_of_those_who_refer_to_it),
        T(the_port_of_a_role_that_runs_stays_until_none_of_its_pods_does),
        T(a_refused_sync_changes_nothing),
        T(names_of_a_person_in_the_same_group_are_left_alone),
        T(cleanup_leaves_a_running_process_its_port),
        T(blocks_stay_together_beside_single_ports),
        T(different_things_never_share_a_name),
    };

    e_own_network();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
