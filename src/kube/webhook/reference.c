/* SPDX-License-Identifier: MIT */
#include "kube/webhook/reference.h"

#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/bytes.h"
#include "base/err.h"
#include "base/name_part.h"
#include "base/text.h"
#include "lib/handle.h"

#include "base/banned.h"

/* The pod and port that a reference means, as far as they are known. */
struct target {
    struct identity pod;
    const struct identity *who; /* the pod that refers to it */
    bool is_own_role;
    const char *port;
};

static void name_of(const struct target *t, bool is_shared, uint32_t number, char out[DIBS_NAME_MAX + 1])
{
    const struct workload_port port = { .name = t->port,
                                        .scope = is_shared ? WORKLOAD_ROLE_SCOPED : WORKLOAD_POD_SCOPED };

    identity_claim_name(&t->pod, &port, number, out);
}

/* Return whether other pods can refer to the pod: not when it is known only by an id. */
static bool is_known(const struct target *t)
{
    return t->pod.instance[0] && t->pod.instance[0] != '~';
}

/* RBG always names a component: in a role without components it means the role's pod. */
static bool may_be_whole_role(const struct port_request *request, const struct target *t)
{
    const char *component = t->pod.component;

    return request->dialect == WORKLOAD_RBG && component && t->pod.component_id == 0 &&
           (strcmp(component, "leader") == 0 || strcmp(component, t->pod.role_name) == 0);
}

static struct target target_of(const struct port_request *request, const struct identity *who, size_t i)
{
    const struct workload_reference *reference = &request->config->references[i];
    struct target t = { .pod = *who, .who = who, .is_own_role = true, .port = reference->port };

    if (reference->role && strcmp(reference->role, who->role_name) != 0) {
        t.is_own_role = false;
        (void) text_copy(t.pod.role_name, sizeof t.pod.role_name, reference->role);
        name_part_encode(reference->role, "", DIBS_NAME_PART_MAX, t.pod.role);
    }
    if (!t.is_own_role || reference->instance >= 0)
        (void) snprintf(t.pod.instance, sizeof t.pod.instance, "%d",
                        reference->instance >= 0 ? (int) reference->instance : 0);
    t.pod.component = reference->component;
    t.pod.component_id = reference->pod >= 0 ? (uint32_t) reference->pod : 0;
    if (t.is_own_role && !who->component && may_be_whole_role(request, &t))
        t.pod.component = NULL;
    return t;
}

/* Read all existing numbers of the port. */
static dibs_status read_numbers(dibs *handle, const struct target *t, bool is_shared, struct reference *out,
                                dibs_err *err)
{
    dibs_status s = DIBS_OK;

    for (out->n = 0; out->n < WORKLOAD_COUNT_MAX && s == DIBS_OK; out->n += s == DIBS_OK) {
        char name[DIBS_NAME_MAX + 1];
        dibs_claim claim = { 0 };

        name_of(t, is_shared, out->n, name);
        s = dibs_claim_find(handle, &(dibs_which){ .name = name }, &claim, err);
        if (s == DIBS_OK && !claim.is_exclusive) /* version 1.4 marked names this way */
            s = DIBS_NOT_FOUND;
        if (s == DIBS_OK && out->n == 0) {
            out->run = claim.run;
            out->is_reserved = !claim.keeper[0];
            (void) text_copy(out->name, sizeof out->name, name);
        }
        if (s == DIBS_OK)
            out->ports[out->n] = claim.port;
    }
    return s == DIBS_NOT_FOUND && out->n > 0 ? DIBS_OK : s;
}

static dibs_status read_either_scope(dibs *handle, const struct target *t, struct reference *out,
                                     dibs_err *err)
{
    dibs_status s = is_known(t) ? read_numbers(handle, t, false, out, err) : DIBS_NOT_FOUND;
    struct reference shared = { 0 };

    if (s == DIBS_NOT_FOUND)
        return read_numbers(handle, t, true, out, err);
    /* A number reserved before the port turned out to be RoleScoped is not the port's. */
    if (s == DIBS_OK && out->is_reserved && read_numbers(handle, t, true, &shared, NULL) == DIBS_OK &&
        !shared.is_reserved)
        *out = shared;
    return s;
}

