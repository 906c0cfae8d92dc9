/* SPDX-License-Identifier: MIT */
#include "workload/restarts.h"

#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "net/bindings.h"

#include "base/banned.h"

void restarts_note_pod(struct workload_change *change, const dibs_claim *held)
{
    if (change->n_pods++ > 0)
        return;
    change->is_leased = held->holder == DIBS_HELD_BY_LEASE;
    (void) snprintf(change->pod, sizeof change->pod, "%.*s", (int) present_pod_length(held->name),
                    held->name);
}

/* A running pod. It gets the numbers of its own ports, its role's ports and its references. */
struct running_pod {
    const struct workload_pod *pod;
    const dibs_claim *held;     /* first claim that a process holds */
    const dibs_claim *recorded; /* first claim that records the process's variables; else `held` */
    struct workload_needs needs;
    struct workload_change **changes; /* one per need; NULL: unchanged */
    uint16_t *ports;                  /* current port of each need */
    struct workload_value *values;
};

static void running_pod_free(struct running_pod *t)
{
    workload_needs_free(&t->needs);
    free(t->changes);
    free(t->ports);
    free(t->values);
}

/* Return whether the process has this need's current number in all of its variables. */
static bool is_known(const struct running_pod *t, size_t i, const struct workload_restart *restart)
{
    const struct workload_need *need = &t->needs.all[i];
    const struct workload_component *component = t->pod->component;

    for (size_t v = 0; v < component->n_ports + component->n_references; v++) {
        const struct workload_value *value = &t->values[v];

        if (value->port != need->port || value->first != t->ports[i - need->number])
            continue;
        for (size_t d = 0; d < restart->n; d++)
            if (strcmp(restart->all[d].variable, value->env) == 0)
                return false;
    }
    return true;
}

/* A block moves as a whole, so some of its claims may be unchanged. */
static bool is_as_before(const struct workload_change *change)
{
    const dibs_claim *claim = &change->claim;
    const dibs_claim *before = change->before;

    if (change->kind != WORKLOAD_MOVE)
        return change->kind == WORKLOAD_KEEP;
    return before->port == claim->port &&
           bindings_same(before->bindings, before->n_bindings, claim->bindings, claim->n_bindings);
}

/* Mark the changes that the pod's process does not know. `restart` has the differences of its variables, if
 * they are known. A released claim that got its number back is no change for the process. */
static void note_changes(const struct running_pod *t, const struct workload_restart *restart)
{
    for (size_t i = 0; i < t->needs.n; i++) {
        struct workload_change *change = t->changes[i];

        if (!change || is_as_before(change))
            continue;
        if (t->needs.all[i].is_own && change->claim.holder != DIBS_HELD_BY_NOBODY)
            continue; /* its own claim, regained from before the last move */
        if (change->kind == WORKLOAD_ADD && restart->all && is_known(t, i, restart))
            continue;
        change->needs_restart = true;
        restarts_note_pod(change, t->held);
    }
}

/* Return whether a change already reports this number, as added or as staying. */
static bool is_covered(const struct workload_plan *plan, const char *text, bool is_new)
{
    uint64_t port = 0;

    if (!text_number(text, strcspn(text, ","), DIBS_PORT_MAX, &port))
        return false;
    for (size_t i = 0; i < plan->n; i++) {
        const struct workload_change *change = &plan->changes[i];

        if (change->claim.port == port && (is_new ? change->needs_restart : change->kind == WORKLOAD_STAY))
            return true;
    }
    return false;
}

/* Compare the pod's recorded variables with its current values. `all` stays NULL when they are unknown. */
static dibs_status compare(const struct workload_group *group, const struct running_pod *t,
                           struct workload_restart *out, dibs_err *err)
{
    const dibs_claim *claim = t->recorded;

    out->claim = *claim;
    (void) snprintf(out->pod, sizeof out->pod, "%.*s", (int) present_pod_length(claim->name), claim->name);
    if (!claim->env[0])
        return DIBS_OK;
    out->was = strdup(claim->env);
    out->now = workload_env_text(group, t->pod, t->values);
    if (!out->was || !out->now)
        return err_set(err, DIBS_FAILURE, "workload: out of memory");
    restart_compare(out);
    restart_set_texts(out, group, t->pod, t->values);
    return DIBS_OK;
}

