/* SPDX-License-Identifier: MIT */
#include "kube/webhook/allocation.h"

#include <assert.h>
#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/err.h"
#include "base/text.h"
#include "kube/assigned.h"
#include "kube/webhook/namespace_quota.h"
#include "kube/webhook/occupant.h"
#include "kube/webhook/pod_assignment.h"
#include "kube/webhook/reference.h"
#include "lib/handle.h"

#include "base/banned.h"

/* One requested claim. */
struct line {
    char name[DIBS_NAME_MAX + 1];
    const struct workload_port *port; /* NULL: a reservation for a reference */
    uint16_t reserved;                /* the port reserved for it by references; 0: none */
    uint16_t other;                   /* a second reserved port that will not be used; 0: none */
};

struct batch {
    dibs *handle;
    struct allocation *a;
    const struct workload_component *config; /* the requested ports and references */
    size_t n, n_own;                         /* number of lines; the pod's own come first */
    struct line *lines;
    dibs_request *requests; /* one for each line */
    dibs_claim *claims;     /* the answers */
    dibs_claim *moved;      /* claims that leave their names */
    dibs_drop *drops;
    size_t n_drops;
    struct reference *found; /* one for each reference */
    struct arena *arena;     /* owns these arrays */
    dibs_err *err;
};

static dibs_status no_memory(dibs_err *err)
{
    return err_set(err, DIBS_FAILURE, "claiming for a pod: out of memory");
}

static bool alloc_arrays(struct batch *b)
{
    size_t max = b->n_own + b->config->n_references + 1;

    b->lines = arena_take(&b->arena, max * sizeof *b->lines);
    b->requests = arena_take(&b->arena, max * sizeof *b->requests);
    b->claims = arena_take(&b->arena, max * sizeof *b->claims);
    b->moved =
        arena_take(&b->arena, 2 * max * sizeof *b->moved); /* up to two per line: see adopt_reservation() */
    b->drops = arena_take(&b->arena, 2 * max * sizeof *b->drops);
    b->found = arena_take(&b->arena, max * sizeof *b->found);
    return b->lines && b->requests && b->claims && b->moved && b->drops && b->found;
}

/* ---- requests ---- */

static dibs_request pending(const struct batch *b, const char *name)
{
    return (dibs_request){ .name = name,
                           .pool = b->a->pool,
                           .keep = true,
                           .holder = DIBS_HELD_BY_LEASE,
                           .ttl_ms = b->a->pending_ms };
}

/* Return the pod that will have the port. */
static const struct identity *who_of(const struct batch *b, const struct workload_port *port)
{
    return b->a->whos ? &b->a->whos[port - b->config->ports] : b->a->who;
}

static void request_own(struct batch *b)
{
    const uint16_t *required = b->a->request->required;
    size_t n = 0;

    for (size_t i = 0; i < b->config->n_ports; i++) {
        const struct workload_port *port = &b->config->ports[i];
        const struct identity *who = who_of(b, port);

        for (uint32_t number = 0; number < port->count; number++, n++) {
            struct line *line = &b->lines[n];
            dibs_request *r = &b->requests[n];

            line->port = port;
            identity_claim_name(who, port, number, line->name);
            *r = pending(b, line->name);
            r->mode = port->mode;
            r->port = required ? required[n] : port->port;
            r->run = port->is_contiguous && number == 0 && !required ? port->count : 0;
            r->n_bindings = port->n_bindings;
            memcpy(r->bindings, port->bindings, sizeof r->bindings);
            r->keeper = port->scope == WORKLOAD_ROLE_SCOPED ? who->role_keeper : who->keeper;
        }
    }
    b->n = n;
}