/* Return whether the target is a port of the pod itself or of its role. */
static bool is_own(const struct port_request *request, const struct target *t, struct reference *out)
{
    char wanted[2][DIBS_NAME_MAX + 1];

    name_of(t, false, 0, wanted[0]);
    name_of(t, true, 0, wanted[1]);
    for (size_t i = 0; i < request->config->n_ports; i++) {
        identity_claim_name(t->who, &request->config->ports[i], 0, out->name);
        if (strcmp(out->name, wanted[0]) == 0 || strcmp(out->name, wanted[1]) == 0)
            return true;
    }
    return false;
}

/* ---- the claims of a role ---- */

struct role_scan {
    const char *instance;                                   /* the target's instance */
    size_t n_prefix;                                        /* bytes of "GROUP/ROLE/" */
    char own[DIBS_NAME_MAX + 1], shared[DIBS_NAME_MAX + 1]; /* "COMPONENT/PORT" if PodScoped, if RoleScoped */
    bool has_numbered, has_unnamed;
    bool is_settled;     /* a pod has the port, so its scope is known */
    bool is_reserved;    /* for another instance whose pod has not arrived */
    uint16_t remembered; /* number recorded under the role's name; 0: none */
    uint16_t reserved;   /* number reserved for any instance; 0: none */
    struct reservation reservation;
    /* Of admitted pods of the role: */
    bool may_be_plain;              /* pods without a component count as those of the target's */
    bool has_plain, has_components; /* pods without, and with a component */
    bool has_port;                  /* a pod of the target's component has the port, of any instance */
    struct bytes ports;             /* all ports of that component: "a, b"; empty: no pod is known */
};

/* Return the length of a part without its number: "worker.2" is the third "worker". */
static size_t base_len(const char *part)
{
    return strcspn(part, "./");
}

static bool is_same_base(const char *a, const char *b)
{
    return base_len(a) == base_len(b) && memcmp(a, b, base_len(a)) == 0;
}

static void list_port(struct bytes *list, const char *part)
{
    size_t len = base_len(part);

    for (size_t at = 0; at + len <= list->n; at++) /* skip a port that the list already has */
        if (memcmp(list->at + at, part, len) == 0 && (at == 0 || list->at[at - 1] == ' ') &&
            (at + len == list->n || list->at[at + len] == ','))
            return;
    if (list->n > 0)
        bytes_add_text(list, ", ");
    bytes_add(list, part, len);
}

/* Note a port of an admitted pod; `rest` is "COMPONENT/PORT". A claim that left its name does not count. */
static void note_admitted(struct role_scan *l, const char *rest)
{
    const char *port = name_part_at(rest, 1);
    bool is_plain = strncmp(rest, "-/", 2) == 0;

    l->has_plain = l->has_plain || is_plain;
    l->has_components = l->has_components || !is_plain;
    if (!port || strchr(port, '/') || !(is_same_base(rest, l->shared) || (is_plain && l->may_be_plain)))
        return;
    l->has_port = l->has_port || is_same_base(port, name_part_at(l->shared, 1));
    list_port(&l->ports, port);
}

static void role_scan_done(struct role_scan *l)
{
    bytes_done(&l->ports);
}

/* Note a reservation. Of several, the one recorded under the role's name counts, else the first. */
static void note_reservation(struct role_scan *l, const dibs_claim *claim)
{
    if (l->reserved && claim->port != l->remembered) {
        l->reservation.other = claim->port;
        return;
    }
    if (l->reserved)
        l->reservation.other = l->reserved;
    l->reserved = claim->port;
    (void) text_copy(l->reservation.name, sizeof l->reservation.name, claim->name);
}

static bool note_claim(void *ctx, const dibs_claim *claim)
{
    struct role_scan *l = ctx;
    const char *instance = claim->name + l->n_prefix;
    size_t len = strcspn(instance, "/");
    const char *rest = instance + len + (instance[len] == '/');
    bool is_shared = strncmp(instance, "-/", 2) == 0;
    bool is_other = strlen(l->instance) != len || memcmp(instance, l->instance, len) != 0;
    bool is_same = strcmp(rest, is_shared ? l->shared : l->own) == 0;
    bool has_keeper = claim->keeper[0] != '\0';

    l->has_unnamed = l->has_unnamed || instance[0] == '~';
    l->has_numbered = l->has_numbered || (instance[0] != '~' && instance[0] != '-' && has_keeper);
    l->is_settled = l->is_settled || (is_same && has_keeper);
    l->is_reserved = l->is_reserved || (is_same && !is_shared && !has_keeper && is_other);
    if (!has_keeper && claim->is_exclusive && strcmp(rest, l->own) == 0)
        note_reservation(l, claim);
    if (has_keeper)
        note_admitted(l, rest);
    return true;
}

