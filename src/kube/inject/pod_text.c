/* SPDX-License-Identifier: MIT */
#include "kube/inject/pod_text.h"

#include <string.h>

#include "dibs/net.h"

#include "base/banned.h"

enum { STEP = 2, STEP_MAX = 16 };

struct editing {
    struct splice *s;
    const struct kube_template *t;
    const struct pod_edit *edit;
};

/* Return the indentation of the neighbours: the offset of `key`'s value. */
static uint32_t step_of(const yaml_node *key, uint32_t least)
{
    const yaml_node *value = key ? key->value : NULL;

    if (!value || value->is_alias || value->style != YAML_BLOCK || value->column < key->column + least ||
        value->column > key->column + STEP_MAX)
        return STEP;
    return value->column - key->column;
}

/* Return the map's own key. Refuse a merged one, which cannot be changed here. */
static const yaml_node *own_key(const struct editing *e, const yaml_node *map, const char *name)
{
    const yaml_node *key = yaml_key(map, name);

    if (!key && kube_get(map, name))
        yaml_fault(&e->s->faults, map, "'%s' comes from a merge (<<); write it out here", name);
    return key;
}

static bool says(const yaml_node *node, const char *text)
{
    const yaml_node *at = yaml_follow(node);

    return at && at->kind == YAML_SCALAR && at->style == YAML_QUOTED && strcmp(at->text, text) == 0;
}

/* Set key `name` of the map to the piece, or add the piece's children to the existing list or map. */
static void put(const struct editing *e, const yaml_node *map, const char *name, bool is_front,
                struct splice_piece *piece)
{
    const yaml_node *key = own_key(e, map, name);
    const yaml_node *value = key ? yaml_follow(key->value) : NULL;

    if (!piece || !piece->first)
        return;
    if (!key) {
        struct splice_piece *pairs = splice_piece(e->s, NULL, SPLICE_MAP, NULL, NULL);

        splice_adopt(pairs, piece);
        splice_add_pairs(e->s, map, pairs);
    } else if (yaml_is_null(value)) {
        splice_set(e->s, map, key, piece);
    } else if (value->kind == YAML_LIST) {
        splice_add_items(e->s, key, piece, is_front);
    } else {
        splice_add_pairs(e->s, value, piece);
    }
}

/* Check that the node is of this kind or absent. */
static bool check_kind(const struct editing *e, const yaml_node *node, enum yaml_kind kind, const char *what)
{
    if (node && !yaml_is_null(node) && node->kind != kind)
        yaml_fault(&e->s->faults, node, "%s is not a %s", what, kind == YAML_LIST ? "list" : "map");
    return e->s->faults.status == DIBS_OK;
}

static void fill_variable(const struct editing *e, struct splice_piece *map, const struct pod_edit_pair *pair)
{
    (void) splice_piece(e->s, map, SPLICE_TEXT, "name", pair->name);
    (void) splice_piece(e->s, map, SPLICE_TEXT, "value", pair->value);
}

/* Replace an existing variable; where possible only its value, so that the rest stays as written. */
static void replace_variable(const struct editing *e, const yaml_node *list, const yaml_node *item,
                             const struct pod_edit_pair *pair)
{
    const yaml_node *map = yaml_follow(item);
    const yaml_node *from = kube_get(map, "valueFrom");
    const yaml_node *key = yaml_key(map, "value");
    const yaml_node *from_key = yaml_key(map, "valueFrom");
    bool has_source = from && !yaml_is_null(from);
    struct splice_piece *piece = splice_piece(e->s, NULL, SPLICE_MAP, NULL, NULL);

    if (!has_source && says(kube_get(map, "value"), pair->value))
        return;
    if (!has_source && key && !item->is_alias) {
        splice_set(e->s, map, key, splice_piece(e->s, NULL, SPLICE_TEXT, NULL, pair->value));
    } else if (key || item->is_alias || yaml_key(map, "<<")) {
        fill_variable(e, piece, pair);
        splice_replace(e->s, list, item, piece);
    } else {
        (void) splice_piece(e->s, piece, SPLICE_TEXT, "value", pair->value);
        if (from_key)
            splice_swap(e->s, map, from_key, piece);
        else
            splice_add_pairs(e->s, map, piece);
    }
}

static void edit_env(const struct editing *e, const yaml_node *container)
{
    const yaml_node *list = kube_get(container, "env");
    struct splice_piece *items = splice_piece(e->s, NULL, SPLICE_LIST, "env", NULL);

    if (!check_kind(e, list, YAML_LIST, "env") ||
        !splice_look(e->s, list, list ? e->edit->n_env * (list->n + 1) : 0))
        return;
    for (size_t i = 0; i < e->edit->n_env; i++) {
        const struct pod_edit_pair *pair = &e->edit->env[i];
        bool is_there = false;

        for (const yaml_node *item = list ? list->first : NULL; item; item = item->next) {
            const char *name = yaml_string(kube_get(yaml_follow(item), "name"));

            if (!name || strcmp(name, pair->name) != 0)
                continue;
            is_there = true;
            replace_variable(e, list, item, pair);
        }
        if (!is_there)
            fill_variable(e, splice_piece(e->s, items, SPLICE_MAP, NULL, NULL), pair);
    }
    put(e, container, "env", true, items);
}

