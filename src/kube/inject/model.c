/* SPDX-License-Identifier: MIT */
#include "kube/inject/model.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/name_part.h"
#include "base/suggest.h"
#include "base/text.h"
#include "workload/discovery.h"

#include "base/banned.h"

enum { SHOWN = 80, REFERENCES_MAX = 65536 };

struct building {
    const yaml_text *yaml;
    const struct kube_objects *objects;
    struct kube_model *m;
    size_t n_references; /* of the whole file, so far */
    dibs_err *err;
};

static dibs_status no_memory(const struct building *b)
{
    return err_set(b->err, DIBS_FAILURE, "out of memory");
}

void kube_model_free(struct kube_model *model)
{
    for (size_t i = 0; i < model->n_groups; i++)
        workload_free(model->groups[i]);
    free(model->groups);
    free(model->pods);
    *model = (struct kube_model){ 0 };
}

/* ---- groups, roles, components ---- */

/* Neither a namespace nor a kind has a dot, so that the name can be read in one way only. */
static dibs_status make_group(const struct building *b, size_t object)
{
    const struct kube_object *o = &b->objects->all[object];
    struct workload_group *group = workload_new();
    char raw[NAME_PART_RAW_MAX] = "";

    b->m->groups[object] = group;
    if (!group)
        return no_memory(b);
    int n = snprintf(raw, sizeof raw, "%s.%s.%s", o->ns, o->kind, o->name);
    if (n < 0 || (size_t) n >= sizeof raw)
        return yaml_error(b->yaml, o->node, b->err, "the names of this object are too long");
    name_part_encode(raw, "", DIBS_NAME_PART_MAX, group->group);
    group->source = yaml_name(b->yaml);
    group->name = o->name;
    return DIBS_OK;
}

static bool is_same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* How many templates of the object from `first` on have this role; NULL: any. */
static size_t count_templates(const struct building *b, size_t first, const char *role)
{
    const struct kube_template *all = b->objects->templates;
    size_t n = 0;

    for (size_t i = first; i < b->objects->n_templates && all[i].object == all[first].object; i++)
        n += !role || strcmp(all[i].role, role) == 0;
    return n;
}

static struct workload_role *role_of(const struct building *b, struct workload_group *group, size_t template)
{
    const struct kube_template *t = &b->objects->templates[template];

    for (size_t i = 0; i < group->n_roles; i++)
        if (strcmp(group->roles[i].name, t->role) == 0)
            return &group->roles[i];
    struct workload_component *components =
        workload_take(group, count_templates(b, template, t->role) * sizeof *components);
    if (!components)
        return NULL;
    struct workload_role *role = &group->roles[group->n_roles++];
    *role = (struct workload_role){ .name = t->role, .instances = 1, .components = components };
    role->place = (struct workload_place){ t->at->line, t->at->column };
    return role;
}

/* RBG's own way to ask for other pods' ports: more references. Its addresses need the names of an instance
 * and of its service, which the cluster makes. */
static dibs_status add_discovered(const struct building *b, size_t template, struct workload_group *group,
                                  struct workload_component *component)
{
    const struct kube_template *t = &b->objects->templates[template];
    const yaml_node *text = t->discovery;
    struct workload_discovery found = { 0 };

    if (!text)
        return DIBS_OK;
    const struct workload_reference like = { .role = t->role, .place = { text->line, text->column } };
    dibs_status s = workload_discovery_parse(group, like.place, yaml_string(text), &found, b->err);
    b->m->pods[template].n_addresses = found.n_addresses;
    if (s != DIBS_OK || found.n_ports == 0)
        return s;
    return workload_discovery_add(group, &found, &like, component) ? DIBS_OK : no_memory(b);
}

static dibs_status add_template(const struct building *b, size_t template)
{
    const struct kube_template *t = &b->objects->templates[template];
    struct workload_group *group = b->m->groups[t->object];
    struct workload_role *role = role_of(b, group, template);
    char shown[SHOWN] = "";

    if (!role)
        return no_memory(b);
    for (size_t i = 0; i < role->n_components; i++)
        if (is_same(role->components[i].name, t->component))
            return yaml_error(b->yaml, t->at, b->err, "role '%s' has two pod templates of one name",
                              text_safe(t->role, shown, sizeof shown));
    struct workload_component *component = &role->components[role->n_components];
    *component = (struct workload_component){ .name = t->component, .size = 1 };
    component->place = (struct workload_place){ t->at->line, t->at->column };
    b->m->pods[template] =
        (struct kube_pod){ .group = group, .role = role, .component = role->n_components++ };
    dibs_status s = workload_annotation_parse(group, t->dialect, yaml_string(t->config), component, b->err);

    return s == DIBS_OK ? add_discovered(b, template, group, component) : s;
}

