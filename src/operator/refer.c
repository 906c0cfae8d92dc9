/* SPDX-License-Identifier: MIT */
#include "operator/refer.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/part.h"
#include "base/text.h"

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

    part_encode(t->role, "", DIBS_NAME_PART_MAX, role);
    if (t->component)
        workload_part(t->component, is_shared ? 0 : t->id, component);
    workload_part(t->port, t->number, port);
    (void) snprintf(out, DIBS_NAME_MAX + 1, "%s/%s/%s/%s/%s", t->who->group, role,
                    is_shared ? "-" : t->instance, component, port);
}

/* RBG always names a component: where there is none, the role is its own leader. */
static bool may_be_whole_role(const struct asking *asking, const struct target *t)
{
    return asking->dialect == WORKLOAD_RBG && t->component && t->id == 0 &&
           (strcmp(t->component, "leader") == 0 || strcmp(t->component, t->role) == 0);
}

/* All numbers of the port, as far as they go on. */
static dibs_status look(dibs *handle, const struct target *target, bool is_shared, struct refer *out,
                        dibs_err *err)
{
    struct target t = *target;
    dibs_status s = DIBS_OK;

    for (out->n = 0; out->n < WORKLOAD_COUNT_MAX && s == DIBS_OK; out->n += s == DIBS_OK) {
        char name[DIBS_NAME_MAX + 1];
        dibs_claim claim = { 0 };
        dibs_err why = { 0 };

        t.number = out->n;
        name_of(&t, is_shared, name);
        s = dibs_claim_find(handle, &(dibs_which){ .name = name }, &claim, &why);
        if (s == DIBS_OK && refer_is_mark(&claim))
            s = DIBS_NOT_FOUND;
        if (s == DIBS_OK)
            out->ports[out->n] = claim.port;
        else if (s != DIBS_NOT_FOUND && err)
            *err = why;
    }
    return s == DIBS_NOT_FOUND && out->n > 0 ? DIBS_OK : s;
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
    dibs_status s = is_known(t) ? look(handle, t, false, out, err) : DIBS_NOT_FOUND;

    return s == DIBS_NOT_FOUND ? look(handle, t, true, out, err) : s;
}

/* ---- what is known of a role ---- */

struct role_look {
    size_t prefix_len;
    const char *instance;           /* that is meant, */
    char own[DIBS_NAME_MAX + 1];    /* ... and what is behind it: "COMPONENT/PORT", */
    char shared[DIBS_NAME_MAX + 1]; /* ... or so, if it is the role's */
    bool has_numbered, has_unnamed;
    bool is_settled; /* a pod has the port: whether it is the role's is known */
    bool is_told;    /* another instance's was told, and that pod has not come */
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
    l->has_numbered = l->has_numbered || (instance[0] != '~' && instance[0] != '-' && claim->command[0]);
    l->is_settled = l->is_settled || (is_same && claim->command[0]);
    l->is_told = l->is_told || (is_same && !is_shared && !claim->command[0] &&
                                (strlen(l->instance) != len || memcmp(instance, l->instance, len) != 0));
    return true;
}

static void role_prefix(const struct target *t, char out[DIBS_NAME_MAX + 1])
{
    char role[DIBS_NAME_PART_MAX + 1];

    part_encode(t->role, "", DIBS_NAME_PART_MAX, role);
    (void) snprintf(out, DIBS_NAME_MAX + 1, "%s/%s", t->who->group, role);
}

/* What is behind the instance in a name of five parts. */
static const char *behind_instance(const char *name)
{
    for (int i = 0; i < 3; i++)
        name += strcspn(name, "/") + 1;
    return name;
}

static dibs_status look_at_role(dibs *handle, const struct target *t, struct role_look *l, dibs_err *err)
{
    char prefix[DIBS_NAME_MAX + 1];
    char name[DIBS_NAME_MAX + 1];

    *l = (struct role_look){ .instance = t->instance };
    name_of(t, false, name);
    (void) text_copy(l->own, sizeof l->own, behind_instance(name));
    name_of(t, true, name);
    (void) text_copy(l->shared, sizeof l->shared, behind_instance(name));
    role_prefix(t, prefix);
    l->prefix_len = strlen(prefix) + 1;
    const dibs_filter filter = { .name_prefix = prefix, .principal = t->who->principal };
    return dibs_claim_list(handle, &filter, note_instance, l, err);
}