static dibs_status scan_role(dibs *handle, const struct target *t, struct role_scan *l, dibs_err *err)
{
    enum { BEHIND_INSTANCE = 3 };
    char name[DIBS_NAME_MAX + 1];
    const dibs_filter filter = { .name_prefix = name, .principal = t->who->principal };

    l->instance = t->pod.instance;
    name_of(t, false, 0, name);
    (void) text_copy(l->own, sizeof l->own, name_part_at(name, BEHIND_INSTANCE));
    name_of(t, true, 0, name);
    (void) text_copy(l->shared, sizeof l->shared, name_part_at(name, BEHIND_INSTANCE));
    (void) snprintf(name, sizeof name, "%s/%s", t->pod.group, t->pod.role);
    l->n_prefix = strlen(name) + 1;
    return dibs_claim_list(handle, &filter, note_claim, l, err);
}

/* ---- resolving ---- */

static dibs_status wrong(const struct port_request *request, size_t i, const struct target *t,
                         const char *why, dibs_err *err)
{
    char field[PORT_REQUEST_FIELD_MAX];

    port_request_field(request, i, field);
    return err_set(err, DIBS_INVALID, "%s: role '%.80s' %s", field, t->pod.role_name, why);
}

/* Return whether target and referring pod are of one template, and so have the same ports. */
static bool is_of_own_template(const struct target *t)
{
    const char *own = t->who->component;
    const char *its = t->pod.component;

    return t->is_own_role && (own && its ? strcmp(own, its) == 0 : own == its);
}

/* Refuse a port that the pods of a known target lack, with the names of those that they have. */
static dibs_status check_exists(const struct port_request *request, size_t i, const struct target *t,
                                struct role_scan *l, dibs_err *err)
{
    bool is_own = is_of_own_template(t);
    char why[512];

    for (size_t p = 0; is_own && p < request->config->n_ports; p++) {
        char part[DIBS_NAME_PART_MAX + 1];

        workload_part(request->config->ports[p].name, 0, part);
        list_port(&l->ports, part);
    }
    bytes_add(&l->ports, "", 1);
    if (l->ports.is_lost)
        return err_set(err, DIBS_FAILURE, "resolving references: out of memory");
    const char *ports = l->ports.at;
    if (is_own ? workload_port(request->config, t->port) != NULL : l->has_port)
        return DIBS_OK;
    if (is_own || *ports)
        (void) snprintf(why, sizeof why, "has no port '%.63s'%s%.63s%s; %s%.300s", t->port,
                        t->pod.component ? " in component '" : "", t->pod.component ? t->pod.component : "",
                        t->pod.component ? "'" : "", *ports ? "its ports are: " : "it has none", ports);
    else if (l->has_components && !t->pod.component)
        (void) snprintf(why, sizeof why, "has components: say whose port '%.63s' is meant", t->port);
    else if (l->has_plain && !l->has_components)
        (void) snprintf(why, sizeof why, "has no components, so no '%.63s'", t->pod.component);
    else
        return DIBS_OK; /* no pod of that component is known yet */
    return wrong(request, i, t, why, err);
}

/* Resolve a reference to a target that has not arrived: to its reservation, or name the claim to reserve. An
 * explicit index means a PodScoped port; otherwise a port of the own role may be RoleScoped, and only one
 * instance gets a reservation. */
static dibs_status find_reserved(dibs *handle, const struct port_request *request, const struct target *t,
                                 size_t i, struct reference *out, dibs_err *err)
{
    bool is_implied = request->config->references[i].instance < 0 && t->is_own_role;
    AUTO(role_scan_done)
    struct role_scan l = { .may_be_plain = may_be_whole_role(request, t),
                           .has_plain = t->is_own_role && !t->who->component && i < request->n_written };
    char field[PORT_REQUEST_FIELD_MAX];
    dibs_status s = scan_role(handle, t, &l, err);
    uint16_t given = request->given ? request->given[i] : 0; /* then its scope does not matter */
    bool is_settled = l.is_settled || is_of_own_template(t) || given;

    if (s == DIBS_OK)
        s = check_exists(request, i, t, &l, err);
    if (s != DIBS_OK || out->n > 0)
        return s;
    out->is_reserved = true;
    if (!is_known(t) || (l.has_unnamed && !l.has_numbered))
        return wrong(request, i, t,
                     "has pods without a number or name of their own, and no claim of this port: only a "
                     "RoleScoped port of it can be referred to",
                     err);
    port_request_field(request, i, field);
    if (!is_settled && l.is_reserved && is_implied)
        return err_set(err, DIBS_TAKEN,
                       "%s: no pod has this port yet, and another instance has one reserved: whether that "
                       "is shared is known when the first has come; try again",
                       field);
    name_of(t, false, 0, out->name);
    out->given = given;
    if (!is_settled && !l.is_reserved)
        name_of(t, true, 0, out->role_name);
    return DIBS_OK;
}

