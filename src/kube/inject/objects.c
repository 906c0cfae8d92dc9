/* SPDX-License-Identifier: MIT */
#include "kube/inject/objects.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/grow.h"
#include "base/text.h"
#include "kube/identity.h"
#include "workload/discovery.h"

#include "base/banned.h"

#define LIST "List" /* suffix of the kind of a list */

enum { LIST_DEPTH_MAX = 4, REPLICAS_MAX = 1 << 30, MERGES_MAX = 64, PATH_MAX_BYTES = 64 };

/* ---- values of maps, including merged ones ---- */

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

/* Return the value along a path "a.b.c". */
static const yaml_node *node_at(const yaml_node *map, const char *path)
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

/* State of the walk through all objects. After a fault every function does nothing. */
struct walk {
    struct yaml_faults faults;
    struct kube_objects *out;
    size_t looks; /* nodes visited so far */
    struct kube_object object;
    bool is_taken;   /* the object is already in the list */
    bool is_by_name; /* ignore requests, collect all named objects */
};

void kube_objects_free(struct kube_objects *objects)
{
    for (size_t i = 0; i < objects->n; i++) {
        workload_needs_free(&objects->all[i].needs);
        free(objects->all[i].ports);
        workload_free(objects->all[i].group);
    }
    free(objects->all);
    free(objects->templates);
    *objects = (struct kube_objects){ 0 };
}

static bool grow_by_one(struct walk *w, void **list, size_t n, size_t *max, size_t size)
{
    if (w->faults.status == DIBS_OK && !grow(list, n, max, size))
        w->faults.status = err_set(w->faults.err, DIBS_FAILURE, "out of memory");
    return w->faults.status == DIBS_OK;
}

/* Read a number of pods; `absent` when there is none. */
static uint32_t count_of(struct walk *w, const yaml_node *node, uint32_t absent)
{
    uint32_t n = absent;

    if (node && !yaml_is_null(node) && !yaml_number(node, REPLICAS_MAX, &n))
        yaml_fault(&w->faults, node, "this is not a number of pods");
    return n;
}

/* Count a visited node. Return false after a fault, also when there are too many. */
static bool count_visit(struct walk *w, const yaml_node *at)
{
    if (++w->looks > KUBE_LOOKS_MAX)
        yaml_fault(&w->faults, at, "more than %d nodes to search", KUBE_LOOKS_MAX);
    return w->faults.status == DIBS_OK;
}

/* Find an annotation that is a text; NULL: none. */
static const yaml_node *find_text(struct walk *w, const yaml_node *annotations, const char *key)
{
    const yaml_node *found = kube_get(annotations, key);

    if (found && found->kind != YAML_SCALAR)
        yaml_fault(&w->faults, found, "an annotation is a text");
    return found;
}

/* Find the requesting annotation and its dialect; NULL: none. */
static const yaml_node *find_config(struct walk *w, const yaml_node *annotations,
                                    enum workload_dialect *dialect)
{
    const yaml_node *own = kube_get(annotations, WORKLOAD_KEY_OWN);

    if (own && kube_get(annotations, WORKLOAD_KEY_RBG))
        yaml_fault(&w->faults, own, "both %s and %s are given; one of them is enough", WORKLOAD_KEY_RBG,
                   WORKLOAD_KEY_OWN);
    *dialect = own ? WORKLOAD_OWN : WORKLOAD_RBG;
    return find_text(w, annotations, own ? WORKLOAD_KEY_OWN : WORKLOAD_KEY_RBG);
}

static void take_object(struct walk *w)
{
    struct kube_objects *out = w->out;

    if (w->is_taken)
        return;
    for (size_t i = 0; i < out->n; i++) {
        const struct kube_object *other = &out->all[i];

        if (strcmp(other->kind, w->object.kind) != 0 || strcmp(other->ns, w->object.ns) != 0 ||
            strcmp(other->name, w->object.name) != 0)
            continue;
        if (!w->is_by_name)
            yaml_fault(&w->faults, w->object.node, "this object is in line %u already", other->node->line);
        return;
    }
    if (out->n == KUBE_OBJECTS_MAX)
        yaml_fault(&w->faults, w->object.node, "more than %d objects", KUBE_OBJECTS_MAX);
    if (!grow_by_one(w, (void **) &out->all, out->n, &out->max, sizeof *out->all))
        return;
    out->all[out->n++] = w->object;
    w->is_taken = true;
}

