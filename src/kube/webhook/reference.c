/* SPDX-License-Identifier: MIT */
#include "kube/webhook/reference.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/name_part.h"
#include "base/text.h"
#include "lib/handle.h"

#include "base/banned.h"

enum { SHOWN = 80, NUMBER_MAX = 16 };

/* The parts of a name that a reference means. */
struct target {
    const struct identity *who;
    const char *role, *instance;
    const char *component; /* NULL: none */
    uint32_t id;
    const char *port;
    uint32_t number; /* of a port that is several */
};

static void name_of(const struct target *t, bool is_shared, char out[DIBS_NAME_MAX + 1])
{
    char role[DIBS_NAME_PART_MAX + 1];
    char component[DIBS_NAME_PART_MAX + 1] = "-";
    char port[DIBS_NAME_PART_MAX + 1];

    name_part_encode(t->role, "", DIBS_NAME_PART_MAX, role);
    if (t->component)
        workload_part(t->component, is_shared ? 0 : t->id, component);
    workload_part(t->port, t->number, port);
    (void) snprintf(out, DIBS_NAME_MAX + 1, "%s/%s/%s/%s/%s", t->who->group, role,
                    is_shared ? "-" : t->instance, component, port);
}

/* RBG always names a component: where there is none, the role is its own leader. */
static bool may_be_whole_role(const struct port_request *request, const struct target *t)
{
    return request->dialect == WORKLOAD_RBG && t->component && t->id == 0 &&
           (strcmp(t->component, "leader") == 0 || strcmp(t->component, t->role) == 0);
}

/* All numbers of the port, as far as they go on. */
static dibs_status look(dibs *handle, const struct target *target, bool is_shared, struct reference *out,
                        dibs_err *err)
{
    struct target t = *target;
    dibs_status s = DIBS_OK;

    for (out->n = 0; out->n < WORKLOAD_COUNT_MAX && s == DIBS_OK; out->n += s == DIBS_OK) {
        char name[DIBS_NAME_MAX + 1];
        dibs_claim claim = { 0 };

        t.number = out->n;
        name_of(&t, is_shared, name);
        s = dibs_claim_find(handle, &(dibs_which){ .name = name }, &claim, err);
        if (s == DIBS_OK && !claim.is_exclusive) /* version 1.4 marked a name so */
            s = DIBS_NOT_FOUND;
        if (s == DIBS_OK && out->n == 0)
            out->run = claim.run;
        if (s == DIBS_OK)
            out->ports[out->n] = claim.port;
    }
    return s == DIBS_NOT_FOUND && out->n > 0 ? DIBS_OK : s;
}

/* Can the pod be referred to? One that is known by its id alone only by itself. */
static bool is_known(const struct target *t)
{
    return t->instance[0] && t->instance[0] != '~';
}

/* The pod's own port, or one of its role. */
static bool is_own(const struct port_request *request, const struct target *t, struct reference *out)
{
    char wanted[2][DIBS_NAME_MAX + 1];
    char own[DIBS_NAME_MAX + 1];

    name_of(t, false, wanted[0]);
    name_of(t, true, wanted[1]);
    for (size_t i = 0; i < request->config->n_ports; i++) {
        identity_claim_name(t->who, &request->config->ports[i], 0, own);
        if (strcmp(own, wanted[0]) != 0 && strcmp(own, wanted[1]) != 0)
            continue;
        (void) text_copy(out->name, sizeof out->name, own);
        return true;
    }
    return false;
}

static dibs_status look_at_both(dibs *handle, const struct target *t, struct reference *out, dibs_err *err)
{
    dibs_status s = is_known(t) ? look(handle, t, false, out, err) : DIBS_NOT_FOUND;

    return s == DIBS_NOT_FOUND ? look(handle, t, true, out, err) : s;
}

/* ---- the state of a role ---- */

struct role_look {
    size_t prefix_len;
    const char *instance;           /* that is meant, */
    char own[DIBS_NAME_MAX + 1];    /* ... and what is behind it: "COMPONENT/PORT", */
    char shared[DIBS_NAME_MAX + 1]; /* ... or so, if it is the role's */
    bool has_numbered, has_unnamed;
    bool is_settled;  /* a pod has the port: whether it is the role's is known */
    bool is_reserved; /* for another instance, whose pod has not come */
};

static bool note_instance(void *ctx, const dibs_claim *claim)
{
    struct role_look *l = ctx;
    const char *instance = claim->name + l->prefix_len;
    size_t len = strcspn(instance, "/");
    const char *rest = instance + len + (instance[len] == '/');
    bool is_shared = strncmp(instance, "-/", 2) == 0;
    bool is_same = strcmp(rest, is_shared ? l->shared : l->own) == 0;

    l->has_unnamed = l->has_unnamed || instance[0] == '~';
    l->has_numbered = l->has_numbered || (instance[0] != '~' && instance[0] != '-' && claim->keeper[0]);
    l->is_settled = l->is_settled || (is_same && claim->keeper[0]);
    l->is_reserved =
        l->is_reserved || (is_same && !is_shared && !claim->keeper[0] &&
                           (strlen(l->instance) != len || memcmp(instance, l->instance, len) != 0));
    return true;
}

