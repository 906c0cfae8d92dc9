/* SPDX-License-Identifier: MIT */
#include "operator/refer.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/part.h"
#include "base/text.h"

#include "base/banned.h"

enum { SHOWN = 80 };

/* The parts of a name that a reference means. */
struct target {
    const struct identity *who;
    const char *role, *instance;
    const char *component; /* NULL: none */
    uint32_t id;
    const char *port;
};

static void name_of(const struct target *t, bool is_shared, char out[DIBS_NAME_MAX + 1])
{
    char role[DIBS_NAME_PART_MAX + 1];
    char component[DIBS_NAME_PART_MAX + 1] = "-";
    char port[DIBS_NAME_PART_MAX + 1];

    part_encode(t->role, "", DIBS_NAME_PART_MAX, role);
    if (t->component)
        workload_part(t->component, is_shared ? 0 : t->id, component);
    workload_part(t->port, 0, port);
    (void) snprintf(out, DIBS_NAME_MAX + 1, "%s/%s/%s/%s/%s", t->who->group, role,
                    is_shared ? "-" : t->instance, component, port);
}

/* RBG always names a component: where there is none, the role is its own leader. */
static bool may_be_whole_role(const struct asking *asking, const struct target *t)
{
    return asking->dialect == WORKLOAD_RBG && t->component && t->id == 0 &&
           (strcmp(t->component, "leader") == 0 || strcmp(t->component, t->role) == 0);
}

static dibs_status look(dibs *handle, const char *name, struct refer *out, dibs_err *err)
{
    dibs_claim claim = { 0 };
    dibs_err why = { 0 };
    dibs_status s = dibs_claim_find(handle, &(dibs_which){ .name = name }, &claim, &why);

    if (s == DIBS_OK)
        out->port = claim.port;
    else if (s != DIBS_NOT_FOUND && err)
        *err = why;
    return s;
}

/* A pod that is known by its id alone cannot be meant by anybody but itself. */
static bool is_known(const struct target *t)
{
    return t->instance[0] && t->instance[0] != '~';
}

/* The pod's own port, or one of its role. */
static bool is_own(const struct asking *asking, const struct target *t, struct refer *out)
{
    char wanted[2][DIBS_NAME_MAX + 1];
    char own[DIBS_NAME_MAX + 1];

    name_of(t, false, wanted[0]);
    name_of(t, true, wanted[1]);
    for (size_t i = 0; i < asking->config->n_ports; i++) {
        identity_claim_name(t->who, &asking->config->ports[i], 0, own);
        if (strcmp(own, wanted[0]) != 0 && strcmp(own, wanted[1]) != 0)
            continue;
        (void) text_copy(out->name, sizeof out->name, own);
        return true;
    }
    return false;
}

static dibs_status look_at_both(dibs *handle, const struct target *t, struct refer *out, dibs_err *err)
{
    char name[DIBS_NAME_MAX + 1];
    dibs_status s = DIBS_NOT_FOUND;

    name_of(t, false, name);
    if (is_known(t))
        s = look(handle, name, out, err);
    if (s != DIBS_NOT_FOUND)
        return s;
    name_of(t, true, name);
    return look(handle, name, out, err);
}

/* ---- roles whose pods have no number ---- */

struct role_look {
    size_t prefix_len;
    bool has_numbered, has_unnamed;
};

static bool note_instance(void *ctx, const dibs_claim *claim)
{
    struct role_look *l = ctx;
    const char *instance = claim->name + l->prefix_len;

    l->has_unnamed = l->has_unnamed || instance[0] == '~';
    l->has_numbered = l->has_numbered || (instance[0] != '~' && instance[0] != '-' && claim->command[0]);
    return true;
}

static dibs_status check_numbered(dibs *handle, const struct target *t, bool *out, dibs_err *err)
{
    char role[DIBS_NAME_PART_MAX + 1];
    char prefix[DIBS_NAME_MAX + 1];
    struct role_look l = { 0 };

    part_encode(t->role, "", DIBS_NAME_PART_MAX, role);
    (void) snprintf(prefix, sizeof prefix, "%s/%s", t->who->group, role);
    l.prefix_len = strlen(prefix) + 1;
    const dibs_filter filter = { .name_prefix = prefix, .principal = t->who->principal };
    dibs_status s = dibs_claim_list(handle, &filter, note_instance, &l, err);
    *out = l.has_numbered || !l.has_unnamed;
    return s;
}

