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
    dibs_err *err;
};

/* How far the neighbours indent: as far as `key`'s value stands to its right. */
static uint32_t step_of(const yaml_node *key, uint32_t least)
{
    const yaml_node *value = key ? key->value : NULL;

    if (!value || value->is_alias || value->style != YAML_BLOCK || value->column < key->column + least ||
        value->column > key->column + STEP_MAX)
        return STEP;
    return value->column - key->column;
}

/* The map's own key; one that comes from a merge cannot be changed here. */
static dibs_status own_key(const struct editing *e, const yaml_node *map, const char *name,
                           const yaml_node **out)
{
    *out = yaml_key(map, name);
    if (*out || !kube_get(map, name))
        return DIBS_OK;
    return yaml_error(e->s->yaml, map, e->err, "'%s' comes from a merge (<<); write it out here", name);
}

static bool says(const yaml_node *node, const char *text)
{
    const yaml_node *at = yaml_follow(node);

    return at && at->kind == YAML_SCALAR && at->style == YAML_QUOTED && strcmp(at->text, text) == 0;
}

/* `name` of the map becomes the piece, or gets its children when it is a list or map already. */
static dibs_status put(const struct editing *e, const yaml_node *map, const char *name, bool is_front,
                       struct splice_piece *piece)
{
    const yaml_node *key = NULL;
    dibs_status s = own_key(e, map, name, &key);

    if (s != DIBS_OK || !piece || !piece->first)
        return s;
    if (!key) {
        struct splice_piece *pairs = splice_piece(e->s, NULL, SPLICE_MAP, NULL, NULL);

        splice_adopt(pairs, piece);
        return splice_add_pairs(e->s, map, pairs, e->err);
    }
    const yaml_node *value = yaml_follow(key->value);
    if (yaml_is_null(value))
        return splice_set(e->s, map, key, piece, e->err);
    if (value->kind == YAML_LIST)
        return splice_add_items(e->s, key, piece, is_front, e->err);
    return splice_add_pairs(e->s, value, piece, e->err);
}

/* Of the kind that it has to be, or not there. */
static dibs_status check_kind(const struct editing *e, const yaml_node *node, enum yaml_kind kind,
                              const char *what)
{
    if (!node || yaml_is_null(node) || node->kind == kind)
        return DIBS_OK;
    return yaml_error(e->s->yaml, node, e->err, "%s is not a %s", what, kind == YAML_LIST ? "list" : "map");
}

/* ---- variables ---- */

static void fill_variable(const struct editing *e, struct splice_piece *map, const struct pod_edit_pair *pair)
{
    (void) splice_piece(e->s, map, SPLICE_TEXT, "name", pair->name);
    (void) splice_piece(e->s, map, SPLICE_TEXT, "value", pair->value);
}

/* One that is there already. Where that can be, only what says its value is changed: the rest of it stays. */
static dibs_status replace_variable(const struct editing *e, const yaml_node *list, const yaml_node *item,
                                    const struct pod_edit_pair *pair)
{
    const yaml_node *map = yaml_follow(item);
    const yaml_node *from = kube_get(map, "valueFrom");
    const yaml_node *key = yaml_key(map, "value");
    const yaml_node *from_key = yaml_key(map, "valueFrom");
    bool has_source = from && !yaml_is_null(from);
    struct splice_piece *piece = splice_piece(e->s, NULL, SPLICE_MAP, NULL, NULL);

    if (!has_source && says(kube_get(map, "value"), pair->value))
        return DIBS_OK;
    if (!has_source && key && !item->is_alias)
        return splice_set(e->s, map, key, splice_piece(e->s, NULL, SPLICE_TEXT, NULL, pair->value), e->err);
    if (key || item->is_alias || yaml_key(map, "<<")) {
        fill_variable(e, piece, pair);
        return splice_replace(e->s, list, item, piece, e->err);
    }
    (void) splice_piece(e->s, piece, SPLICE_TEXT, "value", pair->value);
    return from_key ? splice_swap(e->s, map, from_key, piece, e->err)
                    : splice_add_pairs(e->s, map, piece, e->err);
}

static dibs_status edit_env(const struct editing *e, const yaml_node *container)
{
    const yaml_node *list = kube_get(container, "env");
    struct splice_piece *items = splice_piece(e->s, NULL, SPLICE_LIST, "env", NULL);
    dibs_status s = check_kind(e, list, YAML_LIST, "env");

    if (s == DIBS_OK && list)
        s = splice_look(e->s, list, e->edit->n_env * (list->n + 1), e->err);
    for (size_t i = 0; i < e->edit->n_env && s == DIBS_OK; i++) {
        const struct pod_edit_pair *pair = &e->edit->env[i];
        bool is_there = false;

        for (const yaml_node *item = list ? list->first : NULL; item && s == DIBS_OK; item = item->next) {
            const char *name = yaml_string(kube_get(yaml_follow(item), "name"));

            if (!name || strcmp(name, pair->name) != 0)
                continue;
            is_there = true;
            s = replace_variable(e, list, item, pair);
        }
        if (!is_there)
            fill_variable(e, splice_piece(e->s, items, SPLICE_MAP, NULL, NULL), pair);
    }
    return s == DIBS_OK ? put(e, container, "env", true, items) : s;
}

/* ---- ports ---- */

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