/* ---- the whole ---- */

static dibs_status wrong(const struct asking *asking, size_t i, dibs_err *err, const char *why,
                         const char *role)
{
    char shown[SHOWN];
    char field[ASKING_FIELD_MAX];

    asking_field(asking, i, field);
    return err_set(err, DIBS_INVALID, "%s: role '%s' %s", field, text_safe(role, shown, sizeof shown), why);
}

/* The pod has that port, too: so it is each pod's own, or it would have been found. */
static bool is_as_own(const struct asking *asking, const struct target *t)
{
    const char *own = t->who->component;
    bool is_as_who = strcmp(t->role, t->who->role_name) == 0 && !own == !t->component &&
                     (!own || strcmp(own, t->component) == 0);

    for (size_t i = 0; i < asking->config->n_ports && is_as_who; i++)
        if (strcmp(asking->config->ports[i].name, t->port) == 0)
            return true;
    return false;
}

/* Its name before it is there. An index that was written says that the port is that instance's own; what the
 * own instance stands for may as well be the whole role's. Of that only one instance is told. */
static dibs_status foresee(dibs *handle, const struct asking *asking, const struct target *t, size_t i,
                           struct refer *out, dibs_err *err)
{
    const struct workload_reference *reference = &asking->config->references[i];
    bool is_implied = reference->instance < 0 && strcmp(t->role, t->who->role_name) == 0;
    struct role_look l = { 0 };
    char field[ASKING_FIELD_MAX];
    dibs_status s = is_known(t) ? look_at_role(handle, t, &l, err) : DIBS_OK;
    bool is_settled = l.is_settled || is_as_own(asking, t);

    if (s != DIBS_OK)
        return s;
    if (!is_known(t) || (l.has_unnamed && !l.has_numbered))
        return wrong(asking, i, err,
                     "has pods without a number or name of their own, and no claim of this port: only a "
                     "RoleScoped port of it can be referred to",
                     t->role);
    asking_field(asking, i, field);
    if (!is_settled && l.is_told && is_implied)
        return err_set(err, DIBS_TAKEN,
                       "%s: no pod has this port yet, and another instance was told its number: whether that "
                       "is shared is known when the first has come; try again",
                       field);
    name_of(t, false, out->name);
    if (!is_settled && !l.is_told)
        name_of(t, true, out->mark);
    return DIBS_OK;
}

/* `number` has room for an instance of which only that is known. */
static struct target target_of(const struct asking *asking, const struct identity *who, size_t i,
                               char number[NUMBER_MAX])
{
    const struct workload_reference *reference = &asking->config->references[i];
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
    if (is_same_role && !who->component && may_be_whole_role(asking, &t))
        t.component = NULL;
    return t;
}

void refer_names(const struct asking *asking, const struct identity *who, size_t i,
                 char own[DIBS_NAME_MAX + 1], char shared[DIBS_NAME_MAX + 1])
{
    char number[NUMBER_MAX];
    const struct target t = target_of(asking, who, i, number);

    name_of(&t, false, own);
    name_of(&t, true, shared);
}

dibs_status refer_find(dibs *handle, const struct asking *asking, const struct identity *who, size_t i,
                       struct refer *out, dibs_err *err)
{
    char number[NUMBER_MAX];
    const struct target t = target_of(asking, who, i, number);