/* Roles point into their group's array: it is made for as many as there can be. */
static dibs_status add_templates(const struct building *b)
{
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < b->objects->n_templates && s == DIBS_OK; i++) {
        struct workload_group *group = b->m->groups[b->objects->templates[i].object];

        if (!group->roles) {
            size_t n = count_templates(b, i, NULL);

            if (n > WORKLOAD_ROLES_MAX)
                return yaml_error(b->yaml, b->objects->templates[i].pod, b->err,
                                  "an object with more than %d pod templates", WORKLOAD_ROLES_MAX);
            group->roles = workload_take(group, n * sizeof *group->roles);
        }
        s = group->roles ? add_template(b, i) : no_memory(b);
    }
    return s;
}

/* ---- references ---- */

static const struct kube_template *template_of(const struct building *b, const struct workload_role *role,
                                               const struct workload_component *component)
{
    for (size_t i = 0; i < b->objects->n_templates; i++)
        if (b->m->pods[i].role == role && &role->components[b->m->pods[i].component] == component)
            return &b->objects->templates[i];
    return NULL;
}

/* Refuse a role that neither this object nor another of the namespace has. */
static dibs_status no_role(const struct building *b, size_t own, const struct workload_reference *reference)
{
    struct suggest best = { .wanted = reference->role };
    char shown[SHOWN] = "";
    char hint[SUGGEST_HINT_MAX] = "";

    for (size_t i = 0; i < b->m->n_groups; i++)
        for (size_t r = 0; r < b->m->groups[i]->n_roles; r++)
            if (strcmp(b->objects->all[i].ns, b->objects->all[own].ns) == 0)
                suggest_offer(&best, b->m->groups[i]->roles[r].name);
    return workload_error(b->m->groups[own], reference->place, b->err, "no role '%s'%s",
                          text_safe(reference->role, shown, sizeof shown),
                          suggest_format(&best, hint, sizeof hint));
}

/* The object with the role, the own one first. */
static dibs_status find_owner(const struct building *b, size_t own,
                              const struct workload_reference *reference, size_t *out)
{
    char shown[SHOWN] = "";
    size_t found = b->m->n_groups;

    if (workload_role(b->m->groups[own], reference->role)) {
        *out = own;
        return DIBS_OK;
    }
    for (size_t i = 0; i < b->m->n_groups; i++) {
        if (strcmp(b->objects->all[i].ns, b->objects->all[own].ns) != 0 ||
            !workload_role(b->m->groups[i], reference->role))
            continue;
        if (found < b->m->n_groups)
            return workload_error(b->m->groups[own], reference->place, b->err,
                                  "$%s: several objects have a role '%s'", reference->env,
                                  text_safe(reference->role, shown, sizeof shown));
        found = i;
    }
    if (found == b->m->n_groups)
        return no_role(b, own, reference);
    *out = found;
    return DIBS_OK;
}

/* An index is one of the cluster's; in here there is one pod, which stands for all. */
static dibs_status take_index(const struct workload_group *group, const struct workload_reference *reference,
                              int32_t *index, uint32_t n, const char *what, dibs_err *err)
{
    if (*index > 0 && (uint32_t) *index >= n)
        return workload_error(group, reference->place, err, "$%s: there is no %s %d, only %u", reference->env,
                              what, *index, n);
    if (*index > 0)
        *index = 0;
    return DIBS_OK;
}

/* The port it means, once the role is known. What is not there is left to workload_check(). */
static dibs_status aim(const struct building *b, const struct kube_template *from, size_t owner,
                       struct workload_reference *reference)
{
    const struct workload_role *role = workload_role(b->m->groups[owner], reference->role);
    const struct workload_component *component = workload_component(role, reference->component);

    /* RBG always names a component: where there is none, the role is its own leader. */
    if (!component && from->dialect == WORKLOAD_RBG && reference->component &&
        (strcmp(reference->component, role->name) == 0 || strcmp(reference->component, "leader") == 0)) {
        component = workload_component(role, NULL);
        reference->component = component ? NULL : reference->component;
    }
    const struct kube_template *t = component ? template_of(b, role, component) : NULL;
    if (!t)
        return DIBS_OK;
    const struct workload_group *group = b->m->groups[from->object];
    dibs_status s = take_index(group, reference, &reference->instance, t->instances, "instance", b->err);

    return s == DIBS_OK ? take_index(group, reference, &reference->pod, t->size, "pod", b->err) : s;
}