/* In any container: Kubernetes refuses a host port that is there twice. */
static dibs_status find_port(const struct editing *e, const struct pod_edit_port *port, bool *is_there)
{
    static const char *const lists[] = { "containers", "initContainers" };
    dibs_status s = DIBS_OK;

    *is_there = false;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        const yaml_node *list = kube_get(kube_get(e->t->pod, "spec"), lists[i]);

        for (const yaml_node *item = list && list->kind == YAML_LIST ? list->first : NULL;
             item && s == DIBS_OK && !*is_there; item = item->next) {
            const yaml_node *ports = kube_get(yaml_follow(item), "ports");

            s = splice_look(e->s, item, ports ? ports->n + 1 : 1, e->err);
            *is_there = has_port(ports, port);
        }
    }
    return s;
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

static dibs_status edit_ports(const struct editing *e, const yaml_node *container)
{
    struct splice_piece *items = splice_piece(e->s, NULL, SPLICE_LIST, "ports", NULL);
    dibs_status s = check_kind(e, kube_get(container, "ports"), YAML_LIST, "ports");

    for (size_t i = 0; i < e->edit->n_ports && s == DIBS_OK; i++) {
        bool is_there = false;

        s = find_port(e, &e->edit->ports[i], &is_there);
        if (!is_there)
            fill_port(e, items, &e->edit->ports[i]);
    }
    return s == DIBS_OK ? put(e, container, "ports", false, items) : s;
}

/* ---- containers ---- */

static dibs_status edit_containers(const struct editing *e, const char *name, bool is_needed)
{
    const yaml_node *spec = kube_get(e->t->pod, "spec");
    const yaml_node *list = kube_get(spec, name);
    dibs_status s = check_kind(e, list, YAML_LIST, name);

    if (s == DIBS_OK && is_needed && (!list || list->kind != YAML_LIST || !list->first))
        return yaml_error(e->s->yaml, e->t->at, e->err, "the pod has no containers to give ports to");
    for (const yaml_node *item = list ? list->first : NULL; item && s == DIBS_OK; item = item->next) {
        const yaml_node *container = yaml_follow(item);

        if (container->kind != YAML_MAP)
            return yaml_error(e->s->yaml, item, e->err, "a container is not a map");
        s = edit_env(e, container);
        if (s == DIBS_OK && is_needed && item == list->first && e->t->is_host_network)
            s = edit_ports(e, container);
    }
    return s;
}

/* ---- annotations ---- */

/* One that is there already, in the component's annotations (which win) or in the pod's. */
static dibs_status replace_annotation(const struct editing *e, const yaml_node *of_pod,
                                      const struct pod_edit_pair *pair, bool *is_there)
{
    const yaml_node *maps[] = { e->t->annotations, of_pod };

    *is_there = false;
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) {
        const yaml_node *key = NULL;

        if (!maps[i] || !kube_get(maps[i], pair->name))
            continue;
        *is_there = true;
        if (says(kube_get(maps[i], pair->name), pair->value))
            return DIBS_OK;
        dibs_status s = own_key(e, maps[i], pair->name, &key);
        if (s != DIBS_OK)
            return s;
        return splice_set(e->s, maps[i], key, splice_piece(e->s, NULL, SPLICE_TEXT, NULL, pair->value),
                          e->err);
    }
    return DIBS_OK;
}

static dibs_status edit_annotations(const struct editing *e)
{
    const yaml_node *metadata = kube_get(e->t->pod, "metadata");
    const yaml_node *of_pod = kube_get(metadata, "annotations");
    struct splice_piece *new_metadata = splice_piece(e->s, NULL, SPLICE_MAP, "metadata", NULL);
    struct splice_piece *pairs = splice_piece(e->s, NULL, SPLICE_MAP, "annotations", NULL);
    dibs_status s = check_kind(e, metadata, YAML_MAP, "metadata");

    if (s == DIBS_OK)
        s = check_kind(e, of_pod, YAML_MAP, "annotations");
    for (size_t i = 0; i < e->edit->n_annotations && s == DIBS_OK; i++) {
        const struct pod_edit_pair *pair = &e->edit->annotations[i];
        bool is_there = false;

        s = replace_annotation(e, of_pod, pair, &is_there);
        if (!is_there)
            (void) splice_piece(e->s, pairs, SPLICE_TEXT, pair->name, pair->value);
    }
    if (s != DIBS_OK || !pairs || !pairs->first)
        return s;
    if (metadata && metadata->kind == YAML_MAP)
        return put(e, metadata, "annotations", false, pairs);
    splice_adopt(new_metadata, pairs);
    return put(e, e->t->pod, "metadata", false, new_metadata);
}

dibs_status pod_text_edit(struct splice *s, const struct kube_template *t, const struct pod_edit *edit,
                          dibs_err *err)
{
    const struct editing e = { .s = s, .t = t, .edit = edit, .err = err };

    s->map_step = step_of(yaml_key(t->pod, "spec"), 1);
    s->list_step = step_of(yaml_key(kube_get(t->pod, "spec"), "containers"), 0);
    if (edit->n_env == 0)
        return DIBS_OK;
    dibs_status status = edit_containers(&e, "initContainers", false);

    if (status == DIBS_OK)
        status = edit_containers(&e, "containers", true);
    return status == DIBS_OK ? edit_annotations(&e) : status;
}
