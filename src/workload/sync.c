/* SPDX-License-Identifier: MIT */
/* The group's claims against what the group says: keep, add, move, drop, in one step.
 *
 * What a group may have made is known by its names: five parts, the first the group's. Shorter names of the
 * same group are a person's own and are left alone. */
#include <string.h>

#include "base/err.h"
#include "workload/workload.h"

#include "base/banned.h"

/* The claims that are there, sorted by name. */
struct present {
    const char *project; /* only those of this directory; NULL: of any */
    dibs_claim *claims;
    size_t n, max;
    bool is_full; /* no memory */
};

struct syncing {
    const struct workload_group *group;
    struct workload_needs needs;
    struct present present;
    dibs_request *requests;
    dibs_drop *drops;
    size_t n_drops;
    enum workload_change_kind *kinds; /* of the needs */
    size_t *was;                      /* of a need: its claim's place in `present`, n when it has none */
    bool *is_used;                    /* of what is present */
};

static void syncing_free(struct syncing *y)
{
    workload_needs_free(&y->needs);
    free(y->present.claims);
    free(y->requests);
    free(y->drops);
    free(y->kinds);
    free(y->was);
    free(y->is_used);
}

void workload_plan_free(struct workload_plan *plan)
{
    free(plan->changes);
    free(plan->present);
    *plan = (struct workload_plan){ 0 };
}

/* ---- what is there ---- */

static bool has_five_parts(const char *name)
{
    int slashes = 0;

    for (const char *c = name; *c; c++)
        slashes += *c == '/';
    return slashes == DIBS_NAME_PARTS_MAX - 1;
}

static bool take_claim(void *ctx, const dibs_claim *claim)
{
    struct present *p = ctx;

    if (!has_five_parts(claim->name) || (p->project && strcmp(claim->project, p->project) != 0))
        return true;
    if (p->n == p->max) {
        size_t max = p->max ? 2 * p->max : 64;
        dibs_claim *more = realloc(p->claims, max * sizeof *more);

        p->is_full = !more;
        if (!more)
            return false;
        p->claims = more;
        p->max = max;
    }
    p->claims[p->n++] = *claim;
    return true;
}

static int by_name(const void *a, const void *b)
{
    const dibs_claim *x = a;
    const dibs_claim *y = b;

    return strcmp(x->name, y->name);
}

static int name_to_claim(const void *name, const void *claim)
{
    const dibs_claim *c = claim;

    return strcmp(name, c->name);
}

static dibs_status list_present(dibs *handle, struct syncing *y, dibs_err *err)
{
    struct present *p = &y->present;
    dibs_filter filter = { .name_prefix = y->group->group,
                           .principal = dibs_principal_of(handle),
                           .judge = true };
    dibs_status s = dibs_claim_list(handle, &filter, take_claim, p, err);

    /* None? Then the group may have been given another name since: what the directory has is its own. */
    if (s == DIBS_OK && p->n == 0 && y->group->project) {
        filter.name_prefix = NULL;
        p->project = y->group->project;
        s = dibs_claim_list(handle, &filter, take_claim, p, err);
    }
    if (s == DIBS_OK && p->is_full)
        s = err_set(err, DIBS_FAILURE, "workload: out of memory");
    if (s == DIBS_OK && p->n > 0)
        qsort(p->claims, p->n, sizeof *p->claims, by_name);
    return s;
}

static size_t find_present(const struct present *p, const char *name)
{
    const dibs_claim *found = p->n ? bsearch(name, p->claims, p->n, sizeof *p->claims, name_to_claim) : NULL;

    return found ? (size_t) (found - p->claims) : p->n;
}

/* ---- is it still what is wanted? ---- */

