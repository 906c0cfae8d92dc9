/* SPDX-License-Identifier: MIT */
#ifndef DIBS_KUBE_OBJECTS_H
#define DIBS_KUBE_OBJECTS_H
/* Where the pods of Kubernetes objects are described, and which of these descriptions ask for ports. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "workload/annotation.h"
#include "yaml/yaml.h"

enum {
    KUBE_OBJECTS_MAX = 1024,   /* that ask for ports, in one file */
    KUBE_TEMPLATES_MAX = 4096, /* of these objects */
    KUBE_LOOKS_MAX = 1 << 20,  /* things looked at: aliases make many of a short text */
};

/* A pod, or what pods are made from, that asks for ports. */
struct kube_template {
    size_t object;                /* whose it is */
    const char *role;             /* RBG's role, or the object's name */
    const char *component;        /* NULL: the role has one kind of pod only */
    const yaml_node *pod;         /* the map with metadata and spec */
    const yaml_node *annotations; /* of the component, which go over those of the pod; NULL: none */
    const yaml_node *config;      /* what is asked for */
    enum workload_dialect dialect;
    uint32_t instances, size; /* so many pods are made from it: in each instance `size` */
    bool is_host_network;
};

struct kube_object {
    const yaml_node *node;
    const char *kind, *ns, *name;
    bool is_misplaced; /* the annotation stands on the object instead of its pods */
};

struct kube_objects {
    struct kube_object *all; /* those that ask for ports */
    size_t n, max;
    struct kube_template *templates; /* in the order of their objects */
    size_t n_templates, max_templates;
};

/* Every object of every document. Strings and nodes are the tree's. INVALID with a place when something that
 * asks for ports cannot be understood. */
dibs_status kube_objects_find(const yaml_text *yaml, struct kube_objects *out, dibs_err *err);
void kube_objects_free(struct kube_objects *objects);

/* The value of a key, a merged one ("<<") too; followed. */
const yaml_node *kube_get(const yaml_node *map, const char *key);
/* The same along "a.b.c". */
const yaml_node *kube_at(const yaml_node *map, const char *path);
#endif