/* Reserve a port, or any for 0, for a target whose pod has not arrived: a claim without a keeper. */
static size_t reserve_target(struct batch *b, const char *name, uint16_t port)
{
    for (size_t i = 0; i < b->n; i++)
        if (strcmp(b->lines[i].name, name) == 0)
            return i;
    (void) text_copy(b->lines[b->n].name, sizeof b->lines[b->n].name, name);
    b->requests[b->n] = pending(b, b->lines[b->n].name);
    b->requests[b->n].is_lookup = true; /* a claim that exists by then stays as it is */
    b->requests[b->n].mode = port ? DIBS_REQUIRED : DIBS_RANDOM;
    b->requests[b->n].port = port;
    return b->n++;
}

/* ---- names with another claim ---- */

/* Find the claim of the name; its id is 0 when there is none. */
static dibs_status find(struct batch *b, const char *name, dibs_claim *out)
{
    dibs_status s = dibs_claim_find(b->handle, &(dibs_which){ .name = name }, out, b->err);

    return s == DIBS_NOT_FOUND ? DIBS_OK : s;
}

/* Free the name: its claim lives on as NAME/PORT, since a pod may use it. A reservation ends instead. */
static void leave_name(struct batch *b, const dibs_claim *claim)
{
    b->moved[b->n_drops] = *claim;
    b->drops[b->n_drops] =
        (dibs_drop){ .claim = &b->moved[b->n_drops], .frees_name = true, .stays = claim->keeper[0] != '\0' };
    b->n_drops++;
}

static bool is_in_block(const struct line *line)
{
    return line->port && line->port->is_contiguous;
}

/* Prefer the number for a port that dibs chooses: other pods may know it. */
static void prefer(struct batch *b, size_t i, uint16_t port)
{
    if (b->requests[i].mode == DIBS_REQUIRED || is_in_block(&b->lines[i]))
        return;
    b->requests[i].mode = DIBS_PREFERRED;
    b->requests[i].port = port;
}

/* Refuse to move a claim that this pod may not take off its name. */
static dibs_status check_movable(const struct batch *b, size_t i, const dibs_claim *claim)
{
    const struct line *line = &b->lines[i];

    if (claim->keeper[0] && strcmp(claim->keeper, b->requests[i].keeper) != 0)
        return err_set(
            b->err, DIBS_TAKEN,
            "allocations '%s': port %u is claimed as %s for %s, and this pod is of %s; two objects cannot "
            "be one role of a group",
            line->port->name, claim->port, line->name, claim->keeper, b->requests[i].keeper);
    /* Only its pods would keep the moved claim, and they do not know its new name. */
    if (strcmp(claim->keeper, IDENTITY_KEPT_BY_POD) == 0)
        return err_set(
            b->err, DIBS_TAKEN,
            "allocations '%s': other pods share port %u as %s, and not as it is asked for here; give the "
            "port another name",
            line->port->name, claim->port, line->name);
    return DIBS_OK;
}

/* Move claims off their names where the configuration has changed since. */
static dibs_status move_changed(struct batch *b)
{
    dibs_pool pool = { 0 };
    dibs_status s = dibs_pool_get(b->handle, b->a->pool, &pool, b->err);

    for (size_t i = 0; i < b->n_own && s == DIBS_OK; i++) {
        struct workload_port wanted = *b->lines[i].port;
        dibs_claim claim = { 0 };
        bool is_narrowed = false;

        wanted.port = b->requests[i].port;
        s = find(b, b->lines[i].name, &claim);
        bool is_member = dibs_ranges_contain(&pool.ranges, claim.port);
        assert(b->requests[i].keeper); /* set by request_own() */
        bool is_same = !claim.keeper[0] || strcmp(claim.keeper, b->requests[i].keeper) == 0;
        if (s != DIBS_OK || claim.id == 0 ||
            (is_same && is_member && workload_is_as_wanted(&claim, &wanted, &is_narrowed)))
            continue;
        s = check_movable(b, i, &claim);
        if (s != DIBS_OK)
            return s;
        leave_name(b, &claim);
        if (is_member)
            prefer(b, i, claim.port);
    }
    return s;
}