    if (strcmp(t.role, who->role_name) != 0 && !who->is_grouped)
        return wrong(
            asking, i, err,
            "is not in the group of this pod, which has its own role only; the label " IDENTITY_LABEL_GROUP
            " makes several objects of a namespace one",
            t.role);
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

/* ---- before the pod came ---- */

bool refer_is_mark(const dibs_claim *claim)
{
    return !claim->is_exclusive && !claim->command[0];
}

struct foreseen_look {
    size_t prefix_len;
    char rest[DIBS_NAME_MAX + 1]; /* of a name, behind the instance */
    uint16_t port;                /* of the mark; 0: any */
    struct refer_foreseen *out;
};

static bool note_foreseen(void *ctx, const dibs_claim *claim)
{
    struct foreseen_look *l = ctx;
    const char *instance = claim->name + l->prefix_len;
    const char *rest = instance + strcspn(instance, "/");

    if (claim->command[0] || !claim->is_exclusive || !*rest || strcmp(rest + 1, l->rest) != 0)
        return true;
    bool is_it = claim->port == l->port || (!l->port && !l->out->name[0]);
    if (is_it)
        (void) text_copy(l->out->name, sizeof l->out->name, claim->name);
    else
        l->out->other = claim->port;
    return true;
}

static dibs_status find_mark(dibs *handle, const struct target *t, struct refer_foreseen *out, uint16_t *port,
                             dibs_err *err)
{
    char name[DIBS_NAME_MAX + 1];
    dibs_claim claim = { 0 };
    dibs_err why = { 0 };

    name_of(t, true, name);
    dibs_status s = dibs_claim_find(handle, &(dibs_which){ .name = name }, &claim, &why);
    if (s == DIBS_OK && refer_is_mark(&claim)) {
        (void) text_copy(out->mark, sizeof out->mark, name);
        *port = claim.port;
    }
    if (s != DIBS_OK && s != DIBS_NOT_FOUND)
        *err = why;
    return s == DIBS_NOT_FOUND ? DIBS_OK : s;
}

/* Whatever instance it was foreseen for: it is the role's. */
static dibs_status look_for_any(dibs *handle, const struct target *t, struct foreseen_look *l, dibs_err *err)
{
    char name[DIBS_NAME_MAX + 1];
    char prefix[DIBS_NAME_MAX + 1];

    name_of(t, false, name);
    (void) text_copy(l->rest, sizeof l->rest, behind_instance(name));
    role_prefix(t, prefix);
    l->prefix_len = strlen(prefix) + 1;
    const dibs_filter filter = { .name_prefix = prefix, .principal = t->who->principal };
    return dibs_claim_list(handle, &filter, note_foreseen, l, err);
}

static dibs_status look_for_own(dibs *handle, const struct target *t, struct refer_foreseen *out,
                                dibs_err *err)
{
    dibs_claim claim = { 0 };
    dibs_err why = { 0 };
    char name[DIBS_NAME_MAX + 1];

    name_of(t, false, name);
    dibs_status s = dibs_claim_find(handle, &(dibs_which){ .name = name }, &claim, &why);
    if (s == DIBS_OK && !claim.command[0])
        (void) text_copy(out->name, sizeof out->name, name);
    if (s != DIBS_OK && s != DIBS_NOT_FOUND)
        *err = why;
    return s == DIBS_NOT_FOUND ? DIBS_OK : s;
}

dibs_status refer_foreseen(dibs *handle, const struct identity *who, const struct workload_port *port,
                           struct refer_foreseen *out, dibs_err *err)
{
    const char *const components[] = { who->component, "leader", who->role_name };
    /* A pod without a component may have been taken for the leader of its role. */
    size_t n = who->component ? 1 : 3;
    bool is_shared = port->scope == WORKLOAD_ROLE_SCOPED;
    dibs_status s = DIBS_OK;

    *out = (struct refer_foreseen){ 0 };
    for (size_t i = 0; i < n && s == DIBS_OK && !out->name[0]; i++) {
        const struct target t = { .who = who,
                                  .role = who->role_name,
                                  .instance = who->instance,
                                  .component = components[i],
                                  .id = who->component_id,
                                  .port = port->name };
        struct foreseen_look l = { .out = out };

        if (!is_shared && !is_known(&t))
            return DIBS_OK;
        s = is_shared ? find_mark(handle, &t, out, &l.port, err) : look_for_own(handle, &t, out, err);
        if (s == DIBS_OK && is_shared)
            s = look_for_any(handle, &t, &l, err);
        else if (s == DIBS_OK && out->name[0])
            s = find_mark(handle, &t, out, &l.port, err);
    }
    return s;
}
