/* SPDX-License-Identifier: MIT */
/* Resolve parts of a workload as a user types them. */
#include <string.h>

#include "base/err.h"
#include "base/name_part.h"
#include "base/suggest.h"
#include "base/text.h"
#include "workload/workload.h"

#include "base/banned.h"

enum { PARTS_MAX = 5 };

struct typed {
    char whole[DIBS_NAME_MAX + 1];
    char text[DIBS_NAME_MAX + 1]; /* split into its parts */
    const char *part[PARTS_MAX];
    size_t n;
};

static bool split(const char *text, struct typed *out)
{
    *out = (struct typed){ .n = 0 };
    if (!text_copy(out->text, sizeof out->text, text))
        return false;
    (void) text_copy(out->whole, sizeof out->whole, text);
    char *rest = out->text;
    for (char *part = NULL; (part = strsep(&rest, "/"));) {
        if (out->n == PARTS_MAX || !*part)
            return false;
        out->part[out->n++] = part;
    }
    return true;
}

/* Match a name as written in the manifest or as encoded in claim names. */
static bool is_called(const char *name, const char *typed)
{
    char part[DIBS_NAME_PART_MAX + 1];

    name_part_encode(name, "", DIBS_NAME_PART_MAX, part);
    return strcmp(name, typed) == 0 || strcmp(part, typed) == 0;
}

const struct workload_role *workload_role_typed(const struct workload_group *group, const char *typed)
{
    for (size_t i = 0; i < group->n_roles; i++)
        if (is_called(group->roles[i].name, typed))
            return &group->roles[i];
    return NULL;
}

static bool number(const char *text, uint32_t below, uint32_t *out)
{
    uint64_t value = 0;

    if (below == 0 || !text_number(text, strlen(text), below - 1, &value))
        return false;
    *out = (uint32_t) value;
    return true;
}

static const char *source_of(const struct workload_group *group)
{
    return group->source ? group->source : "the group";
}

static dibs_status no_role(const struct workload_group *group, const char *typed, dibs_err *err)
{
    struct suggest_list all = { .used = 0 };

    for (size_t i = 0; i < group->n_roles; i++)
        suggest_list_add(&all, group->roles[i].name);
    return err_set(err, DIBS_NOT_FOUND, "%s has no role '%.80s'; its roles are: %s", source_of(group), typed,
                   all.used ? all.text : "none");
}

dibs_status workload_pod_parse(const struct workload_group *group, const char *text, struct workload_pod *out,
                               dibs_err *err)
{
    struct typed typed;
    struct workload_pod pod = { 0 };

    if (!split(text, &typed) || typed.n > 4)
        return err_set(err, DIBS_INVALID, "'%.80s' is not ROLE, ROLE/INSTANCE or ROLE/INSTANCE/COMPONENT",
                       text);
    pod.role = workload_role_typed(group, typed.part[0]);
    if (!pod.role)
        return no_role(group, typed.part[0], err);
    if (typed.n > 1 ? !number(typed.part[1], pod.role->instances, &pod.instance) : pod.role->instances == 0)
        return err_set(err, DIBS_NOT_FOUND, "role '%s' has %u instance%s, counted from 0; there is no '%s'",
                       pod.role->name, pod.role->instances, pod.role->instances == 1 ? "" : "s",
                       typed.n > 1 ? typed.part[1] : "0");
    pod.component = typed.n > 2 ? NULL : &pod.role->components[0];
    for (size_t i = 0; typed.n > 2 && i < pod.role->n_components; i++)
        if (pod.role->components[i].name && is_called(pod.role->components[i].name, typed.part[2]))
            pod.component = &pod.role->components[i];
    if (!pod.component)
        return err_set(err, DIBS_NOT_FOUND, "role '%s' has no component '%.80s'", pod.role->name,
                       typed.part[2]);
    if (typed.n > 3 && !number(typed.part[3], pod.component->size, &pod.id))
        return err_set(err, DIBS_NOT_FOUND,
                       "component '%s' has %u pod%s, counted from 0; there is no '%.80s'", typed.part[2],
                       pod.component->size, pod.component->size == 1 ? "" : "s", typed.part[3]);
    *out = pod;
    return DIBS_OK;
}

/* Write the need's name in `n` parts, as users type it; false: it has no such form. Instance 0 may be
 * omitted; a component's pod may be "worker.1" or a part of its own. */
static bool in_parts(const struct workload_group *group, const struct workload_need *need, size_t n,
                     char out[DIBS_NAME_MAX + 1])
{
    const char *component = need->pod.component->name;
    bool is_shared = need->port->scope == WORKLOAD_ROLE_SCOPED;
    bool is_first = is_shared || need->pod.instance == 0;
    struct typed full;

    if (!split(need->name + strlen(group->group) + 1, &full) || full.n != 4)
        return false;
    const char *const *part = full.part;
    switch (n) {
    case 2: (void) snprintf(out, DIBS_NAME_MAX + 1, "%s/%s", part[0], part[3]); return !component && is_first;
    case 3:
        (void) snprintf(out, DIBS_NAME_MAX + 1, "%s/%s/%s", part[0], part[component ? 2 : 1], part[3]);
        return !component || is_first;
    case 4: return text_copy(out, DIBS_NAME_MAX + 1, need->name + strlen(group->group) + 1);
    case 5:
        (void) snprintf(out, DIBS_NAME_MAX + 1, "%s/%s/%s/%u/%s", part[0], part[1],
                        component ? component : "", need->pod.id, part[3]);
        return component && !is_shared;
    default: return false;
    }
}