/* Free the name of a reservation, which no pod holds, and return its number in *port. */
static dibs_status free_reservation(struct batch *b, const char *name, uint16_t *port)
{
    const dibs_which which = { .name = name };
    dibs_claim claim = { 0 };
    dibs_status s = find(b, name, &claim);

    if (s == DIBS_OK && claim.holder != DIBS_HELD_BY_NOBODY) {
        s = dibs_claim_release(b->handle, &which, DIBS_RELEASE_UNHOLD | DIBS_RELEASE_FORCE, NULL, b->err);
        if (s == DIBS_OK)
            s = find(b, name, &claim);
    }
    if (s == DIBS_OK && claim.id != 0)
        leave_name(b, &claim);
    *port = claim.port;
    return s;
}

/* Give the port the number that a referring pod already got, under either name for which it was reserved. */
static dibs_status adopt_reservation(struct batch *b, size_t i)
{
    struct line *line = &b->lines[i];
    dibs_claim has = { 0 };
    struct reservation reserved = { 0 };
    uint16_t marked = 0;
    dibs_status s = find(b, line->name, &has);
    bool is_there = has.id != 0 && has.is_exclusive;

    if (s != DIBS_OK || (is_there && has.keeper[0]))
        return s;
    if (has.id != 0 && !is_there) /* version 1.4 marked the name by a declared claim */
        s = free_reservation(b, line->name, &marked);
    if (s == DIBS_OK)
        s = reservation_find(b->handle, who_of(b, line->port), line->port, &reserved, b->err);
    line->other = reserved.other;
    if (is_there) {
        line->reserved = has.port;
    } else if (s == DIBS_OK && reserved.name[0]) {
        s = free_reservation(b, reserved.name, &line->reserved);
        if (line->reserved)
            prefer(b, i, line->reserved);
    }
    return s;
}

static dibs_status adopt_all(struct batch *b)
{
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < b->n_own && s == DIBS_OK && !b->a->is_dry_run; i++)
        if (i == 0 || b->lines[i].port != b->lines[i - 1].port)
            s = adopt_reservation(b, i);
    return s;
}

/* Warn about pods that run with a stale number. */
static void warn_of_stale(struct batch *b)
{
    for (size_t i = 0; i < b->n_own; i++) {
        const struct line *line = &b->lines[i];
        const struct workload_port *port = line->port;
        bool is_stale = line->reserved && line->reserved != b->claims[i].port;
        uint16_t stale = is_stale ? line->reserved : line->other;

        if (stale)
            review_warn(b->a->warnings,
                        "pods that refer to port '%.63s' of this role have %u, and it is %u: delete them",
                        port->name, stale, b->claims[i].port);
        else if (line->reserved && port->count > 1 && !port->is_contiguous)
            review_warn(b->a->warnings,
                        "pods that refer to port '%.63s' of this role have the first of its %u numbers: "
                        "delete them",
                        port->name, port->count);
    }
}

/* Warn about references to ports that no pod has yet: the target may come, or the name be wrong. */
static void warn_of_reserved(struct batch *b)
{
    for (size_t i = 0; i < b->config->n_references; i++) {
        const struct reference *found = &b->found[i];
        const struct workload_reference *reference = &b->config->references[i];
        char field[PORT_REQUEST_FIELD_MAX];

        if (!found->is_reserved)
            continue;
        port_request_field(b->a->request, i, field);
        review_warn(b->a->warnings, "%s: no pod has port '%.40s' of '%.40s' yet; %u is reserved for it",
                    field, reference->port, reference->role ? reference->role : b->a->who->role_name,
                    found->n ? found->ports[0] : b->claims[found->line].port);
    }
}

/* ---- claiming ---- */

static dibs_status claim_all(struct batch *b)
{
    const dibs_batch batch = { .requests = b->requests,
                               .n = b->n,
                               .drops = b->drops,
                               .n_drops = b->n_drops,
                               .is_dry_run = b->a->is_dry_run };

    if (b->n == 0)
        return DIBS_OK;
    return b->a->has_quota ? namespace_quota_claim(b->handle, b->a->pool, &batch, b->claims, b->err)
                           : dibs_claim_ports(b->handle, &batch, b->claims, b->err);
}