/* Move the restart into the plan. */
static dibs_status add_restart(struct workload_plan *plan, struct workload_restart *restart, dibs_err *err)
{
    if (restart->n == 0)
        return DIBS_OK;
    struct workload_restart *more = reallocarray(plan->restarts, plan->n_restarts + 1, sizeof *more);
    if (!more)
        return err_set(err, DIBS_FAILURE, "workload: out of memory");
    for (size_t i = 0; i < restart->n; i++) {
        struct workload_difference *d = &restart->all[i];

        d->is_covered = d->now ? is_covered(plan, d->now, true) : is_covered(plan, d->was, false);
    }
    plan->restarts = more;
    more[plan->n_restarts++] = *restart;
    *restart = (struct workload_restart){ 0 };
    return DIBS_OK;
}

/* Return the plan's change of the claim with this name; NULL: none. */
static struct workload_change *find_change(const struct restarts *r, const char *name)
{
    for (size_t i = 0; i < r->needs->n; i++)
        if (strcmp(r->needs->all[i].name, name) == 0)
            return &r->plan->changes[i];
    return NULL;
}

/* Find the pod's needs, their changes and ports in the plan, and its current values. */
static dibs_status look_up(const struct restarts *r, struct running_pod *t, dibs_err *err)
{
    dibs_status s = workload_needs_of(r->group, t->pod, &t->needs, err);

    if (s != DIBS_OK)
        return s;
    t->changes = calloc(t->needs.n + 1, sizeof(struct workload_change *));
    t->ports = calloc(t->needs.n + 1, sizeof *t->ports);
    if (!t->changes || !t->ports)
        return err_set(err, DIBS_FAILURE, "workload: out of memory");
    for (size_t i = 0; i < t->needs.n; i++) {
        t->changes[i] = find_change(r, t->needs.all[i].name);
        t->ports[i] = t->changes[i] ? t->changes[i]->claim.port : 0;
    }
    return workload_values(r->group, t->pod, &t->needs, t->ports, &t->values, err);
}

/* Find the claims that show that the pod runs. Compare names without the group: the group may have been
 * renamed since the process started. */
static void find_running(const struct restarts *r, struct running_pod *t)
{
    char name[DIBS_NAME_MAX + 1];

    workload_pod_prefix(r->group, t->pod, name);
    (void) snprintf(name + strlen(name), sizeof name - strlen(name), "/");
    const char *behind = strchr(name, '/');
    for (size_t i = 0; i < r->present->n; i++) {
        const dibs_claim *claim = &r->present->claims[i];

        if (!present_is_run_with(claim) || strncmp(strchr(claim->name, '/'), behind, strlen(behind)) != 0)
            continue;
        if (!t->held)
            t->held = t->recorded = claim;
        if (!t->recorded->env[0] && claim->env[0])
            t->recorded = claim;
    }
}

static dibs_status note_pod(const struct restarts *r, const struct workload_pod *pod, dibs_err *err)
{
    AUTO(running_pod_free) struct running_pod t = { .pod = pod };
    AUTO(restart_free) struct workload_restart restart = { 0 };

    find_running(r, &t);
    if (!t.held)
        return DIBS_OK; /* not running */
    dibs_status s = look_up(r, &t, err);
    if (s == DIBS_OK)
        s = compare(r->group, &t, &restart, err);
    if (s != DIBS_OK)
        return s;
    note_changes(&t, &restart);
    return add_restart(r->plan, &restart, err);
}

static bool has_running(const struct present *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (present_is_run_with(&p->claims[i]))
            return true;
    return false;
}

dibs_status restarts_note(const struct restarts *r, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < r->group->n_roles && has_running(r->present); i++) {
        struct workload_pod pod = { .role = &r->group->roles[i] };

        for (; pod.instance < pod.role->instances; pod.instance++)
            for (size_t c = 0; c < pod.role->n_components; c++) {
                pod.component = &pod.role->components[c];
                for (pod.id = 0; pod.id < pod.component->size && s == DIBS_OK; pod.id++)
                    s = note_pod(r, &pod, err);
            }
    }
    return s;
}
