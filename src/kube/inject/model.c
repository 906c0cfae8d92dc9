/* SPDX-License-Identifier: MIT */
#include "kube/inject/model.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/name_part.h"
#include "base/suggest.h"
#include "workload/discovery.h"

#include "base/banned.h"

enum { REFERENCES_MAX = 65536 };

struct building {
    const yaml_text *yaml;
    struct kube_objects *objects;
    size_t n_references; /* in the whole file so far */
    dibs_err *err;
};

static dibs_status no_memory(const struct building *b)
{
    return err_set(b->err, DIBS_FAILURE, "out of memory");
}

static struct workload_group *group_of(const struct building *b, const struct kube_template *t)
{
    return b->objects->all[t->object].group;
}

/* ---- groups, roles, components ---- */

/* Neither a namespace nor a kind contains a dot, so the name is unambiguous. */
static dibs_status make_group(const struct building *b, struct kube_object *o)
{
    char raw[NAME_PART_RAW_MAX] = "";

    o->group = workload_new();
    if (!o->group)
        return no_memory(b);
    int n = snprintf(raw, sizeof raw, "%s.%s.%s", o->ns, o->kind, o->name);
    if (n < 0 || (size_t) n >= sizeof raw)
        return yaml_error(b->yaml, o->node, b->err, "the names of this object are too long");
    name_part_encode(raw, "", DIBS_NAME_PART_MAX, o->group->group);
    o->group->source = yaml_name(b->yaml);
    o->group->name = o->name;
    return DIBS_OK;
}

static bool is_same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Count the object's templates from `first` on that have this role; NULL: any role. */
static size_t count_templates(const struct building *b, const struct kube_template *first, const char *role)
{
    const struct kube_template *end = b->objects->templates + b->objects->n_templates;
    size_t n = 0;

    for (const struct kube_template *t = first; t < end && t->object == first->object; t++)
        n += !role || strcmp(t->role, role) == 0;
    return n;
}

static struct workload_role *role_of(const struct building *b, const struct kube_template *t)
{
    struct workload_group *group = group_of(b, t);

    for (size_t i = 0; i < group->n_roles; i++)
        if (strcmp(group->roles[i].name, t->role) == 0)
            return &group->roles[i];
    struct workload_component *components =
        workload_take(group, count_templates(b, t, t->role) * sizeof *components);
    if (!components)
        return NULL;
    struct workload_role *role = &group->roles[group->n_roles++];
    *role = (struct workload_role){ .name = t->role, .instances = 1, .components = components };
    role->place = (struct workload_place){ t->at->line, t->at->column };
    return role;
}

/* Add the references of RBG's component discovery. Leave out its addresses: they need the names of an
 * instance and its service, which only the cluster knows. */
static dibs_status add_discovered(const struct building *b, struct kube_template *t)
{
    struct workload_group *group = group_of(b, t);
    const yaml_node *text = t->discovery;
    struct workload_discovery found = { 0 };

    if (!text)
        return DIBS_OK;
    const struct workload_reference like = { .role = t->role, .place = { text->line, text->column } };
    dibs_status s = workload_discovery_parse(group, like.place, yaml_string(text), &found, b->err);
    t->n_addresses = found.n_addresses;
    if (s != DIBS_OK || found.n_ports == 0)
        return s;
    return workload_discovery_add(group, &found, &like, kube_component(t)) ? DIBS_OK : no_memory(b);
}

static dibs_status add_template(const struct building *b, struct kube_template *t)
{

    t->in = role_of(b, t);
    if (!t->in)
        return no_memory(b);
    for (size_t i = 0; i < t->in->n_components; i++)
        if (is_same(t->in->components[i].name, t->component))
            return yaml_error(b->yaml, t->at, b->err, "role '%.80s' has two pod templates of one name",
                              t->role);
    t->place = t->in->n_components++;
    *kube_component(t) = (struct workload_component){ .name = t->component,
                                                      .size = 1,
                                                      .place = { t->at->line, t->at->column } };
    dibs_status s = workload_annotation_parse(group_of(b, t), t->dialect, yaml_string(t->config),
                                              kube_component(t), b->err);

    return s == DIBS_OK ? add_discovered(b, t) : s;
}

