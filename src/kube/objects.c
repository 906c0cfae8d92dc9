/* SPDX-License-Identifier: MIT */
#include "kube/objects.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "kube/grow.h"

#include "base/banned.h"

enum { LIST_DEPTH_MAX = 4, MERGES_MAX = 64, PATH_MAX_BYTES = 64, REPLICAS_MAX = 1 << 30 };

/* ---- looking ---- */

static const yaml_node *get_within(const yaml_node *map, const char *key, unsigned *budget)
{
    const yaml_node *found = yaml_get(map, key);
    const yaml_node *merged = found ? NULL : yaml_get(map, "<<");

    if (!merged || *budget == 0)
        return found;
    --*budget;
    if (merged->kind == YAML_MAP)
        return get_within(merged, key, budget);
    for (const yaml_node *item = merged->first; !found && merged->kind == YAML_LIST && item;
         item = item->next)
        found = get_within(yaml_follow(item), key, budget);
    return found;
}

const yaml_node *kube_get(const yaml_node *map, const char *key)
{
    unsigned budget = MERGES_MAX;

    return get_within(map, key, &budget);
}

const yaml_node *kube_at(const yaml_node *map, const char *path)
{
    char key[PATH_MAX_BYTES] = "";

    for (;; path++) {
        size_t len = strcspn(path, ".");

        (void) text_copy(key, len + 1 < sizeof key ? len + 1 : sizeof key, path);
        map = kube_get(map, key);
        path += len;
        if (!map || !*path)
            return map;
    }
}

/* ---- collecting ---- */

/* What is known so far while one object is walked. */
struct walk {
    const yaml_text *yaml;
    struct kube_objects *out;
    size_t *looks; /* things looked at so far */
    struct kube_object object;
    bool is_taken; /* the object is in the list */
    dibs_err *err;
};

void kube_objects_free(struct kube_objects *objects)
{
    free(objects->all);
    free(objects->templates);
    *objects = (struct kube_objects){ 0 };
}

static dibs_status no_memory(const struct walk *w)
{
    return err_set(w->err, DIBS_FAILURE, "out of memory");
}

/* How many; `absent` when it is not said. */
static dibs_status count_of(const struct walk *w, const yaml_node *node, uint32_t absent, uint32_t *out)
{
    *out = absent;
    if (!node || yaml_is_null(node) || yaml_number(node, REPLICAS_MAX, out))
        return DIBS_OK;
    return yaml_error(w->yaml, node, w->err, "this is not a number of pods");
}

/* The next thing of a list. */
static dibs_status look(const struct walk *w, const yaml_node *at)
{
    if (++*w->looks <= KUBE_LOOKS_MAX)
        return DIBS_OK;
    return yaml_error(w->yaml, at, w->err, "more than %d objects, roles and components", KUBE_LOOKS_MAX);
}

/* The annotation, and which of the two it is; NULL without one. */
static dibs_status find_config(const struct walk *w, const yaml_node *annotations, const yaml_node **out,
                               enum workload_dialect *dialect)
{
    const yaml_node *rbg = kube_get(annotations, WORKLOAD_KEY_RBG);
    const yaml_node *own = kube_get(annotations, WORKLOAD_KEY_OWN);

    if (rbg && own)
        return yaml_error(w->yaml, own, w->err, "both %s and %s are given; one of them is enough",
                          WORKLOAD_KEY_RBG, WORKLOAD_KEY_OWN);
    *out = own ? own : rbg;
    *dialect = own ? WORKLOAD_OWN : WORKLOAD_RBG;
    if (*out && (*out)->kind != YAML_SCALAR)
        return yaml_error(w->yaml, *out, w->err, "an annotation is a text");
    return DIBS_OK;
}

static dibs_status take_object(struct walk *w)
{
    struct kube_objects *out = w->out;

    if (w->is_taken)
        return DIBS_OK;
    for (size_t i = 0; i < out->n; i++)
        if (strcmp(out->all[i].kind, w->object.kind) == 0 && strcmp(out->all[i].ns, w->object.ns) == 0 &&
            strcmp(out->all[i].name, w->object.name) == 0)
            return yaml_error(w->yaml, w->object.node, w->err, "this object is in line %u already",
                              out->all[i].node->line);
    if (out->n == KUBE_OBJECTS_MAX)
        return yaml_error(w->yaml, w->object.node, w->err, "more than %d objects", KUBE_OBJECTS_MAX);
    if (!grow((void **) &out->all, out->n, &out->max, sizeof *out->all))
        return no_memory(w);
    out->all[out->n++] = w->object;
    w->is_taken = true;
    return DIBS_OK;
}