static void role_prefix(const struct target *t, char out[DIBS_NAME_MAX + 1])
{
    char role[DIBS_NAME_PART_MAX + 1];

    name_part_encode(t->role, "", DIBS_NAME_PART_MAX, role);
    (void) snprintf(out, DIBS_NAME_MAX + 1, "%s/%s", t->who->group, role);
}

/* The part of a name behind its instance: "COMPONENT/PORT". */
enum { BEHIND_INSTANCE = 3 };

static dibs_status look_at_role(dibs *handle, const struct target *t, struct role_look *l, dibs_err *err)
{
    char prefix[DIBS_NAME_MAX + 1];
    char name[DIBS_NAME_MAX + 1];

    *l = (struct role_look){ .instance = t->instance };
    name_of(t, false, name);
    (void) text_copy(l->own, sizeof l->own, name_part_at(name, BEHIND_INSTANCE));
    name_of(t, true, name);
    (void) text_copy(l->shared, sizeof l->shared, name_part_at(name, BEHIND_INSTANCE));
    role_prefix(t, prefix);
    l->prefix_len = strlen(prefix) + 1;
    const dibs_filter filter = { .name_prefix = prefix, .principal = t->who->principal };
    return dibs_claim_list(handle, &filter, note_instance, l, err);
}

/* ---- the whole ---- */

static dibs_status wrong(const struct port_request *request, size_t i, dibs_err *err, const char *why,
                         const char *role)
{
    char shown[SHOWN];
    char field[PORT_REQUEST_FIELD_MAX];

    port_request_field(request, i, field);
    return err_set(err, DIBS_INVALID, "%s: role '%s' %s", field, text_safe(role, shown, sizeof shown), why);
}

/* Does the pod have that port, too? Then it is each pod's own, or it would have been found. */
static bool is_as_own(const struct port_request *request, const struct target *t)
{
    const char *own = t->who->component;
    bool is_as_who = strcmp(t->role, t->who->role_name) == 0 && !own == !t->component &&
                     (!own || strcmp(own, t->component) == 0);

    for (size_t i = 0; i < request->config->n_ports && is_as_who; i++)
        if (strcmp(request->config->ports[i].name, t->port) == 0)
            return true;
    return false;
}

/* Name the claim of a target that is not there yet. An index that was written says that the port is that
 * instance's own; what the own instance stands for may as well be the whole role's. Of that only one instance
 * is reserved. */
static dibs_status foresee(dibs *handle, const struct port_request *request, const struct target *t, size_t i,
                           struct reference *out, dibs_err *err)
{
    const struct workload_reference *reference = &request->config->references[i];
    bool is_implied = reference->instance < 0 && strcmp(t->role, t->who->role_name) == 0;
    struct role_look l = { 0 };
    char field[PORT_REQUEST_FIELD_MAX];
    dibs_status s = is_known(t) ? look_at_role(handle, t, &l, err) : DIBS_OK;
    bool is_settled = l.is_settled || is_as_own(request, t);

    if (s != DIBS_OK)
        return s;
    if (!is_known(t) || (l.has_unnamed && !l.has_numbered))
        return wrong(request, i, err,
                     "has pods without a number or name of their own, and no claim of this port: only a "
                     "RoleScoped port of it can be referred to",
                     t->role);
    port_request_field(request, i, field);
    if (!is_settled && l.is_reserved && is_implied)
        return err_set(err, DIBS_TAKEN,
                       "%s: no pod has this port yet, and another instance has one reserved: whether that "
                       "is shared is known when the first has come; try again",
                       field);
    name_of(t, false, out->name);
    if (!is_settled && !l.is_reserved)
        name_of(t, true, out->role_name);
    return DIBS_OK;
}

/* `number` is storage for an instance of which only the number is known. */
static struct target target_of(const struct port_request *request, const struct identity *who, size_t i,
                               char number[NUMBER_MAX])
{
    const struct workload_reference *reference = &request->config->references[i];
    const char *role = reference->role ? reference->role : who->role_name;
    bool is_same_role = strcmp(role, who->role_name) == 0;
    struct target t = { .who = who,
                        .role = role,
                        .instance = number,
                        .component = reference->component,
                        .id = reference->pod >= 0 ? (uint32_t) reference->pod : 0,
                        .port = reference->port };

    (void) snprintf(number, NUMBER_MAX, "%d", reference->instance >= 0 ? (int) reference->instance : 0);
    if (reference->instance < 0 && is_same_role)
        t.instance = who->instance;
    if (is_same_role && !who->component && may_be_whole_role(request, &t))
        t.component = NULL;
    return t;
}