static bool has_port(const yaml_node *list, const struct pod_edit_port *port)
{
    for (const yaml_node *item = list && list->kind == YAML_LIST ? list->first : NULL; item;
         item = item->next) {
        const yaml_node *entry = yaml_follow(item);
        const char *has = yaml_string(kube_get(entry, "protocol"));
        uint32_t number = 0;
        bool is_same =
            (yaml_number(kube_get(entry, "containerPort"), DIBS_PORT_MAX, &number) && number == port->port) ||
            (yaml_number(kube_get(entry, "hostPort"), DIBS_PORT_MAX, &number) && number == port->port);

        if (is_same && strcmp(has && *has ? has : "TCP", port->protocol) == 0)
            return true;
    }
    return false;
}

/* Search all containers: Kubernetes refuses a duplicate host port. */
static bool is_port_there(const struct editing *e, const struct pod_edit_port *port)
{
    static const char *const lists[] = { "containers", "initContainers" };

    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        const yaml_node *list = kube_get(kube_get(e->t->pod, "spec"), lists[i]);

        for (const yaml_node *item = list && list->kind == YAML_LIST ? list->first : NULL; item;
             item = item->next) {
            const yaml_node *ports = kube_get(yaml_follow(item), "ports");

            if (!splice_look(e->s, item, ports ? ports->n + 1 : 1) || has_port(ports, port))
                return true;
        }
    }
    return false;
}

static void fill_port(const struct editing *e, struct splice_piece *items, const struct pod_edit_port *port)
{
    struct splice_piece *map = splice_piece(e->s, items, SPLICE_MAP, NULL, NULL);
    char number[8] = "";

    (void) snprintf(number, sizeof number, "%u", port->port);
    (void) splice_piece(e->s, map, SPLICE_WORD, "containerPort", number);
    (void) splice_piece(e->s, map, SPLICE_WORD, "hostPort", number);
    (void) splice_piece(e->s, map, SPLICE_WORD, "protocol", port->protocol);
}

static void edit_ports(const struct editing *e, const yaml_node *container)
{
    struct splice_piece *items = splice_piece(e->s, NULL, SPLICE_LIST, "ports", NULL);

    if (!check_kind(e, kube_get(container, "ports"), YAML_LIST, "ports"))
        return;
    for (size_t i = 0; i < e->edit->n_ports; i++)
        if (!is_port_there(e, &e->edit->ports[i]))
            fill_port(e, items, &e->edit->ports[i]);
    put(e, container, "ports", false, items);
}

static void edit_containers(const struct editing *e, const char *name, bool is_needed)
{
    const yaml_node *list = kube_get(kube_get(e->t->pod, "spec"), name);

    if (!check_kind(e, list, YAML_LIST, name))
        return;
    if (is_needed && (!list || list->kind != YAML_LIST || !list->first))
        yaml_fault(&e->s->faults, e->t->at, "the pod has no containers to give ports to");
    for (const yaml_node *item = list ? list->first : NULL; item; item = item->next) {
        const yaml_node *container = yaml_follow(item);

        if (container->kind != YAML_MAP) {
            yaml_fault(&e->s->faults, item, "a container is not a map");
            return;
        }
        edit_env(e, container);
        if (is_needed && item == list->first && e->t->is_host_network)
            edit_ports(e, container);
    }
}

/* Replace an annotation of the component, which takes precedence, or of the pod. False: absent. */
static bool replace_annotation(const struct editing *e, const yaml_node *of_pod,
                               const struct pod_edit_pair *pair)
{
    const yaml_node *map = kube_get(e->t->annotations, pair->name) ? e->t->annotations : of_pod;
    const yaml_node *value = kube_get(map, pair->name);
    const yaml_node *key = value && !says(value, pair->value) ? own_key(e, map, pair->name) : NULL;

    if (key)
        splice_set(e->s, map, key, splice_piece(e->s, NULL, SPLICE_TEXT, NULL, pair->value));
    return value != NULL;
}

static void edit_annotations(const struct editing *e)
{
    const yaml_node *metadata = kube_get(e->t->pod, "metadata");
    const yaml_node *of_pod = kube_get(metadata, "annotations");
    struct splice_piece *new_metadata = splice_piece(e->s, NULL, SPLICE_MAP, "metadata", NULL);
    struct splice_piece *pairs = splice_piece(e->s, NULL, SPLICE_MAP, "annotations", NULL);

    if (!check_kind(e, metadata, YAML_MAP, "metadata") || !check_kind(e, of_pod, YAML_MAP, "annotations"))
        return;
    for (size_t i = 0; i < e->edit->n_annotations; i++) {
        const struct pod_edit_pair *pair = &e->edit->annotations[i];

        if (!replace_annotation(e, of_pod, pair))
            (void) splice_piece(e->s, pairs, SPLICE_TEXT, pair->name, pair->value);
    }
    if (!pairs || !pairs->first)
        return;
    if (metadata && metadata->kind == YAML_MAP) {
        put(e, metadata, "annotations", false, pairs);
        return;
    }
    splice_adopt(new_metadata, pairs);
    put(e, e->t->pod, "metadata", false, new_metadata);
}

void pod_text_edit(struct splice *s, const struct kube_template *t, const struct pod_edit *edit)
{
    const struct editing e = { .s = s, .t = t, .edit = edit };

    s->map_step = step_of(yaml_key(t->pod, "spec"), 1);
    s->list_step = step_of(yaml_key(kube_get(t->pod, "spec"), "containers"), 0);
    if (edit->n_env == 0)
        return;
    edit_containers(&e, "initContainers", false);
    edit_containers(&e, "containers", true);
    edit_annotations(&e);
}
