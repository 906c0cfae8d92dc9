/* SPDX-License-Identifier: MIT */
#include "workload/restarts.h"

#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "net/bindings.h"

#include "base/banned.h"

/* A need by its name. */
struct sorted {
    const char *name;
    size_t at; /* among all needs */
};

struct noting {
    const struct restarts *r;
    struct sorted *sorted; /* all needs */
    /* What processes hold, sorted by the names behind their groups: a directory's group may have had another
     * name when the process was started. */
    const dibs_claim **running;
    size_t n_running;
};

static int by_name(const void *a, const void *b)
{
    const struct sorted *x = a;
    const struct sorted *y = b;

    return strcmp(x->name, y->name);
}

void restarts_note_pod(struct workload_change *change, const dibs_claim *held)
{
    if (change->n_pods++ > 0)
        return;
    change->is_leased = held->holder == DIBS_HELD_BY_LEASE;
    (void) snprintf(change->pod, sizeof change->pod, "%.*s", (int) present_pod_length(held->name),
                    held->name);
}

/* ---- by the claims that change ---- */

/* A pod that runs. It gets the numbers of its own ports, its role's, and those that it refers to. */
struct running_pod {
    const struct workload_pod *pod;
    const dibs_claim *held;     /* the first that a process holds */
    const dibs_claim *recorded; /* the first that records its process' variables; `held` when none does */
    struct workload_needs needs;
    struct workload_change **changes; /* of the needs; NULL: none */
    uint16_t *ports;                  /* that the needs have now */
    struct workload_value *values;
};

static void running_pod_free(struct running_pod *t)
{
    workload_needs_free(&t->needs);
    free(t->changes);
    free(t->ports);
    free(t->values);
}

/* Has the process the number that this need has now, in each variable of it? */
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

/* A block moves as one: some of its claims may be as before. */
static bool is_as_before(const struct workload_change *change)
{
    const dibs_claim *claim = &change->claim;
    const dibs_claim *before = change->before;

    if (change->kind != WORKLOAD_MOVE)
        return change->kind == WORKLOAD_KEEP;
    return before->port == claim->port &&
           bindings_same(before->bindings, before->n_bindings, claim->bindings, claim->n_bindings);
}

/* `restart`: the differences of its process' variables, if they are known. A claim that was released and has
 * its number again is no change for the process. */
static void note_changes(const struct running_pod *t, const struct workload_restart *restart)
{
    for (size_t i = 0; i < t->needs.n; i++) {
        struct workload_change *change = t->changes[i];

        if (!change || is_as_before(change))
            continue;
        if (t->needs.all[i].is_own && change->claim.holder != DIBS_HELD_BY_NOBODY)
            continue; /* its own again, from before the last move */
        if (change->kind == WORKLOAD_ADD && restart->all && is_known(t, i, restart))
            continue;
        change->needs_restart = true;
        restarts_note_pod(change, t->held);
    }
}

/* ---- by the variables of its process ---- */

/* Does a change report this number already, as new to pods or as staying with them? */
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

/* Compare the pod's recorded variables with those that it would get now. Without `all` they are not known. */
static dibs_status compare(const struct running_pod *t, struct workload_restart *out, dibs_err *err)
{
    const dibs_claim *claim = t->recorded;

    out->claim = *claim;
    (void) snprintf(out->pod, sizeof out->pod, "%.*s", (int) present_pod_length(claim->name), claim->name);
    if (!claim->env[0])
        return DIBS_OK;
    out->was = strdup(claim->env);
    out->now = workload_env_text(t->pod, t->values);
    if (!out->was || !out->now)
        return err_set(err, DIBS_FAILURE, "workload: out of memory");
    restart_compare(out);
    return DIBS_OK;
}

/* The plan takes what differs. */
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

/* ---- every pod that runs ---- */