/* Allocate the roles for the maximum number first, because templates point into the array. */
static dibs_status add_templates(const struct building *b)
{
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < b->objects->n_templates && s == DIBS_OK; i++) {
        struct kube_template *t = &b->objects->templates[i];
        struct workload_group *group = group_of(b, t);

        if (!group->roles) {
            size_t n = count_templates(b, t, NULL);

            if (n > WORKLOAD_ROLES_MAX)
                return yaml_error(b->yaml, t->pod, b->err, "an object with more than %d pod templates",
                                  WORKLOAD_ROLES_MAX);
            group->roles = workload_take(group, n * sizeof *group->roles);
        }
        s = group->roles ? add_template(b, t) : no_memory(b);
    }
    return s;
}

/* ---- references ---- */

static const struct kube_template *template_of(const struct building *b,
                                               const struct workload_component *component)
{
    for (size_t i = 0; i < b->objects->n_templates; i++)
        if (kube_component(&b->objects->templates[i]) == component)
            return &b->objects->templates[i];
    return NULL;
}

/* Refuse a role that no object of the namespace has. */
static dibs_status no_role(const struct building *b, const struct kube_object *own,
                           const struct workload_reference *reference)
{
    struct suggest best = { .wanted = reference->role };
    char hint[SUGGEST_HINT_MAX] = "";

    for (size_t i = 0; i < b->objects->n; i++) {
        const struct kube_object *o = &b->objects->all[i];

        for (size_t r = 0; r < o->group->n_roles && strcmp(o->ns, own->ns) == 0; r++)
            suggest_offer(&best, o->group->roles[r].name);
    }
    return workload_error(own->group, reference->place, b->err, "no role '%.80s'%s", reference->role,
                          suggest_format(&best, hint, sizeof hint));
}

/* Find the object with the role, the referring object first. */
static dibs_status find_owner(const struct building *b, size_t own,
                              const struct workload_reference *reference, size_t *out)
{
    const struct kube_object *all = b->objects->all;
    bool is_found = false;

    *out = own;
    if (workload_role(all[own].group, reference->role))
        return DIBS_OK;
    for (size_t i = 0; i < b->objects->n; i++) {
        if (strcmp(all[i].ns, all[own].ns) != 0 || !workload_role(all[i].group, reference->role))
            continue;
        if (is_found)
            return workload_error(all[own].group, reference->place, b->err,
                                  "$%s: several objects have a role '%.80s'", reference->env,
                                  reference->role);
        is_found = true;
        *out = i;
    }
    return is_found ? DIBS_OK : no_role(b, &all[own], reference);
}

/* Check an index against the cluster's number of pods, and replace it by 0: here one pod stands for all. */
static dibs_status replace_index(const struct workload_group *group,
                                 const struct workload_reference *reference, int32_t *index, uint32_t n,
                                 const char *what, dibs_err *err)
{
    if (*index > 0 && (uint32_t) *index >= n)
        return workload_error(group, reference->place, err, "$%s: there is no %s %d, only %u", reference->env,
                              what, *index, n);
    if (*index > 0)
        *index = 0;
    return DIBS_OK;
}

/* Resolve the reference within its role. workload_check() reports a missing target. */
static dibs_status resolve_reference(const struct building *b, const struct kube_template *from, size_t owner,
                                     struct workload_reference *reference)
{
    const struct workload_group *group = group_of(b, from);
    const struct workload_role *role = workload_role(b->objects->all[owner].group, reference->role);
    const struct workload_component *component = workload_component(role, reference->component);

    /* RBG always names a component: in a role without components it means the role's pod. */
    if (!component && from->dialect == WORKLOAD_RBG && reference->component &&
        (strcmp(reference->component, role->name) == 0 || strcmp(reference->component, "leader") == 0)) {
        component = workload_component(role, NULL);
        reference->component = component ? NULL : reference->component;
    }
    const struct kube_template *t = component ? template_of(b, component) : NULL;
    if (!t)
        return DIBS_OK;
    dibs_status s = replace_index(group, reference, &reference->instance, t->instances, "instance", b->err);