void reference_target(const struct port_request *request, const struct identity *who, size_t i,
                      char out[DIBS_NAME_MAX + 1])
{
    char number[NUMBER_MAX];
    const struct target t = target_of(request, who, i, number);

    name_of(&t, false, out);
}

dibs_status reference_find(dibs *handle, const struct port_request *request, const struct identity *who,
                           size_t i, struct reference *out, dibs_err *err)
{
    char number[NUMBER_MAX];
    const struct target t = target_of(request, who, i, number);

    if (strcmp(t.role, who->role_name) != 0 && !who->is_grouped)
        return wrong(
            request, i, err,
            "is not in the group of this pod, which has its own role only; the label " IDENTITY_LABEL_GROUP
            " makes several objects of a namespace one",
            t.role);
    *out = (struct reference){ 0 };
    if (is_own(request, &t, out))
        return DIBS_OK;
    dibs_status s = look_at_both(handle, &t, out, err);
    if (s == DIBS_NOT_FOUND && may_be_whole_role(request, &t)) {
        struct target whole = t;

        whole.component = NULL;
        s = look_at_both(handle, &whole, out, err);
    }
    return s == DIBS_NOT_FOUND ? foresee(handle, request, &t, i, out, err) : s;
}

/* ---- reservations ---- */

struct reservation_look {
    size_t prefix_len;
    char rest[DIBS_NAME_MAX + 1]; /* of a name, behind the instance */
    uint16_t wanted;              /* the port that the role's name remembers; 0: none */
    uint16_t chosen;
    struct reservation *out;
};

static bool note_reservation(void *ctx, const dibs_claim *claim)
{
    struct reservation_look *l = ctx;
    const char *instance = claim->name + l->prefix_len;
    const char *rest = instance + strcspn(instance, "/");

    if (claim->keeper[0] || !claim->is_exclusive || !*rest || strcmp(rest + 1, l->rest) != 0)
        return true;
    if (l->chosen && claim->port != l->wanted) {
        l->out->other = claim->port;
        return true;
    }
    l->out->other = l->chosen ? l->chosen : l->out->other;
    l->chosen = claim->port;
    (void) text_copy(l->out->name, sizeof l->out->name, claim->name);
    return true;
}

/* Of a RoleScoped port: whichever instance it was reserved for. */
static dibs_status find_of_role(dibs *handle, const struct target *t, struct reservation *out, dibs_err *err)
{
    struct reservation_look l = { .out = out };
    char name[DIBS_NAME_MAX + 1];
    char prefix[DIBS_NAME_MAX + 1];

    name_of(t, false, name);
    (void) text_copy(l.rest, sizeof l.rest, name_part_at(name, BEHIND_INSTANCE));
    role_prefix(t, prefix);
    l.prefix_len = strlen(prefix) + 1;
    name_of(t, true, name);
    const dibs_filter filter = { .name_prefix = prefix, .principal = t->who->principal };
    dibs_status s = handle_remembered(handle, name, &l.wanted, err);
    return s == DIBS_OK ? dibs_claim_list(handle, &filter, note_reservation, &l, err) : s;
}

static dibs_status find_of_instance(dibs *handle, const struct target *t, struct reservation *out,
                                    dibs_err *err)
{
    dibs_claim claim = { 0 };
    char name[DIBS_NAME_MAX + 1];

    name_of(t, false, name);
    dibs_status s = dibs_claim_find(handle, &(dibs_which){ .name = name }, &claim, err);
    if (s == DIBS_OK && !claim.keeper[0])
        (void) text_copy(out->name, sizeof out->name, name);
    return s == DIBS_NOT_FOUND ? DIBS_OK : s;
}

dibs_status reservation_find(dibs *handle, const struct identity *who, const struct workload_port *port,
                             struct reservation *out, dibs_err *err)
{
    const char *const components[] = { who->component, "leader", who->role_name };
    /* A pod without a component may have been taken for the leader of its role. */
    size_t n = who->component ? 1 : 3;
    bool is_shared = port->scope == WORKLOAD_ROLE_SCOPED;
    dibs_status s = DIBS_OK;

    *out = (struct reservation){ 0 };
    for (size_t i = 0; i < n && s == DIBS_OK && !out->name[0]; i++) {
        const struct target t = { .who = who,
                                  .role = who->role_name,
                                  .instance = who->instance,
                                  .component = components[i],
                                  .id = who->component_id,
                                  .port = port->name };

        if (!is_shared && !is_known(&t))
            return DIBS_OK;
        s = is_shared ? find_of_role(handle, &t, out, err) : find_of_instance(handle, &t, out, err);
    }
    return s;
}