static const yaml_node *unless_empty(const yaml_node *text)
{
    return text && yaml_string(text) && *yaml_string(text) ? text : NULL;
}

/* Find the requests in the annotations of the template and of its component, which take precedence. */
static void find_requests(struct walk *w, struct kube_template *t)
{
    const yaml_node *maps[] = { t->annotations, t->of_pod };

    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) {
        if (!t->config)
            t->config = find_config(w, maps[i], &t->dialect);
        if (!t->discovery)
            t->discovery = find_text(w, maps[i], WORKLOAD_KEY_DISCOVERY);
    }
    t->config = unless_empty(t->config);
    t->discovery = unless_empty(t->discovery);
    t->at = t->config ? t->config : t->discovery;
}

/* Add a pod template, completing `t` from the template's own content. */
static void take_template(struct walk *w, struct kube_template t)
{
    const yaml_node *host = node_at(t.pod, "spec.hostNetwork");
    const yaml_node *role = kube_get(node_at(t.pod, "metadata.labels"), IDENTITY_LABEL_ROLE);

    if (!t.pod || t.pod->kind != YAML_MAP || w->faults.status != DIBS_OK)
        return;
    t.of_pod = node_at(t.pod, "metadata.annotations");
    find_requests(w, &t);
    if (!t.at || w->faults.status != DIBS_OK)
        return;
    if (!w->object.name) {
        yaml_fault(&w->faults, w->object.node, "an object without metadata.name");
        return;
    }
    if (!t.role) /* as the webhook names it */
        t.role = unless_empty(role) ? yaml_string(role) : w->object.name;
    if (host && !yaml_is_null(host) && !yaml_bool(host, &t.is_host_network))
        yaml_fault(&w->faults, host, "hostNetwork is neither true nor false");
    if (strchr(w->object.ns, '.') || strchr(w->object.kind, '.'))
        yaml_fault(&w->faults, w->object.node, "a namespace or kind with a dot in its name");
    take_object(w);
    if (w->out->n_templates == KUBE_TEMPLATES_MAX)
        yaml_fault(&w->faults, t.pod, "more than %d pod templates", KUBE_TEMPLATES_MAX);
    if (!grow_by_one(w, (void **) &w->out->templates, w->out->n_templates, &w->out->max_templates,
                     sizeof *w->out->templates))
        return;
    t.object = w->out->n - 1;
    w->out->templates[w->out->n_templates++] = t;
}

/* ---- kinds of objects ---- */

/* Return the first item of a list; NULL: not a list, or empty. */
static const yaml_node *first_of(const yaml_node *list)
{
    return list && list->kind == YAML_LIST ? list->first : NULL;
}

/* Add the templates of components, each with a name, a size and a template. */
static void take_components(struct walk *w, struct kube_template t, const yaml_node *list)
{
    for (const yaml_node *item = first_of(list); item && count_visit(w, item); item = item->next) {
        const yaml_node *component = yaml_follow(item);

        t.component = yaml_string(kube_get(component, "name"));
        t.pod = kube_get(component, "template");
        t.annotations = kube_get(component, "annotations");
        if (!t.component || !*t.component)
            continue; /* Kubernetes refuses it */
        t.size = count_of(w, kube_get(component, "size"), 1);
        take_template(w, t);
    }
}

/* Add the templates of a role instance: one template, with or without a size, or components. */
static void take_pattern(struct walk *w, struct kube_template t, const yaml_node *pattern)
{
    t.size = count_of(w, kube_get(pattern, "size"), t.size);
    t.pod = kube_get(pattern, "template");
    take_template(w, t);
    take_components(w, t, kube_get(pattern, "components"));
}

static void take_role(struct walk *w, const yaml_node *role)
{
    static const char *const patterns[] = { "standalonePattern", "leaderWorkerPattern",
                                            "customComponentsPattern" };
    struct kube_template t = { .role = yaml_string(kube_get(role, "name")) };

    t.instances = count_of(w, kube_get(role, "replicas"), 1);
    t.size = count_of(w, node_at(role, "leaderWorkerSet.size"), 1);
    if (!t.role || !*t.role)
        return;
    take_pattern(w, t, role);
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++)
        take_pattern(w, t, kube_get(role, patterns[i]));
}