    return s == DIBS_OK ? replace_index(group, reference, &reference->pod, t->size, "pod", b->err) : s;
}

/* Refuse a variable that an earlier reference or a port has. workload_check() sees only one object. */
static dibs_status check_once(const struct building *b, const struct kube_template *t, size_t i)
{
    const struct workload_component *component = kube_component(t);
    const struct workload_reference *reference = &component->references[i];
    bool is_twice = false;

    for (size_t k = 0; k < i; k++)
        is_twice = is_twice || strcmp(component->references[k].env, reference->env) == 0;
    for (size_t k = 0; k < component->n_ports; k++)
        is_twice = is_twice || strcmp(component->ports[k].env, reference->env) == 0;
    return is_twice ? workload_error(group_of(b, t), reference->place, b->err,
                                     "env '%s' is there twice in one pod", reference->env)
                    : DIBS_OK;
}

/* Separate references within the object from references to other objects. */
static dibs_status sort_references(struct building *b, struct kube_template *t)
{
    struct workload_group *group = group_of(b, t);
    struct workload_component *component = kube_component(t);
    size_t n = component->n_references;
    size_t n_own = 0;
    struct workload_reference *own = workload_take(group, (n + 1) * sizeof *own);
    dibs_status s = DIBS_OK;

    b->n_references += n;
    if (b->n_references > REFERENCES_MAX)
        return yaml_error(b->yaml, t->at, b->err, "more than %d references", REFERENCES_MAX);
    t->foreign = workload_take(group, (n + 1) * sizeof *t->foreign);
    if (!own || !t->foreign)
        return no_memory(b);
    for (size_t i = 0; i < n && s == DIBS_OK; i++) {
        struct workload_reference reference = component->references[i];
        size_t owner = 0;

        s = check_once(b, t, i);
        if (s == DIBS_OK)
            s = find_owner(b, t->object, &reference, &owner);
        if (s == DIBS_OK)
            s = resolve_reference(b, t, owner, &reference);
        if (s == DIBS_OK && owner != t->object)
            s = workload_check_target(b->objects->all[owner].group, t->in, &reference, b->err);
        if (owner != t->object)
            t->foreign[t->n_foreign++] = (struct kube_foreign){ owner, reference };
        else
            own[n_own++] = reference;
    }
    component->references = own;
    component->n_references = n_own;
    return s;
}

/* ---- ports of several pods ---- */

static dibs_status check_sharing(const struct building *b, const struct kube_template *t)
{
    const struct workload_component *component = kube_component(t);
    uint64_t n = (uint64_t) t->instances * t->size;

    for (size_t i = 0; i < component->n_ports && n > 1 && t->is_host_network; i++)
        if (component->ports[i].scope == WORKLOAD_POD_SCOPED)
            return yaml_error(
                b->yaml, t->at, b->err,
                "%llu pods in the host's network are made from this one template, so that each "
                "of them cannot get a port '%.80s' of its own; let the webhook give it to each pod "
                "('dibs kube install --print --ledger etcd://HOST:2379/NAME | kubectl apply -f -'), "
                "or make the port RoleScoped",
                (unsigned long long) n, component->ports[i].name);
    return DIBS_OK;
}

dibs_status kube_model_build(const yaml_text *yaml, struct kube_objects *objects, dibs_err *err)
{
    struct building b = { .yaml = yaml, .objects = objects, .err = err };
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < objects->n && s == DIBS_OK; i++)
        s = make_group(&b, &objects->all[i]);
    if (s == DIBS_OK)
        s = add_templates(&b);
    for (size_t i = 0; i < objects->n_templates && s == DIBS_OK; i++) {
        s = sort_references(&b, &objects->templates[i]);
        if (s == DIBS_OK)
            s = check_sharing(&b, &objects->templates[i]);
    }
    for (size_t i = 0; i < objects->n && s == DIBS_OK; i++)
        if (objects->all[i].group->n_roles > 0)
            s = workload_check(objects->all[i].group, err);
    return s;
}
