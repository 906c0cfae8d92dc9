/* SPDX-License-Identifier: MIT */
#include "kube/webhook/pod_assignment.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/name_part.h"
#include "kube/protocol.h"
#include "kube/webhook/namespace_quota.h"
#include "kube/webhook/occupant.h"
#include "lib/handle.h"

#include "base/banned.h"

#define REMEDY \
    "remove the annotations " IDENTITY_KEY_CLAIM ", " IDENTITY_KEY_ASSIGNED " and " IDENTITY_KEY_SIGNATURE

void pod_assignment_done(struct pod_assignment *assignment)
{
    assigned_free(assignment->claims, assignment->n);
    *assignment = (struct pod_assignment){ 0 };
}

dibs_status pod_assignment_read(const struct installation *installation, const struct review *review,
                                struct pod_assignment *out, dibs_err *err)
{
    const char *signature = port_request_annotation(review->object, IDENTITY_KEY_SIGNATURE);
    struct identity who = { 0 };
    struct installation_statement says = {
        .id = port_request_annotation(review->object, IDENTITY_KEY_CLAIM),
        .assigned = port_request_annotation(review->object, IDENTITY_KEY_ASSIGNED),
    };

    if (!says.id && !says.assigned && !signature)
        return DIBS_OK;
    dibs_status s = identity_of_pod(review->object, review->ns, &who, err);
    says.principal = who.principal;
    if (s != DIBS_OK)
        return s;
    if (!says.id || !says.assigned || !installation_has_signed(installation, &says, signature))
        return err_set(err, DIBS_INVALID,
                       "metadata.annotations[" IDENTITY_KEY_ASSIGNED
                       "]: dibs has not signed this for a pod of namespace '%s'; " REMEDY
                       ", and the pod gets its ports",
                       who.principal + strlen("ns:"));
    s = assigned_read(says.assigned, &out->claims, &out->n, err);
    out->is_signed = s == DIBS_OK;
    return s;
}

/* Return the number that the pod brings for the port of this claim; 0: none. */
static uint16_t number_of(const struct pod_assignment *assignment, const char *claim)
{
    const char *port = name_part_at(claim, DIBS_NAME_PARTS_MAX - 1);

    for (size_t i = 0; i < assignment->n && port; i++) {
        const char *its = name_part_at(assignment->claims[i].name, DIBS_NAME_PARTS_MAX - 1);

        if (its && strcmp(its, port) == 0)
            return assignment->claims[i].port;
    }
    return 0;
}

dibs_status pod_assignment_remember(dibs *handle, const struct pod_assignment *assignment, const char *claim,
                                    dibs_err *err)
{
    uint16_t port = assignment ? number_of(assignment, claim) : 0;
    dibs_status s = port ? handle_remember(handle, claim, port, err) : DIBS_OK;

    return s == DIBS_TAKEN ? DIBS_OK : s; /* the name has its claim already */
}

/* ---- id of the pod ---- */

/* Return whether all claims of the pod with this id are still pending. */
static bool is_pending(dibs *handle, const struct port_request *request, const struct identity *who)
{
    for (size_t i = 0; i < request->config->n_ports; i++) {
        const struct workload_port *port = &request->config->ports[i];
        char name[DIBS_NAME_MAX + 1];
        dibs_claim claim = { 0 };

        if (port->scope == WORKLOAD_ROLE_SCOPED)
            continue;
        identity_claim_name(who, port, 0, name);
        if (dibs_claim_find(handle, &(dibs_which){ .name = name }, &claim, NULL) != DIBS_OK ||
            claim.holder != DIBS_HELD_BY_LEASE ||
            (!claim.node[0] && claim.lease_until_ms <= dibs_boot_ms(handle)))
            return false;
    }
    return true;
}

dibs_status pod_assignment_choose_id(dibs *handle, const struct allocation *a, dibs_err *err)
{
    char id[IDENTITY_ID_MAX + 1];
    int64_t wall_ms = handle_call(handle).now.wall_ms;

    if (a->assignment && a->assignment->is_signed && identity_may_be_asked_again(a->who, a->pod, wall_ms) &&
        (a->who->is_named || is_pending(handle, a->request, a->who)))
        return DIBS_OK;
    dibs_status s = identity_draw_id(a->pod, wall_ms, id, err);
    if (s == DIBS_OK)
        identity_take_id(a->who, id);
    return s;
}

/* ---- a pod that asks for nothing ---- */