static bool has_binding(const dibs_claim *claim, const dibs_binding *wanted)
{
    static const dibs_address everything = { .len = 16 };
    static const dibs_address everything4 = { .len = 4 };

    for (size_t i = 0; i < claim->n_bindings; i++) {
        const dibs_binding *has = &claim->bindings[i];
        const dibs_address *a = &has->address;

        if (has->proto != wanted->proto)
            continue;
        if (a->len == wanted->address.len && memcmp(a->bytes, wanted->address.bytes, a->len) == 0)
            return true;
        /* On a host without IPv6 the wildcard was narrowed. */
        if (a->len == 4 && memcmp(a->bytes, everything4.bytes, 4) == 0 && wanted->address.len == 16 &&
            memcmp(wanted->address.bytes, everything.bytes, 16) == 0)
            return true;
    }
    return false;
}

bool workload_is_as_wanted(const dibs_claim *claim, const struct workload_port *port)
{
    dibs_binding plain = { .proto = DIBS_TCP, .address = { .len = 16 } };
    const dibs_binding *bindings = port->n_bindings ? port->bindings : &plain;
    size_t n = port->n_bindings ? port->n_bindings : 1;

    if (!claim->is_exclusive || (port->mode == DIBS_REQUIRED && claim->port != port->port))
        return false;
    if (claim->n_bindings > n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!has_binding(claim, &bindings[i]))
            return false;
    return true;
}

static bool is_held(const dibs_claim *claim)
{
    return claim->holder != DIBS_HELD_BY_NOBODY && claim->life != DIBS_DEAD;
}

/* The port's numbers from `first` on: all as wanted and, in a block, side by side? */
static bool is_port_as_wanted(const struct syncing *y, size_t first)
{
    const struct workload_port *port = y->needs.all[first].port;

    for (size_t i = first; i < first + port->count; i++) {
        if (y->was[i] == y->present.n || !workload_is_as_wanted(&y->present.claims[y->was[i]], port))
            return false;
        if (y->present.claims[y->was[i]].port != y->present.claims[y->was[first]].port + (i - first))
            return false;
    }
    return true;
}

/* A block stays or goes as one. */
static void decide(struct syncing *y)
{
    const struct present *p = &y->present;

    for (size_t i = 0; i < y->needs.n; i++)
        y->was[i] = find_present(p, y->needs.all[i].name);
    for (size_t i = 0; i < y->needs.n; i++) {
        const struct workload_need *need = &y->needs.all[i];
        bool is_there = y->was[i] < p->n;
        bool is_kept = need->port->is_contiguous
                           ? is_port_as_wanted(y, i - need->number)
                           : is_there && workload_is_as_wanted(&p->claims[y->was[i]], need->port);

        y->kinds[i] = is_kept ? WORKLOAD_KEEP : is_there ? WORKLOAD_MOVE : WORKLOAD_ADD;
        y->requests[i] = workload_request(y->group, need);
        if (is_kept) { /* found as it is */
            y->requests[i].mode = DIBS_RANDOM;
            y->requests[i].run = 0;
            y->requests[i].n_bindings = 0;
        }
        if (is_there)
            y->is_used[y->was[i]] = true;
        if (is_there && !is_kept)
            y->drops[y->n_drops++] = (dibs_drop){ &p->claims[y->was[i]], true };
    }
    for (size_t i = 0; i < p->n; i++)
        if (!y->is_used[i])
            y->drops[y->n_drops++] = (dibs_drop){ &p->claims[i], false };
}

static dibs_status prepare(dibs *handle, struct syncing *y, dibs_err *err)
{
    dibs_status s = list_present(handle, y, err);

    if (s != DIBS_OK)
        return s;
    size_t n = y->needs.n + 1;
    y->requests = calloc(n, sizeof *y->requests);
    y->kinds = calloc(n, sizeof *y->kinds);
    y->was = calloc(n, sizeof *y->was);
    y->drops = calloc(y->present.n + 1, sizeof *y->drops);
    y->is_used = calloc(y->present.n + 1, sizeof *y->is_used);
    if (!y->requests || !y->kinds || !y->was || !y->drops || !y->is_used) {
        (void) err_set(err, DIBS_FAILURE, "workload: out of memory");
        return DIBS_FAILURE; /* clang's analyzer does not see that err_set() gives the status back */
    }
    decide(y);
    return DIBS_OK;
}

