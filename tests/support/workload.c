/* SPDX-License-Identifier: MIT */
#include "support/workload.h"

#include <string.h>

#include "workload/workload.h"

struct workload_role *add_role(struct workload_group *group, const char *name, uint32_t instances,
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

int setup(void **state)
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

int teardown(void **state)
{
    struct world *w = *state;

    workload_free(w->group);
    dibs_close(w->handle);
    free(w);
    return 0;
}

struct workload_plan sync_now(struct world *w)
{
    struct workload_plan plan = { 0 };
    struct workload_plan made = { 0 };

    /* Every change is predicted first. */
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
    assert_int_equal(plan.n_restarts, made.n_restarts);
    workload_plan_free(&plan);
    return made;
}

void assert_counts(const struct workload_plan *plan, size_t keep, size_t add, size_t move, size_t drop)
{
    assert_int_equal(plan->count[WORKLOAD_KEEP], keep);
    assert_int_equal(plan->count[WORKLOAD_ADD], add);
    assert_int_equal(plan->count[WORKLOAD_MOVE], move);
    assert_int_equal(plan->count[WORKLOAD_DROP], drop);
}

uint16_t port_of(struct world *w, const char *name)
{
    dibs_claim claim;
    dibs_which which = { .name = name };

    ASSERT_OK(dibs_claim_find(w->handle, &which, &claim, &w->err), &w->err);
    return claim.port;
}

void hold_by(struct world *w, const char *name, pid_t pid)
{
    dibs_request request = { .name = name, .holder = DIBS_HELD_BY_PROCESS, .pid = pid };
    dibs_batch batch = { .requests = &request, .n = 1 };
    dibs_claim claim;

    ASSERT_OK(dibs_claim_ports(w->handle, &batch, &claim, &w->err), &w->err);
}

void hold(struct world *w, const char *name)
{
    hold_by(w, name, 0);
}

void let_go(struct world *w, const char *name)
{
    dibs_which which = { .name = name };

    ASSERT_OK(dibs_claim_release(w->handle, &which, DIBS_RELEASE_UNHOLD, NULL, &w->err), &w->err);
}

const struct workload_change *change_of(const struct workload_plan *plan, const char *name)
{
    size_t i = 0;

    while (i < plan->n && strcmp(plan->changes[i].claim.name, name) != 0)
        i++;
    assert_true(i < plan->n);
    return &plan->changes[i];
}

dibs_claim claim_of(struct world *w, const char *name)
{
    dibs_claim claim = { 0 };
    dibs_which which = { .name = name };

    ASSERT_OK(dibs_claim_find(w->handle, &which, &claim, &w->err), &w->err);
    return claim;
}

bool is_there(struct world *w, const char *name)
{
    dibs_claim claim = { 0 };
    dibs_which which = { .name = name };

    return dibs_claim_find(w->handle, &which, &claim, &w->err) == DIBS_OK;
}

void sync_on(struct world *w)
{
    struct workload_plan plan = sync_now(w);

    workload_plan_free(&plan);
}

void must_be(struct workload_port *port, uint16_t number)
{
    port->mode = DIBS_REQUIRED;
    port->port = number;
}

dibs_status check_idle(struct world *w, uint32_t instance)
{
    struct workload_pod pod = { .role = &w->group->roles[0],
                                .component = &w->group->roles[0].components[0],
                                .instance = instance };
    const struct workload_pod *pods[] = { &pod };

    return workload_check_idle(w->handle, w->group, pods, 1, &w->err);
}