/* Return whether the claim is one of the pod's own, or of its role. */
static bool is_of_pod(const struct identity *who, const char *claim, enum workload_scope scope)
{
    const struct workload_port any = { .name = "-", .scope = scope };
    char name[DIBS_NAME_MAX + 1];

    identity_claim_name(who, &any, 0, name);
    size_t n = (size_t) (strrchr(name, '/') + 1 - name);
    return strncmp(claim, name, n) == 0 && !strchr(claim + n, '/');
}

/* Refuse a claim of another pod, and one whose pod may live: a name that follows from the pod's own name is
 * unique in the cluster, any other one may have been copied. */
static dibs_status check_free(dibs *theirs, const struct allocation *a, const struct assigned_claim *claim,
                              dibs_err *err)
{
    bool is_own = is_of_pod(a->who, claim->name, WORKLOAD_POD_SCOPED);
    dibs_claim has = { 0 };

    if (!is_own && !is_of_pod(a->who, claim->name, WORKLOAD_ROLE_SCOPED))
        return err_set(err, DIBS_TAKEN, "port %u was assigned to another pod, as %s; " REMEDY, claim->port,
                       claim->name);
    if (a->who->is_named || !is_own)
        return DIBS_OK;
    dibs_status s = dibs_claim_find(theirs, &(dibs_which){ .name = claim->name }, &has, err);
    if (s == DIBS_NOT_FOUND || (s == DIBS_OK && has.holder == DIBS_HELD_BY_LEASE &&
                                identity_may_be_asked_again(a->who, a->pod, handle_call(theirs).now.wall_ms)))
        return DIBS_OK;
    return s == DIBS_OK
               ? err_set(err, DIBS_TAKEN, "the pod to which port %u was assigned may still exist; " REMEDY,
                         claim->port)
               : s;
}

static dibs_request request_of(const struct allocation *a, const struct assigned_claim *claim)
{
    dibs_request r = { .name = claim->name,
                       .pool = a->pool,
                       .keep = true,
                       .holder = DIBS_HELD_BY_LEASE,
                       .ttl_ms = a->pending_ms,
                       .mode = DIBS_REQUIRED,
                       .port = claim->port,
                       .keeper = claim->keeper };

    protocols_bind(claim->protos, r.bindings, &r.n_bindings);
    return r;
}

/* Refuse a number that an object uses without a claim. After the ledger has refused the requests (`s`), name
 * the number that has another holder, and what to do. */
static dibs_status check_numbers(dibs *theirs, const struct pod_assignment *b, const dibs_request *requests,
                                 dibs_status s, dibs_err *err)
{
    bool is_refused = s == DIBS_TAKEN;

    for (size_t i = 0; i < b->n && (s == DIBS_OK || is_refused); i++) {
        char who[OCCUPANT_TEXT_MAX];
        bool is_foreign = false;

        if (is_refused && err->blocker.port != requests[i].port)
            continue;
        dibs_status found = occupant_find(theirs, b->claims[i].protos, &requests[i], &is_foreign, who,
                                          is_refused ? NULL : err);
        if (found != DIBS_OK)
            return is_refused ? s : found;
        if (is_foreign || (is_refused && who[0]))
            return err_set(err, DIBS_TAKEN, "port %u, which was assigned to this pod, is %s %s%s; " REMEDY,
                           requests[i].port, is_foreign ? "used by" : "claimed: it is", who,
                           is_foreign ? " without a claim" : "");
    }
    return s;
}

dibs_status pod_assignment_claim(dibs *handle, const struct allocation *a, dibs_err *err)
{
    const struct pod_assignment *b = a->assignment;
    AUTO(free_auto) dibs_request *requests = calloc(b->n + 1, sizeof *requests);
    AUTO(free_auto) dibs_claim *claims = calloc(b->n + 1, sizeof *claims);
    dibs theirs = { 0 };

    if (!requests || !claims)
        return err_set(err, DIBS_FAILURE, "claiming for a pod: out of memory");
    dibs_status s = handle_for(handle, a->who->principal, &theirs, err);
    for (size_t i = 0; i < b->n && s == DIBS_OK; i++) {
        s = check_free(&theirs, a, &b->claims[i], err);
        requests[i] = request_of(a, &b->claims[i]);
    }
    if (s == DIBS_OK)
        s = check_numbers(&theirs, b, requests, s, err);
    if (s != DIBS_OK)
        return s;
    const dibs_batch batch = { .requests = requests, .n = b->n, .is_dry_run = a->is_dry_run };
    s = a->has_quota ? namespace_quota_claim(&theirs, a->pool, &batch, claims, err)
                     : dibs_claim_ports(&theirs, &batch, claims, err);
    return s == DIBS_TAKEN ? check_numbers(&theirs, b, requests, s, err) : s;
}