/* workload_check() sees one object only. */
static dibs_status check_foreign(const struct building *b, const struct kube_pod *pod,
                                 const struct kube_foreign *foreign)
{
    const struct workload_component *from = &pod->role->components[pod->component];
    const struct workload_reference *reference = &foreign->reference;
    dibs_status s = workload_check_target(b->m->groups[foreign->object], pod->role, reference, b->err);

    for (size_t i = 0; i < from->n_ports && s == DIBS_OK; i++)
        if (strcmp(from->ports[i].env, reference->env) == 0)
            s = workload_error(pod->group, reference->place, b->err, "env '%s' is there twice in one pod",
                               reference->env);
    return s;
}

/* Is an earlier reference's variable the same? */
static dibs_status check_once(const struct building *b, const struct workload_group *own,
                              const struct workload_reference *all, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(all[k].env, all[i].env) == 0)
            return workload_error(own, all[i].place, b->err, "env '%s' is there twice in one pod",
                                  all[i].env);
    return DIBS_OK;
}

/* Separate references within the object from those to other objects. */
static dibs_status sort_references(struct building *b, size_t template)
{
    const struct kube_template *t = &b->objects->templates[template];
    struct kube_pod *pod = &b->m->pods[template];
    assert(pod->role); /* by add_templates() */
    struct workload_component *component = &pod->role->components[pod->component];
    size_t n = component->n_references;
    size_t n_own = 0;
    struct workload_reference *own = workload_take(pod->group, (n + 1) * sizeof *own);
    dibs_status s = DIBS_OK;

    b->n_references += n;
    if (b->n_references > REFERENCES_MAX)
        return yaml_error(b->yaml, t->at, b->err, "more than %d references", REFERENCES_MAX);
    pod->foreign = workload_take(pod->group, (n + 1) * sizeof *pod->foreign);
    if (!own || !pod->foreign)
        return no_memory(b);
    for (size_t i = 0; i < n && s == DIBS_OK; i++) {
        struct workload_reference reference = component->references[i];
        size_t owner = 0;

        s = check_once(b, pod->group, component->references, i);
        if (s == DIBS_OK)
            s = find_owner(b, t->object, &reference, &owner);
        if (s == DIBS_OK)
            s = aim(b, t, owner, &reference);
        if (owner != t->object)
            pod->foreign[pod->n_foreign++] = (struct kube_foreign){ owner, reference };
        else
            own[n_own++] = reference;
    }
    component->references = own;
    component->n_references = n_own;
    for (size_t i = 0; i < pod->n_foreign && s == DIBS_OK; i++)
        s = check_foreign(b, pod, &pod->foreign[i]);
    return s;
}

/* ---- one template, many pods ---- */

static dibs_status check_sharing(const struct building *b, size_t template)
{
    const struct kube_template *t = &b->objects->templates[template];
    const struct kube_pod *pod = &b->m->pods[template];
    const struct workload_component *component = &pod->role->components[pod->component];
    uint64_t n = (uint64_t) t->instances * t->size;
    char shown[SHOWN] = "";

    for (size_t i = 0; i < component->n_ports && n > 1 && t->is_host_network; i++)
        if (component->ports[i].scope == WORKLOAD_POD_SCOPED)
            return yaml_error(b->yaml, t->at, b->err,
                              "%llu pods in the host's network are made from this one template, so that each "
                              "of them cannot get a port '%s' of its own; make the port RoleScoped, or "
                              "write a separate object for each pod",
                              (unsigned long long) n,
                              text_safe(component->ports[i].name, shown, sizeof shown));
    return DIBS_OK;
}

static dibs_status build(struct building *b)
{
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < b->objects->n && s == DIBS_OK; i++)
        s = make_group(b, i);
    if (s == DIBS_OK)
        s = add_templates(b);
    for (size_t i = 0; i < b->objects->n_templates && s == DIBS_OK; i++) {
        s = sort_references(b, i);
        if (s == DIBS_OK)
            s = check_sharing(b, i);
    }
    for (size_t i = 0; i < b->objects->n && s == DIBS_OK; i++)
        if (b->m->groups[i]->n_roles > 0)
            s = workload_check(b->m->groups[i], b->err);
    return s;
}

dibs_status kube_model_build(const yaml_text *yaml, const struct kube_objects *objects,
                             struct kube_model *out, dibs_err *err)
{
    struct kube_model model = {
        .groups = calloc(objects->n + 1, sizeof(struct workload_group *)),
        .n_groups = objects->n,
        .pods = calloc(objects->n_templates + 1, sizeof *model.pods),
    };
    struct building b = { .yaml = yaml, .objects = objects, .m = &model, .err = err };
    dibs_status s = DIBS_OK;

    if (!model.groups || !model.pods) {
        model.n_groups = 0;
        s = no_memory(&b);
    } else {
        s = build(&b);
    }
    if (s == DIBS_OK)
        *out = model;
    else
        kube_model_free(&model);
    return s;
}
