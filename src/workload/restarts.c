/* SPDX-License-Identifier: MIT */
#include "workload/restarts.h"

#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "net/bindings.h"
#include "owner/owner.h"
#include "workload/told.h"

#include "base/banned.h"

/* A directory's group is renamed by people, and not while it runs, again and again. */
enum { GROUPS_MAX = 8 };

struct noting {
    const struct restarts *r;
    struct owner_view view;
    bool can_see; /* `view` is known */
    /* The groups that something runs by: in a directory also those that it had before. */
    char groups[GROUPS_MAX][DIBS_NAME_PART_MAX + 1];
    size_t n_groups;
};

void restarts_note_pod(struct workload_change *change, const dibs_claim *held)
{
    if (change->n_pods++ > 0)
        return;
    change->is_leased = held->holder == DIBS_HELD_BY_LEASE;
    (void) snprintf(change->pod, sizeof change->pod, "%.*s", (int) present_pod_length(held->name),
                    held->name);
}

/* ---- by the claims that change ---- */

/* A pod that runs. It is told of its own ports, its role's, and those that it refers to. */
struct told_pod {
    const struct workload_pod *pod;
    const dibs_claim *held;
    struct workload_needs needs;
    struct workload_change **changes; /* of the needs; NULL: none */
    uint16_t *ports;                  /* that the needs have now */
    struct workload_value *values;
};

static void told_pod_free(struct told_pod *t)
{
    workload_needs_free(&t->needs);
    free(t->changes);
    free(t->ports);
    free(t->values);
}

/* Was the process told the number that this need has now, in each variable that it is told in? */
static bool is_known(const struct told_pod *t, size_t i, const struct workload_restart *restart)
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

/* A block is made anew as one: some of its claims may then be as before. */
static bool is_as_before(const struct workload_change *change)
{
    const dibs_claim *claim = &change->claim;
    const dibs_claim *before = change->before;

    if (change->kind != WORKLOAD_MOVE)
        return change->kind == WORKLOAD_KEEP;
    return before->port == claim->port &&
           bindings_same(before->bindings, before->n_bindings, claim->bindings, claim->n_bindings);
}

/* `restart`: what its process was told otherwise, if that is known. A claim that was released and has its
 * number again is none that the process would have to learn of. */
static void note_changes(const struct told_pod *t, const struct workload_restart *restart)
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

/* ---- by what its process was told ---- */

/* Is the number one that a change is told with, as one that is new to pods, or stays with them? */
static bool is_told(const struct workload_plan *plan, const char *text, bool is_new)
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

/* The first process that holds a claim of the pod and still says what it was told; `claim` is the first of
 * the pod that one holds. */
static char *find_told(const struct noting *n, const dibs_claim **claim)
{
    const struct present *p = n->r->present;
    size_t len = present_pod_length((*claim)->name) + 1;
    const char *name = (*claim)->name;
    int32_t last = 0;

    for (const dibs_claim *c = *claim; c < p->claims + p->n && strncmp(c->name, name, len) == 0; c++) {
        if (!present_is_run_with(c) || c->process.pid == last)
            continue;
        last = c->process.pid;
        char *told = owner_variable(&n->view, &c->process, WORKLOAD_TOLD);
        if (told) {
            *claim = c;
            return told;
        }
    }
    return NULL;
}

/* What the pod's process was told otherwise; without `all` that is not known. */
static void compare_told(const struct noting *n, const struct told_pod *t, struct workload_restart *out)
{
    const dibs_claim *claim = t->held;

    out->was = n->can_see ? find_told(n, &claim) : NULL;
    out->now = out->was ? workload_told_text(n->r->group, t->pod, t->values, claim->process.pid) : NULL;
    out->claim = *claim;
    (void) snprintf(out->pod, sizeof out->pod, "%.*s", (int) present_pod_length(claim->name), claim->name);
    if (out->now)
        (void) told_compare(out);
}

/* The plan takes what differs. */
static dibs_status note_told(struct workload_plan *plan, struct workload_restart *restart, dibs_err *err)
{
    if (restart->n == 0)
        return DIBS_OK;
    struct workload_restart *more = reallocarray(plan->restarts, plan->n_restarts + 1, sizeof *more);
    if (!more)
        return err_set(err, DIBS_FAILURE, "workload: out of memory");
    for (size_t i = 0; i < restart->n; i++) {
        struct workload_difference *d = &restart->all[i];

        d->is_told = d->now ? is_told(plan, d->now, true) : is_told(plan, d->was, false);
    }
    plan->restarts = more;
    more[plan->n_restarts++] = *restart;
    *restart = (struct workload_restart){ 0 };
    return DIBS_OK;
}