/* Find what it needs, as the plan has it, and the values that it would get. */
static dibs_status look_up(const struct noting *n, struct running_pod *t, dibs_err *err)
{
    const struct restarts *r = n->r;
    dibs_status s = workload_needs_of(r->group, t->pod, &t->needs, err);

    if (s != DIBS_OK)
        return s;
    t->changes = calloc(t->needs.n + 1, sizeof(struct workload_change *));
    t->ports = calloc(t->needs.n + 1, sizeof *t->ports);
    if (!t->changes || !t->ports)
        return err_set(err, DIBS_FAILURE, "workload: out of memory");
    for (size_t i = 0; i < t->needs.n; i++) {
        const struct sorted *need = bsearch(&(struct sorted){ .name = t->needs.all[i].name }, n->sorted,
                                            r->needs->n, sizeof *n->sorted, by_name);

        if (!need)
            continue;
        t->changes[i] = &r->plan->changes[need->at];
        t->ports[i] = t->changes[i]->claim.port;
    }
    return workload_values(r->group, t->pod, &t->needs, t->ports, &t->values, err);
}

static const char *behind_group(const dibs_claim *claim)
{
    return strchr(claim->name, '/');
}

static int by_pod(const void *a, const void *b)
{
    const dibs_claim *const *x = a;
    const dibs_claim *const *y = b;

    return strcmp(behind_group(*x), behind_group(*y));
}

/* Is it of the pod, "/web/0/-/"? */
static int pod_to_claim(const void *pod, const void *claim)
{
    const dibs_claim *const *c = claim;

    return strncmp(pod, behind_group(*c), strlen(pod));
}

static dibs_status note_pod(const struct noting *n, const struct workload_pod *pod, dibs_err *err)
{
    AUTO(running_pod_free) struct running_pod t = { .pod = pod };
    AUTO(restart_free) struct workload_restart restart = { 0 };
    char whole[DIBS_NAME_MAX + 1];

    workload_pod_prefix(n->r->group, pod, whole);
    (void) snprintf(whole + strlen(whole), sizeof whole - strlen(whole), "/");
    const char *name = strchr(whole, '/');
    const dibs_claim **first =
        bsearch(name, n->running, n->n_running, sizeof(const dibs_claim *), pod_to_claim);
    if (!first)
        return DIBS_OK; /* it does not run */
    while (first > n->running && pod_to_claim(name, first - 1) == 0)
        first--;
    t.held = t.recorded = *first;
    for (; first < n->running + n->n_running && pod_to_claim(name, first) == 0; first++)
        if (!t.recorded->env[0] && (*first)->env[0])
            t.recorded = *first;
    dibs_status s = look_up(n, &t, err);
    if (s == DIBS_OK)
        s = compare(&t, &restart, err);
    if (s != DIBS_OK)
        return s;
    note_changes(&t, &restart);
    return add_restart(n->r->plan, &restart, err);
}

static dibs_status note_instance(const struct noting *n, const struct workload_role *role, uint32_t instance,
                                 dibs_err *err)
{
    struct workload_pod pod = { .role = role, .instance = instance };
    dibs_status s = DIBS_OK;

    for (size_t c = 0; c < role->n_components; c++) {
        pod.component = &role->components[c];
        for (pod.id = 0; pod.id < pod.component->size && s == DIBS_OK; pod.id++)
            s = note_pod(n, &pod, err);
    }
    return s;
}

dibs_status restarts_note(const struct restarts *r, dibs_err *err)
{
    AUTO(free_auto) struct sorted *sorted = calloc(r->needs->n + 1, sizeof *sorted);
    AUTO(free_auto) const dibs_claim **running = calloc(r->present->n + 1, sizeof(const dibs_claim *));
    struct noting n = { .r = r, .sorted = sorted, .running = running };
    dibs_status s = DIBS_OK;

    if (!sorted || !running)
        return err_set(err, DIBS_FAILURE, "workload: out of memory");
    for (size_t i = 0; i < r->needs->n; i++)
        sorted[i] = (struct sorted){ r->needs->all[i].name, i };
    qsort(sorted, r->needs->n, sizeof *sorted, by_name);
    for (size_t i = 0; i < r->present->n; i++)
        if (present_is_run_with(&r->present->claims[i]))
            running[n.n_running++] = &r->present->claims[i];
    if (n.n_running == 0)
        return DIBS_OK;
    qsort(running, n.n_running, sizeof(const dibs_claim *), by_pod);
    for (size_t i = 0; i < r->group->n_roles; i++)
        for (uint32_t k = 0; k < r->group->roles[i].instances && s == DIBS_OK; k++)
            s = note_instance(&n, &r->group->roles[i], k, err);
    return s;
}