static dibs_status claim_or_move(struct batch *b)
{
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < b->n_own && s == DIBS_OK; i++)
        s = occupant_avoid(b->handle, b->lines[i].port, &b->requests[i], b->a->warnings, b->err);
    if (s == DIBS_OK)
        s = adopt_all(b);
    if (s == DIBS_OK)
        s = claim_all(b);
    for (size_t i = 0; i < b->n_own && s == DIBS_TAKEN; i++)
        occupant_blame(b->handle, b->lines[i].port, &b->requests[i], b->err);
    if (s != DIBS_TAKEN || b->err->blocker.relation != DIBS_REL_SAME_NAME || !b->err->blocker.differs)
        return s;
    b->n_drops = 0;
    s = move_changed(b);
    return s == DIBS_OK ? claim_all(b) : s;
}

static bool is_row(const uint16_t *ports, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        if (ports[i] != ports[0] + i)
            return false;
    return true;
}

/* Record each newly reserved number under its role's name in the same commit, as the port's scope is still
 * unknown: a reference and its target, or two references, that arrive at once then conflict. */
static dibs_status remember_for_roles(struct batch *b)
{
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < b->config->n_references && s == DIBS_OK && !b->a->is_dry_run; i++) {
        const struct reference *found = &b->found[i];
        bool is_first = found->role_name[0] != '\0';

        for (size_t k = 0; k < i && is_first; k++) /* the first number counts */
            is_first = strcmp(b->found[k].role_name, found->role_name) != 0;
        if (is_first)
            s = handle_remember(b->handle, found->role_name, b->claims[found->line].port, b->err);
    }
    return s;
}

/* Replace the ledger's message about a port outside the pool by one that names the pod's field. */
static dibs_status name_field(const struct batch *b)
{
    dibs_pool pool = { 0 };

    if (dibs_pool_get(b->handle, b->a->pool, &pool, NULL) != DIBS_OK)
        return DIBS_INVALID;
    for (size_t i = 0; i < b->n_own; i++) {
        const dibs_request *r = &b->requests[i];

        if (r->mode != DIBS_RANDOM && !dibs_ranges_contain(&pool.ranges, r->port))
            return err_wrap(b->err, DIBS_INVALID, "metadata.annotations[%s]: allocations[%zu].%s",
                            b->a->request->key, (size_t) (b->lines[i].port - b->config->ports),
                            r->mode == DIBS_PREFERRED ? "prefer"
                            : b->a->request->required ? "env"
                                                      : "port");
    }
    return DIBS_INVALID;
}

/* ---- results ---- */

/* Return the value that the pod was given before, if the target has not come and the value begins with the
 * number that is reserved for it; NULL: write the value again. */
static const char *given_value(const struct batch *b, size_t i)
{
    const struct reference *found = &b->found[i];
    uint16_t given = b->a->request->given ? b->a->request->given[i] : 0;
    bool has_come = !found->is_reserved && found->name[0];

    return given && !has_come && given == (found->n ? found->ports[0] : b->claims[found->line].port)
               ? port_request_variable(b->a->pod, b->config->references[i].env)
               : NULL;
}

/* Add the numbers of a reference: of a block the first, otherwise all. The target's first claim records
 * whether it begins a block; where it does not (run 0), consecutive numbers count as one. */
static void add_referred(const struct batch *b, size_t i, struct pod_edit *out)
{
    const struct reference *found = &b->found[i];
    const char *value = given_value(b, i);
    const struct workload_port *own = found->n ? NULL : b->lines[found->line].port;
    uint32_t n = own ? own->count : found->n ? found->n : 1;
    uint16_t ports[WORKLOAD_COUNT_MAX];
    struct workload_port shape = { .count = (uint16_t) n };
    char text[8 * WORKLOAD_COUNT_MAX];

    for (uint32_t k = 0; k < n; k++)
        ports[k] = found->n ? found->ports[k] : b->claims[found->line + k].port;
    shape.is_contiguous =
        own ? own->is_contiguous : n > 1 && (found->run > 1 || (found->run == 0 && is_row(ports, n)));
    workload_value_text(&shape, ports, text, sizeof text);
    pod_edit_variable(out, b->config->references[i].env, value ? value : text);
}

