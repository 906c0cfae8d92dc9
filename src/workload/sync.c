/* SPDX-License-Identifier: MIT */
/* Reconcile a group's claims with its model: keep, add, move and drop in one batch; and undo that. */
#include <string.h>

#include "base/err.h"
#include "base/name_part.h"
#include "net/bindings.h"
#include "workload/present.h"
#include "workload/restarts.h"

#include "base/banned.h"

enum { TRIES_MAX = 8 }; /* retries while pods start concurrently */

/* The decision about a need. */
struct wish {
    enum workload_change_kind kind;
    size_t at;  /* index of its request and answer in the batch */
    size_t was; /* index of its claim in `present`; n: none */
};

/* One group of a sync. */
struct syncing {
    const struct workload_group *group;
    dibs *handle;
    struct workload_needs needs;
    struct present present;
    struct wish *wishes;     /* one per need */
    bool *is_used;           /* per present claim: a need has its name or takes it back */
    bool is_asked, has_ipv6; /* has_ipv6 is valid once is_asked */
};

/* The requests and drops of all groups, in order. */
struct sync_batch {
    dibs_request *requests;
    dibs_drop *drops;
    size_t n, n_drops;
};

static void sync_batch_free(struct sync_batch *batch)
{
    free(batch->requests);
    free(batch->drops);
}

/* Discard every decision; keep the needs. */
static void discard_decisions(struct syncing *y)
{
    present_free(&y->present);
    free(y->wishes);
    free(y->is_used);
    *y = (struct syncing){ .group = y->group, .handle = y->handle, .needs = y->needs };
}

void workload_plan_free(struct workload_plan *plan)
{
    for (size_t i = 0; i < plan->n_restarts; i++)
        restart_free(&plan->restarts[i]);
    free(plan->restarts);
    free(plan->changes);
    free(plan->present);
    *plan = (struct workload_plan){ 0 };
}

/* ---- comparing claims with needs ---- */

bool workload_is_as_wanted(const dibs_claim *claim, const struct workload_port *port, bool *is_narrowed)
{
    size_t n_wide = 0;
    const dibs_binding *wide = workload_bindings(port, &n_wide);
    dibs_binding narrow[DIBS_BINDINGS_MAX];
    size_t n_narrow = 0;

    *is_narrowed = false;
    if (!claim->is_exclusive || (port->mode == DIBS_REQUIRED && claim->port != port->port))
        return false;
    if (bindings_same(claim->bindings, claim->n_bindings, wide, n_wide))
        return true;
    *is_narrowed = bindings_narrow(wide, n_wide, narrow, &n_narrow) &&
                   bindings_same(claim->bindings, claim->n_bindings, narrow, n_narrow);
    return *is_narrowed;
}

/* Return whether the host has IPv6, by the dry run of a declared claim, which is never refused. Asked only
 * when a claim was made without IPv6. */
static bool has_ipv6(struct syncing *y)
{
    static const dibs_binding all = { .proto = DIBS_TCP, .address = { .len = 16 } };
    dibs_request request = { .mode = DIBS_DECLARED, .port = 1, .keep = true, .n_bindings = 1 };
    dibs_claim answer = { 0 };

    if (y->is_asked)
        return y->has_ipv6;
    request.bindings[0] = all;
    y->is_asked = true;
    y->has_ipv6 =
        dibs_claim_ports(y->handle, &(dibs_batch){ .requests = &request, .n = 1, .is_dry_run = true },
                         &answer, NULL) == DIBS_OK &&
        !answer.is_narrowed;
    return y->has_ipv6;
}

/* Return whether the need has a claim that matches. A claim made without IPv6 matches while the host has
 * none, or while it is held. */
static bool is_need_met(struct syncing *y, size_t i)
{
    bool is_narrowed = false;

    if (y->wishes[i].was == y->present.n)
        return false;
    const dibs_claim *claim = &y->present.claims[y->wishes[i].was];
    if (!workload_is_as_wanted(claim, y->needs.all[i].port, &is_narrowed))
        return false;
    return !is_narrowed || !has_ipv6(y) || present_is_held(claim);
}

/* Return whether all numbers of a block match and are adjacent: a block stays or moves as a whole. */
static bool is_block_met(struct syncing *y, size_t first)
{
    for (size_t i = first; i < first + y->needs.all[first].port->count; i++)
        if (!is_need_met(y, i) || y->present.claims[y->wishes[i].was].port !=
                                      y->present.claims[y->wishes[first].was].port + (i - first))
            return false;
    return true;
}