static bool is_typed(const struct workload_group *group, const struct workload_need *need,
                     const struct typed *typed)
{
    char name[DIBS_NAME_MAX + 1];

    return is_called(need->pod.role->name, typed->part[0]) && in_parts(group, need, typed->n, name) &&
           strcmp(strchr(name, '/'), strchr(typed->whole, '/')) == 0;
}

/* Return whether the reference means this need. */
static bool is_target(const struct workload_need *need, const struct workload_reference *to)
{
    const char *component = need->pod.component->name;
    uint32_t instance = to->instance < 0 ? 0 : (uint32_t) to->instance;
    uint32_t id = to->pod < 0 ? 0 : (uint32_t) to->pod;

    if (need->number > 0 || strcmp(need->pod.role->name, to->role) != 0 ||
        strcmp(need->port->name, to->port) != 0 ||
        strcmp(component ? component : "", to->component ? to->component : "") != 0)
        return false;
    if (need->port->scope == WORKLOAD_ROLE_SCOPED) /* any existing pod may be given */
        return (to->instance < 0 || instance < need->pod.role->instances) && id < need->pod.component->size;
    return need->pod.instance == instance && need->pod.id == id;
}

/* Write the reference as parts, for comparison with existing names. */
static void write_parts(const struct workload_reference *to, char *out, size_t size)
{
    char instance[16] = "";
    char id[16] = "";

    if (to->instance >= 0 || to->pod >= 0)
        (void) snprintf(instance, sizeof instance, "/%d", to->instance < 0 ? 0 : to->instance);
    if (to->pod >= 0)
        (void) snprintf(id, sizeof id, "/%d", to->pod);
    (void) snprintf(out, size, "%s%s%s%s%s/%s", to->role, instance, to->component ? "/" : "",
                    to->component ? to->component : "", id, to->port);
}

/* Suggest the nearest port, or list those of the named role, or of all roles. */
static dibs_status no_port(const struct workload_group *group, const struct workload_needs *needs,
                           const char *text, const struct typed *typed, bool *is_like, dibs_err *err)
{
    struct suggest best = { .wanted = typed->whole };
    struct suggest_list all = { .used = 0 };
    char name[DIBS_NAME_MAX + 1];
    char nearest[DIBS_NAME_MAX + 1] = "";
    const struct workload_role *role = workload_role_typed(group, text);

    if (!role && typed->n > 0)
        role = workload_role_typed(group, typed->part[0]);
    for (size_t i = 0; i < needs->n; i++) {
        const struct workload_need *need = &needs->all[i];

        if (in_parts(group, need, typed->n, name)) {
            suggest_offer(&best, name);
            if (best.name == name && text_copy(nearest, sizeof nearest, name))
                best.name = nearest;
        }
        if ((need->pod.role == role || is_called(need->port->name, text)) &&
            in_parts(group, need, need->pod.component->name ? 4 : 3, name))
            suggest_list_add(&all, name);
    }
    if (is_like)
        *is_like = role || all.used > 0 || (best.name && best.distance <= 1);
    best.all = all;
    return err_set(err, DIBS_NOT_FOUND, "%s has no port '%.80s'%s", source_of(group), text,
                   suggest_format(&best, name, sizeof name));
}

dibs_status workload_need_parse(const struct workload_group *group, const char *text,
                                struct workload_need *out, bool *is_like, dibs_err *err)
{
    AUTO(workload_needs_free) struct workload_needs needs = { 0 };
    struct typed typed;
    char name[DIBS_NAME_MAX + 1];
    struct workload_reference to = { 0 };
    bool is_reference =
        !strchr(text, '/') && text_copy(name, sizeof name, text) && !workload_reference_cut(name, &to);
    char parts[DIBS_NAME_MAX + 1];

    if (is_reference)
        write_parts(&to, parts, sizeof parts);
    bool is_name = split(is_reference ? parts : text, &typed) && typed.n > 1;
    dibs_status s = is_name || err ? workload_needs_all(group, &needs, err) : DIBS_OK;
    if (s != DIBS_OK)
        return s;
    for (size_t i = 0; i < needs.n && is_name; i++) {
        const struct workload_need *need = &needs.all[i];

        if (is_reference ? is_target(need, &to) : is_typed(group, need, &typed)) {
            *out = *need;
            return DIBS_OK;
        }
    }
    return err ? no_port(group, &needs, text, &typed, is_like, err) : DIBS_NOT_FOUND;
}

/* Return the only port of a role's pod, or NULL. */
static const struct workload_port *only_port(const struct workload_role *role)
{
    const struct workload_component *component = role->n_components == 1 ? &role->components[0] : NULL;

    return component && component->size == 1 && component->n_ports == 1 ? &component->ports[0] : NULL;
}

dibs_status workload_need_of_role(const struct workload_group *group, const char *text,
                                  struct workload_need *out)
{
    AUTO(workload_needs_free) struct workload_needs needs = { 0 };
    struct workload_pod pod = { 0 };

    if (strcspn(text, "/") > DIBS_NAME_PART_MAX || workload_pod_parse(group, text, &pod, NULL) != DIBS_OK ||
        !pod.role || !only_port(pod.role))
        return DIBS_NOT_FOUND;
    bool is_shared = only_port(pod.role)->scope == WORKLOAD_ROLE_SCOPED;
    if (!strchr(text, '/') && pod.role->instances > 1 && !is_shared)
        return DIBS_NOT_FOUND;
    dibs_status s = workload_needs_all(group, &needs, NULL);
    for (size_t i = 0; i < needs.n && s == DIBS_OK; i++) {
        const struct workload_need *need = &needs.all[i];

        if (need->pod.role == pod.role && need->number == 0 &&
            (is_shared || need->pod.instance == pod.instance)) {
            *out = *need;
            return DIBS_OK;
        }
    }
    return DIBS_NOT_FOUND;
}