static dibs_status add_answers(const struct batch *b, struct pod_edit *out)
{
    AUTO(bytes_done) struct bytes assigned = { 0 };
    const dibs_claim *claim = b->claims;
    char signature[INSTALLATION_SIGNATURE_MAX + 1];

    for (size_t i = 0; i < b->config->n_ports; i++) {
        uint16_t numbers[WORKLOAD_COUNT_MAX];

        for (uint32_t k = 0; k < b->config->ports[i].count; k++)
            numbers[k] = (claim++)->port;
        pod_edit_own_port(out, &b->config->ports[i], numbers);
    }
    for (size_t i = 0; i < b->config->n_references; i++)
        add_referred(b, i, out);
    if (b->a->whos) /* each pod gets its own annotations when it is admitted */
        return out->is_lost ? no_memory(b->err) : DIBS_OK;
    assigned_write(b->a->who, b->config, b->claims, &assigned);
    if (assigned.is_lost)
        return no_memory(b->err);
    const struct installation_statement says = { b->a->who->principal, b->a->who->id, assigned.at };
    dibs_status s = installation_sign(b->a->installation, &says, signature, b->err);
    if (s != DIBS_OK)
        return s;
    pod_edit_annotation(out, IDENTITY_KEY_CLAIM, says.id);
    pod_edit_annotation(out, IDENTITY_KEY_ASSIGNED, says.assigned);
    pod_edit_annotation(out, IDENTITY_KEY_SIGNATURE, signature);
    return out->is_lost ? no_memory(b->err) : DIBS_OK;
}

/* Resolve each reference: to existing numbers, to one of the pod's own lines, or to a new reservation. */
static dibs_status resolve_references(struct batch *b)
{
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < b->config->n_references && s == DIBS_OK; i++) {
        s = reference_find(b->handle, b->a->request, b->a->who, i, &b->found[i], b->err);
        if (s == DIBS_OK && b->found[i].n == 0)
            b->found[i].line = reserve_target(b, b->found[i].name, b->found[i].given);
    }
    b->a->is_early = s == DIBS_TAKEN;
    return s;
}

static dibs_status allocate(struct batch *b, struct pod_edit *out)
{
    if (!alloc_arrays(b))
        return no_memory(b->err);
    request_own(b);
    dibs_status s = resolve_references(b);
    for (size_t i = 0; i < b->n_own && s == DIBS_OK && !b->a->is_dry_run; i++)
        s = pod_assignment_remember(b->handle, b->a->assignment, b->lines[i].name, b->err);
    if (s != DIBS_OK)
        return s;
    s = claim_or_move(b);
    if (s == DIBS_INVALID)
        s = name_field(b);
    if (s == DIBS_OK)
        s = remember_for_roles(b);
    if (s != DIBS_OK)
        return s;
    warn_of_stale(b);
    warn_of_reserved(b);
    return add_answers(b, out);
}

dibs_status allocation_make(dibs *handle, struct allocation *allocation, struct pod_edit *out, dibs_err *err)
{
    dibs theirs = { 0 };
    struct batch b = { .handle = &theirs,
                       .a = allocation,
                       .config = allocation->request->config,
                       .n_own = port_request_count(allocation->request),
                       .err = err };
    dibs_status s = handle_for(handle, allocation->who->principal, &theirs, err);

    if (s == DIBS_OK && !allocation->whos)
        s = pod_assignment_choose_id(&theirs, allocation, err);
    if (s == DIBS_OK)
        s = allocate(&b, out);
    arena_free(b.arena);
    return s;
}