/* Add the templates of a LeaderWorkerSet: without a leader template the workers' is used for both. */
static void take_leader_workers(struct walk *w, const yaml_node *spec, const yaml_node *both)
{
    struct kube_template t = { .component = "leader", .pod = kube_get(both, "leaderTemplate"), .size = 1 };
    uint32_t size = count_of(w, kube_get(both, "size"), 1);

    t.instances = count_of(w, kube_get(spec, "replicas"), 1);
    if (t.pod && !yaml_is_null(t.pod)) {
        size -= size > 0;
        take_template(w, t);
    }
    t.component = "worker";
    t.pod = kube_get(both, "workerTemplate");
    t.size = size;
    take_template(w, t);
}

/* Add the template of any other object and its number of pods. A DaemonSet has one pod per node. */
static void take_plain(struct walk *w, const yaml_node *root)
{
    static const struct {
        const char *kind, *pod, *count;
    } shapes[] = {
        { "Job", "spec.template", "spec.parallelism" },
        { "CronJob", "spec.jobTemplate.spec.template", "spec.jobTemplate.spec.parallelism" },
        { "DaemonSet", "spec.template", NULL },
        { "PodTemplate", "template", NULL },
        { NULL, "spec.template", "spec.replicas" },
    };
    struct kube_template t = { .size = 1 };
    size_t i = 0;

    while (shapes[i].kind && strcmp(shapes[i].kind, w->object.kind) != 0)
        i++;
    t.instances = count_of(w, shapes[i].count ? node_at(root, shapes[i].count) : NULL, 1);
    t.pod = node_at(root, shapes[i].pod);
    take_template(w, t);
}

static void take_shape(struct walk *w, const yaml_node *root)
{
    const yaml_node *spec = kube_get(root, "spec");
    const yaml_node *roles = kube_get(spec, "roles");
    const yaml_node *both = kube_get(spec, "leaderWorkerTemplate");
    const yaml_node *instance = kube_get(spec, "roleInstanceTemplate");
    struct kube_template t = { .pod = root, .instances = 1, .size = 1 };

    if (strcmp(w->object.kind, "Pod") == 0) {
        take_template(w, t);
    } else if (roles && roles->kind == YAML_LIST) { /* RoleBasedGroup */
        for (const yaml_node *item = roles->first; item && count_visit(w, item); item = item->next)
            take_role(w, yaml_follow(item));
    } else if (both) {
        take_leader_workers(w, spec, both);
    } else if (instance || kube_get(spec, "components")) { /* RoleInstanceSet, RoleInstance */
        t.instances = count_of(w, kube_get(spec, "replicas"), 1);
        take_pattern(w, t, instance ? instance : spec);
    } else {
        take_plain(w, root);
    }
}

/* ---- other kinds of objects ---- */

/* A position in the search. */
struct spot {
    const char *key;       /* the key of this value; NULL: the root or an item */
    const char *component; /* the last distinctive name on the path */
    uint32_t instances;    /* product of the replica counts on the path */
};

static bool asks(const yaml_node *annotations)
{
    static const char *const keys[] = { WORKLOAD_KEY_RBG, WORKLOAD_KEY_OWN, WORKLOAD_KEY_DISCOVERY };

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *text = yaml_string(kube_get(annotations, keys[i]));

        if (text && *text)
            return true;
    }
    return false;
}

static bool is_known(const struct walk *w, const yaml_node *annotations)
{
    for (size_t i = 0; i < w->out->n_templates; i++)
        if (w->out->templates[i].annotations == annotations || w->out->templates[i].of_pod == annotations)
            return true;
    return false;
}

static uint32_t times(uint32_t n, const yaml_node *count)
{
    uint32_t by = 1;

    if (!yaml_number(count, REPLICAS_MAX, &by))
        return n;
    return (uint64_t) n * by > REPLICAS_MAX ? REPLICAS_MAX : n * by;
}

/* Return whether the key is distinctive, not one that every path to a pod contains. */
static bool is_distinctive(const char *key)
{
    static const char *const words[] = { "spec", "template", "jobTemplate", "metadata", "<<" };

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(key, words[i]) == 0)
            return false;
    return *key;
}

static const char *name_of_item(const yaml_node *item)
{
    const char *name = yaml_string(yaml_get(item, "name"));

    return name && *name ? name : yaml_string(yaml_get(item, "groupName"));
}

/* Find pod templates anywhere in an object: maps with requesting annotations and containers. Report
 * requesting annotations without a pod. Aliases are visited only at their anchors. */