/* ---- the whole ---- */

static dibs_status wrong(const struct asking *asking, size_t i, dibs_err *err, const char *why,
                         const char *role)
{
    char shown[SHOWN];

    return err_set(err, DIBS_INVALID, "metadata.annotations[%s]: references[%zu].from: role '%s' %s",
                   asking->key, i, text_safe(role, shown, sizeof shown), why);
}

/* Its name before it is there. */
static dibs_status foresee(dibs *handle, const struct asking *asking, const struct target *t, size_t i,
                           struct refer *out, dibs_err *err)
{
    bool is_numbered = is_known(t);
    dibs_status s = is_numbered ? check_numbered(handle, t, &is_numbered, err) : DIBS_OK;

    if (s != DIBS_OK)
        return s;
    if (!is_numbered)
        return wrong(asking, i, err,
                     "has pods without a number or name of their own, and no claim of this port: only a "
                     "RoleScoped port of it can be referred to",
                     t->role);
    out->port = 0;
    name_of(t, false, out->name);
    return DIBS_OK;
}

dibs_status refer_find(dibs *handle, const struct asking *asking, const struct identity *who, size_t i,
                       struct refer *out, dibs_err *err)
{
    const struct workload_reference *reference = &asking->config->references[i];
    bool is_same_role = strcmp(reference->role, who->role_name) == 0;
    char number[16] = "0";
    struct target t = { .who = who,
                        .role = reference->role,
                        .instance = number,
                        .component = reference->component,
                        .id = reference->pod >= 0 ? (uint32_t) reference->pod : 0,
                        .port = reference->port };

    if (!is_same_role && !who->is_grouped)
        return wrong(
            asking, i, err,
            "is not in the group of this pod, which has its own role only; the label " IDENTITY_LABEL_GROUP
            " makes several objects of a namespace one",
            reference->role);
    if (reference->instance >= 0)
        (void) snprintf(number, sizeof number, "%d", (int) reference->instance);
    else if (is_same_role)
        t.instance = who->instance;
    if (is_same_role && !who->component && may_be_whole_role(asking, &t))
        t.component = NULL;
    *out = (struct refer){ 0 };
    if (is_own(asking, &t, out))
        return DIBS_OK;
    dibs_status s = look_at_both(handle, &t, out, err);
    if (s == DIBS_NOT_FOUND && may_be_whole_role(asking, &t)) {
        struct target whole = t;

        whole.component = NULL;
        s = look_at_both(handle, &whole, out, err);
    }
    return s == DIBS_NOT_FOUND ? foresee(handle, asking, &t, i, out, err) : s;
}

size_t refer_guesses(const struct identity *who, const struct workload_port *port,
                     char out[REFER_GUESSES][DIBS_NAME_MAX + 1])
{
    const char *const instances[] = { who->instance, "0" };
    const char *const components[] = { who->component, "leader", who->role_name };
    /* A pod without a component may have been taken for the leader of its role. */
    size_t n_components = who->component ? 1 : 3;
    size_t n = 0;

    for (size_t i = 0; i < sizeof instances / sizeof *instances; i++)
        for (size_t c = 0; c < n_components; c++) {
            const struct target t = { .who = who,
                                      .role = who->role_name,
                                      .instance = instances[i],
                                      .component = components[c],
                                      .id = who->component_id,
                                      .port = port->name };
            bool is_own_name = port->scope == WORKLOAD_POD_SCOPED && c == 0;

            if (!is_known(&t) || is_own_name || (i > 0 && strcmp(instances[0], "0") == 0) ||
                (i > 0 && port->scope == WORKLOAD_POD_SCOPED))
                continue;
            name_of(&t, false, out[n++]);
        }
    return n;
}