/* A pod template that is known but for what it says itself. */
static dibs_status take_template(struct walk *w, struct kube_template t)
{
    const yaml_node *of_pod = kube_at(t.pod, "metadata.annotations");
    const yaml_node *spec = kube_get(t.pod, "spec");
    const yaml_node *host = kube_get(spec, "hostNetwork");
    dibs_status s = DIBS_OK;

    if (!t.pod || t.pod->kind != YAML_MAP)
        return DIBS_OK;
    s = find_config(w, t.annotations, &t.config, &t.dialect);
    if (s == DIBS_OK && !t.config)
        s = find_config(w, of_pod, &t.config, &t.dialect);
    if (s != DIBS_OK || !t.config || !*yaml_string(t.config))
        return s;
    if (!w->object.name)
        return yaml_error(w->yaml, w->object.node, w->err, "an object without metadata.name");
    if (!t.role)
        t.role = w->object.name;
    if (host && !yaml_is_null(host) && !yaml_bool(host, &t.is_host_network))
        return yaml_error(w->yaml, host, w->err, "hostNetwork is neither true nor false");
    if (strchr(w->object.ns, '.') || strchr(w->object.kind, '.'))
        return yaml_error(w->yaml, w->object.node, w->err, "a namespace or kind with a dot in its name");
    s = take_object(w);
    if (s == DIBS_OK && w->out->n_templates == KUBE_TEMPLATES_MAX)
        s = yaml_error(w->yaml, t.pod, w->err, "more than %d pod templates", KUBE_TEMPLATES_MAX);
    if (s != DIBS_OK)
        return s;
    if (!grow((void **) &w->out->templates, w->out->n_templates, &w->out->max_templates,
              sizeof *w->out->templates))
        return no_memory(w);
    t.object = w->out->n - 1;
    w->out->templates[w->out->n_templates++] = t;
    return DIBS_OK;
}

/* ---- shapes of objects ---- */

/* Components with a name, a size and a template each. */
static dibs_status take_components(struct walk *w, struct kube_template t, const yaml_node *list)
{
    dibs_status s = DIBS_OK;

    if (!list || list->kind != YAML_LIST)
        return DIBS_OK;
    for (const yaml_node *item = list->first; item && s == DIBS_OK; item = item->next) {
        const yaml_node *component = yaml_follow(item);

        t.component = yaml_string(kube_get(component, "name"));
        t.pod = kube_get(component, "template");
        t.annotations = kube_get(component, "annotations");
        s = look(w, item);
        if (!t.component || !*t.component)
            continue; /* Kubernetes will refuse it */
        if (s == DIBS_OK)
            s = count_of(w, kube_get(component, "size"), 1, &t.size);
        if (s == DIBS_OK)
            s = take_template(w, t);
    }
    return s;
}

/* What an instance of a role is made of: one template, with a size or without, or components. */
static dibs_status take_pattern(struct walk *w, struct kube_template t, const yaml_node *pattern)
{
    dibs_status s = count_of(w, kube_get(pattern, "size"), t.size, &t.size);

    t.pod = kube_get(pattern, "template");
    if (s == DIBS_OK)
        s = take_template(w, t);
    return s == DIBS_OK ? take_components(w, t, kube_get(pattern, "components")) : s;
}

static dibs_status take_role(struct walk *w, const yaml_node *role)
{
    static const char *const patterns[] = { "standalonePattern", "leaderWorkerPattern",
                                            "customComponentsPattern" };
    struct kube_template t = { .role = yaml_string(kube_get(role, "name")) };
    dibs_status s = count_of(w, kube_get(role, "replicas"), 1, &t.instances);

    if (s == DIBS_OK)
        s = count_of(w, kube_at(role, "leaderWorkerSet.size"), 1, &t.size);
    if (s == DIBS_OK && t.role && *t.role)
        s = take_pattern(w, t, role);
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0] && s == DIBS_OK && t.role && *t.role; i++)
        s = take_pattern(w, t, kube_get(role, patterns[i]));
    return s;
}

/* RoleBasedGroup */
static dibs_status take_roles(struct walk *w, const yaml_node *list)
{
    dibs_status s = DIBS_OK;

    for (const yaml_node *item = list->first; item && s == DIBS_OK; item = item->next) {
        s = look(w, item);
        if (s == DIBS_OK)
            s = take_role(w, yaml_follow(item));
    }
    return s;
}

/* LeaderWorkerSet: without a template of its own the leader is made from the workers'. */
static dibs_status take_leader_workers(struct walk *w, const yaml_node *spec, const yaml_node *both)
{
    struct kube_template leader = { .component = "leader",
                                    .pod = kube_get(both, "leaderTemplate"),
                                    .size = 1 };
    struct kube_template worker = { .component = "worker", .pod = kube_get(both, "workerTemplate") };
    dibs_status s = count_of(w, kube_get(spec, "replicas"), 1, &leader.instances);

    worker.instances = leader.instances;
    if (s == DIBS_OK)
        s = count_of(w, kube_get(both, "size"), 1, &worker.size);
    if (leader.pod && !yaml_is_null(leader.pod)) {
        worker.size -= worker.size > 0;
        if (s == DIBS_OK)
            s = take_template(w, leader);
    }
    return s == DIBS_OK ? take_template(w, worker) : s;
}