/* ---- every pod that runs ---- */

/* What it needs, as the plan has it, and what it would be told. */
static dibs_status look_up(const struct restarts *r, struct told_pod *t, dibs_err *err)
{
    dibs_status s = workload_needs_of(r->group, t->pod, &t->needs, err);

    if (s != DIBS_OK)
        return s;
    t->changes = calloc(t->needs.n + 1, sizeof(struct workload_change *));
    t->ports = calloc(t->needs.n + 1, sizeof *t->ports);
    if (!t->changes || !t->ports)
        return err_set(err, DIBS_FAILURE, "workload: out of memory");
    for (size_t i = 0; i < t->needs.n; i++) {
        size_t at = workload_needs_find(r->needs, r->sorted, t->needs.all[i].name);

        if (at == r->needs->n)
            continue;
        t->changes[i] = &r->plan->changes[at];
        t->ports[i] = t->changes[i]->claim.port;
    }
    return workload_values(r->group, t->pod, &t->needs, t->ports, &t->values, err);
}

static dibs_status note_pod(const struct noting *n, const struct workload_pod *pod, const dibs_claim *held,
                            dibs_err *err)
{
    AUTO(told_pod_free) struct told_pod t = { .pod = pod, .held = held };
    AUTO(told_free) struct workload_restart restart = { 0 };
    dibs_status s = look_up(n->r, &t, err);

    if (s != DIBS_OK)
        return s;
    compare_told(n, &t, &restart);
    note_changes(&t, &restart);
    return note_told(n->r->plan, &restart, err);
}

/* The first claim that a process holds of those whose names go on so behind their group's: "/web/0/". */
static const dibs_claim *find_held(const struct noting *n, const char *rest)
{
    const dibs_claim *held = NULL;
    char name[DIBS_NAME_MAX + 1];

    for (size_t i = 0; i < n->n_groups && !held; i++) {
        int len = snprintf(name, sizeof name, "%s%s", n->groups[i], rest);

        held = present_run_with(n->r->present, name, (size_t) len);
    }
    return held;
}

/* Every pod of the instance that runs. */
static dibs_status note_instance(const struct noting *n, const struct workload_role *role, uint32_t instance,
                                 dibs_err *err)
{
    struct workload_pod pod = { .role = role, .instance = instance };
    dibs_status s = DIBS_OK;

    for (size_t c = 0; c < role->n_components; c++) {
        pod.component = &role->components[c];
        for (pod.id = 0; pod.id < pod.component->size && s == DIBS_OK; pod.id++) {
            char name[DIBS_NAME_MAX + 1];

            workload_sign_name(n->r->group, &pod, name);
            name[present_pod_length(name) + 1] = '\0';
            const dibs_claim *held = find_held(n, strchr(name, '/'));
            if (held)
                s = note_pod(n, &pod, held, err);
        }
    }
    return s;
}

static void find_groups(struct noting *n)
{
    const struct present *p = n->r->present;

    for (size_t i = 0; i < p->n && n->n_groups < GROUPS_MAX; i++) {
        const char *name = p->claims[i].name;
        int len = (int) strcspn(name, "/");
        size_t k = 0;

        if (!present_is_run_with(&p->claims[i]))
            continue;
        while (k < n->n_groups && (strncmp(n->groups[k], name, (size_t) len) != 0 || n->groups[k][len]))
            k++;
        if (k == n->n_groups)
            (void) snprintf(n->groups[n->n_groups++], sizeof n->groups[0], "%.*s", len, name);
    }
}

dibs_status restarts_note(const struct restarts *r, dibs_err *err)
{
    const struct workload_group *group = r->group;
    AUTO(free_auto) struct noting *n = calloc(1, sizeof *n);
    dibs_status s = DIBS_OK;

    if (!n)
        return err_set(err, DIBS_FAILURE, "workload: out of memory");
    n->r = r;
    find_groups(n);
    if (n->n_groups == 0)
        return DIBS_OK;
    n->can_see = owner_view_load(&n->view, NULL) == DIBS_OK;
    for (size_t i = 0; i < group->n_roles; i++) {
        struct workload_pod first = { .role = &group->roles[i], .component = group->roles[i].components };

        for (; first.instance < first.role->instances && s == DIBS_OK; first.instance++) {
            char name[DIBS_NAME_MAX + 1];

            workload_pod_prefix(group, &first, name);
            strrchr(name, '/')[1] = '\0';
            if (find_held(n, strchr(name, '/')))
                s = note_instance(n, first.role, first.instance, err);
        }
    }
    return s;
}