/* Return whether the need requires a number that it does not have yet. */
static bool must_get(const struct syncing *y, size_t i)
{
    return y->wishes[i].kind != WORKLOAD_KEEP && y->needs.all[i].port->mode == DIBS_REQUIRED;
}

/* Return whether the claim has a number that another port of the group requires. */
static bool is_in_the_way(const struct syncing *y, const dibs_claim *claim)
{
    for (size_t i = 0; i < y->needs.n; i++) {
        const struct workload_port *port = y->needs.all[i].port;
        size_t n = 0;
        const dibs_binding *bindings = workload_bindings(port, &n);

        if (must_get(y, i) && port->port == claim->port &&
            bindings_conflict(bindings, n, claim->bindings, claim->n_bindings))
            return true;
    }
    return false;
}

/* Move ports without a required number off those that others require. A block moves as a whole. A number in
 * use by a process is not freed by that: the ledger refuses it. */
static void move_blocking_ports(struct syncing *y)
{
    for (size_t i = 0, n = 1; i < y->needs.n; i += n) {
        const struct workload_port *port = y->needs.all[i].port;
        bool is_blocking = false;

        n = port->is_contiguous ? port->count : 1;
        for (size_t k = i; k < i + n && y->wishes[i].kind == WORKLOAD_KEEP && port->mode != DIBS_REQUIRED;
             k++)
            is_blocking = is_blocking || is_in_the_way(y, &y->present.claims[y->wishes[k].was]);
        for (size_t k = i; k < i + n && is_blocking; k++)
            y->wishes[k].kind = WORKLOAD_MOVE;
    }
}

static dibs_request request_of(const struct syncing *y, size_t i)
{
    dibs_request request = workload_request(y->group, &y->needs.all[i]);

    if (y->wishes[i].kind == WORKLOAD_KEEP) { /* found unchanged */
        request.mode = DIBS_RANDOM;
        request.run = 0;
        if (y->has_ipv6) /* also find claims made without IPv6 */
            request.n_bindings = 0;
    }
    return request;
}

/* For a required number, find the claim that left this need's name with it. */
static void find_left(struct syncing *y, size_t i)
{
    const struct workload_need *need = &y->needs.all[i];
    char name[DIBS_NAME_MAX + 1];
    bool is_narrowed = false;

    if (!must_get(y, i))
        return;
    (void) snprintf(name, sizeof name, "%s/%u", need->name, need->port->port);
    size_t left = present_find(&y->present, name);
    if (left < y->present.n && workload_is_as_wanted(&y->present.claims[left], need->port, &is_narrowed))
        y->is_used[left] = true;
}

static void add_drop(const struct syncing *y, struct sync_batch *batch, const dibs_claim *claim,
                     bool is_moved)
{
    batch->drops[batch->n_drops++] =
        (dibs_drop){ claim, .frees_name = is_moved,
                     .stays = is_moved && present_role_user(&y->present, claim) != NULL,
                     .shared_bytes = (uint32_t) present_shared_length(claim) };
}

/* Find the claim of each need and decide whether it stays. */
static void decide_needs(struct syncing *y)
{
    const struct present *p = &y->present;

    for (size_t i = 0; i < y->needs.n; i++)
        y->wishes[i].was = present_find(p, y->needs.all[i].name);
    for (size_t i = 0; i < y->needs.n; i++) {
        const struct workload_need *need = &y->needs.all[i];
        struct wish *wish = &y->wishes[i];
        bool is_kept = need->port->is_contiguous ? is_block_met(y, i - need->number) : is_need_met(y, i);

        wish->kind = is_kept ? WORKLOAD_KEEP : wish->was < p->n ? WORKLOAD_MOVE : WORKLOAD_ADD;
        if (wish->was < p->n)
            y->is_used[wish->was] = true;
        find_left(y, i);
    }
    move_blocking_ports(y);
}