/* Anything else that has a template: where it stands, and how many pods run at once. A DaemonSet has one pod
 * on each node. */
static dibs_status take_plain(struct walk *w, const yaml_node *root)
{
    static const struct {
        const char *kind, *pod, *count;
    } shapes[] = {
        { "Job", "spec.template", "spec.parallelism" },
        { "CronJob", "spec.jobTemplate.spec.template", "spec.jobTemplate.spec.parallelism" },
        { "DaemonSet", "spec.template", NULL },
        { NULL, "spec.template", "spec.replicas" },
    };
    struct kube_template t = { .size = 1 };
    size_t i = 0;

    while (shapes[i].kind && strcmp(shapes[i].kind, w->object.kind) != 0)
        i++;
    dibs_status s = count_of(w, shapes[i].count ? kube_at(root, shapes[i].count) : NULL, 1, &t.instances);

    t.pod = kube_at(root, shapes[i].pod);
    return s == DIBS_OK ? take_template(w, t) : s;
}

static dibs_status take_shape(struct walk *w, const yaml_node *root)
{
    const yaml_node *spec = kube_get(root, "spec");
    const yaml_node *roles = kube_get(spec, "roles");
    const yaml_node *both = kube_get(spec, "leaderWorkerTemplate");
    const yaml_node *instance = kube_get(spec, "roleInstanceTemplate");
    struct kube_template t = { .pod = root, .instances = 1, .size = 1 };

    if (strcmp(w->object.kind, "Pod") == 0)
        return take_template(w, t);
    if (roles && roles->kind == YAML_LIST)
        return take_roles(w, roles);
    if (both)
        return take_leader_workers(w, spec, both);
    if (instance || kube_get(spec, "components")) { /* RoleInstanceSet, RoleInstance */
        dibs_status s = count_of(w, kube_get(spec, "replicas"), 1, &t.instances);

        return s == DIBS_OK ? take_pattern(w, t, instance ? instance : spec) : s;
    }
    return take_plain(w, root);
}

/* ---- documents ---- */

static bool has_config(const yaml_node *annotations)
{
    return kube_get(annotations, WORKLOAD_KEY_RBG) || kube_get(annotations, WORKLOAD_KEY_OWN);
}

static dibs_status take_root(const struct walk *from, const yaml_node *root, unsigned depth)
{
    const char *kind = yaml_string(kube_get(root, "kind"));
    const yaml_node *metadata = kube_get(root, "metadata");
    const yaml_node *items = kube_get(root, "items");
    size_t len = kind ? strlen(kind) : 0;
    struct walk w = *from;
    dibs_status s = DIBS_OK;

    if (len == 0)
        return DIBS_OK; /* no object: not ours to judge */
    if (len >= 4 && strcmp(kind + len - 4, "List") == 0 && items && items->kind == YAML_LIST) {
        if (depth == LIST_DEPTH_MAX)
            return yaml_error(w.yaml, root, w.err, "lists of lists are nested too deeply");
        for (const yaml_node *item = items->first; item && s == DIBS_OK; item = item->next) {
            s = look(from, item);
            if (s == DIBS_OK)
                s = take_root(from, yaml_follow(item), depth + 1);
        }
        return s;
    }
    w.object = (struct kube_object){ .node = root, .kind = kind, .ns = "default" };
    const char *ns = yaml_string(kube_get(metadata, "namespace"));
    const char *name = yaml_string(kube_get(metadata, "name"));
    if (ns && *ns)
        w.object.ns = ns;
    if (!name || !*name)
        name = yaml_string(kube_get(metadata, "generateName"));
    w.object.name = name && *name ? name : NULL;
    s = take_shape(&w, root);
    if (s == DIBS_OK && !w.is_taken && has_config(kube_get(metadata, "annotations")) &&
        strcmp(kind, "Pod") != 0 && w.object.name) {
        w.object.is_misplaced = true;
        s = take_object(&w);
    }
    return s;
}

dibs_status kube_objects_find(const yaml_text *yaml, struct kube_objects *out, dibs_err *err)
{
    struct kube_objects found = { 0 };
    size_t looks = 0;
    const struct walk w = { .yaml = yaml, .out = &found, .looks = &looks, .err = err };
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < yaml_count(yaml) && s == DIBS_OK; i++)
        s = take_root(&w, yaml_root(yaml, i), 0);
    if (s == DIBS_OK)
        *out = found;
    else
        kube_objects_free(&found);
    return s;
}