/* ---- the answer ---- */

/* Bytes of the name that say which pod it is: all but the port. */
static size_t pod_part(const char *name)
{
    const char *last = strrchr(name, '/');

    return last ? (size_t) (last - name) : 0;
}

/* Does a process run as the pod of this name? Names of one pod are neighbours in the sorted list. */
static bool is_pod_running(const struct present *p, const char *name)
{
    size_t len = pod_part(name);
    size_t low = 0;

    for (size_t high = p->n; low < high;) {
        size_t middle = low + (high - low) / 2;

        if (strncmp(p->claims[middle].name, name, len) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < p->n && strncmp(p->claims[low].name, name, len) == 0; low++)
        if (pod_part(p->claims[low].name) == len && is_held(&p->claims[low]))
            return true;
    return false;
}

/* The plan takes what was there. */
static dibs_status tell(struct syncing *y, const dibs_claim *answers, struct workload_plan *out,
                        dibs_err *err)
{
    struct workload_plan plan = { .changes = calloc(y->needs.n + y->n_drops + 1, sizeof *plan.changes) };

    if (!plan.changes)
        return err_set(err, DIBS_FAILURE, "workload: out of memory");
    for (size_t i = 0; i < y->needs.n; i++) {
        struct workload_change *change = &plan.changes[plan.n++];

        change->kind = y->kinds[i];
        change->claim = answers[i];
        if (change->kind == WORKLOAD_MOVE) {
            change->before = &y->present.claims[y->was[i]];
            change->was = change->before->port;
        }
        change->needs_restart =
            change->kind != WORKLOAD_KEEP && is_pod_running(&y->present, y->needs.all[i].name);
        plan.count[change->kind]++;
    }
    for (size_t i = 0; i < y->n_drops; i++) {
        if (y->drops[i].frees_name)
            continue; /* told as a move */
        plan.changes[plan.n++] = (struct workload_change){ .kind = WORKLOAD_DROP,
                                                           .before = y->drops[i].claim,
                                                           .needs_restart = is_held(y->drops[i].claim),
                                                           .claim = *y->drops[i].claim };
        plan.count[WORKLOAD_DROP]++;
    }
    plan.present = TAKE(y->present.claims);
    *out = plan;
    return DIBS_OK;
}

/* ---- one step for all ---- */

/* What every group asks for and drops, one group behind the other. */
struct step {
    dibs_request *requests;
    dibs_claim *answers;
    dibs_drop *drops;
    size_t n, n_drops;
};

static void step_free(struct step *step)
{
    free(step->requests);
    free(step->answers);
    free(step->drops);
}

static dibs_status step_make(struct step *step, size_t n, size_t n_drops, dibs_err *err)
{
    step->requests = calloc(n + 1, sizeof *step->requests);
    step->answers = calloc(n + 1, sizeof *step->answers);
    step->drops = calloc(n_drops + 1, sizeof *step->drops);
    if (!step->requests || !step->answers || !step->drops)
        return err_set(err, DIBS_FAILURE, "workload: out of memory");
    return DIBS_OK;
}

static dibs_status step_take(dibs *handle, const struct step *step, bool is_dry_run, dibs_err *err)
{
    const dibs_batch batch = { .requests = step->requests,
                               .n = step->n,
                               .drops = step->drops,
                               .n_drops = step->n_drops,
                               .is_dry_run = is_dry_run };

    return dibs_claim_ports(handle, &batch, step->answers, err);
}

static dibs_status join(const struct syncing *all, size_t n, struct step *step, dibs_err *err)
{
    size_t n_needs = 0;
    size_t n_drops = 0;

    for (size_t i = 0; i < n; i++) {
        n_needs += all[i].needs.n;
        n_drops += all[i].n_drops;
    }
    dibs_status s = step_make(step, n_needs, n_drops, err);
    for (size_t i = 0; i < n && s == DIBS_OK; i++) {
        memcpy(&step->requests[step->n], all[i].requests, all[i].needs.n * sizeof *step->requests);
        memcpy(&step->drops[step->n_drops], all[i].drops, all[i].n_drops * sizeof *step->drops);
        step->n += all[i].needs.n;
        step->n_drops += all[i].n_drops;
    }
    return s;
}

static dibs_status make_so(dibs *handle, struct syncing *all, size_t n, bool is_dry_run,
                           struct workload_plan *plans, dibs_err *err)
{
    AUTO(step_free) struct step step = { 0 };
    dibs_status s = DIBS_OK;
    size_t n_told = 0;

    for (size_t i = 0; i < n && s == DIBS_OK; i++)
        s = prepare(handle, &all[i], err);
    if (s == DIBS_OK)
        s = join(all, n, &step, err);
    if (s == DIBS_OK)
        s = step_take(handle, &step, is_dry_run, err);
    const dibs_claim *answers = step.answers;
    for (; n_told < n && s == DIBS_OK; answers += all[n_told++].needs.n)
        s = tell(&all[n_told], answers, &plans[n_told], err);
    for (size_t i = 0; i < n_told && s != DIBS_OK; i++)
        workload_plan_free(&plans[i]);
    return s;
}

dibs_status workload_sync_all(dibs *handle, struct workload_group *const *groups, size_t n, bool is_dry_run,
                              struct workload_plan *plans, dibs_err *err)
{
    AUTO(free_auto) struct syncing *all = calloc(n + 1, sizeof *all);
    dibs_status s = DIBS_OK;

    if (!all)
        return err_set(err, DIBS_FAILURE, "workload: out of memory");
    for (size_t i = 0; i < n && s == DIBS_OK; i++) {
        all[i].group = groups[i];
        s = workload_needs_all(groups[i], &all[i].needs, err);
    }
    if (s == DIBS_OK)
        s = make_so(handle, all, n, is_dry_run, plans, err);
    for (size_t i = 0; i < n; i++)
        syncing_free(&all[i]);
    return s;
}

dibs_status workload_sync(dibs *handle, const struct workload_group *group, bool is_dry_run,
                          struct workload_plan *out, dibs_err *err)
{
    AUTO(syncing_free) struct syncing y = { .group = group };
    dibs_status s = workload_needs_all(group, &y.needs, err);

    return s == DIBS_OK ? make_so(handle, &y, 1, is_dry_run, out, err) : s;
}

dibs_status workload_cleanup(dibs *handle, const struct workload_group *group, bool is_dry_run,
                             struct workload_plan *out, dibs_err *err)
{
    AUTO(syncing_free) struct syncing y = { .group = group };

    return make_so(handle, &y, 1, is_dry_run, out, err);
}

/* ---- and back ---- */

/* What a claim was before: the same number for the same name, kept. */
static dibs_request again(const dibs_claim *was)
{
    dibs_request request = { .name = was->name,
                             .project = was->project[0] ? was->project : NULL,
                             .mode = DIBS_REQUIRED,
                             .port = was->port,
                             .keep = true,
                             .is_lookup = true,
                             .is_adopted = true,
                             .n_bindings = was->n_bindings };

    memcpy(request.bindings, was->bindings, sizeof request.bindings);
    return request;
}

dibs_status workload_undo(dibs *handle, const struct workload_plan *plans, size_t n, dibs_err *err)
{
    AUTO(step_free) struct step step = { 0 };
    size_t n_changes = 0;

    for (size_t i = 0; i < n; i++)
        n_changes += plans[i].n;
    dibs_status s = step_make(&step, n_changes, n_changes, err);
    if (s != DIBS_OK)
        return s;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < plans[i].n; k++) {
            const struct workload_change *change = &plans[i].changes[k];
            bool is_back = change->before && change->before->is_kept;

            if (change->kind == WORKLOAD_ADD || change->kind == WORKLOAD_MOVE)
                step.drops[step.n_drops++] = (dibs_drop){ &change->claim, is_back };
            if (is_back)
                step.requests[step.n++] = again(change->before);
        }
    return step_take(handle, &step, false, err);
}