static void fill_batch(struct syncing *y, struct sync_batch *batch)
{
    const struct present *p = &y->present;

    for (int pass = 0; pass < 2; pass++) /* required numbers before chosen ones */
        for (size_t i = 0; i < y->needs.n; i++)
            if (must_get(y, i) == (pass == 0)) {
                y->wishes[i].at = batch->n;
                batch->requests[batch->n++] = request_of(y, i);
            }
    for (size_t i = 0; i < y->needs.n; i++)
        if (y->wishes[i].kind == WORKLOAD_MOVE)
            add_drop(y, batch, &p->claims[y->wishes[i].was], true);
    for (size_t i = 0; i < p->n; i++) {
        const dibs_claim *claim = &p->claims[i];
        bool is_use = present_is_use(claim);

        if (!y->is_used[i] && !(is_use ? present_is_held(claim) : present_role_user(p, claim) != NULL))
            add_drop(y, batch, claim, false);
        y->is_used[i] = y->is_used[i] || is_use; /* not a claim of the manifest: not reported */
    }
}

/* Add the group's requests and drops to the batch. */
static dibs_status prepare(struct syncing *y, struct sync_batch *batch, dibs_err *err)
{
    dibs_status s = present_list(y->handle, y->group, &y->present, err);

    if (s != DIBS_OK)
        return s;
    y->wishes = calloc(y->needs.n + 1, sizeof *y->wishes);
    y->is_used = calloc(y->present.n + 1, sizeof *y->is_used);
    dibs_request *requests =
        reallocarray(batch->requests, batch->n + y->needs.n + 1, sizeof *batch->requests);
    batch->requests = requests ? requests : batch->requests;
    dibs_drop *drops = reallocarray(batch->drops, batch->n_drops + y->present.n + 1, sizeof *batch->drops);
    batch->drops = drops ? drops : batch->drops;
    if (!y->wishes || !y->is_used || !requests || !drops) {
        (void) err_set(err, DIBS_FAILURE, "workload: out of memory");
        return DIBS_FAILURE; /* clang's analyzer does not see that err_set() returns the status */
    }
    decide_needs(y);
    fill_batch(y, batch);
    return DIBS_OK;
}

/* ---- plan ---- */

/* Add the present claims that are no longer needed. An undo restores none that had left its name. */
static void add_rest(const struct syncing *y, struct workload_plan *plan)
{
    for (size_t i = 0; i < y->present.n; i++) {
        const dibs_claim *claim = &y->present.claims[i];
        const dibs_claim *role = present_role_user(&y->present, claim);
        bool is_held = !role && present_is_held(claim);
        struct workload_change *change = &plan->changes[plan->n];

        if (y->is_used[i])
            continue;
        change->kind = role || is_held ? WORKLOAD_STAY : WORKLOAD_DROP;
        change->claim = *claim;
        change->claim.is_kept = claim->is_kept && !is_held; /* ends with its holder */
        change->before = name_part_count(claim->name) > DIBS_NAME_PARTS_MAX ? NULL : claim;
        if (change->kind == WORKLOAD_STAY)
            restarts_note_pod(change, role ? role : claim);
        plan->count[change->kind]++;
        plan->n++;
    }
}

/* Build the plan from the answers. It takes ownership of the present claims. */
static dibs_status make_plan(struct syncing *y, const dibs_claim *answers, struct workload_plan *out,
                             dibs_err *err)
{
    AUTO(workload_plan_free)
    struct workload_plan plan = { .changes = calloc(y->needs.n + y->present.n + 1, sizeof *plan.changes) };

    if (!plan.changes)
        return err_set(err, DIBS_FAILURE, "workload: out of memory");
    for (size_t i = 0; i < y->needs.n; i++) {
        struct workload_change *change = &plan.changes[plan.n++];

        change->kind = y->wishes[i].kind;
        change->claim = answers[y->wishes[i].at];
        if (change->kind == WORKLOAD_MOVE)
            change->before = &y->present.claims[y->wishes[i].was];
        plan.count[change->kind]++;
    }
    add_rest(y, &plan);
    struct restarts restarts = {
        .group = y->group, .needs = &y->needs, .present = &y->present, .plan = &plan
    };
    dibs_status s = restarts_note(&restarts, err);
    if (s == DIBS_OK) {
        plan.present = TAKE(y->present.claims);
        *out = plan;
        plan = (struct workload_plan){ 0 };
    }
    return s;
}

/* ---- one batch for all groups ---- */

static dibs_status sync_once(dibs *handle, struct syncing *all, size_t n, bool is_dry_run,
                             struct workload_plan *plans, dibs_err *err)
{
    AUTO(sync_batch_free) struct sync_batch joined = { 0 };
    dibs_status s = DIBS_OK;
    size_t n_planned = 0;