static void search(struct walk *w, const yaml_node *node, struct spot at)
{
    if (!node || node->is_alias || node->kind == YAML_SCALAR || !count_visit(w, node))
        return;
    const yaml_node *annotations = node_at(node, "metadata.annotations");
    const yaml_node *containers = node_at(node, "spec.containers");
    if (w->object.kind[0] && containers && containers->kind == YAML_LIST && asks(annotations) &&
        !is_known(w, annotations))
        take_template(w, (struct kube_template){
                             .component = at.component, .pod = node, .instances = at.instances, .size = 1 });
    if (at.key && strcmp(at.key, "annotations") == 0 && asks(node) && !is_known(w, node)) {
        if (w->out->n_strays < KUBE_STRAYS_MAX)
            w->out->strays[w->out->n_strays] = node;
        w->out->n_strays++;
    }
    at.instances = times(times(at.instances, yaml_get(node, "replicas")), yaml_get(node, "parallelism"));
    for (const yaml_node *child = node->first; child; child = child->next) {
        const char *name = node->kind == YAML_MAP ? child->text : name_of_item(child);
        struct spot below = at;

        if (name && is_distinctive(name))
            below.component = name;
        below.key = node->kind == YAML_MAP ? child->text : NULL;
        search(w, node->kind == YAML_MAP ? child->value : child, below);
    }
}

/* ---- documents ---- */

static void take_root(struct walk *w, const yaml_node *root, const char *listed, unsigned depth);

/* Add a list's items. The API server omits their kind, which the list's kind contains. */
static void take_items(struct walk *w, const yaml_node *items, const char *kind, unsigned depth)
{
    char listed[KUBE_KIND_MAX + 1] = "";

    (void) text_copy(listed, sizeof listed, kind);
    listed[strlen(listed) - (sizeof LIST - 1)] = '\0';
    if (depth == LIST_DEPTH_MAX)
        yaml_fault(&w->faults, items, "lists of lists are nested too deeply");
    for (const yaml_node *item = items->first; item && count_visit(w, item); item = item->next)
        take_root(w, yaml_follow(item), listed, depth + 1);
}

static void take_root(struct walk *w, const yaml_node *root, const char *listed, unsigned depth)
{
    const char *kind = yaml_string(kube_get(root, "kind"));
    const yaml_node *metadata = kube_get(root, "metadata");
    const yaml_node *items = kube_get(root, "items");

    if (!kind || !*kind)
        kind = listed;
    if (strlen(kind) > KUBE_KIND_MAX)
        kind = ""; /* too long for a kind: the API server reports it */
    size_t len = strlen(kind);
    if (len >= sizeof LIST - 1 && strcmp(kind + len - (sizeof LIST - 1), LIST) == 0 && items &&
        items->kind == YAML_LIST) {
        take_items(w, items, kind, depth);
        return;
    }
    w->is_taken = false;
    w->object = (struct kube_object){ .node = root, .ns = "default" };
    (void) text_copy(w->object.kind, sizeof w->object.kind, kind);
    const char *ns = yaml_string(kube_get(metadata, "namespace"));
    const char *name = yaml_string(kube_get(metadata, "name"));
    if (ns && *ns)
        w->object.ns = ns;
    if (!name || !*name)
        name = yaml_string(kube_get(metadata, "generateName"));
    w->object.name = name && *name ? name : NULL;
    if (!w->is_by_name) {
        if (*kind)
            take_shape(w, root);
        search(w, root, (struct spot){ .instances = 1 });
        return;
    }
    /* An object whose namespace or kind has a dot can have no claims. */
    if (w->object.name && *kind && !strchr(w->object.ns, '.') && !strchr(kind, '.'))
        take_object(w);
}

dibs_status kube_objects_find(const yaml_text *yaml, bool is_by_name, struct kube_objects *out, dibs_err *err)
{
    struct kube_objects found = { 0 };
    struct walk w = { .faults = { yaml, err, DIBS_OK }, .out = &found, .is_by_name = is_by_name };

    for (size_t i = 0; i < yaml_count(yaml) && w.faults.status == DIBS_OK; i++)
        take_root(&w, yaml_root(yaml, i), "", 0);
    if (w.faults.status == DIBS_OK)
        *out = found;
    else
        kube_objects_free(&found);
    return w.faults.status;
}