size_t reference_names(const struct port_request *request, const struct identity *who, size_t i,
                       char out[REFERENCE_NAMES_MAX][DIBS_NAME_MAX + 1])
{
    struct target t = target_of(request, who, i);
    bool has_whole = may_be_whole_role(request, &t);
    size_t n = 0;

    name_of(&t, false, 0, out[n++]);
    name_of(&t, true, 0, out[n++]);
    if (has_whole) {
        t.pod.component = NULL;
        name_of(&t, false, 0, out[n++]);
        name_of(&t, true, 0, out[n++]);
    }
    return n;
}

dibs_status reference_find(dibs *handle, const struct port_request *request, const struct identity *who,
                           size_t i, struct reference *out, dibs_err *err)
{
    struct target t = target_of(request, who, i);

    *out = (struct reference){ 0 };
    if (!t.is_own_role && !who->is_grouped && request->given && request->given[i]) {
        out->ports[out->n++] = request->given[i]; /* kube inject knew the target by its file */
        return DIBS_OK;
    }
    if (!t.is_own_role && !who->is_grouped)
        return wrong(
            request, i, &t,
            "is not in the group of this pod, which has its own role only; the label " IDENTITY_LABEL_GROUP
            " makes several objects of a namespace one",
            err);
    if (is_own(request, &t, out))
        return DIBS_OK;
    dibs_status s = read_either_scope(handle, &t, out, err);
    if (s == DIBS_NOT_FOUND && may_be_whole_role(request, &t)) {
        struct target whole = t;

        whole.pod.component = NULL;
        s = read_either_scope(handle, &whole, out, err);
    }
    return s == DIBS_NOT_FOUND || (s == DIBS_OK && out->is_reserved)
               ? find_reserved(handle, request, &t, i, out, err)
               : s;
}

/* ---- reservations ---- */

/* Find the reservation for a RoleScoped port, made for any instance. */
static dibs_status find_of_role(dibs *handle, const struct target *t, struct reservation *out, dibs_err *err)
{
    AUTO(role_scan_done) struct role_scan l = { 0 };
    char name[DIBS_NAME_MAX + 1];

    name_of(t, true, 0, name);
    dibs_status s = handle_remembered(handle, name, &l.remembered, err);
    if (s == DIBS_OK)
        s = scan_role(handle, t, &l, err);
    *out = l.reservation;
    return s;
}

static dibs_status find_of_instance(dibs *handle, const struct target *t, struct reservation *out,
                                    dibs_err *err)
{
    dibs_claim claim = { 0 };
    char name[DIBS_NAME_MAX + 1];

    name_of(t, false, 0, name);
    dibs_status s = dibs_claim_find(handle, &(dibs_which){ .name = name }, &claim, err);
    if (s == DIBS_OK && !claim.keeper[0])
        (void) text_copy(out->name, sizeof out->name, name);
    return s == DIBS_NOT_FOUND ? DIBS_OK : s;
}

dibs_status reservation_find(dibs *handle, const struct identity *who, const struct workload_port *port,
                             struct reservation *out, dibs_err *err)
{
    const char *const components[] = { who->component, "leader", who->role_name };
    /* References may have named a pod without a component as its role's leader. */
    size_t n = who->component ? 1 : 3;
    bool is_shared = port->scope == WORKLOAD_ROLE_SCOPED;
    dibs_status s = DIBS_OK;

    *out = (struct reservation){ 0 };
    for (size_t i = 0; i < n && s == DIBS_OK && !out->name[0]; i++) {
        struct target t = { .pod = *who, .who = who, .is_own_role = true, .port = port->name };

        t.pod.component = components[i];
        if (!is_shared && !is_known(&t))
            return DIBS_OK;
        s = is_shared ? find_of_role(handle, &t, out, err) : find_of_instance(handle, &t, out, err);
    }
    return s;
}