    for (size_t i = 0; i < n && s == DIBS_OK; i++)
        s = prepare(&all[i], &joined, err);
    AUTO(free_auto) dibs_claim *answers = calloc(joined.n + 1, sizeof *answers);
    if (s == DIBS_OK && !answers)
        return err_set(err, DIBS_FAILURE, "workload: out of memory");
    const dibs_batch batch = { .requests = joined.requests,
                               .n = joined.n,
                               .drops = joined.drops,
                               .n_drops = joined.n_drops,
                               .is_dry_run = is_dry_run };
    if (s == DIBS_OK)
        s = dibs_claim_ports(handle, &batch, answers, err);
    for (; n_planned < n && s == DIBS_OK; n_planned++)
        s = make_plan(&all[n_planned], answers, &plans[n_planned], err);
    for (size_t i = 0; i < n_planned && s != DIBS_OK; i++)
        workload_plan_free(&plans[i]);
    return s;
}

/* Sync, and retry when a pod started meanwhile and got ports that its role shares (DIBS_REL_USES). */
static dibs_status sync_with_retries(dibs *handle, struct syncing *all, size_t n, bool is_dry_run,
                                     struct workload_plan *plans, dibs_err *err)
{
    dibs_err why = { .blocker.relation = DIBS_REL_USES };
    dibs_status s = DIBS_TAKEN;

    for (int i = 0; i < TRIES_MAX && s == DIBS_TAKEN && why.blocker.relation == DIBS_REL_USES; i++) {
        why = (dibs_err){ 0 };
        s = sync_once(handle, all, n, is_dry_run, plans, &why);
        for (size_t k = 0; k < n; k++)
            discard_decisions(&all[k]);
    }
    if (s != DIBS_OK && err)
        *err = why;
    return s;
}

dibs_status workload_sync_all(dibs *handle, const struct workload_group *const *groups, size_t n,
                              bool is_dry_run, struct workload_plan *plans, dibs_err *err)
{
    AUTO(free_auto) struct syncing *all = calloc(n + 1, sizeof *all);
    dibs_status s = DIBS_OK;

    if (!all)
        return err_set(err, DIBS_FAILURE, "workload: out of memory");
    for (size_t i = 0; i < n && s == DIBS_OK; i++) {
        all[i].group = groups[i];
        all[i].handle = handle;
        s = workload_needs_all(groups[i], &all[i].needs, err);
    }
    if (s == DIBS_OK)
        s = sync_with_retries(handle, all, n, is_dry_run, plans, err);
    for (size_t i = 0; i < n; i++)
        workload_needs_free(&all[i].needs);
    return s;
}

dibs_status workload_sync(dibs *handle, const struct workload_group *group, bool is_dry_run,
                          struct workload_plan *out, dibs_err *err)
{
    return workload_sync_all(handle, &group, 1, is_dry_run, out, err);
}

dibs_status workload_cleanup(dibs *handle, const struct workload_group *group, struct workload_plan *out,
                             dibs_err *err)
{
    struct workload_group empty = *group;

    empty.n_roles = 0;
    return workload_sync(handle, &empty, false, out, err);
}

/* ---- undo ---- */

/* Request a previous claim again: same number, same name, kept. */
static dibs_request request_again(const dibs_claim *was)
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
    size_t n_changes = 0;

    for (size_t i = 0; i < n; i++)
        n_changes += plans[i].n;
    AUTO(free_auto) dibs_request *requests = calloc(n_changes + 1, sizeof *requests);
    AUTO(free_auto) dibs_claim *answers = calloc(n_changes + 1, sizeof *answers);
    AUTO(free_auto) dibs_drop *drops = calloc(n_changes + 1, sizeof *drops);
    dibs_batch batch = { .requests = requests, .drops = drops };

    if (!requests || !answers || !drops)
        return err_set(err, DIBS_FAILURE, "workload: out of memory");
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < plans[i].n; k++) {
            const struct workload_change *change = &plans[i].changes[k];
            bool is_back = change->before && change->before->is_kept;

            if (change->kind == WORKLOAD_ADD || change->kind == WORKLOAD_MOVE)
                drops[batch.n_drops++] = (dibs_drop){ .claim = &change->claim, .frees_name = is_back };
            if (is_back)
                requests[batch.n++] = request_again(change->before);
        }
    return dibs_claim_ports(handle, &batch, answers, err);
}
